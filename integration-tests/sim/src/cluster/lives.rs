//! The lives of processes: starts, ends, pauses and wake-ups, and their disks meanwhile.

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::worker::{Intake, PROTOCOL_VERSION, Supply};
use brasserie_common::{
    MachinePortLock, RecordSeq, ServiceAddress, Shard, Timeouts, WorkerDescription, WorkerId,
};
use brasserie_scheduler_core::credits::RequestPolicy;
use brasserie_scheduler_core::{Options as SchedulerOptions, Record};
use brasserie_worker_core::{ExitReason, Options as WorkerOptions, WorkFetch};

use super::packets::FIRST_PORT;
use super::{Caller, Cluster, Due, FIRST, PacketOutcome};
use crate::event_log::{
    DirectoryId, FaultKind, Happening, MachineId, SchedulerPlace, SchedulerStop, WorkerPlace,
    WorkerStop,
};
use crate::hosts::scheduler::SchedulerInput;
use crate::hosts::worker::WorkerInput;
use crate::swarm::StartSeconds;

/// The scheduler's deadline for calls: its shell's timeouts and a second.
const SCHEDULER_CALL_DEADLINE: Duration = Duration::from_secs(5);
/// The worker's deadline for calls: a call may be tried on two connections.
pub(crate) const WORKER_CALL_DEADLINE: Duration = Duration::from_secs(7);

/// How long a keeper waits for a worker that is merely late.
const KEEPER_PATIENCE: Duration = Duration::from_millis(250);

/// How a store that cannot write behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreNotice {
    /// Each attempt returns an error.
    Fails,
    /// A system call does not return.
    StandsStill,
}

impl Cluster {
    pub(super) fn start_scheduler(&mut self, place: SchedulerPlace) {
        if self.scheduler(place).core().is_some() {
            return;
        }
        let is_mended = std::mem::take(&mut self.scheduler_post_mut(place).set_clock);
        if is_mended {
            self.set_clock_right();
        }
        let directory = self.scheduler_post(place).directory;
        let durable = match self.directories[usize::from(directory.0)].open(place) {
            Ok(durable) => durable,
            Err(_locked) => return self.fault(FaultKind::LockRefused),
        };
        let timeouts = self.flags_of_next_start(is_mended);
        let restored = self.scheduler_post(place).is_restored;
        let options = SchedulerOptions {
            timeouts,
            allow_bump_unhealthy_worker: self.bump,
            startup_wait: restored.then(|| timeouts.min_safe_wait()),
            new_cluster: self.new_cluster,
            call_deadline: SCHEDULER_CALL_DEADLINE,
            work: RequestPolicy::default(),
            retention: self.swarm.retention,
            slots: brasserie_scheduler_core::SlotStrategy::RoundRobin,
            seed: self.identities.next_u64(),
        };
        let clocks = self.clocks_of(self.scheduler_post(place).machine);
        let post = self.scheduler_post_mut(place);
        (post.frozen, post.is_busy) = (None, false);
        post.syncing = None;
        self.stats.core_events += 1;
        let host = &mut self.schedulers[usize::from(place.0)];
        let outputs = &mut self.scheduler_outputs;
        let store = self.directories[usize::from(directory.0)].store();
        let on = (directory, store, durable);
        host.start(options, on, clocks, outputs, &mut self.log);
        let generation = host.generation();
        self.after_scheduler_turn(place);
        if self.store_failing {
            self.drive_scheduler(place, SchedulerInput::StoreFailed);
        }
        let after = self
            .chance
            .skewed(Duration::from_millis(1), Duration::from_secs(3));
        self.config_comes(after, place, generation);
    }

    /// Draws the flags of the next start; the unit file may have changed since the last one. An operator who starts a scheduler on a
    /// directory that has forgotten something gives it the longest timeouts that workers may have from before.
    fn flags_of_next_start(&mut self, forgot: bool) -> Timeouts {
        if self.swarm.mixed_bump {
            self.bump = self.chance.per_mille(500);
        }
        let settings = self.swarm.settings.clone();
        let drawn = self.chance.pick(&settings).copied();
        drawn.filter(|_| !forgot).unwrap_or(self.swarm.timeouts)
    }

