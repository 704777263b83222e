//! Converts between the messages of a worker and the types of the policies.

use brasserie_common::{Processor, WorkDemand, WorkReply};

use super::super::amounts::amount;
use super::super::contact_state::{ContactState, FetchReply};
use super::super::driver::Candidate;
use super::super::estimates::Estimates;
use super::super::fetch::{FetchInput, FetchRequest, Source, SourcePair};
use super::super::job_sched::Preemption;
use super::super::outlook::Outlook;
use super::super::pair_backoff::TypeReply;
use super::super::rr_sim::SimulationInput;
use super::super::types::{AssociationIndex, PerType, ProcessorType, Processors, Task, TaskStage};
use super::AssociationState;

pub(super) fn candidate(
    state: &mut ContactState,
    association_state: AssociationState,
    has_here: bool,
) -> Candidate<'_> {
    Candidate {
        state,
        is_suspended: association_state.is_suspended,
        is_absent: association_state.is_absent,
        wants_no_more_work: association_state.wants_no_more_work,
        has_tasks: has_here || association_state.unacknowledged > 0,
    }
}

pub(super) fn fetch_input<'a>(
    simulation_input: &SimulationInput<'a>,
    preemption: Preemption,
    sources: &'a [Source],
    outlook: &'a Outlook,
    outstanding: &'a PerType<Option<AssociationIndex>>,
) -> FetchInput<'a> {
    FetchInput {
        now: simulation_input.now,
        profile: simulation_input.profile,
        preemption,
        processors: simulation_input.processors,
        associations: simulation_input.associations,
        sources,
        rec: simulation_input.rec,
        tasks: simulation_input.tasks,
        outlook,
        outstanding,
    }
}

pub(super) fn sources<'a>(
    processors: &Processors,
    states: impl Iterator<Item = &'a ContactState>,
    association_states: &[AssociationState],
    estimates: &Estimates,
) -> Vec<Source> {
    let source = |(place, state): (usize, &ContactState)| {
        let association_state = association_states.get(place).copied().unwrap_or_default();
        let mut of_type = processors.table(&SourcePair::default());
        for of in processors.types() {
            let pair = state.pairs.of(of);
            of_type[of] = SourcePair {
                no_apps: pair.has_no_apps(),
                backed_off_until: pair.backed_off_until(),
                turned_down: pair.was_turned_down(),
                credit: pair.credit(),
            };
        }
        Source {
            suspended: association_state.is_suspended || association_state.is_absent,
            list_pending: state.rpc.wants_list(),
            no_more_work: association_state.wants_no_more_work,
            unacknowledged: association_state.unacknowledged,
            min_rpc_time: state.rpc.min_rpc_time(),
            correction: estimates.correction(AssociationIndex(place)),
            is_tried: estimates.is_tried(AssociationIndex(place)),
            of_type,
        }
    };
    states.enumerate().map(source).collect()
}

pub(super) fn type_called(processors: &Processors, called: &Processor) -> Option<ProcessorType> {
    let mut types = processors.types();
    types.find(|of_type| processor(processors, *of_type) == *called)
}

pub(super) fn processor(processors: &Processors, of_type: ProcessorType) -> Processor {
    match of_type {
        ProcessorType::CPU => Processor::Cpu,
        _ => Processor::Cards(processors[of_type].name.as_str().into()),
    }
}

/// Returns the demands of a request: one for each type that the worker has.
pub(super) fn demands(processors: &Processors, request: Option<&FetchRequest>) -> Vec<WorkDemand> {
    let there = processors
        .types()
        .filter(|of_type| processors.instances(*of_type) > 0.0);
    let demand = |of_type: ProcessorType| {
        let name = processor(processors, of_type);
        let nothing = WorkDemand::none(name, processors.instances(of_type));
        match request.map(|request| request.of_type[of_type]) {
            Some(demand) => WorkDemand {
                instance_secs: demand.secs,
                instances: demand.instances,
                idle: demand.idle,
                estimated_delay: demand.estimated_delay,
                ..nothing
            },
            None => nothing,
        }
    };
    there.map(demand).collect()
}

/// Adds the waiting amounts to the demands of a lingering request. When a run completes, the scheduler sends the next task without a
/// request, but it must leave the instances to tasks that already wait at the worker.
pub(super) fn note_waiting(processors: &Processors, tasks: &[Task], demands: &mut [WorkDemand]) {
    for demand in demands {
        let Some(of) = type_called(processors, &demand.processor) else {
            continue;
        };
        let waiting = tasks.iter().filter(|task| match task.stage {
            TaskStage::Executing { .. } => false,
            TaskStage::Queued
            | TaskStage::WaitingForInputs { .. }
            | TaskStage::Preempted { .. } => true,
        });
        // All resources of a waiting task count: a task that waits for a GPU and CPUs needs both.
        let amounts = waiting.map(|task| amount(task.usage.of(of)));
        demand.waiting = Some(amounts.fold(0.0, |sum, one| sum + one));
    }
}

/// Converts a reply to the policies' types. Types that the worker does not have are ignored.
pub(super) fn heard(processors: &Processors, reply: &WorkReply) -> FetchReply {
    let mut of_type = processors.table(&TypeReply::default());
    for (called, verdict) in &reply.verdicts {
        if let Some(known) = type_called(processors, called) {
            of_type[known].verdict = Some(*verdict);
        }
    }
    for called in &reply.no_apps {
        if let Some(known) = type_called(processors, called) {
            of_type[known].no_apps = true;
        }
    }
    FetchReply {
        of_type,
        request_delay: reply.request_delay.as_secs_f64(),
        next_contact: reply.next_contact.map_or(0.0, |at| at.as_secs_f64()),
    }
}
