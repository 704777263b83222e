//! Parses `bistro_job->NAME` to a job. A field with a mistake keeps its default and disables the job; the other fields are used.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use brasserie_common::backoff::AfterLast;
use brasserie_common::ids::HEALTHCHECK_JOB;
use brasserie_common::task::{MAX_ENVIRONMENT_BYTES, OWN_VARIABLES, is_variable};
use brasserie_common::time::format_duration;
use brasserie_common::{Arguments, BackoffPolicy, JobName, ReportPolicy, StatusFrom};

use crate::PathUse;
use crate::artifacts::KeepOutputs;
use crate::cards::check_need;
use crate::coerce::{AMOUNT, name_error, set};
use crate::filters::{FILTER_KEYS, filters};
use crate::inputs::{self, NeededOutputs};
use crate::keys::{INT64, Key, Shape, TEXTS, within};
use crate::levels::{level, task_level};
use crate::model::{
    Config, JobConfig, ResourceId, ResourceLimit, SchedulerPolicy, begins_in_folder,
};
use crate::outputs::{self, OutputsRead};
use crate::problem::{self, Problem};
use crate::read::{At, Notes, UnknownKeys};
use crate::resources::{AMOUNTS, key_resource};
use crate::subprocess::{self, KILL_SUBPROCESS, kill_subprocess, task_subprocess};
use crate::tree::{Place, quote};
use crate::waits::{self, Mentions};

/// The prefix of a job's key before its name.
pub(crate) const JOB_PREFIX: &str = "bistro_job->";

pub(crate) const KEYS: &[Key] = &[
    Key::new(
        "enabled",
        Shape::Truth,
        "With `false`, no task of the job starts.",
    ),
    Key::new("owner", Shape::Text, "A label."),
    Key::new(
        "level_for_tasks",
        Shape::Name,
        "The level on whose nodes the job has its tasks.",
    ),
    Key::new(
        "priority",
        Shape::Number,
        "The priority for the policies `ranked_priority` and `randomized_priority`.",
    ),
    Key::new(
        "resources",
        AMOUNTS,
        "The slots that a task takes, by resource.",
    ),
    Key::new(
        "config",
        Shape::AnyObject,
        "An object that tasks find in their JSON argument.",
    ),
    Key::new(
        "filters",
        Shape::Map("LEVEL", &Shape::Fields(FILTER_KEYS)),
        "The nodes on which the job runs, by level.",
    ),
    Key::new(
        "level_for_host_placement",
        Shape::Name,
        "Tasks run only on workers of the host that their node at this level names.",
    ),
    Key::new(
        "host_placement",
        Shape::Text,
        "Tasks run only on workers of this host.",
    ),
    Key::new(
        "backoff",
        Shape::Backoff,
        "The waits after the first, second and further errors of a task. The last item is `repeat` or `fail`.",
    ),
    Key::new(
        RETRIES,
        Shape::Integer(0, MAX_RETRIES),
        "The number of times that a task runs again after an error. Then it has failed.",
    ),
    Key::new(
        RETRY_DELAY,
        Shape::Duration,
        "The wait before each of these runs, in place of the waits of `backoff`.",
    ),
    waits::DEPENDS_ON_KEY,
    waits::AFTER_ALL_KEY,
    Key::new(
        "create_time",
        INT64,
        "The Unix time at which the job was created: a label.",
    ),
    Key::new(
        "modify_time",
        INT64,
        "The Unix time at which the job was changed: a label.",
    ),
    subprocess::ORPHANS_KEY,
    subprocess::TASK_KEY,
    subprocess::KILL_KEY,
    subprocess::KILL_ALIAS_KEY,
    Key::new(
        COMMAND,
        TEXTS,
        "The program and its arguments, without a shell.",
    ),
    Key::new(
        ENV,
        Shape::Map("VARIABLE", &Shape::Text),
        "Variables of each task's environment.",
    ),
    Key::new(
        CWD,
        Shape::Name,
        "The working directory of each task, on the worker's machine.",
    ),
    Key::new(
        MAX_RUNNING,
        within(1..=i32::MAX),
        "The number of tasks of the job that may run at once.",
    ),
    Key::new("version_id", INT64, "The version of the job: a label."),
    Key::new(
        "errors",
        Shape::Any,
        "The reasons why an exported job cannot run. A job with this key does not run.",
    ),
    Key::new(
        "status_from",
        Shape::Words(|| STATUS_FROM.iter().map(|w| w.as_str()).collect()),
        "The source of a task's status: its status line, its exit code, or whichever of the two it has.",
    ),
    Key::new(
        "arguments",
        Shape::Words(|| ARGUMENTS.iter().map(|w| w.as_str()).collect()),
        "The arguments that the scheduler adds to the command.",
    ),
    Key::new(
        TIMEOUT,
        Shape::Duration,
        "The time for which a task's process may run.",
    ),
    Key::new(
        DEADLINE,
        Shape::Duration,
        "The time by which a task must be over, from the moment at which the scheduler gives it to a worker.",
    ),
    Key::new(
        EST_DURATION,
        Shape::Duration,
        "An estimate of the time for which a task runs.",
    ),
    Key::new(
        BUFFERABLE,
        Shape::Truth,
        "With `true`, tasks may wait at a pull worker until it has processors for them.",
    ),
    Key::new(
        REPORT,
        Shape::Words(|| ReportPolicy::ALL.iter().map(|w| w.as_str()).collect()),
        "The time at which a pull worker reports a completion.",
    ),
    outputs::OUTPUTS_KEY,
    outputs::KEEP_KEY,
    inputs::INPUTS_KEY,
    inputs::LOCALITY_WAIT_KEY,
];
const COMMAND: &str = "command";
pub(crate) const ENV: &str = "env";
pub(crate) const CWD: &str = "cwd";
pub(crate) const MAX_RUNNING: &str = "max_running";
const RETRIES: &str = "retries";
const RETRY_DELAY: &str = "retry_delay";
pub(crate) const TIMEOUT: &str = "timeout";
pub(crate) const DEADLINE: &str = "deadline";
pub(crate) const EST_DURATION: &str = "est_duration";
pub(crate) const BUFFERABLE: &str = "bufferable";
pub(crate) const REPORT: &str = "report";

