//! Logs the changes of a worker's state for its operator, and reports its status to the service manager.

use std::time::Duration;

use brasserie_common::time::readable_duration;
use brasserie_common::{Health, SchedulerId, Time, WorkerSetId};
use brasserie_common_runtime::ServiceManager;
use brasserie_worker_core::{Association, HeartbeatTrouble, LifeStage, Worker};

use crate::rpc::is_rejection;

/// The last reported state of each association.
#[derive(Debug)]
pub(crate) struct ReportedStates(Vec<ReportedState>);

/// The pause from the first report of a failing heartbeat to the second one. It doubles up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(60);
/// The longest pause between two reports of a failing heartbeat: a log that a person reads shows it, and a day has at most 50.
const MAX_PAUSE: Duration = Duration::from_secs(1800);

/// The reported state of one association.
#[derive(Debug)]
struct ReportedState {
    /// The prefix of its log lines: empty if there is only one scheduler.
    of: String,
    /// The scheduler, as the command line names it.
    called: String,
    seen: SeenState,
    /// The reports of a failing heartbeat; `None` while heartbeats are answered.
    failing: Option<Failing>,
    /// The scheduler that an earlier association also has, and about which the operator was warned.
    is_twin_of: Option<SchedulerId>,
}

/// The reports of a failing heartbeat.
#[derive(Clone, Copy, Debug)]
struct Failing {
    since: Time,
    /// The time of the next report.
    next: Time,
    pause: Duration,
}

#[derive(Clone, Debug, PartialEq)]
struct SeenState {
    health: Health,
    life: LifeStage,
    scheduler: Option<SchedulerId>,
    trouble: Option<HeartbeatTrouble>,
    older_set: Option<WorkerSetId>,
}

impl ReportedStates {
    /// Makes the initial state. `schedulers` are the names of the schedulers, in the order of the associations.
    pub(crate) fn new(worker: &Worker, schedulers: impl IntoIterator<Item = String>) -> Self {
        let is_only = worker.associations().len() == 1;
        let sides = worker.associations().iter().zip(schedulers);
        let sides = sides.map(|(association, called)| ReportedState {
            of: match is_only {
                true => String::new(),
                false => format!("{called}: "),
            },
            called,
            failing: None,
            seen: SeenState::of(association),
            is_twin_of: None,
        });
        ReportedStates(sides.collect())
    }

