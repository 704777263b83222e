//! The backoff of a scheduler and processor type: the scheduler is not asked for the type for a while after it had no work for it.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Time, WorkVerdict};
use serde::{Deserialize, Serialize};

use super::amounts::amount;
use super::backoff::{span, unit};
use super::credit::Credit;
use super::profile::Profile;
use super::reaction::Reaction;
use super::reason::RpcReason;
use super::types::{PerType, ProcessorType, ProcessorUsage, Processors};
use super::wait::{Wait, WaitCause, left};

/// A backoff lasts for a random part of its interval: at least this minus one, at most this.
const LONGEST_PART: f64 = 1.5;

/// The backoff of one scheduler and processor type. It is independent of the scheduler's `min_rpc_time`.
///
/// ```text
///   clear --asked in vain--> backed off --its time passes--> may be asked (the interval stays)
///     ^                          |                               |          |
///     |                          |                               |          +--asked in vain--> backed off, twice as long
///     +--------- a task comes, the user -------------------------+
///     +--------- a task ends, after LIMITED or DEADLINE while all instances were busy, unless the scheduler sends the next task unasked
///     +--------- an instance is idle, if there was nothing while all were busy
/// ```
///
/// A task that arrives while the request lingers does not end the backoff, because more tasks will arrive in the same way. The backoff then
/// counts only as long as some credit of the request is left. Its interval stays, so that the worker does not ask again for each task.
///
/// The flag that no job uses the type is cleared after the longest backoff, because jobs change and no other request may be left to report
/// it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairBackoff {
    /// Seconds; 0 for none.
    interval: f64,
    until: Option<Time>,
    ends_early: EndsEarly,
    /// The backoff began because the tasks would have missed their deadlines.
    turned_down: bool,
    /// The scheduler has said that no job uses the type, and is not asked before this.
    no_apps_until: Option<Time>,
    /// The credit of the last request, if that lingers.
    credit: Option<Credit>,
    /// The scheduler had more tasks at the last request than it could send, so it sends further tasks by itself as runs complete.
    has_more: bool,
}

/// The event that ends a backoff early, if all instances were busy at its request. Tasks that may not wait are sent only for idle
/// instances, so the scheduler may have some once an instance is idle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndsEarly {
    #[default]
    Never,
    /// The next completion of a task of the type, because the scheduler has tasks.
    AtAnEnd,
    /// An idle instance.
    WhenIdle,
}

impl PairBackoff {
    /// Returns the backoff in force.
    pub fn wait(&self, now: Time) -> Option<Wait> {
        let until = self.until.filter(|&until| until > now)?;
        let cause = WaitCause::NoWork {
            interval: self.interval,
            turned_down: self.turned_down,
        };
        Some(Wait { until, cause })
    }

    /// Returns the end of the backoff, which may have passed; [`Time::ZERO`] if there is none.
    pub fn backed_off_until(&self) -> Time {
        self.until.unwrap_or(Time::ZERO)
    }

    pub fn is_backed_off(&self, now: Time) -> bool {
        self.wait(now).is_some()
    }

    /// Returns whether the tasks would have missed their deadlines at the last request; the backoff may have passed.
    pub fn was_turned_down(&self) -> bool {
        self.turned_down
    }

    /// Returns the interval in seconds; 0 if no request has failed since work arrived.
    pub fn interval(&self) -> f64 {
        self.interval
    }

    pub fn has_no_apps(&self) -> bool {
        self.no_apps_until.is_some()
    }

    /// Returns the credit on which the backoff depends, if work has arrived since the request, or should have. The backoff counts only as
    /// long as some of it is left.
    pub fn credit(&self) -> Option<Credit> {
        let counts = |credit: &Credit| credit.has_brought() || credit.awaits_since().is_some();
        self.credit.filter(counts)
    }

    fn awaits_since(&self) -> Option<Time> {
        self.credit.and_then(|credit| credit.awaits_since())
    }

    fn asked(&mut self, credit: Option<Credit>) {
        if self.credit().is_some() {
            self.until = None;
            self.ends_early = EndsEarly::Never;
        }
        self.credit = credit;
    }

    fn task_came(&mut self, now: Time, usage: f64, secs: f64) {
        if let Some(credit) = &mut self.credit {
            credit.take(usage, secs);
        }
        match self.credit.as_mut().filter(|credit| credit.lingers(now)) {
            Some(credit) => credit.brought(),
            None => self.clear(),
        }
    }

