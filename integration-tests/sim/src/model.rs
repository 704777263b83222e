//! The reference models that the laws compare against: the live processes, what each scheduler received, the content of each directory.
//!
//! Each model sees every [`Happening`] once and keeps only what its laws need. Models decide nothing.

pub mod associations;
pub mod card_needs;
pub mod directories;
pub mod executions;
pub mod led_runs;
pub mod machines;
pub mod requests;
pub mod runs;
pub mod worker_sets;
pub mod workers;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use brasserie_common::{SchedulerId, Time};

use crate::event_log::Happening;
use crate::view::World;
use associations::Associations;
use directories::Directories;
use executions::{Executions, Sleepers};
use led_runs::LedRuns;
use machines::MachineSizes;
use requests::OpenRequests;
use runs::Runs;
use worker_sets::WorkerSets;
use workers::Workers;

/// All models that several laws share.
#[derive(Clone, Debug, Default)]
pub struct Model {
    pub executions: Executions,
    pub sleepers: Sleepers,
    pub associations: Associations,
    pub runs: Runs,
    pub directories: Directories,
    pub worker_sets: WorkerSets,
    pub machines: MachineSizes,
    pub workers: Workers,
    pub requests: OpenRequests,
    pub led_runs: LedRuns,

    /// Living schedulers that have left their initial wait.
    pub past_wait: BTreeSet<SchedulerId>,
}

impl Model {
    /// Adds a happening.
    pub fn note(&mut self, when: Time, happening: &Happening, world: &World<'_>) {
        self.executions.note(happening);
        self.sleepers.note(when, happening);
        self.associations.note(when, happening);
        self.runs.note(happening);
        self.directories.note(when, happening, world);
        self.worker_sets.note(happening);
        self.machines.note(happening);
        self.workers.note(when, happening, world);
        self.requests.note(when, happening);
        self.led_runs.note(happening);
        match *happening {
            Happening::WaitEnded { scheduler, .. } => {
                self.past_wait.insert(scheduler);
            }
            Happening::WaitsAgain { scheduler, .. }
            | Happening::SchedulerStopped { scheduler, .. } => {
                self.past_wait.remove(&scheduler);
            }
            _ => {}
        }
    }
}
