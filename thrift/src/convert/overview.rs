//! How a worker fetches work, for people. The reader may get it from any peer, so every list has a limit; a frame limits a document.

use brasserie_common::WallTime;
use brasserie_common::work_overview::{Asks, MAX_LINES, WorkFetchStatus, WorkWish};

use super::work::{at_most, span};
use super::{FieldProblem, WireError, parse_list, to_wire_list};
use crate::generated::brasserie as wire;

/// Maximum characters of one text, several times the longest text of this project.
const MAX_TEXT_CHARS: usize = 1000;

impl TryFrom<wire::WorkFetchStatus> for WorkFetchStatus {
    type Error = WireError;

    fn try_from(status: wire::WorkFetchStatus) -> Result<Self, WireError> {
        const OVERVIEW: &str = "WorkFetchStatus.overview";
        let document = status.overview;
        let document = document.ok_or_else(|| WireError::new(OVERVIEW, FieldProblem::OlderRelease));
        let overview = serde_json::from_str(&document?);
        Ok(WorkFetchStatus {
            taken: WallTime::from_millis(status.taken_ms.unwrap_or(0)),
            overview: overview.map_err(|error| {
                WireError::new(OVERVIEW, FieldProblem::Document(error.to_string()))
            })?,
        })
    }
}

impl From<WorkFetchStatus> for wire::WorkFetchStatus {
    fn from(status: WorkFetchStatus) -> Self {
        // Invariant: every part of the document has a JSON form.
        let overview = serde_json::to_string(&status.overview).ok();
        wire::WorkFetchStatus {
            taken_ms: Some(status.taken.as_millis()),
            overview,
        }
    }
}

impl TryFrom<wire::WorkWish> for WorkWish {
    type Error = WireError;

    fn try_from(wish: wire::WorkWish) -> Result<Self, WireError> {
        let members = wish.members.unwrap_or_default();
        let members = at_most(MAX_LINES, "WorkWish.members", members)?;
        let ended = wish.ended.unwrap_or_default();
        let ended = at_most(MAX_LINES, "WorkWish.ended", ended)?;
        let left = wish.left_sec;
        let left = left.map(|left| span("WorkWish.leftSec", Some(left)));
        let (word, left) = (wish.state.unwrap_or_default(), left.transpose()?);
        let why = text(wish.why);
        let asks = match word.as_str() {
            "now" => Asks::Now,
            "later" => Asks::Later { left, why },
            "never" => Asks::Never { why },
            _ => {
                let problem = FieldProblem::unknown_word(&word, Asks::WORDS);
                return Err(WireError::new("WorkWish.state", problem));
            }
        };
        Ok(WorkWish {
            members: parse_list("WorkWish.members", members)?,
            ended: ended.into_iter().map(|line| text(Some(line))).collect(),
            asks,
        })
    }
}

impl From<WorkWish> for wire::WorkWish {
    fn from(wish: WorkWish) -> Self {
        let state = Some(wish.asks.as_str().to_owned());
        let (left, why) = match wish.asks {
            Asks::Now => (None, None),
            Asks::Later { left, why } => (left, Some(why)),
            Asks::Never { why } => (None, Some(why)),
        };
        wire::WorkWish {
            members: Some(to_wire_list(wish.members)),
            ended: Some(wish.ended),
            state,
            left_sec: left.map(|left| left.as_secs_f64().into()),
            why,
        }
    }
}

/// Shortens a text for people to [`MAX_TEXT_CHARS`].
fn text(text: Option<String>) -> String {
    let mut text = text.unwrap_or_default();
    if let Some((end, _)) = text.char_indices().nth(MAX_TEXT_CHARS) {
        text.truncate(end);
    }
    text
}
