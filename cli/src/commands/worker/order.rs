//! `brasserie worker exclude`, `decommission` and `recommission`: gives orders about workers to their scheduler, and waits for the end of a
//! decommission if the user wants.

use std::time::Duration;

use anyhow::Result;
use brasserie_common::cluster_view::{ClusterView, OrderView, WorkerView};
use brasserie_common::text::{counted, readable_bytes};
use brasserie_common::time::parse_duration;
use brasserie_thrift::generated::brasserie::WorkerOrderRequest;
use nix::unistd::{Uid, User};
use serde_json::{Value, json};

use crate::CommandEnding;
use crate::connection::{AskArgs, Connection, block_on};
use crate::failure::{Failure, is_refused};
use crate::interrupts::Interrupts;
use crate::output::{LastText, print, printable};

/// Time between two checks of the progress, as often as the scheduler makes any.
const BETWEEN_CHECKS: Duration = Duration::from_secs(1);

/// Keep tasks and replicas away from a worker, until `recommission`.
///
/// Running tasks go on, and the worker serves its data as before. Its queued tasks, and those on standby there, go to other workers. The
/// order is on disk when the command ends: it outlives restarts of the scheduler and of the worker.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie worker exclude host7 --reason 'slow disk'
  brasserie worker recommission host7

Exit codes:
  0  the order is on disk
  1  no such worker, or refused
  2  wrong usage")]
pub(super) struct ExcludeArgs {
    #[command(flatten)]
    of: OrderArgs,
}

/// Take a worker out of service without losing its data: copy what only it has, then let it exit.
///
/// The worker gets neither tasks nor replicas any more, and its queued tasks go to other workers. Running tasks complete. Each output that a
/// job may still need and of which no other healthy worker has a copy is copied to another worker. When no task runs and nothing needed is
/// only there, the worker drains and exits with code 0. If it comes back, it stays idle until `recommission`. A worker of several schedulers
/// leaves all of them.
///
/// The order is on disk when the command ends: it outlives restarts of the scheduler and of the worker.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie worker decommission host7 --reason 'new disk' --wait    returns when the worker has exited
  brasserie worker decommission host7 --deadline 2h                 after two hours the worker ends, whatever is left
  brasserie worker recommission host7                               back into service, also half way

Exit codes:
  0    the order is on disk, or with --wait: the worker is decommissioned
  1    no such worker, or refused; with --wait also: another order has replaced this one
  2    wrong usage
  5    with --wait: the deadline has ended the worker, and outputs that only it had are lost, or may be
  130  interrupted while waiting: the decommission continues")]
pub(super) struct DecommissionArgs {
    #[command(flatten)]
    of: OrderArgs,
    /// End the worker after this time, such as 30m or 2h, even if its tasks run or data is only there. It then exits with code 1. The tasks
    /// run again elsewhere. `--wait` and the scheduler's log say how many outputs are lost [default: no limit].
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    deadline: Option<Duration>,
    /// Let the worker stay when it is done, without tasks and needed data.
    #[arg(long)]
    then_idle: bool,
    /// Wait until the worker is decommissioned and has exited, and show the progress.
    #[arg(long)]
    wait: bool,
}

/// End an exclusion or a decommission: the worker gets tasks again at once.
///
/// A worker that drains already exits nevertheless, and gets tasks when it is started again. The command says so, and also if the worker is
/// not connected.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Try it:
  brasserie worker recommission host7

Exit codes:
  0  there is no order about the worker any more
  1  no such worker, or refused
  2  wrong usage")]
pub(super) struct RecommissionArgs {
    /// The worker's name, as `brasserie status` shows it.
    #[arg(value_name = "NAME")]
    shard: String,
    #[command(flatten)]
    ask: AskArgs,
}

#[derive(Debug, clap::Args)]
struct OrderArgs {
    /// The worker's name, as `brasserie status` shows it.
    #[arg(value_name = "NAME")]
    shard: String,
    /// The reason, which `status`, `explain` and the scheduler's log show.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    reason: String,
    #[command(flatten)]
    ask: AskArgs,
}

pub(super) fn exclude(args: &ExcludeArgs) -> Result<CommandEnding> {
    let of = &args.of;
    let request = request("exclude", &of.reason);
    let scheduler = of.ask.connect_for_changes()?;
    let ordered = block_on(scheduler.order_worker(&of.shard, request))??;
    say(&of.ask, ordered, |order| {
        let shard = printable(&order.shard);
        format!(
            "Worker `{shard}` is excluded: it gets no tasks until `brasserie worker recommission`."
        )
    })
}

