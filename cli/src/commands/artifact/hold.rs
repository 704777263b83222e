//! `brasserie artifact hold`: keeps outputs as long as the command runs, or a program that it starts.

use std::ffi::OsString;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::builder::NonEmptyStringValueParser;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

use crate::CommandEnding;
use crate::connection::{AskArgs, ChangeOutcome, Connection, block_on};
use crate::interrupts::Interrupts;
use crate::output::{LastText, complain, printable};

/// Time between two calls: the period of Apache Celeborn's owner heartbeats. The scheduler waits for 30 of them.
const PERIOD: Duration = Duration::from_secs(10);

#[derive(Debug, clap::Args)]
pub(super) struct HoldArgs {
    /// The jobs whose outputs are kept.
    #[arg(required = true, value_name = "JOB", value_parser = NonEmptyStringValueParser::new())]
    jobs: Vec<String>,
    /// Start this program, and hold the outputs until it has ended. Without it, until the command is interrupted.
    #[arg(last = true, value_name = "PROGRAM")]
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
    for job in &args.jobs {
        match connection.hold_outputs(job, false).await? {
            ChangeOutcome::Done(_) => {}
            ChangeOutcome::Refused { message, .. } => bail!("{message}"),
        }
    }
    let jobs = args.jobs.join(", ");
    let mut program = start(&args.program)?;
    if program.is_none() {
        let sentence = format!(
            "The outputs of {} stay until this command ends.",
            printable(&jobs)
        );
        args.ask
            .say(&sentence, &json!({ "jobs": args.jobs, "held": true }))?;
    }
    // The hold continues while an interrupted program ends.
    let ended = tokio::select! {
        never = continue_hold(&connection, &args.jobs) => match never {},
        ended = run_to_end(&mut program, &mut interrupts) => ended?,
    };
    for job in &args.jobs {
        // A call that fails costs nothing but time: the hold then ends by itself.
        if let Err(error) = connection.hold_outputs(job, true).await {
            complain!("brasserie: the hold ends in 5 minutes: {error:#}");
        }
    }
    Ok(match ended {
        Some(status) if status.success() => CommandEnding::Success,
        Some(status) => {
            complain!("brasserie: the program failed: {status}");
            CommandEnding::Failure
        }
        None => CommandEnding::Interrupted,
    })
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

/// Repeats the hold of each job for ever. Says once what goes wrong.
async fn continue_hold(connection: &Connection, jobs: &[String]) -> std::convert::Infallible {
    let mut trouble: Vec<LastText> = jobs.iter().map(|_| LastText::default()).collect();
    let mut next = Instant::now();
    loop {
        next += PERIOD;
        sleep_until(next).await;
        for (job, trouble) in jobs.iter().zip(&mut trouble) {
            let text = match connection.hold_outputs(job, false).await {
                Ok(ChangeOutcome::Done(true)) => {
                    *trouble = LastText::default();
                    continue;
                }
                Ok(ChangeOutcome::Done(false)) => format!(
                    "the hold of job `{}` had ended: its outputs until now are deleted, later ones are held",
                    printable(job)
                ),
                Ok(ChangeOutcome::Refused { message, .. }) => message,
                Err(error) => format!("{error:#}"),
            };
            trouble.complain(text);
        }
    }
}
