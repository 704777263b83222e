//! Writes records as rows and loads them. The tables are a projection of the records, and loading returns exactly their sum.

use std::time::Duration;

use brasserie_common::collections::SeededMap;
use brasserie_common::status::StoredStatus;
use brasserie_common::{
    FenceGeneration, InvocationId, JobName, MachinePortLock, NodeName, SchedulerId, TaskKey,
    WallTime, WorkerId,
};
use brasserie_scheduler_core::{
    ClusterId, DeletionNumber, Durable, EndedTask, Forgotten, ForgottenTask, InstanceRecord,
    LeftInstance, MAX_LEFT, Record, Trim,
};
use rusqlite::{Connection, OptionalExtension, Row, Statement, Transaction, params};

use super::error::StoreError;
use super::history::UnusedNames;
use super::values::{damaged, deletion, duration, instance_id, nanos};
use super::{job_rows, order_rows, output_rows, source_rows, stories};

/// Maximum names whose ids are cached; the ids of others are read from the file. Names share their text with the scheduler's own tables, so
/// the cache takes some 100 MiB at most.
const MAX_CACHED_NAMES: usize = 1_000_000;

/// Maximum deleted completions dropped in one transaction, once no worker can repeat them: some ten milliseconds.
const MAX_DROPPED: i64 = 4096;

/// Maximum lookups for unused names in a transaction with records: a millisecond. A name takes one lookup for each job.
const LOOKUPS_WITH_RECORDS: i64 = 256;

/// Maximum lookups in a transaction without records: some milliseconds. Each transaction checks at least one name.
const LOOKUPS_ALONE: i64 = 4096;

/// The other writes of a transaction that drops unused names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherWrites {
    Records,
    Nothing,
}

/// Ids of names in the file. They are discarded with the connection, because a rollback frees ids again.
///
/// Invariant: no cached name's row in `jobs` or `nodes` has a `missing_since_s`, because a completion clears that column only for names
/// that are not cached. A name that is recorded as missing is first removed from the cache.
#[derive(Debug, Default)]
pub(super) struct NameIds {
    jobs: SeededMap<JobName, i64>,
    nodes: SeededMap<NodeName, i64>,
    /// Rows of jobs and nodes that may be unused. Each is checked again before it is deleted.
    unused: UnusedNames,
    /// Number of deleted completions that this transaction may still drop.
    may_drop: i64,
    /// The deletion up to which later transactions drop the rest.
    to_drop: Option<i64>,
}

impl NameIds {
    /// Returns the id of a job with a completion, and clears the time since which the job is missing.
    fn job(&mut self, transaction: &Transaction<'_>, name: &JobName) -> rusqlite::Result<i64> {
        if let Some(&id) = self.jobs.get(name) {
            return Ok(id);
        }
        let id = intern(
            transaction,
            "INSERT INTO jobs (name) VALUES (?1) ON CONFLICT DO NOTHING",
            "UPDATE jobs SET missing_since_s = NULL WHERE name = ?1 AND missing_since_s IS NOT NULL",
            "SELECT id FROM jobs WHERE name = ?1",
            name.as_str(),
        )?;
        if self.jobs.len() >= MAX_CACHED_NAMES {
            self.jobs.clear();
        }
        self.jobs.insert(name.clone(), id);
        Ok(id)
    }

    /// Returns the id of a node with a completion, and clears the time since which the node is missing.
    fn node(&mut self, transaction: &Transaction<'_>, name: &NodeName) -> rusqlite::Result<i64> {
        if let Some(&id) = self.nodes.get(name) {
            return Ok(id);
        }
        let id = intern(
            transaction,
            "INSERT INTO nodes (name) VALUES (?1) ON CONFLICT DO NOTHING",
            "UPDATE nodes SET missing_since_s = NULL WHERE name = ?1 AND missing_since_s IS NOT NULL",
            "SELECT id FROM nodes WHERE name = ?1",
            name.as_str(),
        )?;
        if self.nodes.len() >= MAX_CACHED_NAMES {
            self.nodes.clear();
        }
        self.nodes.insert(name.clone(), id);
        Ok(id)
    }

