//! Tests of how often the inputs of tasks are looked up that wait for a worker with most of them.

use std::time::Duration;

use brasserie_common::{StatusBits, Time};
use brasserie_common_config::{InputNodes, InputSource, JobConfig, JobInput};

use super::world::{
    WORKER, config, end, engine, job, job_name, names, on_host, resource, seconds, shard,
};
use crate::{
    Advice, Due, Eligibility, Engine, Judged, NearWorker, Placement, Task, Tries, WorkerIndex,
};

const READERS: usize = 8;

/// Advice that one worker has all inputs.
struct Counted {
    near: WorkerIndex,
    /// The tries of one look at all inputs.
    cost: u32,
    has_inputs: bool,
    /// The number of questions for near workers, and for inputs.
    asked: (usize, usize),
}

impl Advice for Counted {
    fn judge(&mut self, _: WorkerIndex, _: Due) -> Judged {
        Judged::UNSEEN
    }

    fn nearest(&mut self, _: &Engine, _: Task) -> (Vec<NearWorker>, u32) {
        self.asked.0 += 1;
        let (worker, bytes) = (self.near, 10);
        (vec![NearWorker { worker, bytes }], self.cost)
    }

    fn has_inputs(&mut self, _: &Engine, _: Task) -> bool {
        self.asked.1 += 1;
        self.has_inputs
    }
}

impl Counted {
    fn new(near: WorkerIndex, cost: u32) -> Self {
        Counted {
            near,
            cost,
            has_inputs: true,
            asked: (0, 0),
        }
    }
}

fn reader(number: usize) -> JobConfig {
    let source = InputSource::Job {
        job: job_name("make"),
        nodes: InputNodes::Same,
        path: None,
    };
    JobConfig {
        inputs: vec![JobInput { source, name: None }],
        locality_wait: Duration::from_secs(60),
        ..job(&format!("read{number}"))
    }
}

/// Places tasks until no more start.
fn place_all(engine: &mut Engine, now: Time, advice: &mut Counted) -> Vec<Placement> {
    let place = || engine.place_within(now, &mut Tries::endless(), advice);
    std::iter::from_fn(place).collect()
}

#[test]
fn tasks_that_wait_for_a_worker_are_looked_up_once_however_often_others_take_its_slot() {
    let jobs = (0..READERS).map(reader);
    let jobs = std::iter::once(job("busy")).chain(jobs).collect();
    let slot = resource("slot", WORKER, 1, 1);
    let (mut engine, near) = engine(config(vec![slot], jobs), &[("m1", &["db"])]);
    let mut advice = Counted::new(near, 0);
    let mut running = place_all(&mut engine, seconds(1), &mut advice);
    assert_eq!(names(&engine, &running), ["busy db"]);
    assert_eq!(advice.asked, (0, 0));
    let other = engine.upsert_worker(&shard("w2"), on_host("m2"));
    engine.set_eligibility(other, Eligibility::Eligible);
    assert!(place_all(&mut engine, seconds(1), &mut advice).is_empty());
    assert_eq!(advice.asked, (READERS, READERS));
    // One of them gets each free slot.
    for second in 2..8 {
        let ended = running[0].task;
        end(&mut engine, seconds(second), ended, StatusBits::DONE);
        running = place_all(&mut engine, seconds(second), &mut advice);
        assert_eq!(running.len(), 1);
        assert_eq!(running[0].worker, near);
    }
    assert_eq!(advice.asked, (READERS, READERS));
    // The wait of the others ends by its time. They are looked up again.
    let late = place_all(&mut engine, seconds(61), &mut advice);
    assert_eq!(late.len(), 1);
    assert_eq!(late[0].worker, other);
    assert_eq!(advice.asked, (READERS + 1, READERS));
}

#[test]
fn a_task_that_has_waited_for_a_worker_costs_the_tries_of_its_inputs_when_it_starts() {
    let jobs = std::iter::once(job("busy")).chain((0..2).map(reader));
    let slot = resource("slot", WORKER, 1, 1);
    let (mut engine, near) = engine(config(vec![slot], jobs.collect()), &[("m1", &["db"])]);
    let mut advice = Counted::new(near, 100);
    let busy = place_all(&mut engine, seconds(1), &mut advice)[0].task;
    let other = engine.upsert_worker(&shard("w2"), on_host("m2"));
    engine.set_eligibility(other, Eligibility::Eligible);
    assert!(place_all(&mut engine, seconds(1), &mut advice).is_empty());
    end(&mut engine, seconds(2), busy, StatusBits::DONE);
    let mut tries = Tries::new(50);
    let first = engine.place_within(seconds(2), &mut tries, &mut advice);
    assert_eq!(first.map(|placement| placement.worker), Some(near));
    assert!(!tries.are_left());
    // The other one lacks a free slot only, and goes on waiting at the cost of one try.
    let mut tries = Tries::new(50);
    assert_eq!(
        engine.place_within(seconds(2), &mut tries, &mut advice),
        None
    );
    assert!(tries.are_left());
    assert_eq!(advice.asked, (2, 2));
}

#[test]
fn a_task_whose_inputs_are_lost_while_it_waits_does_not_wait_for_the_next_worker() {
    let jobs = vec![job("busy"), job("idle"), reader(0)];
    let slot = resource("slot", WORKER, 1, 1);
    let (mut engine, first) = engine(config(vec![slot], jobs), &[("m1", &["db"])]);
    let [second, third] = ["2", "3"].map(|number| {
        let worker = engine.upsert_worker(
            &shard(&format!("w{number}")),
            on_host(&format!("m{number}")),
        );
        if number == "2" {
            engine.set_eligibility(worker, Eligibility::Eligible);
        }
        worker
    });
    let mut advice = Counted::new(first, 0);
    // Both workers are in use.
    let running = place_all(&mut engine, seconds(1), &mut advice);
    assert_eq!(names(&engine, &running), ["busy db", "idle db"]);
    engine.set_eligibility(third, Eligibility::Eligible);
    assert!(place_all(&mut engine, seconds(2), &mut advice).is_empty());
    assert_eq!(advice.asked.1, 1);
    engine.set_eligibility(first, Eligibility::Ineligible);
    (advice.near, advice.has_inputs) = (second, false);
    // The caller finds out at the start that an input is lost.
    let started = place_all(&mut engine, seconds(3), &mut advice);
    assert_eq!(
        started.iter().map(|one| one.worker).collect::<Vec<_>>(),
        [third]
    );
    assert_eq!(advice.asked.1, 2);
}
