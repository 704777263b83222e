//! Tests of tasks that stand by at workers whose slots are in use.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{StatusBits, Time};
use brasserie_common_config::{Config, JobConfig, SchedulerPolicy};

use super::world::*;
use crate::{
    Allowance, Allowances, Eligibility, Engine, HasBegun, Placement, Restart, TakeBackReasons,
    Task, WorkerIndex, WorkerResources,
};

const T0: Time = Time::ZERO;

/// Returns the time at which a task that stands by since [`T0`] may be taken back.
fn later() -> Time {
    T0 + Duration::from_millis(25)
}

fn short(name: &str, micros: u64) -> JobConfig {
    JobConfig {
        est_duration: Some(Duration::from_micros(micros)),
        ..job(name)
    }
}

fn two_slots(jobs: Vec<JobConfig>) -> Config {
    config(vec![resource("slots", WORKER, 1, 2)], jobs)
}

fn takes_standby(hostname: &str) -> WorkerResources {
    WorkerResources {
        takes_standby: true,
        ..on_host(hostname)
    }
}

fn add_worker(engine: &mut Engine, name: &str) -> WorkerIndex {
    let worker = engine.upsert_worker(&shard(name), takes_standby(name));
    engine.set_eligibility(worker, Eligibility::Eligible);
    worker
}

