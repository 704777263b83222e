//! Law `joins_in_time`: Where only workers come and go, and one of them lasts, a worker that starts is HEALTHY within two heartbeat periods.
//!
//! Source: consensus, first health. High turnover must not keep newcomers from work.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{Health, Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::view::World;

const NAME: &str = "joins_in_time";

/// For first round trips, syncs, and the pauses between attempts, beside the two periods.
const SLACK: Duration = Duration::from_secs(5);
/// As the documentation says.
const PERIODS: u32 = 2;
/// The default, where no core can be asked.
const DEFAULT_PERIOD: Duration = Duration::from_secs(15);

#[derive(Default)]
pub struct JoinsInTime {
    joining: BTreeMap<WorkerId, Time>,
    deadlines: BTreeSet<(Time, WorkerId)>,
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
                self.joining.insert(worker, deadline);
                self.deadlines.insert((deadline, worker));
            }
            Happening::WorkerHealth {
                worker,
                to: Health::Healthy | Health::MustDie,
                ..
            }
            | Happening::HeartbeatSent {
                worker,
                goodbye: true,
                ..
            }
            | Happening::WorkerStopped { worker, .. } => self.settle(worker),
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
        if let Some(deadline) = self.joining.remove(&worker) {
            self.deadlines.remove(&(deadline, worker));
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
        trial.only_workers_fail = true;
        trial.sees(worker_started(2)).sees(worker_started(3));
        trial
            .at(64)
            .sees(worker_health(2, Health::New, Health::Healthy));
        trial.at(96).breaks(scheduler_turn(), "is not HEALTHY yet");
    }
}
