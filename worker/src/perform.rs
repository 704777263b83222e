//! Performs the core's effects, one match arm per effect, and never waits for a result.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use brasserie_common::{
    CallId, InvocationId, Kill, NodeName, RequestId, ServiceAddress, TaskKey, Time, WorkerId,
};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::ConnectionLosses;
use brasserie_worker_core::{
    Association, AssociationIndex, Call, Effect, Event, ExitReason, Goes, RunTask,
};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::artifacts::Desk;
use crate::directory::{Further, GroupList, Instances, ListedGroup, Slot};
use crate::members::{heartbeats_to, statuses_to};
use crate::own_events::OwnEvents;
use crate::process::{
    Began, KillError, RunKey, Runner, SpawnError, SpawnRequest, TaskEnd, TaskSink,
};
use crate::rpc::{Done, SchedulerClient, Telling, WaitingCaller, status_arguments};
use crate::usage::Running;

/// The wait after a disk failed to store an instance, and the longest time between two checks whether the worker still runs.
const INSTANCE_RETRY: Duration = Duration::from_secs(1);

pub(crate) struct Performer {
    runner: Arc<dyn Runner>,
    /// Leads the runs with artifacts.
    desk: Desk,
    /// One client for each association.
    clients: Vec<SchedulerClient>,
    instances: Arc<Instances>,
    own: OwnEvents,
    /// The callers that wait for an answer. The server limits their number by its limit of unanswered calls.
    waiting: HashMap<RequestId, WaitingCaller>,
    timed: Timed,
    together: Together,
}

/// Statuses of one association that leave in one message, as soon as the core makes another call or the turn ends.
struct Together {
    of: AssociationIndex,
    statuses: Vec<Telling>,
}

/// Runs that have a timeout and no process yet. The core must be notified when their process starts. The core's limit of tasks bounds
/// their number, as each of them ends.
pub(crate) type Timed = Arc<Mutex<HashSet<RunKey>>>;

impl Performer {
    pub(crate) fn new(
        (runner, desk): (Arc<dyn Runner>, Desk),
        (clients, instances): (Vec<SchedulerClient>, Arc<Instances>),
        own: OwnEvents,
        timed: Timed,
    ) -> Self {
        Performer {
            runner,
            desk,
            clients,
            instances,
            own,
            waiting: HashMap::new(),
            timed,
            together: Together {
                of: AssociationIndex::FIRST,
                statuses: Vec::new(),
            },
        }
    }

    /// Keeps the caller until the core has answered the request.
    pub(crate) fn expect_reply(&mut self, request: RequestId, waiting: WaitingCaller) {
        self.waiting.insert(request, waiting);
    }

    /// Performs one effect. `associations` are the associations at the time of the core's decision.
    pub(crate) fn perform(
        &mut self,
        effect: Effect,
        associations: &[Association],
    ) -> ControlFlow<ExitReason> {
        match effect {
            Effect::Reply { request, reply } => {
                if let Err(refusal) = &reply {
                    // The caller logs the refusal. Here, a peer could fill the log.
                    tracing::debug!(code = ?refusal.code, "refused a call: {}", refusal.message);
                }
                if let Some(waiting) = self.waiting.remove(&request) {
                    waiting.answer(reply);
                }
            }
            Effect::Call {
                association,
                id,
                call,
            } => self.call((id, &associations[association.0]), association, call),
            Effect::Spawn { run, cuda_devices } => {
                // The core keeps no copy, so this copies nothing.
                let run = Arc::unwrap_or_clone(run);
                self.spawn(run, cuda_devices, associations);
            }
            Effect::Kill {
                task,
                invocation,
                kill,
            } => self.kill(task, invocation, kill),
            Effect::Suspend { task, invocation } => {
                let key = run_key(task, invocation);
                if !self.desk.suspend(&key) {
                    self.runner.suspend(&key);
                }
            }
            Effect::Resume { task, invocation } => {
                let key = run_key(task, invocation);
                if !self.desk.resume(&key) {
                    self.runner.resume(&key);
                }
            }
            Effect::NewInstance { association, after } => self.find_instance(association, after),
            Effect::Exit { reason } => return ControlFlow::Break(reason),
        }
        ControlFlow::Continue(())
    }

    /// Returns the stream of lost connections between association number `of` and `member`.
    pub(crate) fn losses(&self, of: usize, member: &ServiceAddress) -> ConnectionLosses {
        self.clients[of].losses(member)
    }

