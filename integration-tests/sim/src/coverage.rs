//! The branches of the protocol that a run has taken, observed from outside: replies, rejections, records and statuses.

mod reach;

use std::collections::BTreeMap;

use brasserie_common::{Health, InvocationId, RefusalCode, StatusBits, WorkVerdict};
use brasserie_scheduler_core::LeftCause;
use brasserie_worker_core::ExitReason;

use crate::event_log::{
    Ask, Fact, Happening, OutcomeKind, ProcessEnd, RejectionKind, SchedulerStop, WaitExit,
    WorkerStop,
};

use reach::OUT_OF_REACH;

/// A part of the protocol: its title and its branches.
type Group = (&'static str, &'static [&'static str]);

const ROWS: usize = 0;
const WAITS: usize = 1;
const HEARTBEATS: usize = 2;
const STATUSES: usize = 3;
const REJECTED_STATUSES: usize = 4;
const SERVED: usize = 5;
const OUTCOMES: usize = 11;
const UNSURE: usize = 12;
const LEFT: usize = 13;
const HEALTH: usize = 14;
const ENDS: usize = 15;
const VERDICTS: usize = 16;

const REJECTIONS: &[&str] = &[
    "protocol version",
    "shard taken",
    "stale instance",
    "wrong scheduler",
    "unknown shard",
    "wrong worker",
    "still NEW",
    "identity changed",
    "pool full",
    "superseded",
    "unknown run",
    "not running",
    "kill failed",
    "empty name",
    "asked to die",
    "stepped down",
    "unknown worker",
    "store fails",
    "not durable yet",
    "repeated",
    "not permitted",
    "not the owner",
    "another machine",
];

const REFUSALS: &[&str] = &[
    "done",
    "refused: unhealthy",
    "refused: wrong id",
    "refused: old sequence",
    "refused: duplicate",
    "refused: busy",
    "refused: draining",
    "refused: unspecified",
    "refused: bound to another",
];

const BITS: &[&str] = &[
    "done",
    "failed",
    "error with backoff",
    "incomplete",
    "incomplete with backoff",
    "was not running",
    "other",
];

const GROUPS: &[Group] = &[
    (
        "replacement table",
        &[
            "same instance",
            "same instance, lost",
            "same lock, later instance",
            "same lock, earlier instance",
            "other lock, incumbent lost",
            "other lock, incumbent not HEALTHY, no bump",
            "other lock, incumbent not HEALTHY, bump",
            "other lock, incumbent HEALTHY, no bump",
            "other lock, incumbent HEALTHY, bump",
            "same instance, bump",
            "same instance, lost, bump",
            "same lock, later instance, bump",
            "same lock, earlier instance, bump",
            "other lock, incumbent lost, bump",
        ],
    ),
    (
        "end of the initial wait",
        &[
            "new cluster",
            "record complete",
            "consensus",
            "safe wait",
            "override",
            "other",
        ],
    ),
    ("heartbeat rejected", REJECTIONS),
    ("status acknowledged", BITS),
    ("status rejected", REJECTIONS),
    ("getRunningTasks", REFUSALS),
    ("runTask", REFUSALS),
    ("healthcheck", REFUSALS),
    ("notifyIfTasksNotRunning", REFUSALS),
    ("requestSuicide", REFUSALS),
    ("killTask", REFUSALS),
    (
        "outcome of runTask",
        &["done", "refused", "not sent", "unknown"],
    ),
    (
        "unsure run",
        &[
            "its end arrived",
            "was not running",
            "lost with its worker",
            "listed by its worker",
        ],
    ),
    (
        "worker left the record",
        &[
            "clean exit",
            "lost",
            "replaced",
            "did not return",
            "declared dead",
        ],
    ),
    (
        "worker's own health",
        &[
            "NEW to UNHEALTHY",
            "to HEALTHY",
            "HEALTHY to UNHEALTHY",
            "to MUST_DIE",
            "back to NEW",
        ],
    ),
    (
        "ends",
        &[
            "worker killed",
            "worker shut down",
            "worker told to die",
            "worker must die",
            "scheduler crashed",
            "scheduler stepped down",
            "process finished",
            "process killed",
            "process ended by keeper",
            "process lost power",
        ],
    ),
    (
        "word on a request for work",
        &[
            "granted", "no work", "limited", "deadline", "no apps", "deferred", "stale", "pending",
        ],
    ),
];

/// The number of branches of the widest group.
const WIDTH: usize = 20;

/// Counters of the branches.
#[derive(Clone, Debug)]
pub struct Coverage {
    counts: [[u64; WIDTH]; GROUPS.len()],
    bump: bool,
    /// Runs with an unknown outcome of their start.
    unsure: BTreeMap<InvocationId, ()>,
}

impl Coverage {
    pub fn new(bump: bool) -> Self {
        Coverage {
            counts: [[0; WIDTH]; GROUPS.len()],
            bump,
            unsure: BTreeMap::new(),
        }
    }

    /// Sets whether schedulers that start from here on may bump unhealthy workers.
    pub fn note_flag(&mut self, bump: bool) {
        self.bump = bump;
    }

    /// Adds the counts of another run.
    pub fn merge(&mut self, other: &Coverage) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine += theirs;
            }
        }
    }

    /// Returns each group's title with its branches and their counts.
    pub fn table(
        &self,
    ) -> impl Iterator<Item = (&'static str, impl Iterator<Item = (&'static str, u64)>)> {
        GROUPS
            .iter()
            .zip(&self.counts)
            .map(|((title, branches), counts)| {
                let rows = branches.iter().copied().zip(counts.iter().copied());
                (*title, rows)
            })
    }

    /// Returns the branches that can be taken and were not.
    pub fn missing(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.table().flat_map(|(title, rows)| {
            rows.filter(|(_, count)| *count == 0)
                .map(move |(branch, _)| (title, branch))
                .filter(|(title, branch)| !is_out_of_reach(title, branch))
        })
    }

    fn hit(&mut self, group: usize, branch: usize) {
        self.counts[group][branch] += 1;
    }

    pub fn count(&mut self, happening: &Happening) {
        match happening {
            Happening::HeartbeatAnswered { state, .. } => {
                let row = usize::from(*state == Health::MustDie);
                self.hit(ROWS, if self.bump { 9 + row } else { row });
            }
            Happening::ShardContested {
                newcomer,
                incumbent,
                incumbent_health,
                same_lock,
                ..
            } => {
                let later = newcomer.0.start_time >= incumbent.0.start_time;
                self.contested(*same_lock, later, *incumbent_health);
            }
            Happening::WaitEnded { why, .. } => self.hit(WAITS, wait(*why)),
            Happening::HeartbeatRejected { why, .. } => self.hit(HEARTBEATS, rejection(*why)),
            Happening::StatusAcknowledged { run, bits, .. } if !run.task.is_healthcheck() => {
                let branch = status(*bits);
                self.hit(STATUSES, branch);
                if self.unsure.remove(&run.invocation).is_some() {
                    self.hit(UNSURE, usize::from(branch == 5));
                }
            }
            Happening::StatusRejected { why, .. } => self.hit(REJECTED_STATUSES, rejection(*why)),
            Happening::WorkTold { verdicts, .. } => {
                verdicts
                    .iter()
                    .for_each(|(_, v)| self.hit(VERDICTS, word(*v)));
            }
            Happening::Served { ask, refusal, .. } => {
                self.hit(SERVED + asked(*ask), refused(*refusal));
            }
            Happening::CallOver {
                ask: Ask::Run { run, .. },
                outcome,
                ..
            } => {
                self.hit(OUTCOMES, outcome_kind(*outcome));
                if *outcome == OutcomeKind::Unknown {
                    self.unsure.insert(run.invocation, ());
                }
            }
            Happening::Listed { run, .. } if self.unsure.contains_key(&run.invocation) => {
                self.hit(UNSURE, 3);
            }
            Happening::EndWritten {
                run,
                safety_seconds,
                ..
            } if *safety_seconds > 0 && self.unsure.remove(&run.invocation).is_some() => {
                self.hit(UNSURE, 2);
            }
            Happening::RecordWritten {
                fact: Fact::WorkerLeft { cause, .. },
                ..
            } => self.hit(LEFT, left(*cause)),
            Happening::WorkerHealth { from, to, .. } => self.hit(HEALTH, health(*from, *to)),
            Happening::WorkerStopped { how, .. } => self.hit(ENDS, worker_stop(how)),
            Happening::SchedulerStopped { how, .. } => self.hit(ENDS, scheduler_stop(*how)),
            Happening::ProcessEnded { how, .. } => self.hit(ENDS, process_end(*how)),
            // None of these has a branch of its own.
            _ => {}
        }
    }

    fn contested(&mut self, same_lock: bool, later: bool, health: Health) {
        let bump = self.bump;
        let row = match (same_lock, later, health) {
            (true, true, _) => 2 + if bump { 9 } else { 0 },
            (true, false, _) => 3 + if bump { 9 } else { 0 },
            (false, _, Health::MustDie) => 4 + if bump { 9 } else { 0 },
            (false, _, Health::New | Health::Unhealthy) => 5 + usize::from(bump),
            (false, _, Health::Healthy) => 7 + usize::from(bump),
        };
        self.hit(ROWS, row);
    }
}

