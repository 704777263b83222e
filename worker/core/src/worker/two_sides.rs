//! Property tests of a worker with its scheduler's health model, where messages are late or lost. The worker must give up no later than the
//! safety margin after the scheduler.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::health::FirstHealth;
use brasserie_common::ids::HEALTHCHECK_NEW_WORKER_NODE;
use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{CallId, CallOutcome, Health, HealthModel, ReportedStatus, Time, Timeouts};
use integration_tests_properties::{check, place};
use proptest::prelude::*;

use crate::LifeStage;
use crate::effect::{Call, Effect};
use crate::event::CallReply;
use crate::worker::rig::*;

/// One random event. The number picks one of the messages in flight.
#[derive(Clone, Debug)]
enum TwoSidesStep {
    /// Thousandths of the longest wait.
    Wait(u32),
    HeartbeatArrives(usize),
    AnswerArrives(usize),
    /// The flag says whether the sender learns of the loss. If not, the call times out.
    HeartbeatIsLost(usize, bool),
    AnswerIsLost(usize, bool),
    /// The flag says whether the answer arrives, too.
    Fetch(bool),
    HealthcheckLeaves,
    HealthcheckArrives(usize),
    HealthcheckIsLost(usize),
    StatusArrives(usize),
    AcknowledgementArrives(usize),
    AcknowledgementIsLost(usize),
    FirstHealth(bool),
    /// The worker was bound to another scheduler for a while.
    BeginsAnew,
    Restarts,
}

fn step() -> impl Strategy<Value = TwoSidesStep> {
    let which = || 0_usize..4;
    prop_oneof![
        20 => (0_u32..1000).prop_map(|part| TwoSidesStep::Wait(part * part / 1000)),
        20 => which().prop_map(TwoSidesStep::HeartbeatArrives),
        20 => which().prop_map(TwoSidesStep::AnswerArrives),
        3 => (which(), any::<bool>()).prop_map(|(i, told)| TwoSidesStep::HeartbeatIsLost(i, told)),
        4 => (which(), any::<bool>()).prop_map(|(i, told)| TwoSidesStep::AnswerIsLost(i, told)),
        6 => any::<bool>().prop_map(TwoSidesStep::Fetch),
        8 => Just(TwoSidesStep::HealthcheckLeaves),
        8 => which().prop_map(TwoSidesStep::HealthcheckArrives),
        1 => which().prop_map(TwoSidesStep::HealthcheckIsLost),
        8 => which().prop_map(TwoSidesStep::StatusArrives),
        8 => which().prop_map(TwoSidesStep::AcknowledgementArrives),
        1 => which().prop_map(TwoSidesStep::AcknowledgementIsLost),
        2 => proptest::bool::weighted(0.8).prop_map(TwoSidesStep::FirstHealth),
        2 => Just(TwoSidesStep::BeginsAnew),
        1 => proptest::bool::weighted(0.5)
            .prop_map(|yes| if yes { TwoSidesStep::Restarts } else { TwoSidesStep::HealthcheckLeaves }),
    ]
}

/// The scheduler's flags, the worker's heartbeat period, and the longest wait between two events.
#[derive(Clone, Debug)]
struct Flags {
    timeouts: Timeouts,
    period: Duration,
    longest_wait: Duration,
    /// The scheduler reports for how long it has counted.
    says_how_long: bool,
}

fn flags() -> impl Strategy<Value = Flags> {
    let seconds = Duration::from_secs;
    let shortest = Timeouts {
        heartbeat_grace_period: seconds(1),
        healthcheck_period: seconds(1),
        healthcheck_grace_period: seconds(1),
        lose_unhealthy_worker_after: seconds(1),
        worker_check_interval: seconds(1),
        suicide_backoff_safety_margin: seconds(1),
        ..Timeouts::default()
    };
    let impatient = Timeouts {
        lose_unhealthy_worker_after: seconds(10),
        ..Timeouts::default()
    };
    let timeouts = prop_oneof![
        Just((Timeouts::default(), seconds(120))),
        Just((shortest, seconds(1))),
        Just((impatient, seconds(40))),
    ];
    let period = prop_oneof![Just(1), Just(15), Just(300)];
    (timeouts, period, any::<bool>()).prop_map(
        |((timeouts, longest_wait), period, says_how_long)| Flags {
            timeouts: timeouts.clamped(),
            period: Duration::from_secs(period),
            longest_wait,
            says_how_long,
        },
    )
}

