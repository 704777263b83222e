//! The choice of running tasks, and of the order in which queued tasks begin.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::{TaskKey, Time};
use brasserie_worker_fetch::{AssociationIndex, Limits, TaskNumber};

use super::Fetching;
use crate::association::Association;
use crate::machine::Machine;
use crate::turn::Turn;

/// The pause after a scan of all tasks, for each task: the more tasks there are, the more expensive a scan is.
const LOOK_FOR_EACH: Duration = Duration::from_micros(20);
/// The maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The result of a choice, with the most important tasks first.
struct Decided {
    order: Vec<(AssociationIndex, TaskKey)>,
    stop: Vec<(AssociationIndex, TaskKey)>,
    go_on: Vec<(AssociationIndex, TaskKey)>,
}

/// Whether queued tasks may begin before the next choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// They begin in their order, as resources allow.
    Open,
    /// They may not: a task is stopped and may have precedence, which only the next choice decides.
    Chosen,
}

/// Chooses the running tasks and the order of queued tasks anew, if it is time.
pub(crate) fn choose_runs(associations: &mut [Association], turn: &mut Turn<'_>) -> Turns {
    let (waiting, stopped) = (turn.machine.queue.len(), turn.machine.stopped());
    let Some(mut fetching) = turn.machine.fetching.take() else {
        return Turns::Open;
    };
    fetching.meet(turn.now, associations);
    let is_due = fetching.choice_due(waiting + stopped) <= turn.now;
    let decided = is_due.then(|| fetching.decide(turn.now, turn.machine, associations));
    turn.machine.fetching = Some(fetching);
    let Some(Decided { order, stop, go_on }) = decided else {
        return match stopped {
            0 => Turns::Open,
            _ => Turns::Chosen,
        };
    };
    for (of, key) in stop {
        associations[of.0].suspend(turn, &key);
    }
    for (of, key) in go_on {
        associations[of.0].resume(turn, &key);
    }
    for (of, key) in order.into_iter().rev() {
        associations[of.0]
            .tasks
            .move_to_the_front(&mut turn.machine.queue, &key);
    }
    Turns::Open
}

impl Fetching {
    fn decide(&mut self, now: Time, machine: &Machine, associations: &[Association]) -> Decided {
        let here = self.here(now, associations);
        let held_back = held_back(machine, associations);
        let pieces = here.keys.iter().map(|(of, key)| {
            let task = associations[of.0].tasks.get(key);
            task.and_then(|task| task.piece.as_ref())
        });
        let ending = pieces.flatten().filter(|piece| piece.is_ending());
        let ending: BTreeSet<TaskNumber> = ending.map(|piece| piece.number).collect();
        let limits = Limits {
            ending: &ending,
            held_back: &held_back,
        };
        self.chosen_until = now + pause_after(here.tasks.len());
        let schedule = self.fetcher.choose(now, &here.tasks, limits);
        let by_number: BTreeMap<TaskNumber, usize> = (here.tasks.iter().enumerate())
            .map(|(at, task)| (task.number, at))
            .collect();
        let whose = |numbers: &[TaskNumber]| -> Vec<(AssociationIndex, TaskKey)> {
            let at = numbers.iter().filter_map(|one| by_number.get(one));
            at.map(|at| here.keys[*at].clone()).collect()
        };
        Decided {
            order: [whose(&schedule.start), whose(&schedule.next)].concat(),
            stop: whose(&schedule.preempt),
            go_on: whose(&schedule.resume),
        }
    }
}

/// Returns the pause between two scans of this many tasks for the same purpose.
pub(super) fn pause_after(tasks: usize) -> Duration {
    let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
    LOOK_FOR_EACH.saturating_mul(tasks).min(LONGEST_PAUSE)
}

/// Returns the queued tasks that could not begin whatever is chosen.
fn held_back(machine: &Machine, associations: &[Association]) -> BTreeSet<TaskNumber> {
    let tasks = associations.iter().flat_map(|association| {
        let tasks = association.tasks.iter();
        tasks.map(move |(_, task)| (association, task))
    });
    let waiting = tasks.filter(|(_, task)| task.is_queued());
    let blocked =
        waiting.filter(|(association, task)| association.is_held_back(machine, &task.running));
    let pieces = blocked.filter_map(|(_, task)| task.piece.as_ref());
    pieces.map(|piece| piece.number).collect()
}
