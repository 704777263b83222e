//! Decides when a scheduler may be contacted for work, and how failures change that.
//!
//! Only work requests and held-back reports obey this policy. Heartbeats, healthchecks, statuses that leave at once and answers to calls do
//! not, because the scheduler would lose a worker that waits.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{Story, Time};
use serde::{Deserialize, Serialize};

use super::amounts::amount;
use super::backoff::{exponential_backoff, span, unit};
use super::profile::Profile;
use super::reason::{RpcReason, Wish};
use super::types::TaskNumber;
use super::wait::{Wait, WaitCause, left};

/// Maximum delay that a scheduler requests, in BOINC and by `thrift/PROTOCOL.md`. A longer saved delay is cut.
const LONGEST_DELAY: Duration = Duration::from_secs(2 * 86_400);
/// Limit of the counts of consecutive failures. No rule distinguishes larger counts.
const MOST_FAILURES: u32 = 1_000_000;

/// The parameters of a failure: the constants, and a random number, uniform in [0, 1].
///
/// BOINC counts no failure while it assumes that its own network is down. A worker cannot know that: a restarting cluster, or a broken
/// network elsewhere, looks the same. In these cases the growing wait keeps all workers from returning at once.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub profile: &'a Profile,
    pub u: f64,
}

/// The result of reading the member list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListReading {
    /// The list has a new member.
    NewMember,
    Unchanged,
    /// The list could not be read, or is empty.
    Failed,
}

/// Whether the member list must be read again.
///
/// ```text
///   NotWanted --too many failures in a row, and no heartbeat is answered-----> NotBefore(now)
///   NotWanted --a failure after it could not be read again and again---------> NotBefore(much later)
///   NotBefore --it was read, or could not be; a member answers---------------> NotWanted
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    NotWanted,
    /// The list is read at this time, independently of the backoff of requests.
    NotBefore(Time),
}

/// The contact policy of one scheduler. Its clock never goes back: it counts suspend, and nobody sets it. A restart of the worker starts it
/// anew, so saved values are spans. Function [`away`](super::away) decides whether the wall clock that aged them is reliable.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcPolicy {
    /// `min_rpc_time` and its cause: no contact happens before. It may have passed; `None` for no wait.
    wait: Option<Wait>,
    /// The time before which the scheduler itself wants no request; [`Time::ZERO`] for no limit.
    delayed_until: Time,
    /// Whether the end of a backoff has not been noticed yet.
    possibly_backed_off: bool,
    /// The time at which the scheduler wants the next contact at the latest.
    next_rpc_time: Option<Time>,
    /// Consecutive failures of requests, list readings and tasks (BOINC's `nrpc_failures`).
    failures: u32,
    /// Consecutive failures to read the list (BOINC's `master_fetch_failures`).
    list_failures: u32,
    /// Invariant: the list is due no later than `wait` ends, so that a due list is read before anybody is asked for work.
    list: List,
    wish: Option<Wish>,
    /// The wish that the operation in progress serves.
    serving: Option<Wish>,
    /// Whether a member has answered a heartbeat since the last failure.
    members_answer: bool,
    /// Tasks that have counted as failures. Each counts once, whatever else of it fails.
    failed_tasks: BTreeSet<TaskNumber>,
}

impl RpcPolicy {
    /// Returns the policy for a scheduler that the worker has never contacted.
    pub fn new() -> Self {
        RpcPolicy {
            wait: None,
            delayed_until: Time::ZERO,
            possibly_backed_off: false,
            next_rpc_time: None,
            failures: 0,
            list_failures: 0,
            list: List::NotWanted,
            wish: Some(Wish::Init),
            serving: None,
            members_answer: false,
            failed_tasks: BTreeSet::new(),
        }
    }

    /// Returns the wait in force.
    pub fn wait(&self, now: Time) -> Option<Wait> {
        self.wait.filter(|wait| wait.until > now)
    }

    pub fn is_backed_off(&self, now: Time) -> bool {
        self.wait(now).is_some()
    }

    /// Returns the time before which no contact happens; [`Time::ZERO`] for none.
    pub fn min_rpc_time(&self) -> Time {
        self.wait.map_or(Time::ZERO, |wait| wait.until)
    }

    /// Returns the time before which the scheduler itself wants no request. Even the operator's wish obeys it, because the scheduler would
    /// only defer the request again.
    pub fn delayed_until(&self) -> Time {
        self.delayed_until
    }

