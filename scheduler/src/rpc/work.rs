//! Wishes for work. This scheduler sends tasks wherever there is room for them, so it has no use for wishes, and says so.

use brasserie_common::WorkRequest;
use brasserie_scheduler_core::credits::never_mind;
use brasserie_thrift::convert;
use brasserie_thrift::generated::common::{BistroWorker, WorkReply};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerRequestWorkArgs, BistroSchedulerRequestWorkResult,
};
use brasserie_thrift::rpc::Responder;

use super::service::bad_argument;

/// `requestWork`.
pub(super) fn request(args: BistroSchedulerRequestWorkArgs, to: Responder) {
    let request = convert::parse::<_, WorkRequest>("requestWork.request", args.request);
    match request {
        Ok(request) => to.reply(&BistroSchedulerRequestWorkResult {
            result_value: Some(never_mind(&request).into()),
        }),
        Err(error) => bad_argument(to, &error),
    }
}

/// The answer to the wish that rides in a heartbeat, if there is one.
pub(super) fn answer_to_riding(worker: &mut BistroWorker) -> Option<WorkReply> {
    let request = convert::riding_request(worker.work_request.take());
    request.map(|request| never_mind(&request).into())
}
