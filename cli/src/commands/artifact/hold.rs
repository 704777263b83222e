//! `brasserie artifact hold`: keeps outputs as long as the command runs, or a program that it starts.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use brasserie_common_runtime::Clock;
use clap::builder::NonEmptyStringValueParser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use super::outputs::find;
use crate::CommandEnding;
use crate::connection::{AskArgs, ChangeOutcome, Connection, block_on};
use crate::failure::is_refused;
use crate::interrupts::Interrupts;
use crate::output::{LastText, complain, printable};

/// Time between two calls: the period of Apache Celeborn's owner heartbeats. The scheduler waits for 30 of them.
const PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(super) struct HoldArgs {
    /// The jobs whose outputs are kept.
    #[arg(required = true, value_name = "JOB", value_parser = NonEmptyStringValueParser::new())]
    jobs: Vec<String>,
    /// Start this program, and hold the outputs until it has ended. Without it, until the command is interrupted, which deletes them at once.
    /// The standard output is that of the program, so there is no `--json`.
    #[arg(last = true, value_name = "PROGRAM", conflicts_with = "json")]
    program: Vec<OsString>,
    #[command(flatten)]
    ask: AskArgs,
}

pub(super) fn run(args: &HoldArgs) -> Result<CommandEnding> {
    block_on(hold(args))?
}

async fn hold(args: &HoldArgs) -> Result<CommandEnding> {
    let connection = args.ask.connect()?;
    let mut interrupts = Interrupts::listen()?;
    let hold = Clock.seed().cast_signed();
    for job in &args.jobs {
        match connection.hold_outputs(job, hold, false).await? {
            ChangeOutcome::Done(true) => {}
            ChangeOutcome::Done(false) => complain!("brasserie: {}", has_ended(job)),
            ChangeOutcome::Refused { message, .. } => bail!("{message}"),
        }
        let found = find(&connection, (job, ""), 1).await?;
        if let Some(why) = found.why_empty() {
            complain!(
                "brasserie: job `{}` has no outputs now, so only those of its next runs are held: {}",
                printable(job),
                printable(why)
            );
        }
    }
    let jobs = args.jobs.join(", ");
    let mut program = start(&args.program)?;
    let has_program = program.is_some();
    if !has_program {
        let sentence = format!(
            "The outputs of {} stay until this command ends; then they are deleted.",
            printable(&jobs)
        );
        args.ask
            .say(&sentence, &json!({ "jobs": args.jobs, "held": true }))?;
    }
    // The hold continues while an interrupted program ends.
    let ended = tokio::select! {
        refused = continue_hold(&connection, hold, args) => return Err(refused),
        ended = run_to_end(&mut program, &mut interrupts) => ended?,
    };
    let ending = match ended {
        Some(status) if status.success() => CommandEnding::Success,
        Some(status) => {
            complain!("brasserie: the program failed: {status}");
            CommandEnding::Program(code_of(status))
        }
        None => CommandEnding::Interrupted,
    };
    if has_program && ending != CommandEnding::Success {
        match has_outputs(&connection, &args.jobs).await {
            true => complain!(
                "brasserie: the outputs stay for 5 minutes, so that the program can run again with `brasserie artifact hold`"
            ),
            false => complain!("brasserie: there are no outputs that could stay"),
        }
        return Ok(ending);
    }
    for job in &args.jobs {
        // The outputs may have gone since the last call.
        if let Ok(ChangeOutcome::Done(false)) = connection.hold_outputs(job, hold, false).await {
            complain!("brasserie: {}", has_ended(job));
        }
        match connection.hold_outputs(job, hold, true).await {
            // A call that fails costs nothing but time: the hold then ends by itself.
            Err(error) => complain!("brasserie: the hold ends in 5 minutes: {error:#}"),
            Ok(released) if !has_program => {
                complain!("brasserie: {}", after_release(job, &released))
            }
            Ok(_) => {}
        }
    }
    Ok(ending)
}