    fn back_off(&mut self, now: Time, profile: &Profile, u: f64) {
        let grown = match self.interval {
            none if none <= 0.0 => amount(profile.pair_backoff_min),
            interval => 2.0 * interval,
        };
        self.interval = grown.min(amount(profile.pair_backoff_max));
        self.until = Some(match sabotage::on(Sabotage::KeepWaitingWhenIdle) {
            true => Time::NEVER,
            false => now + span((LONGEST_PART - 1.0 + unit(u)) * self.interval),
        });
        self.ends_early = EndsEarly::Never;
    }

    /// Ends the wait but keeps the interval, so that the next backoff is longer.
    fn wait_no_more(&mut self) {
        self.until = None;
        self.no_apps_until = None;
        self.ends_early = EndsEarly::Never;
    }

    fn clear(&mut self) {
        self.interval = 0.0;
        self.until = None;
        self.ends_early = EndsEarly::Never;
    }
}

/// A work request, as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SentRequest {
    pub reason: RpcReason,
    /// The types for which it asked for seconds.
    pub types: PerType<bool>,
}

/// A reply's statements about one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TypeReply {
    /// `None` if nothing was asked for.
    pub verdict: Option<WorkVerdict>,
    /// No job uses the type, whether or not the worker asked for it.
    pub no_apps: bool,
}

/// The backoffs of one scheduler, by type.
#[derive(Clone, Debug, PartialEq)]
pub struct PairBackoffs(Vec<PairBackoff>);

impl PairBackoffs {
    pub fn new(processors: &Processors) -> Self {
        PairBackoffs(processors.types().map(|_| PairBackoff::default()).collect())
    }

    /// Returns the backoff of a type; the default for a type that the worker does not have.
    pub fn of(&self, of: ProcessorType) -> PairBackoff {
        self.0.get(of.0).copied().unwrap_or_default()
    }

    /// Applies a reply that is not a deferral as a whole. One `u` serves all types, because it only keeps workers apart.
    pub fn replied(
        &mut self,
        now: Time,
        asked: &SentRequest,
        reply: &PerType<TypeReply>,
        profile: &Profile,
        u: f64,
    ) {
        for ((of, said), (_, &was_asked)) in reply.iter().zip(asked.types.iter()) {
            let Some(pair) = self.0.get_mut(of.0) else {
                continue;
            };
            let reaction = said.verdict.map(Reaction::to);
            let has_no_apps = said.no_apps || reaction == Some(Reaction::Flag);
            pair.no_apps_until = has_no_apps.then(|| now + span(amount(profile.pair_backoff_max)));
            if was_asked || said.verdict.is_some() {
                pair.has_more = match said.verdict {
                    Some(WorkVerdict::Granted(1..) | WorkVerdict::Limited) => true,
                    Some(WorkVerdict::Granted(0) | WorkVerdict::NoWork)
                    | Some(WorkVerdict::Deadline | WorkVerdict::NoApps)
                    | None => false,
                    // The scheduler has not searched for work.
                    Some(WorkVerdict::Deferred | WorkVerdict::Stale | WorkVerdict::Pending) => {
                        pair.has_more
                    }
                };
            }
            match reaction {
                Some(Reaction::Clear) => {
                    pair.clear();
                }
                // A type that was asked for but is missing in the reply brought nothing either. A request during a backoff does not extend
                // it.
                Some(Reaction::BackOff | Reaction::Flag) | None if was_asked => {
                    if asked.reason.is_automatic() && !pair.is_backed_off(now) {
                        pair.back_off(now, profile, u);
                        pair.turned_down = said.verdict == Some(WorkVerdict::Deadline);
                    }
                }
                Some(
                    Reaction::BackOff
                    | Reaction::Flag
                    | Reaction::Obey
                    | Reaction::Await
                    | Reaction::Ignore,
                )
                | None => {}
            }
        }
        self.distrust_all_flags();
    }

    /// Clears the flags if all types have one. The scheduler then made a mistake, or the worker has other processors than before, and the
    /// scheduler would never be asked again.
    fn distrust_all_flags(&mut self) {
        if self.0.iter().all(PairBackoff::has_no_apps) {
            for pair in &mut self.0 {
                pair.no_apps_until = None;
            }
        }
    }

