//! Who goes before whom where no deadline says so.
//!
//! Turns and time slices are for schedulers. Which of its tasks take the turns of a scheduler is a matter of its own, and there what has begun
//! comes first: it stops, or stays stopped, for none that has not. Of those that have not begun the ones that want many CPUs come first,
//! but pass nobody who has waited for as long as all that is fetched should last. They themselves are passed by none that came later
//! and wants fewer, as they begin while any CPU is free: nobody starves.
//!
//! So a scheduler has the places that its tasks have by turns and slices, and its tasks are put into these in another order. That is no rule for
//! two tasks, whoever sent them: "what has begun first" among those of one scheduler, "whose turn it is" among those of two, and "who
//! wants more CPUs first" among those that have not begun could make a circle.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use super::super::profile::Precedence;
use super::super::types::{AssociationIndex, Stage};
use super::Hand;
use super::Preemption;
use super::contenders::{Contender, Contenders, Marks};
use super::danger::InDanger;
use super::run_list::{Entry, Reason};

/// Those that run on whatever else there is.
pub(super) fn stays(hand: &Hand<'_>, contenders: &Contenders<'_>, in_danger: &InDanger) -> Marks {
    let has_reason = has_reason_to_stop(hand, contenders, in_danger);
    let mut stays = contenders.marks();
    for (place, contender) in contenders.all() {
        let may_stop = match hand.preemption {
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

/// Whether there is something that others may stop for: a deadline in danger, or two schedulers that take turns. Else they run on even
/// where more run than there are processors, as what wants many begins while any is free.
fn has_reason_to_stop(hand: &Hand<'_>, contenders: &Contenders<'_>, in_danger: &InDanger) -> bool {
    match hand.profile.precedence {
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

/// What needs many CPUs at once would else find some of them taken, again and again.
pub(super) fn more_cpus(one: &Contender<'_>, other: &Contender<'_>) -> Ordering {
    match (one.cards, other.cards) {
        (None, None) => other.cpus.total_cmp(&one.cpus),
        (Some(_), _) | (_, Some(_)) => Ordering::Equal,
    }
}

/// Puts the tasks of each scheduler into the places that they have together, as they come one after the other there: what has begun, what
/// wants cards, what has waited for long, then what wants more CPUs. Those in danger, and those that `keep` their places, are left where they are.
pub(super) fn give_turns(
    hand: &Hand<'_>,
    contenders: &Contenders<'_>,
    entries: &mut [(Entry, Width)],
    keep: &Marks,
) {
    let mut turns: BTreeMap<AssociationIndex, Vec<usize>> = BTreeMap::new();
    for (at, (entry, _)) in entries.iter().enumerate() {
        if entry.reason != Reason::Deadline && !keep.has(entry.place) {
            let association = contenders.get(entry.place).task.association;
            turns.entry(association).or_default().push(at);
        }
    }
    for turns in turns.values() {
        let mut own: Vec<(Entry, Width)> = turns.iter().map(|at| entries[*at]).collect();
        // Stable, so that what is otherwise alike keeps the order of the list.
        own.sort_by(|one, other| {
            let of = |(entry, width): &(Entry, Width)| {
                let contender = contenders.get(entry.place);
                (Class::of(hand, contender, *width), contender)
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

/// Whether it matters how many CPUs one wants that has not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    Counts,
    /// It is beyond the list: else what needs one would never have its turn.
    CountsNot,
}

/// Of the tasks of one scheduler, the first that take its turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Runs,
    IsStopped,
    WantsCards,
    /// For CPUs, longer than the buffer lasts.
    HasWaited,
    WantsCpus,
    WantsCpusLater,
}

impl Class {
    fn of(hand: &Hand<'_>, contender: &Contender<'_>, width: Width) -> Self {
        match (contender.task.stage, contender.cards, width) {
            (Stage::Executing { .. }, _, _) => Class::Runs,
            (Stage::Preempted { .. }, _, _) => Class::IsStopped,
            (Stage::Queued | Stage::WaitingForInputs { .. }, Some(_), _) => Class::WantsCards,
            (_, None, Width::CountsNot) => Class::WantsCpusLater,
            (_, None, Width::Counts) => {
                let waited = hand.now.since(contender.task.received).as_secs_f64();
                match waited > hand.profile.high_water() {
                    true => Class::HasWaited,
                    false => Class::WantsCpus,
                }
            }
        }
    }

    fn order(self, one: &Contender<'_>, other: &Contender<'_>) -> Ordering {
        match self {
            Class::Runs => fewer_cpus(one, other),
            Class::WantsCpus => more_cpus(one, other),
            Class::IsStopped | Class::WantsCards | Class::HasWaited | Class::WantsCpusLater => {
                Ordering::Equal
            }
        }
    }
}

/// Of those that run. One that wants many may have begun beside others while a CPU was free, with more than there are: it came last, and
/// so none of them stops for it. In this order all of them fit that fitted when the last of them began.
pub(super) fn fewer_cpus(one: &Contender<'_>, other: &Contender<'_>) -> Ordering {
    one.cpus.total_cmp(&other.cpus)
}
