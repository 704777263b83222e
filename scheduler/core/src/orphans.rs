//! Orphans: running tasks that the configuration no longer wants, because their job or node is gone or their job is cancelled. An orphan is
//! killed once it has been one for as long as its job, or else the settings, allow; at once if the job is cancelled.

mod recheck;
pub mod snapshot;
pub mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::ops::Bound;
use std::time::Duration;

use brasserie_common::fingerprint::Shape;
use brasserie_common::{CallId, CallOutcome, InvocationId, JobId, NodeId, Shard, Time};
use brasserie_scheduler_engine::Task;
use recheck::Unchecked;

/// The most open `killTask` calls to one worker: enough for a whole machine within a few round trips, and few enough for a slow worker.
const MAX_OPEN_KILLS: usize = 16;
/// The pause between the first two kills of one orphan, beside the wait of the kill itself. A task that obeys has ended and its completion
/// is reported by then.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The most doublings of the pause: 10 s, 20 s ... 2560 s, 2560 s ... A task that ignores the kills of the first minute needs a person, and
/// `status` shows it.
const MAX_DOUBLINGS: u32 = 8;
/// The number of kills after which an orphan is shown as a problem. One kill may merely not have worked yet.
const STUBBORN: u32 = 2;
/// A task and one of its runs. A further run of a task is an orphan if its main run is.
pub type OrphanKey = (Task, InvocationId);

/// Every orphan that is to be killed, and when to call each worker about them.
///
/// The wanted tasks change only with the configuration and the nodes; unwanted runs appear only when workers list them. So after such a
/// change, all runs are checked whose job has changed or whose node may be gone, and a listed run is checked when it is adopted. Tasks that
/// the engine places are wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Orphans {
    unchecked: Unchecked,
    /// The orphans. Invariant: only of runs that are known.
    by_run: BTreeMap<OrphanKey, Orphan>,
    by_shard: BTreeMap<Shard, OnShard>,
    /// The workers that were evaluated in this turn. Their due orphans are killed at its end.
    evaluated: BTreeSet<Shard>,
}

#[derive(Clone, Debug)]
struct Orphan {
    shard: Shard,
    /// When the run was first found to be an orphan.
    since: Time,
    step: OrphanStep,
    /// The number of kill requests that may have arrived.
    asked: u32,
    /// The time and the result of the last kill request.
    last: Option<(Time, String)>,
}

/// The state of an orphan.
///
/// ```text
///   Waiting --due, and its worker said that it runs--> Asked --outcome--> Waiting, each time twice as long
/// ```
/// Both states end with the run, with the loss of its worker, and when the task is wanted again or may run without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OrphanStep {
    /// The orphan is left alone until this time, and while its run is not confirmed.
    Waiting(Time),
    /// This `killTask` call has no outcome yet.
    Asked(CallId),
}

#[derive(Clone, Debug, Default)]
struct OnShard {
    /// The orphans in `OrphanStep::Waiting`. Invariant: each has the time of its step.
    waiting: BTreeSet<(Time, OrphanKey)>,
    open: BTreeSet<CallId>,
}

/// An orphan that was killed repeatedly and still runs.
#[derive(Clone, Copy, Debug)]
pub struct StubbornOrphan<'a> {
    pub run: OrphanKey,
    pub shard: &'a Shard,
    /// The number of kill requests that may have arrived.
    pub asked: u32,
    /// The time and the result of the last kill request.
    pub last: Option<(Time, &'a str)>,
}

impl Orphans {
    /// Notes an orphan that may run for `delay` after it was first found.
    pub(crate) fn note(&mut self, now: Time, run: OrphanKey, shard: &Shard, delay: Duration) {
        match self.by_run.get(&run) {
            None => {
                let orphan = Orphan {
                    shard: shard.clone(),
                    since: now,
                    step: OrphanStep::Waiting(now),
                    asked: 0,
                    last: None,
                };
                self.by_run.insert(run, orphan);
                self.wait_until(run, now + delay);
            }
            // Once a kill request was sent, the pauses count, and a delay that has become longer.
            Some(orphan) => {
                let at = orphan.since + delay;
                match (orphan.step, &orphan.last) {
                    (_, None) => self.wait_until(run, at),
                    (OrphanStep::Waiting(pause), Some(_)) if pause < at => self.wait_until(run, at),
                    (OrphanStep::Waiting(_) | OrphanStep::Asked(_), Some(_)) => {}
                }
            }
        }
    }

