//! Makes the summary of a run: the counts of each job, and each failed task with its reason and its last lines.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use brasserie_common::ListedState;
use brasserie_common::cluster_view::NO_TASK;
use brasserie_common::logs::{LogLine, LogQuery, LogStream};
use brasserie_thrift::generated::brasserie::{ClusterStatus, JobStatus, ListedTask};
use brasserie_worker::logs::{LogReader, LogSnapshot};
use serde_json::{Value, json};

use super::output::PrintedOutput;
use super::progress::Retries;
use super::settings::ENDS_RETRIES;
use crate::CommandEnding;
use crate::commands::logs::lines::{self, ShownNames, TaskText};
use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Layout, duration, json_text, printable, printable_block, table};

/// Limit for the failed tasks of a summary on a terminal: a screenful.
const MAX_ON_TERMINAL: usize = 10;
/// Limit for the failed tasks whose last lines are searched: more than a person reads.
const MAX_WITH_LINES: usize = 1000;
/// Limit for the time to search last lines. A log may be large, and the search for a task without output reads all of it.
const MAX_SEARCH: Duration = Duration::from_secs(10);
/// Limit for the time to search the last lines of a setback during the run.
const MAX_SETBACK_SEARCH: Duration = Duration::from_millis(500);
/// Time between two searches for lines that the worker has not written yet. The worker writes within a tenth of a second.
const LINES_LAG: Duration = Duration::from_millis(50);
/// Limit for the last lines of a task.
const LAST_LINES: usize = 10;
/// Limit for the printed characters of each line.
const MAX_LINE_CHARS: usize = 1000;
/// Limit for the named tasks of a job that never ran, and for the named jobs without a task. Most of them share few reasons.
const MAX_NEVER_RAN: usize = 5;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Every task is done, has failed or can never run.
    Settled,
    Interrupted,
    /// The run could not continue, for this reason.
    Broken(String),
}

/// A task that is not done, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
struct UnfinishedTask {
    job: String,
    node: String,
    why: String,
    /// The last lines that its last run printed; `None` if the search for them was skipped or ran out of time.
    last_lines: Option<Vec<String>>,
}

/// The summary of a run.
pub(super) struct Summary {
    how: How,
    elapsed: Duration,
    jobs: Vec<JobStatus>,
    /// All failed tasks.
    failed: Vec<UnfinishedTask>,
    /// The first [`MAX_NEVER_RAN`] tasks of each job that never ran.
    never_ran: Vec<UnfinishedTask>,
    /// The enabled jobs without a task, each with the end of the sentence that says why.
    without_tasks: Vec<(String, String)>,
    /// When schedules give nodes next, a sentence each.
    next_times: Vec<String>,
    /// The tasks that waited for a retry when the run ended.
    retries: Option<Retries>,
}

impl Summary {
    /// Returns the summary of a run without any known task.
    pub(super) fn empty(how: How, elapsed: Duration) -> Self {
        Summary {
            how,
            elapsed,
            jobs: Vec::new(),
            failed: Vec::new(),
            never_ran: Vec::new(),
            without_tasks: Vec::new(),
            next_times: Vec::new(),
            retries: None,
        }
    }

    /// Adds the retries that the end of the run has left.
    pub(super) fn with_retries(self, retries: Option<Retries>) -> Self {
        Summary { retries, ..self }
    }

    /// Adds when the schedules of the config give nodes next.
    pub(super) fn with_next_times(self, next_times: Vec<String>) -> Self {
        Summary { next_times, ..self }
    }

