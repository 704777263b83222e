//! Law `requests_are_answered`: A request for work is answered within a second, a heartbeat and a status within five, also while the store
//! cannot write, as long as the scheduler lives and is awake; and of several repetitions of a status one waits at most.
//!
//! Source: thrift/PROTOCOL.md, R39 and Requests for work. Verdicts about a request for work may come later; the worker does not wait for
//! them. A call that waits holds capacity that heartbeats need, so a store that stands still would cost all workers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use brasserie_common::{SchedulerId, Time, WorkerId};
use brasserie_scheduler_core::MAX_REPLY_WAIT;

use super::{Law, Violation};
use crate::event_log::{CallTag, Happening, MachineId, Run, SchedulerPlace};
use crate::model::drift;
use crate::view::World;

const NAME: &str = "requests_are_answered";
/// The limit by the scheduler's own clock.
const ANSWER: Duration = Duration::from_secs(1);
/// A turn counts from the time at which it ends.
const SLACK: Duration = Duration::from_secs(1);

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asked {
    Work(CallTag),
    Heartbeat(WorkerId),
    Status(WorkerId, Run),
}

struct Open {
    place: SchedulerPlace,
    since: Time,
}

#[derive(Default)]
pub struct RequestsAreAnswered {
    /// Open requests. A repeated request gets as many answers. Each answer counts for the oldest one.
    open: BTreeMap<(SchedulerId, Asked), Vec<Open>>,
    paused: BTreeSet<SchedulerPlace>,
    asleep: BTreeSet<MachineId>,
}

impl Law for RequestsAreAnswered {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A request for work is answered within a second, a heartbeat or status within five; one repetition of a status waits at most."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        // An answer that leaves now is checked against the present time.
        let verdict = self.judge(when, world);
        let verdict = verdict.and_then(|()| self.follow(when, happening));
        match *happening {
            Happening::SchedulerStopped {
                scheduler, place, ..
            } => {
                self.open.retain(|(of, _), _| *of != scheduler);
                self.paused.remove(&place);
            }
            Happening::SchedulerPaused { place } => {
                self.paused.insert(place);
            }
            Happening::SchedulerResumed { place } => {
                self.paused.remove(&place);
                self.begin_anew(when);
            }
            Happening::MachineSuspended { machine } => {
                self.asleep.insert(machine);
            }
            Happening::MachineWoke { machine } => {
                self.asleep.remove(&machine);
                self.begin_anew(when);
            }
            _ => {}
        }
        verdict
    }
}

impl RequestsAreAnswered {
    /// Records requests and answers. A turn is over once none of its answers is missing.
    fn follow(&mut self, when: Time, happening: &Happening) -> Result<(), Violation> {
        match *happening {
            Happening::WorkAnswerOwed {
                place,
                scheduler,
                call,
                ..
            } => self.asked(when, place, (scheduler, Asked::Work(call))),
            Happening::HeartbeatHeard {
                place,
                scheduler,
                worker,
                ..
            } => self.asked(when, place, (scheduler, Asked::Heartbeat(worker))),
            Happening::StatusHeard {
                place,
                scheduler,
                worker,
                run,
                ..
            } => self.asked(when, place, (scheduler, Asked::Status(worker, run))),
            Happening::WorkAnswered {
                scheduler, call, ..
            } => return self.answered((scheduler, Asked::Work(call))),
            Happening::HeartbeatAnswered {
                scheduler, worker, ..
            }
            | Happening::HeartbeatRejected {
                scheduler, worker, ..
            } => {
                let asked = Asked::Heartbeat(worker);
                return self.answered((scheduler, asked));
            }
            Happening::StatusAcknowledged {
                scheduler,
                worker,
                run,
                ..
            }
            | Happening::StatusRejected {
                scheduler,
                worker,
                run,
                ..
            } => {
                let asked = Asked::Status(worker, run);
                return self.answered((scheduler, asked));
            }
            Happening::SchedulerTurn { place } => {
                return self.judge_repeats(place);
            }
            _ => {}
        }
        Ok(())
    }

    /// Restarts the second of every open request after a scheduler slept. Schedulers that did not sleep also get the extra second, which
    /// makes the check slightly weaker.
    fn begin_anew(&mut self, when: Time) {
        for open in self.open.values_mut().flatten() {
            open.since = when;
        }
    }

    fn asked(&mut self, since: Time, place: SchedulerPlace, key: (SchedulerId, Asked)) {
        let open = self.open.entry(key).or_default();
        open.push(Open { place, since });
    }

    fn answered(&mut self, key: (SchedulerId, Asked)) -> Result<(), Violation> {
        let Some(open) = self.open.get_mut(&key) else {
            return Err(Violation::new(
                NAME,
                format_args!("scheduler {} answers {}, which is not open", key.0, key.1),
            ));
        };
        // `open` is never empty here.
        open.remove(0);
        if open.is_empty() {
            self.open.remove(&key);
        }
        Ok(())
    }

