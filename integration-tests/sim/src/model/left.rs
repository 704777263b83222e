//! What is left of a worker's wish for work, as whoever holds its scheduler to it counts.

use brasserie_common::WorkDemand;

/// Sums of what tasks take, as floats.
const ROUNDING: f64 = 1e-6;
/// However sums are rounded.
const USED_UP: f64 = -2.0 * ROUNDING;
/// No more than that is left where they should have come to nothing. Tasks of a millisecond may leave a part of it.
const NOTHING: f64 = 1e-9;

/// What is left of a request for one type of processors; never less than the scheduler itself leaves.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    secs: f64,
    instances: f64,
    idle: f64,
    there: f64,
    /// For how many tasks wait, if what ends makes idle.
    waiting: Option<f64>,
}

impl Left {
    pub fn of(demand: &WorkDemand) -> Self {
        Left {
            secs: from_the_start(demand.instance_secs),
            instances: from_the_start(demand.instances),
            idle: from_the_start(demand.idle),
            there: demand.there,
            waiting: demand.waiting,
        }
    }

    /// Whether the ends of what is sent for it make idle.
    pub fn comes_back(&self) -> bool {
        self.waiting.is_some()
    }

    pub fn give_back(&mut self, usage: f64) {
        if let Some(waiting) = &mut self.waiting {
            let theirs = usage.min(*waiting);
            *waiting -= theirs;
            let idle = (self.idle + usage - theirs).min(self.there);
            self.idle = self.idle.max(idle);
        }
    }

    /// It took nothing after all.
    pub fn take_back(&mut self, usage: f64, seconds: f64) {
        self.secs += usage * seconds;
        self.instances += usage;
        self.idle = self.idle.max((self.idle + usage).min(self.there));
    }

    pub fn take(&mut self, usage: f64, seconds: f64) {
        self.secs -= usage * seconds;
        self.instances -= usage;
        self.idle -= usage;
    }

    /// What was used up is used up: a sum of floats may not bring it back.
    pub fn settle(&mut self) {
        for amount in [&mut self.secs, &mut self.instances, &mut self.idle] {
            if *amount <= NOTHING {
                *amount = amount.min(USED_UP);
            }
        }
    }

    pub fn allows(&self, bufferable: bool) -> bool {
        match bufferable {
            true => self.secs > -ROUNDING || self.instances > -ROUNDING,
            false => self.idle > -ROUNDING,
        }
    }

    /// Nothing at all was asked for.
    pub fn is_nothing(&self) -> bool {
        self.secs <= 0.0 && self.instances <= 0.0 && self.idle <= 0.0
    }
}

/// What was not asked for is not a sum that was rounded.
fn from_the_start(amount: f64) -> f64 {
    match amount > 0.0 {
        true => amount,
        false => USED_UP,
    }
}
