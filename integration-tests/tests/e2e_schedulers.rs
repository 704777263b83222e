//! Tests one worker with two schedulers: a failure of one scheduler does not affect the tasks of the other.

use std::time::Duration;

use integration_tests::e2e::{Client, Process, SchedulerSpec, Stage, wait_for};
use nix::sys::signal::Signal;

/// The undisturbed scheduler `x`, and the other one, `y`.
struct Sides {
    x: Side,
    y: Side,
    worker: Process,
}

struct Side {
    scheduler: Process,
    client: Client,
    stage: Stage,
}

const TASKS: usize = 2;

impl Side {
    fn start(stage: Stage, spec: &SchedulerSpec) -> Self {
        Side {
            scheduler: stage.start_scheduler(spec),
            client: Client::new(spec.port),
            stage,
        }
    }

    /// Returns the number of its living tasks, according to the kernel.
    fn alive(&self) -> usize {
        self.stage.alive().len()
    }

    fn wait_alive(&self, what: &str, count: usize) {
        wait_for(what, || (self.alive() == count).then_some(()));
    }

    /// Returns the worker instance that the scheduler knows.
    fn instance(&self) -> (Option<i64>, Option<i64>) {
        let status = self.client.wait_healthy(1);
        let workers = status.workers.unwrap_or_default();
        let instance = workers.into_iter().find_map(|worker| worker.instance);
        let instance = instance.expect("the worker is shown");
        (instance.start_time, instance.rand)
    }

    fn ran_each_task_once(&self) {
        let records = self.stage.records();
        let starts: Vec<usize> = records.starts().into_values().collect();
        assert_eq!(starts, [1; TASKS], "{records:?}");
        assert_eq!(records.finished(), TASKS);
    }
}

impl Sides {
    /// Starts two schedulers that run all their tasks, which have equal names, on one worker.
    fn running() -> Self {
        let (one, other) = (Stage::new(), Stage::new());
        let [config_x, config_y] = [&one, &other].map(|stage| {
            stage.hold();
            stage.write_work(TASKS, Duration::ZERO)
        });
        // A short delay of the machine must not make this scheduler lose its worker.
        let spec_x = one.calm_spec(&config_x);
        let spec_y = other.scheduler_spec(&config_y).with("--new-cluster");
        let mut spec = one.worker_spec("w", &spec_x);
        let second = format!("--scheduler={}:{},share=50", spec_y.address, spec_y.port);
        spec.flags.push(second);
        let (x, y) = (Side::start(one, &spec_x), Side::start(other, &spec_y));
        let worker = x.stage.start_worker(&spec);
        x.wait_alive("the tasks of the one to run", TASKS);
        y.wait_alive("the tasks of the other to run", TASKS);
        Sides { x, y, worker }
    }

    /// Checks that the worker runs Y's tasks again as another instance, and that X has not noticed.
    fn y_begins_anew(&self, before: (Option<i64>, Option<i64>)) {
        let y = &self.y;
        y.wait_alive("the tasks of the other to run again", TASKS);
        let after = y.instance();
        assert!(after.0 > before.0, "{after:?} after {before:?}");
        assert_eq!(self.x.alive(), TASKS);
    }

    fn finish(mut self) {
        for side in [&self.x, &self.y] {
            side.stage.release();
            side.client.wait_all_done();
        }
        self.x.ran_each_task_once();
        let records = self.y.stage.records();
        assert_eq!(records.overlaps, Vec::<String>::new(), "ran twice at once");
        assert!(records.starts().values().all(|&count| count > 1));
        self.worker.signal(Signal::SIGTERM);
        let ended = self.worker.wait();
        assert_eq!(ended.code(), Some(0), "{}", self.worker.output());
    }
}

#[test]
fn a_scheduler_that_is_away_for_too_long_costs_its_own_tasks_alone() {
    let mut sides = Sides::running();
    let [x, y] = [sides.x.instance(), sides.y.instance()];
    assert_ne!(x, y, "each knows another worker");
    sides.y.scheduler.signal(Signal::SIGSTOP);
    sides.y.wait_alive("the tasks of the silent one to end", 0);
    assert_eq!(sides.x.alive(), TASKS);
    // The worker waits for the silent scheduler without a limit.
    assert!(sides.worker.ended().is_none());
    sides.y.scheduler.signal(Signal::SIGCONT);
    sides.y_begins_anew(y);
    assert_eq!(sides.x.instance(), x);
    sides.finish();
}

#[test]
fn a_stopped_worker_loses_the_tasks_of_the_scheduler_whose_time_is_over_and_no_others() {
    let sides = Sides::running();
    let [x, y] = [sides.x.instance(), sides.y.instance()];
    sides.worker.signal_program(Signal::SIGSTOP);
    // The keeper ends the tasks, because the worker cannot.
    sides
        .y
        .wait_alive("the tasks of the impatient one to end", 0);
    assert_eq!(sides.x.alive(), TASKS);
    // The worker acts first and reports afterwards.
    sides.worker.wait_for_output("the worker's scheduler 2");
    let said = sides.worker.output();
    assert!(!said.contains("the worker's scheduler 1"), "{said}");
    sides.worker.signal_program(Signal::SIGCONT);
    sides.y_begins_anew(y);
    assert_eq!(sides.x.instance(), x);
    sides.finish();
}

#[test]
fn the_operators_wish_ends_the_tasks_of_both() {
    let mut sides = Sides::running();
    sides.worker.signal(Signal::SIGTERM);
    assert_eq!(sides.worker.wait().code(), Some(0));
    for side in [&sides.x, &sides.y] {
        assert_eq!(side.alive(), 0);
        side.stage.release();
    }
    let output = sides.worker.output();
    assert!(output.contains("give each a fixed partition"), "{output}");
}

#[test]
fn a_scheduler_with_two_names_is_worked_for_twice_and_loses_nothing() {
    let stage = Stage::new();
    let config = stage.write_work(3 * TASKS, Duration::ZERO);
    stage.hold();
    let scheduler_spec = stage.calm_spec(&config);
    let mut spec = stage.worker_spec("one", &scheduler_spec);
    let again = format!("--scheduler=localhost:{},shard=other", scheduler_spec.port);
    spec.flags.push(again);
    let _scheduler = stage.start_scheduler(&scheduler_spec);
    let worker = stage.start_worker(&spec);
    let client = Client::new(scheduler_spec.port);
    // Neither instance counts as the successor of the other.
    client.wait_healthy(2);
    wait_for("both to be full", || {
        (stage.alive().len() == 2 * TASKS).then_some(())
    });
    worker.wait_for_output("the same scheduler answers at 127.0.0.1");
    stage.release();
    client.wait_all_done();
    let records = stage.records();
    assert_eq!(records.overlaps, Vec::<String>::new(), "ran twice at once");
    assert!(records.starts().values().all(|&count| count == 1));
}
