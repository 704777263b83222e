//! `brasserie artifact`: lists, finds, fetches and removes the outputs of tasks, and uploads, lists and removes files that jobs have as inputs.

mod files;
mod get;
mod hold;
mod outputs;
mod put;
mod transfer;

use anyhow::{Result, bail};
use brasserie_common::text::counted;
use clap::Subcommand;
use clap::builder::NonEmptyStringValueParser;
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::connection::{AskArgs, ChangeOutcome, NeededOutputs, block_on};
use crate::output::{complain, print, print_json, printable, table};
use files::{FoundFiles, find_files};
use outputs::{FoundOutputs, find, output_document, set_document};

/// List, find, fetch and remove the outputs of tasks, and the files that jobs have as inputs.
///
/// Outputs are the files and folders that jobs declare by `outputs`. Workers keep them for the tasks that have them as inputs, for as long as
/// the job's key `keep` says. A file that a job names as an input by `file` comes from the config file's folder, or `put` uploads it. The
/// scheduler keeps such files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie artifact list                         the outputs of all jobs, and until when they are kept
  brasserie artifact list extract --node db1      the outputs of one task
  brasserie artifact locate extract               the workers that have the outputs of a job
  brasserie artifact get extract db1 table        fetch an output into the current folder
  brasserie artifact get extract --to all         fetch all outputs of a job, as all/NODE/PATH
  brasserie artifact rm extract db1               forget the outputs of a task; workers delete them
  brasserie artifact hold extract -- ./report.sh  keep the outputs of a job until a program has ended
  brasserie artifact put dims.csv                 upload a file for inputs such as {\"file\": \"dims.csv\"}
  brasserie artifact rm --file dims.csv           remove an uploaded file

These commands need a running scheduler. A `brasserie run` has none that they could call: \
let its last job copy what you need.

Exit codes:
  0    success; also `list` without outputs
  1    the scheduler gave no answer, knows no such job, output or file, or refused
       `locate`: an output has no known copy
       `get`: no worker has sent a good copy, or a place was taken, be it of one of several outputs
       `put`: the file cannot be read
  2    wrong usage; `get`: the folder of `--to` does not exist
  130  `get` or `put` was interrupted, and has changed nothing, or `hold` was interrupted
       A `get` of several outputs keeps those that are complete
  else `hold`: the exit code of its program")]
pub(crate) struct ArtifactArgs {
    #[command(subcommand)]
    command: ArtifactCommand,
}

#[derive(Debug, Subcommand)]
enum ArtifactCommand {
    /// List outputs with their sizes, copies and states, and say until when the outputs of each job are kept.
    ///
    /// `copies` counts the disks of workers that have the output; `1 of 2` means that a copy is missing (`replicas`). `state` is available (a worker has a copy), unknown (no copy is known, and
    /// not all workers have reported), lost (there is no copy: the task runs again once another task needs the output) or given up (there is
    /// no copy, and the task does not run again for it).
    ///
    /// A second table has the files that jobs have as inputs or that were uploaded. `from` is config (the config file's folder) or uploaded.
    /// `state` is available (the scheduler has the file) or missing, which a line below explains.
    List(ListArgs),
    /// Show which workers have the outputs of a job, of a task, one output, or a file.
    Locate(LocateArgs),
    /// Fetch an output, or all outputs of a task or job, from workers that have them, and write them as files and folders.
    ///
    /// The command connects to the worker as other workers do, so this machine must reach the worker's address. It verifies the SHA-256 of the
    /// output before it writes the result. If a worker is gone or its copy is damaged, the command tries the next one. A file comes from the
    /// scheduler.
    ///
    /// All outputs of a job become DIR/NODE/PATH below the folder of `--to`, with names of nodes as those of folders in `$BRASSERIE_INPUTS`. The
    /// command skips outputs that are there already, so it can be repeated after a failure or interruption. Tasks that are not done have no outputs.
    Get(get::GetArgs),
    /// Upload a file to the scheduler, for jobs that name it as an input by `file`.
    ///
    /// Tasks get the new file if they start after the command has ended with success. It takes the place of an older one with the same name,
    /// which tasks that run already keep. The scheduler keeps the file until `rm --file` removes it. A file of the same name in the config
    /// file's folder goes before an uploaded one, except for jobs that `brasserie job submit` has submitted.
    Put(put::PutArgs),
    /// Forget the outputs of a job, or of some of its tasks, before `keep` says so. The change is on disk when the command ends.
    ///
    /// The workers delete the outputs a minute or two later. Tasks that are done stay done: to make outputs again, use `brasserie job
    /// delete-history`. The scheduler refuses while a task runs that has the outputs as inputs, and while such a task is not done.
    ///
    /// The flag `--file` removes an uploaded file. The scheduler refuses that while a job has the file as an input.
    Rm(RmArgs),
    /// Keep the outputs of jobs with `keep = "while_held"` as long as this command runs, or a program that it starts.
    ///
    /// Every 10 seconds the command tells the scheduler that it needs the outputs. They are deleted as soon as the program ends with success, no
    /// other such command holds them and no task needs them. If the command is killed or loses the scheduler, or if the program fails or is
    /// interrupted, that happens 5 minutes later, so that you can try again.
    ///
    /// The command without a program runs until it is interrupted. That is its ordinary end: the outputs are deleted at once in the same way.
    ///
    /// No hold ends earlier in the first 5 minutes after a start of the scheduler, which then does not know all holds.
    ///
    /// The command ends with the exit code of its program, or with 128 and the number of the signal that has ended the program.
    Hold(hold::HoldArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// List only outputs of this job.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,
    /// List only outputs of the task on this node of JOB.
    #[arg(long, requires = "job", value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
    /// List at most N outputs.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = limit)]
    limit: usize,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, clap::Args)]
#[command(override_usage = "\
brasserie artifact locate [OPTIONS] <JOB> [NODE] [PATH]
       brasserie artifact locate [OPTIONS] --file <NAME>")]
struct LocateArgs {
    /// The name of the job.
    #[arg(required_unless_present = "file", value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,
    /// Show only outputs of the task on this node.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    node: Option<String>,
    /// Show only the output with this path, as in the job's `outputs`.
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    path: Option<String>,
    /// Show who has the file that jobs name in `file` of an input, in place of outputs.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["job", "node", "path"], value_parser = NonEmptyStringValueParser::new())]
    file: Option<String>,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, clap::Args)]
