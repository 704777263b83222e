//! Chooses requests for work and handles their outcomes.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{ServiceAddress, Time, WorkReply, WorkRequestSeq, WorkVerdict};

use super::super::amounts::amount;
use super::super::contact_state::ReplyKind;
use super::super::credit::Credit;
use super::super::driver::{Candidate, CheckEvent, Contact, Decision, RequestedWork, RoundInputs};
use super::super::fetch::{FetchRequest, Survey, most_unacknowledged};
use super::super::pair_backoff::{EndsEarly, PairBackoffs, SentRequest};
use super::super::profile::Profile;
use super::super::reason::{RpcReason, Wish};
use super::super::rr_sim::SimulationInput;
use super::super::types::{Association, AssociationIndex, PerType};
use super::conversion::{candidate, demands, fetch_input, heard, note_waiting, processor, sources};
use super::{
    Fetcher, FetcherInput, FetcherStep, Outstanding, REFILL_TIME, REPEAT_AFTER, RequestPhase, draw,
    terms,
};

impl Fetcher {
    /// Returns the time at which [`Fetcher::next`] has something to do, if no event comes first. It may have passed.
    pub fn due(&self) -> Time {
        let driver = match self.driver.in_progress() {
            Some(_) => Time::NEVER,
            None => self.wakes.max(self.driver.opens(&self.profile)),
        };
        let requests = self.outstanding.iter().flatten();
        let requests = requests.map(|one| one.due(self.patience));
        let others = [driver, self.misses_something()];
        requests.chain(others).min().unwrap_or(Time::NEVER)
    }

    /// Returns the time at which an awaited task counts as missing. A scheduler with an outstanding request does not count, because its
    /// answer will say what it has.
    fn misses_something(&self) -> Time {
        let all = self.contacts.iter().zip(&self.outstanding);
        let quiet = all.filter(|(_, outstanding)| outstanding.is_none());
        let since = quiet.filter_map(|(contact, _)| contact.pairs.awaits_since());
        let first = since.min();
        first.map_or(Time::NEVER, |first| first + REFILL_TIME)
    }

    fn miss_what_should_have_come(&mut self, now: Time) {
        let mut any = false;
        let all = self.contacts.iter_mut().zip(&self.outstanding);
        for (contact, _) in all.filter(|(_, outstanding)| outstanding.is_none()) {
            let since = contact.pairs.awaits_since();
            if let Some(since) = since.filter(|since| *since + REFILL_TIME <= now) {
                any |= contact.pairs.nothing_came(since);
            }
        }
        if any {
            self.check(CheckEvent::NothingCame);
        }
    }

    /// Returns the next step. The caller must perform it.
    pub fn next(&mut self, input: &FetcherInput<'_>) -> FetcherStep {
        self.give_up_pending(input);
        if let Some(again) = self.ask_again(input) {
            return again;
        }
        let now = input.now;
        self.miss_what_should_have_come(now);
        if self.driver.in_progress().is_none() && self.wakes <= now {
            let step = self.look(input);
            if let Some(step) = step {
                return step;
            }
        }
        FetcherStep::Wait { until: self.due() }
    }

    fn look(&mut self, input: &FetcherInput<'_>) -> Option<FetcherStep> {
        self.look_at_pairs(input);
        let too_many = most_unacknowledged(&self.processors);
        let mut association_states = input.association_states.iter();
        self.is_choked = association_states.any(|one| one.unacknowledged > too_many);
        let mut chosen = None;
        let outstanding = self.asked_by_type();
        let with_tasks: BTreeSet<AssociationIndex> =
            input.tasks.iter().map(|task| task.association).collect();
        let all = self.contacts.iter_mut().enumerate();
        let mut candidates: Vec<Candidate<'_>> = all
            .map(|(index, state)| {
                let association_state = input
                    .association_states
                    .get(index)
                    .copied()
                    .unwrap_or_default();
                let has_here = with_tasks.contains(&AssociationIndex(index));
                candidate(state, association_state, has_here)
            })
            .collect();
        let round = RoundInputs {
            now: input.now,
            profile: &self.profile,
            computing: input.computing,
            unreported: input.unreported,
        };
        let simulation_input = SimulationInput {
            now: input.now,
            processors: &self.processors,
            associations: &self.associations,
            rec: self.accounting.averages(),
            tasks: input.tasks,
            profile: &self.profile,
        };
        let decision = self.driver.next(&round, &mut candidates, |candidates| {
            let states = candidates.iter().map(|candidate| &*candidate.state);
            let sources = sources(
                &self.processors,
                states,
                input.association_states,
                &self.estimates,
            );
            let outlook = simulation_input.outlook();
            let request = Survey::new(fetch_input(
                &simulation_input,
                self.preemption,
                &sources,
                &outlook,
                &outstanding,
            ))
            .choose()?;
            let association = request.association;
            chosen = Some(request);
            Some(association)
        });
        match decision {
            Decision::Nothing { until } => {
                self.wakes = until;
                None
            }
            Decision::ReadList { association, why } => {
                Some(FetcherStep::ReadList { association, why })
            }
            Decision::Contact(contact) => {
                let request = self.request_of(contact, chosen, input, &outstanding);
                Some(self.ask(input, contact, request))
            }
        }
    }

