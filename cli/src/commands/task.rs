//! `brasserie task`: lists tasks by state, and kills running ones.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use brasserie_common::cluster_view::{ClusterView, JobState};
use brasserie_common::{KillMethod, KillRequest, ListedState, Story};
use brasserie_common_config::nearest;
use brasserie_thrift::generated::brasserie::{ListedTask, TaskKill, TaskPage};
use clap::Subcommand;
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::connection::{AskArgs, ChangeOutcome, Connection, block_on, run_id};
use crate::data_dir::{SchedulerSource, SourceArgs};
use crate::node_times::NodeTimes;
use crate::output::{
    complain, duration, print, print_json, printable, printable_block, shell_word, table, with_flag,
};

/// Limit for the failed tasks whose last lines are listed: a few screens. The scheduler reads its disk for each.
const MAX_WITH_LINES: usize = 20;
/// The column of the table with the node.
const NODE: usize = 1;
/// Bytes of a reason that fit in each row of the table.
const LONG_REASON: usize = 60;

/// List tasks by state, and kill running ones.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie task list                              the first 1000 tasks, of all jobs
  brasserie task list --job dump --state failed    tasks that failed for good, with time and reason
  brasserie task list --state running,unsure       running tasks, with worker and start time
  brasserie task kill dump db1 db2                 kill two running tasks

Exit codes:
  0  success
  1  the scheduler gave no answer, or knows no such job; `kill`: a task was not ended
  2  wrong usage")]
pub(crate) struct TaskArgs {
    #[command(subcommand)]
    command: TaskCommand,
}

#[derive(Debug, Subcommand)]
enum TaskCommand {
    /// List tasks with their state, time and worker, and the reason why a task does not run.
    ///
    /// A task in state backoff waits for its backoff or, if its worker was lost, for the safety wait: `why` says which.
    ///
    /// `since` is when a running task or one on standby was sent to its worker, or the completion of the last run of any other task. `tries` counts
    /// the consecutive tries that failed, and shows how many of them fail the task. The list is sorted by job; each job's
    /// running tasks come first, then the others in scheduling order. A task whose state changes meanwhile may be listed twice or not at
    /// all. With `--state failed`, the last lines of standard error of the first 20 failed tasks follow the list.
    List(ListArgs),
    /// Kill running tasks, as the job's `kill_subprocess` says.
    ///
    /// The command returns when the workers have accepted the requests; a task that handles the signal may run for a while. If the task
    /// reports a status before it exits, this status counts. Any other task counts as incomplete, which uses up no retry, whatever
    /// `backoff` and `retries` say. Such a task waits for the current step of its backoff, or 60 seconds if no wait is left, and runs
    /// again. To prevent this, pause or cancel the job first. A task on standby ends without having begun.
    Kill(KillArgs),
}

