//! Measures a real scheduler with tens of thousands of jobs that wait because no slot is free: the cost of adding them by API and by file,
//! of one more job, of waiting, and the response times meanwhile.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use brasserie_thrift::generated::brasserie::{
    BrasserieExplainTaskArgs, BrasserieExplainTaskResult, BrasserieGetClusterStatusArgs,
    BrasserieGetClusterStatusResult,
};
use brasserie_thrift::generated::scheduler::{
    BistroJobConfig, BistroSchedulerGetJobArgs, BistroSchedulerGetJobHistogramsArgs,
    BistroSchedulerGetJobHistogramsResult, BistroSchedulerGetJobResult,
};
use integration_tests::e2e::{
    Client, Process, Programs, SchedulerSpec, Stage, resident_bytes, used_processor_time,
    wait_within,
};
use serde_json::{Map, Value, json};

use crate::figures::{Line, Report, times_ms};

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
/// Limit for each step, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// A scheduler, a worker with one slot, and the task that holds it.
struct Bench {
    scheduler: Process,
    _worker: Process,
    client: Client,
    stage: Stage,
}

/// Measures with `jobs` jobs.
pub fn measure(jobs: usize) -> Report {
    let mut lines = by_api(jobs);
    lines.extend(by_file(jobs));
    Report::new("jobs", "bare sync", lines)
}

fn by_api(jobs: usize) -> Vec<Line> {
    eprintln!("jobs: by API");
    let bench = Bench::start(0);
    let bare = bare_syncs(&bench.stage.path("rows"));
    let first = bench.saves("first");
    eprintln!("jobs: by API: {jobs} of them");
    let began = Instant::now();
    let all = (SAVES..jobs).map(|number| job(&format!("job{number}")));
    bench.client.save_jobs(all, AT_A_TIME);
    let rate = jobs.saturating_sub(SAVES) as f64 / began.elapsed().as_secs_f64();
    let later = bench.saves("later");
    let what = format!("jobs by API, {AT_A_TIME} under way, to {jobs}");
    let mut lines = vec![
        Line::new("saveJob with no other jobs, median", "ms", first.answered).beside(bare),
        Line::new("  the scheduler's processor time for it", "ms", first.cost)
            .at_most(MOST_SAVE_MS),
        Line::new(what, "/s", rate).more_is_better(),
        Line::new(
            format!("saveJob with {jobs} jobs, median"),
            "ms",
            later.answered,
        )
        .beside(bare),
        Line::new("  the scheduler's processor time for it", "ms", later.cost)
            .at_most(MOST_SAVE_MS),
    ];
    lines.extend(bench.questions(jobs, |number| {
        format!("job{}", SAVES + number % (jobs - SAVES))
    }));
    lines
}

fn by_file(jobs: usize) -> Vec<Line> {
    eprintln!("jobs: by file: {jobs} of them");
    let began = Instant::now();
    let bench = Bench::start(jobs);
    let up = began.elapsed().as_secs_f64();
    eprintln!("jobs: by file: one of them changes");
    let mut changes: Vec<f64> = Vec::new();
    for round in 0..3 {
        let owner = format!("owner{round}");
        let text = config(jobs, &owner);
        let changed = Instant::now();
        replace(&bench.stage, &text);
        wait_within(PATIENCE, "the changed file to be in force", || {
            let found = bench.get_job("job0")?;
            (found.owner.as_deref() == Some(&owner)).then_some(())
        });
        changes.push(changed.elapsed().as_secs_f64() * 1e3);
    }
    let mut lines = vec![
        Line::new(
            format!("start with {jobs} jobs in the file, until the first task runs"),
            "s",
            up,
        ),
        Line::new(
            "one of them changed in the file, until it is in force, median",
            "ms",
            crate::median(changes.into_iter()),
        ),
    ];
    lines.extend(bench.questions(jobs, |number| format!("job{}", number % jobs)));
    lines
}

impl Bench {
    /// Starts with `jobs` jobs in the file, besides the one whose first task holds the slot.
    fn start(jobs: usize) -> Self {
        let stage = Stage::with(Programs::this_one());
        let file = stage.write("config.json", &config(jobs, "bench"));
        let mut spec: SchedulerSpec = stage.scheduler_spec(&file).with("--new-cluster");
        // Uses default timeouts, like users.
        spec.flags.retain(|flag| flag == "--new-cluster");
        let scheduler = stage.start_scheduler(&spec);
        let client = Client::new(spec.port);
        let worker = stage.start_worker(&stage.worker_spec("one", &spec));
        wait_within(PATIENCE, "the only slot to be taken", || {
            let status = client.status()?;
            let mut jobs = status.jobs.iter().flatten();
            jobs.any(|job| job.running == Some(1)).then_some(())
        });
        Bench {
            scheduler,
            _worker: worker,
            client,
            stage,
        }
    }

    fn saves(&self, name: &str) -> Saves {
        let began = self.processor_time();
        let took = (0..SAVES).map(|number| {
            let job = job(&format!("{name}{number}"));
            let sent = Instant::now();
            self.client.save_job(job).expect("a good job is taken");
            sent.elapsed()
        });
        let took = times_ms(took);
        let cost = self.processor_time() - began;
        Saves {
            answered: took.at(50),
            cost: cost.as_secs_f64() * 1e3 / SAVES as f64,
        }
    }

    fn processor_time(&self) -> Duration {
        used_processor_time(self.scheduler.id()).expect("the scheduler lives")
    }

    fn resident_mib(&self) -> f64 {
        let bytes = resident_bytes(self.scheduler.id()).expect("the scheduler lives");
        bytes as f64 / f64::from(1 << 20)
    }