/// An engine with this many nodes and one worker that lets tasks stand by.
fn world(config: Config, nodes: usize) -> (Engine, WorkerIndex) {
    let names: Vec<String> = (0..nodes).map(|n| format!("n{n:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (mut engine, worker) = engine(config, &[("h", &names)]);
    engine.set_eligibility(worker, Eligibility::Ineligible);
    engine.remove_worker(worker);
    let worker = add_worker(&mut engine, "w1");
    (engine, worker)
}

/// Returns how many of the placed tasks have begun, and how many stand by.
fn begins(engine: &Engine, placed: &[Placement]) -> (usize, usize) {
    let begun = placed
        .iter()
        .filter(|one| engine.standby_rank(one.task).is_none());
    let begun = begun.count();
    (begun, placed.len() - begun)
}

fn begun_of_all(engine: &mut Engine, now: Time) -> (usize, usize) {
    let placed = place_all(engine, now);
    begins(engine, &placed)
}

fn done(engine: &mut Engine, now: Time, task: Task) {
    end(engine, now, task, StatusBits::DONE);
}

fn next_take_back(engine: &mut Engine, now: Time) -> Option<Task> {
    let tasks = engine.begin_take_backs(now, TakeBackReasons::All, 1);
    tasks.first().copied()
}

#[test]
fn short_tasks_stand_by_once_all_slots_are_in_use() {
    let (mut engine, w1) = world(two_slots(vec![short("j", 1000)]), 100);
    let placed = place_all(&mut engine, T0);
    // Two slots take 40 ms of work.
    assert_eq!(begins(&engine, &placed), (2, 40));
    assert_eq!(engine.standby_count(w1), 40);
    let at = |engine: &Engine, n: usize| engine.standby_rank(placed[n].task);
    assert_eq!(at(&engine, 1), None);
    assert_eq!(at(&engine, 2), Some(0));
    assert_eq!(at(&engine, 41), Some(39));
    let slots = engine.worker_slots("w1");
    assert_eq!((slots[0].in_use, slots[0].limit), (2, Some(2)));
    assert_eq!(engine.problems(), [""; 0]);
    // The worker starts the next one by itself, so another may stand by.
    done(&mut engine, T0, placed[1].task);
    assert_eq!(at(&engine, 2), None);
    assert_eq!(at(&engine, 3), Some(0));
    assert_eq!(begun_of_all(&mut engine, T0), (0, 1));
    assert_eq!(engine.standby_slots(w1), Some(vec![("slots", 2)]));
}

#[test]
fn as_many_stand_by_as_is_useful() {
    for (micros, expected) in [(1, 64), (300_000, 2), (600_000, 2)] {
        let (mut engine, _) = world(two_slots(vec![short("j", micros)]), 100);
        let placed = place_all(&mut engine, T0);
        assert_eq!(begins(&engine, &placed), (2, expected), "{micros} us");
    }
}

type Change = fn(&mut JobConfig);

/// A configuration with one short job, changed, and slots of workers and of nodes.
fn with(change: Change) -> Config {
    let mut job = short("j", 1000);
    change(&mut job);
    let mut config = two_slots(vec![job]);
    config.resources.push(resource("disk", DB, 0, 1));
    for job in &mut config.jobs {
        let mut job_config = JobConfig::clone(job);
        job_config.resources.resize(2, 0);
        *job = job_config.into();
    }
    config
}

#[test]
fn only_tasks_stand_by_that_hold_nothing_others_need_and_are_known_to_be_short() {
    let never: [(&str, Change, &str); 6] = [
        (
            "unknown",
            |job| job.est_duration = None,
            "its duration is not known yet",
        ),
        (
            "long",
            |job| job.est_duration = Some(Duration::from_millis(1001)),
            "",
        ),
        (
            "limited",
            |job| job.max_running = Some(50),
            "jobs without `deadline`",
        ),
        (
            "deadline",
            |job| job.task_subprocess.deadline = Some(Duration::from_secs(9)),
            "jobs without `deadline`",
        ),
        (
            "slots of nodes",
            |job| job.resources = vec![1, 1],
            "slots of workers only",
        ),
        (
            "host",
            |job| job.level_for_host_placement = Some(HOST),
            "host placement",
        ),
    ];
    for (what, change, why) in never {
        let (mut engine, _) = world(with(change), 20);
        engine.upsert_worker(&shard("w1"), takes_standby("h"));
        let placed = place_all(&mut engine, T0);
        assert_eq!(begins(&engine, &placed), (2, 0), "{what}");
        let node = engine.find_node("n019").unwrap();
        let task = Task {
            node,
            ..placed[0].task
        };
        let reasons = engine.explain(T0, task);
        let said: Vec<String> = reasons.iter().map(ToString::to_string).collect();
        let said = said.iter().find(|text| text.contains("does not stand by"));
        match why {
            "" => assert_eq!(said, None, "{what}: nobody expects it"),
            _ => assert!(
                said.is_some_and(|text| text.contains(why)),
                "{what}: {reasons:?}"
            ),
        }
    }
}

#[test]
fn tasks_stand_by_if_their_job_says_that_nobody_else_needs_what_they_hold_or_not_at_all() {
    let (mut engine, _) = world(
        with(|job| {
            job.resources = vec![1, 1];
            job.bufferable = true;
        }),
        20,
    );
    assert_eq!(begun_of_all(&mut engine, T0), (2, 18));
    let mut off = with(|_| {});
    off.standby = false;
    let (mut engine, w1) = world(off, 20);
    assert_eq!(begun_of_all(&mut engine, T0), (2, 0), "off");
    assert_eq!(engine.standby_slots(w1), None);
}

#[test]
fn tasks_stand_by_once_their_run_time_is_learned() {
    let mut job = short("j", 1000);
    job.est_duration = None;
    let (mut engine, _) = world(two_slots(vec![job]), 30);
    let placed = place_all(&mut engine, T0);
    assert_eq!(begins(&engine, &placed), (2, 0));
    let id = placed[0].task.job;
    // Runs that began before they were known to be short do not count as such.
    engine.set_learned(id, Some(0.01));
    assert_eq!(begun_of_all(&mut engine, T0), (0, 0));
    done(&mut engine, T0, placed[0].task);
    assert_eq!(begun_of_all(&mut engine, T0), (1, 2));
    engine.set_learned(id, Some(2.0));
    done(&mut engine, T0, placed[1].task);
    assert_eq!(begun_of_all(&mut engine, T0), (0, 0));
}

#[test]
fn only_workers_that_say_so_get_tasks_that_stand_by() {
    let (mut engine, w1) = world(two_slots(vec![short("j", 1000)]), 20);
    engine.upsert_worker(&shard("w1"), on_host("w1"));
    assert_eq!(begun_of_all(&mut engine, T0), (2, 0));
    assert_eq!(engine.standby_slots(w1), None);
    // A pull worker has requested nothing.
    engine.upsert_worker(&shard("w1"), takes_standby("w1"));
    let nothing = Allowances::new([(brasserie_common::Processor::Cpu, Allowance::NOTHING)]);
    engine.set_allowances(w1, Some(nothing));
    assert_eq!(place_all(&mut engine, T0), []);
    engine.set_allowances(w1, None);
    assert_eq!(begun_of_all(&mut engine, T0), (0, 18));
}

#[test]
fn none_stands_by_while_another_worker_has_room() {
    let (mut engine, w1) = world(two_slots(vec![short("j", 1000)]), 6);
    let w2 = add_worker(&mut engine, "w2");
    let placed = place_all(&mut engine, T0);
    assert_eq!(begins(&engine, &placed), (4, 2));
    assert_eq!((engine.standby_count(w1), engine.standby_count(w2)), (1, 1));
}

#[test]
fn a_job_whose_tasks_cannot_stand_by_keeps_its_turn() {
    let (mut engine, w1) = world(two_slots(vec![short("a", 1000), job("b")]), 4);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["a n000", "b n000", "a n001"]);
    assert_eq!(begins(&engine, &placed), (2, 1), "then it is the turn of b");
    done(&mut engine, T0, placed[0].task);
    assert_eq!(place_all(&mut engine, T0), [], "a n001 has begun");
    assert_eq!(engine.standby_count(w1), 0);
    done(&mut engine, T0, placed[2].task);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["b n001"]);
}

