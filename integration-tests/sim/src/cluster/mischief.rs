//! Faults that are injected one by one, changes of the work meanwhile, and the end of all faults.

use std::time::Duration;

use brasserie_common::{Health, Shard, WorkerSetId};
use brasserie_worker_core::Goodbye;

use super::lives::StoreNotice;
use super::{Cluster, Due, FIRST, SECOND};
use crate::event_log::{
    CallTag, DirectoryId, FaultKind, Happening, MachineId, SchedulerStop, WorkerPlace,
};
use crate::hosts::ToScheduler;
use crate::hosts::worker::WorkerInput;
use crate::swarm::{Restores, Variant};
use crate::view::{Contract, Phase};
use crate::workload::Workload;

/// Longer than any timeout of a default run, so that partitions lose workers.
const LONGEST_PARTITION: Duration = Duration::from_secs(1500);
const SHORT_STORE_FAILURE: Duration = Duration::from_secs(300);
/// A scheduler may sleep for any time, because its workers end themselves.
const LONGEST_SCHEDULER_SLEEP: Duration = Duration::from_secs(1200);
/// Wall clocks jump by hours.
const WALL_JUMP_MILLIS: i64 = 6 * 3600 * 1000;
/// The number of old copies of a directory that are kept for restoring.
const MAX_BACKUPS: usize = 4;
/// The number of quick successive crashes of a scheduler.
const MAX_CRASHES_IN_A_ROW: usize = 4;

impl Cluster {
    pub(super) fn mischief(&mut self, kind: FaultKind) {
        if self.phase != Phase::Faults {
            if kind == FaultKind::OperatorOrders {
                self.operator_recommissions();
            }
            return;
        }
        if self.inflict(kind) {
            self.fault(kind);
        }
        let mean = self.swarm.faults.iter().find(|(k, _)| *k == kind);
        if let Some((_, mean)) = mean {
            let after = self.chance.around(*mean);
            self.queue.push(self.now + after, Due::Mischief(kind));
        }
    }

    /// Injects the fault. Returns whether it was possible.
    fn inflict(&mut self, kind: FaultKind) -> bool {
        match kind {
            FaultKind::ConnectionBroken => {
                let place = self.any_place();
                self.connection_lost(place);
                true
            }
            FaultKind::Partition => self.partition(Directions::Both),
            FaultKind::AsymmetricPartition => self.partition(Directions::One),
            FaultKind::SlowLink => self.slow_link(),
            FaultKind::SchedulerCrash => self.scheduler_crash(),
            FaultKind::WorkerKilled => self.kill_any_worker(),
            FaultKind::WorkerShutdown => self.end_any_worker(WorkerInput::Shutdown),
            FaultKind::WorkerDrain => self.end_any_worker(WorkerInput::Drain),
            FaultKind::MassRestart => self.mass_restart(),
            FaultKind::SchedulerPause => {
                let most = LONGEST_SCHEDULER_SLEEP;
                let duration = self.chance.skewed(Duration::from_millis(100), most);
                self.freeze_scheduler(FIRST, duration)
            }
            FaultKind::WorkerPause => {
                let place = self.any_place();
                let duration = self.freeze_length();
                self.freeze_worker(place, duration)
            }
            FaultKind::Suspend => {
                let machine = self.any_machine();
                let duration = self.freeze_length();
                self.suspend(machine, duration)
            }
            FaultKind::WallJump => self.wall_jump(),
            FaultKind::StoreFailure => self.store_failure(),
            FaultKind::SlowSync => {
                let duration = self.chance.around(Duration::from_secs(60));
                self.slow_sync_until = self.now + duration;
                true
            }
            FaultKind::StaleCopy => self.stale_copy(),
            FaultKind::LostDirectory => self.lose_directory(),
            FaultKind::SecondScheduler => self.second_scheduler(),
            FaultKind::LockRefused => {
                self.try_locked_directory();
                // The refused start is counted elsewhere.
                false
            }
            FaultKind::ConfigChange => self.change_config(Workload::change_jobs),
            FaultKind::NodesChange => self.change_config(Workload::change_nodes),
            FaultKind::OperatorKill => self.operator_kill(),
            FaultKind::OperatorForgives => self.operator_forgives(),
            FaultKind::OperatorForgets => self.operator_forgets(),
            FaultKind::OperatorForgetsWorker => self.operator_forgets_worker(),
            FaultKind::OperatorOrders => self.operator_orders(),
            FaultKind::MachineCrash => self.machine_crash(),
            FaultKind::StrayHeartbeat => self.stray_heartbeat(),
            FaultKind::DisksLost
            | FaultKind::CopyDamaged
            | FaultKind::CopyMissing
            | FaultKind::DiskFull => self.harm_store(kind),
            // Faults of packets and processes are drawn where they happen.
            FaultKind::RequestLost
            | FaultKind::ReplyLost
            | FaultKind::SlowPacket
            | FaultKind::DuplicateRequest
            | FaultKind::LateDuplicate
            | FaultKind::ConnectionRefused
            | FaultKind::UnsyncedLost
            | FaultKind::SpawnFailure
            | FaultKind::SlowKill => false,
        }
    }

