//! Lists the tasks that should run, in the order in which they are considered. Each GPU model comes first, then the CPU. Within a type,
//! tasks in danger of missing their deadlines come first, then the others by the priorities of their schedulers.
//!
//! If N tasks of a scheduler are in danger, N of its tasks are picked by deadline: those with the nearest deadlines, which need not be the
//! tasks in danger.
//!
//! BOINC counts all tasks of a scheduler as in danger if they take 90 times its estimate. It learns one factor for all of them, and with
//! such a factor no run time is known. Here run times are learned for each job, and the simulation uses them. The factor only converts
//! requests to the scheduler's seconds. It is as large for every scheduler that gives no estimate for tasks of an hour and a half.

use std::cmp::Ordering;

use super::super::amounts::TOLERANCE;
use super::super::priority::Priorities;
use super::super::profile::Precedence;
use super::super::types::{AssociationIndex, PerType, ProcessorType};
use super::SchedulingInput;
use super::concurrency::Concurrency;
use super::contenders::{
    Contender, ContenderPlace, ContenderSet, Contenders, InDanger, Reason, RunListEntry, in_danger,
};
use super::precedence::{self, Width};

/// Limit of the listed CPU tasks, in multiples of the CPUs. It applies separately to tasks with one CPU and with more, so that the list has
/// alternatives for tasks that do not fit.
const CPUS_LISTED: f64 = 2.0;

#[derive(Default)]
pub(super) struct RunList {
    entries: Vec<RunListEntry>,
    /// The listed tasks, those that were passed over, and then all others that could run, in the order of the picks.
    picked: Vec<RunListEntry>,
    /// The number of entries of `picked` that were picked for the list.
    picked_for_list: usize,
    /// The running tasks that do not stop for any other task.
    stays: ContenderSet,
}

impl RunList {
    pub fn entries(&self) -> &[RunListEntry] {
        &self.entries
    }

    pub fn stays(&self) -> &ContenderSet {
        &self.stays
    }

    /// Returns the tasks that come next, by the rules of the list. Among tasks beyond the list, those with many CPUs do not come first, or
    /// tasks with one CPU would never get a turn.
    pub fn next(
        &self,
        input: &SchedulingInput<'_>,
        contenders: &Contenders<'_>,
        runs: &ContenderSet,
    ) -> Vec<ContenderPlace> {
        let picked = self.picked.iter().enumerate();
        let waiting = picked.filter(|(_, entry)| !runs.has(entry.place));
        let mut waiting: Vec<(RunListEntry, Width)> = waiting
            .map(|(at, entry)| match at < self.picked_for_list {
                true => (*entry, Width::Counts),
                false => (*entry, Width::CountsNot),
            })
            .collect();
        waiting.sort_by(|(one, width), (other, other_width)| {
            let (one_is, other_is) = (contenders.get(one.place), contenders.get(other.place));
            let is_in_danger = |entry: &RunListEntry| entry.reason == Reason::Deadline;
            let key = |entry: &RunListEntry, contender: &Contender<'_>, width: Width| {
                let is_listed = width == Width::Counts;
                (!is_in_danger(entry), contender.cards.is_none(), !is_listed)
            };
            key(one, one_is, *width)
                .cmp(&key(other, other_is, *other_width))
                .then_with(|| match (input.profile.precedence, *width) {
                    (_, Width::CountsNot) => Ordering::Equal,
                    (Precedence::Begun, Width::Counts) if !is_in_danger(one) => Ordering::Equal,
                    (Precedence::Begun | Precedence::MoreCpus, Width::Counts) => {
                        precedence::more_cpus(one_is, other_is)
                    }
                })
        });
        match input.profile.precedence {
            Precedence::MoreCpus => {}
            Precedence::Begun => precedence::give_turns(input, contenders, &mut waiting, runs),
        }
        waiting.into_iter().map(|(entry, _)| entry.place).collect()
    }
}

pub(super) fn make(input: &SchedulingInput<'_>, contenders: &Contenders<'_>) -> RunList {
    let mut making = Making::new(input, contenders, in_danger(input, contenders));
    for of_type in input.processors.types() {
        if of_type != ProcessorType::CPU {
            making.list_cards(of_type);
        }
    }
    making.list_cpu();
    making.list.picked_for_list = making.list.picked.len();
    let planned = making.priorities.clone();
    for of_type in input.processors.types() {
        // Each type starts from the same plan, because tasks that wait for other processors have received nothing yet.
        making.priorities = planned.clone();
        making.pick_others(of_type);
    }
    RunList {
        stays: making.stays,
        ..making.list
    }
}

