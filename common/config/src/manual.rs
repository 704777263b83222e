//! Parses the `manual` node source: names and their children, as trees below the instance node.

use std::collections::{BTreeMap, BTreeSet};

use crate::coerce::name_error;
use crate::keys::{Key, Shape};
use crate::known_nodes::Given;
use crate::model::{Config, LevelId, ManualNode, ManualNodes, NodeNaming};
use crate::read::{At, Notes};
use crate::tree::{Place, Value, quote};

/// The nodes of one manual source: as many as the largest file can list. Children of replicas are replicas too, so without a bound a few
/// lines could produce more nodes than fit into memory.
pub const MAX_MANUAL_NODES: usize = 1_000_000;

const SPEC_KEYS: &[Key] = &[
    Key::new(
        "children",
        Shape::Either(&[Shape::Name, Shape::List(&Shape::Name)]),
        "The names of the node's children.",
    ),
    Key::new(
        "disabled",
        Shape::Any,
        "With `true`, no task starts on the node and below it.",
    ),
];

/// The shape of the source's preferences.
pub(crate) const PREFS: Shape = Shape::Map(
    "NODE",
    &Shape::Either(&[
        Shape::Name,
        Shape::List(&Shape::Name),
        Shape::Fields(SPEC_KEYS),
    ]),
);

/// One key of the preferences.
struct Spec<'a> {
    at: At<'a>,
    children: Vec<(String, Place)>,
    enabled: bool,
}

pub(crate) fn parse(
    prefs: &At,
    naming: NodeNaming,
    config: &Config,
    notes: &mut Notes,
) -> Option<(ManualNodes, Given)> {
    let errors_before = notes.errors.len();
    let mut specs: Vec<Spec> = Vec::new();
    for at in prefs.entries() {
        if at.key_name(notes).is_some() {
            specs.push(spec(at, notes));
        }
    }
    // A layout of incomplete specs would report wrong names for mistakes that are already reported.
    if notes.errors.len() > errors_before {
        return None;
    }
    if config.levels.len() == 2 {
        notes.error(
            prefs
                .key_problem("there is no level for these nodes")
                .help("add one to `nodes.levels`"),
        );
        return None;
    }
    let (nodes, places) = Layout::new(&specs, naming, config).run(prefs, notes);
    let nodes = ManualNodes { nodes, naming };
    (notes.errors.len() == errors_before).then_some((nodes, Given::At(places)))
}

fn spec<'a>(at: At<'a>, notes: &mut Notes) -> Spec<'a> {
    let mut children = Vec::new();
    let mut enabled = true;
    if at.as_object().is_some() {
        at.check_keys(SPEC_KEYS, notes);
        if let Some(at) = at.get("children") {
            read_children(&at, &mut children, notes);
        }
        if let Some(at) = at.get("disabled") {
            enabled = at.as_truth() == Some(false);
            if at.as_truth().is_none() {
                let text = format!("expected true or false, found {}", at.node);
                let problem = at
                    .problem(text)
                    .help("anything else disables the node, too");
                notes.warning(problem);
            }
        }
    } else {
        read_children(&at, &mut children, notes);
    }
    Spec {
        at,
        children,
        enabled,
    }
}

fn read_children(at: &At, children: &mut Vec<(String, Place)>, notes: &mut Notes) {
    let read = |at: At, notes: &mut Notes| at.name(notes).map(|name| (name, at.place()));
    match &at.node.value {
        Value::Array(_) => children.extend(at.items().filter_map(|item| read(item, notes))),
        Value::String(_) | Value::Number(_) | Value::Bool(_) => children.extend(read(*at, notes)),
        Value::Null | Value::Object(_) | Value::Unread => notes.error(
            at.expected("the children of a node")
                .help("a name, an array of names, or {\"children\": [...], \"disabled\": true}"),
        ),
    }
}

struct Layout<'a> {
    specs: &'a [Spec<'a>],
    by_name: BTreeMap<&'a str, usize>,
    mentioned: BTreeSet<&'a str>,
    worker: LevelId,
    level_names: &'a [String],
    naming: NodeNaming,
}

