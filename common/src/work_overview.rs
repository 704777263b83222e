//! How a worker fetches work, at one moment and for people: what it has to do, whom it asks for what, and why it asks nobody.
//!
//! Nothing is decided by it. Spans are seconds of run time and amounts of processors are instances, as in [`crate::work`]; what is
//! waited for are spans of real time.

use std::fmt;
use std::time::Duration;

use crate::health::Health;
use crate::ids::{SchedulerId, Shard};
use crate::time::WallTime;
use crate::work::{WorkDemand, WorkRequestSeq};
use crate::worker::ServiceAddress;

/// Schedulers that one worker may tell of: more than an operator would attach it to.
pub const MAX_SCHEDULERS: usize = 256;
/// Members of one scheduler, and things that are waited for with it, that are told.
pub const MAX_LINES: usize = 256;

/// What a worker answers to whoever asks how it fetches work.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkFetchStatus {
    /// By the worker's clock.
    pub taken: WallTime,
    /// `None`: it fetches none, and takes what it is sent.
    pub overview: Option<Overview>,
}

/// All of it, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overview {
    /// What the policies' constants are called.
    pub profile: String,
    /// Below so many seconds of work it is fetched, up to so many.
    pub low_water: f64,
    pub high_water: f64,
    pub of_type: Vec<TypeOverview>,
    pub of_association: Vec<AssociationOverview>,
}

/// Of a type of processors.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeOverview {
    pub name: String,
    pub instances: f64,
    /// Instance-seconds that are missing until the high water mark.
    pub shortfall: f64,
    pub idle_now: f64,
    /// So many seconds all instances stay busy.
    pub saturated: f64,
    /// So many all are taken by tasks whose deadlines are in danger.
    pub busy: f64,
}

/// Of a scheduler.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssociationOverview {
    /// Where it is: any of its members may serve.
    pub members: Vec<ServiceAddress>,
    /// What the worker is to it, if whoever looks knows.
    pub facts: Option<AssociationFacts>,
    /// 0 or less; the highest is asked first.
    pub priority: f64,
    /// What it got lately, as a part of what all got.
    pub got: f64,
    /// What it is to have, as a part of all shares.
    pub share: f64,
    /// Why it is asked for nothing, or in vain.
    pub reason: Option<String>,
    /// Before that no request goes there.
    pub wait: Option<WaitOverview>,
    /// All that is waited for, a line each.
    pub waits: Vec<String>,
    /// The request that is under way.
    pub request: Option<RequestOverview>,
    pub of_type: Vec<PairOverview>,
}

/// What a worker is to a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationFacts {
    pub shard: Shard,
    /// The instance that has answered last.
    pub scheduler: Option<SchedulerId>,
    /// By the worker's own judgement.
    pub health: Health,
    /// Tasks of it with a process.
    pub running: usize,
    /// Those of them that are stopped for others.
    pub stopped: usize,
    /// Tasks that wait for processors.
    pub waiting: usize,
    /// Ends that it has not acknowledged.
    pub unacknowledged: usize,
}

/// Of a scheduler and a type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PairOverview {
    pub name: String,
    /// Tasks that can run, and the seconds that they take.
    pub runnable: u32,
    pub queued: f64,
    pub deadlines_missed: u32,
    /// The part of the instances that it may have of what is fetched now.
    pub fetchable_share: f64,
    /// Why it is not asked for this.
    pub reason: Option<String>,
    pub backoff: Option<WaitOverview>,
}

/// Something does not happen before this time is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitOverview {
    pub left: Duration,
    pub why: String,
}

/// What a worker does about a scheduler that its operator wants it to ask for work at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkWish {
    pub members: Vec<ServiceAddress>,
    /// What was waited for with it and is not any more, a line each.
    pub ended: Vec<String>,
    pub asks: Asks,
}

/// When it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    Now,
    /// Once this is over, which takes so long, if that is known.
    Later {
        left: Option<Duration>,
        why: String,
    },
    /// Nothing comes of the wish.
    Never {
        why: String,
    },
}

impl Asks {
    pub const WORDS: &'static str = "`now`, `later` or `never`";

    /// The word on the wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Asks::Now => "now",
            Asks::Later { .. } => "later",
            Asks::Never { .. } => "never",
        }
    }
}

/// A request that has not got its verdicts.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOverview {
    pub seq: WorkRequestSeq,
    /// Since it was first sent.
    pub age: Duration,
    pub state: RequestState,
    pub demands: Vec<WorkDemand>,
}

/// What became of a request so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestState {
    InFlight,
    /// A member did not serve.
    Retry,
    /// The scheduler does not know its verdicts yet.
    Pending,
}

impl RequestState {
    pub const WORDS: &'static str = "`in_flight`, `retry` or `pending`";

    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            RequestState::InFlight => "in_flight",
            RequestState::Retry => "retry",
            RequestState::Pending => "pending",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        let all = [
            RequestState::InFlight,
            RequestState::Retry,
            RequestState::Pending,
        ];
        all.into_iter().find(|state| state.as_str() == word)
    }
}

/// For people, as the end of a sentence about the request.
impl fmt::Display for RequestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RequestState::InFlight => "is not answered",
            RequestState::Retry => "goes to another member",
            RequestState::Pending => "has no verdict yet",
        })
    }
}

/// For people: what is wanted, since when, and what became of it.
impl fmt::Display for RequestOverview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request {} for ", self.seq.0)?;
        let wanted = self.demands.iter().filter(|of| of.wants_something());
        let mut before = "";
        for demand in wanted {
            let WorkDemand {
                processor,
                instance_secs,
                instances,
                ..
            } = demand;
            let instances = instances.max(demand.idle);
            write!(
                f,
                "{before}{instance_secs:.0} s and {instances:.1} instances of {processor}"
            )?;
            before = ", ";
        }
        if before.is_empty() {
            f.write_str("nothing")?;
        }
        write!(f, ", {:.1} s ago, {}", self.age.as_secs_f64(), self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Processor;

    #[test]
    fn a_request_says_what_it_wants_and_what_became_of_it() {
        let cpu = WorkDemand {
            instance_secs: 90.4,
            idle: 2.0,
            ..WorkDemand::none(Processor::Cpu, 4.0)
        };
        let cards = WorkDemand::none(Processor::named("A100"), 1.0);
        let request = RequestOverview {
            seq: WorkRequestSeq(7),
            age: Duration::from_millis(1240),
            state: RequestState::Pending,
            demands: vec![cpu, cards.clone()],
        };
        assert_eq!(
            request.to_string(),
            "request 7 for 90 s and 2.0 instances of CPU, 1.2 s ago, has no verdict yet"
        );
        let nothing = RequestOverview {
            state: RequestState::InFlight,
            demands: vec![cards],
            ..request
        };
        assert_eq!(
            nothing.to_string(),
            "request 7 for nothing, 1.2 s ago, is not answered"
        );
    }

    #[test]
    fn states_are_read_as_they_are_written() {
        for state in [
            RequestState::InFlight,
            RequestState::Retry,
            RequestState::Pending,
        ] {
            assert_eq!(RequestState::parse(state.as_str()), Some(state));
            assert!(RequestState::WORDS.contains(state.as_str()));
        }
        assert_eq!(RequestState::parse("lost"), None);
    }
}
