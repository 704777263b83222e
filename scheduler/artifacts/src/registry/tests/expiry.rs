//! Tests of sets, their owners and their expiry.

use super::super::super::listing::{ListingPage, PageEnd};
use super::super::super::owners::OwnerHeartbeat;
use super::super::super::restored::{RestoredSet, RestoredState, RestoredTask};
use super::super::super::sets::{SetEnding, SetOwner, SetRetention, SetState, SetTerms};
use super::super::super::types::{Liveness, OwnerId};
use super::*;

fn session(name: &str) -> OwnerId {
    OwnerId(name.into())
}

fn kept(retention: SetRetention) -> SetTerms {
    SetTerms {
        owner: SetOwner::Scheduler,
        retention,
    }
}

fn owned(name: &str, retention: SetRetention) -> SetTerms {
    SetTerms {
        owner: SetOwner::Session(session(name)),
        retention,
    }
}

/// Reports that no task of the job or of its consumers is unfinished.
fn finish(registry: &mut Registry, name: &str, at: u64) {
    registry.set_unfinished_producers(&job(name), 0, clocks(at));
    registry.set_unfinished_consumers(&job(name), 0, clocks(at));
}

/// Returns the jobs whose sets expire at this time.
fn expire(registry: &mut Registry, at: u64) -> Vec<JobName> {
    registry.expire(clocks(at))
}

#[test]
fn a_set_expires_after_its_consumers_have_finished() {
    let mut registry = registry(1);
    let terms = kept(SetRetention::UntilConsumed);
    registry.define_set(&job("a"), terms, clocks(0));
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    finish(&mut registry, "a", 2);
    // A set without consumers is kept.
    assert_eq!(expire(&mut registry, 10_000), []);
    registry.set_consumers(&job("a"), jobs(&["b"]), clocks(10_000));
    registry.set_unfinished_consumers(&job("a"), 2, clocks(10_000));
    assert_eq!(expire(&mut registry, 20_000), []);
    registry.set_unfinished_consumers(&job("a"), 0, clocks(20_000));
    assert_eq!(registry.next_expiry(), Some(second(20_000 + GRACE)));
    assert_eq!(expire(&mut registry, 19_999 + GRACE), []);
    // One more consumer begins within the grace.
    registry.set_unfinished_consumers(&job("a"), 1, clocks(20_030));
    assert_eq!(expire(&mut registry, 30_000), []);
    registry.set_unfinished_consumers(&job("a"), 0, clocks(30_000));
    assert_eq!(expire(&mut registry, 30_000 + GRACE), [job("a")]);
    assert_eq!(expire(&mut registry, 40_000), []);
    let set = registry.set(&job("a")).expect("remembered");
    assert_eq!(
        (set.state, set.expires, set.tasks),
        (SetState::Expired, None, 1)
    );
    let task = registry.outputs(&key("a", "1")).expect("remembered");
    assert_eq!(task.liveness, Liveness::Expired);
    assert_eq!(registry.output(&key("a", "1"), &task.outputs[0].path), None);
    assert_eq!(unwanted(&registry, 0, 29_999 + 2 * GRACE), [0_u8; 0]);
    assert_eq!(unwanted(&registry, 0, 30_000 + 2 * GRACE), [1]);
}

#[test]
fn a_set_with_unknown_or_unfinished_tasks_never_expires() {
    let mut registry = registry(1);
    let terms = kept(SetRetention::For(Duration::from_secs(10)));
    registry.define_set(&job("a"), terms, clocks(0));
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    assert_eq!(expire(&mut registry, 1000), []);
    registry.set_unfinished_producers(&job("a"), 0, clocks(1000));
    assert_eq!(expire(&mut registry, 2000), []);
    registry.set_unfinished_consumers(&job("a"), 0, clocks(2000));
    registry.set_unfinished_producers(&job("a"), 1, clocks(2000));
    registry.delete_job(&job("a"), clocks(2000));
    assert_eq!(expire(&mut registry, 3000), []);
    registry.set_unfinished_producers(&job("a"), 0, clocks(3000));
    assert_eq!(expire(&mut registry, 3000), [job("a")]);
}

#[test]
fn a_set_is_kept_for_a_time_after_it_was_written_or_consumed() {
    let mut registry = registry(1);
    let terms = kept(SetRetention::For(Duration::from_secs(100)));
    registry.define_set(&job("a"), terms, clocks(0));
    make(&mut registry, "a/1", &[("x", 1)], 0, 50);
    finish(&mut registry, "a", 60);
    assert_eq!(registry.next_expiry(), Some(second(150)));
    registry.consumed(&key("a", "1"), clocks(120));
    assert_eq!(registry.next_expiry(), Some(second(220)));
    registry.consumed_job(&job("a"), clocks(130));
    assert_eq!(expire(&mut registry, 229), []);
    assert_eq!(expire(&mut registry, 230), [job("a")]);
    // Only the outputs of runs after the expiry count.
    make(&mut registry, "a/2", &[("x", 2)], 0, 240);
    let liveness = |node| registry.outputs(&key("a", node)).expect("known").liveness;
    assert_eq!(
        (liveness("1"), liveness("2")),
        (Liveness::Expired, Liveness::Live)
    );
    assert_eq!(expire(&mut registry, 340), [job("a")]);
}

