//! The reasons for which requests of workers and operators are refused. Those for changes of jobs are in `jobs/refusal.rs`.

use std::net::IpAddr;
use std::time::Duration;

use brasserie_common::{NotPermitted, SchedulerId, Shard, WorkerId};

use crate::news::seconds;
use crate::orders::{MAX_ORDERS, MAX_REASON_BYTES};
use crate::owners::NotOwner;

/// The longest time that a reply waits for its record. A working disk syncs within a second even under load, so only a store without
/// progress takes longer. The limit is far below the time after which a worker counts its scheduler as lost, so that heartbeats find
/// capacity among calls that wait.
pub const MAX_REPLY_WAIT: Duration = Duration::from_secs(5);

/// The reason for which a request was refused. Bad input is counted and reported; it never crashes the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    #[error(
        "it speaks protocol version {theirs}, the scheduler {ours}; run the same release on both"
    )]
    ProtocolVersion { theirs: i16, ours: i16 },
    #[error(
        "worker instance {incumbent} holds shard `{shard}` and is not lost; a newcomer gets the shard when it is. If both are meant to run, give each its own --shard"
    )]
    ShardTaken { shard: String, incumbent: WorkerId },
    #[error(
        "worker instance {instance} was told to end itself when it claimed a taken shard, and that request may still arrive; \
         it is let in once the request is over"
    )]
    AskedToDie { instance: WorkerId },
    #[error("a later instance {successor} of this worker has already associated")]
    StaleInstance { successor: WorkerId },
    #[error("addressed to scheduler instance {theirs}, but this is {ours}")]
    WrongScheduler {
        theirs: SchedulerId,
        ours: SchedulerId,
    },
    #[error("no worker is associated for shard `{shard}`")]
    UnknownShard { shard: String },
    #[error(transparent)]
    NotPermitted(#[from] NotPermitted),
    #[error(transparent)]
    NotOwner(#[from] NotOwner),
    #[error(
        "worker instance {incumbent} holds shard `{shard}` and is healthy; a worker at {theirs} says that it is its successor on the same \
         machine, and the machine is at {ours}. If the machine has moved, wait until the old instance is not healthy any more. If not, its key is \
         in other hands: brasserie worker revoke {shard}"
    )]
    OtherMachine {
        shard: String,
        incumbent: WorkerId,
        theirs: IpAddr,
        ours: IpAddr,
    },
    #[error("worker instance {worker} is not associated")]
    UnknownWorker { worker: WorkerId },
    #[error("shard `{shard}` is held by worker instance {ours}, not by {theirs}")]
    WrongWorker {
        shard: String,
        theirs: WorkerId,
        ours: WorkerId,
    },
    #[error("the running tasks of this worker are not fetched yet; try again")]
    StillNew,
    #[error(
        "worker instance {instance} came with shard `{shard}` and machine lock {lock} before; these never change, so this \
         heartbeat is refused"
    )]
    IdentityChanged {
        instance: WorkerId,
        shard: String,
        lock: String,
    },
    #[error(
        "the pool has {limit} shards, as many as it takes, all with workers; end some workers, or let several use one shard \
         name one after another"
    )]
    PoolFull { limit: usize },
    #[error("{run} was given up and another run of the task is under way; its end is not taken")]
    Superseded { run: String },
    #[error(
        "{run} is not known here: it was neither started by this scheduler nor listed by its worker"
    )]
    UnknownRun { run: String },
    #[error("this scheduler has stepped down for the newer instance {newer}")]
    SteppedDown { newer: SchedulerId },
    #[error("{0}")]
    NotRunning(String),
    #[error("the worker did not accept the kill request: {0}")]
    KillFailed(String),
    #[error("the name in field {0} is empty")]
    EmptyName(&'static str),
    #[error("the store cannot write, so this is not taken; send it again: {why}")]
    StoreFails { why: String },
    #[error(
        "the store has not synced the record of this request for {} s, so whether it lasts is not known; send it again",
        MAX_REPLY_WAIT.as_secs()
    )]
    NotDurableYet,
    #[error(
        "the same status came again while its record was not durable; the later call gets the answer"
    )]
    Repeated,
}

