//! `brasserie explain`: shows every reason why a task or a job is not running, and the story of a task's last run.

mod last_run;

use anyhow::Result;
use serde_json::json;

use crate::CommandEnding;
use crate::connection::block_on;
use crate::data_dir::{SchedulerSource, SourceArgs};
use crate::node_times::NodeTimes;
use crate::output::{print, print_json, printable, printable_block, shell_word, with_flag};

/// Show all reasons at once why a task or a job is not running, and what happened in the task's last run.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The job of the task.
    job: String,
    /// The node of the task. Without it, the command explains the job as a whole.
    node: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &ExplainArgs) -> Result<CommandEnding> {
    let asked = SchedulerSource::ask(&args.source, async |source| {
        let node = args.node.as_deref();
        let reasons = source
            .connection
            .explain(&args.job, node.unwrap_or_default())
            .await?;
        // The last run is read from the scheduler's disk, which may hang or be missing; the reasons are not.
        let last = match node {
            Some(node) => source.connection.last_run(&args.job, node).await,
            None => Ok(None),
        };
        // Older schedulers know no owners, and jobs that are gone have none.
        let owner = source.connection.job_status(&args.job).await;
        let owner = owner.ok().and_then(|status| status.owner);
        let times = NodeTimes::fetch(&source.connection, node.into_iter()).await;
        let time = times.and_then(|times| times.of_name(node?));
        let reasons = source.without_own_pool(reasons);
        Ok((source.note(), (reasons, owner), last, time))
    });
    let Some((note, (reasons, owner), last, time)) = block_on(asked)?? else {
        return Ok(CommandEnding::Interrupted);
    };
    if args.json {
        let error = last.as_ref().err().map(|error| format!("{error:#}"));
        let last = last.ok().flatten();
        let last = last.as_ref().map(last_run::json);
        let mut document = json!({ "job": args.job, "node": args.node, "owned_by": owner, "reasons": reasons, "last_run": last });
        if let Some(error) = error {
            document["last_run_error"] = error.into();
        }
        print_json(&document)?;
        return Ok(CommandEnding::Success);
    }
    let is_ended = note.is_some();
    let mut text = note.unwrap_or_default();
    if let Some(owner) = owner {
        text.push_str(&format!("The job is owned by `{}`.\n", printable(&owner)));
    }
    if let Some(time) = time {
        text.push_str(&format!("This node stands for {time}.\n"));
    }
    if reasons.is_empty() {
        text.push_str(match (&args.node, is_ended) {
            (_, true) => "The results show nothing that keeps it from running, but no worker is connected any more: only another run can show whether one can take it.\n",
            (Some(_), false) => "Nothing keeps this task from running.\n",
            (None, false) => "Nothing keeps this job from running.\n",
        });
    }
    for reason in &reasons {
        let reason = with_flag(reason, &args.source.flag());
        text.push_str(&format!("- {}\n", printable_block(&reason)));
    }
    if args.node.is_none() {
        let (job, flag) = (shell_word(&args.job), args.source.flag());
        text.push_str(&format!(
            "\n`brasserie task list --job {job}{flag}` lists its tasks, `brasserie explain {job} NODE{flag}` explains one of them.\n"
        ));
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
    Ok(CommandEnding::Success)
}
