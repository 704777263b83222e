//! Property tests: a worker keeps its promises for any sequence of events. The `judge` functions are the promises. `steps.rs` draws the
//! events. A new event needs a step there; a new promise needs a `judge` function here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::ids::{HEALTHCHECK_JOB, HEALTHCHECK_NEW_WORKER_NODE};
use brasserie_common::{
    CallId, CallOutcome, Health, InvocationId, ReportPolicy, ReportedStatus, RequestId,
    SchedulerId, ServiceAddress, Story, TaskKey, Time, WorkReply, WorkVerdict, WorkerId,
};
use brasserie_worker_fetch::{Preemption, Profile};
use proptest::prelude::*;

use crate::effect::{Call, Effect, Goodbye};
use crate::event::CallReply;
use crate::worker::rig::*;
use crate::{AssociationIndex, Event, LifeStage, RunTask, WorkFetch, Worker};

mod steps;

use steps::{WorkerStep, step};

/// The world around the worker, which also judges it.
struct WorkerWorld {
    rig: Rig,
    live: BTreeMap<TaskKey, InvocationId>,
    /// The run whose end is being reported. A worker that finds in the same turn that it must die kills this run in vain.
    ending: Option<(TaskKey, InvocationId)>,
    spawned: BTreeSet<InvocationId>,
    /// Denied runs, by task and invocation. A faulty scheduler may give two runs of different tasks one invocation, and then asks about
    /// only one of them.
    denied: BTreeSet<(TaskKey, InvocationId)>,
    /// Live runs that are stopped in favour of others.
    stopped: BTreeSet<InvocationId>,
    /// Runs that were resumed only to end.
    sent_off: BTreeSet<InvocationId>,
    heartbeats: Vec<CallId>,
    reports: Vec<CallId>,
    exited: bool,
}

impl WorkerWorld {
    fn new(rig: Rig) -> Self {
        WorkerWorld {
            rig,
            live: BTreeMap::new(),
            ending: None,
            spawned: BTreeSet::new(),
            denied: BTreeSet::new(),
            stopped: BTreeSet::new(),
            sent_off: BTreeSet::new(),
            heartbeats: Vec::new(),
            reports: Vec::new(),
            exited: false,
        }
    }

    fn step(&mut self, step: WorkerStep) {
        let node = |n: u8| ["a", "b", "c"][usize::from(n % 3)];
        let effects = match step {
            WorkerStep::Wait(millis) => self.rig.wait(millis),
            WorkerStep::Sleep(millis) => {
                self.rig.sleep(millis);
                return;
            }
            WorkerStep::Fetch(n) => self.rig.hear(fetch_event(n.map(scheduler))),
            WorkerStep::Run {
                n,
                node: at,
                invocation,
                sequence,
                stranger,
            } => {
                let mut wanted = run(n, sequence, task(node(at), invocation));
                // Some tasks have a short deadline.
                let little = Duration::from_secs(7);
                wanted.options.deadline = (invocation % 3 == 0).then_some(little);
                wanted.task.work.bufferable = invocation % 2 == 0;
                wanted.task.work.report = (invocation % 5 < 2).then_some(ReportPolicy::Lazy);
                if stranger {
                    wanted.worker = WorkerId::new(9, 9);
                }
                self.rig.run(wanted)
            }
            WorkerStep::Healthcheck { n, second, first } => {
                let node = if first {
                    HEALTHCHECK_NEW_WORKER_NODE
                } else {
                    ""
                };
                self.rig.run(healthcheck(n, second, node))
            }
            WorkerStep::Notify { n, sequence, tasks } => {
                let tasks = tasks.iter().map(|(at, i)| task(node(*at), *i)).collect();
                self.rig.notify(n, sequence, tasks)
            }
            WorkerStep::Kill(n, at, i) => self.rig.kill(n, node(at), i),
            WorkerStep::Suicide(n) => self.rig.suicide(n, OWN),
            WorkerStep::Shutdown => self.rig.hear(Event::Shutdown),
            WorkerStep::Drain => self.rig.hear(Event::Drain),
            WorkerStep::ConnectionLost => self.rig.hear(lost_connection()),
            WorkerStep::Answer { n, version, state } => match self.heartbeats.pop() {
                None => return,
                Some(call) => self.rig.heartbeat_answered(call.0, n, version, state),
            },
            WorkerStep::Outcome(which, what) => self.outcome(which, what),
            WorkerStep::Verdict(which, what) => self.verdict(which, what),
            WorkerStep::End(which, what) => self.end(which, what),
            WorkerStep::Stray(call, at, i) => {
                let stray = self.rig.end(node(at), 1000 + i, ReportedStatus::done());
                self.judge(stray);
                // The worker never made this call.
                self.rig.acknowledge(1_000_000 + call)
            }
        };
        self.judge(effects);
        self.ending = None;
        self.judge_queue();
        self.judge_ends();
        let timer = self.rig.next_timer();
        assert!(!self.exited || timer.is_none());
    }