#[derive(Clone, Debug, clap::Args)]
struct ListArgs {
    /// List only tasks of this job.
    #[arg(long)]
    job: Option<String>,
    /// List only tasks in these states: running, unsure (may or may not run), standby (at its worker until slots are free there), waiting,
    /// backoff (waits after its last run), failed, never (can never run with the current configuration and workers), done, disabled [default: all but disabled].
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', value_parser = listed_state, hide_possible_values = true)]
    states: Vec<ListedState>,
    /// List at most N tasks.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = limit)]
    limit: usize,
    #[command(flatten)]
    source: SourceArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct KillArgs {
    /// The job of the tasks.
    job: String,
    /// The nodes of the tasks.
    #[arg(required = true)]
    nodes: Vec<String>,
    #[command(flatten)]
    ask: AskArgs,
}

/// Parses the name of a state. The error names the state that was probably meant.
fn listed_state(text: &str) -> Result<ListedState, String> {
    ListedState::parse(text).map_err(|error| {
        match nearest(text, ListedState::ALL.map(ListedState::as_str)) {
            Some(state) => format!("{error}; did you mean `{state}`?"),
            None => error,
        }
    })
}

fn limit(text: &str) -> Result<usize, String> {
    let limit = text.parse().ok().filter(|limit| *limit > 0);
    limit.ok_or_else(|| "write a number above 0".to_owned())
}

pub(crate) fn run(args: &TaskArgs) -> Result<CommandEnding> {
    match &args.command {
        TaskCommand::List(args) => list(args),
        TaskCommand::Kill(args) => kill(args),
    }
}

/// The listed tasks, and whether others exist.
#[derive(Default)]
struct FoundTasks {
    tasks: Vec<ListedTask>,
    /// The last lines of standard error for the first tasks in order: of a failed task's last run, if they are kept.
    last_lines: Vec<Option<Vec<String>>>,
    has_more: bool,
    wall_ms: i64,
    /// The times in the names of nodes, if schedules give nodes.
    times: Option<NodeTimes>,
    /// The reasons why no task matches, one a line; empty if `tasks` is not.
    why_empty: String,
}

fn list(args: &ListArgs) -> Result<CommandEnding> {
    let asked = SchedulerSource::ask(&args.source, async |source| {
        let mut found = find(&source.connection, args).await?;
        for task in &mut found.tasks {
            let reason = task.reason.take();
            task.reason = reason.and_then(|reason| source.without_own_pool_in(reason));
        }
        if args.states.contains(&ListedState::Failed) {
            found.last_lines = last_lines(&source.connection, &found.tasks).await;
        }
        let nodes = found.tasks.iter().filter_map(|task| task.node.as_deref());
        found.times = NodeTimes::fetch(&source.connection, nodes).await;
        if found.tasks.is_empty() {
            found.why_empty = why_none(source, args).await?;
        }
        Ok((found, source.note()))
    });
    let Some((mut found, note)) = block_on(asked)?? else {
        return Ok(CommandEnding::Interrupted);
    };
    match args.json {
        true => print_json(&found.document())?,
        false => {
            for task in &mut found.tasks {
                let reason = task.reason.take();
                task.reason = reason.map(|reason| with_flag(&reason, &args.source.flag()));
            }
            let (note, text) = (note.unwrap_or_default(), text_of(&found, &args.source));
            print(&format!("{note}{text}{}", found.why_empty))?;
        }
    }
    Ok(CommandEnding::Success)
}

impl FoundTasks {
    fn document(&self) -> Value {
        let lines = self.last_lines.iter().chain(std::iter::repeat(&None));
        let tasks = self.tasks.iter().zip(lines);
        let tasks: Vec<Value> = tasks
            .map(|(task, lines)| document_of(task, lines))
            .collect();
        let why_empty: Vec<&str> = self.why_empty.lines().map(str::trim).collect();
        json!({ "tasks": tasks, "more": self.has_more, "wall_time_ms": self.wall_ms, "why_empty": why_empty })
    }
}

fn is_failed(task: &ListedTask) -> bool {
    task.state.as_deref() == Some(ListedState::Failed.as_str())
}

/// Fetches the last lines of the first [`MAX_WITH_LINES`] failed tasks. The list is complete without them, so an error only ends the fetch.
async fn last_lines(connection: &Connection, tasks: &[ListedTask]) -> Vec<Option<Vec<String>>> {
    let (mut all, mut fetched) = (Vec::new(), 0);
    for task in tasks {
        if fetched == MAX_WITH_LINES {
            break;
        }
        let (Some(job), Some(node), true) = (&task.job, &task.node, is_failed(task)) else {
            all.push(None);
            continue;
        };
        let Ok(run) = connection.last_run(job, node).await else {
            break;
        };
        fetched += 1;
        all.push(run.and_then(|run| Some(Story::from(run.story?).last_lines)));
    }
    all
}

/// Says why no task matches: how many tasks are in other states, and what keeps jobs from having tasks in the wanted ones.
async fn why_none(source: &SchedulerSource, args: &ListArgs) -> Result<String> {
    let connection = &source.connection;
    let view = match &args.job {
        Some(job) => connection.view_of_jobs(std::slice::from_ref(job)).await,
        None => connection.view(0).await,
    };
    // A job that is no longer configured has only running tasks.
    let Ok(view) = view else {
        return Ok(String::new());
    };
    if !view.nodes_loaded {
        let status = connection.bounded_status().await?;
        return Ok(without_nodes(status.nodes_error.as_deref()));
    }
    let view = source.without_own_start(view);
    let disabled = ListArgs {
        states: vec![ListedState::Disabled],
        limit: 1,
        ..args.clone()
    };
    let has_disabled = !args.states.contains(&ListedState::Disabled)
        && !find(connection, &disabled).await?.tasks.is_empty();
    Ok(reasons_for_none(&view, args, has_disabled))
}

/// Returns why no task is known. Without an error of the node sources, they are being read.
fn without_nodes(error: Option<&str>) -> String {
    let begin = "The nodes are not loaded yet, so no task is known";
    match error {
        Some(error) => format!("{begin}: {}\n", printable_block(error)),
        None => format!("{begin}: list the tasks again.\n"),
    }
}

fn reasons_for_none(view: &ClusterView, args: &ListArgs, has_disabled: bool) -> String {
    let flag = args.source.flag();
    let mut text = String::new();
    for why in &view.nothing_starts {
        text.push_str(&format!("No task starts: {}\n", printable_block(why)));
    }
    match &args.job {
        Some(_) => {
            for job in &view.jobs {
                let name = printable(&job.name);
                text.push_str(&format!("Job `{name}` has {}.\n", job.tasks.clause()));
                let word = shell_word(&job.name);
                let remedy = remedy_of(job.state, &format!("{word}{flag}"));
                text.extend(remedy.map(|remedy| format!("{remedy}\n")));
            }
        }
        None => {
            text.push_str(&format!("There are {}.\n", view.tasks.clause()));
            let held = [
                JobState::Broken,
                JobState::Cancelled,
                JobState::Paused,
                JobState::Disabled,
            ];
            for state in held.map(JobState::as_str) {
                if let Some(jobs) = view.jobs_by_state.get(state) {
                    text.push_str(&format!(
                        "{jobs} of {} jobs are {state}: `brasserie status{flag}` shows them.\n",
                        view.jobs_total
                    ));
                }
            }
        }
    }
    if has_disabled {
        let job = args.job.as_deref().map(shell_word);
        let job = job.map_or_else(String::new, |job| format!(" --job {job}"));
        text.push_str(&format!(
            "Further tasks are disabled, because their nodes are disabled or filters of their jobs exclude the nodes. To list them: brasserie task list{job} --state disabled{flag}\n"
        ));
    }
    text
}

/// Returns what keeps a job's tasks from starting, and the remedy; `None` for a job whose tasks may start. `job` is a command's argument
/// for it.
fn remedy_of(state: JobState, job: &str) -> Option<String> {
    match state {
        JobState::Broken => Some(format!(
            "Its configuration has errors, so no task starts: `brasserie status --job {job}` shows them."
        )),
        JobState::Cancelled => Some(format!(
            "It is cancelled, so no task starts: `brasserie job resume {job}` resumes it."
        )),
        JobState::Paused => Some(format!(
            "It is paused, so no task starts: `brasserie job resume {job}` resumes it."
        )),
        JobState::Disabled => {
            Some("It is disabled, so no task starts: set its key `enabled` to true.".to_owned())
        }
        JobState::LoadingNodes
        | JobState::Running
        | JobState::Waiting
        | JobState::InBackoff
        | JobState::Failed
        | JobState::Never
        | JobState::Done
        | JobState::NoTasks => None,
    }
}

async fn find(connection: &Connection, args: &ListArgs) -> Result<FoundTasks> {
    let states: Vec<String> = args.states.iter().map(ToString::to_string).collect();
    let mut found = FoundTasks::default();
    let mut after = None;
    loop {
        let left = args.limit - found.tasks.len();
        let page = connection.task_page(args.job.as_deref(), &states, after, left);
        let TaskPage {
            tasks,
            next_page,
            wall_time_ms,
        } = page.await?;
        found.tasks.extend(tasks.unwrap_or_default());
        found.wall_ms = wall_time_ms.unwrap_or_default();
        found.has_more = next_page.is_some() || found.tasks.len() > args.limit;
        found.tasks.truncate(args.limit);
        if next_page.is_none() || found.tasks.len() == args.limit {
            return Ok(found);
        }
        after = next_page;
    }
}

fn text_of(found: &FoundTasks, source: &SourceArgs) -> String {
    if found.tasks.is_empty() {
        return "No task matches.\n".to_owned();
    }
    let shared = shared_reasons(&found.tasks);
    let rows = found.tasks.iter();
    let mut rows: Vec<Vec<String>> = rows
        .map(|task| row_of(task, found.wall_ms, &shared))
        .collect();
    let mut headers = vec!["job", "node", "state", "since", "tries", "worker", "why"];
    if let Some(times) = &found.times {
        headers.insert(NODE + 1, "time of the node");
        for row in &mut rows {
            let time = times.of_name(&row[NODE]);
            row.insert(NODE + 1, time.unwrap_or_default());
        }
    }
    let mut text = table(&headers, &rows);
    for (number, reason) in (1..).zip(&shared) {
        text.push_str(&format!("\n({number}) {}\n", printable_block(reason)));
    }
    if found.has_more {
        let shown = found.tasks.len();
        text.push_str(&format!(
            "\nThese are the first {shown} tasks; `--limit N` shows more.\n"
        ));
    }
    for (task, lines) in found.tasks.iter().zip(&found.last_lines) {
        let lines = lines.as_ref().filter(|lines| !lines.is_empty());
        if let Some(lines) = lines {
            let [job, node] = named(task).map(printable);
            text.push_str(&format!("\n{job} on {node} ended with these lines:\n"));
            // Escapes task output, which could otherwise move the cursor.
            text.extend(
                lines
                    .iter()
                    .map(|line| format!("    | {}\n", printable(line))),
            );
        }
    }
    if let Some(task) = found.tasks.iter().find(|task| is_failed(task)) {
        let ([job, node], flag) = (named(task).map(shell_word), source.flag());
        text.push_str(&format!(
            "\nTo show all that a failed task printed: brasserie logs {job} {node}{flag}, and with --stderr its standard error\n"
        ));
        if !source.is_run() {
            text.push_str(&format!(
                "To run failed tasks again once the cause is corrected: brasserie job forgive {job} --failed{flag}\n"
            ));
        }
    }
    text
}

fn named(task: &ListedTask) -> [&str; 2] {
    [&task.job, &task.node].map(|name| name.as_deref().unwrap_or_default())
}

/// Returns the long reasons of more than one task, in the order of the rows. They stand below the table, once.
fn shared_reasons(tasks: &[ListedTask]) -> Vec<&str> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut shared = Vec::new();
    let reasons = tasks.iter().filter_map(|task| task.reason.as_deref());
    for reason in reasons.filter(|reason| reason.len() > LONG_REASON) {
        let count = counts.entry(reason).or_default();
        *count += 1;
        if *count == 2 {
            shared.push(reason);
        }
    }
    shared
}