#[command(override_usage = "\
brasserie artifact rm [OPTIONS] <JOB> [NODES]...
       brasserie artifact rm [OPTIONS] --file <NAME>")]
struct RmArgs {
    /// The name of the job.
    #[arg(required_unless_present = "file", value_parser = NonEmptyStringValueParser::new())]
    job: Option<String>,
    /// The nodes of the tasks [default: all].
    nodes: Vec<String>,
    /// Remove the uploaded file with this name, in place of outputs.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["job", "nodes"], value_parser = NonEmptyStringValueParser::new())]
    file: Option<String>,
    /// Forget the outputs even if tasks need them. Those tasks then wait until the outputs are made again. Or remove the file even if jobs have
    /// it as an input.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    ask: AskArgs,
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| "write a number above 0".to_owned())
}

pub(crate) fn run(args: &ArtifactArgs) -> Result<CommandEnding> {
    match &args.command {
        ArtifactCommand::List(args) => args.ask.advised(list(args)),
        ArtifactCommand::Locate(args) => args.ask.advised(locate(args)),
        ArtifactCommand::Get(args) => get::run(args),
        ArtifactCommand::Put(args) => put::run(args),
        ArtifactCommand::Rm(args) => args.ask.advised(remove(args)),
        ArtifactCommand::Hold(args) => hold::run(args),
    }
}

fn list(args: &ListArgs) -> Result<CommandEnding> {
    let connection = args.ask.connect()?;
    let job = args.job.as_deref().unwrap_or_default();
    let node = args.node.as_deref().unwrap_or_default();
    let (found, files) = block_on(async {
        let found = find(&connection, (job, node), args.limit).await?;
        let files = match &args.job {
            Some(_) => FoundFiles::default(),
            None => find_files(&connection, "").await?,
        };
        anyhow::Ok((found, files))
    })??;
    match args.ask.json {
        true => {
            let listed: Vec<Value> = found.outputs().iter().map(output_document).collect();
            let sets: Vec<Value> = found.sets().map(set_document).collect();
            print_json(&json!({
                "outputs": listed, "jobs": sets, "more": found.has_more(), "why_empty": found.why_empty(),
                "files": files.files().iter().map(files::document).collect::<Vec<Value>>(),
            }))?;
        }
        false => print(&format!("{}{}", list_text(&found), files_text(&files)))?,
    }
    Ok(CommandEnding::Success)
}

fn list_text(found: &FoundOutputs) -> String {
    if let Some(why) = found.why_empty() {
        // The reason is a whole sentence.
        let why = printable(why);
        let mut why = why.chars();
        let first = why.next().map(char::to_uppercase);
        let first: String = first.into_iter().flatten().collect();
        return format!("{first}{}.\n", why.as_str());
    }
    let rows: Vec<Vec<String>> = found.outputs().iter().map(outputs::row).collect();
    let headers = [
        "job", "node", "path", "form", "bytes", "copies", "state", "workers",
    ];
    let mut text = table(&headers, &rows);
    if found.has_more() {
        let shown = rows.len();
        text.push_str(&format!(
            "\nThese are the first {shown} outputs; `--limit N` shows more.\n"
        ));
    }
    text.push('\n');
    for set in found.sets() {
        text.push_str(&format!("{}\n", outputs::set_text(set)));
    }
    text
}