    fn change_config(&mut self, change: fn(&mut Workload)) -> bool {
        change(&mut self.workload);
        self.config_changed();
        true
    }

    /// Lets the operator end some worker.
    fn end_any_worker(&mut self, how: WorkerInput) -> bool {
        let place = self.any_place();
        self.drive_worker(place, how);
        true
    }

    fn kill_any_worker(&mut self) -> bool {
        let place = self.any_place();
        let can = !self.is_suspended(self.worker_machine(place));
        if can {
            self.kill_worker(place);
        }
        can
    }

    fn store_failure(&mut self) -> bool {
        // Mostly short; some outlast every worker that is unhealthy meanwhile.
        let loss = self.swarm.timeouts.lose_unhealthy_worker_after;
        let duration = match self.chance.per_mille(150) {
            true => self.chance.between(loss, loss * 2),
            false => self
                .chance
                .skewed(Duration::from_secs(1), SHORT_STORE_FAILURE),
        };
        let can = !self.store_failing;
        if can {
            let notice = match self.chance.per_mille(300) {
                true => StoreNotice::StandsStill,
                false => StoreNotice::Fails,
            };
            self.store_fails(duration, notice);
        }
        can
    }

    pub(super) fn any_place(&mut self) -> WorkerPlace {
        // One worker of such a run lasts. A newcomer that knows no lasting worker may have to wait for the loss of those that left.
        let spared = self.spared();
        let at = spared + self.chance.below(self.workers.len() - spared);
        self.workers[at.min(self.workers.len() - 1)].place()
    }

    fn spared(&self) -> usize {
        usize::from(self.swarm.variant == Variant::Turnover)
    }

    fn any_machine(&mut self) -> MachineId {
        let at = self.chance.below(self.swarm.machines());
        MachineId(u16::try_from(at).unwrap_or(0))
    }

    fn freeze_length(&mut self) -> Duration {
        let most = self.swarm.longest_freeze;
        self.chance.between(Duration::from_millis(10), most)
    }

    fn partition(&mut self, directions: Directions) -> bool {
        let scheduler = self.scheduler_post(FIRST).machine;
        let duration = self
            .chance
            .skewed(Duration::from_millis(200), LONGEST_PARTITION);
        // One worker, some of them, or a link that flaps.
        let everyone = self.chance.per_mille(200);
        let flaps = if self.chance.per_mille(300) { 5 } else { 1 };
        let chosen = self.any_machine();
        for at in 0..self.swarm.machines() {
            let machine = MachineId(u16::try_from(at).unwrap_or(0));
            let hit = machine == chosen || (everyone && self.chance.per_mille(700));
            if !hit || machine == scheduler {
                continue;
            }
            let both = directions == Directions::Both;
            let out = both || self.chance.per_mille(500);
            for flap in 0..flaps {
                let at = self.now + duration / flaps * flap;
                let until = at + duration / flaps / 2;
                if out {
                    let (from, to) = (scheduler, machine);
                    self.queue.push(at, Due::Block { from, to, until });
                }
                if both || !out {
                    let (from, to) = (machine, scheduler);
                    self.queue.push(at, Due::Block { from, to, until });
                }
            }
        }
        true
    }

    fn slow_link(&mut self) -> bool {
        let scheduler = self.scheduler_post(FIRST).machine;
        let machine = self.any_machine();
        let extra = self
            .chance
            .skewed(Duration::from_millis(50), Duration::from_secs(20));
        let until = self.now + self.chance.around(Duration::from_secs(120));
        self.network.slow_down(scheduler, machine, extra, until);
        self.network.slow_down(machine, scheduler, extra, until);
        true
    }

    fn scheduler_crash(&mut self) -> bool {
        if self.scheduler(FIRST).core().is_none() {
            return false;
        }
        self.crash_scheduler(FIRST, SchedulerStop::Crashed);
        let after = self.downtime();
        self.start_scheduler_after(FIRST, after);
        if self.chance.per_mille(250) {
            self.crashes_follow();
        }
        true
    }

    /// Schedules further crashes, which may hit a scheduler before it has recovered.
    fn crashes_follow(&mut self) {
        let mut after = Duration::ZERO;
        for _ in 0..self.chance.below(MAX_CRASHES_IN_A_ROW) {
            after += self
                .chance
                .skewed(Duration::from_millis(5), Duration::from_secs(20));
            self.queue.push(self.now + after, Due::CrashAgain);
        }
    }

