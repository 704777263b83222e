//! `brasserie job`: manages submitted jobs, and pauses, cancels or forgives all kinds of jobs.

mod wait;

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use brasserie_common::text::{counted, readable_bytes};
use brasserie_thrift::generated::brasserie::{JobStatus, OutputSet};
use brasserie_thrift::generated::scheduler::BistroJobConfig;
use clap::Subcommand;
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::connection::{AskArgs, ChangeOutcome, Forgiven, block_on};
use crate::failure::Failure;
use crate::output::{complain, print, print_json, shell_word, table};

/// Expects any version, or no job.
const ANY_VERSION: i64 = -2;
/// Expects the text's own `version_id`; without one, no existing job.
const AS_TEXT_SAYS: i64 = -1;

/// List, submit, delete, pause, cancel, resume and forgive jobs of a running scheduler, wait for them, and delete their history.
///
/// A job comes from the config file or from `job submit`, never from both: each refuses the names of the other. When the command ends, its
/// change is on disk and survives a restart.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie job list                                   every job, of the file or submitted
  brasserie job submit dump.json                       a new job `dump`
  brasserie job submit dump.json --expect-version 3    replace version 3, and no other version
  brasserie job wait dump --timeout 2h                 wait until no task of it runs or can start
  brasserie job pause dump                             start no more of its tasks; running tasks continue
  brasserie job cancel dump                            start no more of its tasks, and kill running tasks
  brasserie job resume dump                            let a paused or cancelled job continue
  brasserie job forgive dump                           run tasks that failed for good again
  brasserie job delete dump
  brasserie job delete-history dump                    forget the results of its tasks

Exit codes:
  0  the change is on disk; `wait`: every task of the jobs is done
  1  refused, and nothing has changed; or the scheduler gave no answer, and `brasserie status` shows the result; `wait`: some tasks are
     not done, and no task runs or can start
  2  wrong usage, or a file with a job that cannot be read or used
  4  only `wait`: the timeout passed first")]
pub(crate) struct JobArgs {
    #[command(subcommand)]
    command: JobCommand,
}

#[derive(Debug, Subcommand)]
enum JobCommand {
    /// List all jobs by name, those of the config file and submitted ones.
    List(AskArgs),
    /// Submit a new job, or replace an earlier version.
    ///
    /// FILE contains what a config file has under the job's key, as in `{"command": ["/usr/bin/dump"], "owner": "ann"}`. Its command is
    /// an absolute path or the name of a program that workers find. Missing fields are inherited from the settings, also when these change
    /// later. If FILE has errors, nothing changes, and each error is printed with its place.
    Submit(Submit),
    /// Delete a submitted job. Its running tasks continue. Its history stays, in case the job is submitted again. Its outputs are deleted after
    /// a minute, whatever its `keep` says.
    Delete(Delete),
    /// Forgive the failures of a job's tasks: tasks that failed for good run again, and backoffs end and restart from the first step.
    ///
    /// A task whose lost run may still be alive waits for that run, forgiven or not. Tasks that are done stay done.
    Forgive(Forgive),
    /// Delete the history of a job's tasks, so that each counts as never run. It runs again if the job still has it.
    ///
    /// Works also for jobs that no longer exist. Running tasks keep their history, and so do tasks whose lost run may still be alive. The
    /// command prints their number; repeat it later to delete the rest.
    DeleteHistory(DeleteHistory),
    /// Stop starting tasks of a job, of the config file or submitted. Its running tasks continue; those on standby are taken back, unless their worker does not answer.
    Pause(Named),
    /// Kill the running tasks of a job and start no more, for a job of the config file or a submitted one.
    ///
    /// Workers kill the tasks as the job's `kill_subprocess` says. The command does not wait for that; `job wait` does. Workers that return
    /// after a restart kill their tasks then. A killed task that reports no status of its own counts as incomplete. `job resume` lets all
    /// tasks that are not done run again. `job pause` lets the running tasks continue.
    Cancel(Named),
    /// Let the tasks of a paused or cancelled job start again.
    Resume(Named),
    /// Wait until no task of the given jobs runs or can start. The exit code says whether all tasks are done.
    ///
    /// The command prints progress to standard error and waits for a scheduler that restarts. A paused or cancelled job is over when the
    /// last of its running tasks has completed.
    Wait(wait::WaitArgs),
}