    fn outcome(&mut self, which: usize, what: u8) -> Vec<Effect> {
        let calls = if what == 7 {
            &mut self.heartbeats
        } else {
            &mut self.reports
        };
        if calls.is_empty() {
            return Vec::new();
        }
        let call = calls.swap_remove(which % calls.len());
        let outcome = match what {
            0 | 7 => lost(),
            1 => refused(),
            2 => not_sent(),
            _ => CallOutcome::Done(CallReply::Acknowledged),
        };
        self.rig.completed(call.0, outcome)
    }

    /// Answers a request for work. `which` counts from the newest one.
    fn verdict(&mut self, which: usize, what: u8) -> Vec<Effect> {
        let newest = self.rig.work_requests.iter().rev();
        let Some((call, request)) = newest.clone().nth(which).cloned() else {
            return Vec::new();
        };
        let verdict = match what {
            0 | 1 => WorkVerdict::Granted(1),
            2 => WorkVerdict::NoWork,
            3 => WorkVerdict::Limited,
            4 => WorkVerdict::NoApps,
            5 => WorkVerdict::Deferred,
            6 => WorkVerdict::Pending,
            7 => WorkVerdict::Stale,
            _ => return self.rig.completed(call.0, lost()),
        };
        let reply = WorkReply::same_for_all(&request, verdict, Duration::ZERO);
        let reply = CallReply::Work(Box::new(reply));
        self.rig.completed(call.0, CallOutcome::Done(reply))
    }

    /// Checks that each request has a higher number than the one before, or is the same.
    fn judge_requests(&self) {
        for pair in self.rig.work_requests.windows(2) {
            let (before, after) = (&pair[0].1, &pair[1].1);
            assert!(before.seq <= after.seq);
            assert!(before.seq < after.seq || before.demands == after.demands);
        }
    }

    fn end(&mut self, which: usize, what: u8) -> Vec<Effect> {
        if self.live.is_empty() {
            return Vec::new();
        }
        let key = self.live.keys().nth(which % self.live.len()).cloned();
        let task = key.unwrap();
        let invocation = self.live.remove(&task).unwrap();
        self.stopped.remove(&invocation);
        self.ending = Some((task.clone(), invocation));
        let status = match what {
            0 => ReportedStatus::failed(),
            1 => ReportedStatus::incomplete_backoff("killed"),
            _ => ReportedStatus::done(),
        };
        self.rig.hear(Event::TaskEnded {
            task,
            invocation,
            status,
            story: Box::new(Story::exited(0)),
        })
    }

    fn judge(&mut self, effects: Vec<Effect>) {
        let mut resumed = None;
        for effect in effects {
            assert!(
                !self.exited || matches!(effect, Effect::Reply { .. }),
                "after the exit: {effect:?}"
            );
            match effect {
                Effect::Reply { request, .. } => assert_eq!(request, RequestId(9)),
                Effect::Call { id, call, .. } => self.judge_call(id, call),
                Effect::Spawn { run, .. } => {
                    let invocation = run.task.invocation;
                    let key = run.task.key();
                    let before = self.live.insert(key.clone(), invocation);
                    assert_eq!(before, None, "two processes of one task");
                    if !run.task.is_healthcheck() {
                        assert!(self.spawned.insert(invocation), "spawned twice");
                        let is_denied = self.denied.contains(&(key, invocation));
                        assert!(!is_denied, "spawned after denial");
                        self.judge_spawn(&run);
                    }
                    match self.rig.own().life_stage() {
                        LifeStage::Running => {}
                        LifeStage::Draining => assert!(run.task.is_healthcheck()),
                        LifeStage::Leaving | LifeStage::Dying | LifeStage::Gone => {
                            panic!("a start at the end of a life")
                        }
                    }
                }
                Effect::Kill {
                    task, invocation, ..
                } => {
                    let is_live = self.live.get(&task) == Some(&invocation);
                    assert!(!self.stopped.contains(&invocation), "it would not hear it");
                    if resumed == Some(invocation) {
                        self.sent_off.insert(invocation);
                    }
                    assert!(is_live || self.ending == Some((task, invocation)));
                }
                Effect::Suspend { task, invocation } => {
                    assert_eq!(self.live.get(&task), Some(&invocation));
                    assert!(self.stopped.insert(invocation), "stopped twice");
                }
                Effect::Resume { task, invocation } => {
                    let is_ending = self.ending == Some((task.clone(), invocation));
                    assert!(is_ending || self.live.get(&task) == Some(&invocation));
                    assert!(self.stopped.remove(&invocation), "it was not stopped");
                    resumed = Some(invocation);
                }
                Effect::NewInstance { .. } => panic!("the only association begins anew"),
                Effect::Exit { .. } => {
                    assert!(self.live.is_empty(), "processes outlive the worker");
                    self.exited = true;
                }
            }
        }
    }

