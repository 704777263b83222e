//! Tests of pull workers and their credit.

use std::time::Duration;

use brasserie_common::{CardChoice, GpuShare, Processor, StatusBits, Time, WorkRequestSeq};
use brasserie_common_config::{Config, JobConfig, ResourceLimit, WorkerSelector};

use super::world::*;
use crate::{
    Allowance, Allowances, Due, Eligibility, Engine, Judged, Restart, Task, Tries, WorkFound,
    WorkerIndex, WorkerResources,
};

const T0: Time = Time::ZERO;
const DBS: [(&str, &[&str]); 1] = [("h", &["a", "b", "c", "d", "e", "f"])];

/// One slot for each core; the worker has four.
fn slots_and(jobs: Vec<JobConfig>) -> Config {
    let mut slots = resource("slots", WORKER, 1, 0);
    slots.limit = ResourceLimit::ReportedCores;
    config(vec![slots], jobs)
}

fn may_wait(name: &str) -> JobConfig {
    JobConfig {
        bufferable: true,
        ..job(name)
    }
}

fn asked(bufferable: bool, immediate: bool, estimated_delay: f64) -> Option<Allowances> {
    let allowance = Allowance {
        bufferable,
        immediate,
        estimated_delay,
        ..Allowance::NOTHING
    };
    Some(Allowances::new([(Processor::Cpu, allowance)]))
}

fn explain(engine: &mut Engine, job: &str, node: &str) -> String {
    let task = task(engine, job, node);
    engine.explain(T0, task)[0].to_string()
}

fn placed(engine: &mut Engine) -> Vec<String> {
    let placed = place_all(engine, T0);
    names(engine, &placed)
}

#[test]
fn one_that_asks_gets_what_it_asked_for_however_many_cores_it_has() {
    let jobs = vec![may_wait("w"), job("now")];
    let (mut engine, worker) = engine(slots_and(jobs), &DBS);
    engine.set_allowances(worker, asked(false, false, 0.0));
    assert_eq!(placed(&mut engine), [""; 0]);
    let none = "no worker can take it now: 1 with as much work as they asked for";
    assert_eq!(explain(&mut engine, "w", "a"), none);
    engine.set_allowances(worker, asked(true, false, 0.0));
    // Tasks beyond the cores are sent, too, because tasks that may be queued wait at the worker.
    let all = ["w a", "w b", "w c", "w d", "w e", "w f"];
    assert_eq!(placed(&mut engine), all);
    assert_eq!(engine.problems(), [""; 0], "that is no mistake");
    // Other tasks are sent only for idle processors, whatever the slots say.
    engine.set_allowances(worker, asked(false, true, 0.0));
    assert!(engine.place(T0).is_some());
    engine.set_allowances(worker, asked(true, false, 0.0));
    assert_eq!(placed(&mut engine), [""; 0]);
    // The slots limit the worker again once it has no credit.
    engine.set_allowances(worker, None);
    let short =
        "no worker can take it now: 1 without room (worker `w1` has 0 of 4 `slots` free, 1 needed)";
    assert_eq!(explain(&mut engine, "now", "c"), short);
    let taken = "7 of `slots` are taken on `w1`, which has 4; nothing that needs it starts there until running tasks end";
    assert_eq!(engine.problems(), [taken]);
}

#[test]
fn other_slots_of_the_worker_are_held_as_ever() {
    let mut config = slots_and(vec![may_wait("w")]);
    config.resources.push(resource("licence", WORKER, 1, 2));
    config.jobs = vec![
        JobConfig {
            resources: vec![1, 1],
            ..may_wait("w")
        }
        .into(),
    ];
    let (mut engine, worker) = engine(config, &DBS);
    engine.set_allowances(worker, asked(true, true, 0.0));
    assert_eq!(placed(&mut engine), ["w a", "w b"]);
    // A task that is larger than the machine can still never run.
    let mut config = slots_and(vec![may_wait("w")]);
    config.jobs = vec![
        JobConfig {
            resources: vec![5],
            ..may_wait("w")
        }
        .into(),
    ];
    let (mut engine, worker) = self::engine(config, &DBS);
    engine.set_allowances(worker, asked(true, true, 0.0));
    assert_eq!(placed(&mut engine), [""; 0]);
    assert!(
        explain(&mut engine, "w", "a").starts_with("it can never run on the connected workers")
    );
}