#[test]
fn a_job_of_a_higher_priority_keeps_others_from_its_workers() {
    let mut config = two_slots(vec![short("low", 1000), job("high")]);
    config.policy = SchedulerPolicy::RankedPriority;
    let mut high = JobConfig::clone(&config.jobs[1]);
    high.priority = 10.0;
    config.jobs[1] = high.into();
    let (mut engine, _) = world(config, 3);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["high n000", "high n001"]);
    done(&mut engine, T0, placed[0].task);
    let more = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &more), ["high n002"]);
    done(&mut engine, T0, placed[1].task);
    let more = place_all(&mut engine, T0);
    let low = ["low n000", "low n001", "low n002"];
    assert_eq!(names(&engine, &more), low);
    assert_eq!(begins(&engine, &more), (1, 2));
}

#[test]
fn a_worker_starts_the_first_that_fits() {
    let mut wide = short("wide", 1000);
    wide.resources = vec![2];
    let (mut engine, w1) = world(two_slots(vec![short("a", 1000), wide]), 4);
    let placed = place_all(&mut engine, T0);
    let order = [
        "a n000",
        "a n001",
        "wide n000",
        "a n002",
        "wide n001",
        "a n003",
        "wide n002",
        "wide n003",
    ];
    assert_eq!(names(&engine, &placed), order);
    assert_eq!(begins(&engine, &placed), (2, 6));
    let mut next = |ended: usize| {
        done(&mut engine, T0, placed[ended].task);
        let stands_by = |n: &usize| engine.standby_rank(placed[*n].task).is_some();
        (2..8).filter(stands_by).collect::<Vec<_>>()
    };
    // One slot is enough for a, and not for wide.
    assert_eq!(next(0), [2, 4, 5, 6, 7]);
    assert_eq!(next(3), [2, 4, 6, 7]);
    assert_eq!(next(1), [2, 4, 6, 7]);
    assert_eq!(next(5), [4, 6, 7]);
    assert_eq!(engine.standby_count(w1), 3);
}

#[test]
fn a_task_is_taken_back_if_another_worker_could_start_it() {
    let (mut engine, w1) = world(two_slots(vec![short("j", 1000)]), 4);
    let placed = place_all(&mut engine, T0);
    assert_eq!(begins(&engine, &placed), (2, 2));
    assert_eq!(
        next_take_back(&mut engine, later()),
        None,
        "no other worker"
    );
    let w2 = add_worker(&mut engine, "w2");
    assert_eq!(
        engine.take_back_due(T0, TakeBackReasons::All),
        Some(later())
    );
    assert_eq!(engine.take_back_due(T0, TakeBackReasons::Unwanted), None);
    let early = later() - Duration::from_micros(1);
    assert_eq!(next_take_back(&mut engine, early), None);
    assert_eq!(next_take_back(&mut engine, later()), Some(placed[2].task));
    assert_eq!(next_take_back(&mut engine, later()), None, "one at a time");
    // The task counts as running there until its worker has returned it.
    assert_eq!(place_all(&mut engine, later()), []);
    engine.never_began(later(), placed[2].task, None, Restart::AtOnce);
    // It keeps the room there until it starts.
    assert_eq!(next_take_back(&mut engine, later()), None);
    let again = place_all(&mut engine, later());
    assert_eq!(names(&engine, &again), ["j n002"]);
    assert_eq!(again[0].worker, w2);
    assert_eq!(begins(&engine, &again), (1, 0));
    // The next one has begun meanwhile, so its worker refuses.
    assert_eq!(next_take_back(&mut engine, later()), Some(placed[3].task));
    engine.take_back_failed(later(), placed[3].task, HasBegun::Yes);
    done(&mut engine, later(), placed[0].task);
    assert_eq!(engine.standby_count(w1), 0);
    assert_eq!(next_take_back(&mut engine, later()), None);
}