    /// Notes that a request was sent with these credits, which replace those of the request before.
    pub fn asked(&mut self, credits: &PerType<Option<Credit>>) {
        for (pair, (_, credit)) in self.0.iter_mut().zip(credits.iter()) {
            pair.asked(*credit);
        }
    }

    /// Notes that a task arrived; `secs` is its run time by the scheduler's estimate. Like the scheduler, counts the task for one type
    /// only.
    pub fn task_came(&mut self, now: Time, usage: &ProcessorUsage, secs: f64) {
        if let Some(pair) = self.0.get_mut(usage.processor_type().0) {
            pair.task_came(now, usage.of_its_type(), secs);
        }
    }

    /// Drops the credit, because the scheduler may have dropped the request. Backoffs that depended on it end.
    pub fn drop_credit(&mut self) {
        for pair in &mut self.0 {
            if pair.credit.take().is_some() {
                pair.wait_no_more();
            }
        }
    }

    /// Ends all waits, because no request lingers and they would gain nothing.
    pub fn wait_no_more(&mut self) {
        self.0.iter_mut().for_each(PairBackoff::wait_no_more);
    }

    /// Clears flags that are too old, because the scheduler's jobs may have changed.
    pub fn distrust_old_flags(&mut self, now: Time) {
        for pair in &mut self.0 {
            pair.no_apps_until = pair.no_apps_until.filter(|&until| until > now);
        }
    }

    /// Sets the event that ends the current backoff early; its request found all instances busy. Tasks that would miss their deadlines
    /// behind the tasks at the worker do so until one of these completes, so the backoff for them takes the maximum length at once.
    pub fn ends_early(&mut self, now: Time, of: ProcessorType, ends: EndsEarly, profile: &Profile) {
        if let Some(pair) = self.0.get_mut(of.0).filter(|pair| pair.is_backed_off(now)) {
            pair.ends_early = ends;
            if pair.turned_down {
                pair.interval = amount(profile.pair_backoff_max);
                pair.until = Some(now + span(pair.interval));
            }
        }
    }

    /// Returns whether an idle instance would end a backoff.
    pub fn awaits_idleness(&self) -> bool {
        let mut all = self.0.iter();
        all.any(|pair| pair.ends_early == EndsEarly::WhenIdle)
    }

    /// Ends a backoff that waits for an idle instance of the type.
    pub fn end_idle_wait(&mut self, of: ProcessorType) {
        if let Some(pair) = self.0.get_mut(of.0)
            && pair.ends_early == EndsEarly::WhenIdle
        {
            // The interval stays, because the scheduler has not said that it has work.
            pair.until = None;
            pair.ends_early = EndsEarly::Never;
        }
    }

    /// Ends a backoff that waits for a completion of the type, by a task of any scheduler, unless the next task arrives without a request.
    pub fn task_ended(&mut self, of: ProcessorType) {
        if let Some(pair) = self.0.get_mut(of.0)
            && pair.ends_early == EndsEarly::AtAnEnd
            && pair.awaits_since().is_none()
        {
            pair.clear();
        }
    }

    /// Restores the credit of a completed run whose resources are idle at the scheduler.
    pub fn gives_back(&mut self, now: Time, usage: &ProcessorUsage, patience: Duration) {
        if let Some(pair) = self.0.get_mut(usage.processor_type().0)
            && pair.has_more
            && let Some(credit) = &mut pair.credit
        {
            credit.give_back(now, usage.of_its_type(), patience);
        }
    }

    /// Returns the time since which the first instance is idle for which a task should have arrived.
    pub fn awaits_since(&self) -> Option<Time> {
        let all = self.0.iter().filter_map(PairBackoff::awaits_since);
        all.min()
    }

    /// Drops the credits of types that await tasks since `since` or earlier, because the scheduler may have dropped the request. Returns
    /// whether there are any.
    pub fn nothing_came(&mut self, since: Time) -> bool {
        let mut any = false;
        for pair in &mut self.0 {
            if pair.awaits_since().is_some_and(|first| first <= since) {
                any = true;
                if pair.ends_early == EndsEarly::AtAnEnd {
                    pair.clear();
                }
                pair.asked(None);
            }
        }
        any
    }

