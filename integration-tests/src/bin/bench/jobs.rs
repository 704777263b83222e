//! Measures a real scheduler with tens of thousands of jobs that wait because no slot is free: the cost of adding them by API and by file,
//! of one more job, of waiting, and the response times meanwhile.

use std::time::{Duration, Instant};

use brasserie_thrift::generated::brasserie::{
    BrasserieExplainTaskArgs, BrasserieExplainTaskResult, BrasserieGetClusterStatusArgs,
    BrasserieGetClusterStatusResult,
};
use brasserie_thrift::generated::scheduler::{
    BistroJobConfig, BistroSchedulerGetJobArgs, BistroSchedulerGetJobHistogramsArgs,
    BistroSchedulerGetJobHistogramsResult, BistroSchedulerGetJobResult,
};
use integration_tests::e2e::{Process, range_config, wait_within};
use serde_json::Value;

use crate::cluster::{BareStore, BenchCluster, PATIENCE, api_job, with_job};
use crate::figures::{BenchReport, Figure, per_second, times_ms, times_of};

/// Minimum jobs of a meaningful measurement.
pub const LEAST: usize = 1000;
/// Number of tasks of each job.
const NODES: usize = 10;
/// Sequential saves of one measurement.
const SAVES: usize = 200;
/// Saves in flight while the jobs are added.
const AT_A_TIME: usize = 64;
/// Number of queries of each kind.
const QUESTIONS: usize = 300;
/// Number of jobs in one histogram query.
const HISTOGRAMS: usize = 10;
/// Promised limit for each answer.
const MOST_ANSWER_MS: f64 = 50.0;
/// Time without calls, for the measurement at rest.
const REST: Duration = Duration::from_secs(10);
/// Promised limit for the share of one core at rest, which only the protocol's timers use.
const MOST_AT_REST: f64 = 0.01;
/// Promised limit for the growth of memory after all queries are repeated.
const MOST_GROWTH_MIB: f64 = 4.0;
/// Promised limit for the scheduler's cost of one more job, without the disk.
const MOST_SAVE_MS: f64 = 5.0;

/// A scheduler, a worker with one slot, and the task that holds it.
struct JobsBench {
    // Declared first, because fields are dropped in this order.
    _worker: Process,
    cluster: BenchCluster,
}

/// Measures with `jobs` jobs.
pub fn measure(jobs: usize) -> BenchReport {
    let mut lines = by_api(jobs);
    lines.extend(by_file(jobs));
    BenchReport::new("jobs", "bare sync", lines)
}

fn by_api(jobs: usize) -> Vec<Figure> {
    eprintln!("jobs: by API");
    let bench = JobsBench::start(0);
    let mut store = BareStore::new(&bench.cluster.stage);
    let bare = times_of(SAVES, |_| store.save()).at(50);
    let first = bench.saves("first");
    eprintln!("jobs: by API: {jobs} of them");
    let began = Instant::now();
    let all = (SAVES..jobs).map(|number| job(&format!("job{number}")));
    bench.cluster.client.save_jobs(all, AT_A_TIME);
    let rate = per_second(jobs.saturating_sub(SAVES), began.elapsed());
    let later = bench.saves("later");
    let what = format!("jobs by API, {AT_A_TIME} under way, to {jobs}");
    let mut lines = vec![
        Figure::new("saveJob with no other jobs, median", "ms", first.answered).beside(bare),
        Figure::new("  the scheduler's processor time for it", "ms", first.cost)
            .at_most(MOST_SAVE_MS),
        Figure::new(what, "/s", rate).more_is_better(),
        Figure::new(
            format!("saveJob with {jobs} jobs, median"),
            "ms",
            later.answered,
        )
        .beside(bare),
        Figure::new("  the scheduler's processor time for it", "ms", later.cost)
            .at_most(MOST_SAVE_MS),
    ];
    lines.extend(bench.questions(jobs, |number| {
        format!("job{}", SAVES + number % (jobs - SAVES))
    }));
    lines
}

fn by_file(jobs: usize) -> Vec<Figure> {
    eprintln!("jobs: by file: {jobs} of them");
    let began = Instant::now();
    let bench = JobsBench::start(jobs);
    let up = began.elapsed().as_secs_f64();
    eprintln!("jobs: by file: one of them changes");
    let changes = times_ms((0..3).map(|round| {
        let owner = format!("owner{round}");
        let text = config(jobs, &owner).to_string();
        let changed = Instant::now();
        bench.cluster.replace_config(&text);
        wait_within(PATIENCE, "the changed file to be in force", || {
            let found = bench.get_job("job0")?;
            (found.owner.as_deref() == Some(&owner)).then_some(())
        });
        changed.elapsed()
    }));
    let mut lines = vec![
        Figure::new(
            format!("start with {jobs} jobs in the file, until the first task runs"),
            "s",
            up,
        ),
        Figure::new(
            "one of them changed in the file, until it is in force, median",
            "ms",
            changes.at(50),
        ),
    ];
    lines.extend(bench.questions(jobs, |number| format!("job{}", number % jobs)));
    lines
}

impl JobsBench {
    /// Starts with `jobs` jobs in the file, besides the one whose first task holds the slot.
    fn start(jobs: usize) -> Self {
        let cluster = BenchCluster::start(&config(jobs, "bench"));
        let worker = cluster.start_worker("one");
        wait_within(PATIENCE, "the only slot to be taken", || {
            let status = cluster.client.status()?;
            let mut jobs = status.jobs.iter().flatten();
            jobs.any(|job| job.running == Some(1)).then_some(())
        });
        JobsBench {
            _worker: worker,
            cluster,
        }
    }

