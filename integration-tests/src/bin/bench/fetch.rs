//! Compares the same scheduler, worker and tasks in two modes: the worker is sent tasks for its free slots (push), or requests work (pull).
//!
//! A measurement is a window of time after a warm-up, with more tasks than can run. So slow cases take no more time than fast ones.

mod counter;

use std::time::{Duration, Instant};

use integration_tests::e2e::{Process, range_config, wait_within};
use serde_json::Value;

use crate::cluster::{BenchCluster, PATIENCE, processors, with_job};
use crate::figures::{BenchReport, Figure, Pair, Samples, times_ms};
use crate::marks::FirstWrites;
use crate::meter::{MachineMeter, Meter};
use counter::{CallCounts, Counter};

/// Warm-up after the first completion, enough for several requests of a worker and for learning the times of tasks.
const WARM_UP: Duration = Duration::from_secs(4);
/// Maximum completions a second for each processor, above any machine of these measurements.
const MOST_RATE: f64 = 3000.0;
/// Submissions of a measurement, for each pause.
const SUBMISSIONS: usize = 40;
/// Pauses between a task's first write and the next submission: barely until its completion, or long enough for every wait of the worker.
const RESTS: [Duration; 2] = [Duration::from_millis(25), Duration::from_millis(700)];

/// The side that decides the amount of work on the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Push,
    Pull,
}

/// Tasks of one kind.
#[derive(Clone, Copy, Debug)]
struct BenchWorkload {
    name: &'static str,
    task: BenchTask,
    /// Whether the task may be queued on the worker.
    bufferable: bool,
    /// The job's estimate of its duration, in seconds.
    estimate: Option<f64>,
}

#[derive(Clone, Copy, Debug)]
enum BenchTask {
    /// A process that ends at once.
    Nothing,
    /// A process that sleeps for this many seconds.
    Sleep(f64),
}

const WORKLOADS: [BenchWorkload; 5] = [
    BenchWorkload {
        name: "true",
        task: BenchTask::Nothing,
        bufferable: false,
        estimate: None,
    },
    BenchWorkload {
        name: "true, bufferable",
        task: BenchTask::Nothing,
        bufferable: true,
        estimate: None,
    },
    BenchWorkload {
        name: "true, bufferable, estimated",
        task: BenchTask::Nothing,
        bufferable: true,
        estimate: Some(0.002),
    },
    BenchWorkload {
        name: "200 ms, bufferable",
        task: BenchTask::Sleep(0.2),
        bufferable: true,
        estimate: None,
    },
    BenchWorkload {
        name: "20 ms",
        task: BenchTask::Sleep(0.02),
        bufferable: false,
        estimate: None,
    },
];

/// The result of a window.
#[derive(Clone, Copy, Debug)]
struct FetchSample {
    /// Tasks a second.
    rate: f64,
    /// The idle part of the processors: of the whole machine, or, for sleeping tasks, the processors without a task.
    idle: f64,
    /// Processor time for each task, in microseconds.
    scheduler_us: f64,
    worker_us: f64,
}

/// A push and a pull measurement.
type PushPull<T> = [T; 2];

/// Measures pairs, each for this many seconds.
pub fn measure(seconds: u64, pairs: usize) -> BenchReport {
    let window = Duration::from_secs(seconds);
    let mut lines = Vec::new();
    for workload in &WORKLOADS {
        let samples = Samples::take("fetch", pairs, |pair| {
            in_both(&pair, workload.name, |mode| sample(workload, mode, window))
        });
        lines.extend(rates(workload, &samples));
        eprintln!("fetch: calls of {}", workload.name);
        lines.extend(calls(
            workload,
            [Mode::Push, Mode::Pull].map(|mode| count(workload, mode, window)),
        ));
    }
    for rest in RESTS {
        let name = format!("submissions {} ms apart", rest.as_millis());
        let samples = Samples::take("fetch", pairs, |pair| {
            in_both(&pair, &name, |mode| latencies(mode, rest))
        });
        lines.extend(delays(&name, &samples));
    }
    BenchReport::new("fetch: pull beside push", "push", lines)
}

