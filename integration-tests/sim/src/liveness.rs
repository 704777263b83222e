//! The liveness laws, once nothing fails any more. Within a stated time every lasting worker is HEALTHY on both sides, no task is unsure,
//! and everything that can run has run. From then on the cluster is as quiet as its heartbeats allow.

use std::time::Duration;

use brasserie_common::{Health, Time, Timeouts};
use brasserie_scheduler_core::{Answer, ClusterStatus, Query, Scheduler};

use crate::cluster::Cluster;
use crate::event_log::SchedulerPlace;
use crate::hosts::desk::TWO_REPORTS;
use crate::laws::{Violation, unnamed_copies};
use crate::network::LONGEST_LIFE;

/// The names of the two laws of this module.
pub const SETTLES: &str = "settles";
pub const NO_STORM: &str = "no_storm";

/// The interval at which the world is checked.
pub const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The length of the final quiet watch in heartbeat periods.
const QUIET_PERIODS: u32 = 8;

/// The longest time until the world settles. It covers an old message, the safe wait of a scheduler, the loss and return of a worker, two
/// questions about unsure tasks up to 256 periods apart, and all running and remaining work.
pub fn settling_bound(timeouts: &Timeouts) -> Duration {
    let asking = timeouts.unsure_if_running_check_initial_period * 512;
    let work = Duration::from_secs(3000);
    LONGEST_LIFE + timeouts.min_safe_wait() * 3 + asking + work
}

/// Watches a world without faults until it settles.
#[derive(Debug)]
pub struct Settling {
    deadline: Time,
    next_look: Time,
    watch: Option<QuietWatch>,
}

/// The final quiet watch.
#[derive(Debug)]
struct QuietWatch {
    until: Time,
    events_before: u64,
    since: Time,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LivenessResult {
    /// The world has not settled, or the watch continues.
    GoOn,
    Settled,
}

impl Settling {
    pub fn new(now: Time, cluster: &Cluster) -> Self {
        Settling {
            deadline: now + settling_bound(cluster.timeouts()),
            next_look: now,
            watch: None,
        }
    }

    pub fn next_look(&self) -> Time {
        self.next_look
    }

    pub fn look(&mut self, now: Time, cluster: &Cluster) -> Result<LivenessResult, Violation> {
        self.next_look = now + LOOK_EVERY;
        if let Some(watch) = &self.watch {
            if now < watch.until {
                return Ok(LivenessResult::GoOn);
            }
            return watch.judge(now, cluster).map(|()| LivenessResult::Settled);
        }
        match what_is_missing(cluster) {
            // An old message or configuration that still arrives may undo a settled state.
            None if now < cluster.past_until() => Ok(LivenessResult::GoOn),
            None => {
                let period = cluster.swarm.heartbeat_period;
                self.watch = Some(QuietWatch {
                    until: now + period * QUIET_PERIODS,
                    events_before: cluster.stats.core_events,
                    since: now,
                });
                Ok(LivenessResult::GoOn)
            }
            Some(missing) if now >= self.deadline => Err(Violation::new(SETTLES, missing)),
            Some(_) => Ok(LivenessResult::GoOn),
        }
    }
}

impl QuietWatch {
    /// Checks the number of inputs. Each worker and period has a heartbeat and its answer, healthchecks of about ten inputs each, and
    /// timers. The limit is twice as much.
    fn judge(&self, now: Time, cluster: &Cluster) -> Result<(), Violation> {
        let swarm = &cluster.swarm;
        let lasts = now.since(self.since).as_secs_f64();
        let workers = cluster.lasting_places().count() as f64;
        let beats = lasts / swarm.heartbeat_period.as_secs_f64() + 1.0;
        let checks = lasts / swarm.shortest.healthcheck_period.as_secs_f64() + 1.0;
        let sights = lasts / swarm.shortest.worker_check_interval.as_secs_f64() + 1.0;
        let reports = match swarm.artifacts {
            Some(_) => lasts / TWO_REPORTS.as_secs_f64() * 2.0 + 1.0,
            None => 0.0,
        };
        let each = beats * 8.0 + checks * 24.0 + sights * 4.0 + reports * 8.0;
        let allowed = workers * each + 100.0;
        let events = cluster.stats.core_events - self.events_before;
        if events as f64 > allowed {
            let what = format!(
                "{events} core events in {lasts:.0} s of a settled cluster, where {allowed:.0} are plenty"
            );
            return Err(Violation::new(NO_STORM, what));
        }
        Ok(())
    }
}

/// Returns what has not settled yet; `None` if all has.
fn what_is_missing(cluster: &Cluster) -> Option<String> {
    let world = cluster.world();
    let Some(scheduler) = world.scheduler(SchedulerPlace(0)) else {
        return Some("the scheduler is down".to_owned());
    };
    let now = cluster.scheduler_clock();
    let Answer::Status(status) = scheduler.answer(now, &Query::Status) else {
        return Some("the scheduler does not tell its status".to_owned());
    };
    if let Some(wait) = &status.initial_wait {
        return Some(wait.clone());
    }
    for place in cluster.lasting_places() {
        let Some(worker) = world.worker(place) else {
            return Some(format!("no worker is alive at {place:?}"));
        };
        if worker.health() != Health::Healthy {
            let health = worker.health().as_str();
            let trouble = worker.heartbeat_trouble();
            return Some(format!("the worker at {place:?} is {health}: {trouble:?}"));
        }
        let id = worker.description().id;
        let held = status.workers.iter().find(|w| w.id == id);
        if held.is_none_or(|w| w.health != Health::Healthy) {
            let held = held.map(|w| w.health.as_str());
            return Some(format!(
                "the scheduler holds the worker at {place:?} for {held:?}"
            ));
        }
    }
    let missing = missing_work(&status, scheduler, now);
    missing.or_else(|| superfluous_data(cluster))
}

fn superfluous_data(cluster: &Cluster) -> Option<String> {
    let world = cluster.world();
    let mut places = cluster.lasting_places();
    places.find_map(|place| {
        let copies = unnamed_copies(&world, place);
        let (_, id) = copies.first()?;
        Some(format!("{place:?} has {id:?}, which nothing names"))
    })
}

fn missing_work(status: &ClusterStatus, scheduler: &Scheduler, now: Time) -> Option<String> {
    for worker in &status.workers {
        if worker.unsure > 0 {
            return Some(format!(
                "{} tasks on {} are unsure",
                worker.unsure, worker.shard
            ));
        }
    }
    for job in status.jobs.iter().filter(|job| job.enabled) {
        if job.settled {
            continue;
        }
        let query = Query::Unfinished {
            job: job.name.as_str().to_owned(),
            limit: 1000,
        };
        let Answer::Unfinished(tasks) = scheduler.answer(now, &query) else {
            return Some(format!("job {} is unknown", job.name));
        };
        if job.counts.running > 0 {
            return Some(format!("{} tasks of {} run", job.counts.running, job.name));
        }
        for task in tasks {
            // Tasks that wait for a permanently failed task need an operator, and so do those whose lost input cannot be made again.
            let hopeless = task.reasons.iter().any(|r| {
                r.contains("depends on") || r.contains("failed") || r.contains("cannot run again")
            });
            if !hopeless {
                return Some(format!(
                    "{}/{} does not run: {:?} {:?}",
                    task.task.job, task.task.node, task.status, task.reasons
                ));
            }
        }
    }
    None
}
