//! Searches small worlds of the real cores through every order of events, and shows what each rule of the protocol is needed for.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use integration_tests_sim::search::explore::{End, Limits, Outcome, explore};
use integration_tests_sim::search::rules::{RULE_LIMITS, rules, sound_worlds};

/// Searches small worlds of the real cores exhaustively.
#[derive(Debug, Parser)]
#[command(name = "search")]
struct Options {
    /// Switch each rule off in turn and show the shortest history that breaks the contract (needs the feature `sabotage`)
    #[arg(long)]
    rules: bool,
    /// Only worlds or rules whose names contain this
    #[arg(long)]
    only: Option<String>,
    /// Stop a world's search at so many states
    #[arg(long, default_value_t = 2_000_000)]
    states: usize,
    /// And at this depth
    #[arg(long, default_value_t = 200)]
    depth: u32,
    /// Print counterexamples with all that happens in them
    #[arg(long)]
    trace: bool,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|only| name.contains(only))
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let is_well = if options.rules {
        search_rules(&options)
    } else {
        search_worlds(&options)
    };
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn search_worlds(options: &Options) -> bool {
    let limits = Limits {
        states: options.states,
        depth: options.depth,
    };
    let mut is_well = true;
    for world in sound_worlds() {
        if !options.wants(world.name) {
            continue;
        }
        println!("{}: {:?} leaps {:?}", world.name, world.budget, world.leaps);
        let started = Instant::now();
        let outcome = explore(&world, limits, &mut |_, _| ());
        print(&outcome, started, options);
        is_well &= outcome.end != End::Broken;
    }
    is_well
}

fn print(outcome: &Outcome, started: Instant, options: &Options) {
    let secs = started.elapsed().as_secs_f64();
    let end = match outcome.end {
        End::Exhausted => "the whole space",
        End::Cut => "CUT",
        End::Broken => "BROKEN",
    };
    println!(
        "  {end}: {} states, depth {}, {} transitions in {secs:.1} s ({:.0} a second), {} probes",
        outcome.states,
        outcome.depth,
        outcome.transitions,
        outcome.transitions as f64 / secs,
        outcome.probes,
    );
    if let Some(found) = &outcome.counterexample {
        println!("  {}", found.what);
        for step in &found.steps {
            if options.trace || !step.starts_with(' ') {
                println!("    {step}");
            }
        }
    }
}

#[cfg(feature = "sabotage")]
fn search_rules(options: &Options) -> bool {
    use brasserie_common::sabotage;
    let mut missing = Vec::new();
    for rule in rules() {
        if !options.wants(rule.id) {
            continue;
        }
        println!("{} ({})", rule.id, rule.bug.name());
        sabotage::choose(Some(rule.bug));
        let started = Instant::now();
        let limits = Limits {
            states: options.states.min(RULE_LIMITS.states),
            ..RULE_LIMITS
        };
        let outcome = explore(&rule.world, limits, &mut |_, _| ());
        print(&outcome, started, options);
        sabotage::choose(None);
        if outcome.end != End::Broken {
            missing.push(rule.id);
        }
    }
    if !missing.is_empty() {
        println!("not shown to be necessary: {}", missing.join(", "));
    }
    missing.is_empty()
}

#[cfg(not(feature = "sabotage"))]
fn search_rules(_options: &Options) -> bool {
    println!(
        "rules cannot be switched off in this build ({} of them, {} states at most each): build with --features sabotage",
        rules().len(),
        RULE_LIMITS.states
    );
    false
}
