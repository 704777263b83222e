//! Parses YAML text to the same tree: the core schema with anchors and aliases, without features that no config needs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, Tag};

use crate::format::{Format, MAX_DEPTH, Stop, TextReading, ValueBudget, empty, too_deep};
use crate::numbers::{float_value, whole};
use crate::problem::Problem;
use crate::tree::{MapEntry, Node, Object, Place, Value, shorten};

/// The values that all anchors and aliases of a file may stand for. Without a limit a few lines could need more than the memory. A hundred
/// thousand jobs that share ten values are within it.
const MAX_COPIED_VALUES: usize = 1_000_000;

/// The bytes of text that aliases may stand for: as much as a file may hold.
const MAX_COPIED_BYTES: usize = 16 << 20;

/// The reported mistakes of one file.
const MAX_OFFENCES: usize = 50;

pub(crate) fn read(text: &str) -> TextReading {
    let mut reader = YamlReader::default();
    let stopped = reader.events(Parser::new_from_str(text)).is_err();
    let mut problems = reader.problems;
    if reader.root.is_none() && problems.is_empty() {
        problems.push(empty(Place::after(text), Format::Yaml));
    }
    problems.sort_by_key(Problem::place);
    let is_known = !stopped && !reader.has_merge_key;
    TextReading {
        node: reader.root.filter(|_| is_known),
        problems,
    }
}

/// An unfinished collection.
struct OpenCollection {
    place: Place,
    anchor: usize,
    content: OpenContent,
}

enum OpenContent {
    Sequence(Vec<Node>),
    Mapping {
        entries: Vec<MapEntry>,
        /// The key whose value is next.
        key: Option<(String, Place)>,
    },
}

/// The value of an alias.
struct Anchored {
    node: Node,
    weight: Weight,
}

#[derive(Clone, Copy, Default)]
struct Weight {
    values: usize,
    bytes: usize,
    /// The nesting depth of collections.
    height: usize,
}

#[derive(Default)]
struct YamlReader {
    root: Option<Node>,
    documents: usize,
    /// A merge key was found, so the content of a mapping is not known.
    has_merge_key: bool,
    open: Vec<OpenCollection>,
    /// Values by the parser's anchor number; 0 is none.
    anchors: BTreeMap<usize, Anchored>,
    copied: Weight,
    budget: ValueBudget,
    problems: Vec<Problem>,
}

