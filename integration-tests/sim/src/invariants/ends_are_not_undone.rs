//! Law `ends_are_not_undone`: A stored end gives way only to the end of a later run, lost and was-not-running also to the true end of their
//! run, and to DONE all but DONE; forgiving it leaves what is done, whose end it is, whether a true end may still come, and how long a lost
//! run may live.
//!
//! Source: thrift/PROTOCOL.md, R17, R27 and Run of a task. The true end of a run is final, in whatever order messages arrive.

use brasserie_common::{StatusBits, Time};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::model::directories::{Directories, Stored};
use crate::view::World;

const NAME: &str = "ends_are_not_undone";

#[derive(Default)]
pub struct EndsAreNotUndone {
    directories: Directories,
}

impl Law for EndsAreNotUndone {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A stored end gives way only to the end of a later run, lost and was-not-running also to the true end of their run, and to DONE all but DONE; forgiving it leaves what is done, whose end it is, whether a true end may still come, and how long a lost run may live."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        if let Happening::EndWritten {
            directory,
            run,
            bits,
            backoff_seconds,
            safety_seconds,
            scheduler,
            ..
        } = *happening
            && let Some(contents) = self.directories.get(directory)
            && let Some(old) = contents.written_end(run.task)
        {
            let new = Stored {
                invocation: run.invocation,
                bits,
                backoff_seconds,
                safety_seconds,
                at: when,
                by: scheduler,
            };
            if let Some(what) = undone(old, &new) {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "{}: {what}: run {} with bits {} after run {} with bits {}",
                        run.task, new.invocation, new.bits.0, old.invocation, old.bits.0
                    ),
                ));
            }
        }
        if let Happening::EndForgiven {
            directory,
            run,
            bits,
            backoff_seconds,
            safety_seconds,
            scheduler,
            ..
        } = *happening
        {
            let contents = self.directories.get(directory);
            let old = contents.and_then(|contents| contents.written_end(run.task));
            let new = Stored {
                invocation: run.invocation,
                bits,
                backoff_seconds,
                safety_seconds,
                at: when,
                by: scheduler,
            };
            if let Some(what) = not_only_forgiven(old, &new) {
                return Err(Violation::new(
                    NAME,
                    format_args!("{} was forgiven, but {what}: {old:?}, {new:?}", run.task),
                ));
            }
        }
        self.directories.note(when, happening, world);
        Ok(())
    }
}

/// Returns a change to `old` that forgiving must not make.
fn not_only_forgiven(old: Option<&Stored>, new: &Stored) -> Option<&'static str> {
    let Some(old) = old else {
        return Some("it had not ended");
    };
    if old.is_done() || new.is_done() {
        return Some("DONE is nothing to forgive");
    }
    if old.invocation != new.invocation {
        return Some("the end is another run's");
    }
    if old.is_provisional() != new.is_provisional() {
        return Some("whether a true end may come is another");
    }
    // The operator declared the lost run dead, so only its wait may change.
    if old.bits == new.bits && new.safety_seconds < old.safety_seconds {
        let is_longer = new.backoff_seconds > old.backoff_seconds;
        return is_longer.then_some("the task waits for longer");
    }
    if old.safety_seconds != new.safety_seconds || new.backoff_seconds < new.safety_seconds {
        return Some("a lost run has another time to live");
    }
    (new.bits.has(StatusBits::FAILED) || new.backoff_seconds > new.safety_seconds)
        .then_some("something is left to forgive")
}

const RESULT: StatusBits = StatusBits::DONE
    .with(StatusBits::INCOMPLETE)
    .with(StatusBits::FAILED)
    .with(StatusBits::ERROR);

