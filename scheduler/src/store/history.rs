//! Reads the completions of tasks on one thread while another adds the names. With millions of completions, a start waits for this.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use brasserie_common::status::{StatusBits, StoredStatus};
use brasserie_common::{InvocationId, JobName, NodeName, Time, WallTime};
use brasserie_scheduler_core::{History, PastEnd, Scheduler};
use rusqlite::{Connection, OpenFlags, Row};

use super::error::StoreError;
use super::values::{damaged, instance_id};

/// Completions that one thread passes to the other at a time: a megabyte, so that a million need few allocations and wakeups.
const CHUNK: usize = 16_384;

/// The names of one table with their ids in ascending order.
struct NameTable<N> {
    ids: Vec<i64>,
    names: Vec<N>,
}

/// A completion with the ids of its rows.
struct Stored {
    job: i64,
    node: i64,
    invocation: InvocationId,
    status: StoredStatus,
}

/// Rows of jobs and nodes that no completion refers to.
#[derive(Debug, Default)]
pub struct UnusedNames {
    pub(super) jobs: BTreeSet<i64>,
    pub(super) nodes: BTreeSet<i64>,
}

/// The completions of tasks while they are read: the names are loaded, and the completions arrive.
pub struct Past {
    jobs: NameTable<JobName>,
    nodes: NameTable<NodeName>,
    missing: Vec<(NodeName, u32)>,
    missing_jobs: Vec<(JobName, u32)>,
    ends: Receiver<Result<Vec<Stored>, StoreError>>,
}

impl Past {
    /// Starts to read the completions on a separate thread, which ends by itself.
    pub(super) fn read(connection: &Connection, path: &Path) -> Result<Self, StoreError> {
        let path = path.to_owned();
        // The channel is unbounded, because the receiver keeps all completions anyway.
        let (sender, ends) = channel();
        let reader = std::thread::Builder::new().name("history".to_owned());
        let read = move || {
            if let Err(error) = load_ends(&path, &sender) {
                // The send fails only if the start has already failed for another reason.
                let _ = sender.send(Err(error));
            }
        };
        reader.spawn(read).map_err(StoreError::Thread)?;
        Ok(Past {
            jobs: load_names(connection, "jobs")?,
            nodes: load_names(connection, "nodes")?,
            missing: load_missing(connection, "nodes")?,
            missing_jobs: load_missing(connection, "jobs")?,
            ends,
        })
    }

    /// Passes all completions to a scheduler that has none yet.
    pub fn tell(self, scheduler: &mut Scheduler, now: Time) -> Result<UnusedNames, StoreError> {
        let names = scheduler.remember_names(&self.jobs.names, &self.nodes.names);
        let unused = self.each(|end| scheduler.remember_end(now, &names, end))?;
        scheduler.remember_missing(self.missing, self.missing_jobs);
        Ok(unused)
    }

    /// Returns all completions at once.
    pub(super) fn collect(self) -> Result<(History, UnusedNames), StoreError> {
        let mut history = History {
            jobs: self.jobs.names.clone(),
            nodes: self.nodes.names.clone(),
            ends: Vec::new(),
            missing: self.missing.clone(),
            missing_jobs: self.missing_jobs.clone(),
        };
        let unused = self.each(|end| history.ends.push(end))?;
        Ok((history, unused))
    }

    fn each(&self, mut take: impl FnMut(PastEnd)) -> Result<UnusedNames, StoreError> {
        let (mut job, mut node) = (0, 0);
        let mut has_ended = vec![false; self.jobs.ids.len()];
        let mut is_used = vec![false; self.nodes.ids.len()];
        for end in self.ends.iter() {
            for end in end? {
                // Rows come ordered by job and then by node, so the search starts at the previous position.
                job = self.jobs.find(end.job, job)?;
                node = self.nodes.find(end.node, node)?;
                has_ended[job as usize] = true;
                is_used[node as usize] = true;
                take(PastEnd {
                    job,
                    node,
                    invocation: end.invocation,
                    status: end.status,
                });
            }
        }
        let unused = |ids: &[i64], is_used: Vec<bool>| {
            let all = ids.iter().zip(is_used);
            let unused = all.filter(|(_, is_used)| !is_used);
            unused.map(|(id, _)| *id).collect()
        };
        Ok(UnusedNames {
            jobs: unused(&self.jobs.ids, has_ended),
            nodes: unused(&self.nodes.ids, is_used),
        })
    }
}

