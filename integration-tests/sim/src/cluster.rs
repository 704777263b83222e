//! The simulated world: one queue of scheduled steps, the hosts around the real cores, and the network and disks between them. One step
//! usually gives one input to one host.

mod artifacts;
mod config;
mod lives;
mod mischief;
mod operator;
mod packets;
mod tasks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{RecordSeq, Time, Timeouts, WallTime};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{Call, Durable};
use brasserie_scheduler_engine::NodeTable;

use crate::clock::MachineClock;
use crate::dice::{Dice, RandomStream};
use crate::disk::Directory;
use crate::event_log::{
    CallTag, DirectoryId, FaultKind, Happening, MachineId, ProcessId, SchedulerPlace, WorkerPlace,
};
use crate::hosts::ToScheduler;
use crate::hosts::desk::FetchAnswer;
use crate::hosts::scheduler::{SchedulerHost, SchedulerInput, SchedulerOutput};
use crate::hosts::worker::{WorkerHost, WorkerInput, WorkerOutput};
use crate::network::Network;
use crate::processes::Processes;
use crate::queue::Queue;
use crate::swarm::{Start, Swarm, Variant};
use crate::view::{Contract, Phase, World};
use crate::workload::{Extras, Workload};

pub(crate) use lives::WORKER_CALL_DEADLINE;
use packets::{Caller, PacketOutcome};

/// A scheduled step of the world.
#[derive(Debug)]
enum Due {
    SchedulerRequest {
        place: SchedulerPlace,
        tag: CallTag,
        request: ToScheduler,
    },
    WorkerRequest {
        place: WorkerPlace,
        tag: CallTag,
        message: Call,
    },
    /// A request of one worker's desk to another.
    PeerRequest {
        place: WorkerPlace,
        tag: CallTag,
        request: artifacts::PeerRequest,
    },
    /// The bytes of an answer have left the disk of a worker.
    PeerAnswer {
        tag: CallTag,
        answer: FetchAnswer,
    },
    /// Blocks a link that flaps.
    Block {
        from: MachineId,
        to: MachineId,
        until: Time,
    },
    WorkerHears {
        place: WorkerPlace,
        generation: u32,
        input: WorkerInput,
    },
    /// A timer of the core. The step does nothing if the core has set another timer since.
    SchedulerWake {
        place: SchedulerPlace,
        number: u32,
    },
    WorkerWake {
        place: WorkerPlace,
        number: u32,
    },
    /// The caller learns the outcome of its call.
    Known {
        tag: CallTag,
        outcome: PacketOutcome,
    },
    Sync {
        directory: DirectoryId,
        place: SchedulerPlace,
        generation: u32,
    },
    StoreHeals {
        directory: DirectoryId,
    },
    ProcessEnds {
        process: ProcessId,
        place: WorkerPlace,
    },
    StartScheduler {
        place: SchedulerPlace,
    },
    StartWorker {
        place: WorkerPlace,
    },
    LoadConfig {
        place: SchedulerPlace,
        generation: u32,
    },
    /// Loads the nodes of a configuration that was loaded before.
    LoadNodes {
        place: SchedulerPlace,
        generation: u32,
        config: Arc<Config>,
        nodes: Arc<NodeTable>,
    },
    ThawScheduler {
        place: SchedulerPlace,
    },
    ThawWorker {
        place: WorkerPlace,
    },
    WakeMachine {
        machine: MachineId,
    },
    /// The keeper checks whether the worker with this lease is still stopped.
    Lease {
        place: WorkerPlace,
        generation: u32,
    },
    Mischief(FaultKind),
    NewWork,
    EndOfSecondScheduler,
    /// Crashes again soon after a crash.
    CrashAgain,
}

/// The surroundings of one scheduler process.
#[derive(Clone, Debug)]
struct SchedulerPost {
    machine: MachineId,
    directory: DirectoryId,
    /// `Some` while the process is stopped or busy with its last turn: the inputs that wait for it.
    frozen: Option<Vec<SchedulerInput>>,
    is_busy: bool,
    wake: (Option<Time>, u32),
    /// The last record that the running sync covers.
    syncing: Option<RecordSeq>,
    /// The directory is an old copy. The operator makes each next scheduler wait until one has completed the wait.
    is_restored: bool,
    /// The operator sets the machine's clock before the next start, because the directory may not know the last instance.
    set_clock: bool,
    /// The configuration read last. The scheduler no longer receives nodes of an earlier one.
    config: Option<Arc<Config>>,
}

