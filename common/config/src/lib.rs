//! Parses config text in JSON, TOML or YAML to a typed configuration, and reports all its errors with their places.
//!
//! The crate reads no file and no clock: the caller passes the text and prefixes problems with the file's name.
//!
//! ```
//! use brasserie_common_config::{ParseOptions, parse};
//!
//! let text = r#"{
//!   "bistro_settings": {
//!     "nodes": {
//!       "levels": ["host", "db"],
//!       "node_sources": [
//!         {"source": "manual", "prefs": {"host1": ["db1", "db2"], "host2": "db3"}}
//!       ]
//!     },
//!     "resources": {"host": {"disk": {"default": 1, "limit": 2}}},
//!     "backoff": [15, 60, "repeat"]
//!   },
//!   "bistro_job->dump": {
//!     "owner": "ann",
//!     "command": ["/usr/bin/dump"],
//!     "backoff": [1, "fail"]
//!   },
//!   "bistro_job->check": {
//!     "depends_on": ["dump"],
//!     "command": ["/usr/bin/check"],
//!     "resources": {"disk": "two"}
//!   }
//! }"#;
//! let parsed = parse(text, ParseOptions::default())?;
//! assert_eq!(parsed.config.levels, ["instance", "host", "db", "worker"]);
//! assert!(parsed.config.job("dump").is_some_and(|job| job.can_run()));
//! // One job's mistake disables that job only.
//! let problem = &parsed.job_problems()[0];
//! assert_eq!(
//!     problem.display_with("sample.json").to_string(),
//!     "sample.json:20:27: bistro_job->check.resources.disk: expected an integer, found \"two\"; \
//!      an integer from 0 to 2147483647",
//! );
//! # Ok::<(), brasserie_common_config::ConfigErrors>(())
//! ```
//!
//! # Differences from Bistro
//!
//! * `enabled` of the settings is true by default, as Bistro's documentation says.
//! * `owner` may be omitted (empty), and so may `resources` of the settings (none).
//! * Documented names that Bistro's code does not know are aliases: `kill_request` for `kill_subprocess`,
//!   `worker_resources_overrides`, and `node_order` beside `nodes`.
//! * If no resource is declared at level `worker`, one is implied: `slots` (`worker_slots` if that name is taken), with a slot for each
//!   core of the worker.
//! * Items of an `add_time` schedule may name a `time_zone`; times are those of the zone data that is compiled in.
//! * Two nodes of one level with the same name are an error, unless their source has `"names": "shared"`, which makes them replicas. With
//!   `"names": "path"`, the source's names begin with those of the parents.
//! * `disabled: false` of a `manual` node leaves it enabled; cycles are errors. A `script` has a `timeout`.
//! * A `backoff` may list a wait several times; jobs may bound it by `retries` and `retry_delay`. Seconds may have a unit.
//! * Jobs may set `env`, `cwd`, `max_running`, `status_from` (`auto`, `pipe`, `exit_code`) and `arguments` (`append`, `none`).
//! * Jobs may have `outputs`, which are kept for as long as `keep` says, and `inputs` from other jobs, for which they wait.
//! * Errors instead of silence: keys that occur twice, levels called `instance` or `worker`, resource names used at two levels,
//!   negative amounts, regular expressions that cannot be compiled or mean something else in Perl, `fraction_of_nodes` above 1,
//!   cycles of `depends_on`, a job without `command` that has a misspelt one. Unknown keys are warnings, or errors with
//!   [`UnknownKeys::Refuse`].
//! * Warnings instead of silence: each key without effect, whatever its value, and a `level_for_host_placement` at which tasks have no
//!   node, so that they run on any host.
//! * The same document may be TOML or YAML: [`Format`].

#![deny(clippy::iter_over_hash_type)]

mod add_time;
mod artifacts;
mod cards;
mod children;
mod coerce;
mod cron;
mod depends;
mod diff;
mod export;
mod filters;
mod format;
mod input_checks;
mod inputs;
mod jobs;
mod json;
mod keys;
mod known_nodes;
mod levels;
mod limits;
mod lines;
mod manual;
mod model;
mod nodes;
mod numbers;
mod outputs;
mod problem;
mod read;
mod resources;
mod schema;
mod settings;
mod shared;
mod subprocess;
mod toml;
mod tree;
mod waits;
mod yaml;

