//! Kills of running tasks at the request of operators.

use brasserie_common::{
    CallOutcome, EndedBy, InvocationId, JobId, Kill, KillRequest, Principal, ReportedStatus,
    RequestId, Shard, TaskKey, Time,
};
use brasserie_scheduler_engine::Task;

use super::effect::Reply;
use super::{Scheduler, View};
use crate::calls::{CallDraft, CallPurpose, CallReply, KilledTask};
use crate::news::News;
use crate::owners::{Owned, check_owner};
use crate::refusal::Rejection;
use crate::runs::kill_request;

impl Scheduler {
    /// Kills a running task for an operator, by the method of the task's job.
    pub(super) fn kill_task(
        &mut self,
        now: Time,
        (request, from): (RequestId, Principal),
        key: TaskKey,
    ) {
        let owner = self.jobs.owner(&key.job);
        if let Err(why) = check_owner(&from, Owned::Job(key.job.as_str()), &owner) {
            return self.outbox.reply(request, Reply::KillTask(Err(why.into())));
        }
        let (task, invocation, shard) = match self.view().find_run(&key) {
            Ok(found) => found,
            Err(why) => {
                let rejection = Rejection::NotRunning(why);
                return self.outbox.reply(request, Reply::KillTask(Err(rejection)));
            }
        };
        let job = self.engine.job_config(task.job);
        let killed = KilledTask {
            shard: shard.clone(),
            invocation,
            request: self.view().kill_request(task.job),
            held: job.is_some_and(|job| job.hold.is_some()),
            unwanted: self.view().wanted().why_never_again(task),
            wait_seconds: self.view().wait_after_kill(now, task, invocation),
        };
        let kill = Kill {
            request: killed.request,
            by: EndedBy::Operator,
        };
        let Some(remote) = self.pool.get(&shard) else {
            let rejection = Rejection::UnknownShard {
                shard: shard.as_str().to_owned(),
            };
            return self.outbox.reply(request, Reply::KillTask(Err(rejection)));
        };
        let (worker, peer) = (remote.id(), remote.address().clone());
        let what = format!(
            "requested a kill of {} on {} on worker `{shard}`",
            key.job, key.node
        );
        self.notices.news(News::Asked { by: from, what });
        self.call(
            now,
            peer,
            CallDraft::KillTask {
                worker,
                task,
                invocation,
                kill,
            },
            CallPurpose::Kill {
                worker,
                request,
                killed: Box::new(killed),
            },
        );
    }

    pub(super) fn kill_completed(
        &mut self,
        request: RequestId,
        killed: Box<KilledTask>,
        outcome: CallOutcome<CallReply>,
    ) {
        let result = match outcome {
            CallOutcome::Done(_) => Ok(killed),
            CallOutcome::Refused(_, text)
            | CallOutcome::NotSent(text)
            | CallOutcome::Unknown(text) => Err(Rejection::KillFailed(text)),
        };
        self.outbox.reply(request, Reply::KillTask(result));
    }
}

impl View<'_> {
    /// Returns how many seconds the task waits after this run if the run counts as incomplete.
    fn wait_after_kill(&self, now: Time, task: Task, invocation: InvocationId) -> u32 {
        let run = self.runs.run(task);
        let next_backoff = run.map(|run| run.next_backoff).unwrap_or_default();
        let incomplete = ReportedStatus::incomplete_backoff("");
        let end = (invocation, &incomplete);
        let (_, status) = self.view().closing_status(now, task, end, next_backoff);
        status.backoff_seconds
    }

    /// Returns how runs of the job are killed: by its own method, or by that of the settings if the job is not configured.
    pub(super) fn kill_request(&self, job: JobId) -> KillRequest {
        let engine = &self.engine;
        let config = engine.config().map(|config| &**config);
        kill_request(config, engine.job_config(job))
    }

    fn find_run(&self, key: &TaskKey) -> Result<(Task, InvocationId, Shard), String> {
        let TaskKey { job, node } = key;
        let task = self.view().find_task(job.as_str(), node.as_str());
        let task = task.map_err(|unknown| {
            format!("{unknown}: `brasserie task list --state running` lists running tasks")
        })?;
        match self.runs.run(task) {
            Some(run) => Ok((task, run.invocation, run.shard.clone())),
            None => Err(format!(
                "{job} on {node} does not run; `brasserie explain {job} {node}` says why"
            )),
        }
    }
}
