//! Law `heartbeats_are_bounded`: A worker sends at most 20 heartbeats in any second.
//!
//! Source: thrift/PROTOCOL.md, Association. A thousand workers must not overload a restarted scheduler.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::Happening;
use crate::model::drift;
use crate::model::rates::Rate;
use crate::view::World;

const NAME: &str = "heartbeats_are_bounded";

/// The documented limit, by which operators size schedulers.
const MAX_A_SECOND: usize = 20;

#[derive(Default)]
pub struct HeartbeatsAreBounded {
    rates: BTreeMap<WorkerId, Rate>,
}

impl Law for HeartbeatsAreBounded {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A worker sends at most 20 heartbeats in any second."
    }

    fn observe(
        &mut self,
        when: Time,
        happening: &Happening,
        world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::HeartbeatSent { worker, .. } => {
                let second = drift::at_least(world, Duration::from_secs(1));
                let rate = self.rates.entry(worker).or_default();
                if rate.exceeds(when, MAX_A_SECOND, second) {
                    return Err(Violation::new(
                        NAME,
                        format_args!(
                            "worker {worker} sends more than {MAX_A_SECOND} heartbeats within a second"
                        ),
                    ));
                }
            }
            Happening::WorkerStopped { worker, .. } => {
                self.rates.remove(&worker);
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
    fn twenty_and_no_more() {
        let mut trial = Trial::of(HeartbeatsAreBounded::default());
        for _ in 0..20 {
            trial
                .after_millis(40)
                .sees(heartbeat_sent(1, set(0, 0, &[]), false));
        }
        trial.sees(heartbeat_sent(2, set(0, 0, &[]), false));
        trial
            .after_millis(40)
            .breaks(heartbeat_sent(1, set(0, 0, &[]), false), "more than 20");
    }
}