    pub(super) fn crash_again(&mut self) {
        if self.phase == Phase::Faults && self.scheduler(FIRST).core().is_some() {
            self.fault(FaultKind::SchedulerCrash);
            self.crash_scheduler(FIRST, SchedulerStop::Crashed);
            let after = self
                .chance
                .skewed(Duration::from_millis(5), Duration::from_secs(5));
            self.start_scheduler_after(FIRST, after);
        }
    }

    /// Sends a heartbeat of another protocol version, or one that impersonates a living worker.
    fn stray_heartbeat(&mut self) -> bool {
        let place = self.any_place();
        let scheduler = self.scheduler(FIRST).core().map(|core| core.id());
        let Some(core) = self.worker(place).core() else {
            return false;
        };
        // If two workers come with one id to a scheduler that knows neither, it believes the first. Only authentication would help.
        let is_known = core.health() == Health::Healthy && core.scheduler() == scheduler;
        if !is_known {
            return false;
        }
        let mut worker = core.description().clone();
        let held = core.worker_set();
        let mut set = WorkerSetId::default();
        match self.chance.below(3) {
            0 => worker.protocol_version += 1,
            1 => {
                worker.machine_lock.port += 1000;
                set = held;
            }
            _ => {
                let number = self.chance.below(self.swarm.shard_count() + 1);
                let shard = Shard::try_from(format!("shard{number}"));
                let shard = shard.expect("Invariant: a short name without NUL");
                if shard == worker.shard {
                    return false;
                }
                worker.shard = shard;
                set = held;
            }
        }
        self.strays += 1;
        // No caller waits for the answer.
        let tag = CallTag(u32::MAX - self.strays);
        let request = ToScheduler::Heartbeat {
            worker: Box::new(worker),
            set,
            goodbye: Goodbye::No,
        };
        self.request_to_scheduler(FIRST, tag, request);
        true
    }

    fn mass_restart(&mut self) -> bool {
        for at in self.spared()..self.workers.len() {
            let place = self.workers[at].place();
            if !self.is_suspended(self.worker_machine(place)) {
                self.kill_worker(place);
            }
        }
        true
    }

    fn wall_jump(&mut self) -> bool {
        let machine = self.any_machine();
        let hours = self.chance.below(2 * WALL_JUMP_MILLIS as usize) as i64 - WALL_JUMP_MILLIS;
        let small = self.chance.below(4000) as i64 - 2000;
        let millis = if self.chance.per_mille(500) {
            hours
        } else {
            small
        };
        self.clocks[usize::from(machine.0)].jump(millis);
        true
    }

    /// Makes a backup, or restores an old one while the scheduler is down.
    fn stale_copy(&mut self) -> bool {
        let directory = DirectoryId(0);
        let disk = &self.directories[usize::from(directory.0)];
        if self.backups.is_empty() || self.chance.per_mille(500) {
            if self.backups.len() == MAX_BACKUPS {
                self.backups.remove(0);
            }
            self.backups.push(disk.durable().clone());
            return false;
        }
        let Some(backup) = self.chance.pick(&self.backups).cloned() else {
            return false;
        };
        // A directory from before the first start is no backup but a lost directory.
        if backup.cluster.is_none() {
            return false;
        }
        self.crash_scheduler(FIRST, SchedulerStop::Crashed);
        self.directories[usize::from(directory.0)].restore(backup);
        match self.swarm.restores {
            Restores::AsDocumented => self.scheduler_post_mut(FIRST).is_restored = true,
            Restores::Carelessly => self.contract = Contract::Obedience,
        }
        self.log.push(Happening::BackupRestored { directory });
        self.scheduler_post_mut(FIRST).set_clock = true;
        let after = self.downtime();
        self.start_scheduler_after(FIRST, after);
        true
    }

    fn lose_directory(&mut self) -> bool {
        let directory = DirectoryId(0);
        self.crash_scheduler(FIRST, SchedulerStop::Crashed);
        self.directories[usize::from(directory.0)].lose();
        self.backups.clear();
        self.new_cluster = false;
        self.scheduler_post_mut(FIRST).is_restored = false;
        self.log.push(Happening::DirectoryLost { directory });
        self.scheduler_post_mut(FIRST).set_clock = true;
        let after = self.downtime();
        self.start_scheduler_after(FIRST, after);
        true
    }