/// Limit for `retries`. A job that needs more uses a backoff that ends in `"repeat"`.
const MAX_RETRIES: i64 = 1000;

/// Length limit for `cwd`: Linux's limit for a path.
const MAX_PATH_BYTES: usize = 4096;

const STATUS_FROM: [StatusFrom; 3] = [StatusFrom::Auto, StatusFrom::Pipe, StatusFrom::ExitCode];
const ARGUMENTS: [Arguments; 2] = [Arguments::Append, Arguments::None];

/// A parsed job before the checks across all jobs.
pub(crate) struct Draft {
    pub job: JobConfig,
    pub notes: Notes,
    pub key_path: String,
    /// The places of the jobs for which the job waits.
    pub mentions: Mentions,
    /// The outputs of other jobs that the job's inputs name.
    pub needed_outputs: Vec<NeededOutputs>,
    pub outputs_read: OutputsRead,
    /// The errors that an exported job carries.
    pub old_errors: Option<(Place, Vec<String>)>,
}

/// Returns the name in a job's key. An invalid name is an error of the file.
pub(crate) fn job_name(at: &At, name: &str, notes: &mut Notes) -> Option<JobName> {
    let error = match name {
        HEALTHCHECK_JOB => Some("healthchecks have this name".to_owned()),
        _ => name_error(name),
    };
    match error {
        Some(error) => {
            notes.error(
                at.key_problem(error)
                    .value(quote(name))
                    .help("a job's key is `bistro_job->NAME`"),
            );
            None
        }
        None => JobName::try_from(name).ok(),
    }
}

