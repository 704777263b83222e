//! Law `fences_increase`: The fences of a task's runs strictly increase in the order in which the runs begin.
//!
//! Source: thrift/PROTOCOL.md, R40 and Fences. Storage that rejects smaller fences is safe from a run that outlives its replacement. A
//! directory that was lost or restored forgets the fences given out since. Then a fence is above an earlier one only in two cases: a worker
//! has listed that fence or a larger one to the new scheduler, or the new scheduler began in a later second than the earlier fence's
//! generation.

use std::collections::BTreeMap;

use brasserie_common::{Fence, FenceGeneration, Health, InvocationId, SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, DirectoryId, Happening, Run, TaskId};
use crate::view::{Contract, World};

const NAME: &str = "fences_increase";

#[derive(Default)]
pub struct FencesIncrease {
    /// How often each directory has lost records.
    losses: BTreeMap<DirectoryId, u32>,
    /// The losses of the directory before each scheduler started.
    after_losses: BTreeMap<SchedulerId, u32>,
    senders: BTreeMap<InvocationId, SchedulerId>,
    fences: BTreeMap<InvocationId, Fence>,
    last: BTreeMap<TaskId, InvocationId>,
    /// The scheduler whose fetch was served last.
    asking: Option<SchedulerId>,
    /// The largest fence in the latest list.
    listed: BTreeMap<(SchedulerId, WorkerId), Option<Fence>>,
    /// The largest fence in all lists that a scheduler has certainly read.
    known: BTreeMap<SchedulerId, Fence>,
}

impl Law for FencesIncrease {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "The fences of a task's runs strictly increase in the order in which the runs begin."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::SchedulerStarted {
                scheduler,
                directory,
                ..
            } => {
                let losses = self.losses.get(&directory).copied().unwrap_or(0);
                self.after_losses.insert(scheduler, losses);
            }
            Happening::DirectoryLost { directory } | Happening::BackupRestored { directory } => {
                *self.losses.entry(directory).or_default() += 1;
            }
            Happening::CallSent {
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => {
                self.senders.insert(run.invocation, scheduler);
            }
            Happening::Served {
                scheduler,
                worker,
                ask: Ask::Fetch,
                refusal: None,
                ..
            } => {
                self.asking = Some(scheduler);
                self.listed.insert((scheduler, worker), None);
            }
            Happening::Listed { worker, run, .. } => {
                let fence = self.fences.get(&run.invocation).copied();
                if let Some(scheduler) = self.asking
                    && let Some(listed) = self.listed.get_mut(&(scheduler, worker))
                {
                    *listed = fence.max(*listed);
                }
            }
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                ..
            } if state != Health::New => {
                if let Some(Some(listed)) = self.listed.remove(&(scheduler, worker)) {
                    let known = self.known.entry(scheduler).or_insert(listed);
                    *known = listed.max(*known);
                }
            }
            Happening::Fenced { run, fence } => return self.begins(run, fence, world),
            _ => {}
        }
        Ok(())
    }
}

impl FencesIncrease {
    fn begins(&mut self, run: Run, fence: Fence, world: &World<'_>) -> Result<(), Violation> {
        self.fences.insert(run.invocation, fence);
        let before = self.last.insert(run.task, run.invocation);
        let Some(before) = before.filter(|_| world.contract == Contract::Whole) else {
            return Ok(());
        };
        let Some(earlier) = self.fences.get(&before).copied() else {
            return Ok(());
        };
        if fence > earlier || self.is_forgotten((before, earlier), run.invocation) {
            return Ok(());
        }
        Err(Violation::new(
            NAME,
            format_args!(
                "{} begins run {} with fence {fence} after run {before} with fence {earlier}",
                run.task, run.invocation
            ),
        ))
    }

    /// Returns whether the scheduler of `run` could not know that this fence was given out.
    fn is_forgotten(&self, (before, earlier): (InvocationId, Fence), run: InvocationId) -> bool {
        let sender = |of| self.senders.get(of).copied();
        let (Some(old), Some(new)) = (sender(&before), sender(&run)) else {
            return false;
        };
        let began = FenceGeneration::of_second(new.0.start_time);
        self.after_losses.get(&old) != self.after_losses.get(&new)
            && earlier.generation() >= began
            && self.known.get(&new) < Some(&earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;

    fn begins_with(n: i64, generation: u32, counter: u32) -> Happening {
        Happening::Fenced {
            run: run(n),
            fence: Fence::new(FenceGeneration(generation), counter),
        }
    }

    fn sends(s: i64, n: i64) -> Happening {
        sent(
            s,
            1,
            u32::try_from(n).unwrap(),
            Ask::Run {
                run: run(n),
                sequence: Default::default(),
            },
        )
    }

    #[test]
    fn fences_of_a_task_go_up() {
        let mut trial = Trial::of(FencesIncrease::default());
        trial.sees(begins_with(1, 5, 1)).sees(begins_with(2, 5, 2));
        trial.sees(begins_with(3, 6, 1));
        trial.breaks(begins_with(4, 6, 1), "after run");
        trial.breaks(begins_with(5, 5, 9), "after run");
    }

    #[test]
    fn a_lost_directory_excuses_what_nobody_listed_and_no_clock_tells() {
        let mut trial = Trial::of(FencesIncrease::default());
        trial.sees(started(1)).sees(sends(1, 1));
        trial.sees(begins_with(1, 9, 1));
        trial.sees(Happening::DirectoryLost { directory: D });
        trial.sees(started(4)).sees(sends(4, 2));
        trial.sees(begins_with(2, 4, 1));
        // This scheduler began in a later second than that generation.
        trial.sees(started(5)).sees(sends(5, 3));
        trial.breaks(begins_with(3, 4, 1), "after run");
    }
}
