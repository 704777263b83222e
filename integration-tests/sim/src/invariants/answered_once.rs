//! Law `answered_once`: Each request is answered at most once, each call has one outcome at most, and none comes from nowhere.
//!
//! Source: thrift/PROTOCOL.md, Calls. The caller would take a second answer for that of another request.

use std::collections::BTreeMap;

use brasserie_common::collections::IdMap;
use brasserie_common::{SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{CallTag, Happening, Run};
use crate::view::World;

const NAME: &str = "answered_once";

/// Open requests at each scheduler.
#[derive(Default)]
pub struct AnsweredOnce {
    heartbeats: BTreeMap<(SchedulerId, WorkerId), u32>,
    statuses: BTreeMap<(SchedulerId, WorkerId, Run), u32>,
    calls: IdMap<CallTag, SchedulerId>,
}

impl Law for AnsweredOnce {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "Each request is answered at most once, each call has one outcome at most, and none comes from nowhere."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::HeartbeatHeard {
                scheduler, worker, ..
            } => {
                *self.heartbeats.entry((scheduler, worker)).or_default() += 1;
            }
            Happening::HeartbeatAnswered {
                scheduler, worker, ..
            }
            | Happening::HeartbeatRejected {
                scheduler, worker, ..
            } => {
                close(&mut self.heartbeats, (scheduler, worker), "a heartbeat")?;
            }
            Happening::StatusHeard {
                scheduler,
                worker,
                run,
                ..
            } => {
                *self.statuses.entry((scheduler, worker, run)).or_default() += 1;
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
                close(&mut self.statuses, (scheduler, worker, run), "a status")?;
            }
            Happening::CallSent {
                scheduler, call, ..
            } => {
                let before = self.calls.insert(call, scheduler);
                if before.is_some() {
                    return Err(Violation::new(
                        NAME,
                        format_args!("call {} leaves twice", call.0),
                    ));
                }
            }
            Happening::CallOver {
                scheduler, call, ..
            } => {
                let caller = self.calls.remove(&call);
                if caller != Some(scheduler) {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "scheduler {scheduler} hears an outcome of call {}, which is not open",
                            call.0
                        ),
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.heartbeats.retain(|(of, _), _| *of != scheduler);
                self.statuses.retain(|(of, _, _), _| *of != scheduler);
                self.calls.retain(|_, of| *of != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

fn close<K: Ord>(open: &mut BTreeMap<K, u32>, key: K, what: &str) -> Result<(), Violation> {
    match open.get_mut(&key) {
        Some(1) => {
            open.remove(&key);
            Ok(())
        }
        Some(count) => {
            *count -= 1;
            Ok(())
        }
        None => Err(Violation::new(
            NAME,
            format_args!("{what} is answered that is not open"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use crate::event_log::{Ask, OutcomeKind};
    use brasserie_common::Health;

    #[test]
    fn one_answer_each() {
        let mut trial = Trial::of(AnsweredOnce::default());
        let none = set(0, 0, &[]);
        trial.sees(heard(1, 1, none)).sees(heard(1, 1, none));
        trial
            .sees(answered(1, 1, Health::New, none))
            .sees(answered(1, 1, Health::New, none));
        trial.breaks(answered(1, 1, Health::New, none), "a heartbeat is answered");
        trial
            .sees(status_heard(1, 1, run(1), DONE))
            .sees(acknowledged(1, 1, run(1), DONE));
        trial.breaks(acknowledged(1, 1, run(1), DONE), "a status is answered");
    }

    #[test]
    fn one_outcome_each() {
        let mut trial = Trial::of(AnsweredOnce::default());
        trial.sees(sent(1, 1, 1, Ask::Fetch)).sees(fetched(1, 1, 1));
        trial.breaks(fetched(1, 1, 1), "which is not open");
        trial.sees(sent(1, 1, 2, Ask::Fetch));
        trial.breaks(sent(1, 1, 2, Ask::Suicide), "leaves twice");
        trial.sees(stopped(1));
        trial.breaks(
            over(1, 1, 2, Ask::Fetch, OutcomeKind::Done),
            "which is not open",
        );
    }
}