impl YamlReader {
    fn events<'i>(&mut self, parser: Parser<'i, saphyr_parser::StrInput<'i>>) -> Result<(), Stop> {
        for event in parser {
            let (event, span) = match event {
                Ok(event) => event,
                Err(error) => return self.fatal(place_of(error.marker()), error.info(), None),
            };
            let place = place_of(&span.start);
            match event {
                Event::Nothing | Event::StreamStart | Event::DocumentEnd => {}
                Event::StreamEnd => break,
                Event::DocumentStart(_) => {
                    self.documents += 1;
                    if self.documents > 1 {
                        let help = Some("a config is one document");
                        return self.fatal(place, "a second document begins", help);
                    }
                }
                Event::Scalar(text, style, anchor, tag) => {
                    self.scalar(place, text, style, tag, anchor)?;
                }
                Event::Alias(anchor) => self.alias(place, anchor)?,
                Event::SequenceStart(anchor, tag) => {
                    self.check_tag(place, tag.as_deref(), "seq")?;
                    self.start(place, anchor, OpenContent::Sequence(Vec::new()))?;
                }
                Event::MappingStart(anchor, tag) => {
                    self.check_tag(place, tag.as_deref(), "map")?;
                    let content = OpenContent::Mapping {
                        entries: Vec::new(),
                        key: None,
                    };
                    self.start(place, anchor, content)?;
                }
                Event::SequenceEnd | Event::MappingEnd => self.end()?,
            }
        }
        Ok(())
    }

    fn problem(&mut self, problem: Problem) -> Result<(), Stop> {
        self.problems.push(problem);
        match self.problems.len() < MAX_OFFENCES {
            true => Ok(()),
            false => Err(Stop),
        }
    }

    fn fatal(&mut self, place: Place, text: &str, help: Option<&str>) -> Result<(), Stop> {
        let problem = Problem::new(place, String::new(), text.to_owned());
        self.problems.push(match help {
            Some(help) => problem.help(help),
            None => problem,
        });
        Err(Stop)
    }

    /// Returns whether a key comes next, not the value of a key or an item.
    fn expects_key(&self) -> bool {
        let top = self.open.last().map(|open| &open.content);
        matches!(top, Some(OpenContent::Mapping { key: None, .. }))
    }

    fn start(&mut self, place: Place, anchor: usize, content: OpenContent) -> Result<(), Stop> {
        if self.expects_key() {
            return self.fatal(place, "a key is a text, and this is none", None);
        }
        self.check_depth(place, 1)?;
        self.take(place, 1)?;
        self.open.push(OpenCollection {
            place,
            anchor,
            content,
        });
        Ok(())
    }

    fn check_depth(&mut self, place: Place, height: usize) -> Result<(), Stop> {
        if self.open.len() + height > MAX_DEPTH {
            self.problem(too_deep(place))?;
            return Err(Stop);
        }
        Ok(())
    }

    fn take(&mut self, place: Place, values: usize) -> Result<(), Stop> {
        if let Err(problem) = self.budget.take_all(values, place) {
            self.problem(problem)?;
            return Err(Stop);
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Stop> {
        let open = self.open.pop();
        let open = open.expect("Invariant: the parser ends only what it has begun");
        let value = match open.content {
            OpenContent::Sequence(items) => Value::Array(items),
            OpenContent::Mapping { entries, .. } => Value::Object(Object::new(entries)),
        };
        let node = Node {
            place: open.place,
            value,
        };
        self.finished(node, open.anchor)
    }

    fn scalar(
        &mut self,
        place: Place,
        text: Cow<str>,
        style: ScalarStyle,
        tag: Option<Cow<Tag>>,
        anchor: usize,
    ) -> Result<(), Stop> {
        self.take(place, 1)?;
        let offences = self.problems.len();
        self.check_tag(place, tag.as_deref(), "str")?;
        let is_plain = style == ScalarStyle::Plain && tag.is_none();
        if self.expects_key() && is_plain && text == "<<" {
            let text = "a merge key has no meaning here";
            let problem = Problem::new(place, String::new(), text.to_owned());
            self.problem(problem.help("write its keys out"))?;
            self.has_merge_key = true;
        }
        let value = match is_plain && !self.expects_key() {
            false if self.problems.len() > offences && !self.expects_key() => Value::Unread,
            false => Value::String(text.into_owned()),
            true => match plain(&text) {
                Ok(value) => value,
                Err((message, help)) => {
                    let problem = Problem::new(place, String::new(), message).help(help);
                    self.problem(problem.value(shorten(&text)))?;
                    Value::Unread
                }
            },
        };
        self.finished(Node { place, value }, anchor)
    }

    /// Checks a tag. Only tags that change nothing are accepted.
    fn check_tag(&mut self, place: Place, tag: Option<&Tag>, known: &str) -> Result<(), Stop> {
        match tag {
            Some(tag) if !(tag.is_yaml_core_schema() && tag.suffix == known) => {
                let text = "a tag has no meaning here".to_owned();
                let problem = Problem::new(place, String::new(), text).value(tag);
                self.problem(problem.help("remove it; quotes make a text"))
            }
            _ => Ok(()),
        }
    }

    fn alias(&mut self, place: Place, anchor: usize) -> Result<(), Stop> {
        if self.expects_key() {
            return self.fatal(place, "an alias cannot be a key", Some("write the key out"));
        }
        let Some(anchored) = self.anchors.get(&anchor) else {
            return self.fatal(place, "an alias within what it stands for", None);
        };
        let weight = anchored.weight;
        self.copy(place, weight)?;
        self.check_depth(place, weight.height)?;
        self.take(place, weight.values)?;
        let mut node = self.anchors[&anchor].node.clone();
        // Mistakes of the value itself are reported where it is used, mistakes within it where it is written.
        node.place = place;
        self.finished(node, 0)
    }

    fn copy(&mut self, place: Place, weight: Weight) -> Result<(), Stop> {
        self.copied.values = self.copied.values.saturating_add(weight.values);
        self.copied.bytes = self.copied.bytes.saturating_add(weight.bytes);
        if self.copied.values > MAX_COPIED_VALUES || self.copied.bytes > MAX_COPIED_BYTES {
            let text = format!(
                "anchors and aliases stand for more than {MAX_COPIED_VALUES} values or {MAX_COPIED_BYTES} bytes"
            );
            return self.fatal(place, &text, Some("write out what is used once"));
        }
        Ok(())
    }

    /// Adds a value in its place: under the key before it, behind the items before it, or at the root.
    fn finished(&mut self, node: Node, anchor: usize) -> Result<(), Stop> {
        if anchor != 0 {
            let weight = weigh(&node);
            self.copy(node.place, weight)?;
            let node = node.clone();
            self.anchors.insert(anchor, Anchored { node, weight });
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(OpenContent::Sequence(items)) => items.push(node),
            Some(OpenContent::Mapping { entries, key }) => match (key.take(), node.value) {
                (Some((key, place)), value) => {
                    let node = Node {
                        place: node.place,
                        value,
                    };
                    entries.push(MapEntry { key, place, node });
                }
                (None, Value::String(text)) => *key = Some((text, node.place)),
                (None, _) => {
                    return self.fatal(node.place, "a key is a text, and this is none", None);
                }
            },
        }
        Ok(())
    }
}

fn place_of(marker: &Marker) -> Place {
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Place {
        line: number(marker.line()).max(1),
        column: number(marker.col()).saturating_add(1),
    }
}

fn weigh(node: &Node) -> Weight {
    let mut weight = Weight {
        values: 1,
        ..Weight::default()
    };
    let mut add = |child: Weight, key: &str| {
        weight.values += child.values;
        weight.bytes += child.bytes + key.len();
        weight.height = weight.height.max(child.height);
    };
    match &node.value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Unread => return weight,
        Value::String(text) => {
            weight.bytes = text.len();
            return weight;
        }
        Value::Array(items) => items.iter().for_each(|item| add(weigh(item), "")),
        Value::Object(object) => {
            for entry in &object.entries {
                add(weigh(&entry.node), &entry.key);
            }
        }
    }
    weight.height += 1;
    weight
}

