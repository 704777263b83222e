//! Law `limits_of_time`: A run that has a timeout or a deadline is asked to end when the first of them is over: not earlier for that
//! reason, not later if it is alive and its worker can look at the clock, and for that reason only once.
//!
//! Source: thrift/PROTOCOL.md, Limits of time. The timeout counts from the time when the worker has a process, the deadline from the time
//! when it accepted the run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{EndedBy, InvocationId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, Run, WorkerPlace};
use crate::model::drift;
use crate::model::executions::Sleepers;
use crate::view::World;

const NAME: &str = "limits_of_time";
/// Time for a turn of the worker, and for a stopped worker to continue.
const SLACK: Duration = Duration::from_secs(1);
/// Clocks are rounded.
const ROUNDING: Duration = Duration::from_millis(1);

type Key = (WorkerId, InvocationId);

struct Limits {
    place: WorkerPlace,
    run: Run,
    accepted: Time,
    /// When its worker had a process for the run.
    began: Option<Time>,
    timeout: Option<Duration>,
    deadline: Option<Duration>,
    /// When the run must have been asked to end; `None` once it was.
    due: Option<Time>,
    /// The run was asked to end because of one of these limits.
    is_over: bool,
    /// The process has ended.
    is_gone: bool,
}

impl Limits {
    /// Returns when a limit passes, by a clock that counts as `counted` says.
    fn passes(&self, by: EndedBy, counted: impl Fn(Duration) -> Duration) -> Option<Time> {
        match by {
            EndedBy::Timeout => Some(self.began? + counted(self.timeout?)),
            EndedBy::Deadline => Some(self.accepted + counted(self.deadline?)),
            _ => None,
        }
    }
}

#[derive(Default)]
pub struct LimitsOfTime {
    sleepers: Sleepers,
    /// The acceptance times of runs that have not begun.
    accepted: BTreeMap<Key, Time>,
    limits: BTreeMap<Key, Limits>,
    due: BTreeSet<(Time, Key)>,
}

impl Law for LimitsOfTime {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A run that has a timeout or a deadline is asked to end when the first of them is over: not earlier for that reason, not later if it is alive and its worker can look at the clock, and for that reason only once."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.judge_the_late(when, world)?;
        self.sleepers.note(when, happening);
        match *happening {
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } => {
                self.accepted.insert((worker, run.invocation), when);
            }
            Happening::Limited {
                place,
                worker,
                run,
                timeout,
                deadline,
            } => {
                let limits = Limits {
                    place,
                    run,
                    // A queued run was accepted earlier.
                    accepted: self
                        .accepted
                        .get(&(worker, run.invocation))
                        .copied()
                        .unwrap_or(when),
                    began: None,
                    timeout,
                    deadline,
                    due: None,
                    is_over: false,
                    is_gone: false,
                };
                self.limits.insert((worker, run.invocation), limits);
                self.set_due((worker, run.invocation), world);
            }
            Happening::StartHeard { worker, run } => {
                let key = (worker, run.invocation);
                if let Some(limits) = self.limits.get_mut(&key) {
                    limits.began = limits.began.or(Some(when));
                    self.set_due(key, world);
                }
            }
            Happening::KillAsked {
                worker, run, by, ..
            } => self.asked(when, (worker, run.invocation), (run, by), world)?,
            // The worker may handle the end after the limit; it then kills a process that is already dead.
            Happening::ProcessEnded { worker, run, .. }
            | Happening::SpawnFailed { worker, run, .. } => {
                let key = (worker, run.invocation);
                self.settle(key);
                if let Some(limits) = self.limits.get_mut(&key) {
                    limits.is_gone = true;
                }
            }
            Happening::WorkerStopped { worker, .. } => {
                let all = (worker, InvocationId::new(i64::MIN, i64::MIN))..;
                let of_it = self.limits.range(all).map(|(key, _)| *key);
                let of_it: Vec<Key> = of_it.take_while(|key| key.0 == worker).collect();
                for key in of_it {
                    self.settle(key);
                    self.limits.remove(&key);
                }
                self.accepted.retain(|(of, _), _| *of != worker);
            }
            _ => {}
        }
        Ok(())
    }
}

