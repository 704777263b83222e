//! Messages about the initial wait: why no task starts, for how long, and what an operator can do.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::text::counted;
use brasserie_common::time::format_duration;
use brasserie_common::{Shard, Time, Timeouts};

use super::{Basis, Expected, InitialWait, Witness};
use crate::news::seconds;
use crate::pool::consensus::FormerSet;

/// The most workers named in one message: enough to begin a search, and short enough for a line.
pub const MAX_NAMED: usize = 10;

/// How an operator who knows more than the scheduler ends a wait.
pub const FORGET: &str = "if the machine or the process of one is dead for certain, with all its tasks, `brasserie worker forget NAME` ends the \
     wait for it";

/// Facts that the message of a wait depends on and that the wait itself does not hold.
pub struct WaitContext<'a> {
    pub former: FormerSet,
    /// The workers whose tasks are not known, if the wait depends only on them.
    pub untold: &'a [&'a Shard],
    pub store: StoreState,
    /// How an operator ends the wait for these workers, and from when on the scheduler accepts it.
    pub forget: &'a str,
}

/// Whether a worker that comes back can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreState {
    Works,
    Fails,
}

fn workers(count: usize) -> String {
    counted(count as u64, "worker")
}

fn have(count: usize) -> &'static str {
    if count == 1 { "has" } else { "have" }
}

fn are(count: usize) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

impl InitialWait {
    /// Returns the warning about the operator's wait, until the safe wait is over.
    pub(crate) fn warning(&self, now: Time) -> Option<String> {
        self.warning.clone().filter(|_| now < self.safe_at)
    }

    /// Returns whether the message says how an operator ends the wait for workers. `has_untold`: the wait depends only on workers whose
    /// tasks are not known.
    pub(crate) fn names_workers(&self, has_untold: bool) -> bool {
        self.over.is_none() && (self.basis == Basis::Record || has_untold)
    }

    /// Returns why no task starts and what an operator can do; `None` once tasks may start.
    pub(crate) fn message(&self, now: Time, context: &WaitContext<'_>) -> Option<String> {
        let WaitContext {
            former,
            untold,
            store: _,
            forget,
        } = context;
        if self.over.is_none() && !untold.is_empty() {
            let shown: Vec<String> = untold
                .iter()
                .take(MAX_NAMED)
                .map(|s| format!("`{s}`"))
                .collect();
            return Some(format!(
                "initial wait: nothing starts until {} ({}) {} reported running tasks, or {} lost; all else that was waited for \
                 is over; {forget}",
                workers(untold.len()),
                shown.join(", "),
                have(untold.len()),
                are(untold.len())
            ));
        }
        if self.over.is_none() {
            let mut message = self.waiting_message(now, context);
            if self.may_end_by_consensus() {
                message.push_str(". ");
                message.push_str(&self.consensus_message(now, *former));
            }
            return Some(message);
        }
        let left = seconds(self.hold_back_until()?.since(now));
        Some(match self.hold_back_is_old() {
            true => format!(
                "hold-back: nothing starts for another {left}: an earlier scheduler had to hold everything back and ended before that was over"
            ),
            false => format!(
                "hold-back: nothing starts for another {left}: a worker was lost before its running tasks were known; {FORGET}"
            ),
        })
    }

    fn waiting_message(&self, now: Time, context: &WaitContext<'_>) -> String {
        let left = match self.startup_wait {
            Some(wait) => seconds((self.start + wait).since(now)),
            None => seconds(self.ends_by().since(now)),
        };
        let why = match self.startup_wait {
            Some(wait) => format!(
                "--caution-startup-wait-for-workers {} is not over",
                format_duration(wait)
            ),
            None => self.what_is_not_known(now, context),
        };
        format!("initial wait: nothing starts for up to {left}: {why}")
    }

    /// Returns the latest end of the wait, unless a worker returns and the wait for its tasks goes on.
    fn ends_by(&self) -> Time {
        let last = self.expected.values().map(|e| e.dead_at).max();
        match self.basis {
            Basis::Record => last.map_or(self.safe_at, |last| last.min(self.safe_at)),
            Basis::NewCluster | Basis::Nothing | Basis::Stale(_) | Basis::Restored => self.safe_at,
        }
    }

