//! The errors of invalid messages, each with the path of the field.

use brasserie_common::ids::NameError;

/// A field of a message that cannot be accepted, by its path: `BistroWorker.id.startTime`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct WireError {
    path: String,
    problem: FieldProblem,
}

impl WireError {
    pub(crate) fn new(path: &str, problem: FieldProblem) -> Self {
        WireError {
            path: path.to_owned(),
            problem,
        }
    }

    /// Returns the field's names from the outermost message inwards, as in the IDL.
    pub fn path(&self) -> &str {
        &self.path
    }

    pub fn problem(&self) -> &FieldProblem {
        &self.problem
    }

    /// Returns the error for a message that holds this one in its field `path`, which replaces the type's name.
    pub fn inside(self, path: &str) -> Self {
        let rest = self.path.find(['.', '[']).map_or("", |at| &self.path[at..]);
        WireError {
            path: format!("{path}{rest}"),
            problem: self.problem,
        }
    }
}

/// The problem of the field.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FieldProblem {
    #[error("it is missing; an identity or an address has no default")]
    Missing,
    #[error("it is missing; the peer is of an older release")]
    OlderRelease,
    #[error("it is no such document: {0}")]
    Document(String),
    #[error("it is empty; write a host name or an IP address")]
    Empty,
    #[error("{0}")]
    Name(NameError),
    #[error("{value} is not allowed; allowed is {allowed}")]
    OutOfRange { value: i64, allowed: &'static str },
    #[error("it has {length} bytes; allowed are {allowed}")]
    Length { length: usize, allowed: usize },
    #[error("it has {count} members; allowed are at most {allowed}")]
    TooMany { count: usize, allowed: usize },
    #[error("{0} is not allowed; allowed is a finite number, 0 or more")]
    NotAnAmount(f64),
    #[error("{0} is not allowed; allowed is a finite number")]
    NotFinite(f64),
    #[error("{text:?} is not allowed; allowed is {allowed}")]
    UnknownWord { text: String, allowed: &'static str },
}

/// Maximum characters of a peer's text that an error repeats, because errors are logged and a frame may be long.
const MAX_QUOTED_CHARS: usize = 64;

impl FieldProblem {
    pub(crate) fn unknown_word(text: &str, allowed: &'static str) -> Self {
        let mut quoted: String = text.chars().take(MAX_QUOTED_CHARS).collect();
        if quoted.len() < text.len() {
            quoted.push_str("...");
        }
        FieldProblem::UnknownWord {
            text: quoted,
            allowed,
        }
    }
}
