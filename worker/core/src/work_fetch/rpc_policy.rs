//! When a scheduler may be talked to of work, and what failures do to that.
//!
//! Only requests for work, and reports that are held back to go together, heed this. Heartbeats, healthchecks, statuses that leave at once
//! and answers to calls never do: without them a scheduler would lose the worker while it waits.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{Story, Time};

use super::amounts::amount;
use super::backoff::{exponential_backoff, span, unit};
use super::profile::Profile;
use super::reason::{RpcReason, Wish};
use super::types::TaskNumber;
use super::wait::{Wait, WaitCause, left};

/// No scheduler of the volunteers' system asks for a longer delay, so that what is saved as one is none of its.
const LONGEST_DELAY: Duration = Duration::from_secs(2 * 86_400);
/// Of failures in a row so many are remembered: none of the rules tells more of them apart.
const MOST_FAILURES: u32 = 1_000_000;

/// What a failure is worth: the constants, and a random number, uniform in [0, 1].
///
/// The volunteers' system counts no failure while it believes that its own network is down. A worker cannot know: a cluster that restarts,
/// or a network that is down elsewhere, looks the same to it, and then it is the growing wait that keeps all of them from coming back at once.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    pub profile: &'a Profile,
    pub u: f64,
}

/// What became of reading the list of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListReading {
    /// There is a member that was not there before.
    NewMember,
    Unchanged,
    /// It could not be read, or there is nobody in it.
    Failed,
}

/// Whether the list of members is to be read again.
///
/// ```text
///   NotWanted --so many failures in a row, and no heartbeat is answered------> NotBefore(now)
///   NotWanted --a failure after it could not be read again and again---------> NotBefore(much later)
///   NotBefore --it was read, or could not be; somebody answers---------------> NotWanted
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    NotWanted,
    /// It does not wait for the backoff of requests, but for this.
    NotBefore(Time),
}

/// Of one scheduler. Time never goes back here: the clock counts suspend and nobody sets it. Over a restart of the worker it begins anew, and
/// what is saved are spans; whether the wall clock by which they aged can be trusted is for [`away`](super::away) to say.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcPolicy {
    /// `min_rpc_time`, and why; nobody is talked to before. It may have passed. `None`: at once.
    wait: Option<Wait>,
    /// So long the scheduler wants no request, whatever else is waited for; [`Time::ZERO`]: it does not care.
    delayed_until: Time,
    /// The end of a backoff has not been noticed yet.
    possibly_backed_off: bool,
    /// The scheduler wants to be talked to then at the latest.
    next_rpc_time: Option<Time>,
    /// Failures in a row, `nrpc_failures`: of requests, of reading the list, of tasks.
    failures: u32,
    /// Failures in a row to read the list, `master_fetch_failures`.
    list_failures: u32,
    /// Invariant: nobody waits for it longer than for `wait`, so that a list is read before anybody is asked for work.
    list: List,
    wish: Option<Wish>,
    /// The wish that the operation in progress is for.
    serving: Option<Wish>,
    /// A member has answered a heartbeat since the last failure.
    members_answer: bool,
    /// Tasks that have counted as failures: each does once, however much of it fails.
    failed_tasks: BTreeSet<TaskNumber>,
}

impl RpcPolicy {
    /// Of a scheduler that was never talked to.
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

    /// The wait in force.
    pub fn wait(&self, now: Time) -> Option<Wait> {
        self.wait.filter(|wait| wait.until > now)
    }

    pub fn is_backed_off(&self, now: Time) -> bool {
        self.wait(now).is_some()
    }

    /// [`Time::ZERO`]: at once, whenever that is.
    pub fn min_rpc_time(&self) -> Time {
        self.wait.map_or(Time::ZERO, |wait| wait.until)
    }

    /// So long the scheduler itself wants no request, which even the operator's wish heeds: it would only be put off again.
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

    /// Whether the list is to be read, be it now or later: until then the scheduler is asked for nothing.
    pub fn wants_list(&self) -> bool {
        self.list_due().is_some()
    }

    /// When the list is to be read.
    pub fn list_due(&self) -> Option<Time> {
        match self.list {
            List::NotWanted => None,
            List::NotBefore(at) => Some(at),
        }
    }

    /// What the scheduler is to be talked to for beside work.
    pub fn wish(&self) -> Option<Wish> {
        self.wish
    }

    /// When the scheduler wants to be talked to at the latest.
    pub fn next_rpc_time(&self) -> Option<Time> {
        self.next_rpc_time
    }

    /// Whether the end of a backoff is still to be noticed.
    pub fn awaits_end(&self) -> bool {
        self.possibly_backed_off
    }

    /// Notices the end of a backoff, once: work that nobody could be asked for may be fetched now.
    pub fn notice_end(&mut self, now: Time) -> bool {
        let ended = self.possibly_backed_off && !self.is_backed_off(now);
        self.possibly_backed_off &= !ended;
        ended
    }

