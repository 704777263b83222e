//! Runs with artifacts, which begin at their worker before they have a process.

use std::collections::BTreeSet;

use brasserie_common::{InvocationId, WorkerId};

use crate::artifact_events::ArtifactEvent;
use crate::event_log::{Happening, Run};

/// The runs with artifacts that have begun at a living worker.
#[derive(Clone, Debug, Default)]
pub struct LedRuns(BTreeSet<(WorkerId, InvocationId)>);

impl LedRuns {
    pub fn note(&mut self, happening: &Happening) {
        match happening {
            Happening::Artifacts(event) => {
                if let ArtifactEvent::Waits { worker, run, .. } = **event {
                    self.0.insert((worker, run.invocation));
                }
            }
            Happening::WorkerStopped { worker, .. } => self.0.retain(|(of, _)| of != worker),
            _ => {}
        }
    }

    /// Returns the run that takes its place at a worker here, if one does: when it begins to wait for its inputs, or else when its process
    /// starts.
    pub fn begins(&self, happening: &Happening) -> Option<(WorkerId, Run)> {
        match happening {
            Happening::Artifacts(event) => match **event {
                ArtifactEvent::Waits { worker, run, .. } => Some((worker, run)),
                _ => None,
            },
            Happening::ProcessStarted { worker, run, .. } => {
                let is_led = self.0.contains(&(*worker, run.invocation));
                (!is_led).then_some((*worker, *run))
            }
            _ => None,
        }
    }
}
