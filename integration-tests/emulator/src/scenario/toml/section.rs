//! A table of the text. Each key is read once, and a key that was not read is a mistake.

use std::collections::BTreeSet;
use std::path::Path;

use ::toml::Spanned;
use ::toml::de::{DeTable, DeValue};
use brasserie_common::time::parse_duration;

use crate::scenario::MOST_INSTANCES;
use crate::scenario::problems::{NumberRange, ScenarioProblems};

pub(super) struct SectionReader<'a> {
    text: &'a str,
    pub problems: ScenarioProblems,
}

impl<'a> SectionReader<'a> {
    pub fn new(path: &Path, text: &'a str) -> Self {
        SectionReader {
            text,
            problems: ScenarioProblems::new(path),
        }
    }
}

/// Returns the line of a byte offset, from 1.
pub(super) fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().iter().take(offset);
    1 + before.filter(|byte| **byte == b'\n').count()
}

pub(super) struct Section<'a, 't> {
    table: Option<&'a DeTable<'t>>,
    /// The path of the table, such as `scheduler[1].job[0]`.
    path: String,
    /// The offset that mistakes about missing keys report.
    offset: usize,
    read: BTreeSet<String>,
}

type Value<'a, 't> = &'a Spanned<DeValue<'t>>;

impl<'a, 't> Section<'a, 't> {
    pub fn root(table: &'a DeTable<'t>) -> Self {
        Section {
            table: Some(table),
            ..Section::empty("")
        }
    }

    /// Returns an absent table, which reads like an empty one.
    pub fn empty(path: &str) -> Self {
        Section {
            table: None,
            path: path.to_owned(),
            offset: 0,
            read: BTreeSet::new(),
        }
    }

    pub fn is_there(&self) -> bool {
        self.table.is_some()
    }

    pub fn has(&self, key: &str) -> bool {
        self.table.is_some_and(|table| table.get(key).is_some())
    }

    pub fn is_text(&self, key: &str) -> bool {
        let value = self.table.and_then(|table| table.get(key));
        value.is_some_and(|value| matches!(value.get_ref(), DeValue::String(_)))
    }

