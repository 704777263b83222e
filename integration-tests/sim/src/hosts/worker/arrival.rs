//! A call of a scheduler as the worker's shell passes it to the core.

use std::sync::Arc;

use brasserie_common::worker::DrainTerms;
use brasserie_common::{Kill, Principal, RequestId, RunningTask, SchedulerId, WorkerId};
use brasserie_scheduler_core::{Call, RunTaskCall};
use brasserie_worker_core::{DrainRequest, Event, RunTask};

use super::run_of;
use crate::event_log::Ask;

/// The event and its subject.
#[derive(Debug)]
pub struct EventArrival {
    pub scheduler: SchedulerId,
    pub meant: WorkerId,
    pub ask: Ask,
    pub event: Event,
}

impl EventArrival {
    pub fn new(request: RequestId, message: Call) -> Self {
        let from = Principal::Own;
        match message {
            Call::GetRunningTasks { scheduler, worker } => EventArrival {
                scheduler,
                meant: worker,
                ask: Ask::Fetch,
                event: Event::GetRunningTasks {
                    request,
                    from,
                    worker,
                    scheduler: Some(scheduler),
                },
            },
            Call::RunTask(run) | Call::Healthcheck(run) => EventArrival::run(request, *run),
            Call::NotifyIfTasksNotRunning {
                tasks,
                scheduler,
                worker,
                sequence,
            } => EventArrival {
                scheduler,
                meant: worker,
                ask: Ask::Notify {
                    tasks: u16::try_from(tasks.len()).unwrap_or(u16::MAX),
                    sequence,
                },
                event: Event::NotifyIfTasksNotRunning {
                    request,
                    from,
                    tasks,
                    scheduler,
                    worker,
                    sequence,
                },
            },
            Call::RequestSuicide {
                scheduler,
                worker,
                why,
            } => EventArrival {
                scheduler,
                meant: worker,
                ask: Ask::Suicide,
                event: Event::RequestSuicide {
                    request,
                    from,
                    scheduler,
                    worker,
                    why: Some(why),
                },
            },
            Call::Drain { shard, worker, why } => {
                EventArrival::drain((request, from), shard.into(), worker, why)
            }
            Call::KillTask {
                task,
                scheduler,
                worker,
                kill,
            } => EventArrival::kill(request, &task, scheduler, worker, kill),
        }
    }

    fn drain(
        (request, from): (RequestId, Principal),
        shard: String,
        worker: WorkerId,
        reason: Arc<str>,
    ) -> Self {
        let terms = DrainTerms {
            deadline: None,
            reason,
        };
        EventArrival {
            // The call names no scheduler.
            scheduler: SchedulerId::default(),
            meant: worker,
            ask: Ask::Drain,
            event: Event::RequestDrain {
                request,
                from,
                drain: DrainRequest {
                    shard,
                    instance: worker,
                    terms,
                },
            },
        }
    }

    fn kill(
        request: RequestId,
        task: &RunningTask,
        scheduler: SchedulerId,
        worker: WorkerId,
        kill: Kill,
    ) -> Self {
        EventArrival {
            scheduler,
            meant: worker,
            ask: Ask::of_kill(run_of(task), kill.by),
            event: Event::KillTask {
                request,
                from: Principal::Own,
                task: task.key(),
                invocation: task.invocation,
                scheduler,
                worker,
                kill,
            },
        }
    }

    fn run(request: RequestId, run: RunTaskCall) -> Self {
        let (scheduler, worker, sequence) = (run.scheduler, run.worker, run.sequence);
        let ask = if run.task.is_healthcheck() {
            Ask::Healthcheck {
                invocation: run.task.invocation,
                for_new_worker: !run.task.node.as_str().is_empty(),
            }
        } else {
            let run = run_of(&run.task);
            Ask::Run { run, sequence }
        };
        let run = Box::new(RunTask {
            task: run.task,
            config: run.config,
            command: run.command,
            scheduler,
            worker,
            sequence,
            options: run.options,
        });
        EventArrival {
            scheduler,
            meant: worker,
            ask,
            event: Event::RunTask {
                request,
                from: Principal::Own,
                run,
            },
        }
    }
}