    /// Makes a summary of `status` and of the tasks that are not done, which it requests from the scheduler.
    pub(super) async fn of(
        connection: &Connection,
        status: ClusterStatus,
        how: How,
        elapsed: Duration,
    ) -> Result<Self> {
        let mut summary = Self::empty(how, elapsed);
        summary.jobs = status.jobs.unwrap_or_default();
        for job in summary.jobs.iter().filter(|job| is_enabled(job)) {
            let name = job.name.as_deref().unwrap_or_default();
            if count(job.failed) > 0 {
                let mut failed = list(connection, name, ListedState::Failed, usize::MAX).await?;
                // The scheduler's order differs from start to start.
                failed.sort_by(|one, other| one.node.cmp(&other.node));
                summary.failed.extend(failed);
            }
            if count(job.total) == 0 {
                // The summary names the job also without the reason, and prints the reasons of the first jobs alone.
                let reasons = match summary.without_tasks.len() < MAX_NEVER_RAN {
                    true => connection.explain(name, "").await.unwrap_or_default(),
                    false => Vec::new(),
                };
                let why = reasons.iter().find_map(|why| why.strip_prefix(NO_TASK));
                let without = (name.to_owned(), why.unwrap_or_default().to_owned());
                summary.without_tasks.push(without);
            }
            if count(job.infeasible) > 0 {
                let some = list(connection, name, ListedState::Never, MAX_NEVER_RAN);
                summary.never_ran.extend(some.await?);
            }
        }
        Ok(summary)
    }

    /// Adds the last lines of the first [`MAX_WITH_LINES`] failed tasks. Blocks for reads of the disk.
    pub(super) fn read_last_lines(&mut self, logs: &LogReader) {
        let until = Instant::now() + MAX_SEARCH;
        // The summary has no last lines if the logs cannot be read.
        let Ok(logs) = logs.snapshot() else { return };
        for task in self.failed.iter_mut().take(MAX_WITH_LINES) {
            if Instant::now() >= until {
                break;
            }
            task.last_lines = last_lines(&logs, task, until).ok().flatten();
        }
    }

    pub(super) fn ending(&self) -> CommandEnding {
        match self.how {
            How::Settled if self.is_all_done() => CommandEnding::Success,
            How::Settled | How::Broken(_) => CommandEnding::Failure,
            How::Interrupted => CommandEnding::Interrupted,
        }
    }

    pub(super) fn has_failed_tasks(&self) -> bool {
        !self.failed.is_empty()
    }

    fn is_all_done(&self) -> bool {
        let mut enabled = self.jobs.iter().filter(|job| is_enabled(job));
        enabled.all(|job| job.done == job.total)
    }

    /// Formats the summary as text, with at most [`MAX_ON_TERMINAL`] failed tasks on a terminal.
    pub(super) fn text(&self, output: PrintedOutput, is_terminal: bool) -> String {
        if self.jobs.is_empty() {
            return String::new();
        }
        let rows: Vec<Vec<String>> = self.jobs.iter().map(row).collect();
        let headers = ["job", "tasks", "done", "failed", "never ran", "time"];
        let mut text = table(&headers, &rows);
        let shown = match is_terminal {
            true => MAX_ON_TERMINAL,
            false => usize::MAX,
        };
        let mut tasks = self.failed.iter().take(shown).peekable();
        for job in &self.jobs {
            let name = job.name.as_deref().unwrap_or_default();
            let of_job = |task: &&UnfinishedTask| task.job == name;
            if tasks.peek().is_some_and(of_job) {
                let (failed, total) = (count(job.failed), count(job.total));
                text.push_str(&format!(
                    "\n{}: {failed} of {total} tasks failed\n",
                    printable(name)
                ));
            }
            while let Some(task) = tasks.next_if(|task| of_job(task)) {
                text.push_str(&task.text(output));
            }
        }
        let more = self.failed.len().saturating_sub(shown);
        if more > 0 {
            text.push_str(&format!(
                "\n{more} more tasks failed. `--failed-to FILE` writes all of them to a file, and output to a pipe (| less) contains all of them.\n"
            ));
        }
        for job in &self.jobs {
            text.push_str(&self.never_ran_text(job));
        }
        text.push_str(&format!("\n{}\n", self.verdict()));
        text
    }