    fn path_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}.{key}"),
        }
    }

    fn take(&mut self, key: &str) -> Option<Value<'a, 't>> {
        self.read.insert(key.to_owned());
        self.table?.get(key)
    }

    /// Adds a mistake at this key, or at the table if the key is missing.
    pub fn problem(&self, reader: &mut SectionReader<'_>, key: &str, text: &str) {
        let value = self.table.and_then(|table| table.get(key));
        let offset = value.map_or(self.offset, |value| value.span().start);
        let whole = reader.text;
        let place = || (line_of(whole, offset), self.path_of(key));
        reader.problems.at_place(place, text);
    }

    pub fn text(&mut self, reader: &mut SectionReader<'_>, key: &str) -> Option<String> {
        match self.take(key)?.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.problem(reader, key, "must be a text in quotes");
                None
            }
        }
    }

    pub fn needed_text(&mut self, reader: &mut SectionReader<'_>, key: &str) -> String {
        let text = self.text(reader, key);
        if text.is_none() && !self.has(key) {
            self.problem(reader, key, "missing");
        }
        if text.as_ref().is_some_and(|text| text.trim().is_empty()) {
            self.problem(reader, key, "must not be empty");
        }
        text.unwrap_or_default()
    }

    /// Reads a text that must be unique among `others`; `what` names these in the plural.
    pub fn own_text(
        &mut self,
        reader: &mut SectionReader<'_>,
        key: &str,
        (what, others): (&str, &mut BTreeSet<String>),
    ) -> String {
        let text = self.needed_text(reader, key);
        if !text.trim().is_empty() && !others.insert(text.clone()) {
            let problem = format!("two {what} are called `{text}`");
            self.problem(reader, key, &problem);
        }
        text
    }

    pub fn texts(&mut self, reader: &mut SectionReader<'_>, key: &str) -> Vec<String> {
        let Some(value) = self.take(key) else {
            return Vec::new();
        };
        let of_item = |item: &Spanned<DeValue<'_>>| match item.get_ref() {
            DeValue::String(text) => Some(text.to_string()),
            _ => None,
        };
        let texts = match value.get_ref() {
            DeValue::Array(items) => items.iter().map(of_item).collect(),
            _ => None,
        };
        texts.unwrap_or_else(|| {
            self.problem(
                reader,
                key,
                "must be a list of texts: [\"one\", \"another\"]",
            );
            Vec::new()
        })
    }

    pub fn flag(&mut self, reader: &mut SectionReader<'_>, key: &str) -> Option<bool> {
        match self.take(key)?.get_ref() {
            DeValue::Boolean(flag) => Some(*flag),
            _ => {
                self.problem(reader, key, "must be true or false");
                None
            }
        }
    }

    pub fn number(
        &mut self,
        reader: &mut SectionReader<'_>,
        key: &str,
        range: NumberRange,
    ) -> Option<f64> {
        let value = self.take(key)?;
        match number(value.get_ref()) {
            Some(number) => self.within(reader, key, value, number, range),
            None => {
                self.problem(reader, key, "must be a number");
                None
            }
        }
    }

    /// Reads a span in seconds: a number, or a text with a unit.
    pub fn span(
        &mut self,
        reader: &mut SectionReader<'_>,
        key: &str,
        range: NumberRange,
    ) -> Option<f64> {
        let value = self.take(key)?;
        let seconds = match value.get_ref() {
            DeValue::String(text) => parse_duration(text).map(|span| span.as_secs_f64()).ok(),
            other => number(other),
        };
        match seconds {
            Some(seconds) => self.within(reader, key, value, seconds, range),
            None => {
                let text =
                    "must be a span: \"90s\", \"5m\", \"2h\", \"1d\", or a number of seconds";
                self.problem(reader, key, text);
                None
            }
        }
    }

    fn within(
        &self,
        reader: &mut SectionReader<'_>,
        key: &str,
        value: Value<'a, 't>,
        number: f64,
        range: NumberRange,
    ) -> Option<f64> {
        let text = reader.text;
        let place = || (line_of(text, value.span().start), self.path_of(key));
        reader.problems.within(place, number, range)
    }

    /// Reads a whole number that is not negative.
    pub fn whole(&mut self, reader: &mut SectionReader<'_>, key: &str) -> Option<u64> {
        let whole = match self.take(key)?.get_ref() {
            DeValue::Integer(integer) => {
                u64::from_str_radix(integer.as_str(), integer.radix()).ok()
            }
            _ => None,
        };
        if whole.is_none() {
            self.problem(reader, key, "must be a whole number, 0 at least");
        }
        whole
    }

    /// Reads a whole number of at most a million.
    pub fn count(&mut self, reader: &mut SectionReader<'_>, key: &str) -> Option<u32> {
        const MOST: u32 = 1_000_000;
        let whole = self.whole(reader, key)?;
        let count = u32::try_from(whole).ok().filter(|count| *count <= MOST);
        if count.is_none() {
            self.problem(reader, key, &format!("{whole} is more than {MOST}"));
        }
        count
    }

    /// Reads the number of processors of one type.
    pub fn instances(&mut self, reader: &mut SectionReader<'_>, key: &str) -> Option<u32> {
        let whole = self.whole(reader, key)?;
        let instances = u32::try_from(whole).ok();
        let instances = instances.filter(|instances| *instances <= MOST_INSTANCES);
        if instances.is_none() {
            let text = format!("{whole} is more than {MOST_INSTANCES} processors of one type");
            self.problem(reader, key, &text);
        }
        instances
    }

    pub fn choice<T: Copy>(
        &mut self,
        reader: &mut SectionReader<'_>,
        key: &str,
        choices: &[(&str, T)],
    ) -> Option<T> {
        let text = self.text(reader, key)?;
        let chosen = choices.iter().find(|(name, _)| *name == text);
        if chosen.is_none() {
            let names: Vec<String> = choices
                .iter()
                .map(|(name, _)| format!("`{name}`"))
                .collect();
            let text = format!("`{text}` is none of {}", names.join(", "));
            self.problem(reader, key, &text);
        }
        chosen.map(|(_, value)| *value)
    }

    pub fn section(
        &mut self,
        reader: &mut SectionReader<'_>,
        key: &str,
    ) -> Option<Section<'a, 't>> {
        let value = self.take(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(Section {
                table: Some(table),
                path: self.path_of(key),
                offset: value.span().start,
                read: BTreeSet::new(),
            }),
            _ => {
                self.problem(reader, key, "must be a table");
                None
            }
        }
    }

    /// Reads all tables `[[key]]`.
    pub fn sections(&mut self, reader: &mut SectionReader<'_>, key: &str) -> Vec<Section<'a, 't>> {
        let Some(value) = self.take(key) else {
            return Vec::new();
        };
        let DeValue::Array(items) = value.get_ref() else {
            let text = format!("must be a list of tables: write [[{}]]", self.path_of(key));
            self.problem(reader, key, &text);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for (place, item) in items.iter().enumerate() {
            match item.get_ref() {
                DeValue::Table(table) => sections.push(Section {
                    table: Some(table),
                    path: format!("{}[{place}]", self.path_of(key)),
                    offset: item.span().start,
                    read: BTreeSet::new(),
                }),
                _ => self.problem(reader, key, "each item must be a table"),
            }
        }
        sections
    }

    /// Adds a mistake for each key that was not read.
    pub fn finish(self, reader: &mut SectionReader<'_>) {
        let Some(table) = self.table else { return };
        for (key, _) in table.iter() {
            if !self.read.contains(key.get_ref().as_ref()) {
                let whole = reader.text;
                let known: Vec<&str> = self.read.iter().map(String::as_str).collect();
                let text = format!("is no key here; those are {}", known.join(", "));
                let place = || {
                    let line = line_of(whole, key.span().start);
                    (line, self.path_of(key.get_ref()))
                };
                reader.problems.at_place(place, text);
            }
        }
    }
}

fn number(value: &DeValue<'_>) -> Option<f64> {
    let number: f64 = match value {
        DeValue::Integer(integer) if integer.radix() == 10 => integer.as_str().parse().ok()?,
        DeValue::Float(float) => float.as_str().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}