/// Says what becomes of the outputs of a job whose hold was interrupted on purpose.
fn after_release(job: &str, released: &ChangeOutcome<bool>) -> String {
    let job = printable(job);
    match released {
        ChangeOutcome::Done(false) => {
            format!("the outputs of job `{job}` are deleted now, or as soon as no task needs them")
        }
        ChangeOutcome::Done(true) => format!(
            "the outputs of job `{job}` stay: another hold runs, or the scheduler has run for less than 5 minutes"
        ),
        ChangeOutcome::Refused { message, .. } => message.clone(),
    }
}

/// Returns the code with which a shell would report the end of a program that failed.
fn code_of(status: ExitStatus) -> u8 {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal);
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// Returns whether any of the jobs has outputs. They may have some if the scheduler does not answer.
async fn has_outputs(connection: &Connection, jobs: &[String]) -> bool {
    for job in jobs {
        let found = find(connection, (job, ""), 1).await;
        if found.is_ok_and(|found| found.outputs().is_empty()) {
            continue;
        }
        return true;
    }
    false
}

fn has_ended(job: &str) -> String {
    format!(
        "outputs of job `{}` are deleted although they were held: the hold was not renewed in time, or a user removed them. Later \
         outputs are held",
        printable(job)
    )
}

fn start(program: &[OsString]) -> Result<Option<Child>> {
    let Some((name, arguments)) = program.split_first() else {
        return Ok(None);
    };
    let child = Command::new(name).args(arguments).spawn();
    let child = child.with_context(|| format!("cannot start {}", name.display()))?;
    Ok(Some(child))
}

async fn end_of(program: &mut Option<Child>) -> Result<ExitStatus> {
    match program {
        Some(child) => child.wait().await.context("cannot wait for the program"),
        None => std::future::pending().await,
    }
}

/// Waits for the end of the program. The first signal ends it, the next one kills it. Returns none after a signal.
async fn run_to_end(
    program: &mut Option<Child>,
    interrupts: &mut Interrupts,
) -> Result<Option<ExitStatus>> {
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        tokio::select! {
            ended = end_of(program) => return Ok(Some(ended?).filter(|_| signal == Signal::SIGTERM)),
            () = interrupts.next() => {}
        }
        let Some(child) = program else {
            return Ok(None);
        };
        if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()) {
            // The process has not been reaped, so it still has this id.
            let _ = kill(Pid::from_raw(id), signal);
        }
    }
    end_of(program).await.map(|_| None)
}

/// Repeats the hold of each job. Says once what goes wrong. Returns the scheduler's refusal of the caller, unless a program still runs.
async fn continue_hold(connection: &Connection, hold: i64, args: &HoldArgs) -> anyhow::Error {
    let jobs = &args.jobs;
    let mut trouble: Vec<LastText> = jobs.iter().map(|_| LastText::default()).collect();
    let mut next = Instant::now();
    loop {
        next += PERIOD;
        sleep_until(next).await;
        for (job, trouble) in jobs.iter().zip(&mut trouble) {
            let text = match connection.hold_outputs(job, hold, false).await {
                Ok(ChangeOutcome::Done(true)) => {
                    *trouble = LastText::default();
                    continue;
                }
                Ok(ChangeOutcome::Done(false)) => has_ended(job),
                Ok(ChangeOutcome::Refused { message, .. }) => message,
                Err(error) if is_refused(&error) && args.program.is_empty() => return error,
                Err(error) => format!("{error:#}"),
            };
            trouble.complain(text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_hold_says_what_becomes_of_the_outputs() {
        let text = |others| after_release("extract", &ChangeOutcome::Done(others));
        assert!(text(false).starts_with("the outputs of job `extract` are deleted now"));
        assert!(text(true).starts_with("the outputs of job `extract` stay: another hold"));
    }
}
