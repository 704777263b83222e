//! The scheduler's Thrift services: dispatches calls, and passes workers' heartbeats, statuses and work requests to the core.

use std::sync::Arc;

use brasserie_common::access::{Role, SCHEDULER_CALLS, callers};
use brasserie_common::worker::HeartbeatResponse;
use brasserie_common::{Health, Principal, RequestId, WorkerDescription, WorkerSetId};
use brasserie_scheduler_core::{Event, Rejection, Reply};
use brasserie_thrift::convert;
use brasserie_thrift::generated::brasserie::BrasserieGetClusterStatusArgs;
use brasserie_thrift::generated::fb303::{
    FacebookServiceGetStatusArgs, FacebookServiceGetStatusResult, FbStatus,
};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerGetJobsArgs, BistroSchedulerGetLevelsArgs, BistroSchedulerProcessHeartbeatArgs,
    BistroSchedulerProcessHeartbeatResult,
};
use brasserie_thrift::rpc::{Accepts, ClientProtocol, IncomingCall, Responder, Service};

use super::answers::Answers;
use super::auditing::Auditing;
use super::changing::Changing;
use super::files::FileChanges;
use super::forgetting::Forgetting;
use super::identities::Identities;
use super::jobs::Jobs;
use super::logs::Logs;
use super::ordering::Ordering;
use super::plans::Plans;
use super::pool::WorkerPool;
use crate::audit::Audit;
use crate::files::Files;
use crate::inbox::{EventLane, Inbox, NotTaken};
use crate::security::Protection;
use crate::sources::Proposals;
use crate::store::QueueRoom;
use crate::store::Stories;
use crate::turns::{Busy, LargeCall, LargeCalls, Turns};

/// Calls of which only the begin of something new counts as a change, which their arguments say.
const CHECKED_LATER: [&str; 2] = ["putFile", "holdOutputs"];

/// Serves `BistroScheduler` and `Brasserie` on one port.
pub(crate) struct SchedulerService {
    pub(super) inbox: Inbox,
    pub(super) room: Arc<QueueRoom>,
    pool: WorkerPool,
    answers: Answers,
    jobs: Jobs,
    plans: Plans,
    forgetting: Forgetting,
    files: Files,
    file_changes: FileChanges,
    ordering: Ordering,
    identities: Identities,
    auditing: Auditing,
    audit: Audit,
    changing: Changing,
    large: LargeCalls,
}

