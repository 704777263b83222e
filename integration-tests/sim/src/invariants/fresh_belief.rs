//! Law `fresh_belief`: A task leaves a scheduler, and is accepted by a worker, only on a heartbeat and a healthcheck that are fresh in true
//! time.
//!
//! Source: thrift/PROTOCOL.md, R28 and R29. A process that slept must read the clock before it acts on its old state.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{SchedulerId, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Ask, Happening, TaskId};
use crate::model::associations::Associations;
use crate::model::drift;
use crate::view::World;

const NAME: &str = "fresh_belief";

/// The documented default, for a worker whose period is unknown.
const DEFAULT_PERIOD: Duration = Duration::from_secs(15);

/// The heartbeats of a worker.
#[derive(Clone, Copy, Default)]
struct Beats {
    period: Duration,
    last_sent: Option<Time>,
    /// The latest sending of a heartbeat that was answered.
    answered: Option<Time>,
}

#[derive(Default)]
pub struct FreshBelief {
    pairs: Associations,
    beats: BTreeMap<WorkerId, Beats>,
}

impl Law for FreshBelief {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A task leaves a scheduler, and is accepted by a worker, only on a heartbeat and a healthcheck that are fresh in true time."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        self.pairs.note(when, happening);
        match *happening {
            Happening::WorkerStarted { place, worker, .. } => {
                let host = world.workers.get(usize::from(place.0));
                let core = host.and_then(|host| host.core());
                let period =
                    core.map_or(DEFAULT_PERIOD, |core| core.description().heartbeat_period);
                let beats = Beats {
                    period,
                    ..Beats::default()
                };
                self.beats.insert(worker, beats);
            }
            Happening::WorkerStopped { worker, .. } => {
                self.beats.remove(&worker);
            }
            Happening::HeartbeatSent { worker, .. } => {
                if let Some(beats) = self.beats.get_mut(&worker) {
                    beats.last_sent = Some(when);
                }
            }
            Happening::HeartbeatAnswerHeard { worker, .. } => {
                if let Some(beats) = self.beats.get_mut(&worker) {
                    beats.answered = beats.last_sent;
                }
            }
            Happening::CallSent {
                scheduler,
                worker,
                ask: Ask::Run { run, .. },
                ..
            } => return self.sent(when, (scheduler, worker), run.task, world),
            Happening::Served {
                worker,
                ask: Ask::Run { run, .. },
                refusal: None,
                ..
            } => return self.accepted(when, worker, run.task, world),
            _ => {}
        }
        Ok(())
    }
}

impl FreshBelief {
    fn sent(
        &self,
        when: Time,
        (scheduler, worker): (SchedulerId, WorkerId),
        task: TaskId,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let pair = self.pairs.get(scheduler, worker);
        let heartbeat = pair.and_then(|pair| pair.heartbeat_heard);
        let check = pair.and_then(|pair| pair.good_check);
        let beats = self.beats.get(&worker);
        let period = beats.map_or(DEFAULT_PERIOD, |beats| beats.period);
        let (max_beat, max_check) = (
            world.timeouts.max_heartbeat_gap(period),
            world.timeouts.max_healthcheck_gap(),
        );
        let old = stale(when, heartbeat, max_beat, world).map(|age| ("heartbeat", age));
        let old = old.or(stale(when, check, max_check, world).map(|age| ("healthcheck", age)));
        let Some((what, age)) = old else {
            return Ok(());
        };
        Err(Violation::new(
            NAME,
            format_args!("scheduler {scheduler} sends {task} to worker {worker} on a {what} {age}"),
        ))
    }

    fn accepted(
        &self,
        when: Time,
        worker: WorkerId,
        task: TaskId,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        let Some(beats) = self.beats.get(&worker) else {
            return Ok(());
        };
        let gap = world.timeouts.max_heartbeat_gap(beats.period);
        match stale(when, beats.answered, gap, world) {
            None => Ok(()),
            Some(age) => Err(Violation::new(
                NAME,
                format_args!("worker {worker} accepts {task} on a heartbeat {age}"),
            )),
        }
    }
}

/// Returns the age of `last` if no clock of this world can take it for fresh.
fn stale(when: Time, last: Option<Time>, gap: Duration, world: &World<'_>) -> Option<String> {
    match last {
        None => Some("that never was".to_owned()),
        Some(at) => {
            let age = when.since(at);
            (age > drift::at_most(world, gap)).then(|| format!("of {age:?} ago"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;
    use brasserie_common::Health;

    fn joined() -> Trial<FreshBelief> {
        let mut trial = Trial::of(FreshBelief::default());
        trial
            .sees(worker_started(1))
            .sees(heartbeat_sent(1, set(0, 0, &[]), false));
        trial
            .sees(heard(1, 1, set(0, 0, &[])))
            .sees(answer_heard(1, 1, Health::Healthy));
        let ask = Ask::Healthcheck {
            invocation: check(1).invocation,
            for_new_worker: false,
        };
        trial
            .sees(sent(1, 1, 1, ask))
            .sees(status_heard(1, 1, check(1), DONE));
        trial
    }

    #[test]
    fn fresh_enough() {
        let mut trial = joined();
        trial
            .at(75)
            .sees(sent(1, 1, 2, ask_run(run(1))))
            .sees(served(1, 1, ask_run(run(1)), None));
    }

    #[test]
    fn a_scheduler_that_slept() {
        let mut trial = joined();
        trial
            .at(76)
            .breaks(sent(1, 1, 2, ask_run(run(1))), "on a heartbeat of 76s ago");
        trial.at(120).sees(heard(1, 1, set(1, 1, &[1])));
        trial.at(126).breaks(
            sent(1, 1, 2, ask_run(run(1))),
            "on a healthcheck of 126s ago",
        );
    }

    #[test]
    fn a_worker_that_slept() {
        let mut trial = joined();
        trial.at(76).breaks(
            served(1, 1, ask_run(run(1)), None),
            "on a heartbeat of 76s ago",
        );
    }
}
