//! Owns the core: passes events to it, has its effects performed, and sleeps until the next event or timer.

use std::fmt;
use std::future::{Future, poll_fn};
use std::iter;
use std::ops::ControlFlow;
use std::task::Poll;
use std::time::Duration;

use brasserie_common::text::printable;
use brasserie_common::{ServiceAddress, Time};
use brasserie_common_runtime::{Clock, ServiceManager, Watchdog};
use brasserie_thrift::rpc::ConnectionLosses;
use brasserie_worker_core::{
    Association, AssociationIndex, DrainCaller, Event, ExitReason, LifeStage, Worker,
};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::artifacts::Standings;
use crate::keeper::lease::{Lease, Terms};
use crate::members::heartbeats_to;
use crate::memory::Memory;
use crate::news::ReportedStates;
use crate::perform::Performer;
use crate::rpc::{CallArrival, Lanes};

/// The number of events that one turn takes from each lane: a few milliseconds of work, so that due timers and effects wait no longer.
const LANE_PER_TURN: usize = 256;
/// The time that an ending worker gets to collect its killed tasks, and again to close its files. Then the keeper ends it. A busy machine
/// takes seconds, a disk that hangs takes for ever.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// The task that owns the core.
///
/// Invariant: nothing else accesses the core.
pub(crate) struct Driver {
    worker: Worker,
    clock: Clock,
    performer: Performer,
    /// Completions of tasks and calls, and the operator's request to end.
    own: UnboundedReceiver<Event>,
    lanes: Lanes,
    /// One entry for each association.
    losses: Vec<Losses>,
    /// The lease that the keeper enforces.
    lease: Option<Lease>,
    watchdog: Watchdog,
    news: ReportedStates,
    memory: Memory,
    standings: Standings,
}

/// The losses of the connection to the member that receives an association's heartbeats.
struct Losses {
    of: ServiceAddress,
    losses: ConnectionLosses,
}

/// The supervisors of this process: the keeper, which ends the tasks if this process cannot, and the service manager.
#[derive(Debug, Default)]
pub(crate) struct Watchers {
    pub(crate) lease: Option<Lease>,
    pub(crate) manager: ServiceManager,
}

/// The end of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerEnd {
    pub reason: ExitReason,
    /// The reason, for messages; `None`: a signal ended the worker.
    pub why: Option<String>,
}

impl fmt::Display for WorkerEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.reason {
            ExitReason::Shutdown => {
                f.write_str("ended by the operator")?;
                let why = self.why.as_deref();
                return why.map_or(Ok(()), |why| write!(f, ": {why}"));
            }
            ExitReason::SuicideRequested => "the scheduler has requested it",
            ExitReason::MustDie => "the scheduler counts this worker as lost",
        };
        write!(f, "ended: {}", self.why.as_deref().unwrap_or(text))
    }
}

/// Says which call has drained the worker.
fn drained(caller: &DrainCaller) -> String {
    match &*caller.reason {
        "" => format!("{} has drained it", caller.from),
        reason => format!("{} has drained it ({})", caller.from, printable(reason)),
    }
}

/// An input of a turn: the event that ended the driver's sleep, or one that waits in a lane.
enum WokenBy {
    Own(Event),
    Call(CallArrival),
    ConnectionLost(AssociationIndex),
    /// A timer of the core is due, or the driver has just started.
    Due,
}

impl Driver {
    pub(crate) fn new(
        worker: Worker,
        clock: Clock,
        performer: Performer,
        own: UnboundedReceiver<Event>,
        lanes: Lanes,
        (watchers, news, memory, standings): (Watchers, ReportedStates, Memory, Standings),
    ) -> Self {
        let Watchers { lease, manager } = watchers;
        let associations = worker.associations().iter().enumerate();
        let losses = associations.map(|(at, association)| {
            let of = heartbeats_to(association).clone();
            let losses = performer.losses(at, &of);
            Losses { of, losses }
        });
        let losses = losses.collect();
        Driver {
            worker,
            clock,
            performer,
            own,
            lanes,
            losses,
            lease,
            watchdog: manager.watchdog(clock.now()),
            news,
            memory,
            standings,
        }
    }

    /// Runs until the core requests the end of the program.
    pub(crate) async fn run(mut self) -> WorkerEnd {
        let mut woken_by = WokenBy::Due;
        loop {
            if let ControlFlow::Break(reason) = self.turn(woken_by) {
                let last = self.worker.saved_work_fetch(self.clock.wall());
                self.memory.close(last).await;
                let associations = self.worker.associations().iter();
                let why = match reason {
                    ExitReason::Shutdown => associations
                        .filter_map(Association::drained_by)
                        .next()
                        .map(drained),
                    ExitReason::SuicideRequested | ExitReason::MustDie => {
                        let mut why = associations.filter_map(Association::why_it_ends);
                        why.next().map(str::to_owned)
                    }
                };
                return WorkerEnd { reason, why };
            }
            woken_by = self.wait().await;
        }
    }

