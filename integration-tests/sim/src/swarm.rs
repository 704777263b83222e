//! Draws the parameters of a run: the size of the cluster, the kinds and frequencies of faults, and the settings. Most runs have few kinds
//! of faults, which finds bugs that many faults together would hide.

mod artifacts;
mod fetching;
mod work;

use std::time::Duration;

use brasserie_common::Timeouts;
use brasserie_common::health::timeouts::KEEPER_DELAY;
use brasserie_scheduler_core::Retention;

use crate::clock::MachineClock;
use crate::dice::{Dice, RandomStream};
use crate::event_log::{FaultKind, MachineId, WorkerPlace};
use crate::network::NetworkFaults;
use crate::processes::ProcessFaults;

pub use artifacts::{ArtifactPlan, ArtifactWorlds};
pub use fetching::{Fetchers, Fetching, WorkFetching};
pub use work::{Gates, MachineSizing, OrphanFate, Rooms, Standbys, TimeLimits};

/// How the first scheduler starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// The directory is empty, and the operator declares the cluster new.
    NewCluster,
    /// The directory is empty, and the operator declares nothing.
    Empty,
}

/// How workers draw the start seconds in their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartSeconds {
    /// Their directories remember the last start second.
    Distinct,
    /// Their directories forget it, so two instances of one place may begin in one second.
    MayRepeat,
}

/// How the operator restores an old copy of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restores {
    /// The operator uses the flag that forces the safe wait.
    AsDocumented,
    /// The operator omits the flag. If no worker notices, only [`crate::view::Contract::Obedience`] applies to the run.
    Carelessly,
}

/// The place of a worker, and the identity that it claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacePlan {
    pub place: WorkerPlace,
    pub machine: MachineId,
    pub shard: usize,
    pub lock_port: i32,
    /// Another place claims the same shard. This one retires when the world must settle.
    pub is_rival: bool,
}

/// The theme of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Any faults.
    Mixed,
    /// Directories are lost while workers live, so schedulers depend on the workers' set ids.
    Consensus,
    /// All workers but one come and go quickly, and nothing else fails.
    Turnover,
}

/// The timeouts of the programs in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// The default timeouts at every start.
    Default,
    /// Other timeouts, at least at some start.
    Chosen,
}

/// The parameters of one run.
#[derive(Clone, Debug)]
pub struct Swarm {
    pub variant: Variant,
    /// The longest value of each timeout in [`Swarm::settings`].
    pub timeouts: Timeouts,
    /// The shortest value of each timeout.
    pub shortest: Timeouts,
    /// The timeouts from which each start of a scheduler draws.
    pub settings: Vec<Timeouts>,
    /// Whether `--allow-bump-unhealthy-worker` is drawn at each start.
    pub mixed_bump: bool,
    pub heartbeat_period: Duration,
    pub bump_unhealthy: bool,
    pub start: Start,
    pub places: Vec<PlacePlan>,
    /// The clock of each machine. Machine 0 is the scheduler's; the last machine is that of a possible second scheduler.
    pub clocks: Vec<MachineClock>,
    pub drift_per_mille: u32,
    pub network: NetworkFaults,
    pub processes: ProcessFaults,
    /// Each injected fault and the mean time between two of them.
    pub faults: Vec<(FaultKind, Duration)>,
    pub fault_phase: Duration,
    pub keeper_delay: Duration,
    pub sync_delay: Duration,
    pub longest_downtime: Duration,
    /// The longest pause of workers and their machines.
    pub longest_freeze: Duration,
    pub new_work_every: Duration,
    pub spread_out_joins: Duration,
    pub start_seconds: StartSeconds,
    pub restores: Restores,
    /// How long a turn of a scheduler takes. Inputs that arrive meanwhile are handled together in the next turn.
    pub turn_takes: Duration,
    pub orphans: OrphanFate,
    pub gates: Gates,
    pub machines: MachineSizing,
    pub limits: TimeLimits,
    pub rooms: Rooms,
    pub standbys: Standbys,
    pub fetching: Fetching,
    /// The number of runs that share a generation of fences; `None` for the program's number, which no run reaches.
    pub runs_per_generation: Option<u32>,
    /// How long completions are kept. If bounded, missing jobs and nodes sometimes return.
    pub retention: Retention,
    /// Whether jobs have outputs and inputs. `None`: no job has any.
    pub artifacts: Option<ArtifactPlan>,
}