    /// Ends backoffs and flags whose reason has passed.
    fn look_at_pairs(&mut self, input: &FetcherInput<'_>) {
        for contact in &mut self.contacts {
            contact.pairs.distrust_old_flags(input.now);
        }
        let mut contacts = self.contacts.iter();
        if !contacts.any(|contact| contact.pairs.awaits_idleness()) {
            return;
        }
        let outlook = self.outlook(input.now, input.tasks);
        for of_type in self.processors.types() {
            if outlook.of_type[of_type].idle_now > 0.0 {
                for contact in &mut self.contacts {
                    contact.pairs.end_idle_wait(of_type);
                }
            }
        }
    }

    /// Returns the work that a contact asks for, if any.
    fn request_of(
        &self,
        contact: Contact,
        chosen: Option<FetchRequest>,
        input: &FetcherInput<'_>,
        outstanding: &PerType<Option<AssociationIndex>>,
    ) -> Option<FetchRequest> {
        match contact.work {
            RequestedWork::Chosen => chosen,
            RequestedWork::Piggyback => {
                let outlook = self.outlook(input.now, input.tasks);
                let sources = sources(
                    &self.processors,
                    self.contacts.iter(),
                    input.association_states,
                    &self.estimates,
                );
                let simulation_input = self.simulation_input(input.now, input.tasks);
                let survey = Survey::new(fetch_input(
                    &simulation_input,
                    self.preemption,
                    &sources,
                    &outlook,
                    outstanding,
                ));
                match contact.reason {
                    RpcReason::Wished(Wish::Init) => survey.initial(contact.association),
                    _ => survey.piggyback(contact.association),
                }
            }
        }
    }

    fn ask(
        &mut self,
        input: &FetcherInput<'_>,
        contact: Contact,
        request: Option<FetchRequest>,
    ) -> FetcherStep {
        let association = contact.association;
        let attempt = self.contacts[association.0].members.begin();
        let Some(attempt) = attempt else {
            // The driver reads an empty member list before it starts a contact.
            self.driver.over(CheckEvent::ContactOver);
            self.wakes = Time::ZERO;
            return FetcherStep::Wait { until: self.due() };
        };
        self.last_seq.0 += 1;
        let seq = self.last_seq;
        let is_asked = |of_type| {
            let request = request.as_ref();
            request.is_some_and(|request| request.asks_for(of_type))
        };
        let mut types = self.processors.table(&false);
        for of_type in self.processors.types() {
            types[of_type] = is_asked(of_type);
        }
        let mut demands = demands(&self.processors, request.as_ref());
        let (linger, mut credits) = (self.linger(), self.processors.table(&None));
        if !linger.is_zero() {
            note_waiting(&self.processors, input.tasks, &mut demands);
        }
        for demand in &demands {
            if let Some(of_type) = self.processor_type(&demand.processor) {
                credits[of_type] = Credit::of(input.now, linger, demand);
            }
        }
        self.contacts[association.0].pairs.asked(&credits);
        let to = attempt.asked().clone();
        let outstanding = Outstanding {
            seq,
            asked: SentRequest {
                reason: contact.reason,
                types,
            },
            demands,
            linger,
            since: input.now,
            attempt,
            phase: RequestPhase::InFlight,
            ended: self.processors.table(&false),
            holds_driver: true,
        };
        let step = FetcherStep::Ask(outstanding.request(association, to));
        self.outstanding[association.0] = Some(outstanding);
        step
    }

    pub(super) fn linger(&self) -> Duration {
        linger(&self.profile, &self.associations)
    }

    /// Applies the verdicts in a heartbeat's answer. Pending verdicts are ignored while the request itself is unanswered.
    pub fn heartbeat_says(&mut self, now: Time, association: AssociationIndex, reply: &WorkReply) {
        let outstanding = self.outstanding.get(association.0);
        let outstanding = outstanding.and_then(Option::as_ref);
        let is_in_flight = outstanding.is_some_and(|one| one.phase == RequestPhase::InFlight);
        let is_pending = heard(&self.processors, reply).kind() == ReplyKind::Pending;
        if !(is_in_flight && is_pending) {
            self.heard(now, association, reply);
        }
    }

