//! Parses scalars as people write them: `"3"`, `3.0` and `3` are one integer, `"yes"` and `1` are one boolean.

use std::ops::RangeInclusive;
use std::time::Duration;

use brasserie_common::NodeName;
use brasserie_common::backoff::{AfterLast, BackoffPolicy};
use brasserie_common::time::parse_duration;
use serde_json::Number;

use crate::numbers::number_from;
use crate::read::{At, Notes, suggest};
use crate::tree::Value;

/// The longest time in a config, 68 years. The limit equals that of backoffs, and milliseconds stay exact in a double.
const MAX_SECONDS: f64 = i32::MAX as f64;

/// The allowed numbers of slots: every non-negative 32-bit number.
pub(crate) const AMOUNT: RangeInclusive<i32> = 0..=i32::MAX;

/// Stores a value that was read. The default stays if the value has an error.
pub(crate) fn set<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

impl At<'_> {
    pub fn boolean(&self, notes: &mut Notes) -> Option<bool> {
        let value = self.as_truth();
        if value.is_none() {
            notes.error(self.expected("true or false"));
        }
        value
    }

    /// Returns the boolean here, in any of its spellings.
    pub fn as_truth(&self) -> Option<bool> {
        match &self.node.value {
            Value::Bool(b) => Some(*b),
            Value::Number(n) => n.as_f64().map(|n| n != 0.0),
            Value::String(s) => match s.trim().to_ascii_lowercase().as_str() {
                "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
                "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
                _ => None,
            },
            Value::Null | Value::Array(_) | Value::Object(_) | Value::Unread => None,
        }
    }

    pub fn integer(&self, range: RangeInclusive<i64>, notes: &mut Notes) -> Option<i64> {
        let number = match &self.node.value {
            Value::Bool(b) => Some(Number::from(u8::from(*b))),
            Value::Number(n) => Some(n.clone()),
            Value::String(s) => json_number(s),
            Value::Null | Value::Array(_) | Value::Object(_) | Value::Unread => None,
        };
        let allowed = format!("an integer from {} to {}", range.start(), range.end());
        let Some(number) = number else {
            notes.error(self.expected("an integer").help(allowed));
            return None;
        };
        match whole(&number) {
            Whole::Fraction => {
                notes.error(self.expected("an integer").help(allowed));
                None
            }
            Whole::Fits(n) if range.contains(&n) => Some(n),
            Whole::Fits(_) | Whole::TooLarge => {
                notes.error(
                    self.problem(format!("{} is out of range", self.node))
                        .help(allowed),
                );
                None
            }
        }
    }

    pub fn integer32(&self, range: RangeInclusive<i32>, notes: &mut Notes) -> Option<i32> {
        let range = i64::from(*range.start())..=i64::from(*range.end());
        self.integer(range, notes)
            .and_then(|n| i32::try_from(n).ok())
    }

    /// Reads a finite number.
    pub fn double(&self, notes: &mut Notes) -> Option<f64> {
        let value = match &self.node.value {
            Value::Number(n) => n.as_f64(),
            Value::String(s) => json_number(s).and_then(|n| n.as_f64()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) | Value::Unread => {
                None
            }
        };
        if value.is_none() {
            notes.error(self.expected("a number"));
        }
        value
    }

    pub fn string(&self, notes: &mut Notes) -> Option<String> {
        match &self.node.value {
            Value::String(s) => Some(s.clone()),
            Value::Bool(b) => Some(b.to_string()),
            Value::Number(n) => Some(match (n.as_i64(), n.as_u64(), n.as_f64()) {
                (Some(n), _, _) => n.to_string(),
                (_, Some(n), _) => n.to_string(),
                // Integral doubles lose their `.0`, as a person would write them.
                (_, _, Some(n)) => n.to_string(),
                (None, None, None) => n.to_string(),
            }),
            Value::Null | Value::Array(_) | Value::Object(_) | Value::Unread => {
                notes.error(self.expected("a string"));
                None
            }
        }
    }

    /// Reads a string that is a valid name: not empty, not too long, without NUL.
    pub fn name(&self, notes: &mut Notes) -> Option<String> {
        let name = self.string(notes)?;
        match name_error(&name) {
            None => Some(name),
            Some(error) => {
                notes.error(self.problem(error));
                None
            }
        }
    }

    /// Returns the key of this value if it is a valid name.
    pub fn key_name(&self, notes: &mut Notes) -> Option<&str> {
        match name_error(self.key()) {
            None => Some(self.key()),
            Some(error) => {
                notes.error(self.key_problem(error));
                None
            }
        }
    }

    /// Returns the items that are strings, and reports the others.
    pub fn strings(&self, notes: &mut Notes) -> Option<Vec<String>> {
        self.expect_array("strings", notes)
            .then(|| self.items().filter_map(|i| i.string(notes)).collect())
    }

    /// Reads one of the allowed words.
    pub fn choice<T: Copy>(&self, allowed: &[(&str, T)], notes: &mut Notes) -> Option<T> {
        let word = self.string(notes)?;
        let found = allowed.iter().find(|(name, _)| *name == word);
        if found.is_none() {
            let names: Vec<&str> = allowed.iter().map(|(name, _)| *name).collect();
            let nearest = suggest(&word, names.iter().copied());
            let help = match nearest.starts_with("did") {
                true => format!("{nearest} (allowed: {})", names.join(", ")),
                false => format!("allowed: {}", names.join(", ")),
            };
            notes.error(self.expected("one of the allowed words").help(help));
        }
        found.map(|&(_, value)| value)
    }

    /// Reads an integer of milliseconds, at least `least`, for a key that names the unit, or a text with a unit. A negative number counts
    /// as zero.
    pub fn milliseconds(&self, least: i32, notes: &mut Notes) -> Option<Duration> {
        let has_unit = |text: &&str| text.trim_end().ends_with(|c: char| c.is_ascii_alphabetic());
        let Some(text) = self.as_str().filter(has_unit) else {
            let ms = self.integer32(least..=i32::MAX, notes)?;
            return Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
        };
        let written = parse_duration(text).ok();
        let written = written.filter(|written| {
            written.as_secs_f64() <= MAX_SECONDS / 1000.0
                && written.subsec_nanos().is_multiple_of(1_000_000)
        });
        if written.is_none() {
            notes.error(self.expected("milliseconds").help(format!(
                "a whole number up to {}, or with a unit, as in 1500 or \"1500ms\" or \"1.5s\"",
                i32::MAX
            )));
        }
        written
    }

    /// Reads a text with a unit (`30s`), or a number of seconds. Rounds to whole milliseconds.
    pub fn duration(&self, notes: &mut Notes) -> Option<Duration> {
        let seconds = match self.as_str() {
            None => self.double(notes)?,
            Some(text) => {
                let written = parse_duration(text).map(|written| written.as_secs_f64());
                let number = || json_number(text).and_then(|number| number.as_f64());
                let Some(seconds) = written.ok().or_else(number) else {
                    notes.error(
                        self.expected("a duration")
                            .help("a number with a unit (500ms, 30s, 5m, 2h, 1d), or seconds"),
                    );
                    return None;
                };
                seconds
            }
        };
        let duration = milliseconds_of(seconds);
        if duration.is_none() {
            notes.error(
                self.problem(format!("{} is out of range", self.node))
                    .help(format!("seconds from 0 to {MAX_SECONDS}")),
            );
        }
        duration
    }

    /// Reads whole seconds: an integer, or a text with a unit.
    pub fn whole_seconds(&self, notes: &mut Notes) -> Option<i64> {
        if self.as_str().is_none() {
            return self.integer(i64::MIN..=i64::MAX, notes);
        }
        let duration = self.duration(notes)?;
        if duration.subsec_nanos() > 0 {
            let text = format!("{} is not a whole number of seconds", self.node);
            notes.error(self.problem(text).help("as in 10 or \"10s\""));
            return None;
        }
        i64::try_from(duration.as_secs()).ok()
    }

    /// Reads a delay: `false` or a negative number for never, `true` for at once, else seconds.
    pub fn never_or_seconds(&self, notes: &mut Notes) -> Option<Option<Duration>> {
        match &self.node.value {
            Value::Bool(false) => Some(None),
            Value::Bool(true) => Some(Some(Duration::ZERO)),
            Value::Number(n) if n.as_f64().is_some_and(|n| n < 0.0) => Some(None),
            Value::Number(_) => self.duration(notes).map(Some),
            Value::String(text) if begins_with_digit(text) => self.duration(notes).map(Some),
            Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) | Value::Unread => {
                notes.error(
                    self.expected("true, false or a duration")
                        .help("false: never; true: at once"),
                );
                None
            }
        }
    }

    /// Reads an array of waits that never decrease, with `"repeat"` or `"fail"` at the end.
    pub fn backoff(&self, notes: &mut Notes) -> Option<BackoffPolicy> {
        const HELP: &str = "waits, none below the one before, then \"repeat\" or \"fail\", as in [15, \"1m\", \"repeat\"]";
        let Some(items) = self.as_array() else {
            notes.error(self.expected("an array of waits").help(HELP));
            return None;
        };
        if items.is_empty() {
            notes.error(self.problem("a backoff needs a value").help(HELP));
            return None;
        }
        let errors_before = notes.errors.len();
        let mut values: Vec<i64> = Vec::new();
        let mut after_last = AfterLast::Fail;
        for (values_before, item) in self.items().enumerate() {
            if item.as_str().is_some_and(|text| !begins_with_digit(text)) {
                let words = [("repeat", AfterLast::Repeat), ("fail", AfterLast::Fail)];
                set(&mut after_last, item.choice(&words, notes));
                self.warn_after_last(values_before, notes);
                break;
            }
            let Some(value) = item.whole_seconds(notes) else {
                continue;
            };
            // The pair alone breaks exactly the rules that the whole list would break here.
            let pair: Vec<i64> = values.last().copied().into_iter().chain([value]).collect();
            match BackoffPolicy::new(&pair, AfterLast::Fail) {
                Ok(_) => values.push(value),
                Err(error) => notes.error(item.problem(error.to_string()).help(HELP)),
            }
        }
        if notes.errors.len() > errors_before {
            return None;
        }
        match BackoffPolicy::new(&values, after_last) {
            Ok(policy) => Some(policy),
            Err(error) => {
                notes.error(self.problem(error.to_string()).help(HELP));
                None
            }
        }
    }

    /// Warns about items after the word that ends a backoff, which have never had an effect.
    fn warn_after_last(&self, word: usize, notes: &mut Notes) {
        if let Some(ignored) = self.items().nth(word + 1) {
            notes.warning(ignored.problem("has no effect after \"repeat\" or \"fail\""));
        }
    }
}