/// Faults that are injected one by one. The other kinds are properties of the network and of processes.
const TIMED: [(FaultKind, u64); 23] = [
    (FaultKind::ConnectionBroken, 300),
    (FaultKind::Partition, 900),
    (FaultKind::AsymmetricPartition, 900),
    (FaultKind::SlowLink, 600),
    (FaultKind::SchedulerCrash, 700),
    (FaultKind::WorkerKilled, 500),
    (FaultKind::WorkerShutdown, 600),
    (FaultKind::MassRestart, 1800),
    (FaultKind::SchedulerPause, 600),
    (FaultKind::WorkerPause, 500),
    (FaultKind::Suspend, 900),
    (FaultKind::WallJump, 600),
    (FaultKind::StoreFailure, 900),
    (FaultKind::SlowSync, 600),
    (FaultKind::StaleCopy, 2400),
    (FaultKind::LostDirectory, 3000),
    (FaultKind::SecondScheduler, 3000),
    (FaultKind::LockRefused, 900),
    (FaultKind::ConfigChange, 500),
    (FaultKind::NodesChange, 700),
    (FaultKind::OperatorKill, 400),
    (FaultKind::MachineCrash, 900),
    (FaultKind::StrayHeartbeat, 300),
];

impl Swarm {
    /// Returns the swarm of this seed.
    pub fn of(seed: u64, fetchers: Fetchers) -> Self {
        let drawn = Swarm::whose_orphans_stay(seed);
        let drawn = drawn.end_orphans(&mut Dice::new(seed, RandomStream::Orphans));
        let drawn = drawn.more_work(&mut Dice::new(seed, RandomStream::Work));
        let drawn = drawn.fetch_work(&mut Dice::new(seed, RandomStream::WorkFetch), fetchers);
        let drawn = drawn.forget_workers(&mut Dice::new(seed, RandomStream::Operator));
        let drawn = drawn.raise_fences(&mut Dice::new(seed, RandomStream::Fences));
        let drawn = drawn.forget_by_age(&mut Dice::new(seed, RandomStream::Retention));
        drawn.stand_by(&mut Dice::new(seed, RandomStream::Standby))
    }

    /// Returns the swarm of this seed without ended orphans and without the rarer kinds of work.
    pub fn whose_orphans_stay(seed: u64) -> Self {
        let dice = |stream| Dice::new(seed, stream);
        let drawn = Swarm::draw(
            &mut dice(RandomStream::Swarm),
            &mut dice(RandomStream::Variants),
        );
        drawn.take_turns(&mut dice(RandomStream::Turns))
    }