#[test]
fn a_set_is_kept_forever_if_its_terms_or_nobody_say_so() {
    let mut registry = registry(1);
    registry.define_set(&job("a"), kept(SetRetention::Forever), clocks(0));
    for (name, number) in [("a/1", 1), ("b/1", 2)] {
        make(&mut registry, name, &[("x", number)], 0, 1);
    }
    for name in ["a", "b"] {
        registry.set_consumers(&job(name), jobs(&["c"]), clocks(1));
        finish(&mut registry, name, 1);
    }
    assert_eq!(registry.next_expiry(), None);
    assert_eq!(expire(&mut registry, 1_000_000), []);
}

#[test]
fn a_silent_owner_expires_after_300_seconds_and_a_late_heartbeat_revives_nothing() {
    let mut registry = registry(1);
    let me = session("me");
    assert_eq!(
        registry.owner_heartbeat(&me, second(0)),
        OwnerHeartbeat::Began
    );
    registry.define_set(&job("a"), owned("me", SetRetention::Forever), clocks(0));
    registry.define_set(&job("b"), owned("me", SetRetention::Forever), clocks(0));
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    make(&mut registry, "b/1", &[("x", 2)], 0, 1);
    finish(&mut registry, "a", 2);
    finish(&mut registry, "b", 2);
    registry.set_unfinished_producers(&job("b"), 1, clocks(2));
    assert_eq!(
        registry.owner_heartbeat(&me, second(10)),
        OwnerHeartbeat::Continued
    );
    assert_eq!(registry.next_expiry(), Some(second(310)));
    assert_eq!(expire(&mut registry, 309), []);
    assert_eq!(expire(&mut registry, 310), [job("a")]);
    assert_eq!(
        registry.owner_heartbeat(&me, second(311)),
        OwnerHeartbeat::Began
    );
    assert_eq!(unwanted(&registry, 0, 310 + GRACE), [1]);
    // Running tasks keep a set for now, but its owner stays expired, even if the same session defines it again.
    registry.define_set(&job("b"), owned("me", SetRetention::Forever), clocks(312));
    assert_eq!(expire(&mut registry, 312), []);
    let set = registry.set(&job("b")).expect("known");
    assert_eq!(set.ending, Some(SetEnding::OwnerExpired));
    registry.set_unfinished_producers(&job("b"), 0, clocks(400));
    assert_eq!(expire(&mut registry, 400), [job("b")]);
}

#[test]
fn another_owner_takes_a_set_over() {
    let mut registry = registry(1);
    registry.define_set(&job("a"), owned("one", SetRetention::Forever), clocks(0));
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    registry.set_unfinished_producers(&job("a"), 1, clocks(1));
    registry.set_unfinished_consumers(&job("a"), 0, clocks(1));
    registry.end_owner(&session("one"), clocks(2));
    registry.define_set(&job("a"), owned("two", SetRetention::Forever), clocks(3));
    registry.set_unfinished_producers(&job("a"), 0, clocks(3));
    assert_eq!(expire(&mut registry, 302), []);
    assert_eq!(expire(&mut registry, 303), [job("a")]);
}

#[test]
fn a_session_that_ends_takes_its_sets_along() {
    let mut registry = registry(1);
    registry.define_set(&job("a"), owned("one", SetRetention::Forever), clocks(0));
    registry.define_set(&job("b"), owned("one", SetRetention::Forever), clocks(0));
    finish(&mut registry, "a", 1);
    finish(&mut registry, "b", 1);
    // A set that went to the scheduler stays.
    registry.define_set(&job("b"), kept(SetRetention::Forever), clocks(1));
    registry.end_owner(&session("one"), clocks(2));
    assert_eq!(registry.next_expiry(), Some(second(2)));
    assert_eq!(expire(&mut registry, 2), [job("a")]);
    for name in ["a", "b"] {
        registry.forget_job(&job(name), second(3));
    }
    assert!(registry.set(&job("a")).is_none());
    assert!(registry.set(&job("b")).is_some());
}

