//! The stories of runs, stored with their completions and read only on request.
//!
//! The file has a million completions, so a story is kept short: that of a successful run takes some fifty bytes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_common::{EndedBy, Ending, Fault, InvocationId, Shard, Story, TaskKey};
use brasserie_scheduler_core::KeptStory;
use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, OptionalExtension};
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::values::{damaged, instance_id};

/// The text of a story. An absent field is empty, zero or unknown; without `ran_ms`, the run took no time, or was lost with its worker.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Text {
    #[serde(rename = "x", skip_serializing_if = "Option::is_none")]
    exit: Option<i32>,
    #[serde(rename = "s", skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    #[serde(rename = "n", skip_serializing_if = "Option::is_none")]
    not_started: Option<String>,
    #[serde(rename = "b", skip_serializing_if = "Option::is_none")]
    ended_by: Option<String>,
    #[serde(rename = "f", skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    #[serde(rename = "w")]
    shard: String,
    #[serde(rename = "q", skip_serializing_if = "Option::is_none")]
    queued_ms: Option<u64>,
    #[serde(rename = "t", skip_serializing_if = "is_zero")]
    starting_ms: u64,
    #[serde(rename = "h", skip_serializing_if = "is_zero")]
    waited_ms: u64,
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    ran_ms: Option<u64>,
    #[serde(rename = "c", skip_serializing_if = "is_zero")]
    cpu_ms: u64,
    #[serde(rename = "m", skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<u64>,
    #[serde(rename = "i", skip_serializing_if = "is_zero")]
    read_bytes: u64,
    #[serde(rename = "o", skip_serializing_if = "is_zero")]
    written_bytes: u64,
    #[serde(rename = "l", skip_serializing_if = "Vec::is_empty")]
    last_lines: Vec<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the text of a story for the row of its completion.
pub(super) fn to_text(kept: &KeptStory) -> serde_json::Result<String> {
    let KeptStory {
        story,
        shard,
        queued,
    } = kept;
    let Story {
        ending,
        ended_by,
        fault,
        starting,
        waited,
        ran,
        cpu,
        peak_memory_bytes,
        read_bytes,
        written_bytes,
        last_lines,
    } = story;
    let mut text = Text {
        ended_by: ended_by.map(|by| by.as_str().to_owned()),
        fault: match fault {
            Fault::Nobody => None,
            Fault::Task | Fault::Worker | Fault::System => Some(fault.as_str().to_owned()),
        },
        shard: shard.as_str().to_owned(),
        queued_ms: queued.map(millis),
        starting_ms: millis(*starting),
        waited_ms: millis(*waited),
        ran_ms: ran.map(millis),
        cpu_ms: millis(*cpu),
        peak_memory_bytes: *peak_memory_bytes,
        read_bytes: *read_bytes,
        written_bytes: *written_bytes,
        last_lines: last_lines.clone(),
        ..Text::default()
    };
    match ending {
        Ending::NotStarted(why) => text.not_started = Some(why.clone()),
        Ending::Exited(code) => text.exit = Some(*code),
        Ending::Signalled(signal) => text.signal = Some(*signal),
        Ending::Unknown => {}
    }
    serde_json::to_string(&text)
}

fn from_text(text: &str) -> Result<KeptStory, StoreError> {
    let text: Text = serde_json::from_str(text).map_err(damaged("statuses"))?;
    let ending = match (text.not_started, text.signal, text.exit) {
        (Some(why), _, _) => Ending::NotStarted(why),
        (None, Some(signal), _) => Ending::Signalled(signal),
        (None, None, Some(code)) => Ending::Exited(code),
        (None, None, None) => Ending::Unknown,
    };
    let fault = text.fault.as_deref().and_then(Fault::parse);
    // Earlier releases left a time of 0 out, and wrote the time until the loss of a worker.
    let is_lost = ending == Ending::Unknown && fault == Some(Fault::System);
    let ran = (!is_lost).then(|| Duration::from_millis(text.ran_ms.unwrap_or(0)));
    Ok(KeptStory {
        story: Story {
            ending,
            ended_by: text.ended_by.as_deref().and_then(EndedBy::parse),
            fault: fault.unwrap_or(Fault::Nobody),
            starting: Duration::from_millis(text.starting_ms),
            waited: Duration::from_millis(text.waited_ms),
            ran,
            cpu: Duration::from_millis(text.cpu_ms),
            peak_memory_bytes: text.peak_memory_bytes,
            read_bytes: text.read_bytes,
            written_bytes: text.written_bytes,
            last_lines: text.last_lines,
        },
        shard: Shard::try_from(text.shard).map_err(damaged("statuses"))?,
        queued: text.queued_ms.map(Duration::from_millis),
    })
}

/// Reads stories on a separate connection, so that readers and the writer do not wait for each other.
#[derive(Debug)]
pub struct Stories {
    path: PathBuf,
    /// Opened for the first request.
    connection: Mutex<Option<Connection>>,
}

impl Stories {
    pub(super) fn new(path: &Path) -> Self {
        Stories {
            path: path.to_owned(),
            connection: Mutex::new(None),
        }
    }

    /// Returns the story of the run whose completion is stored for the task. Blocks for a read of the disk.
    pub fn of(&self, task: &TaskKey) -> Result<Option<(InvocationId, KeptStory)>, StoreError> {
        let mut kept = self.connection.lock();
        let connection = match kept.take() {
            Some(connection) => connection,
            None => {
                let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
                Connection::open_with_flags(&self.path, flags)?
            }
        };
        let found = read(&connection, task);
        // A connection that has failed is not used again.
        if found.is_ok() {
            *kept = Some(connection);
        }
        found
    }
}

fn read(
    connection: &Connection,
    task: &TaskKey,
) -> Result<Option<(InvocationId, KeptStory)>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT invocation_start, invocation_rand, story FROM statuses
         WHERE job_id = (SELECT id FROM jobs WHERE name = ?1)
         AND node_id = (SELECT id FROM nodes WHERE name = ?2)",
    )?;
    let names = [task.job.as_str(), task.node.as_str()];
    let row = statement.query_row(names, |row| {
        let text: Option<String> = row.get(2)?;
        Ok((InvocationId(instance_id(row, 0)?), text))
    });
    let Some((invocation, Some(text))) = row.optional()? else {
        return Ok(None);
    };
    Ok(Some((invocation, from_text(&text)?)))
}