    fn saves(&self, name: &str) -> Saves {
        let began = self.cluster.processor_time();
        let took = times_of(SAVES, |number| {
            let job = job(&format!("{name}{number}"));
            let client = &self.cluster.client;
            client.save_job(job).expect("a good job is taken");
        });
        let cost = self.cluster.processor_time() - began;
        Saves {
            answered: took.at(50),
            cost: cost.as_secs_f64() * 1e3 / SAVES as f64,
        }
    }

    fn get_job(&self, name: &str) -> Option<BistroJobConfig> {
        let arguments = BistroSchedulerGetJobArgs {
            job_name: name.to_owned(),
        };
        let found = self.cluster.client.call("getJob", &arguments);
        let found: BistroSchedulerGetJobResult = found.ok()?;
        found.result_value
    }

    /// Measures the cost of waiting, and of answers meanwhile.
    fn questions(&self, jobs: usize, name: impl Fn(usize) -> String) -> Vec<Figure> {
        eprintln!("jobs: at rest");
        // The last added jobs may still need work, so the queries run once before.
        self.ask_all(&name);
        let began = (Instant::now(), self.cluster.processor_time());
        std::thread::sleep(REST);
        let share = (self.cluster.processor_time() - began.1).as_secs_f64()
            / began.0.elapsed().as_secs_f64();
        eprintln!("jobs: questions");
        self.ask_all(&name);
        let held = self.cluster.resident_mib();
        let mut lines = self.ask_all(&name);
        let growth = self.cluster.resident_mib() - held;
        lines.push(
            Figure::new(format!("share of a core at rest, {REST:?}"), "share", share)
                .at_most(MOST_AT_REST),
        );
        lines.push(Figure::new(
            format!("memory with {jobs} jobs, {NODES} nodes each"),
            "MiB",
            held,
        ));
        lines.push(
            Figure::new("  and more of it after all questions again", "MiB", growth)
                .at_most(MOST_GROWTH_MIB),
        );
        lines
    }

    fn ask_all(&self, name: &impl Fn(usize) -> String) -> Vec<Figure> {
        // The jobs are far apart, so that caches do not help.
        let scattered = |number: usize| name(number * 7919);
        let job = self.ask("getJob", |number| {
            self.get_job(&scattered(number))
                .expect("a job that was given");
        });
        let histograms = self.ask("getJobHistograms of 10 jobs", |number| {
            let jobs = (0..HISTOGRAMS).map(|more| scattered(number * HISTOGRAMS + more));
            let arguments = BistroSchedulerGetJobHistogramsArgs {
                jobs: jobs.collect(),
                samples: 10,
            };
            let found = self.cluster.client.call("getJobHistograms", &arguments);
            let found: BistroSchedulerGetJobHistogramsResult = found.expect("an answer");
            assert_eq!(found.result_value.map_or(0, |all| all.len()), HISTOGRAMS);
        });
        let explain = self.ask("explainTask", |number| {
            let arguments = BrasserieExplainTaskArgs {
                job: scattered(number),
                node: format!("n{}", 1 + number % NODES),
            };
            let found = self.cluster.client.call("explainTask", &arguments);
            let found: BrasserieExplainTaskResult = found.expect("an answer");
            assert!(
                found
                    .result_value
                    .is_some_and(|reasons| !reasons.is_empty())
            );
        });
        let status = self.ask_some("getClusterStatus, all counts", 10, |_| {
            let found = self
                .cluster
                .client
                .call("getClusterStatus", &BrasserieGetClusterStatusArgs {});
            let found: BrasserieGetClusterStatusResult = found.expect("an answer");
            assert!(found.result_value.is_some());
        });
        let promised = [job, histograms, explain].into_iter().flatten();
        let promised = promised.map(|line| line.at_most(MOST_ANSWER_MS));
        promised.chain(status).collect()
    }

    fn ask(&self, what: &str, question: impl Fn(usize)) -> [Figure; 2] {
        self.ask_some(what, QUESTIONS, question)
    }

    fn ask_some(&self, what: &str, count: usize, question: impl Fn(usize)) -> [Figure; 2] {
        let took = times_of(count, question);
        [
            Figure::new(format!("{what}, median of {count}"), "ms", took.at(50)),
            Figure::new(format!("{what}, longest"), "ms", took.at(100)),
        ]
    }
}

/// One measurement of saves.
struct Saves {
    /// Median, in milliseconds.
    answered: f64,
    /// Processor time of the scheduler, in milliseconds for each save.
    cost: f64,
}

/// Returns a job as submitted through the API. It never starts, because no slot is free.
fn job(name: &str) -> BistroJobConfig {
    api_job(name.to_owned(), vec!["/bin/true".to_owned()])
}

fn config(jobs: usize, owner_of_first: &str) -> Value {
    // The task of this job runs for longer than any measurement.
    let blocker = ["/bin/sleep", "100000"];
    let mut all = with_job(range_config(NODES, Some(1)), "blocker", blocker);
    for number in 0..jobs {
        all = with_job(all, &format!("job{number}"), ["/bin/true"]);
    }
    if jobs > 0 {
        all["bistro_job->job0"]["owner"] = owner_of_first.into();
    }
    all
}
