//! The state of a worker's work fetch at one moment, for people: its tasks, its requests, and why it requests nothing.
//!
//! No decision depends on it. Amounts of work are seconds of run time and amounts of processors are instances, as in [`crate::work`]; waits
//! are in real time.
//!
//! The types are also the JSON document that a worker sends, and that `brasserie worker work-fetch --json` prints. JSON has neither infinite
//! numbers nor NaN: the document has the largest number and 0 instead.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

use crate::address::ServiceAddress;
use crate::health::Health;
use crate::ids::{SchedulerId, Shard};
use crate::time::WallTime;
use crate::work::{WorkDemand, WorkRequestSeq};

/// The schedulers that one worker reports: more than an operator would configure.
pub const MAX_SCHEDULERS: usize = 256;
/// The reported members of one scheduler, and the reported waits of one scheduler.
pub const MAX_LINES: usize = 256;

/// A worker's answer to a question about its work fetch.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkFetchStatus {
    /// The time of the answer by the worker's clock.
    pub taken: WallTime,
    /// `None`: the worker requests no work and takes the tasks that it is sent.
    pub overview: Option<Overview>,
}

/// The whole work fetch at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Overview {
    /// The name of the policy constants.
    pub profile: String,
    /// The worker fetches work below `low_water` seconds, up to `high_water` seconds.
    #[serde(rename = "low_water_sec", serialize_with = "finite")]
    pub low_water: f64,
    #[serde(rename = "high_water_sec", serialize_with = "finite")]
    pub high_water: f64,
    #[serde(rename = "processors")]
    pub of_type: Vec<TypeOverview>,
    #[serde(rename = "schedulers")]
    pub of_association: Vec<AssociationOverview>,
}

/// The state of one type of processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TypeOverview {
    pub name: String,
    #[serde(serialize_with = "finite")]
    pub instances: f64,
    /// Instance-seconds that are missing until the high water mark.
    #[serde(rename = "shortfall_instance_sec", serialize_with = "finite")]
    pub shortfall: f64,
    #[serde(rename = "idle", serialize_with = "finite")]
    pub idle_now: f64,
    /// Seconds for which all instances stay busy.
    #[serde(rename = "saturated_sec", serialize_with = "finite")]
    pub saturated: f64,
    /// Seconds for which tasks with deadlines in danger take all instances.
    #[serde(rename = "busy_sec", serialize_with = "finite")]
    pub busy: f64,
}

/// The state of one scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssociationOverview {
    /// The addresses of the scheduler, HOST:PORT; any member may serve.
    pub members: Vec<String>,
    /// The worker's state towards the scheduler, if known.
    #[serde(flatten)]
    pub facts: Option<AssociationFacts>,
    /// 0 or less; the highest is asked first.
    #[serde(serialize_with = "finite")]
    pub priority: f64,
    /// The part of all recent processor time that its tasks got.
    #[serde(serialize_with = "finite")]
    pub got: f64,
    /// Its share, as a part of all shares.
    #[serde(serialize_with = "finite")]
    pub share: f64,
    /// The reason why the scheduler is not asked, or is asked in vain.
    pub reason: Option<String>,
    /// The wait before the next request to the scheduler.
    pub wait: Option<WaitOverview>,
    /// All present waits, a line each.
    pub waits: Vec<String>,
    /// The request that is under way.
    pub request: Option<RequestOverview>,
    #[serde(rename = "processors")]
    pub of_type: Vec<PairOverview>,
}

/// The worker's state towards a scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssociationFacts {
    pub shard: Shard,
    /// The instance that answered last.
    #[serde(rename = "instance")]
    pub scheduler: Option<SchedulerId>,
    /// The health by the worker's own model.
    pub health: Health,
    /// Tasks of the scheduler that have a process.
    pub running: usize,
    /// Tasks of `running` that occupy their processors.
    pub executing: usize,
    /// Tasks of `running` that are stopped for others.
    pub stopped: usize,
    /// Queued tasks.
    pub waiting: usize,
    /// Completions that the scheduler has not acknowledged.
    pub unacknowledged: usize,
}

/// The state of one scheduler and type of processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PairOverview {
    pub name: String,
    /// Tasks that can run, and their run time in seconds.
    pub runnable: u32,
    #[serde(rename = "queued_sec", serialize_with = "finite")]
    pub queued: f64,
    pub deadlines_missed: u32,
    /// The part of the instances that the scheduler may fill in the present fetch.
    #[serde(serialize_with = "finite")]
    pub fetchable_share: f64,
    /// The reason why the scheduler is not asked for this type.
    pub reason: Option<String>,
    pub backoff: Option<WaitOverview>,
}