struct Sides {
    rig: Rig,
    flags: Flags,
    /// The number of the scheduler instance.
    n: i64,
    /// The scheduler's view, from the first heartbeat that arrives.
    model: Option<HealthModel>,
    first: FirstHealth,
    lost_at: Option<Time>,
    was_healthy: bool,
    /// No healthcheck has counted yet. Only healthchecks can be fresher on the worker than on the scheduler.
    is_unchecked: bool,
    heartbeats: Vec<CallId>,
    answers: Vec<(CallId, HeartbeatResponse)>,
    healthchecks: Vec<(i64, Time)>,
    next_healthcheck: i64,
    /// The times at which healthchecks were sent.
    open: BTreeMap<i64, Time>,
    /// The acceptance times of healthchecks whose `runTask` was answered in time.
    accepted: BTreeMap<i64, Time>,
    statuses: Vec<(CallId, i64)>,
    acknowledgements: Vec<CallId>,
}

fn take<T>(from: &mut Vec<T>, which: usize) -> Option<T> {
    (!from.is_empty()).then(|| from.remove(which % from.len()))
}

impl Sides {
    fn new(flags: Flags) -> Self {
        let period = flags.period;
        Sides {
            rig: Rig::with(|options| options.description.heartbeat_period = period),
            flags,
            n: 1,
            model: None,
            first: FirstHealth::Permitted,
            lost_at: None,
            was_healthy: false,
            is_unchecked: true,
            heartbeats: Vec::new(),
            answers: Vec::new(),
            healthchecks: Vec::new(),
            next_healthcheck: 1,
            open: BTreeMap::new(),
            accepted: BTreeMap::new(),
            statuses: Vec::new(),
            acknowledgements: Vec::new(),
        }
    }

    fn step(&mut self, step: TwoSidesStep) {
        match step {
            TwoSidesStep::Wait(part) => self.wait(self.flags.longest_wait * part / 1000),
            TwoSidesStep::HeartbeatArrives(which) => self.heartbeat_arrives(which),
            TwoSidesStep::AnswerArrives(which) => {
                if let Some((call, answer)) = take(&mut self.answers, which) {
                    let reply = CallReply::Heartbeat(Box::new(answer));
                    self.outcome(call, CallOutcome::Done(reply));
                }
            }
            TwoSidesStep::HeartbeatIsLost(which, is_told) => {
                let call = take(&mut self.heartbeats, which).filter(|_| is_told);
                call.into_iter().for_each(|call| self.outcome(call, lost()));
            }
            TwoSidesStep::AnswerIsLost(which, is_told) => {
                let answer = take(&mut self.answers, which).filter(|_| is_told);
                answer
                    .into_iter()
                    .for_each(|(call, _)| self.outcome(call, lost()));
            }
            TwoSidesStep::Fetch(is_answered) => self.fetch(is_answered),
            TwoSidesStep::HealthcheckLeaves => self.healthcheck_leaves(),
            TwoSidesStep::HealthcheckArrives(which) => self.healthcheck_arrives(which),
            TwoSidesStep::HealthcheckIsLost(which) => drop(take(&mut self.healthchecks, which)),
            TwoSidesStep::StatusArrives(which) => self.status_arrives(which),
            TwoSidesStep::AcknowledgementArrives(which) => {
                if let Some(call) = take(&mut self.acknowledgements, which) {
                    self.outcome(call, CallOutcome::Done(CallReply::Acknowledged));
                }
            }
            TwoSidesStep::AcknowledgementIsLost(which) => {
                take(&mut self.acknowledgements, which);
            }
            TwoSidesStep::FirstHealth(is_permitted) => {
                self.first = match is_permitted {
                    true => FirstHealth::Permitted,
                    false => FirstHealth::Withheld,
                };
            }
            TwoSidesStep::BeginsAnew => self.begins_anew(),
            TwoSidesStep::Restarts => {
                self.n += 1;
                self.model = None;
                self.lost_at = None;
                self.was_healthy = false;
                self.is_unchecked = true;
                self.open.clear();
                self.accepted.clear();
            }
        }
        self.look();
        self.judge();
    }

