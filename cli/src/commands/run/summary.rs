//! The end of a run: what each job came to, and the last words of what failed.

use std::time::Duration;

use anyhow::Result;
use brasserie_common::logs::LogStream;
use brasserie_thrift::generated::brasserie::{ClusterStatus, JobStatus, UnfinishedTask};

use crate::Ending;
use crate::commands::logs;
use crate::connection::{Connection, LogRequest};
use crate::data_dir::LogSource;
use crate::output::{duration, printable, printable_block, table};

/// Tasks of one job that are shown with their last words: a screenful.
const MAX_SHOWN: i32 = 10;
/// Last lines of standard error of each.
const LAST_LINES: usize = 5;

/// The summary of a run.
pub(super) struct Summary {
    pub(super) text: String,
    pub(super) ending: Ending,
}

/// Describes how the run ended.
pub(super) async fn describe(
    connection: &Connection,
    status: &ClusterStatus,
    elapsed: Duration,
) -> Result<Summary> {
    let jobs: Vec<&JobStatus> = status.jobs.iter().flatten().collect();
    let rows: Vec<Vec<String>> = jobs.iter().map(|job| row(job)).collect();
    let mut text = table(
        &["job", "tasks", "done", "failed", "never ran", "time"],
        &rows,
    );
    let mut is_all_done = true;
    for job in jobs.iter().filter(|job| job.enabled.unwrap_or(false)) {
        if job.done == job.total {
            continue;
        }
        is_all_done = false;
        let name = job.name.as_deref().unwrap_or_default();
        let bad = job.total.unwrap_or(0) - job.done.unwrap_or(0);
        text.push_str(&format!(
            "\n{}: {bad} of {} tasks are not done\n",
            printable(name),
            job.total.unwrap_or(0)
        ));
        for task in connection.unfinished(name, MAX_SHOWN).await? {
            text.push_str(&last_words(connection, &task).await?);
        }
        if bad > i64::from(MAX_SHOWN) {
            text.push_str(&format!("  and {} more\n", bad - i64::from(MAX_SHOWN)));
        }
    }
    let verdict = if is_all_done {
        "all done"
    } else {
        "not everything is done"
    };
    text.push_str(&format!("\n{verdict} in {}\n", duration(elapsed)));
    let ending = match is_all_done {
        true => Ending::Success,
        false => Ending::Failure,
    };
    Ok(Summary { text, ending })
}

fn row(job: &JobStatus) -> Vec<String> {
    let count = |n: Option<i64>| n.unwrap_or(0).to_string();
    let name = job.name.clone().unwrap_or_default();
    let time = job
        .elapsed_ms
        .map(|ms| duration(Duration::from_millis(u64::try_from(ms).unwrap_or(0))));
    vec![
        if job.enabled.unwrap_or(false) {
            name
        } else {
            format!("{name} (disabled)")
        },
        count(job.total),
        count(job.done),
        count(job.failed),
        count(job.infeasible),
        time.unwrap_or_default(),
    ]
}

async fn last_words(connection: &Connection, task: &UnfinishedTask) -> Result<String> {
    let job = task.job.clone().unwrap_or_default();
    let node = task.node.clone().unwrap_or_default();
    let mut text = format!("  {}: {}\n", printable(&node), printable_block(&why(task)));
    let request = LogRequest {
        stream: LogStream::Stderr,
        job,
        node,
        from: -1,
        ascending: false,
        regex: String::new(),
        invocation: None,
    };
    // The summary stands without its logs.
    if let Ok((lines, _)) = logs::collect(
        &LogSource::Scheduler(connection.clone()),
        request,
        LAST_LINES,
    )
    .await
    {
        for line in lines {
            let line = line.line.unwrap_or_default();
            text.push_str(&format!("      | {}\n", line.trim_end_matches('\n')));
        }
    }
    Ok(text)
}

/// How it ended; if it never ran, why.
fn why(task: &UnfinishedTask) -> String {
    let status: Option<serde_json::Value> = task
        .status
        .as_ref()
        .and_then(|text| serde_json::from_str(text).ok());
    let exception = status
        .as_ref()
        .and_then(|s| s["data"]["exception"].as_str());
    match (exception, &task.status) {
        (Some(exception), _) => exception.to_owned(),
        (None, Some(_)) => "failed".to_owned(),
        (None, None) => task.reasons.clone().unwrap_or_default().join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exception_is_the_reason_before_anything_else() {
        let task = UnfinishedTask {
            status: Some(r#"{"result_bits":16,"data":{"exception":"exit code 3"}}"#.to_owned()),
            reasons: Some(vec!["it has failed".to_owned()]),
            ..UnfinishedTask::default()
        };
        assert_eq!(why(&task), "exit code 3");
        let never = UnfinishedTask {
            reasons: Some(vec!["a".to_owned(), "b".to_owned()]),
            ..UnfinishedTask::default()
        };
        assert_eq!(why(&never), "a; b");
    }
}
