//! `brasserie doctor`: checks what a worker on this machine can provide and enforce.

use std::path::PathBuf;

use anyhow::Result;
use brasserie_worker::doctor::{CheckVerdict, Examined, Finding, examine};
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::connection::block_on;
use crate::output::{print, print_json, table};

/// Check this machine as a worker would, and leave nothing behind. Exit code 0: a worker can fulfil its guarantees here; 1: a requirement
/// is missing. Missing optional features are reported too.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The data directory of a worker; the command does not create it.
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
    let what = Examined {
        data_dir: args.data_dir.clone(),
        nvidia_smi: args.nvidia_smi.clone(),
    };
    let found = block_on(examine(&what))?;
    match args.json {
        true => print_json(&as_json(&found))?,
        false => print(&as_text(&found))?,
    }
    Ok(ending(&found))
}

fn ending(found: &[Finding]) -> CommandEnding {
    match found.iter().any(|f| f.verdict == CheckVerdict::Lacking) {
        true => CommandEnding::Failure,
        false => CommandEnding::Success,
    }
}

fn as_text(found: &[Finding]) -> String {
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
    text.push_str(&match lacking {
        0 => "\nA worker can fulfil its guarantees here.\n".to_owned(),
        1 => "\nOne requirement of a worker is missing.\n".to_owned(),
        count => format!("\n{count} requirements of a worker are missing.\n"),
    });
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
        let text = as_text(&found(&[CheckVerdict::Limited, CheckVerdict::Lacking]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "topic   verdict  details");
        let told = r"as \u{1b}[1mit\u{1b}[0m's";
        assert_eq!(lines[1], format!("kernel  limited  {told}"));
        assert_eq!(lines[2], format!("kernel  lacking  {told}"));
        assert_eq!(lines[4], "One requirement of a worker is missing.");
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
