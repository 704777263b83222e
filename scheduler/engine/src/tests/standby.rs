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
        .filter(|one| engine.standby_place(one.task).is_none());
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
    let at = |engine: &Engine, n: usize| engine.standby_place(placed[n].task);
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

#[test]
fn only_tasks_stand_by_that_hold_nothing_others_need_and_are_known_to_be_short() {
    let with = |change: fn(&mut JobConfig)| {
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
    };
    type Change = fn(&mut JobConfig);
    let never: [(&str, Change); 5] = [
        ("unknown", |job| job.est_duration = None),
        ("long", |job| {
            job.est_duration = Some(Duration::from_millis(1001))
        }),
        ("limited", |job| job.max_running = Some(50)),
        ("slots of nodes", |job| job.resources = vec![1, 1]),
        ("host", |job| job.level_for_host_placement = Some(HOST)),
    ];
    for (what, change) in never {
        let (mut engine, _) = world(with(change), 20);
        engine.upsert_worker(&shard("w1"), takes_standby("h"));
        assert_eq!(begun_of_all(&mut engine, T0), (2, 0), "{what}");
    }
    // The job says that nobody else needs what it holds.
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
        let stands_by = |n: &usize| engine.standby_place(placed[*n].task).is_some();
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
    assert_eq!(engine.take_back_due(TakeBackReasons::All), Some(later()));
    assert_eq!(engine.take_back_due(TakeBackReasons::Unwanted), None);
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
    assert_eq!(engine.take_back_due(TakeBackReasons::All), Some(due));
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
    assert_eq!(other.standby_place(placed[2].task), Some(0));
    assert_eq!(other.worker_slots("w1")[0].in_use, 2);
    done(&mut other, T0, placed[0].task);
    assert_eq!(other.standby_place(placed[2].task), None);
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
        of.filter(|(one, _)| engine.standby_place(one.task).is_none())
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
    let place = |engine: &Engine, n: usize| engine.standby_place(placed[n].task);
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
        engine.standby_place(placed[2].task),
        None,
        "as far as is known"
    );
    engine.take_back_failed(T0, placed[3].task, HasBegun::Yes);
    assert_eq!(engine.standby_place(placed[2].task), Some(0));
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
        engine.take_back_due(TakeBackReasons::All),
        None,
        "all have begun"
    );
}