    /// Ends all backoffs and intervals, at the operator's request or because the clock is unreliable. The flags that no job uses a type
    /// stay.
    pub fn clear_all(&mut self) {
        self.0.iter_mut().for_each(PairBackoff::clear);
    }

    /// Returns the time at which the next backoff ends.
    #[cfg(test)]
    pub fn next_end(&self, now: Time) -> Option<Time> {
        let waits = self.0.iter().filter_map(|pair| pair.wait(now));
        waits.map(|wait| wait.until).min()
    }

    pub fn save(&self, now: Time, processors: &Processors) -> Vec<SavedPair> {
        let pairs = processors.types().zip(&self.0);
        pairs
            .map(|(of, pair)| SavedPair {
                processors: processors[of].name.clone(),
                interval: pair.interval,
                left: pair.until.map(|until| left(now, until)),
                no_apps: pair.has_no_apps(),
            })
            .collect()
    }

    /// Restores saved backoffs by the names of the types, because a worker may return with other GPUs or in another order. No backoff is
    /// longer than the profile allows.
    pub fn restore(
        now: Time,
        processors: &Processors,
        saved: &[SavedPair],
        profile: &Profile,
    ) -> Self {
        let most = amount(profile.pair_backoff_max);
        let longest = span(LONGEST_PART * most);
        let restored = |of: ProcessorType| {
            let name = &processors[of].name;
            let known = saved.iter().find(|pair| pair.processors == *name);
            known.map_or_else(PairBackoff::default, |pair| PairBackoff {
                interval: amount(pair.interval).min(most),
                until: pair.left.map(|left| now + left.min(longest)),
                ends_early: EndsEarly::Never,
                turned_down: false,
                no_apps_until: pair.no_apps.then(|| now + span(most)),
                credit: None,
                has_more: false,
            })
        };
        let mut restored = PairBackoffs(processors.types().map(restored).collect());
        restored.distrust_all_flags();
        restored
    }
}

/// The part of a backoff that survives a restart of the worker. It consists of spans, because the clock starts anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedPair {
    /// The name of the type.
    pub processors: String,
    #[serde(rename = "interval_secs")]
    pub interval: f64,
    pub left: Option<Duration>,
    pub no_apps: bool,
}

#[cfg(test)]
mod tests {
    use brasserie_common::{Processor, WorkDemand};
    use proptest::prelude::*;

    use super::super::reason::Wish;
    use super::super::types::ProcessorKind;
    use super::*;

    const CPU: ProcessorType = ProcessorType::CPU;
    const CARDS: ProcessorType = ProcessorType(1);
    const VOLUNTEER: Profile = Profile::VOLUNTEER;

    fn kind(name: &str) -> ProcessorKind {
        ProcessorKind {
            name: name.to_owned(),
            instances: 4,
            relative_speed: 1.0,
            availability: 1.0,
        }
    }

    fn processors() -> Processors {
        Processors::new(kind("CPU"), vec![kind("A100")])
    }

    fn at(seconds: f64) -> Time {
        Time::ZERO + Duration::from_secs_f64(seconds)
    }

    fn uses(of: ProcessorType) -> ProcessorUsage {
        ProcessorUsage {
            cpus: 1.0,
            cards: (of != CPU).then_some((of, 1.0)),
        }
    }

    /// Asks for the CPU, and applies a reply with this verdict.
    fn replied(
        pairs: &mut PairBackoffs,
        now: Time,
        reason: RpcReason,
        verdict: WorkVerdict,
        u: f64,
    ) {
        let mut types = processors().table(&false);
        types[CPU] = true;
        let asked = SentRequest { reason, types };
        let mut reply = processors().table(&TypeReply::default());
        reply[CPU].verdict = Some(verdict);
        pairs.replied(now, &asked, &reply, &VOLUNTEER, u);
    }

    #[test]
    fn what_was_asked_for_and_is_not_mentioned_did_not_come() {
        let mut pairs = PairBackoffs::new(&processors());
        let asked = SentRequest {
            reason: RpcReason::NeedWork,
            types: processors().table(&true),
        };
        let nothing = processors().table(&TypeReply::default());
        pairs.replied(at(0.0), &asked, &nothing, &VOLUNTEER, 0.5);
        assert!(pairs.of(CPU).is_backed_off(at(1.0)));
        assert!(pairs.of(CARDS).is_backed_off(at(1.0)));
    }