    /// Schedules these names for deletion, except nodes that deleted completions refer to.
    pub(super) fn drop_later(
        &mut self,
        connection: &Connection,
        unused: UnusedNames,
    ) -> Result<(), StoreError> {
        self.unused = unused;
        let mut statement = connection.prepare("SELECT DISTINCT node_id FROM forgotten")?;
        for node in statement.query_map((), |row| row.get::<_, i64>(0))? {
            self.unused.nodes.remove(&node?);
        }
        Ok(())
    }

    /// Returns whether the next transaction drops a row.
    pub(super) fn has_leavers(&self) -> bool {
        let UnusedNames { jobs, nodes } = &self.unused;
        self.to_drop.is_some() || !jobs.is_empty() || !nodes.is_empty()
    }

    /// Begins a transaction: drops deleted completions that the previous one had to leave.
    pub(super) fn begin(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        self.may_drop = MAX_DROPPED;
        match self.to_drop.take() {
            Some(settled) => self.drop_forgotten(transaction, settled),
            None => Ok(()),
        }
    }

    /// Drops deleted completions, up to the deletion with this number.
    fn drop_forgotten(
        &mut self,
        transaction: &Transaction<'_>,
        settled: i64,
    ) -> rusqlite::Result<()> {
        let mut statement = transaction.prepare_cached(
            "DELETE FROM forgotten WHERE (job_id, node_id) IN
             (SELECT job_id, node_id FROM forgotten WHERE number <= ?1 LIMIT ?2) RETURNING job_id, node_id",
        )?;
        let limits = [settled, self.may_drop];
        for row in statement.query_map(limits, |row| Ok((row.get(0)?, row.get(1)?)))? {
            let (job, node) = row?;
            self.unused.jobs.insert(job);
            self.unused.nodes.insert(node);
            self.may_drop -= 1;
        }
        if self.may_drop == 0 {
            self.to_drop = self.to_drop.max(Some(settled));
        }
        Ok(())
    }

    /// Deletes some unused names in a transaction that writes anyway. A rollback discards this table with its connection.
    pub(super) fn drop_some(
        &mut self,
        transaction: &Transaction<'_>,
        other_writes: OtherWrites,
    ) -> rusqlite::Result<()> {
        let lookups = match other_writes {
            OtherWrites::Records => LOOKUPS_WITH_RECORDS,
            OtherWrites::Nothing => LOOKUPS_ALONE,
        };
        // Jobs are dropped before nodes, because the check of a node takes a lookup for each job.
        let mut drop = transaction.prepare_cached(
            "DELETE FROM jobs WHERE id = ?1
             AND NOT EXISTS (SELECT 1 FROM statuses WHERE job_id = ?1)
             AND NOT EXISTS (SELECT 1 FROM forgotten WHERE job_id = ?1) RETURNING name",
        )?;
        for _ in 0..lookups {
            let Some(id) = self.unused.jobs.pop_last() else {
                break;
            };
            let name: Option<String> = drop.query_row([id], |row| row.get(0)).optional()?;
            if let Some(name) = name {
                self.jobs.remove(name.as_str());
            }
        }
        if self.unused.nodes.is_empty() {
            return Ok(());
        }
        let jobs: i64 =
            transaction.query_row("SELECT coalesce(max(id), 0) FROM jobs", (), |row| {
                row.get(0)
            })?;
        let mut drop = transaction.prepare_cached(
            "DELETE FROM nodes WHERE id = ?1 AND NOT EXISTS (
                SELECT 1 FROM jobs WHERE
                EXISTS (SELECT 1 FROM statuses WHERE job_id = jobs.id AND node_id = ?1)
                OR EXISTS (SELECT 1 FROM forgotten WHERE job_id = jobs.id AND node_id = ?1)
             ) RETURNING name",
        )?;
        for _ in 0..(lookups / (jobs + 1)).max(1) {
            let Some(id) = self.unused.nodes.pop_last() else {
                return Ok(());
            };
            let name: Option<String> = drop.query_row([id], |row| row.get(0)).optional()?;
            if let Some(name) = name {
                self.nodes.remove(name.as_str());
            }
        }
        Ok(())
    }
}