fn engine(config: Config, hosts: &[(&str, &[&str])]) -> (Engine, WorkerIndex) {
    super::world::engine(config, hosts)
}

#[test]
fn a_task_that_would_come_too_late_is_sent_elsewhere() {
    let mut urgent = may_wait("urgent");
    urgent.task_subprocess.deadline = Some(Duration::from_secs(100));
    urgent.est_duration = Some(Duration::from_secs(40));
    let (mut engine, worker) = engine(slots_and(vec![urgent]), &DBS);
    engine.set_allowances(worker, asked(true, true, 61.0));
    assert_eq!(placed(&mut engine), [""; 0]);
    let late = "no worker can take it now: 1 with so much to do that it would miss its deadline";
    assert_eq!(explain(&mut engine, "urgent", "a"), late);
    let found = WorkFound { ready: 6, late: 6 };
    assert_eq!(engine.work_found(worker), [(Processor::Cpu, found)].into());
    engine.set_allowances(worker, asked(true, true, 60.0));
    assert_eq!(placed(&mut engine).len(), 6);
}

#[test]
fn a_task_that_is_late_anywhere_is_not_said_to_be_so_for_others_work() {
    let mut hopeless = may_wait("hopeless");
    hopeless.task_subprocess.deadline = Some(Duration::from_secs(30));
    hopeless.est_duration = Some(Duration::from_secs(40));
    let (mut engine, worker) = engine(slots_and(vec![hopeless]), &DBS);
    engine.set_allowances(worker, asked(true, true, 1.0));
    assert_eq!(placed(&mut engine), [""; 0]);
    let late = "no worker can take it now: 1 with deadlines of others to keep (it would miss its own anywhere)";
    assert_eq!(explain(&mut engine, "hopeless", "a"), late);
    // An idle worker may start it, because the estimate may be wrong.
    engine.set_allowances(worker, asked(true, true, 0.0));
    assert_eq!(placed(&mut engine).len(), 6);
}

#[test]
fn the_neediest_goes_first() {
    let mut config = slots_and(vec![may_wait("w")]);
    config.worker_selector = WorkerSelector::Neediest;
    let (mut engine, _) = engine(config, &DBS);
    let lacks = [("w1", 0.0, 9.0), ("w2", 0.0, 70.0), ("w3", 1.0, 5.0)];
    for (name, instances, instance_secs) in lacks {
        let worker = engine.upsert_worker(&shard(name), on_host("m1"));
        engine.set_eligibility(worker, Eligibility::Eligible);
        let allowance = Allowance {
            bufferable: true,
            instances,
            instance_secs,
            ..Allowance::NOTHING
        };
        let of_cpu = Allowances::new([(Processor::Cpu, allowance)]);
        engine.set_allowances(worker, Some(of_cpu));
    }
    let next = |engine: &mut Engine| {
        let placed = engine.place(T0).unwrap();
        let name = lacks.map(|(name, ..)| engine.find_worker(name));
        let at = name
            .iter()
            .position(|worker| *worker == Some(placed.worker));
        engine.set_allowances(placed.worker, asked(false, false, 0.0));
        lacks[at.unwrap()].0
    };
    assert_eq!([(); 3].map(|()| next(&mut engine)), ["w3", "w2", "w1"]);
    assert_eq!(engine.place(T0), None);
}