impl Service for SchedulerService {
    fn call(&self, call: IncomingCall<'_>) {
        let Some((call, from)) = self.admitted(call) else {
            return;
        };
        let (answers, jobs) = (&self.answers, &self.jobs);
        match call.method() {
            "processHeartbeat" => {
                let protocol = call.protocol();
                call.serve(|args, to| self.heartbeat(from, protocol, args, to));
            }
            "updateStatus" => {
                call.serve(|args, to| self.update_status((from, Accepts::All), args, to));
            }
            "updateStatusBatch" => {
                call.serve(|args, to| self.update_status_batch(&from, args, to));
            }
            "reportArtifacts" => call.serve(|args, to| self.report_artifacts(from, args, to)),
            "fetchArtifacts" => call.serve(|args, to| self.files.serve(args, to)),
            "checkArtifact" => call.serve(|args, to| self.files.check(args, to)),
            "requestArtifactSlots" => {
                call.serve(|args, to| self.request_artifact_slots(from, args, to));
            }
            "releaseArtifactSlots" => {
                call.serve(|args, to| self.release_artifact_slots(from, args, to));
            }
            "requestWork" => call.serve(|args, to| self.request_work(from, args, to)),
            "getStatus" => call.serve(|_: FacebookServiceGetStatusArgs, to| alive(to)),
            "getJobs" => call.serve(|_: BistroSchedulerGetJobsArgs, to| answers.jobs(from, to)),
            "getJob" => call.serve(|args, to| answers.job(from, args, to)),
            "saveJob" => call.serve(|args, to| jobs.save(from, args, to)),
            "deleteJob" => call.serve(|args, to| jobs.delete(from, args, to)),
            "forgiveJob" => call.serve(|args, to| jobs.forgive(from, args, to)),
            "getLevels" => {
                call.serve(|_: BistroSchedulerGetLevelsArgs, to| answers.levels(from, to));
            }
            "getJobHistograms" => call.serve(|args, to| answers.histograms(from, args, to)),
            "getJobLogsByTime" => call.serve(|args, to| answers.logs_by_time(from, args, to)),
            "getJobLogsByID" => call.serve(|args, to| answers.logs_by_id(from, args, to)),
            "getClusterStatus" => {
                call.serve(|_: BrasserieGetClusterStatusArgs, to| answers.cluster_status(from, to));
            }
            "getJobStatusPage" => call.serve(|args, to| answers.job_status_page(from, args, to)),
            "getJobPage" => call.serve(|args, to| answers.job_page(from, args, to)),
            "getTaskPage" => call.serve(|args, to| answers.task_page(from, args, to)),
            "getJobStatus" => call.serve(|args, to| answers.job_status(from, args, to)),
            "submitJob" => call.serve(|args, to| jobs.submit(from, args, to)),
            "removeJob" => call.serve(|args, to| jobs.remove(from, args, to)),
            "pauseJob" => call.serve(|args, to| jobs.pause(from, args, to)),
            "cancelJob" => call.serve(|args, to| jobs.cancel(from, args, to)),
            "killTask" => call.serve(|args, to| jobs.kill_task(from, args, to)),
            "resumeJob" => call.serve(|args, to| jobs.resume(from, args, to)),
            "forgiveTasks" => call.serve(|args, to| jobs.forgive_tasks(from, args, to)),
            "deleteHistory" => call.serve(|args, to| jobs.delete_history(from, args, to)),
            "forgetOutputs" => call.serve(|args, to| jobs.forget_outputs(from, args, to)),
            "holdOutputs" => call.serve(|args, to| jobs.hold_outputs(from, args, to)),
            "getOutputPage" => call.serve(|args, to| answers.output_page(from, args, to)),
            "getFilePage" => call.serve(|args, to| answers.file_page(from, args, to)),
            "putFile" => call.serve(|args, to| self.file_changes.put(from, args, to)),
            "removeFile" => call.serve(|args, to| self.file_changes.remove(from, args, to)),
            "getTaskHistory" => call.serve(|args, to| answers.history(args, to)),
            "getAuditPage" => call.serve(|args, to| self.auditing.page(args, to)),
            "explainTask" => call.serve(|args, to| answers.explain(from, args, to)),
            "forgetWorker" => call.serve(|args, to| self.forgetting.forget(from, args, to)),
            "orderWorker" => call.serve(|args, to| self.ordering.order(from, args, to)),
            "planConfig" => call.serve(|args, to| self.plans.plan(from, args, to)),
            _ => self.identities.serve(call, from),
        }
    }

    /// Serves heartbeats and healthcheck results however many calls wait. Otherwise an overloaded scheduler would lose all its workers.
    fn call_from_reserve(&self, call: IncomingCall<'_>) {
        let Some((call, from)) = self.admitted(call) else {
            return;
        };
        match call.method() {
            "processHeartbeat" | "getStatus" => self.call(call),
            "updateStatus" => call.serve(|args, to| {
                self.update_status((from, Accepts::HealthCalls), args, to);
            }),
            _ => call.refuse_for_lack_of_room(),
        }
    }
}

impl SchedulerService {
    pub(crate) fn new(
        inbox: Inbox,
        room: Arc<QueueRoom>,
        pool: WorkerPool,
        proposals: Proposals,
        (stories, files, protection, audit): (Stories, Files, Protection, Audit),
    ) -> Self {
        let logs = Logs::new(inbox.clone(), pool.clone());
        let security = protection.security().cloned();
        let answers = Answers::new(inbox.clone(), logs, stories, protection);
        let changing = Changing::new(inbox.clone(), Arc::clone(&room), audit.clone());
        let file_changes = FileChanges::new(files.clone(), inbox.clone(), changing.clone());
        let jobs = Jobs::new(changing.clone());
        let plans = Plans::new(changing.clone(), proposals, security.is_some());
        let forgetting = Forgetting::new(changing.clone());
        let ordering = Ordering::new(changing.clone());
        SchedulerService {
            inbox,
            room,
            pool,
            answers,
            jobs,
            plans,
            forgetting,
            files,
            file_changes,
            ordering,
            identities: Identities::new(security, audit.clone()),
            auditing: Auditing::new(audit.clone()),
            audit,
            changing,
            large: LargeCalls::default(),
        }
    }

    /// Returns the core's inbox, and the turns of queries, which the pages share.
    pub(crate) fn for_pages(&self) -> (Inbox, Turns) {
        (self.inbox.clone(), self.answers.turns().clone())
    }

    pub(super) fn audit(&self) -> &Audit {
        &self.audit
    }

    pub(super) fn changing(&self) -> &Changing {
        &self.changing
    }