/// Returns the meaning of a scalar without quotes in YAML's core schema. Errors with the reason, and with the text to write instead.
fn plain(text: &str) -> Result<Value, (String, &'static str)> {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Ok(Value::Null),
        "true" | "True" | "TRUE" => return Ok(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Ok(Value::Bool(false)),
        _ => {}
    }
    if text.starts_with("0x") || text.starts_with("0o") {
        let number = whole(text).map(Value::Number);
        return Ok(number.unwrap_or_else(|| Value::String(text.to_owned())));
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let infinite = matches!(
        unsigned.strip_prefix('.'),
        Some("inf" | "Inf" | "INF" | "nan" | "NaN" | "NAN")
    );
    let mut characters = unsigned.bytes();
    let begins = match (characters.next(), characters.next()) {
        (Some(b'.'), Some(second)) => second.is_ascii_digit(),
        (Some(first), _) => first.is_ascii_digit(),
        (None, _) => false,
    };
    let spelled = unsigned
        .bytes()
        .all(|b| matches!(b, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    let is_number = begins && spelled && unsigned.parse::<f64>().is_ok();
    if !is_number && !infinite {
        return Ok(Value::String(text.to_owned()));
    }
    // Other YAML readers interpret such a number as octal.
    if unsigned.len() > 1 && unsigned.starts_with('0') && unsigned.as_bytes()[1].is_ascii_digit() {
        return Err((
            format!("the number {} starts with 0", shorten(text)),
            "remove the zero, or put a text in quotes",
        ));
    }
    float_value(text)
}

#[cfg(test)]
mod tests;