/// Returns the job without any keys.
fn defaults(name: JobName, config: &Config) -> JobConfig {
    JobConfig {
        name,
        enabled: true,
        owner: String::new(),
        level_for_tasks: config.level_for_tasks,
        priority: 1.0,
        resources: config.resources.iter().map(|r| r.default).collect(),
        config: "{}".to_owned(),
        filters: BTreeMap::new(),
        level_for_host_placement: None,
        host_placement: None,
        backoff: config.backoff.clone(),
        depends_on: Vec::new(),
        run_only_after_all_nodes_are_done_for: Vec::new(),
        kill_orphan_tasks_after: config.kill_orphan_tasks_after,
        task_subprocess: config.task_subprocess.clone(),
        kill_subprocess: config.kill_subprocess,
        command: Vec::new(),
        est_duration: None,
        bufferable: false,
        max_running: None,
        report: None,
        outputs: Vec::new(),
        keep: KeepOutputs::default(),
        inputs: Vec::new(),
        locality_wait: Duration::ZERO,
        create_time: 0,
        modify_time: 0,
        version_id: -1,
        errors: Vec::new(),
        hold: None,
    }
}

pub(crate) fn parse(at: &At, name: JobName, config: &Config, unknown: UnknownKeys) -> Draft {
    let mut notes = Notes::new(unknown);
    let mut job = defaults(name, config);
    let mut mentions = Mentions::default();
    let (mut needed_outputs, mut outputs_read) = (Vec::new(), OutputsRead::Some);
    let mut old_errors = None;
    if at.expect_object(&mut notes) {
        at.check_duplicates(&mut notes);
        at.check_keys(KEYS, &mut notes);
        at.report_misspelt(COMMAND, &mut notes);
        misplaced_rights(at, &mut notes);
        placement(at, &mut job, config, &mut notes);
        process(at, &mut job, &mut notes);
        labels(at, &mut job, &mut notes);
        outputs_read = outputs::outputs(at, &mut job, &mut notes);
        refuse_cwd_beside_outputs(at, &job, &mut notes);
        needed_outputs = inputs::inputs(at, &mut job, &mut notes);
        mentions = waits::waits(at, &mut job, &needed_outputs, &mut notes);
        old_errors = at
            .get("errors")
            .map(|at| (at.place(), exported_errors(&at)));
    }
    Draft {
        job,
        notes,
        key_path: at.path_text(),
        mentions,
        needed_outputs,
        outputs_read,
        old_errors,
    }
}

/// Reports `cwd` of a job with outputs as an error. Its runs would share the directory, so a task could take the file of another one, or an
/// old one, for its own output.
fn refuse_cwd_beside_outputs(at: &At, job: &JobConfig, notes: &mut Notes) {
    if let Some(at) = at.get(CWD).filter(|_| !job.outputs.is_empty()) {
        let text = format!(
            "a job with `{}` has no `{CWD}`: each run leaves its outputs in a new folder, in which it starts",
            outputs::OUTPUTS
        );
        let help = r#"remove the key; a program that needs the directory changes to it, as in ["/bin/sh", "-ec", "out=$PWD; cd DIR; ./x > $out/FILE"]"#;
        notes.error(at.key_problem(text).help(help));
    }
}

/// Reports `user` or `group` beside the keys of a job as an error, because its tasks would otherwise run with the worker's rights.
fn misplaced_rights(at: &At, notes: &mut Notes) {
    for key in ["user", "group"] {
        if let Some(entry) = at.entries().find(|entry| entry.key() == key) {
            let problem = entry.key_problem(format!("`{key}` is a key of `task_subprocess`"));
            // The error replaces the warning about an unknown key.
            notes.warnings.retain(|w| w.place() != problem.place());
            notes.error(problem.help(format!("write \"task_subprocess\": {{\"{key}\": ...}}")));
        }
    }
}

/// Returns the name of the job that a top-level key was probably meant to define, as `j` for `bistro_job-j` or `job->j`; `None` for a
/// key that looks like no job.
pub(crate) fn meant_name(key: &str) -> Option<&str> {
    const BEGINS: [&str; 4] = ["bistro_job", "bistro-job", "bistro job", "bistrojob"];
    let meant = match key.split_once("->") {
        Some((begin, name)) => {
            let known = BEGINS.into_iter().chain(["bistro_jobs", "job", "jobs"]);
            problem::nearest(begin.trim(), known).map(|_| name)
        }
        None => BEGINS.into_iter().find_map(|begin| {
            let (start, rest) = key.split_at_checked(begin.len())?;
            let rest = rest.strip_prefix('s').unwrap_or(rest);
            let is_separator = |c: char| !c.is_alphanumeric();
            (start.eq_ignore_ascii_case(begin) && rest.starts_with(is_separator))
                .then(|| rest.trim_start_matches(is_separator))
        }),
    };
    meant.map(str::trim).filter(|name| !name.is_empty())
}

