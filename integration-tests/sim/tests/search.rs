//! Every history of small worlds keeps the contract. With a rule switched off, one breaks it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use integration_tests_sim::search::explore::{SearchEnd, SearchLimits, explore};
use integration_tests_sim::search::world::SmallWorld;
use integration_tests_sim::search::worlds::sound_worlds;

/// Few enough states for the development profile.
const LIMITS: SearchLimits = SearchLimits {
    states: 4_000,
    depth: 200,
};

/// The number of states of each world whose futures are compared.
const FUTURES: usize = 600;

#[test]
fn no_history_of_a_small_world_breaks_the_contract() {
    let (mut states, mut whole) = (0, 0);
    for world in sound_worlds() {
        let outcome = explore(&world, LIMITS, &mut |_, _| ());
        assert_ne!(
            outcome.end,
            SearchEnd::Broken,
            "{}: {outcome:#?}",
            world.name
        );
        states += outcome.states;
        whole += usize::from(outcome.end == SearchEnd::Exhausted);
    }
    assert!(
        states > 40_000,
        "a search that sees nothing: {states} states"
    );
    assert!(whole >= 6, "only {whole} worlds were searched whole");
}

/// States with one fingerprint must be one state: the same steps can follow, whichever path led there.
#[test]
fn states_with_one_fingerprint_have_one_future() {
    let mut met_again = 0;
    for settings in sound_worlds() {
        let mut futures: BTreeMap<u128, BTreeSet<u128>> = BTreeMap::new();
        let mut waiting = VecDeque::from([SmallWorld::new(&settings)]);
        for _ in 0..FUTURES {
            let Some(world) = waiting.pop_front() else {
                break;
            };
            let after = world.choices().into_iter().map(|choice| {
                let mut next = world.clone();
                next.apply(choice);
                next
            });
            let after: Vec<SmallWorld> = after.collect();
            let future = after.iter().map(SmallWorld::fingerprint).collect();
            match futures.entry(world.fingerprint()) {
                Entry::Vacant(new) => {
                    new.insert(future);
                    waiting.extend(after);
                }
                Entry::Occupied(known) => {
                    met_again += 1;
                    assert_eq!(*known.get(), future, "{}", settings.name);
                }
            }
        }
    }
    assert!(met_again > 1000, "{met_again} states were met again");
}

/// The contract needs each rule: with the rule switched off in the real cores, it breaks within few steps.
#[cfg(feature = "sabotage")]
#[test]
fn without_a_rule_the_contract_breaks() {
    use brasserie_common::sabotage;
    use integration_tests_sim::search::rules::{RULE_LIMITS, rules};

    let mut steps = Vec::new();
    for rule in rules() {
        sabotage::choose(Some(rule.bug));
        let outcome = explore(&rule.world, RULE_LIMITS, &mut |_, _| ());
        sabotage::choose(None);
        assert_eq!(outcome.end, SearchEnd::Broken, "{} is not needed", rule.id);
        let found = outcome
            .counterexample
            .expect("a broken contract has a history");
        let of = found.steps.iter().filter(|step| !step.starts_with(' '));
        steps.push((rule.id, of.count()));
    }
    assert!(
        steps.iter().all(|(_, steps)| (1..=15).contains(steps)),
        "{steps:?}"
    );
}
