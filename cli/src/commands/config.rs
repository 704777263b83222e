//! `brasserie config`: checks and exports config files without running anything.

use std::fs;
use std::io::ErrorKind;
use std::iter::successors;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use brasserie_common::cluster_view::MAX_SCHEDULES;
use brasserie_common_config::{
    Config, Findings, Format, MAX_CONFIG_BYTES, NodeSource, ParseOptions, PathUse, Problem,
    UnknownKeys, check_bytes, config_schema, export_job, parse_bytes, resolve_in_folder,
};
use brasserie_common_runtime::{Clock, files};
use brasserie_scheduler::input_fault;
use brasserie_scheduler::sources::system_zone;
use serde_json::{Map, Value, json};

use crate::CommandEnding;
use crate::failure::{Failure, path_remedy};
use crate::output::{print, print_json};

/// Check and export config files: JSON, or TOML (.toml) or YAML (.yaml, .yml).
#[derive(Debug, clap::Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ConfigCommand {
    /// Report every problem of config files, one a line. Exit code 0: no errors, possibly warnings; 2: errors.
    Check(CheckArgs),
    /// Print the JSON Schema of config files, for editors.
    Schema,
    /// Print the jobs of a config file as one JSON object, with all inherited values. Together with the same settings it defines the same
    /// jobs; a job with errors has them under `errors`.
    Export(ExportArgs),
}

#[derive(Debug, clap::Args)]
struct CheckArgs {
    /// The config files.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Report unknown keys as errors, also inside a job.
    #[arg(long)]
    strict_config: bool,
    /// Print one JSON document instead of lines.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// The config file.
    file: PathBuf,
    /// Export only this job; may be given several times.
    #[arg(long, value_name = "NAME")]
    job: Vec<String>,
}

pub(crate) fn run(args: &ConfigArgs) -> Result<CommandEnding> {
    match &args.command {
        ConfigCommand::Check(args) => check(args),
        ConfigCommand::Schema => {
            print_json(&config_schema())?;
            Ok(CommandEnding::Success)
        }
        ConfigCommand::Export(args) => export(args),
    }
}

/// Number of times of a schedule that `check` shows.
const SHOWN_TIMES: usize = 3;

/// The remedy for a missing file of inputs.
const UPLOAD: &str = "put it there, or upload it with `brasserie artifact put`";

/// Limit for the jobs that the error about an unknown job lists.
const MAX_NAMED: usize = 5;

/// A checked file and its findings.
struct Checked {
    file: String,
    /// The reason why the file could not be read, with a remedy.
    unreadable: Option<String>,
    findings: Findings,
    /// The next times of its schedules; empty if the file has errors.
    schedules: Vec<NextTimes>,
}

/// The next times of one `add_time` node source.
pub(crate) struct NextTimes {
    /// Number of the source in `node_sources`, from 1.
    source: usize,
    /// The level of its nodes.
    level: String,
    /// Number of times for which tasks may start now.
    now: usize,
    /// The next times, at most [`SHOWN_TIMES`]. If there are fewer, the schedule ends with the last one.
    next: Vec<String>,
    /// Whether the scheduler's time zone decides, which may differ from this machine's.
    zone_is_a_guess: bool,
}

impl NextTimes {
    pub(crate) fn all_of(config: &Config) -> Vec<NextTimes> {
        let (now, zone) = (Clock.wall(), system_zone().zone);
        let sources = (1..).zip(&config.node_sources);
        let timed = sources.filter_map(|(source, of)| match of {
            NodeSource::AddTime(add_time) => Some((source, add_time)),
            NodeSource::Empty
            | NodeSource::Manual(_)
            | NodeSource::RangeLabel(_)
            | NodeSource::Script(_) => None,
        });
        let timed = timed.map(|(source, of)| {
            let first = of.first_after(now, &zone);
            let times = successors(first, |last| of.first_after(last.at, &zone));
            NextTimes {
                source,
                level: config.levels[of.level().index()].clone(),
                // A source with too many times has a separate error.
                now: of.due(now, &zone).map_or(0, |due| {
                    due.times.iter().filter(|time| time.enabled).count()
                }),
                next: times
                    .take(SHOWN_TIMES)
                    .map(|time| time.to_string())
                    .collect(),
                zone_is_a_guess: of.uses_default_zone(),
            }
        });
        timed.take(MAX_SCHEDULES).collect()
    }

