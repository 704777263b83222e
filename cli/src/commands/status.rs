//! `brasserie status`: shows problems, workers and jobs.

use anyhow::Result;
use brasserie_common::WallTime;
use brasserie_common::cluster_view::{ClusterView, DEFAULT_ROWS, Report};
use brasserie_common::time::readable_duration;
use brasserie_common_identity::Life;
use brasserie_common_runtime::Clock;

use crate::CommandEnding;
use crate::connection::{Connection, block_on};
use crate::data_dir::{SchedulerSource, SourceArgs};
use crate::output::{print, print_json, printable_block, table, with_flag};

/// Show problems, workers and jobs of a scheduler. The counts of a job are numbers of tasks. Tasks under `never` can never run with the
/// current configuration and workers; `explain` says why.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie status                        problems, and those jobs that need attention first
  brasserie status --job copy --job move  these jobs alone
  brasserie status --all                  every job
  brasserie status --json                 the document that the scheduler's HTTP address has at /status

Exit codes:
  0  printed
  1  no answer, or no such job
  2  wrong usage")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Show only this job; the flag may be repeated.
    #[arg(long, value_name = "JOB", conflicts_with_all = ["limit", "all"])]
    job: Vec<String>,
    /// Show at most COUNT problems, workers and jobs each [default: 100, or 1000 jobs with `--json`].
    #[arg(long, value_name = "COUNT", conflicts_with = "all")]
    limit: Option<usize>,
    /// Show all problems, workers and jobs.
    #[arg(long)]
    all: bool,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &StatusArgs) -> Result<CommandEnding> {
    let asked = SchedulerSource::ask(&args.source, async |source| {
        let mut view = view(&source.connection, args).await?;
        view.errors.extend(token_problem(&source.connection).await);
        Ok((source.without_own_start(view), source.note()))
    });
    let Some((view, note)) = block_on(asked)?? else {
        return Ok(CommandEnding::Interrupted);
    };
    match args.json {
        true => print_json(&serde_json::to_value(&view)?)?,
        false => {
            let hint = match args.source.is_run() || view.tasks.failed == 0 {
                true => String::new(),
                false => failed_hint(&args.source.flag()),
            };
            print(&to_text(
                &args.report(&view),
                (&args.source.flag(), &hint),
                note,
            ))?;
        }
    }
    Ok(CommandEnding::Success)
}

/// Returns the problem that the caller's token soon expires.
async fn token_problem(connection: &Connection) -> Option<String> {
    // An older scheduler does not say when.
    let caller = connection.caller().await.ok()??;
    let life = Life {
        issued: WallTime::from_millis(caller.created_ms?),
        until: WallTime::from_millis(caller.expires_ms?),
    };
    let left = life.last_third(Clock.wall())?;
    Some(format!(
        "your token expires in {}: ask an administrator for another one, of `brasserie token create --role ROLE`",
        readable_duration(left)
    ))
}

/// Formats the next steps after failed tasks. `flag` names the scheduler.
fn failed_hint(flag: &str) -> String {
    format!(
        "  `brasserie task list --state failed{flag}` shows why tasks failed; once the cause is fixed, `brasserie job forgive JOB{flag}` runs the tasks again\n"
    )
}

impl StatusArgs {
    fn report(&self, view: &ClusterView) -> Report {
        let everything = self.all || !self.job.is_empty();
        let rows = if everything { usize::MAX } else { DEFAULT_ROWS };
        let mut report = view.report(self.limit.unwrap_or(rows));
        if !self.job.is_empty() {
            // `--job` names the wanted jobs, so the others are not missing.
            report.jobs_left_out = 0;
        }
        report
    }
}

async fn view(connection: &Connection, args: &StatusArgs) -> Result<ClusterView> {
    if !args.job.is_empty() {
        return connection.view_of_jobs(&args.job).await;
    }
    let limit = args.limit.unwrap_or(if args.all { usize::MAX } else { 0 });
    let mut view = connection.view(limit).await?;
    if let Some(limit) = args.limit {
        view.keep_jobs(limit);
    }
    Ok(view)
}

