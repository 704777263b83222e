//! `brasserie explain`: every reason why a task is not running.

use anyhow::Result;
use serde_json::json;

use crate::Ending;
use crate::connection::{Connection, SchedulerArgs, block_on};
use crate::output::{print, print_json};

/// Shows all reasons at once, not only the first that was met.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job of the task.
    job: String,
    /// The node of the task.
    node: String,
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// One JSON document instead of lines.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let connection = Connection::new(&args.scheduler.scheduler)?;
    let reasons = block_on(connection.explain(&args.job, &args.node))??;
    if args.json {
        print_json(&json!({ "job": args.job, "node": args.node, "reasons": reasons }))?;
    } else if reasons.is_empty() {
        print("Nothing keeps this task from running.\n")?;
    } else {
        let lines: Vec<String> = reasons
            .iter()
            .map(|reason| format!("- {reason}\n"))
            .collect();
        print(&lines.concat())?;
    }
    Ok(Ending::Success)
}
