//! Laws about the scheduler that a worker obeys, and about workers that leave.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::{EndedBy, Health, SchedulerId, WorkerId};

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, Happening};

#[cfg(test)]
mod tests;

law! {
    /// A worker accepts tasks only from the scheduler instance to which it is bound, and only those meant for it.
    ///
    /// Source: R13. The bound instance has the worker's list of running tasks; any other may have given its tasks away.
    pub struct Obedience = "obedience" {}
}

impl Law for Obedience {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        let Happening::Served {
            worker,
            scheduler,
            meant,
            ask: Ask::Run { run, .. },
            bound,
            refusal: None,
            ..
        } = *happening
        else {
            return Ok(());
        };
        if bound != Some(scheduler) {
            let bound = bound.map_or("nobody".to_owned(), |id| format!("scheduler {id}"));
            return Err(format!(
                "worker {worker}, bound to {bound}, accepts {} from scheduler {scheduler}",
                run.task
            ));
        }
        if meant != worker {
            return Err(format!(
                "worker {worker} accepts {}, which was meant for {meant}",
                run.task
            ));
        }
        Ok(())
    }
}

law! {
    /// A worker is never bound back to an earlier scheduler instance, and never unbound.
    ///
    /// Source: R13 and R14. An old instance that takes a worker back starts tasks that the new one has already started.
    pub struct BindingsGoForward = "bindings_go_forward" {
        newest: BTreeMap<WorkerId, SchedulerId>,
    }
}

impl Law for BindingsGoForward {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::WorkerBound { worker, to, .. } => {
                let before = self.newest.get(&worker).copied();
                if to < before {
                    let name = |id: Option<SchedulerId>| {
                        id.map_or("nobody".to_owned(), |id| id.to_string())
                    };
                    return Err(format!(
                        "worker {worker} goes back from scheduler {} to {}",
                        name(before),
                        name(to)
                    ));
                }
                if let Some(to) = to {
                    self.newest.insert(worker, to);
                }
            }
            Happening::WorkerStopped { worker, .. } => {
                self.newest.remove(&worker);
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// A worker that is MUST_DIE, or has said goodbye, stays so, starts nothing, and had no process when it said goodbye.
    ///
    /// Source: R4 and Worker's life. The scheduler may start the instance's tasks elsewhere, at once after a goodbye.
    pub struct MustDieIsFinal = "must_die_is_final" {
        ending: BTreeSet<WorkerId>,
    }
}

impl Law for MustDieIsFinal {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::WorkerHealth {
                worker, from, to, ..
            } => {
                if from == Health::MustDie {
                    return Err(format!(
                        "worker {worker} goes from MUST_DIE to {}",
                        to.as_str()
                    ));
                }
                if to == Health::MustDie {
                    self.ending.insert(worker);
                }
            }
            Happening::HeartbeatSent {
                worker,
                goodbye: true,
                ..
            } => {
                if let Some((_, execution)) = now.model.executions.of_worker(worker).next() {
                    return Err(format!(
                        "worker {worker} says goodbye while {} lives",
                        execution.run
                    ));
                }
                self.ending.insert(worker);
            }
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } if self.ending.contains(&worker) => {
                return Err(format!(
                    "worker {worker} accepts {} while it is ending itself",
                    run.task
                ));
            }
            Happening::WorkerStopped { worker, .. } => {
                self.ending.remove(&worker);
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// A worker that drains accepts no more runs, and ends none of its runs unless its operator asks for that.
    ///
    /// Source: Worker's life. An operator drains a machine to empty it without losing work.
    pub struct DrainsQuietly = "drains_quietly" {
        drains: BTreeSet<WorkerId>,
        shut_down: BTreeSet<WorkerId>,
    }
}

impl Law for DrainsQuietly {
    fn observe(&mut self, happening: &Happening, _now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::WorkerDrains { worker } => {
                self.drains.insert(worker);
            }
            Happening::WorkerShutsDown { worker } => {
                self.shut_down.insert(worker);
            }
            Happening::WorkerStopped { worker, .. } => {
                self.drains.remove(&worker);
                self.shut_down.remove(&worker);
            }
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } if self.drains.contains(&worker) => {
                return Err(format!("worker {worker} drains and accepts {}", run.task));
            }
            Happening::KillAsked {
                worker,
                run,
                by: EndedBy::Shutdown,
                ..
            } if self.drains.contains(&worker) && !self.shut_down.contains(&worker) => {
                return Err(format!("worker {worker} only drains and ends {}", run.task));
            }
            _ => {}
        }
        Ok(())
    }
}
