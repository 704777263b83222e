//! The requests that each scheduler has not answered yet.

use std::collections::BTreeMap;
use std::fmt;

use brasserie_common::{SchedulerId, Time, WorkerId};

use crate::event_log::{CallTag, Happening, Run, SchedulerPlace};

/// A request of a worker. The same one may be open several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OpenRequest {
    Work(CallTag),
    Heartbeat(WorkerId),
    Status(WorkerId, Run),
}

impl fmt::Display for OpenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenRequest::Work(call) => write!(f, "request for work {}", call.0),
            OpenRequest::Heartbeat(worker) => write!(f, "a heartbeat of worker {worker}"),
            OpenRequest::Status(worker, run) => {
                write!(f, "a status of worker {worker} about {run}")
            }
        }
    }
}

/// One arrival of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestArrival {
    pub place: SchedulerPlace,
    /// The time of the arrival, or of the last moment at which a scheduler woke up since.
    pub since: Time,
}

/// Requests without answers. A repeated request gets as many answers. Each answer counts for the oldest one.
#[derive(Clone, Debug, Default)]
pub struct OpenRequests {
    open: BTreeMap<(SchedulerId, OpenRequest), Vec<RequestArrival>>,
}

impl OpenRequests {
    pub fn iter(&self) -> impl Iterator<Item = (SchedulerId, OpenRequest, &[RequestArrival])> {
        let open = self.open.iter();
        open.map(|((scheduler, request), open)| (*scheduler, *request, open.as_slice()))
    }

    pub fn contains(&self, scheduler: SchedulerId, request: OpenRequest) -> bool {
        self.open.contains_key(&(scheduler, request))
    }

    pub fn note(&mut self, when: Time, happening: &Happening) {
        if let Some((place, key)) = opened_by(happening) {
            let arrival = RequestArrival { place, since: when };
            self.open.entry(key).or_default().push(arrival);
        }
        if let Some(key) = closed_by(happening)
            && let Some(open) = self.open.get_mut(&key)
        {
            open.remove(0);
            if open.is_empty() {
                self.open.remove(&key);
            }
        }
        match *happening {
            Happening::SchedulerStopped { scheduler, .. } => {
                self.open.retain(|(of, _), _| *of != scheduler);
            }
            // Schedulers that did not sleep also get the extra time, which makes the laws slightly weaker.
            Happening::SchedulerResumed { .. } | Happening::MachineWoke { .. } => {
                for open in self.open.values_mut().flatten() {
                    open.since = when;
                }
            }
            _ => {}
        }
    }
}

fn opened_by(happening: &Happening) -> Option<(SchedulerPlace, (SchedulerId, OpenRequest))> {
    match *happening {
        Happening::WorkAnswerOwed {
            place,
            scheduler,
            call,
            ..
        } => Some((place, (scheduler, OpenRequest::Work(call)))),
        Happening::HeartbeatHeard {
            place,
            scheduler,
            worker,
            ..
        } => Some((place, (scheduler, OpenRequest::Heartbeat(worker)))),
        Happening::StatusHeard {
            place,
            scheduler,
            worker,
            run,
            ..
        } => Some((place, (scheduler, OpenRequest::Status(worker, run)))),
        _ => None,
    }
}

/// Returns the request that a scheduler answers here, if any.
pub fn closed_by(happening: &Happening) -> Option<(SchedulerId, OpenRequest)> {
    match *happening {
        Happening::WorkAnswered {
            scheduler, call, ..
        } => Some((scheduler, OpenRequest::Work(call))),
        Happening::HeartbeatAnswered {
            scheduler, worker, ..
        }
        | Happening::HeartbeatRejected {
            scheduler, worker, ..
        } => Some((scheduler, OpenRequest::Heartbeat(worker))),
        Happening::StatusAcknowledged {
            scheduler,
            worker,
            run,
            ..
        }
        | Happening::StatusRejected {
            scheduler,
            worker,
            run,
            ..
        } => Some((scheduler, OpenRequest::Status(worker, run))),
        _ => None,
    }
}