    /// Forgets an orphan whose run is over, is wanted again, or may run on.
    pub(crate) fn forget(&mut self, run: OrphanKey) {
        self.leave_step(run);
        self.by_run.remove(&run);
    }

    fn wait_until(&mut self, run: OrphanKey, at: Time) {
        self.leave_step(run);
        if let Some(orphan) = self.by_run.get_mut(&run) {
            orphan.step = OrphanStep::Waiting(at);
            let on_shard = self.by_shard.entry(orphan.shard.clone()).or_default();
            on_shard.waiting.insert((at, run));
        }
    }

    /// Requires a check of every run.
    pub(crate) fn recheck_all(&mut self) {
        self.unchecked.everything();
    }

    /// Requires a check of the job's runs.
    pub(crate) fn recheck_job(&mut self, job: JobId) {
        self.unchecked.job(job);
    }

    pub(crate) fn is_rechecking(&self) -> bool {
        !self.unchecked.is_empty()
    }

    /// Returns the first and the last task of the range that is checked next.
    pub(crate) fn next_unchecked(&self) -> Option<(Task, Task)> {
        self.unchecked.next()
    }

    /// Notes that this range is checked up to this task; `None`: to its end.
    pub(crate) fn note_checked(&mut self, up_to: Option<Task>) {
        self.unchecked.checked(up_to);
    }

