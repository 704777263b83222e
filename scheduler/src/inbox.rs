//! The input of the driver: two bounded lanes, of which the health lane goes first, so that a flood of results cannot starve heartbeats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brasserie_common::{Principal, RequestId};
use brasserie_scheduler_core::{Answer, Event, Query, Reply};
use brasserie_thrift::rpc::{CallerCheck, Responder};
use tokio::sync::{mpsc, oneshot};

/// Capacity of one lane: the in-flight calls that the server admits from sixteen connections. Further requests are refused, and all peers
/// retry.
const LANE: usize = 65_536;

/// Delivers the reply to the caller. It runs on the driver's task, so it must be quick.
pub(crate) type Waiter = Box<dyn FnOnce(Reply) + Send>;

/// Returns a waiter for replies of one kind. A reply of another kind is a defect of this program; the caller then receives no reply, which
/// the server answers with an error.
fn waiter_for<R>(deliver: impl FnOnce(R) + Send + 'static) -> Waiter
where
    R: TryFrom<Reply, Error = Reply>,
{
    Box::new(move |reply| match R::try_from(reply) {
        Ok(reply) => deliver(reply),
        Err(other) => tracing::error!(?other, "the reply does not match its request"),
    })
}

/// One event, and the waiter for its answer if the event is a request.
pub(crate) struct Input {
    pub(crate) event: Event,
    pub(crate) waiter: Option<(RequestId, Waiter)>,
    /// The caller of a request, which has no effect once the caller is expelled.
    caller: Option<CallerCheck>,
}

impl Input {
    /// Returns whether the caller may no longer call.
    pub(crate) fn is_void(&self) -> bool {
        self.caller.as_ref().is_some_and(CallerCheck::is_expelled)
    }
}

/// The lane of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventLane {
    /// Heartbeats, healthchecks, and reports of the shell itself.
    Health,
    /// Everything else.
    Ordinary,
}

/// The driver has ended, or does not serve the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the scheduler is ending, or the caller may no longer call")]
pub struct Stopped;

/// Why a request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotTaken {
    #[error("the scheduler is overloaded; try again")]
    Full,
    #[error("the scheduler is ending")]
    Stopped,
}

impl NotTaken {
    /// Logs the refusal at debug level, because a peer could fill the log.
    pub(crate) fn log(self) {
        tracing::debug!(error = %self, "refused a request");
    }
}

/// Sends events to the driver. Clones share the lanes.
#[derive(Clone)]
pub(crate) struct Inbox {
    health: mpsc::Sender<Input>,
    ordinary: mpsc::Sender<Input>,
    requests: Arc<AtomicU64>,
    /// The caller for whom the requests are.
    caller: Option<CallerCheck>,
}

