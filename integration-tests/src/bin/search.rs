//! Searches small worlds of the real cores through every order of events, and shows what each rule of the protocol is needed for.

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use integration_tests_sim::search::explore::{End, Limits, Outcome, explore};
use integration_tests_sim::search::rules::{RULE_LIMITS, rules};
use integration_tests_sim::search::settings::Settings;
use integration_tests_sim::search::worlds::sound_worlds;

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
    fn limits(&self) -> Limits {
        Limits {
            states: self.states,
            depth: self.depth,
        }
    }

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
    let mut broken = Vec::new();
    let (mut states, mut exhausted, mut searched) = (0, 0, 0);
    for world in sound_worlds() {
        if !options.wants(world.name) {
            continue;
        }
        println!("{}: {}", world.name, faults(&world));
        let outcome = search(&world, options, options.limits());
        searched += 1;
        states += outcome.states;
        exhausted += usize::from(outcome.end == End::Exhausted);
        if outcome.end == End::Broken {
            broken.push(world.name);
        }
    }
    println!("{searched} worlds, {exhausted} of them searched whole, {states} distinct states");
    if !broken.is_empty() {
        println!("the contract is broken in: {}", broken.join(", "));
    }
    broken.is_empty()
}

/// What a world may suffer, and how often.
fn faults(world: &Settings) -> String {
    let leaps: Vec<String> = world.leaps.iter().map(|leap| format!("{leap} s")).collect();
    if leaps.is_empty() {
        return world.budget.to_string();
    }
    format!("{}, each of {}", world.budget, leaps.join(" or "))
}

fn search(world: &Settings, options: &Options, limits: Limits) -> Outcome {
    let started = Instant::now();
    let outcome = explore(world, limits, &mut |_, _| ());
    let secs = started.elapsed().as_secs_f64();
    let end = match outcome.end {
        End::Exhausted => "the whole space, and the contract holds",
        End::Cut => "CUT, and the contract holds so far",
        End::Broken => "BROKEN",
    };
    println!(
        "  {end}: {} states, depth {}, {} transitions in {secs:.1} s ({:.0} a second), {} states left alone",
        outcome.states,
        outcome.depth,
        outcome.transitions,
        outcome.transitions as f64 / secs,
        outcome.probes,
    );
    if let Some(found) = &outcome.counterexample {
        for step in &found.steps {
            if options.trace || !step.starts_with(' ') {
                println!("    {step}");
            }
        }
        println!("  {}", found.what);
    }
    outcome
}

/// Each rule switched off, and its world with the rule as a control.
#[cfg(feature = "sabotage")]
fn search_rules(options: &Options) -> bool {
    use brasserie_common::sabotage;
    let (mut not_shown, mut not_kept) = (Vec::new(), Vec::new());
    let limits = Limits {
        states: options.states.min(RULE_LIMITS.states),
        depth: options.depth,
    };
    for rule in rules() {
        if !options.wants(rule.id) {
            continue;
        }
        println!("{}: {}", rule.id, faults(&rule.world));
        println!("  without it ({}):", rule.bug.name());
        sabotage::choose(Some(rule.bug));
        let without = search(&rule.world, options, limits);
        sabotage::choose(None);
        println!("  with it:");
        let with = search(&rule.world, options, limits);
        if without.end != End::Broken {
            not_shown.push(rule.id);
        }
        let is_shallow = with.end == End::Cut && with.depth < without.depth;
        if with.end == End::Broken || is_shallow {
            not_kept.push(rule.id);
        }
    }
    for (what, ids) in [
        ("not shown to be necessary", &not_shown),
        ("broken, or not searched so far, with the rule", &not_kept),
    ] {
        if !ids.is_empty() {
            println!("{what}: {}", ids.join(", "));
        }
    }
    not_shown.is_empty() && not_kept.is_empty()
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