    fn never_ran_text(&self, job: &JobStatus) -> String {
        let name = job.name.as_deref().unwrap_or_default();
        let tasks: Vec<&UnfinishedTask> = self
            .never_ran
            .iter()
            .filter(|task| task.job == name)
            .collect();
        if tasks.is_empty() {
            return String::new();
        }
        let (never, total) = (count(job.infeasible), count(job.total));
        let mut text = format!(
            "\n{}: {never} of {total} tasks never ran\n",
            printable(name)
        );
        text.extend(tasks.iter().map(|task| task.text(PrintedOutput::None)));
        match never.saturating_sub(tasks.len()) {
            0 => {}
            more => text.push_str(&format!("  and {more} more\n")),
        }
        text
    }

    fn verdict(&self) -> String {
        let time = duration(self.elapsed);
        let enabled = || self.jobs.iter().filter(|job| is_enabled(job));
        let sum =
            |of: fn(&JobStatus) -> Option<i64>| enabled().map(|job| count(of(job))).sum::<usize>();
        let (done, total) = (sum(|job| job.done), sum(|job| job.total));
        match self.how {
            How::Settled if total == 0 => {
                format!(
                    "nothing to do: no enabled job has a task (checked in {time}){}{}",
                    self.without_tasks(),
                    self.later()
                )
            }
            How::Settled if self.is_all_done() && enabled().all(|job| job.elapsed_ms.is_none()) => {
                format!(
                    "all done by earlier runs in this directory, so nothing ran; it took {time} to see that{}{}",
                    self.without_tasks(),
                    self.later()
                )
            }
            How::Settled if self.is_all_done() => {
                format!("all done in {time}{}{}", self.without_tasks(), self.later())
            }
            How::Settled
                if enabled().all(|job| job.elapsed_ms.is_none()) && !self.failed.is_empty() =>
            {
                let (failed, never) = (sum(|job| job.failed), sum(|job| job.infeasible));
                let never = match never {
                    0 => String::new(),
                    never => format!(", {never} can never run"),
                };
                format!(
                    "nothing ran, because earlier runs in this directory have left no task to run: of {total} tasks, {done} are done, {failed} \
                     failed{never}; --retry-failed runs the failed tasks again"
                )
            }
            How::Settled | How::Broken(_) => {
                format!("not everything is done after {time}: {done} of {total} tasks are")
            }
            How::Interrupted => {
                format!(
                    "interrupted after {time}: {done} of {total} tasks are done{}",
                    self.retries_left()
                )
            }
        }
    }

    /// Names the enabled jobs without a task, a line each, and says why; empty if each has one.
    fn without_tasks(&self) -> String {
        let named = self.without_tasks.iter().take(MAX_NEVER_RAN);
        let mut text: String = named
            .map(|(job, why)| format!("\njob `{}` has no task{}", printable(job), printable(why)))
            .collect();
        match self.without_tasks.len().saturating_sub(MAX_NEVER_RAN) {
            0 => {}
            more => text.push_str(&format!("\n{more} more jobs have no task")),
        }
        text
    }

    /// Says how many tasks waited for a retry, and how to have none; empty if no task did.
    fn retries_left(&self) -> String {
        let Some(Retries { tasks, next, .. }) = &self.retries else {
            return String::new();
        };
        let (tasks, due) = match tasks {
            1 => ("1 task was".to_owned(), "due"),
            tasks => (format!("{tasks} tasks were"), "the first due"),
        };
        format!(
            "\n{tasks} waiting for a retry, {due} in {}: {ENDS_RETRIES}",
            duration(*next)
        )
    }

    /// Says when schedules give nodes next, and that a run does not wait for that; empty without schedules.
    fn later(&self) -> String {
        match self.next_times.is_empty() {
            true => String::new(),
            false => format!(
                "\n`brasserie run` does not wait for later times of schedules, as a scheduler would: {}",
                self.next_times.join("; ")
            ),
        }
    }

    /// Writes one JSON object a line for each failed task. If the run ended early without failed tasks, writes nothing, because an empty
    /// file would mean that no task has failed.
    pub(super) fn write_failed_to(&self, path: &Path) -> Result<()> {
        if self.how != How::Settled && self.failed.is_empty() {
            return Ok(());
        }
        let write = || -> io::Result<()> {
            let mut out = BufWriter::new(File::create(path)?);
            for task in &self.failed {
                out.write_all(json_text(&task.failed_json(), Layout::OneLine).as_bytes())?;
            }
            out.flush()
        };
        write().with_context(|| format!("cannot write {} (--failed-to)", path.display()))
    }

