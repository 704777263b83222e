//! `brasserie worker work-fetch`: shows from which schedulers a worker requests work, how much, and why it requests none.

mod fetch_now;
mod json;
mod text;

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use anyhow::{Result, anyhow};
use brasserie_common::ServiceAddress;
use brasserie_common::work_overview::Overview;
use brasserie_common_runtime::net::parse_peer;
use brasserie_thrift::rpc::PeerAddr;
use clap::builder::NonEmptyStringValueParser;
use serde_json::Value;

use crate::CommandEnding;
use crate::addresses::peer;
use crate::connection::{Connection, block_on};
use crate::destination::SchedulerArgs;
use crate::failure::is_refused;
use crate::output::{
    Layout, OutputReader, complain, json_text, print, print_json, print_on, print_raw, with_flag,
};

use super::asking::{self, Answer, AskedWorker, WorkerConnections};

/// Interval of `--watch`. People can follow waits of seconds, and a request costs a worker about as much as a work request.
const BETWEEN_LOOKS: Duration = Duration::from_secs(2);
/// Moves the cursor home and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Show one worker in full, or one line for each worker and scheduler.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A worker that was started with --work-fetch requests work when it has less work than its low water
mark, and then enough to reach its high water mark. The columns:
  saturated    the time for which the present tasks keep all processors of a type busy
  shortfall    the instance-seconds that are missing to keep them busy until the high water mark
  busy         the time for which tasks in danger of missing their deadlines occupy all of them
  got          REC: the scheduler's part of the worker's recent computing
  share        the scheduler's part of all shares
  priority     got compared with share, less the queued work: 0 if the scheduler got nothing, -1 if
               it got its share; the worker asks the scheduler with the highest priority first
  may have     the part of the processors that the scheduler may get in the present requests
  not asked    why the worker does not ask the scheduler, or not for this type; a backoff shows its end

Try it:
  brasserie worker work-fetch                           all workers of the scheduler here
  brasserie worker work-fetch w1 --scheduler s1:6789    one, by the scheduler that knows it
  brasserie worker work-fetch --worker host7:40123      one, by its address alone
  brasserie worker work-fetch w1 --watch                again every two seconds, until Ctrl-C
  brasserie worker work-fetch --json --watch            for programs: one document a line
  brasserie worker work-fetch w1 --now                  have it ask all its schedulers for work at once
  brasserie worker work-fetch w1 --now --from s2:6789   ... or only this one

With --now the worker cancels its own waits: its backoffs after failures, and after requests that returned no work. It keeps the
waits that a scheduler has requested, and all other waits that the output then shows. The worker requests the work that it lacks,
which may be none.

Exit codes:
  0  shown; with --now: each scheduler is asked, at once or when what the answer names is over
  1  nobody could be asked, there is no such worker, or it takes what it is sent, as do all of several;
     --json gives its document all the same, if anybody was asked; with --now: the worker was not told, has no such
     scheduler, or does not ask one of them
  2  wrong usage")]
pub(crate) struct WorkFetchArgs {
    /// The worker, by its name in `brasserie status` [default: all].
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    shard: Option<String>,
    #[command(flatten)]
    scheduler: SchedulerArgs,
    /// Ask the worker at this address. The scheduler is called only if there is a token or a context for it, or its local socket: it certifies
    /// you to the worker.
    #[arg(long, value_name = "HOST:PORT", conflicts_with_all = ["shard", "scheduler"], value_parser = worker_address)]
    worker: Option<PeerAddr>,
    /// Print one JSON document instead of tables; with `--watch`, one a line.
    #[arg(long)]
    json: bool,
    /// Repeat until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// Make the worker request work from its schedulers now, without the waits that it has chosen itself. If there are several workers,
    /// name one.
    #[arg(long, conflicts_with = "watch")]
    now: bool,
    /// Request work only from this one of the worker's schedulers; use an address that the output without --now shows. Needs --now.
    #[arg(long, value_name = "HOST:PORT", requires = "now", value_parser = parse_peer)]
    from: Option<ServiceAddress>,
}

/// The workers to show.
#[derive(Clone, Debug, PartialEq)]
enum Whom {
    Address(PeerAddr),
    Shard(String),
    All,
}

/// The result to show.
#[derive(Debug)]
enum WorkFetchResult {
    One(AskedWorker),
    All(Vec<AskedWorker>),
}

impl WorkFetchResult {
    /// Returns the worker if it is the only one, so that its details are shown.
    fn single(&self) -> Option<&AskedWorker> {
        match self {
            WorkFetchResult::One(asked) => Some(asked),
            WorkFetchResult::All(all) => match all.as_slice() {
                [one] => Some(one),
                _ => None,
            },
        }
    }
}

pub(crate) fn run(args: &WorkFetchArgs) -> Result<CommandEnding> {
    let whom = whom(args);
    let scheduler = Connection::to(&args.scheduler)?;
    let pool = block_on(WorkerConnections::of(&scheduler))??;
    let look = WorkFetchQuery {
        whom,
        scheduler_address: scheduler.address().to_owned(),
        scheduler,
        flag: args.scheduler.flag(),
        pool,
    };
    if args.now {
        return fetch_now::run(&look, args.from.as_ref(), args.json);
    }
    if !args.watch {
        let seen = block_on(look.once())??;
        if args.json {
            // The document has the error, too.
            print_json(&document(&seen))?;
            if let Err(error) = something(&seen) {
                complain!("brasserie: {error:#}");
                return Ok(CommandEnding::Failure);
            }
        } else {
            print(&show(&seen, &look.flag)?)?;
        }
        return Ok(CommandEnding::Success);
    }
    block_on(async {
        tokio::select! {
            ended = watch(&look, args.json) => ended,
            _ = tokio::signal::ctrl_c() => Ok(CommandEnding::Success),
        }
    })?
}

