//! Bounds the time by which all tasks of the simulation have ended.

use super::super::types::{Association, PerType, ProcessorType, Processors};
use super::{LEAST_PLACE, Simulated, SimulationInput};

/// Two upper bounds, of which the lower one is used.
///
/// One task or more runs at any time, so all tasks complete within the sum of their remaining times. Without limits for running tasks,
/// either all CPUs are busy, at most for the remaining CPU work divided by their number, or all CPU tasks run, at most for the longest
/// task. At least one task of each GPU model runs, because the rest of a GPU may fit no queued task.
pub(super) struct LatestEnd {
    left: f64,
    of_type: PerType<OfType>,
    is_limited: bool,
}

#[derive(Clone, Default)]
struct OfType {
    /// Remaining work: instance-seconds of a CPU, seconds of a GPU model.
    work: f64,
    longest: f64,
}

impl LatestEnd {
    pub(super) fn new(simulation_input: &SimulationInput, tasks: &[Simulated]) -> Self {
        let is_limited = simulation_input
            .associations
            .iter()
            .any(Association::is_limited);
        let mut latest = LatestEnd {
            left: 0.0,
            of_type: simulation_input.processors.table(&OfType::default()),
            is_limited,
        };
        for task in tasks {
            latest.pass(task, -task.left);
            let longest = &mut latest.of_type[task.of_type].longest;
            *longest = longest.max(task.left);
        }
        latest
    }

    /// Notes that this many seconds of a task are done.
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

    /// Returns the bound in seconds, from the current simulated time on.
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
