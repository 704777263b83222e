//! The condition of workers for people, as far as it depends on other workers, too.

use std::time::Duration;

use brasserie_common::time::format_duration;
use brasserie_common::{Health, Shard, Time, Timeouts};

use super::Pool;
use super::consensus::WithheldBy;
use super::remote::Remote;
use super::remote::status::whole_seconds;

/// The most silent workers that are named as the reason why another one waits.
const MOST_NAMED: usize = 3;
/// The most workers that are scanned for silent ones, so that the status of a large pool that joins takes milliseconds.
const MOST_SCANNED: usize = 1000;

/// Why a worker gets no tasks, and its problems.
#[derive(Clone, Debug)]
pub struct Condition {
    /// The time since the last heartbeat of a HEALTHY worker that has missed heartbeats or could not be reached.
    pub silent_for: Option<Duration>,
    /// The condition that the worker must meet before it gets tasks.
    pub waits_for: Option<String>,
    /// The time until the worker is lost without new evidence of its health.
    pub lost_in: Option<Duration>,
    /// Problems that need an operator.
    pub problems: Vec<String>,
    pub notes: Vec<String>,
}

impl Pool {
    pub(crate) fn condition(&self, now: Time, timeouts: &Timeouts, worker: &Remote) -> Condition {
        Condition {
            silent_for: worker.silent_for(now),
            waits_for: self.what_it_waits_for(now, timeouts, worker),
            lost_in: self.lost_in(now, timeouts, worker),
            problems: worker.problems(now, timeouts),
            notes: worker.notes(timeouts),
        }
    }

    fn what_it_waits_for(&self, now: Time, timeouts: &Timeouts, worker: &Remote) -> Option<String> {
        worker.what_it_waits_for(now, timeouts, || self.withheld(now, timeouts, worker))
    }

    /// Returns why a pull worker gets no task at present, as a clause that follows its name. Other workers are only counted.
    pub(crate) fn why_not_ready(
        &self,
        now: Time,
        timeouts: &Timeouts,
        shard: &Shard,
    ) -> Option<String> {
        let worker = self.get(shard);
        let worker = worker.filter(|worker| worker.credits().are_used())?;
        if let Some(what) = self.what_it_waits_for(now, timeouts, worker) {
            return Some(format!("waits {what}"));
        }
        worker.is_left_alone(now).then(|| {
            "is left alone for a moment: it was busy, has just become healthy, or is sent many tasks"
                .to_owned()
        })
    }

    fn withheld(&self, now: Time, timeouts: &Timeouts, worker: &Remote) -> Option<String> {
        Some(match self.consensus.withheld_by(worker.id())? {
            WithheldBy::Itself => {
                "until it has sent back a worker set of this scheduler".to_owned()
            }
            WithheldBy::Foreigner(first, count) => {
                let shard = self.shard_with(first).cloned().unwrap_or_default();
                format!(
                    "until worker `{shard}`, one of {count} that still hold an earlier scheduler's worker set, has sent back \
                     one of this scheduler"
                )
            }
            WithheldBy::Others => format!(
                "until a worker that came before it has sent back a worker set with it{}",
                self.silent_others(now, timeouts, worker)
            ),
        })
    }

    /// Names workers that keep a newcomer waiting because they are silent, as the rest of a sentence; empty if none is.
    fn silent_others(&self, now: Time, timeouts: &Timeouts, worker: &Remote) -> String {
        let is_silent = |other: &&Remote| match other.health() {
            Health::New | Health::MustDie => false,
            Health::Healthy => other.silent_for(now).is_some(),
            Health::Unhealthy => other.is_heartbeat_late(now, timeouts),
        };
        let others = self.iter().filter(|other| other.id() != worker.id());
        let silent: Vec<&Remote> = others.take(MOST_SCANNED).filter(is_silent).collect();
        let names = silent.iter().take(MOST_NAMED);
        let names: Vec<String> = names.map(|one| format!("`{}`", one.shard())).collect();
        if names.is_empty() {
            return String::new();
        }
        let more = match silent.len() - names.len() {
            0 => "",
            _ => " and others",
        };
        let lost_in = silent
            .iter()
            .filter_map(|one| self.lost_in(now, timeouts, one));
        let lost_in = lost_in.max().map(|longest| {
            let longest = format_duration(whole_seconds(longest));
            format!(", until they are lost, in {longest} at most")
        });
        format!(
            ". It waits for silent workers ({}{more}){}: start them again if they have ended",
            names.join(", "),
            lost_in.unwrap_or_default()
        )
    }

    /// Returns why a worker may not run its tasks any more, as a clause that begins with `which`; `None` if nothing says so.
    pub(crate) fn doubt_about(
        &self,
        now: Time,
        timeouts: &Timeouts,
        shard: &Shard,
    ) -> Option<String> {
        let worker = self.get(shard)?;
        worker.doubt(now, timeouts, self.lost_in(now, timeouts, worker))
    }

    fn lost_in(&self, now: Time, timeouts: &Timeouts, worker: &Remote) -> Option<Duration> {
        let first = worker.first_health(&self.consensus);
        worker.lost_in(now, timeouts, first)
    }
}