fn row_of(task: &ListedTask, wall_ms: i64, shared: &[&str]) -> Vec<String> {
    let since = task.since_ms.map(|since| {
        let passed = u64::try_from(wall_ms.saturating_sub(since)).unwrap_or(0);
        format!("{} ago", duration(Duration::from_millis(passed)))
    });
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let reason = text(&task.reason);
    let number = shared.iter().position(|shared| *shared == reason);
    vec![
        text(&task.job),
        text(&task.node),
        text(&task.state),
        since.unwrap_or_else(|| "-".to_owned()),
        tries_of(task),
        task.worker_shard.clone().unwrap_or_else(|| "-".to_owned()),
        number.map_or(reason, |number| format!("({})", number + 1)),
    ]
}

/// Formats the failed tries as `2`, or as `2 of 4` if four fail the task.
fn tries_of(task: &ListedTask) -> String {
    match (task.failed_tries, task.most_tries) {
        (None, _) => "-".to_owned(),
        (Some(failed), None) => failed.to_string(),
        (Some(failed), Some(most)) => format!("{failed} of {most}"),
    }
}

fn document_of(task: &ListedTask, last_lines: &Option<Vec<String>>) -> Value {
    json!({
        "job": task.job,
        "node": task.node,
        "state": task.state,
        "since_ms": task.since_ms,
        "worker": task.worker_shard,
        "invocation": run_id(task.invocation_id.clone()),
        "failed_tries": task.failed_tries,
        "most_tries": task.most_tries,
        "reason": task.reason,
        "last_lines": last_lines,
    })
}

