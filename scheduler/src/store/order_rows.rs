//! The rows of operators' orders about workers.

use brasserie_common::Shard;
use brasserie_scheduler_core::{Durable, WorkerOrder};
use rusqlite::{Connection, Transaction, params};

use super::error::StoreError;
use super::values::damaged;

/// Writes the order about a worker in place of an earlier one, or deletes that.
pub(super) fn apply(
    transaction: &Transaction<'_>,
    shard: &Shard,
    order: Option<&WorkerOrder>,
) -> Result<(), StoreError> {
    match order {
        Some(order) => transaction.execute(
            "INSERT OR REPLACE INTO worker_orders (shard, worker_order) VALUES (?1, ?2)",
            params![shard.as_str(), serde_json::to_string(order)?],
        )?,
        None => transaction.execute(
            "DELETE FROM worker_orders WHERE shard = ?1",
            [shard.as_str()],
        )?,
    };
    Ok(())
}

pub(super) fn load(connection: &Connection, durable: &mut Durable) -> Result<(), StoreError> {
    const TABLE: &str = "worker_orders";
    let mut statement = connection.prepare("SELECT shard, worker_order FROM worker_orders")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let shard = row.get::<_, String>(0)?.try_into();
        let shard: Shard = shard.map_err(damaged(TABLE))?;
        let order = row.get_ref(1)?.as_str().map_err(damaged(TABLE))?;
        let order = serde_json::from_str(order).map_err(damaged(TABLE))?;
        durable.orders.insert(shard, order);
    }
    Ok(())
}
