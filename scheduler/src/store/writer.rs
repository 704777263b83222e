//! The thread that writes: all that waits in one transaction, synced, then reported.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::StoreReport;
use super::error::StoreError;
use super::queue::{Queue, Waiting, Work};
use super::schema::Database;

/// Between attempts of a store that fails: an operator who frees disk space sees work go on at once, and a disk that hangs
/// is not made busier.
const RETRY: Duration = Duration::from_secs(1);

/// After each commit, before the next: a record that comes alone is written at once, while a busy scheduler pays for a sync,
/// its report and the answers that waited for it a few hundred times a second at most. Nobody's task waits for it: slots are
/// freed before their record is on disk. Far less than the 100 ms within which `brasserie run` starts its first task.
const GATHER: Duration = Duration::from_millis(4);

pub(super) struct Writer {
    path: PathBuf,
    state: State,
    queue: Arc<Queue>,
    report: Box<dyn Fn(StoreReport) + Send>,
}

/// ```text
///            a write fails                 a fresh connection writes the batch
///   Working ---------------> Failing(why) ------------------------------------> Working
///                               |  ^
///                               +--+ it fails again: retry each second
/// ```
enum State {
    /// What was reported is on disk.
    Working(Box<Database>),
    /// The connection was given up: after an I/O error it may believe things of the file that are not so.
    Failing { why: String },
}

impl Writer {
    pub(super) fn new(
        path: PathBuf,
        database: Database,
        queue: Arc<Queue>,
        report: Box<dyn Fn(StoreReport) + Send>,
    ) -> Self {
        Writer {
            path,
            state: State::Working(Box::new(database)),
            queue,
            report,
        }
    }

    pub(super) fn run(mut self) -> Result<(), StoreError> {
        loop {
            match self.queue.take() {
                Work::Write(batch) => {
                    self.write(&batch)?;
                    self.queue.gather(GATHER);
                }
                Work::End => return Ok(()),
            }
        }
    }

    /// Returns an error only when the queue was closed meanwhile.
    fn write(&mut self, batch: &[Waiting]) -> Result<(), StoreError> {
        while let Err(error) = self.attempt(batch) {
            self.fail(&error);
            if self.queue.pause(RETRY) {
                return self.attempt(batch);
            }
        }
        Ok(())
    }

    /// Applying a batch twice is the same as once, so an attempt whose commit failed in doubt is simply repeated.
    fn attempt(&mut self, batch: &[Waiting]) -> Result<(), StoreError> {
        match &mut self.state {
            State::Working(database) => database.write(batch.iter().map(|w| &w.record))?,
            State::Failing { .. } => {
                let mut database = Database::open(&self.path)?;
                database.write(batch.iter().map(|w| &w.record))?;
                self.state = State::Working(Box::new(database));
                tracing::warn!("the store writes again");
                (self.report)(StoreReport::Recovered);
            }
        }
        self.queue.room().committed(batch);
        if let Some(last) = batch.last() {
            (self.report)(StoreReport::Persisted(last.seq));
        }
        Ok(())
    }

    fn fail(&mut self, error: &StoreError) {
        let message = error.to_string();
        let is_news = match &self.state {
            State::Working(_) => true,
            State::Failing { why } => *why != message,
        };
        if is_news {
            tracing::error!(
                error = message,
                "the store cannot write; nothing is acknowledged until it can"
            );
            (self.report)(StoreReport::Failed(message.clone()));
        }
        self.state = State::Failing { why: message };
    }
}