    /// Returns the document of `--json`.
    pub(super) fn json(&self, data_dir: Option<&Path>) -> Value {
        let (result, error) = match &self.how {
            How::Settled if self.is_all_done() => ("done", None),
            How::Settled => ("not_done", None),
            How::Interrupted => ("interrupted", None),
            How::Broken(why) => ("broken", Some(why)),
        };
        let failed: Vec<Value> = self
            .failed
            .iter()
            .map(UnfinishedTask::failed_json)
            .collect();
        json!({
            "result": result, "error": error,
            "elapsed_ms": u64::try_from(self.elapsed.as_millis()).unwrap_or(u64::MAX),
            "data_dir": data_dir.map(|path| path.to_string_lossy()),
            "jobs": self.jobs.iter().map(job_json).collect::<Vec<_>>(),
            "failed_tasks": failed,
            "never_ran": self.never_ran.iter().map(UnfinishedTask::json).collect::<Vec<_>>(),
        })
    }
}

impl UnfinishedTask {
    fn of(task: ListedTask) -> Self {
        UnfinishedTask {
            job: task.job.unwrap_or_default(),
            node: task.node.unwrap_or_default(),
            why: task
                .reason
                .unwrap_or_else(|| "no reason was reported".to_owned()),
            last_lines: None,
        }
    }

    fn text(&self, output: PrintedOutput) -> String {
        let mut text = format!(
            "  {}: {}\n",
            printable(&self.node),
            printable_block(&self.why)
        );
        if output != PrintedOutput::None {
            text.extend(
                self.last_lines
                    .iter()
                    .flatten()
                    .map(|line| format!("      | {}\n", printable(line))),
            );
        }
        text
    }

    fn json(&self) -> Value {
        json!({ "job": self.job, "node": self.node, "why": self.why })
    }

    fn failed_json(&self) -> Value {
        let mut value = self.json();
        value["last_lines"] = json!(self.last_lines);
        value
    }
}

fn is_enabled(job: &JobStatus) -> bool {
    job.enabled.unwrap_or(false)
}

fn count(n: Option<i64>) -> usize {
    usize::try_from(n.unwrap_or(0)).unwrap_or(0)
}

fn row(job: &JobStatus) -> Vec<String> {
    let name = job.name.clone().unwrap_or_default();
    let time = job
        .elapsed_ms
        .map(|ms| duration(Duration::from_millis(u64::try_from(ms).unwrap_or(0))));
    vec![
        match is_enabled(job) {
            true => name,
            false => format!("{name} (disabled)"),
        },
        count(job.total).to_string(),
        count(job.done).to_string(),
        count(job.failed).to_string(),
        count(job.infeasible).to_string(),
        time.unwrap_or_default(),
    ]
}

fn job_json(job: &JobStatus) -> Value {
    json!({
        "name": job.name, "enabled": job.enabled, "total": job.total, "done": job.done, "failed": job.failed,
        "never_ran": job.infeasible, "elapsed_ms": job.elapsed_ms,
    })
}

/// Lists at most `limit` tasks of a job that are in this state.
async fn list(
    connection: &Connection,
    job: &str,
    state: ListedState,
    limit: usize,
) -> Result<Vec<UnfinishedTask>> {
    let states = [state.to_string()];
    let (mut tasks, mut after) = (Vec::new(), None);
    loop {
        let left = limit - tasks.len();
        let page = connection
            .task_page(Some(job), &states, after, left)
            .await?;
        tasks.extend(page.tasks.into_iter().flatten().map(UnfinishedTask::of));
        after = page.next_page;
        if after.is_none() || tasks.len() >= limit {
            return Ok(tasks);
        }
    }
}

