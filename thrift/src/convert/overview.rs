//! The overview of a worker's work fetch, for people. The reader may get it from any peer, so every list and text has a limit.

use brasserie_common::work::MAX_PROCESSOR_TYPES;
use brasserie_common::work_overview::{
    Asks, AssociationFacts, AssociationOverview, MAX_LINES, MAX_SCHEDULERS, Overview, PairOverview,
    RequestOverview, RequestState, TypeOverview, WaitOverview, WorkFetchStatus, WorkWish,
};
use brasserie_common::{Health, WallTime};
use thrift::OrderedFloat;

use super::work::{at_most, seq, span};
use super::{
    Problem, WireError, amount, not_negative, parse, parse_list, parse_name, saturating_i32,
    saturating_i64, to_wire_list,
};
use crate::generated::brasserie as wire;

/// Maximum characters of one text, several times the longest text of this project.
const MAX_TEXT_CHARS: usize = 1000;

impl TryFrom<wire::WorkFetchStatus> for WorkFetchStatus {
    type Error = WireError;

    fn try_from(status: wire::WorkFetchStatus) -> Result<Self, WireError> {
        let overview = status.overview;
        let overview = overview.map(|overview| parse("WorkFetchStatus.overview", overview));
        Ok(WorkFetchStatus {
            taken: WallTime::from_millis(status.taken_ms.unwrap_or(0)),
            overview: overview.transpose()?,
        })
    }
}

impl From<WorkFetchStatus> for wire::WorkFetchStatus {
    fn from(status: WorkFetchStatus) -> Self {
        wire::WorkFetchStatus {
            taken_ms: Some(status.taken.as_millis()),
            overview: status.overview.map(Into::into),
        }
    }
}

impl TryFrom<wire::WorkFetchOverview> for Overview {
    type Error = WireError;

    fn try_from(overview: wire::WorkFetchOverview) -> Result<Self, WireError> {
        const OF_TYPE: &str = "WorkFetchOverview.ofType";
        const OF_ASSOCIATION: &str = "WorkFetchOverview.ofAssociation";
        let of_type = overview.of_type.unwrap_or_default();
        let of_type = at_most(MAX_PROCESSOR_TYPES, OF_TYPE, of_type)?;
        let of_association = overview.of_association.unwrap_or_default();
        let of_association = at_most(MAX_SCHEDULERS, OF_ASSOCIATION, of_association)?;
        Ok(Overview {
            profile: text(overview.profile),
            low_water: amount("WorkFetchOverview.lowWaterSec", overview.low_water_sec)?,
            high_water: amount("WorkFetchOverview.highWaterSec", overview.high_water_sec)?,
            of_type: parse_list(OF_TYPE, of_type)?,
            of_association: parse_list(OF_ASSOCIATION, of_association)?,
        })
    }
}

impl From<Overview> for wire::WorkFetchOverview {
    fn from(overview: Overview) -> Self {
        wire::WorkFetchOverview {
            profile: Some(overview.profile),
            low_water_sec: Some(number(overview.low_water)),
            high_water_sec: Some(number(overview.high_water)),
            of_type: Some(to_wire_list(overview.of_type)),
            of_association: Some(to_wire_list(overview.of_association)),
        }
    }
}

impl TryFrom<wire::ProcessorsOverview> for TypeOverview {
    type Error = WireError;

    fn try_from(of_type: wire::ProcessorsOverview) -> Result<Self, WireError> {
        Ok(TypeOverview {
            name: text(of_type.name),
            instances: amount("ProcessorsOverview.instances", of_type.instances)?,
            shortfall: amount("ProcessorsOverview.shortfall", of_type.shortfall)?,
            idle_now: amount("ProcessorsOverview.idleNow", of_type.idle_now)?,
            saturated: amount("ProcessorsOverview.saturatedSec", of_type.saturated_sec)?,
            busy: amount("ProcessorsOverview.busySec", of_type.busy_sec)?,
        })
    }
}

impl From<TypeOverview> for wire::ProcessorsOverview {
    fn from(of_type: TypeOverview) -> Self {
        wire::ProcessorsOverview {
            name: Some(of_type.name),
            instances: Some(number(of_type.instances)),
            shortfall: Some(number(of_type.shortfall)),
            idle_now: Some(number(of_type.idle_now)),
            saturated_sec: Some(number(of_type.saturated)),
            busy_sec: Some(number(of_type.busy)),
        }
    }
}

impl TryFrom<wire::AssociationOverview> for AssociationOverview {
    type Error = WireError;

