//! `brasserie job wait`: waits until jobs are over and reports their results.

mod idle;

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

use anyhow::Result;
use brasserie_common::time::parse_duration;
use brasserie_thrift::generated::brasserie::JobStatus;
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::commands::run::progress::{ended, plain_pause, speed};
use crate::commands::run::rate::Rate;
use crate::connection::{AskArgs, Connection, block_on};
use crate::failure::is_refused;
use crate::output::{
    LastText, complain, duration, print, print_json, printable, printable_block, shell_word,
};
use idle::Idle;

/// Time between two polls. People notice no shorter one, and a scheduler answers thousands of such calls a second.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// Limit for a scheduler's first answer. A scheduler that was just killed is back by then: systemd restarts it after a second, and it loads
/// its store within seconds. After the first answer there is no limit.
const FIRST_ANSWER: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(super) struct WaitArgs {
    /// The names of the jobs.
    #[arg(required = true)]
    jobs: Vec<String>,
    /// Stop waiting after this time, such as 30s, 10m or 2h, with exit code 4 [default: no limit].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    ask: AskArgs,
}

pub(super) fn run(args: &WaitArgs) -> Result<CommandEnding> {
    let connection = args.ask.connect()?;
    let (jobs, ending) = block_on(async {
        tokio::select! {
            waited = wait(&connection, args) => waited,
            _ = tokio::signal::ctrl_c() => Ok((Vec::new(), CommandEnding::Interrupted)),
        }
    })??;
    if args.ask.json {
        let documents: Vec<Value> = jobs.iter().map(document_of).collect();
        print_json(&json!({ "jobs": documents, "outcome": outcome_of(ending) }))?;
    } else {
        let flag = args.ask.scheduler.flag();
        let lines = jobs
            .iter()
            .map(|job| format!("{}\n{}", sentence_of(job), details_of(job, &flag)));
        print(&lines.collect::<String>())?;
    }
    Ok(ending)
}

/// Prints why no task of the unsettled jobs runs if the reason is new.
async fn say_why_idle(connection: &Connection, idle: &mut Idle, jobs: &[JobStatus]) {
    let open = jobs.iter().filter(|job| job.settled != Some(true));
    let open: Vec<JobStatus> = open.cloned().collect();
    // An error of this call comes again with the next poll, which reports it.
    if idle.wants_status(Instant::now(), &open)
        && let Ok(status) = connection.bounded_status().await
        && let Some(text) = idle.news(Instant::now(), &open, &status)
    {
        complain!("brasserie: {text}");
    }
}

fn outcome_of(ending: CommandEnding) -> &'static str {
    match ending {
        CommandEnding::Success => "done",
        CommandEnding::TimedOut => "timed out",
        CommandEnding::Interrupted => "interrupted",
        CommandEnding::Failure
        | CommandEnding::Refused
        | CommandEnding::Usage
        | CommandEnding::Changes
        | CommandEnding::OutputsLost
        | CommandEnding::Program(_) => "not done",
    }
}

async fn wait(connection: &Connection, args: &WaitArgs) -> Result<(Vec<JobStatus>, CommandEnding)> {
    let started = Instant::now();
    let first_answer = args.timeout.unwrap_or(FIRST_ANSWER).min(FIRST_ANSWER);
    let mut progress = WaitProgress::new(started);
    let mut idle = Idle::new(args.ask.scheduler.flag());
    let mut answered = None;
    loop {
        match poll(connection, &args.jobs).await {
            Ok(jobs) => {
                if jobs.iter().all(|job| job.settled == Some(true)) {
                    let ending = match jobs.iter().all(is_done) {
                        true => CommandEnding::Success,
                        false => CommandEnding::Failure,
                    };
                    return Ok((jobs, ending));
                }
                if let Some(line) = progress.line(Instant::now(), stderr().is_terminal(), &jobs) {
                    complain!("brasserie: {line}");
                }
                say_why_idle(connection, &mut idle, &jobs).await;
                answered = Some(jobs);
            }
            // A removed job never completes, but a scheduler may return after a restart.
            Err(error) if is_unknown_job(&error) || is_refused(&error) => return Err(error),
            Err(error) if answered.is_none() && started.elapsed() >= first_answer => {
                return Err(error);
            }
            Err(error) => {
                let text = format!("{error:#}; trying again");
                progress.last_text.complain(text);
            }
        }
        let left = args.timeout.map(|t| t.saturating_sub(started.elapsed()));
        if left.is_some_and(|left| left.is_zero())
            && let Some(jobs) = answered
        {
            let timeout = args.timeout.map(duration).unwrap_or_default();
            complain!("brasserie: the timeout of {timeout} is over");
            return Ok((jobs, CommandEnding::TimedOut));
        }
        tokio::time::sleep(left.map_or(POLL_EVERY, |left| left.min(POLL_EVERY))).await;
    }
}

