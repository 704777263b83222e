//! The status of one worker for people: its state, the reasons why it gets no tasks, and its problems.

use std::time::Duration;

use brasserie_common::cluster_view::SlotsView;
use brasserie_common::time::format_duration;
use brasserie_common::worker::Intake;
use brasserie_common::{Health, Shard, Time};

use super::consensus::WithheldBy;
use super::remote::Remote;
use crate::scheduler::Scheduler;
use crate::scheduler::view::WorkerStatus;

/// The number of missed heartbeats after which the status reports it. A busy machine may delay one.
const MISSED_HEARTBEATS: u32 = 2;
/// The start of a worker's description of its containment if that is the weaker kind.
const WEAKER_CONTAINMENT: &str = "process-groups";

/// How long a worker's failure is shown after it is over, so that an operator sees intermittent failures.
const SHOWN_AFTERWARDS: Duration = Duration::from_secs(3600);

/// The failures of one kind. The last one is shown for [`SHOWN_AFTERWARDS`].
#[derive(Clone, Debug, Default)]
pub(super) struct Remembered {
    last: Option<(Time, String)>,
    /// The number of failures, each less than [`SHOWN_AFTERWARDS`] after the previous one.
    count: u32,
}

impl Remembered {
    pub(super) fn add(&mut self, now: Time, why: String) {
        self.count = match self.recent(now) {
            Some(_) => self.count.saturating_add(1),
            None => 1,
        };
        self.last = Some((now, why));
    }

    fn recent(&self, now: Time) -> Option<&(Time, String)> {
        self.last
            .as_ref()
            .filter(|(at, _)| now < *at + SHOWN_AFTERWARDS)
    }

    /// Formats the failures, as in `2 times, the last time 30s ago: WHY`; `None` if the last one is too old.
    fn sentence(&self, now: Time) -> Option<String> {
        let (at, why) = self.recent(now)?;
        let ago = format_duration(whole_seconds(now.since(*at)));
        Some(match self.count {
            1 => format!("{ago} ago: {why}"),
            count => format!("{count} times, the last time {ago} ago: {why}"),
        })
    }
}

impl Scheduler {
    pub(crate) fn worker_status(
        &self,
        now: Time,
        worker: &Remote,
        slots: Vec<SlotsView>,
    ) -> WorkerStatus {
        let (running, unsure) = self.tasks().counts_on(worker.shard());
        let room = worker.description().room.as_ref();
        let full = room.filter(|room| running >= room.most.get() as usize);
        WorkerStatus {
            shard: worker.shard().clone(),
            hostname: worker.description().machine_lock.hostname.clone(),
            address: worker.address().clone(),
            id: worker.id(),
            health: worker.health(),
            drains: worker.description().intake == Intake::Draining,
            running,
            unsure,
            begun_anew: worker.begun_anew,
            since_heartbeat: worker.model.last_heartbeat().map(|at| now.since(at)),
            silent_for: self.silent_for(now, worker),
            waits_for: self.what_it_waits_for(now, worker).or_else(|| {
                let is_asked = worker.health() == Health::Healthy;
                let room = full.filter(|_| is_asked)?;
                Some(format!("for one of its tasks to end: it runs {room}"))
            }),
            lost_in: self.lost_in(now, worker),
            problems: self.problems_of(now, worker),
            notes: self.notes_on(worker),
            asked: self.asked(now, worker),
            containment: worker.description().containment.clone(),
            slots,
        }
    }

    /// Returns why a pull worker gets no task at present, as a clause that follows its name. Other workers are only counted.
    pub(crate) fn why_not_ready(&self, now: Time, shard: &Shard) -> Option<String> {
        let worker = self.workers().get(shard);
        let worker = worker.filter(|worker| worker.credits.are_used())?;
        if let Some(what) = self.what_it_waits_for(now, worker) {
            return Some(format!("waits {what}"));
        }
        worker.is_left_alone(now).then(|| {
            "is left alone for a moment: it was busy, has just become healthy, or is sent many tasks"
                .to_owned()
        })
    }