    /// Draws a swarm. `variants` is a separate stream for parameters that were added later.
    pub fn draw(dice: &mut Dice, variants: &mut Dice) -> Self {
        let small = dice.per_mille(250);
        let (timeouts, heartbeat_period) = draw_timeouts(dice, small);
        // The factor by which everything in a small run is quicker.
        let pace = if small { 20 } else { 1 };
        let (places, machines) = draw_places(dice);
        let drift_per_mille = [0, 0, 1, 5][dice.below(4)];
        let clocks = (0..machines).map(|_| draw_clock(dice, drift_per_mille));
        let clocks = clocks.collect();
        let mut faults = Vec::new();
        for (kind, mean) in TIMED {
            let odds = match kind {
                FaultKind::SecondScheduler => 30,
                FaultKind::StaleCopy | FaultKind::LostDirectory => 120,
                _ => 300,
            };
            if dice.per_mille(odds) {
                let mean = dice.around(Duration::from_secs(mean) / pace);
                faults.push((kind, mean));
            }
        }
        let longest_freeze = dice.skewed(Duration::from_secs(1), LONGEST_FREEZE / pace);
        let fault_phase = dice.between(Duration::from_secs(1200), Duration::from_secs(7200)) / pace;
        let swarm = Swarm {
            variant: Variant::Mixed,
            timeouts,
            shortest: timeouts,
            settings: vec![timeouts],
            mixed_bump: false,
            heartbeat_period,
            bump_unhealthy: dice.per_mille(400),
            start: if dice.per_mille(700) {
                Start::NewCluster
            } else {
                Start::Empty
            },
            places,
            clocks,
            drift_per_mille,
            network: draw_network(dice),
            processes: draw_processes(dice, pace),
            faults,
            fault_phase,
            keeper_delay: KEEPER_DELAY,
            sync_delay: dice.skewed(Duration::from_millis(1), Duration::from_millis(300)),
            longest_downtime: dice.skewed(Duration::from_secs(2), Duration::from_secs(1500) / pace),
            longest_freeze,
            new_work_every: dice.between(Duration::from_secs(200), Duration::from_secs(900)) / pace,
            spread_out_joins: dice.skewed(Duration::from_millis(1), Duration::from_secs(60)),
            start_seconds: StartSeconds::Distinct,
            restores: Restores::AsDocumented,
            turn_takes: Duration::ZERO,
            orphans: OrphanFate::Stay,
            gates: Gates::None,
            machines: MachineSizing::Alike,
            limits: TimeLimits::None,
            rooms: Rooms::Endless,
            standbys: Standbys::None,
            fetching: Fetching::Nobody,
            runs_per_generation: None,
            retention: Retention::UNLIMITED,
            artifacts: None,
        };
        swarm.vary(variants, pace)
    }

    fn vary(mut self, dice: &mut Dice, pace: u32) -> Self {
        self.mixed_bump = dice.per_mille(200);
        if dice.per_mille(200) {
            let more = 1 + dice.below(2);
            for _ in 0..more {
                self.settings.push(draw_timeouts(dice, pace > 1).0);
            }
            if pace == 1 {
                self.settings.push(longer(&self.settings[0]));
            }
            self.timeouts = each(&self.settings, Duration::max);
            self.shortest = each(&self.settings, Duration::min);
        }
        self = match dice.below(20) {
            0 | 1 => self.consensus(dice, pace),
            2 => self.turnover(dice, pace),
            _ => self,
        };
        if dice.per_mille(100) {
            self.start_seconds = StartSeconds::MayRepeat;
        }
        if dice.per_mille(50) {
            self.restores = Restores::Carelessly;
        }
        if dice.per_mille(250) {
            let mean = dice.around(Duration::from_secs(400) / pace);
            self.faults.push((FaultKind::OperatorForgives, mean));
        }
        self
    }

    fn consensus(mut self, dice: &mut Dice, pace: u32) -> Self {
        self.variant = Variant::Consensus;
        let mean = |secs: u64| Duration::from_secs(secs) / pace;
        self.faults.retain(|(kind, _)| {
            matches!(
                kind,
                FaultKind::SchedulerCrash
                    | FaultKind::WorkerPause
                    | FaultKind::ConnectionBroken
                    | FaultKind::OperatorKill
            )
        });
        self.faults.push((FaultKind::LostDirectory, mean(900)));
        if dice.per_mille(300) {
            self.faults.push((FaultKind::WorkerKilled, mean(1500)));
        }
        // Workers without an answer for longer than this end themselves.
        self.longest_downtime = self.longest_downtime.min(mean(200));
        self.places.retain(|place| !place.is_rival);
        self
    }

