//! `brasserie worker forget`: shows the instances and the operator's promise, and asks before it changes anything.

use std::io::{BufRead, IsTerminal as _, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};
use brasserie_common::WallTime;
use brasserie_common::text::counted;
use brasserie_common_runtime::Clock;
use brasserie_thrift::generated::brasserie::MissingInstance;
use brasserie_thrift::generated::common::BistroInstanceID;

use crate::CommandEnding;
use crate::connection::{Connection, block_on};
use crate::destination::SchedulerArgs;
use crate::output::{complain, date, duration, print, printable};

/// Declare a worker dead that will never return, so that the scheduler stops waiting for it.
///
/// You promise that the machine or the process of that worker is dead, and that no process of its tasks is alive. The scheduler trusts
/// this: its tasks count as failed once and start again after their `backoff`, without the safety wait. If the promise is wrong, tasks run
/// twice at the same time. If the worker returns, the scheduler asks it to exit.
///
/// The scheduler refuses while the worker may still answer: within `--lose-unhealthy-worker-after` of its last sign of life, also if the
/// scheduler has restarted meanwhile. The declaration is on disk when the command ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie status                       the workers that the scheduler waits for, and since when each is silent
  brasserie worker forget host7          shows the instances, and asks for confirmation
  brasserie worker forget host7 --yes    for scripts: confirms without a question

Exit codes:
  0  the worker is declared dead, on disk; or it has left already, and nothing waits for it
  1  refused, also if the scheduler neither has nor waits for a worker of this name; not confirmed; or no answer: as far as the
     command knows, nothing has changed
  2  wrong usage")]
pub(crate) struct ForgetArgs {
    /// The worker's name, as `brasserie status` shows it.
    #[arg(value_name = "NAME")]
    shard: String,
    /// Confirm the promise without a question.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    scheduler: SchedulerArgs,
}

pub(crate) fn run(args: &ForgetArgs) -> Result<CommandEnding> {
    let meant = match ask(args, Vec::new())? {
        Ok(meant) => meant,
        Err(refusal) => return refused(&refusal),
    };
    if let Some(text) = nothing_to_do(&args.shard, &meant, Clock.wall()) {
        print(&text)?;
        return Ok(CommandEnding::Success);
    }
    print(&promise(&args.shard, &meant))?;
    if !args.yes && !confirmed()? {
        print("Nothing has changed.\n")?;
        return Ok(CommandEnding::Failure);
    }
    let instances = meant.into_iter().filter_map(|m| m.instance).collect();
    match ask(args, instances)? {
        Ok(_) => {
            let (shard, flag) = (printable(&args.shard), args.scheduler.flag());
            print(&format!(
                "Worker `{shard}` is declared dead, on disk. `brasserie status{flag}` shows the workers that the scheduler still waits for.\n"
            ))?;
            Ok(CommandEnding::Success)
        }
        Err(refusal) => refused(&refusal),
    }
}

/// Sends one request. Each call makes its own connection, because a connection ends with its runtime.
fn ask(
    args: &ForgetArgs,
    instances: Vec<BistroInstanceID>,
) -> Result<Result<Vec<MissingInstance>, String>> {
    let connection = Connection::for_changes_to(&args.scheduler)?;
    block_on(connection.forget_worker(&args.shard, instances))?
}

fn refused(refusal: &str) -> Result<CommandEnding> {
    complain!(
        "brasserie: the scheduler did not declare the worker dead: {}",
        printable(refusal)
    );
    Ok(CommandEnding::Failure)
}

/// Returns the message that replaces the question if every instance has left and the scheduler waits for none.
fn nothing_to_do(shard: &str, meant: &[MissingInstance], now: WallTime) -> Option<String> {
    let last_left = meant.iter().map(|missing| missing.left_for_ms.map(millis));
    let last_left = last_left.min().flatten()?;
    if meant.iter().any(|missing| missing.waits_for_ms.is_some()) {
        return None;
    }
    let left_at = now.as_secs() - i64::try_from(last_left.as_secs()).unwrap_or(0);
    Some(format!(
        "Worker `{}` left at {}, {} ago (it was lost, has ended, or was declared dead), and nothing waits for it: there is nothing to do.\n",
        printable(shard),
        date(left_at),
        duration(last_left)
    ))
}

