//! Reads and writes the rows of jobs that were submitted through the API, and of paused and cancelled jobs.

use std::sync::Arc;

use brasserie_common::{Hold, JobName, WallTime};
use brasserie_scheduler_core::{Durable, JobVersion, Record, SavedJob};
use rusqlite::{Connection, Transaction, params};

use super::error::StoreError;
use super::values::damaged;

/// Applies a record about jobs to the rows, like [`Durable::apply`] to memory. Other records change nothing here.
pub(super) fn apply(transaction: &Transaction<'_>, record: &Record) -> Result<(), StoreError> {
    match record {
        Record::JobSaved { job, saved } => {
            let SavedJob {
                version,
                created,
                modified,
                text,
                owner,
            } = saved;
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO saved_jobs (name, version, created_ms, modified_ms, text, owner)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                )?
                .execute(params![
                    job.as_str(),
                    version.0,
                    created.as_millis(),
                    modified.as_millis(),
                    &**text,
                    owner.as_deref()
                ])?;
            used(transaction, *version)?;
        }
        Record::JobDeleted { job, version } => {
            transaction
                .prepare_cached("DELETE FROM saved_jobs WHERE name = ?1")?
                .execute([job.as_str()])?;
            resume(transaction, job)?;
            used(transaction, *version)?;
        }
        Record::JobHeld { job, hold } => {
            transaction
                .prepare_cached(
                    "INSERT OR REPLACE INTO paused_jobs (name, is_cancelled) VALUES (?1, ?2)",
                )?
                .execute(params![job.as_str(), *hold == Hold::Cancelled])?;
        }
        Record::JobResumed { job } => resume(transaction, job)?,
        Record::SchedulerStarted { .. }
        | Record::FenceRaised { .. }
        | Record::WorkerAssociated { .. }
        | Record::WorkerLeft { .. }
        | Record::HoldBack { .. }
        | Record::HoldBackOver
        | Record::TaskEnded(_)
        | Record::TasksForgiven { .. }
        | Record::HistoryDeleted { .. }
        | Record::HistoryTrimmed(_)
        | Record::OutputsExpired { .. }
        | Record::OutputsForgotten { .. }
        | Record::WorkerOrdered { .. }
        | Record::ConfigKept { .. }
        | Record::TimesGiven { .. } => {}
    }
    Ok(())
}

fn resume(transaction: &Transaction<'_>, job: &JobName) -> Result<(), StoreError> {
    transaction
        .prepare_cached("DELETE FROM paused_jobs WHERE name = ?1")?
        .execute([job.as_str()])?;
    Ok(())
}

/// Prevents that a later job gets this number.
fn used(transaction: &Transaction<'_>, version: JobVersion) -> Result<(), StoreError> {
    transaction
        .prepare_cached("UPDATE meta SET last_job_version = max(last_job_version, ?1)")?
        .execute([version.0])?;
    Ok(())
}

pub(super) fn load(connection: &Connection, durable: &mut Durable) -> Result<(), StoreError> {
    durable.last_job_version =
        connection.query_row("SELECT last_job_version FROM meta", (), |row| {
            row.get(0).map(JobVersion)
        })?;
    let mut statement = connection
        .prepare("SELECT name, version, created_ms, modified_ms, text, owner FROM saved_jobs")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let saved = SavedJob {
            version: JobVersion(row.get(1)?),
            created: WallTime::from_millis(row.get(2)?),
            modified: WallTime::from_millis(row.get(3)?),
            text: row.get::<_, String>(4)?.into(),
            owner: row.get::<_, Option<String>>(5)?.map(Arc::from),
        };
        let name = row.get::<_, String>(0)?;
        let name = JobName::try_from(name).map_err(damaged("saved_jobs"))?;
        durable.jobs.insert(name, saved);
    }
    let mut statement = connection.prepare("SELECT name, is_cancelled FROM paused_jobs")?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let name = row.get::<_, String>(0)?;
        let name = JobName::try_from(name).map_err(damaged("paused_jobs"))?;
        let hold = match row.get(1)? {
            false => Hold::Paused,
            true => Hold::Cancelled,
        };
        durable.held.insert(name, hold);
    }
    Ok(())
}
