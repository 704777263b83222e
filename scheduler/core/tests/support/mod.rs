//! Drives a scheduler core by a script: virtual time, a store that the test controls, and workers that the test plays.

mod values;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{
    CallId, CallOutcome, Health, Principal, RecordSeq, ReportedStatus, RequestId, RunningTask,
    SequenceNumber, ServiceAddress, Time, WallTime, WorkerDescription, WorkerId, WorkerSetId,
};
use brasserie_common_config::{Config, NodeSource};
use brasserie_scheduler_core::{
    Answer, Call, CallReply, ClusterStatus, ConfigOrigin, Durable, Effect, Event, ExitReason,
    Options, PastEnd, Query, Record, Rejection, Reply, Scheduler, StatusUpdate,
};
use brasserie_scheduler_engine::NodeTableBuilder;

pub use values::*;

/// The head start of a heartbeat reply over the first `runTask`.
pub const SETTLE: Duration = Duration::from_millis(10);
/// A scheduler core under test, with its environment.
pub struct Script {
    pub scheduler: Scheduler,
    pub now: Time,
    pub durable: Durable,
    unsynced: Vec<(RecordSeq, Record)>,
    /// The store syncs at once unless a test holds it back.
    pub sync_at_once: bool,
    next_request: u64,
    /// Calls that left and are unanswered, oldest first.
    pub calls: Vec<(CallId, ServiceAddress, Call)>,
    /// Replies that left, or that wait for a record.
    pub replies: Vec<(RequestId, Option<RecordSeq>, Reply)>,
    pub records: Vec<Record>,
    /// The set id in the last answer to each worker. The worker returns it in its next heartbeat.
    pub told: BTreeMap<WorkerId, (WorkerDescription, WorkerSetId)>,
    /// The reason with which the core asked its program to exit.
    pub exit: Option<ExitReason>,
    /// How far the wall clock has been set ahead.
    pub clock_is_ahead: Duration,
    /// The caller of heartbeats.
    pub caller: Principal,
}

/// Creates a scheduler as its program does: the completions come after everything else that is durable.
fn started(options: Options, mut durable: Durable, (now, wall): (Time, WallTime)) -> Scheduler {
    let statuses = std::mem::take(&mut durable.statuses);
    let missing = std::mem::take(&mut durable.missing);
    let missing_jobs = std::mem::take(&mut durable.missing_jobs);
    let mut scheduler = Scheduler::new(options, durable, now, wall);
    for (key, (invocation, status)) in statuses {
        let names = scheduler.remember_names(&[key.job], &[key.node]);
        let end = PastEnd {
            job: 0,
            node: 0,
            invocation,
            status,
        };
        scheduler.remember_end(now, &names, end);
    }
    scheduler.remember_missing(missing, missing_jobs);
    scheduler
}

impl Script {
    pub fn new(options: Options, durable: Durable) -> Self {
        Self::at(options, durable, Time::ZERO + Duration::from_secs(1000))
    }

    pub fn at(options: Options, durable: Durable, now: Time) -> Self {
        let wall = WallTime::from_secs(EPOCH) + now.since(Time::ZERO);
        let scheduler = started(options, durable.clone(), (now, wall));
        let mut script = Script {
            scheduler,
            now,
            durable,
            unsynced: Vec::new(),
            sync_at_once: true,
            next_request: 0,
            calls: Vec::new(),
            replies: Vec::new(),
            records: Vec::new(),
            told: BTreeMap::new(),
            exit: None,
            clock_is_ahead: Duration::ZERO,
            caller: Principal::Own,
        };
        script.turn();
        script
    }

    /// Creates a new cluster with a config.
    pub fn with_config(config: Arc<Config>) -> Self {
        let mut script = Self::new(options(), Durable::default());
        script.load(config);
        script
    }

    pub fn load(&mut self, config: Arc<Config>) {
        self.event(Event::ConfigLoaded {
            config: Arc::clone(&config),
            warnings: Vec::new(),
            origin: ConfigOrigin::Given,
        });
        self.load_nodes(config);
    }

