//! Calls to workers: converts the core's calls to the wire, and maps each result to one of four outcomes.

use std::sync::Arc;

use brasserie_common::worker::DrainTerms;
use brasserie_common::{
    CallOutcome, RefusalCode, SchedulerId, ServiceAddress, Shard, Time, WorkerId,
};
use brasserie_scheduler_core::{Call, CallReply, RunTaskCall};
use brasserie_thrift::convert;
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerDrainArgs, BrasserieWorkerDrainResult,
};
use brasserie_thrift::generated::common::RunningTask;
use brasserie_thrift::generated::worker::{
    BistroWorkerException, BistroWorkerGetRunningTasksArgs, BistroWorkerGetRunningTasksResult,
    BistroWorkerKillTaskArgs, BistroWorkerKillTaskResult, BistroWorkerNotifyIfTasksNotRunningArgs,
    BistroWorkerNotifyIfTasksNotRunningResult, BistroWorkerRequestSuicideArgs,
    BistroWorkerRequestSuicideResult, BistroWorkerRunTaskArgs, RunTaskAnswer,
};
use brasserie_thrift::rpc::{CallResult, Unknown};

use super::pool::WorkerPool;

/// One call to send.
pub(crate) struct WorkerCall {
    /// The shard that the worker at the address must prove.
    shard: Shard,
    address: ServiceAddress,
    call: Call,
    /// The time after which the call is no longer sent.
    not_after: Time,
}

impl WorkerCall {
    pub(crate) fn new(
        (shard, address): (Shard, ServiceAddress),
        call: Call,
        not_after: Time,
    ) -> Self {
        WorkerCall {
            shard,
            address,
            call,
            not_after,
        }
    }
}

/// Sends calls to workers.
#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) pool: WorkerPool,
}

impl Workers {
    /// Sends the call, and passes its outcome to `done` on a runtime task.
    pub(crate) fn call(
        &self,
        call: WorkerCall,
        done: impl FnOnce(CallOutcome<CallReply>) + Send + 'static,
    ) {
        let (pool, peer) = self.pool.to(&call.shard, &call.address);
        let pool = pool.not_after(call.not_after);
        match call.call {
            Call::GetRunningTasks { scheduler, worker } => {
                let args = BistroWorkerGetRunningTasksArgs {
                    worker: worker.into(),
                    scheduler: Some(scheduler.into()),
                };
                pool.call_then(&peer, "getRunningTasks", &args, |result| {
                    done(running_tasks(result));
                });
            }
            Call::RunTask(run) | Call::Healthcheck(run) => {
                let args = run_task_args(*run);
                pool.call_then(&peer, "runTask", &args, |result| {
                    done(accepted(result));
                });
            }
            Call::NotifyIfTasksNotRunning {
                tasks,
                scheduler,
                worker,
                sequence,
            } => {
                let args = BistroWorkerNotifyIfTasksNotRunningArgs {
                    rts: convert::to_wire_list(tasks),
                    scheduler: scheduler.into(),
                    worker: worker.into(),
                    notify_if_tasks_not_running_sequence_num: sequence.0,
                };
                pool.call_then(&peer, "notifyIfTasksNotRunning", &args, |result| {
                    let none = |_: BistroWorkerNotifyIfTasksNotRunningResult| None;
                    done(declared(result, none));
                });
            }
            Call::RequestSuicide {
                scheduler,
                worker,
                why,
            } => {
                let args = suicide_args(scheduler, worker, &why);
                pool.call_then(&peer, "requestSuicide", &args, |result| {
                    done(declared(result, |r: BistroWorkerRequestSuicideResult| r.ex));
                });
            }
            Call::Drain { shard, worker, why } => {
                let args = drain_args(shard, worker, why);
                pool.call_then(&peer, "drain", &args, |result| {
                    done(declared(result, |r: BrasserieWorkerDrainResult| r.ex));
                });
            }
            Call::KillTask {
                task,
                scheduler,
                worker,
                kill,
            } => {
                let args = BistroWorkerKillTaskArgs {
                    rt: (*task).into(),
                    scheduler: scheduler.into(),
                    worker: worker.into(),
                    req: kill.into(),
                };
                pool.call_then(&peer, "killTask", &args, |result| {
                    done(declared(result, |r: BistroWorkerKillTaskResult| r.ex));
                });
            }
        }
    }
}

