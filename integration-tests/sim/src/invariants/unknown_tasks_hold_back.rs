//! Law `unknown_tasks_hold_back`: Who knew another scheduler, and is lost before its running tasks were fetched, holds everything back.
//!
//! Source: thrift/PROTOCOL.md, R21. Any task may run there, so nothing may start until the worker's own timers have ended it.

use std::collections::{BTreeMap, VecDeque};

use brasserie_common::{SchedulerId, Time, WorkerId};
use brasserie_scheduler_core::LeftCause;

use super::{Law, Violation};
use crate::event_log::{Fact, Happening};
use crate::model::associations::Associations;
use crate::view::World;

const NAME: &str = "unknown_tasks_hold_back";

#[derive(Default)]
pub struct UnknownTasksHoldBack {
    pairs: Associations,
    /// The schedulers whose sets were named in heartbeats that the scheduler has not handled yet, oldest first. A turn may handle several.
    heard: BTreeMap<(SchedulerId, WorkerId), VecDeque<SchedulerId>>,
    /// The scheduler whose set the worker named when it associated, or another that it has named since.
    came_from: BTreeMap<(SchedulerId, WorkerId), SchedulerId>,
}

impl Law for UnknownTasksHoldBack {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "Who knew another scheduler, and is lost before its running tasks were fetched, holds everything back."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        self.pairs.note(when, happening);
        match happening {
            Happening::HeartbeatHeard {
                scheduler,
                worker,
                set,
                ..
            } => {
                let heard = self.heard.entry((*scheduler, *worker)).or_default();
                heard.push_back(set.scheduler);
            }
            Happening::HeartbeatDecided {
                scheduler, worker, ..
            }
            | Happening::HeartbeatRejected {
                scheduler, worker, ..
            } => self.looked_at((*scheduler, *worker)),
            Happening::RecordWritten {
                scheduler, fact, ..
            } => return self.recorded(*scheduler, fact),
            Happening::SchedulerStopped { scheduler, .. } => {
                self.heard.retain(|(owner, _), _| owner != scheduler);
                self.came_from.retain(|(owner, _), _| owner != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

impl UnknownTasksHoldBack {
    fn looked_at(&mut self, pair: (SchedulerId, WorkerId)) {
        let Some(heard) = self.heard.get_mut(&pair) else {
            return;
        };
        let named = heard.pop_front().unwrap_or_default();
        if heard.is_empty() {
            self.heard.remove(&pair);
        }
        if ![pair.0, SchedulerId::default()].contains(&named)
            && let Some(came_from) = self.came_from.get_mut(&pair)
        {
            *came_from = named;
        }
    }

    fn recorded(&mut self, scheduler: SchedulerId, fact: &Fact) -> Result<(), Violation> {
        match *fact {
            Fact::WorkerAssociated { worker, .. } => {
                let pair = (scheduler, worker);
                let looked_at = self.heard.get(&pair).and_then(VecDeque::front);
                self.came_from
                    .insert(pair, looked_at.copied().unwrap_or_default());
                Ok(())
            }
            Fact::WorkerLeft {
                worker,
                cause: LeftCause::Lost,
                hold_back,
                ..
            } => {
                let came_from = self.came_from.get(&(scheduler, worker));
                let knew_one = came_from.is_some_and(|named| *named != SchedulerId::default());
                if knew_one && !self.pairs.has_fetched(scheduler, worker) && hold_back.is_zero() {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "worker {worker} is lost, nobody knows what runs there, and nothing is held back"
                        ),
                    ));
                }
                Ok(())
            }
            Fact::WorkerLeft { .. }
            | Fact::SchedulerStarted { .. }
            | Fact::HoldBack { .. }
            | Fact::HoldBackOver
            | Fact::TaskEnded
            | Fact::Jobs => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;

    #[test]
    fn only_what_was_fetched_or_new_holds_nothing_back() {
        let mut trial = Trial::of(UnknownTasksHoldBack::default());
        trial
            .sees(heard(2, 1, set(1, 1, &[1])))
            .sees(associated(2, 2, 1))
            .sees(fetched(2, 1, 1))
            .sees(left(2, 3, 1, LeftCause::Lost, 0));
        trial
            .sees(associated(2, 4, 2))
            .sees(left(2, 5, 2, LeftCause::Lost, 0));
        trial
            .sees(heard(2, 3, set(1, 1, &[3])))
            .sees(associated(2, 6, 3))
            .breaks(left(2, 7, 3, LeftCause::Lost, 0), "nothing is held back");
    }
}
