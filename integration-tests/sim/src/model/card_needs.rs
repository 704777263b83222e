//! The GPUs that runs take and that jobs need. For a job whose need has changed, a run counts as something else than what was sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use brasserie_common::Processor;
use brasserie_common::cards::CardNeed;
use brasserie_common_config::{CARD_PREFIX, Config};

use crate::event_log::{TaskId, WantedCards};

/// The GPU needs of jobs in all configurations so far. A scheduler may use any of these configurations.
#[derive(Clone, Debug, Default)]
pub struct CardNeeds {
    last: Option<Arc<Config>>,
    needs: BTreeMap<u16, JobNeed>,
}

/// The GPU needs of one job so far.
#[derive(Clone, Debug)]
struct JobNeed {
    first: CardNeed,
    constancy: Constancy,
    presence: JobPresence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constancy {
    Constant,
    Changed,
}

/// Whether the last configuration has the job. A removed job never returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobPresence {
    There,
    Gone,
}

impl CardNeeds {
    /// Takes account of a configuration. Repeated calls with the same configuration are harmless.
    pub fn look_at(&mut self, config: &Arc<Config>) {
        if self
            .last
            .as_ref()
            .is_some_and(|last| Arc::ptr_eq(last, config))
        {
            return;
        }
        self.last = Some(Arc::clone(config));
        for need in self.needs.values_mut() {
            need.presence = JobPresence::Gone;
        }
        for job in &config.jobs {
            let number = job.name.as_str().strip_prefix('j');
            let Some(number) = number.and_then(|number| number.parse().ok()) else {
                continue;
            };
            let now = config.card_need(job).unwrap_or_default();
            let need = self.needs.entry(number).or_insert_with(|| JobNeed {
                first: now.clone(),
                constancy: Constancy::Constant,
                presence: JobPresence::There,
            });
            need.presence = JobPresence::There;
            if need.first != now {
                need.constancy = Constancy::Changed;
            }
        }
    }

    /// Returns the least usage that a run under way counts for, of the usage it was sent with; `None` if unknown. A run without its job
    /// counts as a task of one CPU.
    pub fn still(&self, task: TaskId, (processor, usage): (&Processor, f64)) -> Option<f64> {
        let need = self.needs.get(&task.job);
        let constant = need.filter(|need| need.constancy == Constancy::Constant);
        match processor {
            Processor::Cpu => {
                let takes_none = constant.is_some_and(|need| need.first.is_nothing());
                (need.is_none() || takes_none).then(|| usage.min(1.0))
            }
            Processor::Cards(_) => {
                let is_there = constant.is_some_and(|need| need.presence == JobPresence::There);
                is_there.then_some(usage)
            }
        }
    }
}

/// Returns the number of GPUs that a run takes and their model, if it needs a certain model; `None` if it takes no GPUs.
pub fn cards(
    charges: &[(String, i32)],
    gpus: &[(String, u32)],
) -> Option<(Option<Processor>, f64)> {
    let milli: u32 = gpus.iter().map(|(_, milli)| milli).sum();
    if milli == 0 {
        return None;
    }
    let mut named = charges.iter().filter(|(_, amount)| *amount > 0);
    let model = named.find_map(|(name, _)| name.strip_prefix(CARD_PREFIX));
    Some((model.map(Processor::named), f64::from(milli) / 1000.0))
}

/// Does the same as [`cards`] for a run whose worker chooses its GPUs. The run counts as the model that its scheduler states.
pub fn wanted_cards(wanted: &WantedCards) -> (Option<Processor>, f64) {
    let model = wanted.counts_as.as_deref();
    (
        model.map(Processor::named),
        f64::from(wanted.milli) / 1000.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common_config::{ParseOptions, parse};

    /// Returns a configuration in which jobs 0 and 1 take so many whole GPUs. `None` leaves the job out.
    fn config(cards: [Option<u32>; 2]) -> Arc<Config> {
        let mut jobs = String::new();
        for (job, cards) in cards.iter().enumerate() {
            if let Some(cards) = cards {
                jobs.push_str(&format!(
                    r#", "bistro_job->j{job}": {{"owner": "o", "command": ["x"], "resources": {{"gpu": {cards}}}}}"#
                ));
            }
        }
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["l"]}},
            "resources": {{"worker": {{"gpu": {{"default": 0, "limit": 0}}}}}},
            "physical_resources": {{"gpu_card": {{"logical_resource": "gpu"}}}}}}{jobs}}}"#
        );
        Arc::new(parse(&text, ParseOptions::default()).unwrap().config)
    }

    fn cpus(needs: &CardNeeds, job: u16) -> Option<f64> {
        needs.still(TaskId { job, node: 0 }, (&Processor::Cpu, 2.0))
    }

    fn cards(needs: &CardNeeds, job: u16) -> Option<f64> {
        needs.still(TaskId { job, node: 0 }, (&Processor::named("K40"), 2.0))
    }

    #[test]
    fn what_was_sent_counts_as_long_as_its_job_takes_the_same() {
        let mut needs = CardNeeds::default();
        needs.look_at(&config([Some(0), Some(2)]));
        assert_eq!(cpus(&needs, 0), Some(1.0));
        assert_eq!(cards(&needs, 1), Some(2.0));
        assert_eq!(cpus(&needs, 1), None, "its job takes cards");
        assert_eq!(cpus(&needs, 2), Some(1.0), "nobody knows it");
        assert_eq!(cards(&needs, 2), None, "nobody knows it");
    }

    #[test]
    fn without_its_job_it_is_a_task_of_one_cpu() {
        let mut needs = CardNeeds::default();
        needs.look_at(&config([Some(0), Some(2)]));
        needs.look_at(&config([None, None]));
        assert_eq!(cpus(&needs, 0), Some(1.0));
        assert_eq!(cards(&needs, 1), None);
    }

    #[test]
    fn what_has_changed_once_may_count_as_anything() {
        let mut needs = CardNeeds::default();
        for numbers in [[0, 2], [1, 1], [0, 2]] {
            needs.look_at(&config(numbers.map(Some)));
        }
        assert_eq!(cpus(&needs, 0), None);
        assert_eq!(cards(&needs, 1), None);
    }
}