    /// Iterates over the orphans that were killed repeatedly and still run.
    pub(crate) fn stubborn(&self) -> impl Iterator<Item = StubbornOrphan<'_>> {
        let orphans = self.by_run.iter();
        let stubborn = orphans.filter(|(_, orphan)| orphan.asked >= STUBBORN);
        stubborn.map(|(run, orphan)| StubbornOrphan {
            run: *run,
            shard: &orphan.shard,
            asked: orphan.asked,
            last: orphan.last.as_ref().map(|(at, text)| (*at, text.as_str())),
        })
    }

    fn leave_step(&mut self, run: OrphanKey) {
        let Some(orphan) = self.by_run.get(&run) else {
            return;
        };
        let shard = orphan.shard.clone();
        if let OrphanStep::Waiting(at) = orphan.step
            && let Some(on_shard) = self.by_shard.get_mut(&shard)
        {
            on_shard.waiting.remove(&(at, run));
        }
        self.tidy(&shard);
    }

    fn tidy(&mut self, shard: &Shard) {
        let is_idle = |on: &OnShard| on.waiting.is_empty() && on.open.is_empty();
        if self.by_shard.get(shard).is_some_and(is_idle) {
            self.by_shard.remove(shard);
        }
    }

    /// Notes that the worker was evaluated: its orphans are checked at the end of the turn.
    pub(crate) fn note_evaluated(&mut self, shard: &Shard) {
        if self.by_shard.contains_key(shard) {
            self.evaluated.insert(shard.clone());
        }
    }

    /// Removes and returns the workers whose orphans are to be checked in this turn.
    pub(crate) fn take_evaluated(&mut self) -> BTreeSet<Shard> {
        std::mem::take(&mut self.evaluated)
    }

    /// Returns when the run was first found to be an orphan; `None` if it is none.
    pub(crate) fn since(&self, run: OrphanKey) -> Option<Time> {
        self.by_run.get(&run).map(|orphan| orphan.since)
    }

    /// Notes that a kill of the run was requested.
    pub(crate) fn kill_requested(&mut self, now: Time, run: OrphanKey, call: CallId) {
        self.leave_step(run);
        if let Some(orphan) = self.by_run.get_mut(&run) {
            orphan.step = OrphanStep::Asked(call);
            orphan.asked = orphan.asked.saturating_add(1);
            orphan.last = Some((now, "no answer yet".to_owned()));
            let on_shard = self.by_shard.entry(orphan.shard.clone()).or_default();
            on_shard.open.insert(call);
        }
    }

    /// Handles the outcome of a kill request, as far as it concerns a run that is still an orphan. `kill_wait` is the wait of the kill itself.
    pub(crate) fn kill_answered<T>(
        &mut self,
        now: Time,
        (run, shard, call): (OrphanKey, &Shard, CallId),
        kill_wait: Duration,
        outcome: &CallOutcome<T>,
    ) {
        self.close_call(shard, call);
        self.note_answer(now, (run, call), kill_wait, outcome);
    }

    fn close_call(&mut self, shard: &Shard, call: CallId) {
        if let Some(on_shard) = self.by_shard.get_mut(shard) {
            on_shard.open.remove(&call);
        }
        self.tidy(shard);
    }

    fn note_answer<T>(
        &mut self,
        now: Time,
        (run, call): (OrphanKey, CallId),
        kill_wait: Duration,
        outcome: &CallOutcome<T>,
    ) {
        let asked = |orphan: &&mut Orphan| orphan.step == OrphanStep::Asked(call);
        let Some(orphan) = self.by_run.get_mut(&run).filter(asked) else {
            return;
        };
        let text = match outcome {
            CallOutcome::Done(_) => "its worker has signalled it".to_owned(),
            CallOutcome::Refused(_, text) => format!("its worker refused: {text}"),
            CallOutcome::Unknown(text) => {
                format!("whether its worker heard it is not known: {text}")
            }
            CallOutcome::NotSent(text) => {
                // The request did not reach the worker. The worker's exit or loss bounds how often this happens.
                orphan.asked = orphan.asked.saturating_sub(1);
                format!("its worker was not reached: {text}")
            }
        };
        orphan.last = orphan.last.take().map(|(at, _)| (at, text));
        let doublings = orphan.asked.saturating_sub(1).min(MAX_DOUBLINGS);
        let pause = kill_wait + FIRST_PAUSE * (1 << doublings);
        self.wait_until(run, now + pause);
    }

    /// Returns how many more kills may be requested of the worker at present.
    pub(crate) fn kills_left(&self, shard: &Shard) -> usize {
        let open = self.by_shard.get(shard).map_or(0, |on| on.open.len());
        MAX_OPEN_KILLS.saturating_sub(open)
    }

    /// Iterates over the orphans of a worker that are due.
    pub(crate) fn due(&self, shard: &Shard, now: Time) -> impl Iterator<Item = OrphanKey> + '_ {
        let waiting = self.by_shard.get(shard).into_iter();
        let waiting = waiting.flat_map(|on| on.waiting.iter());
        waiting
            .take_while(move |(at, _)| *at <= now)
            .map(|(_, run)| *run)
    }

    /// Returns when the next orphan becomes due. Orphans that are due already wait for a call's outcome or a worker's report, not for a
    /// time.
    pub(crate) fn next_due(&self, shard: &Shard, now: Time) -> Option<Time> {
        let waiting = &self.by_shard.get(shard)?.waiting;
        let last = (
            Task {
                job: JobId(u32::MAX),
                node: NodeId(u32::MAX),
            },
            InvocationId::new(i64::MAX, i64::MAX),
        );
        let after = (Bound::Excluded((now, last)), Bound::Unbounded);
        waiting.range(after).next().map(|(at, _)| *at)
    }
}

impl Orphans {
    pub(crate) fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Orphans {
            unchecked,
            by_run,
            by_shard,
            evaluated,
        } = self;
        s.put(evaluated);
        unchecked.shape(s);
        s.each(by_run, |s, ((task, invocation), orphan)| {
            s.put(task);
            s.invocation(*invocation);
            orphan.shape(s);
        });
        s.each(by_shard, |s, (shard, on_shard)| {
            let OnShard {
                // Follows from the steps.
                waiting: _,
                open,
            } = on_shard;
            s.put(shard);
            s.each(open, |s, call| s.call(*call));
        });
    }
}

impl Orphan {
    fn shape<H: Hasher>(&self, s: &mut Shape<'_, H>) {
        let Orphan {
            shard,
            since,
            step,
            asked,
            // Only shown, except for whether there was a first request.
            last,
        } = self;
        s.put((shard, asked, last.is_some()));
        s.time(*since);
        match step {
            OrphanStep::Waiting(at) => s.opt(Some(*at), Shape::deadline),
            OrphanStep::Asked(call) => {
                s.opt(None, Shape::deadline);
                s.call(*call);
            }
        }
    }
}
