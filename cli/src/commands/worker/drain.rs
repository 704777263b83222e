//! `brasserie worker drain`: tells a worker to finish its tasks and exit, and waits for that if the user wants.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use brasserie_common::cluster_view::{ClusterView, WorkerView};
use brasserie_common::text::{counted, readable_bytes};
use brasserie_common::time::parse_duration;
use brasserie_common::worker::DrainTerms;
use brasserie_thrift::generated::brasserie::{ClusterStatus, WorkerStatus};
use serde_json::json;

use super::asking::{AddressFinding, ListedWorker, WorkerConnections, all_workers, find};
use crate::CommandEnding;
use crate::connection::{AskArgs, Connection, block_on};
use crate::failure::{Failure, is_refused};
use crate::interrupts::Interrupts;
use crate::output::{LastText, duration, print, printable};
use crate::worker_credentials::Callee;

/// Time between two checks whether the worker has left.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);
/// Time without a heartbeat after which a worker with a closed port counts as gone; more than the usual period.
const SILENCE: Duration = Duration::from_secs(20);

/// The time for which it is usual not to know whether a worker has left: it closes its port, and its scheduler accepts its goodbye.
const UNCLEAR: Duration = Duration::from_secs(5);

/// Drain a worker: it starts no more tasks, completes those that run, and exits.
///
/// The scheduler shows the worker as draining and gives it no more tasks. Its queued tasks, and those on standby there, go to other workers. To undo the drain, start the
/// worker again once it has exited: its data directory stays.
///
/// The worker exits with code 0, so a service manager that restarts programs only on failure leaves it stopped. Its data stays on its
/// disks. As soon as it has left, a task that needs an output that only it has makes the task that left that output run again: the command
/// says first how many there are, and `brasserie worker decommission` copies them to other workers instead.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie worker drain host7           returns as soon as the worker drains
  brasserie worker drain host7 --wait    returns when it has left, for example before the machine is restarted
  brasserie worker drain host7 --deadline 10m --reason 'new kernel'

Exit codes:
  0    the worker drains, or with --wait: it has left
  1    no such worker, or it was not reached or refused
  2    wrong usage
  130  interrupted while waiting: the drain continues")]
pub(super) struct DrainArgs {
    /// The worker's name, as `brasserie status` shows it.
    #[arg(value_name = "NAME")]
    shard: String,
    /// Kill tasks that still run after this time, such as 30m or 2h. In a drain that has begun, it takes the place of the earlier limit
    /// [default: `--drain-timeout` of the worker].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    deadline: Option<Duration>,
    /// The reason, for the worker's log.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    /// Wait until the worker has left.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    ask: AskArgs,
}

pub(super) fn run(args: &DrainArgs) -> Result<CommandEnding> {
    block_on(drain(args))?
}

async fn drain(args: &DrainArgs) -> Result<CommandEnding> {
    let scheduler = args.ask.connect()?;
    let status = scheduler.bounded_status().await?;
    let worker = find(all_workers(&status), &args.shard)?;
    let only_there = only_there(status, &args.shard);
    if let Some(sentence) = only_there.as_ref().and_then(what_is_only_there)
        && !args.ask.json
    {
        args.ask.say(&sentence, &json!({}))?;
    }
    let callee = worker.callee().map_err(|error| anyhow!("{error}"))?;
    let pool = WorkerConnections::of(&scheduler).await?;
    let terms = DrainTerms {
        deadline: args.deadline,
        reason: args.reason.as_str().into(),
    };
    let running = pool.drain(&callee, &worker, terms).await;
    let running = running.map_err(|error| {
        let list = format!("brasserie worker list{}", args.ask.scheduler.flag());
        Failure::new(error).remedy(format!("`{list}` shows whether the worker drains"))
    })?;
    let only_there = only_there.map(|worker| worker.only_here);
    let document = |has_left: bool| json!({ "worker": args.shard, "running": running, "left": has_left, "only_there": only_there });
    if !args.wait {
        args.ask.say(
            &sentence(&args.shard, running, args.deadline),
            &document(false),
        )?;
        return Ok(CommandEnding::Success);
    }
    if !args.ask.json {
        let begun = sentence(&args.shard, running, args.deadline);
        print(&format!("{begun}\n"))?;
    }
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        left = wait_until_left(&scheduler, &pool, (&callee, &worker)) => left?,
        () = interrupts.next() => {
            let still = format!("Worker `{}` still drains.", printable(&args.shard));
            args.ask.say(&still, &document(false))?;
            return Ok(CommandEnding::Interrupted);
        }
    }
    let left = format!("Worker `{}` has left.", printable(&args.shard));
    args.ask.say(&left, &document(true))?;
    Ok(CommandEnding::Success)
}

