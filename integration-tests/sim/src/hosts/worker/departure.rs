//! What leaves a worker, as the scheduler's shell hands it to the core there.

use brasserie_common::{
    CallOutcome, InvocationId, RefusalCode, ReportedStatus, RunningTask, SchedulerId, Story,
    WorkerId,
};
use brasserie_scheduler_core::{CallReply as SchedulerCallReply, StatusUpdate};
use brasserie_worker_core::Refusal;

use crate::event_log::Ask;

/// What the scheduler's side of the wire makes of a refusal: two methods declare no exception, so it cannot know there, unless the text
/// names the scheduler instance that the worker obeys.
pub fn refused(ask: Ask, refusal: Refusal) -> CallOutcome<SchedulerCallReply> {
    let Refusal { code, message } = refusal;
    match ask {
        Ask::Run { .. } | Ask::Healthcheck { .. } | Ask::Suicide | Ask::Kill { .. } => {
            CallOutcome::Refused(code, message)
        }
        Ask::Fetch | Ask::Notify { .. } => match code {
            RefusalCode::BoundTo(_) => CallOutcome::Refused(code, message),
            RefusalCode::Unspecified
            | RefusalCode::Unhealthy
            | RefusalCode::WrongId
            | RefusalCode::OldSequence
            | RefusalCode::Duplicate
            | RefusalCode::Busy
            | RefusalCode::Draining => CallOutcome::Unknown(message),
        },
    }
}

/// How a run has ended, as the scheduler hears it.
pub fn update(
    task: &RunningTask,
    status: ReportedStatus,
    (scheduler, worker): (SchedulerId, WorkerId),
) -> StatusUpdate {
    StatusUpdate {
        job: task.job.clone(),
        node: task.node.clone(),
        shard: task.shard.clone(),
        invocation: task.invocation,
        next_backoff: task.next_backoff,
        status,
        gpus: task.gpus.clone(),
        story: task.story.clone(),
        scheduler,
        worker,
    }
}

/// It names its run, so that one that is kept with another one's end is seen.
pub fn story_of(invocation: InvocationId) -> Story {
    Story {
        last_lines: vec![invocation.to_string()],
        ..Story::exited(0)
    }
}
