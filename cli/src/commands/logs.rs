//! `brasserie logs`: what tasks printed, from all workers, in order of time.

mod lines;

use anyhow::Result;
use brasserie_common::logs::LogStream;
use brasserie_common::{InstanceId, InvocationId};
use brasserie_thrift::generated::common::LogLine;
use serde_json::json;

use crate::Ending;
use crate::connection::{Connection, LogRequest, SchedulerArgs, block_on};
use crate::output::{print, print_json};
use lines::Names;

/// Pages that turn up nothing, in a row, after which a search with `--regex` reports how far it came. Each has scanned up to
/// 20,000 lines.
const PAGES_BEFORE_NOTICE: usize = 50;

/// Prints the newest lines, oldest first, of one task, one job or everything.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only this job.
    job: Option<String>,
    /// Only this node.
    node: Option<String>,
    /// What the tasks wrote to standard error, instead of standard output.
    #[arg(long, conflicts_with = "events")]
    stderr: bool,
    /// The events of the tasks' lives, one JSON object a line, instead of standard output.
    #[arg(long)]
    events: bool,
    /// Only lines in which this regular expression is found.
    #[arg(long, value_name = "REGEX", default_value = "")]
    regex: String,
    /// At most so many lines.
    #[arg(long, value_name = "LINES", default_value_t = 1000)]
    limit: usize,
    /// The oldest lines instead of the newest.
    #[arg(long)]
    from_start: bool,
    /// Only what this run wrote, START:RAND as `--json` gives it.
    #[arg(long, value_name = "RUN")]
    invocation: Option<InstanceId>,
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// One JSON document instead of lines.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn names(&self) -> Names {
        match (&self.job, &self.node) {
            (Some(_), Some(_)) => Names::None,
            (Some(_), None) => Names::Node,
            (None, _) => Names::JobAndNode,
        }
    }

    fn stream(&self) -> LogStream {
        match (self.stderr, self.events) {
            (true, _) => LogStream::Stderr,
            (_, true) => LogStream::Statuses,
            (false, false) => LogStream::Stdout,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<Ending> {
    let connection = Connection::new(&args.scheduler.scheduler)?;
    let request = LogRequest {
        stream: args.stream(),
        job: args.job.clone().unwrap_or_default(),
        node: args.node.clone().unwrap_or_default(),
        from: -1,
        ascending: args.from_start,
        regex: args.regex.clone(),
        invocation: args.invocation.map(InvocationId),
    };
    let (lines, notices) = block_on(collect(&connection, request, args.limit))??;
    for notice in &notices {
        eprintln!("brasserie: {notice}");
    }
    if args.json {
        let lines: Vec<_> = lines.iter().map(lines::json).collect();
        print_json(&json!({ "lines": lines, "notices": notices }))?;
    } else {
        print(
            &lines
                .iter()
                .map(|line| lines::text(line, args.names()))
                .collect::<String>(),
        )?;
    }
    Ok(Ending::Success)
}

/// Pages on until there are enough lines or no more; gives lines oldest first, and notices about workers that did not answer.
pub(crate) async fn collect(
    connection: &Connection,
    mut request: LogRequest,
    limit: usize,
) -> Result<(Vec<LogLine>, Vec<String>)> {
    let (mut lines, mut notices): (Vec<LogLine>, Vec<String>) = (Vec::new(), Vec::new());
    let mut empty_pages = 0;
    while lines.len() < limit {
        let page = connection.logs(&request).await?;
        let before = lines.len();
        for line in page.lines.unwrap_or_default() {
            let text = line.line.clone().unwrap_or_default();
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
            eprintln!("brasserie: still searching; nothing matched so far");
        }
        match page.next_line_id {
            Some(next) if next != -1 => request.from = next,
            _ => break,
        }
    }
    lines.truncate(limit);
    if !request.ascending {
        lines.reverse();
    }
    Ok((lines, notices))
}
