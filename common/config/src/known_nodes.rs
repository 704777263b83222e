//! Checks the nodes of `manual` and `range_label` sources, which the config file alone determines, for equal names.
//!
//! Nodes below a `script` or an `add_time` source are known only at run time; the builder of the node table checks these.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{Config, LevelId, NodeNaming, NodeSource, RangeLabel};
use crate::problem::Problem;
use crate::read::At;
use crate::tree::{Place, quote};

/// Largest number of nodes of all ranges that are checked, which takes some ten milliseconds. The first nodes show most mistakes, and the
/// builder of the node table finds the others.
const MAX_RANGE_NODES: usize = 100_000;

/// Stands for the name of the instance node, which is the unknown host's name. No node name can contain this character.
const INSTANCE: &str = "\0";

/// The places of one source's nodes in the file.
#[derive(Debug, Default)]
pub(crate) enum Given {
    /// All nodes have the place of the source.
    #[default]
    BySource,
    /// One place for each node.
    At(Vec<Place>),
}

struct KnownNode {
    name: Arc<str>,
    level: LevelId,
    /// `None` for the instance node.
    parent: Option<usize>,
    place: Place,
}

/// The nodes of the sources that have been added.
pub(crate) struct KnownNodes {
    nodes: Vec<KnownNode>,
    /// The first node of each name at each level.
    first: BTreeMap<(LevelId, Arc<str>), usize>,
    /// Number of range nodes that may still be checked.
    range_nodes_left: usize,
}

impl Default for KnownNodes {
    fn default() -> Self {
        KnownNodes {
            nodes: vec![KnownNode {
                name: INSTANCE.into(),
                level: LevelId::INSTANCE,
                parent: None,
                place: Place::START,
            }],
            first: BTreeMap::new(),
            range_nodes_left: MAX_RANGE_NODES,
        }
    }
}

/// The nodes of one source whose names other nodes already have.
#[derive(Default)]
struct Taken {
    count: usize,
    /// The first such node, and the earlier node with the same name.
    pair: Option<(usize, usize)>,
}

impl KnownNodes {
    /// Adds the nodes of the source at `at`. Returns a problem if a node of the same level already has one of their names.
    pub(crate) fn add(
        &mut self,
        at: &At,
        source: &NodeSource,
        given: Given,
        config: &Config,
    ) -> Option<Problem> {
        let mut taken = Taken::default();
        let naming = match source {
            NodeSource::Manual(manual) => {
                let before = self.nodes.len();
                for (index, node) in manual.nodes.iter().enumerate() {
                    let place = match &given {
                        Given::At(places) => places[index],
                        Given::BySource => at.place(),
                    };
                    let node = KnownNode {
                        name: node.name.as_str().into(),
                        level: node.level,
                        parent: Some(node.parent.map_or(0, |parent| before + parent)),
                        place,
                    };
                    self.push(node, manual.naming, &mut taken);
                }
                manual.naming
            }
            NodeSource::RangeLabel(range) => {
                self.add_range(range, at.place(), &mut taken);
                range.naming
            }
            NodeSource::Empty | NodeSource::Script(_) | NodeSource::AddTime(_) => return None,
        };
        let (node, first) = taken.pair?;
        Some(self.problem(at, (node, first), taken.count, naming, config))
    }

    /// Adds the nodes of a range. The number is the outer loop, so that a format that omits the number or the parent repeats a name early.
    fn add_range(&mut self, range: &RangeLabel, place: Place, taken: &mut Taken) {
        let is_parent = |node: &KnownNode| node.level == range.parent_level;
        let parents: Vec<usize> = (0..self.nodes.len())
            .filter(|&index| is_parent(&self.nodes[index]))
            .collect();
        if parents.is_empty() {
            return;
        }
        let name_of = range.names();
        for i in range.start..=range.end {
            for &parent in &parents {
                let Some(left) = self.range_nodes_left.checked_sub(1) else {
                    return;
                };
                self.range_nodes_left = left;
                let parent_name = &self.nodes[parent].name;
                let name = name_of(parent_name, i);
                let above = (parent != 0).then_some(&**parent_name);
                let node = KnownNode {
                    name: range.naming.name(above, &name).into(),
                    level: LevelId(range.parent_level.0 + 1),
                    parent: Some(parent),
                    place,
                };
                self.push(node, range.naming, taken);
            }
        }
    }

    fn push(&mut self, node: KnownNode, naming: NodeNaming, taken: &mut Taken) {
        let index = self.nodes.len();
        let key = (node.level, Arc::clone(&node.name));
        let first = *self.first.entry(key).or_insert(index);
        self.nodes.push(node);
        if first != index && naming != NodeNaming::Shared {
            taken.count += 1;
            taken.pair.get_or_insert((index, first));
        }
    }

    fn problem(
        &self,
        at: &At,
        (node, first): (usize, usize),
        count: usize,
        naming: NodeNaming,
        config: &Config,
    ) -> Problem {
        let (node, first) = (&self.nodes[node], &self.nodes[first]);
        let level = &config.levels[node.level.index()];
        let name = shown(&node.name);
        let others = match count {
            1 => String::new(),
            _ => format!(", as {} more of the source's names do", count - 1),
        };
        let text = format!(
            "the name {name} occurs twice at level `{level}`: here{} and at {}:{}{}{others}",
            self.below(node),
            first.place.line,
            first.place.column,
            self.below(first),
        );
        let can_be_told_apart = naming == NodeNaming::Unique
            && node.parent != first.parent
            && node.parent != Some(0)
            && first.parent != Some(0);
        let help = match can_be_told_apart {
            true => {
                "set \"names\": \"path\" beside `source`, which puts the parent's name and a slash before each name, or \"names\": \"shared\" if it is one node with several parents"
            }
            false => {
                "rename or remove one of them, or set \"names\": \"shared\" beside `source` if it is one node"
            }
        };
        let path = at.path_text();
        Problem::new(node.place, path, text).value(name).help(help)
    }

    fn below(&self, node: &KnownNode) -> String {
        match node.parent {
            None | Some(0) => String::new(),
            Some(parent) => format!(" (under {})", shown(&self.nodes[parent].name)),
        }
    }
}

/// Returns the name quoted, with `{parent}` for the unknown name of the instance node.
fn shown(name: &str) -> String {
    quote(&name.replace(INSTANCE, "{parent}"))
}
