//! What runs take of cards, and which jobs do, and for which of them that has changed: what runs then counts as something else than what was sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use brasserie_common::Processor;
use brasserie_common::cards::CardNeed;
use brasserie_common_config::{CARD_PREFIX, Config};

use crate::event_log::{TaskId, WantedCards};

/// By the configurations that there were, of which a scheduler may go by any.
#[derive(Clone, Debug, Default)]
pub struct CardNeeds {
    last: Option<Arc<Config>>,
    needs: BTreeMap<u16, Need>,
}

/// What a job has needed so far.
#[derive(Clone, Debug)]
struct Need {
    first: CardNeed,
    constancy: Constancy,
    presence: Presence,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Constancy {
    Constant,
    Changed,
}

/// Whether the last configuration has the job. None comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Presence {
    There,
    Gone,
}

impl CardNeeds {
    /// To be called with each configuration, however often.
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
            need.presence = Presence::Gone;
        }
        for job in &config.jobs {
            let number = job.name.as_str().strip_prefix('j');
            let Some(number) = number.and_then(|number| number.parse().ok()) else {
                continue;
            };
            let now = config.card_need(job).unwrap_or_default();
            let need = self.needs.entry(number).or_insert_with(|| Need {
                first: now.clone(),
                constancy: Constancy::Constant,
                presence: Presence::There,
            });
            need.presence = Presence::There;
            if need.first != now {
                need.constancy = Constancy::Changed;
            }
        }
    }

    /// How much a run that is on its way counts for of what it was sent as, at least; `None`: one cannot tell. Without its job it is taken
    /// for a task of one CPU.
    pub fn still(&self, task: TaskId, (processor, usage): (&Processor, f64)) -> Option<f64> {
        let need = self.needs.get(&task.job);
        let constant = need.filter(|need| need.constancy == Constancy::Constant);
        match processor {
            Processor::Cpu => {
                let takes_none = constant.is_some_and(|need| need.first.is_nothing());
                (need.is_none() || takes_none).then(|| usage.min(1.0))
            }
            Processor::Cards(_) => {
                let is_there = constant.is_some_and(|need| need.presence == Presence::There);
                is_there.then_some(usage)
            }
        }
    }
}

/// How many cards a run takes, and of which model if it must be one; `None`: none.
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

/// The same of one whose worker chooses them: it counts as what its scheduler says.
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

    /// Jobs 0 and 1 take so many whole cards; of a job without a number there is none.
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