/// A wait, and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WaitOverview {
    #[serde(rename = "left_sec", with = "seconds")]
    pub left: Duration,
    pub why: String,
}

/// The worker's response for one scheduler to an operator's request to ask for work at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkWish {
    pub members: Vec<ServiceAddress>,
    /// The waits that the request has ended, a line each.
    pub ended: Vec<String>,
    pub asks: Asks,
}

/// When the scheduler is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asks {
    Now,
    /// The scheduler is asked after this wait, with the time left if that is known.
    Later {
        left: Option<Duration>,
        why: String,
    },
    /// The scheduler is not asked, for this reason.
    Never {
        why: String,
    },
}

impl Asks {
    pub const WORDS: &'static str = "`now`, `later` or `never`";

    /// Returns the name on the wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Asks::Now => "now",
            Asks::Later { .. } => "later",
            Asks::Never { .. } => "never",
        }
    }
}

/// A request without its verdicts yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestOverview {
    pub seq: WorkRequestSeq,
    /// The time since it was first sent.
    #[serde(rename = "age_sec", with = "seconds")]
    pub age: Duration,
    pub state: RequestState,
    pub demands: Vec<WorkDemand>,
}

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    InFlight,
    /// A member did not serve; the worker tries again.
    Retry,
    /// The scheduler does not know its verdicts yet.
    Pending,
}

/// Formats the state for people, as the end of a sentence about the request.
impl fmt::Display for RequestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RequestState::InFlight => "is not answered",
            RequestState::Retry => "goes to another member",
            RequestState::Pending => "has no verdict yet",
        })
    }
}

/// Formats the request for people: the amounts, the age and the state.
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

/// Serializes a number that may be infinite or NaN.
fn finite<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    let value = if value.is_nan() { 0.0 } else { *value };
    serializer.serialize_f64(value.clamp(f64::MIN, f64::MAX))
}

/// Times as seconds.
mod seconds {
    use std::time::Duration;

    use serde::de::Error as _;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        Duration::try_from_secs_f64(seconds).map_err(D::Error::custom)
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
    fn a_document_reads_as_what_it_was_written_from() {
        let wait = WaitOverview {
            left: Duration::from_millis(4500),
            why: "it had none".to_owned(),
        };
        let facts = AssociationFacts {
            shard: Shard::try_from("w1").expect("a name"),
            scheduler: Some(SchedulerId::new(1_700_000_000, -7)),
            health: Health::MustDie,
            running: 3,
            executing: 2,
            stopped: 1,
            waiting: 0,
            unacknowledged: 5,
        };
        let request = RequestOverview {
            seq: WorkRequestSeq(7),
            age: Duration::from_millis(1250),
            state: RequestState::InFlight,
            demands: vec![WorkDemand::none(Processor::named("A100"), 1.0)],
        };
        let pair = PairOverview {
            name: "CPU".to_owned(),
            backoff: Some(wait.clone()),
            ..PairOverview::default()
        };
        let known = AssociationOverview {
            members: vec!["[::1]:6789".to_owned()],
            facts: Some(facts),
            priority: -0.5,
            wait: Some(wait),
            request: Some(request),
            of_type: vec![pair],
            ..AssociationOverview::default()
        };
        let overview = Overview {
            profile: "cluster".to_owned(),
            of_type: vec![TypeOverview::default()],
            of_association: vec![known, AssociationOverview::default()],
            ..Overview::default()
        };
        let text = serde_json::to_string(&overview).expect("JSON");
        assert_eq!(
            serde_json::from_str::<Overview>(&text).expect("an overview"),
            overview
        );
        let document: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let one = &document["schedulers"][0];
        assert_eq!(
            (&one["health"], &one["executing"]),
            (&"lost".into(), &2.into())
        );
        assert_eq!(one["request"]["state"], "in_flight");
        assert_eq!(one["processors"][0]["backoff"]["left_sec"], 4.5);
    }

    #[test]
    fn numbers_that_json_lacks_are_replaced_and_senseless_times_are_refused() {
        let of_type = TypeOverview {
            saturated: f64::INFINITY,
            busy: f64::NAN,
            ..TypeOverview::default()
        };
        let text = serde_json::to_string(&of_type).expect("JSON");
        let read: TypeOverview = serde_json::from_str(&text).expect("an overview");
        assert_eq!((read.saturated, read.busy), (f64::MAX, 0.0));
        let wait = r#"{"left_sec": -1, "why": ""}"#;
        assert!(serde_json::from_str::<WaitOverview>(wait).is_err());
    }
}