    /// Returns a call that its caller may make now. Others are answered and audited.
    fn admitted<'a>(&self, call: IncomingCall<'a>) -> Option<(IncomingCall<'a>, Principal)> {
        let permitted = call.permitted(SCHEDULER_CALLS);
        let permitted = permitted.inspect_err(|refusal| self.audit.not_permitted(refusal));
        let (mut call, from) = permitted.ok()?;
        match self.begin_large(&from, &call) {
            Ok(None) => {}
            Ok(Some(large)) => call.keep(large),
            Err(busy) => {
                call.into_responder().fail(busy);
                return None;
            }
        }
        if CHECKED_LATER.contains(&call.method()) {
            return Some((call, from));
        }
        match self.audit.may_change(&from, call.method()) {
            Ok(()) => Some((call, from)),
            Err(why) => {
                call.into_responder().fail(why);
                None
            }
        }
    }

    /// Counts a call of people if it is large. The server's own limits bound the calls of workers, and the frames of strangers.
    fn begin_large(
        &self,
        from: &Principal,
        call: &IncomingCall<'_>,
    ) -> Result<Option<LargeCall>, Busy> {
        let callers = callers(SCHEDULER_CALLS, call.method());
        let is_of_people = callers.is_some_and(|all| all.include(Some(Role::Admin)));
        match from {
            Principal::Authenticated(_) | Principal::Unauthenticated(_) if is_of_people => {
                self.large.begin(from, call.frame_bytes())
            }
            _ => Ok(None),
        }
    }

    fn heartbeat(
        &self,
        from: Principal,
        protocol: ClientProtocol,
        mut args: BistroSchedulerProcessHeartbeatArgs,
        to: Responder,
    ) {
        if let Err(full) = self.inbox.check(EventLane::Health) {
            return to.fail(full);
        }
        let goodbye = args.w.tasks_are_dead.unwrap_or(false);
        let work = convert::riding_request(args.w.work_request.take());
        let parsed =
            convert::parse("processHeartbeat.w", args.w).and_then(|worker: WorkerDescription| {
                let set: WorkerSetId =
                    convert::parse("processHeartbeat.workerSetID", args.worker_set_id)?;
                Ok((Box::new(worker), set))
            });
        let (worker, worker_set) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return to.reject_arguments(&error),
        };
        if let Err(refusal) = from.check_shard("processHeartbeat", &worker.shard) {
            self.audit.not_permitted(&refusal);
            return to.refuse(&refusal);
        }
        let heard = self.pool.heard(&worker, protocol, &from);
        let inbox = self.inbox.of(&to);
        let work = work.filter(|work| work.worker == worker.id);
        if let Some(work) = work.map(Box::new) {
            // The work request goes first, so that the heartbeat's answer includes the work.
            let request = None;
            let event = Event::RequestWork {
                request,
                from: from.clone(),
                work,
            };
            inbox.tell_soon(EventLane::Health, event);
        }
        let (audit, by, pool) = (self.audit.clone(), from.clone(), self.pool.clone());
        let deliver = move |reply: Result<Box<HeartbeatResponse>, Rejection>| match reply {
            Ok(response) => {
                match response.worker_state {
                    Health::MustDie => pool.refused(&heard),
                    Health::New | Health::Healthy | Health::Unhealthy => pool.accepted(heard),
                }
                to.mark_known();
                to.reply(&BistroSchedulerProcessHeartbeatResult {
                    result_value: Some((*response).into()),
                });
            }
            Err(rejection) => {
                pool.refused(&heard);
                audit.rejected(&by, "processHeartbeat", &rejection);
                to.fail(rejection);
            }
        };
        let event = |request| Event::Heartbeat {
            request,
            from,
            worker,
            worker_set,
            goodbye,
        };
        Self::pass(&inbox, EventLane::Health, deliver, event);
    }

    /// Passes a request of the caller of the inbox to the core. If the lane is full, `deliver` is dropped, and the caller learns that.
    pub(super) fn pass<R>(
        inbox: &Inbox,
        lane: EventLane,
        deliver: impl FnOnce(R) + Send + 'static,
        event: impl FnOnce(RequestId) -> Event,
    ) where
        R: TryFrom<Reply, Error = Reply>,
    {
        let taken = inbox.try_request(lane, deliver, event);
        taken.unwrap_or_else(NotTaken::log);
    }
}

fn alive(to: Responder) {
    to.reply(&FacebookServiceGetStatusResult {
        result_value: Some(FbStatus::ALIVE),
    });
}
