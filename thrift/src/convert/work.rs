//! Work requests and their answers.
//!
//! Invalid content is an error in a separate call. In a heartbeat, its answer or a task, it counts as absent, because neither a worker nor
//! a task may be lost because of it.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::work::{MAX_KNOWN_TASKS, MAX_PROCESSOR_TYPES};
use brasserie_common::{
    CardChoice, KnownTask, NodeName, Processor, ReportPolicy, WorkDemand, WorkReply, WorkRequest,
    WorkRequestSeq, WorkTerms, WorkVerdict,
};
use thrift::OrderedFloat;

use super::{
    FieldProblem, WireError, amount, not_negative, parse_list, parse_name, required,
    saturating_i32, saturating_i64, to_wire_list,
};
use crate::generated::common as wire;

/// Returns the work request in a heartbeat, if it is valid.
pub fn riding_request(request: Option<wire::WorkRequest>) -> Option<WorkRequest> {
    request.and_then(|request| request.try_into().ok())
}

impl TryFrom<wire::WorkRequest> for WorkRequest {
    type Error = WireError;

    fn try_from(request: wire::WorkRequest) -> Result<Self, WireError> {
        let demands = request.demands.unwrap_or_default();
        let demands = at_most(MAX_PROCESSOR_TYPES, "WorkRequest.demands", demands)?;
        let demands: Vec<WorkDemand> = parse_list("WorkRequest.demands", demands)?;
        for (position, demand) in demands.iter().enumerate() {
            let is_same = |other: &WorkDemand| other.processor == demand.processor;
            if demands[..position].iter().any(is_same) {
                let path = format!("WorkRequest.demands[{position}].processor");
                let name = demand.processor.as_str();
                let problem = FieldProblem::unknown_word(name, "each type once");
                return Err(WireError::new(&path, problem));
            }
        }
        let known = request.known.map(|known| {
            let known = at_most(MAX_KNOWN_TASKS, "WorkRequest.known", known)?;
            parse_list("WorkRequest.known", known)
        });
        Ok(WorkRequest {
            worker: required("WorkRequest.worker", request.worker)?,
            scheduler: required("WorkRequest.scheduler", request.scheduler)?,
            seq: seq("WorkRequest.seq", request.seq)?,
            demands,
            known: known.transpose()?,
            linger: span("WorkRequest.lingerSec", request.linger_sec)?,
            low_water: amount("WorkRequest.lowWaterSec", request.low_water_sec)?,
            cards: match request.chooses_cards {
                Some(true) => CardChoice::Worker,
                Some(false) | None => CardChoice::Scheduler,
            },
        })
    }
}

impl From<WorkRequest> for wire::WorkRequest {
    fn from(request: WorkRequest) -> Self {
        wire::WorkRequest {
            worker: Some(request.worker.into()),
            scheduler: Some(request.scheduler.into()),
            seq: Some(saturating_i64(request.seq.0)),
            demands: Some(to_wire_list(request.demands)),
            known: request.known.map(to_wire_list),
            linger_sec: Some(request.linger.as_secs_f64().into()),
            low_water_sec: (request.low_water > 0.0).then(|| request.low_water.into()),
            chooses_cards: match request.cards {
                CardChoice::Worker => Some(true),
                CardChoice::Scheduler => None,
            },
        }
    }
}

impl TryFrom<wire::WorkDemand> for WorkDemand {
    type Error = WireError;

    fn try_from(demand: wire::WorkDemand) -> Result<Self, WireError> {
        Ok(WorkDemand {
            processor: processor("WorkDemand.processor", demand.processor)?,
            there: amount("WorkDemand.instances", demand.instances)?.max(1.0),
            instance_secs: amount("WorkDemand.reqInstanceSecs", demand.req_instance_secs)?,
            instances: amount("WorkDemand.reqInstances", demand.req_instances)?,
            idle: amount("WorkDemand.idleInstances", demand.idle_instances)?,
            estimated_delay: amount("WorkDemand.estimatedDelaySec", demand.estimated_delay_sec)?,
            waiting: demand
                .waiting_instances
                .map(|waiting| amount("WorkDemand.waitingInstances", Some(waiting)))
                .transpose()?,
        })
    }
}