    /// Returns why the worker gets no tasks; `None` if it does, or has left.
    fn what_it_waits_for(&self, now: Time, worker: &Remote) -> Option<String> {
        let unrecorded = || {
            let text = "until it is recorded on disk";
            (!worker.is_recorded).then(|| text.to_owned())
        };
        match worker.health() {
            Health::MustDie => None,
            Health::New => Some(
                unrecorded().unwrap_or_else(|| "for the answer to which tasks it runs".to_owned()),
            ),
            Health::Unhealthy => self
                .stale_evidence(now, worker)
                .or_else(unrecorded)
                .or_else(|| self.withheld(worker)),
            Health::Healthy if worker.description().intake == Intake::Draining => {
                Some("for its running tasks to complete: it drains, and then exits".to_owned())
            }
            Health::Healthy => match worker.told {
                Some((Health::Healthy, _)) => None,
                Some((Health::New | Health::Unhealthy | Health::MustDie, _)) | None => {
                    Some("for its next heartbeat, to hear that it is healthy".to_owned())
                }
            },
        }
    }

    pub(super) fn stale_evidence(&self, now: Time, worker: &Remote) -> Option<String> {
        let gaps = worker.gaps(&self.options().timeouts);
        let beat = worker.model.last_heartbeat();
        if let Some(at) = beat.filter(|at| now > *at + gaps.max_heartbeat) {
            let ago = format_duration(whole_seconds(now.since(at)));
            return Some(format!("for a heartbeat; the last one came {ago} ago"));
        }
        match worker.model.last_good_healthcheck() {
            None => Some("for the result of its first healthcheck".to_owned()),
            Some(at) if now > at + gaps.max_healthcheck => Some(format!(
                "for a good healthcheck; the last one was sent {} ago",
                format_duration(whole_seconds(now.since(at)))
            )),
            Some(_) => None,
        }
    }

    fn withheld(&self, worker: &Remote) -> Option<String> {
        Some(match self.workers().consensus().withheld_by(worker.id())? {
            WithheldBy::Itself => {
                "until it has sent back a worker set of this scheduler".to_owned()
            }
            WithheldBy::Foreigner(first, count) => {
                let shard = self
                    .workers()
                    .shard_with(first)
                    .cloned()
                    .unwrap_or_default();
                format!(
                    "until worker `{shard}`, one of {count} that still hold an earlier scheduler's worker set, has sent back \
                     one of this scheduler"
                )
            }
            WithheldBy::Others => {
                "until a worker that came before it has sent back a worker set with it".to_owned()
            }
        })
    }

    /// Returns the time since the last heartbeat of a HEALTHY worker that has missed heartbeats or could not be reached. The worker keeps
    /// its health until the last heartbeat is too old, so its health alone would show it as alive.
    fn silent_for(&self, now: Time, worker: &Remote) -> Option<Duration> {
        let last = worker.model.last_heartbeat()?;
        let period = worker.description().heartbeat_period;
        let is_silent = now >= last + MISSED_HEARTBEATS * period || worker.is_out_of_touch();
        (worker.health() == Health::Healthy && is_silent).then(|| now.since(last))
    }

    fn silence(&self, now: Time, worker: &Remote) -> Option<String> {
        let silent_for = self.silent_for(now, worker)?;
        let period = worker.description().heartbeat_period;
        let missing = silent_for.as_nanos() / period.as_nanos().max(1);
        let gaps = worker.gaps(&self.options().timeouts);
        let unhealthy_in = worker.model.next_change(gaps)?.since(now);
        let is_overdue = missing >= u128::from(MISSED_HEARTBEATS);
        let overdue = is_overdue.then(|| {
            format!(
                "{missing} heartbeats are missing, as one is due each {}",
                format_duration(period)
            )
        });
        let why: Vec<String> = overdue
            .into_iter()
            .chain(worker.unreached_sentence())
            .collect();
        let why = why.join(", and ");
        let state = match worker.description().intake {
            Intake::Open => "is healthy",
            Intake::Draining => "is draining",
        };
        // The scheduler refuses to forget a worker that may answer any moment.
        let hint = match is_overdue {
            true => ". If it is dead for certain, see `brasserie worker forget`",
            false => "",
        };
        Some(format!(
            "{state}, but has been silent for {}: {why}; it counts as unhealthy in {}, \
             and its tasks as running until it is lost, in {}{hint}",
            format_duration(whole_seconds(silent_for)),
            format_duration(whole_seconds(unhealthy_in)),
            format_duration(whole_seconds(unhealthy_in + gaps.lose_after)),
        ))
    }