    /// Sets the clock right before the next start. On a directory that forgets its last instance the clock must not go back, because
    /// workers obey no instance that seems older than one they knew.
    pub(super) fn set_clock_right(&mut self) {
        let machine = self.scheduler_post(FIRST).machine;
        let (_, wall) = self.clocks_of(machine);
        let known = self.newest_scheduler_start.max(wall.as_secs());
        let behind = known + 1 - wall.as_secs();
        self.clocks[usize::from(machine.0)].jump(behind.max(0) * 1000);
    }

    /// Starts a copy of the directory elsewhere and reroutes some workers to it. Nothing fences the two schedulers.
    fn second_scheduler(&mut self) -> bool {
        if self.scheduler(SECOND).core().is_some() {
            return false;
        }
        let copy = self.directories[0].durable().clone();
        if copy.cluster.is_none() {
            return false;
        }
        self.contract = Contract::Obedience;
        let directory = self.scheduler_post(SECOND).directory;
        self.directories[usize::from(directory.0)].restore(copy);
        self.log.push(Happening::BackupRestored { directory });
        self.start_scheduler_after(SECOND, Duration::ZERO);
        for at in 0..self.worker_posts.len() {
            if self.chance.per_mille(500) {
                self.worker_posts[at].route = SECOND;
            }
        }
        let after = self.chance.around(Duration::from_secs(600));
        self.queue.push(self.now + after, Due::EndOfSecondScheduler);
        true
    }

    pub(super) fn end_second_scheduler(&mut self) {
        self.crash_scheduler(SECOND, SchedulerStop::Crashed);
        for post in &mut self.worker_posts {
            post.route = FIRST;
        }
    }

    /// Tries a second scheduler on the same directory, which must not start.
    fn try_locked_directory(&mut self) {
        if self.scheduler(FIRST).core().is_none() || self.scheduler(SECOND).core().is_some() {
            return;
        }
        let own = self.scheduler_post(SECOND).directory;
        self.scheduler_post_mut(SECOND).directory = self.scheduler_post(FIRST).directory;
        self.start_scheduler(SECOND);
        self.scheduler_post_mut(SECOND).directory = own;
    }

    fn machine_crash(&mut self) -> bool {
        let machine = self.any_machine();
        if self.is_suspended(machine) {
            return false;
        }
        for place in self.workers_on(machine) {
            self.power_lost(place);
            self.kill_worker(place);
        }
        if machine == self.scheduler_post(FIRST).machine {
            self.scheduler_crash();
            self.schedulers[usize::from(FIRST.0)].forget_answered();
        }
        true
    }

    pub(super) fn new_work(&mut self) {
        if self.phase == Phase::Faults {
            self.workload.new_work();
            self.config_changed();
            let every = self.swarm.new_work_every;
            self.queue.push(self.now + every, Due::NewWork);
        }
    }

    /// Ends all faults. From here on everything must settle.
    pub fn end_faults(&mut self) {
        self.phase = Phase::Quiet { since: self.now };
        self.log.push(Happening::FaultsOver);
        self.network.heal();
        self.processes.calm();
        self.free_disks();
        let orders = FaultKind::OperatorOrders;
        if self.swarm.faults.iter().any(|(kind, _)| *kind == orders) {
            self.queue.push(self.now, Due::Mischief(orders));
        }
        self.slow_sync_until = self.now;
        self.store_heals(DirectoryId(0));
        self.swarm.longest_downtime = self.swarm.longest_downtime.min(Duration::from_secs(30));
        for at in 0..self.swarm.machines() {
            self.wake_machine(MachineId(u16::try_from(at).unwrap_or(0)));
        }
        self.end_second_scheduler();
        self.thaw_scheduler(FIRST);
        if self.contract == Contract::Obedience && self.scheduler(FIRST).core().is_some() {
            self.crash_scheduler(FIRST, SchedulerStop::Crashed);
        }
        self.scheduler_post_mut(FIRST).set_clock |= self.contract == Contract::Obedience;
        if self.scheduler(FIRST).core().is_none() {
            self.start_scheduler_after(FIRST, Duration::from_secs(1));
        }
        self.workload.enable_all();
        self.config_changed();
        for at in 0..self.swarm.places.len() {
            let plan = self.swarm.places[at].clone();
            self.thaw_worker(plan.place);
            if plan.is_rival {
                self.worker_post_mut(plan.place).is_retired = true;
                self.shut_worker_down(plan.place);
            } else if self.worker(plan.place).core().is_none() {
                self.worker_post_mut(plan.place).start_is_due = false;
                self.start_worker_after(plan.place, Duration::from_secs(1));
            }
        }
    }

    /// Remembers the start time, which a later instance must not precede.
    pub(super) fn remember_scheduler(&mut self, start_time: i64) {
        self.newest_scheduler_start = self.newest_scheduler_start.max(start_time);
    }
}

/// The direction that is blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directions {
    One,
    Both,
}