/// Returns the worker as the scheduler describes it.
fn only_there(status: ClusterStatus, shard: &str) -> Option<WorkerView> {
    let workers = ClusterView::from(status).workers;
    workers.into_iter().find(|worker| worker.shard == shard)
}

/// Says which amount of outputs leaves with the worker; `None` if none.
fn what_is_only_there(worker: &WorkerView) -> Option<String> {
    let shard = printable(&worker.shard);
    let (are, each) = match worker.only_here {
        0 => return None,
        1 => ("is", "it"),
        _ => ("are", "one of them"),
    };
    Some(format!(
        "{} ({}) {are} only on worker `{shard}`: once it has left, a task that needs {each} has it made again. \
         `brasserie worker decommission {shard}` copies such outputs to other workers first.",
        counted(worker.only_here, "output"),
        readable_bytes(worker.only_here_bytes),
    ))
}

fn sentence(shard: &str, running: i32, deadline: Option<Duration>) -> String {
    let tasks = match running {
        0 => "no task runs on it".to_owned(),
        1 => "1 task still runs on it".to_owned(),
        running => format!("{running} tasks still run on it"),
    };
    let deadline = deadline.filter(|_| running > 0);
    let deadline = deadline.map(|left| format!("; it kills its tasks in {}", duration(left)));
    format!(
        "Worker `{}` drains, and then exits: {tasks}{}.",
        printable(shard),
        deadline.unwrap_or_default()
    )
}

/// Waits until the worker has left: its port is closed, which is the last that a worker does, or another program is there, or another
/// instance has its name. A scheduler may have restarted and not know the worker yet, so a missing worker says nothing by itself. Errors if
/// the scheduler refuses the caller.
async fn wait_until_left(
    scheduler: &Connection,
    pool: &WorkerConnections,
    (callee, worker): (&Callee, &ListedWorker),
) -> Result<()> {
    let (mut of_worker, mut of_scheduler) = (LastText::default(), LastText::default());
    let mut unclear_since: Option<Instant> = None;
    let mut closed_since: Option<Instant> = None;
    loop {
        let sight = pool.look(callee, worker).await;
        closed_since = match sight {
            AddressFinding::Closed => closed_since.or_else(|| Some(Instant::now())),
            AddressFinding::Worker | AddressFinding::Other | AddressFinding::Unclear(_) => None,
        };
        let trouble = match sight {
            AddressFinding::Other => return Ok(()),
            AddressFinding::Worker => String::new(),
            AddressFinding::Closed => {
                "it does not listen there any more, but its scheduler may still hear it".to_owned()
            }
            AddressFinding::Unclear(why) => why,
        };
        match scheduler.bounded_status().await {
            Ok(status) => {
                of_scheduler = LastText::default();
                let closed_for = closed_since.map(|since| since.elapsed());
                if has_left(&status, worker, closed_for) {
                    return Ok(());
                }
            }
            Err(error) => match still_asked(error, closed_since.is_some())? {
                Some(why) => of_scheduler.complain(format!("{why:#}; trying again")),
                None => return Ok(()),
            },
        }
        // A worker that leaves closes its port and its connections in some order.
        unclear_since = match trouble.is_empty() {
            true => None,
            false => unclear_since.or_else(|| Some(Instant::now())),
        };
        if unclear_since.is_some_and(|since| since.elapsed() >= UNCLEAR) {
            of_worker.complain(format!(
                "it is not clear whether the worker at {} has left: {trouble}; the command tries again",
                callee.peer
            ));
        }
        tokio::time::sleep(BETWEEN_CHECKS).await;
    }
}

