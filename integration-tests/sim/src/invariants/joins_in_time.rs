//! Law `joins_in_time`: Where only workers come and go, and one of them lasts, a worker that starts is HEALTHY within two heartbeat
//! periods.
//!
//! Source: thrift/PROTOCOL.md, Worker-set consensus. High turnover must not keep new workers from getting tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{Health, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::view::World;

const NAME: &str = "joins_in_time";

/// Time for first round trips, syncs and pauses between attempts, in addition to the two periods.
const SLACK: Duration = Duration::from_secs(5);
/// The documented number of periods.
const PERIODS: u32 = 2;
/// The default, where no core can be queried.
const DEFAULT_PERIOD: Duration = Duration::from_secs(15);

#[derive(Default)]
pub struct JoinsInTime {
    joining: BTreeMap<WorkerId, Joining>,
    deadlines: BTreeSet<(Time, WorkerId)>,
    healthy: BTreeSet<WorkerId>,
}

struct Joining {
    deadline: Time,
    /// A worker that stays. If it dies too, all remaining workers may be silent, and a new worker must wait until they are lost.
    witness: WorkerId,
}

impl Law for JoinsInTime {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "Where only workers come and go, and one of them lasts, a worker that starts is HEALTHY within two heartbeat periods."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::WorkerStarted { place, worker, .. } if world.only_workers_fail => {
                let host = world.workers.get(usize::from(place.0));
                let core = host.and_then(|host| host.core());
                let period =
                    core.map_or(DEFAULT_PERIOD, |core| core.description().heartbeat_period);
                let deadline = when + period * PERIODS + SLACK;
                if let Some(&witness) = self.healthy.first() {
                    self.joining.insert(worker, Joining { deadline, witness });
                    self.deadlines.insert((deadline, worker));
                }
            }
            Happening::WorkerHealth {
                worker,
                to: Health::Healthy,
                ..
            } => {
                self.settle(worker);
                self.healthy.insert(worker);
            }
            Happening::WorkerHealth { worker, to, .. } => {
                self.falls_ill(worker);
                if to == Health::MustDie {
                    self.settle(worker);
                }
            }
            Happening::HeartbeatSent {
                worker,
                goodbye: true,
                ..
            }
            | Happening::WorkerStopped { worker, .. } => {
                self.settle(worker);
                self.falls_ill(worker);
            }
            Happening::FaultsOver => {
                self.joining.clear();
                self.deadlines.clear();
            }
            _ => {}
        }
        match self.deadlines.first() {
            Some(&(deadline, worker)) if deadline < when => Err(Violation::new(
                NAME,
                format_args!("worker {worker} is not HEALTHY yet"),
            )),
            Some(_) | None => Ok(()),
        }
    }
}

impl JoinsInTime {
    fn settle(&mut self, worker: WorkerId) {
        if let Some(joining) = self.joining.remove(&worker) {
            self.deadlines.remove(&(joining.deadline, worker));
        }
    }

    fn falls_ill(&mut self, witness: WorkerId) {
        if self.healthy.remove(&witness) {
            let alone = self.joining.iter().filter(|(_, j)| j.witness == witness);
            let alone: Vec<WorkerId> = alone.map(|(worker, _)| *worker).collect();
            for worker in alone {
                self.settle(worker);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;

    #[test]
    fn two_periods_and_no_more() {
        let mut trial = Trial::of(JoinsInTime::default());
        trial.sees(worker_started(1)).at(60).sees(scheduler_turn());
        trial.sees(worker_health(1, Health::New, Health::Healthy));
        trial.only_workers_fail = true;
        trial.sees(worker_started(2)).sees(worker_started(3));
        trial
            .at(64)
            .sees(worker_health(2, Health::New, Health::Healthy));
        trial.at(96).breaks(scheduler_turn(), "is not HEALTHY yet");
    }

    #[test]
    fn nobody_who_lasts_nothing_to_ask() {
        let mut trial = Trial::of(JoinsInTime::default());
        trial.only_workers_fail = true;
        trial
            .sees(worker_started(1))
            .sees(worker_health(1, Health::New, Health::Healthy))
            .sees(worker_started(2))
            .sees(worker_health(1, Health::Healthy, Health::Unhealthy))
            .at(100)
            .sees(scheduler_turn());
    }
}