    #[test]
    fn a_worker_with_the_cpu_alone_is_not_told_at_once_again_that_no_job_uses_it() {
        let kind = processors()[CPU].clone();
        let processors = Processors::new(kind, Vec::new());
        let mut pairs = PairBackoffs::new(&processors);
        let asked = SentRequest {
            reason: RpcReason::NeedWork,
            types: processors.table(&true),
        };
        let mut none = processors.table(&TypeReply::default());
        none[CPU].verdict = Some(WorkVerdict::NoApps);
        pairs.replied(at(0.0), &asked, &none, &VOLUNTEER, 0.5);
        // The type is asked for again, but not at once.
        assert!(!pairs.of(CPU).has_no_apps());
        assert!(pairs.of(CPU).is_backed_off(at(1.0)));
    }

    #[test]
    fn who_comes_back_without_the_cards_is_not_flagged_for_all_that_is_left() {
        let mut pairs = PairBackoffs::new(&processors());
        replied(
            &mut pairs,
            at(0.0),
            RpcReason::NeedWork,
            WorkVerdict::NoApps,
            0.5,
        );
        assert!(pairs.of(CPU).has_no_apps());
        let saved = pairs.save(at(0.0), &processors());
        let left = Processors::new(processors()[CPU].clone(), Vec::new());
        let restored = PairBackoffs::restore(at(9.0), &left, &saved, &VOLUNTEER);
        assert!(!restored.of(CPU).has_no_apps());
    }

    fn wait(pairs: &PairBackoffs, of: ProcessorType, now: Time) -> f64 {
        let wait = pairs.of(of).wait(now);
        wait.map_or(0.0, |wait| wait.until.since(now).as_secs_f64())
    }

    /// `(k, interval, from, to)` of the k-th failed request in a row, in seconds.
    const TABLE: [(u32, f64, f64, f64); 11] = [
        (1, 600.0, 300.0, 900.0),
        (2, 1200.0, 600.0, 1800.0),
        (3, 2400.0, 1200.0, 3600.0),
        (4, 4800.0, 2400.0, 7200.0),
        (5, 9600.0, 4800.0, 14_400.0),
        (6, 19_200.0, 9600.0, 28_800.0),
        (7, 38_400.0, 19_200.0, 57_600.0),
        (8, 76_800.0, 38_400.0, 115_200.0),
        (9, 86_400.0, 43_200.0, 129_600.0),
        (10, 86_400.0, 43_200.0, 129_600.0),
        (11, 86_400.0, 43_200.0, 129_600.0),
    ];

    #[test]
    fn each_time_in_vain_waits_by_the_table() {
        for u in [0.0, 0.5, 1.0] {
            let mut pairs = PairBackoffs::new(&processors());
            let mut now = at(7.0);
            for (k, interval, from, to) in TABLE {
                replied(&mut pairs, now, RpcReason::NeedWork, WorkVerdict::NoWork, u);
                assert_eq!(pairs.of(CPU).interval(), interval, "{k}");
                assert_eq!(wait(&pairs, CPU, now), from + u * (to - from), "{k}");
                assert_eq!(wait(&pairs, CARDS, now), 0.0);
                now = pairs.next_end(now).unwrap();
                assert!(!pairs.of(CPU).is_backed_off(now));
            }
        }
    }

    #[test]
    fn only_a_need_that_was_not_met_backs_off() {
        let now = at(0.0);
        let automatic = [RpcReason::NeedWork, RpcReason::ResultsDue];
        let wished = Wish::ALL.map(RpcReason::Wished);
        for reason in automatic.into_iter().chain(wished) {
            for (verdict, backs_off) in [
                (WorkVerdict::NoWork, true),
                (WorkVerdict::Limited, true),
                (WorkVerdict::Deadline, true),
                (WorkVerdict::Granted(0), true),
                (WorkVerdict::Granted(1), false),
                (WorkVerdict::NoApps, true),
                (WorkVerdict::Deferred, false),
                (WorkVerdict::Stale, false),
            ] {
                let mut pairs = PairBackoffs::new(&processors());
                replied(&mut pairs, now, reason, verdict, 0.5);
                let expected = backs_off && reason.is_automatic();
                assert_eq!(
                    pairs.of(CPU).is_backed_off(now),
                    expected,
                    "{reason} {verdict}"
                );
            }
        }
        // A type that was not asked for does not back off.
        let mut pairs = PairBackoffs::new(&processors());
        let asked = SentRequest {
            reason: RpcReason::NeedWork,
            types: processors().table(&false),
        };
        let no_work = TypeReply {
            verdict: Some(WorkVerdict::NoWork),
            no_apps: false,
        };
        let reply = processors().table(&no_work);
        pairs.replied(now, &asked, &reply, &VOLUNTEER, 0.5);
        assert_eq!(pairs, PairBackoffs::new(&processors()));
    }

