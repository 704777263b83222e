//! Law `running_before_sent`: A task is running for its scheduler from before runTask leaves until an end that was accepted, a refusal, or
//! the loss of the worker.
//!
//! Source: thrift/PROTOCOL.md, B1. A scheduler that forgets a run starts the next one beside it.

use brasserie_common::Time;
use brasserie_scheduler_engine::{Task, TaskState};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, Run, SchedulerPlace};
use crate::model::runs::Runs;
use crate::view::World;

const NAME: &str = "running_before_sent";

#[derive(Default)]
pub struct RunningBeforeSent {
    runs: Runs,
    /// Runs sent in this turn. By its end the scheduler's own tables must contain them.
    fresh: Vec<(SchedulerPlace, brasserie_common::SchedulerId, Run)>,
}

impl Law for RunningBeforeSent {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task is running for its scheduler from before runTask leaves until an end that was accepted, a refusal, or the loss of the worker."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::CallSent {
                place,
                scheduler,
                ask: Ask::Run { run, .. },
                ..
            } => {
                if let Some((old, worker)) = self.runs.get(scheduler, run.task) {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} sends {} again as run {}, while run {} on worker {worker} has not ended",
                            run.task, run.invocation, old.invocation
                        ),
                    ));
                }
                self.fresh.push((place, scheduler, run));
            }
            Happening::SchedulerTurn { place: turn } => {
                let fresh = std::mem::take(&mut self.fresh);
                for (place, scheduler, run) in fresh {
                    // The run may have ended in the same turn.
                    let is_under_way = self.runs.get(scheduler, run.task).is_some();
                    if place == turn && is_under_way {
                        judge(run, running_in(world, place, run))?;
                    }
                }
            }
            _ => {}
        }
        self.runs.note(happening);
        Ok(())
    }
}

/// Returns whether the scheduler's own tables contain the run; `None` if no process is alive there.
fn running_in(world: &World<'_>, place: SchedulerPlace, run: Run) -> Option<bool> {
    let core = world.schedulers.get(usize::from(place.0))?.core()?;
    let engine = core.engine();
    let job = engine.find_job(&format!("j{}", run.task.job));
    let node = engine.find_node(&format!("n{}", run.task.node));
    let (Some(job), Some(node)) = (job, node) else {
        return Some(false);
    };
    Some(engine.task_state(Task { job, node }) == TaskState::Running)
}

fn judge(run: Run, is_running: Option<bool>) -> Result<(), Violation> {
    match is_running {
        None | Some(true) => Ok(()),
        Some(false) => Err(Violation::new(
            NAME,
            format_args!(
                "run {} of {} was sent, but its scheduler does not have it running",
                run.invocation, run.task
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use crate::event_log::OutcomeKind;
    use brasserie_common::RefusalCode;

    #[test]
    fn the_next_run_is_sent_after_an_end() {
        let mut trial = Trial::of(RunningBeforeSent::default());
        trial
            .sees(sent(1, 1, 1, ask_run(run(1))))
            .sees(scheduler_turn());
        for happening in ended(1, 2, run(1), ERROR) {
            trial.sees(happening);
        }
        trial.sees(sent(1, 2, 2, ask_run(run(2))));
        let refused = OutcomeKind::Refused(RefusalCode::Busy);
        trial.sees(over(1, 2, 2, ask_run(run(2)), refused));
        trial.sees(sent(1, 1, 3, ask_run(run(3))));
        trial.sees(over(1, 1, 3, ask_run(run(3)), OutcomeKind::Unknown));
        trial.breaks(sent(1, 2, 4, ask_run(run(4))), "has not ended");
    }

    #[test]
    fn the_schedulers_tables_must_have_it() {
        assert_eq!(judge(run(1), Some(true)), Ok(()));
        let violation = judge(run(1), Some(false)).unwrap_err();
        assert!(
            violation.what.contains("does not have it running"),
            "{violation}"
        );
    }
}
