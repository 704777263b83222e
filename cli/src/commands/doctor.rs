//! `brasserie doctor`: checks what a worker on this machine can provide and enforce, or the data directory of a scheduler.

mod scheduler;

use std::path::PathBuf;

use anyhow::Result;
use brasserie_common_runtime::Clock;
use brasserie_worker::doctor::{CheckVerdict, Examined, Finding, examine};
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::connection::block_on;
use crate::output::{print, print_json, table};

/// Check this machine as a worker would, or the data directory of a scheduler, and leave nothing behind.
///
/// Exit code 0: a worker can fulfil its guarantees here, or a scheduler can use its directory; 1: a requirement is missing. Missing optional
/// features are reported too, and so are an authority and a token in `identity/admin.token` that soon expire.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The data directory of a worker or of a scheduler; the command does not create it. That of a scheduler is checked alone.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The program `nvidia-smi`, as in the worker's flag.
    #[arg(long, value_name = "PATH")]
    nvidia_smi: Option<PathBuf>,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<CommandEnding> {
    let directory = args.data_dir.as_deref();
    let (subject, found) = match directory.filter(|path| scheduler::is_its_directory(path)) {
        Some(path) => (Subject::Scheduler, scheduler::examine(path, Clock.wall())),
        None => {
            let what = Examined {
                data_dir: args.data_dir.clone(),
                nvidia_smi: args.nvidia_smi.clone(),
            };
            (Subject::Worker, block_on(examine(&what))?)
        }
    };
    match args.json {
        true => print_json(&as_json(&found))?,
        false => print(&as_text(subject, &found))?,
    }
    Ok(ending(&found))
}

/// The program for which the checks are.
#[derive(Clone, Copy)]
enum Subject {
    /// It may work on this machine.
    Worker,
    /// It has used the data directory.
    Scheduler,
}

impl Subject {
    /// Returns the last line of the output.
    fn conclusion(self, lacking: usize) -> String {
        match (self, lacking) {
            (Subject::Worker, 0) => "A worker can fulfil its guarantees here.".to_owned(),
            (Subject::Scheduler, 0) => "The scheduler can use its data directory.".to_owned(),
            (Subject::Worker, 1) => "One requirement of a worker is missing.".to_owned(),
            (Subject::Scheduler, 1) => "One requirement of the scheduler is missing.".to_owned(),
            (Subject::Worker, count) => format!("{count} requirements of a worker are missing."),
            (Subject::Scheduler, count) => {
                format!("{count} requirements of the scheduler are missing.")
            }
        }
    }
}

fn ending(found: &[Finding]) -> CommandEnding {
    match found.iter().any(|f| f.verdict == CheckVerdict::Lacking) {
        true => CommandEnding::Failure,
        false => CommandEnding::Success,
    }
}

fn as_text(subject: Subject, found: &[Finding]) -> String {
    let rows: Vec<Vec<String>> = found
        .iter()
        .map(|finding| {
            let (topic, verdict) = (finding.topic, finding.verdict.as_str());
            vec![topic.to_owned(), verdict.to_owned(), finding.text.clone()]
        })
        .collect();
    let mut text = table(&["topic", "verdict", "details"], &rows);
    let lacking = found
        .iter()
        .filter(|f| f.verdict == CheckVerdict::Lacking)
        .count();
    text.push_str(&format!("\n{}\n", subject.conclusion(lacking)));
    text
}

fn as_json(found: &[Finding]) -> Value {
    let findings: Vec<Value> = found
        .iter()
        .map(|f| json!({ "topic": f.topic, "verdict": f.verdict.as_str(), "text": f.text }))
        .collect();
    let lacking = found.iter().any(|f| f.verdict == CheckVerdict::Lacking);
    json!({ "fine": !lacking, "findings": findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(verdicts: &[CheckVerdict]) -> Vec<Finding> {
        let finding = |&verdict| Finding {
            topic: "kernel",
            verdict,
            text: "as \u{1b}[1mit\u{1b}[0m's".to_owned(),
        };
        verdicts.iter().map(finding).collect()
    }

    #[test]
    fn only_missing_requirements_are_failures() {
        let good = found(&[CheckVerdict::Fine, CheckVerdict::Limited]);
        assert_eq!(ending(&good), CommandEnding::Success);
        let bad = found(&[CheckVerdict::Fine, CheckVerdict::Lacking]);
        assert_eq!(ending(&bad), CommandEnding::Failure);
        assert_eq!(as_json(&good)["fine"], true);
        let document = as_json(&bad);
        assert_eq!(document["fine"], false);
        assert_eq!(document["findings"][1]["verdict"], "lacking");
    }

    #[test]
    fn the_table_has_a_line_for_each_finding_and_moves_no_cursor() {
        let found = found(&[CheckVerdict::Limited, CheckVerdict::Lacking]);
        let text = as_text(Subject::Worker, &found);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "topic   verdict  details");
        let told = r"as \u{1b}[1mit\u{1b}[0m's";
        assert_eq!(lines[1], format!("kernel  limited  {told}"));
        assert_eq!(lines[2], format!("kernel  lacking  {told}"));
        assert_eq!(lines[4], "One requirement of a worker is missing.");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
