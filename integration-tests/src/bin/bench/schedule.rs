//! The engine alone, on the paper's workload: what an event costs, what a whole pass costs, how much of the slots' time is used, how much
//! memory nodes and jobs take, and how fast it answers while nothing is free. Beside it, a scheduler that looks at everything.

mod brute;
mod measures;
mod meter;
mod workload;

use clap::ValueEnum;
use serde_json::{Value, json};

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

/// What has to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    AtMost(f64),
    AtLeast(f64),
    /// Shown only.
    LessIsBetter,
    MoreIsBetter,
}

/// One figure.
#[derive(Clone, Debug)]
struct Line {
    what: String,
    unit: &'static str,
    figure: f64,
    baseline: Option<f64>,
    bound: Bound,
}

/// All figures.
pub struct Report {
    lines: Vec<Line>,
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
        });
    }
    Report { lines }
}

impl Line {
    fn new(what: impl Into<String>, unit: &'static str, figure: f64) -> Self {
        Line {
            what: what.into(),
            unit,
            figure,
            baseline: None,
            bound: Bound::LessIsBetter,
        }
    }

    fn beside(self, baseline: f64) -> Self {
        Line {
            baseline: Some(baseline),
            ..self
        }
    }

    fn at_most(self, most: f64) -> Self {
        Line {
            bound: Bound::AtMost(most),
            ..self
        }
    }

    fn at_least(self, least: f64) -> Self {
        Line {
            bound: Bound::AtLeast(least),
            ..self
        }
    }

    fn more_is_better(self) -> Self {
        Line {
            bound: Bound::MoreIsBetter,
            ..self
        }
    }

    /// How many times as good as the baseline.
    fn ratio(&self) -> Option<f64> {
        let baseline = self.baseline?;
        Some(match self.bound {
            Bound::AtMost(_) | Bound::LessIsBetter => baseline / self.figure,
            Bound::AtLeast(_) | Bound::MoreIsBetter => self.figure / baseline,
        })
    }

    fn is_kept(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.figure <= most,
            Bound::AtLeast(least) => self.figure >= least,
            Bound::LessIsBetter | Bound::MoreIsBetter => true,
        }
    }

    fn row(&self) -> String {
        let optional = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.3}"));
        let verdict = if self.is_kept() { "kept" } else { "NOT KEPT" };
        let promise = match self.bound {
            Bound::AtMost(most) => format!("at most {most}: {verdict}"),
            Bound::AtLeast(least) => format!("at least {least}: {verdict}"),
            Bound::LessIsBetter | Bound::MoreIsBetter => String::new(),
        };
        let row = format!(
            "{:<58}{:>12.3} {:<6}{:>14}{:>12}  {promise}",
            self.what,
            self.figure,
            self.unit,
            optional(self.baseline),
            optional(self.ratio()),
        );
        row.trim_end().to_owned()
    }

    fn json(&self) -> Value {
        let (most, least) = match self.bound {
            Bound::AtMost(most) => (Some(most), None),
            Bound::AtLeast(least) => (None, Some(least)),
            Bound::LessIsBetter | Bound::MoreIsBetter => (None, None),
        };
        json!({
            "what": self.what, "unit": self.unit, "figure": self.figure, "baseline": self.baseline, "ratio": self.ratio(),
            "most": most, "least": least, "kept": self.is_kept(),
        })
    }
}

impl Report {
    pub fn is_kept(&self) -> bool {
        self.lines.iter().all(Line::is_kept)
    }

    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<58}{:>12} {:<6}{:>14}{:>12}\n",
            "schedule", "", "", "brute force", "times"
        );
        for line in &self.lines {
            text.push_str(&line.row());
            text.push('\n');
        }
        text
    }

    pub fn json(&self) -> Value {
        let lines: Vec<Value> = self.lines.iter().map(Line::json).collect();
        json!({ "name": "schedule", "kept": self.is_kept(), "lines": lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_gives_figures_that_make_sense() {
        let report = measure(Scale::Smoke, &[]);
        assert!(report.lines.len() >= 10, "{}", report.table());
        for line in &report.lines {
            assert!(line.figure.is_finite(), "{line:?}");
        }
        let shares = report.lines.iter().filter(|line| line.unit == "share");
        for line in shares {
            assert!(line.figure > 0.0 && line.figure <= 1.0, "{line:?}");
        }
        let json = report.json();
        assert_eq!(json["lines"].as_array().unwrap().len(), report.lines.len());
    }

    #[test]
    fn a_promise_is_kept_from_the_right_side() {
        let line = Line::new("it", "us", 2.0).beside(8.0);
        assert_eq!(line.ratio(), Some(4.0));
        assert!(line.clone().at_most(2.0).is_kept() && !line.clone().at_most(1.9).is_kept());
        assert!(line.clone().at_least(2.0).is_kept() && !line.clone().at_least(2.1).is_kept());
        assert_eq!(line.at_least(1.0).ratio(), Some(0.25));
    }
}
