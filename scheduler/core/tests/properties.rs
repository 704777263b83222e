//! Random histories of workers, calls, clocks, stores and restarts, compared with a model of what really runs where.

#[path = "support/values.rs"]
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use brasserie_common::{
    CallId, CallOutcome, InvocationId, Principal, RecordSeq, RefusalCode, ReportedStatus,
    RequestId, RunningTask, SchedulerId, Time, WallTime, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_scheduler_core::{
    Answer, Call, CallReply, ConfigOrigin, Durable, Effect, Event, LeftCause, Options, Query,
    Record, Rejection, Reply, Scheduler, StatusUpdate,
};
use brasserie_scheduler_engine::NodeTableBuilder;

use values::{EPOCH, listed, one_job, options, worker};

const LOCKS: u8 = 2;
const STARTS: u8 = 3;
/// The most turns that one instant may take: a few for each worker and call.
const MAX_TURNS_AT_ONCE: usize = 100;

#[derive(Clone, Debug)]
enum Op {
    Join(u8),
    Beat { id: u8, set: u8, lie: u8 },
    Goodbye(u8),
    Complete { call: u8, outcome: u8 },
    Report { run: u8, how: u8 },
    Advance(u8),
    Sync,
    Lazy(bool),
    Store(bool),
    Restart { clock_back: bool },
    Kill(u8),
    Config(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let id = 0..LOCKS * STARTS;
    prop_oneof![
        4 => id.clone().prop_map(Op::Join),
        3 => (id.clone(), 0u8..6, 0u8..12).prop_map(|(id, set, lie)| Op::Beat { id, set, lie }),
        1 => id.prop_map(Op::Goodbye),
        8 => (any::<u8>(), any::<u8>()).prop_map(|(call, outcome)| Op::Complete { call, outcome }),
        8 => (any::<u8>(), any::<u8>()).prop_map(|(run, how)| Op::Report { run, how }),
        5 => any::<u8>().prop_map(Op::Advance),
        2 => Just(Op::Sync),
        1 => any::<bool>().prop_map(Op::Lazy),
        1 => any::<bool>().prop_map(Op::Store),
        1 => any::<bool>().prop_map(|clock_back| Op::Restart { clock_back }),
        1 => any::<u8>().prop_map(Op::Kill),
        1 => any::<u8>().prop_map(Op::Config),
    ]
}

/// The state of a run as seen from outside.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Open,
    /// Lost at this time: the run may go on for this long after the loss, or after a restart.
    Lost(Time, Duration),
    /// The process is dead or never existed.
    Over,
}

#[derive(Clone, Debug)]
struct Run {
    task: RunningTask,
    worker: WorkerId,
    fate: Fate,
    /// The fate that a restarted scheduler can know.
    durable: Fate,
    refused: bool,
}

struct World {
    options: Options,
    scheduler: Scheduler,
    now: Time,
    wall_back: Duration,
    durable: Durable,
    unsynced: Vec<(RecordSeq, Record)>,
    synced: RecordSeq,
    lazy: bool,
    calls: Vec<(CallId, Call)>,
    requests: u64,
    unanswered: BTreeMap<RequestId, Option<(InvocationId, ReportedStatus)>>,
    /// Replies that wait for a record. The core may abandon them once.
    waiting: BTreeMap<RequestId, RecordSeq>,
    /// Acknowledgements on their way: the request, the record that it waits for, the run, and whether it is done.
    acknowledgements: Vec<(RequestId, Option<RecordSeq>, InvocationId, bool)>,
    runs: BTreeMap<InvocationId, Run>,
    sent: BTreeSet<InvocationId>,
    done: BTreeSet<String>,
    sets: BTreeMap<WorkerId, WorkerSetId>,
    beating: Option<WorkerId>,
    /// Workers that said goodbye, or that have a successor on their machine lock.
    dead: BTreeSet<WorkerId>,
}

fn identity(id: u8) -> WorkerDescription {
    let (lock, start) = (i32::from(id % LOCKS), i64::from(id / LOCKS));
    let shard = if (i64::from(lock) + start) % 2 == 0 {
        "a"
    } else {
        "b"
    };
    worker(shard, lock, 10 + start)
}

fn name<'a, N: TryFrom<&'a str>>(text: &'a str) -> N {
    N::try_from(text)
        .ok()
        .expect("the names of this test are valid")
}

/// Returns the only true completion of a run.
fn true_end(run: InvocationId) -> ReportedStatus {
    match run.0.rand.rem_euclid(4) {
        0 => ReportedStatus::done(),
        1 => ReportedStatus::incomplete(),
        2 => ReportedStatus::error_backoff("x"),
        _ => ReportedStatus::incomplete_backoff("killed"),
    }
}

impl World {
    fn new(options: Options) -> World {
        let now = Time::ZERO + Duration::from_secs(1000);
        let mut world = World {
            scheduler: Scheduler::new(options.clone(), Durable::default(), now, WallTime(0)),
            options,
            now,
            wall_back: Duration::ZERO,
            durable: Durable::default(),
            unsynced: Vec::new(),
            synced: RecordSeq::default(),
            lazy: false,
            calls: Vec::new(),
            requests: 0,
            unanswered: BTreeMap::new(),
            waiting: BTreeMap::new(),
            acknowledgements: Vec::new(),
            runs: BTreeMap::new(),
            sent: BTreeSet::new(),
            done: BTreeSet::new(),
            sets: BTreeMap::new(),
            beating: None,
            dead: BTreeSet::new(),
        };
        world.load();
        world
    }

    fn wall(&self) -> WallTime {
        WallTime::from_secs(EPOCH) + self.now.since(Time::ZERO + self.wall_back)
    }

    fn load(&mut self) {
        self.configure(0);
    }

    /// Configures three nodes or two, the job on or off, its orphans left alone or killed, and the nodes loaded or not.
    fn configure(&mut self, kind: u8) {
        let end_after = ["false", "true", "5"][usize::from(kind % 3)];
        let enabled = kind & 4 == 0;
        let count = if kind & 8 == 0 { 3 } else { 2 };
        let config = one_job(
            count,
            &format!(
                r#", "backoff": [1, 3, "repeat"], "enabled": {enabled}, "kill_orphan_tasks_after_sec": {end_after}"#
            ),
        );
        let mut nodes = NodeTableBuilder::new("instance", &config);
        for source in &config.node_sources {
            if let brasserie_common_config::NodeSource::Manual(list) = source {
                nodes.add_manual(list).expect("good nodes");
            }
        }
        self.event(Event::ConfigLoaded {
            config: config.clone(),
            warnings: Vec::new(),
            origin: ConfigOrigin::Given,
        });
        if kind & 16 == 0 {
            let nodes = std::sync::Arc::new(nodes.finish());
            self.event(Event::NodesLoaded { nodes, config });
        }
    }

    fn event(&mut self, event: Event) {
        self.scheduler
            .handle(self.now, Event::WallClock(self.wall()));
        self.scheduler.handle(self.now, event);
        self.turn();
    }

    fn turn(&mut self) {
        self.scheduler.handle_timeout(self.now);
        while let Some(effect) = self.scheduler.poll_effect() {
            match effect {
                Effect::Persist { seq, record } => {
                    self.left(&record, |run, fate| run.fate = fate);
                    self.unsynced.push((seq, record));
                }
                Effect::Reply {
                    request,
                    after,
                    reply,
                } => self.replied(request, after, reply),
                Effect::Call {
                    id,
                    shard: _,
                    peer: _,
                    call,
                } => {
                    self.called(&call);
                    self.calls.push((id, call));
                }
                Effect::Exit { reason } => panic!("no worker obeys anybody else: {reason}"),
            }
        }
        // Requests other than kills are answered in their turn.
        self.release();
        if !self.lazy {
            self.sync();
        }
    }

    /// Applies a record that a worker can run nothing any more, or until when it might.
    fn left(&mut self, record: &Record, set: impl Fn(&mut Run, Fate)) {
        let Record::WorkerLeft {
            worker,
            cause,
            wall: _,
            tasks,
            hold_back,
        } = record
        else {
            return;
        };
        let now = self.now;
        for run in self.runs.values_mut() {
            let was_over = matches!(run.fate, Fate::Lost(at, wait) if now >= at + wait);
            if was_over {
                (run.fate, run.durable) = (Fate::Over, Fate::Over);
            }
            if run.worker != *worker || run.fate == Fate::Over {
                continue;
            }
            let entry = tasks
                .iter()
                .find(|t| t.job == run.task.job && t.node == run.task.node);
            let wait = match (cause, entry) {
                (LeftCause::CleanExit | LeftCause::DidNotReturn | LeftCause::Forgotten, _) => {
                    Duration::ZERO
                }
                (LeftCause::Lost | LeftCause::Replaced, Some(t)) => {
                    Duration::from_secs(u64::from(t.status.safety_seconds))
                }
                (LeftCause::Lost | LeftCause::Replaced, None) => *hold_back,
            };
            let needed = self.options.timeouts.lost_task_min_backoff(Duration::ZERO);
            let was_running = run.fate == Fate::Open && *cause == LeftCause::Lost;
            assert!(
                !was_running || wait >= needed,
                "lost without a safety wait: {run:?}"
            );
            set(run, Fate::Lost(now, wait));
        }
    }

    fn called(&mut self, call: &Call) {
        let Call::RunTask(run) = call else {
            return;
        };
        let (worker, invocation) = (&run.worker, &run.task.invocation);
        assert!(self.sent.insert(*invocation), "an invocation is sent once");
        let node = run.task.node.as_str();
        assert!(!self.done.contains(node), "{node} was acknowledged as done");
        for other in self.runs.values().filter(|r| r.task.node == run.task.node) {
            let is_over = match other.fate {
                Fate::Open => false,
                Fate::Lost(at, wait) => self.now >= at + wait,
                Fate::Over => true,
            };
            assert!(
                is_over,
                "{node} is started at {:?} beside {other:?}",
                self.now
            );
        }
        let run = Run {
            task: run.task.clone(),
            worker: *worker,
            fate: Fate::Open,
            durable: Fate::Open,
            refused: false,
        };
        self.runs.insert(*invocation, run);
    }

    fn replied(&mut self, request: RequestId, after: Option<RecordSeq>, reply: Reply) {
        let Some(asked) = self.unanswered.remove(&request) else {
            let after = self.waiting.remove(&request);
            let after = after.expect("a request is answered once");
            assert!(after > self.synced, "its reply has left");
            let refusal = match reply {
                Reply::Heartbeat(Err(refusal)) | Reply::UpdateStatus(Err(refusal)) => refusal,
                other => panic!("a reply that waits gives way to a refusal only, not to {other:?}"),
            };
            assert!(matches!(
                refusal,
                Rejection::NotDurableYet | Rejection::Repeated
            ));
            return self.acknowledgements.retain(|(of, ..)| *of != request);
        };
        if let Some(after) = after {
            self.waiting.insert(request, after);
        }
        match reply {
            Reply::Heartbeat(Ok(response)) => {
                if let Some(worker) = self.beating {
                    self.sets.insert(worker, response.worker_set);
                }
            }
            Reply::UpdateStatus(Ok(())) => {
                let Some((invocation, status)) = asked else {
                    return;
                };
                if let Some(run) = self.runs.get_mut(&invocation) {
                    run.fate = Fate::Over;
                    run.durable = Fate::Over;
                }
                if !status.is_overwriteable() {
                    let is_done = status.is_done();
                    let waiting = (request, after, invocation, is_done);
                    self.acknowledgements.push(waiting);
                }
            }
            Reply::Heartbeat(Err(_)) | Reply::UpdateStatus(Err(_)) => {}
            Reply::KillTask(_)
            | Reply::Work(_)
            | Reply::JobChanged(_)
            | Reply::WorkerForgotten(_)
            | Reply::WorkerOrdered(_)
            | Reply::Artifacts(_)
            | Reply::Slots(_)
            | Reply::SlotsReleased(_)
            | Reply::Answer(_) => {}
        }
    }

    /// Delivers the acknowledgements whose record is durable.
    fn release(&mut self) {
        let synced = self.synced;
        let (out, wait): (Vec<_>, Vec<_>) = std::mem::take(&mut self.acknowledgements)
            .into_iter()
            .partition(|(_, after, _, _)| after.is_none_or(|seq| seq <= synced));
        self.acknowledgements = wait;
        for (_, _, invocation, is_done) in out {
            let Some(run) = self.runs.get(&invocation) else {
                continue;
            };
            let stored = self.durable.statuses.get(&run.task.key());
            let (ended, status) = stored.expect("an acknowledged end is stored");
            let is_kept = *ended >= invocation || status.is_done();
            assert!(is_kept, "{ended} for {invocation}");
            if is_done {
                assert!(status.is_done(), "{status:?} for {invocation}");
                self.done.insert(run.task.node.as_str().to_owned());
            }
        }
    }

    fn sync(&mut self) {
        let Some(up_to) = self.unsynced.last().map(|(seq, _)| *seq) else {
            return;
        };
        for (_, record) in std::mem::take(&mut self.unsynced) {
            self.durable.apply(&record);
            self.left(&record, |run, fate| run.durable = fate);
        }
        self.synced = up_to;
        self.release();
        self.event(Event::Persisted { up_to });
    }

    fn advance(&mut self, d: Duration) {
        let end = self.now + d;
        let (mut last, mut turns) = (self.now, 0);
        while let Some(at) = self.scheduler.poll_timeout().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            turns = if self.now == last { turns + 1 } else { 0 };
            last = self.now;
            assert!(turns < MAX_TURNS_AT_ONCE, "it spins at {last:?}");
            self.event(Event::WallClock(self.wall()));
        }
        self.now = end;
        self.event(Event::WallClock(self.wall()));
    }

    fn request(&mut self, about: Option<(InvocationId, ReportedStatus)>) -> RequestId {
        self.requests += 1;
        let request = RequestId(self.requests);
        self.unanswered.insert(request, about);
        request
    }

    fn beat(&mut self, worker: WorkerDescription, worker_set: WorkerSetId, goodbye: bool) {
        let id = worker.id;
        // This worker is alive, so earlier holders of its machine lock are dead. Dead workers send only late messages.
        for other in (0..LOCKS * STARTS).map(identity) {
            if other.machine_lock == worker.machine_lock && other.id.0.start_time < id.0.start_time
            {
                self.dead.insert(other.id);
            }
        }
        if goodbye {
            self.dead.insert(id);
            for run in self.runs.values_mut().filter(|run| run.worker == id) {
                (run.fate, run.durable) = (Fate::Over, Fate::Over);
            }
        }
        let request = self.request(None);
        self.beating = Some(id);
        self.event(Event::Heartbeat {
            request,
            from: Principal::Own,
            worker: Box::new(worker),
            worker_set,
            goodbye,
        });
        self.beating = None;
        assert!(!self.unanswered.contains_key(&request));
    }

    /// Returns the worker's list of running tasks: all that may run there, some that ended there, and some that are unknown.
    fn listing(&mut self, worker: WorkerId, mood: u8) -> Vec<RunningTask> {
        let now = self.now;
        let mut tasks = Vec::new();
        for (invocation, run) in self.runs.iter_mut().filter(|(_, r)| r.worker == worker) {
            let may_run = match run.fate {
                Fate::Open => true,
                Fate::Lost(at, wait) => now < at + wait,
                Fate::Over => false,
            };
            let mut task = run.task.clone();
            if !may_run {
                if mood & 1 == 0 {
                    continue;
                }
                task.ended = (mood & 2 == 0).then(|| true_end(*invocation));
            }
            tasks.push(task);
        }
        if mood & 4 == 0 {
            let start = if mood & 8 == 0 { 1 } else { i64::MAX };
            let mut odd = listed("a", "x0", InvocationId::new(start, i64::from(mood)));
            odd.suicide_kill_wait = Duration::from_secs(u64::from(mood));
            tasks.push(odd.clone());
            tasks.push(odd);
        }
        tasks
    }

    fn complete(&mut self, at: usize, outcome: u8) {
        let (id, call) = self.calls.remove(at);
        let target = call.worker();
        let is_dead = self.dead.contains(&target);
        let outcome = match outcome % 8 {
            0 => CallOutcome::NotSent("no route".to_owned()),
            1 => CallOutcome::Unknown("cut off".to_owned()),
            _ if is_dead => CallOutcome::NotSent("nobody there".to_owned()),
            2 => CallOutcome::Refused(RefusalCode::Busy, "later".to_owned()),
            _ => match &call {
                Call::GetRunningTasks { .. } => {
                    let tasks = self.listing(target, outcome / 8);
                    CallOutcome::Done(CallReply::RunningTasks(tasks))
                }
                _ => CallOutcome::Done(CallReply::Empty),
            },
        };
        if let Call::RunTask(start) = &call
            && let CallOutcome::NotSent(_) | CallOutcome::Refused(..) = &outcome
            && let Some(run) = self.runs.get_mut(&start.task.invocation)
        {
            (run.fate, run.durable) = (Fate::Over, Fate::Over);
            run.refused = true;
        }
        let is_listing = matches!(&outcome, CallOutcome::Done(CallReply::RunningTasks(_)));
        self.event(Event::CallCompleted { call: id, outcome });
        if is_listing {
            self.note_adopted();
        }
    }

    /// Notes lost runs that the scheduler has found again.
    fn note_adopted(&mut self) {
        let Answer::RunningTasks(running) = self
            .scheduler
            .answer(self.now, &Query::RunningTasks { job: None })
        else {
            panic!("a list of running tasks")
        };
        for view in running {
            if let Some(run) = self.runs.get_mut(&view.invocation)
                && run.fate != Fate::Over
            {
                (run.fate, run.durable) = (Fate::Open, Fate::Open);
            }
        }
    }

    fn report(&mut self, run: u8, how: u8) {
        let Some(at) = (!self.runs.is_empty()).then(|| usize::from(run) % self.runs.len()) else {
            return;
        };
        let (invocation, run) = self.runs.iter().nth(at).expect("within bounds");
        let (invocation, task) = (*invocation, run.task.clone());
        let never_ran = run.refused;
        let mut worker = run.worker;
        let status = match how % 8 {
            0 => ReportedStatus::was_not_running(),
            _ if never_ran => return,
            _ => true_end(invocation),
        };
        if (how / 8).is_multiple_of(8) {
            worker = identity(how % (LOCKS * STARTS)).id;
        }
        // Only its own worker completes a live run. A successor, which has seen it dead, may also complete a lost run.
        let is_believed = worker == run.worker || run.fate != Fate::Open;
        let about = is_believed.then(|| (invocation, status.clone()));
        let request = self.request(about);
        self.event(Event::UpdateStatus {
            request,
            from: Principal::Own,
            update: Box::new(StatusUpdate {
                story: None,
                outputs: Vec::new(),
                job: task.job.clone(),
                node: task.node.clone(),
                shard: task.shard.clone(),
                invocation,
                next_backoff: task.next_backoff,
                gpus: task.gpus.clone(),
                status,
                scheduler: self.scheduler.id(),
                worker,
            }),
        });
        assert!(!self.unanswered.contains_key(&request));
    }

    /// Does everything that makes a worker HEALTHY unless something prevents it.
    fn join(&mut self, id: u8) {
        let w = identity(id);
        if self.dead.contains(&w.id) {
            return;
        }
        for _ in 0..3 {
            let set = self.sets.get(&w.id).copied().unwrap_or_default();
            self.beat(w.clone(), set, false);
            while let Some(at) = self.calls.iter().position(|(_, call)| {
                matches!(call, Call::GetRunningTasks { .. } | Call::Healthcheck(_))
                    && call.worker() == w.id
            }) {
                let (_, call) = self.calls[at].clone();
                self.complete(at, 4 + 8);
                if let Call::Healthcheck(run) = call {
                    let request = self.request(None);
                    self.event(Event::UpdateStatus {
                        request,
                        from: Principal::Own,
                        update: Box::new(StatusUpdate {
                            story: None,
                            outputs: Vec::new(),
                            job: run.task.job,
                            node: run.task.node,
                            shard: run.task.shard,
                            invocation: run.task.invocation,
                            next_backoff: run.task.next_backoff,
                            gpus: run.task.gpus.clone(),
                            status: ReportedStatus::done(),
                            scheduler: self.scheduler.id(),
                            worker: w.id,
                        }),
                    });
                }
            }
        }
    }

    fn restart(&mut self, clock_back: bool) {
        if clock_back {
            self.wall_back += Duration::from_secs(500);
        }
        // Messages that have left may still arrive, but requests without an answer never get one.
        self.calls.clear();
        self.unanswered.clear();
        self.waiting.clear();
        self.unsynced.clear();
        self.acknowledgements.clear();
        self.synced = RecordSeq::default();
        for run in self.runs.values_mut().filter(|run| run.fate != Fate::Over) {
            run.fate = match (run.fate, run.durable) {
                // Its time was over before, and the task may have run again since.
                (Fate::Lost(at, wait), Fate::Lost(..)) if self.now >= at + wait => Fate::Over,
                (_, Fate::Lost(_, wait)) => Fate::Lost(self.now, wait),
                (_, fate @ (Fate::Open | Fate::Over)) => fate,
            };
        }
        let options = Options {
            new_cluster: false,
            ..self.options.clone()
        };
        self.scheduler = Scheduler::new(options, self.durable.clone(), self.now, self.wall());
        self.turn();
        self.load();
    }

    /// Sends a heartbeat with a true, old, foreign or impossible set, and sometimes a lie about the worker.
    fn odd_beat(&mut self, id: u8, set: u8, lie: u8) {
        let mut w = identity(id);
        let own = self.sets.get(&w.id).copied().unwrap_or_default();
        let set = match set {
            0 => WorkerSetId::default(),
            1 => WorkerSetId {
                scheduler: SchedulerId::new(3, 3),
                ..own
            },
            2 => WorkerSetId {
                version: own.version ^ i64::MIN,
                ..own
            },
            _ => own,
        };
        match lie {
            0 => w.machine_lock.port += 50,
            1 => w.shard = name(if w.shard.as_str() == "a" { "b" } else { "a" }),
            2 => w.heartbeat_period = Duration::MAX,
            3 => w.protocol_version = 1,
            _ => {}
        }
        if lie <= 1 {
            // Another process with the same id sends it.
            let request = self.request(None);
            self.event(Event::Heartbeat {
                request,
                from: Principal::Own,
                worker: Box::new(w),
                worker_set: set,
                goodbye: false,
            });
        } else {
            self.beat(w, set, false);
        }
    }

    fn step(&mut self, op: Op) {
        match op {
            Op::Join(id) => self.join(id),
            Op::Beat { id, set, lie } => self.odd_beat(id, set, lie),
            Op::Goodbye(id) => {
                let w = identity(id);
                let set = self.sets.get(&w.id).copied().unwrap_or_default();
                self.beat(w, set, true);
            }
            Op::Complete { call, outcome } => {
                if !self.calls.is_empty() {
                    self.complete(usize::from(call) % self.calls.len(), outcome);
                }
            }
            Op::Report { run, how } => self.report(run, how),
            Op::Advance(n) => self.advance(match n % 4 {
                0 => Duration::from_millis(u64::from(n)),
                1 => Duration::from_secs(u64::from(n % 20)),
                2 => Duration::from_secs(u64::from(n)),
                _ => Duration::from_secs(10 * u64::from(n)),
            }),
            Op::Sync => self.sync(),
            Op::Lazy(lazy) => self.lazy = lazy,
            Op::Store(fails) => self.event(if fails {
                Event::StoreFailed {
                    message: "full".to_owned(),
                }
            } else {
                Event::StoreRecovered
            }),
            Op::Restart { clock_back } => self.restart(clock_back),
            Op::Config(kind) => self.configure(kind),
            Op::Kill(node) => {
                let request = self.request(None);
                self.event(Event::KillTask {
                    request,
                    from: Principal::Own,
                    job: name("j"),
                    node: name(&format!("n{}", node % 4)),
                });
            }
        }
    }
}

integration_tests_properties::properties! {
    400;

    #[test]
    fn nothing_runs_twice_and_no_acknowledged_end_is_lost(
        bump in any::<bool>(),
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut world = World::new(Options { allow_bump_unhealthy_worker: bump, ..options() });
        for op in ops {
            world.step(op);
        }
        world.lazy = false;
        world.sync();
        // Every request to workers has an outcome by the deadline at the latest.
        world.advance(Duration::from_secs(6));
        prop_assert!(world.unanswered.is_empty(), "{:?}", world.unanswered);
        prop_assert!(world.acknowledgements.is_empty());
    }
}