    /// Applies the answer of the member that was asked.
    pub fn answered(&mut self, now: Time, association: AssociationIndex, reply: &WorkReply) {
        if let Some(Some(outstanding)) = self.outstanding.get(association.0)
            && outstanding.seq == reply.seq
        {
            let contact = &mut self.contacts[association.0];
            contact.members.answered(outstanding.attempt.asked());
        }
        self.heard(now, association, reply);
    }

    fn heard(&mut self, now: Time, association: AssociationIndex, reply: &WorkReply) {
        let place = association.0;
        let Some(Some(outstanding)) = self.outstanding.get_mut(place) else {
            return;
        };
        if outstanding.seq != reply.seq {
            return;
        }
        let reply = heard(&self.processors, reply);
        match reply.kind() {
            ReplyKind::Pending => {
                let after = Duration::from_secs_f64(reply.request_delay).max(REPEAT_AFTER);
                outstanding.phase = RequestPhase::Pending {
                    repeat_at: now + after,
                };
                if std::mem::take(&mut outstanding.holds_driver) {
                    self.driver.over(CheckEvent::ContactOver);
                    self.wakes = Time::ZERO;
                }
            }
            ReplyKind::Stale => {
                let contact = &mut self.contacts[place];
                contact.rpc.abandoned();
                contact.pairs.drop_credit();
                self.end(association, CheckEvent::ContactOver);
            }
            ReplyKind::Good | ReplyKind::Deferral => {
                let u = draw(&mut self.rng);
                let terms = terms(&self.profile, u);
                let asked = outstanding.asked.clone();
                let contact = &mut self.contacts[place];
                let before = contact.pairs.clone();
                contact.replied(now, &asked, &reply, terms);
                for of_type in self.processors.types() {
                    if before.of(of_type).is_backed_off(now) {
                        continue;
                    }
                    let name = processor(&self.processors, of_type);
                    let mut demands = outstanding.demands.iter();
                    if demands.any(|demand| demand.processor == name && demand.idle > 0.0) {
                        continue;
                    }
                    let ends = match reply.of_type[of_type].verdict {
                        Some(WorkVerdict::Limited | WorkVerdict::Deadline) => EndsEarly::AtAnEnd,
                        _ => EndsEarly::WhenIdle,
                    };
                    contact.pairs.ends_early(now, of_type, ends, &self.profile);
                    if outstanding.ended[of_type] {
                        contact.pairs.task_ended(of_type);
                    }
                }
                self.end(association, CheckEvent::ContactOver);
            }
        }
    }

    /// Notes that the member that was asked did not serve the request.
    pub fn not_served(&mut self, now: Time, association: AssociationIndex, seq: WorkRequestSeq) {
        let Some(Some(outstanding)) = self.outstanding.get_mut(association.0) else {
            return;
        };
        if outstanding.seq != seq || outstanding.phase != RequestPhase::InFlight {
            return;
        }
        let contact = &mut self.contacts[association.0];
        contact.members.did_not_serve(outstanding.attempt.asked());
        match outstanding.attempt.ask_next(&contact.members) {
            Some(_) => outstanding.phase = RequestPhase::Retry,
            None => {
                let u = draw(&mut self.rng);
                let terms = terms(&self.profile, u);
                contact.rpc.rpc_failed(now, terms);
                contact.pairs.drop_credit();
                self.end(association, CheckEvent::ContactOver);
            }
        }
    }

