//! Tests that the estimated memory of a copy follows what the engine remembers, not only what is in force.

use brasserie_common::status::StoredStatus;
use brasserie_common::{JobName, NodeName, StatusBits, Time, WallTime};

use crate::{Engine, Task};

fn ended(engine: &mut Engine, job: &str, node: &str, backoff_seconds: u32) {
    let task = Task {
        job: engine.intern_job(&JobName::try_from(job).unwrap()),
        node: engine.intern_node(&NodeName::try_from(node).unwrap()),
    };
    let status = StoredStatus {
        bits: StatusBits::ERROR,
        time: WallTime::from_secs(1),
        backoff_seconds,
        safety_seconds: 0,
        data: None,
    };
    let until = (backoff_seconds > 0).then_some(Time::from_nanos(1_000_000_000));
    engine.load_status(Time::ZERO, task, status, until);
}

#[test]
fn ends_and_names_that_nothing_in_force_has_count() {
    let mut engine = Engine::new(1);
    let empty = engine.remembered_bytes();
    for node in 0..10_000 {
        ended(&mut engine, "gone", &format!("vanished{node}"), 0);
    }
    let short = engine.remembered_bytes() - empty;
    // Each one takes twelve bytes of name, four and some overhead in the hash index, and six of status.
    assert!((10_000 * 22..10_000 * 60).contains(&short), "{short}");
    for node in 0..10_000 {
        ended(&mut engine, "gone", &format!("vanished{node}"), 7);
    }
    let long = engine.remembered_bytes() - empty - short;
    assert!((10_000 * 80..10_000 * 300).contains(&long), "{long}");
}
