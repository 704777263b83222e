//! The `brasserie` program as a library, so that tests can run it without a separate build.

mod access;
mod addresses;
mod commands;
mod connection;
mod contexts;
mod data_dir;
mod destination;
mod failure;
mod interrupts;
mod node_times;
mod output;
mod secret_line;
mod temporary;
mod worker_credentials;

use std::process::ExitCode;

use brasserie_common_identity::MAX_TOKEN_BYTES;
use brasserie_common_runtime::{LogFormat, Verbosity, telemetry};
use clap::{CommandFactory as _, Parser, Subcommand};

/// Run data-parallel jobs: each job of a config file, on each node of a tree of data shards, within resource limits.
#[derive(Debug, Parser)]
#[command(
    name = "brasserie",
    version,
    arg_required_else_help = true,
    after_help = "\
Try it:
  brasserie run FILE                              run all tasks of a config on this machine
  brasserie config check FILE                     show all problems of a config without running it
  brasserie plan FILE                             what a changed config would start, kill and change
  brasserie status                                what a running scheduler is doing
  brasserie explain JOB NODE                      why a task is not running
  brasserie task list --state failed              the failed tasks, since when, and why
  brasserie task kill JOB NODE                    end a running task
  brasserie job submit FILE                       add a job to those of the config file
  brasserie job wait JOB                          wait until all tasks are done, or none runs or can start
  brasserie job cancel JOB                        kill a job's running tasks, and start no more
  brasserie artifact get JOB NODE PATH            fetch an output of a task
  brasserie logs JOB NODE --stderr                what a task printed
  brasserie doctor                                what a worker on this machine can provide and enforce
  brasserie worker list                           the workers, their state and last heartbeat
  brasserie worker work-fetch                     the work that pull workers request, and why they request none
  brasserie worker drain NAME                     let a worker complete its tasks and exit
  brasserie worker decommission NAME              the same, after its data is copied to other workers
  brasserie token create --role worker            let a worker of another machine join
  brasserie context use NAME                      call the scheduler of another cluster
  brasserie audit --since 1h                      the changes of the last hour, with their callers
  brasserie worker forget NAME                    declare a worker dead that never returns

Exit codes:
  0  success; for `run`: every task of every enabled job is done
  1  failure; for `run`: a task failed or can never run; for `doctor`: a requirement of a worker is missing
  2  wrong usage, or a file that the command line names cannot be read or used
  3  only `plan --detailed-exitcode`: something would change
  4  only `job wait --timeout`: the timeout passed first
  130  interrupted

With --json, standard output holds one JSON document, also if the command fails: {\"error\": {...}} with the keys program, message, causes,
problems, remedy and exit_code. Only `logs --follow` and `audit` print a document a line.

BRASSERIE_LOG sets the detail of the program's own log (error, warn, info, debug, trace). NO_COLOR, set and not empty, keeps colours
out of all output."
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a config file to its end, with a scheduler and a worker on this machine.
    Run(commands::run::RunArgs),
    /// Check a config file, export its jobs, or print the schema of config files.
    Config(commands::config::ConfigArgs),
    /// Show what a config file would change in a running scheduler, without changing anything.
    Plan(commands::plan::PlanArgs),
    /// Show jobs, workers and problems of a running scheduler.
    Status(commands::status::StatusArgs),
    /// Show every reason why a task is not running.
    Explain(commands::explain::ExplainArgs),
    /// Submit, delete, pause, cancel, resume and forgive jobs, and wait for them.
    Job(commands::job::JobArgs),
    /// List tasks by state, and kill running ones.
    Task(commands::task::TaskArgs),
    /// List, find, fetch and remove the outputs of tasks: the files and folders that jobs declare by `outputs`.
    Artifact(commands::artifact::ArtifactArgs),
    /// Print the output of tasks, and the events of their runs.
    Logs(commands::logs::LogsArgs),
    /// Check what a worker on this machine can provide and enforce.
    Doctor(commands::doctor::DoctorArgs),
    /// Create, list and revoke the tokens with which workers join and people prove who they are.
    Token(commands::token::TokenArgs),
    /// Show the authority of a cluster, which signs all its certificates, or replace it.
    Ca(commands::ca::CaArgs),
    /// Keep the addresses and your tokens of several clusters, and choose the one that commands call.
    Context(commands::context::ContextArgs),
    /// Show the changes of a cluster with their callers, and the callers that were refused.
    Audit(commands::audit::AuditArgs),
    /// List workers, show the work fetch of one, take one out of service and back, or declare one dead.
    Worker(commands::worker::WorkerArgs),
}

