//! Serves `requestWork`.

use brasserie_common::{Principal, WorkReply, WorkRequest};
use brasserie_scheduler_core::{Event, Rejection};
use brasserie_thrift::convert;
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerRequestWorkArgs, BistroSchedulerRequestWorkResult,
};
use brasserie_thrift::rpc::Responder;

use super::service::SchedulerService;
use crate::inbox::EventLane;

impl SchedulerService {
    pub(super) fn request_work(
        &self,
        from: Principal,
        args: BistroSchedulerRequestWorkArgs,
        to: Responder,
    ) {
        if let Err(full) = self.inbox.check(EventLane::Ordinary) {
            return to.fail(full);
        }
        let work = convert::parse::<_, WorkRequest>("requestWork.request", args.request);
        let work = match work {
            Ok(work) => Box::new(work),
            Err(error) => return to.reject_arguments(&error),
        };
        let (audit, by, inbox) = (self.audit().clone(), from.clone(), self.inbox.of(&to));
        let deliver = move |reply: Result<Box<WorkReply>, Rejection>| match reply {
            Ok(reply) => to.reply(&BistroSchedulerRequestWorkResult {
                result_value: Some((*reply).into()),
            }),
            Err(rejection) => {
                audit.rejected(&by, "requestWork", &rejection);
                to.fail(rejection);
            }
        };
        let event = |request| Event::RequestWork {
            request: Some(request),
            from,
            work,
        };
        Self::pass(&inbox, EventLane::Ordinary, deliver, event);
    }
}