    /// Logs the changes since the last call, and reports them to the service manager.
    pub(crate) fn tell(&mut self, now: Time, worker: &Worker, manager: &ServiceManager) {
        let is_ending = self.is_ending();
        let mut changed = false;
        for (side, association) in self.0.iter_mut().zip(worker.associations()) {
            let seen = SeenState::of(association);
            if let Some(line) = side.heartbeat_line(now, &seen) {
                match &seen.trouble {
                    Some(_) => tracing::warn!("{line}"),
                    None => tracing::info!("{line}"),
                }
            }
            if seen != side.seen {
                side.log(&seen, association);
                side.seen = seen;
                changed = true;
            }
        }
        if changed {
            self.warn_of_twins();
            let text = self.0.iter().map(ReportedState::status).collect::<Vec<_>>();
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
                    "{of}the same scheduler answers at {other}: remove one of the two --scheduler flags"
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

impl ReportedState {
    /// Returns the line for the service manager's status.
    fn status(&self) -> String {
        let text = match self.seen.life {
            LifeStage::Running => match self.seen.scheduler {
                Some(scheduler) => {
                    format!("{}, scheduler {scheduler}", self.seen.health.word())
                }
                None => "has not met its scheduler".to_owned(),
            },
            LifeStage::Draining => "draining: exits when its tasks have completed".to_owned(),
            LifeStage::Leaving | LifeStage::Dying => "ends its tasks".to_owned(),
            LifeStage::Gone => "every task is dead".to_owned(),
        };
        format!("{}{text}", self.of)
    }

    fn log(&self, now: &SeenState, association: &Association) {
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
            let caller = association.drained_by();
            match now.life {
                LifeStage::Running => {
                    let instance = association.instance();
                    tracing::info!(%instance, "{of}continues as a new instance");
                }
                LifeStage::Draining => tracing::info!(
                    tasks,
                    requested_by = caller.map(|caller| tracing::field::display(&caller.from)),
                    reason = caller
                        .map(|caller| &*caller.reason)
                        .filter(|why| !why.is_empty()),
                    "{of}draining: no further task starts, and the worker exits when the running tasks have completed"
                ),
                // A drain of a worker that runs nothing is over at once.
                LifeStage::Leaving => tracing::info!(
                    tasks,
                    requested_by = caller.map(|caller| tracing::field::display(&caller.from)),
                    reason = caller
                        .map(|caller| &*caller.reason)
                        .filter(|why| !why.is_empty()),
                    "{of}exiting: no further task starts, and {}",
                    match tasks {
                        0 => "none runs",
                        _ => "the worker kills the running tasks",
                    }
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
                "{of}the scheduler sent version {} of its worker set after version {known}, which stays in use: the answer was delayed",
                older.version
            );
        }
    }

    /// Returns the line about the heartbeats, if one is due: at once after a change, and ever more rarely while they fail.
    fn heartbeat_line(&mut self, now: Time, seen: &SeenState) -> Option<String> {
        let (of, called) = (&self.of, &self.called);
        let Some(trouble) = &seen.trouble else {
            let was_failing = self.failing.take().is_some();
            return was_failing.then(|| format!("{of}heartbeats are answered again"));
        };
        let is_new = self.seen.trouble != seen.trouble;
        let failing = self.failing.get_or_insert(Failing {
            since: now,
            next: now,
            pause: FIRST_PAUSE,
        });
        if !is_new && now < failing.next {
            return None;
        }
        let lasts = match now.since(failing.since) {
            Duration::ZERO => String::new(),
            time => format!(" for {}", readable_duration(time)),
        };
        failing.next = now + failing.pause;
        failing.pause = (failing.pause * 2).min(MAX_PAUSE);
        let hint = match seen.scheduler.is_some() || is_of_scheduler(trouble) {
            true => "",
            false => {
                ". `--scheduler` must name the `--listen` address of a scheduler, by default port 6789"
            }
        };
        Some(format!(
            "{of}heartbeats to {called} fail{lasts}: {trouble}; the worker tries again{hint}"
        ))
    }
}

/// Returns whether the peer is a scheduler: it has answered the heartbeat, or rejected it.
fn is_of_scheduler(trouble: &HeartbeatTrouble) -> bool {
    match trouble {
        HeartbeatTrouble::ProtocolVersion { .. }
        | HeartbeatTrouble::ForeignWorkerSet { .. }
        | HeartbeatTrouble::OldScheduler { .. }
        | HeartbeatTrouble::Refused(_) => true,
        HeartbeatTrouble::Failed(text) => is_rejection(text),
    }
}

impl SeenState {
    fn of(association: &Association) -> Self {
        SeenState {
            health: association.health(),
            life: association.life_stage(),
            scheduler: association.scheduler(),
            trouble: association.heartbeat_trouble().cloned(),
            older_set: association.older_set(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(trouble: Option<&str>) -> SeenState {
        SeenState {
            health: Health::New,
            life: LifeStage::Running,
            scheduler: None,
            trouble: trouble.map(|text| HeartbeatTrouble::Failed(text.to_owned())),
            older_set: None,
        }
    }

    #[test]
    fn failing_heartbeats_are_reported_at_once_and_ever_more_rarely() {
        let mut side = ReportedState {
            of: String::new(),
            called: "a:1".to_owned(),
            seen: seen(None),
            failing: None,
            is_twin_of: None,
        };
        let mut told = |second, trouble| {
            let now = Time::ZERO + Duration::from_secs(second);
            let seen = seen(trouble);
            let line = side.heartbeat_line(now, &seen);
            side.seen = seen;
            line
        };
        let first = told(5, Some("refused")).unwrap_or_default();
        for part in [
            "heartbeats to a:1 fail: the heartbeat failed: refused",
            "tries again",
            "port 6789",
        ] {
            assert!(first.contains(part), "{part}: {first}");
        }
        assert_eq!(told(20, Some("refused")), None);
        let rejection = "the peer answered with an exception (InternalError): `w` has its worker";
        let rejected = told(25, Some(rejection)).unwrap_or_default();
        assert!(rejected.ends_with("the worker tries again"), "{rejected}");
        let other = told(35, Some("no reply")).unwrap_or_default();
        assert!(
            other.contains("fail for 30.0 s: the heartbeat failed: no reply"),
            "{other}"
        );
        let day = 86_400;
        let lines = (50..day).step_by(15);
        let lines = lines.filter_map(|second| told(second, Some("no reply")));
        let count = lines.count();
        assert!((48..60).contains(&count), "{count}");
        let over = told(day, None).unwrap_or_default();
        assert_eq!(over, "heartbeats are answered again");
        assert_eq!(told(day + 1, None), None);
    }
}