#[test]
fn a_take_back_that_failed_is_sent_again_later() {
    let (mut engine, _) = world(two_slots(vec![short("j", 1000)]), 3);
    let placed = place_all(&mut engine, T0);
    add_worker(&mut engine, "w2");
    assert_eq!(next_take_back(&mut engine, later()), Some(placed[2].task));
    engine.take_back_failed(later(), placed[2].task, HasBegun::Unknown);
    let due = later() + Duration::from_millis(25);
    assert_eq!(engine.take_back_due(T0, TakeBackReasons::All), Some(due));
    assert_eq!(next_take_back(&mut engine, due), Some(placed[2].task));
}

#[test]
fn tasks_that_may_not_start_any_more_are_taken_back_at_once() {
    let before = two_slots(vec![short("j", 1000), short("k", 1000)]);
    let changed = |change: fn(&mut Config)| {
        let (mut engine, _) = world(before.clone(), 3);
        assert_eq!(begun_of_all(&mut engine, T0), (2, 4));
        let mut after = before.clone();
        change(&mut after);
        engine.apply_config(T0, Arc::new(after));
        let mut returned = Vec::new();
        for task in engine.begin_take_backs(T0, TakeBackReasons::Unwanted, usize::MAX) {
            returned.push(format!(
                "{} {}",
                engine.job_name(task.job),
                engine.node_name(task.node)
            ));
        }
        returned.sort();
        returned
    };
    assert_eq!(changed(|_| {}), [""; 0]);
    let without_k = changed(|config| {
        config.jobs.pop();
    });
    assert_eq!(without_k, ["k n001", "k n002"]);
    let all = ["j n001", "j n002", "k n001", "k n002"];
    assert_eq!(changed(|config| config.enabled = false), all);
    assert_eq!(changed(|config| config.standby = false), all);
    let fewer_slots = changed(|config| {
        config.resources = vec![resource("slots", WORKER, 1, 1)];
    });
    assert_eq!(fewer_slots, all);
}

#[test]
fn an_adopted_task_stands_by_as_before() {
    let (mut engine, w1) = world(two_slots(vec![short("j", 1000)]), 3);
    let placed = place_all(&mut engine, T0);
    let (mut other, _) = world(two_slots(vec![short("j", 1000)]), 3);
    for (n, one) in placed.iter().enumerate() {
        let charges = engine.charges(one.task);
        other.adopt_running(one.task, w1, &charges, (&[], None));
        if n == 2 {
            other.note_standby(T0, one.task, Some(0));
        }
    }
    assert_eq!(other.standby_rank(placed[2].task), Some(0));
    assert_eq!(other.worker_slots("w1")[0].in_use, 2);
    done(&mut other, T0, placed[0].task);
    assert_eq!(other.standby_rank(placed[2].task), None);
}

#[test]
fn a_task_that_fits_before_a_wide_one_counts_as_begun() {
    let wide = JobConfig {
        resources: vec![2],
        ..short("wide", 1000)
    };
    let mut config = two_slots(vec![short("j", 1000), wide]);
    config.resources = vec![resource("slots", WORKER, 1, 4)];
    let (mut engine, _) = world(config, 3);
    let placed = place_all(&mut engine, T0);
    let all = names(&engine, &placed);
    // All slots that a narrow task could use are in use, whatever the order was.
    let begun = |name: &str| {
        let of = placed.iter().zip(&all);
        let of = of.filter(|(_, text)| text.starts_with(name));
        of.filter(|(one, _)| engine.standby_rank(one.task).is_none())
            .count()
    };
    assert_eq!(begun("j") + 2 * begun("wide"), 4, "{all:?}");
}

