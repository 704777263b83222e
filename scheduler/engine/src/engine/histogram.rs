//! Counts the nodes of each level by a job's status bits.

use std::collections::BTreeMap;

use brasserie_common::JobId;

use super::Engine;
use crate::forest::Forest;
use crate::queues::tally::Tally;
use crate::types::Histogram;

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
        let tally = self.queues.tally(forest, &self.tasks, (id, level));
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
}
