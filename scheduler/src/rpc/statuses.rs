//! Serves `updateStatus` and `updateStatusBatch`.

use std::fmt::Display;
use std::sync::Arc;

use brasserie_common::ids::HEALTHCHECK_JOB;
use brasserie_common::status::StatusSource;
use brasserie_common::{Principal, ReportedStatus, RunningTask};
use brasserie_scheduler_core::{Event, Rejection, Reply, StatusUpdate};
use brasserie_thrift::convert::{self, WireError};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerUpdateStatusArgs, BistroSchedulerUpdateStatusBatchArgs,
    BistroSchedulerUpdateStatusBatchResult, BistroSchedulerUpdateStatusResult, StatusResult,
    StatusUpdate as WireUpdate,
};
use brasserie_thrift::rpc::{Accepts, LACK_OF_ROOM, Responder};
use parking_lot::Mutex;

use super::service::SchedulerService;
use crate::inbox::{Lane, Waiter};

/// Maximum statuses in one batch. Workers of this project send a tenth of it.
const MOST_TOGETHER: usize = 1000;

/// The answer to a batch, sent when the last of its statuses is answered. A status without a result counts as not accepted, and its worker
/// sends it again.
struct Results {
    all: Mutex<Vec<StatusResult>>,
    to: Option<Responder>,
}

impl Results {
    fn new(count: usize, to: Responder) -> Self {
        let not_taken = refusal("the scheduler has not accepted this status; send it again");
        Results {
            all: Mutex::new(vec![not_taken; count]),
            to: Some(to),
        }
    }

    fn say(&self, at: usize, result: StatusResult) {
        if let Some(slot) = self.all.lock().get_mut(at) {
            *slot = result;
        }
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            to.reply(&BistroSchedulerUpdateStatusBatchResult {
                result_value: Some(std::mem::take(self.all.get_mut())),
            });
        }
    }
}

impl SchedulerService {
    pub(super) fn update_status(
        &self,
        (from, accepts): (Principal, Accepts),
        args: BistroSchedulerUpdateStatusArgs,
        to: Responder,
    ) {
        let update = match status_update("updateStatus", args) {
            Ok(update) => Box::new(update),
            Err(error) => return to.reject_arguments(&error),
        };
        let lane = match update.job.as_str() {
            HEALTHCHECK_JOB => Lane::Health,
            _ if accepts == Accepts::HealthCalls => return to.fail(LACK_OF_ROOM),
            _ => Lane::Ordinary,
        };
        if let Err(why) = self.takes(&update) {
            return to.fail(why);
        }
        let waiter: Waiter = Box::new(move |reply| match told(reply) {
            Ok(()) => to.reply(&BistroSchedulerUpdateStatusResult {}),
            Err(rejection) => to.fail(rejection),
        });
        self.take(lane, waiter, |request| Event::UpdateStatus {
            request,
            from,
            update,
        });
    }

    /// Handles each status of a batch like an `updateStatus` call.
    pub(super) fn update_status_batch(
        &self,
        from: &Principal,
        args: BistroSchedulerUpdateStatusBatchArgs,
        to: Responder,
    ) {
        let count = args.updates.len();
        if count > MOST_TOGETHER {
            let why = format!(
                "updateStatusBatch.updates: {count} statuses are too many; {MOST_TOGETHER} at most"
            );
            return to.reject_arguments(&why);
        }
        let results = Arc::new(Results::new(count, to));
        for (at, update) in args.updates.into_iter().enumerate() {
            let path = format!("updateStatusBatch.updates[{at}]");
            let Some(args) = arguments(update) else {
                let why = format!("{path}: a task, a status, a scheduler and a worker are needed");
                results.say(at, refusal(why));
                continue;
            };
            let update = match status_update(&path, args) {
                Ok(update) => Box::new(update),
                Err(error) => {
                    results.say(at, refusal(error));
                    continue;
                }
            };
            if let Err(why) = self.takes(&update) {
                results.say(at, refusal(why));
                continue;
            }
            let results = Arc::clone(&results);
            let waiter: Waiter = Box::new(move |reply| {
                let result = match told(reply) {
                    Ok(()) => StatusResult::default(),
                    Err(rejection) => refusal(rejection),
                };
                results.say(at, result);
            });
            self.take(Lane::Ordinary, waiter, |request| Event::UpdateStatus {
                request,
                from: from.clone(),
                update,
            });
        }
    }

    /// Checks whether this status can be accepted now. A worker keeps a refused status and sends it again, so accepting more would only
    /// lengthen a full queue. Healthchecks write no record, and without them the worker would become unhealthy.
    fn takes(&self, update: &StatusUpdate) -> Result<(), String> {
        if self.room.is_full() && update.job.as_str() != HEALTHCHECK_JOB {
            return Err("the store cannot keep up; send this status again".to_owned());
        }
        let free = self.inbox.check(Lane::Ordinary);
        free.map_err(|full| full.to_string())
    }
}

fn told(reply: Reply) -> Result<(), Rejection> {
    match reply {
        Reply::UpdateStatus(result) => result,
        Reply::Heartbeat(_)
        | Reply::KillTask(_)
        | Reply::Work(_)
        | Reply::JobChanged(_)
        | Reply::WorkerForgotten(_)
        | Reply::Answer(_) => {
            unreachable!("Invariant: a status update is replied to as one")
        }
    }
}

fn refusal(why: impl Display) -> StatusResult {
    StatusResult {
        refusal: Some(why.to_string()),
    }
}

/// Returns the arguments of an `updateStatus` call, or `None` if a required field is missing. A missing text reads as an empty one, which
/// is no status.
fn arguments(update: WireUpdate) -> Option<BistroSchedulerUpdateStatusArgs> {
    Some(BistroSchedulerUpdateStatusArgs {
        running_task: update.running_task?,
        status: update.status.filter(|status| !status.is_empty())?,
        scheduler: update.scheduler?,
        worker: update.worker?,
    })
}

fn status_update(
    path: &str,
    args: BistroSchedulerUpdateStatusArgs,
) -> Result<StatusUpdate, WireError> {
    let task: RunningTask = convert::parse(&format!("{path}.running_task"), args.running_task)?;
    Ok(StatusUpdate {
        job: task.job,
        node: task.node,
        shard: task.shard,
        invocation: task.invocation,
        next_backoff: task.next_backoff,
        status: ReportedStatus::parse(&args.status, StatusSource::Worker),
        gpus: task.gpus,
        story: task.story,
        scheduler: convert::parse(&format!("{path}.scheduler"), args.scheduler)?,
        worker: convert::parse(&format!("{path}.worker"), args.worker)?,
    })
}