#[test]
fn a_take_back_of_an_unwanted_task_that_failed_is_repeated() {
    let before = two_slots(vec![short("j", 1000)]);
    let (mut engine, _) = world(before.clone(), 3);
    let placed = place_all(&mut engine, T0);
    assert_eq!(begins(&engine, &placed), (2, 1));
    let mut after = before;
    after.resources = vec![resource("slots", WORKER, 1, 1)];
    engine.apply_config(T0, Arc::new(after));
    let unwanted = TakeBackReasons::Unwanted;
    assert_eq!(engine.begin_take_backs(T0, unwanted, 9), [placed[2].task]);
    engine.take_back_failed(T0, placed[2].task, HasBegun::Unknown);
    assert_eq!(engine.begin_take_backs(T0, unwanted, 9), []);
    assert_eq!(
        engine.begin_take_backs(later(), unwanted, 9),
        [placed[2].task]
    );
}

#[test]
fn other_slots_that_a_worker_reports_take_back_what_stands_by() {
    let mut config = two_slots(vec![short("j", 1000)]);
    config.resources[0].name = "cpus".into();
    let (mut engine, _) = world(config, 3);
    let placed = place_all(&mut engine, T0);
    let standing_by = begins(&engine, &placed).1;
    let mut changed = takes_standby("h");
    changed.memory_mb += 1.0;
    engine.upsert_worker(&shard("w1"), changed);
    let unchanged = engine.begin_take_backs(T0, TakeBackReasons::Unwanted, 9);
    assert_eq!(unchanged, [], "the limits are as before");
    assert!(standing_by > 0);
}

#[test]
fn the_answers_of_a_worker_say_which_tasks_stand_by_and_in_which_order() {
    let (mut engine, _) = world(two_slots(vec![short("j", 1000)]), 4);
    let placed = place_all(&mut engine, T0);
    let place = |engine: &Engine, n: usize| engine.standby_rank(placed[n].task);
    assert_eq!(begins(&engine, &placed), (2, 2));
    // They arrived in reverse order.
    for (n, queued_at) in [(0, Some(2)), (2, None), (1, Some(1)), (3, None)] {
        engine.note_standby(T0, placed[n].task, queued_at);
    }
    let places = [0, 1, 2, 3].map(|n| place(&engine, n));
    assert_eq!(places, [Some(1), Some(0), None, None]);
    done(&mut engine, T0, placed[3].task);
    let places = [0, 1, 2].map(|n| place(&engine, n));
    assert_eq!(places, [Some(0), None, None]);
}

#[test]
fn the_task_that_is_last_in_the_queue_is_the_one_that_another_overtook() {
    let (mut engine, _) = world(two_slots(vec![short("j", 1000)]), 4);
    let placed = place_all(&mut engine, T0);
    for (n, queued_at) in [(0, None), (1, None), (2, Some(1))] {
        engine.note_standby(T0, placed[n].task, queued_at);
    }
    // The answer for the last one is lost, and it arrived before the third.
    done(&mut engine, T0, placed[0].task);
    assert_eq!(
        engine.standby_rank(placed[2].task),
        None,
        "as far as is known"
    );
    engine.take_back_failed(T0, placed[3].task, HasBegun::Yes);
    assert_eq!(engine.standby_rank(placed[2].task), Some(0));
}

#[test]
fn a_task_that_another_one_overtook_on_the_way_is_taken_back_in_its_place() {
    let (mut engine, _) = world(two_slots(vec![short("j", 1000)]), 3);
    let placed = place_all(&mut engine, T0);
    assert_eq!(begins(&engine, &placed), (2, 1));
    add_worker(&mut engine, "w2");
    assert_eq!(next_take_back(&mut engine, later()), Some(placed[2].task));
    // The worker has begun it, so one of the others stands by there. The scheduler asks for each in turn.
    engine.take_back_failed(later(), placed[2].task, HasBegun::Yes);
    assert_eq!(
        next_take_back(&mut engine, later()),
        None,
        "a task may have ended"
    );
    let much_later = later() + Duration::from_millis(25);
    let first = next_take_back(&mut engine, much_later);
    assert!(first == Some(placed[0].task) || first == Some(placed[1].task));
    engine.take_back_failed(much_later, first.unwrap(), HasBegun::Yes);
    let last = much_later + Duration::from_millis(25);
    let second = next_take_back(&mut engine, last);
    assert!(second != first && second.is_some() && second != Some(placed[2].task));
    engine.take_back_failed(last, second.unwrap(), HasBegun::Yes);
    assert_eq!(
        engine.take_back_due(T0, TakeBackReasons::All),
        None,
        "all have begun"
    );
}