/// The progress of a wait as shown so far.
struct WaitProgress {
    started: Instant,
    /// `None`: no line was shown yet.
    last_line: Option<Instant>,
    last_text: LastText,
    rates: BTreeMap<String, Rate>,
}

impl WaitProgress {
    fn new(started: Instant) -> Self {
        WaitProgress {
            started,
            last_line: None,
            last_text: LastText::default(),
            rates: BTreeMap::new(),
        }
    }

    /// Returns a line about the jobs that are not over if it is time for one: on a terminal after each change, and elsewhere as rarely as
    /// `brasserie run` prints one.
    fn line(&mut self, now: Instant, is_terminal: bool, jobs: &[JobStatus]) -> Option<String> {
        let is_due = self.last_line.is_none_or(|last| {
            is_terminal || now - last >= plain_pause(now.duration_since(self.started))
        });
        let (mut counts, mut lines) = (Vec::new(), Vec::new());
        for job in jobs.iter().filter(|job| job.settled != Some(true)) {
            let name = job.name.clone().unwrap_or_default();
            let rate = self.rates.entry(name);
            let rate = rate.or_insert_with(|| Rate::new(now, ended(job)));
            rate.note(now, ended(job));
            let counted = sentence_of(job);
            let speed = speed(job, rate).join(", ");
            lines.push(match speed.is_empty() {
                true => counted.clone(),
                false => format!("{counted} ({speed})"),
            });
            counts.push(counted);
        }
        if !is_due {
            return None;
        }
        // A changed rate alone is not reported.
        self.last_text.changed(counts.join("; "))?;
        self.last_line = Some(now);
        Some(lines.join("; "))
    }
}

/// Returns whether the scheduler has answered that it knows no such job.
fn is_unknown_job(error: &anyhow::Error) -> bool {
    error.downcast_ref::<crate::failure::Unknown>().is_some()
}

async fn poll(connection: &Connection, jobs: &[String]) -> Result<Vec<JobStatus>> {
    let mut found = Vec::new();
    for job in jobs {
        found.push(connection.job_status(job).await?);
    }
    Ok(found)
}

/// Returns whether all tasks of the job are done. The counts of a job that is not settled may still change: before the nodes are loaded it
/// has no task.
fn is_done(job: &JobStatus) -> bool {
    let has_errors = job.errors.as_ref().is_some_and(|errors| !errors.is_empty());
    let has_tasks = job.total.is_some_and(|total| total > 0);
    let is_counted = job.settled == Some(true) && (job.enabled == Some(true) || has_tasks);
    is_counted && !has_errors && job.done == job.total
}

fn waiting(job: &JobStatus) -> i64 {
    let sum = [job.unstarted, job.incomplete, job.error];
    sum.into_iter().flatten().sum()
}

fn sentence_of(job: &JobStatus) -> String {
    let name = printable(job.name.as_deref().unwrap_or_default());
    let count = |count: Option<i64>| count.unwrap_or_default();
    let mut text = format!(
        "{name}: {} of {} tasks done",
        count(job.done),
        count(job.total)
    );
    for (count, what) in [
        (count(job.running), "running"),
        (waiting(job), "waiting"),
        (count(job.in_backoff), "in backoff"),
        (count(job.failed), "failed"),
        (count(job.infeasible), "can never run"),
    ] {
        if count > 0 {
            text.push_str(&format!(", {count} {what}"));
        }
    }
    if is_done(job) && count(job.total) == 0 {
        text.push_str("; it has no tasks");
    } else if job.cancelled == Some(true) {
        text.push_str("; the job is cancelled");
    } else if job.paused == Some(true) {
        text.push_str("; the job is paused");
    } else if job.errors.iter().flatten().next().is_some() {
        text.push_str("; the job's configuration has errors");
    } else if job.enabled == Some(false) {
        text.push_str("; the job is disabled");
    }
    text
}

