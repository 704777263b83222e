//! Fake task processes: how long each runs, its final status, and its reaction to a kill.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{
    KillMethod, KillRequest, ReportedStatus, RunningTask, TaskKey, Time, WorkerId,
};

use crate::dice::Dice;
use crate::event_log::{ProcessEnd, ProcessId, Run, TaskId, WorkerPlace};

/// The behavior of tasks in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessFaults {
    /// Probabilities in parts per thousand.
    pub spawn_failure: u32,
    pub ends_badly: u32,
    pub ignores_term: u32,
    pub slow_kill: u32,
    /// The longest time that a task runs.
    pub longest: Duration,
}

/// The longest time between a signal and the end of a process that obeys it.
const PROMPT: Duration = Duration::from_millis(20);

/// One process.
#[derive(Clone, Debug)]
pub struct Process {
    pub id: ProcessId,
    pub place: WorkerPlace,
    /// The generation of the worker process that started it.
    pub generation: u32,
    pub worker: WorkerId,
    pub key: TaskKey,
    pub run: Run,
    pub status: ReportedStatus,
    pub ends_at: Time,
    pub how: ProcessEnd,
    ignores_term: bool,
}

/// Every living process of the world.
#[derive(Clone, Debug)]
pub struct Processes {
    alive: BTreeMap<ProcessId, Process>,
    last: u32,
    pub faults: ProcessFaults,
    /// The longest time that a keeper needs.
    keeper_delay: Duration,
    dice: Dice,
}

impl Processes {
    pub fn new(faults: ProcessFaults, keeper_delay: Duration, dice: Dice) -> Self {
        Processes {
            alive: BTreeMap::new(),
            last: 0,
            faults,
            keeper_delay,
            dice,
        }
    }

    /// Starts a process; `None` if it cannot be started.
    pub fn spawn(
        &mut self,
        now: Time,
        (place, generation, worker): (WorkerPlace, u32, WorkerId),
        task: &RunningTask,
    ) -> Option<&Process> {
        if self.dice.per_mille(self.faults.spawn_failure) {
            return None;
        }
        self.last += 1;
        let id = ProcessId(self.last);
        let healthcheck = task.is_healthcheck();
        let (length, status) = if healthcheck {
            let most = Duration::from_millis(200);
            (self.dice.skewed(PROMPT, most), ReportedStatus::done())
        } else {
            let least = Duration::from_millis(100);
            let length = self.dice.skewed(least, self.faults.longest);
            (length, self.end_of_task())
        };
        let ignores_term = !healthcheck && self.dice.per_mille(self.faults.ignores_term);
        let process = Process {
            id,
            place,
            generation,
            worker,
            key: task.key(),
            run: Run {
                task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
                invocation: task.invocation,
            },
            status,
            ends_at: now + length,
            how: ProcessEnd::Finished,
            ignores_term,
        };
        Some(self.alive.entry(id).or_insert(process))
    }

    fn end_of_task(&mut self) -> ReportedStatus {
        if !self.dice.per_mille(self.faults.ends_badly) {
            return ReportedStatus::done();
        }
        match self.dice.below(6) {
            0 => ReportedStatus::failed(),
            1 => ReportedStatus::incomplete(),
            2 => ReportedStatus::incomplete_backoff("gave up for now"),
            _ => ReportedStatus::error_backoff("did not work"),
        }
    }

    /// Signals a process. Returns it if its end has moved.
    pub fn kill(
        &mut self,
        now: Time,
        place: WorkerPlace,
        run: (&TaskKey, brasserie_common::InvocationId),
        kill: KillRequest,
    ) -> Option<&Process> {
        let delay = if self.dice.per_mille(self.faults.slow_kill) {
            self.dice.between(PROMPT, self.keeper_delay)
        } else {
            self.dice.between(Duration::from_millis(1), PROMPT)
        };
        let mut alive = self.alive.values_mut();
        let process =
            alive.find(|p| p.place == place && p.run.invocation == run.1 && p.key == *run.0)?;
        let after = match (kill.method, process.ignores_term) {
            (KillMethod::Kill, _) | (KillMethod::Term | KillMethod::TermWaitKill, false) => delay,
            (KillMethod::TermWaitKill, true) => kill.wait + delay,
            (KillMethod::Term, true) => return None,
        };
        process.end_by(now + after, ProcessEnd::Killed)
    }

    /// Lets the keeper end the processes of a worker that is dead or whose lease is over. Returns those whose end has moved.
    pub fn keeper(&mut self, now: Time, place: WorkerPlace) -> Vec<(ProcessId, Time)> {
        let mut moved = Vec::new();
        // The keeper waits up to the other half for a worker that is merely late.
        let most = self.keeper_delay / 2;
        for process in self.alive.values_mut().filter(|p| p.place == place) {
            let delay = self.dice.between(Duration::from_millis(1), most);
            if let Some(process) = process.end_by(now + delay, ProcessEnd::ByKeeper) {
                moved.push((process.id, process.ends_at));
            }
        }
        moved
    }

    /// Ends the process, unless its end has moved meanwhile.
    pub fn end(&mut self, now: Time, id: ProcessId) -> Option<Process> {
        if self.alive.get(&id)?.ends_at != now {
            return None;
        }
        self.alive.remove(&id)
    }

    /// Postpones the end of a process whose machine slept at that time.
    pub fn postpone(&mut self, id: ProcessId, until: Time) {
        if let Some(process) = self.alive.get_mut(&id) {
            process.ends_at = process.ends_at.max(until);
        }
    }

    /// Ends all processes of a place at once after a power loss.
    pub fn power_lost(&mut self, place: WorkerPlace) -> Vec<Process> {
        let lost: Vec<ProcessId> = self
            .alive
            .values()
            .filter(|p| p.place == place)
            .map(|p| p.id)
            .collect();
        lost.into_iter()
            .filter_map(|id| self.alive.remove(&id))
            .collect()
    }

    pub fn of(&self, place: WorkerPlace) -> impl Iterator<Item = &Process> {
        self.alive.values().filter(move |p| p.place == place)
    }

    /// Ends all faults: processes that start from now on are short and succeed.
    pub fn calm(&mut self) {
        self.faults = ProcessFaults {
            spawn_failure: 0,
            ends_badly: 0,
            ignores_term: 0,
            slow_kill: 0,
            longest: self.faults.longest.min(Duration::from_secs(20)),
        };
    }
}

impl Process {
    fn end_by(&mut self, at: Time, how: ProcessEnd) -> Option<&Process> {
        if self.ends_at <= at {
            return None;
        }
        self.ends_at = at;
        self.how = how;
        self.status = ReportedStatus::incomplete_backoff("killed");
        Some(self)
    }
}