impl LimitsOfTime {
    fn judge_the_late(&mut self, when: Time, world: &World<'_>) -> Result<(), Violation> {
        while let Some(&(due, key)) = self.due.first() {
            if due >= when {
                return Ok(());
            }
            let Some(limits) = self.limits.get_mut(&key) else {
                unreachable!("Invariant: who is due has limits");
            };
            if !self.sleepers.cannot_look(when, limits.place, world) {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "worker {} lets {} run on after its time was over",
                        key.0, limits.run.task
                    ),
                ));
            }
            limits.due = Some(when + SLACK);
            self.due.remove(&(due, key));
            self.due.insert((when + SLACK, key));
        }
        Ok(())
    }

    fn set_due(&mut self, key: Key, world: &World<'_>) {
        self.settle(key);
        let Some(limits) = self.limits.get_mut(&key) else {
            return;
        };
        if limits.is_over || limits.is_gone {
            return;
        }
        let passes = |by| limits.passes(by, |local| drift::at_most(world, local));
        let first = [passes(EndedBy::Timeout), passes(EndedBy::Deadline)];
        let first = first.into_iter().flatten().min();
        limits.due = first.map(|at| at + SLACK);
        if let Some(due) = limits.due {
            self.due.insert((due, key));
        }
    }

    fn asked(
        &mut self,
        when: Time,
        key: Key,
        (run, by): (Run, EndedBy),
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match by {
            EndedBy::Timeout | EndedBy::Deadline => self.settle(key),
            // The worker ends, with all its processes.
            EndedBy::Shutdown | EndedBy::Suicide => {
                self.settle(key);
                return Ok(());
            }
            // The process may ignore such a request, and the limits keep counting.
            EndedBy::Operator | EndedBy::Orphan | EndedBy::MemoryLimit | EndedBy::OutOfMemory => {
                return Ok(());
            }
        }
        let broken = |what: &str| {
            let (worker, task) = (key.0, run.task);
            let what = format_args!("worker {worker} ends {task} {what}: {}", by.as_str());
            Err(Violation::new(NAME, what))
        };
        let Some(limits) = self.limits.get_mut(&key) else {
            return broken("for a limit that it does not have");
        };
        if limits.is_over {
            return broken("again");
        }
        limits.is_over = true;
        match limits.passes(by, |local| drift::at_least(world, local)) {
            None => broken("for a limit that it does not have"),
            Some(at) if when + ROUNDING < at => broken("too early"),
            Some(_) => Ok(()),
        }
    }

    /// Marks the run as having no limit left to enforce.
    fn settle(&mut self, key: Key) {
        let limits = self.limits.get_mut(&key);
        if let Some(due) = limits.and_then(|limits| limits.due.take()) {
            self.due.remove(&(due, key));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use crate::event_log::WorkerStop;

    fn limited(timeout: Option<u64>, deadline: Option<u64>) -> Happening {
        Happening::Limited {
            place: place(1),
            worker: wid(1),
            run: run(1),
            timeout: timeout.map(Duration::from_secs),
            deadline: deadline.map(Duration::from_secs),
        }
    }

    fn heard() -> Happening {
        Happening::StartHeard {
            worker: wid(1),
            run: run(1),
        }
    }

    #[test]
    fn a_timeout_counts_from_the_process() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(10), None));
        trial.at(50).sees(heard());
        trial.at(60).sees(kill_asked(1, run(1), EndedBy::Timeout));
        trial.breaks(kill_asked(1, run(1), EndedBy::Timeout), "again");
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(10), None));
        trial.at(50).sees(heard());
        trial.at(59);
        trial.breaks(kill_asked(1, run(1), EndedBy::Timeout), "too early");
    }

    #[test]
    fn a_deadline_counts_from_the_acceptance() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(100), Some(10)));
        trial.at(5).sees(heard());
        trial.at(11).sees(kill_asked(1, run(1), EndedBy::Deadline));
        trial.at(500).sees(dies(1, 1, run(1)));
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.at(11).sees(dies(1, 1, run(1)));
        trial.at(500).sees(scheduler_turn());
    }

    #[test]
    fn who_is_over_time_is_asked_to_end() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(10), Some(20)));
        trial.at(2).sees(heard());
        trial.at(13).sees(scheduler_turn());
        trial.at(14);
        trial.breaks(scheduler_turn(), "run on after its time was over");
    }

    #[test]
    fn a_wish_to_end_it_does_not_stop_the_clock() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.at(2).sees(kill_asked(1, run(1), EndedBy::Operator));
        trial.at(13);
        trial.breaks(scheduler_turn(), "run on after its time was over");
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.at(2).sees(kill_asked(1, run(1), EndedBy::Suicide));
        trial.at(500).sees(scheduler_turn());
    }

    #[test]
    fn a_worker_that_stands_still_is_excused_until_it_goes_on() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial
            .at(2)
            .sees(Happening::WorkerPaused { place: place(1) });
        trial.at(100).sees(scheduler_turn());
        trial
            .at(200)
            .sees(Happening::WorkerResumed { place: place(1) });
        trial.at(202);
        trial.breaks(scheduler_turn(), "run on after its time was over");
    }

    #[test]
    fn who_has_no_limit_is_not_ended_for_one() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.breaks(kill_asked(1, run(1), EndedBy::Deadline), "does not have");
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.breaks(kill_asked(1, run(1), EndedBy::Timeout), "does not have");
    }

    #[test]
    fn the_gone_need_not_be_ended_but_may() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(Some(10), None));
        trial.at(2).sees(dies(1, 1, run(1)));
        trial.at(3).sees(heard());
        trial.at(13).sees(kill_asked(1, run(1), EndedBy::Timeout));
        trial.at(500).sees(scheduler_turn());
    }

    #[test]
    fn the_dead_end_nobody() {
        let mut trial = Trial::of(LimitsOfTime::default());
        trial.at(1).sees(limited(None, Some(10)));
        trial.sees(Happening::WorkerStopped {
            place: place(1),
            worker: wid(1),
            how: WorkerStop::Killed,
        });
        trial.at(100).sees(scheduler_turn());
    }
}