    /// Applies a member list that was read; `None` if it could not be read.
    pub fn list_read(
        &mut self,
        now: Time,
        association: AssociationIndex,
        read: Option<Vec<ServiceAddress>>,
    ) {
        let u = draw(&mut self.rng);
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.list_read(now, read, terms(&self.profile, u));
        }
        let outstanding = self.outstanding.get(association.0);
        let asks = outstanding.is_some_and(|one| one.as_ref().is_some_and(|one| one.holds_driver));
        // The list may have been read for another purpose while a request is in flight.
        match self.driver.in_progress() == Some(association) && !asks {
            true => self.driver.over(CheckEvent::ListRead),
            false => self.driver.request_check(CheckEvent::ListRead),
        }
        self.wakes = Time::ZERO;
    }

    /// Notes that a member has the scheduler's instance. It is asked first from now on.
    pub fn found_at(&mut self, association: AssociationIndex, member: &ServiceAddress) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.members.answered(member);
        }
    }

    /// Notes that a member has answered a heartbeat. No request is made before `request_delay` has passed.
    pub fn heartbeat_answered(
        &mut self,
        now: Time,
        association: AssociationIndex,
        request_delay: Option<Duration>,
    ) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.rpc.heartbeat_answered();
            if let Some(delay) = request_delay {
                contact.rpc.delayed(now, delay.as_secs_f64());
            }
        }
    }

    /// Abandons the outstanding request of an association that began anew, because nobody will answer it.
    pub fn reset(&mut self, association: AssociationIndex) {
        let Some(contact) = self.contacts.get_mut(association.0) else {
            return;
        };
        contact.rpc.abandoned();
        contact.pairs.drop_credit();
        // Requests linger only if there is one scheduler, so all entries belong to it.
        self.come_back.clear();
        self.end(association, CheckEvent::Reconnected);
    }

    /// Drops the credit of a scheduler that no longer counts the worker as healthy, because it sends nothing.
    pub fn out_of_favour(&mut self, association: AssociationIndex) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.pairs.drop_credit();
        }
    }

    /// Notes that the worker refused a task. The scheduler charged it to the credit, so less work will arrive than the worker counts on.
    pub fn task_refused(&mut self, association: AssociationIndex) {
        let Some(contact) = self.contacts.get_mut(association.0) else {
            return;
        };
        let was_to_come = contact.pairs.awaits_since().is_some();
        contact.pairs.drop_credit();
        if was_to_come {
            self.check(CheckEvent::NothingCame);
        }
    }

    /// Forgets the previous instance's backoffs and verdicts, because the scheduler has a new instance.
    pub fn scheduler_replaced(&mut self, now: Time, association: AssociationIndex) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.pairs = PairBackoffs::new(&self.processors);
            let u = draw(&mut self.rng);
            contact.rpc.scheduler_replaced(now, terms(&self.profile, u));
        }
        self.reset(association);
    }

    /// Ends the worker's own waits at the operator's request, so that the scheduler is asked now. Returns the ended waits as text.
    pub fn end_waits(&mut self, now: Time, association: AssociationIndex) -> Vec<String> {
        let Some(contact) = self.contacts.get_mut(association.0) else {
            return Vec::new();
        };
        let mut ended = contact.waits(now, &self.processors);
        contact.update(now);
        let left = contact.waits(now, &self.processors);
        ended.retain(|line| !left.contains(line));
        self.check(CheckEvent::User);
        ended
    }

    fn end(&mut self, association: AssociationIndex, event: CheckEvent) {
        let outstanding = self.outstanding[association.0].take();
        let held = outstanding.is_some_and(|outstanding| outstanding.holds_driver);
        match held || self.driver.in_progress() == Some(association) {
            true => self.driver.over(event),
            false => self.driver.request_check(event),
        }
        self.wakes = Time::ZERO;
    }

    /// Gives up requests whose verdicts have been pending for too long, or whose scheduler no longer counts the worker as healthy.
    fn give_up_pending(&mut self, input: &FetcherInput<'_>) {
        for place in 0..self.outstanding.len() {
            let Some(outstanding) = &self.outstanding[place] else {
                continue;
            };
            let is_absent = input
                .association_states
                .get(place)
                .is_some_and(|one| one.is_absent);
            if is_absent && outstanding.phase != RequestPhase::InFlight {
                self.reset(AssociationIndex(place));
            } else if outstanding.is_given_up(input.now, self.patience) {
                let contact = &mut self.contacts[place];
                contact.rpc.deferred(input.now, 0.0, &self.profile);
                contact.pairs.drop_credit();
                self.end(AssociationIndex(place), CheckEvent::ContactOver);
            }
        }
    }

    /// Returns a request to repeat: to the next member, or to the same one for its pending verdicts.
    fn ask_again(&mut self, input: &FetcherInput<'_>) -> Option<FetcherStep> {
        let all = self.outstanding.iter_mut().zip(&self.contacts).enumerate();
        for (place, (outstanding, contact)) in all {
            let Some(outstanding) = outstanding else {
                continue;
            };
            match outstanding.phase {
                RequestPhase::Retry => {}
                RequestPhase::Pending { repeat_at } if repeat_at <= input.now => {}
                RequestPhase::InFlight | RequestPhase::Pending { .. } => continue,
            }
            let to = outstanding.attempt.ask_again(&contact.members).clone();
            outstanding.phase = RequestPhase::InFlight;
            return Some(FetcherStep::Ask(
                outstanding.request(AssociationIndex(place), to),
            ));
        }
        None
    }

    /// Returns, for each type, the scheduler with an unanswered request.
    pub(super) fn asked_by_type(&self) -> PerType<Option<AssociationIndex>> {
        let mut by_type = self.processors.table(&None);
        for (place, outstanding) in self.outstanding.iter().enumerate() {
            for (of_type, asked) in outstanding.iter().flat_map(|one| one.asked.types.iter()) {
                if *asked {
                    by_type[of_type] = Some(AssociationIndex(place));
                }
            }
        }
        by_type
    }
}

/// Returns how long requests linger. A worker with several schedulers asks the next one after each answer, so work that an earlier one
/// found later would be too much.
pub(super) fn linger(profile: &Profile, associations: &[Association]) -> Duration {
    match associations.len() {
        1 => Duration::from_secs_f64(amount(profile.linger).min(1e9)),
        _ => Duration::ZERO,
    }
}
