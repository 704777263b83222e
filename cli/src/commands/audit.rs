//! `brasserie audit`: shows the audit log of a scheduler, which says who has changed what, and who was refused.

use std::time::Duration;

use anyhow::Result;
use brasserie_common::time::parse_duration;
use brasserie_thrift::generated::brasserie::AuditQuery;
use serde_json::Value;

use crate::CommandEnding;
use crate::connection::{AskArgs, Connection, block_on};
use crate::output::{Layout, OutputReader, json_text, print, print_raw, table};

/// The time between two looks for new lines.
const FOLLOW_PERIOD: Duration = Duration::from_secs(1);

/// Show the changes of a cluster, with their callers, addresses and outcomes, and the callers that were refused.
///
/// The scheduler writes a line for each call that changes something, for workers that join or renew their certificates, for callers that it
/// refuses, for config files that come into force, and for its starts and stops. It keeps the last 128 MiB of lines in DIR/audit, or as
/// much as its flag --audit-keep says. Only operators and administrators may read them.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie audit --since 1h                         the lines of the last hour
  brasserie audit --who ana --since 2026-11-30       the calls of ana since that day, in UTC
  brasserie audit --what copy                        the changes of the job `copy`
  brasserie audit --what pauseJob --json             the pauses of jobs, for programs: one object a line
  brasserie audit --refused --follow                 refusals and failures as they come

Exit codes:
  0  printed, also if no line matches
  1  no answer
  2  wrong usage")]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    ask: AskArgs,
    /// Only lines from TIME on: so long ago, as in 2h, or a date or time, as in 2026-11-30 or 2026-11-30T08:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = moment)]
    since: Option<i64>,
    /// Only lines before TIME.
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "follow")]
    until: Option<i64>,
    /// Only callers with this role, owner, token number, shard, user or address.
    #[arg(long, value_name = "NAME")]
    who: Option<String>,
    /// Only this call, or what was done to the job, worker, token or file of this name.
    #[arg(long, value_name = "NAME")]
    what: Option<String>,
    /// Only what was refused or has failed.
    #[arg(long)]
    refused: bool,
    /// Wait for further lines and print them, until interrupted.
    #[arg(long)]
    follow: bool,
}

pub(crate) fn run(args: &AuditArgs) -> Result<CommandEnding> {
    let connection = args.ask.connect()?;
    block_on(async {
        tokio::select! {
            ended = show(&connection, args) => ended,
            _ = tokio::signal::ctrl_c() => Ok(match args.follow {
                true => CommandEnding::Success,
                false => CommandEnding::Interrupted,
            }),
        }
    })?
}

async fn show(connection: &Connection, args: &AuditArgs) -> Result<CommandEnding> {
    let mut query = AuditQuery {
        after: None,
        since_ms: args.since,
        until_ms: args.until,
        who: args.who.clone(),
        what: args.what.clone(),
        refused_only: Some(args.refused),
    };
    let mut lines = Vec::new();
    let mut is_first = true;
    loop {
        let page = connection.audit_page(query.clone()).await?;
        let found = page.lines.unwrap_or_default().into_iter();
        lines.extend(found.filter_map(|line| serde_json::from_str::<Value>(&line).ok()));
        query.after = page.read_to;
        let has_more = page.has_more.unwrap_or(false);
        // A follower prints each page at once, and so do programs' documents, of which each has its own line.
        if args.follow || args.ask.json || !has_more {
            print_lines(&std::mem::take(&mut lines), args, is_first)?;
            is_first = false;
        }
        match (has_more, args.follow) {
            (true, _) => {}
            (false, true) => tokio::time::sleep(FOLLOW_PERIOD).await,
            (false, false) => return Ok(CommandEnding::Success),
        }
    }
}

fn print_lines(lines: &[Value], args: &AuditArgs, is_first: bool) -> Result<()> {
    if args.ask.json {
        let text: String = lines
            .iter()
            .map(|line| json_text(line, Layout::OneLine))
            .collect();
        return print_raw(&text).map(|_: OutputReader| ());
    }
    if lines.is_empty() {
        return match is_first && !args.follow {
            true => print("No line matches.\n"),
            false => Ok(()),
        };
    }
    let text = table(
        &["time", "who", "token", "what", "outcome", "details"],
        &lines.iter().map(row).collect::<Vec<_>>(),
    );
    // Later pages of a follower continue the table.
    let text = match is_first {
        true => text,
        false => text
            .split_once('\n')
            .map_or(String::new(), |(_, rows)| rows.to_owned()),
    };
    print(&text)
}

