//! The worker's effects, and the completions of its processes.

use std::time::Duration;

use brasserie_common::{
    CallId, CallOutcome, InvocationId, RefusalCode, ReportedStatus, RequestId, TaskKey, WorkerId,
};
use brasserie_scheduler_core::CallReply as SchedulerReply;
use brasserie_worker_core::{AssociationIndex, Call, Effect, Event, Refusal, Reply, RunTask};
use integration_tests_sim::hosts::ToScheduler;
use integration_tests_sim::hosts::worker::{refused, story_of, update};

use super::{DELAY, Due, End, Pair, Process, secs};

impl Pair {
    pub(super) fn turn_worker(&mut self, event: Option<Event>) {
        let (now, wall) = (self.now, self.wall());
        self.worker.handle(now, Event::WallClock(wall));
        if let Some(event) = event {
            self.worker.handle(now, event);
        }
        self.worker.handle_timeout(now);
        while let Some(effect) = self.worker.poll_effect() {
            self.perform(effect);
        }
    }

    fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Suspend { .. } | Effect::Resume { .. } => panic!("nothing is preempted"),
            Effect::Reply { request, reply } => self.reply(request, reply),
            Effect::Call {
                association,
                id,
                call,
            } => self.call(association, id, call),
            Effect::Spawn { run, .. } => self.spawn(&run),
            Effect::Kill {
                task, invocation, ..
            } => {
                let due = Due::End {
                    key: task,
                    invocation,
                    how: End::Killed,
                };
                self.push(Duration::from_millis(10), due);
            }
            Effect::NewInstance { association, after } => {
                let id = WorkerId::new(
                    self.wall().as_secs().max(after.0.start_time + 1),
                    after.0.rand + 100,
                );
                let event = Event::NewInstance { association, id };
                self.push(secs(1), Due::Hear(Box::new(event)));
            }
            Effect::Exit { reason } => panic!("the worker ends: {reason:?}"),
        }
    }

    fn reply(&mut self, request: RequestId, reply: Result<Reply, Refusal>) {
        let asked = self.requests.remove(&request).expect("answered once");
        let outcome = match reply {
            Ok(Reply::RunningTasks(tasks)) => {
                CallOutcome::Done(SchedulerReply::RunningTasks(tasks))
            }
            Ok(Reply::Accepted { queued_at }) => {
                CallOutcome::Done(SchedulerReply::Accepted { queued_at })
            }
            Ok(_) => CallOutcome::Done(SchedulerReply::Empty),
            Err(refusal) => {
                self.busy += usize::from(refusal.code == RefusalCode::Busy);
                refused(asked.ask, refusal)
            }
        };
        let due = Due::Known {
            which: asked.which,
            generation: asked.generation,
            call: asked.call,
            outcome,
        };
        self.push(DELAY, due);
    }

    fn call(&mut self, association: AssociationIndex, id: CallId, call: Call) {
        let request = match call {
            Call::Heartbeat {
                worker,
                worker_set,
                goodbye,
            } => ToScheduler::Heartbeat {
                worker,
                set: worker_set,
                goodbye,
            },
            Call::RequestWork { to: _, request } => ToScheduler::Work(request),
            Call::ReadMembers => panic!("Invariant: its list is fixed"),
            Call::UpdateStatus {
                task,
                status,
                scheduler,
                worker,
                goes: _,
            } => ToScheduler::Status(Box::new(update(&task, status, (scheduler, worker)))),
        };
        let due = Due::ToScheduler {
            which: association.0,
            call: id,
            request,
        };
        self.push(DELAY, due);
    }

    fn spawn(&mut self, run: &RunTask) {
        let (key, invocation) = (run.task.key(), run.task.invocation);
        let takes = match run.task.is_healthcheck() {
            true => Duration::from_millis(20),
            false => self.task_takes,
        };
        if !run.task.is_healthcheck() {
            let of_it = self.worker.associations().iter();
            let mut of_it = of_it.map(|one| one.instance() == run.worker);
            let which = of_it.position(|is_it| is_it).expect("one of its own");
            let since = self.now;
            self.processes.insert(invocation, Process { which, since });
        }
        let how = End::Finished;
        self.push(
            takes,
            Due::End {
                key,
                invocation,
                how,
            },
        );
    }

    pub(super) fn ends(&mut self, key: TaskKey, invocation: InvocationId, how: End) {
        let is_healthcheck = !key.job.as_str().starts_with('j');
        let process = self.processes.remove(&invocation);
        if process.is_none() && !is_healthcheck {
            // The process ended before.
            return;
        }
        let status = match how {
            End::Finished => ReportedStatus::done(),
            End::Killed => ReportedStatus::incomplete_backoff("killed"),
        };
        if let Some(Process { which, since }) = process {
            self.used[which] += self.now.since(since).as_secs_f64();
            self.killed[which] += usize::from(how == End::Killed);
        }
        let event = Event::TaskEnded {
            task: key,
            invocation,
            status,
            story: Box::new(story_of(invocation)),
        };
        self.turn_worker(Some(event));
    }

    /// Returns the processor seconds that each scheduler's tasks have used so far, running ones included.
    pub(super) fn usage(&self) -> Vec<f64> {
        let mut used = self.used.clone();
        for process in self.processes.values() {
            used[process.which] += self.now.since(process.since).as_secs_f64();
        }
        used
    }
}
