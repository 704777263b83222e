//! `brasserie logs`: prints task output from all workers, ordered by time.

mod files;
mod follow;
pub(crate) mod lines;
mod lost;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use brasserie_common::logs::LogStream;
use brasserie_common::{InstanceId, InvocationId};
use brasserie_thrift::generated::common::LogLine;
use brasserie_worker::logs::{QueryError, check_pattern};
use serde_json::json;

use crate::CommandEnding;
use crate::connection::{LogRequest, block_on};
use crate::data_dir::{LogSource, SchedulerSource, SourceArgs};
use crate::failure::is_refused;
use crate::output::{
    Layout, OutputReader, complain, json_text, print_json, print_raw, printable_block, with_flag,
};
use follow::{Cursor, RoundEnd};
use lines::{ShownNames, TaskText};

/// Consecutive pages without a match after which a search with `--regex` reports its progress. Each page scans up to 20,000 lines.
const PAGES_BEFORE_NOTICE: usize = 50;
/// Interval of requests with `--follow`. People perceive half a second as immediate, and it costs a scheduler nothing.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(500);

/// Print the newest lines, oldest first, of one task, one job or all jobs.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// Print only lines of this job.
    job: Option<String>,
    /// Print only lines of this node.
    node: Option<String>,
    /// Print standard error instead of standard output.
    #[arg(long, conflicts_with = "events")]
    stderr: bool,
    /// Print the events of the tasks, one JSON object a line, instead of standard output.
    #[arg(long)]
    events: bool,
    /// Print only lines that match this regular expression.
    #[arg(long, value_name = "REGEX", default_value = "", value_parser = regex)]
    regex: String,
    /// Print at most LINES lines; a notice on standard error reports that more may exist.
    #[arg(long, value_name = "LINES", default_value_t = 1000)]
    limit: usize,
    /// Print all lines, oldest first; with `--json`, one document a line. The exit code is 1 if lines are missing because a worker does not
    /// answer or has left.
    #[arg(long, conflicts_with_all = ["limit", "follow", "from_start"])]
    all: bool,
    /// Print the oldest lines instead of the newest.
    #[arg(long)]
    from_start: bool,
    /// Continue with new lines as they arrive, until Ctrl-C.
    #[arg(long, short)]
    follow: bool,
    /// Print task output unchanged on a terminal, too. Without this flag, control characters except tabs are escaped there. Output to a
    /// file or a pipe is never changed.
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Print only lines of this run, START:RAND as in `--json`.
    #[arg(long, value_name = "RUN")]
    invocation: Option<InstanceId>,
    #[command(flatten)]
    source: SourceArgs,
    /// Print one JSON document instead of lines; with `--follow`, one a line.
    #[arg(long)]
    json: bool,
}

/// Checks the pattern here, so that an invalid one is a usage error and not an error of each worker.
fn regex(text: &str) -> Result<String, QueryError> {
    check_pattern(text).map(|()| text.to_owned())
}

impl LogsArgs {
    fn names(&self) -> ShownNames {
        match (&self.job, &self.node) {
            (Some(_), Some(_)) => ShownNames::None,
            (Some(_), None) => ShownNames::Node,
            (None, _) => ShownNames::JobAndNode,
        }
    }

    fn task_text(&self) -> TaskText {
        match !self.raw && stdout().is_terminal() {
            true => TaskText::Printable,
            false => TaskText::AsWritten,
        }
    }

    fn stream_name(&self) -> &'static str {
        match self.stream() {
            LogStream::Stdout => "standard output (`--stderr` shows the other stream)",
            LogStream::Stderr => "standard error",
            LogStream::Statuses => "the stream of events",
        }
    }

    fn stream(&self) -> LogStream {
        match (self.stderr, self.events) {
            (true, _) => LogStream::Stderr,
            (_, true) => LogStream::Statuses,
            (false, false) => LogStream::Stdout,
        }
    }

    fn request(&self) -> LogRequest {
        LogRequest {
            stream: self.stream(),
            job: self.job.clone().unwrap_or_default(),
            node: self.node.clone().unwrap_or_default(),
            from: -1,
            ascending: self.from_start,
            regex: self.regex.clone(),
            invocation: self.invocation.map(InvocationId),
        }
    }
}

