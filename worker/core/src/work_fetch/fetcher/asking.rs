//! Whom to ask for work, and what becomes of requests.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{ServiceAddress, Time, WorkReply, WorkRequestSeq, WorkVerdict};

use super::super::amounts::amount;
use super::super::contact_state::ReplyKind;
use super::super::credit::Credit;
use super::super::driver::{Candidate, CheckEvent, Contact, Decision, Round, Work};
use super::super::fetch::{FetchRequest, Survey, most_unacknowledged};
use super::super::pair_backoff::{Asked, EndsEarly, PairBackoffs};
use super::super::profile::Profile;
use super::super::reason::{RpcReason, Wish};
use super::super::rr_sim::Situation;
use super::super::types::{Association, AssociationIndex, PerType};
use super::words::{candidate, demands, grounds, heard, note_waiting, processor, sources};
use super::{Fetcher, Outstanding, Phase, REFILL_TIME, REPEAT_AFTER, Scene, Step, draw, terms};

impl Fetcher {
    /// When [`Fetcher::next`] has something to say, if nothing happens until then; it may have passed.
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

    /// When it is not waited any longer for what should come by itself. Who is asked meanwhile says what there is.
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

    /// What to do now, which is then taken to be done.
    pub fn next(&mut self, scene: &Scene<'_>) -> Step {
        self.give_up_pending(scene);
        if let Some(again) = self.ask_again(scene) {
            return again;
        }
        let now = scene.now;
        self.miss_what_should_have_come(now);
        if self.driver.in_progress().is_none() && self.wakes <= now {
            let step = self.look(scene);
            if let Some(step) = step {
                return step;
            }
        }
        Step::Wait { until: self.due() }
    }

