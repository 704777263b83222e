//! Measures one worker that requests work from two schedulers, one of which has three times the share of the other. Both always have work.
//! First the usage is compared with the shares. Then the scheduler with the larger share is killed for longer than its worker waits for it,
//! and returns. Its lost usage is then compensated as far as it is remembered.

use std::time::{Duration, Instant};

use brasserie_common::work_overview::Overview;
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerGetWorkFetchArgs, BrasserieWorkerGetWorkFetchResult, JobStatus,
};
use integration_tests::e2e::{Client, Process, range_config, wait_within};

use crate::cluster::{BenchCluster, processors, stage, with_job};
use crate::figures::{BenchReport, Figure};

/// The shares of the scheduler that stays, and of the one that is killed.
const SHARES: [f64; 2] = [100.0, 300.0];
/// Half-life of the recorded usage.
const HALF_LIFE: Duration = Duration::from_secs(20);
/// Time until both schedulers are busy.
const START_UP: Duration = Duration::from_secs(20);
/// Time in which the usage is compared with the shares.
const STEADY: Duration = Duration::from_secs(60);
/// Downtime of one scheduler; the worker abandons it after about ten seconds.
const AWAY: Duration = Duration::from_secs(40);
const LOSS_TIME: &str = "--lose-unhealthy-worker-after=5s";
/// Time after which its tasks have ended on the worker.
const GIVEN_UP: Duration = Duration::from_secs(15);
/// Time after its return to the worker, longer than the compensation takes.
const BACK: Duration = Duration::from_secs(80);
/// Promised limit for the compensation. All processors would need one and a half half-lives, and tasks of the first are queued at its
/// return.
const PAID_BACK: Duration = Duration::from_secs(50);
const LOOK: Duration = Duration::from_millis(500);
/// Time between two rows of the table.
const ROW: Duration = Duration::from_secs(10);
/// Shares within this distance count as equal.
const EVEN: f64 = 0.02;
/// Duration of a task in seconds.
const TASK: f64 = 0.5;
/// Number of tasks, more than can complete.
const TASKS: usize = 50_000;
/// Limit for a step, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Promised maximum deviation from its share, as a part of the whole.
const MOST_ERROR: f64 = 0.05;
/// Promised minimum use of the processors by the remaining scheduler.
const LEAST_USE: f64 = 0.9;

struct ShareSide {
    cluster: BenchCluster,
    /// The last known progress.
    last: SideProgress,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SideProgress {
    done: i64,
    /// Tasks that ended in another way, and tasks that can never run.
    spoiled: i64,
}

/// A sample at one moment.
#[derive(Clone, Copy, Debug)]
struct ShareSample {
    at: Duration,
    of: [SideProgress; 2],
    /// The second's recent part of the usage of both, as the worker records it.
    got: Option<f64>,
}

struct SharesBench {
    // Declared first, because fields are dropped in this order.
    worker: Process,
    sides: [ShareSide; 2],
    /// The port of the worker.
    port: u16,
    started: Instant,
    looks: Vec<ShareSample>,
}

/// Measures once; all durations are fixed.
pub fn measure() -> BenchReport {
    let mut bench = SharesBench::start();
    eprintln!("shares: both under way");
    bench.watch(START_UP);
    let begun = bench.look();
    bench.watch(STEADY);
    let steady = bench.look();
    eprintln!("shares: the second is killed");
    bench.sides[1].cluster.scheduler.kill_program();
    bench.watch(GIVEN_UP);
    let alone = bench.look();
    bench.watch(AWAY.saturating_sub(GIVEN_UP));
    let before = bench.look();
    eprintln!("shares: it comes back");
    bench.sides[1].cluster.restart();
    let restarted = bench.look();
    wait_within(PATIENCE, "a task of it to be done", || {
        bench.watch(LOOK);
        (bench.look().of[1].done > restarted.of[1].done).then_some(())
    });
    let back = bench.look();
    bench.watch(BACK);
    let end = bench.look();
    let times = [begun, steady, alone, before, back, end];
    BenchReport::new("shares: 1 to 3, one worker", "share", bench.lines(times))
        .with_table(bench.table())
}

fn share() -> f64 {
    SHARES[1] / (SHARES[0] + SHARES[1])
}

/// Returns the second's part of the tasks completed between two samples. All tasks take the same time.
fn part(from: ShareSample, to: ShareSample) -> f64 {
    let [one, other] = [0, 1].map(|side| (to.of[side].done - from.of[side].done) as f64);
    other / (one + other)
}

/// Returns the part of the processors' time that tasks of one side used.
fn used(side: usize, from: ShareSample, to: ShareSample) -> f64 {
    let tasks = (to.of[side].done - from.of[side].done) as f64;
    tasks * TASK / (processors() * (to.at - from.at).as_secs_f64())
}

impl ShareSide {
    fn start() -> Self {
        let command = ["/bin/sleep".to_owned(), TASK.to_string()];
        let mut config = with_job(range_config(TASKS, None), "sleep", command);
        let job = &mut config["bistro_job->sleep"];
        job["bufferable"] = true.into();
        job["est_duration"] = TASK.into();
        let stage = stage();
        let config = stage.write("config.json", &config.to_string());
        let spec = stage.scheduler_spec(&config).with(LOSS_TIME);
        ShareSide {
            cluster: BenchCluster::start_on(stage, spec.with("--new-cluster")),
            last: SideProgress::default(),
        }
    }