fn worker_address(text: &str) -> Result<PeerAddr, String> {
    peer(text).ok_or_else(|| {
        "no worker address; write HOST:PORT, as `brasserie status` shows it".to_owned()
    })
}

fn whom(args: &WorkFetchArgs) -> Whom {
    match (&args.worker, &args.shard) {
        (Some(peer), _) => Whom::Address(peer.clone()),
        (None, Some(shard)) => Whom::Shard(shard.clone()),
        (None, None) => Whom::All,
    }
}

/// The workers to show, and the connections for it.
struct WorkFetchQuery {
    whom: Whom,
    scheduler: Connection,
    scheduler_address: String,
    /// The flag that names the scheduler to another command.
    flag: String,
    pool: WorkerConnections,
}

impl WorkFetchQuery {
    async fn once(&self) -> Result<WorkFetchResult> {
        if let Whom::Address(peer) = &self.whom {
            return Ok(WorkFetchResult::One(self.pool.ask_address(peer).await));
        }
        let status = self.scheduler.bounded_status().await?;
        let workers = asking::workers(&status, &self.scheduler_address)?;
        match &self.whom {
            Whom::Shard(shard) => {
                let known = asking::find(workers, shard)?;
                Ok(WorkFetchResult::One(self.pool.ask(known).await))
            }
            Whom::All | Whom::Address(_) => {
                Ok(WorkFetchResult::All(self.pool.ask_all(workers).await))
            }
        }
    }
}

/// Shows the workers repeatedly. A worker that does not answer may answer the next time.
async fn watch(look: &WorkFetchQuery, as_json: bool) -> Result<CommandEnding> {
    let is_screen = !as_json && stdout().is_terminal();
    loop {
        let seen = match look.once().await {
            Err(error) if is_refused(&error) => return Err(error),
            seen => seen,
        };
        let shown = seen.and_then(|seen| match as_json {
            true => Ok(json_text(&document(&seen), Layout::OneLine)),
            false => show(&seen, &look.flag),
        });
        let text = match shown {
            Ok(text) => text,
            // The error replaces the output on a screen. Programs read documents only, so their error goes to standard error.
            Err(error) if as_json => {
                complain!("brasserie: {error:#}");
                String::new()
            }
            Err(error) => format!("{error:#}\n"),
        };
        let reader = match (is_screen, as_json) {
            (true, _) => print_raw(CLEAR).and_then(|_: OutputReader| print_on(&text))?,
            (false, true) => print_raw(&text)?,
            (false, false) => print_on(&format!("{text}\n"))?,
        };
        if reader == OutputReader::Gone {
            return Ok(CommandEnding::Success);
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Formats the result for people. `flag` names the scheduler to another command.
fn show(seen: &WorkFetchResult, flag: &str) -> Result<String> {
    something(seen)?;
    match (seen, seen.single()) {
        (_, Some(one)) => Ok(text::one(one, shown(one)?)),
        (WorkFetchResult::All(all), None) => Ok(with_flag(&text::all(all), flag)),
        (WorkFetchResult::One(_), None) => Ok(String::new()),
    }
}

/// Fails if the only worker, or every worker, has nothing to show.
fn something(seen: &WorkFetchResult) -> Result<()> {
    let all = match seen {
        WorkFetchResult::One(one) => std::slice::from_ref(one),
        WorkFetchResult::All(all) => all,
    };
    if let [one] = all {
        return shown(one).map(|_| ());
    }
    if all.iter().any(|one| shown(one).is_ok()) {
        return Ok(());
    }
    let count = all.len();
    let silent = all.iter().filter_map(|one| one.answer.as_ref().err());
    let (unheard, first) = (silent.clone().count(), silent.into_iter().next());
    match first {
        Some(first) if unheard == count => {
            Err(anyhow!("{first} (none of {count} workers answered)"))
        }
        Some(first) => Err(anyhow!(
            "{first} ({unheard} of {count} workers did not answer, and the others take what they are sent)"
        )),
        None => Err(anyhow!(
            "all {count} workers take what they are sent and ask for nothing; to have them ask for work, start them with `--work-fetch`"
        )),
    }
}

/// Returns a worker's overview, or why there is none.
fn shown(one: &AskedWorker) -> Result<&Overview> {
    match &one.answer {
        Ok(Answer {
            overview: Some(overview),
            ..
        }) => Ok(overview),
        Ok(Answer { overview: None, .. }) => Err(anyhow!(
            "{} takes what it is sent and asks for nothing; to have it ask for work, start it with `--work-fetch`",
            one.called()
        )),
        Err(error) => Err(anyhow!("{error}")),
    }
}

fn document(seen: &WorkFetchResult) -> Value {
    match seen {
        WorkFetchResult::One(one) => json::one(one),
        WorkFetchResult::All(all) => json::all(all),
    }
}

#[cfg(test)]
mod tests;