    fn call(
        &mut self,
        (id, association): (CallId, &Association),
        of: AssociationIndex,
        call: Call,
    ) {
        let own = self.own.clone();
        let done: Done = Box::new(move |outcome| {
            // The send fails only if the worker has already ended.
            let _ = own.send(Event::CallCompleted { call: id, outcome });
        });
        match call {
            Call::UpdateStatus {
                task,
                status,
                scheduler,
                worker,
                goes: Goes::Together,
            } => {
                if self.together.of != of {
                    self.end_turn();
                }
                self.together.of = of;
                self.clients[of.0].tells(statuses_to(association));
                let arguments = status_arguments(&task, &status, scheduler, worker);
                self.together.statuses.push(Telling { arguments, done });
            }
            call @ (Call::Heartbeat { .. }
            | Call::RequestWork { .. }
            | Call::ReadMembers
            | Call::UpdateStatus {
                goes: Goes::Alone, ..
            }) => {
                // Statuses that wait leave first, to keep the order of the core's decisions.
                self.end_turn();
                let client = &mut self.clients[of.0];
                client.tells(statuses_to(association));
                client.call(heartbeats_to(association), call, done);
            }
        }
    }

    /// Sends the statuses that wait for others, because no effect of this turn is left.
    pub(crate) fn end_turn(&mut self) {
        let statuses = std::mem::take(&mut self.together.statuses);
        if !statuses.is_empty() {
            self.clients[self.together.of.0].tell_all(statuses);
        }
    }

    /// Requests an instance from the directory until it gives one. Failed attempts are [`INSTANCE_RETRY`] apart. Until then, this
    /// association does not begin anew, and the others continue.
    fn find_instance(&self, association: AssociationIndex, after: WorkerId) {
        let (own, instances) = (self.own.clone(), Arc::clone(&self.instances));
        let find = move || {
            // A closed channel means that the worker has ended.
            while !own.is_closed() {
                let pause = match instances.further() {
                    // The send fails only if the worker has already ended.
                    Ok(Further::New(id)) => {
                        return drop(own.send(Event::NewInstance { association, id }));
                    }
                    Ok(Further::NotBefore(pause)) => pause.min(INSTANCE_RETRY),
                    Err(error) => {
                        tracing::error!("no instance can follow {after} yet: {error}");
                        INSTANCE_RETRY
                    }
                };
                std::thread::sleep(pause);
            }
        };
        // The worker's end does not wait for this thread, which checks whether the channel is closed.
        drop(tokio::task::spawn_blocking(find));
    }

    fn spawn(&self, run: RunTask, cuda_devices: Vec<String>, associations: &[Association]) {
        let of = associations
            .iter()
            .position(|of| of.instance() == run.worker);
        let of = of.expect("Invariant: a task is started for whom it was sent to");
        let not_after = associations[of].tasks_may_live_until();
        let not_after = not_after.unwrap_or(Time::NEVER);
        let path_to_node = path_to_node(&run);
        let key = RunKey {
            invocation: run.task.invocation,
            job: run.task.job,
            node: run.task.node,
        };
        if run.options.timeout.is_some() {
            self.timed.lock().insert(key.clone());
        }
        let request = SpawnRequest {
            key: key.clone(),
            command: run.command,
            argument: run.config,
            path_to_node,
            options: run.options,
            cuda_devices,
            fence: run.task.fence,
            not_after,
            association: AssociationIndex(of),
            asked: Instant::now(),
            inputs: None,
        };
        if request.options.artifacts.is_some() {
            return self.desk.spawn(request);
        }
        let Err(error) = self.runner.spawn(request) else {
            return;
        };
        if error != SpawnError::AlreadyRunning {
            self.timed.lock().remove(&key);
        }
        let (status, story) = error.completion();
        // The send fails only if the worker has already ended.
        let _ = self.own.send(Event::TaskEnded {
            task: TaskKey {
                job: key.job,
                node: key.node,
            },
            invocation: key.invocation,
            status,
            story: Box::new(story),
        });
    }

    fn kill(&self, task: TaskKey, invocation: InvocationId, kill: Kill) {
        let key = run_key(task, invocation);
        if self.desk.kill(&key, kill.request, kill.by) {
            return;
        }
        match self.runner.kill(&key, kill.request, kill.by) {
            // The core is about to receive the completion.
            Ok(()) | Err(KillError::Unknown) => {}
        }
    }
}

fn run_key(task: TaskKey, invocation: InvocationId) -> RunKey {
    RunKey {
        invocation,
        job: task.job,
        node: task.node,
    }
}

/// The part of a task's JSON argument that also becomes a variable of its environment.
#[derive(Deserialize)]
struct Argument {
    path_to_node: Vec<String>,
}

