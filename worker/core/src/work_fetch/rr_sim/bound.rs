//! When all tasks of the simulation have ended at the latest.

use super::super::types::{Association, PerType, ProcessorType, Processors};
use super::{LEAST_PLACE, Simulated, Situation};

/// Two bounds, of which the lower holds.
///
/// One task runs at any time: so all have ended after the sum of what is left of them. And, where nothing limits how many run at once, all CPUs
/// are taken, or all tasks of the CPU run: the first for no longer than the work that is left takes on all of them, the second for no longer
/// than the longest task. Of each model of cards one task runs at least, as parts of cards may fit none of those that wait.
pub(super) struct LatestEnd {
    left: f64,
    of_type: PerType<OfType>,
    is_limited: bool,
}

#[derive(Clone, Default)]
struct OfType {
    /// Instance-seconds that are left; of cards seconds.
    work: f64,
    longest: f64,
}

impl LatestEnd {
    pub(super) fn new(situation: &Situation, tasks: &[Simulated]) -> Self {
        let is_limited = situation.associations.iter().any(Association::is_limited);
        let mut latest = LatestEnd {
            left: 0.0,
            of_type: situation.processors.table(&OfType::default()),
            is_limited,
        };
        for task in tasks {
            latest.pass(task, -task.left);
            let longest = &mut latest.of_type[task.of_type].longest;
            *longest = longest.max(task.left);
        }
        latest
    }

    /// So many seconds of a task are done.
    pub(super) fn pass(&mut self, task: &Simulated, seconds: f64) {
        self.left -= seconds;
        let place = match task.of_type {
            ProcessorType::CPU => task.usage.of_its_type().max(LEAST_PLACE),
            _ => 1.0,
        };
        self.of_type[task.of_type].work -= seconds * place;
        if task.usage.cards.is_some() {
            self.of_type[ProcessorType::CPU].work -= seconds * task.usage.cpus;
        }
    }

    /// From the simulated instant on.
    pub(super) fn seconds(&self, processors: &Processors) -> f64 {
        let one_by_one = self.left.max(0.0);
        if self.is_limited {
            return one_by_one;
        }
        let of_type = self.of_type.iter().map(|(of_type, it)| {
            let instances = processors.instances(of_type);
            if it.longest == 0.0 {
                0.0
            } else if of_type != ProcessorType::CPU {
                it.work.max(0.0)
            } else if instances > 0.0 {
                it.work.max(0.0) / instances + it.longest
            } else {
                f64::INFINITY
            }
        });
        of_type.fold(0.0, f64::max).min(one_by_one)
    }
}
