//! Observations about artifacts: what runs need, have and leave, and the copies in stores.

use brasserie_common::{ArtifactId, ArtifactNamespace, DiskGeneration, RecordSeq, WorkerId};

use crate::event_types::{DirectoryId, Run, SchedulerPlace, WorkerPlace};
use crate::store::CopyState;

/// A place below the inputs of a run, or the path of an output, with the artifact.
pub type PlacedArtifact = (String, ArtifactId);

/// One observation.
#[derive(Clone, Debug, PartialEq)]
pub enum ArtifactEvent {
    /// The inputs that the next `runTask` names.
    Needed {
        place: SchedulerPlace,
        worker: WorkerId,
        run: Run,
        inputs: Vec<PlacedArtifact>,
    },
    /// The outputs of a completion in record `seq`.
    OutputsWritten {
        directory: DirectoryId,
        seq: RecordSeq,
        run: Run,
        outputs: Vec<PlacedArtifact>,
    },
    /// A run with artifacts has begun at its worker, and has no process yet.
    Waits {
        place: WorkerPlace,
        worker: WorkerId,
        run: Run,
        namespace: ArtifactNamespace,
        inputs: Vec<ArtifactId>,
    },
    /// The process of the run starts next, with these copies of its inputs.
    Staged {
        place: WorkerPlace,
        worker: WorkerId,
        run: Run,
        copies: Vec<(String, ArtifactId, Option<CopyState>)>,
    },
    /// The run ends without a process.
    NotStarted { worker: WorkerId, run: Run },
    /// The outputs of the run are in the store of its worker.
    Left {
        place: WorkerPlace,
        worker: WorkerId,
        run: Run,
        outputs: Vec<PlacedArtifact>,
    },
    /// A copy came into a store.
    Stored {
        place: WorkerPlace,
        generation: DiskGeneration,
        id: ArtifactId,
    },
    /// A copy is deleted because a scheduler wants that.
    Deleted {
        place: WorkerPlace,
        generation: DiskGeneration,
        namespace: ArtifactNamespace,
        id: ArtifactId,
    },
    /// All disks of the place are empty and have new generations.
    DisksReplaced { place: WorkerPlace },
}