    fn get_job(&self, name: &str) -> Option<BistroJobConfig> {
        let arguments = BistroSchedulerGetJobArgs {
            job_name: name.to_owned(),
        };
        let found = self.client.call("getJob", &arguments);
        let found: BistroSchedulerGetJobResult = found.ok()?;
        found.result_value
    }

    /// Measures the cost of waiting, and of answers meanwhile.
    fn questions(&self, jobs: usize, name: impl Fn(usize) -> String) -> Vec<Line> {
        eprintln!("jobs: at rest");
        // The last added jobs may still need work, so the queries run once before.
        self.ask_all(&name);
        let began = (Instant::now(), self.processor_time());
        std::thread::sleep(REST);
        let share =
            (self.processor_time() - began.1).as_secs_f64() / began.0.elapsed().as_secs_f64();
        eprintln!("jobs: questions");
        self.ask_all(&name);
        let held = self.resident_mib();
        let mut lines = self.ask_all(&name);
        let growth = self.resident_mib() - held;
        lines.push(
            Line::new(format!("share of a core at rest, {REST:?}"), "share", share)
                .at_most(MOST_AT_REST),
        );
        lines.push(Line::new(
            format!("memory with {jobs} jobs, {NODES} nodes each"),
            "MiB",
            held,
        ));
        lines.push(
            Line::new("  and more of it after all questions again", "MiB", growth)
                .at_most(MOST_GROWTH_MIB),
        );
        lines
    }

    fn ask_all(&self, name: &impl Fn(usize) -> String) -> Vec<Line> {
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
            let found = self.client.call("getJobHistograms", &arguments);
            let found: BistroSchedulerGetJobHistogramsResult = found.expect("an answer");
            assert_eq!(found.result_value.map_or(0, |all| all.len()), HISTOGRAMS);
        });
        let explain = self.ask("explainTask", |number| {
            let arguments = BrasserieExplainTaskArgs {
                job: scattered(number),
                node: format!("n{}", 1 + number % NODES),
            };
            let found = self.client.call("explainTask", &arguments);
            let found: BrasserieExplainTaskResult = found.expect("an answer");
            assert!(
                found
                    .result_value
                    .is_some_and(|reasons| !reasons.is_empty())
            );
        });
        let status = self.ask_some("getClusterStatus, all counts", 10, |_| {
            let found = self
                .client
                .call("getClusterStatus", &BrasserieGetClusterStatusArgs {});
            let found: BrasserieGetClusterStatusResult = found.expect("an answer");
            assert!(found.result_value.is_some());
        });
        let promised = [job, histograms, explain].into_iter().flatten();
        let promised = promised.map(|line| line.at_most(MOST_ANSWER_MS));
        promised.chain(status).collect()
    }

    fn ask(&self, what: &str, question: impl Fn(usize)) -> [Line; 2] {
        self.ask_some(what, QUESTIONS, question)
    }

    fn ask_some(&self, what: &str, count: usize, question: impl Fn(usize)) -> [Line; 2] {
        let took = times_ms((0..count).map(|number| {
            let asked = Instant::now();
            question(number);
            asked.elapsed()
        }));
        [
            Line::new(format!("{what}, median of {count}"), "ms", took.at(50)),
            Line::new(format!("{what}, longest"), "ms", took.at(100)),
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

/// Measures as many syncs of equal size, in milliseconds.
fn bare_syncs(path: &Path) -> f64 {
    /// About the size that the store writes for a job: a page.
    const ROW: [u8; 4096] = [b'x'; 4096];
    let mut rows = File::create(path).expect("a file in a temporary folder");
    let took = times_ms((0..SAVES).map(|_| {
        let began = Instant::now();
        rows.write_all(&ROW).expect("room on the disk");
        rows.sync_data().expect("a file can be synced");
        began.elapsed()
    }));
    took.at(50)
}

/// Returns a job as submitted through the API. It never starts, because no slot is free.
fn job(name: &str) -> BistroJobConfig {
    BistroJobConfig {
        name: Some(name.to_owned()),
        enabled: Some(true),
        owner: Some("bench".to_owned()),
        command: Some(vec!["/bin/true".to_owned()]),
        arguments: Some("none".to_owned()),
        status_from: Some("exit_code".to_owned()),
        ..BistroJobConfig::default()
    }
}

fn config(jobs: usize, owner_of_first: &str) -> String {
    let mut all = Map::new();
    all.insert(
        "bistro_settings".to_owned(),
        json!({
            "enabled": true,
            "nodes": { "levels": ["item"], "node_sources": [
                { "source": "range_label", "prefs": { "parent_level": "instance", "format": "n{i}", "start": 1, "end": NODES } }
            ] },
            "resources": { "worker": { "slots": { "default": 1, "limit": 1 } } }
        }),
    );
    let mut put = |name: String, command: Value, owner: &str| {
        let job = json!({ "owner": owner, "command": command, "arguments": "none", "status_from": "exit_code" });
        all.insert(format!("bistro_job->{name}"), job);
    };
    // Longer than any measurement.
    put(
        "blocker".to_owned(),
        json!(["/bin/sleep", "100000"]),
        "bench",
    );
    for number in 0..jobs {
        let owner = if number == 0 { owner_of_first } else { "bench" };
        put(format!("job{number}"), json!(["/bin/true"]), owner);
    }
    Value::Object(all).to_string()
}

/// Replaces the file atomically, like an editor.
pub fn replace(stage: &Stage, text: &str) {
    let new = stage.write("config.new", text);
    std::fs::rename(new, stage.path("config.json")).expect("both are in one folder");
}