/// Formats the report. `flag` names its source to another command, and `hint` says what to do about failed tasks. `of_ended_run` is the
/// first sentence for an ended run, which has no workers.
fn to_text(report: &Report, (flag, hint): (&str, &str), of_ended_run: Option<String>) -> String {
    let shows_workers = of_ended_run.is_none();
    let mut text = of_ended_run.unwrap_or_default();
    for problem in &report.problems {
        text.push_str(&format!(
            "! {}\n",
            printable_block(&with_flag(problem, flag))
        ));
    }
    let left_out = report.problems_left_out as u64;
    text.push_str(&more(left_out, "problems", "`--all` shows them"));
    text.push_str(hint);
    for fact in &report.facts {
        text.push_str(&format!("{}\n", printable_block(fact)));
    }
    text.push('\n');
    if shows_workers {
        text.push_str(&workers_text(report, flag, "`--all` shows them"));
        text.push('\n');
    }
    text.push_str(&table(report.jobs.columns, &report.jobs.rows));
    let how = "`--all` shows them, `--job JOB` one of them";
    text.push_str(&more(report.jobs_left_out, "jobs", how));
    text
}

/// Formats the table of workers and the remarks on them. `flag` names the scheduler to another command, and `rest` says where the workers
/// are that the report leaves out.
pub(super) fn workers_text(report: &Report, flag: &str, rest: &str) -> String {
    let mut text = match report.workers.rows.is_empty() && report.workers_left_out == 0 {
        true if flag.starts_with(" --data-dir") => format!(
            "No worker is connected: the worker of the run starts or ends. Once the run has ended, `brasserie run FILE{flag}` continues it.\n"
        ),
        true => "No worker is connected. Start one: brasserie-worker --scheduler HOST:PORT --data-dir DIR, with --join-token if the scheduler asks for \
                 proofs\n".to_owned(),
        false => table(report.workers.columns, &report.workers.rows),
    };
    text.push_str(&more(report.workers_left_out, "workers", rest));
    for remark in &report.remarks {
        text.push_str(&format!("{}\n", printable_block(&with_flag(remark, flag))));
    }
    text
}

fn more(count: u64, what: &str, how: &str) -> String {
    match count {
        0 => String::new(),
        count => format!("... and {count} more {what}: {how}\n"),
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common::cluster_view::{JobView, WorkerView};

    use super::*;

    #[test]
    fn an_empty_pool_says_what_to_do() {
        let text = to_text(&ClusterView::default().report(1), ("", ""), None);
        assert!(text.contains("brasserie-worker --scheduler"), "{text}");
        let run = (" --data-dir d", "");
        let text = to_text(&ClusterView::default().report(1), run, None);
        assert!(text.contains("`brasserie run FILE --data-dir d`"), "{text}");
        assert!(!text.contains("brasserie-worker"), "{text}");
    }

    #[test]
    fn problems_come_first_then_workers_then_jobs() {
        let worker = WorkerView {
            shard: "w1".to_owned(),
            state: "healthy".to_owned(),
            waits_for: Some("for its breakfast".to_owned()),
            ..WorkerView::default()
        };
        let view = ClusterView {
            nothing_starts: vec!["initial wait: why".to_owned()],
            errors: vec!["all is\nbad".to_owned(), "second".to_owned()],
            workers: vec![worker],
            jobs: vec![JobView {
                name: "j1".to_owned(),
                next_backoff_end_in_ms: Some(4500),
                ..JobView::default()
            }],
            jobs_total: 8,
            ..ClusterView::default()
        };
        let text = to_text(&view.report(2), ("", "hint\n"), None);
        let lines = [
            "! initial wait: why\n! all is\n  bad\n... and 1 more problems: `--all` shows them\nhint\n",
            "w1 ",
            "\nw1 waits for its breakfast\n",
            "\nj1 ",
            "in 4.5 s",
            "... and 7 more jobs: `--all` shows them, `--job JOB` one of them\n",
        ];
        let places = lines.map(|line| text.find(line).unwrap_or_else(|| panic!("{line}: {text}")));
        assert!(places.is_sorted(), "{text}");
    }

    #[test]
    fn names_and_errors_of_peers_move_no_cursor_and_forge_no_line() {
        let hostile = || "x\u{1b}[2J\u{9b}\r\nNo worker has connected.".to_owned();
        let worker = WorkerView {
            shard: hostile(),
            address: hostile(),
            state: hostile(),
            waits_for: Some(hostile()),
            notes: vec![hostile()],
            ..WorkerView::default()
        };
        let job = JobView {
            name: hostile(),
            errors: vec![hostile()],
            ..JobView::default()
        };
        let view = ClusterView {
            workers: vec![worker],
            jobs: vec![job],
            errors: vec![hostile()],
            nothing_starts: vec![hostile()],
            wait_ended: Some(hostile()),
            ..ClusterView::default()
        };
        let text = to_text(&view.report(100), ("", ""), None);
        let unprintable = |c: char| c.is_control() && c != '\n';
        assert!(!text.contains(unprintable), "{text:?}");
        let forged = |line: &str| line.starts_with("No worker");
        assert!(!text.lines().any(forged), "{text}");
    }
}