    /// Ends the process, and loses all or some of the unsynced records.
    pub(super) fn crash_scheduler(&mut self, place: SchedulerPlace, how: SchedulerStop) {
        let Some(core) = self.scheduler(place).core() else {
            return;
        };
        let scheduler = core.id();
        let directory = self.scheduler_post(place).directory;
        let disk = &mut self.directories[usize::from(directory.0)];
        let kept = self.disks.below(disk.unsynced().count() + 1);
        let lost = disk.crash(kept);
        let after = disk.synced();
        self.schedulers[usize::from(place.0)].crash();
        let post = self.scheduler_post_mut(place);
        (post.frozen, post.is_busy) = (None, false);
        self.log.push(Happening::SchedulerStopped {
            place,
            scheduler,
            how,
        });
        if lost > 0 {
            self.seen_faults.push(FaultKind::UnsyncedLost);
            self.log.push(Happening::TailLost {
                directory,
                scheduler,
                after,
            });
        }
        self.connections_break(place);
        self.break_open_calls(place);
    }

    /// Breaks the open calls to a process that is gone.
    fn break_open_calls(&mut self, gone: SchedulerPlace) {
        let mut broken = Vec::new();
        for (tag, caller) in &self.open {
            if let Caller::Worker { callee, .. } = caller
                && *callee == gone
            {
                broken.push(*tag);
            }
        }
        for tag in broken {
            if self.chance.per_mille(700) {
                let outcome = PacketOutcome::TimedOut;
                let after = self.network.faults.delay;
                self.queue
                    .push(self.now + after, Due::Known { tag, outcome });
            }
        }
    }

    pub(super) fn start_scheduler_after(&mut self, place: SchedulerPlace, after: Duration) {
        self.queue
            .push(self.now + after, Due::StartScheduler { place });
    }

    /// Handles a scheduler that steps down. Its service manager starts it again if it belongs to that place.
    pub(super) fn scheduler_steps_down(&mut self, place: SchedulerPlace) {
        self.crash_scheduler(place, SchedulerStop::SteppedDown);
        if place != FIRST {
            return;
        }
        // The operator reads why it ended. While the newer scheduler is alive, the clock needs no correction.
        if self.scheduler(super::SECOND).core().is_none() {
            self.scheduler_post_mut(place).set_clock = true;
        }
        let after = self.downtime();
        self.start_scheduler_after(place, after);
    }

    pub(super) fn write_record(&mut self, place: SchedulerPlace, seq: RecordSeq, record: Record) {
        let directory = self.scheduler_post(place).directory;
        self.directories[usize::from(directory.0)].write(seq, record);
        self.begin_sync(place);
    }

    fn begin_sync(&mut self, place: SchedulerPlace) {
        let directory = self.scheduler_post(place).directory;
        let disk = &self.directories[usize::from(directory.0)];
        let nothing_to_do = disk.written() == disk.synced();
        if nothing_to_do || self.store_failing || self.scheduler_post(place).syncing.is_some() {
            return;
        }
        let up_to = disk.written();
        let usual = self.swarm.sync_delay;
        let most = if self.now < self.slow_sync_until {
            Duration::from_secs(3)
        } else {
            usual
        };
        let after = self.disks.skewed(usual / 4, most);
        let generation = self.scheduler(place).generation();
        self.scheduler_post_mut(place).syncing = Some(up_to);
        let due = Due::Sync {
            directory,
            place,
            generation,
        };
        self.queue.push(self.now + after, due);
    }

