//! Law `backoff`: A task does not start again before the configured backoff of its last end is over.
//!
//! Source: thrift/PROTOCOL.md, Run of a task. A failing task must not take the resources of the cluster.

use std::time::Duration;

use brasserie_common::{StatusBits, Time};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::model::directories::Directories;
use crate::model::drift;
use crate::view::World;

const NAME: &str = "backoff";

/// Checks completions of the same scheduler instance only. A later instance knows the configured backoff only by wall clocks.
#[derive(Default)]
pub struct Backoff {
    directories: Directories,
}

impl Law for Backoff {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task does not start again before the configured backoff of its last end is over."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        if let Happening::CallSent {
            scheduler,
            ask: Ask::Run { run, .. },
            ..
        } = *happening
            && let Some(contents) = self.directories.contents_of(scheduler)
            && let Some(end) = contents.written_end(run.task)
            && end.by == scheduler
            && end.bits.has(StatusBits::USES_BACKOFF)
        {
            let wait = Duration::from_secs(u64::from(end.backoff_seconds));
            if when.since(end.at) < drift::at_least(world, wait) {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "scheduler {scheduler} starts {} after {:?} of a backoff of {wait:?}",
                        run.task,
                        when.since(end.at)
                    ),
                ));
            }
        }
        self.directories.note(when, happening, world);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use crate::event_log::Fact;
    use brasserie_common::StatusBits;

    #[test]
    fn not_before_its_backoff() {
        let bits = StatusBits::ERROR.with(StatusBits::USES_BACKOFF);
        let mut trial = Trial::of(Backoff::default());
        trial.sees(started(1)).sees(wrote(1, 1, Fact::TaskEnded));
        trial.sees(end_written(1, 1, run(1), bits, 15, 0));
        trial
            .at(14)
            .breaks(sent(1, 1, 1, ask_run(run(2))), "backoff of 15s");
        trial.at(15).sees(sent(1, 1, 1, ask_run(run(2))));
    }
}