    /// Returns the progress, or the last known one while the scheduler is down or loading.
    fn progress(&mut self) -> SideProgress {
        let status = self.cluster.client.status();
        let job = status.and_then(|status| status.jobs?.into_iter().next());
        if let Some(now) = job.and_then(|job| progress_of(&job)) {
            self.last.done = self.last.done.max(now.done);
            self.last.spoiled = self.last.spoiled.max(now.spoiled);
        }
        self.last
    }
}

fn progress_of(job: &JobStatus) -> Option<SideProgress> {
    Some(SideProgress {
        done: job.done?,
        spoiled: job.incomplete? + job.error? + job.in_backoff? + job.failed?,
    })
}

impl SharesBench {
    fn start() -> Self {
        let sides = [ShareSide::start(), ShareSide::start()];
        let first = &sides[0].cluster;
        let mut spec = first.stage.worker_spec("w", &first.spec);
        spec.flags.push("--work-fetch=cluster".to_owned());
        let half_life = format!("--rec-half-life={}s", HALF_LIFE.as_secs());
        spec.flags.push(half_life);
        // The first scheduler has the default share.
        let port = sides[1].cluster.spec.port;
        let second = format!("--scheduler=127.0.0.1:{port},share={}", SHARES[1]);
        spec.flags.push(second);
        let worker = first.stage.start_worker(&spec);
        for side in &sides {
            side.cluster
                .client
                .wait_until_within(PATIENCE, "some tasks to be done", |status| {
                    let mut jobs = status.jobs.iter().flatten();
                    jobs.any(|job| job.done > Some(0))
                });
        }
        let status = first.client.wait_healthy(1);
        let address = status
            .workers
            .and_then(|workers| workers.into_iter().next());
        let address = address.and_then(|worker| worker.address);
        let port = address.and_then(|address| address.rsplit_once(':')?.1.parse().ok());
        SharesBench {
            worker,
            sides,
            port: port.expect("a healthy worker has an address"),
            started: Instant::now(),
            looks: Vec::new(),
        }
    }

    fn look(&mut self) -> ShareSample {
        let [one, other] = &mut self.sides;
        let of = [one.progress(), other.progress()];
        let look = ShareSample {
            at: self.started.elapsed(),
            of,
            got: self.got(),
        };
        self.looks.push(look);
        look
    }

    fn watch(&mut self, long: Duration) {
        assert!(self.worker.ended().is_none(), "the worker has ended");
        let until = Instant::now() + long;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            std::thread::sleep(left.min(LOOK));
            self.look();
        }
    }

    fn got(&self) -> Option<f64> {
        let client = Client::new(self.port);
        let result = client.call("getWorkFetch", &BrasserieWorkerGetWorkFetchArgs {});
        let result: BrasserieWorkerGetWorkFetchResult = result.ok()?;
        let overview: Overview = serde_json::from_str(&result.result_value?.overview?).ok()?;
        Some(overview.of_association.get(1)?.got)
    }

    fn lines(&self, [begun, steady, alone, before, back, end]: [ShareSample; 6]) -> Vec<Figure> {
        let share = share();
        let error = (part(begun, steady) - share).abs();
        let is_even = |look: &&ShareSample| {
            look.at >= back.at && look.got.is_some_and(|got| got >= share - EVEN)
        };
        // If equality is never reached, the end counts.
        let even = self.looks.iter().find(is_even).copied().unwrap_or(end);
        // Tasks that did not succeed on the undisturbed side.
        let spoiled = (end.of[0].spoiled - steady.of[0].spoiled) as f64;
        vec![
            Figure::new(
                "the second's part of all task-seconds",
                "",
                part(begun, steady),
            )
            .beside(share)
            .more_is_better(),
            Figure::new("how far that is from its share", "", error).at_most(MOST_ERROR),
            Figure::new(
                "processors in use meanwhile",
                "",
                used(0, begun, steady) + used(1, begun, steady),
            )
            .more_is_better(),
            Figure::new(
                "processors used by the first while the second is lost",
                "",
                used(0, alone, before),
            )
            .at_least(LEAST_USE),
            Figure::new("tasks of the first that ended badly", "", spoiled).at_most(0.0),
            Figure::new(
                "until the second, back again, has got its share of what counts",
                "s",
                (even.at - back.at).as_secs_f64(),
            )
            .at_most(PAID_BACK.as_secs_f64()),
            Figure::new("the second's part until then", "", part(back, even)).at_least(share),
            Figure::new(
                "the second's part, all of it after it is back",
                "",
                part(back, end),
            )
            .beside(share)
            .more_is_better(),
        ]
    }

    /// Returns one row for each part of the time.
    fn table(&self) -> Vec<String> {
        let mut rows = vec![format!(
            "{:>7}{:>14}{:>15}{:>19}{:>17}",
            "until", "first, tasks", "second, tasks", "second's part", "as reckoned"
        )];
        let Some(mut from) = self.looks.first().copied() else {
            return rows;
        };
        for look in &self.looks {
            if look.at - from.at < ROW {
                continue;
            }
            let [one, other] = [0, 1].map(|side| look.of[side].done - from.of[side].done);
            rows.push(format!(
                "{:>5.0} s{one:>14}{other:>15}{:>19.3}{:>17}",
                look.at.as_secs_f64(),
                part(from, *look),
                look.got.map_or(String::new(), |got| format!("{got:.3}")),
            ));
            from = *look;
        }
        rows
    }
}