fn is_out_of_reach(title: &str, branch: &str) -> bool {
    let mut groups = OUT_OF_REACH.iter();
    groups.any(|(group, branches)| *group == title && branches.contains(&branch))
}

fn word(verdict: WorkVerdict) -> usize {
    match verdict {
        WorkVerdict::Granted(_) => 0,
        WorkVerdict::NoWork => 1,
        WorkVerdict::Limited => 2,
        WorkVerdict::Deadline => 3,
        WorkVerdict::NoApps => 4,
        WorkVerdict::Deferred => 5,
        WorkVerdict::Stale => 6,
        WorkVerdict::Pending => 7,
    }
}

fn wait(why: WaitExit) -> usize {
    match why {
        WaitExit::NewCluster => 0,
        WaitExit::RecordComplete => 1,
        WaitExit::Consensus => 2,
        WaitExit::SafeWait => 3,
        WaitExit::Override => 4,
        WaitExit::Other => 5,
    }
}

fn rejection(why: RejectionKind) -> usize {
    match why {
        RejectionKind::ProtocolVersion => 0,
        RejectionKind::ShardTaken => 1,
        RejectionKind::StaleInstance => 2,
        RejectionKind::WrongScheduler => 3,
        RejectionKind::UnknownShard => 4,
        RejectionKind::WrongWorker => 5,
        RejectionKind::StillNew => 6,
        RejectionKind::IdentityChanged => 7,
        RejectionKind::PoolFull => 8,
        RejectionKind::Superseded => 9,
        RejectionKind::UnknownRun => 10,
        RejectionKind::NotRunning => 11,
        RejectionKind::KillFailed => 12,
        RejectionKind::EmptyName => 13,
        RejectionKind::AskedToDie => 14,
        RejectionKind::SteppedDown => 15,
        RejectionKind::UnknownWorker => 16,
        RejectionKind::StoreFails => 17,
        RejectionKind::NotDurableYet => 18,
        RejectionKind::Repeated => 19,
        RejectionKind::NotPermitted => 20,
        RejectionKind::NotOwner => 21,
        RejectionKind::OtherMachine => 22,
    }
}

