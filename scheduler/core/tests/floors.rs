//! Random histories of one task whose runs several workers report. The task must never start while one of these runs may be alive.

#[expect(dead_code, reason = "other tests use the rest")]
mod support;

use std::time::Duration;

use brasserie_common::status::StoredStatus;
use brasserie_common::{
    CallId, CallOutcome, InvocationId, Principal, RefusalCode, ReportedStatus, RunningTask,
    TaskKey, Time, Timeouts, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_scheduler_core::{Call, CallReply, Durable, Event, JobChange, Options, Record};

use support::{EPOCH, Script, listed, one_job, options, worker};

const TICK: Duration = Duration::from_secs(1);
/// Time within which the call is answered, before the core abandons it.
const ANSWERED_WITHIN: Duration = Duration::from_secs(3);
/// The longest wait: the longest safety wait of a worker that went unseen, plus a backoff.
const LONGEST: Duration = Duration::from_secs(900);
const RETRY: &str = r#", "backoff": [1, 3, "fail"]"#;

/// The most known runs of the task, fewer than the core remembers for one task.
const MOST_KNOWN: usize = 12;

/// A run that a worker has listed.
struct Other {
    worker: WorkerDescription,
    run: RunningTask,
    state: OtherState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherState {
    /// The scheduler knows it as running.
    Known,
    /// Its worker was lost, at this time at the earliest.
    Lost(Time),
    /// Its worker has reported its completion.
    Ended,
}

/// The run that the scheduler started on the worker that stays all the time.
struct Own {
    call: CallId,
    run: RunningTask,
    since: Time,
    is_answered: bool,
}

struct World {
    s: Script,
    main: WorkerDescription,
    others: Vec<Other>,
    own: Option<Own>,
    /// Number of records that are checked.
    seen: usize,
}

fn wishes() -> Options {
    Options {
        timeouts: Timeouts {
            lose_unhealthy_worker_after: Duration::from_secs(20),
            ..options().timeouts
        },
        ..options()
    }
}

impl World {
    fn new() -> Self {
        let mut s = Script::new(wishes(), Durable::default());
        s.load(one_job(1, RETRY));
        let main = worker("main", 1, 10);
        s.join(&main);
        let mut world = World {
            s,
            main,
            others: Vec::new(),
            own: None,
            seen: 0,
        };
        world.look();
        world
    }

    fn step(&mut self, kind: u8, pick: usize) {
        match kind {
            0 | 1 => self.list(pick),
            2 | 3 => self.displace(pick),
            4 | 5 => self.end_other(pick),
            6 | 7 => self.refuse(),
            8 => self.end_own(pick),
            9 => self.wish(JobChange::DeleteHistory { nodes: Vec::new() }),
            10 => self.wish(JobChange::Forgive),
            11 => self.s.clock_is_ahead = Duration::from_secs(1000 * (pick as u64 % 5)),
            12 => self.restart(),
            _ => {
                for _ in 0..pick % 40 {
                    self.tick();
                }
            }
        }
        self.look();
    }

    /// A worker that was unknown lists a run, earlier or later than all runs that this scheduler starts.
    fn list(&mut self, pick: usize) {
        let known = self.others.iter().filter(|o| o.state == OtherState::Known);
        if known.count() >= MOST_KNOWN {
            return;
        }
        let n = i64::try_from(self.others.len()).expect("a few");
        let start = if pick.is_multiple_of(2) {
            100
        } else {
            EPOCH * 2
        };
        let shard = format!("other{n}");
        let worker = worker(&shard, 100 + n as i32, 1000 + n);
        let run = listed(&shard, "n0", InvocationId::new(start + n, n));
        let told = self.s.heartbeat(&worker, WorkerSetId::default());
        let told = told.expect("a free shard").worker_set;
        self.answer_fetches(worker.id, vec![run.clone()]);
        self.s.heartbeat(&worker, told).expect("it is known");
        self.others.push(Other {
            worker,
            run,
            state: OtherState::Known,
        });
    }

    fn answer_fetches(&mut self, of: WorkerId, tasks: Vec<RunningTask>) {
        let is_fetch =
            |call: &Call| matches!(call, Call::GetRunningTasks { worker, .. } if *worker == of);
        if let Some((call, _)) = self.s.take_call(is_fetch) {
            let tasks = CallReply::RunningTasks(tasks);
            self.s.complete(call, CallOutcome::Done(tasks));
        }
    }

    /// A successor on the same machine takes the shard.
    fn displace(&mut self, pick: usize) {
        let known = self.others.iter().filter(|o| o.state == OtherState::Known);
        let known: Vec<WorkerDescription> = known.map(|other| other.worker.clone()).collect();
        if known.is_empty() {
            return;
        }
        let before = &known[pick % known.len()];
        let successor = WorkerDescription {
            id: WorkerId::new(5000, i64::from(before.machine_lock.port)),
            ..before.clone()
        };
        let heard = self.s.heartbeat(&successor, WorkerSetId::default());
        heard.expect("it takes the shard");
        self.answer_fetches(successor.id, Vec::new());
    }

    /// A worker reports the completion of its run, whether or not it is cut off.
    fn end_other(&mut self, pick: usize) {
        if self.others.is_empty() {
            return;
        }
        let at = pick % self.others.len();
        let (worker, run) = (self.others[at].worker.clone(), self.others[at].run.clone());
        if self.others[at].state == OtherState::Ended {
            return;
        }
        let status = match pick % 7 {
            0 => ReportedStatus::done(),
            1 => ReportedStatus::failed(),
            2 => ReportedStatus::incomplete(),
            _ => ReportedStatus::error_backoff("no"),
        };
        // The run is dead from here on, whether or not the report is accepted.
        let _ = self.s.update(&worker, &run, status);
        self.others[at].state = OtherState::Ended;
    }

    fn refuse(&mut self) {
        if let Some(own) = self.own.take_if(|own| !own.is_answered) {
            let refused = CallOutcome::Refused(RefusalCode::Busy, "no room".to_owned());
            self.s.complete(own.call, refused);
        }
    }

    fn answer_start(&mut self) {
        if let Some(own) = self.own.as_mut().filter(|own| !own.is_answered) {
            own.is_answered = true;
            let (call, taken) = (own.call, CallOutcome::Done(CallReply::Empty));
            self.s.complete(call, taken);
        }
    }

    fn end_own(&mut self, pick: usize) {
        self.answer_start();
        if let Some(own) = self.own.take() {
            let status = match pick % 5 {
                0 => ReportedStatus::done(),
                1 => ReportedStatus::incomplete(),
                _ => ReportedStatus::error_backoff("no"),
            };
            assert_eq!(self.s.update(&self.main, &own.run, status).1, Ok(()));
        }
    }

    fn wish(&mut self, change: JobChange) {
        let request = self.s.request();
        let job = "j".try_into().expect("a name");
        self.s.event(Event::ChangeJob {
            request,
            from: Principal::Own,
            job,
            change,
        });
    }

    /// Restarts the scheduler if the next one would know of every live run.
    fn restart(&mut self) {
        let is_known = |other: &Other| other.state == OtherState::Known;
        if self.own.is_some() || self.others.iter().any(is_known) {
            return;
        }
        let options = Options {
            startup_wait: Some(Duration::ZERO),
            new_cluster: false,
            ..wishes()
        };
        let ahead = self.s.clock_is_ahead;
        let durable = std::mem::take(&mut self.s.durable);
        self.s = Script::at(options, durable, self.s.now);
        self.s.clock_is_ahead = ahead;
        self.seen = 0;
        self.s.load(one_job(1, RETRY));
        self.s.join(&self.main);
    }

    /// Lets time pass while the permanent worker does what keeps it healthy.
    fn tick(&mut self) {
        let now = self.s.now;
        let is_late = |own: &Own| now.since(own.since) >= ANSWERED_WITHIN;
        if self.own.as_ref().is_some_and(is_late) {
            self.answer_start();
        }
        self.s.advance(TICK);
        let main = self.main.id;
        let is_due = |call: &Call| matches!(call, Call::Healthcheck(run) if run.worker == main);
        if self.s.calls.iter().any(|(_, _, call)| is_due(call)) {
            self.s.answer_healthcheck(&self.main.clone());
        }
        self.s.echo(&self.main.clone());
        self.look();
    }

    /// Checks that the task starts again once every run has completed, or is lost for longer than it can live, unless the task has ended
    /// for good.
    fn ends_well(&mut self) {
        for at in 0..self.others.len() {
            if self.others[at].state == OtherState::Known {
                let (worker, run) = (self.others[at].worker.clone(), self.others[at].run.clone());
                let _ = self.s.update(&worker, &run, ReportedStatus::incomplete());
                self.others[at].state = OtherState::Ended;
                self.look();
            }
        }
        for _ in 0..LONGEST.as_secs() {
            if self.own.is_some() {
                return;
            }
            self.tick();
        }
        let key = self.main_task();
        let status = self.s.durable.statuses.get(&key);
        let is_over = |s: &StoredStatus| s.is_done() || s.is_failed();
        assert!(
            self.own.is_some() || status.is_some_and(|(_, status)| is_over(status)),
            "it never starts again after {status:?}"
        );
    }

    fn main_task(&self) -> TaskKey {
        TaskKey {
            job: "j".try_into().expect("a name"),
            node: "n0".try_into().expect("a name"),
        }
    }

    /// Checks which workers were lost, and whether the task has started.
    fn look(&mut self) {
        // All new records were written since the last tick.
        let now = self.s.now;
        let earliest = Time::ZERO + now.since(Time::ZERO + TICK);
        for record in &self.s.records[self.seen..] {
            let Record::WorkerLeft { worker, .. } = record else {
                continue;
            };
            let lost = self.others.iter_mut().find(|o| o.worker.id == *worker);
            if let Some(lost) = lost.filter(|other| other.state == OtherState::Known) {
                lost.state = OtherState::Lost(earliest);
            }
        }
        self.seen = self.s.records.len();
        if self.own.is_some() || self.s.starts().is_empty() {
            return;
        }
        let (call, run, _) = self.s.take_start();
        assert!(self.s.starts().is_empty(), "one run at a time");
        for other in &self.others {
            let kill_wait = other.run.suicide_kill_wait;
            let safety = wishes().timeouts.lost_task_min_backoff(kill_wait);
            let may_be_alive = match other.state {
                OtherState::Known => true,
                OtherState::Lost(at) => now < at + safety,
                OtherState::Ended => false,
            };
            assert!(
                !may_be_alive,
                "starts at {now:?} beside run {}, which is {:?}",
                other.run.invocation, other.state
            );
        }
        self.own = Some(Own {
            call,
            run,
            since: now,
            is_answered: false,
        });
    }
}

integration_tests_properties::properties! {
    512;

    #[test]
    fn a_task_does_not_start_while_a_run_of_it_may_be_alive(
        steps in proptest::collection::vec((0u8..16, 0usize..1000), 1..40),
    ) {
        let mut world = World::new();
        for (kind, pick) in steps {
            world.step(kind, pick);
        }
        world.ends_well();
    }
}
