//! Details of runs that are stored for people beside the completion. No decision depends on them.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{Shard, Story, WallTime};
use brasserie_scheduler_engine::Task;

use crate::record::KeptStory;
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Returns how long the task has been ready, by its last completion and the changes of its job and of the nodes; `None` if one is
    /// unknown.
    pub(super) fn queued(&self, task: Task) -> Option<Duration> {
        let job = self.engine().job_config(task.job)?;
        let changed = WallTime::from_secs(job.modify_time);
        let over = self.engine().previous_status(task).map(|status| {
            let wait = status.backoff_seconds.max(status.safety_seconds);
            status.time + Duration::from_secs(u64::from(wait))
        });
        let since = over.max(Some(changed)).max(self.nodes_in_force_since())?;
        let queued = self.wall().as_millis().checked_sub(since.as_millis())?;
        Some(Duration::from_millis(u64::try_from(queued).unwrap_or(0)))
    }
}

/// Combines a worker's story with the facts that the scheduler knows.
pub(super) fn kept(
    story: Option<Arc<Story>>,
    shard: &Shard,
    queued: Option<Duration>,
) -> Option<Box<KeptStory>> {
    let kept = story.map(|story| KeptStory {
        story: Arc::unwrap_or_clone(story),
        shard: shard.clone(),
        queued,
    });
    kept.map(Box::new)
}