/// Describes a task of the job that waits for a retry, with its last lines; `None` if no task is in backoff. The job's next retry is in
/// `retry`.
pub(super) async fn setback(
    connection: &Connection,
    logs: &LogReader,
    (job, retry): (&str, Duration),
    output: PrintedOutput,
) -> Result<Option<String>> {
    let tasks = list(connection, job, ListedState::Backoff, 1).await?;
    let Some(mut task) = tasks.into_iter().next() else {
        return Ok(None);
    };
    // The lines are already printed with `all`.
    if output != PrintedOutput::All {
        let (logs, asked) = (logs.clone(), task.clone());
        let until = Instant::now() + MAX_SETBACK_SEARCH;
        let read = move || {
            loop {
                let lines = last_lines(&logs.snapshot()?, &asked, until)?;
                // The worker may report a completion before it has written the last lines to its files.
                let is_empty = lines.as_ref().is_none_or(Vec::is_empty);
                if !is_empty || Instant::now() >= until {
                    return anyhow::Ok(lines);
                }
                std::thread::sleep(LINES_LAG);
            }
        };
        // The message has no last lines if they cannot be read.
        task.last_lines = tokio::task::spawn_blocking(read).await?.unwrap_or_default();
    }
    let text = format!(
        "{}: a task did not succeed and will run again; the next retry is in {}\n{}",
        printable(job),
        duration(retry),
        task.text(output)
    );
    Ok(Some(text))
}

/// Returns the last lines of the task's last run on both streams, in the order of the log; `None` if the time was over before any was
/// found.
fn last_lines(
    logs: &LogSnapshot,
    task: &UnfinishedTask,
    until: Instant,
) -> Result<Option<Vec<String>>> {
    let newest = |stream, invocation, limit| -> Result<Vec<LogLine>> {
        let mut query = LogQuery {
            stream,
            jobs: vec![task.job.clone().try_into()?],
            nodes: vec![task.node.clone().try_into()?],
            from: None,
            ascending: false,
            limit,
            regex: String::new(),
            invocation,
        };
        let mut found = Vec::new();
        while found.len() < limit && Instant::now() < until {
            let page = logs.query(&query)?;
            found.extend(page.lines);
            match page.next {
                Some(next) => query.from = Some(next),
                None => break,
            }
        }
        Ok(found)
    };
    // A run without output has events. Lines of the previous run would not explain its end.
    let events = newest(LogStream::Statuses, None, 1)?;
    let run = events.first().and_then(|event| event.invocation);
    let mut lines = newest(LogStream::Stdout, run, LAST_LINES)?;
    lines.extend(newest(LogStream::Stderr, run, LAST_LINES)?);
    if lines.is_empty() && Instant::now() >= until {
        return Ok(None);
    }
    lines.sort_by_key(|line| line.id);
    let skipped = lines.len().saturating_sub(LAST_LINES);
    let text = |line: LogLine| {
        let text = lines::text(&line.into(), ShownNames::None, TaskText::AsWritten);
        let text = text.trim_end_matches('\n');
        match text.char_indices().nth(MAX_LINE_CHARS) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text.to_owned(),
        }
    };
    Ok(Some(lines.into_iter().skip(skipped).map(text).collect()))
}

/// Errors if the file of `--failed-to` cannot be written or is the config file. Does not change the file, because the run replaces an
/// earlier list only when it has another one.
pub(super) fn check_failed_to(path: &Path, config: &Path) -> Result<(), Failure> {
    if is_same_file(path, config) {
        let path = path.display();
        return Err(Failure::usage(format!(
            "{path} is the config file, so --failed-to would overwrite it"
        ))
        .remedy("Name another file"));
    }
    let mut options = OpenOptions::new();
    options.write(true);
    let checked = match options.clone().create_new(true).open(path) {
        Ok(_) => fs::remove_file(path),
        // Opening a pipe without writing would look like the end of the list to its reader.
        Err(error) if error.kind() == ErrorKind::AlreadyExists && is_stream(path) => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => options.open(path).map(drop),
        Err(error) => Err(error),
    };
    checked.map_err(|error| {
        let path = path.display();
        Failure::usage(format!("cannot write {path} (--failed-to): {error}"))
            .remedy("Name a file in an existing folder that you may write to")
    })
}

