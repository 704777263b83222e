//! The messages between each scheduler instance and each worker instance: heartbeats, healthchecks, the fetch, the parting.

use std::collections::{BTreeMap, VecDeque};

use brasserie_common::{Health, InvocationId, SchedulerId, StatusBits, Time, WorkerId};

use crate::event_log::{Ask, Fact, Happening, OutcomeKind};
use crate::event_types::SetMark;

/// The number of healthchecks remembered per worker, without those that never ran. It exceeds the number that a scheduler keeps open (64),
/// so every check that a scheduler counts is known here.
const MAX_CHECKS: usize = 128;
/// The number of answers that wait at once. A worker has one heartbeat under way and a few late copies; answers that will never leave also
/// stay here.
const MAX_ANSWERS: usize = 1024;

/// One scheduler instance and one worker instance.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// `getRunningTasks` has succeeded since the association began.
    pub fetched: bool,
    /// The state in the latest-decided heartbeat answer that has left. An answer that waited for a record may leave after later answers;
    /// its caller has abandoned that call.
    pub told: Option<Health>,
    decided: PendingAnswers,
    pub heartbeat_heard: Option<Time>,
    /// The time when the latest healthcheck that returned DONE was sent.
    pub good_check: Option<Time>,
    /// The scheduler recorded that the instance has left.
    pub left: bool,
    checks: VecDeque<(InvocationId, Time)>,
}

/// Answers that were decided and have not left, in order of decision.
#[derive(Clone, Debug, Default)]
struct PendingAnswers {
    waiting: VecDeque<(u64, Health, SetMark)>,
    count: u64,
    /// The latest answer that has left.
    left: u64,
}

impl PendingAnswers {
    fn decide(&mut self, state: Health, set: SetMark) {
        if self.waiting.len() == MAX_ANSWERS {
            self.waiting.pop_front();
        }
        self.count += 1;
        self.waiting.push_back((self.count, state, set));
    }

    /// Returns whether no later answer has left before. Of two equal answers, the earlier one leaves first.
    fn leave(&mut self, state: Health, set: SetMark) -> bool {
        let is_it = |(_, decided, of): &(u64, Health, SetMark)| (*decided, *of) == (state, set);
        let at = self.waiting.iter().position(is_it);
        let number = at.and_then(|at| self.waiting.remove(at));
        let number = number.map_or(self.count, |(number, ..)| number);
        let is_news = number >= self.left;
        self.left = self.left.max(number);
        is_news
    }
}

/// All pairs of living schedulers.
#[derive(Clone, Debug, Default)]
pub struct Associations {
    pairs: BTreeMap<(SchedulerId, WorkerId), Pair>,
}

impl Associations {
    pub fn get(&self, scheduler: SchedulerId, worker: WorkerId) -> Option<&Pair> {
        self.pairs.get(&(scheduler, worker))
    }

    pub fn has_fetched(&self, scheduler: SchedulerId, worker: WorkerId) -> bool {
        self.get(scheduler, worker).is_some_and(|pair| pair.fetched)
    }

    fn pair(&mut self, scheduler: SchedulerId, worker: WorkerId) -> &mut Pair {
        self.pairs.entry((scheduler, worker)).or_default()
    }

    pub fn note(&mut self, when: Time, happening: &Happening) {
        match *happening {
            Happening::HeartbeatHeard {
                scheduler, worker, ..
            } => self.pair(scheduler, worker).heartbeat_heard = Some(when),
            Happening::HeartbeatDecided { .. } | Happening::HeartbeatAnswered { .. } => {
                self.heartbeat_answer(happening);
            }
            Happening::CallSent {
                scheduler,
                worker,
                ask: Ask::Healthcheck { invocation, .. },
                ..
            } => {
                let checks = &mut self.pair(scheduler, worker).checks;
                if checks.len() == MAX_CHECKS {
                    checks.pop_front();
                }
                checks.push_back((invocation, when));
            }
            Happening::CallOver {
                scheduler,
                worker,
                ask: Ask::Healthcheck { invocation, .. },
                outcome: OutcomeKind::Refused(_) | OutcomeKind::NotSent,
                ..
            } => {
                let checks = &mut self.pair(scheduler, worker).checks;
                checks.retain(|(sent, _)| *sent != invocation);
            }
            Happening::StatusHeard {
                scheduler,
                worker,
                run,
                bits,
                ..
            } if run.task.is_healthcheck() && bits.has(StatusBits::DONE) => {
                let pair = self.pair(scheduler, worker);
                let mut checks = pair.checks.iter();
                let sent = checks.find(|(invocation, _)| *invocation == run.invocation);
                pair.good_check = pair.good_check.max(sent.map(|(_, at)| *at));
            }
            Happening::CallOver {
                scheduler,
                worker,
                ask: Ask::Fetch,
                outcome: OutcomeKind::Done,
                ..
            } => self.pair(scheduler, worker).fetched = true,
            Happening::AssociationBegan {
                scheduler, worker, ..
            } => {
                let pair = self.pair(scheduler, worker);
                (pair.fetched, pair.told, pair.good_check) = (false, None, None);
            }
            Happening::RecordWritten {
                scheduler,
                ref fact,
                ..
            } => self.recorded(scheduler, fact),
            Happening::SchedulerStopped { scheduler, .. } => {
                self.pairs.retain(|(owner, _), _| *owner != scheduler);
            }
            _ => {}
        }
    }

    fn heartbeat_answer(&mut self, happening: &Happening) {
        match *happening {
            Happening::HeartbeatDecided {
                scheduler,
                worker,
                state,
                set,
                ..
            } => self.pair(scheduler, worker).decided.decide(state, set),
            Happening::HeartbeatAnswered {
                scheduler,
                worker,
                state,
                set,
                ..
            } => {
                let pair = self.pair(scheduler, worker);
                if pair.decided.leave(state, set) {
                    pair.told = Some(state);
                }
            }
            _ => {}
        }
    }

    fn recorded(&mut self, scheduler: SchedulerId, fact: &Fact) {
        match *fact {
            Fact::WorkerAssociated { worker, .. } => {
                let pair = self.pair(scheduler, worker);
                (pair.fetched, pair.told, pair.left) = (false, None, false);
            }
            Fact::WorkerLeft { worker, .. } => self.pair(scheduler, worker).left = true,
            Fact::SchedulerStarted { .. }
            | Fact::HoldBack { .. }
            | Fact::HoldBackOver
            | Fact::TaskEnded
            | Fact::Jobs => {}
        }
    }
}