    fn turnover(mut self, dice: &mut Dice, pace: u32) -> Self {
        self.variant = Variant::Turnover;
        let mean = |secs: u64| Duration::from_secs(secs) / pace;
        self.faults = vec![
            (FaultKind::WorkerKilled, dice.around(mean(20))),
            (FaultKind::WorkerShutdown, dice.around(mean(60))),
            (FaultKind::MassRestart, dice.around(mean(900))),
        ];
        self.processes.spawn_failure = 0;
        self.start = Start::NewCluster;
        self.settings.truncate(1);
        (self.timeouts, self.shortest) = (self.settings[0], self.settings[0]);
        self.network = NetworkFaults {
            delay: self.network.delay.min(Duration::from_millis(5)),
            ..NetworkFaults::NONE
        };
        self.drift_per_mille = 0;
        self.clocks = self.clocks.iter().map(|_| draw_clock(dice, 0)).collect();
        self.sync_delay = self.sync_delay.min(Duration::from_millis(50));
        self.longest_downtime = mean(60);
        self.places.retain(|place| !place.is_rival);
        self
    }

    /// Adds operators who declare workers dead. Runs in which workers must join in time, or in which consensus decides, have none.
    fn forget_workers(mut self, dice: &mut Dice) -> Self {
        if dice.per_mille(300) && self.variant == Variant::Mixed {
            let mean = dice.around(self.fault_phase / DECLARATIONS);
            self.faults.push((FaultKind::OperatorForgetsWorker, mean));
        }
        self
    }

    /// Adds generations of fences that are used up.
    fn raise_fences(mut self, dice: &mut Dice) -> Self {
        if dice.per_mille(200) {
            self.runs_per_generation = u32::try_from(1 + dice.below(20)).ok();
        }
        self
    }

    pub fn timing(&self) -> Timing {
        let usual = Timeouts::default();
        let is_default = self.settings.iter().all(|timeouts| *timeouts == usual)
            && self.heartbeat_period == DEFAULT_HEARTBEAT_PERIOD;
        if is_default {
            Timing::Default
        } else {
            Timing::Chosen
        }
    }

    pub fn machines(&self) -> usize {
        self.clocks.len()
    }

    /// Returns the machine of a second scheduler.
    pub fn other_machine(&self) -> MachineId {
        MachineId(u16::try_from(self.clocks.len() - 1).unwrap_or(u16::MAX))
    }

    pub fn shard_count(&self) -> usize {
        self.places.iter().map(|p| p.shard + 1).max().unwrap_or(0)
    }
}

/// The period of a worker without flags.
const DEFAULT_HEARTBEAT_PERIOD: Duration = Duration::from_secs(15);

fn draw_timeouts(dice: &mut Dice, small: bool) -> (Timeouts, Duration) {
    let secs = Duration::from_secs;
    if !small {
        let is_default = dice.per_mille(800);
        let period = if is_default {
            DEFAULT_HEARTBEAT_PERIOD
        } else {
            secs(5)
        };
        return (Timeouts::default(), period);
    }
    let mut draw = |most: usize| secs(1 + dice.below(most) as u64);
    let timeouts = Timeouts {
        heartbeat_grace_period: draw(3),
        healthcheck_period: draw(3),
        healthcheck_grace_period: draw(3),
        lose_unhealthy_worker_after: draw(8),
        worker_check_interval: draw(2),
        unsure_if_running_check_initial_period: draw(2),
        suicide_backoff_safety_margin: draw(4),
        suicide_task_kill_wait: draw(2),
    };
    (timeouts, secs(1))
}

/// Returns the timeouts of an operator with a slow network.
fn longer(timeouts: &Timeouts) -> Timeouts {
    Timeouts {
        heartbeat_grace_period: timeouts.heartbeat_grace_period * 2,
        healthcheck_grace_period: timeouts.healthcheck_grace_period * 2,
        lose_unhealthy_worker_after: timeouts.lose_unhealthy_worker_after * 2,
        ..*timeouts
    }
}