/// Returns why `new` must not replace `old`.
fn undone(old: &Stored, new: &Stored) -> Option<&'static str> {
    let is_same_run = old.invocation == new.invocation;
    let is_same_end = is_same_run && old.bits.0 & RESULT.0 == new.bits.0 & RESULT.0;
    if old.is_done() {
        return (!new.is_done()).then_some("DONE is undone");
    }
    if is_same_run {
        let is_taken_back = !old.is_provisional() && new.is_provisional();
        return (is_taken_back && !is_same_end).then_some("a true end is taken back");
    }
    (new.invocation < old.invocation && !new.is_done())
        .then_some("the end of an earlier run takes the place of a later one's")
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_scheduler_core::LeftCause;
    fn after(
        first: (i64, StatusBits),
        then: (i64, StatusBits),
    ) -> (Trial<EndsAreNotUndone>, Happening) {
        let mut trial = Trial::of(EndsAreNotUndone::default());
        trial.sees(started(1)).sees(wrote_start(1));
        for happening in ended(1, 2, run(first.0), first.1) {
            trial.sees(happening);
        }
        let [record, end] = ended(1, 3, run(then.0), then.1);
        trial.sees(record);
        (trial, end)
    }

    #[test]
    fn what_may_follow() {
        for (first, then) in [
            ((1, LOST), (1, DONE)),
            ((1, LOST), (2, ERROR)),
            ((1, ERROR), (2, LOST)),
            ((2, LOST), (1, DONE)),
            ((1, NOT_RUNNING), (1, ERROR)),
            ((2, ERROR), (2, ERROR)),
        ] {
            let (mut trial, end) = after(first, then);
            trial.sees(end);
        }
    }

    fn forgiven(invocation: i64, bits: StatusBits, safety_seconds: u32) -> Happening {
        let end = end_written(1, 3, run(invocation), bits, safety_seconds, safety_seconds);
        let Happening::EndWritten {
            directory,
            scheduler,
            seq,
            run,
            bits,
            backoff_seconds,
            safety_seconds,
        } = end
        else {
            unreachable!("an end")
        };
        Happening::EndForgiven {
            directory,
            scheduler,
            seq,
            run,
            bits,
            backoff_seconds,
            safety_seconds,
        }
    }

    #[test]
    fn forgiving_changes_the_cost_alone() {
        let error = StatusBits::ERROR;
        for (first, then, breaks) in [
            ((1, StatusBits::FAILED), forgiven(1, error, 0), None),
            ((1, LOST), forgiven(1, LOST, 0), None),
            ((1, DONE), forgiven(1, error, 0), Some("DONE")),
            ((2, error), forgiven(1, error, 0), Some("another run's")),
            ((1, LOST), forgiven(1, error, 0), Some("true end")),
            ((1, LOST), forgiven(1, LOST, 9), Some("time to live")),
            (
                (1, error),
                forgiven(1, StatusBits::FAILED, 0),
                Some("left to forgive"),
            ),
        ] {
            let mut trial = Trial::of(EndsAreNotUndone::default());
            trial.sees(started(1)).sees(wrote_start(1));
            for happening in ended(1, 2, run(first.0), first.1) {
                trial.sees(happening);
            }
            trial.sees(wrote(1, 3, crate::event_log::Fact::Jobs));
            match breaks {
                None => {
                    trial.sees(then);
                }
                Some(text) => trial.breaks(then, text),
            }
        }
    }

    #[test]
    fn an_operators_word_ends_the_wait_for_a_lost_run() {
        let mut trial = Trial::of(EndsAreNotUndone::default());
        trial.sees(started(1)).sees(wrote_start(1));
        trial.sees(left(1, 2, 1, LeftCause::Lost, 1));
        trial.sees(end_written(1, 2, run(1), LOST, SAFE, SAFE));
        trial.sees(wrote(1, 3, crate::event_log::Fact::Jobs));
        trial.breaks(forgiven(1, StatusBits::ERROR, 0), "true end");
        trial.sees(forgiven(1, LOST, 0));
    }

    #[test]
    fn what_may_not() {
        for (first, then, text) in [
            ((1, DONE), (2, ERROR), "DONE is undone"),
            ((1, DONE), (1, LOST), "DONE is undone"),
            ((1, StatusBits::INCOMPLETE), (1, LOST), "taken back"),
            ((2, LOST), (1, ERROR), "earlier run"),
            ((2, ERROR), (1, LOST), "earlier run"),
        ] {
            let (mut trial, end) = after(first, then);
            trial.breaks(end, text);
        }
    }
}
