//! The rows of the outputs of tasks.

use brasserie_common::{InvocationId, JobName, NodeName, TaskKey, TaskOutput};
use brasserie_scheduler_core::Durable;
use rusqlite::{Connection, Transaction, params};

use super::error::StoreError;
use super::values::{damaged, instance_id};

/// Writes the outputs of a run in place of those of an earlier one. Keeps these if there are none.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    (job, node): (i64, i64),
    invocation: InvocationId,
    outputs: &[TaskOutput],
) -> Result<(), StoreError> {
    if outputs.is_empty() {
        return Ok(());
    }
    let outputs = serde_json::to_string(outputs)?;
    let mut statement = transaction.prepare_cached(
        "INSERT OR REPLACE INTO outputs (job_id, node_id, invocation_start, invocation_rand, outputs) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    let InvocationId(run) = invocation;
    statement.execute(params![job, node, run.start_time, run.rand, outputs])?;
    Ok(())
}

pub(super) fn delete(
    transaction: &Transaction<'_>,
    (job, node): (i64, i64),
) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM outputs WHERE job_id = ?1 AND node_id = ?2")?
        .execute([job, node])?;
    Ok(())
}

pub(super) fn delete_of_job(transaction: &Transaction<'_>, job: i64) -> rusqlite::Result<()> {
    transaction
        .prepare_cached("DELETE FROM outputs WHERE job_id = ?1")?
        .execute([job])?;
    Ok(())
}

pub(super) fn load(connection: &Connection, durable: &mut Durable) -> Result<(), StoreError> {
    let mut statement = connection.prepare(
        "SELECT invocation_start, invocation_rand, jobs.name, nodes.name, outputs
         FROM outputs JOIN jobs ON jobs.id = job_id JOIN nodes ON nodes.id = node_id",
    )?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let text = |column, table| row.get_ref(column)?.as_str().map_err(damaged(table));
        let key = TaskKey {
            job: JobName::try_from(text(2, "jobs")?).map_err(damaged("jobs"))?,
            node: NodeName::try_from(text(3, "nodes")?).map_err(damaged("nodes"))?,
        };
        let outputs = serde_json::from_str(text(4, "outputs")?).map_err(damaged("outputs"))?;
        let invocation = InvocationId(instance_id(row, 0)?);
        durable.outputs.insert(key, (invocation, outputs));
    }
    Ok(())
}
