//! Test support: a [`Rig`] drives one worker by a simulated clock, sends it events, and collects its effects. Arguments called `n` are
//! numbers of schedulers, see [`scheduler`]; numbers of runs stand for [`invocation`]s. Times are in milliseconds.

use std::time::Duration;

use brasserie_common::ids::{HEALTHCHECK_JOB, HEALTHCHECK_NEW_WORKER_NODE};
use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{
    BackoffDuration, CallId, CallOutcome, EndedBy, Health, InvocationId, JobName, Kill, KillMethod,
    KillRequest, NodeName, Principal, RefusalCode, ReportedStatus, RequestId, RunningTask,
    SchedulerId, SequenceNumber, Shard, Story, TaskKey, TaskSubprocessOptions, Time, WorkRequest,
    WorkerDescription, WorkerId, WorkerSetId,
};

use crate::effect::{Call, Effect, Goes, Goodbye, Reply};
use crate::event::CallReply;
use crate::{Association, AssociationIndex, Event, Options, RunTask, Worker};

pub(super) const OWN: WorkerId = WorkerId(brasserie_common::InstanceId {
    start_time: 50,
    rand: 5,
});
pub(super) const PERIOD: Duration = Duration::from_secs(15);

pub(super) fn scheduler(n: i64) -> SchedulerId {
    SchedulerId::new(n * 100, n)
}

pub(super) fn set(n: i64, version: i64) -> WorkerSetId {
    WorkerSetId {
        scheduler: scheduler(n),
        version,
        ..WorkerSetId::default()
    }
}

pub(super) fn response(n: i64, version: i64, state: Health) -> HeartbeatResponse {
    HeartbeatResponse {
        scheduler: scheduler(n),
        max_healthcheck_gap: Duration::from_secs(125),
        heartbeat_grace_period: Duration::from_secs(60),
        lose_unhealthy_worker_after: Duration::from_secs(500),
        worker_check_interval: Duration::from_secs(5),
        worker_state: state,
        not_healthy_for: None,
        protocol_version: 2,
        worker_set: set(n, version),
        work: None,
        request_delay: None,
        uses_artifacts: false,
        why_must_die: None,
    }
}

pub(super) fn invocation(n: i64) -> InvocationId {
    InvocationId::new(1000, n)
}

pub(super) fn key(node: &str) -> TaskKey {
    TaskKey {
        job: JobName::try_from("job").unwrap(),
        node: NodeName::try_from(node).unwrap(),
    }
}

pub(super) fn task(node: &str, run: i64) -> RunningTask {
    RunningTask {
        job: key(node).job,
        node: key(node).node,
        invocation: invocation(run),
        shard: Shard::try_from("shard").unwrap(),
        resources: Vec::new(),
        gpus: Vec::new(),
        gpus_wanted: None,
        next_backoff: BackoffDuration::default(),
        suicide_kill_wait: Duration::from_millis(700),
        physical: None,
        fence: None,
        worker_slots: None,
        outputs: Vec::new(),
        ended: None,
        story: None,
        work: Default::default(),
    }
}

pub(super) fn run(n: i64, sequence: i64, task: RunningTask) -> RunTask {
    RunTask {
        task,
        config: "{}".to_owned(),
        command: vec!["/bin/true".to_owned()],
        scheduler: scheduler(n),
        worker: OWN,
        sequence: SequenceNumber(sequence),
        options: TaskSubprocessOptions::default(),
    }
}

/// Returns a healthcheck whose id is `second`. The first one of an association must be on the node for new workers.
pub(super) fn healthcheck(n: i64, second: i64, node: &str) -> RunTask {
    let mut run = run(n, 0, task("", 0));
    run.task.job = JobName::try_from(HEALTHCHECK_JOB).unwrap();
    run.task.node = NodeName::try_from(node).unwrap();
    run.task.invocation = InvocationId::new(second, 0);
    run
}

pub(super) fn term_wait_kill(millis: u64, by: EndedBy) -> Kill {
    Kill {
        request: KillRequest {
            method: KillMethod::TermWaitKill,
            wait: Duration::from_millis(millis),
        },
        by,
    }
}

/// Returns a kill for any reason.
pub(super) fn kill_by(by: EndedBy, node: &str, run: i64, millis: u64) -> Effect {
    Effect::Kill {
        task: key(node),
        invocation: invocation(run),
        kill: term_wait_kill(millis, by),
    }
}