/// Advice on how to report to the scheduler that a worker's tasks are dead.
const REPORT_IT: &str = "If you can, start it again in its data directory, or end it by SIGTERM (not SIGKILL) if it runs: then the \
     scheduler knows at once that its old tasks are dead";

/// The reason for which no worker is declared dead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetRefusal {
    /// The store did not confirm the declaration in time, so it may last or not. Every other refusal guarantees that nothing changed.
    #[error(
        "the store has not synced a record for {} s, so whether workers are declared dead is not known; repeat the command once \
         `brasserie status` shows no error of the store",
        MAX_REPLY_WAIT.as_secs()
    )]
    NotDurableYet,
    #[error(
        "worker `{shard}` (instance {instance}) last answered {} ago, so it may be alive. {REPORT_IT}. Else try again in {}, if it \
         stays silent",
        seconds(*.ago),
        seconds(*.accepted_in)
    )]
    Answered {
        shard: Shard,
        instance: WorkerId,
        ago: Duration,
        accepted_in: Duration,
    },
    #[error(
        "worker `{shard}` (instance {instance}) has not reported to this scheduler since its start, but an earlier scheduler may have \
         answered it {} ago, so it may be alive. {REPORT_IT}. Else try again in {}, if it stays silent",
        seconds(*.ago),
        seconds(*.accepted_in)
    )]
    AnsweredBefore {
        shard: Shard,
        instance: WorkerId,
        ago: Duration,
        accepted_in: Duration,
    },
    #[error(
        "this scheduler stood still until {} ago, so worker `{shard}` (instance {instance}) may be alive without having been heard. \
         {REPORT_IT}. Else try again in {}, if it stays silent",
        seconds(*.ago),
        seconds(*.accepted_in)
    )]
    Paused {
        shard: Shard,
        instance: WorkerId,
        ago: Duration,
        accepted_in: Duration,
    },
    #[error(
        "no worker called `{shard}` is here or waited for; if it was declared dead or left before this scheduler started, there is nothing to \
         do. The scheduler knows {}",
        known_names(.known)
    )]
    Unknown { shard: Shard, known: Vec<Shard> },
    #[error(
        "instance {instance} is not a missing one of worker `{shard}` (any more): look again with `brasserie status`, then repeat \
         the command"
    )]
    Changed { shard: Shard, instance: WorkerId },
    #[error("the store cannot write, so no declaration would last: {0}")]
    StoreFails(String),
    #[error("this scheduler has stepped down for the newer instance {newer}")]
    SteppedDown { newer: SchedulerId },
}

/// The reason for which an order about a worker is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    /// The store did not confirm the order in time, so it may last or not. Every other refusal guarantees that nothing changed.
    #[error(
        "the store has not synced a record for {} s, so whether the order lasts is not known; repeat the command once `brasserie status` \
         shows no error of the store",
        MAX_REPLY_WAIT.as_secs()
    )]
    NotDurableYet,
    #[error(
        "no worker called `{shard}` is here, is waited for or has left lately. The scheduler knows {}",
        known_names(.known)
    )]
    Unknown { shard: Shard, known: Vec<Shard> },
    #[error("the reason has {bytes} bytes; give one of at most {MAX_REASON_BYTES}")]
    LongReason { bytes: usize },
    #[error(
        "worker `{shard}` is decommissioned, or about to be, so it gets no tasks anyway; to exclude it in place of that, give the order \
         `brasserie worker recommission {shard}` first"
    )]
    Leaves { shard: Shard },
    #[error(
        "there are {MAX_ORDERS} orders about workers, the most that a scheduler keeps; end some with `brasserie worker recommission`"
    )]
    TooMany,
    #[error("the store cannot write, so no order would last: {0}")]
    StoreFails(String),
    #[error("this scheduler has stepped down for the newer instance {newer}")]
    SteppedDown { newer: SchedulerId },
}

fn known_names(known: &[Shard]) -> String {
    let names: Vec<String> = known.iter().map(|shard| format!("`{shard}`")).collect();
    match names.is_empty() {
        true => "no worker".to_owned(),
        false => names.join(", "),
    }
}
