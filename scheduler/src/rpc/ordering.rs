//! Serves `orderWorker`, by which an operator takes workers out of service and back. The core decides, and answers once the order is on
//! disk.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::ids::NameError;
use brasserie_common::text::printable;
use brasserie_common::{Principal, Shard};
use brasserie_scheduler_core::{
    AfterDecommission, Event, OrderCall, OrderRefusal, OrderRequest, OrderStatus,
};
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::rpc::Responder;
use serde_json::json;

use super::changing::Changing;
use super::render::worker_order;
use crate::audit::{OpenLine, Outcome};
use crate::inbox::{EventLane, Inbox, Stopped};
use crate::store::QueueRoom;

/// The longest name of a caller's user.
const MAX_USER_BYTES: usize = 100;

/// Serves `orderWorker`.
pub(super) struct Ordering(Changing);

/// Why no order has changed.
#[derive(Debug, thiserror::Error)]
enum OrderFailure {
    #[error(transparent)]
    Refused(#[from] OrderRefusal),
    #[error("the worker's name is invalid: {0}")]
    Name(#[from] NameError),
    #[error("`{}` is no order; the orders are `exclude`, `decommission` and `recommission`", printable(.0))]
    NoOrder(String),
    #[error("the deadline is {0} ms from now; it must not be in the past")]
    PastDeadline(i64),
    #[error("the store cannot keep up; try again")]
    StoreIsFull,
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Ordering {
    pub(super) fn new(changing: Changing) -> Self {
        Ordering(changing)
    }

    pub(super) fn order(
        &self,
        from: Principal,
        args: wire::BrasserieOrderWorkerArgs,
        to: Responder,
    ) {
        let (inbox, room, line, place) = match self.0.begin(&from, &to) {
            Ok(open) => open,
            Err(busy) => return to.fail(busy),
        };
        tokio::spawn(async move {
            let _place = place;
            let line = line.on("worker", &args.shard);
            let ordered = ask(&inbox, &room, from, args).await;
            end(line, &ordered);
            let (result_value, ex) = match ordered {
                Ok(order) => (Some(order), None),
                Err(OrderFailure::Stopped(stopped)) => return to.fail(stopped),
                Err(OrderFailure::Refused(in_doubt @ OrderRefusal::NotDurableYet)) => {
                    return to.fail(in_doubt);
                }
                Err(failure) => {
                    let message = Some(failure.to_string());
                    (None, Some(wire::OrderRefusedException { message }))
                }
            };
            to.reply(&wire::BrasserieOrderWorkerResult { result_value, ex });
        });
    }
}

/// Writes the line of an order into the audit log.
fn end(mut line: OpenLine, ordered: &Result<wire::WorkerOrder, OrderFailure>) {
    match ordered {
        Ok(order) => {
            let after = json!({
                "state": order.state,
                "reason": order.reason,
                "deadline_ms": order.deadline_ms,
                "by": order.by,
            });
            line.changed(None, Some(after));
            line.end(Outcome::Ok, None);
        }
        Err(
            why @ (OrderFailure::Refused(OrderRefusal::NotDurableYet)
            | OrderFailure::StoreIsFull
            | OrderFailure::Stopped(_)),
        ) => line.end(Outcome::Failed, Some(why)),
        Err(why) => line.end(Outcome::Refused, Some(why)),
    }
}

async fn ask(
    inbox: &Inbox,
    room: &QueueRoom,
    from: Principal,
    args: wire::BrasserieOrderWorkerArgs,
) -> Result<wire::WorkerOrder, OrderFailure> {
    let shard = Shard::try_from(args.shard)?;
    let name = shard.as_str().to_owned();
    let user = args.order.user.clone();
    let user = user.filter(|user| (1..=MAX_USER_BYTES).contains(&user.len()));
    let order = parse(args.order)?;
    if room.is_full() {
        return Err(OrderFailure::StoreIsFull);
    }
    let event = |request| {
        Event::OrderWorker(Box::new(OrderCall {
            request,
            from,
            user: user.map(Arc::from),
            shard,
            order,
        }))
    };
    let ordered: Result<Option<Box<OrderStatus>>, OrderRefusal> =
        inbox.request(EventLane::Ordinary, event).await?;
    Ok(match ordered? {
        Some(status) => worker_order(*status),
        None => wire::WorkerOrder {
            shard: Some(name),
            state: Some("none".to_owned()),
            ..wire::WorkerOrder::default()
        },
    })
}

fn parse(request: wire::WorkerOrderRequest) -> Result<OrderRequest, OrderFailure> {
    let reason = request.reason.unwrap_or_default().into();
    let order = request.order.unwrap_or_default();
    Ok(match order.as_str() {
        "exclude" => OrderRequest::Exclude { reason },
        "decommission" => OrderRequest::Decommission {
            reason,
            deadline: match request.deadline_ms {
                None => None,
                Some(ms) => {
                    let left = u64::try_from(ms);
                    let left = left.map_err(|_| OrderFailure::PastDeadline(ms))?;
                    Some(Duration::from_millis(left))
                }
            },
            then: match request.then_idle {
                Some(true) => AfterDecommission::Idle,
                Some(false) | None => AfterDecommission::Exit,
            },
        },
        "recommission" => OrderRequest::Recommission,
        _ => return Err(OrderFailure::NoOrder(order)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(order: &str, deadline_ms: Option<i64>) -> wire::WorkerOrderRequest {
        wire::WorkerOrderRequest {
            order: Some(order.to_owned()),
            reason: Some("disk".to_owned()),
            deadline_ms,
            then_idle: Some(true),
            user: None,
        }
    }

    #[test]
    fn orders_are_read_and_others_refused_with_what_is_allowed() {
        let reason: Arc<str> = "disk".into();
        let read = |order, deadline| parse(request(order, deadline)).map_err(|e| e.to_string());
        let excluded = OrderRequest::Exclude {
            reason: Arc::clone(&reason),
        };
        assert_eq!(read("exclude", None), Ok(excluded));
        let decommission = OrderRequest::Decommission {
            reason,
            deadline: Some(Duration::from_millis(7)),
            then: AfterDecommission::Idle,
        };
        assert_eq!(read("decommission", Some(7)), Ok(decommission));
        assert_eq!(read("recommission", None), Ok(OrderRequest::Recommission));
        let past = read("decommission", Some(-1)).expect_err("a refusal");
        assert!(past.contains("-1 ms"), "{past}");
        let unknown = read("drain\n", None).expect_err("a refusal");
        assert!(
            unknown.contains("`recommission`") && !unknown.contains('\n'),
            "{unknown}"
        );
    }
}