#[test]
fn all_tasks_that_a_wide_one_overtook_stand_by_again() {
    let wide = JobConfig {
        resources: vec![2],
        ..short("a", 1000)
    };
    let (mut engine, _) = world(two_slots(vec![wide, short("b", 1000)]), 2);
    let placed = place_all(&mut engine, T0);
    let all = names(&engine, &placed);
    let of = |name: &str| placed[all.iter().position(|one| one == name).unwrap()].task;
    let (first, second) = (of("a n000"), of("a n001"));
    engine.note_standby(T0, first, None);
    engine.note_standby(T0, of("b n000"), Some(2));
    engine.note_standby(T0, of("b n001"), Some(3));
    // The worker has not said that the other wide task comes before them.
    done(&mut engine, T0, first);
    let rank = |engine: &Engine, name: &str| engine.standby_rank(of(name));
    assert_eq!(rank(&engine, "b n000"), None);
    assert_eq!(rank(&engine, "b n001"), None);
    engine.take_back_failed(T0, second, HasBegun::Yes);
    assert_eq!(rank(&engine, "b n000"), Some(0));
    assert_eq!(rank(&engine, "b n001"), Some(1));
}

#[test]
fn a_completion_between_two_answers_confuses_only_until_the_second() {
    for second_first in [false, true] {
        let one_slot = vec![resource("slots", WORKER, 1, 1)];
        let (mut engine, _) = world(config(one_slot, vec![short("j", 1000)]), 3);
        let placed = place_all(&mut engine, T0);
        let [running, b, a] = [0, 1, 2].map(|n| placed[n].task);
        engine.note_standby(T0, running, None);
        // `a` arrived behind `b`.
        if second_first {
            engine.note_standby(T0, a, Some(2));
            done(&mut engine, T0, running);
            assert_eq!(engine.standby_rank(a), None, "a guess");
        } else {
            done(&mut engine, T0, running);
            assert_eq!(engine.standby_rank(b), None, "a guess");
            engine.note_standby(T0, a, Some(2));
        }
        engine.note_standby(T0, b, Some(1));
        assert_eq!(engine.standby_rank(b), None);
        assert_eq!(engine.standby_rank(a), Some(0));
    }
}

#[test]
fn a_task_that_stands_by_unexpectedly_is_taken_back_if_it_may_not_start() {
    let before = two_slots(vec![short("j", 1000)]);
    let (mut engine, _) = world(before.clone(), 3);
    let placed = place_all(&mut engine, T0);
    let mut off = before;
    off.standby = false;
    engine.apply_config(T0, Arc::new(off));
    for one in engine.begin_take_backs(T0, TakeBackReasons::Unwanted, 9) {
        engine.take_back_failed(T0, one, HasBegun::Yes);
    }
    engine.note_standby(T0, placed[1].task, None);
    engine.note_standby(T0, placed[0].task, Some(1));
    let unwanted = engine.begin_take_backs(T0, TakeBackReasons::Unwanted, 9);
    assert!(unwanted.contains(&placed[0].task));
}

#[test]
fn a_listed_task_with_other_slots_than_its_worker_has_now_is_taken_back() {
    let (mut engine, _) = world(two_slots(vec![short("j", 1000)]), 3);
    let placed = place_all(&mut engine, T0);
    let task = placed[2].task;
    engine.check_stated_slots(task, &[("slots", 2)]);
    assert_eq!(engine.take_back_due(T0, TakeBackReasons::Unwanted), None);
    engine.check_stated_slots(task, &[("slots", 1)]);
    let unwanted = engine.begin_take_backs(T0, TakeBackReasons::Unwanted, 9);
    assert_eq!(unwanted, [task]);
}

