//! A document as a tree with the place of each value in the file, whatever its format.

use std::fmt;

use serde_json::Number;

/// A position in a file. Both fields count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub line: u32,
    pub column: u32,
}

impl Place {
    pub const START: Place = Place { line: 1, column: 1 };

    /// Returns the place after `text` at the beginning of a file. A file is bounded far below 2^32 lines and columns; places beyond stay at
    /// the last one.
    pub(crate) fn after(text: &str) -> Place {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
        let last = text.rsplit('\n').next().unwrap_or(text);
        Place {
            line: count(text.matches('\n').count()),
            column: count(last.chars().count()),
        }
    }
}

/// A value and the place where it starts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub place: Place,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Node>),
    Object(Object),
    /// A value that is invalid in the format, which is reported. Every further problem with it is a consequence.
    Unread,
}

/// An object with its keys in file order, each once.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object {
    pub entries: Vec<MapEntry>,
    /// Repetitions of a key, which are not among the entries.
    pub duplicates: Vec<Duplicate>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapEntry {
    pub key: String,
    pub place: Place,
    pub node: Node,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Duplicate {
    pub key: String,
    pub place: Place,
    pub first: Place,
}

impl Object {
    /// Keeps the first entry of each key. Sorting finds the others without hashing keys that a user chose.
    pub fn new(entries: Vec<MapEntry>) -> Object {
        let mut order: Vec<usize> = (0..entries.len()).collect();
        order.sort_by(|&a, &b| entries[a].key.cmp(&entries[b].key).then(a.cmp(&b)));
        let mut first_of: Vec<Option<usize>> = vec![None; entries.len()];
        let mut first = 0;
        for (position, &index) in order.iter().enumerate() {
            if position == 0 || entries[order[first]].key != entries[index].key {
                first = position;
            } else {
                first_of[index] = Some(order[first]);
            }
        }
        if first_of.iter().all(Option::is_none) {
            return Object {
                entries,
                duplicates: Vec::new(),
            };
        }
        let places: Vec<Place> = entries.iter().map(|e| e.place).collect();
        let mut object = Object::default();
        for (entry, first) in entries.into_iter().zip(first_of) {
            match first {
                None => object.entries.push(entry),
                Some(first) => object.duplicates.push(Duplicate {
                    key: entry.key,
                    place: entry.place,
                    first: places[first],
                }),
            }
        }
        object
    }
}

impl Node {
    /// Returns the value without places, for values that are only passed on.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null | Value::Unread => serde_json::Value::Null,
            Value::Bool(b) => serde_json::Value::Bool(*b),
            Value::Number(n) => serde_json::Value::Number(n.clone()),
            Value::String(s) => serde_json::Value::String(s.clone()),
            Value::Array(items) => {
                serde_json::Value::Array(items.iter().map(Node::to_json).collect())
            }
            Value::Object(object) => serde_json::Value::Object(
                object
                    .entries
                    .iter()
                    .map(|e| (e.key.clone(), e.node.to_json()))
                    .collect(),
            ),
        }
    }
}

impl Node {
    /// Returns whether this value or one within it could not be read.
    pub fn has_unread(&self) -> bool {
        match &self.value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
            Value::Unread => true,
            Value::Array(items) => items.iter().any(Node::has_unread),
            Value::Object(object) => object.entries.iter().any(|e| e.node.has_unread()),
        }
    }
}

/// The number of characters of a value in a message: enough to recognise it.
const SHOWN_CHARS: usize = 60;

/// Returns `text`, cut for a message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}...", &text[..end]),
    }
}

/// Returns `text` in quotes and escaped, cut for a message.
pub(crate) fn quote(text: &str) -> String {
    format!("{:?}", shorten(text))
}

/// Formats a value for a message.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null => f.write_str("null"),
            Value::Unread => f.write_str("what could not be read"),
            Value::Bool(b) => b.fmt(f),
            Value::Number(n) => n.fmt(f),
            Value::String(s) => f.write_str(&quote(s)),
            Value::Array(items) if items.is_empty() => f.write_str("an empty array"),
            Value::Array(_) => f.write_str("an array"),
            Value::Object(object) if object.entries.is_empty() => f.write_str("an empty object"),
            Value::Object(_) => f.write_str("an object"),
        }
    }
}
