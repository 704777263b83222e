//! Law `lists_what_it_has`: A worker that asks for work lists every run that its scheduler knows it to have, until the end of that run is acknowledged.
//!
//! Source: one system, 7.8. What is not listed is taken to be on its way, and may be given away by nobody: a list with gaps is a worker
//! that has lost a task, or a scheduler that has kept one.

use brasserie_common::Time;
use brasserie_scheduler_core::WorkCounts;

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::view::World;

const NAME: &str = "lists_what_it_has";

pub struct ListsWhatItHas;

impl Law for ListsWhatItHas {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker that asks for work lists every run that its scheduler knows it to have, until the end of that run is acknowledged."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::SchedulerTurn { place } => match world.scheduler(place) {
                Some(core) => judge(&core.work_counts()),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

/// The scheduler itself compares each list with what it knows, and counts what is missing.
fn judge(counts: &WorkCounts) -> Result<(), Violation> {
    match counts.missing_runs {
        0 => Ok(()),
        missing => Err(Violation::new(
            NAME,
            format_args!("{missing} runs were missing in requests for work"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scheduler_counts_is_told() {
        let counts = WorkCounts {
            requests: 5,
            looked_at: 3,
            too_soon: 2,
            ..WorkCounts::default()
        };
        assert_eq!(judge(&counts), Ok(()));
        let missing_runs = 2;
        let counts = WorkCounts {
            missing_runs,
            ..counts
        };
        let violation = judge(&counts).unwrap_err();
        assert!(violation.what.starts_with("2 runs"), "{violation}");
    }
}
