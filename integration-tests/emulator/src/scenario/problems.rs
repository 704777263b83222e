//! Collects the mistakes in scenarios with their places, so that all are reported at once.

use std::fmt;
use std::path::{Path, PathBuf};

/// Maximum number of reported mistakes of one file. A file with more is probably of another format.
const MAX_TOLD: usize = 50;
/// Maximum number of mistakes with places. In a file with no more, the reported mistakes are the first ones of the file.
const MOST_PLACES: usize = 1000;

/// The mistakes of a scenario.
#[derive(Debug, thiserror::Error)]
pub struct ScenarioProblems {
    file: PathBuf,
    found: Vec<ScenarioProblem>,
}

/// One mistake.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ScenarioProblem {
    /// The line, from 1; 0 for no particular line.
    pub line: usize,
    /// The key; empty for no particular key.
    pub key: String,
    pub text: String,
}

impl ScenarioProblem {
    pub fn of_all(text: &str) -> Self {
        ScenarioProblem {
            line: 0,
            key: String::new(),
            text: text.to_owned(),
        }
    }
}

impl ScenarioProblems {
    pub fn new(file: &Path) -> Self {
        ScenarioProblems {
            file: file.to_owned(),
            found: Vec::new(),
        }
    }

    pub fn one(file: &Path, text: &str) -> Self {
        let mut problems = ScenarioProblems::new(file);
        problems.add(ScenarioProblem::of_all(text));
        problems
    }

    pub fn add(&mut self, problem: ScenarioProblem) {
        self.found.push(problem);
    }

    /// Returns `read` if there are no mistakes.
    pub fn none_or<T>(mut self, read: T) -> Result<T, ScenarioProblems> {
        if self.found.is_empty() {
            return Ok(read);
        }
        self.found.sort();
        Err(self)
    }

    /// Returns `value` if it is within the range. Otherwise adds a mistake at `place`.
    pub fn within(
        &mut self,
        place: impl FnOnce() -> (usize, String),
        value: f64,
        range: NumberRange,
    ) -> Option<f64> {
        if range.hold(value) {
            return Some(value);
        }
        self.at_place(place, format!("{} is not {range}", short(value)));
        None
    }

    /// Adds a mistake at `place`, which returns a line and a key. It is called only if the mistake may be reported, because it scans the
    /// file.
    pub fn at_place(&mut self, place: impl FnOnce() -> (usize, String), text: impl Into<String>) {
        let (line, key) = match self.found.len() < MOST_PLACES {
            true => place(),
            // This sorts behind all mistakes with places.
            false => (usize::MAX, String::new()),
        };
        self.add(ScenarioProblem {
            line,
            key,
            text: text.into(),
        });
    }
}

impl fmt::Display for ScenarioProblems {
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
        Ok(())
    }
}

/// The valid range of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NumberRange {
    pub least: f64,
    pub most: f64,
    /// Whether `least` itself is excluded.
    pub above: bool,
}

impl NumberRange {
    /// A fraction above 0.
    pub const PART: NumberRange = NumberRange::above(0.0, 1.0);
    pub const CHANCE: NumberRange = NumberRange::from(0.0, 1.0);
    /// An amount of 0 or more. No real amount reaches the maximum, and products of a few amounts are finite.
    pub const AMOUNT: NumberRange = NumberRange::from(0.0, 1e30);
    pub const POSITIVE: NumberRange = NumberRange::above(0.0, 1e30);
    /// A span in seconds, up to ten years.
    pub const SPAN: NumberRange = NumberRange::from(0.0, 3.2e8);
    /// The mean of random spans in seconds. Shorter ones would cause too many steps.
    pub const MEAN: NumberRange = NumberRange::from(0.1, 3.2e8);
    /// The length of a step or of the whole run, in seconds.
    pub const STEP: NumberRange = NumberRange::from(0.01, 3.2e8);

    const fn from(least: f64, most: f64) -> Self {
        NumberRange {
            least,
            most,
            above: false,
        }
    }

    const fn above(least: f64, most: f64) -> Self {
        NumberRange {
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

impl fmt::Display for NumberRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = if self.above { "above" } else { "at least" };
        let (least, most) = (short(self.least), short(self.most));
        write!(f, "{from} {least} and at most {most}")
    }
}

/// Formats a number without long rows of zeros.
fn short(number: f64) -> String {
    match number.abs() {
        0.0 | 1e-6..1e15 => number.to_string(),
        _ => format!("{number:e}"),
    }
}
