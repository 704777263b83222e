//! `brasserie worker`: lists workers, shows their work fetch, takes them out of service, and declares workers dead.

mod asking;
mod drain;
mod forget;
mod order;
mod revoke;
mod work_fetch;

use anyhow::Result;
use brasserie_common::cluster_view::ClusterView;
use clap::Subcommand;
use serde_json::{Value, json};

use super::status::workers_text;
use crate::CommandEnding;
use crate::connection::{AskArgs, block_on};
use crate::output::{print, print_json};

/// List workers, show the work fetch of one, take one out of service and back, or declare one dead.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerArgs {
    #[command(subcommand)]
    command: WorkerCommand,
}

#[derive(Debug, Subcommand)]
enum WorkerCommand {
    /// List the workers of a scheduler with state, running tasks, those on standby, host, address, the time since the last heartbeat, and slots.
    ///
    /// `slots in use` shows how many slots of each resource tasks hold, and how many the worker has, as in `cpu 3/8, gpu 1/2`.
    List(AskArgs),
    /// Show from which schedulers a worker requests work, how much, and why it requests none.
    ///
    /// The view is the worker's own at this moment; showing it changes nothing. Without SHARD, the command shows the scheduler's only
    /// worker in full. If there are several, it prints one line for each worker and scheduler: the current request, and the time of the
    /// next one.
    WorkFetch(work_fetch::WorkFetchArgs),
    Drain(drain::DrainArgs),
    Exclude(order::ExcludeArgs),
    Decommission(order::DecommissionArgs),
    Recommission(order::RecommissionArgs),
    /// Declare a worker dead that will never return, so that the scheduler stops waiting for it.
    Forget(forget::ForgetArgs),
    Revoke(revoke::RevokeArgs),
}

pub(crate) fn run(args: &WorkerArgs) -> Result<CommandEnding> {
    match &args.command {
        WorkerCommand::List(args) => list(args),
        WorkerCommand::WorkFetch(args) => work_fetch::run(args),
        WorkerCommand::Drain(args) => drain::run(args),
        WorkerCommand::Exclude(args) => order::exclude(args),
        WorkerCommand::Decommission(args) => order::decommission(args),
        WorkerCommand::Recommission(args) => order::recommission(args),
        WorkerCommand::Forget(args) => forget::run(args),
        WorkerCommand::Revoke(args) => revoke::run(args),
    }
}

fn list(args: &AskArgs) -> Result<CommandEnding> {
    let view = block_on(args.connect()?.view(0))??;
    match args.json {
        true => print_json(&document(&view))?,
        false => {
            let report = view.report(usize::MAX);
            print(&workers_text(
                &report,
                &args.scheduler.flag(),
                "a scheduler lists at most 10,000",
            ))?;
        }
    }
    Ok(CommandEnding::Success)
}

/// Returns the keys of the document of `brasserie status --json` that are about workers.
fn document(view: &ClusterView) -> Value {
    json!({
        "wall_time_ms": view.wall_time_ms,
        "workers_total": view.workers_total,
        "workers": view.workers,
        "orders": view.orders,
    })
}
