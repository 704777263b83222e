//! Measures how long a killed and restarted scheduler starts no task: with its directory, which records the workers, and with an empty one,
//! where it depends on the workers' sets.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

use brasserie_common::Timeouts;
use brasserie_thrift::generated::brasserie::ClusterStatus;
use integration_tests::e2e::{
    Client, FAST_SCHEDULER, Process, Programs, SchedulerSpec, Stage, fast_timeouts, wait_within,
};
use serde_json::{Value, json};

/// The minimum that workers accept.
const HEARTBEAT_PERIOD: Duration = Duration::from_secs(1);
/// Long compared with all measured times, so that no worker is lost on a busy machine, and the safe wait differs from the other waits.
const LOSS_TIME: Duration = Duration::from_secs(20);
/// Longer than the safe wait with these times, which ends every wait.
const PATIENCE: Duration = Duration::from_secs(120);
/// A joining worker is healthy after this many heartbeats. A wait by consensus ends this many after the kill margin.
const PROMISED_HEARTBEATS: u32 = 2;
/// Longer than any measurement.
const TASK_TIME: Duration = Duration::from_secs(1000);

/// The rounds of both kinds.
pub struct Report {
    workers: usize,
    same_directory: Vec<Round>,
    empty_directory: Vec<Round>,
}

/// One restart, with times since the start of the scheduler's process.
#[derive(Clone, Debug)]
struct Round {
    /// The time until every worker has sent a heartbeat.
    all_back: Duration,
    /// The time until the initial wait ended.
    left: Duration,
    all_healthy: Duration,
    /// The scheduler's reason for the end of the wait.
    reason: String,
    /// The scheduler's last message during the wait.
    waiting: Option<String>,
}

/// The directory of the restarted scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Directory {
    Same,
    Empty,
}

/// A scheduler with its workers, all of which are healthy between rounds.
struct Bench {
    // Declared first, because fields are dropped in this order.
    _workers: Vec<Process>,
    scheduler: Process,
    spec: SchedulerSpec,
    client: Client,
    count: usize,
    stage: Stage,
}

/// Measures `rounds` restarts of each kind.
pub fn measure(workers: usize, rounds: usize) -> Report {
    eprintln!("restart: starting {workers} workers");
    let mut bench = Bench::start(workers);
    let mut report = Report {
        workers,
        same_directory: Vec::new(),
        empty_directory: Vec::new(),
    };
    for round in 0..rounds {
        eprintln!("restart: round {} of {rounds}: its directory", round + 1);
        report
            .same_directory
            .push(bench.restart(Directory::Same, round));
        eprintln!("restart: round {} of {rounds}: an empty one", round + 1);
        report
            .empty_directory
            .push(bench.restart(Directory::Empty, round));
    }
    report
}

impl Bench {
    fn start(count: usize) -> Self {
        let stage = Stage::with(Programs::this_one());
        // Each worker has a task, so that it has something to report to a restarted scheduler.
        let config = stage.write_work(count, TASK_TIME);
        let mut spec = stage.scheduler_spec(&config);
        let loss = "--lose-unhealthy-worker-after";
        assert!(FAST_SCHEDULER.iter().any(|flag| flag.starts_with(loss)));
        spec.flags.retain(|flag| !flag.starts_with(loss));
        spec.flags.push(format!("{loss}={}s", LOSS_TIME.as_secs()));
        let scheduler = stage.start_scheduler(&spec.clone().with("--new-cluster"));
        let client = Client::new(spec.port);
        let workers = (0..count)
            .map(|number| stage.start_worker(&stage.worker_spec(&format!("w{number}"), &spec)))
            .collect();
        wait_within(PATIENCE, "all workers to be healthy", || {
            let status = client.status()?;
            (healthy(&status) == count && running(&status) == count).then_some(())
        });
        Bench {
            _workers: workers,
            scheduler,
            spec,
            client,
            count,
            stage,
        }
    }

    fn restart(&mut self, directory: Directory, round: usize) -> Round {
        match directory {
            Directory::Same => {}
            Directory::Empty => {
                self.spec.data_dir = self.empty_directory(round);
                self.wait_for_a_later_second();
            }
        }
        // A worker sends a heartbeat only after the answer to the last one. So the answer to the first of two has arrived.
        for _ in 0..2 {
            self.wait_for_a_heartbeat_of_all();
        }
        self.scheduler.kill_program();
        let started = Instant::now();
        self.scheduler = self.stage.start_scheduler(&self.spec);
        let (mut all_back, mut left, mut reason) = (None, None, String::new());
        let mut waiting = None;
        let all_healthy = wait_within(PATIENCE, "all workers to be healthy again", || {
            let status = self.client.status()?;
            let now = started.elapsed();
            if heard(&status) == self.count {
                all_back.get_or_insert(now);
            }
            if status.initial_wait.is_none() && status.wait_ended.is_some() {
                left.get_or_insert(now);
                reason = status.wait_ended.clone().unwrap_or_default();
            } else {
                waiting.clone_from(&status.initial_wait);
            }
            (left.is_some() && healthy(&status) == self.count).then_some(now)
        });
        Round {
            all_back: all_back.expect("healthy workers have been heard"),
            left: left.expect("it was waited for"),
            all_healthy,
            reason,
            waiting,
        }
    }