pub use artifacts::{
    InputNodes, InputPath, InputSource, JobInput, JobOutput, KeepOutputs, MAX_INPUTS, MAX_OUTPUTS,
    MAX_TASK_ARTIFACTS, Replicas,
};
pub use cards::CardProblem;
pub use cron::{
    Cron, Days, DueTime, DueTimes, GivenUp, ItemKey, ItemMemory, MAX_TIMES, NextTime, Repeated,
    ScheduleChanges, ScheduleMemory, Selector, Since, Skipped, StandardCron, Stretch, TooManyTimes,
    Zone,
};
pub use diff::{Changes, KeyChange};
pub use export::export_job;
pub use format::{Format, MAX_CONFIG_BYTES, MAX_DEPTH, MAX_MARKUP_BYTES, MAX_VALUES};
pub use keys::KeyRow;
pub use manual::MAX_MANUAL_NODES;
pub use model::*;
pub use nodes::MAX_RANGE_NODES;
pub use problem::{ConfigErrors, Problem, nearest};
pub use read::{MAX_PROBLEMS, UnknownKeys};
pub use resources::{CARD_PREFIX, MAX_RESOURCES};
pub use schema::{config_schema, key_paths, key_rows};
pub use settings::MAX_LEVELS;
pub use shared::Shared;
pub use tree::Place;

use brasserie_common::JobName;

use crate::format::{TextReading, empty};
use crate::jobs::{Draft, JOB_PREFIX};
use crate::read::{At, Notes, Problems, suggest};
use crate::tree::{Node, quote};

const SETTINGS: &str = "bistro_settings";

/// Options of a parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParseOptions {
    pub format: Format,
    pub unknown_keys: UnknownKeys,
}

/// A usable configuration, with the warnings about its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    pub config: Config,
    /// Warnings in file order. At most [`MAX_PROBLEMS`], then one that says how many are omitted.
    pub warnings: Vec<Problem>,
    job_problems: Vec<Problem>,
}

impl Parsed {
    /// Returns the problems that disable single jobs, in file order: at most [`MAX_PROBLEMS`], then one that says how many are omitted.
    /// Each is also in its job's [`JobConfig::errors`].
    pub fn job_problems(&self) -> &[Problem] {
        &self.job_problems
    }

    /// Returns the configuration if neither settings nor jobs have errors.
    pub fn into_correct(self) -> Result<(Config, Vec<Problem>), ConfigErrors> {
        match self.job_problems.is_empty() {
            true => Ok((self.config, self.warnings)),
            false => Err(ConfigErrors(self.job_problems)),
        }
    }
}

/// Parses a whole configuration. Fails if the settings or the text itself have errors. The problems of jobs are then among the errors, so
/// that one reading shows everything.
pub fn parse(text: &str, options: ParseOptions) -> Result<Parsed, ConfigErrors> {
    let outcome = outcome(text, options);
    let errors = outcome.errors.bounded().counted();
    match outcome.usable {
        Some(config) => Ok(Parsed {
            config,
            warnings: outcome.warnings.bounded().counted(),
            job_problems: errors,
        }),
        None => Err(ConfigErrors(errors)),
    }
}

/// Parses a file as [`parse`] does. Invalid UTF-8 is an error at its place.
pub fn parse_bytes(bytes: &[u8], options: ParseOptions) -> Result<Parsed, ConfigErrors> {
    parse(text_of(bytes)?, options)
}

fn text_of(bytes: &[u8]) -> Result<&str, ConfigErrors> {
    std::str::from_utf8(bytes).map_err(|error| {
        let good = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let place = tree::Place::after(&good);
        let text = "the file is not UTF-8 from here on".to_owned();
        ConfigErrors(vec![Problem::new(place, String::new(), text)])
    })
}

/// All errors and warnings of a file, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Errors of the settings and of jobs. At most [`MAX_PROBLEMS`].
    pub errors: Vec<Problem>,
    /// The first [`MAX_PROBLEMS`] warnings.
    pub warnings: Vec<Problem>,
    /// Number of errors that `errors` omits.
    pub more_errors: usize,
    /// Number of warnings that `warnings` omits.
    pub more_warnings: usize,
}

/// The use of a path that a configuration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUse {
    /// A program of tasks or of a `script` node source.
    Program,
    /// The working directory of tasks.
    WorkingDirectory,
    /// A file or folder that is an input of tasks.
    InputFile,
}

/// Checks a file for everything wrong or questionable, whether or not it can be used. `fault` returns why the path, which is absolute or
/// relative to the file's folder, cannot be used in this way; `None` if it can.
pub fn check_bytes(
    bytes: &[u8],
    options: ParseOptions,
    fault: impl Fn(&str, PathUse) -> Option<String>,
) -> Findings {
    match text_of(bytes) {
        Ok(text) => {
            let mut outcome = outcome(text, options);
            outcome.warnings.shown.extend(outcome.only_checked);
            let paths = outcome.paths.into_iter();
            let faulty = paths.filter_map(|(path, of_use, problem)| {
                let message = format!("{}: {}", problem.message, fault(&path, of_use)?);
                Some(Problem { message, ..problem })
            });
            outcome.warnings.shown.extend(faulty);
            let errors = outcome.errors.bounded();
            let warnings = outcome.warnings.bounded();
            Findings {
                errors: errors.shown,
                warnings: warnings.shown,
                more_errors: errors.more,
                more_warnings: warnings.more,
            }
        }
        Err(ConfigErrors(errors)) => Findings {
            errors,
            ..Findings::default()
        },
    }
}