pub(crate) fn run(args: &LogsArgs) -> Result<CommandEnding> {
    let source = LogSource::open(&args.source)?;
    let request = args.request();
    if args.follow {
        return block_on(async {
            tokio::select! {
                ended = follow(&source, request, args) => ended,
                _ = tokio::signal::ctrl_c() => Ok(CommandEnding::Success),
            }
        })?;
    }
    if args.all {
        return block_on(all(&source, request, args))?;
    }
    let Some(FoundLines {
        lines,
        notices,
        ending,
    }) = block_on(found(&source, request, args))??
    else {
        return Ok(CommandEnding::Interrupted);
    };
    if args.json {
        let lines: Vec<_> = lines.iter().map(lines::json).collect();
        print_json(&json!({ "lines": lines, "notices": notices }))?;
    } else {
        show(&lines, args)?;
    }
    // Notices follow the lines, because otherwise the lines would scroll them out of sight.
    for notice in &notices {
        let notice = with_flag(notice, &args.source.flag());
        complain!("brasserie: {}", printable_block(&notice));
    }
    Ok(ending)
}

/// Returns why there are no lines. Errors if the job or the node is unknown. Lines of a removed job may still exist, so call this only if
/// no lines were found. `None`: a signal came first.
async fn why_no_lines(args: &LogsArgs) -> Result<Option<String>> {
    let stream = args.stream_name();
    let no_match = format!("no line on {stream} matches");
    let is_filtered = args.job.is_some() || !args.regex.is_empty();
    if args.source.is_worker() {
        let no_line = format!("this worker has no line on {stream}");
        return Ok(Some(if is_filtered { no_match } else { no_line }));
    }
    let Some(job) = &args.job else {
        return Ok(Some(match args.regex.is_empty() {
            true => format!("no task has written a line on {stream}"),
            false => no_match,
        }));
    };
    let why = SchedulerSource::ask(&args.source, async |source| match &args.node {
        None => {
            let jobs = std::slice::from_ref(job);
            source.connection.view_of_jobs(jobs).await?;
            Ok(format!(
                "no task of job `{job}` has written a line on {stream}"
            ))
        }
        Some(node) => {
            source.connection.explain(job, node).await?;
            Ok(match source.connection.last_run(job, node).await {
                Ok(None) => "no run of this task has completed or written a line; `brasserie explain` shows what the task waits for".to_owned(),
                Ok(Some(_)) | Err(_) => format!("this task has written no line on {stream}"),
            })
        }
    });
    let why = why.await.context("no worker has such lines")?;
    Ok(why.map(|why| if args.regex.is_empty() { why } else { no_match }))
}

/// Prints all lines, a page at a time, then notices about lines that may be missing.
async fn all(
    source: &LogSource,
    mut request: LogRequest,
    args: &LogsArgs,
) -> Result<CommandEnding> {
    request.ascending = true;
    let mut notices = files::notices(source, &request).await?;
    let mut cursor = Cursor::default();
    let missing = match round(source, &mut request, args, &mut cursor).await {
        Ok((_, more)) => more,
        Err(Trouble::Call(error) | Trouble::Output(error)) => return Err(error),
    };
    let lost = lost::notice(source, &request).await.ok().flatten();
    let ending = match missing.is_empty() && lost.is_none() {
        true => CommandEnding::Success,
        false => CommandEnding::Failure,
    };
    notices.extend(missing.into_iter().chain(lost));
    if cursor.is_new_to_all() {
        let Some(why) = why_no_lines(args).await? else {
            return Ok(CommandEnding::Interrupted);
        };
        if notices.is_empty() {
            notices.push(why);
        }
    }
    print_new_notices(&mut BTreeSet::new(), notices);
    Ok(ending)
}

