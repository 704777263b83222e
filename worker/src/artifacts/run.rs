//! The blocking work on the files of one run: its folder, its inputs, and its outputs.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use brasserie_common::{
    ArtifactId, ArtifactNamespace, DiskGeneration, LeftOutput, OutputPath, TaskInput, TaskOutput,
};
use brasserie_worker_artifacts::{ArtifactStore, InputPlace, StageError, TakeInError, TaskFolder};

use super::folders::{RunFolder, RunFolders};
use crate::process::SpawnRequest;

/// The reason why a run did not get its inputs.
#[derive(Debug)]
pub(crate) enum StageFailure {
    /// The store has no sound copy of these any more: fetch them again.
    Lost(Vec<ArtifactId>),
    /// The message for people.
    Other(String),
}

/// Makes the folder of a run, with its inputs. Nothing is left of it on failure.
pub(super) fn prepare(
    store: &ArtifactStore,
    folders: &RunFolders,
    request: &SpawnRequest,
    (namespace, inputs): (&ArtifactNamespace, &[TaskInput]),
) -> Result<RunFolder, StageFailure> {
    let folder = folders.make(&request.key, &request.options);
    let folder = folder.map_err(StageFailure::Other)?;
    let staged = stage_all(store, &folder, namespace, inputs).and_then(|()| {
        let failed = |error: io::Error| StageFailure::Other(error.to_string());
        folder.hand_over().map_err(failed)
    });
    staged.inspect_err(|_| remove(&folder))?;
    Ok(folder)
}

fn stage_all(
    store: &ArtifactStore,
    folder: &RunFolder,
    namespace: &ArtifactNamespace,
    inputs: &[TaskInput],
) -> Result<(), StageFailure> {
    let mut lost = Vec::new();
    for input in inputs {
        match stage(store, folder, namespace, input) {
            Ok(()) => {}
            Err(StageError::Content(_)) if store.find(namespace, input.artifact.id).is_none() => {
                lost.push(input.artifact.id);
            }
            Err(error) => return Err(StageFailure::Other(error.to_string())),
        }
    }
    match lost.is_empty() {
        true => Ok(()),
        false => Err(StageFailure::Lost(lost)),
    }
}

/// Puts a copy of an input to its place. Nobody but the worker can reach the folder of the run yet.
fn stage(
    store: &ArtifactStore,
    folder: &RunFolder,
    namespace: &ArtifactNamespace,
    input: &TaskInput,
) -> Result<(), StageError> {
    let place = Path::new(input.place.as_str());
    let name = place.file_name().unwrap_or(OsStr::new(""));
    let failed = |error: io::Error| StageError::Task {
        name: name.to_owned(),
        error,
    };
    let above = folder.inputs.join(place.parent().unwrap_or(Path::new("")));
    folder.make_below_inputs(place).map_err(failed)?;
    let above = fs::File::open(above).map_err(failed)?;
    let place = InputPlace {
        folder: above.as_fd(),
        name,
        owner: Some(folder.user),
    };
    store.stage(namespace, &input.artifact, &place)
}

/// Takes all outputs of a run.
pub(super) fn take(
    store: &ArtifactStore,
    folder: &RunFolder,
    namespace: &ArtifactNamespace,
    outputs: &[OutputPath],
) -> Result<Vec<LeftOutput>, TakeInError> {
    let work = folder.open_work().map_err(|error| TakeInError::Output {
        path: folder.work.clone(),
        why: error.into(),
    })?;
    let task = TaskFolder {
        folder: work.as_fd(),
        user: folder.user,
    };
    let take = |path: &OutputPath| {
        let artifact = store.take_in(namespace, task, path)?;
        let path = path.clone();
        // The artifact may already be lost again; the scheduler then hears of that.
        let stored = store.find(namespace, artifact.id);
        Ok(LeftOutput {
            output: TaskOutput { path, artifact },
            generation: stored.map_or(DiskGeneration(0), |stored| stored.generation),
        })
    };
    outputs.iter().map(take).collect()
}

/// Removes the folder of a run.
pub(super) fn remove(folder: &RunFolder) {
    if let Err(error) = folder.remove() {
        tracing::warn!(
            "cannot remove the folder {} of a run that has ended: {error}",
            folder.root.display()
        );
    }
}
