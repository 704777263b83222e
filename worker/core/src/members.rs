//! The members of an association's scheduler: which of them gets heartbeats and statuses, and when the worker reads the list of members
//! again.

use brasserie_common::{CallId, ServiceAddress, Time};

use crate::config::{AssociationOptions, MemberList};

/// The members of one scheduler. One of them gets the heartbeats until it fails to answer; then the next one does.
///
/// ```text
///   one member --a heartbeat fails--> the next one --all have failed, one after the other--> the list is read, and so on
///       ^                                  |
///       +-------- a heartbeat is answered -+
/// ```
#[derive(Clone, Debug)]
pub(crate) struct SchedulerMembers {
    /// The members, each once.
    members: Vec<ServiceAddress>,
    list: MemberList,
    /// The index of the member that gets the next heartbeat.
    next: usize,
    /// The member that got the last heartbeat, as long as it is a member.
    asked: Option<ServiceAddress>,
    /// The member that answered last. It is the scheduler instance that statuses are for.
    answered: Option<ServiceAddress>,
    /// The number of consecutive failed heartbeats.
    failed: usize,
    reading: Option<MembersRead>,
}

/// A read of the list that is in flight.
#[derive(Clone, Copy, Debug)]
struct MembersRead {
    call: CallId,
    deadline: Time,
    reader: MembersReader,
}

/// The part of the worker that requested the read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MembersReader {
    /// No member has answered a heartbeat.
    Heartbeats,
    /// The work fetch, which waits for the list.
    WorkFetch,
}

/// The consequence of a failed heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterFailure {
    TryNext,
    ReadList,
}

impl SchedulerMembers {
    pub(crate) fn new(own: &AssociationOptions) -> Self {
        SchedulerMembers {
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

    /// Returns the member for heartbeats; `None` if no member is known.
    pub(crate) fn of_heartbeats(&self) -> Option<&ServiceAddress> {
        self.asked.as_ref().or_else(|| self.members.get(self.next))
    }

    /// Returns the member for statuses: the one that answered last, or else the one that gets the next heartbeat.
    pub(crate) fn of_statuses(&self) -> Option<&ServiceAddress> {
        let turn = self.members.get(self.next);
        self.answered.as_ref().or(turn)
    }

    // ---- heartbeats ----

    pub(crate) fn sent(&mut self) {
        self.asked = self.members.get(self.next).cloned();
    }

    /// Records the answer to the last heartbeat. Returns the member that answered, if another one answered before.
    pub(crate) fn answered(&mut self) -> Option<&ServiceAddress> {
        self.failed = 0;
        // A member that was removed from the list gets nothing more, even if it answers.
        if self.asked.is_none() || self.answered == self.asked {
            return None;
        }
        self.answered.clone_from(&self.asked);
        self.answered.as_ref()
    }

    /// Forgets which member answered, because another scheduler instance answers now.
    pub(crate) fn forget_answered(&mut self) {
        self.answered = None;
    }

    pub(crate) fn failed(&mut self) -> AfterFailure {
        let known = self.members.len().max(1);
        // A failure at a member that was removed says nothing about the current one.
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

    /// Returns whether a read is in flight. If so, its result also goes to this reader.
    pub(crate) fn join_read(&mut self, reader: MembersReader) -> bool {
        if let (Some(reading), MembersReader::WorkFetch) = (&mut self.reading, reader) {
            reading.reader = reader;
        }
        self.reading.is_some()
    }

    pub(crate) fn begin_read(&mut self, call: CallId, deadline: Time, reader: MembersReader) {
        self.reading = Some(MembersRead {
            call,
            deadline,
            reader,
        });
    }

    /// Returns when the read in flight times out.
    pub(crate) fn due(&self) -> Option<Time> {
        self.reading.map(|reading| reading.deadline)
    }

    pub(crate) fn waits_for(&self, call: CallId) -> bool {
        self.reading.is_some_and(|reading| reading.call == call)
    }

    /// Takes the reader that waits for this call. `None` if the call has timed out.
    pub(crate) fn take(&mut self, call: CallId) -> Option<MembersReader> {
        let reading = self.reading.take_if(|reading| reading.call == call);
        reading.map(|reading| reading.reader)
    }

    /// Takes the reader whose read has timed out.
    pub(crate) fn give_up(&mut self, now: Time) -> Option<MembersReader> {
        let reading = self.reading.take_if(|reading| reading.deadline <= now);
        reading.map(|reading| reading.reader)
    }

    /// Replaces the members. A member that stays keeps its turn. A member that was removed gets nothing more, not even statuses. These go
    /// to the member with the next turn, and are repeated until they are acknowledged.
    pub(crate) fn replace(&mut self, read: Vec<ServiceAddress>) {
        let place = |of: Option<&ServiceAddress>| read.iter().position(|one| Some(one) == of);
        let (next, answered) = (
            place(self.members.get(self.next)),
            place(self.answered.as_ref()),
        );
        // New members are tried before those that did not answer.
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

    /// Forgets who answered, for a new instance of the worker.
    pub(crate) fn begin_anew(&mut self) {
        self.answered = None;
        self.reading = None;
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

    fn of(ports: &[u16], list: MemberList) -> SchedulerMembers {
        let description = brasserie_common::WorkerDescription::default();
        SchedulerMembers::new(&AssociationOptions {
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

    /// Sends a heartbeat, and returns the port of its member.
    fn beat(of: &mut SchedulerMembers) -> u16 {
        of.sent();
        of.of_heartbeats().expect("somebody").port
    }

    #[test]
    fn each_is_tried_before_the_list_is_read_and_whoever_answers_stays() {
        let mut of = of(&[1, 2], listed());
        assert_eq!(beat(&mut of), 1);
        of.answered();
        assert_eq!((beat(&mut of), of.failed()), (1, AfterFailure::TryNext));
        // Statuses are for the scheduler instance that has answered.
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
        of.forget_answered();
        assert_eq!(of.answered(), Some(&member(6)));
    }

    #[test]
    fn what_does_not_change_is_not_read() {
        let mut of = of(&[1], MemberList::Fixed);
        for _ in 0..5 {
            assert_eq!((beat(&mut of), of.failed()), (1, AfterFailure::TryNext));
        }
        let mut nobody = SchedulerMembers::new(&AssociationOptions::new(&Default::default()));
        nobody.sent();
        assert_eq!(nobody.failed(), AfterFailure::TryNext);
        assert_eq!((nobody.of_heartbeats(), nobody.of_statuses()), (None, None));
    }

    #[test]
    fn it_is_read_once_for_all_who_want_it() {
        let mut of = of(&[1], listed());
        assert!(!of.join_read(MembersReader::Heartbeats));
        of.begin_read(CallId(3), Time::ZERO, MembersReader::Heartbeats);
        assert!(of.join_read(MembersReader::WorkFetch) && of.join_read(MembersReader::Heartbeats));
        assert_eq!(of.take(CallId(2)), None);
        assert_eq!(of.take(CallId(3)), Some(MembersReader::WorkFetch));
        assert_eq!(of.give_up(Time::NEVER), None);
        of.begin_read(CallId(4), Time::ZERO, MembersReader::Heartbeats);
        assert_eq!(of.give_up(Time::ZERO), Some(MembersReader::Heartbeats));
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
                    Step::IsAnother => of.forget_answered(),
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
