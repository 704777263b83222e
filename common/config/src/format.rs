//! The formats of a file: which one it is in, how much of it is read, and what they have in common.

use std::path::Path;

use crate::problem::Problem;
use crate::tree::{Node, Place};
use crate::{json, toml, yaml};

/// The largest file: a million nodes listed by hand at 64 bytes each.
pub const MAX_CONFIG_BYTES: usize = 64 << 20;

/// The largest TOML or YAML file. Their readers keep, besides the tree, up to a hundred bytes a character; files beyond this are
/// written by programs, which can write JSON.
pub const MAX_MARKUP_BYTES: usize = 16 << 20;

/// The deepest nesting: half of the 128 that JSON readers commonly stop at, so that a job's `config` can still be wrapped in
/// the argument of a task and in messages.
pub const MAX_DEPTH: usize = 64;

/// Values of one file, keys aside: eight for each node of the largest `manual` source. It bounds the tree at a gigabyte, also where
/// a file names one value many times.
pub const MAX_VALUES: usize = 8_000_000;

/// What a file is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Json,
    Toml,
    Yaml,
}

impl Format {
    /// By the name's extension: `.toml`, `.yaml` or `.yml`; everything else is JSON.
    pub fn of_path(path: &Path) -> Format {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match extension.to_ascii_lowercase().as_str() {
            "toml" => Format::Toml,
            "yaml" | "yml" => Format::Yaml,
            _ => Format::Json,
        }
    }

    fn max_bytes(self) -> usize {
        match self {
            Format::Json => MAX_CONFIG_BYTES,
            Format::Toml | Format::Yaml => MAX_MARKUP_BYTES,
        }
    }

    fn content(self) -> &'static str {
        match self {
            Format::Json => "a JSON object",
            Format::Toml => "TOML tables",
            Format::Yaml => "a YAML mapping",
        }
    }
}

/// What reading a text gave.
pub(crate) struct Reading {
    /// `None`: something of what was meant is not known, so that a look at the rest would blame the innocent.
    pub node: Option<Node>,
    /// Offences against the format, in file order.
    pub problems: Vec<Problem>,
}

impl Reading {
    pub fn failed(problem: Problem) -> Reading {
        Reading {
            node: None,
            problems: vec![problem],
        }
    }
}

pub(crate) fn read(text: &str, format: Format) -> Reading {
    if text.len() > format.max_bytes() {
        let text = format!(
            "the file has {} bytes; at most {} are allowed",
            text.len(),
            format.max_bytes()
        );
        return Reading::failed(Problem::new(Place::START, String::new(), text));
    }
    // A byte order mark at the start is no content.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text
        .bytes()
        .all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))
    {
        return Reading::failed(empty(Place::after(text), format));
    }
    match format {
        Format::Json => json::read(text),
        Format::Toml => toml::read(text),
        Format::Yaml => yaml::read(text),
    }
}

/// For tests: the tree of a text without offences, else these.
#[cfg(test)]
pub(crate) fn read_whole(text: &str, format: Format) -> Result<Node, Vec<String>> {
    let reading = read(text, format);
    let problems: Vec<String> = reading.problems.iter().map(Problem::to_string).collect();
    match reading.node {
        Some(node) if problems.is_empty() => Ok(node),
        _ => Err(problems),
    }
}

/// The file says nothing.
pub(crate) fn empty(place: Place, format: Format) -> Problem {
    Problem::new(place, String::new(), "the file is empty".to_owned()).help(format.content())
}

/// Counts values, so that no file makes more of them than there is memory.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    values: usize,
}

impl Budget {
    /// The problem of the value that is one too many.
    pub fn take(&mut self, place: Place) -> Result<(), Problem> {
        self.take_all(1, place)
    }

    /// The same of a value with all that is in it.
    pub fn take_all(&mut self, values: usize, place: Place) -> Result<(), Problem> {
        self.values = self.values.saturating_add(values);
        if self.values > MAX_VALUES {
            let text = format!("the file has more than {MAX_VALUES} values");
            return Err(Problem::new(place, String::new(), text));
        }
        Ok(())
    }
}

/// What is nested deeper than anything that is passed on may be.
pub(crate) fn too_deep(place: Place) -> Problem {
    let text = format!("nested more than {MAX_DEPTH} deep");
    Problem::new(place, String::new(), text)
}
