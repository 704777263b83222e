//! Takes the listed tasks as far as they fit, and derives which running tasks stop.

use std::cmp::Ordering;

use super::super::amounts::{TOLERANCE, amount};
use super::super::profile::Precedence;
use super::super::types::{PerType, ProcessorType, Processors, TaskStage};
use super::concurrency::Concurrency;
use super::contenders::{
    Contender, ContenderPlace, ContenderSet, Contenders, Reason, RunListEntry,
};
use super::precedence::{Width, give_turns, more_cpus};
use super::run_list::RunList;
use super::{Schedule, SchedulingInput};

/// CPUs by which GPU tasks may exceed the worker's CPUs, because an idle GPU costs more than an overloaded CPU.
const CPUS_BEYOND: f64 = 1.0;

/// The chosen tasks, the most important first, and the idle instances.
pub(super) struct EnforcedTasks {
    order: Vec<ContenderPlace>,
    runs: ContenderSet,
    idle: PerType<f64>,
}

impl EnforcedTasks {
    pub fn schedule(
        &self,
        input: &SchedulingInput<'_>,
        contenders: &Contenders<'_>,
        list: &RunList,
    ) -> Schedule {
        let number = |place: ContenderPlace| contenders.get(place).task.number;
        let (mut start, mut resume) = (Vec::new(), Vec::new());
        for place in &self.order {
            match contenders.get(*place).task.stage {
                TaskStage::Executing { .. } => {}
                TaskStage::Preempted { has_process: true } => resume.push(number(*place)),
                TaskStage::Preempted { has_process: false }
                | TaskStage::Queued
                | TaskStage::WaitingForInputs { .. } => start.push(number(*place)),
            }
        }
        let displaced = contenders
            .all()
            .filter(|(place, contender)| contender.is_executing() && !self.runs.has(*place));
        let spoken_for = held_back(input, contenders);
        let is_unclaimed =
            |of_type: ProcessorType| self.idle[of_type] - spoken_for[of_type] > TOLERANCE;
        Schedule {
            start,
            preempt: displaced.map(|(place, _)| number(place)).collect(),
            resume,
            next: list
                .next(input, contenders, &self.runs)
                .into_iter()
                .map(number)
                .collect(),
            idle: self.idle.clone(),
            wants_fetch: input.processors.types().any(is_unclaimed),
        }
    }
}

/// Returns the processors that held-back tasks will take. Work fetched for these would find them taken. The simulation, which does not know
/// of held-back tasks, does not count them as idle either.
fn held_back(input: &SchedulingInput<'_>, contenders: &Contenders<'_>) -> PerType<f64> {
    let mut takes = input.processors.table(&0.0);
    let all = contenders.all().map(|(_, contender)| contender);
    for contender in all.filter(|one| one.is_held_back() && one.could_run()) {
        takes[ProcessorType::CPU] += contender.cpus;
        if let Some((of_type, cards)) = contender.cards {
            takes[of_type] += cards;
        }
    }
    takes
}

pub(super) fn enforce(
    input: &SchedulingInput<'_>,
    contenders: &Contenders<'_>,
    list: &RunList,
) -> EnforcedTasks {
    let mut room = FreeResources::new(input, contenders);
    let stays = list.stays();
    for (place, _) in contenders.all().filter(|(place, _)| stays.has(*place)) {
        room.take(place);
    }
    for entry in by_importance(input, contenders, list) {
        room.take_if_fits(entry.place);
    }
    // A running task goes on if no other task needs its place.
    for (place, contender) in contenders.all() {
        if contender.is_executing() {
            room.take_if_fits(place);
        }
    }
    room.chosen()
}