    fn look(&mut self, scene: &Scene<'_>) -> Option<Step> {
        self.look_at_pairs(scene);
        let too_many = most_unacknowledged(&self.processors);
        let mut standings = scene.standings.iter();
        self.is_choked = standings.any(|one| one.unacknowledged > too_many);
        let mut chosen = None;
        let outstanding = self.asked_by_type();
        let with_tasks: BTreeSet<AssociationIndex> =
            scene.tasks.iter().map(|task| task.association).collect();
        let all = self.contacts.iter_mut().enumerate();
        let mut candidates: Vec<Candidate<'_>> = all
            .map(|(index, state)| {
                let standing = scene.standings.get(index).copied().unwrap_or_default();
                let has_here = with_tasks.contains(&AssociationIndex(index));
                candidate(state, standing, has_here)
            })
            .collect();
        let round = Round {
            now: scene.now,
            profile: &self.profile,
            computing: scene.computing,
            unreported: scene.unreported,
        };
        let situation = Situation {
            now: scene.now,
            processors: &self.processors,
            associations: &self.associations,
            rec: self.accounting.averages(),
            tasks: scene.tasks,
            profile: &self.profile,
        };
        let decision = self.driver.next(&round, &mut candidates, |candidates| {
            let states = candidates.iter().map(|candidate| &*candidate.state);
            let sources = sources(&self.processors, states, scene.standings, &self.estimates);
            let outlook = situation.outlook();
            let request = Survey::new(grounds(
                &situation,
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
            Decision::ReadList { association, why } => Some(Step::ReadList { association, why }),
            Decision::Contact(contact) => {
                let request = self.request_of(contact, chosen, scene, &outstanding);
                Some(self.ask(scene, contact, request))
            }
        }
    }

    /// Ends what it is not worth waiting for any longer.
    fn look_at_pairs(&mut self, scene: &Scene<'_>) {
        for contact in &mut self.contacts {
            contact.pairs.distrust_old_flags(scene.now);
        }
        let mut contacts = self.contacts.iter();
        if !contacts.any(|contact| contact.pairs.awaits_idleness()) {
            return;
        }
        let outlook = self.outlook(scene.now, scene.tasks);
        for of_type in self.processors.types() {
            if outlook.of_type[of_type].idle_now > 0.0 {
                for contact in &mut self.contacts {
                    contact.pairs.is_idle(of_type);
                }
            }
        }
    }

    /// Which work a contact asks for; it may be none.
    fn request_of(
        &self,
        contact: Contact,
        chosen: Option<FetchRequest>,
        scene: &Scene<'_>,
        outstanding: &PerType<Option<AssociationIndex>>,
    ) -> Option<FetchRequest> {
        match contact.work {
            Work::Chosen => chosen,
            Work::Piggyback => {
                let outlook = self.outlook(scene.now, scene.tasks);
                let sources = sources(
                    &self.processors,
                    self.contacts.iter(),
                    scene.standings,
                    &self.estimates,
                );
                let situation = self.situation(scene.now, scene.tasks);
                let survey = Survey::new(grounds(
                    &situation,
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

    fn ask(&mut self, scene: &Scene<'_>, contact: Contact, request: Option<FetchRequest>) -> Step {
        let association = contact.association;
        let attempt = self.contacts[association.0].members.begin();
        let Some(attempt) = attempt else {
            // The driver would have had the list read before.
            self.driver.over(CheckEvent::ContactOver);
            self.wakes = Time::ZERO;
            return Step::Wait { until: self.due() };
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
            note_waiting(&self.processors, scene.tasks, &mut demands);
        }
        for demand in &demands {
            if let Some(of_type) = self.processor_type(&demand.processor) {
                credits[of_type] = Credit::of(scene.now, linger, demand);
            }
        }
        self.contacts[association.0].pairs.asked(&credits);
        let to = attempt.asked().clone();
        let outstanding = Outstanding {
            seq,
            asked: Asked {
                reason: contact.reason,
                types,
            },
            demands,
            linger,
            since: scene.now,
            attempt,
            phase: Phase::InFlight,
            ended: self.processors.table(&false),
            holds_driver: true,
        };
        let step = Step::Ask(outstanding.request(association, to));
        self.outstanding[association.0] = Some(outstanding);
        step
    }

    pub(super) fn linger(&self) -> Duration {
        linger(&self.profile, &self.associations)
    }

    /// The scheduler's answer to a heartbeat says what became of a request. That there are no verdicts yet is news only to who has been
    /// told so.
    pub fn heartbeat_says(&mut self, now: Time, association: AssociationIndex, reply: &WorkReply) {
        let outstanding = self.outstanding.get(association.0);
        let outstanding = outstanding.and_then(Option::as_ref);
        let is_in_flight = outstanding.is_some_and(|one| one.phase == Phase::InFlight);
        let is_pending = heard(&self.processors, reply).kind() == ReplyKind::Pending;
        if !(is_in_flight && is_pending) {
            self.heard(now, association, reply);
        }
    }

    /// The member that was asked has answered.
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
                outstanding.phase = Phase::Pending {
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

    /// The member that was asked has not served the request.
    pub fn not_served(&mut self, now: Time, association: AssociationIndex, seq: WorkRequestSeq) {
        let Some(Some(outstanding)) = self.outstanding.get_mut(association.0) else {
            return;
        };
        if outstanding.seq != seq || outstanding.phase != Phase::InFlight {
            return;
        }
        let contact = &mut self.contacts[association.0];
        contact.members.did_not_serve(outstanding.attempt.asked());
        match outstanding.attempt.ask_next(&contact.members) {
            Some(_) => outstanding.phase = Phase::Retry,
            None => {
                let u = draw(&mut self.rng);
                let terms = terms(&self.profile, u);
                contact.rpc.rpc_failed(now, terms);
                contact.pairs.drop_credit();
                self.end(association, CheckEvent::ContactOver);
            }
        }
    }

    /// The list of the scheduler's members was read; `None`: it could not be.
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
        // It may have been read for somebody else, while a request is on its way.
        match self.driver.in_progress() == Some(association) && !asks {
            true => self.driver.over(CheckEvent::ListRead),
            false => self.driver.request_check(CheckEvent::ListRead),
        }
        self.wakes = Time::ZERO;
    }

    /// The scheduler's instance was found at this member, who is asked first from now on.
    pub fn found_at(&mut self, association: AssociationIndex, member: &ServiceAddress) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.members.answered(member);
        }
    }

    /// A member of the scheduler has answered a heartbeat; `request_delay`: no request is to come before.
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

    /// The association has begun anew: nobody will answer what was asked.
    pub fn reset(&mut self, association: AssociationIndex) {
        let Some(contact) = self.contacts.get_mut(association.0) else {
            return;
        };
        contact.rpc.abandoned();
        contact.pairs.drop_credit();
        // A worker whose requests linger has no other scheduler.
        self.come_back.clear();
        self.end(association, CheckEvent::Reconnected);
    }

    /// The scheduler does not take the worker for a healthy one any more: whatever it was asked for it sends nothing.
    pub fn out_of_favour(&mut self, association: AssociationIndex) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.pairs.drop_credit();
        }
    }

    /// A task was refused here: its scheduler has charged it, so there is less to come than it seems.
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

    /// Another instance of the scheduler: what the one before had, or had not, says nothing of it.
    pub fn is_another(&mut self, now: Time, association: AssociationIndex) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.pairs = PairBackoffs::new(&self.processors);
            let u = draw(&mut self.rng);
            contact.rpc.is_another(now, terms(&self.profile, u));
        }
        self.reset(association);
    }

    /// The operator wants the scheduler to be asked now, whatever is backed off. Says for people what is waited for no more.
    pub fn update(&mut self, now: Time, association: AssociationIndex) -> Vec<String> {
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

    /// Whose verdicts were not known for too long may have no time for them. Who is absent will not say any.
    fn give_up_pending(&mut self, scene: &Scene<'_>) {
        for place in 0..self.outstanding.len() {
            let Some(outstanding) = &self.outstanding[place] else {
                continue;
            };
            let is_absent = scene.standings.get(place).is_some_and(|one| one.is_absent);
            if is_absent && outstanding.phase != Phase::InFlight {
                self.reset(AssociationIndex(place));
            } else if outstanding.is_given_up(scene.now, self.patience) {
                let contact = &mut self.contacts[place];
                contact.rpc.deferred(scene.now, 0.0, &self.profile);
                contact.pairs.drop_credit();
                self.end(AssociationIndex(place), CheckEvent::ContactOver);
            }
        }
    }

    /// A request that goes to the next member, or again to the same for its verdicts.
    fn ask_again(&mut self, scene: &Scene<'_>) -> Option<Step> {
        let all = self.outstanding.iter_mut().zip(&self.contacts).enumerate();
        for (place, (outstanding, contact)) in all {
            let Some(outstanding) = outstanding else {
                continue;
            };
            match outstanding.phase {
                Phase::Retry => {}
                Phase::Pending { repeat_at } if repeat_at <= scene.now => {}
                Phase::InFlight | Phase::Pending { .. } => continue,
            }
            let to = outstanding.attempt.ask_again(&contact.members).clone();
            outstanding.phase = Phase::InFlight;
            return Some(Step::Ask(outstanding.request(AssociationIndex(place), to)));
        }
        None
    }

    /// Who was asked for each type and has not said what it found.
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

/// A worker with several schedulers asks the next one when one has had its say: what that one found later would be too much.
pub(super) fn linger(profile: &Profile, associations: &[Association]) -> Duration {
    match associations.len() {
        1 => Duration::from_secs_f64(amount(profile.linger).min(1e9)),
        _ => Duration::ZERO,
    }
}