/// Runs both modes in alternating order, so that neither is always the first on a rested machine.
fn in_both<T>(pair: &Pair<'_>, name: &str, mut run: impl FnMut(Mode) -> T) -> PushPull<T> {
    let mut run = |mode| {
        pair.begin(&format!("{name}: {mode:?}"));
        run(mode)
    };
    match pair.number.is_multiple_of(2) {
        true => {
            let push = run(Mode::Push);
            [push, run(Mode::Pull)]
        }
        false => {
            let pull = run(Mode::Pull);
            [run(Mode::Push), pull]
        }
    }
}

fn rates(workload: &BenchWorkload, samples: &Samples<PushPull<FetchSample>>) -> Vec<Figure> {
    let name = workload.name;
    let of = |of: fn(&FetchSample) -> f64| {
        let middle = |mode: usize| samples.median(|pair| of(&pair[mode]));
        (middle(0), middle(1))
    };
    let line = |what: &str, unit, (push, pull): (f64, f64)| {
        Figure::new(format!("{name}: {what}"), unit, pull).beside(push)
    };
    let mut lines = vec![
        line("tasks a second", "/s", of(|s| s.rate)).more_is_better(),
        Figure::new(
            format!("{name}: share of push, median of the pairs"),
            "",
            samples.median(|[push, pull]| pull.rate / push.rate),
        )
        .more_is_better(),
        line("idle part of the processors", "", of(|s| s.idle)),
        line("scheduler a task", "us", of(|s| s.scheduler_us)),
        line("worker a task", "us", of(|s| s.worker_us)),
    ];
    if let BenchTask::Sleep(long) = workload.task {
        let middle = |mode: usize| samples.median(|pair| gap_ms(pair[mode].rate, long));
        lines.push(line("from an end to a start", "ms", (middle(0), middle(1))));
    }
    lines
}

/// Returns the average time in milliseconds from the end of a task's sleep to the beginning of the next one on a processor, including the
/// start.
fn gap_ms(rate: f64, long: f64) -> f64 {
    (processors() / rate - long) * 1e3
}

fn calls(workload: &BenchWorkload, [push, pull]: PushPull<EachTask>) -> Vec<Figure> {
    let line = |what: &str, push: f64, pull: f64| {
        Figure::new(format!("{}: {what}", workload.name), "", pull).beside(push)
    };
    vec![
        line("calls a task, both ways", push.all(), pull.all()),
        line("requests for work a task", push.requests, pull.requests),
        line("reports of ends a task", push.statuses, pull.statuses),
        line("heartbeats a task", push.heartbeats, pull.heartbeats),
    ]
}

fn delays(name: &str, samples: &Samples<PushPull<Vec<Duration>>>) -> Vec<Figure> {
    let of = |mode: usize| times_ms(samples.iter().flat_map(|pair| pair[mode].iter().copied()));
    let (push, pull) = (of(0), of(1));
    [(50, "median"), (90, "90 of 100"), (100, "longest")]
        .map(|(percent, what)| {
            Figure::new(
                format!("{name}: to the process, {what}"),
                "ms",
                pull.at(percent),
            )
            .beside(push.at(percent))
        })
        .into()
}

// ---- one measurement ----

/// A scheduler and a worker.
struct FetchBench {
    // Declared first, because fields are dropped in this order.
    worker: Process,
    cluster: BenchCluster,
    /// The proxy that counts the worker's calls, if they are counted.
    counter: Option<Counter>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    Yes,
    No,
}

impl FetchBench {
    fn start(config: &Value, mode: Mode, counted: Counted) -> Self {
        let cluster = BenchCluster::start(config);
        cluster.wait_for_nodes();
        let counter = match counted {
            Counted::Yes => Some(Counter::before(cluster.spec.port)),
            Counted::No => None,
        };
        let worker = start_worker(&cluster, mode, counter.as_ref());
        // The worker and its keeper cannot be told apart before this line.
        worker.wait_for_output("the worker takes calls");
        cluster.client.wait_healthy(1);
        FetchBench {
            worker,
            cluster,
            counter,
        }
    }

    fn done(&self) -> (i64, i64) {
        wait_within(PATIENCE, "an answer", || {
            let job = self.cluster.client.status()?.jobs?.into_iter().next()?;
            Some((job.done?, job.total?))
        })
    }

