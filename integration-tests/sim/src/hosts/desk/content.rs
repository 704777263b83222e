//! The outputs of simulated runs. The name of an output decides on what its content depends, so that a run needs no further settings.

use std::hash::Hasher;

use brasserie_common::{Artifact, ArtifactForm, ArtifactId, OutputPath, RunningTask};
use siphasher::sip::SipHasher13;

/// The largest size of an artifact in bytes.
const MOST_BYTES: u64 = 1000;

/// Returns the artifact that a run leaves at a path. The content of `fresh` differs with each run, that of `common` is the same for all
/// tasks, and that of any other output is the same for all runs of a task.
pub fn output_of(task: &RunningTask, path: &OutputPath) -> Artifact {
    let mut id = [0; 32];
    for (part, bytes) in id.chunks_exact_mut(8).enumerate() {
        let mut hasher = SipHasher13::new_with_keys(part as u64, 7);
        hasher.write(path.as_str().as_bytes());
        if path.as_str() != "common" {
            hasher.write(format!("{}/{}", task.job, task.node).as_bytes());
        }
        if path.as_str() == "fresh" {
            hasher.write(format!("{:?}", task.invocation).as_bytes());
        }
        bytes.copy_from_slice(&hasher.finish().to_be_bytes());
    }
    Artifact {
        size: 1 + u64::from(id[0]) * MOST_BYTES / 256,
        id: ArtifactId(id),
        form: ArtifactForm::File,
    }
}
