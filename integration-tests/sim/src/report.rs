//! The report about many seeds as text: figures, faults by kind, coverage, and each broken law with the command that replays it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::coverage::Coverage;
use crate::event_log::FaultKind;
use crate::run::SeedOutcome;
use crate::swarm::Timing;
use crate::view::Contract;

/// The number of runs and their costs. Runs on parallel threads each count their own time.
#[derive(Clone, Copy, Debug, Default)]
struct Speed {
    seeds: u64,
    virtual_time: Duration,
    took: Duration,
}

impl Speed {
    fn add(&mut self, virtual_time: Duration, took: Duration) {
        self.seeds += 1;
        self.virtual_time += virtual_time;
        self.took += took;
    }

    fn virtual_hours(&self) -> f64 {
        self.virtual_time.as_secs_f64() / 3600.0
    }

    /// Returns the virtual seconds per second of `took`.
    fn times(&self, took: Duration) -> f64 {
        self.virtual_time.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

/// All outcomes together.
#[derive(Clone, Debug)]
pub struct OutcomeTotal {
    all: Speed,
    /// The seeds that use a program's default timeouts.
    by_default: Speed,
    core_events: u64,
    faults: BTreeMap<FaultKind, u64>,
    coverage: Coverage,
    obedience: u64,
    broken: Vec<(u64, String)>,
}

impl Default for OutcomeTotal {
    fn default() -> Self {
        OutcomeTotal {
            all: Speed::default(),
            by_default: Speed::default(),
            core_events: 0,
            faults: BTreeMap::new(),
            coverage: Coverage::new(false),
            obedience: 0,
            broken: Vec::new(),
        }
    }
}

/// Returns the command that replays a seed with a readable trace.
pub fn replay(seed: u64) -> String {
    format!("cargo run --release -p integration-tests --bin simulate -- --seed {seed} --trace")
}

impl OutcomeTotal {
    /// Adds an outcome. `took` is the real time of this run.
    pub fn add(&mut self, outcome: SeedOutcome, took: Duration) {
        self.all.add(outcome.virtual_time, took);
        if outcome.timing == Timing::Default {
            self.by_default.add(outcome.virtual_time, took);
        }
        self.core_events += outcome.core_events;
        self.obedience += u64::from(outcome.contract == Contract::Obedience);
        self.coverage.merge(&outcome.coverage);
        for (kind, count) in outcome.faults {
            *self.faults.entry(kind).or_insert(0) += count;
        }
        for broken in outcome.violations {
            let secs = broken.at.as_nanos() as f64 / 1e9;
            let text = format!("at {secs:.3} s: {}", broken.violation);
            self.broken.push((outcome.seed, text));
        }
    }

    /// Returns whether no law was broken.
    pub fn is_good(&self) -> bool {
        self.broken.is_empty()
    }

    /// Returns the seeds that broke a law, with the violation.
    pub fn broken(&self) -> &[(u64, String)] {
        &self.broken
    }

    /// Returns the report. `took` is the real time of all runs.
    pub fn text(&self, took: Duration) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text, took);
        text
    }

    fn write(&self, out: &mut String, took: Duration) -> std::fmt::Result {
        let secs = took.as_secs_f64();
        writeln!(
            out,
            "{} seeds, {:.0} virtual hours in {secs:.1} s: {:.0} times real time; {} core events, {:.0} a second",
            self.all.seeds,
            self.all.virtual_hours(),
            self.all.times(took),
            self.core_events,
            self.core_events as f64 / secs,
        )?;
        for (which, speed) in [
            ("all", &self.all),
            ("those at default timeouts", &self.by_default),
        ] {
            writeln!(
                out,
                "  one thread, {which}: {} seeds, {:.0} virtual hours in {:.1} s: {:.0} times real time",
                speed.seeds,
                speed.virtual_hours(),
                speed.took.as_secs_f64(),
                speed.times(speed.took),
            )?;
        }
        writeln!(
            out,
            "{} of the seeds had a second scheduler on a copied directory and were held to obedience alone",
            self.obedience
        )?;
        writeln!(out, "\nfaults")?;
        for (kind, count) in &self.faults {
            writeln!(out, "  {count:>10}  {kind:?}")?;
        }
        for (title, branches) in self.coverage.table() {
            writeln!(out, "\n{title}")?;
            for (branch, count) in branches.filter(|(_, count)| *count > 0) {
                writeln!(out, "  {count:>10}  {branch}")?;
            }
        }
        writeln!(out, "\nbranches that no seed has taken")?;
        for (title, branch) in self.coverage.missing() {
            writeln!(out, "  {title}: {branch}")?;
        }
        for (seed, what) in &self.broken {
            writeln!(
                out,
                "\nseed {seed} breaks a law {what}\n  replay: {}",
                replay(*seed)
            )?;
        }
        Ok(())
    }
}
