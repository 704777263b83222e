//! The story of a run. No content of it is an error, because a status must not be lost because of its story.

use std::time::Duration;

use brasserie_common::story::fault_of;
use brasserie_common::{EndedBy, Ending, Fault, Story};

use super::saturating_i64;
use crate::generated::common as wire;

impl From<wire::TaskStory> for Story {
    fn from(story: wire::TaskStory) -> Self {
        let ending = match (story.not_started, story.signal, story.exit_code) {
            (Some(why), _, _) => Ending::NotStarted(why),
            (None, Some(signal), _) => Ending::Signalled(signal),
            (None, None, Some(code)) => Ending::Exited(code),
            (None, None, None) => Ending::Unknown,
        };
        let ended_by = story.ended_by.as_deref().and_then(EndedBy::parse);
        let fault = story.fault.as_deref().and_then(Fault::parse);
        Story {
            fault: fault.unwrap_or_else(|| fault_of(&ending, ended_by)),
            ending,
            ended_by,
            starting: millis(story.starting_ms),
            waited: millis(story.waited_ms),
            ran: story.ran_ms.map(|ms| millis(Some(ms))),
            cpu: millis(story.cpu_ms),
            peak_memory_bytes: story.peak_memory_bytes.and_then(|b| u64::try_from(b).ok()),
            read_bytes: count(story.read_bytes),
            written_bytes: count(story.written_bytes),
            last_lines: story.last_lines.unwrap_or_default(),
        }
        .bounded()
    }
}

impl From<&Story> for wire::TaskStory {
    fn from(story: &Story) -> Self {
        let (not_started, signal, exit_code) = match &story.ending {
            Ending::NotStarted(why) => (Some(why.clone()), None, None),
            Ending::Signalled(signal) => (None, Some(*signal), None),
            Ending::Exited(code) => (None, None, Some(*code)),
            Ending::Unknown => (None, None, None),
        };
        wire::TaskStory {
            exit_code,
            signal,
            not_started,
            ended_by: story.ended_by.map(|by| by.as_str().to_owned()),
            fault: Some(story.fault.as_str().to_owned()),
            starting_ms: Some(saturating_i64(story.starting.as_millis())),
            waited_ms: Some(saturating_i64(story.waited.as_millis())),
            ran_ms: story.ran.map(|ran| saturating_i64(ran.as_millis())),
            cpu_ms: Some(saturating_i64(story.cpu.as_millis())),
            peak_memory_bytes: story.peak_memory_bytes.map(saturating_i64),
            read_bytes: Some(saturating_i64(story.read_bytes)),
            written_bytes: Some(saturating_i64(story.written_bytes)),
            last_lines: Some(story.last_lines.clone()),
        }
    }
}

fn count(bytes: Option<i64>) -> u64 {
    u64::try_from(bytes.unwrap_or(0)).unwrap_or(0)
}

fn millis(ms: Option<i64>) -> Duration {
    Duration::from_millis(u64::try_from(ms.unwrap_or(0)).unwrap_or(0))
}
