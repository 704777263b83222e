//! `brasserie status`: jobs, workers and problems at a glance.

use std::time::Duration;

use anyhow::Result;
use brasserie_thrift::generated::brasserie::{
    ClusterStatus, ConfigStatus, JobStatus, StoreStatus, WorkAsked, WorkAskedOfType,
    WorkRequestCounts, WorkerStatus,
};
use brasserie_thrift::generated::common::BistroInstanceID;
use serde_json::{Value, json};

use crate::Ending;
use crate::connection::block_on;
use crate::data_dir::{Source, SourceArgs};
use crate::output::{duration, print, print_json, printable, printable_block, table};

/// Shows what the scheduler knows right now. Counts are of tasks; `never` can never run as things are: see `explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// One JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let (status, note) = block_on(async {
        let source = Source::open(&args.source).await?;
        let status = source.cluster_status().await?;
        let note = source.note();
        source.close().await;
        anyhow::Ok((status, note))
    })??;
    match note {
        _ if args.json => print_json(&to_json(&status))?,
        None => print(&to_text(&status))?,
        // Of the scheduler and its workers nothing is left to show.
        Some(note) => print(&(note + &jobs_text(&status)))?,
    }
    Ok(Ending::Success)
}

fn count(n: Option<i64>) -> String {
    n.unwrap_or(0).to_string()
}

fn to_text(status: &ClusterStatus) -> String {
    let mut text = String::new();
    if let Some(wait) = &status.initial_wait {
        text.push_str(&format!("{}\n\n", printable_block(wait)));
    } else if let Some(why) = &status.wait_ended {
        let why = printable_block(why);
        text.push_str(&format!("The initial wait is over: {why}.\n\n"));
    }
    if let Some(config) = &status.config {
        text.push_str(&config_line(config, status.wall_time_ms.unwrap_or(0)));
    }
    text.push_str(&jobs_text(status));
    text.push('\n');
    let rows: Vec<Vec<String>> = status.workers.iter().flatten().map(worker_row).collect();
    if rows.is_empty() {
        text.push_str("No worker has connected. Start one: brasserie-worker --scheduler HOST:PORT --data-dir DIR\n");
    } else {
        text.push_str(&table(
            &[
                "worker",
                "state",
                "running",
                "unsure",
                "address",
                "heartbeat",
            ],
            &rows,
        ));
        status
            .workers
            .iter()
            .flatten()
            .for_each(|worker| worker_notes(worker, &mut text));
    }
    if let Some(store) = &status.store {
        text.push_str(&store_line(store));
    }
    if let Some(counts) = &status.work_requests {
        text.push_str(&work_requests(counts));
    }
    text
}

/// What is wrong with the cluster, and its jobs.
fn jobs_text(status: &ClusterStatus) -> String {
    let mut text = String::new();
    for error in status.errors.iter().flatten() {
        text.push_str(&format!("! {}\n", printable_block(error)));
    }
    let headers = [
        "job",
        "tasks",
        "done",
        "running",
        "waiting",
        "backoff",
        "failed",
        "never",
        "next retry",
    ];
    let rows: Vec<Vec<String>> = status
        .jobs
        .iter()
        .flatten()
        .map(|job| job_row(job, status.wall_time_ms.unwrap_or(0)))
        .collect();
    text.push_str(&table(&headers, &rows));
    for job in status.jobs.iter().flatten() {
        for error in job.errors.iter().flatten() {
            text.push_str(&format!(
                "! {}: {}\n",
                printable(job.name.as_deref().unwrap_or_default()),
                printable_block(error)
            ));
        }
    }
    text
}

/// What the scheduler keeps on disk.
fn store_line(store: &StoreStatus) -> String {
    let mib = |bytes: Option<i64>| format!("{:.1} MiB", bytes.unwrap_or(0) as f64 / 1_048_576.0);
    let missing = match store.missing_completions.unwrap_or(0) {
        0 => String::new(),
        missing => format!(" ({missing} of nodes that do not exist)"),
    };
    let growth = match (store.growth_bytes, store.growth_sec) {
        (Some(bytes), Some(sec)) => {
            let over = Duration::from_secs(u64::try_from(sec).unwrap_or(0));
            let sign = if bytes < 0 { "-" } else { "+" };
            let bytes = i64::try_from(bytes.unsigned_abs()).ok();
            format!(", {sign}{} in {}", mib(bytes), duration(over))
        }
        _ => String::new(),
    };
    format!(
        "\nStore: {} completions{missing} in {}{growth}; {} of its disk are free.\n",
        count(store.completions),
        mib(store.bytes),
        mib(store.disk_free_bytes)
    )
}

