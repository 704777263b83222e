//! Finds the files into which runs wrote their output instead of the log, so that `brasserie logs` can name them.

use std::collections::HashSet;

use anyhow::Result;
use brasserie_common::logs::LogStream;
use serde_json::Value;

use crate::connection::LogRequest;
use crate::data_dir::LogSource;

/// Maximum number of notices. They name the newest files; a page of events may name thousands.
const MAX_NOTICES: usize = 10;

/// Returns notices for the request's job and node, from the newest events. A search with a pattern gets none.
pub(super) async fn notices(source: &LogSource, asked: &LogRequest) -> Result<Vec<String>> {
    let stream = match asked.stream {
        LogStream::Stdout => "stdout",
        LogStream::Stderr => "stderr",
        LogStream::Statuses => return Ok(Vec::new()),
    };
    if asked.job.is_empty() || !asked.regex.is_empty() {
        return Ok(Vec::new());
    }
    let request = LogRequest {
        stream: LogStream::Statuses,
        from: -1,
        ascending: false,
        regex: format!("\"{stream}_file\":"),
        ..asked.clone()
    };
    let page = source.logs(&request).await?;
    let lines = page.lines.unwrap_or_default();
    let events = lines.iter().filter_map(|line| line.line.as_deref());
    let events = events.filter_map(|text| serde_json::from_str(text).ok());
    Ok(sentences(events, stream))
}

/// Returns one sentence for each file. The events come newest first; the sentences go oldest first, like lines.
fn sentences(events: impl Iterator<Item = Value>, stream: &str) -> Vec<String> {
    let mut told = HashSet::new();
    let sentence = |event: Value| {
        let file = event[format!("{stream}_file")].as_str()?.to_owned();
        if !told.insert(file.clone()) {
            return None;
        }
        match event["event"].as_str()? {
            "task_output_written" => Some(event["message"].as_str()?.to_owned()),
            // The task runs, or printed nothing, or its worker died before it completed the file.
            "running" => {
                let host = event["worker_host"].as_str()?;
                Some(format!("{stream}, if any, goes to {file} on {host}"))
            }
            _ => None,
        }
    };
    let mut events = events.filter_map(sentence);
    let mut sentences: Vec<String> = events.by_ref().take(MAX_NOTICES).collect();
    if events.next().is_some() {
        sentences.push(format!(
            "the output of further runs is in files, too; these are the newest {MAX_NOTICES}. `brasserie logs JOB --events` names all files"
        ));
    }
    sentences.reverse();
    sentences
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn running(number: usize) -> Value {
        json!({"event": "running", "worker_host": "h", "stdout_file": format!("/f/{number}"), "stderr_file": "/e"})
    }

    fn written(number: usize) -> Value {
        json!({"event": "task_output_written", "message": format!("{number} is there"), "stdout_file": format!("/f/{number}")})
    }

    #[test]
    fn each_file_has_one_notice_from_its_newest_event() {
        let events = [
            running(2),
            written(1),
            running(1),
            json!({"event": "got_status"}),
            json!(3),
        ];
        let told = sentences(events.into_iter(), "stdout");
        assert_eq!(told, ["1 is there", "stdout, if any, goes to /f/2 on h"]);
        let told = sentences([running(2), written(1)].into_iter(), "stderr");
        assert_eq!(told, ["stderr, if any, goes to /e on h"]);
    }

    #[test]
    fn only_the_newest_runs_have_notices() {
        let told = sentences((0..50).rev().map(written), "stdout");
        assert_eq!(told.len(), MAX_NOTICES + 1);
        assert!(told[0].contains("further runs"), "{}", told[0]);
        assert_eq!(told[1], "40 is there");
        assert_eq!(told[MAX_NOTICES], "49 is there");
    }
}
