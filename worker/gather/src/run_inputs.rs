//! The runs of tasks that wait for their inputs, and the replicas that none waits for.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use brasserie_common::Time;
use brasserie_common::rng::Rng;

use super::action::GatherAction;
use super::event::{GatherEvent, WantedArtifact};
use super::gather::{ArtifactWait, Gather};
use super::limits::GatherLimits;
use super::replicas::Replicas;
use super::types::{ArtifactId, ByteCount, Peer, PeerId, Priority, WaitingTask};

/// The most missing artifacts of a run whose holders its progress names: the first ones show why it waits.
const SHOWN_ARTIFACTS: usize = 64;

/// An order to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputsAction {
    /// An order of the [`Gather`]: one of `Fetch`, `AskHolders` and `ReportCorrupt`.
    Gather(GatherAction),
    /// A valid copy is in the local store. The scheduler should learn that this worker is a holder.
    Arrived(ArtifactId),
    /// All inputs of the run are in the local store.
    Ready(WaitingTask),
    /// The run fails, because these artifacts have had no holder for too long. The failure does not advance its backoff.
    Failed {
        task: WaitingTask,
        missing: Vec<ArtifactId>,
    },
    /// The run goes back to the scheduler, because no worker has these artifacts any more. It has not begun, so that is no failure.
    TakenBack {
        task: WaitingTask,
        lost: Vec<ArtifactId>,
    },
}

/// The runs that wait for inputs, and the [`Gather`] that fetches these.
///
/// A run begins with [`RunInputs::begin`] and ends with [`InputsAction::Ready`], [`InputsAction::Failed`], [`InputsAction::TakenBack`] or
/// [`RunInputs::cancel`]. It is
/// forgotten then, and its number may be used again.
#[derive(Clone, Debug)]
pub struct RunInputs {
    gather: Gather,
    /// The artifacts for which each run still waits; never none.
    waiting: BTreeMap<WaitingTask, MissingInputs>,
    replicas: Replicas,
    limits: GatherLimits,
}

/// The artifacts that a run still waits for.
#[derive(Clone, Debug, Default)]
struct MissingInputs {
    /// The artifacts with their sizes; zero if unknown.
    artifacts: BTreeMap<ArtifactId, ByteCount>,
    /// The sum of the sizes.
    bytes: u64,
}

/// The progress of a run that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputsProgress {
    pub task: WaitingTask,
    /// The number of missing artifacts, and the sum of their sizes.
    pub missing: usize,
    pub bytes: ByteCount,
    /// Holders of missing artifacts with the number of their busy answers meanwhile, those with the most first.
    pub peers: Vec<(PeerId, u32)>,
}

impl RunInputs {
    pub fn new(me: Peer, limits: GatherLimits, rng: Rng) -> RunInputs {
        RunInputs {
            gather: Gather::new(me, limits, rng),
            waiting: BTreeMap::new(),
            replicas: Replicas::default(),
            limits,
        }
    }

    /// Adds a run, or adds to what a run waits for, such as an input that turned out to be damaged. Without any missing input the run is
    /// ready at once.
    pub fn begin(
        &mut self,
        task: WaitingTask,
        missing: Vec<WantedArtifact>,
        priority: Priority,
        now: Time,
    ) -> Vec<InputsAction> {
        if missing.is_empty() && !self.waiting.contains_key(&task) {
            return vec![InputsAction::Ready(task)];
        }
        self.waiting.entry(task).or_default().add(&missing);
        let wanted = GatherEvent::Wanted {
            task,
            priority,
            artifacts: missing,
        };
        self.handle(wanted, now)
    }

    /// Forgets a run. Transfers that have begun continue.
    pub fn cancel(&mut self, task: WaitingTask, now: Time) -> Vec<InputsAction> {
        match self.waiting.remove(&task) {
            Some(missing) => {
                let artifacts = missing.artifacts.into_keys().collect();
                self.handle(GatherEvent::NotWanted { task, artifacts }, now)
            }
            None => Vec::new(),
        }
    }

