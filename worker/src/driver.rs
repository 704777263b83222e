//! The one task that owns the core: takes in what happened, lets the core decide, has it done, sleeps until there is more.

use std::ops::ControlFlow;

use brasserie_common::{Health, SchedulerId, Time};
use brasserie_common_runtime::{Clock, ServiceManager, Watchdog};
use brasserie_thrift::rpc::ConnectionLosses;
use brasserie_worker_core::{Association, AssociationIndex, Event, ExitReason, LifeStage, Worker};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::keeper::lease::{Lease, Terms};
use crate::perform::Performer;
use crate::rpc::{Arrival, Lanes};
use crate::start::Watchers;

/// Events of each lane in one turn: a few milliseconds of the core's work, so that due timers and effects do not wait longer.
const LANE_PER_TURN: usize = 256;

/// Invariant: nobody else ever touches the core.
pub(crate) struct Driver {
    worker: Worker,
    clock: Clock,
    performer: Performer,
    /// Ends of tasks and of calls, the operator's wish to end.
    own: UnboundedReceiver<Event>,
    lanes: Lanes,
    losses: ConnectionLosses,
    /// What the keeper counts on.
    lease: Option<Lease>,
    watchdog: Watchdog,
    seen: Seen,
}

/// What ended the driver's sleep.
enum Heard {
    Own(Event),
    Call(Arrival),
    ConnectionLost,
    /// A timer of the core, or nothing yet.
    Due,
}

/// What was last logged.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    health: Health,
    life: LifeStage,
    scheduler: Option<SchedulerId>,
    trouble: Option<String>,
}

impl Driver {
    pub(crate) fn new(
        worker: Worker,
        clock: Clock,
        performer: Performer,
        own: UnboundedReceiver<Event>,
        lanes: Lanes,
        losses: ConnectionLosses,
        watchers: Watchers,
    ) -> Self {
        let seen = Seen::of(worker.association(AssociationIndex::FIRST));
        let Watchers { lease, manager } = watchers;
        Driver {
            worker,
            clock,
            performer,
            own,
            lanes,
            losses,
            lease,
            watchdog: manager.watchdog(clock.now()),
            seen,
        }
    }

    /// Runs until the core wants the program to end.
    pub(crate) async fn run(mut self) -> ExitReason {
        let mut woken_by = Heard::Due;
        loop {
            if let ControlFlow::Break(reason) = self.turn(woken_by) {
                return reason;
            }
            woken_by = self.wait().await;
        }
    }

    fn turn(&mut self, first: Heard) -> ControlFlow<ExitReason> {
        let now = self.clock.now();
        let wall = self.clock.wall();
        self.worker.handle(now, Event::WallClock(wall));
        match first {
            Heard::Own(event) => self.worker.handle(now, event),
            Heard::Call(arrival) => self.arrive(now, arrival),
            Heard::ConnectionLost => {
                let association = AssociationIndex::FIRST;
                self.worker
                    .handle(now, Event::ConnectionLost { association });
            }
            Heard::Due => {}
        }
        // Counted per lane: each gets its turn, health first among the calls.
        for _ in 0..LANE_PER_TURN {
            let Ok(event) = self.own.try_recv() else {
                break;
            };
            self.worker.handle(now, event);
        }
        for _ in 0..LANE_PER_TURN {
            let Ok(arrival) = self.lanes.health.try_recv() else {
                break;
            };
            self.arrive(now, arrival);
        }
        for _ in 0..LANE_PER_TURN {
            let Ok(arrival) = self.lanes.work.try_recv() else {
                break;
            };
            self.arrive(now, arrival);
        }
        self.worker.handle_timeout(now);
        let own = self.worker.association(AssociationIndex::FIRST);
        self.seen.update(own, self.watchdog.manager());
        self.watchdog.beat(now);
        let until = own.tasks_may_live_until();
        // Before anything is done: no task may start whom the keeper would let live for too long.
        if let Some(lease) = &mut self.lease {
            lease.renew(terms(own));
        }
        while let Some(effect) = self.worker.poll_effect() {
            self.performer.perform(effect, until)?;
        }
        ControlFlow::Continue(())
    }