/// The surroundings of one worker process.
#[derive(Clone, Debug)]
struct WorkerPost {
    frozen: Option<Vec<WorkerInput>>,
    wake: (Option<Time>, u32),
    /// The time, by the machine's clock, at which the keeper kills the worker and its tasks unless the worker renews the lease.
    lease: Option<Time>,
    last_start_time: i64,
    /// The scheduler to which the worker connects.
    route: SchedulerPlace,
    /// The worker is never started again.
    is_retired: bool,
    start_is_due: bool,
}

/// Counters of one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Inputs that a core handled, timers included.
    pub core_events: u64,
    pub steps: u64,
    pub faults: BTreeMap<FaultKind, u64>,
}

/// The whole simulated world.
#[derive(Debug)]
pub struct Cluster {
    pub swarm: Swarm,
    pub now: Time,
    pub stats: Stats,
    /// Happenings since the last step.
    pub log: Vec<Happening>,
    contract: Contract,
    phase: Phase,
    schedulers: Vec<SchedulerHost>,
    workers: Vec<WorkerHost>,
    directories: Vec<Directory>,
    scheduler_posts: Vec<SchedulerPost>,
    worker_posts: Vec<WorkerPost>,
    clocks: Vec<MachineClock>,
    /// The time since which each machine sleeps.
    suspended: Vec<Option<Time>>,
    /// Steps that were due on machines that sleep.
    deferred: Vec<(MachineId, Due)>,
    queue: Queue<Due>,
    /// The time after which schedulers receive only the configuration that the file holds now.
    config_comes_until: Time,
    network: Network,
    processes: Processes,
    workload: Workload,
    open: BTreeMap<CallTag, Caller>,
    backups: Vec<Durable>,
    /// Workers that an operator may declare dead.
    ended_workers: Vec<operator::EndedWorker>,
    store_failing: bool,
    slow_sync_until: Time,
    /// The operator starts schedulers with `--new-cluster` until the directory is lost.
    new_cluster: bool,
    newest_scheduler_start: i64,
    /// The `--allow-bump-unhealthy-worker` flag of the scheduler that started last.
    bump: bool,
    /// The number of heartbeats so far that no living worker sent.
    strays: u32,
    disks: Dice,
    chance: Dice,
    identities: Dice,
    /// The dice for everything about artifacts.
    stores: Dice,
    /// The number of calls of desks so far.
    desk_calls: u32,
    scheduler_outputs: Vec<SchedulerOutput>,
    worker_outputs: Vec<WorkerOutput>,
    seen_faults: Vec<FaultKind>,
}

/// The shells' timeouts: 1 s to connect, 1 s to send, 2 s to receive.
const CALL_TIMEOUT: Duration = Duration::from_secs(4);

/// The scheduler that workers are configured with.
const FIRST: SchedulerPlace = SchedulerPlace(0);
/// A second scheduler. On the same directory it finds the lock; on a copy it does what the documentation forbids.
const SECOND: SchedulerPlace = SchedulerPlace(1);

impl Cluster {
    pub fn new(seed: u64, swarm: Swarm) -> Self {
        let dice = |stream| Dice::new(seed, stream);
        let machines = swarm.machines();
        let network = Network::new(machines, swarm.network, dice(RandomStream::Network));
        let processes = Processes::new(
            swarm.processes,
            swarm.keeper_delay,
            dice(RandomStream::Processes),
        );
        let post = |machine, directory| SchedulerPost {
            machine,
            directory: DirectoryId(directory),
            frozen: None,
            is_busy: false,
            wake: (None, 0),
            syncing: None,
            is_restored: false,
            set_clock: false,
            config: None,
        };
        let worker_post = WorkerPost {
            frozen: None,
            wake: (None, 0),
            lease: None,
            last_start_time: 0,
            route: FIRST,
            is_retired: false,
            start_is_due: false,
        };
        let mut cluster = Cluster {
            now: Time::ZERO,
            stats: Stats::default(),
            log: Vec::new(),
            contract: Contract::Whole,
            phase: Phase::Faults,
            schedulers: vec![host_of(FIRST, &swarm), host_of(SECOND, &swarm)],
            workers: workers_of(&swarm),
            directories: vec![Directory::default(), Directory::default()],
            scheduler_posts: vec![post(MachineId(0), 0), post(swarm.other_machine(), 1)],
            worker_posts: vec![worker_post; swarm.places.len()],
            clocks: swarm.clocks.clone(),
            suspended: vec![None; machines],
            deferred: Vec::new(),
            queue: Queue::new(dice(RandomStream::Order)),
            config_comes_until: Time::ZERO,
            network,
            processes,
            workload: Workload::new(dice(RandomStream::Workload), Extras::of(seed, &swarm)),
            open: BTreeMap::new(),
            backups: Vec::new(),
            ended_workers: Vec::new(),
            store_failing: false,
            slow_sync_until: Time::ZERO,
            new_cluster: swarm.start == Start::NewCluster,
            newest_scheduler_start: 0,
            strays: 0,
            bump: swarm.bump_unhealthy,
            disks: dice(RandomStream::Disks),
            chance: dice(RandomStream::Faults),
            identities: dice(RandomStream::Identities),
            stores: dice(RandomStream::Artifacts),
            desk_calls: 0,
            scheduler_outputs: Vec::new(),
            worker_outputs: Vec::new(),
            seen_faults: Vec::new(),
            swarm,
        };
        cluster.begin();
        cluster
    }

