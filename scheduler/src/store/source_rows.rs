//! The rows of the last good config file, and of the times that schedules have given.

use std::sync::Arc;

use brasserie_common::WallTime;
use brasserie_scheduler_core::{Durable, GivenTimes, ItemName, KeptConfig};
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::error::StoreError;
use super::values::damaged;

/// Applies a [`brasserie_scheduler_core::Record::TimesGiven`] to the rows, like [`Durable::apply`] to memory.
pub(super) fn apply_times(
    transaction: &Transaction<'_>,
    changed: &[(ItemName, GivenTimes)],
    forgotten: &[ItemName],
) -> Result<(), StoreError> {
    let mut delete = transaction.prepare_cached("DELETE FROM schedule_items WHERE name = ?1")?;
    for item in forgotten {
        delete.execute([&item.0])?;
    }
    let mut insert = transaction
        .prepare_cached("INSERT OR REPLACE INTO schedule_items (name, given) VALUES (?1, ?2)")?;
    for (item, given) in changed {
        insert.execute(params![item.0, serde_json::to_string(given)?])?;
    }
    Ok(())
}

/// Applies a [`brasserie_scheduler_core::Record::ConfigKept`] to the rows.
pub(super) fn apply_config(
    transaction: &Transaction<'_>,
    config: &KeptConfig,
) -> Result<(), StoreError> {
    let KeptConfig { path, text, since } = config;
    transaction.execute(
        "INSERT OR REPLACE INTO config_file (only, path, since_ms, text) VALUES (1, ?1, ?2, ?3)",
        params![&**path, since.as_millis(), &**text],
    )?;
    Ok(())
}

pub(super) fn load(connection: &Connection, durable: &mut Durable) -> Result<(), StoreError> {
    let mut statement = connection.prepare("SELECT name, given FROM schedule_items")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let given = row
            .get_ref(1)?
            .as_str()
            .map_err(damaged("schedule_items"))?;
        let given = serde_json::from_str(given).map_err(damaged("schedule_items"))?;
        durable.times.insert(ItemName(row.get(0)?), given);
    }
    let kept = connection.query_row("SELECT path, since_ms, text FROM config_file", (), |row| {
        Ok(KeptConfig {
            path: row.get::<_, Arc<str>>(0)?,
            since: WallTime::from_millis(row.get(1)?),
            text: row.get::<_, Arc<str>>(2)?,
        })
    });
    durable.config = kept.optional()?;
    Ok(())
}
