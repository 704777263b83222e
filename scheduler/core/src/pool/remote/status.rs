//! The condition of one worker for people: why it gets no tasks, and its problems.

use std::time::Duration;

use brasserie_common::text::counted;
use brasserie_common::time::format_duration;
use brasserie_common::worker::Intake;
use brasserie_common::{Health, Time, Timeouts};

use super::Remote;

/// The number of missed heartbeats after which the status reports it. A busy machine may delay one.
const MISSED_HEARTBEATS: u32 = 2;
/// The start of a worker's description of its containment if that is the weaker kind.
const WEAKER_CONTAINMENT: &str = "process-groups";

/// How long a worker's failure is shown after it is over, so that an operator sees intermittent failures.
const SHOWN_AFTERWARDS: Duration = Duration::from_secs(3600);

/// The failures of one kind. The last one is shown for [`SHOWN_AFTERWARDS`].
#[derive(Clone, Debug, Default)]
pub(super) struct RecentFailures {
    last: Option<(Time, String)>,
    /// The number of failures, each less than [`SHOWN_AFTERWARDS`] after the previous one.
    count: u32,
}

impl RecentFailures {
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
    pub(super) fn sentence(&self, now: Time) -> Option<String> {
        let (at, why) = self.recent(now)?;
        let ago = format_duration(whole_seconds(now.since(*at)));
        Some(match self.count {
            1 => format!("{ago} ago: {why}"),
            count => format!("{count} times, the last time {ago} ago: {why}"),
        })
    }
}

impl Remote {
    /// Returns why the worker gets no tasks; `None` if it does, or has left.
    pub(in crate::pool) fn what_it_waits_for(
        &self,
        now: Time,
        timeouts: &Timeouts,
        withheld: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        let unrecorded = || {
            let text = "until it is recorded on disk";
            (!self.is_recorded).then(|| text.to_owned())
        };
        match self.health() {
            Health::MustDie => None,
            Health::New => Some(
                unrecorded().unwrap_or_else(|| "for the answer to which tasks it runs".to_owned()),
            ),
            Health::Unhealthy => self
                .stale_evidence(now, timeouts)
                .or_else(unrecorded)
                .or_else(withheld),
            Health::Healthy if self.description().intake == Intake::Draining => {
                Some("for its running tasks to complete: it drains, and then exits".to_owned())
            }
            Health::Healthy => match self.told {
                Some((Health::Healthy, _)) => None,
                Some((Health::New | Health::Unhealthy | Health::MustDie, _)) | None => {
                    Some("for its next heartbeat, to hear that it is healthy".to_owned())
                }
            },
        }
    }

    pub(in crate::pool) fn is_heartbeat_late(&self, now: Time, timeouts: &Timeouts) -> bool {
        let longest = self.gaps(timeouts).max_heartbeat;
        let last = self.model.last_heartbeat();
        last.is_some_and(|last| now > last + longest)
    }

    pub(in crate::pool) fn stale_evidence(&self, now: Time, timeouts: &Timeouts) -> Option<String> {
        let gaps = self.gaps(timeouts);
        let beat = self.model.last_heartbeat();
        if let Some(at) = beat.filter(|_| self.is_heartbeat_late(now, timeouts)) {
            let ago = format_duration(whole_seconds(now.since(at)));
            return Some(format!("for a heartbeat; the last one came {ago} ago"));
        }
        match self.model.last_good_healthcheck() {
            None => Some("for the result of its first healthcheck".to_owned()),
            Some(at) if now > at + gaps.max_healthcheck => Some(format!(
                "for a good healthcheck; the last one was sent {} ago",
                format_duration(whole_seconds(now.since(at)))
            )),
            Some(_) => None,
        }
    }

    /// Returns the time since the last heartbeat of a HEALTHY worker that has missed heartbeats or could not be reached. The worker keeps
    /// its health until the last heartbeat is too old, so its health alone would show it as alive.
    pub(in crate::pool) fn silent_for(&self, now: Time) -> Option<Duration> {
        let last = self.model.last_heartbeat()?;
        let period = self.description().heartbeat_period;
        let is_silent = now >= last + MISSED_HEARTBEATS * period || self.is_out_of_touch();
        (self.health() == Health::Healthy && is_silent).then(|| now.since(last))
    }

