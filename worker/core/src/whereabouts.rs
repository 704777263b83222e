//! Where an association's scheduler is: which of its members hears from the worker, and when it is read again who they are.

use brasserie_common::{CallId, CallOutcome, ServiceAddress, Time};

use crate::association::Association;
use crate::config::{AssociationOptions, MemberList};
use crate::effect::{Call, CallReply};
use crate::outbox::Turn;

/// Of the members one hears heartbeats until it does not answer; then the next one does.
///
/// ```text
///   one member --a heartbeat fails--> the next one --all have failed, one after the other--> the list is read, and so on
///       ^                                  |
///       +-------- a heartbeat is answered -+
/// ```
#[derive(Clone, Debug)]
pub(crate) struct Whereabouts {
    /// Each once.
    members: Vec<ServiceAddress>,
    list: MemberList,
    /// The place of the one to whom the next heartbeat goes.
    next: usize,
    /// To whom the last one went, as long as it is a member.
    asked: Option<ServiceAddress>,
    /// Which member answered last: there the scheduler is whom statuses are for.
    answered: Option<ServiceAddress>,
    /// Heartbeats in a row.
    failed: usize,
    reading: Option<Reading>,
}

/// The list is being read.
#[derive(Clone, Copy, Debug)]
struct Reading {
    call: CallId,
    deadline: Time,
    reader: Reader,
}

/// Who wants it read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Nobody has answered a heartbeat.
    Heartbeats,
    /// Whoever fetches work, and waits for it.
    WorkFetch,
}

/// What a heartbeat that has failed leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    TryNext,
    ReadList,
}

impl Whereabouts {
    pub(crate) fn new(own: &AssociationOptions) -> Self {
        Whereabouts {
            members: own.members.clone(),
            list: own.list.clone(),
            next: 0,
            asked: None,
            answered: None,
            failed: 0,
            reading: None,
        }
    }

    pub(crate) fn members(&self) -> &[ServiceAddress] {
        &self.members
    }

    pub(crate) fn list(&self) -> &MemberList {
        &self.list
    }

    /// `None`: nobody is known.
    pub(crate) fn of_heartbeats(&self) -> Option<&ServiceAddress> {
        self.asked.as_ref().or_else(|| self.members.get(self.next))
    }

    /// The same of statuses, which are for whoever has answered; if nobody has, for the one whose turn it is.
    pub(crate) fn of_statuses(&self) -> Option<&ServiceAddress> {
        let turn = self.members.get(self.next);
        self.answered.as_ref().or(turn)
    }

    // ---- heartbeats ----

    pub(crate) fn sent(&mut self) {
        self.asked = self.members.get(self.next).cloned();
    }

    /// The last one was answered: by whom, if that is news.
    pub(crate) fn answered(&mut self) -> Option<&ServiceAddress> {
        self.failed = 0;
        // Who answers and is no member any more hears nothing else.
        if self.asked.is_none() || self.answered == self.asked {
            return None;
        }
        self.answered.clone_from(&self.asked);
        self.answered.as_ref()
    }

    /// Whoever answers next is news.
    pub(crate) fn is_another(&mut self) {
        self.answered = None;
    }

    pub(crate) fn failed(&mut self) -> AfterFailure {
        let known = self.members.len().max(1);
        // Who is no member any more says nothing of the one whose turn it is now.
        if self.asked.is_some() && self.asked.as_ref() == self.members.get(self.next) {
            self.next = (self.next + 1) % known;
        }
        self.failed = self.failed.saturating_add(1);
        match self.failed.is_multiple_of(known) && self.list != MemberList::Fixed {
            true => AfterFailure::ReadList,
            false => AfterFailure::TryNext,
        }
    }

    // ---- the list ----

    /// Whether it is under way already, and will be for this reader, too.
    pub(crate) fn joins(&mut self, reader: Reader) -> bool {
        if let (Some(reading), Reader::WorkFetch) = (&mut self.reading, reader) {
            reading.reader = reader;
        }
        self.reading.is_some()
    }

    pub(crate) fn reads(&mut self, call: CallId, deadline: Time, reader: Reader) {
        self.reading = Some(Reading {
            call,
            deadline,
            reader,
        });
    }

    /// When a reading that has brought nothing is given up.
    pub(crate) fn due(&self) -> Option<Time> {
        self.reading.map(|reading| reading.deadline)
    }

    pub(crate) fn waits_for(&self, call: CallId) -> bool {
        self.reading.is_some_and(|reading| reading.call == call)
    }