fn row(line: &Value) -> Vec<String> {
    let field = |name: &str| line[name].as_str().unwrap_or_default();
    let time = field("time").replace('T', " ");
    let time = time.split_once('.').map_or(&*time, |(seconds, _)| seconds);
    let what = [field("what"), field("object"), field("name"), field("node")];
    let what: Vec<&str> = what.into_iter().filter(|part| !part.is_empty()).collect();
    vec![
        time.to_owned(),
        field("who").to_owned(),
        field("token").to_owned(),
        what.join(" "),
        field("outcome").to_owned(),
        details(line),
    ]
}

/// Describes what has changed, or why nothing has.
fn details(line: &Value) -> String {
    let mut parts = Vec::new();
    let (before, after) = (&line["before"], &line["after"]);
    for (name, value) in after.as_object().into_iter().flatten() {
        let before = before.get(name).filter(|before| *before != value);
        match (before, value) {
            (_, Value::Null) => {}
            (Some(before), _) => {
                parts.push(format!("{name}: {} -> {}", plain(before), plain(value)))
            }
            (None, _) => parts.push(format!("{name}: {}", plain(value))),
        }
    }
    let former = before.as_object().into_iter().flatten();
    let gone = former.filter(|(name, _)| after.get(name).is_none());
    parts.extend(gone.map(|(name, value)| format!("{name} was {}", plain(value))));
    if let Some(why) = line["why"].as_str() {
        parts.push(why.to_owned());
    }
    if let Some(suppressed) = line["suppressed"].as_u64() {
        parts.push(format!("and {suppressed} others before without a line"));
    }
    parts.join("; ")
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Reads a time: so long ago, a date, or a time. Returns milliseconds since the epoch.
fn moment(text: &str) -> Result<i64, String> {
    if let Ok(ago) = parse_duration(text) {
        let now = jiff::Timestamp::now().as_millisecond();
        let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
        return Ok(now.saturating_sub(ago));
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Ok(time.as_millisecond());
    }
    let day = text.parse::<jiff::civil::Date>().ok();
    let day = day.and_then(|day| day.to_zoned(jiff::tz::TimeZone::UTC).ok());
    match day {
        Some(day) => Ok(day.timestamp().as_millisecond()),
        None => Err(
            "no time; write how long ago, as in 2h, a date such as 2026-11-30, or a time such as 2026-11-30T08:00:00Z"
                .to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_are_dates_moments_or_so_long_ago() {
        assert_eq!(moment("1970-01-02"), Ok(86_400_000));
        assert_eq!(moment("1970-01-01T00:00:01.5Z"), Ok(1500));
        let now = jiff::Timestamp::now().as_millisecond();
        let hour = now - moment("1h").expect("a time");
        assert!((3_590_000..=3_600_000).contains(&hour), "{hour}");
        assert!(moment("yesterday").is_err());
    }

    #[test]
    fn rows_show_what_has_changed_or_why_not() {
        let line = json!({
            "number": 3, "time": "2026-11-30T02:00:00.123Z", "who": "submitter `ana` at 10.0.0.1:5",
            "token": "5f0c9be1d3a24c77", "what": "pauseJob", "object": "job", "name": "copy", "outcome": "ok",
            "before": { "hold": "none" }, "after": { "hold": "paused" },
        });
        assert_eq!(
            row(&line),
            [
                "2026-11-30 02:00:00",
                "submitter `ana` at 10.0.0.1:5",
                "5f0c9be1d3a24c77",
                "pauseJob job copy",
                "ok",
                "hold: none -> paused"
            ]
        );
        let refused = json!({ "why": "no", "suppressed": 7 });
        assert_eq!(details(&refused), "no; and 7 others before without a line");
        let deleted = json!({ "before": { "digest": "ab" } });
        assert_eq!(details(&deleted), "digest was ab");
        let saved = json!({ "after": { "version": 2, "changed": ["command", "priority"], "reason": null } });
        assert_eq!(details(&saved), "changed: command, priority; version: 2");
    }
}