    fn try_from(of: wire::AssociationOverview) -> Result<Self, WireError> {
        let members = of.members.unwrap_or_default();
        let members = at_most(MAX_LINES, "AssociationOverview.members", members)?;
        let facts = of.facts;
        let facts = facts.map(|facts| parse("AssociationOverview.facts", facts));
        let waits = of.waits.unwrap_or_default();
        let waits = at_most(MAX_LINES, "AssociationOverview.waits", waits)?;
        let request = of.request;
        let request = request.map(|request| parse("AssociationOverview.request", request));
        let of_type = of.of_type.unwrap_or_default();
        let of_type = at_most(MAX_PROCESSOR_TYPES, "AssociationOverview.ofType", of_type)?;
        Ok(AssociationOverview {
            members: parse_list("AssociationOverview.members", members)?,
            facts: facts.transpose()?,
            priority: finite("AssociationOverview.priority", of.priority)?,
            got: amount("AssociationOverview.got", of.got)?,
            share: amount("AssociationOverview.share", of.share)?,
            reason: of.reason.map(|reason| text(Some(reason))),
            wait: wait("AssociationOverview.wait", of.wait)?,
            waits: waits.into_iter().map(|line| text(Some(line))).collect(),
            request: request.transpose()?,
            of_type: parse_list("AssociationOverview.ofType", of_type)?,
        })
    }
}

impl From<AssociationOverview> for wire::AssociationOverview {
    fn from(of: AssociationOverview) -> Self {
        // The receiver refuses longer lists, and people should see some entries.
        let members = of.members.into_iter().take(MAX_LINES);
        let waits = of.waits.into_iter().take(MAX_LINES);
        wire::AssociationOverview {
            members: Some(to_wire_list(members.collect())),
            facts: of.facts.map(Into::into),
            priority: Some(number(of.priority)),
            got: Some(number(of.got)),
            share: Some(number(of.share)),
            reason: of.reason,
            wait: of.wait.map(Into::into),
            waits: Some(waits.collect()),
            request: of.request.map(Into::into),
            of_type: Some(to_wire_list(of.of_type)),
        }
    }
}

impl TryFrom<wire::AssociationFacts> for AssociationFacts {
    type Error = WireError;

    fn try_from(facts: wire::AssociationFacts) -> Result<Self, WireError> {
        let count = |path: &str, value: Option<i64>| {
            let value = not_negative(path, value.unwrap_or(0))?;
            Ok(usize::try_from(value).unwrap_or(usize::MAX))
        };
        let number = facts.health.unwrap_or(0);
        let health = Health::from_wire(number).ok_or_else(|| {
            let problem = Problem::OutOfRange {
                value: number.into(),
                allowed: "0 (NEW) to 3 (MUST_DIE)",
            };
            WireError::new("AssociationFacts.health", problem)
        });
        let scheduler = facts.scheduler;
        let scheduler = scheduler.map(|id| parse("AssociationFacts.scheduler", id));
        Ok(AssociationFacts {
            shard: parse_name("AssociationFacts.shard", facts.shard.unwrap_or_default())?,
            scheduler: scheduler.transpose()?,
            health: health?,
            running: count("AssociationFacts.running", facts.running)?,
            waiting: count("AssociationFacts.waiting", facts.waiting)?,
            unacknowledged: count("AssociationFacts.unacknowledged", facts.unacknowledged)?,
            stopped: count("AssociationFacts.stopped", facts.stopped)?,
        })
    }
}

impl From<AssociationFacts> for wire::AssociationFacts {
    fn from(facts: AssociationFacts) -> Self {
        wire::AssociationFacts {
            shard: Some(facts.shard.as_str().to_owned()),
            scheduler: facts.scheduler.map(Into::into),
            health: Some(facts.health.to_wire()),
            running: Some(saturating_i64(facts.running)),
            waiting: Some(saturating_i64(facts.waiting)),
            unacknowledged: Some(saturating_i64(facts.unacknowledged)),
            stopped: Some(saturating_i64(facts.stopped)),
        }
    }
}

impl TryFrom<wire::PairOverview> for PairOverview {
    type Error = WireError;

    fn try_from(pair: wire::PairOverview) -> Result<Self, WireError> {
        let count = |path: &str, value: Option<i32>| {
            let value = not_negative(path, value.unwrap_or(0).into())?;
            Ok(u32::try_from(value).unwrap_or(u32::MAX))
        };
        Ok(PairOverview {
            name: text(pair.name),
            runnable: count("PairOverview.runnable", pair.runnable)?,
            queued: amount("PairOverview.queuedSec", pair.queued_sec)?,
            deadlines_missed: count("PairOverview.deadlinesMissed", pair.deadlines_missed)?,
            fetchable_share: amount("PairOverview.fetchableShare", pair.fetchable_share)?,
            reason: pair.reason.map(|reason| text(Some(reason))),
            backoff: wait("PairOverview.backoff", pair.backoff)?,
        })
    }
}