struct Making<'a> {
    input: &'a SchedulingInput<'a>,
    contenders: &'a Contenders<'a>,
    priorities: Priorities,
    /// The piles by association.
    piles: Vec<PerType<Pile>>,
    selected: ContenderSet,
    concurrency: Concurrency<'a>,
    stays: ContenderSet,
    list: RunList,
}

/// The tasks of one association and type that could run.
#[derive(Clone, Default)]
struct Pile {
    in_danger: u32,
    by_deadline: PlaceQueue,
    by_rank: PlaceQueue,
}

#[derive(Clone, Default)]
struct PlaceQueue {
    places: Vec<ContenderPlace>,
    passed: usize,
}

impl PlaceQueue {
    /// Returns the first place that is not selected yet.
    fn first(&mut self, selected: &ContenderSet) -> Option<ContenderPlace> {
        while self
            .places
            .get(self.passed)
            .is_some_and(|place| selected.has(*place))
        {
            self.passed += 1;
        }
        self.places.get(self.passed).copied()
    }
}

impl<'a> Making<'a> {
    fn new(
        input: &'a SchedulingInput<'a>,
        contenders: &'a Contenders<'a>,
        in_danger: InDanger,
    ) -> Self {
        let mut counted = vec![false; input.associations.len()];
        for (_, contender) in contenders
            .all()
            .filter(|(_, contender)| contender.can_run())
        {
            counted[contender.task.association.0] = true;
        }
        let mut concurrency = Concurrency::new(input.associations);
        let stays = precedence::stays(input, contenders, &in_danger);
        for (_, contender) in contenders.all().filter(|(place, _)| stays.has(*place)) {
            concurrency.count(contender.task);
        }
        Making {
            input,
            contenders,
            priorities: Priorities::new(input.associations, input.rec, &counted),
            piles: piles(input, contenders, in_danger),
            selected: contenders.marks(),
            concurrency,
            stays,
            list: RunList::default(),
        }
    }

    fn list_cards(&mut self, of_type: ProcessorType) {
        let instances = self.input.processors.instances(of_type);
        let mut reserved = 0.0;
        while instances - reserved > TOLERANCE {
            let Some(entry) = self.pick(of_type) else {
                break;
            };
            let contender = self.contenders.get(entry.place);
            let cards = contender.cards.map_or(0.0, |(_, cards)| cards);
            if self.may_run(entry.place) && cards <= instances - reserved + TOLERANCE {
                reserved += cards;
                self.add(entry);
            }
        }
    }

    fn list_cpu(&mut self) {
        let enough = CPUS_LISTED * self.input.processors.instances(ProcessorType::CPU);
        let (mut used_single, mut used_multi) = (0.0, 0.0);
        while used_single < enough && used_multi < enough {
            let Some(entry) = self.pick(ProcessorType::CPU) else {
                break;
            };
            let contender = self.contenders.get(entry.place);
            if self.may_run(entry.place) {
                let used = if contender.cpus > 1.0 {
                    &mut used_multi
                } else {
                    &mut used_single
                };
                *used += contender.cpus;
                self.add(entry);
            }
        }
    }

    /// Picks the tasks beyond the list. No limit applies, because it is unknown which run ends next.
    fn pick_others(&mut self, of_type: ProcessorType) {
        while let Some(entry) = self.pick(of_type) {
            self.plan(entry);
        }
    }

    fn pick(&mut self, of_type: ProcessorType) -> Option<RunListEntry> {
        let in_danger = self.earliest_deadline(of_type);
        let entry = in_danger.or_else(|| match of_type {
            ProcessorType::CPU => self.best_cpu(),
            _ => self.first_gpu(of_type),
        })?;
        self.selected.add(entry.place);
        self.list.picked.push(entry);
        Some(entry)
    }

    /// Returns whether the limits allow the task. Tasks that run to their end are already counted.
    fn may_run(&self, place: ContenderPlace) -> bool {
        let contender = self.contenders.get(place);
        self.stays.has(place) || contender.can_run() && self.concurrency.allows(contender.task)
    }

    fn add(&mut self, entry: RunListEntry) {
        let contender = self.contenders.get(entry.place);
        if !self.stays.has(entry.place) {
            self.concurrency.count(contender.task);
        }
        self.plan(entry);
        self.list.entries.push(entry);
    }

    /// Counts the task as received by its scheduler, so that another scheduler is next.
    fn plan(&mut self, entry: RunListEntry) {
        let contender = self.contenders.get(entry.place);
        let association = contender.task.association;
        self.priorities
            .bump(association, contender.fraction_of_host);
        if entry.reason == Reason::Deadline {
            let pile = &mut self.piles[association.0][contender.of_type];
            pile.in_danger = pile.in_danger.saturating_sub(1);
        }
    }