#[test]
fn what_was_found_is_told_by_type() {
    let mut config = config(
        vec![
            resource("gpu", WORKER, 0, 0),
            resource("GPU: B", WORKER, 0, 0),
        ],
        vec![],
    );
    cards_are(&mut config, "gpu", 1.0);
    let with = |name: &str, resources: &[i32]| JobConfig {
        resources: resources.to_vec(),
        ..job(name)
    };
    let jobs = [
        with("cpu", &[0, 0]),
        with("any", &[1, 0]),
        with("b", &[0, 2]),
    ];
    config.jobs = jobs.map(Into::into).to_vec();
    let (mut engine, worker) = engine(config.clone(), &DBS);
    let resources = WorkerResources {
        cards: cards(&["A", "B", "B"]),
        ..on_host("m1")
    };
    engine.upsert_worker(&shard("w1"), resources);
    let card = |model: &str| Processor::Cards(model.into());
    let ready = |engine: &Engine, of: &Processor| {
        let found = engine.work_found(worker);
        found.get(of).map(|found| found.ready)
    };
    assert_eq!(ready(&engine, &Processor::Cpu), Some(6));
    // A job that takes any GPU is available for each model of the worker.
    assert_eq!(ready(&engine, &card("A")), Some(6));
    assert_eq!(ready(&engine, &card("B")), Some(12));
    assert_eq!(ready(&engine, &card("C")), None);
    let of_job = |place: usize| {
        let job = &config.jobs[place];
        let id = engine.find_job(job.name.as_str()).unwrap();
        let node = engine.find_node("a").unwrap();
        engine.work_of(&config, (job, Task { job: id, node }), worker)
    };
    assert_eq!(of_job(0), (Processor::Cpu, 1.0));
    assert_eq!(of_job(1), (card("A"), 1.0));
    assert_eq!(of_job(2), (card("B"), 2.0));
    // Running tasks are not ready.
    place_all(&mut engine, T0);
    assert_eq!(ready(&engine, &Processor::Cpu), Some(0));
}

/// A job whose tasks have a deadline of 100 seconds.
fn urgent(name: &str) -> JobConfig {
    let mut urgent = may_wait(name);
    urgent.task_subprocess.deadline = Some(Duration::from_secs(100));
    urgent
}

#[test]
fn what_was_learned_of_a_job_says_whether_it_comes_too_late() {
    let mut said = urgent("said");
    said.est_duration = Some(Duration::from_secs(10));
    let jobs = vec![urgent("long"), said, urgent("short"), may_wait("whenever")];
    let (mut engine, worker) = engine(slots_and(jobs), &[("h", &["a"])]);
    let ids: Vec<_> = engine.jobs().collect();
    engine.set_allowances(worker, asked(true, true, 50.0));
    // Jobs without an estimate are taken to last a minute.
    assert_eq!(placed(&mut engine), ["said a", "whenever a"]);
    engine.set_learned(ids[0], Some(70.0));
    engine.set_learned(ids[1], Some(70.0));
    engine.set_learned(ids[2], Some(30.0));
    engine.set_learned(ids[3], Some(1e6));
    assert_eq!(placed(&mut engine), ["short a"]);
    let late = "no worker can take it now: 1 with so much to do that it would miss its deadline";
    assert_eq!(explain(&mut engine, "long", "a"), late);
    // A similar run time changes nothing.
    engine.set_learned(ids[0], Some(71.0));
    assert_eq!(placed(&mut engine), [""; 0]);
    engine.set_learned(ids[0], Some(20.0));
    assert_eq!(placed(&mut engine), ["long a"]);
}

#[test]
fn who_waits_for_a_host_hears_of_what_was_learned() {
    let mut config = slots_and(vec![urgent("j")]);
    config.jobs = vec![
        JobConfig {
            level_for_host_placement: Some(HOST),
            ..urgent("j")
        }
        .into(),
    ];
    let (mut engine, worker) = engine(config, &[("m1", &["a", "b"])]);
    engine.set_allowances(worker, asked(true, true, 50.0));
    assert_eq!(placed(&mut engine), [""; 0]);
    let id = engine.find_job("j").unwrap();
    engine.set_learned(id, Some(10.0));
    assert_eq!(placed(&mut engine), ["j a", "j b"]);
}