/// Returns the id of a name. Inserts the name if it is missing; otherwise `clear_missing` clears its `missing_since_s`. The insert has no
/// `RETURNING`: SQLite would collect the returned row in a temporary table, which doubles the time of a new name.
fn intern(
    transaction: &Transaction<'_>,
    insert: &str,
    clear_missing: &str,
    select: &str,
    name: &str,
) -> rusqlite::Result<i64> {
    if transaction.prepare_cached(insert)?.execute([name])? == 1 {
        return Ok(transaction.last_insert_rowid());
    }
    transaction.prepare_cached(clear_missing)?.execute([name])?;
    transaction
        .prepare_cached(select)?
        .query_row([name], |row| row.get(0))
}

/// Applies a record to the rows, like [`Durable::apply`] to memory.
pub(super) fn apply(
    transaction: &Transaction<'_>,
    names: &mut NameIds,
    record: &Record,
) -> Result<(), StoreError> {
    match record {
        Record::SchedulerStarted {
            cluster,
            scheduler,
            wait,
            generation,
        } => {
            raise_fences(transaction, *generation)?;
            hold_back_at_least(transaction, *wait)?;
            transaction.execute("UPDATE meta SET cluster = ?1", [cluster.0.cast_signed()])?;
            transaction.execute(
                "INSERT INTO schedulers (start_time, rand) VALUES (?1, ?2) ON CONFLICT DO NOTHING",
                params![scheduler.0.start_time, scheduler.0.rand],
            )?;
        }
        Record::FenceRaised { generation } => raise_fences(transaction, *generation)?,
        Record::WorkerAssociated { worker, instance } => associate(transaction, *worker, instance)?,
        Record::WorkerLeft {
            worker,
            cause: _,
            wall,
            tasks,
            hold_back,
        } => {
            leave(transaction, names, *worker, *wall)?;
            hold_back_at_least(transaction, *hold_back)?;
            for task in tasks {
                end(transaction, names, task)?;
            }
        }
        Record::HoldBack { wait } => hold_back_at_least(transaction, *wait)?,
        Record::HoldBackOver => {
            transaction.execute("UPDATE meta SET hold_back_ns = 0", ())?;
        }
        Record::TaskEnded(task) => end(transaction, names, task)?,
        Record::JobSaved { .. }
        | Record::JobDeleted { .. }
        | Record::JobHeld { .. }
        | Record::JobResumed { .. } => job_rows::apply(transaction, record)?,
        Record::TasksForgiven { tasks } => {
            for task in tasks {
                end(transaction, names, task)?;
            }
        }
        Record::HistoryDeleted { number, tasks } => {
            for task in tasks {
                forget(transaction, names, *number, task)?;
            }
        }
        Record::OutputsExpired { job } => {
            output_rows::delete_of_job(transaction, names.job(transaction, job)?)?;
        }
        Record::OutputsForgotten { job, nodes } => {
            let job = names.job(transaction, job)?;
            for node in nodes {
                let node = names.node(transaction, node)?;
                output_rows::delete(transaction, (job, node))?;
            }
        }
        Record::HistoryTrimmed(trimmed) => trim(transaction, names, trimmed)?,
        Record::WorkerOrdered { shard, order } => {
            order_rows::apply(transaction, shard, order.as_ref())?;
        }
        Record::ConfigKept { config } => source_rows::apply_config(transaction, config)?,
        Record::TimesGiven { changed, forgotten } => {
            source_rows::apply_times(transaction, changed, forgotten)?;
        }
    }
    Ok(())
}

fn hold_back_at_least(transaction: &Transaction<'_>, time: Duration) -> rusqlite::Result<()> {
    transaction.execute(
        "UPDATE meta SET hold_back_ns = max(hold_back_ns, ?1)",
        [nanos(time)],
    )?;
    Ok(())
}

fn raise_fences(transaction: &Transaction<'_>, to: FenceGeneration) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("UPDATE meta SET fence_generation = max(fence_generation, ?1)")?
        .execute([to.0])?;
    Ok(())
}