    pub(super) fn sync(&mut self, directory: DirectoryId, place: SchedulerPlace, generation: u32) {
        let host = self.scheduler(place);
        let Some(core) = host.core().filter(|_| host.generation() == generation) else {
            return;
        };
        let scheduler = core.id();
        let Some(up_to) = self.scheduler_post_mut(place).syncing.take() else {
            return;
        };
        if self.store_failing {
            return;
        }
        if !sabotage::on(Sabotage::AcknowledgeBeforeSync) {
            self.directories[usize::from(directory.0)].sync(up_to);
            self.log.push(Happening::Synced {
                directory,
                scheduler,
                up_to,
            });
        }
        self.drive_scheduler(place, SchedulerInput::Persisted(up_to));
        self.begin_sync(place);
    }

    pub(super) fn store_fails(&mut self, duration: Duration, notice: StoreNotice) {
        self.store_failing = true;
        let directory = self.scheduler_post(FIRST).directory;
        self.queue
            .push(self.now + duration, Due::StoreHeals { directory });
        match notice {
            StoreNotice::Fails => self.drive_scheduler(FIRST, SchedulerInput::StoreFailed),
            StoreNotice::StandsStill => {}
        }
    }

    pub(super) fn store_heals(&mut self, _directory: DirectoryId) {
        if !self.store_failing {
            return;
        }
        self.store_failing = false;
        for place in [FIRST, super::SECOND] {
            if self.scheduler(place).core().is_some() {
                self.drive_scheduler(place, SchedulerInput::StoreRecovered);
                self.begin_sync(place);
            }
        }
    }

    pub(super) fn start_worker_after(&mut self, place: WorkerPlace, after: Duration) {
        let post = self.worker_post_mut(place);
        if !post.start_is_due {
            post.start_is_due = true;
            self.queue
                .push(self.now + after, Due::StartWorker { place });
        }
    }

    /// Starts a worker (R23), unless a process of the predecessor is alive.
    pub(super) fn start_worker(&mut self, place: WorkerPlace) {
        self.worker_post_mut(place).start_is_due = false;
        if self.worker(place).core().is_some() || self.worker_post(place).is_retired {
            return;
        }
        let may_follow_at_once = sabotage::on(Sabotage::SuccessorBeforeTheDead);
        if self.processes.of(place).next().is_some() && !may_follow_at_once {
            return self.start_worker_after(place, Duration::from_millis(100));
        }
        let mut description = self.describe(place);
        let id = description.id;
        let fetching = self.swarm.fetching.of(place).cloned();
        if fetching.is_some() {
            description.usable.cpu_cores = self.workload.draw_cores();
        }
        let mut options = WorkerOptions {
            call_deadline: WORKER_CALL_DEADLINE,
            ..WorkerOptions::new(description)
        };
        if let Some(own) = fetching {
            let seed = self.identities.next_u64();
            options.work_fetch = Some(WorkFetch::new(own.profile, seed));
            // The network routes calls to the present scheduler.
            options.associations[0].members = vec![ServiceAddress::default()];
        }
        let clocks = self.clocks_of(self.worker_machine(place));
        self.worker_post_mut(place).frozen = None;
        self.stats.core_events += 1;
        let host = &mut self.workers[usize::from(place.0)];
        let outputs = &mut self.worker_outputs;
        host.start(options, clocks, outputs, &mut self.log);
        self.after_worker_turn(place, Some(id));
    }

