//! Law `one_scheduler_a_directory`: One scheduler at a time uses a data directory, and each is later than every one that it remembers.
//!
//! Source: thrift/PROTOCOL.md, R1 and R14. Two schedulers would acknowledge completions and start tasks unknown to each other.

use std::collections::BTreeMap;

use brasserie_common::{SchedulerId, Time};

use super::{Law, Violation};
use crate::event_log::{DirectoryId, Happening};
use crate::model::directories::Directories;
use crate::view::World;

const NAME: &str = "one_scheduler_a_directory";

#[derive(Default)]
pub struct OneSchedulerADirectory {
    directories: Directories,
    holder: BTreeMap<DirectoryId, SchedulerId>,
}

impl Law for OneSchedulerADirectory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "One scheduler at a time uses a data directory, and each is later than every one that it remembers."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::SchedulerStarted {
                directory,
                scheduler,
                ..
            } => {
                if let Some(holder) = self.holder.insert(directory, scheduler) {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} starts on directory {}, which {holder} uses",
                            directory.0
                        ),
                    ));
                }
                let contents = self.directories.get(directory);
                if let Some(last) = contents.and_then(|c| c.synced().schedulers.last())
                    && *last >= scheduler
                {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} is no later than {last}, which its directory remembers"
                        ),
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.holder.retain(|_, holder| *holder != scheduler);
            }
            _ => {}
        }
        self.directories.note(when, happening, world);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    #[test]
    fn one_after_the_other_and_forward() {
        let mut trial = Trial::of(OneSchedulerADirectory::default());
        trial
            .sees(started(1))
            .sees(wrote_start(1))
            .sees(synced(1, 1))
            .sees(stopped(1));
        trial.sees(started(2)).sees(stopped(2));
        trial.breaks(started(1), "no later than");
    }

    #[test]
    fn not_two_at_once() {
        let mut trial = Trial::of(OneSchedulerADirectory::default());
        trial.sees(started(1));
        trial.breaks(started(2), "which 1:0000000000000001 uses");
    }
}
