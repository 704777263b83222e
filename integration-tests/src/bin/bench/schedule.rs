//! The engine alone, on the paper's workload: what an event costs, what a whole pass costs, how much of the slots' time is used, how much
//! memory nodes and jobs take, and how fast it answers while nothing is free. Beside it, a scheduler that looks at everything.

mod asking;
mod brute;
mod measures;
mod meter;
mod workload;

use clap::ValueEnum;

use crate::figures::{Line, Report};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// One completion, and the starts that it leads to
    Event,
    /// All jobs on all nodes, from cold
    Pass,
    /// How much of the slots' time is used
    Throughput,
    /// Bytes
    Memory,
    /// Answers while nothing is free
    Waiting,
    /// A node table in slices
    Refresh,
    /// What workers that ask for work are told
    Asking,
}

/// How big.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// A second in all: whether it runs, not how fast
    Smoke,
    /// What runs within a minute or two
    Usual,
    /// Also ten million nodes and thirty million tasks: minutes and gigabytes
    Large,
}

/// Measures some parts; none means all.
pub fn measure(scale: Scale, parts: &[Part]) -> Report {
    // Memory first, while the process is small.
    let all = [
        Part::Memory,
        Part::Event,
        Part::Pass,
        Part::Throughput,
        Part::Waiting,
        Part::Refresh,
        Part::Asking,
    ];
    let chosen = all
        .iter()
        .filter(|part| parts.is_empty() || parts.contains(part));
    let mut lines = Vec::new();
    for part in chosen {
        eprintln!("schedule: {part:?}");
        lines.extend(match part {
            Part::Event => measures::event(scale),
            Part::Pass => measures::pass(scale),
            Part::Throughput => measures::throughput(scale),
            Part::Memory => measures::memory(scale),
            Part::Waiting => measures::waiting(scale),
            Part::Refresh => measures::refresh(scale),
            Part::Asking => asking::asking(scale),
        });
    }
    Report::new("schedule", "brute force", lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_gives_figures_that_make_sense() {
        let report = measure(Scale::Smoke, &[]);
        assert!(report.lines().len() >= 10, "{}", report.table());
        for line in report.lines() {
            assert!(line.figure.is_finite(), "{line:?}");
        }
        let shares = report.lines().iter().filter(|line| line.unit == "share");
        for line in shares {
            assert!(line.figure > 0.0 && line.figure <= 1.0, "{line:?}");
        }
        let json = report.json();
        assert_eq!(
            json["lines"].as_array().unwrap().len(),
            report.lines().len()
        );
    }
}