    fn begin(&mut self) {
        self.install_stores();
        self.queue
            .push(self.now, Due::StartScheduler { place: FIRST });
        for at in 0..self.swarm.places.len() {
            let place = self.swarm.places[at].place;
            let machine = self.swarm.places[at].machine;
            self.log.push(Happening::WorkerInstalled { place, machine });
            let spread = self.swarm.spread_out_joins;
            let after = self.chance.between(Duration::ZERO, spread);
            self.start_worker_after(place, after);
        }
        for (kind, mean) in self.swarm.faults.clone() {
            let after = self.chance.around(mean);
            self.queue.push(self.now + after, Due::Mischief(kind));
        }
        let every = self.swarm.new_work_every;
        self.queue.push(self.now + every, Due::NewWork);
    }

    /// Returns the view of the world for the laws.
    pub fn world(&self) -> World<'_> {
        World {
            contract: self.contract,
            phase: self.phase,
            timeouts: self.timeouts(),
            shortest: &self.swarm.shortest,
            only_workers_fail: self.swarm.variant == Variant::Turnover
                && self.phase == Phase::Faults,
            keeper_delay: self.swarm.keeper_delay,
            drift_per_mille: self.swarm.drift_per_mille,
            fetching: &self.swarm.fetching,
            heartbeat_period: self.swarm.heartbeat_period,
            retention: self.swarm.retention,
            schedulers: &self.schedulers,
            workers: &self.workers,
            directories: &self.directories,
            config: self.workload.config(),
        }
    }

    /// Returns whether the scheduler that started last may replace unhealthy workers early.
    pub fn bumps_unhealthy(&self) -> bool {
        self.bump
    }

    pub fn timeouts(&self) -> &Timeouts {
        &self.swarm.timeouts
    }

    /// Returns the time until which old messages and configurations may still arrive.
    pub fn past_until(&self) -> Time {
        self.network.old_until().max(self.config_comes_until)
    }

    /// Returns the time by the clock of the first scheduler's machine.
    pub fn scheduler_clock(&self) -> Time {
        self.clocks_of(self.scheduler_post(FIRST).machine).0
    }

    /// Returns the time of the next step.
    pub fn next_at(&self) -> Option<Time> {
        self.queue.next_at()
    }

    /// Performs the next step.
    pub fn step(&mut self) {
        let Some((at, due)) = self.queue.pop() else {
            return;
        };
        self.now = at;
        self.stats.steps += 1;
        match self.machine_of(&due).filter(|m| self.is_suspended(*m)) {
            Some(machine) => self.deferred.push((machine, due)),
            None => self.happen(due),
        }
        for kind in std::mem::take(&mut self.seen_faults) {
            self.fault(kind);
        }
        for at in 0..self.log.len() {
            match self.log[at] {
                Happening::SchedulerStarted { scheduler, .. } => {
                    self.remember_scheduler(scheduler.0.start_time);
                }
                Happening::WaitEnded { place, .. } => {
                    self.scheduler_post_mut(place).is_restored = false;
                }
                _ => {}
            }
        }
    }

    fn fault(&mut self, kind: FaultKind) {
        *self.stats.faults.entry(kind).or_insert(0) += 1;
        self.log.push(Happening::Fault(kind));
    }

    fn is_suspended(&self, machine: MachineId) -> bool {
        self.suspended[usize::from(machine.0)].is_some()
    }

    /// Returns the machine that must be awake for this step. `None` for network arrivals, which wait in the frozen process instead.
    fn machine_of(&self, due: &Due) -> Option<MachineId> {
        match due {
            Due::Sync { place, .. } | Due::StartScheduler { place } => {
                Some(self.scheduler_post(*place).machine)
            }
            Due::ProcessEnds { place, .. }
            | Due::StartWorker { place }
            | Due::Lease { place, .. } => Some(self.worker_machine(*place)),
            Due::SchedulerRequest { .. }
            | Due::WorkerRequest { .. }
            | Due::PeerRequest { .. }
            | Due::PeerAnswer { .. }
            | Due::Block { .. }
            | Due::WorkerHears { .. }
            | Due::SchedulerWake { .. }
            | Due::WorkerWake { .. }
            | Due::Known { .. }
            | Due::StoreHeals { .. }
            | Due::LoadConfig { .. }
            | Due::LoadNodes { .. }
            | Due::ThawScheduler { .. }
            | Due::ThawWorker { .. }
            | Due::WakeMachine { .. }
            | Due::Mischief(_)
            | Due::NewWork
            | Due::CrashAgain
            | Due::EndOfSecondScheduler => None,
        }
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::SchedulerRequest {
                place,
                tag,
                request,
            } => self.request_to_scheduler(place, tag, request),
            Due::WorkerRequest {
                place,
                tag,
                message,
            } => self.request_to_worker(place, tag, message),
            Due::PeerRequest {
                place,
                tag,
                request,
            } => self.request_to_peer(place, tag, request),
            Due::PeerAnswer { tag, answer } => self.answer(tag, PacketOutcome::Copies(answer)),
            Due::Block { from, to, until } => {
                if self.phase == Phase::Faults {
                    self.network.block(from, to, until);
                }
            }
            Due::WorkerHears {
                place,
                generation,
                input,
            } => {
                if self.worker(place).generation() == generation {
                    self.drive_worker(place, input);
                }
            }
            Due::SchedulerWake { place, number } => {
                if self.scheduler_post(place).wake == (Some(self.now), number) {
                    self.scheduler_post_mut(place).wake.0 = None;
                    self.drive_scheduler(place, SchedulerInput::Wake);
                }
            }
            Due::WorkerWake { place, number } => {
                if self.worker_post(place).wake == (Some(self.now), number) {
                    self.worker_post_mut(place).wake.0 = None;
                    self.drive_worker(place, WorkerInput::Wake);
                }
            }
            Due::Known { tag, outcome } => self.known(tag, outcome),
            Due::Sync {
                directory,
                place,
                generation,
            } => self.sync(directory, place, generation),
            Due::StoreHeals { directory } => self.store_heals(directory),
            Due::ProcessEnds { process, .. } => self.process_ends(process),
            Due::StartScheduler { place } => self.start_scheduler(place),
            Due::StartWorker { place } => self.start_worker(place),
            Due::LoadConfig { place, generation } => self.load_config(place, generation),
            Due::LoadNodes {
                place,
                generation,
                config,
                nodes,
            } => self.load_nodes(place, generation, config, nodes),
            Due::ThawScheduler { place } => self.thaw_scheduler(place),
            Due::ThawWorker { place } => self.thaw_worker(place),
            Due::WakeMachine { machine } => self.wake_machine(machine),
            Due::Lease { place, generation } => self.lease_over(place, generation),
            Due::Mischief(kind) => self.mischief(kind),
            Due::NewWork => self.new_work(),
            Due::EndOfSecondScheduler => self.end_second_scheduler(),
            Due::CrashAgain => self.crash_again(),
        }
    }

    fn scheduler(&self, place: SchedulerPlace) -> &SchedulerHost {
        &self.schedulers[usize::from(place.0)]
    }

    fn worker(&self, place: WorkerPlace) -> &WorkerHost {
        &self.workers[usize::from(place.0)]
    }

    fn scheduler_post(&self, place: SchedulerPlace) -> &SchedulerPost {
        &self.scheduler_posts[usize::from(place.0)]
    }

    fn scheduler_post_mut(&mut self, place: SchedulerPlace) -> &mut SchedulerPost {
        &mut self.scheduler_posts[usize::from(place.0)]
    }

    fn worker_post(&self, place: WorkerPlace) -> &WorkerPost {
        &self.worker_posts[usize::from(place.0)]
    }

    fn worker_post_mut(&mut self, place: WorkerPlace) -> &mut WorkerPost {
        &mut self.worker_posts[usize::from(place.0)]
    }

    fn worker_machine(&self, place: WorkerPlace) -> MachineId {
        self.swarm.places[usize::from(place.0)].machine
    }

    fn clocks_of(&self, machine: MachineId) -> (Time, WallTime) {
        let clock = &self.clocks[usize::from(machine.0)];
        (clock.boot(self.now), clock.wall(self.now))
    }
}

fn host_of(place: SchedulerPlace, swarm: &Swarm) -> SchedulerHost {
    let host = SchedulerHost::new(place).with_memory();
    host.with_runs_per_generation(swarm.runs_per_generation)
}

fn workers_of(swarm: &Swarm) -> Vec<WorkerHost> {
    let places = swarm.places.iter();
    places.map(|plan| WorkerHost::new(plan.place)).collect()
}
