//! What passed between each scheduler instance and each worker instance: heartbeats, healthchecks, the fetch, the parting.

use std::collections::{BTreeMap, VecDeque};

use brasserie_common::{Health, InvocationId, SchedulerId, StatusBits, Time, WorkerId};

use crate::event_log::{Ask, Fact, Happening, OutcomeKind};

/// Healthchecks that are remembered for each worker, but for those that did not happen: more than a scheduler keeps open (64), or it
/// would count one that is not known here.
const MAX_CHECKS: usize = 128;

/// One pair.
#[derive(Clone, Debug, Default)]
pub struct Pair {
    /// `getRunningTasks` has succeeded since the association began.
    pub fetched: bool,
    /// The state in the last answer to a heartbeat.
    pub told: Option<Health>,
    pub heartbeat_heard: Option<Time>,
    /// When the latest healthcheck left that came back DONE.
    pub good_check: Option<Time>,
    /// The scheduler wrote that the instance has left.
    pub left: bool,
    checks: VecDeque<(InvocationId, Time)>,
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
            Happening::HeartbeatAnswered {
                scheduler,
                worker,
                state,
                ..
            } => self.pair(scheduler, worker).told = Some(state),
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