/// Returns the chosen value of each timeout.
fn each(settings: &[Timeouts], choose: fn(Duration, Duration) -> Duration) -> Timeouts {
    let first = settings.first().copied().unwrap_or_default();
    settings.iter().fold(first, |a, b| Timeouts {
        heartbeat_grace_period: choose(a.heartbeat_grace_period, b.heartbeat_grace_period),
        healthcheck_period: choose(a.healthcheck_period, b.healthcheck_period),
        healthcheck_grace_period: choose(a.healthcheck_grace_period, b.healthcheck_grace_period),
        lose_unhealthy_worker_after: choose(
            a.lose_unhealthy_worker_after,
            b.lose_unhealthy_worker_after,
        ),
        worker_check_interval: choose(a.worker_check_interval, b.worker_check_interval),
        unsure_if_running_check_initial_period: choose(
            a.unsure_if_running_check_initial_period,
            b.unsure_if_running_check_initial_period,
        ),
        suicide_backoff_safety_margin: choose(
            a.suicide_backoff_safety_margin,
            b.suicide_backoff_safety_margin,
        ),
        suicide_task_kill_wait: choose(a.suicide_task_kill_wait, b.suicide_task_kill_wait),
    })
}

/// The number of declarations of a worker's death in one run. Most are refused or come too late to matter.
const DECLARATIONS: u32 = 40;

/// Longer than any lease. The keeper must end what a stopped worker left alive, and on a machine that slept it must do so at the wake-up.
const LONGEST_FREEZE: Duration = Duration::from_secs(1200);

fn draw_places(dice: &mut Dice) -> (Vec<PlacePlan>, usize) {
    let shards = 1 + dice.below(6);
    let mut places = Vec::new();
    let mut machine = 0;
    let mut add = |shard: usize, machine: u16, is_rival: bool| {
        let number = u16::try_from(places.len()).unwrap_or(u16::MAX);
        places.push(PlacePlan {
            place: WorkerPlace(number),
            machine: MachineId(machine),
            shard,
            lock_port: 1000 + i32::from(number),
            is_rival,
        });
    };
    for shard in 0..shards {
        // Sometimes two workers share a machine.
        if shard == 0 || !dice.per_mille(200) {
            machine += 1;
        }
        add(shard, machine, false);
    }
    if dice.per_mille(300) {
        for shard in 0..shards {
            if dice.per_mille(400) {
                machine += 1;
                add(shard, machine, true);
            }
        }
    }
    (places, usize::from(machine) + 2)
}

fn draw_clock(dice: &mut Dice, drift_per_mille: u32) -> MachineClock {
    let span = drift_per_mille as usize * 1000;
    let drift =
        i32::try_from(dice.below(2 * span + 1)).unwrap_or(0) - i32::try_from(span).unwrap_or(0);
    let offset = dice.between(Duration::from_secs(1), Duration::from_secs(10_000_000));
    let lead = dice.below(4_000) as i64 - 2_000;
    MachineClock::new(offset, drift, lead)
}

fn draw_network(dice: &mut Dice) -> NetworkFaults {
    let mut rate = |most: usize| -> u32 {
        if dice.per_mille(500) {
            0
        } else {
            u32::try_from(1 + dice.below(most)).unwrap_or(0)
        }
    };
    let (lose_request, lose_reply, slow_packet) = (rate(60), rate(60), rate(40));
    let (duplicate, late_duplicate, refuse) = (rate(50), rate(20), rate(40));
    NetworkFaults {
        lose_request,
        lose_reply,
        slow_packet,
        duplicate,
        late_duplicate,
        refuse,
        delay: dice.skewed(Duration::from_micros(100), Duration::from_millis(200)),
        slow: dice.skewed(Duration::from_secs(1), Duration::from_secs(400)),
    }
}

fn draw_processes(dice: &mut Dice, pace: u32) -> ProcessFaults {
    let mut rate = |most: usize| -> u32 {
        if dice.per_mille(500) {
            0
        } else {
            u32::try_from(1 + dice.below(most)).unwrap_or(0)
        }
    };
    let (spawn_failure, ends_badly) = (rate(50), rate(400));
    let (ignores_term, slow_kill) = (rate(500), rate(500));
    ProcessFaults {
        spawn_failure,
        ends_badly,
        ignores_term,
        slow_kill,
        longest: dice.between(Duration::from_secs(10), Duration::from_secs(900)) / pace,
    }
}
