//! Law `acknowledged_after_sync`: An end is acknowledged only when its record is synced, a repeat no earlier than the first.
//!
//! Source: thrift/PROTOCOL.md, R24 and R25. A crash loses unsynced records, and the worker forgets an acknowledged completion.

use brasserie_common::{StatusBits, Time};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::model::directories::Directories;
use crate::view::World;

const NAME: &str = "acknowledged_after_sync";

#[derive(Default)]
pub struct AcknowledgedAfterSync {
    directories: Directories,
}

impl Law for AcknowledgedAfterSync {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "An end is acknowledged only when its record is synced, a repeat no earlier than the first."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.directories.note(when, happening, world);
        let Happening::StatusAcknowledged {
            scheduler,
            run,
            bits,
            ..
        } = *happening
        else {
            return Ok(());
        };
        if run.task.is_healthcheck() || bits.has(StatusBits::OVERWRITEABLE) {
            return Ok(());
        }
        let contents = self.directories.contents_of(scheduler);
        let synced = contents.and_then(|c| c.synced().ends.get(&run.task));
        let covers = synced.is_some_and(|end| {
            let same = end.invocation == run.invocation && !end.is_provisional();
            end.is_done() || same || end.invocation > run.invocation
        });
        let deleted = contents.and_then(|c| c.synced().deleted.get(&run.task));
        if covers || deleted.is_some_and(|up_to| run.invocation <= *up_to) {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!(
                "scheduler {scheduler} acknowledges run {} of {} while the disk has {synced:?}",
                run.invocation, run.task
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    #[test]
    fn the_disk_comes_first() {
        let mut trial = Trial::of(AcknowledgedAfterSync::default());
        trial.sees(started(1)).sees(wrote_start(1));
        for happening in ended(1, 2, run(1), DONE) {
            trial.sees(happening);
        }
        trial.sees(acknowledged(1, 1, check(1), DONE));
        trial.breaks(acknowledged(1, 1, run(1), DONE), "while the disk has None");
        trial
            .sees(synced(1, 2))
            .sees(acknowledged(1, 1, run(1), DONE));
    }

    #[test]
    fn lost_on_the_disk_is_not_its_end() {
        let mut trial = Trial::of(AcknowledgedAfterSync::default());
        trial.sees(started(1)).sees(wrote_start(1));
        for happening in ended(1, 2, run(1), LOST) {
            trial.sees(happening);
        }
        trial.sees(synced(1, 2));
        for happening in ended(1, 3, run(1), DONE) {
            trial.sees(happening);
        }
        trial.breaks(acknowledged(1, 1, run(1), DONE), "while the disk has Some");
    }
}