/// Returns whether the text begins like a number, so that it is a mistyped duration and not a word.
pub(crate) fn begins_with_digit(text: &str) -> bool {
    text.trim_start().starts_with(|c: char| c.is_ascii_digit())
}

/// Parses a text that is exactly a JSON number. Rust would also accept `inf` and `1_0`.
fn json_number(text: &str) -> Option<Number> {
    let text = text.trim();
    let plain = text.strip_prefix('+').unwrap_or(text);
    let numeric = plain
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
    if numeric { number_from(plain) } else { None }
}

enum Whole {
    Fits(i64),
    TooLarge,
    Fraction,
}

fn whole(number: &Number) -> Whole {
    /// The limit above which a double has no room for fractions, and its neighbours are more than 1 apart.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(n), _, _) => Whole::Fits(n),
        (None, Some(_), _) => Whole::TooLarge,
        (None, None, Some(n)) if n.fract() != 0.0 => Whole::Fraction,
        (None, None, Some(n)) if n.abs() <= EXACT => Whole::Fits(n as i64),
        (None, None, _) => Whole::TooLarge,
    }
}

/// Truncates to milliseconds. A value within rounding error of a whole millisecond becomes that one, so that an exported value reads back
/// the same.
fn milliseconds_of(seconds: f64) -> Option<Duration> {
    if !(0.0..=MAX_SECONDS).contains(&seconds) {
        return None;
    }
    let ms = seconds * 1000.0;
    let near = ms.round();
    let ms = if (ms - near).abs() < 1e-3 {
        near
    } else {
        ms.trunc()
    };
    // Exact: at most 2^41, checked above.
    Some(Duration::from_millis(ms as u64))
}

pub(crate) fn name_error(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("the name is empty".to_owned());
    }
    NodeName::try_from(name).err().map(|e| e.to_string())
}
