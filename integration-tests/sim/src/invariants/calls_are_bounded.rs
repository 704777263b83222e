//! Law `calls_are_bounded`: A scheduler makes at most 64 calls other than runTask and killTask to one worker in any second, and a worker
//! reports one end at most 8 times in any second.
//!
//! Source: thrift/PROTOCOL.md, Calls. Retries pause, so a peer that refuses or is down costs little.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, Run};
use crate::model::drift;
use crate::model::rates::Rate;
use crate::view::World;

const NAME: &str = "calls_are_bounded";

/// Each of up to 20 heartbeats a second may cause one suicide request, one healthcheck and one fetch. The rest is for notifications.
const MAX_CALLS_A_SECOND: usize = 64;
/// One retry a second, and one for each answer that changes the recipient. Few such answers arrive within a second.
const MAX_REPORTS_A_SECOND: usize = 8;

#[derive(Default)]
pub struct CallsAreBounded {
    calls: BTreeMap<(SchedulerId, WorkerId), Rate>,
    reports: BTreeMap<(WorkerId, Run), Rate>,
}

impl Law for CallsAreBounded {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A scheduler makes at most 64 calls other than runTask and killTask to one worker in any second, and a worker reports one end at most 8 times in any second."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let second = drift::at_least(world, Duration::from_secs(1));
        match *happening {
            Happening::CallSent {
                scheduler,
                worker,
                ask,
                ..
            } if !matches!(ask, Ask::Run { .. } | Ask::Kill { .. }) => {
                let rate = self.calls.entry((scheduler, worker)).or_default();
                if rate.exceeds(when, MAX_CALLS_A_SECOND, second) {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} calls worker {worker} more than {MAX_CALLS_A_SECOND} times within a second"
                        ),
                    ));
                }
            }
            Happening::StatusSent { worker, run, .. } => {
                let rate = self.reports.entry((worker, run)).or_default();
                if rate.exceeds(when, MAX_REPORTS_A_SECOND, second) {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "worker {worker} reports run {} of {} more than {MAX_REPORTS_A_SECOND} times within a second",
                            run.invocation, run.task
                        ),
                    ));
                }
            }
            Happening::StatusSettled { worker, run, .. } => {
                self.reports.remove(&(worker, run));
            }
            Happening::WorkerStopped { worker, .. } => {
                self.reports.retain(|(of, _), _| *of != worker);
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.calls.retain(|(by, _), _| *by != scheduler);
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
    #[test]
    fn retries_pause() {
        let mut trial = Trial::of(CallsAreBounded::default());
        for second in 0..40 {
            trial
                .at(second)
                .sees(status_sent(1, 1, run(1), DONE))
                .sees(sent(1, 1, 1, Ask::Fetch));
        }
        for _ in 0..7 {
            trial.sees(status_sent(1, 1, run(1), DONE));
        }
        trial.breaks(status_sent(1, 1, run(1), DONE), "more than 8 times");
    }

    #[test]
    fn calls_are_bounded() {
        let mut trial = Trial::of(CallsAreBounded::default());
        for tag in 0..64 {
            trial.after_millis(10).sees(sent(1, 1, tag, Ask::Suicide));
        }
        trial.sees(sent(1, 1, 65, ask_run(run(1))));
        trial.breaks(sent(1, 1, 66, Ask::Fetch), "more than 64 times");
    }
}
