//! Tests of worker-set consensus: sequences of joining, echoing and leaving, and the permits that follow.

mod histories;

use super::*;

const OURS: i64 = 1000;

fn scheduler(n: i64) -> SchedulerId {
    SchedulerId::new(n, n)
}

fn w(n: i64) -> WorkerId {
    WorkerId::new(n, -n)
}

fn settled() -> Consensus {
    let mut consensus = Consensus::new(scheduler(OURS));
    consensus.settle();
    consensus
}

/// Returns an id of another scheduler.
fn former(scheduler_number: i64, members: &[i64], standing: Standing) -> WorkerSetId {
    let mut hash = WorkerSetHash::NOBODY;
    for n in members {
        hash.add(w(*n));
    }
    WorkerSetId {
        scheduler: scheduler(scheduler_number),
        version: 77,
        hash,
        standing,
    }
}

fn fresh(consensus: &mut Consensus, n: i64) -> WorkerSetId {
    consensus.join(w(n), WorkerSetId::default());
    consensus.current()
}

fn permitted(consensus: &Consensus) -> Vec<i64> {
    let all = consensus
        .members
        .keys()
        .filter(|id| consensus.permits(**id));
    all.map(|id| id.0.start_time).collect()
}

#[test]
fn versions_count_from_one_and_a_replacement_takes_two() {
    let mut c = settled();
    assert_eq!(c.current().version, 0);
    let first = fresh(&mut c, 1);
    assert_eq!((first.version, first.hash.num_workers), (1, 1));
    assert_eq!(first.standing, Standing::Settled);
    c.leave(w(1));
    let second = fresh(&mut c, 2);
    assert_eq!((second.version, second.hash.num_workers), (3, 1));
    let mut expected = WorkerSetHash::NOBODY;
    expected.add(w(2));
    assert_eq!(second.hash, expected);
}

#[test]
fn a_lone_worker_needs_its_own_echo_alone() {
    let mut c = settled();
    let first = fresh(&mut c, 1);
    assert_eq!(permitted(&c), [] as [i64; 0]);
    assert_eq!(c.echo(w(1), &first), Echo::News);
    assert_eq!(permitted(&c), [1]);
    assert_eq!(c.take_granted(), [w(1)]);
    assert_eq!(c.take_granted(), []);
}

#[test]
fn a_newcomer_is_withheld_until_those_who_could_do_without_it_know_better() {
    let mut c = settled();
    let first = fresh(&mut c, 1);
    c.echo(w(1), &first);
    let second = fresh(&mut c, 2);
    c.echo(w(2), &second);
    assert_eq!(permitted(&c), [1], "1 may hold the set of 1 alone");
    assert!(c.needs_spreading());
    assert_eq!(c.whom_to_tell(2, |_| true), [w(1)]);
    assert_eq!(c.echo(w(1), &second), Echo::News);
    assert_eq!(permitted(&c), [1, 2]);
    assert!(!c.needs_spreading());
}

#[test]
fn one_echo_of_any_old_hand_permits_all_newcomers() {
    let mut c = settled();
    for n in 1..=50 {
        fresh(&mut c, n);
    }
    let all = c.current();
    for n in 1..=50 {
        c.echo(w(n), &all);
    }
    assert_eq!(permitted(&c).len(), 50);
    for n in 51..=60 {
        let set = fresh(&mut c, n);
        c.echo(w(n), &set);
    }
    assert_eq!(permitted(&c).len(), 50);
    let now = c.current();
    c.echo(w(17), &now);
    assert_eq!(
        permitted(&c).len(),
        60,
        "each set that anybody may hold has 17 in it"
    );
}

#[test]
fn a_chain_of_echoes_is_followed_to_its_end_at_once() {
    let mut c = settled();
    let sets: Vec<WorkerSetId> = (1..=5).map(|n| fresh(&mut c, n)).collect();
    // 2 knows 3, 3 knows 4, 4 knows 5. Nothing follows while 1 may hold the set of itself alone.
    for n in 2..=4 {
        c.echo(w(n), &sets[n as usize]);
    }
    c.echo(w(5), &sets[4]);
    assert_eq!(permitted(&c), [] as [i64; 0]);
    assert_eq!(c.floor, Serial(1));
    c.echo(w(1), &sets[1]);
    assert_eq!(c.floor, Serial(5));
    assert_eq!(permitted(&c), [1, 2, 3, 4, 5]);
}