#[derive(Debug, clap::Args)]
struct Submit {
    /// The job as JSON; `-` reads standard input.
    file: PathBuf,
    /// The job's name [default: the file's name without its extension].
    #[arg(long)]
    name: Option<String>,
    /// Replace exactly this version; 0: only if the job does not exist [default: the file's `version_id`, else 0].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(0..), conflicts_with = "replace")]
    expect_version: Option<i64>,
    /// Replace any version.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, clap::Args)]
struct Delete {
    /// The name of the job.
    job: String,
    /// Delete the job only if it has this version.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..))]
    expect_version: Option<i64>,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, clap::Args)]
struct DeleteHistory {
    /// The name of the job.
    job: String,
    /// Delete the history only on this node; may be given several times [default: all nodes].
    #[arg(long = "node", value_name = "NODE")]
    nodes: Vec<String>,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, clap::Args)]
struct Forgive {
    /// The name of the job.
    job: String,
    /// Forgive only tasks that have failed for good; backoffs continue.
    #[arg(long)]
    failed: bool,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, clap::Args)]
struct Named {
    /// The name of the job.
    job: String,
    #[command(flatten)]
    ask: AskArgs,
}

pub(crate) fn run(args: &JobArgs) -> Result<CommandEnding> {
    match &args.command {
        JobCommand::List(ask) => list(ask),
        JobCommand::Submit(args) => submit(args),
        JobCommand::Delete(args) => delete(args),
        JobCommand::Forgive(args) => {
            let connection = args.ask.connect_for_changes()?;
            let whom = match args.failed {
                true => Forgiven::Failed,
                false => Forgiven::All,
            };
            let outcome = block_on(connection.forgive_tasks(&args.job, whom))??;
            end(&args.ask, &args.job, "forgiven", outcome.map(Some))
        }
        JobCommand::DeleteHistory(args) => delete_history(args),
        JobCommand::Pause(args) => {
            let connection = args.ask.connect_for_changes()?;
            let outcome = block_on(connection.pause_job(&args.job))??;
            end(&args.ask, &args.job, "paused", outcome.map(|()| None))
        }
        JobCommand::Cancel(args) => cancel(args),
        JobCommand::Wait(args) => wait::run(args),
        JobCommand::Resume(args) => {
            let connection = args.ask.connect_for_changes()?;
            let outcome = block_on(connection.resume_job(&args.job))??;
            end(&args.ask, &args.job, "resumed", outcome.map(|()| None))
        }
    }
}

fn list(ask: &AskArgs) -> Result<CommandEnding> {
    let connection = ask.connect()?;
    let (jobs, status) = block_on(async {
        let jobs = connection.jobs().await?;
        anyhow::Ok((jobs, connection.cluster_status().await?))
    })??;
    let named = |job: JobStatus| Some((job.name.clone()?, job));
    let statuses = status.jobs.into_iter().flatten().filter_map(named);
    let statuses: HashMap<String, JobStatus> = statuses.collect();
    // A job that appeared or vanished between the two answers counts as neither paused nor cancelled.
    let jobs = jobs.iter().map(|job| {
        let status = statuses.get(job.name.as_deref().unwrap_or_default());
        (job, status.cloned().unwrap_or_default())
    });
    match ask.json {
        true => {
            let listed: Vec<Value> = jobs
                .map(|(job, status)| document_of(job, &status))
                .collect();
            print_json(&json!({ "total": listed.len(), "jobs": listed }))?;
        }
        false => {
            let rows: Vec<Vec<String>> = jobs.map(|(job, status)| row_of(job, &status)).collect();
            print(&table(&["job", "owner", "state", "version"], &rows))?;
        }
    }
    Ok(CommandEnding::Success)
}

/// Returns the version of a submitted job. Jobs of the config file have one only if their text has.
fn version_of(job: &BistroJobConfig) -> Option<i64> {
    job.version_id.filter(|version| *version > 0)
}

fn error_of(job: &BistroJobConfig) -> Option<&str> {
    job.error.as_deref().filter(|error| !error.is_empty())
}

/// Returns a row with the same states as `brasserie status`, in the same order. An error hides that the job is paused, cancelled or
/// disabled.
fn row_of(job: &BistroJobConfig, status: &JobStatus) -> Vec<String> {
    let state = match job.enabled {
        _ if error_of(job).is_some() => "broken",
        _ if status.cancelled == Some(true) => "cancelled",
        _ if status.paused == Some(true) => "paused",
        Some(false) => "disabled",
        Some(true) | None => "enabled",
    };
    let version = version_of(job).map_or("-".to_owned(), |version| version.to_string());
    vec![
        job.name.clone().unwrap_or_default(),
        job.owner.clone().unwrap_or_default(),
        state.to_owned(),
        version,
    ]
}