    #[test]
    fn a_backoff_is_not_extended_while_it_lasts() {
        let mut pairs = PairBackoffs::new(&processors());
        replied(
            &mut pairs,
            at(0.0),
            RpcReason::NeedWork,
            WorkVerdict::NoWork,
            0.5,
        );
        let before = pairs.clone();
        replied(
            &mut pairs,
            at(599.0),
            RpcReason::ResultsDue,
            WorkVerdict::NoWork,
            1.0,
        );
        assert_eq!(pairs, before);
        replied(
            &mut pairs,
            at(600.0),
            RpcReason::ResultsDue,
            WorkVerdict::NoWork,
            1.0,
        );
        assert_eq!(wait(&pairs, CPU, at(600.0)), 1800.0);
    }

    #[test]
    fn a_flag_is_taken_back_after_the_longest_backoff() {
        let mut pairs = PairBackoffs::new(&processors());
        let none = WorkVerdict::NoApps;
        replied(&mut pairs, at(1.0), RpcReason::NeedWork, none, 0.0);
        let most = VOLUNTEER.pair_backoff_max;
        pairs.distrust_old_flags(at(0.9 + most));
        assert!(pairs.of(CPU).has_no_apps());
        // The flag survives a restart, and lasts no longer for it.
        let saved = pairs.save(at(1.0), &processors());
        let mut restored = PairBackoffs::restore(at(5.0), &processors(), &saved, &VOLUNTEER);
        assert!(restored.of(CPU).has_no_apps());
        restored.distrust_old_flags(at(5.0 + most));
        assert!(!restored.of(CPU).has_no_apps());
        pairs.distrust_old_flags(at(1.0 + most));
        assert!(!pairs.of(CPU).has_no_apps());
    }

    #[test]
    fn what_clears_one_leaves_the_other() {
        let both_backed_off = || {
            let mut pairs = PairBackoffs::new(&processors());
            let asked = SentRequest {
                reason: RpcReason::NeedWork,
                types: processors().table(&true),
            };
            let no_work = TypeReply {
                verdict: Some(WorkVerdict::Limited),
                no_apps: false,
            };
            pairs.replied(
                at(0.0),
                &asked,
                &processors().table(&no_work),
                &VOLUNTEER,
                0.5,
            );
            pairs
        };
        let clear: [fn(&mut PairBackoffs); 2] = [
            |pairs| pairs.task_came(at(1.0), &uses(CPU), 1.0),
            |pairs| {
                replied(
                    pairs,
                    at(1.0),
                    RpcReason::NeedWork,
                    WorkVerdict::Granted(2),
                    0.0,
                )
            },
        ];
        for clear in clear {
            let mut pairs = both_backed_off();
            clear(&mut pairs);
            assert_eq!(
                (pairs.of(CPU).interval(), wait(&pairs, CPU, at(1.0))),
                (0.0, 0.0)
            );
            assert_eq!(wait(&pairs, CARDS, at(1.0)), 599.0);
            // The next backoff starts the table anew.
            replied(
                &mut pairs,
                at(2.0),
                RpcReason::NeedWork,
                WorkVerdict::NoWork,
                0.0,
            );
            assert_eq!(wait(&pairs, CPU, at(2.0)), 300.0);
        }
        let mut pairs = both_backed_off();
        pairs.clear_all();
        assert_eq!(pairs.next_end(at(1.0)), None);
        // A type that the worker does not have is ignored.
        pairs.task_came(at(1.0), &uses(ProcessorType(9)), 1.0);
        assert_eq!(pairs.of(ProcessorType(9)), PairBackoff::default());
    }

