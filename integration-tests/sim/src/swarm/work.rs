//! What some runs have beside faults: busy schedulers, orphans that end, and the rarer kinds of work.

use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_scheduler_core::Retention;

use super::{Swarm, Variant};
use crate::dice::Dice;
use crate::event_log::FaultKind;

/// What becomes of tasks whose job or node is taken out of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphans {
    /// They run on.
    Stay,
    /// Jobs say when they are to end, and nodes come later than the configuration that they belong to.
    End,
}

/// Whether jobs wait until others are done as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gates {
    None,
    Some,
}

/// What the machines of workers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machines {
    /// Nothing that matters.
    Alike,
    /// Memory and cards, each time drawn anew, and tasks take of them.
    Measured,
}

/// Whether runs may take only so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limits {
    None,
    /// Many jobs have a timeout, a deadline, or both.
    Some,
}

/// Whether workers and jobs bound how many tasks they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rooms {
    /// None of them does.
    Endless,
    /// Most say a small number, each time that a worker starts or a job comes.
    Small,
}

/// Changes of jobs, and of nodes, in a run with orphans: one in a minute or two with the usual times.
const CHANGES_WITH_ORPHANS: u32 = 50;

const LONGEST_TURN: Duration = Duration::from_millis(300);

/// A worker that joins takes four turns, and must not be lost meanwhile.
const TURNS_IN_PATIENCE: u32 = 10;

/// The least time after which somebody is taken for ill or lost.
fn shortest_patience(timeouts: &Timeouts) -> Duration {
    timeouts
        .heartbeat_grace_period
        .min(timeouts.healthcheck_grace_period)
        .min(timeouts.lose_unhealthy_worker_after)
}

/// Workers that drain in a run that has some: each more than once in the usual run.
const DRAINS: u32 = 20;

/// Deletions of history in a run that has them: about as many as jobs come, so that most of these lose theirs once.
const DELETIONS: u32 = 20;

impl Swarm {
    /// Turns that take several things at once. Half of these runs have a second scheduler, as the one that steps down for it does so
    /// in a turn that may hold more.
    pub(super) fn take_turns(mut self, dice: &mut Dice) -> Self {
        let is_chosen = dice.per_mille(40);
        // Where workers have to join in time, nobody is busy.
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
        // Where workers have to join in time, nothing else happens.
        let is_chosen = dice.per_mille(400);
        if !is_chosen || self.variant == Variant::Turnover {
            return self;
        }
        self.orphans = Orphans::End;
        // There are orphans only where the configuration changes while much runs.
        self.change_often(dice);
        self
    }

    /// Completions of jobs and nodes that come and go, and are forgotten within the run.
    pub(super) fn forget_by_age(mut self, dice: &mut Dice) -> Self {
        // Elsewhere jobs and nodes come and go for other reasons, or not at all.
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
        // Where workers have to join in time, nothing else happens.
        if self.variant == Variant::Turnover {
            return self;
        }
        if gates {
            self.gates = Gates::Some;
        }
        if machines {
            self.machines = Machines::Measured;
        }
        if deletions {
            let mean = dice.around(self.fault_phase / DELETIONS);
            self.faults.push((FaultKind::OperatorForgets, mean));
        }
        if dice.per_mille(300) {
            self.limits = Limits::Some;
        }
        // Consensus is about workers that stay.
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