    fn describe(&mut self, place: WorkerPlace) -> WorkerDescription {
        let plan = self.swarm.places[usize::from(place.0)].clone();
        let (_, wall) = self.clocks_of(plan.machine);
        let rand = self.identities.next_i64();
        // The worker's directory remembers the last start second and never repeats or precedes it. Without a directory only the clock
        // decides.
        let step = match self.swarm.start_seconds {
            StartSeconds::Distinct => 1,
            StartSeconds::MayRepeat => 0,
        };
        let post = self.worker_post_mut(place);
        post.last_start_time = wall.as_secs().max(post.last_start_time + step);
        let id = WorkerId::new(post.last_start_time, rand);
        let host: std::sync::Arc<str> = format!("m{}", plan.machine.0).into();
        let name = format!("shard{}", plan.shard);
        WorkerDescription {
            shard: Shard::try_from(name).expect("Invariant: a short name without NUL"),
            machine_lock: MachinePortLock {
                hostname: host.clone(),
                port: plan.lock_port,
            },
            address: ServiceAddress {
                host,
                port: FIRST_PORT + place.0,
            },
            id,
            heartbeat_period: self.swarm.heartbeat_period,
            protocol_version: PROTOCOL_VERSION,
            usable: self.workload.draw_machine(),
            has_worker_command: false,
            intake: Intake::Open,
            supply: Supply::AsSlotsAllow,
            room: self.workload.draw_room(),
            containment: None,
            log_folder: None,
            takes_standby: self.workload.draw_takes_standby(),
        }
    }

    pub(super) fn downtime(&mut self) -> Duration {
        let most = self.swarm.longest_downtime;
        self.chance.skewed(Duration::from_millis(50), most)
    }

    pub(super) fn kill_worker(&mut self, place: WorkerPlace) {
        let Some(worker) = self.worker(place).worker() else {
            return;
        };
        self.workers[usize::from(place.0)].crash();
        self.worker_post_mut(place).frozen = None;
        let how = WorkerStop::Killed;
        self.log
            .push(Happening::WorkerStopped { place, worker, how });
        self.remember_ended(place, worker);
        self.keeper_ends_all(place);
        let after = self.downtime();
        self.start_worker_after(place, after);
    }

    pub(super) fn worker_exits(
        &mut self,
        place: WorkerPlace,
        worker: WorkerId,
        reason: ExitReason,
    ) {
        let how = WorkerStop::Exited(reason);
        self.log
            .push(Happening::WorkerStopped { place, worker, how });
        self.keeper_ends_all(place);
        let after = self.downtime() + Duration::from_secs(1);
        self.start_worker_after(place, after);
    }

    pub(super) fn shut_worker_down(&mut self, place: WorkerPlace) {
        self.drive_worker(place, WorkerInput::Shutdown);
    }

    /// Renews the lease, like the worker's driver after each turn.
    pub(super) fn renew_lease(&mut self, place: WorkerPlace) {
        let lease = self.worker(place).core().and_then(|core| {
            let until = core.tasks_may_live_until()?;
            Some(until + core.kill_wait() + KEEPER_PATIENCE)
        });
        self.worker_post_mut(place).lease = lease;
    }

    /// Starts the keeper's watch over the lease. Only a stopped worker fails to renew it.
    fn watch_lease(&mut self, place: WorkerPlace) {
        if let Some(lease) = self.worker_post(place).lease {
            let clock = &self.clocks[usize::from(self.worker_machine(place).0)];
            let at = clock.when(lease).max(self.now);
            let generation = self.worker(place).generation();
            self.queue.push(at, Due::Lease { place, generation });
        }
    }

    pub(super) fn lease_over(&mut self, place: WorkerPlace, generation: u32) {
        let (now, _) = self.clocks_of(self.worker_machine(place));
        let post = self.worker_post(place);
        let is_over = post.lease.is_some_and(|lease| lease <= now);
        let is_stopped = post.frozen.is_some() && self.worker(place).generation() == generation;
        if is_over && is_stopped {
            self.kill_worker(place);
        }
    }

    pub(super) fn freeze_worker(&mut self, place: WorkerPlace, duration: Duration) -> bool {
        if self.worker(place).core().is_none() || self.worker_post(place).frozen.is_some() {
            return false;
        }
        self.worker_post_mut(place).frozen = Some(Vec::new());
        self.watch_lease(place);
        self.log.push(Happening::WorkerPaused { place });
        self.queue
            .push(self.now + duration, Due::ThawWorker { place });
        true
    }