/// Returns a kill because the association must end.
pub(super) fn kill(node: &str, run: i64, millis: u64) -> Effect {
    kill_by(EndedBy::Suicide, node, run, millis)
}

/// A worker, its time, and a record of its effects.
#[derive(Clone, Debug)]
pub(super) struct Rig {
    pub(super) worker: Worker,
    now: Time,
    /// When each heartbeat left, without goodbyes.
    pub(super) beats: Vec<Time>,
    /// Requests for work that left. `work_asked` has their ports, and `list_readings` the reads of the member list.
    pub(super) work_requests: Vec<(CallId, WorkRequest)>,
    pub(super) work_asked: Vec<u16>,
    pub(super) list_readings: Vec<CallId>,
    last_beat: u64,
    pub(super) last_status: u64,
}

impl Rig {
    pub(super) fn new() -> Self {
        Self::with(|_| ())
    }

    /// Returns a rig whose worker starts later than that of `new`.
    pub(super) fn shifted(millis: u64) -> Self {
        let mut rig = Self::new();
        rig.born_at(rig.now + Duration::from_millis(millis));
        rig
    }

    /// Replaces the worker by one that starts now.
    pub(super) fn born_at(&mut self, now: Time) {
        self.now = now;
        let options = Options::clone(&self.worker.options);
        self.worker = Worker::new(options, now);
    }

    pub(super) fn with(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(WorkerDescription {
            id: OWN,
            heartbeat_period: PERIOD,
            ..WorkerDescription::default()
        });
        change(&mut options);
        let now = Time::from_nanos(1_000_000_000_000);
        Rig {
            worker: Worker::new(options, now),
            now,
            beats: Vec::new(),
            work_requests: Vec::new(),
            work_asked: Vec::new(),
            list_readings: Vec::new(),
            last_beat: 0,
            last_status: 0,
        }
    }

    /// Returns a worker that is HEALTHY and associated with scheduler 1, with the set at version 1 and sequence number 0. Calls 1 to 4 are
    /// over.
    pub(super) fn joined() -> Self {
        Self::new().join()
    }

    pub(super) fn join(mut self) -> Self {
        self.wait(0);
        self.heartbeat_answered(self.last_beat, 1, 1, Health::New);
        self.fetch(1);
        self.run(healthcheck(1, 7, HEALTHCHECK_NEW_WORKER_NODE));
        self.end_healthcheck(
            healthcheck(1, 7, HEALTHCHECK_NEW_WORKER_NODE),
            ReportedStatus::done(),
        );
        let status = self.last_status;
        self.heartbeat_answered(self.last_beat, 1, 1, Health::Unhealthy);
        self.acknowledge(status);
        self.heartbeat_answered(self.last_beat, 1, 1, Health::Healthy);
        assert_eq!(self.own().health(), Health::Healthy);
        self
    }

    /// Returns the first association.
    pub(super) fn own(&self) -> &Association {
        self.worker.association(AssociationIndex::FIRST)
    }

    pub(super) fn hear(&mut self, event: Event) -> Vec<Effect> {
        self.worker.handle(self.now, event);
        self.drain()
    }

    /// Moves the clock without a turn of the worker.
    pub(super) fn sleep(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
    }

    pub(super) fn sleep_until(&mut self, at: Time) {
        self.now = at;
    }

    /// Moves the clock, and handles each timer when it is due.
    pub(super) fn wait(&mut self, millis: u64) -> Vec<Effect> {
        let end = self.now + Duration::from_millis(millis);
        let mut effects = Vec::new();
        loop {
            self.worker.handle_timeout(self.now);
            effects.extend(self.drain());
            match self.worker.poll_timeout() {
                Some(at) if at <= end => {
                    assert!(at > self.now, "a timer that stays due: {:?}", self.worker);
                    self.now = at;
                }
                Some(_) | None => break,
            }
        }
        self.now = end;
        self.worker.handle_timeout(self.now);
        effects.extend(self.drain());
        effects
    }

    /// Moves the clock to `at`, and makes one turn there.
    pub(super) fn wait_until(&mut self, at: Time) -> Vec<Effect> {
        self.now = at;
        self.worker.handle_timeout(at);
        self.drain()
    }

