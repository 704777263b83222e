//! The way into the driver: two bounded lanes, health first, so that a flood of results cannot starve heartbeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brasserie_common::{Principal, RequestId};
use brasserie_scheduler_core::{Answer, Event, Query, Reply};
use tokio::sync::{mpsc, oneshot};

/// Events that wait in one lane: as many as the server lets be in flight from sixteen connections; more are sent back to
/// peers, who all repeat themselves.
const LANE: usize = 65_536;

/// Gives the answer to whoever asked; called on the driver's task, so it must be quick.
pub(crate) type Waiter = Box<dyn FnOnce(Reply) + Send>;

/// One event, and who waits for its answer if it is a request.
pub(crate) struct Input {
    pub(crate) event: Event,
    pub(crate) waiter: Option<(RequestId, Waiter)>,
}

/// Which lane an event takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Heartbeats, health checks, what the shell itself reports.
    Health,
    /// Everything else.
    Ordinary,
}

/// The driver has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler is ending")]
pub struct Stopped;

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotTaken {
    #[error("the scheduler has too much to do; try again")]
    Full,
    #[error("the scheduler is ending")]
    Stopped,
}

/// Sends events to the driver. Clones share the lanes.
#[derive(Clone)]
pub(crate) struct Inbox {
    health: mpsc::Sender<Input>,
    ordinary: mpsc::Sender<Input>,
    requests: Arc<AtomicU64>,
}

/// The driver's end.
pub(crate) struct Lanes {
    pub(crate) health: mpsc::Receiver<Input>,
    pub(crate) ordinary: mpsc::Receiver<Input>,
}

pub(crate) fn lanes() -> (Inbox, Lanes) {
    let (health, health_end) = mpsc::channel(LANE);
    let (ordinary, ordinary_end) = mpsc::channel(LANE);
    let inbox = Inbox {
        health,
        ordinary,
        requests: Arc::default(),
    };
    (
        inbox,
        Lanes {
            health: health_end,
            ordinary: ordinary_end,
        },
    )
}

impl Inbox {
    fn lane(&self, lane: Lane) -> &mpsc::Sender<Input> {
        match lane {
            Lane::Health => &self.health,
            Lane::Ordinary => &self.ordinary,
        }
    }

    /// Whether a request would be taken now.
    pub(crate) fn check(&self, lane: Lane) -> Result<(), NotTaken> {
        match self.lane(lane) {
            lane if lane.is_closed() => Err(NotTaken::Stopped),
            lane if lane.capacity() == 0 => Err(NotTaken::Full),
            _ => Ok(()),
        }
    }

    /// Takes a peer's request at once, or drops its waiter.
    pub(crate) fn try_request(
        &self,
        lane: Lane,
        waiter: Waiter,
        event: impl FnOnce(RequestId) -> Event,
    ) -> Result<(), NotTaken> {
        let request = self.next_request();
        let input = Input {
            event: event(request),
            waiter: Some((request, waiter)),
        };
        self.lane(lane)
            .try_send(input)
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => NotTaken::Full,
                mpsc::error::TrySendError::Closed(_) => NotTaken::Stopped,
            })
    }

    /// Reports what the shell has seen. Lost only when the driver has ended, which needs it no more.
    pub(crate) async fn tell(&self, event: Event) {
        self.tell_in(Lane::Health, event).await;
    }

    pub(crate) async fn tell_in(&self, lane: Lane, event: Event) {
        let _ = self
            .lane(lane)
            .send(Input {
                event,
                waiter: None,
            })
            .await;
    }

    /// The same from where nothing may wait: only when the lane is full does anything wait, elsewhere.
    pub(crate) fn tell_soon(&self, lane: Lane, event: Event) {
        let input = Input {
            event,
            waiter: None,
        };
        match self.lane(lane).try_send(input) {
            // Closed only when the driver has ended, which needs it no more.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(input)) => {
                let inbox = self.clone();
                tokio::spawn(async move { inbox.tell_in(lane, input.event).await });
            }
        }
    }

    /// The same from a thread of its own.
    pub(crate) fn tell_blocking(&self, event: Event) {
        let _ = self.health.blocking_send(Input {
            event,
            waiter: None,
        });
    }

    /// Asks and waits for the answer.
    pub(crate) async fn request(
        &self,
        lane: Lane,
        event: impl FnOnce(RequestId) -> Event,
    ) -> Result<Reply, Stopped> {
        let (sender, receiver) = oneshot::channel();
        let request = self.next_request();
        // Whoever asked may have given up meanwhile.
        let waiter: Waiter = Box::new(move |reply| drop(sender.send(reply)));
        let input = Input {
            event: event(request),
            waiter: Some((request, waiter)),
        };
        self.lane(lane).send(input).await.map_err(|_| Stopped)?;
        receiver.await.map_err(|_| Stopped)
    }

    /// Asks a question.
    pub(crate) async fn query(&self, from: Principal, query: Query) -> Result<Answer, Stopped> {
        self.query_in(Lane::Ordinary, from, query).await
    }

    /// Asks a question in this lane.
    pub(crate) async fn query_in(
        &self,
        lane: Lane,
        from: Principal,
        query: Query,
    ) -> Result<Answer, Stopped> {
        let reply = self
            .request(lane, |request| Event::Query {
                request,
                from,
                query,
            })
            .await?;
        match reply {
            Reply::Answer(answer) => Ok(*answer),
            Reply::Heartbeat(_)
            | Reply::UpdateStatus(_)
            | Reply::KillTask(_)
            | Reply::Work(_)
            | Reply::JobChanged(_)
            | Reply::WorkerForgotten(_) => {
                unreachable!("Invariant: a query is replied to with an answer")
            }
        }
    }

    fn next_request(&self) -> RequestId {
        RequestId(self.requests.fetch_add(1, Ordering::Relaxed))
    }
}