    pub(crate) fn to_text(&self) -> String {
        let zone = match self.zone_is_a_guess {
            true => ", if the scheduler's time zone is that of this machine",
            false => "",
        };
        let next = match self.next.is_empty() {
            true => "never again".to_owned(),
            false => format!("next on {}", self.next.join(", ")),
        };
        let NextTimes {
            source, level, now, ..
        } = self;
        let now = match now {
            0 => String::new(),
            1 => "for 1 time now, and ".to_owned(),
            _ => format!("for {now} times now, and "),
        };
        format!("node source {source} gives nodes of level `{level}` {now}{next}{zone}")
    }

    fn to_json(&self) -> Value {
        json!({
            "source": self.source,
            "level": self.level,
            "now": self.now,
            "next": self.next,
            "zone_is_a_guess": self.zone_is_a_guess,
        })
    }
}

impl Checked {
    fn of(file: &Path, unknown_keys: UnknownKeys) -> Checked {
        let options = ParseOptions {
            format: Format::of_path(file),
            unknown_keys,
        };
        let (unreadable, findings, schedules) = match files::read(file, MAX_CONFIG_BYTES as u64) {
            Ok(bytes) => {
                let findings = check_bytes(&bytes, options, |path, of_use| {
                    fault(file, path, of_use, UPLOAD)
                });
                let is_good = findings.errors.is_empty();
                let parsed = is_good.then(|| parse_bytes(&bytes, options).ok());
                let schedules = parsed.flatten().map(|it| NextTimes::all_of(&it.config));
                (None, findings, schedules.unwrap_or_default())
            }
            Err(error) => (
                Some(format!("{error}. {}", path_remedy())),
                Findings::default(),
                Vec::new(),
            ),
        };
        Checked {
            file: file.display().to_string(),
            unreadable,
            findings,
            schedules,
        }
    }

    fn warnings(&self) -> usize {
        self.findings.warnings.len() + self.findings.more_warnings
    }

    fn is_good(&self) -> bool {
        self.unreadable.is_none() && self.findings.errors.is_empty()
    }

    /// Formats errors and warnings in the order of their places in the file.
    fn to_text(&self) -> String {
        let mut lines: Vec<(brasserie_common_config::Place, String)> = Vec::new();
        for error in &self.findings.errors {
            let line = format!("{}\n", error.display_with(&self.file));
            lines.push((error.place(), line));
        }
        for warning in &self.findings.warnings {
            let line = format!("warning: {}\n", warning.display_with(&self.file));
            lines.push((warning.place(), line));
        }
        lines.sort_by_key(|(place, _)| *place);
        let unreadable = self.unreadable.iter().map(|why| format!("{why}\n"));
        let more = [
            (self.findings.more_errors, "errors"),
            (self.findings.more_warnings, "warnings"),
        ];
        let more = more.into_iter().filter(|(count, _)| *count > 0);
        let more = more.map(|(count, what)| {
            let file = &self.file;
            format!(
                "{file}: {count} more {what} are not shown; correct the first ones and check again\n"
            )
        });
        let file = &self.file;
        let schedules = self.schedules.iter();
        let schedules = schedules.map(|times| format!("{file}: {}\n", times.to_text()));
        unreadable
            .chain(lines.into_iter().map(|(_, line)| line))
            .chain(more)
            .chain(schedules)
            .collect()
    }

    fn to_json(&self) -> Value {
        let all = |problems: &[Problem]| -> Vec<Value> { problems.iter().map(problem).collect() };
        json!({
            "file": self.file,
            "good": self.is_good(),
            "unreadable": self.unreadable,
            "errors": all(&self.findings.errors),
            "warnings": all(&self.findings.warnings),
            "more_errors": self.findings.more_errors,
            "more_warnings": self.findings.more_warnings,
            "schedules": self.schedules.iter().map(NextTimes::to_json).collect::<Vec<_>>(),
        })
    }
}

