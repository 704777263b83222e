//! Mistakes in scenarios: all of them at once, each with its place.

use std::fmt;
use std::path::{Path, PathBuf};

/// Mistakes of one file that are told: more are another format.
const MAX_TOLD: usize = 50;
/// Mistakes whose places are looked for, so that the first ones of those that are told are the first of the file, if it has no more.
const MOST_PLACES: usize = 1000;

/// What is wrong with a scenario.
#[derive(Debug, thiserror::Error)]
pub struct Problems {
    file: PathBuf,
    found: Vec<Problem>,
    /// Of other files that belong to it.
    others: Vec<Problems>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// From 1; 0: nowhere in particular.
    pub line: usize,
    /// Empty: of no key.
    pub key: String,
    pub text: String,
}

impl Problem {
    pub fn of_all(text: &str) -> Self {
        Problem {
            line: 0,
            key: String::new(),
            text: text.to_owned(),
        }
    }
}

impl Problems {
    pub fn new(file: &Path) -> Self {
        Problems {
            file: file.to_owned(),
            found: Vec::new(),
            others: Vec::new(),
        }
    }

    pub fn one(file: &Path, text: &str) -> Self {
        let mut problems = Problems::new(file);
        problems.add(Problem::of_all(text));
        problems
    }

    pub fn add(&mut self, problem: Problem) {
        self.found.push(problem);
    }

    pub fn at(&mut self, line: usize, key: &str, text: impl Into<String>) {
        self.add(Problem {
            line,
            key: key.to_owned(),
            text: text.into(),
        });
    }

    /// Those of another file.
    pub fn join(&mut self, others: Problems) {
        self.others.push(others);
    }

    pub fn is_empty(&self) -> bool {
        self.found.is_empty() && self.others.iter().all(Problems::is_empty)
    }

    /// What was read, if nothing was wrong.
    pub fn none_or<T>(mut self, read: T) -> Result<T, Problems> {
        if self.is_empty() {
            return Ok(read);
        }
        self.found.sort();
        Err(self)
    }

    /// In the order of their lines.
    pub fn found(&self) -> &[Problem] {
        &self.found
    }

    /// `value`, if it lies within the limits.
    pub fn within(
        &mut self,
        place: impl FnOnce() -> (usize, String),
        value: f64,
        limits: Limits,
    ) -> Option<f64> {
        if limits.hold(value) {
            return Some(value);
        }
        self.at_place(place, format!("{} is not {limits}", short(value)));
        None
    }

    /// The place, line and key, is looked for only if it may be told: that takes a walk through the file.
    pub fn at_place(&mut self, place: impl FnOnce() -> (usize, String), text: impl Into<String>) {
        let (line, key) = match self.found.len() < MOST_PLACES {
            true => place(),
            // Behind all that are told.
            false => (usize::MAX, String::new()),
        };
        self.at(line, &key, text);
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.display();
        for problem in self.found.iter().take(MAX_TOLD) {
            match problem.line {
                0 => write!(f, "{file}: ")?,
                line => write!(f, "{file}:{line}: ")?,
            }
            match problem.key.as_str() {
                "" => writeln!(f, "{}", problem.text)?,
                key => writeln!(f, "{key}: {}", problem.text)?,
            }
        }
        if let Some(more) = self.found.len().checked_sub(MAX_TOLD).filter(|n| *n > 0) {
            writeln!(f, "{file}: and {more} more")?;
        }
        self.others.iter().try_for_each(|others| others.fmt(f))
    }
}

/// Which numbers make sense somewhere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub least: f64,
    pub most: f64,
    /// `least` itself is none of them.
    pub above: bool,
}

impl Limits {
    /// A part of something that is there.
    pub const PART: Limits = Limits::above(0.0, 1.0);
    pub const CHANCE: Limits = Limits::from(0.0, 1.0);
    /// An amount that may be nothing; so large that nobody means it, so small that products are finite.
    pub const AMOUNT: Limits = Limits::from(0.0, 1e30);
    pub const POSITIVE: Limits = Limits::above(0.0, 1e30);
    /// A span, up to ten years.
    pub const SPAN: Limits = Limits::from(0.0, 3.2e8);
    /// The mean of spans that come and go: shorter ones would make for many steps.
    pub const MEAN: Limits = Limits::from(0.1, 3.2e8);
    /// A step, or all of them.
    pub const STEP: Limits = Limits::from(0.01, 3.2e8);

    pub const fn from(least: f64, most: f64) -> Self {
        Limits {
            least,
            most,
            above: false,
        }
    }

    pub const fn above(least: f64, most: f64) -> Self {
        Limits {
            least,
            most,
            above: true,
        }
    }

    fn hold(&self, value: f64) -> bool {
        let enough = match self.above {
            true => value > self.least,
            false => value >= self.least,
        };
        enough && value <= self.most
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = if self.above { "above" } else { "at least" };
        let (least, most) = (short(self.least), short(self.most));
        write!(f, "{from} {least} and at most {most}")
    }
}

/// Without rows of zeros.
fn short(number: f64) -> String {
    match number.abs() {
        0.0 | 1e-6..1e15 => number.to_string(),
        _ => format!("{number:e}"),
    }
}
