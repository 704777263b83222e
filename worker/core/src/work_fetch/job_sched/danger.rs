//! Whose deadlines count as in danger, beyond what the simulation says now.
//!
//! What is in danger is planned first, after which it no longer is, so that the next simulation would put it back, and two tasks would
//! take each other's place in turn. Hence what was in danger counts as if it were for a while. In the volunteers' system only a mark of
//! the task says so, and the numbers by which tasks are picked do not; here they do, which is what the rule is for.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::Time;

use super::super::amounts::amount;
use super::super::types::{PerType, Stage, TaskNumber};
use super::Hand;
use super::contenders::Contenders;
use super::enforcement::Chosen;
use super::run_list::RunList;

/// What one choice has to know of earlier ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EdfHistory {
    /// Those that ran because their deadlines were in danger. They count as long as any of their scheduler and type is.
    ran: BTreeSet<TaskNumber>,
    /// When the simulation last said it of one that had begun. It counts for a time slice.
    marked: BTreeMap<TaskNumber, Time>,
}

/// How many, by association and type.
pub(super) type InDanger = Vec<PerType<u32>>;

impl EdfHistory {
    /// Takes note of what the simulation says, and forgets what no longer matters.
    pub(super) fn note_misses(&mut self, hand: &Hand<'_>) {
        let there: BTreeSet<TaskNumber> = hand.tasks.iter().map(|task| task.number).collect();
        let slice = amount(hand.profile.time_slice);
        self.ran.retain(|task| there.contains(task));
        self.marked
            .retain(|task, at| there.contains(task) && hand.now.since(*at).as_secs_f64() < slice);
        let begun = hand.tasks.iter().filter(|task| match task.stage {
            Stage::Executing { .. } | Stage::Preempted { .. } => true,
            Stage::Queued | Stage::WaitingForInputs { .. } => false,
        });
        for task in begun.filter(|task| hand.outlook.misses(task.number)) {
            self.marked.insert(task.number, hand.now);
        }
    }

    /// Those of the simulation, and those that count with them.
    pub(super) fn in_danger(&self, hand: &Hand<'_>, contenders: &Contenders<'_>) -> InDanger {
        let simulated = |index: usize| {
            let mut counts = hand.processors.table(&0);
            if let Some(outlook) = hand.outlook.of_association.get(index) {
                for of_type in hand.processors.types() {
                    counts[of_type] = outlook.of_type[of_type].deadlines_missed;
                }
            }
            counts
        };
        let simulated: InDanger = (0..hand.associations.len()).map(simulated).collect();
        let mut all = simulated.clone();
        for (_, contender) in contenders.all() {
            let (association, of_type) = (contender.task.association.0, contender.of_type);
            let number = contender.task.number;
            let ran = self.ran.contains(&number) && simulated[association][of_type] > 0;
            if (ran || self.marked.contains_key(&number)) && !hand.outlook.misses(number) {
                let count = &mut all[association][of_type];
                *count = count.saturating_add(1);
            }
        }
        all
    }

    /// Takes note of who runs because of its deadline.
    pub(super) fn note_runs(
        &mut self,
        contenders: &Contenders<'_>,
        list: &RunList,
        chosen: &Chosen,
    ) {
        for place in list.in_danger() {
            if chosen.runs(place) {
                self.ran.insert(contenders.get(place).task.number);
            }
        }
    }
}