fn kill(args: &KillArgs) -> Result<CommandEnding> {
    let connection = args.ask.connect_for_changes()?;
    let outcomes = block_on(kill_each(&connection, args))??;
    let failed = outcomes.iter().any(|(_, outcome)| outcome.is_err());
    if args.ask.json {
        let tasks: Vec<Value> = outcomes
            .iter()
            .map(|(node, outcome)| outcome_document(node, outcome))
            .collect();
        print_json(&json!({ "job": args.job, "tasks": tasks }))?;
    } else {
        for (node, outcome) in &outcomes {
            let (job, node) = (printable(&args.job), printable(node));
            match outcome {
                Ok(killed) => print(&format!("{job} on {node}: {}\n", sentence_of(killed)))?,
                Err(why) => complain!("brasserie: {}", printable_block(why)),
            }
        }
    }
    Ok(match failed {
        true => CommandEnding::Failure,
        false => CommandEnding::Success,
    })
}

/// Kills one task after the other. Errors if the scheduler gives no answer about the first one.
async fn kill_each<'a>(
    connection: &Connection,
    args: &'a KillArgs,
) -> Result<Vec<(&'a String, Result<TaskKill, String>)>> {
    let mut outcomes = Vec::new();
    for node in &args.nodes {
        let outcome = match connection.kill_task(&args.job, node).await {
            Ok(ChangeOutcome::Done(killed)) => Ok(killed),
            Ok(ChangeOutcome::Refused { message, .. }) => Err(message),
            Err(error) if outcomes.is_empty() => return Err(error),
            // The outcomes of the earlier tasks are known.
            Err(error) => Err(format!(
                "{} on {}: {error:#}",
                printable(&args.job),
                printable(node)
            )),
        };
        outcomes.push((node, outcome));
    }
    Ok(outcomes)
}