    /// For whom this call was, unless it was given up.
    pub(crate) fn take(&mut self, call: CallId) -> Option<Reader> {
        let reading = self.reading.take_if(|reading| reading.call == call);
        reading.map(|reading| reading.reader)
    }

    /// For whom the one was that has taken too long.
    pub(crate) fn give_up(&mut self, now: Time) -> Option<Reader> {
        let reading = self.reading.take_if(|reading| reading.deadline <= now);
        reading.map(|reading| reading.reader)
    }

    /// The list that was read. Whoever stays keeps its turn; whoever is gone hears nothing more, not even statuses: these are for the one
    /// whose turn it is then, and repeated until they are acknowledged.
    pub(crate) fn replace(&mut self, read: Vec<ServiceAddress>) {
        let place = |of: Option<&ServiceAddress>| read.iter().position(|one| Some(one) == of);
        let (next, answered) = (
            place(self.members.get(self.next)),
            place(self.answered.as_ref()),
        );
        // Whoever is new is tried before those who did not answer.
        let new = read.iter().position(|one| !self.members.contains(one));
        self.next = match self.failed {
            0 => next.or(new),
            _ => new.or(next),
        }
        .unwrap_or(0);
        if answered.is_none() {
            self.answered = None;
        }
        self.asked.take_if(|asked| !read.contains(asked));
        self.members = read;
    }

    /// For another life of the worker, which knows nobody yet.
    pub(crate) fn begin_anew(&mut self) {
        self.answered = None;
        self.reading = None;
    }
}

impl Association {
    /// A heartbeat was answered: where, that is where work is asked for first.
    pub(crate) fn found(&mut self, turn: &mut Turn<'_>) {
        if let Some(member) = self.whereabouts.answered()
            && let Some(fetching) = &mut turn.machine.fetching
        {
            fetching.found_at(self.index, member);
        }
    }

    /// Has it read who the scheduler's members are now.
    pub(crate) fn read_members(&mut self, turn: &mut Turn<'_>, reader: Reader) {
        if !self.whereabouts.joins(reader) {
            let call = turn.call(self.index, Call::ReadMembers);
            let deadline = turn.now + self.options.call_deadline;
            self.whereabouts.reads(call, deadline, reader);
        }
    }

    /// `None`: they could not be, or are none; then they stay who they were.
    fn members_read(
        &mut self,
        turn: &mut Turn<'_>,
        reader: Reader,
        read: Option<Vec<ServiceAddress>>,
    ) {
        if let Some(read) = &read {
            self.whereabouts.replace(read.clone());
        }
        // That nothing came of it is the failure of whoever waits for it.
        let hears = read.is_some() || reader == Reader::WorkFetch;
        if let Some(fetching) = &mut turn.machine.fetching
            && hears
        {
            fetching.list_read(turn.now, self.index, read);
        }
    }

    pub(crate) fn list_call_completed(
        &mut self,
        turn: &mut Turn<'_>,
        reader: Reader,
        outcome: CallOutcome<CallReply>,
    ) {
        let read = match outcome {
            CallOutcome::Done(CallReply::Members(read)) if !read.is_empty() => Some(read),
            CallOutcome::Done(_)
            | CallOutcome::Refused(..)
            | CallOutcome::NotSent(_)
            | CallOutcome::Unknown(_) => None,
        };
        self.members_read(turn, reader, read);
    }

