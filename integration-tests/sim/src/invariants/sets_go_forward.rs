//! Law `sets_go_forward`: The set id that a worker sends never goes back: not to an earlier scheduler, and of one scheduler not to an
//! earlier version.
//!
//! Source: thrift/PROTOCOL.md, Worker-set consensus. Consensus takes the id that a worker sends for the latest that it received.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use brasserie_common::worker_set::version_order;
use brasserie_common::{Time, WorkerId};

use super::{Law, Violation};
use crate::event_log::{Happening, SetMark};
use crate::view::World;

const NAME: &str = "sets_go_forward";

#[derive(Default)]
pub struct SetsGoForward {
    last: BTreeMap<WorkerId, SetMark>,
}

impl Law for SetsGoForward {
    fn name(&self) -> &'static str {
        NAME
    }

    fn statement(&self) -> &'static str {
        "The set id that a worker sends never goes back: not to an earlier scheduler, and of one scheduler not to an earlier version."
    }

    fn observe(
        &mut self,
        _when: Time,
        happening: &Happening,
        _world: &World<'_>,
    ) -> Result<(), Violation> {
        match *happening {
            Happening::HeartbeatSent { worker, set, .. } => {
                if let Some(last) = self.last.insert(worker, set) {
                    let goes_back = match set.scheduler.cmp(&last.scheduler) {
                        Ordering::Less => true,
                        Ordering::Greater => false,
                        Ordering::Equal => {
                            version_order(set.version, last.version) == Some(Ordering::Less)
                                || (set.version == last.version && set.hash != last.hash)
                        }
                    };
                    if goes_back {
                        return Err(Violation::new(
                            NAME,
                            format_args!(
                                "worker {worker} sends version {} of scheduler {} after version {} of {}",
                                set.version, set.scheduler, last.version, last.scheduler
                            ),
                        ));
                    }
                }
            }
            Happening::WorkerStopped { worker, .. } => {
                self.last.remove(&worker);
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
    fn after(first: SetMark) -> Trial<SetsGoForward> {
        let mut trial = Trial::of(SetsGoForward::default());
        trial
            .sees(heartbeat_sent(1, set(0, 0, &[]), false))
            .sees(heartbeat_sent(1, first, false));
        trial
    }

    #[test]
    fn forward_also_over_the_end_of_numbers() {
        after(set(1, 5, &[1])).sees(heartbeat_sent(1, set(1, 7, &[1]), false));
        after(set(1, 5, &[1])).sees(heartbeat_sent(1, set(2, 1, &[1]), false));
        after(set(1, i64::MAX, &[1])).sees(heartbeat_sent(1, set(1, i64::MIN, &[1]), false));
    }

    #[test]
    fn never_back() {
        after(set(1, 5, &[1])).breaks(heartbeat_sent(1, set(1, 4, &[1]), false), "sends version 4");
        after(set(2, 5, &[1])).breaks(heartbeat_sent(1, set(1, 9, &[1]), false), "sends version 9");
        after(set(2, 5, &[1])).breaks(
            heartbeat_sent(1, set(2, 5, &[1, 2]), false),
            "sends version 5",
        );
    }
}