    /// Moves the clock, and handles each timer of both sides when it is due.
    fn wait(&mut self, wait: Duration) {
        let end = self.rig.now() + wait;
        loop {
            let now = self.rig.now();
            let worker = self.rig.worker.poll_timeout();
            let next = [worker, self.next_look(), Some(end)];
            let next = next.into_iter().flatten().filter(|at| *at > now).min();
            let Some(next) = next.filter(|at| *at <= end) else {
                break;
            };
            let effects = self.rig.wait_until(next);
            self.absorb(effects);
            self.look();
            self.judge();
        }
    }

    fn gaps(&self) -> brasserie_common::health::Gaps {
        self.flags.timeouts.scheduler_gaps(self.flags.period)
    }

    fn next_look(&self) -> Option<Time> {
        let (model, gaps) = (self.model?, self.gaps());
        let just_after = |at: Time| at + Duration::from_nanos(1);
        let heartbeat = model
            .last_heartbeat()
            .map(|at| just_after(at + gaps.max_heartbeat));
        let healthcheck = model.last_good_healthcheck();
        let healthcheck = healthcheck.map(|at| just_after(at + gaps.max_healthcheck));
        let all = [model.next_change(gaps), heartbeat, healthcheck];
        all.into_iter()
            .flatten()
            .filter(|at| *at > self.rig.now())
            .min()
    }

    /// Judges the worker's health as the scheduler does after each event and timer.
    fn look(&mut self) {
        let (now, gaps, first) = (self.rig.now(), self.gaps(), self.first);
        let Some(model) = &mut self.model else {
            return;
        };
        let health = model.next(now, gaps, first).health;
        model.adopt(now, health);
        self.was_healthy |= health == Health::Healthy;
        if health == Health::MustDie && self.lost_at.is_none() {
            self.lost_at = Some(now);
        }
    }

    /// Checks that a worker of this scheduler begins to end itself within the safety margin after its loss. If no healthcheck has counted,
    /// it must begin at the loss.
    fn judge(&self) {
        let Some(lost_at) = self.lost_at else { return };
        let worker = self.rig.own();
        match worker.life_stage() {
            LifeStage::Dying | LifeStage::Gone => return,
            LifeStage::Running | LifeStage::Draining | LifeStage::Leaving => {}
        }
        if worker.scheduler() != Some(scheduler(self.n)) {
            return;
        }
        let until = worker
            .tasks_may_live_until()
            .expect("it is in an association");
        let late = match self.is_unchecked {
            true => Duration::ZERO,
            false => self.flags.timeouts.suicide_backoff_safety_margin,
        };
        let limit = lost_at + late;
        assert!(
            until <= limit,
            "{:?} too late: {worker:?}",
            until.since(limit)
        );
        assert_ne!(worker.health(), Health::Healthy);
    }

