//! Tests of the nodes that sources may add, and of those that are refused.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::{BackoffPolicy, KillRequest, TaskSubprocessOptions};
use brasserie_common_config::{ManualNode, NodeOrder, SchedulerPolicy, WorkerSelector};

use super::*;

fn config() -> Config {
    Config {
        enabled: true,
        levels: ["instance", "host", "db", "worker"]
            .map(str::to_owned)
            .to_vec(),
        level_for_tasks: LevelId(2),
        node_order: NodeOrder::Original,
        node_sources: Vec::new().into(),
        policy: SchedulerPolicy::RoundRobin,
        worker_selector: WorkerSelector::RoundRobin,
        standby: true,
        backoff: BackoffPolicy::default(),
        resources: Vec::new(),
        worker_resources_override: BTreeMap::new(),
        kill_orphan_tasks_after: None,
        task_subprocess: TaskSubprocessOptions::default(),
        kill_subprocess: KillRequest::default(),
        working_wait: Duration::from_millis(500),
        physical_resources: Vec::new(),
        exit_initial_wait_before_timestamp: 0,
        jobs: Vec::new(),
    }
}

fn all(nodes: &[ManualNode]) -> ManualNodes {
    ManualNodes {
        nodes: nodes.to_vec(),
        naming: NodeNaming::Unique,
    }
}

fn manual(name: &str, level: u16, parent: Option<usize>) -> ManualNode {
    ManualNode {
        name: name.to_owned(),
        level: LevelId(level),
        parent,
        enabled: true,
    }
}

fn range(start: i64, end: i64, format: &str) -> RangeLabel {
    RangeLabel {
        parent_level: LevelId(1),
        start,
        end,
        format: format.to_owned(),
        enabled: false,
        naming: NodeNaming::Unique,
    }
}

#[test]
fn sources_add_to_what_is_there() {
    let mut builder = NodeTableBuilder::new("me", &config());
    builder
        .add_manual(&all(&[manual("h1", 1, None), manual("x", 2, Some(0))]))
        .unwrap();
    builder
        .add_manual(&all(&[manual("h{i}", 1, None)]))
        .unwrap();
    builder
        .add_range_label(&range(-1, 0, "{parent}:{i}/{start}..{end}"))
        .unwrap();
    builder.add_range_label(&range(2, 1, "{i}")).unwrap();
    let table = builder.finish();
    let names: Vec<&str> = table.rows().map(|row| table.name(row)).collect();
    assert_eq!(
        names,
        [
            "me",
            "h1",
            "x",
            "h{i}",
            "h1:-1/-1..0",
            "h1:0/-1..0",
            "h{i}:-1/-1..0",
            "h{i}:0/-1..0"
        ]
    );
    assert_eq!(table.parent(Row(7)), Some(Row(3)));
    assert_eq!(table.parent(Row::ROOT), None);
    assert_eq!(table.level(Row(2)), LevelId(2));
    assert!(table.enabled(Row(2)) && !table.enabled(Row(4)));
    assert_eq!(table.len(), 8);
}

#[test]
fn what_is_no_node_is_refused() {
    let mut builder = NodeTableBuilder::new("", &config());
    assert_eq!(builder.name(Row::ROOT), "instance");
    let host = builder.add_child(Row::ROOT, "h", true).unwrap();
    let db = builder.add_child(host, "d", true).unwrap();
    let text = |error: NodeError| error.to_string();
    assert_eq!(
        builder.add_child(db, "below", true).map_err(text),
        Err("node \"below\" cannot be a child of \"d\": there is no level for it below `db`; add one to `nodes.levels`".to_owned())
    );
    assert_eq!(
        builder.add_child(host, "", true),
        Err(NodeError::EmptyName {
            parent: "h".to_owned()
        })
    );
    assert_eq!(
        builder.add_child(host, "a\0b", true).map_err(text),
        Err(
            "node \"a\\0b\" under \"h\": the name contains a NUL character, which no program argument can hold"
                .to_owned()
        )
    );
    assert!(matches!(
        builder.add_child(Row(99), "a", true),
        Err(NodeError::NoSuchParent { .. })
    ));
    assert!(matches!(
        builder.add_manual(&all(&[manual("a", 2, Some(0))])),
        Err(NodeError::NoSuchParent { .. })
    ));
    assert_eq!(
        builder.add_manual(&all(&[manual("a", 2, None)])),
        Err(NodeError::WrongLevel {
            name: "a".to_owned(),
            said: 2,
            actual: 1
        })
    );
    assert_eq!(builder.finish().len(), 3, "what was refused left nothing");
}

#[test]
fn a_mistyped_range_ends_in_an_error() {
    let mut builder = NodeTableBuilder::new("me", &config());
    builder.add_manual(&all(&[manual("h", 1, None)])).unwrap();
    let mut small = range(i64::MIN, i64::MAX, "{i}");
    small.parent_level = LevelId::INSTANCE;
    assert_eq!(builder.add_range_label(&small), Err(NodeError::TooMany));
}

#[test]
fn a_level_has_each_name_once_unless_its_source_says_otherwise() {
    let mut builder = NodeTableBuilder::new("me", &config());
    builder.begin_source();
    let hosts = [manual("h1", 1, None), manual("h2", 1, None)];
    builder.add_manual(&all(&hosts)).unwrap();
    builder.begin_source();
    let mut ten = range(1, 10, "f{i}");
    let twice = |source: &str| {
        format!(
            "the name \"f1\" occurs twice at level `db`: under \"h1\"{source} and under \"h2\"; set \"names\": \"path\" on the sources, which puts the parent's name and a slash before each name, or \"shared\" if it is one node with several parents"
        )
    };
    let error = builder.clone().add_range_label(&ten).unwrap_err();
    assert_eq!(error.to_string(), twice(""));
    for (naming, names, rows) in [
        (NodeNaming::Path, 20, ["h1/f1", "h2/f10"]),
        (NodeNaming::Shared, 10, ["f1", "f10"]),
    ] {
        let mut builder = builder.clone();
        ten.naming = naming;
        builder.add_range_label(&ten).unwrap();
        let table = builder.finish();
        assert_eq!(table.len(), 23);
        let all: BTreeSet<&str> = table.rows().skip(3).map(|row| table.name(row)).collect();
        assert_eq!(all.len(), names);
        assert_eq!([Row(3), Row(22)].map(|row| table.name(row)), rows);
    }
    // Names of other sources count, and so do names below the same parent.
    let h1 = Row(1);
    builder
        .add_named(NodeNaming::Unique, h1, "f1", true)
        .unwrap();
    builder.begin_source();
    let error = |parent| {
        let added = builder
            .clone()
            .add_named(NodeNaming::Unique, parent, "f1", true);
        added.unwrap_err().to_string()
    };
    assert_eq!(error(Row(2)), twice(" (by node source 2)"));
    assert_eq!(
        error(h1),
        "the name \"f1\" occurs twice at level `db`: under \"h1\" (by node source 2) and under \"h1\"; name it once, or set \"names\": \"shared\" on the later source if it is one node"
    );
    // A node of another level may have the same name.
    builder
        .add_named(NodeNaming::Path, Row::ROOT, "f1", true)
        .unwrap();
}