/// Returns the warning for a job without a command, unless the job has errors that may explain this.
pub(crate) fn no_command(at: &At, draft: &Draft) -> Option<Problem> {
    let has_errors = !draft.notes.errors.is_empty() || draft.old_errors.is_some();
    if !draft.job.command.is_empty() || has_errors {
        return None;
    }
    let text = "there is no `command`, so tasks start only on workers with `--worker-command`";
    Some(
        at.key_problem(text)
            .help("name the program and its arguments in `command`"),
    )
}

/// Returns the warning for a command whose only item is a program with its arguments. A program in a folder may have a space in its path.
pub(crate) fn whole_command_line(at: &At, draft: &Draft) -> Option<Problem> {
    let [line] = &draft.job.command[..] else {
        return None;
    };
    let mut words = line.split_whitespace();
    let program = words.next().filter(|program| !program.contains('/'))?;
    words.next()?;
    let at = at.get(COMMAND)?;
    let at = at.items().next()?;
    let problem = at.problem(format!("no program is called {}", at.node));
    Some(problem.help(format!(
        "write each argument as an item of its own, as in [{}, \"ARGUMENT\"]",
        quote(program)
    )))
}

/// Returns the job's program if its path begins in the config file's folder, with the warning for the case that this machine cannot run
/// it.
pub(crate) fn program_of_file(at: &At, draft: &Draft) -> Option<(String, PathUse, Problem)> {
    let program = draft.job.command.first();
    let program = program.filter(|program| begins_in_folder(program))?;
    let at = at.get(COMMAND)?;
    let at = at.items().next()?;
    let problem = at.problem(format!("tasks on this machine cannot run {}", at.node));
    let help = "the path begins in the config file's folder: put the program there, or write its whole path";
    Some((program.clone(), PathUse::Program, problem.help(help)))
}

/// Returns the job's working directory, with the warning for the case that this machine lacks it.
pub(crate) fn named_directory(at: &At, draft: &Draft) -> Option<(String, PathUse, Problem)> {
    let directory = draft.job.task_subprocess.working_directory.clone()?;
    let at = at.get(CWD)?;
    let problem = at.problem(format!("tasks on this machine cannot start in {}", at.node));
    let help = "each worker's machine needs the directory, which begins in the config file's folder if its path is relative";
    Some((directory, PathUse::WorkingDirectory, problem.help(help)))
}

/// Returns the warning for the first resource of which a task needs more than any node or worker has; `None` also if the job has errors.
pub(crate) fn above_limit(at: &At, draft: &Draft, config: &Config) -> Option<Problem> {
    if !draft.notes.errors.is_empty() || draft.old_errors.is_some() {
        return None;
    }
    let job = &draft.job;
    let takes = |level| level <= job.level_for_tasks || level == config.worker_level();
    let above = |index: &usize| {
        let id = ResourceId(u16::try_from(*index).unwrap_or(u16::MAX));
        let is_taken = takes(config.resources[*index].level);
        is_taken && config.is_above_limit(id, job.resources[*index])
    };
    let index = (0..config.resources.len()).find(above)?;
    let (resource, need) = (&config.resources[index], job.resources[index]);
    let ResourceLimit::Fixed(limit) = resource.limit else {
        return None;
    };
    let (name, level) = (&resource.name, &config.levels[resource.level.index()]);
    let text = format!(
        "a task needs {need} of `{name}`, and the limit of level `{level}` is {limit}, so no task of the job ever starts"
    );
    let said = at.get("resources");
    let problem = match said.as_ref().and_then(|said| said.get(name)) {
        Some(at) => at.problem(text),
        None => at.key_problem(format!("by default, {text}")),
    };
    let help = format!(
        "lower the need in `resources` of the job, or raise `resources.{level}.{name}.limit` of the settings"
    );
    Some(problem.help(help))
}

