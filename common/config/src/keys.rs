//! The tables of known keys. The parser checks names against them, and the schema is generated from them.

use std::ops::RangeInclusive;

/// A key of an object, and the shape of its value.
#[derive(Clone, Copy)]
pub(crate) struct Key {
    pub name: &'static str,
    pub need: KeyNeed,
    pub shape: Shape,
    pub about: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyNeed {
    Required,
    Optional,
}

/// The shape of a value, coercions included.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// Any value.
    Any,
    /// Any object.
    AnyObject,
    Truth,
    /// An integer within these bounds.
    Integer(i64, i64),
    Number,
    Text,
    /// A non-empty text.
    Name,
    /// One of these words.
    Words(fn() -> Vec<&'static str>),
    /// A text with a unit, or seconds.
    Duration,
    NeverOrSeconds,
    /// Whole milliseconds of at least this number, or a text with a unit.
    Milliseconds(i32),
    Backoff,
    List(&'static Shape),
    Either(&'static [Shape]),
    Fields(&'static [Key]),
    /// An object whose keys the user chooses. The word stands for them in paths.
    Map(&'static str, &'static Shape),
    /// An object like [`Shape::Map`], restricted to these keys.
    Named(&'static str, fn() -> Vec<&'static str>, &'static Shape),
    /// An object with some of these keys. The text describes each of them.
    Each(fn() -> Vec<&'static str>, &'static Shape, &'static str),
    /// One of several objects. The first key decides the shape of the second.
    Tagged(Tagged),
}

#[derive(Clone, Copy)]
pub(crate) struct Tagged {
    pub keys: &'static [Key],
    pub tag: &'static str,
    pub body: &'static str,
    pub variants: fn() -> Vec<KeyVariant>,
}

pub(crate) struct KeyVariant {
    pub name: &'static str,
    pub need: KeyNeed,
    pub shape: Shape,
}

pub(crate) const INT32: Shape = Shape::Integer(i32::MIN as i64, i32::MAX as i64);
pub(crate) const INT64: Shape = Shape::Integer(i64::MIN, i64::MAX);
pub(crate) const TEXTS: Shape = Shape::List(&Shape::Text);

pub(crate) const fn within(range: RangeInclusive<i32>) -> Shape {
    Shape::Integer(*range.start() as i64, *range.end() as i64)
}

impl Key {
    pub const fn new(name: &'static str, shape: Shape, about: &'static str) -> Key {
        Key {
            name,
            need: KeyNeed::Optional,
            shape,
            about,
        }
    }

    pub const fn required(name: &'static str, shape: Shape, about: &'static str) -> Key {
        Key {
            name,
            need: KeyNeed::Required,
            shape,
            about,
        }
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        self.name
    }
}

/// A key of a config, described for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The path of the key, as in `bistro_job->NAME.filters.LEVEL.whitelist`.
    pub path: String,
    /// The type of the value, in words of Markdown.
    pub value: String,
    pub is_required: bool,
    pub about: &'static str,
}

impl KeyRow {
    fn new(path: String, key: &Key) -> KeyRow {
        KeyRow {
            path,
            value: key.shape.in_words(),
            is_required: key.need == KeyNeed::Required,
            about: key.about,
        }
    }
}

impl Shape {
    /// Returns the type of a value in words of Markdown.
    fn in_words(self) -> String {
        match self {
            Shape::Any => "any value".to_owned(),
            Shape::AnyObject
            | Shape::Fields(_)
            | Shape::Map(..)
            | Shape::Named(..)
            | Shape::Each(..)
            | Shape::Tagged(_) => "object".to_owned(),
            Shape::Truth => "boolean".to_owned(),
            Shape::Integer(least, _) if least < 0 => "integer".to_owned(),
            Shape::Integer(least, most) if most >= i64::from(i32::MAX) => {
                format!("integer from {least} on")
            }
            Shape::Integer(least, most) => format!("integer from {least} to {most}"),
            Shape::Number => "number".to_owned(),
            Shape::Text | Shape::Name => "text".to_owned(),
            Shape::Words(words) => {
                let words = words();
                let words = words.iter().map(|word| format!("`{word}`"));
                words.collect::<Vec<_>>().join(", ")
            }
            Shape::Duration => "duration".to_owned(),
            Shape::NeverOrSeconds => "boolean or duration".to_owned(),
            Shape::Milliseconds(_) => "milliseconds".to_owned(),
            Shape::Backoff => "list of waits".to_owned(),
            Shape::List(inner) => format!("list of: {}", inner.in_words()),
            Shape::Either(shapes) => {
                let mut words: Vec<String> = shapes.iter().map(|it| it.in_words()).collect();
                words.dedup();
                words.join(", or ")
            }
        }
    }
}

/// Collects all keys below `path`.
pub(crate) fn rows(path: &str, shape: Shape, out: &mut Vec<KeyRow>) {
    match shape {
        Shape::Any
        | Shape::AnyObject
        | Shape::Truth
        | Shape::Integer(..)
        | Shape::Number
        | Shape::Text
        | Shape::Name
        | Shape::Words(_)
        | Shape::Duration
        | Shape::NeverOrSeconds
        | Shape::Milliseconds(_)
        | Shape::Backoff => {}
        Shape::List(inner) => rows(&format!("{path}[]"), *inner, out),
        Shape::Either(shapes) => shapes.iter().for_each(|&inner| rows(path, inner, out)),
        Shape::Fields(keys) => {
            for key in keys {
                let path = format!("{path}.{}", key.name);
                out.push(KeyRow::new(path.clone(), key));
                rows(&path, key.shape, out);
            }
        }
        Shape::Map(word, inner) | Shape::Named(word, _, inner) => {
            let path = format!("{path}.{word}");
            rows(&path, *inner, out);
        }
        Shape::Each(names, inner, about) => {
            for name in names() {
                let path = format!("{path}.{name}");
                let key = Key::new(name, *inner, about);
                out.push(KeyRow::new(path.clone(), &key));
                rows(&path, *inner, out);
            }
        }
        Shape::Tagged(tagged) => {
            for key in tagged.keys {
                out.push(KeyRow::new(format!("{path}.{}", key.name), key));
            }
            for variant in (tagged.variants)() {
                let path = format!("{path}.{}({})", tagged.body, variant.name);
                rows(&path, variant.shape, out);
            }
        }
    }
}

/// Returns the names in a table of words, for [`Shape::Words`].
pub(crate) fn names<T>(words: &'static [(&'static str, T)]) -> Vec<&'static str> {
    words.iter().map(|(name, _)| *name).collect()
}