fn leave(
    transaction: &Transaction<'_>,
    names: &mut NameIds,
    worker: WorkerId,
    wall: WallTime,
) -> Result<(), StoreError> {
    let shard: Option<String> = transaction
        .prepare_cached(
            "DELETE FROM instances WHERE start_time = ?1 AND rand = ?2 RETURNING shard",
        )?
        .query_row(params![worker.0.start_time, worker.0.rand], |row| {
            row.get(0)
        })
        .optional()?;
    // Finds the last deletion that precedes all remaining instances, so that no worker can repeat what it deleted.
    let settled: i64 = transaction
        .prepare_cached(
            "SELECT coalesce((SELECT min(since) FROM instances), (SELECT max(number) FROM forgotten), 0)",
        )?
        .query_row((), |row| row.get(0))?;
    names.drop_forgotten(transaction, settled)?;
    transaction
        .prepare_cached(
            "INSERT INTO left_instances (start_time, rand, shard, left_ms) VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            worker.0.start_time,
            worker.0.rand,
            shard,
            shard.as_ref().map(|_| wall.as_millis())
        ])?;
    Ok(())
}

/// Deletes the oldest instances that left, beyond the limit. Once a transaction suffices, because the newest instances are the same in any
/// order of arrival. The deletion scans the whole table. If it ran for each worker of a large pool that is lost at once, all
/// acknowledgements would wait for seconds.
pub(super) fn forget_those_left_long_ago(transaction: &Transaction<'_>) -> Result<(), StoreError> {
    transaction.execute(
        "DELETE FROM left_instances WHERE (start_time, rand) IN
         (SELECT start_time, rand FROM left_instances ORDER BY start_time DESC, rand DESC LIMIT -1 OFFSET ?1)",
        [i64::try_from(MAX_LEFT).unwrap_or(i64::MAX)],
    )?;
    Ok(())
}

fn associate(
    transaction: &Transaction<'_>,
    worker: WorkerId,
    instance: &InstanceRecord,
) -> Result<(), StoreError> {
    let InstanceRecord {
        shard,
        machine_lock,
        heartbeat_period,
        timeouts,
        since,
    } = instance;
    transaction.execute(
        "INSERT OR REPLACE INTO instances (start_time, rand, shard, hostname, port, heartbeat_period_ns, timeouts, since)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            worker.0.start_time,
            worker.0.rand,
            shard.as_str(),
            machine_lock.hostname,
            machine_lock.port,
            nanos(*heartbeat_period),
            serde_json::to_string(timeouts)?,
            since.0.cast_signed(),
        ],
    )?;
    Ok(())
}

fn end(
    transaction: &Transaction<'_>,
    names: &mut NameIds,
    task: &EndedTask,
) -> Result<(), StoreError> {
    let EndedTask {
        job,
        node,
        invocation,
        status,
        story,
        outputs,
    } = task;
    let job = names.job(transaction, job)?;
    let node = names.node(transaction, node)?;
    let story = story.as_deref().map(stories::to_text).transpose()?;
    let StoredStatus {
        bits,
        time,
        backoff_seconds,
        safety_seconds,
        data,
    } = status;
    let data = data.as_deref().map(serde_json::to_string).transpose()?;
    let mut statement = transaction.prepare_cached(
        "INSERT INTO statuses
         (job_id, node_id, invocation_start, invocation_rand, bits, time_ms, backoff, safety, data, story)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
         ON CONFLICT DO UPDATE SET
         story = CASE WHEN excluded.story IS NULL
             AND (excluded.invocation_start, excluded.invocation_rand) = (invocation_start, invocation_rand)
             THEN story ELSE excluded.story END,
         invocation_start = excluded.invocation_start, invocation_rand = excluded.invocation_rand,
         bits = excluded.bits, time_ms = excluded.time_ms, backoff = excluded.backoff,
         safety = excluded.safety, data = excluded.data",
    )?;
    statement.execute(params![
        job,
        node,
        invocation.0.start_time,
        invocation.0.rand,
        bits.0,
        time.as_millis(),
        backoff_seconds,
        safety_seconds,
        data,
        story,
    ])?;
    output_rows::insert(transaction, (job, node), *invocation, outputs)
}

