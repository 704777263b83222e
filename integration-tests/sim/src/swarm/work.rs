//! Draws what some runs have besides faults: busy schedulers, orphans that end, and the rarer kinds of work.

use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_scheduler_core::Retention;

use super::{Swarm, Variant};
use crate::dice::Dice;
use crate::event_log::FaultKind;

/// The fate of tasks whose job or node leaves the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanFate {
    /// Orphans run on.
    Stay,
    /// Jobs state when their orphans end, and nodes arrive later than their configuration.
    End,
}

/// Whether jobs wait until others are completely done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gates {
    None,
    Some,
}

/// The sizes of the workers' machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineSizing {
    /// No resources that matter.
    Alike,
    /// Memory and GPUs, drawn at each start of a worker, and tasks that need them.
    Measured,
}

/// Whether runs have limits of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimits {
    None,
    /// Many jobs have a timeout, a deadline, or both.
    Some,
}

/// Whether workers and jobs limit the number of their running tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rooms {
    /// None of them does.
    Endless,
    /// Most state a small number, drawn at each start of a worker and for each new job.
    Small,
}

/// Whether tasks stand by at workers whose slots are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standbys {
    None,
    /// Many jobs are short, and many workers take tasks that stand by.
    Some,
}

/// Changes of jobs, and of nodes, in a run with orphans: one in a minute or two with the usual times.
const CHANGES_WITH_ORPHANS: u32 = 50;

const LONGEST_TURN: Duration = Duration::from_millis(300);

/// A joining worker takes four turns and must not be lost meanwhile.
const TURNS_IN_PATIENCE: u32 = 10;

/// Returns the shortest time after which a worker counts as unhealthy or lost.
fn shortest_patience(timeouts: &Timeouts) -> Duration {
    timeouts
        .heartbeat_grace_period
        .min(timeouts.healthcheck_grace_period)
        .min(timeouts.lose_unhealthy_worker_after)
}

/// The number of drains in a run that has some. In a usual run each worker drains more than once.
const DRAINS: u32 = 20;

/// The number of deletions of history in a run that has them. It is close to the number of jobs, so most jobs lose their history once.
const DELETIONS: u32 = 20;

impl Swarm {
    /// Adds turns that handle several inputs at once. Half of these runs have a second scheduler, because the scheduler that steps down for
    /// it may do so in a turn with other inputs.
    pub(super) fn take_turns(mut self, dice: &mut Dice) -> Self {
        let is_chosen = dice.per_mille(40);
        // No scheduler is busy in runs in which workers must join in time.
        if !is_chosen || self.variant == Variant::Turnover {
            return self;
        }
        let longest = LONGEST_TURN.min(shortest_patience(&self.shortest) / TURNS_IN_PATIENCE);
        self.turn_takes = dice.between(Duration::from_millis(1), longest);
        let kind = FaultKind::SecondScheduler;
        if dice.per_mille(500) && self.faults.iter().all(|(other, _)| *other != kind) {
            let mean = dice.around(self.fault_phase / 4);
            self.faults.push((kind, mean));
        }
        self
    }

    pub(super) fn end_orphans(mut self, dice: &mut Dice) -> Self {
        // Nothing else happens in runs in which workers must join in time.
        let is_chosen = dice.per_mille(400);
        if !is_chosen || self.variant == Variant::Turnover {
            return self;
        }
        self.orphans = OrphanFate::End;
        // Orphans arise only if the configuration changes while many tasks run.
        self.change_often(dice);
        self
    }

    /// Adds jobs and nodes that come and go, and completions that expire within the run.
    pub(super) fn forget_by_age(mut self, dice: &mut Dice) -> Self {
        // Jobs and nodes come and go for other reasons, or not at all, in other variants.
        if !dice.per_mille(150) || self.variant != Variant::Mixed {
            return self;
        }
        self.retention = Retention {
            missing_for: dice.between(self.fault_phase / 40, self.fault_phase / 8),
            max_missing: match dice.per_mille(500) {
                true => usize::MAX,
                false => dice.below(4),
            },
        };
        self.change_often(dice);
        self
    }

    /// Adds workers where tasks stand by, with more tasks than slots.
    pub(super) fn stand_by(mut self, dice: &mut Dice) -> Self {
        if dice.per_mille(300) {
            self.standbys = Standbys::Some;
        }
        self
    }

    fn change_often(&mut self, dice: &mut Dice) {
        for kind in [FaultKind::ConfigChange, FaultKind::NodesChange] {
            self.faults.retain(|(other, _)| *other != kind);
            let mean = dice.around(self.fault_phase / CHANGES_WITH_ORPHANS);
            self.faults.push((kind, mean));
        }
    }

    pub(super) fn more_work(mut self, dice: &mut Dice) -> Self {
        let mut is_chosen = || dice.per_mille(300);
        let (gates, machines, deletions) = (is_chosen(), is_chosen(), is_chosen());
        // Nothing else happens in runs in which workers must join in time.
        if self.variant == Variant::Turnover {
            return self;
        }
        if gates {
            self.gates = Gates::Some;
        }
        if machines {
            self.machines = MachineSizing::Measured;
        }
        if deletions {
            let mean = dice.around(self.fault_phase / DELETIONS);
            self.faults.push((FaultKind::OperatorForgets, mean));
        }
        if dice.per_mille(300) {
            self.limits = TimeLimits::Some;
        }
        // The consensus variant needs workers that stay.
        if dice.per_mille(300) && self.variant != Variant::Consensus {
            let mean = dice.around(self.fault_phase / DRAINS);
            self.faults.push((FaultKind::WorkerDrain, mean));
        }
        if dice.per_mille(300) {
            self.rooms = Rooms::Small;
        }
        self
    }
}
