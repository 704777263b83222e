//! Laws about requests, their answers, and how many there may be.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use brasserie_common::collections::IdMap;
use brasserie_common::{SchedulerId, Time, WorkerId};
use brasserie_scheduler_core::MAX_REPLY_WAIT;

use super::{Law, Moment, Verdict, law};
use crate::event_log::{Ask, CallTag, Happening, MachineId, Run, SchedulerPlace};
use crate::model::requests::{OpenRequest, RequestArrival, closed_by};

#[cfg(test)]
mod tests;

law! {
    /// Each request gets at most one answer, each call has at most one outcome, and each answer and outcome belongs to a request or call.
    ///
    /// Source: Calls. The caller would take a second answer for that of another request.
    pub struct AnsweredOnce = "answered_once" {
        calls: IdMap<CallTag, SchedulerId>,
    }
}

impl Law for AnsweredOnce {
    fn before(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        if let Some((scheduler, request)) = closed_by(happening)
            && !now.model.requests.contains(scheduler, request)
        {
            return Err(format!(
                "scheduler {scheduler} answers {request}, which is not open"
            ));
        }
        match *happening {
            Happening::CallSent {
                scheduler, call, ..
            } => {
                let earlier = self.calls.insert(call, scheduler);
                if earlier.is_some() {
                    return Err(format!("call {} leaves twice", call.0));
                }
            }
            Happening::CallOver {
                scheduler, call, ..
            } => {
                let sender = self.calls.remove(&call);
                if sender != Some(scheduler) {
                    return Err(format!(
                        "scheduler {scheduler} hears an outcome of call {}, which is not open",
                        call.0
                    ));
                }
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.calls.retain(|_, of| *of != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

law! {
    /// A request for work is answered within a second, a heartbeat and a status within five, also while the store cannot write, as long as the
    /// scheduler lives and is awake. Of several repetitions of a status at most one waits.
    ///
    /// Source: R39 and Requests for work. Verdicts about a request for work may come later; the worker does not wait for them. A call that waits
    /// holds capacity that heartbeats need, so a store that stands still would cost all workers.
    pub struct RequestsAreAnswered = "requests_are_answered" {
        paused: BTreeSet<SchedulerPlace>,
        asleep: BTreeSet<MachineId>,
    }
}

impl Law for RequestsAreAnswered {
    /// Checks an answer that leaves now against the present time.
    fn before(&mut self, _happening: &Happening, now: &Moment<'_>) -> Verdict {
        if !self.asleep.is_empty() {
            return Ok(());
        }
        let is_late = |request: &OpenRequest, arrival: &RequestArrival| {
            let longest = match request {
                OpenRequest::Work(_) => ANSWER,
                OpenRequest::Heartbeat(_) | OpenRequest::Status(..) => MAX_REPLY_WAIT,
            };
            now.when > arrival.since + now.world.at_most(longest) + SLACK
        };
        let late = now.model.requests.iter().find(|(_, request, open)| {
            let late = open.iter().find(|arrival| is_late(request, arrival));
            late.is_some_and(|late| !self.paused.contains(&late.place))
        });
        match late {
            None => Ok(()),
            Some((scheduler, request, _)) => Err(format!(
                "scheduler {scheduler} has not answered {request} in time"
            )),
        }
    }

    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::SchedulerPaused { place } => {
                self.paused.insert(place);
            }
            Happening::SchedulerStopped { place, .. } | Happening::SchedulerResumed { place } => {
                self.paused.remove(&place);
            }
            Happening::MachineSuspended { machine } => {
                self.asleep.insert(machine);
            }
            Happening::MachineWoke { machine } => {
                self.asleep.remove(&machine);
            }
            Happening::SchedulerTurn { place } => return repeats(now, place),
            _ => {}
        }
        Ok(())
    }
}

/// Checks that a turn leaves at most one repetition of each status without an answer.
fn repeats(now: &Moment<'_>, place: SchedulerPlace) -> Verdict {
    let repeated = now.model.requests.iter().find(|(_, request, open)| {
        let here = open.iter().filter(|arrival| arrival.place == place);
        matches!(request, OpenRequest::Status(..)) && here.count() > 1
    });
    match repeated {
        None => Ok(()),
        Some((scheduler, request, _)) => Err(format!(
            "scheduler {scheduler} lets repetitions of {request} wait"
        )),
    }
}

/// The limit by the scheduler's own clock.
const ANSWER: Duration = Duration::from_secs(1);
/// A turn counts from the time at which it ends.
const SLACK: Duration = Duration::from_secs(1);

law! {
    /// A worker sends at most 20 heartbeats in any second.
    ///
    /// Source: Association. A thousand workers must not overload a restarted scheduler.
    pub struct HeartbeatsAreBounded = "heartbeats_are_bounded" {
        rates: BTreeMap<WorkerId, Rate>,
    }
}

impl Law for HeartbeatsAreBounded {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        match *happening {
            Happening::HeartbeatSent { worker, .. } => {
                let second = now.world.at_least(Duration::from_secs(1));
                let rate = self.rates.entry(worker).or_default();
                if rate.exceeds(now.when, MAX_A_SECOND, second) {
                    return Err(format!(
                        "worker {worker} sends more than {MAX_A_SECOND} heartbeats within a second"
                    ));
                }
            }
            Happening::WorkerStopped { worker, .. } => {
                self.rates.remove(&worker);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The documented limit, by which operators size schedulers.
const MAX_A_SECOND: usize = 20;

law! {
    /// A scheduler makes at most 64 calls other than runTask and killTask to one worker in any second, and a worker reports one completion at most 8
    /// times in any second.
    ///
    /// Source: Calls. Retries pause, so a peer that refuses or is down costs little.
    pub struct CallsAreBounded = "calls_are_bounded" {
        calls: BTreeMap<(SchedulerId, WorkerId), Rate>,
        reports: BTreeMap<(WorkerId, Run), Rate>,
    }
}

impl Law for CallsAreBounded {
    fn observe(&mut self, happening: &Happening, now: &Moment<'_>) -> Verdict {
        let second = now.world.at_least(Duration::from_secs(1));
        match *happening {
            Happening::CallSent {
                scheduler,
                worker,
                ask,
                ..
            } if !matches!(
                ask,
                Ask::Run { .. } | Ask::Kill { .. } | Ask::TakeBack { .. }
            ) =>
            {
                let rate = self.calls.entry((scheduler, worker)).or_default();
                if rate.exceeds(now.when, MAX_CALLS_A_SECOND, second) {
                    return Err(format!(
                        "scheduler {scheduler} calls worker {worker} more than {MAX_CALLS_A_SECOND} times within a second"
                    ));
                }
            }
            Happening::StatusSent { worker, run, .. } => {
                let rate = self.reports.entry((worker, run)).or_default();
                if rate.exceeds(now.when, MAX_REPORTS_A_SECOND, second) {
                    return Err(format!(
                        "worker {worker} reports {run} more than {MAX_REPORTS_A_SECOND} times within a second"
                    ));
                }
            }
            Happening::StatusSettled { worker, run, .. } => {
                self.reports.remove(&(worker, run));
            }
            Happening::WorkerStopped { worker, .. } => {
                self.reports.retain(|(of, _), _| *of != worker);
            }
            Happening::SchedulerStopped { scheduler, .. } => {
                self.calls.retain(|(by, _), _| *by != scheduler);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Each of up to 20 heartbeats a second may cause one suicide request, one healthcheck and one fetch. The rest is for notifications.
const MAX_CALLS_A_SECOND: usize = 64;
/// One retry a second, and one for each answer that changes the recipient. Few such answers arrive within a second.
const MAX_REPORTS_A_SECOND: usize = 8;

/// Checks that there are at most `limit` happenings in any `window`.
#[derive(Clone, Debug, Default)]
struct Rate {
    last: VecDeque<Time>,
}

impl Rate {
    /// Counts one more happening. Returns whether it exceeds the limit. Remembers at most `limit` times.
    fn exceeds(&mut self, when: Time, limit: usize, window: Duration) -> bool {
        let first_of_too_many = (self.last.len() >= limit)
            .then(|| self.last.pop_front())
            .flatten();
        self.last.push_back(when);
        first_of_too_many.is_some_and(|first| when.since(first) < window)
    }
}