#[test]
fn what_was_learned_costs_a_look_a_worker_and_not_one_a_task() {
    const TASKS: usize = 1000;
    let nodes: Vec<String> = (0..TASKS).map(|n| format!("n{n:04}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut config = slots_and(vec![urgent("j")]);
    config.jobs = vec![
        JobConfig {
            level_for_host_placement: Some(HOST),
            ..urgent("j")
        }
        .into(),
    ];
    let hosts: [(&str, &[&str]); 3] = [("m1", &nodes), ("m2", &["other"]), ("m3", &["free"])];
    let (mut engine, first) = engine(config, &hosts);
    let [second, third] = [("w2", "m2"), ("w3", "m3")].map(|(name, host)| {
        let worker = engine.upsert_worker(&shard(name), on_host(host));
        engine.set_eligibility(worker, Eligibility::Eligible);
        worker
    });
    let id = engine.find_job("j").unwrap();
    let ready = |engine: &Engine| engine.queues.of(id).ready.iter().count();
    for (worker, delay) in [(first, 50.0), (second, 50.0), (third, 0.0)] {
        engine.set_allowances(worker, asked(true, true, delay));
    }
    assert_eq!(placed(&mut engine), ["j free"]);
    // All tasks wait for their hosts. None is woken while no such host has room.
    assert_eq!(ready(&engine), 0);
    engine.set_learned(id, Some(70.0));
    assert_eq!(ready(&engine), 0);
    engine.set_learned(id, Some(10.0));
    assert_eq!(ready(&engine), 2);
    // No task is left behind, because each wakes the next.
    assert_eq!(placed(&mut engine).len(), TASKS + 1);
}

#[test]
fn whoever_would_be_late_is_asked_once_a_request() {
    let jobs = vec![urgent("j"), may_wait("whenever")];
    let (mut engine, first) = engine(slots_and(jobs), &DBS);
    let second = engine.upsert_worker(&shard("w2"), on_host("m2"));
    engine.set_eligibility(second, Eligibility::Eligible);
    let by = |seq| {
        let asked = asked(true, true, 0.0).expect("it asks");
        Some(asked.by(Some(WorkRequestSeq(seq))))
    };
    engine.set_allowances(first, by(1));
    // The second worker requests no work, so no deadlines are checked there.
    engine.set_eligibility(second, Eligibility::Ineligible);
    let mut asked = Vec::new();
    let mut place = |engine: &mut Engine, tries: u32| {
        let mut judge = |worker, due: Due| {
            assert_eq!((due.estimate, due.bound), (60.0, 100.0));
            asked.push(worker);
            judged(false)
        };
        let mut tries = Tries::new(tries);
        let mut all = Vec::new();
        while let Some(placement) = engine.place_within(T0, &mut tries, &mut judge) {
            all.push(placement);
        }
        let started = (names(engine, &all), tries.are_left());
        (started, std::mem::take(&mut asked))
    };
    let whenever = DBS[0].1.iter().map(|node| format!("whenever {node}"));
    let whenever: Vec<String> = whenever.collect();
    assert_eq!(place(&mut engine, 9), ((whenever, true), vec![first]));
    let late = "no worker can take it now: 1 not healthy or busy, 1 with so much to do that it would miss its deadline";
    assert_eq!(explain(&mut engine, "j", "a"), late);
    let found = WorkFound { ready: 6, late: 6 };
    assert_eq!(engine.work_found(first), [(Processor::Cpu, found)].into());
    // The same request again changes nothing; a new request does.
    engine.set_allowances(first, by(1));
    assert_eq!(place(&mut engine, 9), ((vec![], true), vec![]));
    engine.set_allowances(first, by(2));
    assert_eq!(place(&mut engine, 9), ((vec![], true), vec![first]));
    // Less work at the worker changes nothing until the caller reports it.
    engine.forget_late(second);
    assert_eq!(place(&mut engine, 9), ((vec![], true), vec![]));
    engine.forget_late(first);
    assert_eq!(place(&mut engine, 9), ((vec![], true), vec![first]));
    // Each check costs a try.
    engine.set_allowances(first, by(3));
    assert_eq!(place(&mut engine, 1), ((vec![], false), vec![first]));
    // A worker without credit is not judged.
    engine.set_eligibility(second, Eligibility::Eligible);
    let ((started, _), asked) = place(&mut engine, 9);
    assert_eq!((started.len(), asked), (4, vec![]));
    engine.set_allowances(first, None);
    let ((started, _), asked) = place(&mut engine, 9);
    assert_eq!((started.len(), asked), (0, vec![]));
}

#[test]
fn a_look_at_deadlines_takes_as_many_tries_as_it_costs() {
    let (mut engine, worker) = engine(slots_and(vec![urgent("j")]), &DBS);
    engine.set_allowances(worker, asked(true, true, 0.0));
    let place = |engine: &mut Engine, tries: u32, is_in_time: bool| {
        let mut judge = |_, _| Judged {
            tries: 3,
            ..judged(is_in_time)
        };
        let mut tries = Tries::new(tries);
        let mut count = 0;
        while engine.place_within(T0, &mut tries, &mut judge).is_some() {
            count += 1;
        }
        (count, tries)
    };
    // Checks cost tries whether or not the task may go there, and the last check may cost more than was left.
    assert_eq!(place(&mut engine, 4, true), (2, Tries::new(0)));
    assert_eq!(place(&mut engine, 4, false), (0, Tries::new(1)));
    engine.forget_late(worker);
    assert_eq!(place(&mut engine, 99, true), (4, Tries::new(99 - 4 * 3)));
}

/// A slot is half of a GPU. The worker has two GPUs of model A and one of model B, in this order.
fn on_cards(jobs: Vec<JobConfig>) -> (Config, WorkerResources) {
    let resources = vec![
        resource("gpu", WORKER, 0, 0),
        resource("GPU: B", WORKER, 0, 0),
    ];
    let mut config = config(resources, jobs);
    cards_are(&mut config, "gpu", 0.5);
    let worker = WorkerResources {
        cards: cards(&["A", "A", "B"]),
        ..on_host("m1")
    };
    (config, worker)
}

fn takes(name: &str, resources: [i32; 2]) -> JobConfig {
    JobConfig {
        resources: resources.to_vec(),
        ..may_wait(name)
    }
}

/// The credit of a worker that wants work for model A, B or both, with and without queueing.
fn of_models(a: bool, b: bool, cards: CardChoice) -> Option<Allowances> {
    let of = |model: &str, is: bool| {
        let allowance = Allowance {
            bufferable: is,
            immediate: is,
            ..Allowance::NOTHING
        };
        (Processor::Cards(model.into()), allowance)
    };
    Some(Allowances::new([of("A", a), of("B", b)]).with_cards(cards))
}

#[test]
fn one_that_chooses_its_cards_is_sent_more_tasks_than_they_hold() {
    let (config, resources) = on_cards(vec![takes("w", [4, 0])]);
    let (mut engine, worker) = engine(config, &DBS);
    engine.upsert_worker(&shard("w1"), resources);
    engine.set_allowances(worker, of_models(true, false, CardChoice::Scheduler));
    // A task takes two GPUs, and three exist.
    let first = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &first), ["w a"]);
    assert_eq!(engine.gpus(first[0].task).len(), 2);
    assert_eq!(engine.gpus_wanted(first[0].task), None);
    engine.set_allowances(worker, of_models(true, false, CardChoice::Worker));
    let others = place_all(&mut engine, T0);
    assert_eq!(names(&engine, &others), ["w b", "w c", "w d", "w e", "w f"]);
    for placed in &others {
        assert_eq!(engine.gpus(placed.task), []);
        let wanted = engine.gpus_wanted(placed.task).unwrap();
        assert_eq!(wanted.need.amount(), 2.0);
        assert_eq!(wanted.counts_as.as_deref(), Some("A"));
    }
    // The engine records the GPUs that such a worker reports, and counts them as in use once it no longer chooses.
    engine.set_allowances(worker, None);
    let share = |device: &str, milli| GpuShare {
        device: device.into(),
        milli,
    };
    engine.learn_gpus(others[0].task, &[share("c2", 1000)]);
    assert_eq!(engine.gpus(others[0].task), [share("c2", 1000)]);
    for placed in first.iter().chain(&others[1..]) {
        end(&mut engine, T0, placed.task, StatusBits::DONE);
    }
    assert_eq!(engine.gpus(others[0].task).len(), 1);
    end(&mut engine, T0, others[0].task, StatusBits::DONE);
    assert_eq!(engine.running_count(), 0);
}

