//! `brasserie worker`: lists workers, shows what they know and do, and takes the operator's word that one is dead.

mod forget;
mod work_fetch;

use anyhow::Result;
use brasserie_common::cluster_view::ClusterView;
use clap::Subcommand;
use serde_json::{Value, json};

use super::status::workers_text;
use crate::Ending;
use crate::connection::{AskArgs, block_on};
use crate::output::{print, print_json};

/// List workers, look at what single ones know and do, or declare one dead.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the workers of a scheduler with their state, running tasks, host, address, the time since their last heartbeat, and their slots.
    ///
    /// `slots in use` shows how many slots of each resource tasks hold, and how many the worker has, as in `cpu 3/8, gpu 1/2`.
    List(AskArgs),
    /// Show whom a worker asks for work, for how much, and why it asks nobody.
    ///
    /// It is the worker's own picture of this moment, which nothing changes by being looked at. Without SHARD, the only worker that the
    /// scheduler knows is shown; of several, a line for each of their schedulers: who asks whom for what, and when the next request may
    /// come.
    WorkFetch(work_fetch::Args),
    /// Declare a worker dead that will never return, so that nothing waits for it any more.
    Forget(forget::Args),
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    match &args.command {
        Command::List(args) => list(args),
        Command::WorkFetch(args) => work_fetch::run(args),
        Command::Forget(args) => forget::run(args),
    }
}

fn list(args: &AskArgs) -> Result<Ending> {
    let view = block_on(args.connect()?.view(0))??;
    match args.json {
        true => print_json(&document(&view))?,
        false => {
            let report = view.report(usize::MAX);
            print(&workers_text(&report, "a scheduler lists at most 10,000"))?;
        }
    }
    Ok(Ending::Success)
}

/// Returns the keys of the document of `brasserie status --json` that are about workers.
fn document(view: &ClusterView) -> Value {
    json!({
        "wall_time_ms": view.wall_time_ms,
        "workers_total": view.workers_total,
        "workers": view.workers,
    })
}
