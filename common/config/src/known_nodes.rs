//! Finds equal names among the nodes that the config file alone determines: those of `manual` and `range_label` sources, and the nodes
//! that `add_time` sources add below them.
//!
//! Nodes below a `script` or an `add_time` source are known only at run time; the builder of the node table checks them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use brasserie_common::WallTime;

use crate::cron::Zone;
use crate::model::{AddTime, Config, LevelId, NodeNaming, NodeSource, RangeLabel, ScheduleItem};
use crate::problem::Problem;
use crate::read::{At, Notes};
use crate::tree::{Place, quote};

/// The largest number of range nodes that are checked, for all sources together. Checking them takes some ten milliseconds. The first nodes
/// show most mistakes, and the builder of the node table finds the others.
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

/// The names that an `add_time` source gives below the known nodes.
struct TimedNames {
    place: Place,
    level: LevelId,
    /// Names with [`TIME`] in place of the time.
    names: BTreeSet<String>,
    schedule: Vec<ScheduleItem>,
}

/// Stands for the time in the `format` of an `add_time` source.
const TIME: &str = "{time}";

impl TimedNames {
    /// Returns a time at which the source adds a node with this name; `None` if there is none. If the source's `format` has no time, this
    /// is the first time of the schedule.
    fn time_of(&self, name: &str) -> Option<WallTime> {
        let first = |from: WallTime| {
            let of_item = |item: &ScheduleItem| item.cron.first_from(from, &Zone::utc());
            self.schedule.iter().filter_map(of_item).min()
        };
        if self.names.contains(name) {
            return first(WallTime::default());
        }
        let bytes = name.as_bytes();
        let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
        let mut begins =
            (0..bytes.len()).filter(|&at| is_digit(at) && (at == 0 || !is_digit(at - 1)));
        begins.find_map(|begin| {
            let end = (begin..).find(|&at| !is_digit(at))?;
            let time = WallTime::from_secs(name[begin..end].parse().ok()?);
            let pattern = format!("{}{TIME}{}", &name[..begin], &name[end..]);
            let is_given = self.names.contains(&pattern) && first(time) == Some(time);
            is_given.then_some(time)
        })
    }
}

/// The nodes of the sources that have been added.
pub(crate) struct KnownNodes {
    nodes: Vec<KnownNode>,
    timed: Vec<TimedNames>,
    /// Levels that have further nodes at run time.
    open_levels: BTreeSet<LevelId>,
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
            timed: Vec::new(),
            open_levels: BTreeSet::new(),
            first: BTreeMap::new(),
            range_nodes_left: MAX_RANGE_NODES,
        }
    }
}

/// The count of one source's nodes that have the name of an earlier node, with an example.
#[derive(Default)]
struct Taken {
    count: usize,
    /// The index of the first such node, and that of the earlier node with the same name.
    pair: Option<(usize, usize)>,
}

impl KnownNodes {
    /// Adds the nodes of the source at `at`. Notes an error if a node of the same level already has one of their names, and a warning if
    /// names may become equal at run time.
    pub(crate) fn add(
        &mut self,
        at: &At,
        source: &NodeSource,
        given: Given,
        config: &Config,
        notes: &mut Notes,
    ) {
        let mut taken = Taken::default();
        let before = self.nodes.len();
        let naming = match source {
            NodeSource::Manual(manual) => {
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
            NodeSource::Empty => return,
            NodeSource::Script(script) => {
                self.open_levels.insert(LevelId(script.parent_level.0 + 1));
                return;
            }
            NodeSource::AddTime(source) => {
                self.add_time(at, source, config, notes);
                return;
            }
        };
        if let Some(pair) = taken.pair {
            notes.error(self.problem(at, pair, taken.count, naming, config));
        }
        if naming != NodeNaming::Shared {
            for timed in &self.timed {
                self.check_times(timed, before..self.nodes.len(), config, (at, notes));
            }
        }
    }

    /// Checks the names of an `add_time` source: two parents must not give one time equal names, and no other node may have such a name.
    fn add_time(&mut self, at: &At, source: &AddTime, config: &Config, notes: &mut Notes) {
        let level = LevelId(source.parent_level.0 + 1);
        if source.schedule.is_empty() {
            return;
        }
        let is_parent = |node: &KnownNode| node.level == source.parent_level;
        let parents = (0..self.nodes.len()).filter(|&index| is_parent(&self.nodes[index]));
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        let mut pair = None;
        for parent in parents {
            let name = source.format.replace("{parent}", &self.nodes[parent].name);
            let above = (parent != 0).then_some(&*self.nodes[parent].name);
            let name = source.naming.name(above, &name).into_owned();
            if let Some(first) = names.insert(name, parent) {
                pair.get_or_insert((first, parent));
            }
        }
        let depends_on_parent =
            source.format.contains("{parent}") || source.naming == NodeNaming::Path;
        let help = match depends_on_parent {
            true => {
                "set \"names\": \"shared\" beside `source` if it is one node with several parents"
            }
            false => {
                "add `{parent}` to `format`, or set \"names\": \"path\" beside `source`, or \"names\": \"shared\" if it is one node with several parents"
            }
        };
        let problem = |text: String| {
            let problem = Problem::new(at.place(), at.path_text(), text);
            problem.value(quote(&source.format)).help(help)
        };
        let shown_level = &config.levels[level.index()];
        let timed = TimedNames {
            place: at.place(),
            level,
            names: names.into_keys().collect(),
            schedule: source.schedule.clone(),
        };
        let is_shared = source.naming == NodeNaming::Shared;
        if let Some((first, second)) = pair.filter(|_| !is_shared) {
            let [first, second] = [first, second].map(|index| shown(&self.nodes[index].name));
            notes.error(problem(format!(
                "the names of each time occur twice at level `{shown_level}`: under {first} and under {second}"
            )));
        } else if !is_shared
            && !depends_on_parent
            && self.open_levels.contains(&source.parent_level)
        {
            let parents = &config.levels[source.parent_level.index()];
            notes.warning(problem(format!(
                "`format` has no `{{parent}}`, so a second node of level `{parents}` gives level `{shown_level}` two nodes with one name, which is an error"
            )));
        }
        if !is_shared {
            self.check_times(&timed, 0..self.nodes.len(), config, (at, notes));
        }
        self.timed.push(timed);
        self.open_levels.insert(level);
    }

    /// Warns if one of these nodes has a name that the `add_time` source gives at some time.
    fn check_times(
        &self,
        timed: &TimedNames,
        nodes: Range<usize>,
        config: &Config,
        (at, notes): (&At, &mut Notes),
    ) {
        let mut nodes = self.nodes[nodes]
            .iter()
            .filter(|node| node.level == timed.level);
        let found = nodes.find_map(|node| Some((node, timed.time_of(&node.name)?)));
        let Some((node, time)) = found else {
            return;
        };
        let (name, level) = (shown(&node.name), &config.levels[timed.level.index()]);
        let (node, source) = (node.place, timed.place);
        let text = format!(
            "the name {name} occurs twice at level `{level}` at the time {}, which is an error: of the node at {}:{} and of the `add_time` source at {}:{}",
            time.as_secs(),
            node.line,
            node.column,
            source.line,
            source.column,
        );
        let help = "rename the node, or change the `format` of the `add_time` source";
        let problem = Problem::new(at.place(), at.path_text(), text);
        notes.warning(problem.value(name).help(help));
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