/// The requested lines, oldest first.
struct FoundLines {
    lines: Vec<LogLine>,
    /// Says which lines may be missing, and why there are none.
    notices: Vec<String>,
    /// A failure if there are no lines and some may be missing.
    ending: CommandEnding,
}

/// Returns the requested lines; `None` if a signal came first.
async fn found(
    source: &LogSource,
    request: LogRequest,
    args: &LogsArgs,
) -> Result<Option<FoundLines>> {
    let lines = async {
        let files = files::notices(source, &request).await?;
        let (lines, mut notices) = collect(source, request.clone(), args.limit).await?;
        let ending = match lines.is_empty() && !notices.is_empty() {
            true => CommandEnding::Failure,
            false => CommandEnding::Success,
        };
        notices.extend(files);
        anyhow::Ok(FoundLines {
            lines,
            notices,
            ending,
        })
    };
    let found = lines.await;
    if found.as_ref().is_ok_and(|found| !found.lines.is_empty()) {
        return found.map(Some);
    }
    match (lost::notice(source, &request).await, found) {
        (Ok(Some(lost)), Ok(mut found)) => {
            found.notices.push(lost);
            found.ending = CommandEnding::Failure;
            Ok(Some(found))
        }
        (Ok(Some(lost)), Err(error)) => Err(anyhow!("{error:#}; {lost}")),
        (Ok(None) | Err(_), found) => {
            let mut found = found?;
            let Some(why) = why_no_lines(args).await? else {
                return Ok(None);
            };
            if found.notices.is_empty() {
                found.notices.push(why);
            }
            Ok(Some(found))
        }
    }
}

/// Fetches pages until there are enough lines or no more. Returns the lines oldest first, and notices about lines that may be missing.
async fn collect(
    source: &LogSource,
    mut request: LogRequest,
    limit: usize,
) -> Result<(Vec<LogLine>, Vec<String>)> {
    let (mut lines, mut notices): (Vec<LogLine>, Vec<String>) = (Vec::new(), Vec::new());
    let (mut empty_pages, mut has_more) = (0, false);
    while lines.len() < limit {
        let page = source.logs(&request).await?;
        let before = lines.len();
        for line in page.lines.unwrap_or_default() {
            let text = line.line.clone().unwrap_or_default();
            // A line with the id -1 is a notice about lines that may be missing.
            if line.line_id != Some(-1) {
                lines.push(line);
            } else if !notices.contains(&text) {
                notices.push(text);
            }
        }
        empty_pages = if lines.len() == before {
            empty_pages + 1
        } else {
            0
        };
        if empty_pages == PAGES_BEFORE_NOTICE {
            complain!("brasserie: still searching; nothing matched so far");
        }
        match page.next_line_id {
            Some(next) if next != -1 => request.from = next,
            _ => {
                has_more = false;
                break;
            }
        }
        has_more = true;
    }
    if has_more || lines.len() > limit {
        let which = match request.ascending {
            true => "oldest",
            false => "newest",
        };
        notices.push(format!(
            "only the {which} {limit} lines are shown; `--limit LINES` or `--all` shows more, if there are any"
        ));
    }
    lines.truncate(limit);
    if !request.ascending {
        lines.reverse();
    }
    Ok((lines, notices))
}

