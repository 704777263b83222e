//! A problem in a file: its place, its description, and the allowed values.

use std::fmt;

use crate::tree::Place;

/// One error or warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Counts from 1.
    pub line: u32,
    /// Counts from 1, in characters.
    pub column: u32,
    /// The path, as in `bistro_settings.resources.host.slots.limit` or `bistro_job->x.backoff[2]`; empty for the file as a whole.
    pub key_path: String,
    pub message: String,
    /// The offending value as a message shows it.
    pub value: Option<String>,
    /// The allowed values, or the nearest known key.
    pub help: Option<String>,
    /// The problem follows from another one that is reported.
    pub(crate) is_consequence: bool,
}

impl Problem {
    pub fn new(place: Place, key_path: String, message: String) -> Problem {
        Problem {
            line: place.line,
            column: place.column,
            key_path,
            message,
            value: None,
            help: None,
            is_consequence: false,
        }
    }

    pub(crate) fn value(mut self, value: impl fmt::Display) -> Problem {
        self.value = Some(value.to_string());
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    pub fn place(&self) -> Place {
        Place {
            line: self.line,
            column: self.column,
        }
    }

    /// Formats `FILE:LINE:COLUMN: key: what is wrong; what is allowed`, a form that editors can jump to.
    pub fn display_with<'a>(&'a self, file: &'a str) -> impl fmt::Display + 'a {
        WithFile {
            problem: self,
            file,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: ", self.line, self.column)?;
        if !self.key_path.is_empty() {
            write!(f, "{}: ", self.key_path)?;
        }
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

struct WithFile<'a> {
    problem: &'a Problem,
    file: &'a str,
}

impl fmt::Display for WithFile<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.problem)
    }
}

/// The reasons why a file is no configuration: all errors of its settings, in file order, never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Problem>);

impl ConfigErrors {
    /// Formats one line for each problem, beginning with the file's name.
    pub fn display_with(&self, file: &str) -> String {
        let lines: Vec<String> = self
            .0
            .iter()
            .map(|p| p.display_with(file).to_string())
            .collect();
        lines.join("\n")
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// Returns the candidate that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer words are no typos, and the table below is quadratic.
    const LONGEST: usize = 64;
    if word.chars().count() > LONGEST {
        return None;
    }
    let length = word.chars().count();
    let allowed = (length / 3).clamp(1, 4);
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let typo = candidates
        .iter()
        .copied()
        // The difference of lengths is a cheap lower bound of the distance.
        .filter(|c| c.chars().count().abs_diff(length) <= allowed)
        .map(|c| (distance(word, c), c))
        .filter(|&(d, _)| d <= allowed)
        .min_by_key(|&(d, _)| d)
        .map(|(_, c)| c);
    typo.or_else(|| candidates.into_iter().find(|c| is_abbreviation(word, c)))
}

/// Returns whether the words differ by at most one edit, as a mistyped word does, or the first abbreviates the second.
pub(crate) fn is_misspelt(word: &str, key: &str) -> bool {
    let is_typo =
        word.chars().count().abs_diff(key.chars().count()) <= 1 && distance(word, key) <= 1;
    is_typo || is_abbreviation(word, key)
}

/// Returns whether the word has some consonants of the other one in order, with the first and the last one, as `cmd` of `command`.
fn is_abbreviation(word: &str, other: &str) -> bool {
    const SHORTEST: usize = 3;
    let is_vowel = |c: char| "aeiou".contains(c);
    let has_ends =
        (word.chars().next(), word.chars().last()) == (other.chars().next(), other.chars().last());
    let mut rest = other.chars();
    let is_in_order = word.chars().all(|c| rest.any(|other| other == c));
    word.chars().count() >= SHORTEST && !word.contains(is_vowel) && has_ends && is_in_order
}

/// Returns the edits between two words: insertions, deletions, replacements, and swaps of neighbours (optimal string alignment). Ignores
/// case.
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    // A common prefix costs nothing, and the table below is quadratic.
    let same = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[same..], &b[same..]);
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if swapped {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_forgives_typing_mistakes_only() {
        let keys = ["enabled", "backoff", "depends_on"];
        assert_eq!(nearest("enabeld", keys), Some("enabled"));
        assert_eq!(nearest("Backof", keys), Some("backoff"));
        assert_eq!(nearest("dependson", keys), Some("depends_on"));
        assert_eq!(nearest("priority", keys), None);
        assert_eq!(nearest("lvls", ["nodes", "levels"]), Some("levels"));
        assert!(is_misspelt("cmd", "command") && !is_misspelt("cd", "command"));
        assert!(!is_misspelt("comments", "command") && !is_misspelt("cmt", "command"));
        assert_eq!(nearest(&"e".repeat(1000), keys), None);
    }

    #[test]
    fn a_swap_is_one_edit() {
        assert_eq!(distance("ab", "ba"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
