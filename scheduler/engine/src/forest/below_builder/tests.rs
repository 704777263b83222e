//! Tests of what one slice does for an index and for a forest.

use std::sync::Arc;

use brasserie_common_config::{NodeOrder, ParseOptions, parse};

use super::*;
use crate::forest::growing::Growing;
use crate::forest::{NodeTableBuilder, Row};
use crate::names::NodeNames;
use brasserie_common::rng::{Purpose, Rng};
use brasserie_common_config::Config;

const HOST: LevelId = LevelId(1);
const DB: LevelId = LevelId(2);
const ROWS: usize = 300;

fn config(order: NodeOrder) -> Config {
    let text = r#"{"bistro_settings": {
        "enabled": true, "nodes": {"levels": ["host", "db"], "node_sources": []}, "resources": {}}}"#;
    let mut config = parse(text, ParseOptions::default()).unwrap().config;
    config.node_order = order;
    config
}

/// A host with `ROWS` databases of these names, as a growing forest.
fn growing(order: NodeOrder, names: &mut NodeNames, name: impl Fn(usize) -> String) -> Growing {
    let config = config(order);
    let mut builder = NodeTableBuilder::new("root", &config);
    let host = builder.add_child(Row::ROOT, "host", true).unwrap();
    for i in 0..ROWS {
        builder.add_child(host, &name(i), true).unwrap();
    }
    Growing::new(&config, Arc::new(builder.finish()), names)
}

/// Grows a forest in slices of one step each. Returns the number of slices and the forest.
fn grown(order: NodeOrder, name: impl Fn(usize) -> String) -> (usize, Forest) {
    let (mut names, mut rng) = (NodeNames::new(1), Rng::new(1, Purpose::Placement));
    let mut growing = growing(order, &mut names, name);
    let mut slices = 1;
    while !growing.grow(&mut names, &mut rng, &mut WorkBudget::new(1)) {
        slices += 1;
    }
    (slices, *growing.into_forest())
}

fn same(_: usize) -> String {
    "same".to_owned()
}

#[test]
fn a_slice_looks_at_one_replica_of_many_if_there_is_no_work_for_more() {
    let (slices, forest) = grown(NodeOrder::Random, same);
    assert_eq!(forest.rows(2).count(), ROWS);
    // Each replica takes a step for its place, its row, the list of replicas, and its position.
    assert!(slices > 4 * ROWS, "{slices}");
    let mut builder = BelowBuilder::new(&forest, DB, HOST);
    let mut slices = 1;
    while !builder.build(&forest, &mut WorkBudget::new(1)) {
        slices += 1;
    }
    assert!(slices > 2 * ROWS, "{slices}: counted, and filled in");
    assert_eq!(builder.next.capacity(), 0, "nobody needs it any more");
    assert_eq!(builder.finish().of(0), [0]);
}

#[test]
fn lists_of_rows_get_their_room_piece_by_piece() {
    let (without, forest) = grown(NodeOrder::Original, |i| format!("db{i}"));
    assert!(forest.more_rows.is_empty());
    let as_host = |i| match i + 1 {
        ROWS => "host".to_owned(),
        _ => format!("db{i}"),
    };
    let (with, forest) = grown(NodeOrder::Original, as_host);
    let host = forest.row_of(HOST, forest.node(1));
    let db = forest.row_of(DB, forest.node(1));
    assert_eq!((host, db), (Some(1), Some(ROWS as u32 + 1)));
    assert!(with > without + ROWS / 8, "{with}, {without}");
}

#[test]
fn an_index_gets_its_places_piece_by_piece() {
    let (_, mut forest) = grown(NodeOrder::Original, |i| format!("db{i}"));
    // The index has as many nodes above as tasks.
    let mut builder = BelowBuilder::new(&forest, HOST, DB);
    let mut slices = 0;
    while let BuildStage::New = builder.stage {
        builder.build(&forest, &mut WorkBudget::new(1));
        slices += 1;
    }
    assert!(slices > ROWS / 4, "{slices}");
    let before = forest.orders.len();
    builder.give_up(&mut forest);
    let left: usize = forest.orders[before..].iter().map(Vec::len).sum();
    assert_eq!(left, 2 * (ROWS + 1), "it goes with the forest");
}

#[test]
fn what_is_being_sorted_goes_with_the_forest() {
    let (mut names, mut rng) = (NodeNames::new(1), Rng::new(1, Purpose::Placement));
    let mut growing = growing(NodeOrder::Lexicographic, &mut names, |i| format!("db{i}"));
    let levels = growing.table().level_names().len();
    while !growing.is_sorting() {
        assert!(!growing.grow(&mut names, &mut rng, &mut WorkBudget::new(1)));
    }
    let forest = growing.into_forest();
    assert_eq!(forest.orders.len(), levels + 2);
}