/// Prints new lines until the reader closes standard output, or the `brasserie run` of the data directory has ended. Retries if the scheduler
/// is unreachable.
async fn follow(
    source: &LogSource,
    mut request: LogRequest,
    args: &LogsArgs,
) -> Result<CommandEnding> {
    let mut cursor = Cursor::default();
    let mut printed = BTreeSet::new();
    let lines = match args.from_start {
        // Only checks whether there are any lines.
        true => newest(source, &mut request.clone(), 1, &mut Cursor::default()).await?,
        false => newest(source, &mut request, args.limit, &mut cursor).await?,
    };
    if lines.is_empty() && why_no_lines(args).await?.is_none() {
        return Ok(CommandEnding::Interrupted);
    }
    if !args.from_start && show(&lines, args)? == OutputReader::Gone {
        return Ok(CommandEnding::Success);
    }
    request.ascending = true;
    loop {
        // Checked before the round, so that the round prints the last lines.
        let is_complete = source.is_complete().await;
        request.from = cursor.start();
        match round(source, &mut request, args, &mut cursor).await {
            Err(Trouble::Output(error)) => return Err(error),
            Err(Trouble::Call(error)) if is_refused(&error) => return Err(error),
            Err(Trouble::Call(error)) => {
                cursor.troubled();
                print_new_notices(&mut printed, vec![error.to_string()]);
            }
            Ok((OutputReader::Gone, _)) => return Ok(CommandEnding::Success),
            Ok((OutputReader::Listens, notices)) => {
                if notices.is_empty() {
                    printed.clear();
                }
                print_new_notices(&mut printed, notices);
                if cursor.end_round() == RoundEnd::GaveUp {
                    complain!(
                        "brasserie: continuing without these workers; lines that they write meanwhile may be missing"
                    );
                }
            }
        }
        if is_complete {
            return Ok(CommandEnding::Success);
        }
        tokio::time::sleep(FOLLOW_INTERVAL).await;
    }
}

/// Why a round ended early.
enum Trouble {
    Call(anyhow::Error),
    Output(anyhow::Error),
}

/// Shows the new lines of all pages from the request's start.
async fn round(
    source: &LogSource,
    request: &mut LogRequest,
    args: &LogsArgs,
    cursor: &mut Cursor,
) -> Result<(OutputReader, Vec<String>), Trouble> {
    let mut notices = Vec::new();
    loop {
        let page = source.logs(request).await.map_err(Trouble::Call)?;
        let news = cursor.take(request.from, page);
        notices.extend(news.notices);
        let reader = show(&news.lines, args).map_err(Trouble::Output)?;
        match news.next {
            Some(next) if reader == OutputReader::Listens => request.from = next,
            Some(_) | None => return Ok((reader, notices)),
        }
    }
}

/// Returns the newest lines, oldest first, and moves the cursor behind them.
async fn newest(
    source: &LogSource,
    request: &mut LogRequest,
    limit: usize,
    cursor: &mut Cursor,
) -> Result<Vec<LogLine>> {
    let mut lines = Vec::new();
    loop {
        let news = cursor.take_newest(source.logs(request).await?);
        lines.extend(news.lines);
        lines.truncate(limit);
        match news.next {
            Some(next) if lines.len() < limit || !cursor.covers(next) => request.from = next,
            Some(_) | None => break,
        }
    }
    cursor.end_round();
    lines.reverse();
    Ok(lines)
}

fn show(new: &[LogLine], args: &LogsArgs) -> Result<OutputReader> {
    let text = |line| match args.json {
        true => json_text(&lines::json(line), Layout::OneLine),
        false => lines::text(line, args.names(), args.task_text()),
    };
    print_raw(&new.iter().map(text).collect::<String>())
}