    pub fn failures(&self) -> u32 {
        self.failures
    }

    #[cfg(test)]
    pub fn list_failures(&self) -> u32 {
        self.list_failures
    }

    /// Returns whether the list must be read, now or later. Until then the scheduler is asked for nothing.
    pub fn wants_list(&self) -> bool {
        self.list_due().is_some()
    }

    /// Returns the time at which the list must be read.
    pub fn list_due(&self) -> Option<Time> {
        match self.list {
            List::NotWanted => None,
            List::NotBefore(at) => Some(at),
        }
    }

    /// Returns the reason for a contact besides work.
    pub fn wish(&self) -> Option<Wish> {
        self.wish
    }

    /// Returns the time at which the scheduler wants the next contact at the latest.
    pub fn next_rpc_time(&self) -> Option<Time> {
        self.next_rpc_time
    }

    /// Returns whether the end of a backoff has not been noticed yet.
    pub fn awaits_end(&self) -> bool {
        self.possibly_backed_off
    }

    /// Notices the end of a backoff, once. Returns whether it has just ended, so that work may be fetched now.
    pub fn notice_end(&mut self, now: Time) -> bool {
        let ended = self.possibly_backed_off && !self.is_backed_off(now);
        self.possibly_backed_off &= !ended;
        ended
    }

    /// Adds a wish. A weaker wish does not replace a stronger one.
    pub fn ask(&mut self, wish: Wish) {
        self.wish = self.wish.max(Some(wish));
    }

    /// Notes that an operation begins. Later wishes are for the next operation.
    pub fn begin(&mut self, reason: RpcReason) {
        self.serving = match reason {
            RpcReason::Wished(_) => self.wish.take(),
            RpcReason::ResultsDue | RpcReason::NeedWork => None,
        };
    }

    /// Applies a good reply, which ends all failures. Delays are seconds; a `next_contact` of 0 means none.
    pub fn replied(&mut self, now: Time, request_delay: f64, next_contact: f64) {
        self.serving = None;
        self.failures = 0;
        self.no_wait();
        self.list_is_good();
        self.members_answer = false;
        let next = amount(next_contact);
        self.next_rpc_time = (next > 0.0).then(|| now + span(next));
        self.delay(now, request_delay);
    }

    /// Applies a reply that only says when to ask again. It is no failure, but does not end earlier failures. Without a delay in the reply,
    /// the next request waits for `fetch_period`. The wish of the operation ends unless it outlives failures.
    pub fn deferred(&mut self, now: Time, request_delay: f64, profile: &Profile) {
        self.give_up();
        let delay = match amount(request_delay) {
            0.0 => profile.fetch_period,
            said => said,
        };
        self.delay(now, delay);
    }

    /// Notes that the scheduler wants no request for `request_delay` seconds.
    pub fn delayed(&mut self, now: Time, request_delay: f64) {
        self.delay(now, request_delay);
    }

    fn delay(&mut self, now: Time, request_delay: f64) {
        if amount(request_delay) > 0.0 {
            let until = now + span(request_delay);
            let cause = WaitCause::RequestDelay;
            self.delayed_until = self.delayed_until.max(until);
            self.set_min_rpc_time(Wait { until, cause });
        }
    }

    /// Notes that the scheduler has a new instance, which has answered a heartbeat. Waits that the previous instance caused end within
    /// `fetch_period`, at a random time, so that not all workers ask at once. Waits for failed tasks stay.
    pub fn scheduler_replaced(&mut self, now: Time, terms: Terms<'_>) {
        self.delayed_until = Time::ZERO;
        let of_the_other = |cause: WaitCause| match cause {
            WaitCause::RequestDelay
            | WaitCause::RpcFailed { .. }
            | WaitCause::ListFailed { .. }
            | WaitCause::ListFailedAgain { .. }
            | WaitCause::NextContact
            | WaitCause::Failures { .. } => true,
            WaitCause::TaskFailed { .. } | WaitCause::NoWork { .. } => false,
        };
        if let Some(wait) = self.wait.as_mut().filter(|wait| of_the_other(wait.cause)) {
            let soon = now + span(unit(terms.u) * amount(terms.profile.fetch_period));
            wait.until = wait.until.min(soon);
        }
    }

    fn no_wait(&mut self) {
        self.wait = None;
        self.delayed_until = Time::ZERO;
    }