    pub(super) fn thaw_worker(&mut self, place: WorkerPlace) {
        if self.is_suspended(self.worker_machine(place)) {
            return;
        }
        if let Some(mut inputs) = self.worker_post_mut(place).frozen.take() {
            self.log.push(Happening::WorkerResumed { place });
            inputs.push(WorkerInput::Wake);
            self.turn_worker(place, &mut inputs);
        }
    }

    pub(super) fn freeze_scheduler(&mut self, place: SchedulerPlace, duration: Duration) -> bool {
        if self.scheduler(place).core().is_none() || self.scheduler_post(place).frozen.is_some() {
            return false;
        }
        self.scheduler_post_mut(place).frozen = Some(Vec::new());
        self.log.push(Happening::SchedulerPaused { place });
        self.queue
            .push(self.now + duration, Due::ThawScheduler { place });
        true
    }

    pub(super) fn thaw_scheduler(&mut self, place: SchedulerPlace) {
        if self.is_suspended(self.scheduler_post(place).machine) {
            return;
        }
        let post = self.scheduler_post_mut(place);
        let was_busy = std::mem::take(&mut post.is_busy);
        let Some(mut inputs) = post.frozen.take() else {
            return;
        };
        if !was_busy {
            self.log.push(Happening::SchedulerResumed { place });
            inputs.push(SchedulerInput::Wake);
        }
        if !inputs.is_empty() {
            self.turn_scheduler(place, &mut inputs);
        }
    }

    /// Suspends the whole machine with its processes and tasks. Its boot clock goes on.
    pub(super) fn suspend(&mut self, machine: MachineId, duration: Duration) -> bool {
        let places = self.workers_on(machine);
        let schedulers = self.schedulers_on(machine);
        let one_is_frozen = places.iter().any(|p| self.worker_post(*p).frozen.is_some())
            || schedulers
                .iter()
                .any(|p| self.scheduler_post(*p).frozen.is_some());
        if self.is_suspended(machine) || one_is_frozen {
            return false;
        }
        self.suspended[usize::from(machine.0)] = Some(self.now);
        self.log.push(Happening::MachineSuspended { machine });
        for place in places {
            self.worker_post_mut(place).frozen = Some(Vec::new());
            self.watch_lease(place);
            self.log.push(Happening::WorkerPaused { place });
        }
        for place in schedulers {
            self.scheduler_post_mut(place).frozen = Some(Vec::new());
        }
        self.queue
            .push(self.now + duration, Due::WakeMachine { machine });
        true
    }

    pub(super) fn wake_machine(&mut self, machine: MachineId) {
        let Some(since) = self.suspended[usize::from(machine.0)].take() else {
            return;
        };
        if sabotage::on(Sabotage::IgnoreSuspend) {
            let slept = self.now.since(since);
            self.clocks[usize::from(machine.0)].sleep_uncounted(slept);
        }
        self.log.push(Happening::MachineWoke { machine });
        let deferred = std::mem::take(&mut self.deferred);
        for (owner, due) in deferred {
            if owner != machine {
                self.deferred.push((owner, due));
                continue;
            }
            let most = Duration::from_millis(500);
            let at = self.now + self.chance.between(Duration::from_millis(1), most);
            if let Due::ProcessEnds { process, .. } = due {
                self.processes.postpone(process, at);
            }
            self.queue.push(at, due);
        }
        for place in self.workers_on(machine) {
            self.thaw_worker(place);
        }
        for place in self.schedulers_on(machine) {
            self.thaw_scheduler(place);
        }
    }

    pub(super) fn workers_on(&self, machine: MachineId) -> Vec<WorkerPlace> {
        let plans = self.swarm.places.iter().filter(|p| p.machine == machine);
        plans.map(|plan| plan.place).collect()
    }

    pub(super) fn schedulers_on(&self, machine: MachineId) -> Vec<SchedulerPlace> {
        [FIRST, super::SECOND]
            .into_iter()
            .filter(|place| self.scheduler_post(*place).machine == machine)
            .collect()
    }
}
