//! Starts and ends of schedulers with their disks, of workers, and of task processes.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::health::timeouts::KEEPER_DELAY;
use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::worker::{Intake, PROTOCOL_VERSION, Supply};
use brasserie_common::{
    Health, InvocationId, KillMethod, KillRequest, MachinePortLock, ReportedStatus, RunningTask,
    ServiceAddress, Shard, TaskKey, WorkerDescription, WorkerId,
};
use brasserie_scheduler_core::credits::RequestPolicy;
use brasserie_scheduler_core::{Answer, Options as SchedulerOptions, Query, Retention};
use brasserie_worker_core::Options as WorkerOptions;

use super::packets::{FIRST_PORT, Packet, PacketContent};
use super::{BOTH, CALL_DEADLINE, Caller, FIRST, Pace, SmallWorld, TaskProcess};
use crate::event_log::{CallTag, Run, SchedulerPlace, TaskId, WorkerPlace};
use crate::hosts::scheduler::SchedulerInput;
use crate::hosts::worker::WorkerInput;
use crate::search::settings::{NewCluster, TaskExit};

/// How long tasks run in a calm world.
const CALM_TASK: Duration = Duration::from_secs(1);

impl SmallWorld {
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }

    pub(super) fn may_start_scheduler(&self, place: SchedulerPlace) -> bool {
        self.scheduler(place).core().is_none() && self.directory(place).holder().is_none()
    }

    pub(super) fn start_scheduler(&mut self, place: SchedulerPlace) {
        let Ok(durable) = self.directory_mut(place).open(place) else {
            return;
        };
        self.judge.reads(&durable);
        let is_first = std::mem::take(&mut self.is_first);
        let options = SchedulerOptions {
            timeouts: self.settings.timeouts(is_first),
            allow_bump_unhealthy_worker: self.settings.bump_unhealthy,
            startup_wait: None,
            new_cluster: is_first || self.settings.new_cluster == NewCluster::Always,
            call_deadline: CALL_DEADLINE,
            work: RequestPolicy::default(),
            retention: Retention::UNLIMITED,
            slots: brasserie_scheduler_core::SlotStrategy::RoundRobin,
            seed: self.draw(),
        };
        let clocks = (self.now, self.wall());
        let directory = crate::event_log::DirectoryId(place.0);
        let mut out = Vec::new();
        let host = &mut self.schedulers[usize::from(place.0)];
        host.start(
            options,
            (directory, 0, durable),
            clocks,
            &mut out,
            &mut self.log,
        );
        self.scheduler_outputs(place, out);
        if self.has_config {
            self.load_config(place);
        }
        // Workers that were connected to the predecessor notice its end now.
        for at in 0..self.workers.len() {
            let worker = WorkerPlace(at as u16);
            if self.post(worker).route == place && !self.post(worker).is_cut {
                self.drive_worker(worker, WorkerInput::ConnectionLost);
            }
        }
    }

    /// Makes the configuration with the tasks available from now on.
    pub(super) fn submit(&mut self) {
        self.has_config = true;
        for place in BOTH {
            if self.scheduler(place).core().is_some() {
                self.load_config(place);
            }
        }
    }

    pub(super) fn load_config(&mut self, place: SchedulerPlace) {
        let (config, nodes) = self.config.clone();
        self.drive_scheduler(place, SchedulerInput::Loaded { config, nodes });
    }

    /// Ends the process. The first `kept` of its unsynced records had reached the disk.
    pub(super) fn scheduler_gone(&mut self, place: SchedulerPlace, kept: usize) {
        self.directory_mut(place).crash(kept);
        let waiting = self.scheduler(place).open_tags();
        self.schedulers[usize::from(place.0)].crash();
        self.open
            .retain(|_, open| open.caller != Caller::Scheduler(place));
        self.drop_orphans();
        for tag in waiting {
            self.fail(tag, PacketContent::Unknown);
        }
    }

    /// Removes answers that no caller waits for.
    pub(super) fn drop_orphans(&mut self) {
        let open = &self.open;
        let is_wanted = |packet: &Packet| match packet {
            Packet::Back { tag, .. } => open.contains_key(tag),
            Packet::ToScheduler { .. } | Packet::ToWorker { .. } => true,
        };
        self.packets.retain(is_wanted);
    }

    /// Returns whether a worker may start (R23): no process of the predecessor is alive, or only the successor will end it.
    pub(super) fn may_start_worker(&self, place: WorkerPlace) -> bool {
        let mut left = self.processes.iter().filter(|p| p.place == place);
        self.worker(place).core().is_none()
            && (left.all(|p| p.dies_by.is_none()) || sabotage::on(Sabotage::SuccessorBeforeTheDead))
    }

    pub(super) fn start_worker(&mut self, place: WorkerPlace) {
        if !sabotage::on(Sabotage::SuccessorBeforeTheDead) {
            self.processes.retain(|p| p.place != place);
        }
        let options = WorkerOptions {
            call_deadline: CALL_DEADLINE,
            ..WorkerOptions::new(self.describe(place))
        };
        let clocks = (self.now, self.wall());
        let mut out = Vec::new();
        let host = &mut self.workers[usize::from(place.0)];
        host.start(options, clocks, &mut out, &mut self.log);
        self.worker_outputs(place, out);
    }

    /// Returns whether an operator may declare the worker dead: either it is dead with all its tasks, or by mistake it has reported so
    /// recently that the scheduler must refuse.
    pub(super) fn may_forget(&self, place: WorkerPlace) -> bool {
        let (Some(core), Some(id)) = (self.scheduler(FIRST).core(), self.post(place).worker) else {
            return false;
        };
        if self.worker(place).core().is_none() {
            return self.processes.iter().all(|p| p.place != place);
        }
        let Answer::Status(status) = core.answer(self.now, &Query::Status) else {
            return false;
        };
        let lately = Duration::from_secs(self.settings.lose_after) / 2;
        status.workers.iter().any(|w| {
            let is_heard = w.since_heartbeat.is_some_and(|ago| ago < lately);
            w.id == id && w.health != Health::MustDie && is_heard
        })
    }

    pub(super) fn forget_worker(&mut self, place: WorkerPlace) {
        let shard = self.shard_of(place);
        if let Some(worker) = self.post(place).worker {
            self.drive_scheduler(FIRST, SchedulerInput::ForgetWorker { shard, worker });
        }
    }

    fn shard_of(&self, place: WorkerPlace) -> Shard {
        let shard = self.settings.places[usize::from(place.0)];
        let shard = Shard::try_from(format!("shard{shard}"));
        shard.expect("Invariant: a short name without NUL")
    }

    fn describe(&mut self, place: WorkerPlace) -> WorkerDescription {
        let rand = i64::try_from(self.draw()).unwrap_or(i64::MAX);
        let second = self.wall().as_secs();
        let shard = self.shard_of(place);
        let post = self.post_mut(place);
        post.last_start_time = second.max(post.last_start_time + 1);
        let id = WorkerId::new(post.last_start_time, rand);
        post.worker = Some(id);
        let host: Arc<str> = format!("m{}", place.0).into();
        WorkerDescription {
            shard,
            machine_lock: MachinePortLock {
                hostname: host.clone(),
                port: 1,
            },
            address: ServiceAddress {
                host,
                port: FIRST_PORT + place.0,
            },
            id,
            heartbeat_period: Duration::from_secs(1),
            protocol_version: PROTOCOL_VERSION,
            usable: UsablePhysicalResources {
                cpu_cores: 2.0,
                ..UsablePhysicalResources::default()
            },
            has_worker_command: false,
            intake: Intake::Open,
            supply: Supply::AsSlotsAllow,
            room: None,
            containment: None,
            log_folder: None,
            takes_standby: self.settings.standby,
        }
    }

    /// Handles the end of a worker process. Its keeper ends the remaining processes.
    pub(super) fn worker_gone(&mut self, place: WorkerPlace) {
        let by = self.now + KEEPER_DELAY;
        for process in self.processes.iter_mut().filter(|p| p.place == place) {
            process.dies_by = Some(process.dies_by.map_or(by, |at| at.min(by)));
        }
        self.worker_and_keeper_gone(place);
    }

    /// Ends a worker with its keeper. Its tasks go on unless they were signalled.
    pub(super) fn worker_and_keeper_gone(&mut self, place: WorkerPlace) {
        self.workers[usize::from(place.0)].crash();
        self.open
            .retain(|_, open| open.caller != Caller::Worker(place));
        self.drop_orphans();
    }

    pub(super) fn spawn(&mut self, place: WorkerPlace, task: &RunningTask) {
        let generation = self.worker(place).generation();
        let key = task.key();
        if task.is_healthcheck() {
            let input = WorkerInput::TaskEnded {
                task: key,
                invocation: task.invocation,
                status: ReportedStatus::done(),
            };
            return self.drive_worker(place, input);
        }
        let run = Run {
            task: TaskId::from_names(task.job.as_str(), task.node.as_str()),
            invocation: task.invocation,
        };
        let alive = self.alive(run);
        self.judge.starts(run, alive);
        let mut beside = self.processes.iter();
        if self.settings.standby
            && beside.any(|other| other.place == place && other.generation == generation)
        {
            self.judge.starts_without_slot(run);
        }
        let dies_by = (self.pace == Pace::AllAtOnce).then(|| self.now + CALM_TASK);
        self.processes.push(TaskProcess {
            place,
            generation,
            key,
            invocation: task.invocation,
            task: run.task,
            dies_by,
        });
    }

    pub(super) fn kill(
        &mut self,
        place: WorkerPlace,
        (key, invocation): (&TaskKey, InvocationId),
        kill: KillRequest,
    ) {
        let by = match kill.method {
            KillMethod::Kill => self.now + KEEPER_DELAY,
            KillMethod::TermWaitKill => self.now + kill.wait + KEEPER_DELAY,
            KillMethod::Term => return,
        };
        let mut processes = self.processes.iter_mut();
        let process =
            processes.find(|p| p.place == place && p.invocation == invocation && p.key == *key);
        if let Some(process) = process {
            process.dies_by = Some(process.dies_by.map_or(by, |at| at.min(by)));
        }
    }

    pub(super) fn process_ends(&mut self, at: usize, how: TaskExit) {
        let process = self.processes.remove(at);
        let status = match how {
            TaskExit::Done => ReportedStatus::done(),
            TaskExit::Killed if self.pace == Pace::AllAtOnce => ReportedStatus::done(),
            TaskExit::Error => ReportedStatus::error_backoff("did not work"),
            TaskExit::Killed => ReportedStatus::incomplete_backoff("killed"),
        };
        if self.worker(process.place).generation() == process.generation {
            let input = WorkerInput::TaskEnded {
                task: process.key,
                invocation: process.invocation,
                status,
            };
            self.drive_worker(process.place, input);
        }
    }

    /// Returns whether a caller still waits for the answer with this tag, which only a packet under way can bring.
    pub(super) fn is_awaited(&self, tag: CallTag) -> bool {
        self.open.contains_key(&tag)
    }
}
