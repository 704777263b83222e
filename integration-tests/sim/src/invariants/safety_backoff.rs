//! Law `safety_backoff`: A lost task does not start again before its safety backoff is over, counted anew in full after a restart.
//!
//! Source: thrift/PROTOCOL.md, B7 and R26. Until then its old process may live on a worker that cannot be reached.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{SchedulerId, Time};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::model::directories::Directories;
use crate::model::drift;
use crate::view::World;

const NAME: &str = "safety_backoff";

#[derive(Default)]
pub struct SafetyBackoff {
    directories: Directories,
    started: BTreeMap<SchedulerId, Time>,
}

impl Law for SafetyBackoff {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A lost task does not start again before its safety backoff is over, counted anew in full after a restart."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::SchedulerStarted { scheduler, .. } => {
                self.started.insert(scheduler, when);
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => {
                let contents = self.directories.contents_of(scheduler);
                if let Some(end) = contents.and_then(|c| c.written_end(run.task)) {
                    // A backoff that was found in the directory counts from the start of the scheduler.
                    let since = if end.by == scheduler {
                        end.at
                    } else {
                        self.started.get(&scheduler).copied().unwrap_or(when)
                    };
                    let wait = Duration::from_secs(u64::from(end.safety_seconds));
                    if when.since(since) < drift::at_least(world, wait) {
                        return Err(Violation::new(
                            NAME,
                            format_args!(
                                "scheduler {scheduler} starts {} after {:?} of the {wait:?} that its lost run {} gets",
                                run.task,
                                when.since(since),
                                end.invocation
                            ),
                        ));
                    }
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.started.remove(&scheduler);
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
    use brasserie_scheduler_core::LeftCause;

    fn lost(trial: &mut Trial<SafetyBackoff>) {
        trial.sees(started(1)).sees(wrote_start(1));
        trial.at(100).sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 2, run(1), LOST, SAFE, SAFE));
    }

    #[test]
    fn after_the_backoff_it_runs_again_and_not_before() {
        let mut trial = Trial::of(SafetyBackoff::default());
        lost(&mut trial);
        trial.at(166).sees(sent(1, 2, 1, ask_run(run(2))));
        let mut trial = Trial::of(SafetyBackoff::default());
        lost(&mut trial);
        trial
            .at(165)
            .breaks(sent(1, 2, 1, ask_run(run(2))), "starts j0/n0 after 65s");
    }

    #[test]
    fn a_restart_counts_anew() {
        let mut trial = Trial::of(SafetyBackoff::default());
        lost(&mut trial);
        trial.sees(synced(1, 2)).sees(stopped(1));
        trial.at(120).sees(started(2));
        trial
            .at(170)
            .breaks(sent(2, 2, 1, ask_run(run(2))), "after 50s");
    }

    #[test]
    fn its_own_end_takes_the_wait_away() {
        let mut trial = Trial::of(SafetyBackoff::default());
        lost(&mut trial);
        for happening in ended(1, 3, run(1), ERROR) {
            trial.at(110).sees(happening);
        }
        trial.sees(sent(1, 2, 1, ask_run(run(2))));
    }
}