/// What became of all requests for work.
fn work_requests(counts: &WorkRequestCounts) -> String {
    let text = format!(
        "\nRequests for work: {}, of which {} were looked at; {} came again, {} while their workers could get nothing, {} too soon, {} when too \
         many came at once.\n",
        count(counts.heard),
        count(counts.looked_at),
        count(counts.repeated),
        count(counts.not_ready),
        count(counts.too_soon),
        count(counts.too_many)
    );
    match counts.missing_runs.unwrap_or(0) {
        0 => text,
        missing => {
            format!("{text}! They did not list {missing} runs that their workers had taken.\n")
        }
    }
}

/// Which configuration decides, and since when.
fn config_line(config: &ConfigStatus, wall_ms: i64) -> String {
    let Some(path) = &config.path else {
        return String::new();
    };
    let passed = wall_ms.saturating_sub(config.since_ms.unwrap_or(wall_ms));
    let passed = Duration::from_millis(u64::try_from(passed).unwrap_or(0));
    let kept = match config.is_kept {
        Some(true) => ", kept by an earlier scheduler",
        Some(false) | None => "",
    };
    let path = printable(path);
    format!("config {path}, in force for {}{kept}\n", duration(passed))
}

/// What keeps a worker from working, and what is odd about it.
fn worker_notes(worker: &WorkerStatus, text: &mut String) {
    let shard = printable(worker.shard.as_deref().unwrap_or_default());
    if let Some(what) = &worker.waits_for {
        text.push_str(&format!("{shard} waits {}\n", printable_block(what)));
    }
    if let Some(asked) = worker.asked.as_ref().and_then(|asked| asked.text.as_ref()) {
        text.push_str(&format!("{shard} {}\n", printable_block(asked)));
    }
    for note in worker.notes.iter().flatten() {
        text.push_str(&format!("! {shard}: {}\n", printable_block(note)));
    }
}

fn job_row(job: &JobStatus, wall_ms: i64) -> Vec<String> {
    let waiting = job.unstarted.unwrap_or(0) + job.incomplete.unwrap_or(0) + job.error.unwrap_or(0);
    let retry = job.next_backoff_end_ms.map(|at| {
        let left = u64::try_from(at.saturating_sub(wall_ms)).unwrap_or(0);
        format!("in {}", duration(Duration::from_millis(left)))
    });
    let name = job.name.clone().unwrap_or_default();
    vec![
        if job.paused.unwrap_or(false) {
            format!("{name} (paused)")
        } else if job.enabled.unwrap_or(false) {
            name
        } else {
            format!("{name} (disabled)")
        },
        count(job.total),
        count(job.done),
        count(job.running),
        waiting.to_string(),
        count(job.in_backoff),
        count(job.failed),
        count(job.infeasible),
        retry.unwrap_or_default(),
    ]
}

