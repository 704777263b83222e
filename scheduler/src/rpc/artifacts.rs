//! Serves `reportArtifacts`.

use brasserie_common::Principal;
use brasserie_common::artifact_report::{ArtifactsAnswer, ArtifactsReport};
use brasserie_scheduler_core::{Event, Rejection};
use brasserie_thrift::convert;
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerReportArtifactsArgs, BistroSchedulerReportArtifactsResult,
};
use brasserie_thrift::rpc::Responder;

use super::service::SchedulerService;
use crate::inbox::EventLane;

impl SchedulerService {
    pub(super) fn report_artifacts(
        &self,
        from: Principal,
        args: BistroSchedulerReportArtifactsArgs,
        to: Responder,
    ) {
        if let Err(full) = self.inbox.check(EventLane::Ordinary) {
            return to.fail(full);
        }
        let report = convert::parse::<_, ArtifactsReport>("reportArtifacts.report", args.report);
        let report = match report {
            Ok(report) => Box::new(report),
            Err(error) => return to.reject_arguments(&error),
        };
        let deliver = move |reply: Result<Box<ArtifactsAnswer>, Rejection>| match reply {
            Ok(answer) => to.reply(&BistroSchedulerReportArtifactsResult {
                result_value: Some((*answer).into()),
            }),
            Err(rejection) => to.fail(rejection),
        };
        let event = |request| Event::ReportArtifacts {
            request,
            from,
            report,
        };
        self.pass(EventLane::Ordinary, deliver, event);
    }
}