fn document_of(job: &BistroJobConfig, status: &JobStatus) -> Value {
    json!({
        "name": job.name,
        "owner": job.owner,
        "owned_by": status.owner,
        "enabled": job.enabled,
        "paused": status.paused.unwrap_or_default(),
        "cancelled": status.cancelled.unwrap_or_default(),
        "command": job.command,
        "level_for_tasks": job.level_for_tasks,
        "depends_on": job.depends_on,
        "version": version_of(job),
        "error": error_of(job),
    })
}

/// Prints the change, and the number of affected tasks if it is known.
fn end(
    ask: &AskArgs,
    job: &str,
    what: &str,
    outcome: ChangeOutcome<Option<i64>>,
) -> Result<CommandEnding> {
    let tasks = match outcome {
        ChangeOutcome::Done(tasks) => tasks,
        ChangeOutcome::Refused { message, .. } => bail!("{message}"),
    };
    let mut document = json!({ "job": job, "outcome": what });
    let mut sentence = format!("{job}: {what}");
    if let Some(tasks) = tasks {
        document["tasks"] = json!(tasks);
        sentence.push_str(&format!(", {}", tasks_text(tasks)));
    }
    ask.say(&sentence, &document)?;
    Ok(CommandEnding::Success)
}

fn delete(args: &Delete) -> Result<CommandEnding> {
    let connection = args.ask.connect_for_changes()?;
    let expected = args.expect_version.unwrap_or(ANY_VERSION);
    let job = &args.job;
    if let ChangeOutcome::Refused { message, .. } = block_on(connection.remove_job(job, expected))??
    {
        bail!("{message}");
    }
    // The job is deleted, whether or not the scheduler answers this.
    let page = block_on(connection.output_page((job, ""), None, 1))?;
    let set = page.ok().and_then(|page| page.sets?.into_iter().next());
    let outputs = set.as_ref().and_then(outputs_text).unwrap_or_default();
    let document = json!({ "job": job, "outcome": "deleted" });
    args.ask
        .say(&format!("{job}: deleted{outputs}"), &document)?;
    Ok(CommandEnding::Success)
}

/// Says that the outputs of a deleted job are deleted, too; `None` if they are not, because another job has its name.
fn outputs_text(set: &OutputSet) -> Option<String> {
    set.ends_because.as_ref()?;
    let count = |count: Option<i64>| u64::try_from(count.unwrap_or(0)).unwrap_or(0);
    let artifacts = counted(count(set.artifacts), "artifact");
    let bytes = readable_bytes(count(set.bytes));
    Some(format!(
        "; its outputs ({artifacts}, {bytes}) are deleted after a minute, unless the job is submitted again"
    ))
}

fn tasks_text(count: i64) -> String {
    match count {
        1 => "1 task".to_owned(),
        _ => format!("{count} tasks"),
    }
}

fn cancel(args: &Named) -> Result<CommandEnding> {
    let connection = args.ask.connect_for_changes()?;
    let job = &args.job;
    let running = match block_on(connection.cancel_job(job))?? {
        ChangeOutcome::Done(running) => running,
        ChangeOutcome::Refused { message, .. } => bail!("{message}"),
    };
    let (word, flag) = (shell_word(job), args.ask.scheduler.flag());
    let tasks = match running {
        0 => "none of its tasks runs".to_owned(),
        1 => "1 running task is being killed".to_owned(),
        running => format!("{running} running tasks are being killed"),
    };
    let sentence =
        format!("{job}: cancelled; {tasks}; `brasserie job resume {word}{flag}` lets it run again");
    let document = json!({ "job": job, "outcome": "cancelled", "running": running });
    args.ask.say(&sentence, &document)?;
    Ok(CommandEnding::Success)
}

fn delete_history(args: &DeleteHistory) -> Result<CommandEnding> {
    let connection = args.ask.connect_for_changes()?;
    let outcome = block_on(connection.delete_history(&args.job, &args.nodes))??;
    let deleted = match outcome {
        ChangeOutcome::Done(deleted) => deleted,
        ChangeOutcome::Refused { message, .. } => bail!("{message}"),
    };
    let job = &args.job;
    let tasks = deleted.tasks.unwrap_or_default();
    let running = deleted.running.unwrap_or_default();
    let maybe_alive = deleted.maybe_alive.unwrap_or_default();
    let mut sentence = format!("{job}: history deleted, {}", tasks_text(tasks));
    if running > 0 {
        let runs = if running == 1 { "it runs" } else { "they run" };
        sentence.push_str(&format!("; {running} kept, because {runs}"));
    }
    if maybe_alive > 0 {
        sentence.push_str(&format!(
            "; {maybe_alive} kept, because their lost runs may still be alive: repeat the command later"
        ));
    }
    let document = json!({
        "job": job, "outcome": "history deleted", "tasks": tasks, "running": running, "maybe_alive": maybe_alive,
    });
    args.ask.say(&sentence, &document)?;
    Ok(CommandEnding::Success)
}

