//! Logs the changes of a worker's state for its operator, and reports its status to the service manager.

use brasserie_common::{Health, SchedulerId, WorkerSetId};
use brasserie_common_runtime::ServiceManager;
use brasserie_worker_core::{Association, LifeStage, Worker};

/// The last reported state of each association.
#[derive(Debug)]
pub(crate) struct News(Vec<Side>);

/// The reported state of one association.
#[derive(Debug)]
struct Side {
    /// The prefix of its log lines: empty if there is only one scheduler.
    of: String,
    seen: Seen,
    /// The scheduler that an earlier association also has, and about which the operator was warned.
    is_twin_of: Option<SchedulerId>,
}

#[derive(Clone, Debug, PartialEq)]
struct Seen {
    health: Health,
    life: LifeStage,
    scheduler: Option<SchedulerId>,
    trouble: Option<String>,
    older_set: Option<WorkerSetId>,
}

impl News {
    /// Makes the initial state. `schedulers` are the names of the schedulers, in the order of the associations.
    pub(crate) fn new(worker: &Worker, schedulers: impl IntoIterator<Item = String>) -> Self {
        let is_only = worker.associations().len() == 1;
        let sides = worker.associations().iter().zip(schedulers);
        let sides = sides.map(|(association, called)| Side {
            of: match is_only {
                true => String::new(),
                false => format!("{called}: "),
            },
            seen: Seen::of(association),
            is_twin_of: None,
        });
        News(sides.collect())
    }

    /// Logs the changes since the last call, and reports them to the service manager.
    pub(crate) fn tell(&mut self, worker: &Worker, manager: &ServiceManager) {
        let is_ending = self.is_ending();
        let mut changed = false;
        for (side, association) in self.0.iter_mut().zip(worker.associations()) {
            let now = Seen::of(association);
            if now != side.seen {
                side.log(&now, association);
                side.seen = now;
                changed = true;
            }
        }
        if changed {
            self.warn_of_twins();
            let text = self.0.iter().map(Side::status).collect::<Vec<_>>();
            let text = text.join("; ");
            match self.is_ending() && !is_ending {
                true => manager.stopping(&text),
                false => manager.status(&text),
            }
        }
    }

    /// Warns if two associations lead to the same scheduler. Different addresses do not reveal that.
    fn warn_of_twins(&mut self) {
        for at in 1..self.0.len() {
            let (others, rest) = self.0.split_at_mut(at);
            let side = &mut rest[0];
            let scheduler = side.seen.scheduler;
            let twin = others
                .iter()
                .find(|other| other.seen.scheduler == scheduler);
            let Some(twin) = twin.filter(|_| scheduler.is_some()) else {
                continue;
            };
            if side.is_twin_of != scheduler {
                let other = twin.of.trim_end_matches(": ");
                let of = &side.of;
                tracing::warn!(
                    "{of}the same scheduler answers at {other}: leave out one of the two --scheduler"
                );
                side.is_twin_of = scheduler;
            }
        }
    }

    /// Returns whether the program is about to end. If there are several associations, one of them does not end it alone. The operator's
    /// request ends all of them.
    fn is_ending(&self) -> bool {
        let mut lives = self.0.iter().map(|side| side.seen.life);
        match &self.0[..] {
            [only] => only.seen.life != LifeStage::Running,
            _ => lives.any(|life| match life {
                LifeStage::Draining | LifeStage::Leaving => true,
                LifeStage::Running | LifeStage::Dying | LifeStage::Gone => false,
            }),
        }
    }
}

impl Side {
    /// Returns the line for the service manager's status.
    fn status(&self) -> String {
        let text = match self.seen.life {
            LifeStage::Running => match self.seen.scheduler {
                Some(scheduler) => {
                    format!("{}, scheduler {scheduler}", self.seen.health.word())
                }
                None => "has not met its scheduler".to_owned(),
            },
            LifeStage::Draining => "draining: ends with its tasks".to_owned(),
            LifeStage::Leaving | LifeStage::Dying => "ends its tasks".to_owned(),
            LifeStage::Gone => "every task is dead".to_owned(),
        };
        format!("{}{text}", self.of)
    }

    fn log(&self, now: &Seen, association: &Association) {
        let (of, before) = (&self.of, &self.seen);
        let tasks = association.live_processes();
        if now.scheduler != before.scheduler
            && let Some(scheduler) = now.scheduler
        {
            tracing::info!(%scheduler, "{of}associated with a scheduler instance");
        }
        if now.health != before.health {
            let (from, to) = (before.health.word(), now.health.word());
            tracing::info!(tasks, "{of}health: {from} -> {to}");
        }
        if now.life != before.life {
            match now.life {
                LifeStage::Running => {
                    let instance = association.instance();
                    tracing::info!(%instance, "{of}begins anew as another instance");
                }
                LifeStage::Draining => tracing::info!(
                    tasks,
                    "{of}draining: no task starts any more, the worker ends with those that run"
                ),
                LifeStage::Leaving => tracing::info!(
                    tasks,
                    "{of}ending: no task starts any more, running ones are being ended"
                ),
                LifeStage::Dying => {
                    let why = association
                        .why_it_ends()
                        .unwrap_or("the scheduler has requested it");
                    tracing::warn!(tasks, "{of}the worker must end its tasks: {why}");
                }
                LifeStage::Gone => tracing::info!(
                    unacknowledged = association.unacknowledged_reports(),
                    "{of}every task is dead"
                ),
            }
        }
        if now.older_set != before.older_set
            && let Some(older) = now.older_set
        {
            let known = association.worker_set().version;
            tracing::warn!(
                "{of}the scheduler sent version {} of its worker set after version {known}, which stays: the answer was delayed",
                older.version
            );
        }
        if now.trouble != before.trouble {
            match &now.trouble {
                Some(trouble) => tracing::warn!("{of}heartbeat: {trouble}"),
                None => tracing::info!("{of}heartbeats are answered again"),
            }
        }
    }
}

impl Seen {
    fn of(association: &Association) -> Self {
        Seen {
            health: association.health(),
            life: association.life_stage(),
            scheduler: association.scheduler(),
            trouble: association.heartbeat_trouble().map(ToString::to_string),
            older_set: association.older_set(),
        }
    }
}
