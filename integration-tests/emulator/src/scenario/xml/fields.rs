//! Reads an XML element whose children are fields with texts.

use std::collections::BTreeSet;

use roxmltree::Node;

use crate::scenario::MOST_INSTANCES;
use crate::scenario::problems::{Limits, Problems};

pub(super) struct Fields<'a, 'p> {
    node: Node<'a, 'a>,
    problems: &'p mut Problems,
}

/// Returns the line of a node, from 1.
pub(super) fn line_of(node: Node<'_, '_>) -> usize {
    let position = node.document().text_pos_at(node.range().start);
    usize::try_from(position.row).unwrap_or(0)
}

fn child<'a>(node: Node<'a, 'a>, name: &str) -> Option<Node<'a, 'a>> {
    let mut children = node.children().rev();
    children.find(|child| child.has_tag_name(name))
}

/// Returns the line and the key of a child; the line of `node` if the child is missing.
fn place(node: Node<'_, '_>, name: &str) -> (usize, String) {
    let line = line_of(child(node, name).unwrap_or(node));
    (line, format!("{}/{name}", node.tag_name().name()))
}

impl<'a, 'p> Fields<'a, 'p> {
    pub fn new<'i: 'a>(node: Node<'a, 'i>, problems: &'p mut Problems) -> Fields<'a, 'p> {
        Fields { node, problems }
    }

    /// Returns the fields of another element, with the same list of mistakes.
    pub fn of<'b>(&'b mut self, node: Node<'a, 'a>) -> Fields<'a, 'b> {
        Fields {
            node,
            problems: self.problems,
        }
    }

    /// Returns the last child of this name.
    pub fn child(&self, name: &str) -> Option<Node<'a, 'a>> {
        child(self.node, name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.child(name).is_some()
    }

    pub fn problem(&mut self, name: &str, text: &str) {
        let node = self.node;
        self.problems.at_place(|| place(node, name), text);
    }

    pub fn text(&self, name: &str) -> Option<String> {
        let text = self.child(name)?.text().unwrap_or_default();
        Some(text.trim().to_owned())
    }

    pub fn needed_text(&mut self, name: &str) -> Option<String> {
        let text = self.text(name).filter(|text| !text.is_empty());
        if text.is_none() {
            self.problem(name, "missing, or empty");
        }
        text
    }

    /// Reads a text that must be unique among `others`; `what` names these in the plural.
    pub fn own_text(
        &mut self,
        name: &str,
        (what, others): (&str, &mut BTreeSet<String>),
    ) -> Option<String> {
        let text = self.needed_text(name)?;
        if !others.insert(text.clone()) {
            self.problem(name, &format!("two {what} are called `{text}`"));
        }
        Some(text)
    }

    pub fn number(&mut self, name: &str, limits: Limits) -> Option<f64> {
        let text = self.text(name)?;
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => {
                let node = self.node;
                self.problems.within(|| place(node, name), number, limits)
            }
            Ok(_) | Err(_) => {
                let short: String = text.chars().take(40).collect();
                self.problem(name, &format!("`{short}` is no number"));
                None
            }
        }
    }

    pub fn needed_number(&mut self, name: &str, limits: Limits) -> Option<f64> {
        if !self.has(name) {
            self.problem(name, "missing");
        }
        self.number(name, limits)
    }

    /// Reads a whole number, which the file may write like a float.
    pub fn count(&mut self, name: &str) -> Option<u32> {
        const COUNT: Limits = Limits::from(0.0, 1e6);
        let number = self.number(name, COUNT)?;
        if number.fract() != 0.0 {
            self.problem(name, &format!("{number} is no whole number"));
            return None;
        }
        Some(number as u32)
    }

    /// Reads the number of processors of one type, which must be present.
    pub fn needed_instances(&mut self, name: &str) -> Option<u32> {
        if !self.has(name) {
            self.problem(name, "missing");
        }
        let count = self.count(name)?;
        if count > MOST_INSTANCES {
            let text = format!("{count} is more than {MOST_INSTANCES} processors of one type");
            self.problem(name, &text);
            return None;
        }
        Some(count)
    }
}
