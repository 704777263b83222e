//! The supply of one job's tasks.

use crate::dice::Dice;
use crate::scenario::{JobSupply, Supply};

#[derive(Clone, Debug)]
pub struct TaskSupply {
    supply: Supply,
    dice: Dice,
    /// Seconds from the start before which no task is ready.
    opens: f64,
    is_open: bool,
    /// The number of ready tasks, meaningless for an endless supply.
    ready: u64,
    next_arrival: f64,
    /// The number of tasks still to come; `None` for no end.
    to_come: Option<u32>,
}

impl TaskSupply {
    /// Creates a supply whose tasks are not ready before `opens`.
    pub fn new(supply: Supply, jobs: JobSupply, dice: Dice, opens: f64) -> Self {
        let supply = match jobs {
            JobSupply::AsListed => supply,
            JobSupply::ExistingOnly => Supply::All { count: 0 },
        };
        let mut pool = TaskSupply {
            supply,
            dice,
            opens,
            is_open: false,
            ready: 0,
            next_arrival: f64::INFINITY,
            to_come: Some(0),
        };
        match supply {
            Supply::Endless => {}
            Supply::All { count } => pool.ready = u64::from(count),
            Supply::Every { mean, count } => {
                pool.to_come = count;
                pool.next_arrival = opens;
                pool.plan(mean);
            }
        }
        pool
    }

    fn plan(&mut self, mean: f64) {
        self.next_arrival = match self.to_come {
            Some(0) => f64::INFINITY,
            Some(_) | None => self.next_arrival + self.dice.exponential(mean),
        };
    }

    pub fn next_arrival(&self) -> f64 {
        match self.supply {
            Supply::Endless | Supply::All { .. } if !self.is_open => self.opens,
            Supply::Endless | Supply::All { .. } | Supply::Every { .. } => self.next_arrival,
        }
    }

    /// Makes the tasks ready that have arrived by now.
    pub fn advance(&mut self, now: f64) {
        self.is_open = now >= self.opens;
        let Supply::Every { mean, .. } = self.supply else {
            return;
        };
        while self.next_arrival <= now {
            self.ready += 1;
            self.to_come = self.to_come.map(|left| left.saturating_sub(1));
            self.plan(mean);
        }
    }

    pub fn is_empty(&self) -> bool {
        match self.supply {
            _ if !self.is_open => true,
            Supply::Endless => false,
            Supply::All { .. } | Supply::Every { .. } => self.ready == 0,
        }
    }

    pub fn take(&mut self) {
        self.ready = self.ready.saturating_sub(1);
    }

    /// Returns a task that must run again.
    pub fn give_back(&mut self) {
        self.ready += 1;
    }
}
