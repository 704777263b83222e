//! `brasserie explain`: every reason why a task is not running, and what happened in its last run.

mod last_run;

use anyhow::Result;
use serde_json::json;

use crate::Ending;
use crate::connection::block_on;
use crate::data_dir::{Source, SourceArgs};
use crate::output::{print, print_json, printable_block};

/// Shows all reasons at once, not only the first that was met, and what happened when it ran last.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job of the task.
    job: String,
    /// The node of the task.
    node: String,
    #[command(flatten)]
    source: SourceArgs,
    /// One JSON document instead of lines.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let asked = Source::ask(&args.source, async |source| {
        let reasons = source.connection.explain(&args.job, &args.node).await?;
        // Read from the scheduler's disk, which may hang or be gone; the reasons are not.
        let last = source.connection.last_run(&args.job, &args.node).await;
        Ok((source.note(), reasons, last))
    });
    let Some((note, reasons, last)) = block_on(asked)?? else {
        return Ok(Ending::Interrupted);
    };
    if args.json {
        let error = last.as_ref().err().map(|error| format!("{error:#}"));
        let last = last.ok().flatten();
        let last = last.as_ref().map(last_run::json);
        let mut document =
            json!({ "job": args.job, "node": args.node, "reasons": reasons, "last_run": last });
        if let Some(error) = error {
            document["last_run_error"] = error.into();
        }
        print_json(&document)?;
        return Ok(Ending::Success);
    }
    let mut text = note.unwrap_or_default();
    if reasons.is_empty() {
        text.push_str("Nothing keeps this task from running.\n");
    }
    for reason in &reasons {
        text.push_str(&format!("- {}\n", printable_block(reason)));
    }
    match &last {
        Ok(None) => {}
        Ok(Some(last)) => {
            text.push('\n');
            text.push_str(&last_run::text(last));
        }
        Err(error) => text.push_str(&format!("\nThe last run is not known: {error:#}\n")),
    }
    print(&text)?;
    Ok(Ending::Success)
}