/// The receiving ends, for the driver.
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
        caller: None,
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
    /// Returns an inbox for the requests of this caller. The driver drops those that it has not begun when the caller is expelled.
    pub(crate) fn of(&self, to: &Responder) -> Inbox {
        Inbox {
            caller: Some(to.caller_check()),
            ..self.clone()
        }
    }

    fn lane(&self, lane: EventLane) -> &mpsc::Sender<Input> {
        match lane {
            EventLane::Health => &self.health,
            EventLane::Ordinary => &self.ordinary,
        }
    }

    /// Checks whether a request would be accepted now.
    pub(crate) fn check(&self, lane: EventLane) -> Result<(), NotTaken> {
        match self.lane(lane) {
            lane if lane.is_closed() => Err(NotTaken::Stopped),
            lane if lane.capacity() == 0 => Err(NotTaken::Full),
            _ => Ok(()),
        }
    }

    /// Enqueues a peer's request without waiting. If the lane is full or closed, `deliver` is dropped with its responder, which then answers
    /// that the call was dropped.
    pub(crate) fn try_request<R>(
        &self,
        lane: EventLane,
        deliver: impl FnOnce(R) + Send + 'static,
        event: impl FnOnce(RequestId) -> Event,
    ) -> Result<(), NotTaken>
    where
        R: TryFrom<Reply, Error = Reply>,
    {
        let request = self.next_request();
        let input = Input {
            event: event(request),
            waiter: Some((request, waiter_for(deliver))),
            caller: self.caller.clone(),
        };
        self.lane(lane)
            .try_send(input)
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => NotTaken::Full,
                mpsc::error::TrySendError::Closed(_) => NotTaken::Stopped,
            })
    }

    /// Reports an event of the shell itself.
    pub(crate) async fn tell(&self, event: Event) {
        self.tell_in(EventLane::Health, event).await;
    }

    /// Reports an event in this lane. The event is lost only if the driver has ended and no longer needs it.
    async fn tell_in(&self, lane: EventLane, event: Event) {
        let input = Input {
            event,
            waiter: None,
            caller: None,
        };
        let _ = self.lane(lane).send(input).await;
    }

    /// Reports an event from code that must not wait. If the lane is full, a spawned task waits instead.
    pub(crate) fn tell_soon(&self, lane: EventLane, event: Event) {
        let input = Input {
            event,
            waiter: None,
            caller: self.caller.clone(),
        };
        match self.lane(lane).try_send(input) {
            // Closed only after the driver has ended and no longer needs the event.
            Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => {}
            Err(mpsc::error::TrySendError::Full(input)) => {
                let lane = self.lane(lane).clone();
                tokio::spawn(async move { lane.send(input).await });
            }
        }
    }

    /// Reports an event from a thread outside the runtime.
    pub(crate) fn tell_blocking(&self, event: Event) {
        let input = Input {
            event,
            waiter: None,
            caller: None,
        };
        let _ = self.health.blocking_send(input);
    }

    /// Sends a request and waits for its reply.
    pub(crate) async fn request<R>(
        &self,
        lane: EventLane,
        event: impl FnOnce(RequestId) -> Event,
    ) -> Result<R, Stopped>
    where
        R: TryFrom<Reply, Error = Reply> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let request = self.next_request();
        // The caller may have given up meanwhile.
        let waiter = waiter_for(move |reply: R| drop(sender.send(reply)));
        let input = Input {
            event: event(request),
            waiter: Some((request, waiter)),
            caller: self.caller.clone(),
        };
        self.lane(lane).send(input).await.map_err(|_| Stopped)?;
        receiver.await.map_err(|_| Stopped)
    }

    /// Sends a query and waits for its answer.
    pub(crate) async fn query(&self, from: Principal, query: Query) -> Result<Answer, Stopped> {
        self.query_in(EventLane::Ordinary, from, query).await
    }

    /// Sends a query in this lane and waits for its answer.
    pub(crate) async fn query_in(
        &self,
        lane: EventLane,
        from: Principal,
        query: Query,
    ) -> Result<Answer, Stopped> {
        let event = |request| Event::Query {
            request,
            from,
            query,
        };
        let answer: Box<Answer> = self.request(lane, event).await?;
        Ok(*answer)
    }

    fn next_request(&self) -> RequestId {
        RequestId(self.requests.fetch_add(1, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use brasserie_scheduler_core::Rejection;
    use brasserie_thrift::rpc::{IncomingCall, Limits, Server, Service};
    use tokio::io::AsyncWriteExt as _;
    use tokio::net::TcpStream;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// Passes the responders of its calls to the test.
    struct Passing(mpsc::UnboundedSender<Responder>);

    impl Service for Passing {
        fn call(&self, call: IncomingCall<'_>) {
            let _ = self.0.send(call.into_responder());
        }
    }

    #[tokio::test]
    async fn the_requests_of_a_caller_are_void_once_it_is_expelled() {
        let (passed, mut calls) = mpsc::unbounded_channel();
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = Server::bind(any).await.unwrap();
        let server = server.serve(Passing(passed), Limits::DEFAULT, CancellationToken::new());
        let mut stream = TcpStream::connect(server.local_addr()).await.unwrap();
        let call = b"\0\0\0\x0c\x82\x21\x01\x07getJobs\0";
        stream.write_all(call).await.unwrap();
        let to = calls.recv().await.unwrap();
        let (inbox, mut lanes) = lanes();
        for inbox in [&inbox, &inbox.of(&to)] {
            let deliver = |_: Result<(), Rejection>| {};
            let taken = inbox.try_request(EventLane::Ordinary, deliver, |_| Event::StoreRecovered);
            taken.unwrap();
            inbox.tell_soon(EventLane::Health, Event::StoreRecovered);
        }
        let [others, own] = [(); 2].map(|()| lanes.ordinary.try_recv().unwrap());
        let [of_others, riding] = [(); 2].map(|()| lanes.health.try_recv().unwrap());
        assert!(!own.is_void() && !riding.is_void(), "the caller may call");
        server.disconnector().disconnect(|_| true);
        assert!(own.is_void() && riding.is_void());
        assert!(!others.is_void() && !of_others.is_void());
    }

    #[tokio::test]
    async fn a_reply_of_another_kind_counts_as_none() {
        let (inbox, mut lanes) = lanes();
        let answer = async {
            let input = lanes.ordinary.recv().await.unwrap();
            let (_, waiter) = input.waiter.unwrap();
            waiter(Reply::Heartbeat(Err(Rejection::NotDurableYet)));
        };
        let request =
            inbox.request::<Result<(), Rejection>>(EventLane::Ordinary, |_| Event::StoreRecovered);
        let (result, ()) = tokio::join!(request, answer);
        assert_eq!(result, Err(Stopped));
    }
}