    /// Waits for a heartbeat of each worker. Before it, workers may have a set from a scheduler's initial wait, which no later scheduler
    /// accepts.
    fn wait_for_a_heartbeat_of_all(&self) {
        let healthy = Instant::now();
        wait_within(PATIENCE, "a heartbeat of each worker", || {
            let status = self.client.status()?;
            let waited = i64::try_from(healthy.elapsed().as_millis()).ok()?;
            let workers = status.workers.iter().flatten();
            let later = workers.filter(|w| w.since_heartbeat_ms.is_some_and(|ago| ago < waited));
            (later.count() == self.count).then_some(())
        });
    }

    /// Waits until a restarted scheduler gets a later start time. Scheduler instances are ordered by the second of their start, and workers
    /// obey the latest. A scheduler with its directory ensures this order itself; one with an empty directory depends on the clock.
    fn wait_for_a_later_second(&self) {
        wait_within(PATIENCE, "a later second", || {
            let former = self.client.status()?.scheduler?.start_time?;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now = now.expect("the clock is set").as_secs();
            (i64::try_from(now).ok()? > former).then_some(())
        });
    }

    fn empty_directory(&self, round: usize) -> PathBuf {
        self.stage.path(&format!("scheduler-{round}"))
    }
}

fn healthy(status: &ClusterStatus) -> usize {
    let states = status.workers.iter().flatten().flat_map(|w| &w.state);
    states
        .filter(|state| state.eq_ignore_ascii_case("healthy"))
        .count()
}

fn heard(status: &ClusterStatus) -> usize {
    let workers = status.workers.iter().flatten();
    workers.filter(|w| w.since_heartbeat_ms.is_some()).count()
}

fn running(status: &ClusterStatus) -> usize {
    let jobs = status.jobs.iter().flatten();
    let running: i64 = jobs.filter_map(|job| job.running).sum();
    usize::try_from(running).unwrap_or(0)
}

/// Returns the minimum wait of a consensus.
fn kill_margin() -> Duration {
    let timeouts: Timeouts = fast_timeouts();
    timeouts.lost_task_min_backoff(Duration::ZERO)
}

impl Report {
    pub fn is_kept(&self) -> bool {
        self.same_is_kept() && self.empty_is_kept()
    }

    /// Returns whether each wait lasted no longer than the return of the workers.
    fn same_is_kept(&self) -> bool {
        let promised = HEARTBEAT_PERIOD * PROMISED_HEARTBEATS;
        self.same_directory
            .iter()
            .all(|round| round.left <= promised && round.all_healthy <= promised)
    }

    fn empty_is_kept(&self) -> bool {
        let least = kill_margin();
        let most = least + HEARTBEAT_PERIOD * PROMISED_HEARTBEATS;
        self.empty_directory
            .iter()
            .all(|round| (least..=most).contains(&round.left))
    }

    pub fn table(&self) -> String {
        let heartbeats = HEARTBEAT_PERIOD * PROMISED_HEARTBEATS;
        let mut text = format!(
            "restart: {} workers, seconds after the start of the scheduler, least / median / most of {} rounds\n{:<17}{:>24}{:>24}{:>24}\n",
            self.workers,
            self.same_directory.len(),
            "",
            "all workers back",
            "wait is over",
            "all are healthy",
        );
        let kinds = [
            (
                "same directory",
                &self.same_directory,
                self.same_is_kept(),
                format!("over and healthy within {heartbeats:?}"),
            ),
            (
                "empty directory",
                &self.empty_directory,
                self.empty_is_kept(),
                format!(
                    "over from {:?} to {:?}",
                    kill_margin(),
                    kill_margin() + heartbeats
                ),
            ),
        ];
        for (name, rounds, is_kept, promise) in kinds {
            let verdict = if is_kept { "kept" } else { "NOT KEPT" };
            text.push_str(&format!(
                "{name:<17}{:>24}{:>24}{:>24}  {promise}: {verdict}\n",
                spread(rounds, |r| r.all_back),
                spread(rounds, |r| r.left),
                spread(rounds, |r| r.all_healthy),
            ));
            for reason in rounds.iter().map(|r| &r.reason).collect::<BTreeSet<_>>() {
                text.push_str(&format!("{:<17}because {reason}\n", ""));
            }
            let waiting = rounds.iter().rev().find_map(|r| r.waiting.as_ref());
            if let Some(waiting) = waiting.filter(|_| !is_kept) {
                text.push_str(&format!("{:<17}before: {waiting}\n", ""));
            }
        }
        text
    }

    pub fn json(&self) -> Value {
        let rounds = |rounds: &[Round]| -> Vec<Value> {
            let round = |r: &Round| {
                json!({
                    "all_back": r.all_back.as_secs_f64(), "left": r.left.as_secs_f64(), "all_healthy": r.all_healthy.as_secs_f64(),
                    "reason": r.reason, "waiting": r.waiting,
                })
            };
            rounds.iter().map(round).collect()
        };
        json!({
            "name": "restart", "unit": "s", "workers": self.workers, "heartbeat_period": HEARTBEAT_PERIOD.as_secs_f64(),
            "kill_margin": kill_margin().as_secs_f64(), "kept": self.is_kept(), "same_directory": rounds(&self.same_directory),
            "empty_directory": rounds(&self.empty_directory),
        })
    }
}

fn spread(rounds: &[Round], time: impl Fn(&Round) -> Duration) -> String {
    let mut times: Vec<Duration> = rounds.iter().map(time).collect();
    times.sort();
    let [first, .., last] = times[..] else {
        return format!("{:.2}", times[0].as_secs_f64());
    };
    let middle = times[times.len() / 2];
    let [first, middle, last] = [first, middle, last].map(|time| time.as_secs_f64());
    format!("{first:.2} / {middle:.2} / {last:.2}")
}
