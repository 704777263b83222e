//! The differences between two node tables.

use std::cmp::Ordering;

use brasserie_scheduler_engine::{NodeTable, Row};

use super::Listed;

/// The most nodes that are named in each list: a line for people.
const MAX_NAMED: usize = 20;

/// The differences between two node tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeChanges {
    /// The number of nodes, without the instance node.
    pub before: usize,
    pub after: usize,
    /// The levels with differences, from the top down. Removed levels come last.
    pub levels: Vec<LevelChanges>,
}

/// The differences on one level. Nodes are compared by name and parent, so a node with another parent is another node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LevelChanges {
    pub level: String,
    pub added: Listed<String>,
    pub removed: Listed<String>,
    /// The nodes that are enabled or disabled, or have other tags.
    pub changed: Listed<String>,
}

/// The level, the name, and the parent's name.
type RowNames<'a> = (&'a str, &'a str, &'a str);

impl NodeChanges {
    pub(super) fn between(before: Option<&NodeTable>, after: Option<&NodeTable>) -> Self {
        let mut changes = Self::counts(before, after);
        let is_same = match (before, after) {
            (Some(before), Some(after)) => std::ptr::eq(before, after) || before == after,
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_same {
            changes.compare(before, after);
        }
        changes
    }

    /// Counts the nodes without comparing them.
    pub(super) fn counts(before: Option<&NodeTable>, after: Option<&NodeTable>) -> Self {
        let count = |table: Option<&NodeTable>| table.map_or(0, |table| table.len() - 1);
        NodeChanges {
            before: count(before),
            after: count(after),
            levels: Vec::new(),
        }
    }

    /// Merges both tables in the order of their keys.
    fn compare(&mut self, before: Option<&NodeTable>, after: Option<&NodeTable>) {
        let mut all: Vec<LevelChanges> = Vec::new();
        for table in after.into_iter().chain(before) {
            for level in table.level_names() {
                at(&mut all, level);
            }
        }
        let (old, new) = (sorted(before), sorted(after));
        let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let (old, new) = match order {
                Ordering::Less => (old.next(), None),
                Ordering::Greater => (None, new.next()),
                Ordering::Equal => (old.next(), new.next()),
            };
            let Some(((level, name, _), _)) = old.or(new) else {
                break;
            };
            let level = at(&mut all, level);
            let list = match (old, new) {
                (Some((_, was)), Some((_, is))) if looks_alike(before, *was, after, *is) => {
                    continue;
                }
                (Some(_), Some(_)) => &mut level.changed,
                (Some(_), None) => &mut level.removed,
                (None, Some(_) | None) => &mut level.added,
            };
            list.push(MAX_NAMED, (*name).to_owned());
        }
        let differs = |level: &LevelChanges| {
            !(level.added.is_empty() && level.removed.is_empty() && level.changed.is_empty())
        };
        self.levels = all.into_iter().filter(differs).collect();
    }
}

fn at<'a>(all: &'a mut Vec<LevelChanges>, level: &str) -> &'a mut LevelChanges {
    let found = all.iter().position(|changes| changes.level == level);
    let index = found.unwrap_or_else(|| {
        all.push(LevelChanges {
            level: level.to_owned(),
            ..LevelChanges::default()
        });
        all.len() - 1
    });
    &mut all[index]
}

fn sorted(table: Option<&NodeTable>) -> Vec<(RowNames<'_>, Row)> {
    let Some(table) = table else {
        return Vec::new();
    };
    let key = |row: Row| {
        let level = table.level_names().get(table.level(row).index());
        let parent = table.parent(row).map_or("", |parent| table.name(parent));
        (level.map_or("", String::as_str), table.name(row), parent)
    };
    let mut rows: Vec<(RowNames<'_>, Row)> = table.rows().map(|row| (key(row), row)).collect();
    rows.sort_unstable();
    rows
}

fn looks_alike(before: Option<&NodeTable>, was: Row, after: Option<&NodeTable>, is: Row) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return false;
    };
    before.enabled(was) == after.enabled(is) && before.tags(was) == after.tags(is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common_config::{NodeSource, ParseOptions, parse};
    use brasserie_scheduler_engine::NodeTableBuilder;

    fn table(nodes: &str) -> NodeTable {
        let text = format!(
            r#"{{"bistro_settings": {{"nodes": {{"levels": ["host", "db"],
                "node_sources": [{{"source": "manual", "prefs": {nodes}}}]}}}}}}"#
        );
        let config = parse(&text, ParseOptions::default()).unwrap().config;
        let mut builder = NodeTableBuilder::new("top", &config);
        for source in &config.node_sources {
            if let NodeSource::Manual(nodes) = source {
                builder.add_manual(nodes).unwrap();
            }
        }
        builder.finish()
    }

    #[test]
    fn each_level_says_what_comes_goes_and_changes() {
        let before = table(r#"{"h1": ["a", "b"], "h2": ["c"], "h4": []}"#);
        let after = table(
            r#"{"h1": ["a"], "h2": {"children": ["c", "d"], "disabled": true}, "h3": ["e"], "h4": ["b"]}"#,
        );
        let changes = NodeChanges::between(Some(&before), Some(&after));
        assert_eq!((changes.before, changes.after), (6, 9));
        let lines: Vec<String> = changes
            .levels
            .iter()
            .map(|l| {
                let names = |list: &Listed<String>| list.first.join(",");
                let (added, removed) = (names(&l.added), names(&l.removed));
                format!("{} +{added} -{removed} ~{}", l.level, names(&l.changed))
            })
            .collect();
        // `b` has another parent.
        assert_eq!(lines, ["host +h3 - ~h2", "db +b,d,e -b ~"]);
    }

    #[test]
    fn the_same_nodes_in_another_order_are_the_same() {
        let before = table(r#"{"h1": ["a", "b"], "h2": []}"#);
        let after = table(r#"{"h2": [], "h1": ["b", "a"]}"#);
        let changes = NodeChanges::between(Some(&before), Some(&after));
        assert_eq!(changes.levels, Vec::new());
    }

    #[test]
    fn many_are_counted_and_some_named() {
        let names: Vec<String> = (0..100).map(|i| format!("\"h{i}\": []")).collect();
        let after = table(&format!("{{{}}}", names.join(", ")));
        let changes = NodeChanges::between(None, Some(&after));
        let host = &changes.levels[1];
        assert_eq!((host.level.as_str(), host.added.total), ("host", 100));
        assert_eq!(host.added.first.len(), MAX_NAMED);
    }
}
