//! Artifacts: what a run needs and leaves, and who holds it.

use std::sync::Arc;

use brasserie_common::ids::{MAX_NAME_BYTES, NameError};
use brasserie_common::{
    Artifact, ArtifactForm, ArtifactHolder, ArtifactId, ArtifactNamespace, DiskGeneration,
    LeftOutput, OutputPath, TaskArtifacts, TaskInput, TaskOutput,
};

use super::{
    FieldProblem, WireError, host, not_negative, parse_list, required, saturating_i32,
    saturating_i64, to_wire_list,
};
use crate::generated::common as wire;
use crate::generated::worker::{ArtifactPiece, ArtifactPieces, ArtifactRange};

impl TryFrom<wire::Artifact> for Artifact {
    type Error = WireError;

    fn try_from(artifact: wire::Artifact) -> Result<Self, WireError> {
        let form = artifact.form.unwrap_or_default();
        let allowed = "\"file\", \"executable\" or \"folder\"";
        Ok(Artifact {
            id: id("Artifact.id", artifact.id.unwrap_or_default())?,
            size: not_negative("Artifact.size", artifact.size.unwrap_or(0))?,
            form: ArtifactForm::parse(&form).ok_or_else(|| {
                WireError::new("Artifact.form", FieldProblem::unknown_word(&form, allowed))
            })?,
        })
    }
}

impl From<Artifact> for wire::Artifact {
    fn from(artifact: Artifact) -> Self {
        wire::Artifact {
            id: Some(artifact.id.0.to_vec()),
            size: Some(saturating_i64(artifact.size)),
            form: Some(artifact.form.as_str().to_owned()),
        }
    }
}

/// Parses the SHA-256 of an artifact.
pub fn id(path: &str, bytes: Vec<u8>) -> Result<ArtifactId, WireError> {
    exactly(path, Some(bytes)).map(ArtifactId)
}

/// Parses a range of a call `fetchArtifacts`: the artifact, and the offset of its first byte.
pub fn range(range: &ArtifactRange) -> Result<(ArtifactId, i64), WireError> {
    let bytes = range.id.clone().unwrap_or_default();
    let id = id("fetchArtifacts.ranges.id", bytes)?;
    Ok((id, range.offset.unwrap_or(0)))
}

/// Returns the answer with these pieces: for each range its bytes and the size of its artifact, or none.
pub fn pieces(transfer: i64, pieces: Vec<Option<(Vec<u8>, u64)>>) -> ArtifactPieces {
    let piece = |piece: Option<(Vec<u8>, u64)>| {
        let (bytes, size) = piece.unzip();
        ArtifactPiece {
            bytes,
            size: size.map(saturating_i64),
        }
    };
    ArtifactPieces {
        busy: None,
        pieces: Some(pieces.into_iter().map(piece).collect()),
        transfer: Some(transfer),
    }
}

/// Returns the answer that no transfer is served now.
pub fn busy_pieces() -> ArtifactPieces {
    ArtifactPieces {
        busy: Some(true),
        ..ArtifactPieces::default()
    }
}

/// Parses bytes of a fixed number.
pub(super) fn exactly<const N: usize>(
    path: &str,
    bytes: Option<Vec<u8>>,
) -> Result<[u8; N], WireError> {
    let bytes = bytes.unwrap_or_default();
    let length = bytes.len();
    bytes.try_into().map_err(|_| {
        let problem = FieldProblem::Length { length, allowed: N };
        WireError::new(path, problem)
    })
}

pub(super) fn generation(path: &str, bytes: Option<Vec<u8>>) -> Result<DiskGeneration, WireError> {
    exactly(path, bytes).map(|bytes| DiskGeneration(u128::from_be_bytes(bytes)))
}

pub(super) fn to_bytes(generation: DiskGeneration) -> Option<Vec<u8>> {
    Some(generation.0.to_be_bytes().to_vec())
}

fn output_path(path: &str, text: &str) -> Result<OutputPath, WireError> {
    OutputPath::try_from(text).map_err(|_| {
        let allowed = "a relative path without empty parts, `.` and `..`";
        WireError::new(path, FieldProblem::unknown_word(text, allowed))
    })
}

impl TryFrom<wire::TaskOutput> for LeftOutput {
    type Error = WireError;

    fn try_from(output: wire::TaskOutput) -> Result<Self, WireError> {
        Ok(LeftOutput {
            output: TaskOutput {
                path: output_path("TaskOutput.path", &output.path.unwrap_or_default())?,
                artifact: required("TaskOutput.artifact", output.artifact)?,
            },
            generation: generation("TaskOutput.generation", output.generation)?,
        })
    }
}