    /// Loads the nodes that the sources of the config give.
    pub fn load_nodes(&mut self, config: Arc<Config>) {
        let mut nodes = NodeTableBuilder::new("instance", &config);
        for source in &config.node_sources {
            if let NodeSource::Manual(list) = source {
                nodes.add_manual(list).expect("good nodes");
            }
        }
        self.event(Event::NodesLoaded {
            nodes: Arc::new(nodes.finish()),
            config,
        });
    }

    /// Starts a new scheduler instance on the synced data.
    pub fn restart(self, options: Options) -> Script {
        Script::at(options, self.durable, self.now)
    }

    pub fn event(&mut self, event: Event) {
        let wall = WallTime::from_secs(EPOCH) + self.now.since(Time::ZERO);
        let wall = wall + self.clock_is_ahead;
        self.scheduler.handle(self.now, Event::WallClock(wall));
        self.scheduler.handle(self.now, event);
        self.turn();
    }

    fn turn(&mut self) {
        self.scheduler.handle_timeout(self.now);
        while let Some(effect) = self.scheduler.poll_effect() {
            match effect {
                Effect::Persist { seq, record } => {
                    self.records.push(record.clone());
                    self.unsynced.push((seq, record));
                }
                Effect::Reply {
                    request,
                    after,
                    reply,
                } => self.replies.push((request, after, reply)),
                Effect::Call {
                    id,
                    shard: _,
                    peer,
                    call,
                } => self.calls.push((id, peer, call)),
                Effect::Exit { reason } => self.exit = Some(reason),
            }
        }
        if self.sync_at_once && !self.unsynced.is_empty() {
            self.sync();
        }
    }

    /// Makes every record durable and notifies the scheduler.
    pub fn sync(&mut self) {
        let mut up_to = None;
        for (seq, record) in std::mem::take(&mut self.unsynced) {
            self.durable.apply(&record);
            up_to = Some(seq);
        }
        if let Some(up_to) = up_to {
            self.event(Event::Persisted { up_to });
        }
    }