/// Returns why the scheduler is asked again after no answer; `None` if that is not needed, as the worker's port is closed. Errors if the
/// scheduler refuses the caller, as it may still hear the worker.
fn still_asked(error: anyhow::Error, is_closed: bool) -> Result<Option<anyhow::Error>> {
    match is_refused(&error) {
        true => Err(error),
        false => Ok(Some(error).filter(|_| !is_closed)),
    }
}

/// Returns whether the scheduler's list shows that the worker has left, whose port has been closed for this time. A port may be closed
/// although the worker lives, for example that of a proxy; then heartbeats go on.
fn has_left(status: &ClusterStatus, worker: &ListedWorker, closed_for: Option<Duration>) -> bool {
    let same_name = |other: &&WorkerStatus| other.shard.as_ref() == Some(&worker.shard);
    let Some(listed) = status.workers.iter().flatten().find(same_name) else {
        return closed_for.is_some();
    };
    if listed.instance != worker.instance {
        return true;
    }
    let silent_ms = u64::try_from(listed.since_heartbeat_ms.unwrap_or(0)).unwrap_or(0);
    closed_for
        .is_some_and(|closed| closed >= SILENCE && Duration::from_millis(silent_ms) >= SILENCE)
}

#[cfg(test)]
mod tests {
    use brasserie_thrift::generated::common::BistroInstanceID;

    use super::*;

    #[test]
    fn a_drain_says_what_is_only_there() {
        let said = |only_here, only_here_bytes| {
            what_is_only_there(&WorkerView {
                shard: "w\n".to_owned(),
                only_here,
                only_here_bytes,
                ..WorkerView::default()
            })
        };
        assert_eq!(said(0, 0), None);
        let text = said(3, 98).expect("there are some");
        let expected = r"3 outputs (98 B) are only on worker `w\n`: once it has left,";
        assert!(text.starts_with(expected), "{text}");
        assert!(said(1, 98).is_some_and(|text| text.contains("1 output (98 B) is only")));
    }

    #[test]
    fn the_sentence_counts_the_tasks_that_still_run() {
        assert_eq!(
            sentence("w", 0, Some(SILENCE)),
            "Worker `w` drains, and then exits: no task runs on it."
        );
        assert!(sentence("w", 1, None).contains("1 task still runs"));
        assert!(
            sentence("w", 7, Some(SILENCE))
                .ends_with("7 tasks still run on it; it kills its tasks in 20.0 s.")
        );
    }

    #[test]
    fn a_refusal_does_not_show_that_a_worker_has_left() {
        for is_closed in [false, true] {
            still_asked(Failure::refused("no").into(), is_closed).expect_err("a refusal");
            let again = still_asked(anyhow!("no answer"), is_closed).expect("no refusal");
            assert_eq!(again.is_none(), is_closed);
        }
    }

    #[test]
    fn a_worker_has_left_if_another_has_its_name_or_its_port_is_closed_and_it_is_silent() {
        let status = |shard: &str, rand, silent_secs: i64| ClusterStatus {
            workers: Some(vec![WorkerStatus {
                shard: Some(shard.to_owned()),
                instance: Some(BistroInstanceID {
                    start_time: Some(7),
                    rand: Some(rand),
                }),
                since_heartbeat_ms: Some(1000 * silent_secs),
                ..WorkerStatus::default()
            }]),
            ..ClusterStatus::default()
        };
        let worker = all_workers(&status("w", 1, 0)).remove(0);
        let long = Some(SILENCE);
        for (listed, closed_for, left) in [
            (status("w", 1, 0), None, false),
            (status("w", 2, 0), None, true),
            // A scheduler that has just restarted knows no worker yet.
            (status("v", 2, 0), None, false),
            (status("v", 2, 0), Some(Duration::ZERO), true),
            // The port is that of a proxy, which has gone.
            (status("w", 1, 1), long, false),
            (status("w", 1, 100), Some(Duration::ZERO), false),
            (status("w", 1, 100), long, true),
        ] {
            assert_eq!(has_left(&listed, &worker, closed_for), left, "{listed:?}");
        }
    }
}