/// Returns the listed tasks and the running tasks within their time slices, by importance.
fn by_importance(
    input: &SchedulingInput<'_>,
    contenders: &Contenders<'_>,
    list: &RunList,
) -> Vec<RunListEntry> {
    let mut listed = contenders.marks();
    let mut entries = list.entries().to_vec();
    for entry in &entries {
        listed.add(entry.place);
    }
    for (place, contender) in contenders.all() {
        if !listed.has(place) && is_in_slice(input, contender) {
            let reason = Reason::Slice;
            entries.push(RunListEntry { place, reason });
        }
    }
    // The sort is stable, so equal entries keep the order of the list.
    entries.sort_by(|one, other| {
        let (one_is, other_is) = (contenders.get(one.place), contenders.get(other.place));
        let is_in_danger = |entry: &RunListEntry| entry.reason == Reason::Deadline;
        let key = |entry: &RunListEntry, contender: &Contender<'_>| {
            let on_cards = contender.cards.is_some();
            let in_slice = is_in_slice(input, contender);
            (!is_in_danger(entry), !on_cards, !in_slice)
        };
        key(one, one_is)
            .cmp(&key(other, other_is))
            .then_with(|| match input.profile.precedence {
                Precedence::Begun if !is_in_danger(one) => Ordering::Equal,
                Precedence::Begun | Precedence::MoreCpus => more_cpus(one_is, other_is),
            })
    });
    match input.profile.precedence {
        Precedence::MoreCpus => entries,
        Precedence::Begun => {
            let counted = entries.into_iter().map(|entry| (entry, Width::Counts));
            let mut counted: Vec<(RunListEntry, Width)> = counted.collect();
            give_turns(input, contenders, &mut counted, list.stays());
            counted.into_iter().map(|(entry, _)| entry).collect()
        }
    }
}

fn is_in_slice(input: &SchedulingInput<'_>, contender: &Contender<'_>) -> bool {
    match contender.task.stage {
        TaskStage::Executing { since } => {
            let slice = amount(input.profile.time_slice);
            !contender.is_ending() && input.now.since(since).as_secs_f64() <= slice
        }
        TaskStage::Queued | TaskStage::WaitingForInputs { .. } | TaskStage::Preempted { .. } => {
            false
        }
    }
}

/// The resources that the tasks taken so far leave.
struct FreeResources<'a> {
    contenders: &'a Contenders<'a>,
    processors: &'a Processors,
    used: PerType<f64>,
    concurrency: Concurrency<'a>,
    order: Vec<ContenderPlace>,
    runs: ContenderSet,
    /// A GPU task whose GPUs are free waits for CPUs, so CPU tasks must not take them one by one.
    keeps_cpus: bool,
}

impl<'a> FreeResources<'a> {
    fn new(input: &SchedulingInput<'a>, contenders: &'a Contenders<'a>) -> Self {
        FreeResources {
            contenders,
            processors: input.processors,
            used: input.processors.table(&0.0),
            concurrency: Concurrency::new(input.associations),
            order: Vec::new(),
            runs: contenders.marks(),
            keeps_cpus: false,
        }
    }

    fn take_if_fits(&mut self, place: ContenderPlace) {
        let contender = self.contenders.get(place);
        if self.runs.has(place) {
            return;
        }
        if !self.concurrency.allows(contender.task) || self.lets_pass(contender) {
            return;
        }
        if self.has_processors(contender) {
            self.take(place);
        } else if let Some((of_type, cards)) = contender.cards {
            self.keeps_cpus |= self.has_cards(of_type, cards);
        }
    }

    /// Returns whether the task would take CPUs that are reserved for a GPU task.
    fn lets_pass(&self, contender: &Contender<'_>) -> bool {
        self.keeps_cpus && contender.cards.is_none() && !contender.is_executing()
    }

    fn has_cards(&self, of_type: ProcessorType, cards: f64) -> bool {
        self.used[of_type] + cards <= self.processors.instances(of_type) + TOLERANCE
    }

    fn take(&mut self, place: ContenderPlace) {
        let contender = self.contenders.get(place);
        self.used[ProcessorType::CPU] += contender.cpus;
        if let Some((of_type, cards)) = contender.cards {
            self.used[of_type] += cards;
        }
        self.concurrency.count(contender.task);
        self.order.push(place);
        self.runs.add(place);
    }

    /// Returns whether the task's processors are free. A CPU task starts on any free CPU even if it needs more, because it might never find
    /// enough free at once.
    fn has_processors(&self, contender: &Contender<'_>) -> bool {
        let instances = |of_type| self.processors.instances(of_type);
        let (cpus, used) = (instances(ProcessorType::CPU), self.used[ProcessorType::CPU]);
        match contender.cards {
            None => cpus - used > TOLERANCE,
            Some((of_type, cards)) => {
                let load = used + contender.cpus;
                let has_cpus = used == 0.0 || load <= cpus + CPUS_BEYOND + TOLERANCE;
                has_cpus && self.has_cards(of_type, cards)
            }
        }
    }

    fn chosen(self) -> EnforcedTasks {
        let mut idle = self.processors.table(&0.0);
        for of_type in self.processors.types() {
            let left = self.processors.instances(of_type) - self.used[of_type];
            idle[of_type] = if left > TOLERANCE { left } else { 0.0 };
        }
        EnforcedTasks {
            order: self.order,
            runs: self.runs,
            idle,
        }
    }
}