fn forget(
    transaction: &Transaction<'_>,
    names: &mut NameIds,
    number: DeletionNumber,
    task: &ForgottenTask,
) -> Result<(), StoreError> {
    let ForgottenTask { job, node, up_to } = task;
    let job = names.job(transaction, job)?;
    let node = names.node(transaction, node)?;
    transaction
        .prepare_cached("DELETE FROM statuses WHERE job_id = ?1 AND node_id = ?2")?
        .execute([job, node])?;
    output_rows::delete(transaction, (job, node))?;
    let mut statement = transaction.prepare_cached(
        "INSERT INTO forgotten (job_id, node_id, up_to_start, up_to_rand, number) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET
         up_to_start = CASE WHEN (excluded.up_to_start, excluded.up_to_rand) > (up_to_start, up_to_rand)
             THEN excluded.up_to_start ELSE up_to_start END,
         up_to_rand = CASE WHEN (excluded.up_to_start, excluded.up_to_rand) > (up_to_start, up_to_rand)
             THEN excluded.up_to_rand ELSE up_to_rand END,
         number = max(number, excluded.number)",
    )?;
    let number = number.0.cast_signed();
    statement.execute([job, node, up_to.0.start_time, up_to.0.rand, number])?;
    Ok(())
}

fn trim(
    transaction: &Transaction<'_>,
    names: &mut NameIds,
    trimmed: &Trim,
) -> Result<(), StoreError> {
    let Trim {
        observed,
        missing,
        found,
        missing_jobs,
        found_jobs,
        expired,
        settled,
    } = trimmed;
    transaction.execute(
        "UPDATE meta SET observed_s = max(observed_s, ?1)",
        [observed],
    )?;
    let mut note =
        transaction.prepare_cached("UPDATE nodes SET missing_since_s = ?1 WHERE name = ?2")?;
    for node in found {
        note.execute(params![None::<u32>, node.as_str()])?;
    }
    for node in missing {
        names.nodes.remove(node);
        note.execute(params![observed, node.as_str()])?;
    }
    let mut note =
        transaction.prepare_cached("UPDATE jobs SET missing_since_s = ?1 WHERE name = ?2")?;
    for job in found_jobs {
        note.execute(params![None::<u32>, job.as_str()])?;
    }
    for job in missing_jobs {
        names.jobs.remove(job);
        note.execute(params![observed, job.as_str()])?;
    }
    expire(transaction, names, expired)?;
    match settled {
        Some(settled) => Ok(names.drop_forgotten(transaction, settled.0.cast_signed())?),
        None => Ok(()),
    }
}

fn expire(
    transaction: &Transaction<'_>,
    names: &mut NameIds,
    expired: &[TaskKey],
) -> rusqlite::Result<()> {
    let mut find_job = transaction.prepare_cached("SELECT id FROM jobs WHERE name = ?1")?;
    let mut find_node = transaction.prepare_cached("SELECT id FROM nodes WHERE name = ?1")?;
    let mut delete =
        transaction.prepare_cached("DELETE FROM statuses WHERE job_id = ?1 AND node_id = ?2")?;
    let mut last: Option<(&JobName, i64)> = None;
    for TaskKey { job, node } in expired {
        let job_id = match last.filter(|(known, _)| *known == job) {
            Some((_, id)) => Some(id),
            None => id_of(&mut find_job, job.as_str())?,
        };
        let node_id = id_of(&mut find_node, node.as_str())?;
        let (Some(job_id), Some(node_id)) = (job_id, node_id) else {
            continue;
        };
        last = Some((job, job_id));
        delete.execute([job_id, node_id])?;
        output_rows::delete(transaction, (job_id, node_id))?;
        names.unused.jobs.insert(job_id);
        names.unused.nodes.insert(node_id);
    }
    Ok(())
}

fn id_of(select: &mut Statement<'_>, name: &str) -> rusqlite::Result<Option<i64>> {
    select.query_row([name], |row| row.get(0)).optional()
}

/// The cluster and scheduler whose records a store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoreOwner {
    pub(super) cluster: ClusterId,
    pub(super) scheduler: SchedulerId,
}