impl<'a> Layout<'a> {
    fn new(specs: &'a [Spec<'a>], naming: NodeNaming, config: &'a Config) -> Layout<'a> {
        Layout {
            specs,
            by_name: specs
                .iter()
                .enumerate()
                .map(|(i, s)| (s.at.key(), i))
                .collect(),
            mentioned: specs
                .iter()
                .flat_map(|s| s.children.iter().map(|(name, _)| name.as_str()))
                .collect(),
            worker: config.worker_level(),
            level_names: &config.levels,
            naming,
        }
    }

    /// Returns the nodes and their places, level by level: parents before children, and each level in the order of the file.
    fn run(self, prefs: &At, notes: &mut Notes) -> (Vec<ManualNode>, Vec<Place>) {
        let specs = self.specs;
        let (mut nodes, mut places): (Vec<ManualNode>, Vec<Place>) = Default::default();
        // The name of each node in the file, before `naming` adds the parent's name.
        let mut plain: Vec<&str> = Vec::new();
        let mut too_deep = vec![false; specs.len()];
        for spec in specs {
            if !self.mentioned.contains(spec.at.key()) {
                nodes.push(self.node(spec.at.key(), LevelId(1), None));
                places.push(spec.at.key_place());
                plain.push(spec.at.key());
            }
        }
        if nodes.is_empty() {
            let text = match specs.is_empty() {
                true => "there is no node".to_owned(),
                false => "there is no top-level node: each name is also a child".to_owned(),
            };
            let help = "a name that is nobody's child becomes a node of the first level";
            notes.error(prefs.key_problem(text).help(help));
            return (nodes, places);
        }
        self.report_unreached(notes);
        let mut next = 0;
        while next < nodes.len() {
            let (parent, level) = (next, LevelId(nodes[next].level.0 + 1));
            next += 1;
            let Some(&index) = self.by_name.get(plain[parent]) else {
                continue;
            };
            let spec = &specs[index];
            if level >= self.worker && !spec.children.is_empty() {
                if !std::mem::replace(&mut too_deep[index], true) {
                    notes.error(self.too_deep(spec));
                }
                continue;
            }
            if nodes.len() + spec.children.len() > MAX_MANUAL_NODES {
                let text = format!("more than {MAX_MANUAL_NODES} nodes, counting replicas");
                notes.error(prefs.key_problem(text).help("use a `script` source"));
                return (nodes, places);
            }
            for (child, place) in &spec.children {
                let mut node = self.node(child, level, Some(parent));
                let named = self.naming.name(Some(&nodes[parent].name), child);
                if let Some(error) = name_error(&named) {
                    let path = spec.at.path_text();
                    notes.error(crate::Problem::new(*place, path, error).value(quote(&named)));
                    continue;
                }
                node.name = named.into_owned();
                nodes.push(node);
                places.push(*place);
                plain.push(child);
            }
        }
        (nodes, places)
    }

    fn node(&self, name: &str, level: LevelId, parent: Option<usize>) -> ManualNode {
        let spec = self.by_name.get(name).map(|&i| &self.specs[i]);
        ManualNode {
            name: name.to_owned(),
            level,
            parent,
            enabled: spec.is_none_or(|s| s.enabled),
        }
    }

    fn too_deep(&self, spec: &Spec) -> crate::Problem {
        let last = &self.level_names[self.worker.index() - 1];
        spec.at
            .key_problem(format!(
                "the children of {} are below the last level, `{last}`",
                quote(spec.at.key())
            ))
            .help("add a level to `nodes.levels`, or remove the cycle if there is one")
    }

    /// Reports nodes that no top-level node leads to. Each is in or below a cycle.
    fn report_unreached(&self, notes: &mut Notes) {
        let mut reached = vec![false; self.specs.len()];
        let top = |spec: &Spec| !self.mentioned.contains(spec.at.key());
        let mut open: Vec<usize> = (0..self.specs.len())
            .filter(|&i| top(&self.specs[i]))
            .collect();
        while let Some(index) = open.pop() {
            if !std::mem::replace(&mut reached[index], true) {
                let children = self.specs[index].children.iter();
                open.extend(children.filter_map(|(c, _)| self.by_name.get(c.as_str())));
            }
        }
        for (spec, _) in self.specs.iter().zip(reached).filter(|(_, r)| !r) {
            notes.error(
                spec.at
                    .key_problem("no top-level node leads here: it is in or below a cycle")
                    .help("remove the cycle of children"),
            );
        }
    }
}