#[test]
fn a_take_back_that_is_not_answered_keeps_the_room_of_a_worker_for_a_moment_only() {
    let (mut engine, _) = world(two_slots(vec![short("j", 1000)]), 4);
    let placed = place_all(&mut engine, T0);
    add_worker(&mut engine, "w2");
    assert_eq!(next_take_back(&mut engine, later()), Some(placed[2].task));
    assert_eq!(next_take_back(&mut engine, later()), None);
    let patience = engine.take_back_due(later(), TakeBackReasons::All);
    assert_eq!(patience, Some(later() + Duration::from_millis(200)));
    let next = next_take_back(&mut engine, patience.unwrap());
    assert_eq!(next, Some(placed[3].task));
}

#[test]
fn words_of_a_worker_that_takes_no_such_tasks_count_for_nothing() {
    let (mut engine, worker) = engine(two_slots(vec![short("j", 1000)]), &[("h", &["n"])]);
    let placed = place_all(&mut engine, T0);
    for place in [i64::MIN, 0, i64::MAX] {
        engine.note_standby(T0, placed[0].task, Some(place));
        assert_eq!(engine.standby_count(worker), 0);
    }
}

#[test]
fn no_task_stands_by_that_needs_slots_of_a_task_that_is_not_short() {
    let long = JobConfig {
        est_duration: Some(Duration::from_secs(12)),
        ..job("long")
    };
    let wide = JobConfig {
        resources: vec![4],
        ..short("wide", 1000)
    };
    let mut config = config(vec![resource("slots", WORKER, 1, 4)], vec![long]);
    let (mut engine, worker) = world(config.clone(), 1);
    assert_eq!(begun_of_all(&mut engine, T0), (1, 0));
    config.jobs.push(wide.into());
    engine.apply_config(T0, Arc::new(config.clone()));
    assert_eq!(place_all(&mut engine, T0), [], "it would wait 12 seconds");
    config.jobs.push(short("thin", 1000).into());
    engine.apply_config(T0, Arc::new(config));
    assert_eq!(begun_of_all(&mut engine, T0), (1, 0), "one node");
    assert_eq!(engine.standby_count(worker), 0);
}

#[test]
fn a_task_whose_job_has_changed_is_taken_back() {
    type Change = fn(&mut JobConfig);
    let changes: [Change; 4] = [
        |job| job.host_placement = Some("elsewhere".to_owned()),
        |job| job.max_running = Some(1),
        |job| job.command = vec!["other".to_owned()],
        |job| job.est_duration = Some(Duration::from_secs(9)),
    ];
    for change in changes {
        let (mut engine, _) = world(two_slots(vec![short("j", 1000), short("k", 1000)]), 3);
        place_all(&mut engine, T0);
        let mut changed = short("j", 1000);
        change(&mut changed);
        engine.apply_config(T0, Arc::new(two_slots(vec![changed, short("k", 1000)])));
        let unwanted = engine.begin_take_backs(T0, TakeBackReasons::Unwanted, 9);
        let jobs = unwanted
            .iter()
            .map(|task| engine.job_name(task.job).as_str());
        assert_eq!(jobs.collect::<Vec<_>>(), ["j", "j"]);
    }
}

#[test]
fn a_task_that_stands_by_although_there_seems_to_be_room_was_overtaken() {
    let (mut engine, _) = world(two_slots(vec![short("j", 1000)]), 3);
    let placed = place_all(&mut engine, T0);
    engine.note_standby(T0, placed[0].task, None);
    // The answer for the third is lost: it has begun in the place of the second.
    engine.note_standby(T0, placed[1].task, Some(1));
    let rank = |n: usize| engine.standby_rank(placed[n].task);
    assert_eq!([rank(1), rank(2)], [Some(0), None]);
}

#[test]
fn a_task_that_is_adopted_before_the_configuration_stays_on_standby() {
    let mut engine = Engine::new(1);
    let worker = add_worker(&mut engine, "w1");
    let job = engine.intern_job(&job_name("j"));
    let node = engine.intern_node(&"n".try_into().expect("a valid name"));
    let task = Task { job, node };
    engine.adopt_running(task, worker, &[], (&[], None));
    engine.note_standby(T0, task, Some(0));
    assert_eq!(engine.standby_rank(task), Some(0));
    let unwanted = engine.begin_take_backs(T0, TakeBackReasons::Unwanted, 9);
    assert_eq!(unwanted, [], "nobody knows yet whether it may start");
}
