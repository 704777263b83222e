//! Measures a load of many short and few long tasks on four workers, with tasks that stand by and without them. The baseline is the
//! shortest time in which the long tasks fit into the slots.

use std::time::{Duration, Instant};

use integration_tests::e2e::{Process, range_config, wait_within};
use serde_json::json;

use crate::cluster::{BenchCluster, PATIENCE, with_job};
use crate::figures::{BenchReport, Figure};

const WORKERS: usize = 4;
const SLOTS: usize = 2;
const SHORT: usize = 1000;
const LONG: usize = 10;
/// The permitted makespan, as a multiple of the shortest one.
const MOST: f64 = 1.03;

/// The seconds from the first start to the last completion of each job.
struct Makespans {
    short: f64,
    all: f64,
}

/// Measures ten tasks of `seconds` and a thousand of 10 ms.
pub fn measure(seconds: u64) -> BenchReport {
    // Short tasks fill the slots that long ones leave.
    let shortest = (LONG.div_ceil(WORKERS * SLOTS) as u64 * seconds) as f64;
    eprintln!("skew: with standby");
    let with = makespans(seconds, true);
    eprintln!("skew: without standby");
    let without = makespans(seconds, false);
    let lines = vec![
        Figure::new(
            "makespan, as a multiple of the shortest",
            "",
            with.all / shortest,
        )
        .at_most(MOST),
        Figure::new("makespan with standby", "s", with.all).beside(shortest),
        Figure::new("makespan without standby", "s", without.all).beside(shortest),
        Figure::new(
            "short tasks with standby, beside those without",
            "s",
            with.short,
        )
        .beside(without.short),
    ];
    BenchReport::new("skew", "shortest", lines)
}

fn makespans(seconds: u64, standby: bool) -> Makespans {
    let mut config = range_config(SHORT, Some(SLOTS));
    config["bistro_settings"]["standby"] = json!(standby);
    let seconds = seconds.to_string();
    let config = with_job(config, "short", ["/bin/sleep", "0.01"]);
    let mut config = with_job(config, "long", ["/bin/sleep", &seconds]);
    config["bistro_job->long"]["filters"] =
        json!({"item": {"whitelist": (1..=LONG).map(|n| format!("n{n}")).collect::<Vec<_>>()}});
    let cluster = BenchCluster::start(&config);
    cluster.wait_for_nodes();
    let names = (1..=WORKERS).map(|number| format!("w{number}"));
    let _workers: Vec<Process> = names.map(|name| cluster.start_worker(&name)).collect();
    let mut asked = Instant::now();
    wait_within(PATIENCE, "all tasks to be done", || {
        if asked.elapsed() < Duration::from_millis(200) {
            return None;
        }
        asked = Instant::now();
        let jobs = cluster.client.status()?.jobs?;
        let of = |name: &str, count: usize| {
            let mut jobs = jobs.iter();
            let job = jobs.find(|job| job.name.as_deref() == Some(name))?;
            let is_done = job.done == i64::try_from(count).ok();
            is_done.then_some(job.elapsed_ms? as f64 / 1e3)
        };
        let (short, long) = (of("short", SHORT)?, of("long", LONG)?);
        Some(Makespans {
            short,
            all: short.max(long),
        })
    })
}