#[test]
fn what_a_machine_never_has_or_is_kept_back_there_is_not_sent() {
    // The task needs four GPUs. Below, a reserve of one GPU leaves room for two tasks at a time.
    let (config, resources) = on_cards(vec![takes("greedy", [8, 0])]);
    let (mut engine, worker) = self::engine(config, &DBS);
    engine.upsert_worker(&shard("w1"), resources.clone());
    engine.set_allowances(worker, of_models(true, true, CardChoice::Worker));
    assert_eq!(placed(&mut engine), [""; 0]);

    let (mut config, _) = on_cards(vec![takes("w", [2, 0])]);
    config.physical_resources[0].physical_reserve_amount = 1.0;
    let (mut engine, worker) = self::engine(config, &DBS);
    engine.upsert_worker(&shard("w1"), resources);
    engine.set_allowances(worker, of_models(true, true, CardChoice::Worker));
    assert_eq!(placed(&mut engine), ["w a", "w b"]);
}

#[test]
fn who_may_use_any_card_counts_as_the_first_model_that_was_asked_for() {
    let (config, resources) = on_cards(vec![takes("any", [1, 0])]);
    let any = config.jobs[0].clone();
    let (mut engine, worker) = engine(config.clone(), &DBS);
    engine.upsert_worker(&shard("w1"), resources);
    let card = |model: &str| Processor::Cards(model.into());
    for (a, b, counts_as) in [(true, true, "A"), (false, true, "B")] {
        for cards in [CardChoice::Worker, CardChoice::Scheduler] {
            engine.set_allowances(worker, of_models(a, b, cards));
            let placed = engine.place(T0).unwrap();
            // The task keeps the model that it was sent for, whatever is requested next.
            engine.set_allowances(worker, of_models(false, false, cards));
            let work = engine.work_of(&config, (&any, placed.task), worker);
            assert_eq!(work, (card(counts_as), 0.5));
            let chosen = engine.gpus(placed.task);
            match cards {
                CardChoice::Worker => assert_eq!(chosen, []),
                // A GPU of the requested model is chosen if one is free.
                CardChoice::Scheduler => {
                    let device = if counts_as == "A" { "c0" } else { "c2" };
                    assert_eq!(&*chosen[0].device, device);
                }
            }
            end(&mut engine, T0, placed.task, StatusBits::FAILED);
        }
    }
    // A task that needs one model is not sent for another one.
    let (config, resources) = on_cards(vec![takes("b", [0, 1])]);
    let (mut engine, worker) = self::engine(config, &DBS);
    engine.upsert_worker(&shard("w1"), resources);
    engine.set_allowances(worker, of_models(true, false, CardChoice::Worker));
    assert_eq!(placed(&mut engine), [""; 0]);
    engine.set_allowances(worker, of_models(false, true, CardChoice::Worker));
    assert_eq!(placed(&mut engine).len(), 6);
}