impl<N> NameTable<N> {
    fn find(&self, id: i64, last: u32) -> Result<u32, StoreError> {
        let is_at = |at: u32| self.ids.get(at as usize) == Some(&id);
        if is_at(last) {
            return Ok(last);
        }
        if is_at(last + 1) {
            return Ok(last + 1);
        }
        let found = self.ids.binary_search(&id).ok();
        let found = found.and_then(|at| u32::try_from(at).ok());
        found.ok_or_else(|| damaged("statuses")(format!("the id {id}, which has no name")))
    }
}

fn load_names<N>(connection: &Connection, table: &'static str) -> Result<NameTable<N>, StoreError>
where
    N: for<'a> TryFrom<&'a str, Error: std::fmt::Display>,
{
    let mut names = NameTable {
        ids: Vec::new(),
        names: Vec::new(),
    };
    let mut statement = connection.prepare(&format!("SELECT id, name FROM {table} ORDER BY id"))?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let name = row.get_ref(1)?.as_str().map_err(damaged(table))?;
        names.ids.push(row.get(0)?);
        names.names.push(N::try_from(name).map_err(damaged(table))?);
    }
    Ok(names)
}

fn load_missing<N>(
    connection: &Connection,
    table: &'static str,
) -> Result<Vec<(N, u32)>, StoreError>
where
    N: for<'a> TryFrom<&'a str, Error: std::fmt::Display>,
{
    let mut statement = connection.prepare(&format!(
        "SELECT name, missing_since_s FROM {table} WHERE missing_since_s IS NOT NULL"
    ))?;
    let mut rows = statement.query(())?;
    let mut missing = Vec::new();
    while let Some(row) = rows.next()? {
        let name = row.get_ref(0)?.as_str().map_err(damaged(table))?;
        let name = N::try_from(name).map_err(damaged(table))?;
        missing.push((name, row.get(1)?));
    }
    Ok(missing)
}

fn load_ends(path: &Path, to: &Sender<Result<Vec<Stored>, StoreError>>) -> Result<(), StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let mut statement = connection.prepare(
        "SELECT invocation_start, invocation_rand, bits, time_ms, backoff, safety, data, job_id, node_id
         FROM statuses ORDER BY job_id, node_id",
    )?;
    let mut rows = statement.query(())?;
    let mut ends = Vec::with_capacity(CHUNK);
    while let Some(row) = rows.next()? {
        ends.push(Stored {
            invocation: InvocationId(instance_id(row, 0)?),
            status: load_status(row)?,
            job: row.get(7)?,
            node: row.get(8)?,
        });
        if ends.len() == CHUNK {
            let full = std::mem::replace(&mut ends, Vec::with_capacity(CHUNK));
            if to.send(Ok(full)).is_err() {
                // The start has failed for another reason.
                return Ok(());
            }
        }
    }
    let _ = to.send(Ok(ends));
    Ok(())
}

fn load_status(row: &Row<'_>) -> Result<StoredStatus, StoreError> {
    let data = row
        .get_ref(6)?
        .as_str_or_null()
        .map_err(damaged("statuses"))?;
    Ok(StoredStatus {
        bits: StatusBits(row.get(2)?),
        time: WallTime::from_millis(row.get(3)?),
        backoff_seconds: row.get(4)?,
        safety_seconds: row.get(5)?,
        data: data
            .map(serde_json::from_str)
            .transpose()
            .map_err(damaged("statuses"))?
            .map(Arc::new),
    })
}