/// Returns the table of files, and why some are missing; nothing if there are none.
fn files_text(found: &FoundFiles) -> String {
    if found.files().is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<String>> = found.files().iter().map(files::row).collect();
    let headers = [
        "file",
        "from",
        "bytes",
        "sha256",
        "state",
        "inputs of",
        "workers",
    ];
    let mut text = format!("\n{}", table(&headers, &rows));
    let problems = found.files().iter().filter_map(|file| {
        let name = printable(file.name.as_deref().unwrap_or_default());
        let problem = printable(file.problem.as_deref()?);
        Some(format!("`{name}`: {problem}\n"))
    });
    let problems: Vec<String> = problems.collect();
    if !problems.is_empty() {
        text.push('\n');
        text.extend(problems);
    }
    text
}

/// Shows who has a file.
fn locate_file(ask: &AskArgs, name: &str) -> Result<CommandEnding> {
    let connection = ask.connect()?;
    let found = block_on(find_files(&connection, name))??;
    let file = found.named(name)?;
    match ask.json {
        true => print_json(&files::document(file))?,
        false => {
            let own = ["the scheduler", "-", connection.address()];
            let holders = file.holders.iter().flatten().map(|holder| {
                let text = |text: &Option<String>| text.clone().unwrap_or_default();
                let address = outputs::address_of(holder);
                vec![text(&holder.shard), text(&holder.hostname), address]
            });
            let rows = [own.map(str::to_owned).to_vec()].into_iter().chain(holders);
            let rows: Vec<Vec<String>> = rows.collect();
            print(&table(&["worker", "host", "address"], &rows))?;
        }
    }
    Ok(CommandEnding::Success)
}

fn locate(args: &LocateArgs) -> Result<CommandEnding> {
    if let Some(name) = &args.file {
        return locate_file(&args.ask, name);
    }
    let connection = args.ask.connect()?;
    let node = args.node.as_deref().unwrap_or_default();
    let job = args.job.as_deref().unwrap_or_default();
    let found = block_on(find(&connection, (job, node), usize::MAX))??;
    if let Some(why) = found.why_empty() {
        bail!("{}", printable(why));
    }
    let selected = match &args.path {
        None => found.outputs().iter().collect(),
        Some(path) => found.with_path(path)?,
    };
    let is_available = |output: &&&_| outputs::is_available(output);
    let missing = selected
        .iter()
        .filter(|output| !is_available(output))
        .count();
    match args.ask.json {
        true => {
            let listed: Vec<Value> = selected.iter().map(|one| output_document(one)).collect();
            print_json(&json!({ "outputs": listed }))?;
        }
        false => {
            let rows: Vec<Vec<String>> = selected
                .iter()
                .flat_map(|one| outputs::places(one))
                .collect();
            let headers = ["node", "path", "worker", "host", "address"];
            print(&table(&headers, &rows))?;
        }
    }
    if missing > 0 {
        complain!(
            "brasserie: {} no known copy; `brasserie artifact list{}` shows the states",
            match missing {
                1 => "1 output has".to_owned(),
                missing => format!("{missing} outputs have"),
            },
            args.ask.scheduler.flag()
        );
        return Ok(CommandEnding::Failure);
    }
    Ok(CommandEnding::Success)
}

fn remove_file(args: &RmArgs, name: &str) -> Result<CommandEnding> {
    let connection = args.ask.connect_for_changes()?;
    if let Err(why) = block_on(connection.remove_file(name, args.force))?? {
        bail!("{why}");
    }
    let sentence = format!(
        "{}: removed; tasks that have started with the file keep it",
        printable(name)
    );
    let document = json!({ "file": name, "outcome": "removed" });
    args.ask.say(&sentence, &document)?;
    Ok(CommandEnding::Success)
}

fn remove(args: &RmArgs) -> Result<CommandEnding> {
    if let Some(name) = &args.file {
        return remove_file(args, name);
    }
    let connection = args.ask.connect_for_changes()?;
    let needed = match args.force {
        true => NeededOutputs::Forget,
        false => NeededOutputs::Keep,
    };
    let job = args.job.as_deref().unwrap_or_default();
    let outcome = block_on(connection.forget_outputs(job, &args.nodes, needed))??;
    let forgotten = match outcome {
        ChangeOutcome::Done(forgotten) => forgotten,
        ChangeOutcome::Refused { message, .. } => bail!("{message}"),
    };
    let (tasks, count) = (forgotten.tasks.unwrap_or(0), forgotten.outputs.unwrap_or(0));
    let text = |count: i64, noun| counted(u64::try_from(count).unwrap_or(0), noun);
    let sentence = format!(
        "{}: {} of {} forgotten; workers delete the data in a minute or two",
        job,
        text(count, "output"),
        text(tasks, "task")
    );
    let document = json!({
        "job": job, "outcome": "outputs forgotten", "tasks": tasks, "outputs": count,
    });
    args.ask.say(&sentence, &document)?;
    Ok(CommandEnding::Success)
}