#[test]
fn cards_are_chosen_among_the_models_that_were_asked_for() {
    // The worker has two GPUs of each model, in this order.
    let on = |jobs| {
        let (config, resources) = on_cards(jobs);
        let resources = WorkerResources {
            cards: cards(&["A", "B", "A", "B"]),
            ..resources
        };
        let (mut engine, worker) = engine(config, &DBS);
        engine.upsert_worker(&shard("w1"), resources);
        (engine, worker)
    };
    let devices = |engine: &Engine, task| -> Vec<String> {
        let gpus = engine.gpus(task).iter();
        gpus.map(|share| share.device.to_string()).collect()
    };
    // Each task takes a whole GPU. The third is not sent, although GPUs of the other model are free.
    let (mut engine, worker) = on(vec![takes("whole", [2, 0])]);
    engine.set_allowances(worker, of_models(false, true, CardChoice::Scheduler));
    let all = place_all(&mut engine, T0);
    let of_all: Vec<_> = all.iter().map(|p| devices(&engine, p.task)).collect();
    assert_eq!(of_all, [["c1"], ["c3"]]);
    let third = explain(&mut engine, "whole", "c");
    assert!(third.contains("1 without room"), "{third}");
    // Both models are requested, so a task counts as the model that it has.
    engine.set_allowances(worker, of_models(true, true, CardChoice::Scheduler));
    end(&mut engine, T0, all[0].task, StatusBits::DONE);
    let more = place_all(&mut engine, T0);
    let config = engine.config().unwrap().clone();
    for placed in &more {
        let had = &devices(&engine, placed.task)[0];
        let model = if had == "c1" { "B" } else { "A" };
        let work = engine.work_of(&config, (&config.jobs[0], placed.task), worker);
        assert_eq!(work, (Processor::Cards(model.into()), 1.0));
    }
    assert_eq!(more.len(), 3);
    // A task that needs more GPUs than one model has gets some of each, and only if both were requested.
    for (a, cards) in [(true, vec!["c0", "c1", "c2"]), (false, vec![])] {
        let (mut engine, worker) = on(vec![takes("many", [6, 0])]);
        engine.set_allowances(worker, of_models(a, true, CardChoice::Scheduler));
        let placed = place_all(&mut engine, T0);
        let has: Vec<_> = placed
            .iter()
            .flat_map(|p| devices(&engine, p.task))
            .collect();
        assert_eq!(has, cards);
        // A missing request does not make the task impossible.
        assert!(!explain(&mut engine, "many", "a").contains("can never run"));
    }
}

