//! The blocking work on the files of one run: its folder, its inputs, and its outputs.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use brasserie_common::{
    Artifact, ArtifactId, ArtifactNamespace, DiskGeneration, Fault, LeftOutput, OutputPath,
    ReportedStatus, TaskInput, TaskOutput,
};
use brasserie_common_artifacts::{
    ArtifactStore, InputPlace, StageError, StopCheck, TakeInError, TaskFolder, WriteError, copy_all,
};

use super::folders::{RunFolder, RunFolders};
use super::hands::Undone;
use crate::process::SpawnRequest;

/// The reason why a run did not get its inputs.
#[derive(Debug)]
pub(crate) enum StageFailure {
    /// The store has no sound copy of these any more: fetch them again.
    Lost(Vec<ArtifactId>),
    /// The run was killed meanwhile.
    Stopped,
    /// The message for people.
    Other(String),
}

impl From<Undone> for StageFailure {
    fn from(undone: Undone) -> Self {
        match undone {
            Undone::Stopped => StageFailure::Stopped,
            Undone::Panicked => {
                let why = "the worker failed while it copied the inputs: its log has the reason";
                StageFailure::Other(why.to_owned())
            }
        }
    }
}

/// The reason why the outputs of a run were not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TakeFailure {
    #[error(transparent)]
    Failed(#[from] TakeInError),
    #[error("the worker failed while it took the outputs: its log has the reason")]
    Panicked,
}

impl From<Undone> for TakeFailure {
    fn from(undone: Undone) -> Self {
        match undone {
            Undone::Stopped => TakeFailure::Failed(TakeInError::Stopped),
            Undone::Panicked => TakeFailure::Panicked,
        }
    }
}

impl TakeFailure {
    /// Returns the status of the run, for a worker whose largest disk has room for so many bytes of artifacts if nothing else is on it. More
    /// than that costs a try, because no wait makes room for it. A disk that is full for a while costs none.
    pub(super) fn status(&self, largest_disk: u64) -> ReportedStatus {
        let why = self.to_string();
        match self {
            TakeFailure::Failed(TakeInError::Store(WriteError::NoSpace { needed, .. }))
                if *needed > largest_disk =>
            {
                ReportedStatus::error_backoff(&why)
            }
            TakeFailure::Failed(
                TakeInError::Output { .. } | TakeInError::Store(_) | TakeInError::Stopped,
            )
            | TakeFailure::Panicked => ReportedStatus::by_fault(self.fault(), &why),
        }
    }

    pub(super) fn fault(&self) -> Fault {
        match self {
            TakeFailure::Failed(TakeInError::Output { .. }) => Fault::Task,
            TakeFailure::Failed(TakeInError::Store(_) | TakeInError::Stopped)
            | TakeFailure::Panicked => Fault::Worker,
        }
    }
}

/// Makes the folder of a run, with its inputs. Nothing is left of it on failure.
pub(super) fn prepare(
    store: &ArtifactStore,
    folders: &RunFolders,
    request: &SpawnRequest,
    (namespace, inputs): (&ArtifactNamespace, &[TaskInput]),
    stop: StopCheck<'_>,
) -> Result<RunFolder, StageFailure> {
    let folder = folders.make(request);
    let folder = folder.map_err(StageFailure::Other)?;
    let mut incomplete = IncompleteFolder(Some(&folder));
    stage_all(store, &folder, (namespace, inputs), stop)?;
    let failed = |error: io::Error| StageFailure::Other(error.to_string());
    folder.hand_over().map_err(failed)?;
    incomplete.0 = None;
    drop(incomplete);
    Ok(folder)
}

/// Removes the folder of a run unless it is complete, also after a panic.
struct IncompleteFolder<'a>(Option<&'a RunFolder>);

impl Drop for IncompleteFolder<'_> {
    fn drop(&mut self) {
        if let Some(folder) = self.0 {
            folder.remove();
        }
    }
}