    /// Gives both types the credit of a lingering request for all instances.
    fn lingers(pairs: &mut PairBackoffs) {
        let mut credits = processors().table(&None);
        for of in [CPU, CARDS] {
            let demand = WorkDemand {
                instance_secs: 1000.0,
                instances: 4.0,
                idle: 4.0,
                waiting: Some(0.0),
                ..WorkDemand::none(Processor::Cpu, 4.0)
            };
            credits[of] = Credit::of(at(0.0), Duration::from_secs(120), &demand);
        }
        pairs.asked(&credits);
    }

    #[test]
    fn a_task_with_cards_costs_and_leaves_credit_of_these_alone() {
        let mut pairs = PairBackoffs::new(&processors());
        for of in [CPU, CARDS] {
            pairs.0[of.0].has_more = true;
        }
        lingers(&mut pairs);
        let untouched = pairs.of(CPU);
        let on_cards = ProcessorUsage {
            cpus: 3.0,
            cards: Some((CARDS, 4.0)),
        };
        pairs.task_came(at(1.0), &on_cards, 1.0);
        let left = |pairs: &PairBackoffs| {
            [CPU, CARDS].map(|of| {
                let credit = pairs.of(of).credit;
                credit.is_some_and(|credit| credit.covers(at(1.0), 1.0))
            })
        };
        assert_eq!(left(&pairs), [true, false]);
        pairs.gives_back(at(1.0), &on_cards, Duration::from_secs(1));
        assert_eq!(left(&pairs), [true, true]);
        assert_eq!(pairs.of(CARDS).awaits_since(), Some(at(1.0)));
        assert_eq!(pairs.of(CPU), untouched);
    }

    #[test]
    fn a_scheduler_whose_tasks_would_be_late_waits_for_a_completion() {
        for (verdict, waits) in [
            (WorkVerdict::Deadline, VOLUNTEER.pair_backoff_max),
            (WorkVerdict::Limited, VOLUNTEER.pair_backoff_min),
        ] {
            let mut pairs = PairBackoffs::new(&processors());
            let reason = RpcReason::NeedWork;
            replied(&mut pairs, at(0.0), reason, verdict, 0.5);
            pairs.ends_early(at(0.0), CPU, EndsEarly::AtAnEnd, &VOLUNTEER);
            assert_eq!(wait(&pairs, CPU, at(0.0)), waits, "{verdict}");
            pairs.task_ended(CPU);
            assert!(!pairs.of(CPU).is_backed_off(at(0.0)), "{verdict}");
        }
    }

    #[test]
    fn what_did_not_come_ends_the_backoff_and_is_not_waited_for_again() {
        for (verdict, is_cleared) in [(EndsEarly::AtAnEnd, true), (EndsEarly::Never, false)] {
            let mut pairs = PairBackoffs::new(&processors());
            lingers(&mut pairs);
            replied(
                &mut pairs,
                at(0.0),
                RpcReason::NeedWork,
                WorkVerdict::Limited,
                0.5,
            );
            pairs.ends_early(at(0.0), CPU, verdict, &VOLUNTEER);
            for _ in 0..4 {
                pairs.task_came(at(0.0), &uses(CPU), 1.0);
            }
            pairs.gives_back(at(1.0), &uses(CPU), Duration::from_secs(1));
            pairs.task_ended(CPU);
            assert!(pairs.of(CPU).is_backed_off(at(1.0)));
            assert_eq!(pairs.awaits_since(), Some(at(1.0)));
            assert!(!pairs.nothing_came(at(0.9)));
            assert!(pairs.nothing_came(at(1.0)));
            assert!(!pairs.of(CPU).is_backed_off(at(1.0)));
            assert_eq!(pairs.of(CPU).interval() == 0.0, is_cleared);
            assert_eq!((pairs.awaits_since(), pairs.of(CPU).credit()), (None, None));
            assert!(!pairs.nothing_came(at(9.0)));
        }
    }

