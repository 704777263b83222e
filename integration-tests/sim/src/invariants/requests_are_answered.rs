//! Law `requests_are_answered`: A request for work is answered within a second, as long as its scheduler lives and is awake.
//!
//! Source: one system, 7.4. Verdicts may come later; the worker is not kept waiting for them

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{SchedulerId, Time, WorkRequestSeq, WorkerId};

use super::{Law, Violation};
use crate::event_log::{CallTag, Happening, MachineId, SchedulerPlace};
use crate::model::drift;
use crate::view::World;

const NAME: &str = "requests_are_answered";
/// By the scheduler's own clock.
const ANSWER: Duration = Duration::from_secs(1);
/// A turn is judged by the time at which it ends.
const SLACK: Duration = Duration::from_secs(1);

struct Open {
    place: SchedulerPlace,
    worker: WorkerId,
    seq: WorkRequestSeq,
    since: Time,
}

#[derive(Default)]
pub struct RequestsAreAnswered {
    /// A call may come several times, and has as many answers.
    open: BTreeMap<(SchedulerId, CallTag), Vec<Open>>,
    paused: BTreeSet<SchedulerPlace>,
    asleep: BTreeSet<MachineId>,
}

impl Law for RequestsAreAnswered {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A request for work is answered within a second, as long as its scheduler lives and is awake."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        // An answer that leaves now is judged by the time at which it leaves.
        let verdict = self.judge(when, world);
        match *happening {
            Happening::WorkAnswerOwed {
                place,
                scheduler,
                worker,
                seq,
                call,
            } => {
                let open = self.open.entry((scheduler, call)).or_default();
                open.push(Open {
                    place,
                    worker,
                    seq,
                    since: when,
                });
            }
            Happening::WorkAnswered {
                scheduler, call, ..
            } => return verdict.and_then(|()| self.answered(scheduler, call)),
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
    /// Who slept has another second; so have those that did not, which is less than could be asked.
    fn begin_anew(&mut self, when: Time) {
        for open in self.open.values_mut().flatten() {
            open.since = when;
        }
    }

    fn answered(&mut self, scheduler: SchedulerId, call: CallTag) -> Result<(), Violation> {
        let key = (scheduler, call);
        let Some(open) = self.open.get_mut(&key) else {
            return Err(Violation::new(
                NAME,
                format_args!("scheduler {scheduler} answers a request for work that is not open"),
            ));
        };
        // The one that came first; there is one at least.
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
        let longest = drift::at_most(world, ANSWER) + SLACK;
        for ((scheduler, _), open) in &self.open {
            let late = open.iter().find(|open| when > open.since + longest);
            if let Some(late) = late.filter(|late| !self.paused.contains(&late.place)) {
                return Err(Violation::new(
                    NAME,
                    format_args!(
                        "scheduler {scheduler} has not answered request {} of worker {} within a second",
                        late.seq.0, late.worker
                    ),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;

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
        // It comes twice.
        trial.sees(asked(1)).sees(asked(1)).sees(asked(2));
        trial.at(1).sees(answered(1)).sees(answered(2));
        trial.after_millis(1001);
        trial.breaks(scheduler_turn(), "has not answered request 1");
        let mut trial = Trial::of(RequestsAreAnswered::default());
        trial.sees(asked(1)).sees(answered(1));
        trial.breaks(answered(1), "that is not open");
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
        trial.breaks(scheduler_turn(), "has not answered request 1");
    }
}
