//! The world in which each injected bug shows. Each world comes from the same generator as every other. The laws that may catch the bug
//! there are the ordinary ones and know nothing of bugs.

mod foci;

use std::time::Duration;

use brasserie_common::sabotage::{self, Sabotage};
use brasserie_scheduler_core::Retention;
use brasserie_worker_core::Profile;

use crate::dice::{Dice, RandomStream};
use crate::event_log::FaultKind;
use crate::laws::Laws;
use crate::network::NetworkFaults;
use crate::processes::ProcessFaults;
use crate::run::{Broken, SeedOutcome, SeedSettings, run_swarm};
use crate::swarm::{
    ArtifactPlan, Fetching, Gates, MachineSizing, OrphanFate, Restores, Rooms, Standbys, Start,
    StartSeconds, Swarm, TimeLimits, Variant, WorkFetching,
};

pub use foci::FOCI;

/// An injected bug and the world in which it shows.
#[derive(Clone, Copy, Debug)]
pub struct Focus {
    pub bug: Sabotage,
    /// The laws of which any may be the first that the bug breaks.
    pub laws: &'static [&'static str],
    /// A few seeds from this one on catch the bug.
    pub first_seed: u64,
    world: WorldRequirements,
}

/// The timeouts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timing {
    /// Timeouts of seconds.
    Quick,
    /// The default timeouts.
    Usual,
}

/// Whether another worker claims a shard, and may take it from an unhealthy worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rivals {
    None,
    Bumping,
}

/// The workers that request work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fetch {
    Nobody,
    Everybody,
    /// All workers, with requests that expire with their answers.
    EverybodyAnew,
}

/// The requirements on a drawn world, and the replacements for drawn parameters. `None` keeps the drawn value.
#[derive(Clone, Copy, Debug)]
struct WorldRequirements {
    timing: Timing,
    rivals: Rivals,
    start: Option<Start>,
    least_places: usize,
    most_places: usize,
    /// The only injected faults.
    faults: &'static [(FaultKind, Duration)],
    network: NetworkFaults,
    processes: Option<ProcessFaults>,
    /// The duration of the fault phase.
    lasts: Duration,
    downtime: Option<Duration>,
    freeze: Option<Duration>,
    sync: Option<Duration>,
    joins: Option<Duration>,
    start_seconds: StartSeconds,
    restores: Restores,
    orphans: OrphanFate,
    gates: Gates,
    machines: MachineSizing,
    limits: TimeLimits,
    rooms: Rooms,
    standbys: Standbys,
    fetch: Fetch,
    runs_per_generation: Option<u32>,
    retention: Retention,
    artifacts: Option<ArtifactPlan>,
}

impl Focus {
    pub fn of(bug: Sabotage) -> &'static Focus {
        let found = FOCI.iter().find(|focus| focus.bug == bug);
        found.expect("Invariant: each bug has a focus")
    }

    /// Returns the world of this seed: the first drawn one that fits.
    pub fn swarm(&self, seed: u64) -> Swarm {
        let mut dice = Dice::new(seed, RandomStream::Swarm);
        let mut variants = Dice::new(seed, RandomStream::Variants);
        let mut swarm = Swarm::draw(&mut dice, &mut variants);
        while !self.world.fits(&swarm) {
            swarm = Swarm::draw(&mut dice, &mut variants);
        }
        self.world.shape(swarm)
    }

    /// Plays one seed with or without the bug.
    pub fn play(
        &self,
        (seed, bug): (u64, Option<Sabotage>),
        settings: &SeedSettings,
        sink: &mut dyn FnMut(&str),
    ) -> SeedOutcome {
        self.play_under(Laws::all(), (seed, bug), settings, sink)
    }

    /// Plays one seed like [`Focus::play`], under chosen laws.
    pub fn play_under(
        &self,
        laws: Laws,
        (seed, bug): (u64, Option<Sabotage>),
        settings: &SeedSettings,
        sink: &mut dyn FnMut(&str),
    ) -> SeedOutcome {
        sabotage::choose(bug);
        let swarm = self.swarm(seed);
        let outcome = run_swarm((seed, swarm), settings, laws, sink);
        sabotage::choose(None);
        outcome
    }

    /// Returns the first of these seeds in which a law catches the bug.
    pub fn hunt(&self, seeds: std::ops::Range<u64>) -> Option<Catch> {
        for seed in seeds.clone() {
            let outcome = self.play(
                (seed, Some(self.bug)),
                &SeedSettings::default(),
                &mut |_| (),
            );
            if let Some(broken) = outcome.violations.into_iter().next() {
                let seeds = seed - seeds.start + 1;
                return Some(Catch {
                    seed,
                    seeds,
                    broken,
                });
            }
        }
        None
    }
}

/// How a bug was caught.
#[derive(Clone, Debug)]
pub struct Catch {
    pub seed: u64,
    /// The number of seeds that were played.
    pub seeds: u64,
    pub broken: Broken,
}

impl WorldRequirements {
    fn fits(&self, swarm: &Swarm) -> bool {
        let is_quick = swarm.heartbeat_period == Duration::from_secs(1);
        let timing = match self.timing {
            Timing::Quick => is_quick,
            Timing::Usual => !is_quick,
        };
        let has_rivals = swarm.places.iter().any(|plan| plan.is_rival);
        let rivals = match self.rivals {
            Rivals::None => !has_rivals,
            Rivals::Bumping => has_rivals && swarm.bump_unhealthy,
        };
        let places = (self.least_places..=self.most_places).contains(&swarm.places.len());
        let start = self.start.is_none_or(|start| start == swarm.start);
        let is_plain = swarm.variant == Variant::Mixed && swarm.settings.len() == 1;
        timing && rivals && places && start && is_plain && !swarm.mixed_bump
    }

    fn shape(&self, drawn: Swarm) -> Swarm {
        Swarm {
            faults: self.faults.to_vec(),
            network: self.network,
            processes: self.processes.unwrap_or(drawn.processes),
            fault_phase: self.lasts,
            longest_downtime: self.downtime.unwrap_or(drawn.longest_downtime),
            longest_freeze: self.freeze.unwrap_or(drawn.longest_freeze),
            sync_delay: self.sync.unwrap_or(drawn.sync_delay),
            spread_out_joins: self.joins.unwrap_or(drawn.spread_out_joins),
            start_seconds: self.start_seconds,
            restores: self.restores,
            orphans: self.orphans,
            gates: self.gates,
            machines: self.machines,
            limits: self.limits,
            rooms: self.rooms,
            standbys: self.standbys,
            runs_per_generation: self.runs_per_generation,
            retention: self.retention,
            artifacts: self.artifacts,
            fetching: match self.fetch {
                Fetch::Nobody => Fetching::Nobody,
                Fetch::Everybody => asked_for(&drawn, Profile::CLUSTER),
                Fetch::EverybodyAnew => asked_for(
                    &drawn,
                    Profile {
                        linger: 0.0,
                        ..Profile::CLUSTER
                    },
                ),
            },
            ..drawn
        }
    }
}

fn asked_for(drawn: &Swarm, profile: Profile) -> Fetching {
    Fetching::Some(WorkFetching {
        who: vec![true; drawn.places.len()],
        profile,
        slots_are_cpus: true,
    })
}