    fn judge_call(&mut self, id: CallId, call: Call) {
        match call {
            Call::Heartbeat { goodbye, .. } => {
                match goodbye {
                    Goodbye::No => {}
                    Goodbye::TasksAreDead => assert!(self.live.is_empty()),
                }
                self.heartbeats.push(id);
            }
            Call::UpdateStatus { task, status, .. } => {
                self.reports.push(id);
                if status.is_overwriteable() {
                    assert!(!self.is_live(&task.key(), task.invocation));
                    self.denied.insert((task.key(), task.invocation));
                }
            }
            Call::RequestWork { .. } | Call::ReadMembers => {
                unreachable!("the rig keeps them apart")
            }
        }
    }

    /// Checks the start of a run. A task that may not be queued begins at its acceptance, so the worker is HEALTHY and bound. A queued task
    /// may begin in any state, but alone on the only processor.
    fn judge_spawn(&self, run: &RunTask) {
        let fetches = self.rig.worker.fetches_work();
        if fetches && run.task.work.bufferable {
            let others = self.live.iter().filter(|(key, invocation)| {
                !is_healthcheck(key) && !self.stopped.contains(invocation)
            });
            // A stopped task that must end may have been resumed for that.
            let ending = self
                .sent_off
                .iter()
                .filter(|one| self.live.values().any(|live| live == *one));
            assert_eq!(others.count() - ending.count(), 1, "{:?}", run.task.key());
            return;
        }
        assert_eq!(self.rig.own().health(), Health::Healthy);
        assert_eq!(Some(run.scheduler), self.rig.own().bound_to());
    }

    /// Checks that no processor is idle while a task waits for it.
    fn judge_queue(&self) {
        let is_busy = self.live.keys().any(|key| !is_healthcheck(key));
        assert!(is_busy || self.rig.worker.queued_tasks() == 0);
    }

    /// Checks that the worker keeps each completion, held or not, until its scheduler has it.
    fn judge_ends(&self) {
        let tasks = self.rig.own().tasks.iter();
        let ended = tasks.filter(|(key, task)| !task.is_open() && !is_healthcheck(key));
        assert!(ended.count() <= self.rig.own().reports.tasks_pending());
    }

    fn is_live(&self, key: &TaskKey, invocation: InvocationId) -> bool {
        self.live.get(key) == Some(&invocation)
    }
}

fn is_healthcheck(key: &TaskKey) -> bool {
    key.job.as_str() == HEALTHCHECK_JOB
}

/// Returns whether the worker has not begun to end its tasks because it must.
fn is_alive(worker: &Worker) -> bool {
    match worker.association(AssociationIndex::FIRST).life_stage() {
        LifeStage::Running | LifeStage::Draining | LifeStage::Leaving => true,
        LifeStage::Dying | LifeStage::Gone => false,
    }
}

/// The values that the time to live depends on.
struct Belief {
    until: Option<Time>,
    health: Health,
    life: LifeStage,
    scheduler: Option<SchedulerId>,
}

impl Belief {
    fn of(worker: &Worker) -> Self {
        let own = worker.association(AssociationIndex::FIRST);
        Belief {
            until: own.tasks_may_live_until(),
            health: own.health(),
            life: own.life_stage(),
            scheduler: own.scheduler(),
        }
    }
}

impl WorkerWorld {
    /// Checks that the time to live becomes earlier only for a reason.
    fn judge_time_to_live(&self, before: Belief) {
        let after = Belief::of(&self.rig.worker);
        let good = |health| match health {
            Health::MustDie => 0,
            Health::New => 1,
            Health::Unhealthy => 2,
            Health::Healthy => 3,
        };
        // If there is no time, nobody relies on the worker's end any more.
        if after.until.is_some() && after.until < before.until {
            assert!(
                good(after.health) < good(before.health)
                    || after.life != before.life
                    || after.scheduler != before.scheduler,
                "for no reason: {:?} after {:?}",
                after.until,
                before.until
            );
        }
    }
}

