//! Reads the config file of a run, checks it as a whole, and adapts it to one machine.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use brasserie_common::BackoffPolicy;
use brasserie_common::backoff::AfterLast;
use brasserie_common::text::counted;
use brasserie_common_config::{
    Config, Format, MAX_CONFIG_BYTES, ParseOptions, PathUse, UnknownKeys, check_bytes, parse_bytes,
};
use brasserie_common_runtime::files;

use crate::commands::config::{NextTimes, fault};
use crate::failure::Failure;
use crate::output::{complain, printable};

/// Limit for the warnings of missing programs.
const MAX_WARNINGS: usize = 20;

/// The ways to end retries that have no end.
pub(super) const ENDS_RETRIES: &str = "`--no-retry` makes the first error of a task final; so do `retries` in the job, or \"fail\" as the last item of its \
     `backoff`, after some retries";

/// Whether a failed task is retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retries {
    AsConfigured,
    /// `--no-retry`.
    None,
}

impl Retries {
    pub(super) fn from_flag(no_retry: bool) -> Self {
        if no_retry {
            Retries::None
        } else {
            Retries::AsConfigured
        }
    }
}

/// A valid config of a run.
pub(super) struct RunConfig {
    pub(super) config: Arc<Config>,
    /// The absolute path of its file.
    pub(super) file: PathBuf,
    /// The text of the file.
    pub(super) text: String,
}

impl RunConfig {
    /// Returns the names of the jobs whose tasks are retried for ever.
    pub(super) fn endless_jobs(&self) -> BTreeSet<String> {
        let jobs = self.config.jobs.iter();
        let endless = jobs.filter(|job| job.backoff.max_tries().is_none());
        endless.map(|job| job.name.to_string()).collect()
    }

    /// Says when its schedules give nodes next, a sentence each.
    pub(super) fn next_times(&self) -> Vec<String> {
        let all = NextTimes::all_of(&self.config);
        all.iter().map(NextTimes::to_text).collect()
    }
}

