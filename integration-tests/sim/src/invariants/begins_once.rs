//! Law `begins_once`: A worker starts only what it has accepted, each run once at most, and none whose end it has told or that it has let
//! be killed.
//!
//! Source: thrift/PROTOCOL.md, What our worker does with it. A queued task is running for its scheduler, and the scheduler's requests apply
//! to it like to a process.

use std::collections::BTreeMap;

use brasserie_common::{InvocationId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, Run, WorkerPlace};
use crate::view::World;

const NAME: &str = "begins_once";

type Key = (WorkerId, InvocationId);

#[derive(Default)]
struct Begun {
    is_started: bool,
    /// The turn of the worker in which nothing was left to start, and the reason.
    over: Option<(u64, &'static str)>,
}

#[derive(Default)]
pub struct BeginsOnce {
    accepted: BTreeMap<Key, Begun>,
    turns: BTreeMap<WorkerPlace, u64>,
}

impl Law for BeginsOnce {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker starts only what it has accepted, each run once at most, and none whose end it has told or that it has let be killed."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::WorkerTurn { place } => *self.turns.entry(place).or_default() += 1,
            Happening::Served {
                place,
                worker,
                ask,
                refusal: None,
                ..
            } => match ask {
                Ask::Run { run, .. } => {
                    self.accepted.entry((worker, run.invocation)).or_default();
                }
                Ask::Kill { run } => self.over(place, (worker, run), "it was killed"),
                Ask::Fetch | Ask::Healthcheck { .. } | Ask::Notify { .. } | Ask::Suicide => {}
            },
            Happening::StatusSent {
                place, worker, run, ..
            } => self.over(place, (worker, run), "its end was told"),
            Happening::ProcessStarted {
                place, worker, run, ..
            }
            | Happening::SpawnFailed { place, worker, run }
                if !run.task.is_healthcheck() =>
            {
                return self.starts(place, worker, run);
            }
            Happening::WorkerStopped { worker, .. } => {
                self.accepted.retain(|(of, _), _| *of != worker);
            }
            _ => {}
        }
        Ok(())
    }
}

impl BeginsOnce {
    fn over(&mut self, place: WorkerPlace, (worker, run): (WorkerId, Run), why: &'static str) {
        let turn = self.turns.get(&place).copied().unwrap_or(0);
        if let Some(begun) = self.accepted.get_mut(&(worker, run.invocation)) {
            begun.over.get_or_insert((turn, why));
        }
    }

    /// The shell performs the effects of a turn after the turn.
    fn starts(&mut self, place: WorkerPlace, worker: WorkerId, run: Run) -> Result<(), Violation> {
        let turns = self.turns.get(&place).copied().unwrap_or(0);
        let broken = |what: &str| {
            let text = format_args!(
                "worker {worker} starts {}, run {}, {what}",
                run.task, run.invocation
            );
            Err(Violation::new(NAME, text))
        };
        match self.accepted.get_mut(&(worker, run.invocation)) {
            None => broken("which it did not accept"),
            Some(begun) if begun.is_started => broken("which it has started before"),
            Some(Begun {
                over: Some((turn, why)),
                ..
            }) if turns > *turn + 1 => broken(&format!("although {why}")),
            Some(begun) => {
                begun.is_started = true;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::Health;

    fn accepts(number: i64) -> Happening {
        served_by((1, Health::Healthy, 1), (1, 1), ask_run(run(number)), None)
    }

    fn turn() -> Happening {
        Happening::WorkerTurn { place: place(1) }
    }

    #[test]
    fn a_run_begins_once_and_only_if_it_was_accepted() {
        let mut trial = Trial::of(BeginsOnce::default());
        trial.sees(accepts(1)).sees(turn());
        trial.sees(begins(1, 1, run(1)));
        trial.breaks(begins(1, 2, run(1)), "started before");
        trial.breaks(begins(1, 3, run(2)), "did not accept");
    }

    #[test]
    fn what_was_killed_while_it_waited_begins_no_more() {
        let mut trial = Trial::of(BeginsOnce::default());
        let kill = || {
            served_by(
                (1, Health::Healthy, 1),
                (1, 1),
                Ask::Kill { run: run(1) },
                None,
            )
        };
        trial
            .sees(accepts(1))
            .sees(turn())
            .sees(kill())
            .sees(turn());
        trial.sees(turn());
        trial.breaks(begins(1, 1, run(1)), "it was killed");
        // Both happenings may belong to one turn.
        let mut trial = Trial::of(BeginsOnce::default());
        trial.sees(accepts(1)).sees(kill()).sees(turn());
        trial.sees(begins(1, 1, run(1)));
    }
}