/// One job that does not come from the configuration's file.
#[derive(Clone, Debug, PartialEq)]
pub struct ParsedJob {
    pub job: JobConfig,
    pub warnings: Vec<Problem>,
    /// Each is also in [`JobConfig::errors`].
    pub problems: Vec<Problem>,
}

/// Parses one job, such as the result of [`export_job`], against a configuration's settings. Does not check its dependencies, which
/// requires all jobs together.
pub fn parse_job(
    name: &JobName,
    text: &str,
    config: &Config,
    options: ParseOptions,
) -> Result<ParsedJob, ConfigErrors> {
    let reading = read_text(text, options.format);
    let Some(tree) = reading.node.filter(|_| reading.problems.is_empty()) else {
        return Err(ConfigErrors(reading.problems));
    };
    let at = At::root(&tree);
    let mut notes = Notes::default();
    let name = jobs::job_name(&at, name.as_str(), &mut notes);
    let Some(name) = name else {
        return Err(ConfigErrors(notes.errors));
    };
    let mut draft = jobs::parse(&at, name, config, options.unknown_keys);
    jobs::refuse_relative_paths(&at, &mut draft);
    let (job, problems, warnings) = finish_job(draft);
    Ok(ParsedJob {
        job,
        warnings: warnings.counted(),
        problems: problems.counted(),
    })
}