fn worker_row(worker: &WorkerStatus) -> Vec<String> {
    let ago = |ms: i64| {
        format!(
            "{} ago",
            duration(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
        )
    };
    vec![
        worker.shard.clone().unwrap_or_default(),
        worker.state.clone().unwrap_or_default(),
        worker.running_tasks.unwrap_or(0).to_string(),
        worker.unsure_tasks.unwrap_or(0).to_string(),
        worker.address.clone().unwrap_or_default(),
        worker.since_heartbeat_ms.map(ago).unwrap_or_default(),
    ]
}

fn instance_json(id: Option<&BistroInstanceID>) -> Value {
    id.map_or(
        Value::Null,
        |id| json!({ "start_time": id.start_time, "rand": id.rand }),
    )
}

fn to_json(status: &ClusterStatus) -> Value {
    let jobs: Vec<Value> = status.jobs.iter().flatten().map(job_json).collect();
    let workers: Vec<Value> = status.workers.iter().flatten().map(worker_json).collect();
    json!({
        "scheduler": instance_json(status.scheduler.as_ref()),
        "cluster": status.cluster_id,
        "wall_time_ms": status.wall_time_ms,
        "initial_wait": status.initial_wait,
        "wait_ended": status.wait_ended,
        "nodes_loaded": status.nodes_loaded,
        "errors": status.errors,
        "config": status.config.as_ref().map(config_json),
        "jobs": jobs,
        "workers": workers,
        "work_requests": status.work_requests.as_ref().map(work_requests_json),
        "store": status.store.as_ref().map(store_json),
    })
}

/// As the scheduler's own page for programs has it.
fn store_json(store: &StoreStatus) -> Value {
    json!({
        "bytes": store.bytes, "free_bytes": store.free_bytes, "completions": store.completions,
        "missing_completions": store.missing_completions, "disk_free_bytes": store.disk_free_bytes,
        "growth_bytes": store.growth_bytes, "growth_sec": store.growth_sec,
    })
}

/// As the scheduler's own page for programs has it.
fn work_requests_json(counts: &WorkRequestCounts) -> Value {
    json!({
        "heard": counts.heard, "looked_at": counts.looked_at, "repeated": counts.repeated, "not_ready": counts.not_ready,
        "too_soon": counts.too_soon, "too_many": counts.too_many, "missing_runs": counts.missing_runs,
    })
}

fn config_json(config: &ConfigStatus) -> Value {
    json!({ "path": config.path, "kept": config.is_kept, "since_ms": config.since_ms })
}

fn job_json(job: &JobStatus) -> Value {
    json!({
        "name": job.name, "enabled": job.enabled, "paused": job.paused, "version": job.version, "total": job.total, "unstarted": job.unstarted,
        "running": job.running, "done": job.done, "incomplete": job.incomplete, "error": job.error,
        "in_backoff": job.in_backoff, "failed": job.failed, "never": job.infeasible, "settled": job.settled,
        "next_backoff_end_ms": job.next_backoff_end_ms, "elapsed_ms": job.elapsed_ms, "errors": job.errors,
    })
}

fn worker_json(worker: &WorkerStatus) -> Value {
    json!({
        "shard": worker.shard, "hostname": worker.hostname, "address": worker.address,
        "instance": instance_json(worker.instance.as_ref()), "state": worker.state,
        "running": worker.running_tasks, "unsure": worker.unsure_tasks,
        "since_heartbeat_ms": worker.since_heartbeat_ms, "waits_for": worker.waits_for, "notes": worker.notes,
        "containment": worker.containment, "begun_anew": worker.begun_anew, "asked": worker.asked.as_ref().map(asked_json),
    })
}

fn asked_json(asked: &WorkAsked) -> Value {
    let of_type = |of: &WorkAskedOfType| {
        json!({
            "processor": of.processor, "instances": of.instances.map(f64::from),
            "instance_s": of.instance_secs.map(f64::from), "idle": of.idle_instances.map(f64::from),
            "sent": of.sent, "ready": of.ready, "late": of.late,
        })
    };
    let of_types: Vec<Value> = asked.of_types.iter().flatten().map(of_type).collect();
    json!({ "seq": asked.seq, "ago_ms": asked.ago_ms, "left_ms": asked.left_ms, "of_types": of_types })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiting_scheduler_says_so_first_and_empty_pools_say_what_to_do() {
        let status = ClusterStatus {
            initial_wait: Some("initial wait: why".to_owned()),
            ..ClusterStatus::default()
        };
        let text = to_text(&status);
        assert!(text.starts_with("initial wait: why\n"), "{text}");
        assert!(text.contains("brasserie-worker --scheduler"), "{text}");
    }

    #[test]
    fn a_worker_that_waits_says_for_what() {
        let worker = WorkerStatus {
            shard: Some("w".to_owned()),
            waits_for: Some("for its breakfast".to_owned()),
            containment: Some("process-groups: a reason".to_owned()),
            notes: Some(vec!["is odd".to_owned()]),
            instance: Some(BistroInstanceID {
                start_time: Some(10),
                rand: Some(20),
            }),
            asked: Some(WorkAsked {
                seq: Some(7),
                left_ms: Some(2000),
                of_types: Some(vec![WorkAskedOfType {
                    processor: Some("CPU".to_owned()),
                    instance_secs: Some(1.5.into()),
                    ..WorkAskedOfType::default()
                }]),
                text: Some("asked for much".to_owned()),
                ..WorkAsked::default()
            }),
            ..WorkerStatus::default()
        };
        let status = ClusterStatus {
            workers: Some(vec![worker]),
            wait_ended: Some("the cluster is new".to_owned()),
            ..ClusterStatus::default()
        };
        let text = to_text(&status);
        for line in [
            "The initial wait is over: the cluster is new.",
            "w waits for its breakfast",
            "w asked for much",
            "! w: is odd",
        ] {
            assert!(text.lines().any(|l| l == line), "{text}");
        }
        let json = to_json(&status);
        let worker = &json["workers"][0];
        assert_eq!(worker["waits_for"], "for its breakfast", "{json}");
        assert_eq!(worker["notes"], json!(["is odd"]), "{json}");
        let containment = &worker["containment"];
        assert_eq!(containment, "process-groups: a reason", "{json}");
        assert_eq!(worker["asked"]["left_ms"], 2000, "{json}");
        let of_type = &worker["asked"]["of_types"][0];
        assert_eq!(of_type["instance_s"], 1.5, "{json}");
        let instance = json!({ "start_time": 10, "rand": 20 });
        assert_eq!(worker["instance"], instance, "{json}");
    }

    #[test]
    fn requests_for_work_are_counted_where_somebody_asks() {
        let quiet = ClusterStatus::default();
        assert!(!to_text(&quiet).contains("Requests for work"));
        assert_eq!(to_json(&quiet)["work_requests"], Value::Null);
        let counts = WorkRequestCounts {
            heard: Some(9),
            looked_at: Some(3),
            repeated: Some(1),
            not_ready: Some(2),
            too_soon: Some(2),
            too_many: Some(1),
            missing_runs: Some(0),
        };
        let of = |counts: WorkRequestCounts| ClusterStatus {
            work_requests: Some(counts),
            ..ClusterStatus::default()
        };
        let text = to_text(&of(counts.clone()));
        let line = "Requests for work: 9, of which 3 were looked at; 1 came again, 2 while their workers could get nothing, 2 too soon, 1 when \
                    too many came at once.";
        assert!(text.lines().any(|one| one == line), "{text}");
        assert!(!text.contains("did not list"), "{text}");
        let counts = WorkRequestCounts {
            missing_runs: Some(4),
            ..counts
        };
        let text = to_text(&of(counts.clone()));
        assert!(text.contains("did not list 4 runs"), "{text}");
        let json = to_json(&of(counts));
        assert_eq!(json["work_requests"]["looked_at"], 3, "{json}");
    }

    #[test]
    fn the_size_and_growth_of_the_store_are_shown() {
        assert!(!to_text(&ClusterStatus::default()).contains("Store:"));
        let store = StoreStatus {
            bytes: Some(276 << 20),
            free_bytes: Some(0),
            completions: Some(2_000_000),
            missing_completions: Some(1_999_999),
            disk_free_bytes: Some(1 << 30),
            growth_bytes: Some(3 << 19),
            growth_sec: Some(7200),
        };
        let status = ClusterStatus {
            store: Some(store),
            ..ClusterStatus::default()
        };
        let text = to_text(&status);
        let line = "Store: 2000000 completions (1999999 of nodes that do not exist) in 276.0 MiB, +1.5 MiB in 2h; 1024.0 MiB of its disk are free.";
        assert!(text.lines().any(|one| one == line), "{text}");
        assert_eq!(to_json(&status)["store"]["growth_sec"], 7200);
    }

    #[test]
    fn names_and_errors_of_peers_move_no_cursor_and_forge_no_line() {
        let hostile = "x\u{1b}[2J\u{9b}\r\nNo worker has connected.".to_owned();
        let worker = WorkerStatus {
            shard: Some(hostile.clone()),
            address: Some(hostile.clone()),
            waits_for: Some(hostile.clone()),
            notes: Some(vec![hostile.clone()]),
            ..WorkerStatus::default()
        };
        let job = JobStatus {
            name: Some(hostile.clone()),
            errors: Some(vec![hostile.clone()]),
            ..JobStatus::default()
        };
        let status = ClusterStatus {
            workers: Some(vec![worker]),
            jobs: Some(vec![job]),
            errors: Some(vec![hostile.clone()]),
            wait_ended: Some(hostile),
            ..ClusterStatus::default()
        };
        let text = to_text(&status);
        let unprintable = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(unprintable), "{text:?}");
        let forged = |line: &str| line.starts_with("No worker");
        assert!(!text.lines().any(forged), "{text}");
    }

    #[test]
    fn a_backoff_says_how_long() {
        let job = JobStatus {
            name: Some("j".to_owned()),
            enabled: Some(true),
            next_backoff_end_ms: Some(5_500),
            ..JobStatus::default()
        };
        assert_eq!(
            job_row(&job, 1_000).last().map(String::as_str),
            Some("in 4.5 s")
        );
    }
}