    /// Notes that a task on this worker has left an artifact. Runs here that wait for it need no transfer, and perhaps no other worker has it.
    pub fn left_here(&mut self, artifact: ArtifactId, now: Time) -> Vec<InputsAction> {
        let waiting = self.waiting.iter();
        let waiting = waiting.filter(|(_, missing)| missing.artifacts.contains_key(&artifact));
        let tasks: Vec<WaitingTask> = waiting.map(|(task, _)| *task).collect();
        let mut actions = Vec::new();
        for &task in &tasks {
            let artifacts = vec![artifact];
            actions.extend(self.handle(GatherEvent::NotWanted { task, artifacts }, now));
        }
        self.arrived(artifact, tasks, &mut actions);
        actions
    }

    /// Notes that no worker has a copy of these artifacts. A run that waits for one frees its slot for the tasks that make them again.
    pub fn lost(&mut self, artifacts: &BTreeSet<ArtifactId>, now: Time) -> Vec<InputsAction> {
        let waiting = self.waiting.iter().filter_map(|(task, missing)| {
            let lost = missing.artifacts.keys().filter(|id| artifacts.contains(id));
            let lost: Vec<ArtifactId> = lost.copied().collect();
            (!lost.is_empty()).then_some((*task, lost))
        });
        let waiting: Vec<(WaitingTask, Vec<ArtifactId>)> = waiting.collect();
        let mut actions = Vec::new();
        for (task, lost) in waiting {
            actions.push(InputsAction::TakenBack { task, lost });
            actions.extend(self.cancel(task, now));
        }
        actions
    }

    /// Replaces the artifacts of which the scheduler wants a copy here, although no run needs it. Ignores those that failed a moment ago.
    pub fn replicate(&mut self, wanted: Vec<WantedArtifact>, now: Time) -> Vec<InputsAction> {
        let task = WaitingTask::REPLICAS;
        let retry = self.limits.replica_retry;
        let changes = self.replicas.request(wanted, retry, now);
        let mut actions = Vec::new();
        if !changes.dropped.is_empty() {
            let artifacts = changes.dropped;
            actions.extend(self.handle(GatherEvent::NotWanted { task, artifacts }, now));
        }
        if !changes.begun.is_empty() {
            let wanted = GatherEvent::Wanted {
                task,
                priority: Priority::REPLICA,
                artifacts: changes.begun,
            };
            actions.extend(self.handle(wanted, now));
        }
        actions
    }

    /// Gives up a replica that the local store cannot keep. Returns `None` if the artifact is none that is being fetched.
    pub fn refuse_replica(&mut self, id: ArtifactId, now: Time) -> Option<Vec<InputsAction>> {
        let not_wanted = GatherEvent::NotWanted {
            task: WaitingTask::REPLICAS,
            artifacts: vec![id],
        };
        let is_fetched = self.replicas.fail(id, now);
        is_fetched.then(|| self.handle(not_wanted, now))
    }

    /// Applies an event of the gather.
    pub fn handle(&mut self, event: GatherEvent, now: Time) -> Vec<InputsAction> {
        let mut actions = Vec::new();
        // The artifacts that each run has waited for in vain.
        let mut failed: BTreeMap<WaitingTask, Vec<ArtifactId>> = BTreeMap::new();
        for action in self.gather.handle(event, now) {
            match action {
                GatherAction::Arrived { artifact, tasks } => {
                    actions.push(InputsAction::Arrived(artifact));
                    self.arrived(artifact, tasks, &mut actions);
                }
                GatherAction::Missing {
                    artifact, tasks, ..
                } => {
                    for task in tasks {
                        match task {
                            WaitingTask::REPLICAS => drop(self.replicas.fail(artifact, now)),
                            WaitingTask(_) => failed.entry(task).or_default().push(artifact),
                        }
                    }
                }
                other => actions.push(InputsAction::Gather(other)),
            }
        }
        for (task, missing) in failed {
            actions.push(InputsAction::Failed { task, missing });
            actions.extend(self.cancel(task, now));
        }
        actions
    }

    /// Returns when [`GatherEvent::TimePassed`] is due; see [`Gather::next_wake`].
    pub fn next_wake(&self) -> Option<Time> {
        self.gather.next_wake()
    }