    /// Drains the effects, and keeps requests for work apart.
    fn drain(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(effect) = self.worker.poll_effect() {
            if let Effect::Call { id, call, .. } = &effect {
                match call {
                    Call::Heartbeat { goodbye, .. } => {
                        self.last_beat = id.0;
                        let is_beat = *goodbye == Goodbye::No;
                        self.beats.extend(is_beat.then_some(self.now));
                    }
                    Call::UpdateStatus { .. } => self.last_status = id.0,
                    Call::RequestWork { to, request } => {
                        self.work_asked.push(to.port);
                        self.work_requests.push((*id, (**request).clone()));
                        continue;
                    }
                    Call::ReadMembers => {
                        self.list_readings.push(*id);
                        continue;
                    }
                }
            }
            effects.push(effect);
        }
        effects
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    /// Returns the milliseconds until the worker ends the first association's tasks if no message arrives, rounded down.
    pub(super) fn left_to_live(&self) -> Option<u64> {
        let left = self.own().tasks_may_live_until()?.since(self.now);
        Some(u64::try_from(left.as_millis()).unwrap())
    }

    /// Returns the milliseconds until the next timer.
    pub(super) fn next_timer(&self) -> Option<u64> {
        let wait = self.worker.poll_timeout()?.since(self.now);
        Some(u64::try_from(wait.as_millis()).unwrap())
    }

    /// Returns the call of the last heartbeat.
    pub(super) fn last_beat(&self) -> u64 {
        self.last_beat
    }

    pub(super) fn completed(&mut self, call: u64, outcome: CallOutcome<CallReply>) -> Vec<Effect> {
        self.hear(Event::CallCompleted {
            call: CallId(call),
            outcome,
        })
    }

    pub(super) fn heartbeat_answered(
        &mut self,
        call: u64,
        n: i64,
        version: i64,
        state: Health,
    ) -> Vec<Effect> {
        let reply = CallReply::Heartbeat(Box::new(response(n, version, state)));
        self.completed(call, CallOutcome::Done(reply))
    }

    pub(super) fn acknowledge(&mut self, call: u64) -> Vec<Effect> {
        self.completed(call, CallOutcome::Done(CallReply::Acknowledged))
    }

    /// Answers and acknowledges each call at once, as scheduler `n`.
    pub(super) fn serve(&mut self, effects: Vec<Effect>, n: i64, state: Health) {
        let mut effects = std::collections::VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            let Effect::Call { id, call, .. } = effect else {
                continue;
            };
            effects.extend(match call {
                Call::Heartbeat { .. } => self.heartbeat_answered(id.0, n, 1, state),
                Call::UpdateStatus { .. } => self.acknowledge(id.0),
                Call::RequestWork { .. } | Call::ReadMembers => Vec::new(),
            });
        }
    }

    pub(super) fn fetch(&mut self, n: i64) -> Vec<Effect> {
        self.hear(fetch_event(Some(scheduler(n))))
    }

    pub(super) fn run(&mut self, run: RunTask) -> Vec<Effect> {
        self.hear(Event::RunTask {
            request: RequestId(9),
            from: Principal::Own,
            run: Box::new(run),
        })
    }

    pub(super) fn end_healthcheck(&mut self, run: RunTask, status: ReportedStatus) -> Vec<Effect> {
        self.hear(Event::TaskEnded {
            task: run.task.key(),
            invocation: run.task.invocation,
            status,
            story: Box::new(Story::exited(0)),
        })
    }

    pub(super) fn start(&mut self, node: &str, invocation: i64) {
        self.start_at(0, node, invocation);
    }

    pub(super) fn start_at(&mut self, sequence: i64, node: &str, invocation: i64) {
        let wanted = run(1, sequence, task(node, invocation));
        assert_eq!(self.run(wanted.clone()), [spawned(wanted), accepted()]);
    }

    pub(super) fn end(&mut self, node: &str, run: i64, status: ReportedStatus) -> Vec<Effect> {
        self.hear(Event::TaskEnded {
            task: key(node),
            invocation: invocation(run),
            status,
            story: Box::new(Story::exited(0)),
        })
    }

    /// Ends a run well, with this story.
    pub(super) fn end_with(&mut self, node: &str, run: i64, story: Story) -> Vec<Effect> {
        self.hear(Event::TaskEnded {
            task: key(node),
            invocation: invocation(run),
            status: ReportedStatus::done(),
            story: Box::new(story),
        })
    }

