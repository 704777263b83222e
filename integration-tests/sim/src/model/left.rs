//! The credit left of a work request, as a law counts it independently of the scheduler.

use brasserie_common::WorkDemand;

/// Tolerance for sums of floats.
const ROUNDING: f64 = 1e-6;
/// An amount below this is used up, whatever the rounding.
const USED_UP: f64 = -2.0 * ROUNDING;
/// The largest amount that rounding leaves of a sum of zero. Tasks of a millisecond may leave part of it.
const NOTHING: f64 = 1e-9;

/// The credit left for one type of processor. It is never less than the scheduler's own count.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    secs: f64,
    instances: f64,
    idle: f64,
    there: f64,
    /// The number of instances for which tasks wait at the worker, if completions give instances back.
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

    /// Returns whether completions of runs sent for this request make instances idle again.
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

    /// Returns the amount of a task that used nothing after all.
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

    /// Clears amounts that were used up, so that float rounding does not bring them back.
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

    /// Returns whether nothing was requested.
    pub fn is_nothing(&self) -> bool {
        self.secs <= 0.0 && self.instances <= 0.0 && self.idle <= 0.0
    }
}

/// Treats an amount that was never requested as used up, since rounding cannot have caused it.
fn from_the_start(amount: f64) -> f64 {
    match amount > 0.0 {
        true => amount,
        false => USED_UP,
    }
}