fn status(bits: StatusBits) -> usize {
    let backoff = bits.has(StatusBits::USES_BACKOFF);
    if bits.has(StatusBits::OVERWRITEABLE) {
        5
    } else if bits.has(StatusBits::DONE) {
        0
    } else if bits.has(StatusBits::FAILED) {
        1
    } else if bits.has(StatusBits::INCOMPLETE) {
        3 + usize::from(backoff)
    } else if bits.has(StatusBits::ERROR) && backoff {
        2
    } else {
        6
    }
}

fn asked(ask: Ask) -> usize {
    match ask {
        Ask::Fetch => 0,
        Ask::Run { .. } => 1,
        Ask::Healthcheck { .. } => 2,
        Ask::Notify { .. } => 3,
        Ask::Suicide | Ask::Drain => 4,
        Ask::Kill { .. } | Ask::TakeBack { .. } => 5,
    }
}

fn refused(refusal: Option<RefusalCode>) -> usize {
    match refusal {
        None => 0,
        Some(RefusalCode::Unhealthy) => 1,
        Some(RefusalCode::WrongId) => 2,
        Some(RefusalCode::OldSequence) => 3,
        Some(RefusalCode::Duplicate) => 4,
        Some(RefusalCode::Busy) => 5,
        Some(RefusalCode::Draining) => 6,
        Some(RefusalCode::Unspecified) => 7,
        Some(RefusalCode::BoundTo(_)) => 8,
    }
}

fn outcome_kind(outcome: OutcomeKind) -> usize {
    match outcome {
        OutcomeKind::Done => 0,
        OutcomeKind::Refused(_) => 1,
        OutcomeKind::NotSent => 2,
        OutcomeKind::Unknown => 3,
    }
}

fn left(cause: LeftCause) -> usize {
    match cause {
        LeftCause::CleanExit => 0,
        LeftCause::Lost => 1,
        LeftCause::Replaced => 2,
        LeftCause::DidNotReturn => 3,
        LeftCause::Forgotten => 4,
    }
}

fn health(from: Health, to: Health) -> usize {
    match (from, to) {
        (Health::Healthy, Health::Unhealthy) => 2,
        (Health::New | Health::Unhealthy | Health::MustDie, Health::Unhealthy) => 0,
        (_, Health::Healthy) => 1,
        (_, Health::MustDie) => 3,
        (_, Health::New) => 4,
    }
}

fn worker_stop(how: &WorkerStop) -> usize {
    match how {
        WorkerStop::Killed => 0,
        WorkerStop::Exited(ExitReason::Shutdown) => 1,
        WorkerStop::Exited(ExitReason::SuicideRequested) => 2,
        WorkerStop::Exited(ExitReason::MustDie) => 3,
    }
}

fn scheduler_stop(how: SchedulerStop) -> usize {
    match how {
        SchedulerStop::Crashed => 4,
        SchedulerStop::SteppedDown => 5,
    }
}

fn process_end(how: ProcessEnd) -> usize {
    match how {
        ProcessEnd::Finished => 6,
        ProcessEnd::Killed => 7,
        ProcessEnd::ByKeeper => 8,
        ProcessEnd::PowerLost => 9,
    }
}