#[test]
fn the_dead_still_tell_what_they_knew() {
    let mut c = settled();
    let sets: Vec<WorkerSetId> = (1..=4).map(|n| fresh(&mut c, n)).collect();
    // 2 has echoed the set with 4, and is lost.
    c.echo(w(4), &sets[3]);
    c.echo(w(2), &sets[3]);
    c.leave(w(2));
    assert_eq!(c.floor, Serial(1));
    // A set that contains 2 cannot form consensus before 2 has been given the set with 4.
    c.echo(w(1), &sets[1]);
    assert_eq!(c.floor, Serial(4));
    assert_eq!(permitted(&c), [1, 4]);
    // An echo of a lost worker does not count, and does no harm.
    let before = c.floor;
    let now = c.current();
    assert_eq!(c.echo(w(2), &now), Echo::Known);
    assert_eq!(c.floor, before);
}

#[test]
fn a_silent_worker_with_an_id_of_another_scheduler_withholds_everybody_else() {
    let mut c = settled();
    let first = fresh(&mut c, 1);
    c.echo(w(1), &first);
    let old = former(9, &[5], Standing::Settled);
    c.join(w(5), old);
    let third = fresh(&mut c, 6);
    c.echo(w(6), &third);
    c.echo(w(1), &third);
    assert_eq!(permitted(&c), [1], "5 alone would make up its former set");
    assert_eq!(c.echo(w(5), &old), Echo::Known);
    assert!(!c.needs_spreading(), "the others can do nothing about it");
    c.echo(w(5), &third);
    assert_eq!(permitted(&c), [1, 5, 6]);
    // An id that was not settled forms no consensus, so its holder withholds no worker.
    c.join(w(7), former(9, &[7], Standing::Unsettled));
    let now = fresh(&mut c, 8);
    c.echo(w(8), &now);
    c.echo(w(1), &now);
    assert_eq!(permitted(&c), [1, 5, 6, 8]);
}

#[test]
fn permission_of_the_wait_is_given_anew_at_its_end_if_a_foreigner_is_there() {
    let mut c = Consensus::new(scheduler(OURS));
    let first = fresh(&mut c, 1);
    c.echo(w(1), &first);
    assert_eq!(permitted(&c), [1]);
    c.join(w(2), former(9, &[2], Standing::Settled));
    assert_eq!(permitted(&c), [1]);
    c.settle();
    assert_eq!(
        permitted(&c),
        [] as [i64; 0],
        "2 could end a wait without 1"
    );
    assert_eq!(c.take_granted(), []);
    let now = c.current();
    c.echo(w(2), &now);
    assert_eq!(permitted(&c), [1, 2]);
    assert_eq!(c.take_granted(), [w(1), w(2)]);
}

#[test]
fn ids_of_the_wait_never_come_together_so_only_foreigners_withhold() {
    let mut c = Consensus::new(scheduler(OURS));
    fresh(&mut c, 1);
    let second = fresh(&mut c, 2);
    assert_eq!(second.standing, Standing::Unsettled);
    c.echo(w(2), &second);
    assert_eq!(permitted(&c), [2]);
    c.settle();
    assert_eq!(
        (c.current().version, c.current().standing),
        (3, Standing::Settled)
    );
    assert_eq!(permitted(&c), [2]);
    // The id that 1 holds counts from here on: it may be the settled set without 4.
    let with_4 = fresh(&mut c, 4);
    c.echo(w(4), &with_4);
    assert_eq!(permitted(&c), [2]);
    c.unsettle();
    assert_eq!(
        (c.current().version, c.current().standing),
        (5, Standing::Unsettled)
    );
    assert_eq!(permitted(&c), [2], "the id of version 3 is still about");
}

