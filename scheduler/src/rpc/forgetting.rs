//! Serves `forgetWorker`, by which an operator declares worker instances dead. The core decides, and answers once its decision is on disk.

use std::sync::Arc;

use brasserie_common::ids::NameError;
use brasserie_common::{Principal, Shard, WorkerId};
use brasserie_scheduler_core::{Event, ForgetRefusal, MissingInstance};
use brasserie_thrift::convert::{self, WireError};
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::rpc::Responder;

use crate::inbox::{EventLane, Inbox, Stopped};
use crate::store::QueueRoom;

/// Serves `forgetWorker`.
pub(super) struct Forgetting {
    inbox: Inbox,
    room: Arc<QueueRoom>,
}

/// Why no instance was declared dead.
#[derive(Debug, thiserror::Error)]
enum ForgetFailure {
    #[error(transparent)]
    Refused(#[from] ForgetRefusal),
    #[error("the worker's name is invalid: {0}")]
    Name(#[from] NameError),
    #[error(transparent)]
    Instance(#[from] WireError),
    #[error("the store cannot keep up; try again")]
    StoreIsFull,
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Forgetting {
    pub(super) fn new(inbox: Inbox, room: Arc<QueueRoom>) -> Self {
        Forgetting { inbox, room }
    }

    pub(super) fn forget(
        &self,
        from: Principal,
        args: wire::BrasserieForgetWorkerArgs,
        to: Responder,
    ) {
        let (inbox, room) = (self.inbox.clone(), Arc::clone(&self.room));
        tokio::spawn(async move {
            let exception = match ask(&inbox, &room, from, args).await {
                Ok(dead) => {
                    return to.reply(&wire::BrasserieForgetWorkerResult {
                        result_value: Some(dead.into_iter().map(missing_instance).collect()),
                        ex: None,
                    });
                }
                Err(ForgetFailure::Stopped(stopped)) => return to.fail(stopped),
                Err(ForgetFailure::Refused(in_doubt @ ForgetRefusal::NotDurableYet)) => {
                    return to.fail(in_doubt);
                }
                Err(failure) => wire::ForgetRefusedException {
                    message: Some(failure.to_string()),
                },
            };
            to.reply(&wire::BrasserieForgetWorkerResult {
                result_value: None,
                ex: Some(exception),
            });
        });
    }
}

async fn ask(
    inbox: &Inbox,
    room: &QueueRoom,
    from: Principal,
    args: wire::BrasserieForgetWorkerArgs,
) -> Result<Vec<MissingInstance>, ForgetFailure> {
    let shard = Shard::try_from(args.shard)?;
    let instances = args.instances.into_iter();
    let confirmed: Vec<WorkerId> = instances
        .map(|id| convert::parse("forgetWorker.instances", id))
        .collect::<Result<_, WireError>>()?;
    if room.is_full() {
        return Err(ForgetFailure::StoreIsFull);
    }
    let event = |request| Event::ForgetWorker {
        request,
        from,
        shard,
        confirmed,
    };
    let missing: Result<Vec<MissingInstance>, ForgetRefusal> =
        inbox.request(EventLane::Ordinary, event).await?;
    Ok(missing?)
}

fn missing_instance(missing: MissingInstance) -> wire::MissingInstance {
    let millis = |d: std::time::Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    wire::MissingInstance {
        instance: Some(missing.id.into()),
        hostname: Some(missing.hostname.as_ref().to_owned()),
        running_tasks: Some(i32::try_from(missing.running).unwrap_or(i32::MAX)),
        silent_for_ms: missing.silent_for.map(millis),
        left_for_ms: missing.left_for.map(millis),
        waits_for_ms: missing.waits_for.map(millis),
    }
}