    pub(super) fn notify(&mut self, n: i64, sequence: i64, tasks: Vec<RunningTask>) -> Vec<Effect> {
        self.hear(Event::NotifyIfTasksNotRunning {
            request: RequestId(9),
            from: Principal::Own,
            tasks,
            scheduler: scheduler(n),
            worker: OWN,
            sequence: SequenceNumber(sequence),
        })
    }

    pub(super) fn suicide(&mut self, n: i64, worker: WorkerId) -> Vec<Effect> {
        self.hear(Event::RequestSuicide {
            request: RequestId(9),
            from: Principal::Own,
            scheduler: scheduler(n),
            worker,
            why: Some("it was lost".into()),
        })
    }

    pub(super) fn kill(&mut self, n: i64, node: &str, run: i64) -> Vec<Effect> {
        self.hear(Event::KillTask {
            request: RequestId(9),
            from: Principal::Own,
            task: key(node),
            invocation: invocation(run),
            scheduler: scheduler(n),
            worker: OWN,
            kill: term_wait_kill(3, EndedBy::Operator),
        })
    }
}

pub(super) fn fetch_event(scheduler: Option<SchedulerId>) -> Event {
    Event::GetRunningTasks {
        request: RequestId(9),
        from: Principal::Own,
        worker: OWN,
        scheduler,
    }
}

/// Returns the loss of the connection to the first scheduler.
pub(super) fn lost_connection() -> Event {
    Event::ConnectionLost {
        association: AssociationIndex::FIRST,
    }
}

pub(super) fn accepted() -> Effect {
    Effect::Reply {
        request: RequestId(9),
        reply: Ok(Reply::Empty),
    }
}

pub(super) fn listed(tasks: Vec<RunningTask>) -> Effect {
    Effect::Reply {
        request: RequestId(9),
        reply: Ok(Reply::RunningTasks(tasks)),
    }
}

/// Returns the code and text of a refusal that is the only effect.
pub(super) fn refusal(effects: &[Effect]) -> (RefusalCode, String) {
    match effects {
        [
            Effect::Reply {
                request: RequestId(9),
                reply: Err(refusal),
            },
        ] => (refusal.code, refusal.message.clone()),
        other => panic!("expected a refusal alone: {other:?}"),
    }
}

pub(super) fn heartbeat(rig: &Rig, id: u64, worker_set: WorkerSetId) -> Effect {
    beat(rig, id, worker_set, Goodbye::No)
}

pub(super) fn beat(rig: &Rig, id: u64, worker_set: WorkerSetId, goodbye: Goodbye) -> Effect {
    Effect::Call {
        association: AssociationIndex::FIRST,
        id: CallId(id),
        call: Call::Heartbeat {
            worker: Box::new(rig.own().description().clone()),
            worker_set,
            goodbye,
        },
    }
}

/// Returns the report of a status. A completion has a story; a "was not running" answer has none.
pub(super) fn report(id: u64, n: i64, task: RunningTask, status: ReportedStatus) -> Effect {
    let task = match status == ReportedStatus::was_not_running() {
        true => task,
        false => with_story(task),
    };
    Effect::Call {
        association: AssociationIndex::FIRST,
        id: CallId(id),
        call: Call::UpdateStatus {
            task: task.into(),
            status,
            scheduler: scheduler(n),
            worker: OWN,
            goes: Goes::Alone,
        },
    }
}

/// Returns the start of a task without GPUs of its own.
pub(super) fn spawned(run: RunTask) -> Effect {
    Effect::Spawn {
        run: run.into(),
        cuda_devices: Vec::new(),
    }
}

/// Adds the story that every completion has in these tests.
pub(super) fn with_story(task: RunningTask) -> RunningTask {
    RunningTask {
        story: Some(Story::exited(0).into()),
        ..task
    }
}

pub(super) fn lost() -> CallOutcome<CallReply> {
    CallOutcome::Unknown("connection reset".to_owned())
}

pub(super) fn refused() -> CallOutcome<CallReply> {
    CallOutcome::Refused(RefusalCode::Unspecified, "not now".to_owned())
}

pub(super) fn not_sent() -> CallOutcome<CallReply> {
    CallOutcome::NotSent("connection refused".to_owned())
}
