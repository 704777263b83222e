//! Artifacts: immutable files and folders that one task makes and others need, named by their content.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::address::ServiceAddress;

/// The content of an artifact: the SHA-256 of its bytes. A copy with another SHA-256 is damaged.
///
/// The bytes of a file are its content. Those of a folder are a tar archive of it, of which `common/artifacts` defines each byte.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ArtifactId(pub [u8; 32]);

/// The text is no artifact id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("an artifact id is the SHA-256 of its content: 64 hex digits")]
pub struct ArtifactIdError;

impl FromStr for ArtifactId {
    type Err = ArtifactIdError;

    fn from_str(text: &str) -> Result<Self, ArtifactIdError> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return Err(ArtifactIdError);
        }
        let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(ArtifactIdError);
        let mut id = [0; 32];
        for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
            // Invariant: two hex digits fit a byte.
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?)
                .map_err(|_| ArtifactIdError)?;
        }
        Ok(ArtifactId(id))
    }
}

impl TryFrom<String> for ArtifactId {
    type Error = ArtifactIdError;

    fn try_from(text: String) -> Result<Self, ArtifactIdError> {
        text.parse()
    }
}

impl From<ArtifactId> for String {
    fn from(id: ArtifactId) -> String {
        id.to_string()
    }
}

/// Writes all 64 hex digits.
impl fmt::Display for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Writes the first eight hex digits, which are enough to tell the artifacts of a log apart.
impl fmt::Debug for ArtifactId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArtifactId(")?;
        self.0[..4]
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str("..)")
    }
}

/// The form in which a task gets the bytes of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactForm {
    File,
    /// A file that its owner may execute.
    Executable,
    /// A folder, unpacked from its archive.
    Folder,
}

impl ArtifactForm {
    pub fn as_str(self) -> &'static str {
        match self {
            ArtifactForm::File => "file",
            ArtifactForm::Executable => "executable",
            ArtifactForm::Folder => "folder",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        let all = [
            ArtifactForm::File,
            ArtifactForm::Executable,
            ArtifactForm::Folder,
        ];
        all.into_iter().find(|form| form.as_str() == text)
    }
}

/// An artifact, with what is needed to fetch it and to give it to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Artifact {
    pub id: ArtifactId,
    /// The number of bytes that [`ArtifactId`] describes.
    pub size: u64,
    pub form: ArtifactForm,
}

/// The data of one disk of a store, from its first artifact to the loss of all. A store that starts empty has a new generation, so that its
/// worker is never taken for a holder of what an earlier store at the same place had.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DiskGeneration(pub u128);

/// Writes all 32 hex digits.
impl fmt::Display for DiskGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for DiskGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskGeneration({self})")
    }
}

/// The text is no generation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a generation has 32 hex digits")]
pub struct DiskGenerationError;

impl FromStr for DiskGeneration {
    type Err = DiskGenerationError;

    fn from_str(text: &str) -> Result<Self, DiskGenerationError> {
        // `from_str_radix` also accepts a sign.
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(DiskGenerationError);
        }
        let number = u128::from_str_radix(text, 16).map_err(|_| DiskGenerationError)?;
        Ok(DiskGeneration(number))
    }
}

/// The place of an output below the working directory of its task: `table.parquet`, or `stats/` for a folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OutputPath(Arc<str>);

/// The reason why a text is not the path of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OutputPathError {
    #[error("an output needs a name")]
    Empty,
    #[error(
        "an output is below the working directory of its task, so its path does not begin with `/`"
    )]
    Absolute,
    #[error("the path of an output has no empty part and no part `.` or `..`")]
    Part,
    #[error("the path of an output has {0} bytes at most", OutputPath::MAX_BYTES)]
    TooLong,
    #[error("the path of an output has no control characters")]
    ControlCharacter,
}

impl OutputPath {
    /// Length limit: below it, a path of a path and the name of a job and a node still fit the limits of messages and of file systems.
    pub const MAX_BYTES: usize = 1024;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_folder(&self) -> bool {
        self.0.ends_with('/')
    }

    /// Returns the names of the folders on the way, and at last the output's own name.
    pub fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.trim_end_matches('/').split('/')
    }

    /// Returns whether one output lies in the other, or is the same.
    pub fn overlaps(&self, other: &OutputPath) -> bool {
        self.parts()
            .zip(other.parts())
            .all(|(one, other)| one == other)
    }
}

impl TryFrom<&str> for OutputPath {
    type Error = OutputPathError;

    fn try_from(text: &str) -> Result<Self, OutputPathError> {
        let names = text.strip_suffix('/').unwrap_or(text);
        if text.is_empty() {
            Err(OutputPathError::Empty)
        } else if text.starts_with('/') {
            Err(OutputPathError::Absolute)
        } else if text.len() > Self::MAX_BYTES {
            Err(OutputPathError::TooLong)
        } else if text.chars().any(char::is_control) {
            Err(OutputPathError::ControlCharacter)
        } else if names.split('/').any(|part| matches!(part, "" | "." | "..")) {
            Err(OutputPathError::Part)
        } else {
            Ok(OutputPath(text.into()))
        }
    }
}

impl TryFrom<String> for OutputPath {
    type Error = OutputPathError;

    fn try_from(text: String) -> Result<Self, OutputPathError> {
        OutputPath::try_from(text.as_str())
    }
}

impl From<OutputPath> for String {
    fn from(path: OutputPath) -> String {
        path.as_str().to_owned()
    }
}