    fn judge(&self, when: Time, world: &World<'_>) -> Result<(), Violation> {
        if !self.asleep.is_empty() {
            return Ok(());
        }
        for ((scheduler, asked), open) in &self.open {
            let longest = match asked {
                Asked::Work(_) => ANSWER,
                Asked::Heartbeat(_) | Asked::Status(..) => MAX_REPLY_WAIT,
            };
            let longest = drift::at_most(world, longest) + SLACK;
            let late = open.iter().find(|open| when > open.since + longest);
            if late.is_some_and(|late| !self.paused.contains(&late.place)) {
                return Err(Violation::new(
                    NAME,
                    format_args!("scheduler {scheduler} has not answered {asked} in time"),
                ));
            }
        }
        Ok(())
    }

    fn judge_repeats(&self, place: SchedulerPlace) -> Result<(), Violation> {
        for ((scheduler, asked), open) in &self.open {
            let is_status = matches!(asked, Asked::Status(..));
            if is_status && open.iter().filter(|open| open.place == place).count() > 1 {
                return Err(Violation::new(
                    NAME,
                    format_args!("scheduler {scheduler} lets repetitions of {asked} wait"),
                ));
            }
        }
        Ok(())
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Asked::Work(call) => write!(f, "request for work {}", call.0),
            Asked::Heartbeat(worker) => write!(f, "a heartbeat of worker {worker}"),
            Asked::Status(worker, run) => write!(
                f,
                "a status of worker {worker} about run {} of {}",
                run.invocation, run.task
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::WorkRequestSeq;

    use crate::event_log::RejectionKind;

    const PLACE: SchedulerPlace = SchedulerPlace(0);

    fn asked(call: u32) -> Happening {
        Happening::WorkAnswerOwed {
            place: PLACE,
            scheduler: sid(1),
            worker: wid(1),
            seq: WorkRequestSeq(1),
            call: CallTag(call),
        }
    }

    fn answered(call: u32) -> Happening {
        Happening::WorkAnswered {
            scheduler: sid(1),
            worker: wid(1),
            call: CallTag(call),
            seq: Some(WorkRequestSeq(1)),
        }
    }

    #[test]
    fn each_has_its_answer_within_a_second() {
        let mut trial = Trial::of(RequestsAreAnswered::default());
        // The request arrives twice.
        trial.sees(asked(1)).sees(asked(1)).sees(asked(2));
        trial.at(1).sees(answered(1)).sees(answered(2));
        trial.after_millis(1001);
        trial.breaks(scheduler_turn(), "has not answered request for work");
        let mut trial = Trial::of(RequestsAreAnswered::default());
        trial.sees(asked(1)).sees(answered(1));
        trial.breaks(answered(1), "which is not open");
    }

    #[test]
    fn who_is_dead_or_sleeps_answers_nobody() {
        let paused = Happening::SchedulerPaused { place: PLACE };
        let resumed = || Happening::SchedulerResumed { place: PLACE };
        let mut trial = Trial::of(RequestsAreAnswered::default());
        trial.sees(asked(1)).sees(paused);
        trial.at(60).sees(resumed());
        trial.at(61).sees(scheduler_turn());
        trial.sees(asked(2)).sees(answered(1)).sees(stopped(1));
        trial.at(70).sees(scheduler_turn());
        let machine = MachineId(1);
        trial.sees(asked(3));
        trial.sees(Happening::MachineSuspended { machine });
        trial.at(90).sees(scheduler_turn());
        trial.sees(Happening::MachineWoke { machine });
        trial.at(93);
        trial.breaks(scheduler_turn(), "has not answered request for work");
    }

    #[test]
    fn heartbeats_and_statuses_do_not_wait_for_the_store_for_ever() {
        let none = set(0, 0, &[]);
        for heard in [heard(1, 1, none), status_heard(1, 1, run(1), DONE)] {
            let mut trial = Trial::of(RequestsAreAnswered::default());
            trial.sees(heard);
            trial.at(6).sees(scheduler_turn());
            trial.after_millis(100);
            trial.breaks(scheduler_turn(), "has not answered a");
        }
    }

    #[test]
    fn one_repetition_waits() {
        let mut trial = Trial::of(RequestsAreAnswered::default());
        let heard = || status_heard(1, 1, run(1), DONE);
        trial.sees(heard()).sees(scheduler_turn()).sees(heard());
        trial.sees(Happening::StatusRejected {
            place: PLACE,
            scheduler: sid(1),
            worker: wid(1),
            run: run(1),
            bits: DONE,
            why: RejectionKind::Repeated,
        });
        trial.sees(scheduler_turn());
        trial.sees(heard());
        trial.breaks(scheduler_turn(), "lets repetitions of a status");
    }
}