#[test]
fn a_task_that_was_turned_down_lets_others_go_there_first() {
    let never_waits = |name: &str, slots: i32| JobConfig {
        bufferable: false,
        ..takes(name, [slots, 0])
    };
    let jobs = vec![never_waits("whole", 2), never_waits("half", 1)];
    let (config, resources) = on_cards(jobs);
    let (mut engine, worker) = engine(config, &DBS);
    engine.upsert_worker(&shard("w1"), resources);
    let request = |number| {
        let asked = of_models(true, false, CardChoice::Worker);
        asked.map(|asked| asked.by(Some(WorkRequestSeq(number))))
    };
    engine.set_allowances(worker, request(1));
    let whole = engine.place(T0).unwrap();
    assert_eq!(names(&engine, &[whole]), ["whole a"]);
    engine.note_turned_down(whole.task);
    engine.never_began(T0, whole.task, None, Restart::AtOnce);
    let is_whole = |name: &String| name.starts_with("whole");
    assert_eq!(
        placed(&mut engine).iter().filter(|n| is_whole(n)).count(),
        0
    );
    let why = explain(&mut engine, "whole", "a");
    let turned_down = "no worker can take it now: 1 without free GPUs for it a moment ago";
    assert_eq!(why, turned_down);
    let found = engine.work_found(worker)[&Processor::Cards("A".into())];
    assert!(found.ready > 0 && found.late == 0, "{found:?}");
    // A new request alone says nothing about the free part of each GPU.
    engine.set_allowances(worker, request(2));
    assert_eq!(placed(&mut engine), [""; 0]);
    engine.forget_turned_down(worker);
    assert_eq!(placed(&mut engine).len(), 6);

    // A worker without credit is like any other.
    let one = engine.find_job("whole").unwrap();
    let task = engine.tasks(one).next().unwrap();
    engine.note_turned_down(task);
    engine.never_began(T0, task, None, Restart::AtOnce);
    assert_eq!(placed(&mut engine), [""; 0]);
    engine.set_allowances(worker, None);
    assert!(!explain(&mut engine, "whole", "a").contains("a moment ago"));
}

/// A job whose tasks may not be queued, on a worker that chooses GPUs and was sent the first of them.
fn one_that_may_be_turned_down() -> (Engine, WorkerIndex, WorkerResources, Task) {
    let whole = JobConfig {
        bufferable: false,
        ..takes("whole", [2, 0])
    };
    let (config, resources) = on_cards(vec![whole]);
    let (mut engine, worker) = engine(config, &DBS);
    engine.upsert_worker(&shard("w1"), resources.clone());
    let asked = of_models(true, false, CardChoice::Worker);
    let asked = asked.map(|asked| asked.by(Some(WorkRequestSeq(1))));
    engine.set_allowances(worker, asked);
    let task = engine.place(T0).expect("it was asked for").task;
    (engine, worker, resources, task)
}

#[test]
fn what_a_removed_worker_turned_down_goes_to_the_next_one_in_its_place() {
    let (mut engine, worker, resources, task) = one_that_may_be_turned_down();
    engine.remove_worker(worker);
    engine.note_turned_down(task);
    engine.never_began(T0, task, None, Restart::AtOnce);
    let next = engine.upsert_worker(&shard("w2"), resources);
    assert_eq!(next, worker);
    engine.set_eligibility(next, Eligibility::Eligible);
    assert!(!placed(&mut engine).is_empty());
}

#[test]
fn what_a_worker_turned_down_that_chooses_no_gpus_any_more_goes_there() {
    let scheduler_chooses = of_models(true, false, CardChoice::Scheduler);
    let scheduler_chooses = scheduler_chooses.map(|asked| asked.by(Some(WorkRequestSeq(2))));
    for now in [None, scheduler_chooses] {
        // The worker turns the task down before its request changes, or after.
        for is_before in [true, false] {
            let (mut engine, worker, _, task) = one_that_may_be_turned_down();
            if is_before {
                engine.note_turned_down(task);
            }
            engine.set_allowances(worker, now.clone());
            if !is_before {
                engine.note_turned_down(task);
            }
            engine.never_began(T0, task, None, Restart::AtOnce);
            assert!(!placed(&mut engine).is_empty(), "{now:?} {is_before}");
        }
    }
}