#[test]
fn wrong_echoes_are_told_apart_and_change_nothing() {
    let mut c = settled();
    let first = fresh(&mut c, 1);
    let second = fresh(&mut c, 2);
    let third = fresh(&mut c, 3);
    let floor = c.floor;
    let wrong = |c: &mut Consensus, worker, id: WorkerSetId, why| {
        assert_eq!(c.echo(worker, &id), Echo::Wrong(why), "{id:?}");
        assert_eq!(c.floor, floor);
        assert_eq!(permitted(c), [] as [i64; 0]);
    };
    // The version is from before the worker was in the set, after the last one, or at the greatest possible distance.
    wrong(&mut c, w(2), first, WrongEcho::NeverGiven);
    for version in [
        4,
        1000,
        i64::MIN,
        i64::MAX,
        -1,
        3_i64.wrapping_add(i64::MIN),
    ] {
        let id = WorkerSetId { version, ..third };
        wrong(&mut c, w(1), id, WrongEcho::NeverGiven);
    }
    // A known version with other content.
    let other_hash = WorkerSetId {
        hash: second.hash,
        ..third
    };
    wrong(&mut c, w(1), other_hash, WrongEcho::OtherContent);
    c.unsettle();
    let marked = WorkerSetId {
        standing: Standing::Settled,
        ..c.current()
    };
    let floor = c.floor;
    assert_eq!(
        c.echo(w(1), &marked),
        Echo::Wrong(WrongEcho::OtherContent),
        "no id of the wait counts"
    );
    assert_eq!(c.floor, floor);
    // The id is of another scheduler, although the worker came with none. From now on the worker may hold it.
    let foreign = former(9, &[1], Standing::Settled);
    assert_eq!(c.echo(w(1), &foreign), Echo::Wrong(WrongEcho::Foreign));
    assert!(c.foreigners.contains(&w(1)));
}

#[test]
fn a_peer_that_knows_neither_digest_nor_mark_is_understood() {
    let mut c = settled();
    let first = fresh(&mut c, 1);
    let bare = WorkerSetId {
        hash: WorkerSetHash {
            digest: None,
            ..first.hash
        },
        standing: Standing::Unsettled,
        ..first
    };
    assert_eq!(c.echo(w(1), &bare), Echo::News);
    assert_eq!(permitted(&c), [1]);
}

#[test]
fn a_late_echo_takes_nothing_back() {
    let mut c = settled();
    let first = fresh(&mut c, 1);
    let second = fresh(&mut c, 2);
    c.echo(w(1), &second);
    assert_eq!(c.echo(w(1), &first), Echo::Known);
    assert_eq!(c.echo(w(1), &WorkerSetId::default()), Echo::Known);
    c.echo(w(2), &second);
    assert_eq!(permitted(&c), [1, 2]);
}

#[test]
fn versions_wrap_around() {
    for start in [i64::MAX - 1, i64::MAX, -1, i64::MIN] {
        let mut c = Consensus::from_version(scheduler(OURS), start);
        c.settle();
        let sets: Vec<WorkerSetId> = (1..=5).map(|n| fresh(&mut c, n)).collect();
        assert_eq!(sets[4].version, start.wrapping_add(5));
        for n in 1..=5 {
            c.echo(w(n), &sets[n as usize - 1]);
        }
        assert_eq!(permitted(&c), [1]);
        let before = WorkerSetId {
            version: start,
            ..sets[0]
        };
        assert_eq!(c.echo(w(1), &before), Echo::Wrong(WrongEcho::NeverGiven));
        assert_eq!(c.echo(w(1), &sets[2]), Echo::News);
        assert_eq!(permitted(&c), [1, 2, 3]);
        // An earlier id of the worker is known, on either side of the wrap-around.
        for older in &sets[..2] {
            assert_eq!(c.echo(w(1), older), Echo::Known);
        }
        assert_eq!(permitted(&c), [1, 2, 3]);
        c.echo(w(3), &sets[4]);
        assert_eq!(permitted(&c), [1, 2, 3, 4, 5]);
    }
}

#[test]
fn newcomers_that_come_and_go_do_not_keep_others_from_being_permitted() {
    let mut c = settled();
    let first = fresh(&mut c, 1);
    c.echo(w(1), &first);
    let mut stable = 0;
    for round in 0..200 {
        // Two instances crash repeatedly. Neither ever echoes an id.
        for other in [0, 1] {
            let n = 1000 + 2 * round + other;
            fresh(&mut c, n);
            if round > 0 {
                c.leave(w(n - 2));
            }
        }
        if round % 10 == 0 {
            stable += 1;
            let set = fresh(&mut c, 10 + stable);
            c.echo(w(10 + stable), &set);
            // The set changes again before any other worker sends an echo.
            fresh(&mut c, 5000 + round);
            c.echo(w(1), &set);
            c.leave(w(5000 + round));
            assert!(c.permits(w(10 + stable)), "round {round}");
        }
    }
    assert_eq!(stable, 20);
}