fn method_of(killed: &TaskKill) -> KillRequest {
    let request = killed.kill_request.clone();
    let request = request.and_then(|request| KillRequest::try_from(request).ok());
    request.unwrap_or_default()
}

fn sentence_of(killed: &TaskKill) -> String {
    let shard = printable(killed.worker_shard.as_deref().unwrap_or_default());
    let KillRequest { method, wait } = method_of(killed);
    let how = match method {
        KillMethod::Term => "by SIGTERM".to_owned(),
        KillMethod::TermWaitKill => {
            format!("with SIGTERM, and with SIGKILL after {}", duration(wait))
        }
        KillMethod::Kill => "by SIGKILL".to_owned(),
    };
    let then = match (&killed.unwanted, killed.held) {
        (Some(why), _) => format!("does not run again: {}", printable(why)),
        (None, Some(true)) => "runs again once the job is resumed".to_owned(),
        (None, Some(false) | None) => match wait_of(killed) {
            Some(wait) => format!("uses up no retry: it runs again {} later", duration(wait)),
            None => "runs again after its backoff".to_owned(),
        },
    };
    format!(
        "worker `{shard}` kills it {how}; unless it reports a status of its own, it counts as incomplete and {then}"
    )
}

/// Returns the time from the completion until the task may run again; `None` from an older scheduler.
fn wait_of(killed: &TaskKill) -> Option<Duration> {
    let seconds = u64::try_from(killed.wait_sec?).ok()?;
    Some(Duration::from_secs(seconds))
}