/// Returns the lines after the sentence of a job: the errors of its configuration, and the commands for failed tasks.
fn details_of(job: &JobStatus, flag: &str) -> String {
    let errors = job.errors.iter().flatten();
    let mut lines: String = errors
        .map(|error| format!("  {}\n", printable_block(error)))
        .collect();
    if job.failed.unwrap_or(0) == 0 {
        return lines;
    }
    let name = shell_word(job.name.as_deref().unwrap_or_default());
    lines.push_str(&format!(
        "  `brasserie task list --state failed --job {name}{flag}` shows why tasks failed; `brasserie job forgive {name} --failed{flag}` runs \
         them again\n"
    ));
    lines
}

fn document_of(job: &JobStatus) -> Value {
    json!({
        "name": job.name, "done": is_done(job), "over": job.settled, "paused": job.paused, "cancelled": job.cancelled,
        "tasks": {
            "total": job.total, "done": job.done, "running": job.running, "waiting": waiting(job), "backoff": job.in_backoff, "failed": job.failed,
            "never": job.infeasible,
        },
        "errors": job.errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_waiting_fills_no_file_and_says_how_long_it_takes() {
        let start = Instant::now();
        let lines = |is_terminal: bool| {
            let mut progress = WaitProgress::new(start);
            let looks = (0..7200_u32).filter_map(|look| {
                let job = JobStatus {
                    name: Some("dump".to_owned()),
                    enabled: Some(true),
                    total: Some(9000),
                    done: Some(look.into()),
                    ..JobStatus::default()
                };
                progress.line(start + POLL_EVERY * look, is_terminal, &[job])
            });
            looks.collect::<Vec<_>>()
        };
        let in_file = lines(false);
        assert!((20..100).contains(&in_file.len()), "{}", in_file.len());
        assert_eq!(in_file[0], "dump: 0 of 9000 tasks done");
        let third = "dump: 40 of 9000 tasks done (2.0/s, 1 h 14 min left)";
        assert_eq!(in_file[2], third);
        assert_eq!(lines(true).len(), 7200);
    }

    #[test]
    fn the_waits_of_backoffs_have_no_estimate() {
        let start = Instant::now();
        let mut progress = WaitProgress::new(start);
        let mut line = |seconds: u64, done: i64, in_backoff: i64| {
            let job = JobStatus {
                name: Some("dump".to_owned()),
                enabled: Some(true),
                total: Some(9),
                done: Some(done),
                in_backoff: Some(in_backoff),
                ..JobStatus::default()
            };
            progress.line(start + Duration::from_secs(seconds), true, &[job])
        };
        assert!(line(0, 0, 0).is_some());
        let some = line(10, 5, 3).unwrap_or_default();
        assert!(
            some.ends_with("3 in backoff (30.0/min, 8.0 s left)"),
            "{some}"
        );
        let all = line(20, 5, 4).unwrap_or_default();
        assert!(all.ends_with("4 in backoff (15.0/min)"), "{all}");
    }

    #[test]
    fn a_job_is_done_only_if_all_of_it_is() {
        let mut job = JobStatus {
            name: Some("dump".to_owned()),
            enabled: Some(true),
            settled: Some(true),
            total: Some(3),
            done: Some(3),
            ..JobStatus::default()
        };
        assert!(is_done(&job));
        assert_eq!(sentence_of(&job), "dump: 3 of 3 tasks done");
        job.settled = Some(false);
        assert!(!is_done(&job), "a completion is not on disk");
        job.settled = Some(true);
        job.done = Some(1);
        job.failed = Some(2);
        job.cancelled = Some(true);
        assert!(!is_done(&job));
        let text = "dump: 1 of 3 tasks done, 2 failed; the job is cancelled";
        assert_eq!(sentence_of(&job), text);
        (job.total, job.done, job.failed) = (Some(0), Some(0), Some(0));
        assert!(is_done(&job), "no task has to run");
        let text = "dump: 0 of 0 tasks done; it has no tasks";
        assert_eq!(sentence_of(&job), text);
        job.settled = Some(false);
        let document = document_of(&job);
        assert_eq!(document["done"], false, "the nodes are not loaded yet");
        job.settled = Some(true);
        job.enabled = Some(false);
        assert!(!is_done(&job), "nothing of a disabled job was counted");
        job.cancelled = None;
        let text = "dump: 0 of 0 tasks done; the job is disabled";
        assert_eq!(sentence_of(&job), text);
        assert_eq!(details_of(&job, ""), "");
        job.errors = Some(vec!["c.json:1:2: no".to_owned()]);
        let text = "dump: 0 of 0 tasks done; the job's configuration has errors";
        assert_eq!(sentence_of(&job), text);
        assert_eq!(details_of(&job, ""), "  c.json:1:2: no\n");
    }
}