impl From<WorkDemand> for wire::WorkDemand {
    fn from(demand: WorkDemand) -> Self {
        wire::WorkDemand {
            processor: Some(demand.processor.as_str().to_owned()),
            instances: Some(demand.there.into()),
            req_instance_secs: Some(demand.instance_secs.into()),
            req_instances: Some(demand.instances.into()),
            idle_instances: Some(demand.idle.into()),
            estimated_delay_sec: Some(demand.estimated_delay.into()),
            waiting_instances: demand.waiting.map(Into::into),
        }
    }
}

impl TryFrom<wire::KnownTask> for KnownTask {
    type Error = WireError;

    fn try_from(task: wire::KnownTask) -> Result<Self, WireError> {
        let seconds = |path, seconds: Option<OrderedFloat<f64>>| {
            let seconds = seconds.map(|seconds| amount(path, Some(seconds)));
            seconds.transpose()
        };
        Ok(KnownTask {
            invocation: required("KnownTask.invocationID", task.invocation_id)?,
            remaining: seconds("KnownTask.remainingSec", task.remaining_sec)?,
            deadline: seconds("KnownTask.deadlineSec", task.deadline_sec)?,
        })
    }
}

impl From<KnownTask> for wire::KnownTask {
    fn from(task: KnownTask) -> Self {
        wire::KnownTask {
            invocation_id: Some(task.invocation.into()),
            remaining_sec: task.remaining.map(Into::into),
            deadline_sec: task.deadline.map(Into::into),
        }
    }
}

impl TryFrom<wire::WorkReply> for WorkReply {
    type Error = WireError;

    fn try_from(reply: wire::WorkReply) -> Result<Self, WireError> {
        let verdicts = reply.verdicts.unwrap_or_default();
        let verdicts = at_most(MAX_PROCESSOR_TYPES, "WorkReply.verdicts", verdicts)?;
        let verdicts = verdicts.into_iter().enumerate().map(|(position, of_type)| {
            let inside =
                |error: WireError| error.inside(&format!("WorkReply.verdicts[{position}]"));
            verdict(of_type).map_err(inside)
        });
        let no_apps = reply.no_apps.unwrap_or_default();
        let no_apps = at_most(MAX_PROCESSOR_TYPES, "WorkReply.noApps", no_apps)?;
        let no_apps = no_apps
            .into_iter()
            .map(|name| processor("WorkReply.noApps", Some(name)));
        let contact = span("WorkReply.nextContactSec", reply.next_contact_sec)?;
        Ok(WorkReply {
            seq: seq("WorkReply.seq", reply.seq)?,
            verdicts: verdicts.collect::<Result<_, _>>()?,
            request_delay: span("WorkReply.requestDelaySec", reply.request_delay_sec)?,
            no_apps: no_apps.collect::<Result<_, _>>()?,
            next_contact: Some(contact).filter(|within| !within.is_zero()),
        })
    }
}

impl From<WorkReply> for wire::WorkReply {
    fn from(reply: WorkReply) -> Self {
        let contact = reply.next_contact.unwrap_or_default();
        let no_apps = reply.no_apps.iter();
        wire::WorkReply {
            seq: Some(saturating_i64(reply.seq.0)),
            verdicts: Some(reply.verdicts.iter().map(verdict_to_wire).collect()),
            request_delay_sec: Some(reply.request_delay.as_secs_f64().into()),
            no_apps: Some(no_apps.map(|of| of.as_str().to_owned()).collect()),
            next_contact_sec: Some(contact.as_secs_f64().into()),
        }
    }
}

fn verdict(of_type: wire::ProcessorVerdict) -> Result<(Processor, WorkVerdict), WireError> {
    let granted = i64::from(of_type.granted.unwrap_or(0));
    let granted = not_negative("ProcessorVerdict.granted", granted)?;
    let code = of_type.verdict.unwrap_or(wire::WorkVerdict(0));
    let verdict = match code {
        wire::WorkVerdict::GRANTED => {
            WorkVerdict::Granted(u32::try_from(granted).unwrap_or(u32::MAX))
        }
        wire::WorkVerdict::NO_WORK => WorkVerdict::NoWork,
        wire::WorkVerdict::LIMITED => WorkVerdict::Limited,
        wire::WorkVerdict::DEADLINE => WorkVerdict::Deadline,
        wire::WorkVerdict::NO_APPS => WorkVerdict::NoApps,
        wire::WorkVerdict::DEFERRED => WorkVerdict::Deferred,
        wire::WorkVerdict::STALE => WorkVerdict::Stale,
        wire::WorkVerdict::PENDING => WorkVerdict::Pending,
        wire::WorkVerdict(value) => {
            let problem = FieldProblem::OutOfRange {
                value: value.into(),
                allowed: "1 (GRANTED) to 8 (PENDING)",
            };
            return Err(WireError::new("ProcessorVerdict.verdict", problem));
        }
    };
    let processor = processor("ProcessorVerdict.processor", of_type.processor)?;
    Ok((processor, verdict))
}