impl From<LeftOutput> for wire::TaskOutput {
    fn from(left: LeftOutput) -> Self {
        wire::TaskOutput {
            path: Some(left.output.path.as_str().to_owned()),
            artifact: Some(left.output.artifact.into()),
            generation: to_bytes(left.generation),
        }
    }
}

impl TryFrom<wire::ArtifactHolder> for ArtifactHolder {
    type Error = WireError;

    fn try_from(holder: wire::ArtifactHolder) -> Result<Self, WireError> {
        Ok(ArtifactHolder {
            address: holder
                .address
                .map(|address| required("ArtifactHolder.address", Some(address)))
                .transpose()?,
            hostname: host(
                "ArtifactHolder.hostname",
                holder.hostname.unwrap_or_default(),
            )?,
            rack: holder
                .rack
                .map(|name| rack("ArtifactHolder.rack", name))
                .transpose()?,
        })
    }
}

/// Parses the name of a rack.
pub(super) fn rack(path: &str, name: String) -> Result<Arc<str>, WireError> {
    if name.len() > MAX_NAME_BYTES {
        let problem = FieldProblem::Name(NameError::TooLong(name.len()));
        return Err(WireError::new(path, problem));
    }
    Ok(name.into())
}

impl From<ArtifactHolder> for wire::ArtifactHolder {
    fn from(holder: ArtifactHolder) -> Self {
        wire::ArtifactHolder {
            address: holder.address.map(Into::into),
            hostname: Some(holder.hostname.to_string()),
            rack: holder.rack.map(|rack| rack.to_string()),
        }
    }
}

impl TryFrom<wire::TaskArtifacts> for TaskArtifacts {
    type Error = WireError;

    fn try_from(artifacts: wire::TaskArtifacts) -> Result<Self, WireError> {
        let holders: Vec<ArtifactHolder> = parse_list(
            "TaskArtifacts.holders",
            artifacts.holders.unwrap_or_default(),
        )?;
        let inputs = artifacts.inputs.unwrap_or_default().into_iter().enumerate();
        let inputs = inputs.map(|(position, one)| {
            input(one, holders.len())
                .map_err(|error| error.inside(&format!("TaskArtifacts.inputs[{position}]")))
        });
        let outputs = artifacts.outputs.unwrap_or_default();
        let outputs = outputs
            .iter()
            .map(|text| output_path("TaskArtifacts.outputs", text));
        Ok(TaskArtifacts {
            namespace: namespace(
                "TaskArtifacts.cluster",
                &artifacts.cluster.unwrap_or_default(),
            )?,
            inputs: inputs.collect::<Result<_, _>>()?,
            outputs: outputs.collect::<Result<_, _>>()?,
            holders,
        })
    }
}

/// Parses the name of a namespace.
pub(super) fn namespace(path: &str, text: &str) -> Result<ArtifactNamespace, WireError> {
    let allowed = "1 to 64 letters, digits, `-` and `_`";
    ArtifactNamespace::try_from(text)
        .map_err(|_| WireError::new(path, FieldProblem::unknown_word(text, allowed)))
}

/// Parses the place of one of so many holders.
pub(super) fn position(path: &str, number: i32, holders: usize) -> Result<usize, WireError> {
    let position = usize::try_from(number).ok();
    position
        .filter(|&position| position < holders)
        .ok_or_else(|| {
            let problem = FieldProblem::OutOfRange {
                value: number.into(),
                allowed: "the place of a holder in `holders`",
            };
            WireError::new(path, problem)
        })
}

/// Parses an input of a run that names `holders` workers.
fn input(input: wire::TaskInput, holders: usize) -> Result<TaskInput, WireError> {
    let named = input.holders.unwrap_or_default().into_iter();
    let named = named.map(|number| position("TaskInput.holders", number, holders));
    Ok(TaskInput {
        place: output_path("TaskInput.path", &input.path.unwrap_or_default())?,
        artifact: required("TaskInput.artifact", input.artifact)?,
        holders: named.collect::<Result<_, _>>()?,
    })
}

impl From<TaskArtifacts> for wire::TaskArtifacts {
    fn from(artifacts: TaskArtifacts) -> Self {
        let input = |input: TaskInput| wire::TaskInput {
            path: Some(input.place.as_str().to_owned()),
            artifact: Some(input.artifact.into()),
            holders: Some(input.holders.into_iter().map(saturating_i32).collect()),
        };
        let outputs = artifacts.outputs.iter();
        wire::TaskArtifacts {
            cluster: Some(artifacts.namespace.as_str().to_owned()),
            inputs: Some(artifacts.inputs.into_iter().map(input).collect()),
            holders: Some(to_wire_list(artifacts.holders)),
            outputs: Some(outputs.map(|path| path.as_str().to_owned()).collect()),
        }
    }
}
