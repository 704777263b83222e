//! Law `final_stays_final`: A task that is DONE or FAILED does not run again, not after a restart either.
//!
//! Source: thrift/PROTOCOL.md, Run of a task. Either the work is done, or an operator must examine it first.

use brasserie_common::Time;

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::model::directories::Directories;
use crate::view::World;

const NAME: &str = "final_stays_final";

#[derive(Default)]
pub struct FinalStaysFinal {
    directories: Directories,
}

impl Law for FinalStaysFinal {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task that is DONE or FAILED does not run again, not after a restart either."
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
            && (end.is_done() || end.is_failed())
        {
            let what = if end.is_done() { "DONE" } else { "FAILED" };
            return Err(Violation::new(
                NAME,
                format_args!(
                    "scheduler {scheduler} starts {} although its run {} has {what}",
                    run.task, end.invocation
                ),
            ));
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
    fn an_error_may_run_again_and_done_may_not() {
        let mut trial = Trial::of(FinalStaysFinal::default());
        trial.sees(started(1)).sees(wrote_start(1));
        for happening in ended(1, 2, run(1), ERROR) {
            trial.sees(happening);
        }
        trial.sees(sent(1, 1, 1, ask_run(run(2))));
        for happening in ended(1, 3, run(2), DONE) {
            trial.sees(happening);
        }
        trial.sees(synced(1, 3)).sees(stopped(1)).sees(started(2));
        trial.breaks(sent(2, 1, 2, ask_run(run(3))), "has DONE");
    }

    #[test]
    fn what_was_never_durable_does_not_count() {
        let mut trial = Trial::of(FinalStaysFinal::default());
        trial.sees(started(1)).sees(wrote_start(1));
        for happening in ended(1, 2, run(1), DONE) {
            trial.sees(happening);
        }
        trial
            .sees(stopped(1))
            .sees(tail_lost(1, 1))
            .sees(started(2));
        trial.sees(sent(2, 1, 1, ask_run(run(2))));
    }
}
