//! Collects measurements, and prints their figures with baselines and promises, as a table or as JSON.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cluster::TaskCosts;

/// Returns how many there were a second.
pub fn per_second(count: usize, elapsed: Duration) -> f64 {
    count as f64 / elapsed.as_secs_f64()
}

pub fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Repeated measurements, each of which includes its baseline.
pub struct Samples<T>(Vec<T>);

/// One of several measurements, which prints its progress.
pub struct Pair<'a> {
    name: &'a str,
    pub number: usize,
    pairs: usize,
}

impl Pair<'_> {
    /// Prints on standard error which part of the measurement begins.
    pub fn begin(&self, what: &str) {
        let Pair {
            name,
            number,
            pairs,
        } = self;
        eprintln!("{name}: pair {} of {pairs}: {what}", number + 1);
    }
}

impl<T> Samples<T> {
    /// Measures `pairs` times.
    pub fn take(name: &str, pairs: usize, measure: impl FnMut(Pair<'_>) -> T) -> Self {
        let pair = |number| Pair {
            name,
            number,
            pairs,
        };
        Samples((0..pairs).map(pair).map(measure).collect())
    }

    /// Returns the median of a figure, or the upper one of two middle values. A ratio must be computed for each pair, because a temporary
    /// disturbance of the machine affects both halves.
    pub fn median(&self, of: impl Fn(&T) -> f64) -> f64 {
        let mut values: Vec<f64> = self.0.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    }

    /// Returns the line of a figure's median.
    pub fn line(
        &self,
        what: impl Into<String>,
        unit: &'static str,
        of: impl Fn(&T) -> f64,
    ) -> Figure {
        Figure::new(what, unit, self.median(of))
    }

    pub fn map<U>(self, to: impl FnMut(T) -> U) -> Samples<U> {
        Samples(self.0.into_iter().map(to).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    pub fn most(&self, of: impl Fn(&T) -> f64) -> f64 {
        self.0.iter().map(of).fold(0.0, f64::max)
    }
}

impl<T> Samples<T> {
    /// Returns the line of the share that is left of the rate inside TLS, if both were measured. `of` returns the costs without TLS, then
    /// those inside it.
    pub fn tls_line(&self, goal: f64, of: impl Fn(&T) -> &[TaskCosts]) -> Option<Figure> {
        let has_both = self.0.iter().all(|sample| of(sample).len() == 2);
        let share = |sample: &T| {
            let each = of(sample);
            each[1].rate / each[0].rate
        };
        has_both.then(|| {
            let what = "rate inside TLS as a share of plain, median of the pairs";
            self.line(what, "", share).at_least(goal)
        })
    }
}

/// Times in milliseconds in ascending order.
pub struct Times(Vec<f64>);

/// Collects at least one time.
pub fn times_ms(times: impl Iterator<Item = Duration>) -> Times {
    let mut times: Vec<f64> = times.map(|time| time.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    Times(times)
}

/// Runs `work` this many times, with the number of each run, and collects their times.
pub fn times_of(count: usize, mut work: impl FnMut(usize)) -> Times {
    times_ms((0..count).map(|number| {
        let began = Instant::now();
        work(number);
        began.elapsed()
    }))
}

impl Times {
    /// Returns the percentile of the times.
    pub fn at(&self, percent: usize) -> f64 {
        self.0[(self.0.len() - 1) * percent / 100]
    }
}

/// The promise or direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FigureBound {
    AtMost(f64),
    AtLeast(f64),
    /// No promise; lower values are better.
    LessIsBetter,
    MoreIsBetter,
}

/// One figure.
#[derive(Clone, Debug)]
pub struct Figure {
    pub what: String,
    pub unit: &'static str,
    pub figure: f64,
    baseline: Option<f64>,
    bound: FigureBound,
}

/// All figures of one benchmark.
pub struct BenchReport {
    name: String,
    /// The name of the baselines.
    baseline: &'static str,
    lines: Vec<Figure>,
    /// Lines of text below the figures.
    table: Vec<String>,
}

impl Figure {
    pub fn new(what: impl Into<String>, unit: &'static str, figure: f64) -> Self {
        Figure {
            what: what.into(),
            unit,
            figure,
            baseline: None,
            bound: FigureBound::LessIsBetter,
        }
    }

    pub fn beside(self, baseline: f64) -> Self {
        Figure {
            baseline: Some(baseline),
            ..self
        }
    }

    pub fn at_most(self, most: f64) -> Self {
        Figure {
            bound: FigureBound::AtMost(most),
            ..self
        }
    }

    pub fn at_least(self, least: f64) -> Self {
        Figure {
            bound: FigureBound::AtLeast(least),
            ..self
        }
    }

    pub fn more_is_better(self) -> Self {
        Figure {
            bound: FigureBound::MoreIsBetter,
            ..self
        }
    }

    /// Returns the factor by which the figure is better than the baseline; `None` if it is not finite.
    fn ratio(&self) -> Option<f64> {
        let baseline = self.baseline?;
        let ratio = match self.bound {
            FigureBound::AtMost(_) | FigureBound::LessIsBetter => baseline / self.figure,
            FigureBound::AtLeast(_) | FigureBound::MoreIsBetter => self.figure / baseline,
        };
        ratio.is_finite().then_some(ratio)
    }

    pub fn is_kept(&self) -> bool {
        match self.bound {
            FigureBound::AtMost(most) => self.figure <= most,
            FigureBound::AtLeast(least) => self.figure >= least,
            FigureBound::LessIsBetter | FigureBound::MoreIsBetter => true,
        }
    }

    fn row(&self) -> String {
        let optional = |value: Option<f64>| value.map_or(String::new(), |v| format!("{v:.3}"));
        let verdict = if self.is_kept() { "kept" } else { "NOT KEPT" };
        let promise = match self.bound {
            FigureBound::AtMost(most) => format!("at most {most}: {verdict}"),
            FigureBound::AtLeast(least) => format!("at least {least}: {verdict}"),
            FigureBound::LessIsBetter | FigureBound::MoreIsBetter => String::new(),
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
            FigureBound::AtMost(most) => (Some(most), None),
            FigureBound::AtLeast(least) => (None, Some(least)),
            FigureBound::LessIsBetter | FigureBound::MoreIsBetter => (None, None),
        };
        json!({
            "what": self.what, "unit": self.unit, "figure": self.figure, "baseline": self.baseline, "ratio": self.ratio(),
            "most": most, "least": least, "kept": self.is_kept(),
        })
    }
}

impl BenchReport {
    pub fn new(name: impl Into<String>, baseline: &'static str, lines: Vec<Figure>) -> Self {
        BenchReport {
            name: name.into(),
            baseline,
            lines,
            table: Vec::new(),
        }
    }

    /// Adds lines of text below the figures.
    pub fn with_table(self, table: Vec<String>) -> Self {
        BenchReport { table, ..self }
    }

    #[cfg(test)]
    pub fn lines(&self) -> &[Figure] {
        &self.lines
    }

    pub fn is_kept(&self) -> bool {
        self.lines.iter().all(Figure::is_kept)
    }

    pub fn table(&self) -> String {
        let mut text = format!(
            "{:<58}{:>12} {:<6}{:>14}{:>12}\n",
            self.name, "", "", self.baseline, "times"
        );
        for line in &self.lines {
            text.push_str(&line.row());
            text.push('\n');
        }
        for row in &self.table {
            text.push_str(row);
            text.push('\n');
        }
        text
    }

    pub fn json(&self) -> Value {
        let lines: Vec<Value> = self.lines.iter().map(Figure::json).collect();
        json!({
            "name": self.name, "baseline": self.baseline, "kept": self.is_kept(), "lines": lines, "table": self.table,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_is_kept_from_the_right_side() {
        let line = Figure::new("it", "us", 2.0).beside(8.0);
        assert_eq!(line.ratio(), Some(4.0));
        assert!(line.clone().at_most(2.0).is_kept() && !line.clone().at_most(1.9).is_kept());
        assert!(line.clone().at_least(2.0).is_kept() && !line.clone().at_least(2.1).is_kept());
        assert_eq!(line.at_least(1.0).ratio(), Some(0.25));
    }
}
