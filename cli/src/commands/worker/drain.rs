//! `brasserie worker drain`: tells a worker to finish its tasks and exit, and waits for that if the user wants.

use std::time::Duration;

use anyhow::{Result, anyhow};
use brasserie_thrift::generated::brasserie::ClusterStatus;
use brasserie_thrift::generated::common::BistroInstanceID;
use serde_json::json;

use super::asking::{Pool, all_workers, find};
use crate::Ending;
use crate::connection::{AskArgs, Connection, block_on};
use crate::interrupts::Interrupts;
use crate::output::printable;

/// Time between two checks whether the worker has left.
const BETWEEN_CHECKS: Duration = Duration::from_millis(500);

/// Drain a worker: it starts no more tasks, completes those that run, and exits.
///
/// The scheduler shows the worker as draining and gives it no more tasks. Its queued tasks go to other workers. To undo the drain, start the
/// worker again once it has exited: its data directory stays.
///
/// The worker exits with code 0, so a service manager that restarts programs only on failure leaves it stopped. `--drain-timeout` of the
/// worker limits the wait for its tasks.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie worker drain host7           returns as soon as the worker drains
  brasserie worker drain host7 --wait    returns when it has left, for example before the machine is restarted

Exit codes:
  0    the worker drains, or with --wait: it has left
  1    no such worker, or it was not reached or refused
  2    wrong usage
  130  interrupted while waiting: the worker drains on")]
pub(super) struct Args {
    /// The worker's name, as `brasserie status` shows it.
    #[arg(value_name = "NAME")]
    shard: String,
    /// Wait until the worker has left.
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    ask: AskArgs,
}

pub(super) fn run(args: &Args) -> Result<Ending> {
    block_on(drain(args))?
}

async fn drain(args: &Args) -> Result<Ending> {
    let mut interrupts = Interrupts::listen()?;
    let scheduler = args.ask.connect()?;
    let worker = find(all_workers(&scheduler.bounded_status().await?), &args.shard)?;
    let peer = worker.peer().map_err(|error| anyhow!("{error}"))?;
    let running = Pool::new().drain(&peer, &args.shard).await;
    let running = running.map_err(|error| anyhow!("{error}"))?;
    let has_left = args.wait
        && tokio::select! {
            left = wait_until_left(&scheduler, &args.shard, worker.instance.as_ref()) => left.map(|()| true)?,
            () = interrupts.next() => false,
        };
    let document = json!({ "worker": args.shard, "running": running, "left": has_left });
    args.ask
        .say(&sentence(&args.shard, running, has_left), &document)?;
    Ok(match args.wait && !has_left {
        true => Ending::Interrupted,
        false => Ending::Success,
    })
}

fn sentence(shard: &str, running: i32, has_left: bool) -> String {
    let shard = printable(shard);
    if has_left {
        return format!("Worker `{shard}` has completed its tasks and left.");
    }
    let tasks = match running {
        0 => "no task runs on it".to_owned(),
        1 => "1 task still runs on it".to_owned(),
        running => format!("{running} tasks still run on it"),
    };
    format!("Worker `{shard}` drains, and then exits: {tasks}.")
}

/// Waits until the scheduler does not list this instance any more. A scheduler that does not answer at the moment is asked again.
async fn wait_until_left(
    scheduler: &Connection,
    shard: &str,
    instance: Option<&BistroInstanceID>,
) -> Result<()> {
    loop {
        let status = scheduler.bounded_status().await;
        if status.is_ok_and(|status| !lists(&status, shard, instance)) {
            return Ok(());
        }
        tokio::time::sleep(BETWEEN_CHECKS).await;
    }
}

fn lists(status: &ClusterStatus, shard: &str, instance: Option<&BistroInstanceID>) -> bool {
    let mut workers = all_workers(status).into_iter();
    workers.any(|worker| worker.shard == shard && worker.instance.as_ref() == instance)
}

#[cfg(test)]
mod tests {
    use brasserie_thrift::generated::brasserie::WorkerStatus;

    use super::*;

    #[test]
    fn the_sentence_counts_the_tasks_that_still_run() {
        assert_eq!(
            sentence("w", 0, false),
            "Worker `w` drains, and then exits: no task runs on it."
        );
        assert!(sentence("w", 1, false).contains("1 task still runs"));
        assert!(sentence("w", 7, false).contains("7 tasks still run"));
        assert!(sentence("w", 7, true).ends_with("and left."));
    }

    #[test]
    fn another_instance_under_the_same_name_means_that_the_worker_has_left() {
        let instance = |rand| BistroInstanceID {
            start_time: Some(7),
            rand: Some(rand),
        };
        let status = ClusterStatus {
            workers: Some(vec![WorkerStatus {
                shard: Some("w".to_owned()),
                instance: Some(instance(1)),
                ..WorkerStatus::default()
            }]),
            ..ClusterStatus::default()
        };
        assert!(lists(&status, "w", Some(&instance(1))));
        assert!(!lists(&status, "w", Some(&instance(2))));
        assert!(!lists(&status, "v", Some(&instance(1))));
    }
}
