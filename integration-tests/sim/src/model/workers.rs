//! The living worker processes: their places, their health, their heartbeats, and the scheduler whose answers count.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{Health, SchedulerId, Shard, Time, WorkerId};

use crate::event_log::{Ask, Happening, WorkerPlace};
use crate::view::World;

/// The documented default, for a worker that cannot be asked for its heartbeat period.
const DEFAULT_PERIOD: Duration = Duration::from_secs(15);

/// A living worker process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveWorker {
    pub place: WorkerPlace,
    pub shard: Shard,
    pub heartbeat_period: Duration,
    /// The worker's own view of its health. MUST_DIE also once it serves a suicide request.
    pub health: Health,
    /// The scheduler whose answers count.
    pub scheduler: Option<SchedulerId>,
    last_sent: Option<Time>,
    /// The latest sending of a heartbeat that was answered.
    pub answered: Option<Time>,
}

/// All living workers.
#[derive(Clone, Debug, Default)]
pub struct Workers {
    live: BTreeMap<WorkerId, LiveWorker>,
}

impl Workers {
    pub fn get(&self, worker: WorkerId) -> Option<&LiveWorker> {
        self.live.get(&worker)
    }

    pub fn iter(&self) -> impl Iterator<Item = (WorkerId, &LiveWorker)> {
        self.live.iter().map(|(worker, live)| (*worker, live))
    }

    /// Returns the worker if it lives and has not begun to end itself.
    pub fn staying(&self, worker: WorkerId) -> Option<&LiveWorker> {
        let live = self.get(worker);
        live.filter(|live| live.health != Health::MustDie)
    }

    /// Returns the period of the worker's heartbeats, or the default if the worker is dead.
    pub fn heartbeat_period(&self, worker: WorkerId) -> Duration {
        let live = self.get(worker);
        live.map_or(DEFAULT_PERIOD, |live| live.heartbeat_period)
    }

    pub fn note(&mut self, when: Time, happening: &Happening, world: &World<'_>) {
        match *happening {
            Happening::WorkerStarted {
                place,
                worker,
                ref shard,
                ..
            } => {
                let core = world.worker(place);
                let period = core.map(|core| core.description().heartbeat_period);
                let live = LiveWorker {
                    place,
                    shard: shard.clone(),
                    heartbeat_period: period.unwrap_or(DEFAULT_PERIOD),
                    health: Health::New,
                    scheduler: None,
                    last_sent: None,
                    answered: None,
                };
                self.live.insert(worker, live);
            }
            Happening::WorkerStopped { worker, .. } => {
                self.live.remove(&worker);
            }
            Happening::WorkerHealth { worker, to, .. } => self.change_health(worker, to),
            Happening::Served {
                worker,
                ask: Ask::Suicide,
                refusal: None,
                ..
            } => self.change_health(worker, Health::MustDie),
            Happening::HeartbeatSent { worker, .. } => {
                if let Some(live) = self.live.get_mut(&worker) {
                    live.last_sent = Some(when);
                }
            }
            Happening::HeartbeatAnswerHeard {
                worker, scheduler, ..
            } => {
                if let Some(live) = self.live.get_mut(&worker) {
                    live.answered = live.last_sent;
                    live.scheduler = live.scheduler.max(Some(scheduler));
                }
            }
            _ => {}
        }
    }

    fn change_health(&mut self, worker: WorkerId, to: Health) {
        let live = self.live.get_mut(&worker);
        if let Some(live) = live.filter(|live| live.health != Health::MustDie) {
            live.health = to;
        }
    }
}