    /// Lets time pass and wakes the scheduler when its timers are due.
    pub fn advance(&mut self, d: Duration) {
        let end = self.now + d;
        while let Some(at) = self.scheduler.poll_timeout().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.event(Event::Persisted {
                up_to: RecordSeq::default(),
            });
        }
        self.now = end;
        self.event(Event::Persisted {
            up_to: RecordSeq::default(),
        });
    }

    pub fn request(&mut self) -> RequestId {
        self.next_request += 1;
        RequestId(self.next_request)
    }

    pub fn reply_to(&mut self, request: RequestId) -> (Option<RecordSeq>, Reply) {
        let at = self
            .replies
            .iter()
            .position(|(id, _, _)| *id == request)
            .expect("the request was answered");
        let (_, after, reply) = self.replies.remove(at);
        (after, reply)
    }

    pub fn heartbeat(
        &mut self,
        worker: &WorkerDescription,
        set: WorkerSetId,
    ) -> Result<HeartbeatResponse, Rejection> {
        self.heartbeat_with(worker, set, false)
    }

    pub fn heartbeat_with(
        &mut self,
        worker: &WorkerDescription,
        worker_set: WorkerSetId,
        goodbye: bool,
    ) -> Result<HeartbeatResponse, Rejection> {
        let request = self.request();
        self.event(Event::Heartbeat {
            request,
            from: self.caller.clone(),
            worker: Box::new(worker.clone()),
            worker_set,
            goodbye,
        });
        match self.reply_to(request).1 {
            Reply::Heartbeat(result) => {
                if let Ok(response) = &result {
                    let told = (worker.clone(), response.worker_set);
                    self.told.insert(worker.id, told);
                }
                result.map(|response| *response)
            }
            other => panic!("a heartbeat is answered as such, not {other:?}"),
        }
    }

    pub fn complete(&mut self, call: CallId, outcome: CallOutcome<CallReply>) {
        self.event(Event::CallCompleted { call, outcome });
    }

    /// Takes the oldest open call that `matches`.
    pub fn take_call(&mut self, matches: impl Fn(&Call) -> bool) -> Option<(CallId, Call)> {
        let at = self.calls.iter().position(|(_, _, call)| matches(call))?;
        let (id, _, call) = self.calls.remove(at);
        Some((id, call))
    }

    /// Answers `getRunningTasks`.
    pub fn answer_fetch(&mut self, tasks: Vec<RunningTask>) {
        let fetch = self.take_call(|call| matches!(call, Call::GetRunningTasks { .. }));
        let (id, _) = fetch.expect("running tasks are asked for");
        self.complete(id, CallOutcome::Done(CallReply::RunningTasks(tasks)));
    }

    /// Accepts and acknowledges the open healthcheck of a worker.
    pub fn answer_healthcheck(&mut self, worker: &WorkerDescription) {
        let id = worker.id;
        let found =
            self.take_call(|call| matches!(call, Call::Healthcheck(run) if run.worker == id));
        let (call, message) = found.expect("a healthcheck is due");
        let Call::Healthcheck(run) = message else {
            panic!("a healthcheck is a runTask")
        };
        self.complete(call, CallOutcome::Done(CallReply::Empty));
        let result = self.update(worker, &run.task, ReportedStatus::done());
        assert_eq!(result.1, Ok(()));
    }

    /// Sends a heartbeat with the set id of the last answer.
    pub fn echo(&mut self, worker: &WorkerDescription) -> HeartbeatResponse {
        let (_, set) = self.told[&worker.id];
        self.heartbeat(worker, set).expect("the same instance")
    }

    /// Lets every other HEALTHY worker receive the present set and confirm it.
    pub fn spread(&mut self, newcomer: &WorkerDescription) {
        for status in self.status().workers {
            if status.id != newcomer.id && status.health == Health::Healthy {
                let (worker, _) = self.told[&status.id].clone();
                self.echo(&worker);
                self.echo(&worker);
            }
        }
        let extra =
            |call: &Call| matches!(call, Call::Healthcheck(run) if run.worker != newcomer.id);
        self.calls.retain(|(_, _, call)| !extra(call));
    }

    /// Joins a worker that has never known a scheduler, until it and the others are HEALTHY.
    pub fn join(&mut self, worker: &WorkerDescription) {
        let first = self
            .heartbeat(worker, WorkerSetId::default())
            .expect("a free shard");
        self.answer_fetch(Vec::new());
        self.answer_healthcheck(worker);
        self.spread(worker);
        self.heartbeat(worker, first.worker_set)
            .expect("the same instance");
        self.advance(SETTLE);
    }

    /// Sends `updateStatus`, with the story and outputs of `task`. Returns the record that the acknowledgement waits for, and the result.
    pub fn update(
        &mut self,
        worker: &WorkerDescription,
        task: &RunningTask,
        status: ReportedStatus,
    ) -> (Option<RecordSeq>, Result<(), Rejection>) {
        let request = self.request();
        let update = Box::new(StatusUpdate {
            job: task.job.clone(),
            node: task.node.clone(),
            shard: task.shard.clone(),
            invocation: task.invocation,
            next_backoff: task.next_backoff,
            gpus: task.gpus.clone(),
            status,
            story: task.story.clone(),
            outputs: task.outputs.clone(),
            scheduler: self.scheduler.id(),
            worker: worker.id,
        });
        self.event(Event::UpdateStatus {
            request,
            from: Principal::Own,
            update,
        });
        match self.reply_to(request) {
            (after, Reply::UpdateStatus(result)) => (after, result),
            (_, other) => panic!("a status is answered as such, not {other:?}"),
        }
    }

    /// Returns the tasks of the open `runTask` calls.
    pub fn starts(&self) -> Vec<RunningTask> {
        let calls = self.calls.iter();
        calls
            .filter_map(|(_, _, call)| match call {
                Call::RunTask(run) => Some(run.task.clone()),
                _ => None,
            })
            .collect()
    }

    /// Takes the oldest open `runTask`.
    pub fn take_start(&mut self) -> (CallId, RunningTask, SequenceNumber) {
        let found = self.take_call(|call| matches!(call, Call::RunTask(_)));
        let (id, message) = found.expect("a task is started");
        match message {
            Call::RunTask(run) => (id, run.task, run.sequence),
            other => panic!("a start is a runTask, not {other:?}"),
        }
    }

    pub fn status(&mut self) -> ClusterStatus {
        match self.scheduler.answer(self.now, &Query::Status) {
            Answer::Status(status) => *status,
            other => panic!("a status, not {other:?}"),
        }
    }
}
