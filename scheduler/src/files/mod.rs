//! The files that jobs name as inputs: a store of their contents, their names, and the workers that fetch them.
//!
//! The store is the one of workers, in the folder `files` of the data directory. The file `files.json` beside it has the names. `folder`
//! reads the files of the configuration, `uploads` receives those of people, and `serving` sends both to workers. All changes of names are
//! made on threads for blocking work, and reach the core as one event with all files.

mod folder;
mod index;
mod serving;
mod uploads;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use brasserie_common::text::readable_bytes;
use brasserie_common::{ArtifactId, ArtifactNamespace, Principal};
use brasserie_common_artifacts::{
    ArtifactStore, DiskFlag, DiskMistake, DiskNumber, OpenFinding, ServedTransfers, StoreOptions,
    USUAL_SERVED, WriteError,
};
use brasserie_common_runtime::DataDir;
use brasserie_scheduler_core::files::{KnownFiles, UploadAccess};
use brasserie_scheduler_core::{Answer, Event, NotOwner, Owned, Query, check_owner};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::interval;
use tokio_util::sync::CancellationToken;

use crate::inbox::Inbox;
use crate::sources::InForce;
use folder::ConfigFolder;
use index::{FileNames, IndexError};
use uploads::Uploads;

pub(crate) use folder::absent_files;
pub use folder::input_fault;
pub(crate) use uploads::{Put, PutProgress, PutRefusal};

/// The answer to a change whose caller was cut off while it waited.
const EXPELLED: &str = "the caller may no longer call";
/// The folder of the store, in the data directory.
const STORE: &str = "files";
/// The time for which a content stays that no file has any more. A run that has started with it fetches it within minutes, and a configuration
/// that is changed back needs no other copy.
const GRACE: Duration = Duration::from_secs(3600);
/// The time between two looks at uploads without calls, and at contents without names.
const HOUSEKEEPING: Duration = Duration::from_secs(5);
/// The artifacts that are read again at once because a worker got a damaged copy.
const CHECKS: usize = 2;

/// The reason why the store of files cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    // The mistake is no source: a report of errors would print its text a second time.
    #[error("the folder for files of inputs cannot be used: {0}")]
    Store(DiskMistake),
    #[error(transparent)]
    Index(#[from] IndexError),
}

/// The files of one scheduler. Clones are the same.
#[derive(Clone)]
pub(crate) struct Files(Arc<FilesParts>);

struct FilesParts {
    store: ArtifactStore,
    namespace: ArtifactNamespace,
    /// The most bytes of all files.
    capacity: u64,
    upload_access: UploadAccess,
    inbox: Inbox,
    names: Mutex<FileNames>,
    /// The last event. The lock also keeps the order of events.
    told: Mutex<Arc<KnownFiles>>,
    /// The store could not write, and was not measured since.
    has_failed: AtomicBool,
    /// The contents that no file has, with the times since which that is known.
    unnamed: Mutex<BTreeMap<ArtifactId, Instant>>,
    uploads: Mutex<Uploads>,
    served: Mutex<ServedTransfers>,
    checks: Arc<Semaphore>,
}

impl Files {
    /// Opens the store in the data directory.
    pub(crate) fn open(
        directory: &DataDir,
        namespace: &ArtifactNamespace,
        (capacity, uploads): (u64, UploadAccess),
        inbox: Inbox,
    ) -> Result<Files, FilesError> {
        let disk = DiskFlag {
            capacity: Some(capacity),
            ..DiskFlag::new(directory.path().join(STORE))
        };
        let (store, findings) =
            ArtifactStore::open(&StoreOptions::new(vec![disk])).map_err(FilesError::Store)?;
        for finding in findings {
            match finding {
                // Each scheduler begins so.
                OpenFinding::NewGeneration { .. } => {}
                _ => tracing::warn!("the files of inputs: {finding}"),
            }
        }
        let names = FileNames::read(directory.path())?;
        let files = Files(Arc::new(FilesParts {
            store,
            namespace: namespace.clone(),
            capacity,
            upload_access: uploads,
            inbox,
            names: Mutex::new(names),
            told: Mutex::default(),
            has_failed: AtomicBool::new(false),
            unnamed: Mutex::default(),
            uploads: Mutex::default(),
            served: Mutex::new(ServedTransfers::new(USUAL_SERVED)),
            checks: Arc::new(Semaphore::new(CHECKS)),
        }));
        *files.0.told.lock() = Arc::new(files.known());
        Ok(files)
    }