#[test]
fn what_is_remembered_is_bounded() {
    let mut c = settled();
    // A worker that never sends an echo keeps the floor where it is.
    fresh(&mut c, 1);
    for n in 2..40_000 {
        let set = fresh(&mut c, n);
        c.echo(w(n), &set);
        c.leave(w(n));
    }
    assert!(
        c.steps.len() <= MAX_STEPS && c.beyond.len() <= MAX_BEYOND + 1,
        "{} {}",
        c.steps.len(),
        c.beyond.len()
    );
    // An echo older than the remembered steps still counts.
    let last = fresh(&mut c, 50_000);
    c.echo(w(1), &last);
    assert!(c.beyond.is_empty());
    fresh(&mut c, 50_001);
    assert_eq!(c.steps.len(), MIN_STEPS);
    c.echo(w(50_000), &last);
    assert_eq!(permitted(&c), [1, 50_000]);
}

#[test]
fn who_is_asked_goes_round() {
    let mut c = settled();
    for n in 1..=200 {
        fresh(&mut c, n);
    }
    let all = c.current();
    for n in 1..=200 {
        c.echo(w(n), &all);
    }
    let newcomer = fresh(&mut c, 300);
    c.echo(w(300), &newcomer);
    let mut asked = BTreeSet::new();
    for _ in 0..100 {
        let chosen = c.whom_to_tell(2, |_| true);
        assert_eq!(chosen.len(), 2);
        asked.extend(chosen);
    }
    assert_eq!(asked.len(), 200, "everybody but the newcomer");
    assert!(!asked.contains(&w(300)));
    // A search stops early, and the next one continues from there.
    let only_last = |id| id == w(199);
    let found: Vec<_> = (0..4).flat_map(|_| c.whom_to_tell(2, only_last)).collect();
    assert_eq!(found, [w(199)]);
}

#[test]
fn the_former_set_is_complete_when_exactly_its_members_are_here() {
    let mut c = Consensus::new(scheduler(OURS));
    let old = former(9, &[1, 2, 3], Standing::Settled);
    assert_eq!(c.former_set(), FormerSet::NoWorkers);
    c.join(w(1), old);
    c.join(w(2), old);
    assert_eq!(c.former_set(), FormerSet::Incomplete { here: 2, of: 3 });
    c.join(w(3), old);
    assert_eq!(c.former_set(), FormerSet::Complete(3));
    // A stranger prevents consensus as long as it is here.
    fresh(&mut c, 4);
    assert_eq!(c.former_set(), FormerSet::Strangers(1));
    c.leave(w(4));
    assert_eq!(c.former_set(), FormerSet::Complete(3));
    // Echoes do not matter for the former set, nor do further changes of the present one.
    let now = c.current();
    c.echo(w(1), &now);
    assert_eq!(c.former_set(), FormerSet::Complete(3));
    c.leave(w(2));
    assert_eq!(c.former_set(), FormerSet::Incomplete { here: 2, of: 3 });
    c.join(w(5), old);
    assert_eq!(c.former_set(), FormerSet::OtherMembers);
    c.join(w(6), WorkerSetId { version: 78, ..old });
    assert_eq!(c.former_set(), FormerSet::Differing(2));
}

#[test]
fn empty_and_unsettled_ids_never_make_a_former_set() {
    for (initial, expected) in [
        (WorkerSetId::default(), FormerSet::Strangers(1)),
        (
            former(9, &[1], Standing::Unsettled),
            FormerSet::NotSettled(1),
        ),
        // The id is of this scheduler, but this instance was not given it as a member.
        (
            former(OURS, &[1], Standing::Settled),
            FormerSet::Strangers(1),
        ),
        (former(9, &[], Standing::Settled), FormerSet::OtherMembers),
    ] {
        let mut c = Consensus::new(scheduler(OURS));
        c.join(w(1), initial);
        assert_eq!(c.former_set(), expected);
        c.leave(w(1));
        assert_eq!(c.former_set(), FormerSet::NoWorkers);
    }
}
