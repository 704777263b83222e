//! Serves `requestWork`.

use brasserie_common::{Principal, WorkRequest};
use brasserie_scheduler_core::{Event, Reply};
use brasserie_thrift::convert;
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerRequestWorkArgs, BistroSchedulerRequestWorkResult,
};
use brasserie_thrift::rpc::Responder;

use super::service::SchedulerService;
use crate::inbox::{Lane, Waiter};

impl SchedulerService {
    pub(super) fn request_work(
        &self,
        from: Principal,
        args: BistroSchedulerRequestWorkArgs,
        to: Responder,
    ) {
        if let Err(full) = self.inbox.check(Lane::Ordinary) {
            return to.fail(full);
        }
        let work = convert::parse::<_, WorkRequest>("requestWork.request", args.request);
        let work = match work {
            Ok(work) => Box::new(work),
            Err(error) => return to.reject_arguments(&error),
        };
        let waiter: Waiter = Box::new(move |reply| match reply {
            Reply::Work(Ok(reply)) => to.reply(&BistroSchedulerRequestWorkResult {
                result_value: Some((*reply).into()),
            }),
            Reply::Work(Err(rejection)) => to.fail(rejection),
            Reply::Heartbeat(_)
            | Reply::UpdateStatus(_)
            | Reply::KillTask(_)
            | Reply::JobChanged(_)
            | Reply::WorkerForgotten(_)
            | Reply::Answer(_) => {
                unreachable!("Invariant: a request for work is replied to as one")
            }
        });
        self.take(Lane::Ordinary, waiter, |request| Event::RequestWork {
            request: Some(request),
            from,
            work,
        });
    }
}