    fn earliest_deadline(&mut self, of_type: ProcessorType) -> Option<RunListEntry> {
        let contenders = self.contenders;
        let piles = self.piles.iter_mut().map(|piles| &mut piles[of_type]);
        let firsts = piles
            .filter(|pile| pile.in_danger > 0)
            .filter_map(|pile| pile.by_deadline.first(&self.selected));
        let place = firsts.min_by(|one, other| by_deadline(contenders, *one, *other))?;
        let reason = Reason::Deadline;
        Some(RunListEntry { place, reason })
    }

    /// Picks a task of the highest priority: a started one if there is one, else the earliest.
    fn first_gpu(&mut self, of_type: ProcessorType) -> Option<RunListEntry> {
        let (contenders, priorities) = (self.contenders, &self.priorities);
        let firsts = nominees(&mut self.piles, &self.selected, of_type);
        let place = firsts.min_by(|one, other| {
            let of = |place: &ContenderPlace| {
                let contender = contenders.get(*place);
                let priority = priorities.of(contender.task.association);
                (priority, (!contender.has_begun(), *place))
            };
            let ((priority, one), (other_priority, other)) = (of(one), of(other));
            other_priority.total_cmp(&priority).then(one.cmp(&other))
        })?;
        let reason = Reason::Priority;
        Some(RunListEntry { place, reason })
    }

    /// Picks the first task of the association with the highest priority.
    fn best_cpu(&mut self) -> Option<RunListEntry> {
        let (contenders, priorities) = (self.contenders, &self.priorities);
        let association = |place: &ContenderPlace| contenders.get(*place).task.association;
        let firsts = nominees(&mut self.piles, &self.selected, ProcessorType::CPU);
        let place = firsts.min_by(|one, other| {
            let (one, other) = (association(one), association(other));
            priorities.before(one, other)
        })?;
        let reason = Reason::Priority;
        Some(RunListEntry { place, reason })
    }
}

/// Returns the first unselected task of each association.
fn nominees(
    piles: &mut [PerType<Pile>],
    selected: &ContenderSet,
    of_type: ProcessorType,
) -> impl Iterator<Item = ContenderPlace> {
    let piles = piles.iter_mut().map(move |piles| &mut piles[of_type]);
    piles.filter_map(|pile| pile.by_rank.first(selected))
}

fn by_deadline(
    contenders: &Contenders<'_>,
    one: ContenderPlace,
    other: ContenderPlace,
) -> Ordering {
    let by_deadline = contenders.get(one).by_deadline(contenders.get(other));
    by_deadline.then(one.cmp(&other))
}

fn piles(
    input: &SchedulingInput<'_>,
    contenders: &Contenders<'_>,
    in_danger: InDanger,
) -> Vec<PerType<Pile>> {
    let empty = input.processors.table(&Pile::default());
    let mut piles = vec![empty; input.associations.len()];
    for (place, contender) in contenders
        .all()
        .filter(|(_, contender)| contender.could_run())
    {
        let AssociationIndex(association) = contender.task.association;
        let pile = &mut piles[association][contender.of_type];
        pile.by_rank.places.push(place);
        if contender.task.deadline.is_some() {
            pile.by_deadline.places.push(place);
        }
    }
    for (piles, in_danger) in piles.iter_mut().zip(in_danger) {
        for (of_type, count) in in_danger.iter() {
            let pile = &mut piles[of_type];
            pile.in_danger = *count;
            let by_deadline = |one: &ContenderPlace, other: &ContenderPlace| {
                by_deadline(contenders, *one, *other)
            };
            pile.by_deadline.places.sort_by(by_deadline);
            let of_cpu = of_type == ProcessorType::CPU;
            pile.by_rank.places.sort_by(|one, other| {
                let (one_is, other_is) = (contenders.get(*one), contenders.get(*other));
                let rank = |contender: &Contender<'_>| match of_cpu {
                    true => contender.nomination_rank(),
                    false => u8::from(!contender.has_begun()),
                };
                let among_those = match input.profile.precedence {
                    Precedence::Begun if of_cpu && one_is.is_executing() => {
                        precedence::fewer_cpus(one_is, other_is)
                    }
                    Precedence::Begun | Precedence::MoreCpus => Ordering::Equal,
                };
                let by_rank = rank(one_is).cmp(&rank(other_is));
                by_rank.then(among_those).then(one.cmp(other))
            });
        }
    }
    piles
}