/// Reads the keys about where the job runs, its resources, and its backoff.
fn placement(at: &At, job: &mut JobConfig, config: &Config, notes: &mut Notes) {
    if let Some(at) = at.get("enabled") {
        set(&mut job.enabled, at.boolean(notes));
    }
    if let Some(at) = at.get("level_for_tasks") {
        set(&mut job.level_for_tasks, task_level(&at, config, notes));
    }
    if let Some(at) = at.get("priority") {
        let is_share = config.policy == SchedulerPolicy::RandomizedPriority;
        let priority = at.double(notes);
        if is_share && priority.is_some_and(|priority| priority < 0.0) {
            notes.error(
                at.problem("a negative priority is no share of the starts")
                    .help("0 or more under `randomized_priority`"),
            );
        } else {
            set(&mut job.priority, priority);
        }
    }
    let errors = notes.errors.len();
    if let Some(at) = at.get("resources")
        && at.expect_object(notes)
    {
        for entry in at.entries() {
            let resource = key_resource(&entry, config, notes);
            let amount = entry.integer32(AMOUNT, notes);
            if let Some(resource) = resource {
                set(&mut job.resources[resource.index()], amount);
            }
        }
    }
    if notes.errors.len() == errors {
        check_need(at, job, config, notes);
    }
    if let Some(at) = at.get("filters") {
        filters(&at, job, config, notes);
    }
    host_placement(at, job, config, notes);
    if let Some(at) = at.get("backoff") {
        set(&mut job.backoff, at.backoff(notes));
    }
    retries(at, job, notes);
    if let Some(at) = at.get(MAX_RUNNING)
        && let Some(most) = at.integer32(1..=i32::MAX, notes)
    {
        job.max_running = u32::try_from(most).ok();
    }
}

/// Reads `retries` and `retry_delay` into the job's backoff.
fn retries(at: &At, job: &mut JobConfig, notes: &mut Notes) {
    let (retries_at, delay_at) = (at.get(RETRIES), at.get(RETRY_DELAY));
    let errors = notes.errors.len();
    let retries = retries_at.as_ref().and_then(|at| {
        let retries = at.integer(0..=MAX_RETRIES, notes)?;
        u32::try_from(retries).ok()
    });
    let delay = delay_at.as_ref().and_then(|at| {
        let seconds = at.whole_seconds(notes)?;
        let is_wait = BackoffPolicy::new(&[seconds], AfterLast::Fail).is_ok();
        if !is_wait {
            let text = format!("{} is too short for a wait between retries", at.node);
            notes.error(
                at.problem(text)
                    .help("one second or more, as in 10 or \"10s\""),
            );
        }
        u32::try_from(seconds).ok().filter(|_| is_wait)
    });
    if notes.errors.len() > errors || (retries.is_none() && delay.is_none()) {
        return;
    }
    match (job.backoff.with_retries(retries, delay), retries_at) {
        (Some(backoff), _) => {
            if let Some(at) = delay_at.filter(|_| backoff.values().is_empty()) {
                notes.warning(
                    at.key_problem("has no effect: no task of this job runs again after an error")
                        .help("say in `retries` how often a task runs again"),
                );
            }
            job.backoff = backoff;
        }
        (None, Some(at)) => notes.error(
            at.key_problem("there is no wait for these retries: the backoff has none")
                .help("add `retry_delay`, as in \"10s\""),
        ),
        (None, None) => {}
    }
}

/// Reads the host of the job, or the level of its hosts.
fn host_placement(at: &At, job: &mut JobConfig, config: &Config, notes: &mut Notes) {
    if let Some(at) = at.get("host_placement") {
        job.host_placement = at.string(notes).filter(|host| !host.is_empty());
    }
    let Some(at) = at.get("level_for_host_placement") else {
        return;
    };
    let Some(placement) = level(&at, config, notes) else {
        return;
    };
    if placement == config.worker_level() || placement > job.level_for_tasks {
        let tasks = &config.levels[job.level_for_tasks.index()];
        let text = format!(
            "has no effect: a task at level `{tasks}` has no node at level {}, so it runs on any host",
            at.node
        );
        let above = &config.levels[..=job.level_for_tasks.index()];
        let above = above[..above.len().min(config.worker_level().index())].join(", ");
        notes.warning(
            at.problem(text)
                .help(format!("one of {above}, or remove the key")),
        );
        return;
    }
    job.level_for_host_placement = Some(placement);
    if job.host_placement.is_some() {
        let help = "remove one of them";
        notes.warning(
            at.key_problem("has no effect beside `host_placement`")
                .help(help),
        );
    }
}