    /// Returns the artifacts that runs wait for.
    pub fn waits(&self) -> Vec<ArtifactWait> {
        self.gather.waits()
    }

    /// Returns the artifacts that a run waits for, in the order of their ids.
    pub fn missing_of(&self, task: WaitingTask) -> impl Iterator<Item = ArtifactId> {
        let missing = self.waiting.get(&task).into_iter();
        missing.flat_map(|missing| missing.artifacts.keys().copied())
    }

    /// Returns whether a run waits for an artifact.
    pub fn is_missing(&self, task: WaitingTask, artifact: ArtifactId) -> bool {
        let missing = self.waiting.get(&task);
        missing.is_some_and(|missing| missing.artifacts.contains_key(&artifact))
    }

    /// Returns whether any run waits.
    pub fn do_runs_wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the progress of the runs that wait, in the order of their numbers.
    pub fn progress(&self) -> impl Iterator<Item = InputsProgress> {
        self.waiting.iter().map(|(&task, missing)| InputsProgress {
            task,
            missing: missing.artifacts.len(),
            bytes: ByteCount(missing.bytes),
            peers: self.peers_of(missing),
        })
    }

    fn peers_of(&self, missing: &MissingInputs) -> Vec<(PeerId, u32)> {
        let mut busy: BTreeMap<&PeerId, u32> = BTreeMap::new();
        for &artifact in missing.artifacts.keys().take(SHOWN_ARTIFACTS) {
            for (peer, count) in self.gather.holders_of(artifact) {
                let most = busy.entry(peer).or_default();
                *most = count.max(*most);
            }
        }
        let mut peers: Vec<(PeerId, u32)> = busy
            .into_iter()
            .map(|(peer, count)| (peer.clone(), count))
            .collect();
        peers.sort_by_key(|(_, count)| Reverse(*count));
        peers
    }

    fn arrived(
        &mut self,
        artifact: ArtifactId,
        tasks: Vec<WaitingTask>,
        actions: &mut Vec<InputsAction>,
    ) {
        self.replicas.arrived(artifact);
        for task in tasks {
            let Some(missing) = self.waiting.get_mut(&task) else {
                continue;
            };
            missing.remove(artifact);
            if missing.artifacts.is_empty() {
                self.waiting.remove(&task);
                actions.push(InputsAction::Ready(task));
            }
        }
    }
}

impl MissingInputs {
    fn add(&mut self, wanted: &[WantedArtifact]) {
        for one in wanted {
            let size = one.size.unwrap_or_default();
            if self.artifacts.insert(one.artifact, size).is_none() {
                self.bytes = self.bytes.saturating_add(size.0);
            }
        }
    }

