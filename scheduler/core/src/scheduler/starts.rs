//! Placement of tasks in each turn, and the reasons for which no task starts.

use brasserie_common::Time;
use brasserie_scheduler_engine::{Placement, Tries};

use super::Scheduler;
use super::effect::ExitReason;

/// The most placements of one turn: enough to fill a large pool quickly, and few enough that a turn takes milliseconds and does not delay
/// heartbeats.
const MAX_STARTS_PER_TURN: usize = 256;

/// The most failed attempts of one turn, counting tasks that are tried in vain and checks of workers' deadlines, each by the length of its
/// simulation. At a few microseconds each they take no longer than a turn's starts. A new node table may cause millions of attempts.
const MAX_TRIES_PER_TURN: u32 = 1000;

/// The beginning of the sentence in [`Query::NothingStarts`] and in the cluster's status that reports a failing store.
///
/// [`Query::NothingStarts`]: crate::Query::NothingStarts
pub const STORE_FAILS: &str = "the store cannot write";

impl Scheduler {
    /// Returns why no task starts, whatever its own state. Empty if tasks may start.
    pub(crate) fn why_nothing_starts(&self, now: Time) -> Vec<String> {
        let mut reasons = Vec::new();
        let stepped_down = self
            .stepped_down
            .map(|newer| ExitReason::SteppedDown { newer });
        reasons.extend(stepped_down.map(|reason| reason.to_string()));
        if self.engine.config().is_none() {
            reasons.push("no configuration has been loaded yet".to_owned());
        }
        if self.engine.nodes().is_none() {
            reasons.push(match self.engine.is_refreshing() {
                true => "the nodes are loaded, and come in force in a moment".to_owned(),
                false => "no nodes have been loaded yet".to_owned(),
            });
        }
        reasons.extend(self.wait_message(now));
        if let Some(error) = self.store_error() {
            reasons.push(format!("{STORE_FAILS}, so nothing is started: {error}"));
        } else if self.may_call() && !self.may_give_fences() {
            reasons.push(
                "the generation of fences ($BRASSERIE_FENCE) was raised, and tasks start once that is on disk"
                    .to_owned(),
            );
        } else if !self.declarations_are_durable() {
            reasons.push(
                "an operator has declared a worker dead, and tasks start once that is on disk"
                    .to_owned(),
            );
        }
        reasons
    }

    /// Returns the next task to start and its worker, such that all tasks of the worker keep their deadlines. `None` also if no tries are
    /// left.
    pub(crate) fn place(&mut self, now: Time, tries: &mut Tries) -> Option<Placement> {
        let (engine, workers) = self.engine_and_workers();
        let mut judge = |worker, due| workers.keeps_deadlines(now, worker, due);
        engine.place_within(now, tries, &mut judge)
    }

    /// Starts tasks. Called once a turn, after everything else.
    pub(super) fn start_tasks(&mut self, now: Time) {
        self.more_to_place = false;
        if !self.why_nothing_starts(now).is_empty() {
            return;
        }
        let mut tries = Tries::new(MAX_TRIES_PER_TURN);
        for _ in 0..MAX_STARTS_PER_TURN {
            if !self.may_give_fences() {
                return;
            }
            match self.place(now, &mut tries) {
                Some(placement) => self.start(now, placement),
                None => {
                    self.more_to_place = !tries.are_left();
                    return;
                }
            }
        }
        self.more_to_place = true;
    }
}