    /// Notes a failed request: no member could be contacted, the reply made no sense, or the request could not be made. It counts once,
    /// however many members were tried.
    pub fn rpc_failed(&mut self, now: Time, terms: Terms<'_>) {
        self.fail(now, terms, |failures| WaitCause::RpcFailed { failures });
        self.give_up();
    }

    /// Applies the result of reading the list.
    pub fn list_read(&mut self, now: Time, reading: ListReading, terms: Terms<'_>) {
        self.list = List::NotWanted;
        match reading {
            ListReading::NewMember => {
                self.list_failures = 0;
                self.failures = 0;
                self.no_wait();
            }
            // Known members are no more likely to answer now, so the backoff stays.
            ListReading::Unchanged => self.list_failures = 0,
            ListReading::Failed => {
                self.list_failures = self.list_failures.saturating_add(1);
                self.fail(now, terms, |failures| WaitCause::ListFailed { failures });
                self.give_up();
                return;
            }
        }
        self.wish = self.wish.max(self.serving.take());
    }

    /// Notes that a task of this scheduler did not succeed. Returns whether that counts as a failure: once for each task, by the profile's
    /// rule. A machine on which all tasks crash so asks for less and less.
    pub fn task_failed(
        &mut self,
        now: Time,
        task: TaskNumber,
        story: &Story,
        terms: Terms<'_>,
    ) -> bool {
        let counts = terms.profile.task_errors.counts(story) && self.failed_tasks.insert(task);
        if counts {
            self.fail(now, terms, |failures| WaitCause::TaskFailed { failures });
        }
        counts
    }

    /// Forgets a task whose completion is acknowledged, because nothing of it can fail any more.
    pub fn task_gone(&mut self, task: TaskNumber) {
        self.failed_tasks.remove(&task);
    }

    /// Notes that a member has answered a heartbeat, so the list is good whether or not requests fail. Failed heartbeats have no effect.
    pub fn heartbeat_answered(&mut self) {
        self.list_is_good();
        self.members_answer = true;
    }

    fn list_is_good(&mut self) {
        self.list_failures = 0;
        self.list = List::NotWanted;
    }

    /// Ends the worker's own waits at the operator's request. A delay that the scheduler asked for stays.
    pub fn update(&mut self, now: Time) {
        self.ask(Wish::User);
        let until = self.delayed_until;
        self.at_once(now);
        if until > now {
            self.delayed_until = until;
            let cause = WaitCause::RequestDelay;
            self.set_min_rpc_time(Wait { until, cause });
        }
    }

    /// Ends all waits. The wall clock was set back while the worker was away, so it is unknown how much of a wait has passed.
    pub fn clock_went_back(&mut self, now: Time) {
        self.at_once(now);
        self.next_rpc_time = Some(now);
    }

    fn at_once(&mut self, now: Time) {
        self.no_wait();
        if self.wants_list() {
            self.list = List::NotBefore(now);
        }
    }

    /// Sets `min_rpc_time`, but never to an earlier time.
    fn set_min_rpc_time(&mut self, wait: Wait) {
        if wait.until > self.min_rpc_time() {
            self.wait = Some(wait);
        }
        self.possibly_backed_off = true;
    }

    fn fail(&mut self, now: Time, terms: Terms<'_>, cause: impl FnOnce(u32) -> WaitCause) {
        let profile = terms.profile;
        if self.list_failures >= profile.list_fetch_retries {
            let until = now + span(profile.list_fetch_interval);
            if !self.wants_list() {
                // A due time stays as it is, or failing tasks would postpone it for ever.
                self.list = List::NotBefore(until);
            }
            let readings = self.list_failures;
            let cause = WaitCause::ListFailedAgain { readings };
            self.set_min_rpc_time(Wait { until, cause });
            return;
        }
        self.failures = self.failures.saturating_add(1);
        let is_period = self.failures.is_multiple_of(profile.list_fetch_after);
        if is_period && !self.members_answer {
            self.list = List::NotBefore(now);
        }
        self.members_answer = false;
        let exponent = self.failures.min(profile.rpc_backoff_cap);
        let (min, max) = (profile.rpc_backoff_min, profile.rpc_backoff_max);
        let backoff = exponential_backoff(min, max, exponent, terms.u);
        self.set_min_rpc_time(Wait {
            until: now + span(backoff),
            cause: cause(self.failures),
        });
    }

    /// Ends the operation in progress without an outcome, because the association has changed. Its wish stays.
    pub fn abandoned(&mut self) {
        self.failed_tasks.clear();
        self.wish = self.wish.max(self.serving.take());
    }

