//! One run: a seed from its first step until the world has settled.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::Time;

use crate::cluster::Cluster;
use crate::coverage::Coverage;
use crate::event_log::{FaultKind, Happening};
use crate::laws::{Laws, Violation};
use crate::liveness::{LivenessResult, Settling};
use crate::swarm::{ArtifactWorlds, Fetchers, Swarm, Timing};
use crate::trace::{HistoryHash, Trace};
use crate::view::Contract;

/// The laws that check a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Judges {
    All,
    /// All laws but those with these names.
    AllBut(Vec<String>),
    /// No laws, to measure their cost.
    None,
}

/// The output of a run besides its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryOutput {
    Nothing,
    /// Fills [`SeedOutcome::hash`].
    Hash,
    /// Passes each line of the trace to the sink.
    Trace,
}

/// Settings of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedSettings {
    pub judges: Judges,
    pub record: HistoryOutput,
    /// The runs in which workers request work.
    pub fetchers: Fetchers,
    /// The runs in which tasks have artifacts.
    pub artifacts: ArtifactWorlds,
}

impl Default for SeedSettings {
    fn default() -> Self {
        SeedSettings {
            judges: Judges::All,
            record: HistoryOutput::Nothing,
            fetchers: Fetchers::default(),
            artifacts: ArtifactWorlds::default(),
        }
    }
}

/// A broken law and the time at which it broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub at: Time,
    pub violation: Violation,
}

/// The result of one seed.
#[derive(Clone, Debug)]
pub struct SeedOutcome {
    pub seed: u64,
    /// The broken laws. The first one ends the run.
    pub violations: Vec<Broken>,
    pub contract: Contract,
    pub timing: Timing,
    pub virtual_time: Duration,
    pub core_events: u64,
    pub faults: BTreeMap<FaultKind, u64>,
    pub coverage: Coverage,
    pub hash: Option<u64>,
}

/// Long enough to observe that each worker obeys one scheduler after the second one is gone.
const AFTER_OBEDIENCE: Duration = Duration::from_secs(300);

/// Plays one seed. `sink` receives the lines of a trace.
pub fn run_seed(seed: u64, settings: &SeedSettings, sink: &mut dyn FnMut(&str)) -> SeedOutcome {
    let laws = match &settings.judges {
        Judges::All => Laws::all(),
        Judges::AllBut(names) => Laws::all().without(names),
        Judges::None => Laws::none(),
    };
    run_with(seed, settings, laws, sink)
}

/// Plays one seed like [`run_seed`], with the given laws.
pub fn run_with(
    seed: u64,
    settings: &SeedSettings,
    laws: Laws,
    sink: &mut dyn FnMut(&str),
) -> SeedOutcome {
    let swarm = Swarm::of(seed, settings.fetchers).with_artifacts(seed, settings.artifacts);
    run_swarm((seed, swarm), settings, laws, sink)
}

/// Plays one seed like [`run_with`], in the given swarm.
pub fn run_swarm(
    (seed, swarm): (u64, Swarm),
    settings: &SeedSettings,
    laws: Laws,
    sink: &mut dyn FnMut(&str),
) -> SeedOutcome {
    let cluster = Cluster::new(seed, swarm);
    let coverage = Coverage::new(cluster.swarm.bump_unhealthy);
    let mut run = SeedRun {
        cluster,
        laws,
        coverage,
        record: settings.record,
        trace: Trace::default(),
        hash: HistoryHash::default(),
        sink,
    };
    if settings.record == HistoryOutput::Trace {
        let swarm = format!("{:#?}", run.cluster.swarm);
        (run.sink)(&format!("seed {seed}: {swarm}"));
    }
    let result = run.play();
    let violations = match result {
        Ok(()) => Vec::new(),
        Err(violation) => {
            let at = run.cluster.now;
            let what = run.trace.short(&violation.what);
            let violation = Violation::new(violation.law, what);
            vec![Broken { at, violation }]
        }
    };
    SeedOutcome {
        seed,
        violations,
        contract: run.cluster.world().contract,
        timing: run.cluster.swarm.timing(),
        virtual_time: run.cluster.now.since(Time::ZERO),
        core_events: run.cluster.stats.core_events,
        faults: run.cluster.stats.faults,
        coverage: run.coverage,
        hash: (settings.record == HistoryOutput::Hash).then(|| run.hash.value()),
    }
}

struct SeedRun<'a> {
    cluster: Cluster,
    laws: Laws,
    coverage: Coverage,
    record: HistoryOutput,
    trace: Trace,
    hash: HistoryHash,
    sink: &'a mut dyn FnMut(&str),
}

impl SeedRun<'_> {
    fn play(&mut self) -> Result<(), Violation> {
        let quiet_at = Time::ZERO + self.cluster.swarm.fault_phase;
        self.play_until(quiet_at)?;
        self.cluster.now = quiet_at;
        self.cluster.end_faults();
        self.judge()?;
        match self.cluster.world().contract {
            Contract::Obedience => self.play_until(quiet_at + AFTER_OBEDIENCE),
            Contract::Whole => self.settle(),
        }
    }

    fn settle(&mut self) -> Result<(), Violation> {
        let mut settling = Settling::new(self.cluster.now, &self.cluster);
        loop {
            self.play_until(settling.next_look())?;
            self.cluster.now = settling.next_look();
            match settling.look(self.cluster.now, &self.cluster)? {
                LivenessResult::GoOn => {}
                LivenessResult::Settled => return Ok(()),
            }
        }
    }

    fn play_until(&mut self, end: Time) -> Result<(), Violation> {
        while self.cluster.next_at().is_some_and(|at| at < end) {
            self.cluster.step();
            self.judge()?;
        }
        Ok(())
    }

    /// Passes the happenings of this step to the laws and the recorders.
    fn judge(&mut self) -> Result<(), Violation> {
        let when = self.cluster.now;
        let log: Vec<Happening> = std::mem::take(&mut self.cluster.log);
        match self.record {
            HistoryOutput::Nothing => {}
            HistoryOutput::Hash => log.iter().for_each(|h| self.hash.add(when, h)),
            HistoryOutput::Trace => {
                for happening in log.iter().filter(|h| is_worth_a_line(h)) {
                    let line = self.trace.line(when, happening);
                    (self.sink)(&line);
                }
            }
        }
        let world = self.cluster.world();
        self.coverage.note_flag(self.cluster.bumps_unhealthy());
        for happening in &log {
            self.coverage.count(happening);
            self.laws.observe(when, happening, &world)?;
        }
        self.cluster.log = log;
        self.cluster.log.clear();
        Ok(())
    }
}

fn is_worth_a_line(happening: &Happening) -> bool {
    !matches!(
        happening,
        Happening::SchedulerTurn { .. } | Happening::WorkerTurn { .. }
    )
}