    /// Returns why a worker may not run its tasks any more, as a clause that begins with `which`; `None` if nothing says so.
    pub(crate) fn doubt_about(&self, now: Time, shard: &Shard) -> Option<String> {
        let worker = self.workers().get(shard)?;
        let silent_for = match worker.health() {
            Health::New | Health::MustDie => return None,
            Health::Healthy => self.silent_for(now, worker)?,
            Health::Unhealthy => now.since(worker.model.last_heartbeat()?),
        };
        let gaps = worker.gaps(&self.options().timeouts);
        let lost_in = self.lost_in(now, worker);
        let unhealthy_in = worker.model.next_change(gaps).map(|at| at.since(now));
        let lost_in = lost_in.unwrap_or(unhealthy_in.unwrap_or_default() + gaps.lose_after);
        let lost_in = format_duration(whole_seconds(lost_in));
        let silence = format_duration(whole_seconds(silent_for));
        Some(match worker.health() {
            Health::Unhealthy => format!(
                "which is unhealthy, sent its last heartbeat {silence} ago, and is lost in {lost_in} unless it recovers"
            ),
            Health::New | Health::Healthy | Health::MustDie => {
                format!(
                    "which has been silent for {silence}, and is lost in {lost_in} unless it answers"
                )
            }
        })
    }

    fn lost_in(&self, now: Time, worker: &Remote) -> Option<Duration> {
        let first = worker.first_health(self.workers().consensus());
        let gaps = worker.gaps(&self.options().timeouts);
        worker.model.lost_in(now, gaps, first)
    }

    fn problems_of(&self, now: Time, worker: &Remote) -> Vec<String> {
        let silence = self.silence(now, worker);
        // The sentence about the silence includes the reason.
        let mut problems: Vec<String> = silence
            .or_else(|| worker.unreached_sentence())
            .into_iter()
            .collect();
        if let Some(left) = &worker.left {
            problems.push(format!("must end: {}", left.why));
        }
        let checks = &worker.healthchecks;
        let failures = checks.failures.sentence(now);
        problems.extend(match &checks.failure {
            Some(why) => Some(format!("its last healthcheck failed: {why}")),
            None => {
                failures.map(|told| format!("its healthchecks are good again, and failed {told}"))
            }
        });
        if worker.health() == Health::Healthy
            && let Some(told) = worker.falls.sentence(now)
        {
            problems.push(format!("is healthy again, and was unhealthy {told}"));
        }
        let violations = worker.credits.violations();
        if violations > 0 {
            problems.push(format!(
                "its requests for work did not list {violations} run(s) that it had taken: it breaks the protocol"
            ));
        }
        problems
    }

    fn notes_on(&self, worker: &Remote) -> Vec<String> {
        let mut notes = Vec::new();
        if worker.additions.lacks_digest {
            notes.push(
                "names its worker set without a digest, as the original protocol does: it counts by the weaker hash"
                    .to_owned(),
            );
        }
        if worker.additions.lacks_standing {
            notes.push(
                "does not send back whether its worker set is settled: it cannot end a later scheduler's initial wait early"
                    .to_owned(),
            );
        }
        // If the period is longer, only healthchecks show in time whether the worker is well.
        let limit = self.options().timeouts.max_healthcheck_gap();
        let period = worker.description().heartbeat_period;
        if period > limit {
            notes.push(format!(
                "its heartbeat period of {} is longer than {}, the time in which its health must show: it hears late of \
                 whatever is decided about it",
                format_duration(whole_seconds(period)),
                format_duration(limit)
            ));
        }
        let containment = worker.description().containment.as_ref();
        if let Some(how) = containment.filter(|how| how.starts_with(WEAKER_CONTAINMENT)) {
            notes.push(format!("contains its tasks by {how}"));
        }
        if worker.begun_anew > 0 {
            notes.push(format!(
                "obeyed another scheduler in between: associated anew {} time(s)",
                worker.begun_anew
            ));
        }
        notes
    }
}

fn whole_seconds(d: Duration) -> Duration {
    Duration::from_secs(d.as_secs())
}