    fn silence(&self, now: Time, timeouts: &Timeouts) -> Option<String> {
        let silent_for = self.silent_for(now)?;
        let period = self.description().heartbeat_period;
        let missing = silent_for.as_nanos() / period.as_nanos().max(1);
        let gaps = self.gaps(timeouts);
        let unhealthy_in = self.model.next_change(gaps)?.since(now);
        let is_overdue = missing >= u128::from(MISSED_HEARTBEATS);
        let overdue = is_overdue.then(|| {
            format!(
                "{missing} heartbeats are missing, as one is due each {}",
                format_duration(period)
            )
        });
        let why: Vec<String> = overdue
            .into_iter()
            .chain(self.unreached_sentence())
            .collect();
        let why = why.join(", and ");
        let state = match (self.barred, self.description().intake) {
            // Its order is its state.
            (true, _) => "has been silent",
            (false, Intake::Open) => "is healthy, but has been silent",
            (false, Intake::Draining) => "is draining, but has been silent",
        };
        // The scheduler refuses to forget a worker that may answer any moment.
        let hint = match is_overdue {
            true => ". If it is dead for certain, see `brasserie worker forget NAME`",
            false => "",
        };
        Some(format!(
            "{state} for {}: {why}; it counts as unhealthy in {}, \
             and its tasks as running until it is lost, in {}{hint}",
            format_duration(whole_seconds(silent_for)),
            format_duration(whole_seconds(unhealthy_in)),
            format_duration(whole_seconds(unhealthy_in + gaps.lose_after)),
        ))
    }

    /// Returns why a worker may not run its tasks any more, as a clause that begins with `which`; `None` if nothing says so.
    pub(in crate::pool) fn doubt(
        &self,
        now: Time,
        timeouts: &Timeouts,
        lost_in: Option<Duration>,
    ) -> Option<String> {
        let silent_for = match self.health() {
            Health::New | Health::MustDie => return None,
            Health::Healthy => self.silent_for(now)?,
            Health::Unhealthy => now.since(self.model.last_heartbeat()?),
        };
        let gaps = self.gaps(timeouts);
        let unhealthy_in = self.model.next_change(gaps).map(|at| at.since(now));
        let lost_in = lost_in.unwrap_or(unhealthy_in.unwrap_or_default() + gaps.lose_after);
        let lost_in = format_duration(whole_seconds(lost_in));
        let silence = format_duration(whole_seconds(silent_for));
        Some(match self.health() {
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

    pub(in crate::pool) fn problems(&self, now: Time, timeouts: &Timeouts) -> Vec<String> {
        let silence = self.silence(now, timeouts);
        // The sentence about the silence includes the reason.
        let mut problems: Vec<String> = silence
            .or_else(|| self.unreached_sentence())
            .into_iter()
            .collect();
        if self.health() == Health::Unhealthy && self.is_heartbeat_late(now, timeouts) {
            problems.push(
                "has sent no heartbeat in time. If its process has ended, start it again with the same `--data-dir`: it replaces its former \
                 instance at once. If its machine never returns, see `brasserie worker forget NAME`"
                    .to_owned(),
            );
        }
        if let Some(left) = &self.left {
            problems.push(format!("must end: {}", left.why));
        }
        problems.extend(self.healthchecks.problem(now));
        if self.health() == Health::Healthy
            && let Some(told) = self.falls.sentence(now)
        {
            problems.push(format!("is healthy again, and was unhealthy {told}"));
        }
        let violations = self.credits.violations();
        if violations > 0 {
            problems.push(format!(
                "its requests for work did not list {} that it had taken: it breaks the protocol",
                counted(violations, "run")
            ));
        }
        problems
    }

    pub(in crate::pool) fn notes(&self, timeouts: &Timeouts) -> Vec<String> {
        let mut notes = Vec::new();
        if self.additions.lacks_digest {
            notes.push(
                "names its worker set without a digest, as the original protocol does: it counts by the weaker hash"
                    .to_owned(),
            );
        }
        if self.additions.lacks_standing {
            notes.push(
                "does not send back whether its worker set is settled: it cannot end a later scheduler's initial wait early"
                    .to_owned(),
            );
        }
        // If the period is longer, only healthchecks show in time whether the worker is well.
        let limit = timeouts.max_healthcheck_gap();
        let period = self.description().heartbeat_period;
        if period > limit {
            notes.push(format!(
                "its heartbeat period of {} is longer than {}, the time in which its health must show: it hears late of \
                 whatever is decided about it",
                format_duration(whole_seconds(period)),
                format_duration(limit)
            ));
        }
        let containment = self.description().containment.as_ref();
        if let Some(how) = containment.filter(|how| how.starts_with(WEAKER_CONTAINMENT)) {
            notes.push(format!("contains its tasks by {how}"));
        }
        if self.begun_anew > 0 {
            notes.push(format!(
                "obeyed another scheduler in between: associated anew {}",
                counted(self.begun_anew.into(), "time")
            ));
        }
        notes
    }
}

pub(in crate::pool) fn whole_seconds(d: Duration) -> Duration {
    Duration::from_secs(d.as_secs())
}
