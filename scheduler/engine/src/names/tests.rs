//! Tests of name interning and of the release of unused names.

use proptest::prelude::*;
use std::collections::BTreeMap;

use super::index::SHARD;
use super::*;

#[test]
fn a_growing_index_finds_every_name() {
    for expected in [0, 10 * SHARD] {
        let mut names = NodeNames::new(1);
        names.expect(expected);
        let count = 9 * SHARD as u32;
        for i in 0..count {
            assert_eq!(names.intern_text(&format!("n{i}")), i);
        }
        assert!(names.ids.shards() >= 9);
        for i in 0..count {
            assert_eq!(names.find(&format!("n{i}")), Some(i));
        }
        assert_eq!(names.find("n"), None);
    }
}

#[test]
fn node_names_keep_their_ids_over_many_blocks() {
    let mut names = NodeNames::new(5);
    let name = |i: usize| format!("{}{i}", "x".repeat(i % 7));
    for i in 0..3 * BLOCK {
        assert_eq!(names.intern_text(&name(i)), i as u32);
    }
    assert_eq!(names.intern(&NodeName::default()), 3 * BLOCK as u32);
    for i in 0..3 * BLOCK {
        assert_eq!(names.get(i as u32), name(i));
        assert_eq!(names.find(&name(i)), Some(i as u32));
        assert_eq!(names.intern_text(&name(i)), i as u32);
    }
    assert_eq!(names.count(), 3 * BLOCK + 1);
    assert_eq!(names.find("nobody"), None);
    assert_eq!(names.get(u32::MAX), "");
    assert_eq!(names.iter().nth(BLOCK), Some(name(BLOCK).as_str()));
}

#[test]
fn a_list_of_blocks_is_never_copied_as_a_whole() {
    let mut blocks = Blocks::default();
    for i in 0..=3 * LIST {
        assert_eq!(blocks.len(), i);
        blocks.push(Block::new());
        blocks.at_mut(i).put(0, &i.to_string());
    }
    assert!(blocks.lists.iter().all(|list| list.capacity() <= LIST));
    for i in (0..=3 * LIST).rev() {
        assert_eq!(blocks.at(i).text, i.to_string());
        blocks.pop();
        assert_eq!(blocks.len(), i);
    }
    blocks.pop();
    assert!(blocks.lists.is_empty());
}

/// An operation on names.
#[derive(Clone, Debug)]
enum Step {
    Intern(u16),
    Find(u16),
    /// A reclaim that keeps the names which the first number does not divide. Each slice sweeps with the third number as its budget, and
    /// one more name is interned between slices.
    Reclaim(u16, u16, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..3000u16).prop_map(Step::Intern),
        2 => (0..3000u16).prop_map(Step::Find),
        1 => (2..7u16, 0..3000u16, 1..2000u64).prop_map(|(n, more, work)| Step::Reclaim(n, more, work)),
    ];
    // Enough names that the index is divided and united.
    (0..2500u16, proptest::collection::vec(step, 0..200)).prop_map(|(first, mut steps)| {
        steps.splice(0..0, (0..first).map(Step::Intern));
        steps
    })
}

fn name(n: u16) -> String {
    format!("{}{n}", "x".repeat(usize::from(n % 9)))
}

/// Interns a name, which gets the lowest unassigned id.
fn intern(names: &mut NodeNames, model: &mut BTreeMap<u16, u32>, n: u16) {
    let id = names.intern_text(&name(n));
    let known = model.insert(n, id);
    assert_eq!(known.unwrap_or(id), id);
    assert!(names.has(id));
}

integration_tests_properties::properties! {
    60;

    #[test]
    fn names_that_nobody_has_are_given_back_and_the_others_keep_their_ids(steps in steps()) {
        let (mut names, mut model) = (NodeNames::new(7), BTreeMap::new());
        for step in steps {
            match step {
                Step::Intern(n) => intern(&mut names, &mut model, n),
                Step::Find(n) => prop_assert_eq!(names.find(&name(n)), model.get(&n).copied()),
                Step::Reclaim(by, more, work) => {
                    names.begin_marking();
                    let kept: Vec<u16> = model.keys().copied().filter(|n| n % by != 0).collect();
                    for n in kept {
                        names.mark(model[&n]);
                    }
                    names.begin_sweeping();
                    let former = model.clone();
                    model.retain(|n, _| n % by != 0);
                    let mut next = more;
                    while !names.sweep(&mut WorkBudget::new(work)) {
                        let gone = former.keys().find(|n| !model.contains_key(n));
                        if let Some(gone) = gone {
                            prop_assert_eq!(names.find(&name(*gone)), None);
                        }
                        intern(&mut names, &mut model, next % 3000);
                        next += 1;
                    }
                }
            }
            prop_assert_eq!(names.count(), model.len());
        }
        for (n, id) in &model {
            prop_assert_eq!(names.get(*id), name(*n));
            prop_assert_eq!(names.find(&name(*n)), Some(*id));
        }
        let ids: std::collections::BTreeSet<u32> = model.values().copied().collect();
        prop_assert_eq!(ids.len(), model.len());
        prop_assert!((0..names.end() as u32).all(|id| names.has(id) == ids.contains(&id)));
    }
}

#[test]
fn what_is_given_back_takes_no_memory() {
    let mut names = NodeNames::new(1);
    let count = 40 * SHARD;
    for i in 0..count {
        names.intern_text(&format!("a rather long name of a node {i}"));
    }
    names.begin_marking();
    names.mark(3);
    names.begin_sweeping();
    let mut turns = 0;
    while !names.sweep(&mut WorkBudget::new(100_000)) {
        turns += 1;
    }
    assert!(turns > 40, "in slices");
    assert_eq!((names.count(), names.end(), names.blocks.len()), (1, 4, 1));
    assert!(names.blocks.at(0).text.capacity() < 64);
    assert_eq!(names.ids.shards(), 1);
    assert_eq!(names.get(3), "a rather long name of a node 3");
    assert_eq!(names.intern_text("new"), 0);
}
