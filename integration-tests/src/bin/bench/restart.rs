//! Measures how long a killed and restarted scheduler starts no task: with its directory, which records the workers, and with an empty one,
//! where it depends on the workers' sets.

use std::collections::BTreeSet;
use std::time::{Duration, Instant, SystemTime};

use brasserie_common::Timeouts;
use brasserie_thrift::generated::brasserie::ClusterStatus;
use integration_tests::e2e::{Process, fast_timeouts, wait_within};

use crate::cluster::{BenchCluster, stage};
use crate::figures::{BenchReport, Figure, times_ms};

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

/// One restart, with times since the start of the scheduler's process.
#[derive(Clone, Debug)]
struct RestartRound {
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
enum RestartDirectory {
    Same,
    Empty,
}

/// A scheduler with its workers, all of which are healthy between rounds.
struct RestartBench {
    // Declared first, because fields are dropped in this order.
    _workers: Vec<Process>,
    cluster: BenchCluster,
    count: usize,
}

/// Measures `rounds` restarts of each kind.
pub fn measure(workers: usize, rounds: usize) -> BenchReport {
    eprintln!("restart: starting {workers} workers");
    let mut bench = RestartBench::start(workers);
    let (mut same, mut empty) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("restart: round {} of {rounds}: its directory", round + 1);
        same.push(bench.restart(RestartDirectory::Same, round));
        eprintln!("restart: round {} of {rounds}: an empty one", round + 1);
        empty.push(bench.restart(RestartDirectory::Empty, round));
    }
    report(workers, &same, &empty)
}

impl RestartBench {
    fn start(count: usize) -> Self {
        let stage = stage();
        // Each worker has a task, so that it has something to report to a restarted scheduler.
        let config = stage.write_work(count, TASK_TIME);
        let loss = format!("--lose-unhealthy-worker-after={}s", LOSS_TIME.as_secs());
        let spec = stage.scheduler_spec(&config).with(&loss);
        let mut cluster = BenchCluster::start_on(stage, spec.clone().with("--new-cluster"));
        // A scheduler that finds an empty directory later is one of the same cluster.
        cluster.spec = spec;
        let workers = (0..count)
            .map(|number| cluster.start_worker(&format!("w{number}")))
            .collect();
        wait_within(PATIENCE, "all workers to be healthy", || {
            let status = cluster.client.status()?;
            (healthy(&status) == count && running(&status) == count).then_some(())
        });
        RestartBench {
            _workers: workers,
            cluster,
            count,
        }
    }

    fn restart(&mut self, directory: RestartDirectory, round: usize) -> RestartRound {
        match directory {
            RestartDirectory::Same => {}
            RestartDirectory::Empty => {
                let directory = self.cluster.stage.path(&format!("scheduler-{round}"));
                self.cluster.spec.data_dir = directory;
                self.wait_for_a_later_second();
            }
        }
        // A worker sends a heartbeat only after the answer to the last one. So the answer to the first of two has arrived.
        for _ in 0..2 {
            self.wait_for_a_heartbeat_of_all();
        }
        self.cluster.scheduler.kill_program();
        let started = Instant::now();
        self.cluster.restart();
        let (mut all_back, mut left, mut reason) = (None, None, String::new());
        let mut waiting = None;
        let all_healthy = wait_within(PATIENCE, "all workers to be healthy again", || {
            let status = self.cluster.client.status()?;
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
        RestartRound {
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
            let status = self.cluster.client.status()?;
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
            let former = self.cluster.client.status()?.scheduler?.start_time?;
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let now = now.expect("the clock is set").as_secs();
            (i64::try_from(now).ok()? > former).then_some(())
        });
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

fn report(workers: usize, same: &[RestartRound], empty: &[RestartRound]) -> BenchReport {
    let promised = (HEARTBEAT_PERIOD * PROMISED_HEARTBEATS).as_secs_f64();
    let margin = kill_margin().as_secs_f64();
    let mut lines = Vec::new();
    // A scheduler with its directory waits no longer than for the return of its workers.
    let name = "same directory";
    lines.extend(spread(name, "all workers back", same, |r| r.all_back));
    let [least, middle, most] = spread(name, "wait is over", same, |r| r.left);
    lines.extend([least, middle, most.at_most(promised)]);
    let [least, middle, most] = spread(name, "all are healthy", same, |r| r.all_healthy);
    lines.extend([least, middle, most.at_most(promised)]);
    // Consensus ends the wait of one with an empty directory, after the kill margin.
    let name = "empty directory";
    lines.extend(spread(name, "all workers back", empty, |r| r.all_back));
    let [least, middle, most] = spread(name, "wait is over", empty, |r| r.left);
    let most = most.at_most(margin + promised);
    lines.extend([least.at_least(margin), middle, most]);
    lines.extend(spread(name, "all are healthy", empty, |r| r.all_healthy));
    let is_kept = lines.iter().all(Figure::is_kept);
    let mut table = Vec::new();
    for (name, rounds) in [("same directory", same), ("empty directory", empty)] {
        for reason in rounds.iter().map(|r| &r.reason).collect::<BTreeSet<_>>() {
            table.push(format!("{name}: over because {reason}"));
        }
        let waiting = rounds.iter().rev().find_map(|r| r.waiting.as_ref());
        if let Some(waiting) = waiting.filter(|_| !is_kept) {
            table.push(format!("{name}: before: {waiting}"));
        }
    }
    let name = format!("restart: {workers} workers, since the scheduler's start");
    BenchReport::new(name, "", lines).with_table(table)
}

/// Returns the least, the median and the longest of a time of all rounds.
fn spread(
    name: &str,
    what: &str,
    rounds: &[RestartRound],
    time: impl Fn(&RestartRound) -> Duration,
) -> [Figure; 3] {
    let times = times_ms(rounds.iter().map(time));
    [("least", 0), ("median", 50), ("most", 100)].map(|(which, percent)| {
        let what = format!("{name}: {what}, {which} of {}", rounds.len());
        Figure::new(what, "s", times.at(percent) / 1e3)
    })
}
