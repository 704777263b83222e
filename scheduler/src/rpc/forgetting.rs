//! Serves `forgetWorker`, by which an operator declares worker instances dead. The core decides, and answers once its decision is on disk.

use brasserie_common::ids::NameError;
use brasserie_common::{Principal, Shard, WorkerId};
use brasserie_scheduler_core::{Event, ForgetRefusal, MissingInstance};
use brasserie_thrift::convert::{self, WireError};
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::rpc::Responder;
use serde_json::json;

use super::changing::Changing;
use crate::audit::{OpenLine, Outcome};
use crate::inbox::{EventLane, Inbox, Stopped};
use crate::store::QueueRoom;

/// Serves `forgetWorker`.
pub(super) struct Forgetting(Changing);

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
    pub(super) fn new(changing: Changing) -> Self {
        Forgetting(changing)
    }

    pub(super) fn forget(
        &self,
        from: Principal,
        args: wire::BrasserieForgetWorkerArgs,
        to: Responder,
    ) {
        let (inbox, room, line, place) = match self.0.begin(&from, &to) {
            Ok(open) => open,
            Err(busy) => return to.fail(busy),
        };
        // A call without instances only lists those that could be declared dead.
        let is_question = args.instances.is_empty();
        tokio::spawn(async move {
            let _place = place;
            let line = line.on("worker", &args.shard);
            let forgotten = ask(&inbox, &room, from, args).await;
            match is_question {
                true => line.discard(),
                false => end(line, &forgotten),
            }
            let exception = match forgotten {
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

/// Writes the line of a declaration into the audit log.
fn end(mut line: OpenLine, forgotten: &Result<Vec<MissingInstance>, ForgetFailure>) {
    match forgotten {
        Ok(dead) => {
            let dead: Vec<String> = dead.iter().map(|dead| dead.id.to_string()).collect();
            line.changed(None, Some(json!({ "dead": dead })));
            line.end(Outcome::Ok, None);
        }
        Err(
            why @ (ForgetFailure::Refused(ForgetRefusal::NotDurableYet)
            | ForgetFailure::StoreIsFull
            | ForgetFailure::Stopped(_)),
        ) => line.end(Outcome::Failed, Some(why)),
        Err(why) => line.end(Outcome::Refused, Some(why)),
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
