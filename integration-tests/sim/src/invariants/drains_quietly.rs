//! Law `drains_quietly`: A worker that drains accepts no run any more, and ends none of those that it has unless its operator asks for
//! that.
//!
//! Source: thrift/PROTOCOL.md, Worker's life. An operator drains a machine to empty it without losing work.

use std::collections::BTreeSet;

use brasserie_common::{EndedBy, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening};
use crate::view::World;

const NAME: &str = "drains_quietly";

#[derive(Default)]
pub struct DrainsQuietly {
    drains: BTreeSet<WorkerId>,
    shut_down: BTreeSet<WorkerId>,
}

impl Law for DrainsQuietly {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker that drains accepts no run any more, and ends none of those that it has unless its operator asks for that."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
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
                return Err(Violation::new(
                    NAME,
                    format_args!("worker {worker} drains and accepts {}", run.task),
                ));
            }
            Happening::KillAsked {
                worker,
                run,
                by: EndedBy::Shutdown,
                ..
            } if self.drains.contains(&worker) && !self.shut_down.contains(&worker) => {
                return Err(Violation::new(
                    NAME,
                    format_args!("worker {worker} only drains and ends {}", run.task),
                ));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::RefusalCode;

    fn drains() -> Happening {
        Happening::WorkerDrains { worker: wid(1) }
    }

    #[test]
    fn nothing_more_is_accepted() {
        let mut trial = Trial::of(DrainsQuietly::default());
        trial.sees(served(1, 1, ask_run(run(1)), None));
        trial.sees(drains());
        let refused = Some(RefusalCode::Draining);
        trial.sees(served(1, 1, ask_run(run(2)), refused));
        trial.breaks(served(1, 1, ask_run(run(2)), None), "drains and accepts");
    }

    #[test]
    fn nothing_is_ended_until_that_is_wanted() {
        let killed = |by| kill_asked(1, run(1), by);
        let mut trial = Trial::of(DrainsQuietly::default());
        trial.sees(drains()).sees(killed(EndedBy::Operator));
        trial.sees(Happening::WorkerShutsDown { worker: wid(1) });
        trial.sees(killed(EndedBy::Shutdown));
        let mut trial = Trial::of(DrainsQuietly::default());
        trial.sees(drains());
        trial.breaks(killed(EndedBy::Shutdown), "only drains and ends");
    }
}