    /// Returns the event with the files that are known at the start.
    pub(crate) fn first_event(&self) -> Event {
        Event::FilesKnown {
            files: Arc::clone(&self.0.told.lock()),
        }
    }

    /// Reads the files of the configuration in force whenever it or one of them changes, and deletes what nobody needs, until it is stopped.
    pub(crate) async fn run(
        self,
        in_force: watch::Receiver<Option<InForce>>,
        (file, folder): (Option<PathBuf>, PathBuf),
        stop: CancellationToken,
    ) {
        let housekeeping = async {
            let mut due = interval(HOUSEKEEPING);
            loop {
                due.tick().await;
                self.keep_house(Instant::now()).await;
            }
        };
        let folder = ConfigFolder::new(self.clone(), (file, folder), stop.clone());
        tokio::select! {
            () = stop.cancelled() => {}
            () = folder.watch(in_force) => {}
            () = housekeeping => {}
        }
    }

    /// Drops uploads without calls, and deletes contents that have had no name for a while and that no running task reads.
    async fn keep_house(&self, now: Instant) {
        let own = self.clone();
        let looked = tokio::task::spawn_blocking(move || {
            own.0.uploads.lock().end_idle(now);
            for finding in own.0.store.drain_set_aside() {
                tracing::warn!("the files of inputs: {finding}");
            }
            own.unnamed_since(now)
        });
        // Fails only if the look panics, which is logged.
        let due = looked.await.unwrap_or_default();
        if due.is_empty() {
            return;
        }
        let query = Query::FileReaders(due.iter().copied().collect());
        if let Ok(Answer::FileReaders(read)) = self.0.inbox.query(Principal::Own, query).await {
            let unread: Vec<ArtifactId> = due.difference(&read).copied().collect();
            let own = self.clone();
            // Fails only if the deletion panics, which is logged.
            let _ = tokio::task::spawn_blocking(move || own.delete_unnamed(unread)).await;
        }
    }

    /// Notes which contents have no name. Returns those that have had none for the grace.
    fn unnamed_since(&self, now: Instant) -> BTreeSet<ArtifactId> {
        let named = self.0.names.lock().named();
        let stored = self.stored();
        let mut unnamed = self.0.unnamed.lock();
        unnamed.retain(|id, _| stored.contains(id) && !named.contains(id));
        for id in stored.difference(&named) {
            unnamed.entry(*id).or_insert(now);
        }
        let due = unnamed.iter();
        let due = due.filter(|(_, since)| now.saturating_duration_since(**since) >= GRACE);
        due.map(|(id, _)| *id).collect()
    }

    fn delete_unnamed(&self, ids: Vec<ArtifactId>) {
        // Nobody can name a content while the lock is held.
        let names = self.0.names.lock();
        let named = names.named();
        let ids = ids.into_iter().filter(|id| !named.contains(id));
        for (path, error) in self.0.store.delete(&self.0.namespace, ids) {
            tracing::warn!("cannot delete the file {}: {error}", path.display());
        }
        drop(names);
        self.tell();
    }

    fn has(&self, id: ArtifactId) -> bool {
        self.0.store.find(&self.0.namespace, id).is_some()
    }

    fn stored(&self) -> BTreeSet<ArtifactId> {
        let held = self.0.store.holdings(&self.0.namespace).into_iter();
        held.map(|held| held.id).collect()
    }