/// Reads a text in a format.
fn read_text(text: &str, format: Format) -> TextReading {
    if text.len() > format.max_bytes() {
        let text = format!(
            "the file has {} bytes; at most {} are allowed",
            text.len(),
            format.max_bytes()
        );
        return TextReading::failed(Problem::new(Place::START, String::new(), text));
    }
    // A byte order mark at the start is no content.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text
        .bytes()
        .all(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'))
    {
        return TextReading::failed(empty(Place::after(text), format));
    }
    match format {
        Format::Json => json::read(text),
        Format::Toml => toml::read(text),
        Format::Yaml => yaml::read(text),
    }
}

/// Returns the tree of a text, or its violations. For tests.
#[cfg(test)]
fn read_whole(text: &str, format: Format) -> Result<Node, Vec<String>> {
    let reading = read_text(text, format);
    let problems: Vec<String> = reading.problems.iter().map(Problem::to_string).collect();
    match reading.node {
        Some(node) if problems.is_empty() => Ok(node),
        _ => Err(problems),
    }
}

/// The result of parsing a text.
struct ParseOutcome {
    /// `None` if some errors make the configuration unusable.
    usable: Option<Config>,
    errors: Problems,
    warnings: Problems,
    /// Warnings that only `config check` prints: workers may have a default command for a job without one, and `status` says which tasks
    /// can never run.
    only_checked: Vec<Problem>,
    /// The paths to check, each with the warning for the case that it cannot be used.
    paths: Vec<(String, PathUse, Problem)>,
}

fn outcome(text: &str, options: ParseOptions) -> ParseOutcome {
    let reading = read_text(text, options.format);
    let mut outcome = match reading.node {
        Some(tree) if nodes_are_known(&tree) => {
            let mut outcome = tree_outcome(&tree, options);
            // A file with mistakes in its form may have jobs that were not read.
            if reading.problems.is_empty() {
                outcome.only_checked.extend(no_jobs(&At::root(&tree)));
            }
            outcome
        }
        _ => ParseOutcome {
            usable: None,
            errors: Problems::default(),
            warnings: Problems::default(),
            only_checked: Vec::new(),
            paths: Vec::new(),
        },
    };
    if !reading.problems.is_empty() {
        outcome.usable = None;
        outcome.errors.shown.extend(reading.problems);
    }
    outcome
}

/// Returns whether levels and nodes could be read. Nearly everything else refers to them.
fn nodes_are_known(tree: &Node) -> bool {
    let root = At::root(tree);
    let settings = root.get(SETTINGS);
    let nodes = settings.as_ref().and_then(|settings| settings.get("nodes"));
    let unread = |at: &At| at.node.value == tree::Value::Unread;
    !unread(&root)
        && !settings.as_ref().is_some_and(unread)
        && !nodes.is_some_and(|at| at.node.has_unread())
}

fn tree_outcome(tree: &Node, options: ParseOptions) -> ParseOutcome {
    let root = At::root(tree);
    let mut notes = Notes::new(options.unknown_keys);
    let mut config = if root.expect_object(&mut notes) {
        top_level_keys(&root, &mut notes);
        let help = "an object with the settings, as in {\"bistro_settings\": {\"nodes\": {...}}}";
        match root.required(SETTINGS, help, &mut notes) {
            Some(at) => settings::parse(&at, &mut notes),
            None => settings::defaults(),
        }
    } else {
        settings::defaults()
    };
    let mut nameless = Notes::default();
    let mut drafts: Vec<Draft> = Vec::new();
    let (mut only_checked, mut paths) = (Vec::new(), nodes::scripts(&root));
    for at in root.entries() {
        if let Some(name) = at.key().strip_prefix(JOB_PREFIX)
            && let Some(name) = jobs::job_name(&at, name, &mut nameless)
        {
            let draft = jobs::parse(&at, name, &config, options.unknown_keys);
            only_checked.extend(jobs::no_command(&at, &draft));
            only_checked.extend(jobs::whole_command_line(&at, &draft));
            only_checked.extend(jobs::above_limit(&at, &draft, &config));
            paths.extend(jobs::program_of_file(&at, &draft));
            paths.extend(jobs::named_directory(&at, &draft));
            paths.extend(inputs::input_files(&at));
            drafts.push(draft);
        }
    }
    only_checked.extend(input_checks::questionable(&root, &drafts, &config.levels));
    only_checked.extend(input_checks::too_many(&drafts, &config));
    input_checks::check(&mut drafts, &config.levels);
    depends::check(&mut drafts, &config.levels);
    let has_refused_key = drafts.iter().any(|draft| draft.notes.has_refused_key());
    let (mut errors, mut warnings) = notes.finish();
    let is_usable = errors.is_empty() && !has_refused_key;
    errors.add(nameless.finish().0);
    for draft in drafts {
        let (job, problems, more_warnings) = finish_job(draft);
        config.jobs.push(job.into());
        errors.add(problems);
        warnings.add(more_warnings);
    }
    ParseOutcome {
        usable: is_usable.then_some(config),
        errors,
        warnings,
        only_checked,
        paths,
    }
}

/// Checks the keys beside the settings and the jobs: each is a comment, or a mistake that would lose a job.
fn top_level_keys(root: &At, notes: &mut Notes) {
    let duplicates = root.as_object().map_or(&[][..], |o| &o.duplicates);
    for duplicate in duplicates {
        let first = duplicate.first;
        let text = "the key occurs twice".to_owned();
        let problem = Problem::new(duplicate.place, read::show_key(&duplicate.key), text)
            .help(format!("the first is at {}:{}", first.line, first.column));
        match duplicate.key == SETTINGS || duplicate.key.starts_with(JOB_PREFIX) {
            true => notes.error(problem),
            false => notes.unknown_key(problem),
        }
    }
    for entry in root.entries() {
        let key = entry.key();
        if key == SETTINGS || key.starts_with(JOB_PREFIX) {
            continue;
        }
        let (text, help) = match jobs::meant_name(key) {
            Some(name) => (
                "unknown key, so it makes no job",
                format!("did you mean {}?", quote(&format!("{JOB_PREFIX}{name}"))),
            ),
            None => ("unknown key", suggest(key, [SETTINGS, "bistro_job->NAME"])),
        };
        let problem = entry.key_problem(text).value(quote(key));
        notes.unknown_key(problem.help(help));
    }
}

/// Returns the warning for a file with settings and without jobs. Jobs may still be submitted to a scheduler.
fn no_jobs(root: &At) -> Option<Problem> {
    let settings = root.get(SETTINGS)?;
    let mut keys = root.entries();
    let has_job = keys.any(|entry| entry.key().starts_with(JOB_PREFIX));
    let problem = settings.key_problem("the file has settings and no job, so nothing runs by it");
    (!has_job).then(|| problem.help("a job is a key `bistro_job->NAME`"))
}

/// Stores a job's errors in the job. Errors from an export stay unchanged: wrapping them at each reading would let them grow.
fn finish_job(draft: Draft) -> (JobConfig, Problems, Problems) {
    let Draft {
        mut job,
        notes,
        key_path,
        mentions: _,
        needed_outputs: _,
        outputs_read: _,
        old_errors,
    } = draft;
    let (mut problems, warnings) = notes.finish();
    let found = problems.clone().counted();
    let found: Vec<String> = found.iter().map(Problem::to_string).collect();
    if let Some((place, old)) = old_errors {
        let path = match key_path.is_empty() {
            true => "errors".to_owned(),
            false => format!("{key_path}.errors"),
        };
        let text = "the job was exported with errors".to_owned();
        problems.shown.push(
            Problem::new(place, path, text)
                .value(tree::shorten(&old.join("; ")))
                .help("mend what they name, then remove this key"),
        );
        problems.shown.sort_by_key(Problem::place);
        job.errors = old;
    }
    job.errors.extend(found);
    (job, problems, warnings)
}

#[cfg(test)]
mod tests;
