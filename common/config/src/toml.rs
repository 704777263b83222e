//! Parses TOML text to the same tree, with a parser that continues after an error.

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue, Error};

use crate::format::{MAX_DEPTH, Stop, TextReading, ValueBudget, too_deep};
use crate::lines::Lines;
use crate::numbers::{float_value, whole};
use crate::problem::Problem;
use crate::tree::{MapEntry, Node, Object, Value, shorten};

/// The largest text for which all errors are collected. Each error is kept, and a hostile text has one for each byte.
const MAX_TEXT_OF_ALL_ERRORS: usize = 1 << 20;

/// The reported errors of one file. A file with more is in another format.
const MAX_ERRORS: usize = 50;

pub(crate) fn read(text: &str) -> TextReading {
    let lines = Lines::new(text);
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(first) => {
            let errors = match text.len() {
                0..=MAX_TEXT_OF_ALL_ERRORS => DeTable::parse_recoverable(text).1,
                _ => vec![first],
            };
            let mut problems: Vec<Problem> =
                errors.iter().map(|e| syntax_problem(e, &lines)).collect();
            problems.sort_by_key(Problem::place);
            // Errors at one place are one mistake and its consequences.
            problems.dedup_by_key(|p| p.place());
            problems.truncate(MAX_ERRORS);
            return TextReading {
                node: None,
                problems,
            };
        }
    };
    let mut reader = TomlReader {
        lines,
        budget: ValueBudget::default(),
        problems: Vec::new(),
    };
    let root = reader.table(table.get_ref(), 0);
    reader.problems.sort_by_key(Problem::place);
    TextReading {
        node: root.ok().map(|root| Node {
            place: reader.lines.place(0),
            value: Value::Object(root),
        }),
        problems: reader.problems,
    }
}

fn syntax_problem(error: &Error, lines: &Lines) -> Problem {
    let place = lines.place(error.span().map_or(0, |span| span.start));
    let (text, help) = match error.message() {
        "duplicate key" => ("the key occurs twice", Some("keep one of them")),
        other => (other, None),
    };
    let problem = Problem::new(place, String::new(), text.to_owned());
    match help {
        Some(help) => problem.help(help),
        None => problem,
    }
}

struct TomlReader<'a> {
    lines: Lines<'a>,
    budget: ValueBudget,
    problems: Vec<Problem>,
}

impl TomlReader<'_> {
    fn problem(&mut self, problem: Problem) -> Result<(), Stop> {
        self.problems.push(problem);
        match self.problems.len() < MAX_ERRORS {
            true => Ok(()),
            false => Err(Stop),
        }
    }

    fn table(&mut self, table: &DeTable, depth: usize) -> Result<Object, Stop> {
        let mut entries = Vec::with_capacity(table.len());
        for (key, value) in table {
            entries.push(MapEntry {
                key: key.get_ref().to_string(),
                place: self.lines.place(key.span().start),
                node: self.node(value, depth + 1)?,
            });
        }
        // The parser sorts keys by name, but their order in the file matters.
        entries.sort_by_key(|entry| entry.place);
        Ok(Object::new(entries))
    }

    fn node(&mut self, value: &Spanned<DeValue>, depth: usize) -> Result<Node, Stop> {
        let place = self.lines.place(value.span().start);
        let is_container = matches!(value.get_ref(), DeValue::Array(_) | DeValue::Table(_));
        let too_much = match is_container && depth >= MAX_DEPTH {
            true => Err(too_deep(place)),
            false => self.budget.take(place),
        };
        if let Err(problem) = too_much {
            self.problem(problem)?;
            return Err(Stop);
        }
        let wrong = |text: String| Problem::new(place, String::new(), text);
        let read = match value.get_ref() {
            DeValue::String(text) => Ok(Value::String(text.to_string())),
            DeValue::Boolean(b) => Ok(Value::Bool(*b)),
            DeValue::Integer(integer) => {
                let text = integer.to_string();
                let too_large = || {
                    wrong(format!("the number {} is too large", shorten(&text)))
                        .value(shorten(&text))
                        .help("an integer of 64 bits")
                };
                whole(&text).map(Value::Number).ok_or_else(too_large)
            }
            DeValue::Float(float) => float_value(&float.to_string())
                .map_err(|(text, help)| wrong(text).value(float.to_string()).help(help)),
            DeValue::Datetime(time) => Err(wrong("a date or time has no meaning here".to_owned())
                .value(time.to_string())
                .help("put it in quotes to make it a text")),
            DeValue::Array(items) => {
                let mut nodes = Vec::with_capacity(items.len());
                for item in items.iter() {
                    nodes.push(self.node(item, depth + 1)?);
                }
                Ok(Value::Array(nodes))
            }
            DeValue::Table(table) => Ok(Value::Object(self.table(table, depth)?)),
        };
        let value = match read {
            Ok(value) => value,
            Err(problem) => {
                self.problem(problem)?;
                Value::Unread
            }
        };
        Ok(Node { place, value })
    }
}

#[cfg(test)]
mod tests;
