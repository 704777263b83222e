//! Law `stale_is_earlier`: A heartbeat is refused as stale only if a later instance has taken the same machine lock.
//!
//! Source: thrift/PROTOCOL.md, Association, rows 4 to 6 of the replacement table. A worker refused by mistake stays out until its
//! predecessor is forgotten.

use std::collections::BTreeMap;

use brasserie_common::{Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Happening, RejectionKind};
use crate::view::World;

const NAME: &str = "stale_is_earlier";

#[derive(Default)]
pub struct StaleIsEarlier {
    lock_of: BTreeMap<WorkerId, i32>,
    /// The latest start second of each machine lock.
    latest: BTreeMap<i32, i64>,
}

impl Law for StaleIsEarlier {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "A heartbeat is refused as stale only if a later instance has taken the same machine lock."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::WorkerStarted {
                worker, lock_port, ..
            } => {
                self.lock_of.insert(worker, lock_port);
                let start = worker.0.start_time;
                let latest = self.latest.entry(lock_port).or_insert(start);
                *latest = (*latest).max(start);
                Ok(())
            }
            Happening::HeartbeatRejected {
                worker,
                why: RejectionKind::StaleInstance,
                ..
            } => {
                let latest = self
                    .lock_of
                    .get(&worker)
                    .and_then(|lock| self.latest.get(lock));
                if latest.is_some_and(|latest| *latest <= worker.0.start_time) {
                    return Err(Violation::new(
                        NAME,
                        format_args!("worker {worker} is refused as stale, and none is later"),
                    ));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::*;
    use super::*;

    #[test]
    fn the_latest_is_never_stale() {
        let mut trial = Trial::of(StaleIsEarlier::default());
        trial
            .sees(worker_started(1))
            .sees(worker_started(2))
            .sees(rejected(1, 1, RejectionKind::StaleInstance))
            .sees(rejected(1, 2, RejectionKind::ShardTaken))
            .breaks(
                rejected(1, 2, RejectionKind::StaleInstance),
                "none is later",
            );
    }
}