    fn absorb(&mut self, effects: Vec<Effect>) {
        let mut effects = std::collections::VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Call { id, call, .. } => match call {
                    Call::Heartbeat { .. } => self.heartbeats.push(id),
                    Call::UpdateStatus { task, .. } => {
                        self.statuses.push((id, task.invocation.0.start_time));
                    }
                    Call::RequestWork { .. } | Call::ReadMembers => panic!("it fetches no work"),
                },
                Effect::Spawn { run, .. } => {
                    let ended = self
                        .rig
                        .end_healthcheck((*run).clone(), ReportedStatus::done());
                    effects.extend(ended);
                }
                _ => {}
            }
        }
    }

    fn outcome(&mut self, call: CallId, outcome: CallOutcome<CallReply>) {
        let effects = self.rig.completed(call.0, outcome);
        self.absorb(effects);
    }

    fn heartbeat_arrives(&mut self, which: usize) {
        let Some(call) = take(&mut self.heartbeats, which) else {
            return;
        };
        self.look();
        let now = self.rig.now();
        let model = self.model.get_or_insert(HealthModel::new(now));
        model.heartbeat(now);
        self.look();
        let state = self.model.map_or(Health::New, |model| model.health());
        let told = self.model.filter(|_| self.flags.says_how_long);
        let timeouts = self.flags.timeouts;
        let answer = HeartbeatResponse {
            max_healthcheck_gap: timeouts.max_healthcheck_gap(),
            heartbeat_grace_period: timeouts.heartbeat_grace_period,
            lose_unhealthy_worker_after: timeouts.lose_unhealthy_worker_after,
            worker_check_interval: timeouts.worker_check_interval,
            not_healthy_for: told.and_then(|model| model.not_healthy_for(now)),
            ..response(self.n, 1, state)
        };
        self.answers.push((call, answer));
    }

    fn fetch(&mut self, is_answered: bool) {
        let effects = self.rig.fetch(self.n);
        let is_refused = effects
            .iter()
            .any(|e| matches!(e, Effect::Reply { reply: Err(_), .. }));
        self.absorb(effects);
        let now = self.rig.now();
        if let Some(model) = &mut self.model
            && is_answered
            && !is_refused
            && model.health() == Health::New
        {
            model.adopt(now, Health::Unhealthy);
        }
    }

    fn healthcheck_leaves(&mut self) {
        let now = self.rig.now();
        if self.model.is_some() && self.lost_at.is_none() {
            self.healthchecks.push((self.next_healthcheck, now));
            self.open.insert(self.next_healthcheck, now);
            self.next_healthcheck += 1;
        }
    }

    /// Delivers a healthcheck. The answer takes no time, so the acceptance is as late as the scheduler's record permits.
    fn healthcheck_arrives(&mut self, which: usize) {
        let Some((id, _)) = take(&mut self.healthchecks, which) else {
            return;
        };
        let is_new = self.model.is_none_or(|model| model.health() == Health::New);
        let node = if is_new {
            HEALTHCHECK_NEW_WORKER_NODE
        } else {
            ""
        };
        let effects = self.rig.run(healthcheck(self.n, id, node));
        self.accepted.insert(id, self.rig.now());
        self.absorb(effects);
    }

    fn status_arrives(&mut self, which: usize) {
        let Some((call, id)) = take(&mut self.statuses, which) else {
            return;
        };
        let now = self.rig.now();
        match &mut self.model {
            Some(model) if self.lost_at.is_none() => {
                if let Some(sent) = self.open.get(&id) {
                    model.good_healthcheck(*sent);
                }
                model.acknowledged_healthcheck(self.accepted.get(&id).copied().unwrap_or(now));
                self.is_unchecked = false;
                self.acknowledgements.push(call);
            }
            Some(_) | None => self.outcome(call, refused()),
        }
    }

    fn begins_anew(&mut self) {
        let (now, gaps) = (self.rig.now(), self.gaps());
        if let Some(model) = &mut self.model
            && matches!(model.health(), Health::Healthy | Health::Unhealthy)
        {
            model.begin_anew(now, gaps);
            self.open.clear();
            self.accepted.clear();
        }
    }
}

/// The direction in which messages still arrive at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Both,
    ToWorker,
    ToScheduler,
    /// Only healthchecks do not arrive.
    Healthchecks,
}

impl Sides {
    /// Runs on with `cut` as the only loss, until the scheduler has lost the worker or enough time has passed.
    fn end_with(&mut self, cut: Cut) {
        let (to_worker, to_scheduler) = match cut {
            Cut::Both => (false, false),
            Cut::ToWorker => (false, true),
            Cut::ToScheduler => (true, false),
            Cut::Healthchecks => (true, true),
        };
        for _ in 0..200 {
            self.step(TwoSidesStep::Wait(100));
            self.step(TwoSidesStep::HealthcheckLeaves);
            if to_scheduler {
                self.step(TwoSidesStep::HeartbeatArrives(0));
                self.step(TwoSidesStep::StatusArrives(0));
            }
            if to_worker {
                self.step(TwoSidesStep::Fetch(to_scheduler));
                self.step(TwoSidesStep::AnswerArrives(0));
                self.step(TwoSidesStep::AcknowledgementArrives(0));
            }
            if to_worker && cut != Cut::Healthchecks {
                self.step(TwoSidesStep::HealthcheckArrives(0));
            }
            if self.lost_at.is_some() {
                break;
            }
        }
        // The remaining answers may arrive late.
        while !self.answers.is_empty() || !self.acknowledgements.is_empty() {
            self.step(TwoSidesStep::AnswerArrives(0));
            self.step(TwoSidesStep::AcknowledgementArrives(0));
        }
    }
}

/// Returns the steps of a join without failures.
fn joining() -> Vec<TwoSidesStep> {
    vec![
        TwoSidesStep::HeartbeatArrives(0),
        TwoSidesStep::AnswerArrives(0),
        TwoSidesStep::Fetch(true),
        TwoSidesStep::HealthcheckLeaves,
        TwoSidesStep::HealthcheckArrives(0),
        TwoSidesStep::StatusArrives(0),
        TwoSidesStep::AcknowledgementArrives(0),
        TwoSidesStep::HeartbeatArrives(0),
        TwoSidesStep::AnswerArrives(0),
    ]
}

