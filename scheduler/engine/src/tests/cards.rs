//! Tests of the GPUs that tasks get, and of tasks that wait for GPUs.

use brasserie_common::{GpuShare, StatusBits, Time};
use brasserie_common_config::Config;

use super::world::*;
use crate::{AdoptOutcome, Eligibility, Engine, Task, WorkerIndex, WorkerResources};

const T0: Time = Time::ZERO;

/// Jobs whose tasks take so many slots of half a GPU each.
fn halves(jobs: &[(&str, i32)]) -> Config {
    let job = |(name, slots): &(&str, i32)| {
        let mut job = job(name);
        job.resources = vec![*slots];
        job
    };
    let jobs = jobs.iter().map(job).collect();
    let mut config = config(vec![resource("gpu", WORKER, 1, 9)], jobs);
    cards_are(&mut config, "gpu", 0.5);
    config
}

fn with_cards(models: &[&str]) -> WorkerResources {
    WorkerResources {
        cards: cards(models),
        ..on_host("m1")
    }
}

fn engine_with(config: Config, dbs: &[&str], models: &[&str]) -> (Engine, WorkerIndex) {
    let (mut engine, worker) = engine(config, &[("h", dbs)]);
    engine.upsert_worker(&shard("w1"), with_cards(models));
    (engine, worker)
}

fn share(device: &str, milli: u32) -> GpuShare {
    let device = device.into();
    GpuShare { device, milli }
}

fn gpus(engine: &Engine, task: Task) -> Vec<(String, u32)> {
    let shares = engine.gpus(task).iter();
    shares.map(|s| (s.device.to_string(), s.milli)).collect()
}

fn explain(engine: &mut Engine, job: &str, node: &str) -> Vec<String> {
    let task = task(engine, job, node);
    let reasons = engine.explain(T0, task);
    reasons.iter().map(ToString::to_string).collect()
}

#[test]
fn halves_share_a_card_and_whole_tasks_wait_for_one() {
    let config = halves(&[("half", 1), ("whole", 2)]);
    let (mut engine, _) = engine_with(config, &["a", "b", "c"], &["A", "A"]);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["half a", "whole a", "half b"]);
    let got: Vec<_> = placed.iter().map(|p| gpus(&engine, p.task)).collect();
    let of = |device: &str, milli| vec![(device.to_owned(), milli)];
    assert_eq!(got, [of("c0", 500), of("c1", 1000), of("c0", 500)]);
    end(&mut engine, T0, placed[0].task, StatusBits::FAILED);
    let next = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &next), ["half c"]);
    assert_eq!(gpus(&engine, next[0].task), of("c0", 500));
}

#[test]
fn what_is_free_in_pieces_is_no_card_and_explain_says_so() {
    let (mut engine, w1) = engine_with(halves(&[("whole", 2)]), &["a"], &["A", "A"]);
    let (x, y) = (task(&mut engine, "x", "a"), task(&mut engine, "y", "a"));
    for (task, card) in [(x, "c0"), (y, "c1")] {
        let adopted = engine.adopt_running(task, w1, &[], (&[share(card, 500)], None));
        assert_eq!(adopted, AdoptOutcome::Adopted);
    }
    assert_eq!(place_all(&mut engine, T0), []);
    let no_worker = "no worker can take it now: 1 without room (worker `w1` has 2 GPUs with";
    assert_eq!(
        explain(&mut engine, "whole", "a"),
        [format!("{no_worker} 0.5 free each, 1 whole GPU needed)")]
    );
    let more = task(&mut engine, "more", "a");
    engine.adopt_running(more, w1, &[], (&[share("c1", 250)], None));
    assert_eq!(
        explain(&mut engine, "whole", "a"),
        [format!("{no_worker} 0.5, 0.25 free, 1 whole GPU needed)")]
    );
    engine.set_eligibility(w1, Eligibility::Draining);
    assert_eq!(
        explain(&mut engine, "whole", "a"),
        ["no worker can take it now: 1 draining"]
    );
    engine.set_eligibility(w1, Eligibility::Eligible);
    end(&mut engine, T0, x, StatusBits::DONE);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["whole a"]);
    assert_eq!(gpus(&engine, placed[0].task), [("c0".to_owned(), 1000)]);
}

#[test]
fn a_card_that_goes_away_stays_taken_until_its_task_ends() {
    let (mut engine, w1) = engine_with(halves(&[("whole", 2)]), &["a", "b", "c"], &["A"]);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["whole a"]);
    let seen_first = engine.upsert_worker(&shard("w1"), with_cards(&[]));
    assert_eq!(seen_first, w1);
    // The GPU is listed again, with a new one.
    engine.upsert_worker(&shard("w1"), with_cards(&["A", "A"]));
    let second = place_all(&mut engine, T0);
    let got: Vec<_> = second.iter().map(|p| gpus(&engine, p.task)).collect();
    // Only slots counted while no GPU was listed; nothing was placed then.
    assert_eq!(got, [[("c1".to_owned(), 1000)]]);
    end(&mut engine, T0, placed[0].task, StatusBits::DONE);
    let third = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &third), ["whole c"]);
    assert_eq!(gpus(&engine, third[0].task), [("c0".to_owned(), 1000)]);
}

#[test]
fn who_lists_no_cards_gives_none_and_has_slots_as_before() {
    let (mut engine, _) = engine_with(halves(&[("whole", 2)]), &["a"], &[]);
    let placed = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &placed), ["whole a"]);
    assert_eq!(gpus(&engine, placed[0].task), []);
}

#[test]
fn too_many_cards_for_every_worker_are_infeasible() {
    let mut config = halves(&[("greedy", 6)]);
    config.worker_resources_override = [(
        "w1".to_owned(),
        [(brasserie_common_config::ResourceId(0), 99)].into(),
    )]
    .into();
    let (mut engine, _) = engine_with(config, &["a"], &["A", "B"]);
    assert_eq!(
        explain(&mut engine, "greedy", "a")[0],
        "it can never run on the connected workers: it needs 3 whole GPUs, and `w1` has 1 of `A` and 1 of `B`"
    );
    engine.upsert_worker(&shard("w1"), with_cards(&["A", "B", "A"]));
    let placed = place_all(&mut engine, T0);
    let all = ["c0", "c1", "c2"].map(|device| (device.to_owned(), 1000));
    assert_eq!(gpus(&engine, placed[0].task), all);
}

#[test]
fn a_run_beside_holds_its_cards() {
    let (mut engine, w1) = engine_with(halves(&[("half", 1)]), &["a"], &["A"]);
    engine.hold_slots(w1, &[], &[share("c0", 501)]);
    assert_eq!(place_all(&mut engine, T0), []);
    engine.release_slots(w1, &[], &[share("c0", 501)]);
    assert_eq!(place_all(&mut engine, T0).len(), 1);
}