pub(super) fn recommission(args: &RecommissionArgs) -> Result<CommandEnding> {
    let scheduler = args.ask.connect_for_changes()?;
    let request = request("recommission", "");
    let (ordered, status) = block_on(async {
        let ordered = scheduler.order_worker(&args.shard, request).await?;
        // The order is over, whatever its worker does.
        let status = scheduler.bounded_status().await;
        anyhow::Ok((ordered, status.ok().map(ClusterView::from)))
    })??;
    let workers = status.iter().flat_map(|status| &status.workers);
    let mut workers = workers.filter(|worker| worker.shard == args.shard);
    let worker = workers.next();
    match ordered {
        Ok(_) => {
            let document = json!({ "order": null, "worker": worker });
            let is_known = status.is_some();
            args.ask
                .say(&in_service(&args.shard, worker, is_known), &document)?;
            Ok(CommandEnding::Success)
        }
        refused => say(&args.ask, refused, |_| String::new()),
    }
}

/// Says that no order about a worker is in force, and when it gets tasks. `is_known` is false if the scheduler has not answered about it.
fn in_service(shard: &str, worker: Option<&WorkerView>, is_known: bool) -> String {
    let begin = format!("Worker `{}` is in service", printable(shard));
    let is_here = |worker: &&WorkerView| worker.state != "lost";
    match worker.filter(is_here).map(|worker| worker.state.as_str()) {
        Some("healthy") => format!("{begin}: it gets tasks."),
        Some("draining") => {
            format!("{begin}, but it drains and exits: it gets tasks when it is started again.")
        }
        Some(state) => format!(
            "{begin}, and {}: it gets tasks once it is healthy.",
            printable(state)
        ),
        None if is_known => {
            format!("{begin}, but not connected: it gets tasks when it is started.")
        }
        None => format!("{begin}: it gets tasks once it is connected and healthy."),
    }
}

pub(super) fn decommission(args: &DecommissionArgs) -> Result<CommandEnding> {
    block_on(async {
        let (shard, ask) = (&args.of.shard, &args.of.ask);
        let scheduler = ask.connect_for_changes()?;
        let deadline = args.deadline.map(|left| left.as_millis());
        let request = WorkerOrderRequest {
            deadline_ms: deadline.map(|ms| i64::try_from(ms).unwrap_or(i64::MAX)),
            then_idle: Some(args.then_idle),
            ..request("decommission", &args.of.reason)
        };
        let ordered = scheduler.order_worker(shard, request).await?;
        let begun = |order: &OrderView| in_decommission(shard, order);
        let order = match ordered {
            Ok(order) if args.wait => order,
            ordered => return say(ask, ordered, begun),
        };
        if !ask.json && !order.is_over() {
            print(&format!("{}\n", begun(&order)))?;
        }
        let mut interrupts = Interrupts::listen()?;
        tokio::select! {
            ended = wait(&scheduler, args, order) => ended,
            () = interrupts.next() => {
                let still = format!("The decommission of worker `{}` continues.", printable(shard));
                ask.say(&still, &json!({ "worker": shard, "done": false }))?;
                Ok(CommandEnding::Interrupted)
            }
        }
    })?
}

/// Says how far a decommission is. An earlier command may have ended it.
fn in_decommission(shard: &str, order: &OrderView) -> String {
    let shard = printable(shard);
    match order.is_over() {
        false => format!(
            "Worker `{shard}` is being decommissioned: {}.",
            order.left()
        ),
        true => format!(
            "Worker `{shard}` is decommissioned, and {}{}.",
            state(order),
            loss(order)
        ),
    }
}

/// Returns the state of a worker whose decommission is over.
fn state(order: &OrderView) -> &'static str {
    match order.connected {
        true => "stays idle",
        false => "has left",
    }
}

/// Says what a deadline has cost, as the end of a sentence.
fn loss(order: &OrderView) -> String {
    match order.lost {
        0 if order.loss_unknown => {
            ". At its deadline it was away, or had not listed its outputs: those that were only there are lost, and how many is not known"
                .to_owned()
        }
        0 => String::new(),
        lost => format!(
            ". At its deadline, {} ({}) {} only there and lost: tasks that need one have it made again",
            counted(lost, "output"),
            readable_bytes(order.lost_bytes),
            if lost == 1 { "was" } else { "were" },
        ),
    }
}