    /// Ends the operation in progress as a failure.
    fn give_up(&mut self) {
        let stays = self.serving.take().filter(|wish| wish.outlives_failure());
        self.wish = self.wish.max(stays);
    }

    /// Describes the waits and wishes for the operator, one line each.
    pub fn explain(&self, now: Time) -> Vec<String> {
        let mut lines = self.waits(now);
        if let Some(wish) = self.wish.max(self.serving) {
            lines.push(format!("RPC pending: {}", RpcReason::Wished(wish)));
        }
        lines
    }

    /// Describes the waits alone, one line each.
    pub fn waits(&self, now: Time) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(wait) = self.wait(now) {
            lines.push(format!("minimum RPC time: {}", wait.explain(now)));
        }
        if let Some(at) = self.list_due() {
            let cause = match self.list_failures {
                0 => WaitCause::Failures {
                    failures: self.failures,
                },
                readings => WaitCause::ListFailedAgain { readings },
            };
            let wait = Wait { until: at, cause };
            lines.push(format!("scheduler list: read {}", wait.explain(now)));
        }
        if let Some(until) = self.next_rpc_time {
            let cause = WaitCause::NextContact;
            let wait = Wait { until, cause };
            lines.push(format!("next RPC: {}", wait.explain(now)));
        }
        lines
    }

    pub fn save(&self, now: Time) -> SavedRpc {
        SavedRpc {
            wait: self.wait(now).map(|wait| SavedWait {
                left: left(now, wait.until),
                cause: wait.cause,
            }),
            next_contact: self.next_rpc_time.map(|at| left(now, at)),
            failures: self.failures,
            list_failures: self.list_failures,
            list: self.list_due().map(|at| left(now, at)),
            wish: self.wish.max(self.serving),
        }
    }

    /// Restores a saved policy. The end of a saved wait is noticed as if the worker had not been away. No wait is longer than the profile
    /// allows.
    pub fn restore(now: Time, saved: &SavedRpc, profile: &Profile) -> Self {
        let wait = saved.wait.map(|wait| SavedWait {
            left: wait.left.min(longest(wait.cause, profile)),
            ..wait
        });
        // The list waits for the backoff or for its own interval.
        let longest_for_list = span(profile.list_fetch_interval);
        let longest_for_list =
            wait.map_or(longest_for_list, |wait| longest_for_list.max(wait.left));
        RpcPolicy {
            wait: wait.map(|wait| Wait {
                until: now + wait.left,
                cause: wait.cause,
            }),
            delayed_until: match wait {
                Some(SavedWait {
                    left,
                    cause: WaitCause::RequestDelay,
                }) => now + left,
                Some(_) | None => Time::ZERO,
            },
            possibly_backed_off: saved.wait.is_some(),
            next_rpc_time: (saved.next_contact).map(|left| now + left.min(LONGEST_DELAY)),
            failures: saved.failures.min(MOST_FAILURES),
            list_failures: saved.list_failures.min(MOST_FAILURES),
            list: match saved.list {
                Some(left) => List::NotBefore(now + left.min(longest_for_list)),
                None => List::NotWanted,
            },
            wish: saved.wish,
            serving: None,
            members_answer: false,
            failed_tasks: BTreeSet::new(),
        }
    }
}

impl Default for RpcPolicy {
    fn default() -> Self {
        RpcPolicy::new()
    }
}

/// Returns the longest wait that this cause can have.
fn longest(cause: WaitCause, profile: &Profile) -> Duration {
    match cause {
        WaitCause::RequestDelay | WaitCause::NextContact => LONGEST_DELAY,
        WaitCause::ListFailedAgain { .. } => span(profile.list_fetch_interval),
        WaitCause::RpcFailed { .. }
        | WaitCause::ListFailed { .. }
        | WaitCause::TaskFailed { .. }
        | WaitCause::Failures { .. }
        | WaitCause::NoWork { .. } => span(profile.rpc_backoff_max),
    }
}

/// The part of a policy that survives a restart of the worker. It consists of spans, because the clock starts anew.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedRpc {
    pub wait: Option<SavedWait>,
    pub next_contact: Option<Duration>,
    pub failures: u32,
    pub list_failures: u32,
    /// Time until the member list must be read.
    pub list: Option<Duration>,
    pub wish: Option<Wish>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedWait {
    pub left: Duration,
    pub cause: WaitCause,
}

#[cfg(test)]
mod tests;