fn verdict_to_wire((processor, verdict): &(Processor, WorkVerdict)) -> wire::ProcessorVerdict {
    let (verdict, granted) = match verdict {
        WorkVerdict::Granted(tasks) => (wire::WorkVerdict::GRANTED, saturating_i32(*tasks)),
        WorkVerdict::NoWork => (wire::WorkVerdict::NO_WORK, 0),
        WorkVerdict::Limited => (wire::WorkVerdict::LIMITED, 0),
        WorkVerdict::Deadline => (wire::WorkVerdict::DEADLINE, 0),
        WorkVerdict::NoApps => (wire::WorkVerdict::NO_APPS, 0),
        WorkVerdict::Deferred => (wire::WorkVerdict::DEFERRED, 0),
        WorkVerdict::Stale => (wire::WorkVerdict::STALE, 0),
        WorkVerdict::Pending => (wire::WorkVerdict::PENDING, 0),
    };
    wire::ProcessorVerdict {
        processor: Some(processor.as_str().to_owned()),
        verdict: Some(verdict),
        granted: Some(granted),
    }
}

/// Returns the terms in fields 9, 11, 12, 15 and 19 of a `RunningTask`.
pub(super) fn terms(task: &wire::RunningTask) -> WorkTerms {
    let seconds = task.est_duration_sec.map(OrderedFloat::into_inner);
    let request = task
        .work_request_seq
        .and_then(|seq| u64::try_from(seq).ok());
    let usage = task.usage.as_ref();
    let cpus = usage.and_then(|usage| usage.get(Processor::Cpu.as_str()));
    let cpus = cpus.map(|cpus| cpus.into_inner());
    WorkTerms {
        cpus: cpus.filter(|cpus| cpus.is_finite() && *cpus >= 0.0),
        est_duration: seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0),
        request: request.map(WorkRequestSeq),
        bufferable: task.bufferable.unwrap_or(false),
        report: task.report.as_deref().map(ReportPolicy::named),
    }
}

/// Returns field 11 of a `RunningTask`.
pub(super) fn usage(cpus: f64) -> BTreeMap<String, OrderedFloat<f64>> {
    [(Processor::Cpu.as_str().to_owned(), cpus.into())].into()
}

fn processor(path: &str, name: Option<String>) -> Result<Processor, WireError> {
    let name: NodeName = parse_name(path, name.unwrap_or_default())?;
    if name.as_str().is_empty() {
        let allowed = "\"CPU\" or a model of GPUs";
        return Err(WireError::new(
            path,
            FieldProblem::unknown_word("", allowed),
        ));
    }
    Ok(Processor::named(name.as_str()))
}

pub(super) fn seq(path: &str, value: Option<i64>) -> Result<WorkRequestSeq, WireError> {
    not_negative(path, value.unwrap_or(0)).map(WorkRequestSeq)
}

/// Maximum time span: 68 years, so that sums with it do not overflow.
const MAX_SPAN: Duration = Duration::from_secs(i32::MAX as u64);

/// Parses a time span, and reduces it to [`MAX_SPAN`].
pub(super) fn span(path: &str, value: Option<OrderedFloat<f64>>) -> Result<Duration, WireError> {
    let seconds = amount(path, value)?;
    Ok(Duration::try_from_secs_f64(seconds).map_or(MAX_SPAN, |span| span.min(MAX_SPAN)))
}

pub(super) fn at_most<T>(most: usize, path: &str, list: Vec<T>) -> Result<Vec<T>, WireError> {
    if list.len() <= most {
        return Ok(list);
    }
    let problem = FieldProblem::TooMany {
        count: list.len(),
        allowed: most,
    };
    Err(WireError::new(path, problem))
}