/// Returns why this machine cannot use the path in this way; `None` if it can. Relative paths resolve against the folder of the config
/// file. `remedy` is that for a file of inputs that does not exist.
pub(crate) fn fault(file: &Path, path: &str, of_use: PathUse, remedy: &str) -> Option<String> {
    let file = std::path::absolute(file).ok()?;
    let name = path;
    let path = resolve_in_folder(file.parent()?, name);
    let shown = path.display();
    match (fs::metadata(&path), of_use) {
        (Ok(about), PathUse::WorkingDirectory) => {
            (!about.is_dir()).then(|| format!("{shown} is not a directory"))
        }
        (Ok(_), PathUse::InputFile) => {
            let fault = input_fault(file.parent()?, name);
            fault.map(|fault| format!("it cannot be an input: {fault}"))
        }
        (Ok(about), PathUse::Program) if !about.is_file() => Some(format!("{shown} is not a file")),
        (Ok(about), PathUse::Program) => {
            (about.permissions().mode() & 0o111 == 0).then(|| format!("{shown} is not executable"))
        }
        (Err(error), PathUse::InputFile) if error.kind() == ErrorKind::NotFound => {
            Some(format!("{shown} does not exist; {remedy}"))
        }
        (Err(error), _) if error.kind() == ErrorKind::NotFound => {
            Some(format!("{shown} does not exist"))
        }
        (Err(error), _) => Some(format!("{shown}: {error}")),
    }
}

fn problem(problem: &Problem) -> Value {
    json!({
        "line": problem.line,
        "column": problem.column,
        "key_path": problem.key_path,
        "message": problem.message,
        "value": problem.value,
        "help": problem.help,
    })
}

fn check(args: &CheckArgs) -> Result<CommandEnding> {
    let unknown_keys = UnknownKeys::from_strict_flag(args.strict_config);
    let checked: Vec<Checked> = args
        .files
        .iter()
        .map(|file| Checked::of(file, unknown_keys))
        .collect();
    let good = checked.iter().all(Checked::is_good);
    if args.json {
        let files: Vec<Value> = checked.iter().map(Checked::to_json).collect();
        print_json(&json!({"good": good, "files": files}))?;
    } else {
        let mut text: String = checked.iter().map(Checked::to_text).collect();
        if good {
            let subject = match checked.len() {
                1 => "the config is",
                _ => "the configs are",
            };
            let warnings: usize = checked.iter().map(Checked::warnings).sum();
            text.push_str(&match warnings {
                0 => format!("{subject} good\n"),
                1 => format!("{subject} usable, with 1 warning\n"),
                _ => format!("{subject} usable, with {warnings} warnings\n"),
            });
        }
        print(&text)?;
    }
    match good {
        true => Ok(CommandEnding::Success),
        false => Ok(CommandEnding::Usage),
    }
}

fn export(args: &ExportArgs) -> Result<CommandEnding> {
    let shown = args.file.display().to_string();
    let options = ParseOptions {
        format: Format::of_path(&args.file),
        unknown_keys: UnknownKeys::Warn,
    };
    let bytes = files::read(&args.file, MAX_CONFIG_BYTES as u64);
    let bytes = bytes.map_err(|error| Failure::unreadable(&error))?;
    let parsed = parse_bytes(&bytes, options);
    let parsed = parsed.map_err(|errors| Failure::config(&shown, &errors))?;
    if let Some(unknown) = args
        .job
        .iter()
        .find(|name| parsed.config.job(name).is_none())
    {
        let names = parsed
            .config
            .jobs
            .iter()
            .take(MAX_NAMED)
            .map(|job| job.name.as_str());
        let names = names.collect::<Vec<_>>().join(", ");
        let failure = Failure::new(format!("{shown} has no job `{unknown}`"));
        return Err(failure
            .remedy(format!("Its first jobs are: {names}"))
            .into());
    }
    let jobs = parsed.config.jobs.iter();
    let wanted = jobs
        .filter(|job| args.job.is_empty() || args.job.iter().any(|name| name == job.name.as_str()));
    let exported: Map<String, Value> = wanted
        .map(|job| {
            let key = format!("bistro_job->{}", job.name.as_str());
            (key, export_job(&parsed.config, job))
        })
        .collect();
    print_json(&Value::Object(exported))?;
    Ok(CommandEnding::Success)
}
