//! Measures the cost of verdicts for all pull workers.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{Processor, Time, WorkRequestSeq};
use brasserie_common_config::Config;
use brasserie_scheduler_engine::{Allowance, Allowances, Engine, WorkerIndex};

use super::workload::{DATABASES_A_HOST, Size, WORKERS, worker_name};
use super::{Figure, Scale};
use crate::meter::timed;

/// Number of groups of jobs with different estimates.
const GROUPS: u64 = 100;
/// Promised limit in microseconds for one worker. Serving its request may take some tens of microseconds.
const VERDICT: f64 = 20.0;

/// Computes verdicts about ready tasks of many jobs for all workers in turn. The baseline walks over the jobs for each worker.
pub fn asking(scale: Scale) -> Vec<Figure> {
    let jobs = match scale {
        Scale::Smoke => 200,
        Scale::Usual | Scale::Large => 10_000,
    };
    let size = Size::of_nodes(DATABASES_A_HOST, jobs);
    let mut config = size.config();
    say_how_long(&mut config);
    let config = Arc::new(config);
    let table = Arc::new(size.table(&config));
    let mut engine = size.pool();
    engine.apply_config(Time::ZERO, config);
    engine.apply_nodes(Time::ZERO, table);
    let workers: Vec<WorkerIndex> = (0..WORKERS)
        .filter_map(|number| engine.find_worker(&worker_name(number)))
        .collect();
    assert_eq!(workers.len(), WORKERS, "all are there");
    let allowance = Allowance {
        bufferable: true,
        immediate: true,
        instance_secs: 60.0,
        estimated_delay: 10.0,
        ..Allowance::NOTHING
    };
    let of_cpu = Allowances::new([(Processor::Cpu, allowance)]).by(Some(WorkRequestSeq(1)));
    for worker in &workers {
        engine.set_allowances(*worker, Some(of_cpu.clone()));
    }
    let ready = |worker: &WorkerIndex| {
        let found = engine.work_found(*worker);
        found.values().map(|found| found.ready).sum::<u64>()
    };
    let (told, verdicts) = timed(|| workers.iter().map(ready).sum::<u64>());
    let (walked, walks) = timed(|| workers.iter().map(|_| walk(&engine)).sum::<u64>());
    assert_eq!(told, walked, "both find the same");
    assert_eq!(told, (WORKERS * jobs * size.nodes()) as u64, "all is ready");
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / WORKERS as f64;
    let line = Figure::new(
        format!("{WORKERS} workers ask, {jobs} jobs in {GROUPS} groups: what there is for one"),
        "us",
        micros(verdicts),
    )
    .beside(micros(walks));
    vec![scale.at_most(line, VERDICT)]
}

/// Sets estimates and deadlines, because placement checks the estimate only of jobs with a deadline.
fn say_how_long(config: &mut Config) {
    for (number, shared) in (0_u64..).zip(&mut config.jobs) {
        let mut job = (**shared).clone();
        job.task_subprocess.deadline = Some(Duration::from_secs(3600));
        job.est_duration = Some(Duration::from_secs(1 + number % GROUPS));
        *shared = job.into();
    }
}

/// Counts the ready tasks, which are all unstarted tasks, because no task runs.
fn walk(engine: &Engine) -> u64 {
    let unstarted = engine.jobs().map(|job| engine.counts(job).unstarted);
    unstarted.sum()
}