    /// Returns the completions in the window after the warm-up, the length of the window, and the result of `begin`.
    fn window<T>(&self, long: Duration, begin: impl FnOnce() -> T) -> (f64, Duration, T) {
        wait_within(PATIENCE, "the first end", || {
            (self.done().0 > 0).then_some(())
        });
        std::thread::sleep(WARM_UP);
        let begun = begin();
        let (before, _) = self.done();
        let started = Instant::now();
        std::thread::sleep(long);
        let (after, total) = self.done();
        let lasted = started.elapsed();
        assert!(after < total, "all {total} tasks were done too soon");
        ((after - before) as f64, lasted, begun)
    }
}

fn start_worker(cluster: &BenchCluster, mode: Mode, counter: Option<&Counter>) -> Process {
    let mut worker = cluster.stage.worker_spec("one", &cluster.spec);
    worker.flags.clear();
    if mode == Mode::Pull {
        worker.flags.push("--work-fetch=cluster".to_owned());
    }
    if let Some(counter) = counter {
        worker.scheduler = format!("127.0.0.1:{}", counter.port);
    }
    cluster.stage.start_worker(&worker)
}

/// Returns a config with enough nodes for any window. It declares no slots, so a worker has one for each processor, as much as it requests.
fn config(workload: &BenchWorkload, window: Duration) -> Value {
    let most = match workload.task {
        BenchTask::Nothing => MOST_RATE,
        BenchTask::Sleep(seconds) => 1.0 / seconds,
    };
    let seconds = (window + 3 * WARM_UP).as_secs_f64();
    let nodes = (most * processors() * seconds) as usize;
    let command = match workload.task {
        BenchTask::Nothing => vec!["/bin/true".to_owned()],
        BenchTask::Sleep(seconds) => vec!["/bin/sleep".to_owned(), seconds.to_string()],
    };
    let mut config = with_job(range_config(nodes, None), "work", command);
    let job = &mut config["bistro_job->work"];
    job["bufferable"] = workload.bufferable.into();
    if let Some(estimate) = workload.estimate {
        job["est_duration"] = estimate.into();
    }
    config
}

fn sample(workload: &BenchWorkload, mode: Mode, window: Duration) -> FetchSample {
    let bench = FetchBench::start(&config(workload, window), mode, Counted::No);
    let (tasks, lasted, (machine, of_scheduler, of_worker)) = bench.window(window, || {
        (
            MachineMeter::start(),
            Meter::start(bench.cluster.scheduler.id()),
            Meter::start(bench.worker.program()),
        )
    });
    let rate = tasks / lasted.as_secs_f64();
    let each = |used: Duration| used.as_secs_f64() * 1e6 / tasks;
    FetchSample {
        rate,
        idle: match workload.task {
            BenchTask::Nothing => machine.idle(),
            BenchTask::Sleep(seconds) => 1.0 - rate * seconds / processors(),
        },
        scheduler_us: each(of_scheduler.used()),
        worker_us: each(of_worker.used()),
    }
}

/// The number of calls for each task.
#[derive(Clone, Copy, Debug)]
struct EachTask {
    requests: f64,
    statuses: f64,
    heartbeats: f64,
    others: f64,
}

impl EachTask {
    /// Includes the call that starts the task: one for each task, because none is refused here.
    fn all(self) -> f64 {
        1.0 + self.requests + self.statuses + self.heartbeats + self.others
    }
}

/// Counts in a separate run, because counting costs time.
fn count(workload: &BenchWorkload, mode: Mode, window: Duration) -> EachTask {
    let bench = FetchBench::start(&config(workload, window), mode, Counted::Yes);
    let counter = bench.counter.as_ref().expect("it counts");
    let (tasks, _, before) = bench.window(window, || counter.calls());
    let CallCounts {
        requests,
        statuses,
        heartbeats,
        others,
    } = counter.calls().since(before);
    let each = |calls: u64| calls as f64 / tasks;
    EachTask {
        requests: each(requests),
        statuses: each(statuses),
        heartbeats: each(heartbeats),
        others: each(others),
    }
}

/// Measures from sending a job to the first write of its process, one job at a time.
fn latencies(mode: Mode, rest: Duration) -> Vec<Duration> {
    let bench = FetchBench::start(&range_config(1, None), mode, Counted::No);
    let marks = FirstWrites::new(&bench.cluster.stage);
    let submissions = (0..SUBMISSIONS).map(|number| {
        std::thread::sleep(rest);
        marks.submit(&bench.cluster, number).1
    });
    submissions.collect()
}
