//! `brasserie plan`: shows the changes that a config file would cause in a running scheduler, without making them.

mod jobs;
mod json;
mod text;

use std::path::PathBuf;

use anyhow::{Context, Result};
use brasserie_common_config::Format;
use brasserie_common_runtime::files;
use brasserie_thrift::generated::brasserie::{BrasseriePlanConfigArgs, Plan};

use crate::CommandEnding;
use crate::connection::{Connection, block_on};
use crate::destination::SchedulerArgs;
use crate::failure::Failure;
use crate::output::{print, print_json, with_flag};
use jobs::PlannedJobs;

/// Maximum size of a planned file, which must fit in one frame of 16 MiB with the rest of the call.
const MAX_PLANNED_BYTES: u64 = 15 * 1024 * 1024;

/// Show what a config file would do in place of the one that the scheduler watches. Nothing is changed.
///
/// The plan shows added, changed and removed settings, nodes and jobs. It shows the tasks that would start at once, the running tasks that
/// would be killed, when and how, and those that would continue although no job wants them. It names new jobs of which no task would start,
/// and counts the present tasks of changed jobs. It lists every error in the file with its place. If the file's node sources differ from
/// those in force, the scheduler reads them for the plan, which includes running their scripts.
///
/// Relative commands and scripts in FILE resolve as in the scheduler's own file, as if FILE had replaced it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie plan new.json && mv new.json /etc/brasserie/jobs.json

Exit codes:
  0  a plan without errors; with `--detailed-exitcode`: nothing would change
  1  there is no plan: the scheduler gave no answer, or makes no plans now
  2  wrong usage; or errors in the file or in its node sources, or the file would not be in force
  3  only with `--detailed-exitcode`: something would change")]
pub(crate) struct PlanArgs {
    /// The config file: JSON, or TOML (.toml) or YAML (.yaml, .yml).
    file: PathBuf,
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// Resolve relative commands and scripts in this folder of the scheduler's machine [default: the folder of its config file].
    #[arg(long, value_name = "DIR")]
    folder: Option<String>,
    /// Exit with code 3 if something would change.
    #[arg(long)]
    detailed_exitcode: bool,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &PlanArgs) -> Result<CommandEnding> {
    let shown = args.file.display().to_string();
    let text = files::read(&args.file, MAX_PLANNED_BYTES);
    let text = text.map_err(|error| Failure::unreadable(&error))?;
    let folder = args.folder.clone().unwrap_or_default();
    if !folder.is_empty() && !folder.starts_with('/') {
        let what =
            format!("`--folder {folder}` is relative, and the scheduler may be on another machine");
        return Err(Failure::usage(what).remedy("Write the whole path").into());
    }
    let arguments = BrasseriePlanConfigArgs {
        text,
        format: format_name(Format::of_path(&args.file)).to_owned(),
        folder,
    };
    let connection = Connection::for_changes_to(&args.scheduler)?;
    let asked = async {
        let plan = connection.plan_config(&arguments).await?;
        let jobs = PlannedJobs::of(
            &plan,
            &arguments.text,
            Format::of_path(&args.file),
            &connection,
        )
        .await;
        anyhow::Ok((plan, jobs))
    };
    let asked = block_on(asked)?;
    let (plan, jobs) = asked.with_context(|| format!("cannot plan {shown}"))?;
    match args.json {
        true => print_json(&json::of(&plan, &jobs, &shown))?,
        false => {
            let text = text::of(&plan, &jobs, &shown);
            print(&with_flag(&text, &args.scheduler.flag()))?;
        }
    }
    Ok(match is_good(&plan) {
        false => CommandEnding::Usage,
        true if args.detailed_exitcode && plan.changes_nothing != Some(true) => {
            CommandEnding::Changes
        }
        true => CommandEnding::Success,
    })
}

fn format_name(format: Format) -> &'static str {
    match format {
        Format::Json => "json",
        Format::Toml => "toml",
        Format::Yaml => "yaml",
    }
}

/// Returns whether the file would take effect completely.
fn is_good(plan: &Plan) -> bool {
    plan.usable == Some(true)
        && plan.errors.as_ref().is_none_or(Vec::is_empty)
        && plan.refused.is_none()
        && plan.nodes_error.is_none()
}
