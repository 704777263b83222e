//! Law `ends_are_not_undone`: A stored end gives way only to the end of a later run, lost and was-not-running also to the true end of their run, and to DONE all but DONE.
//!
//! Source: R27, R17, spec 7.3, spec 15.5. The true end of a run is the last word on it, in whatever order the news come.

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
        "A stored end gives way only to the end of a later run, lost and was-not-running also to the true end of their run, and to DONE all but DONE."
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
        self.directories.note(when, happening, world);
        Ok(())
    }
}

const RESULT: StatusBits = StatusBits::DONE
    .with(StatusBits::INCOMPLETE)
    .with(StatusBits::FAILED)
    .with(StatusBits::ERROR);

/// Why `new` may not take the place of `old`.
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