/// Returns the path to the node from the JSON argument, or the node alone: other schedulers may omit the path.
fn path_to_node(run: &RunTask) -> Vec<NodeName> {
    let own = || vec![run.task.node.clone()];
    let Ok(argument) = serde_json::from_str::<Argument>(&run.config) else {
        return own();
    };
    let names = argument.path_to_node.into_iter().map(NodeName::try_from);
    names.collect::<Result<_, _>>().unwrap_or_else(|_| own())
}

/// Receives starts and completions on the supervising thread, maintains the list of process groups, and notifies the core.
pub(crate) struct Supervised {
    own: OwnEvents,
    clock: Clock,
    groups: Arc<Mutex<GroupList>>,
    /// The last time at which this thread held the numbers of all listed groups, in nanoseconds. The list stores it.
    held: Arc<AtomicU64>,
    slots: HashMap<Arc<RunKey>, Slot>,
    running: Arc<Running>,
    timed: Timed,
    /// Takes the outputs of runs before their ends are reported.
    desk: Desk,
}

impl Supervised {
    pub(crate) fn new(
        own: OwnEvents,
        clock: Clock,
        groups: Arc<Mutex<GroupList>>,
        (running, timed): (Arc<Running>, Timed),
        desk: Desk,
    ) -> Self {
        let held = groups.lock().held();
        Supervised {
            own,
            clock,
            groups,
            held,
            slots: HashMap::new(),
            running,
            timed,
            desk,
        }
    }
}

impl TaskSink for Supervised {
    fn started(&mut self, key: &Arc<RunKey>, began: Began) {
        let listed = ListedGroup {
            group: began.leader,
            listed: self.clock.now(),
            invocation: key.invocation,
            association: began.association,
        };
        self.running.began(key, began);
        if let Some(slot) = self.groups.lock().add(listed) {
            self.slots.insert(Arc::clone(key), slot);
        }
        if self.timed.lock().remove(&**key) {
            // The send fails only if the worker has already ended.
            let _ = self.own.send(Event::TaskStarted {
                task: TaskKey {
                    job: key.job.clone(),
                    node: key.node.clone(),
                },
                invocation: key.invocation,
            });
        }
    }

    fn holds_all(&mut self) {
        let now = self.clock.now().as_nanos();
        self.held.store(now, Ordering::Release);
    }

    fn ended(&mut self, mut end: TaskEnd) {
        let sampled = self.running.ended(&end.key);
        let peak = &mut end.story.peak_memory_bytes;
        // Small peaks are known from measurements only.
        *peak = peak.or(sampled);
        if let Some(slot) = self.slots.remove(&end.key) {
            self.groups.lock().remove(slot);
        }
        // The run may never have had a process.
        self.timed.lock().remove(&*end.key);
        tracing::debug!(task = %end.key, story = ?end.story, "a task has ended");
        let Some(end) = self.desk.take_end(end) else {
            return;
        };
        // The send fails only if the worker has already ended.
        let _ = self.own.send(Event::TaskEnded {
            task: TaskKey {
                job: end.key.job.clone(),
                node: end.key.node.clone(),
            },
            invocation: end.key.invocation,
            status: end.status,
            story: Box::new(end.story),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common::{
        BackoffDuration, RunningTask, SchedulerId, SequenceNumber, Shard, WorkerId,
    };

    fn run(config: &str) -> RunTask {
        RunTask {
            task: RunningTask {
                job: "j".try_into().expect("a name"),
                node: "own".try_into().expect("a name"),
                invocation: InvocationId::new(1, 1),
                shard: Shard::default(),
                resources: Vec::new(),
                gpus: Vec::new(),
                gpus_wanted: None,
                next_backoff: BackoffDuration {
                    no_more_backoffs: false,
                    seconds: 1,
                    times: 1,
                },
                suicide_kill_wait: Duration::ZERO,
                physical: None,
                ended: None,
                story: None,
                work: Default::default(),
                fence: None,
                worker_slots: None,
                outputs: Vec::new(),
            },
            config: config.to_owned(),
            command: Vec::new(),
            scheduler: SchedulerId::new(1, 1),
            worker: WorkerId::new(1, 1),
            sequence: SequenceNumber(0),
            options: Default::default(),
        }
    }

    #[test]
    fn the_path_comes_from_the_argument_or_is_the_node_alone() {
        let path = |config| {
            let names = path_to_node(&run(config));
            names
                .iter()
                .map(|n| n.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            path(r#"{"id":"j","path_to_node":["root","own"]}"#),
            ["root", "own"]
        );
        for other in [
            "",
            "{}",
            "[]",
            r#"{"path_to_node":[1]}"#,
            r#"{"path_to_node":["a\u0000"]}"#,
        ] {
            assert_eq!(path(other), ["own"], "{other}");
        }
    }
}
