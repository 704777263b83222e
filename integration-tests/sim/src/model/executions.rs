//! The execution log: the fake processes that are alive, whatever any scheduler or worker believes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::collections::{IdMap, IdSet};
use brasserie_common::{Time, WorkerId};

use crate::event_log::{Happening, MachineId, ProcessId, Run, TaskId, WorkerPlace};
use crate::view::World;

/// The time from the wake-up of a machine until its worker has read the clock and its keeper has checked the worker.
const WAKING: Duration = Duration::from_secs(2);

/// One live process of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    pub run: Run,
    pub worker: WorkerId,
    pub place: WorkerPlace,
}

/// Every live process but healthchecks.
#[derive(Clone, Debug, Default)]
pub struct Executions {
    live: IdMap<ProcessId, Execution>,
    of_task: IdMap<TaskId, BTreeSet<ProcessId>>,
    of_worker: BTreeMap<WorkerId, BTreeSet<ProcessId>>,
}

impl Executions {
    pub fn note(&mut self, happening: &Happening) {
        match *happening {
            Happening::ProcessStarted {
                place,
                worker,
                process,
                run,
            } if !run.task.is_healthcheck() => {
                self.live.insert(process, Execution { run, worker, place });
                self.of_task.entry(run.task).or_default().insert(process);
                self.of_worker.entry(worker).or_default().insert(process);
            }
            Happening::ProcessEnded { process, .. } => self.end(process),
            _ => {}
        }
    }

    fn end(&mut self, process: ProcessId) {
        let Some(execution) = self.live.remove(&process) else {
            return;
        };
        if let Some(processes) = self.of_task.get_mut(&execution.run.task) {
            processes.remove(&process);
            if processes.is_empty() {
                self.of_task.remove(&execution.run.task);
            }
        }
        if let Some(processes) = self.of_worker.get_mut(&execution.worker) {
            processes.remove(&process);
            if processes.is_empty() {
                self.of_worker.remove(&execution.worker);
            }
        }
    }

    pub fn get(&self, process: ProcessId) -> Option<&Execution> {
        self.live.get(&process)
    }

    pub fn of_task(&self, task: TaskId) -> impl Iterator<Item = (ProcessId, &Execution)> {
        self.named(self.of_task.get(&task))
    }

    pub fn of_worker(&self, worker: WorkerId) -> impl Iterator<Item = (ProcessId, &Execution)> {
        self.named(self.of_worker.get(&worker))
    }

    fn named<'a>(
        &'a self,
        processes: Option<&'a BTreeSet<ProcessId>>,
    ) -> impl Iterator<Item = (ProcessId, &'a Execution)> {
        let processes = processes.into_iter().flatten();
        processes.filter_map(|process| Some((*process, self.live.get(process)?)))
    }
}

/// Sleeping machines and stopped workers. A process on a sleeping machine executes nothing and cannot be killed. Shortly after the wake-up
/// its worker has not read the clock yet. Laws excuse both, because no program can prevent it, but only for that time.
#[derive(Clone, Debug, Default)]
pub struct Sleepers {
    machine: IdMap<WorkerPlace, MachineId>,
    /// The time of the last wake-up; `None` while the machine sleeps.
    woke: IdMap<MachineId, Option<Time>>,
    /// Processes that are stopped and cannot judge their own health. Their keepers do.
    stopped: IdSet<WorkerPlace>,
}

impl Sleepers {
    pub fn note(&mut self, when: Time, happening: &Happening) {
        match *happening {
            Happening::WorkerInstalled { place, machine } => {
                self.machine.insert(place, machine);
            }
            Happening::MachineSuspended { machine } => {
                self.woke.insert(machine, None);
            }
            Happening::MachineWoke { machine } => {
                self.woke.insert(machine, Some(when));
            }
            Happening::WorkerPaused { place } => {
                self.stopped.insert(place);
            }
            Happening::WorkerResumed { place } | Happening::WorkerStopped { place, .. } => {
                self.stopped.remove(&place);
            }
            _ => {}
        }
    }

    /// Returns whether the worker process of this place is stopped.
    pub fn is_stopped(&self, place: WorkerPlace) -> bool {
        self.stopped.contains(&place)
    }

    /// Returns the time until which processes of this place are excused; [`Time::NEVER`] while the machine sleeps, `None` if they are not.
    pub fn excused_until(&self, when: Time, place: WorkerPlace, world: &World<'_>) -> Option<Time> {
        match self.woke.get(self.machine.get(&place)?)? {
            None => Some(Time::NEVER),
            Some(woke) => {
                let kill = world.timeouts.suicide_task_kill_wait + world.keeper_delay + WAKING;
                let until = *woke + world.at_most(kill);
                (when < until).then_some(until)
            }
        }
    }
}