/// Reads the keys about a task's process and its end.
fn process(at: &At, job: &mut JobConfig, notes: &mut Notes) {
    if let Some(at) = at.get(COMMAND) {
        set(&mut job.command, command(&at, notes));
    }
    if let Some(at) = at.get("task_subprocess") {
        task_subprocess(&at, &mut job.task_subprocess, notes);
    }
    if let Some(at) = at.get(ENV) {
        set(
            &mut job.task_subprocess.environment,
            environment(&at, notes),
        );
    }
    if let Some(at) = at.get(CWD) {
        job.task_subprocess.working_directory = working_directory(&at, notes);
    }
    relative_program(at, job, notes);
    if let Some(at) = at.get("status_from") {
        set(
            &mut job.task_subprocess.status_from,
            at.choice(&STATUS_FROM.map(|w| (w.as_str(), w)), notes),
        );
    }
    if let Some(at) = at.get("arguments") {
        set(
            &mut job.task_subprocess.arguments,
            at.choice(&ARGUMENTS.map(|w| (w.as_str(), w)), notes),
        );
    }
    warn_of_missing_shell_name(at, job, notes);
    warn_of_reader(at, job, notes);
    for (key, slot) in [
        (TIMEOUT, &mut job.task_subprocess.timeout),
        (DEADLINE, &mut job.task_subprocess.deadline),
    ] {
        if let Some(at) = at.get(key) {
            let help = "a duration above 0; without the key there is no limit";
            *slot = span(&at, ("leaves a task no time", help), notes);
        }
    }
    if let Some(at) = at.get(EST_DURATION) {
        let help = "a duration above 0; without the key nobody can tell";
        job.est_duration = span(&at, ("is no time for a task", help), notes);
    }
    check_estimate(at, job, notes);
    if let Some(at) = at.get(BUFFERABLE) {
        set(&mut job.bufferable, at.boolean(notes));
    }
    if let Some(at) = at.get(REPORT) {
        job.report = at.choice(&ReportPolicy::ALL.map(|w| (w.as_str(), w)), notes);
    }
    if let Some(at) = at.get_alias(KILL_SUBPROCESS, notes) {
        kill_subprocess(&at, &mut job.kill_subprocess, notes);
    }
    if let Some(at) = at.get("kill_orphan_tasks_after_sec") {
        set(&mut job.kill_orphan_tasks_after, at.never_or_seconds(notes));
    }
}

/// Warns of a program such as `bin/x`, which each task looks for in its working directory. Without `cwd` that directory begins empty.
fn relative_program(at: &At, job: &JobConfig, notes: &mut Notes) {
    let in_working_directory =
        |program: &String| program.contains('/') && Path::new(program).is_relative();
    let program = job.command.first();
    let program = program.filter(|program| in_working_directory(program));
    let has_cwd = job.task_subprocess.working_directory.is_some();
    if program.is_none_or(|program| begins_in_folder(program)) || has_cwd {
        return;
    }
    if let Some(at) = at.get(COMMAND)
        && let Some(program) = at.items().next()
    {
        let text = format!(
            "the program {} is relative to each task's working directory, and the job has no `{CWD}`",
            program.node
        );
        let help = "begin it with `./` if it is relative to the config file's folder, or write its whole path";
        notes.warning(program.problem(text).help(help));
    }
}

/// Returns the file name of the job's program; empty without a command.
fn program_name(job: &JobConfig) -> &str {
    let program = job.command.first().map(String::as_str);
    program
        .and_then(|path| path.rsplit('/').next())
        .unwrap_or_default()
}