fn outcome_document(node: &str, outcome: &Result<TaskKill, String>) -> Value {
    match outcome {
        Err(why) => json!({ "node": node, "error": why }),
        Ok(killed) => {
            let KillRequest { method, wait } = method_of(killed);
            let method = match method {
                KillMethod::Term => "term",
                KillMethod::TermWaitKill => "term_wait_kill",
                KillMethod::Kill => "kill",
            };
            json!({
                "node": node,
                "worker": killed.worker_shard,
                "method": method,
                "kill_wait_ms": u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
                "runs_again": killed.held != Some(true) && killed.unwanted.is_none(),
                "wait_s": killed.wait_sec,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::cluster_view::{JobView, TaskCounts};
    use brasserie_thrift::generated::brasserie::{BrasserieKillTaskArgs, BrasserieKillTaskResult};
    use brasserie_thrift::rpc::{IncomingCall, Limits, Server, Service};
    use thrift::ApplicationErrorKind;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// A scheduler that disconnects after the first task.
    struct Leaving;

    impl Service for Leaving {
        fn call(&self, call: IncomingCall<'_>) {
            call.serve(
                |args: BrasserieKillTaskArgs, responder| match args.node.as_str() {
                    "a" => responder.reply(&BrasserieKillTaskResult {
                        result_value: Some(TaskKill::default()),
                        ex: None,
                    }),
                    _ => responder.exception(ApplicationErrorKind::InternalError, "it ends"),
                },
            );
        }
    }

    #[tokio::test]
    async fn what_happened_to_earlier_tasks_is_known_if_the_scheduler_goes_away() {
        let server = Server::bind(([127, 0, 0, 1], 0).into()).await;
        let server = server.expect("a port");
        let connection = Connection::new(&server.local_addr().to_string()).expect("an address");
        let stop = CancellationToken::new();
        let handle = server.serve(Leaving, Limits::DEFAULT, stop.clone());
        let kill = |nodes: &[&str]| {
            let nodes: Vec<&str> = [&["kill", "j"], nodes].concat();
            <Line as clap::Parser>::parse_from(nodes).kill
        };
        let args = kill(&["a", "b"]);
        let outcomes = kill_each(&connection, &args).await.expect("outcomes");
        let (killed, failed) = (&outcomes[0].1, &outcomes[1].1);
        assert!(killed.is_ok(), "{killed:?}");
        let error = failed.as_ref().expect_err("it has ended");
        assert!(
            error.starts_with("j on b: ") && error.contains("it ends"),
            "{error}"
        );
        let args = kill(&["b"]);
        kill_each(&connection, &args).await.expect_err("no answer");
        stop.cancel();
        handle.stopped().await;
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        kill: KillArgs,
    }

    fn failed(node: &str) -> ListedTask {
        ListedTask {
            job: Some("dump".to_owned()),
            node: Some(node.to_owned()),
            state: Some("failed".to_owned()),
            since_ms: Some(1_000),
            reason: Some("exit code 3".to_owned()),
            failed_tries: Some(4),
            most_tries: Some(4),
            ..ListedTask::default()
        }
    }

    #[derive(Debug, clap::Parser)]
    struct ListLine {
        #[command(flatten)]
        list: ListArgs,
    }

    fn list_args(arguments: &[&str]) -> ListArgs {
        let all = [&["list"], arguments].concat();
        <ListLine as clap::Parser>::parse_from(all).list
    }

    #[test]
    fn a_list_that_was_cut_says_so_and_moves_no_cursor() {
        let mut found = FoundTasks {
            tasks: vec![failed("n\u{1b}[2J")],
            last_lines: Vec::new(),
            has_more: true,
            wall_ms: 3_500,
            ..FoundTasks::default()
        };
        let source = list_args(&[]).source;
        let text = text_of(&found, &source);
        let row = text.lines().nth(1).expect("a row");
        assert!(row.contains("failed  2.5 s ago  4 of 4  -"), "{text}");
        assert!(row.ends_with("exit code 3"), "{text}");
        assert!(text.contains("--limit"), "{text}");
        found.has_more = false;
        assert!(!text_of(&found, &source).contains("--limit"));
        found.tasks.clear();
        assert_eq!(text_of(&found, &source), "No task matches.\n");
    }

    #[test]
    fn failed_tasks_are_listed_with_their_last_lines_and_the_command_for_all() {
        let found = FoundTasks {
            tasks: vec![failed("a b"), failed("c")],
            last_lines: vec![Some(vec!["no \u{1b}[2Jspace".to_owned()]), None],
            has_more: false,
            wall_ms: 3_500,
            ..FoundTasks::default()
        };
        let source = list_args(&["--scheduler", "s1:6789"]).source;
        let text = text_of(&found, &source);
        for part in [
            "\ndump on a b ended with these lines:\n    | no \\u{1b}[2Jspace\n",
            ": brasserie logs dump 'a b' --scheduler s1:6789, and with --stderr its standard error\n",
            ": brasserie job forgive dump --failed --scheduler s1:6789\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(text.matches("ended with").count(), 1, "{text}");
        let document = found.document();
        assert_eq!(document["tasks"][0]["last_lines"][0], "no \u{1b}[2Jspace");
        assert!(document["tasks"][1]["last_lines"].is_null(), "{document}");
    }

    #[test]
    fn a_long_reason_of_several_tasks_stands_below_the_table_once() {
        let long = "initial wait: ".repeat(9);
        let mut tasks = ["a", "b", "c", "d"].map(failed).to_vec();
        for task in &mut tasks[..2] {
            task.reason = Some(long.clone());
        }
        tasks[2].reason = Some("x".repeat(99));
        let found = FoundTasks {
            tasks,
            ..FoundTasks::default()
        };
        let text = text_of(&found, &list_args(&[]).source);
        let rows: Vec<&str> = text.lines().skip(1).take(4).collect();
        assert!(
            rows[0].ends_with("  (1)") && rows[1].ends_with("  (1)"),
            "{text}"
        );
        assert!(
            rows[2].ends_with("xx") && rows[3].ends_with("exit code 3"),
            "{text}"
        );
        assert_eq!(
            text.matches(&format!("\n(1) {long}\n")).count(),
            1,
            "{text}"
        );
    }

    #[test]
    fn an_empty_list_says_what_else_there_is_and_what_to_do() {
        let tasks = TaskCounts {
            total: 3,
            unstarted: 2,
            held: 2,
            done: 1,
            ..TaskCounts::default()
        };
        let view = ClusterView {
            nodes_loaded: true,
            jobs_by_state: [("paused".to_owned(), 1)].into(),
            jobs_total: 4,
            tasks,
            jobs: vec![JobView {
                name: "a b".to_owned(),
                state: JobState::Paused,
                tasks,
                ..JobView::default()
            }],
            ..ClusterView::default()
        };
        let of_all = reasons_for_none(&view, &list_args(&[]), false);
        let expected = "There are 3 tasks: 2 held, 1 done.\n1 of 4 jobs are paused: `brasserie status` shows them.\n";
        assert_eq!(of_all, expected);
        let args = list_args(&["--job", "a b", "--scheduler", "s1:6789"]);
        let of_job = reasons_for_none(&view, &args, true);
        for part in [
            "Job `a b` has 3 tasks: 2 held, 1 done.\n",
            "It is paused, so no task starts: `brasserie job resume 'a b' --scheduler s1:6789` resumes it.\n",
            ": brasserie task list --job 'a b' --state disabled --scheduler s1:6789\n",
        ] {
            assert!(of_job.contains(part), "{part}: {of_job}");
        }
        let begin = "The nodes are not loaded yet, so no task is known: ";
        let text = format!("{begin}list the tasks again.\n");
        assert_eq!(without_nodes(None), text);
        let text = format!("{begin}the script failed\n");
        assert_eq!(without_nodes(Some("the script failed")), text);
    }

    #[test]
    fn a_kill_says_how_and_what_follows() {
        let mut killed = TaskKill {
            worker_shard: Some("w".to_owned()),
            held: Some(true),
            ..TaskKill::default()
        };
        let runs_again =
            |killed: TaskKill| outcome_document("n", &Ok(killed))["runs_again"].clone();
        let text = sentence_of(&killed);
        assert!(text.contains("worker `w` kills it by SIGTERM;"), "{text}");
        assert!(text.ends_with("once the job is resumed"), "{text}");
        killed.held = Some(false);
        assert!(sentence_of(&killed).ends_with("runs again after its backoff"));
        assert_eq!(runs_again(killed.clone()), true);
        killed.wait_sec = Some(60);
        let text = sentence_of(&killed);
        let end = "counts as incomplete and uses up no retry: it runs again 1 min 0 s later";
        assert!(text.ends_with(end), "{text}");
        killed.unwanted = Some("its job is disabled".to_owned());
        let text = sentence_of(&killed);
        assert!(
            text.ends_with("does not run again: its job is disabled"),
            "{text}"
        );
        assert_eq!(runs_again(killed), false);
    }
}