integration_tests_properties::properties! {
    600;

    #[test]
    fn promises_hold(
        joined in proptest::bool::weighted(0.8),
        fetches in any::<bool>(),
        preempts in any::<bool>(),
        steps in proptest::collection::vec(step(), 0..120),
    ) {
        let preemption = if preempts { Preemption::Suspend } else { Preemption::Off };
        let work_fetch = fetches.then(|| WorkFetch {
            preemption,
            ..WorkFetch::new(Profile::CLUSTER, 1)
        });
        let rig = Rig::with(|options| {
            options.work_fetch = work_fetch;
            options.associations[0].members = vec![ServiceAddress { host: "scheduler".into(), port: 1 }];
        });
        let rig = if joined { rig.join() } else { rig };
        let mut world = WorkerWorld::new(rig);
        world.step(WorkerStep::Wait(500));
        prop_assert_eq!(!world.rig.work_requests.is_empty(), joined && fetches);
        for step in steps {
            world.step(step);
        }
        world.judge_requests();
        prop_assert_eq!(world.rig.worker.live_processes(), world.live.len());
        // The rate limit holds for any haste: at most twenty heartbeats in any second.
        for beats in world.rig.beats.windows(21) {
            prop_assert!(beats[20].since(beats[0]) >= Duration::from_secs(1));
        }
    }

    #[test]
    fn the_time_to_live_is_when_a_worker_that_hears_nothing_more_dies(
        joined in proptest::bool::weighted(0.8),
        steps in proptest::collection::vec(step(), 0..60),
        looks in proptest::collection::vec(0_u64..400_000, 0..6),
    ) {
        let rig = if joined { Rig::joined() } else { Rig::new() };
        let mut world = WorkerWorld::new(rig);
        for step in steps {
            let before = Belief::of(&world.rig.worker);
            world.step(step);
            world.judge_time_to_live(before);
        }
        let rig = &mut world.rig;
        // The worker notices the changes that it slept through.
        rig.wait(0);
        let Some(until) = rig.own().tasks_may_live_until() else {
            return Ok(());
        };
        if rig.own().life_stage() == LifeStage::Dying {
            prop_assert!(until <= rig.now());
            return Ok(());
        }
        // Such a worker says goodbye by time alone.
        if rig.own().life_stage() == LifeStage::Leaving && rig.worker.live_processes() == 0 {
            return Ok(());
        }
        // Time alone changes nothing, however often the worker checks.
        for millis in looks {
            if rig.now() + Duration::from_millis(millis) < until {
                rig.wait(millis);
                prop_assert!(is_alive(&rig.worker));
                prop_assert_eq!(rig.own().tasks_may_live_until(), Some(until));
            }
        }
        // The worker dies neither a nanosecond earlier nor later, whether or not it checked before.
        let mut paused = rig.worker.clone();
        paused.handle_timeout(until);
        prop_assert!(!is_alive(&paused));
        rig.worker.handle_timeout(until - Duration::from_nanos(1));
        prop_assert!(is_alive(&rig.worker));
        rig.worker.handle_timeout(until);
        prop_assert!(!is_alive(&rig.worker));
    }

    #[test]
    fn equal_histories_have_equal_fingerprints_at_any_time(steps in proptest::collection::vec(step(), 0..30), later in 0_u64..1_000_000) {
        let mut shifted = Rig::shifted(later);
        let mut world = WorkerWorld::new(Rig::new());
        world.rig.wait(0);
        shifted.wait(0);
        let mut other = WorkerWorld::new(shifted);
        for step in steps {
            world.step(step.clone());
            other.step(step);
        }
        prop_assert_eq!(world.rig.worker.fingerprint(), other.rig.worker.fingerprint());
    }
}

#[test]
fn a_denied_run_keeps_no_other_task_of_the_same_invocation_from_its_turn() {
    let rig = Rig::with(|options| {
        options.work_fetch = Some(WorkFetch::new(Profile::CLUSTER, 1));
    });
    let mut world = WorkerWorld::new(rig.join());
    let run = |node, invocation| WorkerStep::Run {
        n: 1,
        node,
        invocation,
        sequence: 0,
        stranger: false,
    };
    world.step(run(0, 6));
    world.step(run(1, 4));
    let tasks = vec![(2, 4)];
    let (n, sequence) = (1, 1);
    world.step(WorkerStep::Notify { n, sequence, tasks });
    world.step(WorkerStep::End(0, 2));
    assert_eq!(world.rig.worker.live_processes(), 1);
    assert!(world.live.contains_key(&key("b")));
}