    fn known(&self) -> KnownFiles {
        let names = self.0.names.lock();
        KnownFiles {
            folder: names.folder(),
            configured: names.configured().clone(),
            uploaded: names.uploaded().clone(),
            earlier: names.earlier(),
            stored: self.stored(),
            uploads: self.0.upload_access,
        }
    }

    /// Reports all files to the core if anything has changed. Only for threads outside the runtime.
    fn tell(&self) {
        let mut told = self.0.told.lock();
        let known = self.known();
        if known != **told {
            *told = Arc::new(known);
            self.0.inbox.tell_blocking(Event::FilesKnown {
                files: Arc::clone(&told),
            });
        }
    }

    /// Errors if the caller may not replace or remove the uploaded file of this name.
    pub(crate) fn check_owner(&self, from: &Principal, name: &str) -> Result<(), NotOwner> {
        check_owner(from, Owned::File(name), &self.0.names.lock().owner(name))
    }

    /// Removes an uploaded file, unless the caller may no longer call by then. Its content stays for tasks that have started with it. Returns
    /// whether there was one.
    pub(crate) fn remove(
        &self,
        from: &Principal,
        name: &str,
        is_expelled: impl Fn() -> bool,
    ) -> Result<bool, String> {
        let mut names = self.0.names.lock();
        // Those before it may have waited for their disk.
        if is_expelled() {
            return Err(EXPELLED.to_owned());
        }
        // Somebody else may have removed it meanwhile, and another one have uploaded his.
        let is_own = check_owner(from, Owned::File(name), &names.owner(name));
        is_own.map_err(|why| why.to_string())?;
        let removed = names.remove(name);
        drop(names);
        let removed = removed.map_err(|error| self.cannot_record(&error))?;
        self.tell();
        Ok(removed)
    }

    fn cannot_record(&self, error: &io::Error) -> String {
        format!(
            "the scheduler cannot write the names of its files: {error}. Check the disk of its data directory"
        )
    }

    /// Returns why a file of this size can never be kept.
    fn why_too_large(&self, size: u64) -> Option<String> {
        let most = self.0.capacity;
        (size > most).then(|| {
            format!(
                "it has {}, and the scheduler keeps {} of all files at most (its flag --files-capacity)",
                readable_bytes(size),
                readable_bytes(most)
            )
        })
    }
}

impl Files {
    /// Returns why the store has no space for a file of this size now, so that it need not be read to find out.
    fn why_no_space(&self, needed: u64) -> Option<String> {
        let disks = self.0.store.usage().into_iter();
        let open = disks.filter(|disk| disk.generation.is_some());
        let usable = open.map(|disk| disk.usable).max()?;
        let error = WriteError::NoSpace { needed, usable };
        (needed > usable).then(|| self.explain_write(&error))
    }

    /// Looks at the disk again if it has failed or was full when the store last wrote.
    fn measure_again(&self) {
        if self.0.has_failed.swap(false, Ordering::Relaxed) {
            // Another failure shows when the store writes.
            let _ = self.0.store.probe(DiskNumber(0));
        }
    }

    /// Says for people why the store has not taken a file.
    fn explain_write(&self, error: &WriteError) -> String {
        self.0.has_failed.store(true, Ordering::Relaxed);
        explain_write(error)
    }
}

fn explain_write(error: &WriteError) -> String {
    match error {
        WriteError::NoDisk => {
            "the scheduler cannot use the folder `files` of its data directory: check its disk, then start the scheduler again".to_owned()
        }
        WriteError::NoSpace { needed, usable } => format!(
            "the scheduler has no space for it: it needs {}, and {} of --files-capacity and of the disk of its data directory are left. \
             Remove files with `brasserie artifact rm --file`, or make space there",
            readable_bytes(*needed),
            readable_bytes(*usable)
        ),
        WriteError::DiskFull { error, .. } => {
            format!("the disk of the scheduler's data directory is full ({error}): make space there")
        }
        WriteError::Disk { path, error } => {
            format!("the scheduler cannot write to {}: {error}. Check the disk", path.display())
        }
    }
}

#[cfg(test)]
mod tests;
