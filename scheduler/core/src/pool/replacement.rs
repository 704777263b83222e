//! The decision between the incumbent and the newcomer of a shard when a heartbeat names an instance.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Health, WorkerDescription};

use crate::record::LeftCause;
use crate::refusal::Rejection;

/// The decision about a heartbeat for a taken shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The heartbeat is of the instance that holds the shard.
    Refresh,
    /// The heartbeat is of the instance that held the shard and is lost. The answer must say so again.
    Lost,
    /// The newcomer takes the shard.
    Replace {
        cause: LeftCause,
        incumbent: Incumbent,
    },
    /// The incumbent keeps the shard.
    Refuse {
        rejection: Rejection,
        newcomer: Newcomer,
    },
}

/// The state of a displaced incumbent, which decides how it is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incumbent {
    /// The incumbent is dead, because its successor holds its machine lock.
    IsDead,
    /// The incumbent was lost before, and may linger.
    MustDie,
    /// The incumbent is only unhealthy, and its own timers have not ended it yet.
    MustDieUnhealthy,
    /// Both instances began in one second, so either may be the other's successor. If the incumbent is, it is alive.
    MayLive,
}

/// How a refused newcomer is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newcomer {
    MustDie,
    /// The newcomer is a dead predecessor, and its message was delayed.
    IsDead,
}

/// Whether an incumbent that is only unhealthy may be displaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bump {
    Unhealthy,
    OnlyLost,
}

/// Decides by the table "Replacement" in thrift/PROTOCOL.md. `health` is the incumbent's health at this moment.
pub(crate) fn decide(
    incumbent: &WorkerDescription,
    health: Health,
    newcomer: &WorkerDescription,
    bump: Bump,
) -> Decision {
    if incumbent.machine_lock == newcomer.machine_lock {
        if incumbent.id == newcomer.id {
            return if health == Health::MustDie {
                Decision::Lost
            } else {
                Decision::Refresh
            };
        }
        let (theirs, its) = (incumbent.id.0.start_time, newcomer.id.0.start_time);
        if theirs > its || (theirs == its && sabotage::on(Sabotage::Row5AsRow4)) {
            let rejection = Rejection::StaleInstance {
                successor: incumbent.id,
            };
            return Decision::Refuse {
                rejection,
                newcomer: Newcomer::IsDead,
            };
        }
        let incumbent = if theirs == its {
            Incumbent::MayLive
        } else {
            Incumbent::IsDead
        };
        return Decision::Replace {
            cause: LeftCause::Replaced,
            incumbent,
        };
    }
    if health == Health::MustDie {
        return Decision::Replace {
            cause: LeftCause::Lost,
            incumbent: Incumbent::MustDie,
        };
    }
    if bump == Bump::Unhealthy && health != Health::Healthy {
        return Decision::Replace {
            cause: LeftCause::Lost,
            incumbent: Incumbent::MustDieUnhealthy,
        };
    }
    let shard = newcomer.shard.as_str().to_owned();
    let rejection = Rejection::ShardTaken {
        shard,
        incumbent: incumbent.id,
    };
    Decision::Refuse {
        rejection,
        newcomer: Newcomer::MustDie,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common::{MachinePortLock, Shard, WorkerId};

    fn worker(port: i32, start: i64, rand: i64) -> WorkerDescription {
        WorkerDescription {
            shard: Shard::try_from("s").unwrap(),
            machine_lock: MachinePortLock {
                hostname: "h".into(),
                port,
            },
            id: WorkerId::new(start, rand),
            ..WorkerDescription::default()
        }
    }

    fn replaced(by: &Decision) -> Option<Incumbent> {
        match by {
            Decision::Replace { incumbent, .. } => Some(*incumbent),
            Decision::Refresh | Decision::Lost | Decision::Refuse { .. } => None,
        }
    }

    #[test]
    fn every_row_of_the_table() {
        let c = worker(1, 10, 1);
        let all = [Health::New, Health::Healthy, Health::Unhealthy];
        for bump in [Bump::Unhealthy, Bump::OnlyLost] {
            // Another machine lock.
            assert_eq!(
                replaced(&decide(&c, Health::MustDie, &worker(2, 5, 2), bump)),
                Some(Incumbent::MustDie)
            );
            for health in all {
                let decision = decide(&c, health, &worker(2, 50, 2), bump);
                if bump == Bump::Unhealthy && health != Health::Healthy {
                    assert_eq!(replaced(&decision), Some(Incumbent::MustDieUnhealthy));
                } else {
                    assert!(matches!(
                        decision,
                        Decision::Refuse {
                            newcomer: Newcomer::MustDie,
                            ..
                        }
                    ));
                }
            }
            // The same lock, another instance.
            for health in all.into_iter().chain([Health::MustDie]) {
                let stale = decide(&c, health, &worker(1, 9, 2), bump);
                assert!(matches!(
                    stale,
                    Decision::Refuse {
                        newcomer: Newcomer::IsDead,
                        ..
                    }
                ));
                assert_eq!(
                    replaced(&decide(&c, health, &worker(1, 10, 2), bump)),
                    Some(Incumbent::MayLive)
                );
                assert_eq!(
                    replaced(&decide(&c, health, &worker(1, 11, 2), bump)),
                    Some(Incumbent::IsDead)
                );
            }
            // The same instance.
            for health in all {
                assert_eq!(decide(&c, health, &c, bump), Decision::Refresh);
            }
            assert_eq!(decide(&c, Health::MustDie, &c, bump), Decision::Lost);
        }
    }
}
