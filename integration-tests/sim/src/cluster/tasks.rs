//! Task processes in the world: the execution log that the laws read.

use std::time::Duration;

use brasserie_common::{InvocationId, KillRequest, ReportedStatus, TaskKey, WorkerId};
use brasserie_worker_core::RunTask;

use super::{Cluster, Due};
use crate::event_log::{FaultKind, Happening, ProcessEnd, ProcessId, Run, TaskId, WorkerPlace};
use crate::hosts::worker::WorkerInput;
use crate::processes::Process;

impl Cluster {
    /// Returns the worker places that must serve once all has settled.
    pub fn lasting_places(&self) -> impl Iterator<Item = WorkerPlace> + '_ {
        let lasting = self.swarm.places.iter().filter(|plan| !plan.is_rival);
        lasting.map(|plan| plan.place)
    }

    pub(super) fn spawn(&mut self, place: WorkerPlace, worker: WorkerId, run: &RunTask) {
        let generation = self.worker(place).generation();
        let parent = (place, generation, worker);
        match self.processes.spawn(self.now, parent, &run.task) {
            Some(process) => {
                let (id, ends_at) = (process.id, process.ends_at);
                self.log.push(Happening::ProcessStarted {
                    place,
                    worker,
                    process: id,
                    run: process.run,
                });
                self.queue
                    .push(ends_at, Due::ProcessEnds { process: id, place });
                if run.options.timeout.is_some() {
                    let (task, invocation) = (run.task.key(), run.task.invocation);
                    let input = WorkerInput::TaskStarted { task, invocation };
                    self.worker_hears(place, generation, Duration::ZERO, input);
                }
            }
            None => {
                let task = run.task.key();
                self.seen_faults.push(FaultKind::SpawnFailure);
                self.log.push(Happening::SpawnFailed {
                    place,
                    worker,
                    run: Run {
                        task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
                        invocation: run.task.invocation,
                    },
                });
                let status = ReportedStatus::error_backoff("cannot start");
                let ended = (task, run.task.invocation, status);
                self.report_end(place, generation, Duration::ZERO, ended);
            }
        }
    }

    fn report_end(
        &mut self,
        place: WorkerPlace,
        generation: u32,
        after: Duration,
        (task, invocation, status): (TaskKey, InvocationId, ReportedStatus),
    ) {
        let input = WorkerInput::TaskEnded {
            task,
            invocation,
            status,
        };
        self.worker_hears(place, generation, after, input);
    }

    pub(super) fn worker_hears(
        &mut self,
        place: WorkerPlace,
        generation: u32,
        after: Duration,
        input: WorkerInput,
    ) {
        let due = Due::WorkerHears {
            place,
            generation,
            input,
        };
        self.queue.push(self.now + after, due);
    }

    pub(super) fn kill(
        &mut self,
        place: WorkerPlace,
        run: (&TaskKey, InvocationId),
        kill: KillRequest,
    ) {
        let slow = self.processes.faults.slow_kill > 0;
        if let Some(process) = self.processes.kill(self.now, place, run, kill) {
            let (process, ends_at) = (process.id, process.ends_at);
            if slow && ends_at > self.now + Duration::from_millis(100) {
                self.seen_faults.push(FaultKind::SlowKill);
            }
            self.queue
                .push(ends_at, Due::ProcessEnds { process, place });
        }
    }

    /// Lets the keeper end the processes of a dead worker.
    pub(super) fn keeper_ends_all(&mut self, place: WorkerPlace) {
        for (process, ends_at) in self.processes.keeper(self.now, place) {
            self.queue
                .push(ends_at, Due::ProcessEnds { process, place });
        }
    }

    pub(super) fn process_ends(&mut self, id: ProcessId) {
        let Some(process) = self.processes.end(self.now, id) else {
            return;
        };
        self.log.push(ended(&process, process.how));
        let after = self
            .chance
            .skewed(Duration::from_micros(50), Duration::from_millis(50));
        let end = (process.key, process.run.invocation, process.status);
        self.report_end(process.place, process.generation, after, end);
    }

    pub(super) fn power_lost(&mut self, place: WorkerPlace) {
        for process in self.processes.power_lost(place) {
            self.log.push(ended(&process, ProcessEnd::PowerLost));
        }
    }
}

fn ended(process: &Process, how: ProcessEnd) -> Happening {
    Happening::ProcessEnded {
        place: process.place,
        worker: process.worker,
        process: process.id,
        run: process.run,
        how,
        bits: process.status.bits(),
    }
}