impl From<PairOverview> for wire::PairOverview {
    fn from(pair: PairOverview) -> Self {
        wire::PairOverview {
            name: Some(pair.name),
            runnable: Some(saturating_i32(pair.runnable)),
            queued_sec: Some(number(pair.queued)),
            deadlines_missed: Some(saturating_i32(pair.deadlines_missed)),
            fetchable_share: Some(number(pair.fetchable_share)),
            reason: pair.reason,
            backoff: pair.backoff.map(Into::into),
        }
    }
}

impl TryFrom<wire::WorkRequestOverview> for RequestOverview {
    type Error = WireError;

    fn try_from(request: wire::WorkRequestOverview) -> Result<Self, WireError> {
        let demands = request.demands.unwrap_or_default();
        let demands = at_most(MAX_PROCESSOR_TYPES, "WorkRequestOverview.demands", demands)?;
        let word = request.state.unwrap_or_default();
        let state = RequestState::parse(&word).ok_or_else(|| {
            let problem = Problem::unknown_word(&word, RequestState::WORDS);
            WireError::new("WorkRequestOverview.state", problem)
        });
        Ok(RequestOverview {
            seq: seq("WorkRequestOverview.seq", request.seq)?,
            age: span("WorkRequestOverview.ageSec", request.age_sec)?,
            state: state?,
            demands: parse_list("WorkRequestOverview.demands", demands)?,
        })
    }
}

impl From<RequestOverview> for wire::WorkRequestOverview {
    fn from(request: RequestOverview) -> Self {
        wire::WorkRequestOverview {
            seq: Some(saturating_i64(request.seq.0)),
            age_sec: Some(request.age.as_secs_f64().into()),
            state: Some(request.state.as_str().to_owned()),
            demands: Some(to_wire_list(request.demands)),
        }
    }
}

impl TryFrom<wire::WorkWish> for WorkWish {
    type Error = WireError;

    fn try_from(wish: wire::WorkWish) -> Result<Self, WireError> {
        let members = wish.members.unwrap_or_default();
        let members = at_most(MAX_LINES, "WorkWish.members", members)?;
        let ended = wish.ended.unwrap_or_default();
        let ended = at_most(MAX_LINES, "WorkWish.ended", ended)?;
        let left = wish.left_sec;
        let left = left.map(|left| span("WorkWish.leftSec", Some(left)));
        let (word, left) = (wish.state.unwrap_or_default(), left.transpose()?);
        let why = text(wish.why);
        let asks = match word.as_str() {
            "now" => Asks::Now,
            "later" => Asks::Later { left, why },
            "never" => Asks::Never { why },
            _ => {
                let problem = Problem::unknown_word(&word, Asks::WORDS);
                return Err(WireError::new("WorkWish.state", problem));
            }
        };
        Ok(WorkWish {
            members: parse_list("WorkWish.members", members)?,
            ended: ended.into_iter().map(|line| text(Some(line))).collect(),
            asks,
        })
    }
}

impl From<WorkWish> for wire::WorkWish {
    fn from(wish: WorkWish) -> Self {
        let state = Some(wish.asks.as_str().to_owned());
        let (left, why) = match wish.asks {
            Asks::Now => (None, None),
            Asks::Later { left, why } => (left, Some(why)),
            Asks::Never { why } => (None, Some(why)),
        };
        wire::WorkWish {
            members: Some(to_wire_list(wish.members)),
            ended: Some(wish.ended),
            state,
            left_sec: left.map(|left| left.as_secs_f64().into()),
            why,
        }
    }
}

impl TryFrom<wire::WaitOverview> for WaitOverview {
    type Error = WireError;

    fn try_from(wait: wire::WaitOverview) -> Result<Self, WireError> {
        Ok(WaitOverview {
            left: span("WaitOverview.leftSec", wait.left_sec)?,
            why: text(wait.why),
        })
    }
}

impl From<WaitOverview> for wire::WaitOverview {
    fn from(wait: WaitOverview) -> Self {
        wire::WaitOverview {
            left_sec: Some(wait.left.as_secs_f64().into()),
            why: Some(wait.why),
        }
    }
}

fn wait(path: &str, wait: Option<wire::WaitOverview>) -> Result<Option<WaitOverview>, WireError> {
    wait.map(|wait| parse(path, wait)).transpose()
}

/// Shortens a text for people to [`MAX_TEXT_CHARS`].
fn text(text: Option<String>) -> String {
    let mut text = text.unwrap_or_default();
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
        text.truncate(end);
    }
    text
}

fn finite(path: &str, value: Option<OrderedFloat<f64>>) -> Result<f64, WireError> {
    let value = value.map_or(0.0, OrderedFloat::into_inner);
    match value.is_finite() {
        true => Ok(value),
        false => Err(WireError::new(path, Problem::NotFinite(value))),
    }
}

/// Replaces values that are no amounts, because the receiver would refuse the whole message.
fn number(value: f64) -> OrderedFloat<f64> {
    match value.is_nan() {
        true => 0.0.into(),
        false => value.clamp(f64::MIN, f64::MAX).into(),
    }
}