    fn turn(&mut self, first: WokenBy) -> ControlFlow<ExitReason> {
        let now = self.clock.now();
        let wall = self.clock.wall();
        self.worker.handle(now, Event::WallClock(wall));
        // Each lane has its own limit, so each gets its turn. Among the calls, the health lane comes first.
        let own = iter::from_fn(|| self.own.try_recv().ok()).map(WokenBy::Own);
        let health = iter::from_fn(|| self.lanes.health.try_recv().ok()).map(WokenBy::Call);
        let work = iter::from_fn(|| self.lanes.work.try_recv().ok()).map(WokenBy::Call);
        let inputs = iter::once(first)
            .chain(own.take(LANE_PER_TURN))
            .chain(health.take(LANE_PER_TURN))
            .chain(work.take(LANE_PER_TURN));
        for input in inputs {
            let event = match input {
                WokenBy::Own(event) => event,
                WokenBy::Call(CallArrival {
                    event,
                    request,
                    waiting,
                }) => {
                    self.performer.expect_reply(request, waiting);
                    event
                }
                WokenBy::ConnectionLost(association) => Event::ConnectionLost { association },
                WokenBy::Due => continue,
            };
            self.worker.handle(now, event);
        }
        self.worker.handle_timeout(now);
        let worker = &self.worker;
        self.memory.keep(now, || worker.saved_work_fetch(wall));
        self.news.tell(now, &self.worker, self.watchdog.manager());
        self.watchdog.beat(now);
        // The lease is renewed before effects are performed: no task may start that the keeper would let live too long.
        if let Some(lease) = &mut self.lease {
            let associations = self.worker.associations();
            let is_over = associations
                .iter()
                .all(|association| association.life_stage() == LifeStage::Gone);
            for (at, association) in associations.iter().enumerate() {
                let terms = match is_over {
                    true => Terms::NONE.killed_by(now + END_PATIENCE),
                    false => terms(association),
                };
                lease.renew(at, terms);
            }
        }
        self.standings.update(self.worker.associations());
        while let Some(effect) = self.worker.poll_effect() {
            self.performer.perform(effect, self.worker.associations())?;
        }
        self.performer.end_turn();
        self.follow();
        ControlFlow::Continue(())
    }

    /// Watches each association's connection to the member that receives its heartbeats, because a scheduler's restart shows there.
    fn follow(&mut self) {
        let associations = self.worker.associations().iter();
        for (at, (association, losses)) in associations.zip(&mut self.losses).enumerate() {
            let member = heartbeats_to(association);
            if losses.of != *member {
                losses.losses = self.performer.losses(at, member);
                losses.of = member.clone();
            }
        }
    }

    /// Waits for the next event.
    async fn wait(&mut self) -> WokenBy {
        let due = self.worker.poll_timeout().unwrap_or(Time::NEVER);
        let due = due.min(self.watchdog.due());
        let due = match self.worker.fetches_work() {
            true => due.min(self.memory.due()),
            false => due,
        };
        // Invariant: no lane closes before the driver ends, since the performer and the service hold the other ends.
        tokio::select! {
            biased;
            // Connection losses come first. They cannot starve the other branches: a connection is opened for a call, and the core limits
            // calls.
            association = next_loss(&mut self.losses) => WokenBy::ConnectionLost(association),
            Some(event) = self.own.recv() => WokenBy::Own(event),
            Some(arrival) = self.lanes.health.recv() => WokenBy::Call(arrival),
            Some(arrival) = self.lanes.work.recv() => WokenBy::Call(arrival),
            () = self.clock.sleep_until(due) => WokenBy::Due,
        }
    }
}

/// Waits until an association loses its connection, and returns that association.
async fn next_loss(losses: &mut [Losses]) -> AssociationIndex {
    let losses = losses.iter_mut();
    let mut losses: Vec<_> = losses.map(|one| Box::pin(one.losses.next())).collect();
    poll_fn(|context| {
        let is_lost = losses
            .iter_mut()
            .position(|one| one.as_mut().poll(context).is_ready());
        is_lost.map_or(Poll::Pending, |at| Poll::Ready(AssociationIndex(at)))
    })
    .await
}

/// Returns what the keeper must do if this process is stopped now.
fn terms(of: &Association) -> Terms {
    let terms = match (of.tasks_may_live_until(), of.life_stage()) {
        (None, _) => Terms::NONE,
        (Some(until), LifeStage::Running | LifeStage::Draining | LifeStage::Leaving) => {
            Terms::living(until, of.kill_wait())
        }
        (Some(until), LifeStage::Dying | LifeStage::Gone) => Terms::dying(until, of.kill_wait()),
    };
    match of.killed_by() {
        Some(at) => terms.killed_by(at + END_PATIENCE),
        None => terms,
    }
}