fn suicide_args(
    scheduler: SchedulerId,
    worker: WorkerId,
    why: &str,
) -> BistroWorkerRequestSuicideArgs {
    BistroWorkerRequestSuicideArgs {
        scheduler: scheduler.into(),
        worker: worker.into(),
        reason: Some(why.to_owned()),
    }
}

fn drain_args(shard: Shard, worker: WorkerId, why: Arc<str>) -> BrasserieWorkerDrainArgs {
    let terms = DrainTerms {
        deadline: None,
        reason: why,
    };
    BrasserieWorkerDrainArgs {
        shard: shard.into(),
        instance: worker.into(),
        terms: Some(terms.into()),
    }
}

fn run_task_args(run: RunTaskCall) -> BistroWorkerRunTaskArgs {
    let deadline_sec = convert::deadline_to_wire(run.options.deadline);
    BistroWorkerRunTaskArgs {
        rt: RunningTask {
            deadline_sec,
            ..run.task.into()
        },
        config: run.config,
        command: run.command,
        scheduler: run.scheduler.into(),
        worker: run.worker.into(),
        notify_if_tasks_not_running_sequence_num: run.sequence.0,
        opts: run.options.into(),
    }
}

/// Returns the outcome of a call that returns nothing but success or its declared exception. That exception promises that the call had no
/// effect.
fn declared<R>(
    result: CallResult<R>,
    exception: impl FnOnce(R) -> Option<BistroWorkerException>,
) -> CallOutcome<CallReply> {
    match outcome(result) {
        CallOutcome::Done(reply) => match exception(reply) {
            None => CallOutcome::Done(CallReply::Empty),
            Some(exception) => {
                let (code, message) = convert::refusal(exception);
                CallOutcome::Refused(code, message)
            }
        },
        CallOutcome::Refused(code, text) => CallOutcome::Refused(code, text),
        CallOutcome::NotSent(text) => CallOutcome::NotSent(text),
        CallOutcome::Unknown(text) => CallOutcome::Unknown(text),
    }
}

/// Returns the outcome of `runTask`, with the place in the worker's queue if the worker says it.
fn accepted(result: CallResult<RunTaskAnswer>) -> CallOutcome<CallReply> {
    let mut place = None;
    let outcome = declared(result, |answer: RunTaskAnswer| {
        place = answer.queued_at;
        answer.ex
    });
    match (outcome, place) {
        (CallOutcome::Done(_), Some(place)) => CallOutcome::Done(CallReply::Accepted {
            queued_at: (place > 0).then_some(place),
        }),
        (outcome, _) => outcome,
    }
}

fn running_tasks(result: CallResult<BistroWorkerGetRunningTasksResult>) -> CallOutcome<CallReply> {
    match outcome(result) {
        CallOutcome::Done(reply) => match reply.result_value {
            None => {
                CallOutcome::Unknown("the worker's answer has no list of running tasks".to_owned())
            }
            Some(tasks) => match convert::parse_list("getRunningTasks.success", tasks) {
                Ok(tasks) => CallOutcome::Done(CallReply::RunningTasks(tasks)),
                Err(error) => {
                    CallOutcome::Unknown(format!("the worker's answer cannot be used: {error}"))
                }
            },
        },
        CallOutcome::Refused(code, text) => CallOutcome::Refused(code, text),
        CallOutcome::NotSent(text) => CallOutcome::NotSent(text),
        CallOutcome::Unknown(text) => CallOutcome::Unknown(text),
    }
}

pub(super) fn outcome<R>(result: CallResult<R>) -> CallOutcome<R> {
    match result {
        CallResult::Done(reply) => CallOutcome::Done(reply),
        CallResult::NotSent(why) => CallOutcome::NotSent(why.to_string()),
        CallResult::Unknown(why) => match bound(&why) {
            Some(scheduler) => {
                CallOutcome::Refused(RefusalCode::BoundTo(scheduler), why.to_string())
            }
            None => CallOutcome::Unknown(why.to_string()),
        },
    }
}

/// Returns the scheduler instance that the worker obeys, if that is why it refused a method without a declared exception.
fn bound(why: &Unknown) -> Option<SchedulerId> {
    match why {
        Unknown::Exception { kind: _, message } => convert::bound_of(message),
        Unknown::SendTimeout
        | Unknown::ReceiveTimeout
        | Unknown::ConnectionLost(_)
        | Unknown::OtherAuthority(_)
        | Unknown::BadReply(_) => None,
    }
}