/// Warns if a shell assigns the node's name to `$0` and not to `$1`, although its script uses the latter.
fn warn_of_missing_shell_name(at: &At, job: &JobConfig, notes: &mut Notes) {
    const SHELLS: [&str; 5] = ["sh", "bash", "dash", "ksh", "zsh"];
    const PARAMETERS: [&str; 8] = ["$1", "${1", "$@", "${@", "$*", "$#", "$2", "${2"];
    let name = program_name(job);
    let is_last_flag =
        |word: &String| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
    let place = job
        .command
        .iter()
        .position(is_last_flag)
        .map(|flag| flag + 1);
    let Some(place) =
        place.filter(|place| SHELLS.contains(&name) && place + 1 == job.command.len())
    else {
        return;
    };
    let script = &job.command[place];
    let names_itself = script.contains("$0") || script.contains("${0");
    if job.arguments() == Arguments::None || names_itself {
        return;
    }
    let expanded = expanded(script);
    if let Some(parameter) = PARAMETERS
        .into_iter()
        .find(|parameter| expanded.contains(parameter))
        && let Some(at) = at.get(COMMAND)
        && let Some(script) = at.items().nth(place)
    {
        let text = format!(
            "the script uses {parameter}, but the shell assigns the first argument after the script, the node's name, to $0"
        );
        let help = "add a word after the script, such as \"sh\", which becomes $0; then $1 is the node's name";
        notes.warning(script.problem(text).help(help));
    }
}

/// Warns if the program reads every argument as a file. The second of the appended arguments is a pipe, and a read of it never ends.
fn warn_of_reader(at: &At, job: &JobConfig, notes: &mut Notes) {
    const READERS: [&str; 13] = [
        "bzip2",
        "cat",
        "cksum",
        "cut",
        "gzip",
        "head",
        "md5sum",
        "sha1sum",
        "sha256sum",
        "sort",
        "tail",
        "wc",
        "zcat",
    ];
    let name = program_name(job);
    if READERS.contains(&name)
        && job.arguments() == Arguments::Append
        && let Some(at) = at.get(COMMAND)
        && let Some(program) = at.items().next()
    {
        let text = format!(
            "{} reads all of its arguments as files, and the scheduler appends three, of which the second is a pipe that never ends",
            quote(name)
        );
        let script = format!("{name} \"$1\"");
        let help = format!(
            "write [\"/bin/sh\", \"-c\", {}, \"sh\"], or \"arguments\": \"none\"",
            quote(&script)
        );
        notes.warning(program.problem(text).help(help));
    }
}

/// Returns the parts of a shell script in which the shell expands parameters: not those in single quotes or after a backslash.
fn expanded(script: &str) -> String {
    let (mut kept, mut is_quoted, mut chars) = (String::new(), false, script.chars());
    while let Some(c) = chars.next() {
        match c {
            '\'' => is_quoted = !is_quoted,
            '\\' if !is_quoted => drop(chars.next()),
            _ if is_quoted => {}
            _ => kept.push(c),
        }
    }
    kept
}

/// Warns if a task that takes as long as estimated exceeds its timeout or deadline each time.
fn check_estimate(at: &At, job: &JobConfig, notes: &mut Notes) {
    let (Some(at), Some(estimate)) = (at.get(EST_DURATION), job.est_duration) else {
        return;
    };
    for (key, limit, what) in [
        (
            TIMEOUT,
            job.timeout(),
            "each task would be killed before its end",
        ),
        (
            DEADLINE,
            job.deadline(),
            "each task would miss it on any worker",
        ),
    ] {
        if let Some(limit) = limit.filter(|limit| estimate > *limit) {
            let limit = format_duration(limit);
            let text = format!("above the job's `{key}` of {limit}: {what}");
            notes.warning(at.problem(text));
        }
    }
}

/// Reads a duration in whole milliseconds, above zero.
fn span(at: &At, (wrong, help): (&str, &str), notes: &mut Notes) -> Option<Duration> {
    let span = at.duration(notes)?.as_millis();
    let span = Duration::from_millis(u64::try_from(span).unwrap_or(u64::MAX));
    if span.is_zero() {
        notes.error(at.problem(format!("{} {wrong}", at.node)).help(help));
        return None;
    }
    Some(span)
}

