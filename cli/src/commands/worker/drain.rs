//! `brasserie worker drain`: tells a worker to finish its tasks and exit, and waits for that if the user wants.

use std::io::ErrorKind;
use std::time::Duration;

use anyhow::{Result, anyhow};
use brasserie_thrift::generated::brasserie::ClusterStatus;
use brasserie_thrift::rpc::PeerAddr;
use serde_json::json;
use tokio::net::TcpStream;

use super::asking::{Known, Pool, all_workers, find};
use crate::Ending;
use crate::connection::{AskArgs, Connection, block_on};
use crate::failure::Failure;
use crate::interrupts::Interrupts;
use crate::output::{complain, print, printable};

/// Time between two checks whether the worker has left.
const BETWEEN_CHECKS: Duration = Duration::from_millis(500);
/// Time to connect to the worker.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Number of checks of the worker's port for each question to the scheduler.
const CHECKS_PER_QUESTION: u32 = 10;

/// Drain a worker: it starts no more tasks, completes those that run, and exits.
///
/// The scheduler shows the worker as draining and gives it no more tasks. Its queued tasks go to other workers. To undo the drain, start the
/// worker again once it has exited: its data directory stays.
///
/// The worker exits with code 0, so a service manager that restarts programs only on failure leaves it stopped. `--drain-timeout` of the
/// worker limits the time for its tasks; then the worker kills them and exits.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie worker drain host7           returns as soon as the worker drains
  brasserie worker drain host7 --wait    returns when it has left, for example before the machine is restarted

Exit codes:
  0    the worker drains, or with --wait: it has left
  1    no such worker, or it was not reached or refused
  2    wrong usage
  130  interrupted while waiting: the drain continues")]
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
    let scheduler = args.ask.connect()?;
    let worker = find(all_workers(&scheduler.bounded_status().await?), &args.shard)?;
    let peer = worker.peer().map_err(|error| anyhow!("{error}"))?;
    let running = Pool::new().drain(&peer, &worker).await;
    let running = running.map_err(|error| {
        let list = format!("brasserie worker list{}", args.ask.scheduler.flag());
        Failure::new(error).remedy(format!("`{list}` shows whether the worker drains"))
    })?;
    let document =
        |has_left: bool| json!({ "worker": args.shard, "running": running, "left": has_left });
    if !args.wait {
        args.ask
            .say(&sentence(&args.shard, running), &document(false))?;
        return Ok(Ending::Success);
    }
    if !args.ask.json {
        print(&format!("{}\n", sentence(&args.shard, running)))?;
    }
    let mut interrupts = Interrupts::listen()?;
    tokio::select! {
        () = wait_until_left(&scheduler, &peer, &worker) => {}
        () = interrupts.next() => return Ok(Ending::Interrupted),
    }
    let left = format!("Worker `{}` has left.", printable(&args.shard));
    args.ask.say(&left, &document(true))?;
    Ok(Ending::Success)
}

fn sentence(shard: &str, running: i32) -> String {
    let tasks = match running {
        0 => "no task runs on it".to_owned(),
        1 => "1 task still runs on it".to_owned(),
        running => format!("{running} tasks still run on it"),
    };
    format!(
        "Worker `{}` drains, and then exits: {tasks}.",
        printable(shard)
    )
}

/// Waits until the worker's port is closed, which is the last that a worker does, or until another instance has its name. A scheduler may
/// have restarted and not know the worker yet, so a missing worker says nothing.
async fn wait_until_left(scheduler: &Connection, peer: &PeerAddr, worker: &Known) {
    let mut is_told = false;
    for check in 1_u32.. {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(peer.as_str()));
        let trouble = match connected.await {
            Ok(Ok(_)) => None,
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => return,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("no connection in time".to_owned()),
        };
        if let Some(why) = trouble.filter(|_| !is_told) {
            complain!(
                "brasserie: cannot see whether the worker at {peer} has left, and tries again: {why}"
            );
            is_told = true;
        }
        if check % CHECKS_PER_QUESTION == 0 {
            let status = scheduler.bounded_status().await;
            if status.is_ok_and(|status| has_successor(&status, worker)) {
                return;
            }
        }
        tokio::time::sleep(BETWEEN_CHECKS).await;
    }
}

/// Returns whether another instance has the worker's name.
fn has_successor(status: &ClusterStatus, worker: &Known) -> bool {
    let mut workers = all_workers(status).into_iter();
    workers.any(|other| other.shard == worker.shard && other.instance != worker.instance)
}

#[cfg(test)]
mod tests {
    use brasserie_thrift::generated::brasserie::WorkerStatus;
    use brasserie_thrift::generated::common::BistroInstanceID;

    use super::*;

    #[test]
    fn the_sentence_counts_the_tasks_that_still_run() {
        assert_eq!(
            sentence("w", 0),
            "Worker `w` drains, and then exits: no task runs on it."
        );
        assert!(sentence("w", 1).contains("1 task still runs"));
        assert!(sentence("w", 7).contains("7 tasks still run"));
    }

    #[test]
    fn only_another_instance_under_the_same_name_is_a_successor() {
        let status = |shard: &str, rand| ClusterStatus {
            workers: Some(vec![WorkerStatus {
                shard: Some(shard.to_owned()),
                instance: Some(BistroInstanceID {
                    start_time: Some(7),
                    rand: Some(rand),
                }),
                ..WorkerStatus::default()
            }]),
            ..ClusterStatus::default()
        };
        let worker = all_workers(&status("w", 1)).remove(0);
        assert!(!has_successor(&status("w", 1), &worker));
        assert!(has_successor(&status("w", 2), &worker));
        assert!(!has_successor(&status("v", 2), &worker));
        assert!(!has_successor(&ClusterStatus::default(), &worker));
    }
}