    fn remove(&mut self, artifact: ArtifactId) {
        if let Some(size) = self.artifacts.remove(&artifact) {
            self.bytes = self.bytes.saturating_sub(size.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use brasserie_common::rng::Purpose;

    use super::super::event::{ReceivedCopy, TransferOutcome};
    use super::super::types::{ByteCount, PeerId, TransferId};
    use super::*;

    const RUN: WaitingTask = WaitingTask(1);
    const OTHER: WaitingTask = WaitingTask(2);

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn id(number: u8) -> ArtifactId {
        ArtifactId([number; 32])
    }

    fn peer(name: &str) -> Peer {
        Peer {
            id: name.into(),
            host: name.into(),
            rack: None,
        }
    }

    fn wanted(number: u8, holders: &[&str]) -> WantedArtifact {
        WantedArtifact {
            artifact: id(number),
            size: Some(ByteCount(1)),
            holders: holders.iter().map(|name| peer(name)).collect(),
        }
    }

    fn inputs() -> RunInputs {
        let rng = Rng::new(1, Purpose::PeerOrder);
        RunInputs::new(peer("me"), GatherLimits::default(), rng)
    }

    /// Begins a run at second 0, and returns the numbers of its transfers.
    fn begin(
        inputs: &mut RunInputs,
        task: WaitingTask,
        missing: Vec<WantedArtifact>,
    ) -> Vec<TransferId> {
        let actions = inputs.begin(task, missing, Priority(0), at(0));
        let transfer = |action| match action {
            InputsAction::Gather(GatherAction::Fetch { transfer, .. }) => Some(transfer),
            _ => None,
        };
        actions.into_iter().filter_map(transfer).collect()
    }

    #[test]
    fn an_artifact_that_a_task_leaves_here_ends_the_wait_for_it() {
        let mut inputs = inputs();
        begin(&mut inputs, RUN, vec![wanted(1, &[])]);
        begin(&mut inputs, OTHER, vec![wanted(1, &[]), wanted(2, &[])]);
        let actions = inputs.left_here(id(1), at(1));
        assert!(actions.contains(&InputsAction::Ready(RUN)), "{actions:?}");
        assert_eq!(inputs.missing_of(OTHER).collect::<Vec<_>>(), [id(2)]);
        assert_eq!(inputs.left_here(id(1), at(2)), []);
        let actions = inputs.left_here(id(2), at(3));
        assert!(actions.contains(&InputsAction::Ready(OTHER)), "{actions:?}");
    }

    #[test]
    fn a_run_goes_back_when_an_input_is_lost_and_others_wait_on() {
        let mut inputs = inputs();
        begin(&mut inputs, RUN, vec![wanted(1, &[]), wanted(2, &["a"])]);
        begin(&mut inputs, OTHER, vec![wanted(2, &["a"])]);
        assert_eq!(inputs.lost(&BTreeSet::from([id(3)]), at(1)), []);
        let back = InputsAction::TakenBack {
            task: RUN,
            lost: vec![id(1)],
        };
        assert_eq!(inputs.lost(&BTreeSet::from([id(1), id(3)]), at(1)), [back]);
        assert_eq!(inputs.missing_of(RUN).next(), None);
        assert_eq!(inputs.missing_of(OTHER).collect::<Vec<_>>(), [id(2)]);
        assert_eq!(inputs.lost(&BTreeSet::from([id(1)]), at(2)), []);
    }

    fn answered(transfer: TransferId, numbers: &[u8]) -> GatherEvent {
        let copies = numbers
            .iter()
            .map(|&number| (id(number), ReceivedCopy::Valid));
        GatherEvent::TransferEnded {
            transfer,
            outcome: TransferOutcome::Answered(copies.collect()),
        }
    }

    #[test]
    fn a_run_is_ready_once_with_its_last_input() {
        let mut inputs = inputs();
        assert_eq!(
            inputs.begin(RUN, vec![], Priority(0), at(0)),
            [InputsAction::Ready(RUN)]
        );
        let both = begin(&mut inputs, RUN, vec![wanted(1, &["a"]), wanted(2, &["b"])]);
        assert!(begin(&mut inputs, OTHER, vec![wanted(2, &[])]).is_empty());
        let [first, second] = both[..] else {
            panic!("{both:?}");
        };
        assert!(inputs.missing_of(RUN).eq([id(1), id(2)]));
        // One of the two transfers has each of the artifacts, in an order that the generator decides.
        let mut told = Vec::new();
        for transfer in [first, second, first] {
            told.extend(inputs.handle(answered(transfer, &[1, 2]), at(1)));
        }
        told.sort_by_key(|action| format!("{action:?}"));
        assert_eq!(
            told,
            [
                InputsAction::Arrived(id(1)),
                InputsAction::Arrived(id(2)),
                InputsAction::Ready(RUN),
                InputsAction::Ready(OTHER),
            ]
        );
        assert!(inputs.waits().is_empty() && inputs.waiting.is_empty());
    }

    #[test]
    fn a_damaged_input_is_fetched_again() {
        let mut inputs = inputs();
        let [transfer] = begin(&mut inputs, RUN, vec![wanted(1, &["a"])])[..] else {
            panic!("one artifact needs one transfer");
        };
        inputs.handle(answered(transfer, &[1]), at(1));
        assert_eq!(begin(&mut inputs, RUN, vec![wanted(1, &["b"])]).len(), 1);
        assert!(inputs.missing_of(RUN).eq([id(1)]));
    }

    #[test]
    fn a_run_fails_with_all_inputs_that_no_peer_has_and_gives_up_the_others() {
        let mut inputs = inputs();
        begin(
            &mut inputs,
            RUN,
            vec![wanted(1, &[]), wanted(2, &[]), wanted(3, &["a"])],
        );
        let timeout = GatherLimits::default().missing_timeout;
        let actions = inputs.handle(GatherEvent::TimePassed, at(0) + timeout);
        assert!(actions.contains(&InputsAction::Failed {
            task: RUN,
            missing: vec![id(1), id(2)],
        }));
        assert!(inputs.missing_of(RUN).next().is_none());
        // The transfer that has begun continues, and nobody waits for it.
        assert!(inputs.waits().is_empty());
        let late = inputs.handle(answered(TransferId(1), &[3]), at(400));
        assert!(!late.contains(&InputsAction::Ready(RUN)), "{late:?}");
    }

    #[test]
    fn replicas_need_no_run_and_end_with_their_holders() {
        let mut inputs = inputs();
        let asked = inputs.replicate(vec![wanted(1, &["a"]), wanted(2, &["b"])], at(0));
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(!inputs.do_runs_wait());
        let of_a = asked.iter().find_map(|action| match action {
            InputsAction::Gather(GatherAction::Fetch { transfer, peer, .. })
                if *peer == PeerId::from("a") =>
            {
                Some(*transfer)
            }
            _ => None,
        });
        let arrived = inputs.handle(answered(of_a.expect("a request to a"), &[1]), at(1));
        assert_eq!(arrived, [InputsAction::Arrived(id(1))]);
        // The other holder is lost with its copy, and the scheduler is not asked for others.
        let removed = GatherEvent::PeerRemoved {
            peer: PeerId::from("b"),
        };
        assert!(inputs.handle(removed, at(2)).is_empty());
        let again = || vec![wanted(2, &["c"])];
        assert_eq!(inputs.refuse_replica(id(1), at(3)), None);
        let transfers = [TransferId(1), TransferId(2)];
        let ended = transfers.map(|transfer| inputs.handle(answered(transfer, &[]), at(4)));
        assert_eq!(ended, [vec![], vec![]]);
        assert!(inputs.replicate(again(), at(5)).is_empty(), "it failed now");
        assert_eq!(inputs.replicate(again(), at(14)).len(), 1);
        let refused = inputs.refuse_replica(id(2), at(15));
        assert_eq!(refused, Some(vec![]));
        assert!(inputs.waits().is_empty());
    }

    #[test]
    fn progress_counts_bytes_and_busy_answers() {
        let mut inputs = inputs();
        let [transfer] = begin(&mut inputs, RUN, vec![wanted(1, &["a"]), wanted(2, &["a"])])[..]
        else {
            panic!("one peer gets one request");
        };
        begin(&mut inputs, OTHER, vec![wanted(2, &["a", "b"])]);
        let busy = GatherEvent::TransferEnded {
            transfer,
            outcome: TransferOutcome::Busy([(id(1), ReceivedCopy::Valid)].into()),
        };
        inputs.handle(busy, at(1));
        let progress: Vec<InputsProgress> = inputs.progress().collect();
        let peers = vec![(PeerId::from("a"), 1), (PeerId::from("b"), 0)];
        let one = |task| InputsProgress {
            task,
            missing: 1,
            bytes: ByteCount(1),
            peers: peers.clone(),
        };
        assert_eq!(progress, [one(RUN), one(OTHER)]);
    }

    #[test]
    fn a_cancelled_run_is_never_ready() {
        let mut inputs = inputs();
        let transfers = begin(&mut inputs, RUN, vec![wanted(1, &["a"])]);
        begin(&mut inputs, OTHER, vec![wanted(1, &["a"])]);
        assert!(inputs.cancel(RUN, at(1)).is_empty());
        let arrived = inputs.handle(answered(transfers[0], &[1]), at(2));
        assert_eq!(
            arrived,
            [InputsAction::Arrived(id(1)), InputsAction::Ready(OTHER)]
        );
        assert!(inputs.cancel(RUN, at(3)).is_empty());
        let removed = GatherEvent::PeerRemoved {
            peer: PeerId::from("a"),
        };
        assert!(inputs.handle(removed, at(4)).is_empty());
    }
}
