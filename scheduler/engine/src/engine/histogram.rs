//! Counts the nodes of each level by a job's status bits.

use std::collections::BTreeMap;

use brasserie_common::{JobId, StatusBits};

use super::Engine;
use super::eligible::Structure;
use crate::forest::index::Forest;
use crate::statuses::tally::Tally;
use crate::tasks::job::Job;
use crate::types::{Histogram, Task};

impl Engine {
    /// Returns how many nodes of each level, from `instance` down to the job's, have which bits, with up to `samples` names each. A node
    /// has the union of the bits of the job's tasks on it and below it. Empty for a job with errors.
    ///
    /// The first call counts all tasks of the job. Later changes update the counts, until the job's columns are rebuilt. Each call scans
    /// rows until it has enough names of each kind.
    pub fn histogram(&self, id: JobId, samples: usize) -> Histogram {
        let (Some(config), Some(forest), Some(job)) =
            (&self.config, &self.forest, self.tasks.get(id))
        else {
            return Vec::new();
        };
        let is_correct = |id| {
            let config = self.job_config(id);
            config.is_some_and(|config| config.errors.is_empty())
        };
        let Some(level) = job.level.filter(|_| is_correct(id)) else {
            return Vec::new();
        };
        let tally = self.columns[id.index()].tally.get_or_init(|| {
            let mut tally = Tally::new(forest.len(), level.index() + 1);
            let rows = forest.order(level).iter();
            for row in rows.flat_map(|canonical| forest.rows(*canonical)) {
                tally.set(forest, row, self.task_bits(forest, job, id, row));
            }
            Box::new(tally)
        });
        let names = config.levels.iter();
        let mut histogram: Histogram = names
            .zip(tally.levels())
            .map(|(name, buckets)| {
                let counted = buckets
                    .iter()
                    .map(|(bits, count)| (*bits, (*count, Vec::new())));
                (name.clone(), counted.collect::<BTreeMap<_, _>>())
            })
            .collect();
        self.add_samples(forest, tally, samples, &mut histogram);
        histogram
    }

    fn add_samples(
        &self,
        forest: &Forest,
        tally: &Tally,
        samples: usize,
        histogram: &mut Histogram,
    ) {
        let buckets = histogram.iter().flat_map(|(_, buckets)| buckets.values());
        let mut missing: usize = buckets
            .map(|(count, _)| usize::try_from(*count).map_or(samples, |count| count.min(samples)))
            .sum();
        for row in 0..forest.len() as u32 {
            if missing == 0 {
                return;
            }
            let Some(bits) = tally.of(row) else { continue };
            let buckets = forest
                .level(row)
                .and_then(|level| histogram.get_mut(level.index()));
            if let Some((_, buckets)) = buckets
                && let Some((_, names)) = buckets.get_mut(&bits)
                && names.len() < samples
            {
                names.push(self.node_name(forest.node(row)));
                missing -= 1;
            }
        }
    }

    /// Updates the histogram after a change of a task's bits.
    pub(super) fn count_again(&mut self, forest: &Forest, id: JobId, canonical: u32) {
        let Some(mut tally) = self.columns[id.index()].tally.take() else {
            return;
        };
        let job = self.tasks.job(id);
        for row in forest.rows(canonical) {
            tally.set(forest, row, self.task_bits(forest, job, id, row));
        }
        self.columns[id.index()].tally = tally.into();
    }

    /// Returns one task's bits for a histogram, where USES_BACKOFF means "in backoff now".
    fn task_bits(&self, forest: &Forest, job: &Job, id: JobId, row: u32) -> StatusBits {
        let node = forest.node(row);
        let task = Task { job: id, node };
        let (mask, fresh) = match self.structure(forest, job, id, row) {
            Structure::Open => (StatusBits::EMPTY, StatusBits::UNSTARTED),
            Structure::Avoided(_) => (StatusBits::AVOIDED, StatusBits::EMPTY),
            Structure::Disabled(_) => (StatusBits::DISABLED, StatusBits::EMPTY),
        };
        let own = if job.running > 0 && self.is_running(task) {
            StatusBits::RUNNING
        } else {
            match job.statuses.bits(node) {
                None => fresh,
                Some(bits) if self.tasks.wait(task).is_some() => bits,
                Some(bits) => bits.without(StatusBits::USES_BACKOFF),
            }
        };
        mask.with(own)
    }
}
