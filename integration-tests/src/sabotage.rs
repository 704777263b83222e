//! `simulate --sabotage`: injects each bug of the list, and shows which law catches it and after how many seeds. Needs the feature `sabotage`.

use std::ops::Range;
use std::process::ExitCode;

use integration_tests_sim::run::SeedSettings;

use crate::output::Printer;

/// The command that builds and runs with injected bugs.
const COMMAND: &str =
    "cargo run --release -p integration-tests --features sabotage --bin simulate -- --sabotage";

/// Searches for each of these bugs in at most these seeds. Fails if one is not caught.
#[cfg(not(feature = "sabotage"))]
pub fn table(name: &str, _seeds: Range<u64>, _printer: &mut Printer) -> ExitCode {
    not_built_in(name)
}

/// Plays one seed with an injected bug.
#[cfg(not(feature = "sabotage"))]
pub fn replay(name: &str, seed: u64, _settings: &SeedSettings, _printer: &mut Printer) -> ExitCode {
    not_built_in(&format!("{name} --seed {seed}"))
}

#[cfg(not(feature = "sabotage"))]
fn not_built_in(rest: &str) -> ExitCode {
    eprintln!(
        "simulate: this program was built without the injected bugs; run\n  {COMMAND} {rest}"
    );
    ExitCode::from(2)
}

#[cfg(feature = "sabotage")]
pub use built_in::{replay, table};

#[cfg(feature = "sabotage")]
mod built_in {
    use super::*;
    use brasserie_common::sabotage::Sabotage;
    use integration_tests_sim::sabotage::Focus;

    /// Searches for each of these bugs in at most these seeds. Fails if one is not caught.
    pub fn table(name: &str, seeds: Range<u64>, printer: &mut Printer) -> ExitCode {
        let Some(bugs) = named(name) else {
            return unknown(name);
        };
        let mut missed = 0;
        printer.line(&format!(
            "{:<36} {:<28} {:>5} {:>8}",
            "bug", "caught by", "seeds", "seed"
        ));
        for bug in bugs {
            let name = bug.name();
            match Focus::of(bug).hunt(seeds.clone()) {
                Some(found) => printer.line(&format!(
                    "{name:<36} {:<28} {:>5} {:>8}",
                    found.broken.violation.law, found.seeds, found.seed
                )),
                None => {
                    missed += 1;
                    printer.line(&format!("{name:<36} NOT CAUGHT in seeds {seeds:?}"));
                }
            }
        }
        printer.line(&format!("\nreplay: {COMMAND} BUG --seed SEED --trace"));
        if missed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    /// Plays one seed with an injected bug.
    pub fn replay(
        name: &str,
        seed: u64,
        settings: &SeedSettings,
        printer: &mut Printer,
    ) -> ExitCode {
        let Some([bug]) = named(name)
            .as_deref()
            .map(<[Sabotage; 1]>::try_from)
            .and_then(Result::ok)
        else {
            return unknown(name);
        };
        let mut sink = |line: &str| printer.line(line);
        let outcome = Focus::of(bug).play((seed, Some(bug)), settings, &mut sink);
        for broken in &outcome.violations {
            printer.line(&format!(
                "{:.3} s: {}",
                broken.at.as_nanos() as f64 / 1e9,
                broken.violation
            ));
        }
        match outcome.violations.as_slice() {
            [] => {
                printer.line("no law is broken");
                ExitCode::FAILURE
            }
            [..] => ExitCode::SUCCESS,
        }
    }

    fn named(name: &str) -> Option<Vec<Sabotage>> {
        if name == "all" {
            return Some(Sabotage::ALL.to_vec());
        }
        let bug = Sabotage::ALL.into_iter().find(|bug| bug.name() == name)?;
        Some(vec![bug])
    }

    fn unknown(name: &str) -> ExitCode {
        let known: Vec<String> = Sabotage::ALL.into_iter().map(Sabotage::name).collect();
        eprintln!(
            "simulate: no injected bug is called `{name}`; there are all, or one of {}",
            known.join(", ")
        );
        ExitCode::from(2)
    }
}
