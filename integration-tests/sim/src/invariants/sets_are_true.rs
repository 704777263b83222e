//! Law `sets_are_true`: A set id that a scheduler gives adds up to a set of live instances that it really had, later versions to later
//! sets, and contains whom it is given to.
//!
//! Source: thrift/PROTOCOL.md, Worker-set consensus. Consensus compares these numbers with the set of a later scheduler.

use std::collections::BTreeMap;

use brasserie_common::{Health, SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Happening, SetMark};
use crate::model::worker_sets::{Sums, WorkerSets};
use crate::view::World;

const NAME: &str = "sets_are_true";

#[derive(Default)]
pub struct SetsAreTrue {
    sets: WorkerSets,
    /// The sums of each version, and the number of changes before it.
    given: BTreeMap<(SchedulerId, i64), (Sums, u64)>,
}

impl Law for SetsAreTrue {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A set id that a scheduler gives adds up to a set of live instances that it really had, later versions to later sets, and contains whom it is given to."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        self.sets.note(happening);
        match *happening {
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                set,
                ..
            } => {
                let step = self.step(scheduler, set)?;
                let history = self.sets.get(scheduler);
                let contains = history.is_some_and(|h| h.contains_at(worker, step));
                if state != Health::MustDie && !contains {
                    return Err(wrong(
                        scheduler,
                        worker,
                        set,
                        "does not contain this worker",
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.given.retain(|(of, _), _| *of != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl SetsAreTrue {
    /// Returns the number of changes after which the set was this one.
    fn step(&mut self, scheduler: SchedulerId, set: SetMark) -> Result<u64, Violation> {
        let sums = Sums::from(&set.hash);
        let nobody = WorkerId::default();
        if let Some((known, step)) = self.given.get(&(scheduler, set.version)) {
            if *known != sums {
                return Err(wrong(
                    scheduler,
                    nobody,
                    set,
                    "stood for another set before",
                ));
            }
            return Ok(*step);
        }
        let history = self.sets.get(scheduler);
        let Some(step) = history.and_then(|h| h.step_of(sums)) else {
            return Err(wrong(
                scheduler,
                nobody,
                set,
                "adds up to no set that it ever had",
            ));
        };
        let before = self
            .given
            .range((scheduler, i64::MIN)..(scheduler, set.version));
        if before
            .last()
            .is_some_and(|(_, (_, earlier))| *earlier > step)
        {
            return Err(wrong(
                scheduler,
                nobody,
                set,
                "is a set before that of an earlier version",
            ));
        }
        self.given.insert((scheduler, set.version), (sums, step));
        Ok(step)
    }
}

fn wrong(scheduler: SchedulerId, worker: WorkerId, set: SetMark, what: &str) -> Violation {
    let to = if worker == WorkerId::default() {
        String::new()
    } else {
        format!(" for worker {worker}")
    };
    Violation::new(
        NAME,
        format_args!(
            "version {} of scheduler {scheduler}{to}, with {} members, {what}",
            set.version, set.members
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_scheduler_core::LeftCause;

    fn two_workers() -> Trial<SetsAreTrue> {
        let mut trial = Trial::of(SetsAreTrue::default());
        trial.sees(started(1)).sees(associated(1, 2, 1));
        trial.sees(decided(1, 1, Health::New, set(1, 1, &[1])));
        trial
            .sees(associated(1, 3, 2))
            .sees(decided(1, 1, Health::New, set(1, 2, &[1, 2])));
        trial
    }

    #[test]
    fn true_sets_pass() {
        let mut trial = two_workers();
        trial.sees(decided(1, 1, Health::New, set(1, 1, &[1])));
        trial.sees(left(1, 4, 2, LeftCause::Lost, 0));
        trial.sees(decided(1, 2, Health::MustDie, set(1, 3, &[1])));
        trial.sees(decided(1, 1, Health::Healthy, set(1, 3, &[1])));
    }

    #[test]
    fn false_ones_do_not() {
        two_workers().breaks(
            decided(1, 1, Health::New, set(1, 3, &[1, 3])),
            "no set that it ever had",
        );
        two_workers().breaks(
            decided(1, 1, Health::New, set(1, 2, &[1])),
            "stood for another set",
        );
        two_workers().breaks(
            decided(1, 2, Health::New, set(1, 1, &[1])),
            "does not contain this worker",
        );
        two_workers().breaks(
            decided(1, 1, Health::New, set(1, 3, &[1])),
            "before that of an earlier version",
        );
    }
}