    #[test]
    fn no_apps_holds_until_a_reply_without_it() {
        let mut pairs = PairBackoffs::new(&processors());
        let asked = SentRequest {
            reason: RpcReason::NeedWork,
            types: processors().table(&false),
        };
        let mut say = |on_cpu: bool, on_cards: bool| {
            let mut reply = processors().table(&TypeReply::default());
            reply[CPU].no_apps = on_cpu;
            reply[CARDS].no_apps = on_cards;
            pairs.replied(at(0.0), &asked, &reply, &VOLUNTEER, 0.5);
            (pairs.of(CPU).has_no_apps(), pairs.of(CARDS).has_no_apps())
        };
        assert_eq!(say(false, true), (false, true));
        assert_eq!(say(true, false), (true, false));
        assert_eq!(say(false, false), (false, false));
        // Flags for all types at once are a mistake.
        assert_eq!(say(true, true), (false, false));
        replied(
            &mut pairs,
            at(0.0),
            RpcReason::NeedWork,
            WorkVerdict::NoApps,
            0.5,
        );
        assert!(pairs.of(CPU).has_no_apps());
        pairs.clear_all();
        assert!(pairs.of(CPU).has_no_apps());
    }

    #[test]
    fn what_is_restored_belongs_to_the_same_processors() {
        let mut pairs = PairBackoffs::new(&processors());
        replied(
            &mut pairs,
            at(0.0),
            RpcReason::NeedWork,
            WorkVerdict::NoWork,
            0.5,
        );
        replied(
            &mut pairs,
            at(600.0),
            RpcReason::NeedWork,
            WorkVerdict::NoWork,
            0.5,
        );
        let saved = pairs.save(at(700.0), &processors());
        let other = Processors::new(kind("CPU"), vec![kind("H100"), kind("A100")]);
        let restored = PairBackoffs::restore(at(5.0), &other, &saved, &VOLUNTEER);
        assert_eq!(wait(&restored, CPU, at(5.0)), 1100.0);
        assert_eq!(restored.of(CPU).interval(), 1200.0);
        assert_eq!(restored.of(CARDS), PairBackoff::default());
        let nonsense = SavedPair {
            processors: "CPU".to_owned(),
            interval: f64::NAN,
            left: Some(Duration::MAX),
            no_apps: false,
        };
        let restored = PairBackoffs::restore(at(5.0), &other, &[nonsense], &VOLUNTEER);
        assert_eq!(restored.of(CPU).interval(), 0.0);
        assert_eq!(wait(&restored, CPU, at(5.0)), 129_600.0);
        let long = SavedPair {
            interval: 1e9,
            ..saved[0].clone()
        };
        let cluster = &Profile::CLUSTER;
        let restored = PairBackoffs::restore(at(5.0), &other, &[long], cluster);
        assert_eq!(restored.of(CPU).interval(), 60.0);
        assert_eq!(wait(&restored, CPU, at(5.0)), 90.0);
    }

    integration_tests_properties::properties! {
        256;

        #[test]
        fn no_delay_is_beyond_its_table_and_saved_is_what_it_was(
            said in proptest::collection::vec((0_usize..8, 0_u32..200_000, 0.0_f64..=1.0), 0..60),
        ) {
            let verdicts = [
                WorkVerdict::Granted(1), WorkVerdict::NoWork, WorkVerdict::NoWork, WorkVerdict::NoWork,
                WorkVerdict::Limited, WorkVerdict::Deadline, WorkVerdict::Deferred, WorkVerdict::NoApps,
            ];
            let mut pairs = PairBackoffs::new(&processors());
            let mut now = at(0.0);
            let mut in_vain = 0;
            for (verdict, passed, u) in said {
                now = now + Duration::from_secs(u64::from(passed));
                let was_backed_off = pairs.of(CPU).is_backed_off(now);
                let verdict = verdicts[verdict];
                replied(&mut pairs, now, RpcReason::NeedWork, verdict, u);
                match Reaction::to(verdict) {
                    Reaction::Clear => in_vain = 0,
                    Reaction::BackOff | Reaction::Flag if !was_backed_off => {
                        in_vain += 1;
                        let (_, interval, from, to) = TABLE[(in_vain - 1).min(10)];
                        prop_assert_eq!(pairs.of(CPU).interval(), interval);
                        let wait = wait(&pairs, CPU, now);
                        prop_assert!(from <= wait && wait <= to, "{wait} after {in_vain}");
                    }
                    _ => prop_assert_eq!(pairs.of(CPU).is_backed_off(now), was_backed_off),
                }
                prop_assert_eq!(pairs.of(CARDS).interval(), 0.0);
                let saved = pairs.save(now, &processors());
                let restored = PairBackoffs::restore(at(3.0), &processors(), &saved, &VOLUNTEER);
                prop_assert_eq!(restored.save(at(3.0), &processors()), saved);
            }
        }
    }
}