    fn arrive(&mut self, now: Time, arrival: Arrival) {
        self.performer
            .expect_reply(arrival.request, arrival.waiting);
        self.worker.handle(now, arrival.event);
    }

    /// The next thing that happens.
    async fn wait(&mut self) -> Heard {
        let due = self.worker.poll_timeout().unwrap_or(Time::NEVER);
        let due = due.min(self.watchdog.due());
        // Invariant: no lane closes before the driver ends, since the performer and the service hold their other ends.
        tokio::select! {
            biased;
            // First, since it starves nobody: a connection is opened for a call, and calls are what the core limits.
            () = self.losses.next() => Heard::ConnectionLost,
            Some(event) = self.own.recv() => Heard::Own(event),
            Some(arrival) = self.lanes.health.recv() => Heard::Call(arrival),
            Some(arrival) = self.lanes.work.recv() => Heard::Call(arrival),
            () = self.clock.sleep_until(due) => Heard::Due,
        }
    }
}

/// What the keeper must do if this process is stopped from now on.
fn terms(worker: &Association) -> Terms {
    let Some(until) = worker.tasks_may_live_until() else {
        return Terms::NONE;
    };
    match worker.life_stage() {
        LifeStage::Running | LifeStage::Draining | LifeStage::Leaving => {
            Terms::living(until, worker.kill_wait())
        }
        LifeStage::Dying | LifeStage::Gone => Terms::dying(until, worker.kill_wait()),
    }
}

impl Seen {
    fn of(worker: &Association) -> Self {
        Seen {
            health: worker.health(),
            life: worker.life_stage(),
            scheduler: worker.scheduler(),
            trouble: worker.heartbeat_trouble().map(ToString::to_string),
        }
    }

    /// A line for whoever asks the service manager.
    fn tell(&self, before: LifeStage, manager: &ServiceManager) {
        let text = match self.life {
            LifeStage::Running => match self.scheduler {
                Some(scheduler) => format!("{}, scheduler {scheduler}", self.health.as_str()),
                None => "has not met its scheduler".to_owned(),
            },
            LifeStage::Draining => "draining: ends with its tasks".to_owned(),
            LifeStage::Leaving | LifeStage::Dying => "ends its tasks".to_owned(),
            LifeStage::Gone => "every task is dead".to_owned(),
        };
        let begins_to_end = before == LifeStage::Running && self.life != LifeStage::Running;
        match begins_to_end {
            true => manager.stopping(&text),
            false => manager.status(&text),
        }
    }

    /// Logs what an operator wants to read later.
    fn update(&mut self, worker: &Association, manager: &ServiceManager) {
        let now = Seen::of(worker);
        if now == *self {
            return;
        }
        now.tell(self.life, manager);
        if now.scheduler != self.scheduler
            && let Some(scheduler) = now.scheduler
        {
            tracing::info!(%scheduler, "associated with a scheduler instance");
        }
        if now.health != self.health {
            let tasks = worker.live_processes();
            tracing::info!(
                tasks,
                "health: {} -> {}",
                self.health.as_str(),
                now.health.as_str()
            );
        }
        if now.life != self.life {
            match now.life {
                LifeStage::Running => {}
                LifeStage::Draining => tracing::info!(
                    tasks = worker.live_processes(),
                    "draining: no task starts any more, the worker ends with those that run"
                ),
                LifeStage::Leaving => tracing::info!(
                    tasks = worker.live_processes(),
                    "ending: no task starts any more, running ones are being ended"
                ),
                LifeStage::Dying => tracing::warn!(
                    tasks = worker.live_processes(),
                    "the association must end: killing its tasks"
                ),
                LifeStage::Gone => tracing::info!(
                    unacknowledged = worker.unacknowledged_reports(),
                    "every task is dead"
                ),
            }
        }
        if now.trouble != self.trouble {
            match &now.trouble {
                Some(trouble) => tracing::warn!("heartbeat: {trouble}"),
                None => tracing::info!("heartbeats are answered again"),
            }
        }
        *self = now;
    }
}
