//! Orders tasks where no deadline decides.
//!
//! Turns and time slices belong to schedulers. A separate rule decides which tasks take a scheduler's turns. Started tasks come first: they
//! do not stop, or stay stopped, for tasks that have not started. Among the latter, tasks that need many CPUs come first, but they do not
//! overtake a task that has waited longer than a full buffer lasts. No later task that needs fewer CPUs overtakes them, because they start
//! on any free CPU. So no task starves.
//!
//! A scheduler's tasks occupy the places that turns and slices give it, and are reordered within these places. This is no order of any two
//! tasks. "Started first" within one scheduler, "whose turn it is" between two and "more CPUs first" among tasks that have not started
//! could form a cycle.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::super::profile::Precedence;
use super::super::types::{AssociationIndex, TaskStage};
use super::Preemption;
use super::SchedulingInput;
use super::contenders::{Contender, ContenderSet, Contenders, InDanger, Reason, RunListEntry};

/// Returns the running tasks that do not stop for any other task.
pub(super) fn stays(
    input: &SchedulingInput<'_>,
    contenders: &Contenders<'_>,
    in_danger: &InDanger,
) -> ContenderSet {
    let has_reason = has_reason_to_stop(input, contenders, in_danger);
    let mut stays = contenders.marks();
    for (place, contender) in contenders.all() {
        let may_stop = match input.preemption {
            Preemption::Off => false,
            Preemption::Suspend => {
                has_reason && contender.cards.is_none() && !contender.is_ending()
            }
        };
        if contender.is_executing() && !may_stop {
            stays.add(place);
        }
    }
    stays
}

/// Returns whether any task has a reason to stop another: a deadline is in danger, or two schedulers take turns. Without one, running tasks
/// go on even if they need more CPUs than there are, because a task starts on any free CPU.
fn has_reason_to_stop(
    input: &SchedulingInput<'_>,
    contenders: &Contenders<'_>,
    in_danger: &InDanger,
) -> bool {
    match input.profile.precedence {
        Precedence::MoreCpus => true,
        Precedence::Begun => {
            let counts = in_danger.iter().flat_map(|of_types| of_types.iter());
            let mut counts = counts.map(|(_, count)| *count);
            let all = contenders.all().map(|(_, contender)| contender);
            let can_run = all.filter(|contender| contender.can_run());
            let mut of = can_run.map(|contender| contender.task.association);
            let first = of.next();
            counts.any(|count| count > 0) || of.any(|other| Some(other) != first)
        }
    }
}

/// Orders CPU tasks by CPUs, most first. Otherwise a task that needs many CPUs would always find some of them taken.
pub(super) fn more_cpus(one: &Contender<'_>, other: &Contender<'_>) -> Ordering {
    match (one.cards, other.cards) {
        (None, None) => other.cpus.total_cmp(&one.cpus),
        (Some(_), _) | (_, Some(_)) => Ordering::Equal,
    }
}

/// Reorders the tasks of each scheduler within the places that they occupy: running and stopped tasks, GPU tasks, tasks that have waited
/// for long, then tasks by CPUs, most first. Tasks in danger and tasks in `keep` stay in place.
pub(super) fn give_turns(
    input: &SchedulingInput<'_>,
    contenders: &Contenders<'_>,
    entries: &mut [(RunListEntry, Width)],
    keep: &ContenderSet,
) {
    let mut turns: BTreeMap<AssociationIndex, Vec<usize>> = BTreeMap::new();
    for (at, (entry, _)) in entries.iter().enumerate() {
        if entry.reason != Reason::Deadline && !keep.has(entry.place) {
            let association = contenders.get(entry.place).task.association;
            turns.entry(association).or_default().push(at);
        }
    }
    for turns in turns.values() {
        let mut own: Vec<(RunListEntry, Width)> = turns.iter().map(|at| entries[*at]).collect();
        // The sort is stable, so equal entries keep the order of the list.
        own.sort_by(|one, other| {
            let of = |(entry, width): &(RunListEntry, Width)| {
                let contender = contenders.get(entry.place);
                (PrecedenceClass::of(input, contender, *width), contender)
            };
            let ((one_class, one), (other_class, other)) = (of(one), of(other));
            one_class
                .cmp(&other_class)
                .then_with(|| one_class.order(one, other))
        });
        for (at, entry) in turns.iter().zip(own) {
            entries[*at] = entry;
        }
    }
}

/// Whether the number of CPUs of a task that has not started affects its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Counts,
    /// The task is beyond the list. If its CPUs counted there, tasks with one CPU would never get a turn.
    CountsNot,
}

/// The class of a task among those of its scheduler. Lower classes take its turns first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PrecedenceClass {
    Runs,
    IsStopped,
    WantsCards,
    /// A CPU task that has waited longer than the buffer lasts.
    HasWaited,
    WantsCpus,
    WantsCpusLater,
}

impl PrecedenceClass {
    fn of(input: &SchedulingInput<'_>, contender: &Contender<'_>, width: Width) -> Self {
        match (contender.task.stage, contender.cards, width) {
            (TaskStage::Executing { .. }, _, _) => PrecedenceClass::Runs,
            (TaskStage::Preempted { .. }, _, _) => PrecedenceClass::IsStopped,
            (TaskStage::Queued | TaskStage::WaitingForInputs { .. }, Some(_), _) => {
                PrecedenceClass::WantsCards
            }
            (_, None, Width::CountsNot) => PrecedenceClass::WantsCpusLater,
            (_, None, Width::Counts) => {
                let waited = input.now.since(contender.task.received).as_secs_f64();
                match waited > input.profile.high_water() {
                    true => PrecedenceClass::HasWaited,
                    false => PrecedenceClass::WantsCpus,
                }
            }
        }
    }

    fn order(self, one: &Contender<'_>, other: &Contender<'_>) -> Ordering {
        match self {
            PrecedenceClass::Runs => fewer_cpus(one, other),
            PrecedenceClass::WantsCpus => more_cpus(one, other),
            PrecedenceClass::IsStopped
            | PrecedenceClass::WantsCards
            | PrecedenceClass::HasWaited
            | PrecedenceClass::WantsCpusLater => Ordering::Equal,
        }
    }
}

/// Orders running tasks by CPUs, fewest first. A task with many CPUs may have started on one free CPU and so exceed the worker's CPUs. It
/// is last here, so none of the others stops for it. In this order all tasks fit that fitted when the last of them started.
pub(super) fn fewer_cpus(one: &Contender<'_>, other: &Contender<'_>) -> Ordering {
    one.cpus.total_cmp(&other.cpus)
}
