//! Converts the arguments of calls to events of the core.

use brasserie_common::{Principal, RequestId, SequenceNumber, TaskSubprocessOptions};
use brasserie_thrift::convert::{self, WireError, parse, parse_list};
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerDrainArgs, BrasserieWorkerFetchWorkArgs, BrasserieWorkerGetWorkFetchArgs,
};
use brasserie_thrift::generated::worker::{
    BistroWorkerGetRunningTasksArgs, BistroWorkerKillTaskArgs,
    BistroWorkerNotifyIfTasksNotRunningArgs, BistroWorkerRequestSuicideArgs,
    BistroWorkerRunTaskArgs,
};
use brasserie_worker_core::{DrainRequest, Event, RunTask};

/// The caller, and the number of its request.
pub(super) struct RequestOrigin {
    pub request: RequestId,
    pub from: Principal,
}

/// Arguments of a call that the core answers.
pub(super) trait IntoEvent {
    fn into_event(self, asked: RequestOrigin) -> Result<Event, WireError>;
}

impl IntoEvent for BistroWorkerGetRunningTasksArgs {
    fn into_event(
        self,
        RequestOrigin { request, from }: RequestOrigin,
    ) -> Result<Event, WireError> {
        Ok(Event::GetRunningTasks {
            request,
            from,
            worker: parse("getRunningTasks.worker", self.worker)?,
            scheduler: self
                .scheduler
                .map(|id| parse("getRunningTasks.scheduler", id))
                .transpose()?,
        })
    }
}

impl IntoEvent for BistroWorkerRunTaskArgs {
    fn into_event(
        self,
        RequestOrigin { request, from }: RequestOrigin,
    ) -> Result<Event, WireError> {
        let deadline = convert::deadline(self.rt.deadline_sec)?;
        let run = RunTask {
            task: parse("runTask.rt", self.rt)?,
            config: self.config,
            command: self.command,
            scheduler: parse("runTask.scheduler", self.scheduler)?,
            worker: parse("runTask.worker", self.worker)?,
            sequence: SequenceNumber(self.notify_if_tasks_not_running_sequence_num),
            options: TaskSubprocessOptions {
                deadline,
                ..parse("runTask.opts", self.opts)?
            },
        };
        Ok(Event::RunTask {
            request,
            from,
            run: Box::new(run),
        })
    }
}

impl IntoEvent for BistroWorkerNotifyIfTasksNotRunningArgs {
    fn into_event(
        self,
        RequestOrigin { request, from }: RequestOrigin,
    ) -> Result<Event, WireError> {
        Ok(Event::NotifyIfTasksNotRunning {
            request,
            from,
            tasks: parse_list("notifyIfTasksNotRunning.rts", self.rts)?,
            scheduler: parse("notifyIfTasksNotRunning.scheduler", self.scheduler)?,
            worker: parse("notifyIfTasksNotRunning.worker", self.worker)?,
            sequence: SequenceNumber(self.notify_if_tasks_not_running_sequence_num),
        })
    }
}

impl IntoEvent for BistroWorkerRequestSuicideArgs {
    fn into_event(
        self,
        RequestOrigin { request, from }: RequestOrigin,
    ) -> Result<Event, WireError> {
        Ok(Event::RequestSuicide {
            request,
            from,
            scheduler: parse("requestSuicide.scheduler", self.scheduler)?,
            worker: parse("requestSuicide.worker", self.worker)?,
            why: self.reason.map(|why| convert::reason(&why)),
        })
    }
}

impl IntoEvent for BistroWorkerKillTaskArgs {
    fn into_event(
        self,
        RequestOrigin { request, from }: RequestOrigin,
    ) -> Result<Event, WireError> {
        let task: brasserie_common::RunningTask = parse("killTask.rt", self.rt)?;
        Ok(Event::KillTask {
            request,
            from,
            task: task.key(),
            invocation: task.invocation,
            scheduler: parse("killTask.scheduler", self.scheduler)?,
            worker: parse("killTask.worker", self.worker)?,
            kill: parse("killTask.req", self.req)?,
        })
    }
}

impl IntoEvent for BrasserieWorkerGetWorkFetchArgs {
    fn into_event(
        self,
        RequestOrigin { request, from: _ }: RequestOrigin,
    ) -> Result<Event, WireError> {
        Ok(Event::ShowWorkFetch { request })
    }
}

impl IntoEvent for BrasserieWorkerDrainArgs {
    fn into_event(
        self,
        RequestOrigin { request, from }: RequestOrigin,
    ) -> Result<Event, WireError> {
        Ok(Event::RequestDrain {
            request,
            from,
            drain: DrainRequest {
                shard: self.shard,
                instance: parse("drain.instance", self.instance)?,
                terms: parse("drain.terms", self.terms.unwrap_or_default())?,
            },
        })
    }
}

impl IntoEvent for BrasserieWorkerFetchWorkArgs {
    fn into_event(
        self,
        RequestOrigin { request, from }: RequestOrigin,
    ) -> Result<Event, WireError> {
        let scheduler = self.scheduler;
        let scheduler = scheduler.map(|at| parse("fetchWork.scheduler", at));
        Ok(Event::FetchWork {
            request,
            from,
            scheduler: scheduler.transpose()?,
        })
    }
}