    pub(crate) fn give_up_list(&mut self, turn: &mut Turn<'_>) {
        if let Some(reader) = self.whereabouts.give_up(turn.now) {
            self.members_read(turn, reader, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn member(port: u16) -> ServiceAddress {
        ServiceAddress {
            host: "scheduler".into(),
            port,
        }
    }

    fn of(ports: &[u16], list: MemberList) -> Whereabouts {
        let description = brasserie_common::WorkerDescription::default();
        Whereabouts::new(&AssociationOptions {
            members: ports.iter().copied().map(member).collect(),
            list,
            ..AssociationOptions::new(&description)
        })
    }

    fn listed() -> MemberList {
        MemberList::Read {
            called: "@list".to_owned(),
        }
    }

    /// To whom a heartbeat goes.
    fn beat(of: &mut Whereabouts) -> u16 {
        of.sent();
        of.of_heartbeats().expect("somebody").port
    }

    #[test]
    fn each_is_tried_before_the_list_is_read_and_whoever_answers_stays() {
        let mut of = of(&[1, 2], listed());
        assert_eq!(beat(&mut of), 1);
        of.answered();
        assert_eq!((beat(&mut of), of.failed()), (1, AfterFailure::TryNext));
        // A status is for the scheduler that has answered.
        assert_eq!(of.of_statuses(), Some(&member(1)));
        assert_eq!((beat(&mut of), of.failed()), (2, AfterFailure::ReadList));
        assert_eq!((beat(&mut of), of.failed()), (1, AfterFailure::TryNext));
        assert_eq!(beat(&mut of), 2);
        of.answered();
        assert_eq!(of.of_statuses(), Some(&member(2)));
        assert_eq!((beat(&mut of), of.failed()), (2, AfterFailure::TryNext));
    }

    #[test]
    fn whoever_is_new_on_the_list_is_tried_first_and_whoever_is_gone_no_more() {
        let mut of = of(&[1], listed());
        beat(&mut of);
        of.answered();
        of.replace(vec![member(3), member(1)]);
        assert_eq!(beat(&mut of), 1, "it answers");
        of.failed();
        of.replace(vec![member(4), member(5)]);
        assert_eq!(of.of_statuses(), Some(&member(4)), "nobody else is known");
        assert_eq!(beat(&mut of), 4);
        assert_eq!(of.of_statuses(), Some(&member(4)));
    }

    #[test]
    fn what_becomes_of_a_heartbeat_to_whoever_is_gone_changes_nobodys_turn() {
        let mut of = of(&[1, 2], listed());
        assert_eq!(beat(&mut of), 1);
        of.replace(vec![member(4), member(5)]);
        assert_eq!(of.failed(), AfterFailure::TryNext);
        assert_eq!(beat(&mut of), 4);
        assert_eq!(of.answered(), Some(&member(4)));
        assert_eq!((beat(&mut of), of.answered()), (4, None), "as before");
        of.replace(vec![member(6)]);
        assert_eq!(of.answered(), None, "it is no member");
        assert_eq!(of.of_statuses(), Some(&member(6)));
        beat(&mut of);
        assert_eq!(of.answered(), Some(&member(6)));
        of.is_another();
        assert_eq!(of.answered(), Some(&member(6)));
    }

    #[test]
    fn what_does_not_change_is_not_read() {
        let mut of = of(&[1], MemberList::Fixed);
        for _ in 0..5 {
            assert_eq!((beat(&mut of), of.failed()), (1, AfterFailure::TryNext));
        }
        let mut nobody = Whereabouts::new(&AssociationOptions::new(&Default::default()));
        nobody.sent();
        assert_eq!(nobody.failed(), AfterFailure::TryNext);
        assert_eq!((nobody.of_heartbeats(), nobody.of_statuses()), (None, None));
    }

    #[test]
    fn it_is_read_once_for_all_who_want_it() {
        let mut of = of(&[1], listed());
        assert!(!of.joins(Reader::Heartbeats));
        of.reads(CallId(3), Time::ZERO, Reader::Heartbeats);
        assert!(of.joins(Reader::WorkFetch) && of.joins(Reader::Heartbeats));
        assert_eq!(of.take(CallId(2)), None);
        assert_eq!(of.take(CallId(3)), Some(Reader::WorkFetch));
        assert_eq!(of.give_up(Time::NEVER), None);
        of.reads(CallId(4), Time::ZERO, Reader::Heartbeats);
        assert_eq!(of.give_up(Time::ZERO), Some(Reader::Heartbeats));
        assert_eq!(of.take(CallId(4)), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Read(BTreeSet<u16>),
        Sent,
        Answered,
        Failed,
        IsAnother,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            proptest::collection::btree_set(0_u16..6, 1..5).prop_map(Step::Read),
            Just(Step::Sent),
            Just(Step::Answered),
            Just(Step::Failed),
            Just(Step::IsAnother),
        ]
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn whatever_happens_members_of_the_list_are_asked_and_told_and_all_are_in_turn(steps in proptest::collection::vec(step(), 1..60)) {
            let mut of = of(&[1, 2, 3], listed());
            for step in steps {
                match step {
                    Step::Read(list) => of.replace(list.into_iter().map(member).collect()),
                    Step::Sent => of.sent(),
                    Step::Answered => drop(of.answered().cloned()),
                    Step::Failed => drop(of.failed()),
                    Step::IsAnother => of.is_another(),
                }
                for to in [of.of_heartbeats(), of.of_statuses()] {
                    prop_assert!(of.members().contains(to.expect("somebody")));
                }
                let mut asked: Vec<u16> = Vec::new();
                let mut round = of.clone();
                for _ in 0..of.members().len() {
                    asked.push(beat(&mut round));
                    round.failed();
                }
                asked.sort_unstable();
                let mut all: Vec<u16> = of.members().iter().map(|one| one.port).collect();
                all.sort_unstable();
                prop_assert_eq!(asked, all);
            }
        }
    }
}
