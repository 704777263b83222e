//! The formats of a config file: their detection, their limits, and their common parts.

use std::path::Path;

use crate::problem::Problem;
use crate::tree::{Node, Place};

/// The largest file: a million listed nodes of 64 bytes each.
pub const MAX_CONFIG_BYTES: usize = 64 << 20;

/// The largest TOML or YAML file. Besides the tree, their readers keep up to a hundred bytes a character. Larger files come from programs,
/// which can write JSON.
pub const MAX_MARKUP_BYTES: usize = 16 << 20;

/// The deepest nesting: half of the usual limit of 128 in JSON readers, so that a job's `config` can still be wrapped in the argument of a
/// task and in messages.
pub const MAX_DEPTH: usize = 64;

/// The values of one file, without keys: eight for each node of the largest `manual` source. The limit bounds the tree at a gigabyte, also
/// where a file repeats a value by aliases.
pub const MAX_VALUES: usize = 8_000_000;

/// The format of a config file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Json,
    Toml,
    Yaml,
}

impl Format {
    /// Returns the format by the name's extension: `.toml`, `.yaml` or `.yml`; everything else is JSON.
    pub fn of_path(path: &Path) -> Format {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("");
        match extension.to_ascii_lowercase().as_str() {
            "toml" => Format::Toml,
            "yaml" | "yml" => Format::Yaml,
            _ => Format::Json,
        }
    }

    pub(crate) fn max_bytes(self) -> usize {
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

/// The result of reading a text.
pub(crate) struct TextReading {
    /// The tree; `None` if a part of the content is lost, so that checks of the rest would report wrong mistakes.
    pub node: Option<Node>,
    /// Violations of the format, in file order.
    pub problems: Vec<Problem>,
}

impl TextReading {
    pub fn failed(problem: Problem) -> TextReading {
        TextReading {
            node: None,
            problems: vec![problem],
        }
    }
}

/// Returns the problem of an empty file.
pub(crate) fn empty(place: Place, format: Format) -> Problem {
    Problem::new(place, String::new(), "the file is empty".to_owned()).help(format.content())
}

/// The parser cannot continue; the reason is among the problems.
#[derive(Debug)]
pub(crate) struct Stop;

/// A counter of values, which limits the memory of a file.
#[derive(Debug, Default)]
pub(crate) struct ValueBudget {
    values: usize,
}

impl ValueBudget {
    /// Counts a value. Errors if it exceeds the limit.
    pub fn take(&mut self, place: Place) -> Result<(), Problem> {
        self.take_all(1, place)
    }

    /// Counts a value with everything in it, like [`ValueBudget::take`].
    pub fn take_all(&mut self, values: usize, place: Place) -> Result<(), Problem> {
        self.values = self.values.saturating_add(values);
        if self.values > MAX_VALUES {
            let text = format!("the file has more than {MAX_VALUES} values");
            return Err(Problem::new(place, String::new(), text));
        }
        Ok(())
    }
}

/// Returns the problem of a value nested too deep.
pub(crate) fn too_deep(place: Place) -> Problem {
    let text = format!("nested more than {MAX_DEPTH} deep");
    Problem::new(place, String::new(), text)
}