    /// Returns the number of missing workers, and their names with the time since when each is silent. A worker with several missing
    /// instances is named once.
    fn missing_workers(&self, now: Time) -> (usize, String) {
        let mut workers: BTreeMap<&Shard, (usize, Option<Time>, Time)> = BTreeMap::new();
        for expected in self.expected.values() {
            let Expected {
                instance,
                dead_at: _,
                unanswered_since,
                heard_at,
            } = expected;
            let (instances, last, since) = workers.entry(&instance.shard).or_default();
            *instances += 1;
            *last = (*last).max(*heard_at);
            *since = (*since).max(unanswered_since.unwrap_or(self.start));
        }
        let named = workers.iter().take(MAX_NAMED);
        let mut names: Vec<String> = named
            .map(|(shard, (instances, last, since))| {
                let instances = match instances {
                    1 => String::new(),
                    many => format!("{many} instances, "),
                };
                let heartbeat = match last {
                    Some(at) => format!("last heartbeat {} ago", seconds(now.since(*at))),
                    None => format!("silent for {} at least", seconds(now.since(*since))),
                };
                format!("`{shard}`: {instances}{heartbeat}")
            })
            .collect();
        if workers.len() > MAX_NAMED {
            names.push(format!("{} more", workers.len() - MAX_NAMED));
        }
        (workers.len(), names.join("; "))
    }

    fn what_is_not_known(&self, now: Time, context: &WaitContext<'_>) -> String {
        let WaitContext { store, forget, .. } = context;
        match &self.basis {
            Basis::Nothing => "this data directory is new, so workers of an earlier scheduler may still run tasks. \
                 If no scheduler ever ran for these workers, stop this one and the workers that have connected, remove its \
                 data directory, which holds nothing yet, start it with --new-cluster, then the workers"
                .to_owned(),
            Basis::NewCluster => "the new cluster is about to start".to_owned(),
            Basis::Record => {
                let (count, names) = self.missing_workers(now);
                if *store == StoreState::Fails {
                    return format!(
                        "{} of the time before the restart cannot be taken back while the store cannot write ({names}). Mend the \
                         disk soon: workers end their tasks when they have waited for too long",
                        workers(count)
                    );
                }
                format!(
                    "{} of the time before the restart {} not reported running tasks yet ({names}). Start the missing workers \
                     again, or wait; {forget}",
                    workers(count),
                    have(count)
                )
            }
            Basis::Restored => "this data directory was restored from a backup, which may lack workers and tasks, so nothing \
                 starts sooner, even if all workers come back. Leave --after-restoring-a-backup out the next time"
                .to_owned(),
            Basis::Stale(Witness::Scheduler(id)) => format!(
                "a worker knew scheduler instance {id}, which this data directory does not remember: an old backup, the \
                 wrong directory, a disk that is not mounted, or --new-cluster for workers that have had a scheduler. If \
                 the right directory exists, stop this scheduler now and start it there"
            ),
            Basis::Stale(Witness::Worker(id)) => format!(
                "worker instance {id} worked for a scheduler of this data directory, which does not remember it: an old \
                 backup"
            ),
        }
    }

    /// Returns how close the wait is to an end by consensus.
    fn consensus_message(&self, now: Time, former: FormerSet) -> String {
        let way =
            "It ends sooner once exactly the workers of an earlier scheduler's last set are here";
        if !self.expected.is_empty() {
            return format!(
                "{way}, and the {} that this directory remembers {} come back too",
                workers(self.expected.len()),
                have(self.expected.len())
            );
        }
        match former {
            FormerSet::NoWorkers => format!("{way}; none has come yet"),
            FormerSet::Strangers(count) => format!(
                "{way}; {} {} never had a scheduler, and so {} not part of such a set: stop such workers until this wait is \
                 over, or wait",
                workers(count),
                have(count),
                are(count)
            ),
            FormerSet::NotSettled(count) => format!(
                "{way}; the set of {} does not count: the scheduler that gave it was still waiting for others, or is of a \
                 release that does not say",
                workers(count)
            ),
            FormerSet::Differing(count) => {
                format!("{way}; those that are here know {count} different sets")
            }
            FormerSet::Incomplete { here, of } => {
                format!("{way}; {here} of {of} workers of the former set are here")
            }
            FormerSet::OtherMembers => {
                format!("{way}; those that are here are not the ones of the set that they name")
            }
            FormerSet::Complete(count) if now < self.consensus_at => format!(
                "All {count} workers of the former set are here: it ends in {}, when a worker that was lost just before \
                 must have killed its tasks",
                seconds(self.consensus_at.since(now))
            ),
            FormerSet::Complete(count) => format!(
                "All {count} workers of the former set are here: it ends when all have told their running tasks"
            ),
        }
    }
}

/// Returns a warning if the operator's own wait is too short.
pub(super) fn startup_wait_warning(wait: Duration, timeouts: &Timeouts) -> Option<String> {
    let flag = format!(
        "--caution-startup-wait-for-workers {}",
        format_duration(wait)
    );
    let (gap, safe) = (timeouts.max_healthcheck_gap(), timeouts.min_safe_wait());
    if wait < gap {
        Some(format!(
            "{flag} is shorter than {}, the time in which every healthy worker shows itself: a task that runs on one may be started \
             a second time",
            format_duration(gap)
        ))
    } else if wait < safe {
        Some(format!(
            "{flag} is shorter than the safe wait of {}: a task that runs on a worker without a connection to it may be \
             started a second time",
            format_duration(safe)
        ))
    } else {
        None
    }
}
