//! Messages of a worker as the scheduler's shell passes them to its core.

use brasserie_common::{
    CallOutcome, InvocationId, RefusalCode, ReportedStatus, RunningTask, SchedulerId, Story,
    WorkerId,
};
use brasserie_scheduler_core::{CallReply as SchedulerCallReply, StatusUpdate};
use brasserie_worker_core::Refusal;

use crate::event_log::Ask;

/// Converts a refusal to the outcome at the scheduler. Two methods declare no exception, so the outcome is unknown there unless the text
/// names the scheduler instance that the worker obeys.
pub fn refused(ask: Ask, refusal: Refusal) -> CallOutcome<SchedulerCallReply> {
    let Refusal { code, message } = refusal;
    match ask {
        Ask::Run { .. }
        | Ask::Healthcheck { .. }
        | Ask::Suicide
        | Ask::Drain
        | Ask::Kill { .. }
        | Ask::TakeBack { .. } => CallOutcome::Refused(code, message),
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

/// Returns the completion of a run as the scheduler receives it.
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
        outputs: task.outputs.clone(),
        scheduler,
        worker,
    }
}

/// Returns a story that names its run, so that a story stored with another run's completion is noticed.
pub fn story_of(invocation: InvocationId) -> Story {
    Story {
        last_lines: vec![invocation.to_string()],
        ..Story::exited(0)
    }
}
