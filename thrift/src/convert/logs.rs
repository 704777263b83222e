//! Pages of task logs and their queries.

use brasserie_common::logs::{LineId, LinePart, LogLine, LogPage, LogQuery, LogStream};
use brasserie_common::{InvocationId, JobName, NodeName, WallTime};

use super::{FieldProblem, WireError, parse, parse_list, parse_name, saturating_i32, to_wire_list};
use crate::generated::common::{self as wire, K_NOT_A_LINE_ID};
use crate::generated::scheduler::BistroSchedulerGetJobLogsByIDArgs;
use crate::generated::worker::BistroWorkerGetJobLogsByIDArgs;

fn line_id(wire: i64) -> Option<LineId> {
    (wire != K_NOT_A_LINE_ID).then_some(LineId(wire))
}

fn line_id_to_wire(id: Option<LineId>) -> i64 {
    id.map_or(K_NOT_A_LINE_ID, |id| id.0)
}

fn stream(path: &str, text: &str) -> Result<LogStream, WireError> {
    LogStream::parse(text).ok_or_else(|| {
        WireError::new(
            path,
            FieldProblem::unknown_word(text, "\"stdout\", \"stderr\" or \"statuses\""),
        )
    })
}

fn invocation(
    path: &str,
    id: Option<wire::BistroInstanceID>,
) -> Result<Option<InvocationId>, WireError> {
    id.map(|id| parse(path, id)).transpose()
}

impl TryFrom<wire::LogLine> for LogLine {
    type Error = WireError;

    fn try_from(line: wire::LogLine) -> Result<Self, WireError> {
        Ok(LogLine {
            job: parse_name("LogLine.jobID", line.job_id.unwrap_or_default())?,
            node: parse_name("LogLine.nodeID", line.node_id.unwrap_or_default())?,
            time_secs: line.time.unwrap_or(0).into(),
            line: line.line.unwrap_or_default(),
            id: line_id(line.line_id.unwrap_or(0)),
            time: line.time_ms.map(WallTime::from_millis),
            invocation: invocation("LogLine.invocationID", line.invocation_id)?,
            shard: line
                .worker_shard
                .map(|shard| parse_name("LogLine.workerShard", shard))
                .transpose()?,
            bytes: line.bytes,
            part: match line.continued {
                Some(true) => LinePart::Continued,
                Some(false) | None => LinePart::Last,
            },
        })
    }
}

impl From<LogLine> for wire::LogLine {
    fn from(line: LogLine) -> Self {
        wire::LogLine {
            job_id: Some(line.job.into()),
            node_id: Some(line.node.into()),
            // The wire's 32 bits end in 2038; the line id has the true second.
            time: Some(saturating_i32(line.time_secs.max(0))),
            line: Some(line.line),
            line_id: Some(line_id_to_wire(line.id)),
            time_ms: line.time.map(WallTime::as_millis),
            invocation_id: line.invocation.map(Into::into),
            worker_shard: line.shard.map(Into::into),
            bytes: line.bytes,
            continued: match line.part {
                LinePart::Continued => Some(true),
                LinePart::Last => None,
            },
        }
    }
}

impl TryFrom<wire::LogLines> for LogPage {
    type Error = WireError;

    fn try_from(page: wire::LogLines) -> Result<Self, WireError> {
        Ok(LogPage {
            lines: parse_list("LogLines.lines", page.lines.unwrap_or_default())?,
            next: line_id(page.next_line_id.unwrap_or(0)),
        })
    }
}

impl From<LogPage> for wire::LogLines {
    fn from(page: LogPage) -> Self {
        wire::LogLines {
            lines: Some(to_wire_list(page.lines)),
            next_line_id: Some(line_id_to_wire(page.next)),
        }
    }
}

fn names<N>(path: &str, texts: Vec<String>) -> Result<Vec<N>, WireError>
where
    N: TryFrom<String, Error = brasserie_common::ids::NameError>,
{
    texts
        .into_iter()
        .enumerate()
        .map(|(position, text)| {
            parse_name("", text).map_err(|error| error.inside(&format!("{path}[{position}]")))
        })
        .collect()
}

impl TryFrom<BistroWorkerGetJobLogsByIDArgs> for LogQuery {
    type Error = WireError;

    fn try_from(args: BistroWorkerGetJobLogsByIDArgs) -> Result<Self, WireError> {
        let limit = usize::try_from(args.limit).map_err(|_| {
            WireError::new(
                "getJobLogsByID.limit",
                FieldProblem::OutOfRange {
                    value: args.limit.into(),
                    allowed: "0 or more",
                },
            )
        })?;
        Ok(LogQuery {
            stream: stream("getJobLogsByID.logtype", &args.logtype)?,
            jobs: names("getJobLogsByID.job_ids", args.job_ids)?,
            nodes: names("getJobLogsByID.node_ids", args.node_ids)?,
            from: line_id(args.line_id),
            ascending: args.is_ascending,
            limit,
            regex: args.regex_filter,
            invocation: invocation("getJobLogsByID.invocation", args.invocation)?,
        })
    }
}

impl From<LogQuery> for BistroWorkerGetJobLogsByIDArgs {
    fn from(query: LogQuery) -> Self {
        BistroWorkerGetJobLogsByIDArgs {
            logtype: query.stream.as_str().to_owned(),
            job_ids: query.jobs.into_iter().map(Into::into).collect(),
            node_ids: query.nodes.into_iter().map(Into::into).collect(),
            line_id: line_id_to_wire(query.from),
            is_ascending: query.ascending,
            limit: saturating_i32(query.limit),
            regex_filter: query.regex,
            invocation: query.invocation.map(Into::into),
        }
    }
}

/// Builds the query of a scheduler's caller. Its arguments have no line limit, so the scheduler sets `limit`.
pub fn scheduler_log_query(
    args: BistroSchedulerGetJobLogsByIDArgs,
    limit: usize,
) -> Result<LogQuery, WireError> {
    let job: JobName = parse_name("getJobLogsByID.job_id", args.job_id)?;
    let node: NodeName = parse_name("getJobLogsByID.node_id", args.node_id)?;
    Ok(LogQuery {
        stream: stream("getJobLogsByID.logtype", &args.logtype)?,
        jobs: Some(job)
            .filter(|job| !job.as_str().is_empty())
            .into_iter()
            .collect(),
        nodes: Some(node)
            .filter(|node| !node.as_str().is_empty())
            .into_iter()
            .collect(),
        from: line_id(args.line_id),
        ascending: args.is_ascending,
        limit,
        regex: args.regex_filter,
        invocation: invocation("getJobLogsByID.invocation", args.invocation)?,
    })
}