/// Returns whether the file has the cluster and the row of this scheduler.
pub(super) fn is_of(connection: &Connection, owner: StoreOwner) -> rusqlite::Result<bool> {
    let StoreOwner { cluster, scheduler } = owner;
    connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM meta WHERE cluster = ?1)
         AND EXISTS (SELECT 1 FROM schedulers WHERE start_time = ?2 AND rand = ?3)",
        params![
            cluster.0.cast_signed(),
            scheduler.0.start_time,
            scheduler.0.rand
        ],
        |row| row.get(0),
    )
}

/// Loads everything in the file but the completions.
pub(super) fn load(connection: &Connection) -> Result<Durable, StoreError> {
    let mut durable = Durable::default();
    let meta = "SELECT cluster, hold_back_ns, fence_generation, observed_s FROM meta";
    connection.query_row(meta, (), |row| {
        durable.cluster = row
            .get::<_, Option<i64>>(0)?
            .map(|bits| ClusterId(bits.cast_unsigned()));
        durable.hold_back = duration(row.get(1)?);
        durable.fence_generation = FenceGeneration(row.get(2)?);
        durable.observed = row.get(3)?;
        Ok(())
    })?;
    let mut statement = connection.prepare("SELECT start_time, rand FROM schedulers")?;
    for scheduler in statement.query_map((), |row| Ok(SchedulerId(instance_id(row, 0)?)))? {
        durable.schedulers.insert(scheduler?);
    }
    let mut statement =
        connection.prepare("SELECT start_time, rand, shard, left_ms FROM left_instances")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let (worker, left) = load_left(row)?;
        durable.left.insert(worker, left);
    }
    let mut statement = connection.prepare(
        "SELECT start_time, rand, shard, hostname, port, heartbeat_period_ns, timeouts, since FROM instances",
    )?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let (worker, instance) = load_instance(row)?;
        durable.instances.insert(worker, instance);
    }
    job_rows::load(connection, &mut durable)?;
    source_rows::load(connection, &mut durable)?;
    let mut statement = connection.prepare(
        "SELECT up_to_start, up_to_rand, jobs.name, nodes.name, number
         FROM forgotten JOIN jobs ON jobs.id = job_id JOIN nodes ON nodes.id = node_id",
    )?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let text = |column, table| row.get_ref(column)?.as_str().map_err(damaged(table));
        let key = TaskKey {
            job: JobName::try_from(text(2, "jobs")?).map_err(damaged("jobs"))?,
            node: NodeName::try_from(text(3, "nodes")?).map_err(damaged("nodes"))?,
        };
        let of = Forgotten {
            up_to: InvocationId(instance_id(row, 0)?),
            number: deletion(row, 4)?,
        };
        durable.forgotten.insert(key, of);
    }
    output_rows::load(connection, &mut durable)?;
    order_rows::load(connection, &mut durable)?;
    Ok(durable)
}

fn load_instance(row: &Row<'_>) -> Result<(WorkerId, InstanceRecord), StoreError> {
    const TABLE: &str = "instances";
    let timeouts = row.get_ref(6)?.as_str().map_err(damaged(TABLE))?;
    let instance = InstanceRecord {
        shard: row
            .get::<_, String>(2)?
            .try_into()
            .map_err(damaged(TABLE))?,
        machine_lock: MachinePortLock {
            hostname: row.get(3)?,
            port: row.get(4)?,
        },
        heartbeat_period: duration(row.get(5)?),
        timeouts: serde_json::from_str(timeouts).map_err(damaged(TABLE))?,
        since: deletion(row, 7)?,
    };
    Ok((WorkerId(instance_id(row, 0)?), instance))
}

fn load_left(row: &Row<'_>) -> Result<(WorkerId, Option<LeftInstance>), StoreError> {
    let worker = WorkerId(instance_id(row, 0)?);
    let (shard, left_ms): (Option<String>, Option<i64>) = (row.get(2)?, row.get(3)?);
    let Some((shard, left_ms)) = shard.zip(left_ms) else {
        return Ok((worker, None));
    };
    let left = LeftInstance {
        shard: shard.try_into().map_err(damaged("left_instances"))?,
        wall: WallTime::from_millis(left_ms),
    };
    Ok((worker, Some(left)))
}
