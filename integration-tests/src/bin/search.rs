//! Searches small worlds of the real cores through every order of events, and shows why each rule of the protocol is needed.

use std::process::ExitCode;
use std::time::Instant;

use clap::builder::RangedU64ValueParser;
use clap::{Parser, value_parser};
use integration_tests::output::Printer;
use integration_tests_sim::search::explore::{SearchEnd, SearchLimits, SearchOutcome, explore};
use integration_tests_sim::search::rules::{RULE_LIMITS, rules};
use integration_tests_sim::search::settings::WorldSettings;
use integration_tests_sim::search::worlds::sound_worlds;

/// Maximum states, because a state is numbered with 32 bits.
const MOST_STATES: u64 = 4_000_000_000;

/// Searches small worlds of the real cores exhaustively.
#[derive(Debug, Parser)]
#[command(name = "search")]
struct SearchOptions {
    /// Switch each rule off in turn and show the shortest history that breaks the contract (needs the feature `sabotage`)
    #[arg(long)]
    rules: bool,
    /// Search only worlds or rules whose names contain this text
    #[arg(long)]
    only: Option<String>,
    /// Stop the search of a world at this number of states
    #[arg(long, default_value_t = 2_000_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=MOST_STATES))]
    states: usize,
    /// Stop the search of a world at this depth
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..))]
    depth: u32,
    /// Print counterexamples with all their events
    #[arg(long)]
    trace: bool,
}

impl SearchOptions {
    fn limits(&self) -> SearchLimits {
        SearchLimits {
            states: self.states,
            depth: self.depth,
        }
    }

    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }

    /// Errors if no world or rule matches the options, because an empty search would pass.
    fn check(&self) -> Result<(), String> {
        let (what, names): (&str, Vec<&str>) = match self.rules {
            true => ("rule", rules().iter().map(|rule| rule.id).collect()),
            false => ("world", sound_worlds().iter().map(|it| it.name).collect()),
        };
        if !names.iter().any(|name| self.wants(name)) {
            let only = self.only.as_deref().unwrap_or_default();
            let names = names.join(", ");
            return Err(format!(
                "the name of no {what} contains `{only}`; there are {names}"
            ));
        }
        if self.rules && cfg!(not(feature = "sabotage")) {
            return Err(format!(
                "rules cannot be switched off in this build ({} of them, {} states at most each): build with --features sabotage",
                names.len(),
                RULE_LIMITS.states
            ));
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    let options = SearchOptions::parse();
    if let Err(problem) = options.check() {
        eprintln!("search: {problem}");
        return ExitCode::from(2);
    }
    let mut printer = Printer::default();
    let is_well = if options.rules {
        search_rules(&options, &mut printer)
    } else {
        search_worlds(&options, &mut printer)
    };
    printer.end(if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn search_worlds(options: &SearchOptions, printer: &mut Printer) -> bool {
    let mut broken = Vec::new();
    let (mut states, mut exhausted, mut searched) = (0, 0, 0);
    for world in sound_worlds() {
        if !options.wants(world.name) {
            continue;
        }
        printer.line(&format!("{}: {}", world.name, faults(&world)));
        let outcome = search(&world, options, options.limits(), printer);
        searched += 1;
        states += outcome.states;
        exhausted += usize::from(outcome.end == SearchEnd::Exhausted);
        if outcome.end == SearchEnd::Broken {
            broken.push(world.name);
        }
    }
    printer.line(&format!(
        "{searched} worlds, {exhausted} of them searched whole, {states} distinct states"
    ));
    if !broken.is_empty() {
        printer.line(&format!("the contract is broken in: {}", broken.join(", ")));
    }
    broken.is_empty()
}

/// Returns the faults of a world and their maximum number.
fn faults(world: &WorldSettings) -> String {
    let leaps: Vec<String> = world.leaps.iter().map(|leap| format!("{leap} s")).collect();
    if leaps.is_empty() {
        return world.budget.to_string();
    }
    format!("{}, each of {}", world.budget, leaps.join(" or "))
}

fn search(
    world: &WorldSettings,
    options: &SearchOptions,
    limits: SearchLimits,
    printer: &mut Printer,
) -> SearchOutcome {
    let started = Instant::now();
    let outcome = explore(world, limits, &mut |_, _| ());
    let secs = started.elapsed().as_secs_f64();
    let end = match outcome.end {
        SearchEnd::Exhausted => "the whole space, and the contract holds",
        SearchEnd::Cut => "CUT, and the contract holds so far",
        SearchEnd::Broken => "BROKEN",
    };
    printer.line(&format!(
        "  {end}: {} states, depth {}, {} transitions in {secs:.1} s ({:.0} a second), {} states left alone",
        outcome.states,
        outcome.depth,
        outcome.transitions,
        outcome.transitions as f64 / secs,
        outcome.probes,
    ));
    if let Some(found) = &outcome.counterexample {
        for step in &found.steps {
            if options.trace || !step.starts_with(' ') {
                printer.line(&format!("    {step}"));
            }
        }
        printer.line(&format!("  {}", found.what));
    }
    outcome
}

/// Searches each rule's world with the rule switched off, and with the rule as a control.
#[cfg(feature = "sabotage")]
fn search_rules(options: &SearchOptions, printer: &mut Printer) -> bool {
    use brasserie_common::sabotage;
    let (mut not_shown, mut not_kept) = (Vec::new(), Vec::new());
    let limits = SearchLimits {
        states: options.states.min(RULE_LIMITS.states),
        depth: options.depth,
    };
    for rule in rules() {
        if !options.wants(rule.id) {
            continue;
        }
        printer.line(&format!("{}: {}", rule.id, faults(&rule.world)));
        printer.line(&format!("  without it ({}):", rule.bug.name()));
        sabotage::choose(Some(rule.bug));
        let without = search(&rule.world, options, limits, printer);
        sabotage::choose(None);
        printer.line("  with it:");
        let with = search(&rule.world, options, limits, printer);
        if without.end != SearchEnd::Broken {
            not_shown.push(rule.id);
        }
        let is_shallow = with.end == SearchEnd::Cut && with.depth < without.depth;
        if with.end == SearchEnd::Broken || is_shallow {
            not_kept.push(rule.id);
        }
    }
    for (what, ids) in [
        ("not shown to be necessary", &not_shown),
        ("broken, or not searched so far, with the rule", &not_kept),
    ] {
        if !ids.is_empty() {
            printer.line(&format!("{what}: {}", ids.join(", ")));
        }
    }
    not_shown.is_empty() && not_kept.is_empty()
}

/// Never called, because [`SearchOptions::check`] refuses `--rules` without the feature.
#[cfg(not(feature = "sabotage"))]
fn search_rules(_: &SearchOptions, _: &mut Printer) -> bool {
    false
}
