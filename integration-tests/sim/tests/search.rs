//! Every history of small worlds: none breaks the contract; and with a rule switched off, one does.

use integration_tests_sim::search::explore::{End, Limits, explore};
use integration_tests_sim::search::rules::sound_worlds;

/// Few enough for the development profile.
const LIMITS: Limits = Limits {
    states: 4_000,
    depth: 200,
};

#[test]
fn no_history_of_a_small_world_breaks_the_contract() {
    let mut states = 0;
    for world in sound_worlds() {
        let outcome = explore(&world, LIMITS, &mut |_, _| ());
        assert_ne!(outcome.end, End::Broken, "{}: {outcome:#?}", world.name);
        states += outcome.states;
    }
    assert!(
        states > 10_000,
        "a search that sees nothing: {states} states"
    );
}