    /// A weaker wish does not take the place of a stronger one.
    pub fn ask(&mut self, wish: Wish) {
        self.wish = self.wish.max(Some(wish));
    }

    /// An operation begins; what is wished from now on is for the next.
    pub fn begin(&mut self, reason: RpcReason) {
        self.serving = match reason {
            RpcReason::Wished(_) => self.wish.take(),
            RpcReason::ResultsDue | RpcReason::NeedWork => None,
        };
    }

    /// A good reply: whatever was wrong before, it no longer is. Delays are seconds; a next contact of 0 means none.
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

    /// A reply without anything but when to ask again: nobody has failed, and nothing is known to be well. A scheduler that does not say
    /// when is asked no sooner than work is fetched without a reason, and what was wished is wished still.
    pub fn deferred(&mut self, now: Time, request_delay: f64, profile: &Profile) {
        self.give_up();
        let delay = match amount(request_delay) {
            0.0 => profile.fetch_period,
            said => said,
        };
        self.delay(now, delay);
    }

    /// The scheduler wants no request for so long.
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

    /// It is another instance, and has answered a heartbeat: what the one before wanted, or did not serve, says nothing of it. It is asked soon,
    /// but not by all workers at once. That tasks failed here does.
    pub fn is_another(&mut self, now: Time, terms: Terms<'_>) {
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

    /// No member could be talked to, or what came made no sense, or the request could not be made at all: one failure, whoever was tried.
    pub fn rpc_failed(&mut self, now: Time, terms: Terms<'_>) {
        self.fail(now, terms, |failures| WaitCause::RpcFailed { failures });
        self.give_up();
    }

    /// The reading of the list is over.
    pub fn list_read(&mut self, now: Time, reading: ListReading, terms: Terms<'_>) {
        self.list = List::NotWanted;
        match reading {
            ListReading::NewMember => {
                self.list_failures = 0;
                self.failures = 0;
                self.no_wait();
            }
            // Whoever did not answer is no more likely to answer now: the backoff stays.
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

    /// A task of this scheduler has ended otherwise than well. Says whether that counts as a failure: it does once for each task, by what
    /// the profile counts. So a machine on which all tasks crash asks for fewer and fewer.
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

    /// The task is reported: nothing of it can fail any more.
    pub fn task_gone(&mut self, task: TaskNumber) {
        self.failed_tasks.remove(&task);
    }

    /// A member has answered a heartbeat: the list is good, if requests fail or not. Heartbeats that fail say nothing here.
    pub fn heartbeat_answered(&mut self) {
        self.list_is_good();
        self.members_answer = true;
    }

    fn list_is_good(&mut self) {
        self.list_failures = 0;
        self.list = List::NotWanted;
    }

    /// The operator wants the scheduler to be talked to now: what the worker waits for of its own accord is over. What the scheduler has
    /// asked for stands.
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

    /// The wall clock was set back while the worker was away, so that nobody knows how much of any wait has passed.
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

    /// A later time is never made an earlier one.
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
                // It stays where it is if it is wanted: failing tasks would put it off for ever.
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

    /// The operation in progress is over without an outcome, since the association has changed: its wish stands.
    pub fn abandoned(&mut self) {
        self.failed_tasks.clear();
        self.wish = self.wish.max(self.serving.take());
    }

    /// The operation in progress was in vain.
    fn give_up(&mut self) {
        let stays = self.serving.take().filter(|wish| wish.outlives_failure());
        self.wish = self.wish.max(stays);
    }

    /// What waits for what, for people: a line for each.
    pub fn explain(&self, now: Time) -> Vec<String> {
        let mut lines = self.waits(now);
        if let Some(wish) = self.wish.max(self.serving) {
            lines.push(format!("RPC pending: {}", RpcReason::Wished(wish)));
        }
        lines
    }

    /// The same without what is only to be done.
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

    /// The end of a wait that was in force is noticed as if the worker had not been away. No wait is longer than the profile ever makes one,
    /// whatever is saved.
    pub fn restore(now: Time, saved: &SavedRpc, profile: &Profile) -> Self {
        let wait = saved.wait.map(|wait| SavedWait {
            left: wait.left.min(longest(wait.cause, profile)),
            ..wait
        });
        // A list waits for the backoff, or for its own interval.
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

/// The longest that a wait for this can have left.
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

/// What outlives a restart of the worker: spans, since its clock begins anew.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SavedRpc {
    pub wait: Option<SavedWait>,
    pub next_contact: Option<Duration>,
    pub failures: u32,
    pub list_failures: u32,
    /// When the list of members is to be read.
    pub list: Option<Duration>,
    pub wish: Option<Wish>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SavedWait {
    pub left: Duration,
    pub cause: WaitCause,
}

#[cfg(test)]
mod tests;
