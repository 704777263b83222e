//! Serves `updateStatus` and `updateStatusBatch`.

use std::fmt::Display;
use std::sync::Arc;

use brasserie_common::ids::HEALTHCHECK_JOB;
use brasserie_common::status::StatusSource;
use brasserie_common::{Principal, ReportedStatus, RunningTask};
use brasserie_scheduler_core::{Event, Rejection, StatusUpdate};
use brasserie_thrift::convert::{self, WireError};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerUpdateStatusArgs, BistroSchedulerUpdateStatusBatchArgs,
    BistroSchedulerUpdateStatusBatchResult, BistroSchedulerUpdateStatusResult, StatusResult,
    StatusUpdate as WireUpdate,
};
use brasserie_thrift::rpc::{Accepts, LACK_OF_ROOM, Responder};
use parking_lot::Mutex;

use super::service::SchedulerService;
use crate::inbox::{EventLane, Inbox};

/// Maximum statuses in one batch. Workers of this project send a tenth of it.
const MOST_TOGETHER: usize = 1000;

/// The answer to a batch of statuses, sent when the last result is known.
struct BatchAnswer(Mutex<OpenBatch>);

struct OpenBatch {
    results: Vec<StatusResult>,
    /// Statuses without a result so far.
    missing: usize,
    to: Option<Responder>,
}

impl BatchAnswer {
    /// Returns the answer to a batch of `count` statuses, at least one.
    fn new(count: usize, to: Responder) -> Self {
        BatchAnswer(Mutex::new(OpenBatch {
            results: vec![StatusResult::default(); count],
            missing: count,
            to: Some(to),
        }))
    }

    /// Sets the result of the status at an index. It is called once for each of them.
    fn set(&self, at: usize, result: Result<(), impl Display>) {
        let mut open = self.0.lock();
        let refusal = result.err().map(|why| why.to_string());
        if let Some(slot) = open.results.get_mut(at) {
            *slot = StatusResult { refusal };
        }
        open.missing = open.missing.saturating_sub(1);
        if open.missing == 0
            && let Some(to) = open.to.take()
        {
            to.reply(&BistroSchedulerUpdateStatusBatchResult {
                result_value: Some(std::mem::take(&mut open.results)),
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
        if let Err(refusal) = from.check_shard("updateStatus", &update.shard) {
            self.audit().not_permitted(&refusal);
            return to.refuse(&refusal);
        }
        let lane = match update.job.as_str() {
            HEALTHCHECK_JOB => EventLane::Health,
            _ if accepts == Accepts::HealthCalls => return to.fail(LACK_OF_ROOM),
            _ => EventLane::Ordinary,
        };
        if let Err(why) = self.takes(&update) {
            return to.fail(why);
        }
        let (audit, by, inbox) = (self.audit().clone(), from.clone(), self.inbox.of(&to));
        let deliver = move |result: Result<(), Rejection>| match result {
            Ok(()) => to.reply(&BistroSchedulerUpdateStatusResult {}),
            Err(rejection) => {
                audit.rejected(&by, "updateStatus", &rejection);
                to.fail(rejection);
            }
        };
        let event = |request| Event::UpdateStatus {
            request,
            from,
            update,
        };
        Self::pass(&inbox, lane, deliver, event);
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
        if count == 0 {
            return to.reply(&BistroSchedulerUpdateStatusBatchResult {
                result_value: Some(Vec::new()),
            });
        }
        let inbox = self.inbox.of(&to);
        let answer = Arc::new(BatchAnswer::new(count, to));
        for (at, update) in args.updates.into_iter().enumerate() {
            if let Err(why) = self.take_from_batch((from, &inbox), &answer, at, update) {
                answer.set(at, Err(why));
            }
        }
    }

    /// Passes one status of a batch to the core, which then sets its result. Errors if the status is not accepted now.
    fn take_from_batch(
        &self,
        (from, inbox): (&Principal, &Inbox),
        answer: &Arc<BatchAnswer>,
        at: usize,
        update: WireUpdate,
    ) -> Result<(), String> {
        let path = format!("updateStatusBatch.updates[{at}]");
        let args = arguments(update).ok_or_else(|| {
            format!("{path}: a task, a status, a scheduler and a worker are needed")
        })?;
        let update = status_update(&path, args).map_err(|error| error.to_string())?;
        let permitted = from.check_shard("updateStatusBatch", &update.shard);
        permitted.map_err(|refusal| {
            self.audit().not_permitted(&refusal);
            refusal.to_string()
        })?;
        self.takes(&update)?;
        let answer = Arc::clone(answer);
        let (audit, by) = (self.audit().clone(), from.clone());
        let deliver = move |result: Result<(), Rejection>| {
            if let Err(rejection) = &result {
                audit.rejected(&by, "updateStatusBatch", rejection);
            }
            answer.set(at, result);
        };
        let event = |request| Event::UpdateStatus {
            request,
            from: from.clone(),
            update: Box::new(update),
        };
        let taken = inbox.try_request(EventLane::Ordinary, deliver, event);
        taken.map_err(|refusal| refusal.to_string())
    }

    /// Checks whether this status can be accepted now. A worker keeps a refused status and sends it again, so accepting more would only
    /// lengthen a full queue. Healthchecks write no record, and without them the worker would become unhealthy.
    fn takes(&self, update: &StatusUpdate) -> Result<(), String> {
        if self.room.is_full() && update.job.as_str() != HEALTHCHECK_JOB {
            return Err("the store cannot keep up; send this status again".to_owned());
        }
        let free = self.inbox.check(EventLane::Ordinary);
        free.map_err(|full| full.to_string())
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
        outputs: task.outputs,
        scheduler: convert::parse(&format!("{path}.scheduler"), args.scheduler)?,
        worker: convert::parse(&format!("{path}.worker"), args.worker)?,
    })
}