/// Reads a config file. Errors with every mistake of the file.
pub(super) fn load(file: &Path, unknown_keys: UnknownKeys, retries: Retries) -> Result<RunConfig> {
    let shown = file.display().to_string();
    let file = std::path::absolute(file).with_context(|| format!("cannot find {shown}"))?;
    let bytes = files::read(&file, MAX_CONFIG_BYTES as u64);
    let bytes = bytes.map_err(|error| Failure::unreadable(&error))?;
    let options = ParseOptions {
        format: Format::of_path(&file),
        unknown_keys,
    };
    // A warning about an unknown key may be the cause of errors.
    let checked = check_bytes(&bytes, options, |path, of_use| {
        fault(&file, path, of_use, "put it there, and the run continues")
    });
    for warning in &checked.warnings {
        complain!("warning: {}", warning.display_with(&shown));
    }
    if checked.more_warnings > 0 {
        complain!(
            "warning: {} more warnings are not shown; see `brasserie config check`",
            checked.more_warnings
        );
    }
    let parsed = parse_bytes(&bytes, options).and_then(|parsed| parsed.into_correct());
    let (mut config, _) = parsed.map_err(|errors| Failure::config(&shown, &errors))?;
    if let Some(problem) = nothing_to_run(&config) {
        return Err(Failure::usage(format!("{shown}: {problem}")).into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    for warning in missing_programs(&file, &config, &path) {
        complain!("warning: {shown}: {warning}");
    }
    if let Some(folder) = file.parent() {
        config.resolve_commands(folder);
    }
    if retries == Retries::None {
        make_errors_final(&mut config);
    }
    Ok(RunConfig {
        config: Arc::new(config),
        file,
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Warns of each program that the worker of the run, which is on this machine, cannot start. Relative paths are missing here, because
/// `check_bytes` warns of them. `path` is the variable `PATH`, of which a worker uses the absolute folders.
fn missing_programs(file: &Path, config: &Config, path: &OsStr) -> Vec<String> {
    let folders: Vec<PathBuf> = std::env::split_paths(path)
        .filter(|folder| folder.is_absolute())
        .collect();
    let mut warnings = Vec::new();
    for job in config.jobs.iter().filter(|job| job.can_run()) {
        let Some(program) = job.command.first() else {
            continue;
        };
        let why = match program.contains('/') {
            true if Path::new(program).is_relative() => None,
            true => fault(file, program, PathUse::Program, ""),
            false => {
                let is_in = |folder: &PathBuf| folder.join(program).is_file();
                let is_found = folders.iter().any(is_in);
                (!is_found).then(|| format!("{program:?} is in no folder of PATH"))
            }
        };
        let job = printable(job.name.as_str());
        warnings.extend(why.map(|why| format!("job `{job}` can start no task: {why}")));
    }
    if let Some(more) = warnings.len().checked_sub(MAX_WARNINGS + 1) {
        warnings.truncate(MAX_WARNINGS);
        let more = counted(more as u64 + 1, "more job");
        warnings.push(format!("{more} can start no task"));
    }
    warnings
}

/// Returns an error if no task could run with the config.
fn nothing_to_run(config: &Config) -> Option<&'static str> {
    if !config.enabled {
        return Some("`bistro_settings.enabled` is false, so nothing would run");
    }
    if !config.jobs.iter().any(|job| job.can_run()) {
        return Some("no job is enabled, so nothing would run; a job is a key `bistro_job->NAME`");
    }
    None
}

fn make_errors_final(config: &mut Config) {
    let fail = BackoffPolicy::new(&[], AfterLast::Fail)
        .expect("Invariant: an empty list may end in \"fail\"");
    for job in &mut config.jobs {
        job.backoff = fail.clone();
    }
    config.backoff = fail;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::text_of;

    fn load_text(text: &str, retries: Retries) -> Result<RunConfig> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.json");
        std::fs::write(&file, text).unwrap();
        load(&file, UnknownKeys::Warn, retries)
    }

    fn problems(text: &str) -> String {
        let loaded = load_text(text, Retries::AsConfigured);
        loaded
            .err()
            .map(|error| text_of(&error))
            .unwrap_or_default()
    }

    const NODES: &str = r#""nodes": {"levels": ["l"]}, "resources": {}"#;

    #[test]
    fn warnings_of_missing_programs_end_with_the_number_of_further_jobs() {
        let warned = |jobs: usize| {
            let jobs = (0..jobs)
                .map(|n| format!(r#""bistro_job->j{n}": {{"command": ["no-such-program"]}}"#));
            let jobs: Vec<String> = jobs.collect();
            let text = format!("{{\"bistro_settings\": {{{NODES}}}, {}}}", jobs.join(", "));
            let loaded = load_text(&text, Retries::AsConfigured).unwrap();
            missing_programs(&loaded.file, &loaded.config, OsStr::new("/nowhere"))
        };
        let all = warned(MAX_WARNINGS);
        assert_eq!(all.len(), MAX_WARNINGS);
        assert!(all.iter().all(|one| one.starts_with("job `j")), "{all:?}");
        for (more, last) in [
            (1, "1 more job can start no task"),
            (3, "3 more jobs can start no task"),
        ] {
            let some = warned(MAX_WARNINGS + more);
            assert_eq!(some.len(), MAX_WARNINGS + 1);
            assert_eq!(some.last().map(String::as_str), Some(last));
        }
    }

    #[test]
    fn errors_name_file_line_and_column() {
        let text = problems("{\n  \"bistro_settings\": 3\n}");
        assert!(text.contains("c.json:2:"), "{text}");
    }

    #[test]
    fn the_extension_says_the_format_and_the_flag_how_strict_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("c.toml");
        let text = "[bistro_settings.nodes]\nlevels = []\n[\"bistro_job->j\"]\ncommand = ['x']\nprio = 1\n";
        std::fs::write(&file, text).unwrap();
        let load = |unknown_keys| load(&file, unknown_keys, Retries::AsConfigured);
        assert!(load(UnknownKeys::Warn).is_ok());
        let error = load(UnknownKeys::Refuse).err();
        let text = text_of(&error.expect("the key is unknown"));
        assert!(text.contains("c.toml:5:1: bistro_job->j.prio"), "{text}");
    }

    #[test]
    fn programs_that_this_machine_lacks_are_warned_of() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tool"), "").unwrap();
        let warned = |program: &str| {
            let text = format!(
                r#"{{"bistro_settings": {{{NODES}}}, "bistro_job->j": {{"owner": "o", "command": ["{program}"]}}}}"#
            );
            let parsed = parse_bytes(text.as_bytes(), ParseOptions::default()).unwrap();
            let file = folder.path().join("c.json");
            missing_programs(&file, &parsed.config, folder.path().as_os_str())
        };
        for good in ["tool", "/bin/sh", "./x.sh"] {
            assert_eq!(warned(good), [""; 0], "{good}");
        }
        let begin = "job `j` can start no task: ";
        for (bad, why) in [
            ("/opt/nosuch/tool", "/opt/nosuch/tool does not exist"),
            ("nosuch", "\"nosuch\" is in no folder of PATH"),
        ] {
            assert_eq!(warned(bad), [format!("{begin}{why}")]);
        }
    }

    #[test]
    fn a_config_that_would_do_nothing_is_refused() {
        let text = problems(&format!(r#"{{"bistro_settings": {{{NODES}}}}}"#));
        assert!(text.contains("no job is enabled"), "{text}");
        let text = problems(&format!(
            r#"{{"bistro_settings": {{"enabled": false, {NODES}}}, "bistro_job->j": {{"owner": "o"}}}}"#
        ));
        assert!(
            text.contains("`bistro_settings.enabled` is false"),
            "{text}"
        );
    }

    #[test]
    fn no_retry_makes_the_first_error_final_and_commands_are_found_next_to_the_file() {
        let text = format!(
            r#"{{"bistro_settings": {{{NODES}}}, "bistro_job->j": {{"owner": "o", "backoff": [5, "repeat"], "command": ["./x.sh"]}}}}"#
        );
        let run = load_text(&text, Retries::None).expect("a good config");
        let job = run.config.job("j").unwrap();
        assert!(
            job.backoff
                .next(brasserie_common::BackoffDuration::default())
                .no_more_backoffs
        );
        assert_eq!(
            Path::new(&job.command[0]),
            run.file.parent().unwrap().join("x.sh")
        );
    }
}