fn submit(args: &Submit) -> Result<CommandEnding> {
    let is_stdin = args.file == Path::new("-");
    let stem = args.file.file_stem().filter(|_| !is_stdin);
    let name = args.name.clone();
    let name = name.or_else(|| Some(stem?.to_str()?.to_owned()));
    let name = name.ok_or_else(|| {
        Failure::usage("a job from standard input has no name").remedy("Name it: `--name NAME`")
    })?;
    let text = match is_stdin {
        true => read(std::io::stdin().lock()),
        false => std::fs::File::open(&args.file)
            .map_err(Into::into)
            .and_then(read),
    };
    let shown = args.file.display().to_string();
    let text = text.map_err(|why| Failure::unreadable(&format!("cannot read {shown}: {why}")))?;
    if let Some(problem) = whole_file(&text) {
        return Err(Failure::usage(format!("{shown}: {problem}")).into());
    }
    let connection = args.ask.connect_for_changes()?;
    let expected = match args.replace {
        true => ANY_VERSION,
        false => args.expect_version.unwrap_or(AS_TEXT_SAYS),
    };
    match block_on(connection.submit_job(&name, &text, expected))?? {
        ChangeOutcome::Done(submitted) => {
            let warnings = submitted.warnings.unwrap_or_default();
            for warning in &warnings {
                complain!("warning: {shown}:{warning}");
            }
            let version = submitted.version.unwrap_or_default();
            let document = json!({ "job": name, "outcome": "submitted", "version": version, "warnings": warnings });
            let kept = match args.replace || args.expect_version.is_some_and(|version| version > 0)
            {
                false => "",
                true => "; tasks that are done stay done, and failed ones stay failed",
            };
            let sentence = format!("{name}: submitted, version {version}{kept}");
            args.ask.say(&sentence, &document)?;
            Ok(CommandEnding::Success)
        }
        ChangeOutcome::Refused { message, problems } if problems.is_empty() => bail!("{message}"),
        ChangeOutcome::Refused { problems, .. } => {
            let problems = problems.iter().map(|problem| format!("{shown}:{problem}"));
            let failure = Failure::usage(format!("the job in {shown} cannot be used"));
            Err(failure.problems(problems.collect()).into())
        }
    }
}

/// Maximum bytes of a job's text: what fits in one frame. The scheduler's own limit is lower, and it reports that limit.
const MAX_TEXT_BYTES: u64 = 15 * 1024 * 1024;

fn read(from: impl std::io::Read) -> Result<String> {
    let mut text = String::new();
    from.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_TEXT_BYTES {
        bail!("a job of more than {MAX_TEXT_BYTES} bytes is too long");
    }
    Ok(text)
}

/// Returns an error if the text is a whole config file. As a job it would be empty, with warnings for its keys.
fn whole_file(text: &str) -> Option<String> {
    let Ok(Value::Object(fields)) = serde_json::from_str(text) else {
        return None;
    };
    let key = fields.keys().find(|key| key.starts_with("bistro_"))?;
    Some(format!(
        "this is a config file, because it has the key `{key}`; a job file contains only the value of `bistro_job->NAME`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_names_the_outputs_that_go_with_the_job() {
        let mut set = OutputSet {
            artifacts: Some(3),
            bytes: Some(98),
            ..OutputSet::default()
        };
        assert_eq!(outputs_text(&set), None, "a job of the file has the name");
        set.ends_because = Some("the job is gone".to_owned());
        let text = outputs_text(&set).expect("they go");
        assert!(
            text.contains("its outputs (3 artifacts, 98 B) are deleted after a minute"),
            "{text}"
        );
    }

    #[test]
    fn a_config_file_is_not_taken_for_a_job() {
        let text = r#"{"bistro_settings": {}, "bistro_job->x": {}}"#;
        assert!(whole_file(text).is_some_and(|problem| problem.contains("bistro_")));
        // The scheduler reports invalid JSON with its place.
        for text in [r#"{"command": ["x"]}"#, "{", "[]"] {
            assert_eq!(whole_file(text), None);
        }
    }
}