/// Returns whether both paths lead to one existing regular file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let id = |path| fs::metadata(path).map(|found| (found.is_file(), found.dev(), found.ino()));
    id(one).is_ok_and(|one| one.0 && id(other).is_ok_and(|other| one == other))
}

/// Returns whether the path is a pipe, a terminal or another device.
fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed_task(node: usize) -> UnfinishedTask {
        UnfinishedTask {
            job: "j".to_owned(),
            node: format!("n{node}"),
            why: "exit code 3".to_owned(),
            last_lines: Some(vec![format!("line {node}\u{1b}[2J")]),
        }
    }

    fn summary(failed: usize, never: usize) -> Summary {
        let total = i64::try_from(failed + never).unwrap() + 1;
        let job = JobStatus {
            name: Some("j".to_owned()),
            enabled: Some(true),
            total: Some(total),
            done: Some(1),
            failed: i64::try_from(failed).ok(),
            infeasible: i64::try_from(never).ok(),
            elapsed_ms: Some(3000),
            ..JobStatus::default()
        };
        Summary {
            jobs: vec![job],
            failed: (0..failed).map(failed_task).collect(),
            never_ran: (0..never.min(MAX_NEVER_RAN)).map(failed_task).collect(),
            ..Summary::empty(How::Settled, Duration::from_secs(3))
        }
    }

    #[test]
    fn a_terminal_gets_a_screenful_and_a_file_all_tasks() {
        let summary = summary(500, 7);
        let all = summary.text(PrintedOutput::Failed, false);
        assert_eq!(
            all.matches(": exit code 3\n      | line ").count(),
            500,
            "{all}"
        );
        assert!(all.contains("j: 500 of 508 tasks failed"), "{all}");
        assert!(all.contains("j: 7 of 508 tasks never ran"), "{all}");
        assert!(all.contains("  and 2 more\n"), "{all}");
        assert!(
            all.ends_with("not everything is done after 3.0 s: 1 of 508 tasks are\n"),
            "{all}"
        );
        let screen = summary.text(PrintedOutput::Failed, true);
        assert!(screen.lines().count() < 45, "{screen}");
        assert!(
            screen.contains("490 more tasks failed. `--failed-to FILE`"),
            "{screen}"
        );
        let quiet = summary.text(PrintedOutput::None, false);
        assert!(!quiet.contains("line "), "{quiet}");
        let clean = |text: &str| !text.contains(|c: char| c.is_control() && c != '\n');
        assert!(clean(&all), "task output has no control characters");
    }

    #[test]
    fn a_run_of_which_no_task_was_left_says_that_nothing_ran() {
        let mut summary = summary(2, 0);
        summary.jobs[0].elapsed_ms = None;
        let text = summary.text(PrintedOutput::Failed, false);
        let verdict = "nothing ran, because earlier runs in this directory have left no task to run: of 3 tasks, 1 are done, 2 failed; \
                       --retry-failed runs the failed tasks again\n";
        assert!(text.ends_with(verdict), "{text}");
    }

    #[test]
    fn a_document_has_all_failed_tasks() {
        let mut summary = summary(500, 0);
        summary.failed[8].last_lines = Some(Vec::new());
        summary.failed[9].last_lines = None;
        let json = summary.json(Some(Path::new("/d")));
        assert_eq!(
            (&json["result"], &json["data_dir"]),
            (&json!("not_done"), &json!("/d"))
        );
        let failed = json["failed_tasks"].as_array().map_or(0, Vec::len);
        assert_eq!(failed, 500);
        assert_eq!(json["failed_tasks"][7]["node"], "n7");
        assert_eq!(json["failed_tasks"][8]["last_lines"], json!([]));
        assert!(json["failed_tasks"][9]["last_lines"].is_null(), "{json}");
        let how = How::Broken("the worker ended".to_owned());
        let broken = Summary::empty(how, Duration::ZERO);
        assert_eq!(broken.json(None)["error"], "the worker ended");
        assert_eq!(broken.ending(), CommandEnding::Failure);
    }
}
