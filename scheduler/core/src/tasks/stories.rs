//! What is kept of runs beside how they ended: for people, no decision rests on it.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{Shard, Story, WallTime};
use brasserie_scheduler_engine::Task;

use crate::record::KeptStory;
use crate::scheduler::Scheduler;

impl Scheduler {
    /// Since it was ready by its own last end, its job and its node, as far as all of them are known.
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

/// As a worker tells it, with what is known here.
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
