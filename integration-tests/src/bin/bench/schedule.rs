//! Measures the engine alone, on the paper's workload: an event, a whole pass, the use of slots, the memory of nodes and jobs, and answers
//! while no slot is free. The baseline is a scheduler that scans everything.

mod asking;
mod brute;
mod measures;
mod workload;

use clap::ValueEnum;

use crate::figures::{BenchReport, Figure};

/// The part of the engine to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EnginePart {
    /// One completion, and its subsequent starts
    Event,
    /// All jobs on all nodes, from cold
    Pass,
    /// The used part of the slots' time
    Throughput,
    /// Memory in bytes
    Memory,
    /// Answers while no slot is free
    Waiting,
    /// A node table in slices
    Refresh,
    /// Verdicts for pull workers
    Asking,
}

/// The size of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scale {
    /// One second in all, to check that it runs
    Smoke,
    /// Measurements of a minute or two
    Usual,
    /// Includes ten million nodes and thirty million tasks: minutes and gigabytes
    Large,
}

impl Scale {
    /// Adds a promise to a line, which a smoke test does not make.
    fn at_most(self, line: Figure, most: f64) -> Figure {
        match self {
            Scale::Smoke => line,
            Scale::Usual | Scale::Large => line.at_most(most),
        }
    }
}

/// Measures these parts; all parts if the list is empty.
pub fn measure(scale: Scale, parts: &[EnginePart]) -> BenchReport {
    // Memory comes first, while the process is small.
    let all = [
        EnginePart::Memory,
        EnginePart::Event,
        EnginePart::Pass,
        EnginePart::Throughput,
        EnginePart::Waiting,
        EnginePart::Refresh,
        EnginePart::Asking,
    ];
    let chosen = all
        .iter()
        .filter(|part| parts.is_empty() || parts.contains(part));
    let mut lines = Vec::new();
    for part in chosen {
        eprintln!("schedule: {part:?}");
        lines.extend(match part {
            EnginePart::Event => measures::event(scale),
            EnginePart::Pass => measures::pass(scale),
            EnginePart::Throughput => measures::throughput(scale),
            EnginePart::Memory => measures::memory(scale),
            EnginePart::Waiting => measures::waiting(scale),
            EnginePart::Refresh => measures::refresh(scale),
            EnginePart::Asking => asking::asking(scale),
        });
    }
    BenchReport::new("schedule", "brute force", lines)
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