#[test]
fn the_set_of_a_deleted_job_expires_unless_the_job_returns() {
    let mut registry = registry(1);
    make(&mut registry, "a/1", &[("x", 1)], 0, 1);
    finish(&mut registry, "a", 1);
    registry.delete_job(&job("a"), clocks(10));
    registry.delete_job(&job("a"), clocks(30));
    registry.delete_job(&job("unknown"), clocks(30));
    assert!(registry.set(&job("unknown")).is_none());
    assert_eq!(registry.next_expiry(), Some(second(10 + GRACE)));
    registry.define_set(&job("a"), kept(SetRetention::Forever), clocks(40));
    assert_eq!(expire(&mut registry, 1000), []);
    registry.delete_job(&job("a"), clocks(1000));
    assert_eq!(expire(&mut registry, 1000 + GRACE), [job("a")]);
}

/// The state that `restart` stores: a set that is kept for 100 s since the time 0, one of a session, and one that has expired.
fn stored_state() -> RestoredState {
    let set = |name: &str, terms: SetTerms, ending| RestoredSet {
        job: job(name),
        terms,
        consumers: BTreeSet::new(),
        touched: clocks(0).wall,
        ending,
    };
    let task = |name: &str, number, liveness| RestoredTask {
        key: parse(name),
        invocation: run(1),
        outputs: vec![output("x", number)],
        replicas: Replicas::ONE,
        liveness,
    };
    let hundred = SetRetention::For(Duration::from_secs(100));
    let ended = Some(SetEnding::OwnerExpired);
    RestoredState {
        sets: vec![
            set("a", kept(hundred), None),
            set("b", owned("me", SetRetention::Forever), None),
            set("c", owned("you", SetRetention::Forever), ended),
        ],
        tasks: vec![
            task("a/1", 1, Liveness::Live),
            task("b/1", 2, Liveness::Live),
            task("c/1", 3, Liveness::Expired),
        ],
    }
}

#[test]
fn a_restart_deletes_nothing_before_all_is_known() {
    // The new process counts its time from zero, while 90 s have passed on the wall.
    let now = |seconds| Clocks {
        time: second(seconds),
        wall: clocks(90 + seconds).wall,
    };
    let mut registry = Registry::restore(RegistrySettings::default(), stored_state(), now(0));
    registry.announce(
        &lock(0),
        &[announcement(0, [1, 2, 3, 4].map(id))],
        second(1),
    );
    assert_eq!(registry.next_expiry(), None);
    assert_eq!(registry.expire(now(1000)), []);
    for name in ["a", "b", "c"] {
        registry.set_unfinished_producers(&job(name), 0, now(1000));
        registry.set_unfinished_consumers(&job(name), 0, now(1000));
    }
    registry.set_completeness(Completeness::Complete, second(1000));
    // The listing is open: nothing is lost or deleted. The session had no chance to send a heartbeat.
    assert_eq!(
        (lost(&registry), unwanted(&registry, 0, 5000)),
        (vec![], vec![])
    );
    // The earliest time comes first.
    assert_eq!(registry.expire(now(1000)), [job("c"), job("a")]);
    let listing = registry.begin_listing(&holder(0, 0)).expect("wanted");
    let page = ListingPage {
        listing,
        after: None,
        ids: [1, 2, 3, 4].map(id).to_vec(),
        end: PageEnd::Last,
    };
    registry.page(&page, second(1010));
    assert_eq!(unwanted(&registry, 0, 1009 + GRACE), [0_u8; 0]);
    // The worker may delete the data of the expired sets, and data that no task is known to have made.
    assert_eq!(unwanted(&registry, 0, 1010 + GRACE), [1, 3, 4]);
    assert_eq!(registry.expire(now(1299)), []);
    assert_eq!(registry.expire(now(1300)), [job("b")]);
}

#[test]
fn a_wall_clock_that_was_set_back_prolongs_nothing() {
    let now = |seconds| Clocks {
        time: second(seconds),
        wall: clocks(seconds).wall - Duration::from_secs(1_000_000),
    };
    let mut registry = Registry::restore(RegistrySettings::default(), stored_state(), now(0));
    registry.set_completeness(Completeness::Complete, second(0));
    registry.set_unfinished_producers(&job("a"), 0, now(0));
    registry.set_unfinished_consumers(&job("a"), 0, now(0));
    assert_eq!(registry.next_expiry(), Some(second(100)));
}

#[test]
fn unknown_data_of_a_returning_worker_is_deleted_after_the_grace() {
    let mut registry = registry(1);
    registry.stored(&holder(0, 0), id(1), second(1));
    registry.lose(&lock(0), second(500));
    registry.announce(&lock(0), &[announcement(0, [id(1)])], second(900));
    let listing = registry.begin_listing(&holder(0, 0)).expect("wanted");
    let page = ListingPage {
        listing,
        after: None,
        ids: vec![id(1)],
        end: PageEnd::Last,
    };
    registry.page(&page, second(901));
    assert_eq!(unwanted(&registry, 0, 900 + GRACE), [0_u8; 0]);
    assert_eq!(unwanted(&registry, 0, 901 + GRACE), [1]);
}
