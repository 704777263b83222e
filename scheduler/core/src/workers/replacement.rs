//! Who wins a shard when a heartbeat names an instance: the incumbent or the newcomer.

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{Health, WorkerDescription};

use crate::effect::Rejection;
use crate::record::LeftCause;

/// What a heartbeat for a taken shard means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The instance that holds the shard.
    Refresh,
    /// The instance that held the shard, but it is lost: it must hear it again.
    Lost,
    /// The newcomer takes the shard.
    Replace {
        cause: LeftCause,
        incumbent: Incumbent,
    },
    /// The incumbent keeps it.
    Refuse {
        rejection: Rejection,
        newcomer: Newcomer,
    },
}

/// What is asked of a displaced incumbent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incumbent {
    /// Its machine lock is held by its successor: it is dead.
    IsDead,
    /// It was lost before, and may linger.
    MustDie,
    /// It is merely unhealthy, and its own timers have not ended it yet.
    MustDieUnhealthy,
    /// Both began in one second, so either may be the other's successor: should it be this one, it lives.
    MayLive,
}

/// What is asked of a refused newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newcomer {
    MustDie,
    /// A delayed message of a dead predecessor.
    IsDead,
}

/// Whether a merely unhealthy incumbent may be displaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bump {
    Unhealthy,
    OnlyLost,
}

/// The decision table. `health` is the incumbent's at this moment.
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