/// The way in which a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandEnding {
    Success,
    Failure,
    /// A scheduler has refused the caller.
    Refused,
    Usage,
    /// The plan has no errors, and something would change.
    Changes,
    /// The command stopped waiting after its timeout.
    TimedOut,
    /// The worker was decommissioned at its deadline, and outputs are lost.
    OutputsLost,
    Interrupted,
    /// A program that the command has run ended with this code.
    Program(u8),
}

impl CommandEnding {
    fn code(self) -> u8 {
        match self {
            CommandEnding::Success => 0,
            CommandEnding::Failure | CommandEnding::Refused => 1,
            CommandEnding::Usage => 2,
            CommandEnding::Changes => 3,
            CommandEnding::TimedOut => 4,
            CommandEnding::OutputsLost => 5,
            CommandEnding::Interrupted => 130,
            CommandEnding::Program(code) => code,
        }
    }
}

impl From<CommandEnding> for ExitCode {
    fn from(ending: CommandEnding) -> ExitCode {
        ExitCode::from(ending.code())
    }
}

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    // The worker of a run is this program under another name.
    let name = std::env::args_os().next();
    if name.is_some_and(|name| brasserie_worker::is_worker(&name)) {
        return brasserie_worker::run();
    }
    // The keeper must fork before any thread exists. From here on it ends every task of a run if this process dies, for any reason.
    if wants_keeper()
        && let Err(error) = brasserie_worker::become_keeper_or_continue()
    {
        telemetry::print_last_error(&format!("brasserie: {error}"));
        return ExitCode::FAILURE;
    }
    if let Some(failure) = failure::token_in_words(std::env::args_os().skip(1)) {
        return failure::tell(&failure.into());
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return failure::tell_usage(error, &Cli::command()),
    };
    secret_line::read_early(std::env::args_os(), MAX_TOKEN_BYTES);
    // Commands print their own output. The log is for diagnosis.
    let _log = match telemetry::init(Verbosity::WarningsOnly, LogFormat::Text) {
        Ok(log) => log,
        Err(error) => {
            return failure::tell(&failure::Failure::usage(error.to_string()).into());
        }
    };
    let result = match cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::Config(args) => commands::config::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Job(args) => commands::job::run(&args),
        Command::Task(args) => commands::task::run(&args),
        Command::Artifact(args) => commands::artifact::run(&args),
        Command::Logs(args) => commands::logs::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Token(args) => commands::token::run(&args),
        Command::Ca(args) => commands::ca::run(&args),
        Command::Context(args) => commands::context::run(&args),
        Command::Audit(args) => commands::audit::run(&args),
        Command::Worker(args) => commands::worker::run(&args),
    };
    match result {
        Ok(ending) => ending.into(),
        Err(error) => failure::tell(&error),
    }
}

/// Returns whether this process needs a keeper: only `run` starts tasks. A keeper itself has no arguments, only its name.
fn wants_keeper() -> bool {
    let mut arguments = std::env::args_os();
    let name = arguments.next();
    name.is_some_and(|name| name == brasserie_worker::keeper::KEEPER_NAME)
        || arguments.next().is_some_and(|a| a == "run")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