fn cut() -> impl Strategy<Value = Cut> {
    prop_oneof![
        Just(Cut::Both),
        Just(Cut::ToWorker),
        Just(Cut::ToScheduler),
        Just(Cut::Healthchecks)
    ]
}

/// Returns a worker and a scheduler that are associated. Heartbeats leave every `period` seconds.
fn joined(period: u64, before: &[TwoSidesStep]) -> Sides {
    let mut sides = Sides::new(Flags {
        timeouts: Timeouts::default().clamped(),
        period: Duration::from_secs(period),
        longest_wait: Duration::from_secs(100),
        says_how_long: false,
    });
    let effects = sides.rig.wait(0);
    sides.absorb(effects);
    for step in before.iter().cloned().chain(joining()) {
        sides.step(step);
    }
    sides
}

/// Lets the scheduler begin the association anew. After that, the worker receives only the acknowledgement of the last healthcheck. Each
/// step checks that the worker gives up first.
fn begin_anew_and_cut(mut sides: Sides) {
    sides.step(TwoSidesStep::HealthcheckLeaves);
    sides.step(TwoSidesStep::HealthcheckArrives(0));
    sides.step(TwoSidesStep::BeginsAnew);
    sides.step(TwoSidesStep::StatusArrives(0));
    sides.step(TwoSidesStep::AcknowledgementArrives(0));
    sides.end_with(Cut::Both);
    assert!(sides.lost_at.is_some());
}

#[test]
fn a_check_acknowledged_after_a_new_beginning_keeps_an_unhealthy_worker_alive_no_longer() {
    let mut sides = joined(300, &[]);
    sides.step(TwoSidesStep::Wait(1000));
    sides.step(TwoSidesStep::Wait(251));
    assert_eq!(
        sides.model.map(|model| model.health()),
        Some(Health::Unhealthy)
    );
    begin_anew_and_cut(sides);
}

#[test]
fn a_new_beginning_does_not_lose_a_worker_that_was_long_withheld_before_it_ends_itself() {
    let mut sides = joined(15, &[TwoSidesStep::FirstHealth(false)]);
    // Each wait is shorter than the deadline of a call.
    for _ in 0..62 {
        sides.step(TwoSidesStep::Wait(90));
        sides.step(TwoSidesStep::HealthcheckLeaves);
        sides.step(TwoSidesStep::HealthcheckArrives(0));
        sides.step(TwoSidesStep::StatusArrives(0));
        sides.step(TwoSidesStep::AcknowledgementArrives(0));
        sides.step(TwoSidesStep::HeartbeatArrives(0));
        sides.step(TwoSidesStep::AnswerArrives(0));
    }
    assert_eq!(sides.lost_at, None);
    assert!(!sides.was_healthy);
    begin_anew_and_cut(sides);
}

mod property {
    use super::*;

    #[test]
    fn the_worker_is_at_its_end_no_later_than_the_safety_margin_after_its_scheduler() {
        let (judged, was_healthy) = (Cell::new(0), Cell::new(0));
        let strategy = (
            flags(),
            proptest::bool::weighted(0.7),
            proptest::collection::vec(step(), 0..80),
            cut(),
        );
        let place =
            place!(the_worker_is_at_its_end_no_later_than_the_safety_margin_after_its_scheduler);
        let names = "flags, joins, steps, cut";
        let cases = check(place, 500, names, strategy, |(flags, joins, steps, cut)| {
            let mut sides = Sides::new(flags);
            let effects = sides.rig.wait(0);
            sides.absorb(effects);
            for step in joining().into_iter().filter(|_| joins) {
                sides.step(step);
            }
            for step in steps {
                sides.step(step);
            }
            sides.end_with(cut);
            let has_heard = sides.rig.own().scheduler() == Some(scheduler(sides.n));
            if has_heard && sides.lost_at.is_some() {
                judged.set(judged.get() + 1);
                was_healthy.set(was_healthy.get() + u32::from(sides.was_healthy));
            }
            Ok(())
        });
        // Enough cases reached a loss.
        assert!(judged.get() > 150 || cases.is_one, "{}", judged.get());
        assert!(
            was_healthy.get() > 50 || cases.is_one,
            "{}",
            was_healthy.get()
        );
    }
}
