//! Whose deadlines count as in danger, beyond what the simulation says now.
//!
//! Of those that cannot run nothing is gained by planning others by their deadlines, so they do not count, whatever the simulation says.
//!
//! What is in danger is planned first, after which it no longer is, so that the next simulation would put it back, and two tasks would
//! take each other's place in turn. Hence what was in danger counts as if it were for a while. In the volunteers' system only a mark of
//! the task says so, and the numbers by which tasks are picked do not; here they do, which is what the rule is for.

use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::Time;

use super::super::amounts::amount;
use super::super::types::{PerType, Stage, TaskNumber};
use super::Hand;
use super::contenders::{Contender, Contenders};
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
        self.forget_those_gone(hand);
        let slice = amount(hand.profile.time_slice);
        self.marked
            .retain(|_, at| hand.now.since(*at).as_secs_f64() < slice);
        let begun = hand.tasks.iter().filter(|task| match task.stage {
            Stage::Executing { .. } | Stage::Preempted { .. } => true,
            Stage::Queued | Stage::WaitingForInputs { .. } => false,
        });
        for task in begun.filter(|task| hand.outlook.misses(task.number)) {
            self.marked.insert(task.number, hand.now);
        }
    }

    fn forget_those_gone(&mut self, hand: &Hand<'_>) {
        // Mostly there is nothing to forget, while there are many tasks.
        if self.ran.is_empty() && self.marked.is_empty() {
            return;
        }
        let there: BTreeSet<TaskNumber> = hand.tasks.iter().map(|task| task.number).collect();
        self.ran.retain(|task| there.contains(task));
        self.marked.retain(|task, _| there.contains(task));
    }

    /// Those of the simulation, and those that count with them.
    pub(super) fn in_danger(&self, hand: &Hand<'_>, contenders: &Contenders<'_>) -> InDanger {
        let mut simulated = vec![hand.processors.table(&0_u32); hand.associations.len()];
        let can_run = || {
            let all = contenders.all().map(|(_, contender)| contender);
            all.filter(|contender| contender.can_run())
        };
        for contender in can_run().filter(|one| hand.outlook.misses(one.task.number)) {
            count(&mut simulated, contender);
        }
        let mut all = simulated.clone();
        for contender in can_run() {
            let number = contender.task.number;
            let of_its_kind = simulated[contender.task.association.0][contender.of_type];
            let ran = of_its_kind > 0 && self.ran.contains(&number);
            if (ran || self.marked.contains_key(&number)) && !hand.outlook.misses(number) {
                count(&mut all, contender);
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

fn count(counts: &mut InDanger, contender: &Contender<'_>) {
    let count = &mut counts[contender.task.association.0][contender.of_type];
    *count = count.saturating_add(1);
}
