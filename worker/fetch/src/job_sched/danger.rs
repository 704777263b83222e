//! Counts the tasks that are in danger of missing their deadlines.
//!
//! A task that cannot run does not count, whatever the simulation says, because running other tasks by deadline does not help it.
//!
//! BOINC counts a task for some time after its simulation no longer names it, so that two tasks do not displace each other in turn. The
//! simulation here does not depend on which task runs, and such a memory only violated shares.

use super::super::types::PerType;
use super::Hand;
use super::contenders::Contenders;

/// The counts by association and type.
pub(super) type InDanger = Vec<PerType<u32>>;

pub(super) fn in_danger(hand: &Hand<'_>, contenders: &Contenders<'_>) -> InDanger {
    let mut counts = vec![hand.processors.table(&0_u32); hand.associations.len()];
    let all = contenders.all().map(|(_, contender)| contender);
    for contender in all.filter(|one| one.can_run() && hand.outlook.misses(one.task.number)) {
        let count = &mut counts[contender.task.association.0][contender.of_type];
        *count = count.saturating_add(1);
    }
    counts
}