/// Prints each notice once, until a round has none.
fn print_new_notices(printed: &mut BTreeSet<String>, notices: Vec<String>) {
    for notice in notices {
        if printed.insert(notice.clone()) {
            complain!("brasserie: {}", printable_block(&notice));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use brasserie_common::access::CallOrigin;
    use brasserie_common::{NotPermitted, Principal};
    use brasserie_thrift::generated::brasserie::{
        BrasserieGetClusterStatusArgs, BrasserieGetClusterStatusResult, ClusterStatus, JobStatus,
    };
    use brasserie_thrift::generated::common::LogLines;
    use brasserie_thrift::generated::scheduler::{
        BistroSchedulerGetJobLogsByIDArgs, BistroSchedulerGetJobLogsByIDResult,
    };
    use brasserie_thrift::rpc::{IncomingCall, Limits, Server, Service};
    use clap::Parser as _;
    use tokio_util::sync::CancellationToken;

    use super::*;

    /// A scheduler of a release that lists all jobs, without calls for single jobs.
    struct Older;

    impl Service for Older {
        fn call(&self, call: IncomingCall<'_>) {
            if call.method() != "getClusterStatus" {
                return call.unknown_method();
            }
            call.serve(|_: BrasserieGetClusterStatusArgs, responder| {
                let job = JobStatus {
                    name: Some("quiet".to_owned()),
                    ..JobStatus::default()
                };
                responder.reply(&BrasserieGetClusterStatusResult {
                    result_value: Some(ClusterStatus {
                        jobs: Some(vec![job]),
                        ..ClusterStatus::default()
                    }),
                });
            });
        }
    }

    /// A scheduler that sends one line, and then refuses the caller.
    struct Revoking(AtomicUsize);

    impl Service for Revoking {
        fn call(&self, call: IncomingCall<'_>) {
            if self.0.fetch_add(1, Ordering::Relaxed) > 0 {
                let from = CallOrigin::Network(([127, 0, 0, 1], 1).into());
                let caller = Principal::stranger(from, "no such token");
                return call.into_responder().refuse(&NotPermitted {
                    call: "getJobLogsByID".to_owned(),
                    caller,
                    shard: None,
                });
            }
            call.serve(|_: BistroSchedulerGetJobLogsByIDArgs, responder| {
                let line = LogLine {
                    line: Some("a line".to_owned()),
                    line_id: Some(1 << 32),
                    ..LogLine::default()
                };
                responder.reply(&BistroSchedulerGetJobLogsByIDResult {
                    result_value: Some(LogLines {
                        lines: Some(vec![line]),
                        next_line_id: Some(-1),
                    }),
                });
            });
        }
    }

    #[tokio::test]
    async fn a_follower_ends_when_the_scheduler_refuses_it() {
        let server = Server::bind(([127, 0, 0, 1], 0).into()).await;
        let server = server.expect("a port");
        let address = server.local_addr().to_string();
        let stop = CancellationToken::new();
        let service = Revoking(AtomicUsize::new(0));
        let handle = server.serve(service, Limits::DEFAULT, stop.clone());
        let args = Line::parse_from(["logs", "--follow", "--scheduler", &address]).logs;
        let source = LogSource::open(&args.source).expect("a scheduler");
        let ended = follow(&source, args.request(), &args).await;
        let refused = ended.expect_err("it is refused");
        assert!(is_refused(&refused), "{refused:#}");
        assert!(refused.to_string().contains("no such token"), "{refused:#}");
        stop.cancel();
        handle.stopped().await;
    }

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        logs: LogsArgs,
    }

    #[tokio::test]
    async fn an_older_scheduler_knows_the_jobs_without_lines() {
        let server = Server::bind(([127, 0, 0, 1], 0).into()).await;
        let server = server.expect("a port");
        let address = server.local_addr().to_string();
        let stop = CancellationToken::new();
        let handle = server.serve(Older, Limits::DEFAULT, stop.clone());
        let line = |job| Line::parse_from(["logs", job, "--scheduler", &address]).logs;
        let known = why_no_lines(&line("quiet")).await;
        assert!(known.is_ok(), "{known:?}");
        let unknown = why_no_lines(&line("nobody")).await.expect_err("no job");
        let text = crate::failure::text_of(&unknown);
        assert!(
            text.contains("no job is called `nobody`. `brasserie status --all --scheduler"),
            "{text}"
        );
        stop.cancel();
        handle.stopped().await;
    }
}