fn millis(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

fn promise(shard: &str, meant: &[MissingInstance]) -> String {
    let mut text = format!(
        "Worker `{}` will count as dead, in these instances:\n",
        printable(shard)
    );
    for missing in meant {
        text.push_str(&format!("  {}\n", described(missing)));
    }
    text.push_str(
        "You promise that the machine or the process of each is dead, and that no process of its tasks is alive.\n\
         Their tasks start again after their `backoff`. If a task is still alive, it then runs twice at the same time.\n",
    );
    text
}

fn described(missing: &MissingInstance) -> String {
    let instance = missing.instance.clone().unwrap_or_default();
    let started = instance.start_time.unwrap_or_default();
    let host = printable(missing.hostname.as_deref().unwrap_or_default());
    let silence = match missing.silent_for_ms {
        Some(ms) => format!(
            "silent for {}, {}",
            duration(millis(ms)),
            match missing.left_for_ms {
                None => {
                    let running = u64::try_from(missing.running_tasks.unwrap_or(0));
                    format!("{} running", counted(running.unwrap_or(0), "task"))
                }
                Some(left) => format!(
                    "lost {} ago, waited for another {} in case its tasks are alive",
                    duration(millis(left)),
                    duration(millis(missing.waits_for_ms.unwrap_or(0)))
                ),
            }
        ),
        None => "not heard of since the scheduler started, so its tasks are unknown".to_owned(),
    };
    format!("on host {host}, started at {}: {silence}", date(started))
}

/// Returns whether the operator confirms the declaration. Asks only on a terminal.
fn confirmed() -> Result<bool> {
    if !std::io::stdin().is_terminal() {
        complain!("brasserie: to confirm, run this command on a terminal, or add --yes");
        return Ok(false);
    }
    print("Type `yes` to promise that: ")?;
    std::io::stdout().flush().context("cannot ask")?;
    gives_promise(std::io::stdin().lock())
}

/// Returns whether the next line is exactly `yes`. The end of the input means no.
fn gives_promise(mut input: impl BufRead) -> Result<bool> {
    let mut answer = String::new();
    input
        .read_line(&mut answer)
        .context("cannot read the answer")?;
    Ok(answer.trim() == "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_word_gives_the_promise() {
        for (typed, promised) in [
            ("yes\n", true),
            ("  yes \r\n", true),
            ("yes", true),
            ("", false),
            ("\n", false),
            ("no\nyes\n", false),
            ("y\n", false),
            ("YES\n", false),
            ("yes, do\n", false),
        ] {
            let answer = gives_promise(typed.as_bytes()).expect("text");
            assert_eq!(answer, promised, "{typed:?}");
        }
    }

    #[test]
    fn the_promise_names_each_instance_and_nothing_of_it_moves_the_cursor() {
        let missing = |silent_for_ms| MissingInstance {
            instance: Some(BistroInstanceID {
                start_time: Some(7),
                rand: Some(8),
            }),
            hostname: Some("h\u{1b}[2J".to_owned()),
            running_tasks: Some(2),
            silent_for_ms,
            left_for_ms: None,
            waits_for_ms: None,
        };
        let text = promise("w\r", &[missing(None), missing(Some(700_000))]);
        assert!(!text.contains('\u{1b}') && !text.contains('\r'), "{text}");
        assert!(
            text.contains("not heard of since the scheduler started"),
            "{text}"
        );
        assert!(
            text.contains("silent for 11 min 40 s, 2 tasks running"),
            "{text}"
        );
        assert!(
            text.contains("started at 1970-01-01 00:00:07 UTC"),
            "{text}"
        );
        assert!(text.contains("no process of its tasks is alive"), "{text}");
    }

    #[test]
    fn forget_asks_about_a_worker_that_left_only_while_the_scheduler_waits_for_it() {
        let missing = |left_for_ms, waits_for_ms| MissingInstance {
            silent_for_ms: Some(700_000),
            left_for_ms,
            waits_for_ms,
            ..MissingInstance::default()
        };
        let lost = missing(Some(90_000), None);
        let now = WallTime::from_secs(100);
        let text = nothing_to_do("w", std::slice::from_ref(&lost), now).expect("a sentence");
        let told = "Worker `w` left at 1970-01-01 00:00:10 UTC, 1 min 30 s ago (";
        assert!(text.contains(told), "{text}");
        let waiting = missing(Some(10_000), Some(56_000));
        let text = promise("w", std::slice::from_ref(&waiting));
        assert!(
            text.contains("lost 10.0 s ago, waited for another 56.0 s"),
            "{text}"
        );
        for others in [missing(None, None), waiting] {
            assert_eq!(nothing_to_do("w", &[lost.clone(), others], now), None);
        }
        assert_eq!(nothing_to_do("w", &[], now), None);
    }
}