impl fmt::Display for OutputPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An output that a run has left.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskOutput {
    pub path: OutputPath,
    pub artifact: Artifact,
}

/// An output in the store of the worker that ran its task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeftOutput {
    pub output: TaskOutput,
    /// The disk that has it.
    pub generation: DiskGeneration,
}

/// A worker that has a copy of an artifact, or the scheduler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactHolder {
    /// The address at which the worker serves others. `None`: the scheduler that names the holder, at the address at which the receiver
    /// reaches it.
    pub address: Option<ServiceAddress>,
    /// The name of its machine. Empty: not known.
    pub hostname: Arc<str>,
    pub rack: Option<Arc<str>>,
}

impl ArtifactHolder {
    /// The scheduler that names the holder.
    pub fn scheduler() -> Self {
        ArtifactHolder {
            address: None,
            hostname: Arc::from(""),
            rack: None,
        }
    }
}

/// An input of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskInput {
    /// The place below the folder of the run's inputs.
    pub place: OutputPath,
    pub artifact: Artifact,
    /// Positions in [`TaskArtifacts::holders`].
    pub holders: Vec<usize>,
}

/// The artifacts that a run needs, and those that it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskArtifacts {
    pub namespace: ArtifactNamespace,
    pub inputs: Vec<TaskInput>,
    /// The workers that hold any of the inputs.
    pub holders: Vec<ArtifactHolder>,
    /// The outputs that the run must leave to be done.
    pub outputs: Vec<OutputPath>,
}

/// The name of all artifacts of one scheduler's data directory, whichever instance uses it: the id of its cluster. A store keeps those of
/// several apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArtifactNamespace(Arc<str>);

/// The text names no artifacts of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "the name of a cluster has 1 to {} letters, digits, `-` and `_`",
    ArtifactNamespace::MAX_BYTES
)]
pub struct ArtifactNamespaceError;

impl ArtifactNamespace {
    /// Length limit, because the name is one of a folder, too.
    pub const MAX_BYTES: usize = 64;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for ArtifactNamespace {
    type Error = ArtifactNamespaceError;

    fn try_from(text: &str) -> Result<Self, ArtifactNamespaceError> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_name = (1..=Self::MAX_BYTES).contains(&text.len()) && text.bytes().all(is_allowed);
        is_name
            .then(|| ArtifactNamespace(text.into()))
            .ok_or(ArtifactNamespaceError)
    }
}

impl fmt::Display for ArtifactNamespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_id_is_read_back_and_nothing_else_is() {
        let id = ArtifactId(std::array::from_fn(|at| {
            u8::try_from(at * 8 + 1).expect("small")
        }));
        let text = id.to_string();
        assert_eq!(text.parse(), Ok(id));
        assert_eq!(text.to_uppercase().parse(), Ok(id));
        for wrong in [
            "",
            &text[1..],
            &format!("{text}0"),
            &format!("g{}", &text[1..]),
            &"é".repeat(32),
        ] {
            assert_eq!(wrong.parse::<ArtifactId>(), Err(ArtifactIdError), "{wrong}");
        }
    }

    #[test]
    fn the_text_of_a_generation_is_read_back_and_nothing_else_is() {
        let text = DiskGeneration(0xabc).to_string();
        assert_eq!(text.len(), 32);
        assert_eq!(text.parse(), Ok(DiskGeneration(0xabc)));
        for wrong in ["", "abc", &format!("+{}", &text[1..]), &format!("{text}0")] {
            assert_eq!(
                wrong.parse::<DiskGeneration>(),
                Err(DiskGenerationError),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_path_of_an_output_stays_below_its_folder() {
        let path = |text: &str| OutputPath::try_from(text);
        for (text, parts, is_folder) in [
            ("a", vec!["a"], false),
            ("a/b c/d.txt", vec!["a", "b c", "d.txt"], false),
            ("stats/", vec!["stats"], true),
            ("...", vec!["..."], false),
        ] {
            let path = path(text).expect(text);
            assert!(path.parts().eq(parts), "{text}");
            assert_eq!((path.is_folder(), path.as_str()), (is_folder, text));
        }
        let long = "a".repeat(OutputPath::MAX_BYTES + 1);
        for (text, error) in [
            ("", OutputPathError::Empty),
            ("/", OutputPathError::Absolute),
            ("/etc", OutputPathError::Absolute),
            (".", OutputPathError::Part),
            ("./", OutputPathError::Part),
            ("a/../b", OutputPathError::Part),
            ("a//b", OutputPathError::Part),
            ("a//", OutputPathError::Part),
            ("..", OutputPathError::Part),
            ("a\u{0}", OutputPathError::ControlCharacter),
            ("a\nb", OutputPathError::ControlCharacter),
            (&long, OutputPathError::TooLong),
        ] {
            assert_eq!(path(text), Err(error), "{text:?}");
        }
    }

    #[test]
    fn outputs_overlap_if_one_lies_in_the_other() {
        let path = |text: &str| OutputPath::try_from(text).expect(text);
        for (one, other, expected) in [
            ("a", "a", true),
            ("a/", "a", true),
            ("a/", "a/b", true),
            ("a/b/", "a/bc", false),
            ("a", "b", false),
        ] {
            assert_eq!(path(one).overlaps(&path(other)), expected, "{one} {other}");
            assert_eq!(path(other).overlaps(&path(one)), expected, "{other} {one}");
        }
    }
}
