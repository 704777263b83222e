//! Sends statuses to a scheduler: one per call, or many in one message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use brasserie_common::{
    CallOutcome, ReportedStatus, RunningTask as DomainTask, SchedulerId, WorkerId,
};
use brasserie_thrift::generated::common::RunningTask;
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerUpdateStatusArgs, BistroSchedulerUpdateStatusBatchArgs,
    BistroSchedulerUpdateStatusBatchResult, BistroSchedulerUpdateStatusResult, StatusResult,
    StatusUpdate,
};
use brasserie_thrift::rpc::{CallResult, ClientPool, NotSent, PeerAddr, Unknown};
use brasserie_worker_core::CallReply;
use thrift::ApplicationErrorKind;

use super::outcome;

/// The largest number of statuses in one message. Each occupies one of the scheduler's request slots until its record is durable.
const MOST_TOGETHER: usize = 100;
/// The approximate largest size of one message, in bytes. The limit of a frame is sixteen times higher, so the error does not matter.
const MOST_BYTES: usize = 1024 * 1024;
/// An upper bound for the encoded size of a status without its texts, in bytes.
const PLAIN_BYTES: usize = 512;

/// A callback that receives the outcome of one status.
pub(crate) type Done = Box<dyn FnOnce(CallOutcome<CallReply>) + Send>;

/// A status, and the callback for its outcome.
pub(crate) struct Telling {
    pub(crate) arguments: BistroSchedulerUpdateStatusArgs,
    pub(crate) done: Done,
}

/// The sender of statuses to one scheduler.
#[derive(Clone)]
pub(crate) struct Statuses {
    pool: ClientPool,
    scheduler: PeerAddr,
    /// Whether the scheduler answered that it does not know messages with many statuses.
    takes_one_by_one: Arc<AtomicBool>,
}

impl Statuses {
    pub(crate) fn new(pool: ClientPool, scheduler: PeerAddr) -> Self {
        Statuses {
            pool,
            scheduler,
            takes_one_by_one: Arc::default(),
        }
    }

    /// Returns a sender to another of the scheduler's members.
    pub(crate) fn at(&self, scheduler: PeerAddr) -> Self {
        Statuses {
            scheduler,
            ..self.clone()
        }
    }

    fn takes_one_by_one(&self) -> bool {
        self.takes_one_by_one.load(Ordering::Relaxed)
    }

    /// Sends a status in a call of its own.
    pub(crate) fn tell(&self, Telling { arguments, done }: Telling) {
        let told = |result: CallResult<BistroSchedulerUpdateStatusResult>| {
            done(outcome(result, |_| Ok(CallReply::Acknowledged)));
        };
        self.pool
            .call_then(&self.scheduler, "updateStatus", &arguments, told);
    }

    /// Sends statuses in as few messages as the limits allow.
    pub(crate) fn tell_all(&self, all: Vec<Telling>) {
        let (mut together, mut bytes) = (Vec::new(), 0);
        for telling in all {
            let own = size(&telling.arguments);
            if together.len() == MOST_TOGETHER || bytes + own > MOST_BYTES {
                self.tell_together(std::mem::take(&mut together));
                bytes = 0;
            }
            bytes += own;
            together.push(telling);
        }
        self.tell_together(together);
    }

    fn tell_together(&self, together: Vec<Telling>) {
        if together.len() < 2 || self.takes_one_by_one() {
            return together.into_iter().for_each(|one| self.tell(one));
        }
        let updates = together.iter().map(|one| update(&one.arguments));
        let arguments = BistroSchedulerUpdateStatusBatchArgs {
            updates: updates.collect(),
        };
        let statuses = self.clone();
        let told = move |result| statuses.told(together, result);
        self.pool
            .call_then(&self.scheduler, "updateStatusBatch", &arguments, told);
    }

    fn told(
        self,
        together: Vec<Telling>,
        result: CallResult<BistroSchedulerUpdateStatusBatchResult>,
    ) {
        match &result {
            CallResult::Unknown(Unknown::Exception { kind, .. }) => {
                if *kind == ApplicationErrorKind::UnknownMethod {
                    self.takes_one_by_one.store(true, Ordering::Relaxed);
                }
            }
            CallResult::NotSent(NotSent::Encode(_)) => {}
            CallResult::Done(_) | CallResult::NotSent(_) | CallResult::Unknown(_) => {
                return each_hears(together, result);
            }
        }
        // The scheduler refused the message, not its statuses: each may succeed alone. They are sent on another task, because a callback
        // of a call must not make calls.
        tokio::spawn(async move { together.into_iter().for_each(|one| self.tell(one)) });
    }
}

/// Converts a status to its wire format.
pub(crate) fn status_arguments(
    task: &DomainTask,
    status: &ReportedStatus,
    scheduler: SchedulerId,
    worker: WorkerId,
) -> BistroSchedulerUpdateStatusArgs {
    BistroSchedulerUpdateStatusArgs {
        running_task: task.clone().into(),
        status: status.to_wire(),
        scheduler: scheduler.into(),
        worker: worker.into(),
    }
}

/// Passes each status its own outcome from the result of a message.
fn each_hears(together: Vec<Telling>, result: CallResult<BistroSchedulerUpdateStatusBatchResult>) {
    let count = together.len();
    let results = match outcome(result, Ok) {
        CallOutcome::Done(result) => {
            let results = result.result_value.unwrap_or_default();
            match results.len() == count {
                true => results.into_iter().map(one_result).collect(),
                false => {
                    let wrong = format!("{} results of {count} statuses", results.len());
                    vec![CallOutcome::Unknown(wrong); count]
                }
            }
        }
        CallOutcome::Refused(code, text) => vec![CallOutcome::Refused(code, text); count],
        CallOutcome::NotSent(text) => vec![CallOutcome::NotSent(text); count],
        CallOutcome::Unknown(text) => vec![CallOutcome::Unknown(text); count],
    };
    for (telling, outcome) in together.into_iter().zip(results) {
        (telling.done)(outcome);
    }
}

/// Converts one result. A refusal promises nothing, like an exception of `updateStatus`.
fn one_result(result: StatusResult) -> CallOutcome<CallReply> {
    match result.refusal {
        None => CallOutcome::Done(CallReply::Acknowledged),
        Some(why) => CallOutcome::Unknown(why),
    }
}

fn update(arguments: &BistroSchedulerUpdateStatusArgs) -> StatusUpdate {
    StatusUpdate {
        running_task: Some(arguments.running_task.clone()),
        status: Some(arguments.status.clone()),
        scheduler: Some(arguments.scheduler.clone()),
        worker: Some(arguments.worker.clone()),
    }
}

/// Returns the approximate size of a status in a message, in bytes.
fn size(arguments: &BistroSchedulerUpdateStatusArgs) -> usize {
    PLAIN_BYTES + arguments.status.len() + texts(&arguments.running_task)
}

fn texts(task: &RunningTask) -> usize {
    let names = [&task.job, &task.node, &task.worker_shard];
    let names = names.into_iter().flatten().map(String::len);
    let resources = task.node_resources.iter().flatten().map(|on| {
        let each = on.resources.iter();
        let each = each.map(|one| PLAIN_BYTES + one.name.len());
        on.node.len() + each.sum::<usize>()
    });
    let lines = task.story.iter().flat_map(|story| &story.last_lines);
    let lines = lines.flatten().map(|line| PLAIN_BYTES + line.len());
    names.chain(resources).chain(lines).sum()
}

#[cfg(test)]
mod tests;