/// Copies all inputs, a few at once. The first failure ends the others.
fn stage_all(
    store: &ArtifactStore,
    folder: &RunFolder,
    (namespace, inputs): (&ArtifactNamespace, &[TaskInput]),
    stop: StopCheck<'_>,
) -> Result<(), StageFailure> {
    let places = inputs.iter().map(|input| Path::new(input.place.as_str()));
    let above: BTreeSet<&Path> = places.filter_map(Path::parent).collect();
    for above in above {
        let made = folder.make_below_inputs(above);
        made.map_err(|error| {
            let place = above.display();
            StageFailure::Other(format!(
                "cannot make the folder `{place}` of inputs: {error}"
            ))
        })?;
    }
    let has_failed = AtomicBool::new(false);
    let is_over = || has_failed.load(Ordering::Relaxed) || (stop.0)();
    let copied = copy_all(inputs.iter().enumerate().collect(), |(number, input)| {
        let staged = stage(store, folder, (namespace, input), StopCheck(&is_over));
        let lost = match staged {
            Ok(()) => return Ok(None),
            Err(StageError::Stopped) => return Err((usize::MAX, StageFailure::Stopped)),
            Err(StageError::Content(_)) if store.find(namespace, input.artifact.id).is_none() => {
                input.artifact.id
            }
            Err(error) => {
                has_failed.store(true, Ordering::Relaxed);
                return Err((number, StageFailure::Other(error.to_string())));
            }
        };
        Ok(Some(lost))
    });
    let mut lost = BTreeSet::new();
    let mut first: Option<(usize, StageFailure)> = None;
    for copied in copied {
        match copied {
            Ok(id) => lost.extend(id),
            Err(failure) if first.as_ref().is_none_or(|(number, _)| failure.0 < *number) => {
                first = Some(failure);
            }
            Err(_) => {}
        }
    }
    match first {
        Some((_, failure)) => Err(failure),
        None if lost.is_empty() => Ok(()),
        None => Err(StageFailure::Lost(lost.into_iter().collect())),
    }
}

/// Puts a copy of an input to its place. Nobody but the worker can reach the folder of the run yet.
fn stage(
    store: &ArtifactStore,
    folder: &RunFolder,
    (namespace, input): (&ArtifactNamespace, &TaskInput),
    stop: StopCheck<'_>,
) -> Result<(), StageError> {
    let place = Path::new(input.place.as_str());
    let name = place.file_name().unwrap_or(OsStr::new(""));
    let failed = |error: io::Error| StageError::Task {
        name: name.to_owned(),
        error,
    };
    let above = folder.inputs.join(place.parent().unwrap_or(Path::new("")));
    let above = fs::File::open(above).map_err(failed)?;
    let place = InputPlace {
        folder: above.as_fd(),
        name,
        owner: Some(folder.user),
        stop,
    };
    store.stage(namespace, &input.artifact, &place)
}

/// Takes all outputs of a run.
pub(super) fn take(
    store: &ArtifactStore,
    folder: &RunFolder,
    namespace: &ArtifactNamespace,
    outputs: &[OutputPath],
    stop: StopCheck<'_>,
) -> Result<Vec<LeftOutput>, TakeInError> {
    let work = folder.open_work().map_err(|error| TakeInError::Output {
        path: folder.work.clone(),
        why: error.into(),
    })?;
    let task = TaskFolder {
        folder: work.as_fd(),
        user: folder.user,
        stop,
    };
    let taken = store.take_in_all(namespace, task, outputs)?;
    let left = |(artifact, path): (Artifact, &OutputPath)| {
        let path = path.clone();
        // The artifact may already be lost again; the scheduler then hears of that.
        let stored = store.find(namespace, artifact.id);
        LeftOutput {
            output: TaskOutput { path, artifact },
            generation: stored.map_or(DiskGeneration(0), |stored| stored.generation),
        }
    };
    Ok(taken.into_iter().zip(outputs).map(left).collect())
}
