//! The simulated machine of the worker: when it and its parts are available, and how fast its tasks run.

use crate::availability::OnOffProcess;
use crate::dice::{Dice, Stream};
use crate::figures::Peak;
use crate::scenario::{Scenario, Version};

/// The availability of the worker and its parts over time.
pub struct MachineAvailability {
    on: OnOffProcess,
    active: OnOffProcess,
    cards: OnOffProcess,
    connected: OnOffProcess,
}

/// The availability of the worker and its parts at one instant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Availability {
    pub on: bool,
    /// Whether the worker may compute.
    pub active: bool,
    /// Whether its GPUs may compute too.
    pub cards: bool,
    pub connected: bool,
}

impl MachineAvailability {
    pub fn new(scenario: &Scenario, now: f64) -> Self {
        let process = |number, of| {
            let dice = Dice::new(scenario.seed, Stream::Worker, number);
            OnOffProcess::new(of, dice, now)
        };
        let worker = &scenario.worker;
        MachineAvailability {
            on: process(0, worker.on),
            active: process(1, worker.active),
            cards: process(2, worker.cards_active),
            connected: process(3, worker.connected),
        }
    }

    /// Returns the availability at this time. Times must not decrease from call to call.
    pub fn at(&mut self, now: f64) -> Availability {
        let on = self.on.at(now);
        let active = self.active.at(now) && on;
        Availability {
            on,
            active,
            cards: self.cards.at(now) && active,
            connected: self.connected.at(now) && on,
        }
    }
}

/// Returns the peak speed of the worker's processors.
pub fn peak(scenario: &Scenario) -> Peak {
    let worker = &scenario.worker;
    let of = |of_type: usize| f64::from(worker.instances(of_type)) * worker.speed(of_type);
    Peak {
        cpus: of(0) * worker.flops,
        cards: (1..worker.types()).map(of).sum::<f64>() * worker.flops,
    }
}

/// Returns the operations at peak speed that the task occupies in a second, and the operations of its own work that it completes.
/// `cpu_scale` is the speed of CPU tasks.
pub fn speeds(scenario: &Scenario, version: &Version, cpu_scale: f64) -> (f64, f64) {
    let worker = &scenario.worker;
    let cards = version
        .cards
        .map_or(0.0, |(place, count)| count * worker.speed(place + 1));
    let used = worker.flops * (version.cpus * cpu_scale + cards);
    let scale = if version.cards.is_some() {
        1.0
    } else {
        cpu_scale
    };
    (used, version.flops * scale)
}

/// Returns the relative speed of CPU tasks beside these running tasks.
pub fn cpu_scale<'a>(cpus: u32, running: impl Iterator<Item = &'a Version>) -> f64 {
    let (mut beside_cards, mut own) = (0.0, 0.0);
    for version in running {
        match version.cards {
            Some(_) => beside_cards += version.cpus,
            None => own += version.cpus,
        }
    }
    let there = f64::from(cpus);
    match beside_cards + own > there && own > 0.0 {
        true => ((there - beside_cards) / own).clamp(0.01, 1.0),
        false => 1.0,
    }
}