fn request(order: &str, reason: &str) -> WorkerOrderRequest {
    WorkerOrderRequest {
        order: Some(order.to_owned()),
        reason: Some(reason.to_owned()),
        deadline_ms: None,
        then_idle: None,
        user: User::from_uid(Uid::current())
            .ok()
            .flatten()
            .map(|user| user.name),
    }
}

fn say(
    ask: &AskArgs,
    ordered: Result<OrderView, String>,
    sentence: impl Fn(&OrderView) -> String,
) -> Result<CommandEnding> {
    match ordered {
        Ok(order) => {
            ask.say(&sentence(&order), &json!({ "order": order }))?;
            Ok(CommandEnding::Success)
        }
        Err(refusal) => Err(Failure::new(format!(
            "the scheduler refused the order: {}",
            printable(&refusal)
        ))
        .into()),
    }
}

/// Waits until the decommission is over, and prints each change of what is left.
async fn wait(
    scheduler: &Connection,
    args: &DecommissionArgs,
    given: OrderView,
) -> Result<CommandEnding> {
    let (shard, ask) = (printable(&args.of.shard), &args.of.ask);
    let (mut trouble, mut left) = (LastText::default(), LastText::default());
    left.changed(given.left());
    loop {
        let status = match scheduler.bounded_status().await {
            Ok(status) => ClusterView::from(status),
            Err(error) if is_refused(&error) => return Err(error),
            Err(error) => {
                trouble.complain(format!("{error:#}; trying again"));
                tokio::time::sleep(BETWEEN_CHECKS).await;
                continue;
            }
        };
        trouble = LastText::default();
        let document = |done: bool, order: Option<&OrderView>| -> Value {
            json!({ "worker": args.of.shard, "done": done, "order": order })
        };
        let now = status
            .orders
            .iter()
            .find(|order| order.shard == args.of.shard);
        let order = match now {
            Some(order) if order.since_ms == given.since_ms => order,
            other => {
                let text = format!("Another order about worker `{shard}` has replaced this one.");
                ask.say(&text, &document(false, other))?;
                return Ok(CommandEnding::Failure);
            }
        };
        if order.is_over() {
            ask.say(
                &in_decommission(&args.of.shard, order),
                &document(true, Some(order)),
            )?;
            return Ok(match order.lost > 0 || order.loss_unknown {
                true => CommandEnding::OutputsLost,
                false => CommandEnding::Success,
            });
        }
        let change = left.changed(order.left()).filter(|_| !ask.json);
        if let Some(change) = change {
            print(&format!("Worker `{shard}`: {change}.\n"))?;
        }
        tokio::time::sleep(BETWEEN_CHECKS).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decommission_that_is_over_does_not_seem_to_begin() {
        let text = |state: &str, connected: bool| {
            let order = OrderView {
                state: state.to_owned(),
                connected,
                ..OrderView::default()
            };
            in_decommission("w", &order)
        };
        let going_on = text("decommissioning", true);
        assert!(
            going_on.starts_with("Worker `w` is being decommissioned: 0 tasks run, "),
            "{going_on}"
        );
        assert_eq!(
            text("decommissioned", true),
            "Worker `w` is decommissioned, and stays idle."
        );
        assert_eq!(
            text("decommissioned", false),
            "Worker `w` is decommissioned, and has left."
        );
        let lossy = OrderView {
            state: "decommissioned".to_owned(),
            lost: 5,
            lost_bytes: 98,
            ..OrderView::default()
        };
        let lossy = in_decommission("w", &lossy);
        assert!(
            lossy.contains(
                "and has left. At its deadline, 5 outputs (98 B) were only there and lost"
            ),
            "{lossy}"
        );
    }

    #[test]
    fn a_recommission_says_when_the_worker_gets_tasks() {
        let text = |state: &str| {
            let worker = WorkerView {
                state: state.to_owned(),
                ..WorkerView::default()
            };
            in_service("w\n", Some(&worker), true)
        };
        assert_eq!(
            text("healthy"),
            r"Worker `w\n` is in service: it gets tasks."
        );
        assert!(text("draining").contains("drains and exits"));
        assert!(text("unhealthy").contains(", and unhealthy: it gets tasks once"));
        let away = in_service("w", None, true);
        assert_eq!(text("lost"), in_service("w\n", None, true));
        assert!(away.contains("not connected"), "{away}");
        assert!(!in_service("w", None, false).contains("not connected"));
    }
}
