//! Tests of whole files: their meaning, their errors, and that an export loses nothing.

mod add_time;
mod cards;
mod differences;
mod errors;
mod formats;
mod input_checks;
mod inputs;
mod limits;
mod no_effect;
mod original;
mod outputs;
mod properties;
mod sample;
mod values;

use super::*;

/// A file with these settings (beside levels `host` and `db`) and these further top-level entries.
fn file(settings: &str, rest: &str) -> String {
    format!(
        "{{\"bistro_settings\": {{\"nodes\": {{\"levels\": [\"host\", \"db\"], \"node_sources\": [{{\"source\": \"empty\"}}]}},\n{settings}}},\n{rest}}}"
    )
    .replace(",\n}", "\n}")
}

fn good(settings: &str, rest: &str) -> Parsed {
    match parse(&file(settings, rest), ParseOptions::default()) {
        Ok(parsed) => parsed,
        Err(errors) => panic!("{errors}"),
    }
}

fn config(settings: &str) -> Config {
    good(settings, "").config
}

fn job(body: &str) -> JobConfig {
    let resources = r#""resources": {"host": {"disk": {"default": 2, "limit": 9}}}"#;
    let parsed = good(resources, &format!("\"bistro_job->x\": {{{body}}}"));
    assert_eq!(parsed.job_problems(), [], "{body}");
    JobConfig::clone(&parsed.config.jobs[0])
}

fn lines(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(Problem::to_string).collect()
}

/// Checks a file on a machine whose programs and directories are as `fault` says.
fn checked_with(text: &[u8], fault: impl Fn(&str, PathUse) -> Option<String>) -> Findings {
    check_bytes(text, ParseOptions::default(), fault)
}

fn checked(text: &[u8]) -> Findings {
    checked_with(text, |_, _| None)
}
