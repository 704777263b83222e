//! The handle of the desk, and the events that reach it.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use brasserie_common::{
    Artifact, ArtifactHolder, ArtifactId, ArtifactNamespace, EndedBy, KillRequest, LeftOutput,
};
use brasserie_worker_core::AssociationIndex;
use brasserie_worker_gather::{TransferId, WaitingTask};
use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::folders::RunFolder;
use super::run::{StageFailure, TakeFailure};
use super::transfer::Transferred;
use crate::process::{RunKey, SpawnRequest, TaskEnd};

/// The handle of the desk.
#[derive(Clone)]
pub(crate) struct Desk {
    events: UnboundedSender<DeskEvent>,
    /// The runs that the desk leads.
    pub led: Arc<Mutex<HashSet<RunKey>>>,
}

/// The receiving end of a desk.
pub(crate) struct DeskEvents(pub UnboundedReceiver<DeskEvent>);

/// An event of a run with artifacts.
pub(crate) enum DeskEvent {
    Spawn(Box<SpawnRequest>),
    Kill {
        key: RunKey,
        request: KillRequest,
        by: EndedBy,
    },
    Suspend(RunKey),
    Resume(RunKey),
    /// The last process of a run is dead.
    ProcessesEnded(Box<TaskEnd>),
    /// The folder of a run is ready, or not.
    Prepared {
        run: WaitingTask,
        result: Result<RunFolder, StageFailure>,
    },
    /// The outputs of a run are in the store, or not.
    Taken {
        run: WaitingTask,
        end: Box<TaskEnd>,
        result: Result<Vec<LeftOutput>, TakeFailure>,
    },
    /// A transfer of an association is over.
    Transferred {
        of: AssociationIndex,
        transfer: TransferId,
        result: Transferred,
    },
    Holders(Holders),
    Replicate(ReplicaRequest),
}

/// A scheduler's answer to a question for holders.
pub(crate) struct Holders {
    /// The association whose scheduler answers.
    pub of: AssociationIndex,
    pub holders: Vec<(ArtifactId, Vec<ArtifactHolder>)>,
    /// Those of which no worker has a copy.
    pub lost: BTreeSet<ArtifactId>,
}

/// The copies that a scheduler wants here: all of them, at each answer.
pub(crate) struct ReplicaRequest {
    /// The association whose scheduler answers.
    pub of: AssociationIndex,
    pub namespace: ArtifactNamespace,
    pub artifacts: Vec<(Artifact, Vec<ArtifactHolder>)>,
}

impl Desk {
    /// Makes a desk that has not started, and what it will hear.
    pub(crate) fn new() -> (Desk, DeskEvents) {
        let (events, heard) = unbounded_channel();
        let led = Arc::default();
        (Desk { events, led }, DeskEvents(heard))
    }

    pub(crate) fn spawn(&self, request: SpawnRequest) {
        self.led.lock().insert(request.key.clone());
        self.tell(DeskEvent::Spawn(Box::new(request)));
    }

    /// Returns whether the desk leads the run, and ends it then.
    pub(crate) fn kill(&self, key: &RunKey, request: KillRequest, by: EndedBy) -> bool {
        self.tell_of(key, |key| DeskEvent::Kill { key, request, by })
    }

    /// Returns whether the desk leads the run, and stops it then.
    pub(crate) fn suspend(&self, key: &RunKey) -> bool {
        self.tell_of(key, DeskEvent::Suspend)
    }

    /// Returns whether the desk leads the run, and continues it then.
    pub(crate) fn resume(&self, key: &RunKey) -> bool {
        self.tell_of(key, DeskEvent::Resume)
    }

    /// Takes the end of a run that the desk leads; returns that of another run.
    pub(crate) fn take_end(&self, end: TaskEnd) -> Option<TaskEnd> {
        if !self.led.lock().contains(&*end.key) {
            return Some(end);
        }
        self.tell(DeskEvent::ProcessesEnded(Box::new(end)));
        None
    }

    pub(super) fn holders(&self, holders: Holders) {
        self.tell(DeskEvent::Holders(holders));
    }

    pub(super) fn replicate(&self, request: ReplicaRequest) {
        self.tell(DeskEvent::Replicate(request));
    }

    fn tell_of(&self, key: &RunKey, event: impl FnOnce(RunKey) -> DeskEvent) -> bool {
        let is_led = self.led.lock().contains(key);
        if is_led {
            self.tell(event(key.clone()));
        }
        is_led
    }

    pub fn tell(&self, event: DeskEvent) {
        // The send fails only if the worker has already ended.
        let _ = self.events.send(event);
    }
}