fn command(at: &At, notes: &mut Notes) -> Option<Vec<String>> {
    if let Some(text) = at.as_str() {
        let shell = serde_json::json!(["/bin/sh", "-c", text, "sh"]);
        notes.error(at.expected("an array of strings").help(format!(
            "no shell splits it; write {shell}, or each word on its own"
        )));
        return None;
    }
    let words = at.strings(notes)?;
    let mut is_good = true;
    for (item, word) in at.items().zip(&words) {
        if word.contains('\0') {
            notes.error(item.problem("a NUL character, which no program argument can hold"));
            is_good = false;
        }
    }
    if words.first().is_some_and(String::is_empty) {
        notes.error(at.problem("the program's name is empty"));
        is_good = false;
    }
    is_good.then_some(words)
}

fn environment(at: &At, notes: &mut Notes) -> Option<BTreeMap<String, String>> {
    if !at.expect_object(notes) {
        return None;
    }
    let mut all = BTreeMap::new();
    let mut bytes = 0;
    for entry in at.entries() {
        let name = entry.key();
        if !is_variable(name) {
            let help = match name.starts_with(OWN_VARIABLES) {
                true => "tasks find the worker's values in variables that begin so",
                false => "a name that is not empty, without `=` and NUL",
            };
            let problem = entry.key_problem("no variable of a job can have this name");
            notes.error(problem.value(quote(name)).help(help));
            continue;
        }
        let Some(value) = entry.string(notes) else {
            continue;
        };
        if value.contains('\0') {
            notes.error(entry.problem("a NUL character, which no variable can hold"));
        }
        bytes += name.len() + value.len();
        all.insert(name.to_owned(), value);
    }
    if bytes > MAX_ENVIRONMENT_BYTES {
        let text = format!("the variables have {bytes} bytes, more than {MAX_ENVIRONMENT_BYTES}");
        notes.error(
            at.key_problem(text)
                .help("put them into a file that tasks read"),
        );
        return None;
    }
    Some(all)
}

fn working_directory(at: &At, notes: &mut Notes) -> Option<String> {
    let path = at.string(notes)?;
    if path.is_empty() || path.contains('\0') || path.len() > MAX_PATH_BYTES {
        notes.error(
            at.problem("this is no path")
                .help("a directory of the worker's machine"),
        );
        return None;
    }
    Some(path)
}

/// Refuses a relative program or `cwd` of a job by API, which has no config file whose folder the path could be relative to.
pub(crate) fn refuse_relative_paths(at: &At, draft: &mut Draft) {
    let program = draft.job.command.first();
    let is_relative = program.is_some_and(|program| begins_in_folder(program));
    if let Some(at) = at.get(COMMAND).filter(|_| is_relative)
        && let Some(program) = at.items().next()
    {
        let text = format!(
            "the program {} is relative, and the job is in no file",
            program.node
        );
        let help = "write the whole path, or a name that workers look up";
        draft.notes.error(program.problem(text).help(help));
    }
    let directory = draft.job.task_subprocess.working_directory.as_deref();
    let is_relative = directory.is_some_and(|path| Path::new(path).is_relative());
    if let Some(at) = at.get(CWD).filter(|_| is_relative) {
        let text = format!(
            "the path {} is relative, and the job is in no file",
            at.node
        );
        draft
            .notes
            .error(at.problem(text).help("name the whole path"));
    }
}

/// Reads the keys that are displayed, passed on or compared, and decide nothing.
fn labels(at: &At, job: &mut JobConfig, notes: &mut Notes) {
    if let Some(at) = at.get("owner") {
        set(&mut job.owner, at.string(notes));
    }
    if let Some(at) = at.get("config")
        && at.expect_object(notes)
    {
        job.config = at.node.to_json().to_string();
    }
    for (key, slot) in [
        ("create_time", &mut job.create_time),
        ("modify_time", &mut job.modify_time),
        ("version_id", &mut job.version_id),
    ] {
        if let Some(at) = at.get(key) {
            set(slot, at.integer(i64::MIN..=i64::MAX, notes));
        }
    }
}

/// Returns the errors of an export unchanged.
fn exported_errors(at: &At) -> Vec<String> {
    let texts: Option<Vec<String>> = at
        .as_array()
        .filter(|items| !items.is_empty())
        .and_then(|_| at.items().map(|i| i.as_str().map(str::to_owned)).collect());
    texts.unwrap_or_else(|| vec![at.node.to_json().to_string()])
}
