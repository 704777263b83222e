//! Counts the nodes of each level by a job's status bits.

use brasserie_common::{JobId, StatusBits};
use brasserie_common_config::LevelId;

use super::Queues;
use super::states::{Structure, structure};
use super::tally::Tally;
use crate::forest::Forest;
use crate::tasks::Tasks;
use crate::types::Task;

impl Queues {
    /// Returns the counts of a job with tasks at a level. The first call counts all tasks of the job. Later changes update the counts, until
    /// the job's columns are recomputed.
    pub(crate) fn tally(
        &self,
        forest: &Forest,
        tasks: &Tasks,
        (id, level): (JobId, LevelId),
    ) -> &Tally {
        self.of(id).tally.get_or_init(|| {
            let mut tally = Tally::new(forest.len(), level.index() + 1);
            let rows = forest.order(level).iter();
            for row in rows.flat_map(|canonical| forest.rows(*canonical)) {
                tally.set(forest, row, task_bits(forest, tasks, id, row));
            }
            Box::new(tally)
        })
    }

    /// Updates the histogram after a change of a task's bits.
    pub(super) fn count_again(
        &mut self,
        forest: &Forest,
        tasks: &Tasks,
        id: JobId,
        canonical: u32,
    ) {
        let Some(mut tally) = self.columns[id.index()].tally.take() else {
            return;
        };
        for row in forest.rows(canonical) {
            tally.set(forest, row, task_bits(forest, tasks, id, row));
        }
        self.columns[id.index()].tally = tally.into();
    }
}

/// Returns one task's bits for a histogram, where USES_BACKOFF means "in backoff now".
fn task_bits(forest: &Forest, tasks: &Tasks, id: JobId, row: u32) -> StatusBits {
    let (job, node) = (tasks.job(id), forest.node(row));
    let task = Task { job: id, node };
    let (mask, fresh) = match structure(forest, tasks, id, row) {
        Structure::Open => (StatusBits::EMPTY, StatusBits::UNSTARTED),
        Structure::Avoided(_) => (StatusBits::AVOIDED, StatusBits::EMPTY),
        Structure::Disabled(_) => (StatusBits::DISABLED, StatusBits::EMPTY),
    };
    let own = if job.running > 0 && tasks.is_running(task) {
        StatusBits::RUNNING
    } else {
        match job.statuses.bits(node) {
            None => fresh,
            Some(bits) if tasks.waits().get(task).is_some() => bits,
            Some(bits) => bits.without(StatusBits::USES_BACKOFF),
        }
    };
    mask.with(own)
}
