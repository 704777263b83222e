//! Receives files that people upload, in pieces. A file gets its name when it is complete, verified and on disk.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::text::printable;
use brasserie_common::{Artifact, ArtifactForm, OutputPath, Principal};
use brasserie_common_artifacts::{Incoming, ReceiveError};
use brasserie_scheduler_core::{NotOwner, Owned, check_owner, owner_of};

use super::index::MAX_UPLOADED;
use super::{EXPELLED, Files};
use crate::turns::Caller;

/// The most uploads from the network at once. Each has a reservation of its whole size.
const MOST_UPLOADS: usize = 8;
/// The most uploads of one caller, so that nobody who is slow keeps others from theirs. The local socket has as many beside the others.
const MOST_OF_CALLER: usize = MOST_UPLOADS / 2;
/// The most bytes of one piece: a message has 16 MiB at most.
const MOST_BYTES: usize = 8 << 20;
/// The least bytes of a piece that is not the last: a client that sends fewer would hold an upload for ever.
const LEAST_BYTES: usize = 64 << 10;
/// The time without a call after which an upload is dropped.
const IDLE: Duration = Duration::from_secs(60);
/// The longest time for an upload: an hour, and a second for each MiB.
const LONGEST: Duration = Duration::from_secs(3600);

/// The uploads that are open.
#[derive(Default)]
pub(super) struct Uploads {
    open: BTreeMap<i64, OpenUpload>,
    last: i64,
}

struct OpenUpload {
    since: Instant,
    /// The caller that has begun it.
    caller: Caller,
    /// The time of the last call; `None`: a piece is being written.
    idle_since: Option<Instant>,
    /// `None` while a piece is being written.
    upload: Option<Upload>,
}

struct Upload {
    name: String,
    artifact: Artifact,
    /// The submitter who has begun it.
    owner: Option<Arc<str>>,
    incoming: Incoming,
}

/// One call of an upload.
pub(crate) struct Put {
    name: String,
    artifact: Artifact,
    /// 0 begins an upload.
    upload: i64,
    offset: u64,
    bytes: Vec<u8>,
    from: Principal,
}

impl Put {
    /// Returns the call that sends these bytes of an upload, from an offset on. The upload 0 begins one.
    pub(crate) fn new(
        (name, artifact): (String, Artifact),
        (upload, offset): (i64, u64),
        bytes: Vec<u8>,
    ) -> Self {
        Put {
            name,
            artifact,
            upload,
            offset,
            bytes,
            from: Principal::Own,
        }
    }

    /// Returns the call of this caller.
    pub(crate) fn by(self, from: Principal) -> Self {
        Put { from, ..self }
    }
}

/// How far an upload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PutProgress {
    /// The upload wants the bytes from here on.
    Wants {
        upload: i64,
        offset: u64,
    },
    Done {
        size: u64,
    },
}

/// The reason why a call was refused. Nothing has changed, or the upload is dropped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PutRefusal {
    #[error(
        "the scheduler receives {MOST_UPLOADS} files at once, and {MOST_OF_CALLER} of each caller, or a piece of this one is still being written: try again in a moment"
    )]
    Busy,
    #[error(transparent)]
    NotOwner(#[from] NotOwner),
    #[error("{0}")]
    Refused(String),
}

impl Uploads {
    /// Drops uploads whose clients have gone, or take too long.
    pub(super) fn end_idle(&mut self, now: Instant) {
        let since = |since: Instant| now.saturating_duration_since(since);
        self.open.retain(|_, open| {
            let size = open
                .upload
                .as_ref()
                .map_or(0, |upload| upload.artifact.size);
            let longest = LONGEST + Duration::from_secs(size >> 20);
            open.idle_since
                .is_none_or(|idle| since(idle) <= IDLE && since(open.since) <= longest)
        });
    }

    /// Reserves a place for a new upload.
    fn begin(&mut self, now: Instant, caller: Caller) -> Result<i64, PutRefusal> {
        self.end_idle(now);
        let count = |is_meant: &dyn Fn(&Caller) -> bool| {
            let open = self.open.values();
            open.filter(|open| is_meant(&open.caller)).count()
        };
        let is_crowded =
            caller != Caller::Local && count(&|other| *other != Caller::Local) >= MOST_UPLOADS;
        if is_crowded || count(&|other| *other == caller) >= MOST_OF_CALLER {
            return Err(PutRefusal::Busy);
        }
        self.last += 1;
        let open = OpenUpload {
            since: now,
            caller,
            idle_since: None,
            upload: None,
        };
        self.open.insert(self.last, open);
        Ok(self.last)
    }

    /// Takes an upload out, to write a piece.
    fn take(&mut self, put: &Put) -> Result<Upload, PutRefusal> {
        let owner = owner_of(&put.from);
        let is_it = |upload: &Upload| {
            upload.name == put.name
                && upload.artifact == put.artifact
                && upload.owner.as_ref() == owner
        };
        let open = self.open.get_mut(&put.upload);
        let open = open.filter(|open| open.upload.as_ref().is_none_or(is_it));
        let open = open.ok_or_else(|| {
            PutRefusal::Refused(
                "the scheduler does not know this upload any more: begin it again".to_owned(),
            )
        })?;
        open.idle_since = None;
        open.upload.take().ok_or(PutRefusal::Busy)
    }

    fn put_back(&mut self, number: i64, upload: Upload, now: Instant) {
        if let Some(open) = self.open.get_mut(&number) {
            open.upload = Some(upload);
            open.idle_since = Some(now);
        }
    }

    fn end(&mut self, number: i64) {
        self.open.remove(&number);
    }
}

impl Files {
    /// Performs one call of an upload, unless the caller may no longer call when it takes effect. Blocks as long as the disk does.
    pub(crate) fn put(
        &self,
        put: Put,
        is_expelled: impl Fn() -> bool,
    ) -> Result<PutProgress, PutRefusal> {
        let now = Instant::now();
        match put.upload {
            0 => {
                self.check_put(&put).map_err(PutRefusal::Refused)?;
                self.check_owner(&put.from, &put.name)?;
                if self.has(put.artifact.id) {
                    return self.name(&put.name, put.artifact, (&put.from, &is_expelled));
                }
                let number = self.0.uploads.lock().begin(now, Caller::of(&put.from))?;
                let begun = self.begin(number, put, &is_expelled);
                self.end_unless_open(number, &begun);
                begun
            }
            number => {
                let upload = self.0.uploads.lock().take(&put)?;
                let by = (&put.from, &is_expelled as &dyn Fn() -> bool);
                let added = self.add(number, upload, (put.offset, &put.bytes), by);
                self.end_unless_open(number, &added);
                added
            }
        }
    }

    fn end_unless_open(&self, number: i64, result: &Result<PutProgress, PutRefusal>) {
        if !matches!(result, Ok(PutProgress::Wants { .. })) {
            self.0.uploads.lock().end(number);
        }
    }

    fn check_put(&self, put: &Put) -> Result<(), String> {
        let name = printable(&put.name);
        let is_good = OutputPath::try_from(put.name.as_str()).is_ok_and(|path| !path.is_folder());
        if !is_good {
            return Err(format!(
                "`{name}` is no name of a file: write a relative path without empty parts, `.`, `..` and control characters"
            ));
        }
        if put.artifact.form == ArtifactForm::Folder {
            return Err("a folder cannot be uploaded: pack it into an archive".to_owned());
        }
        if let Some(why) = self.why_too_large(put.artifact.size) {
            return Err(format!("`{name}` is refused: {why}"));
        }
        let names = self.0.names.lock();
        let uploaded = names.uploaded();
        match uploaded.len() >= MAX_UPLOADED && !uploaded.contains_key(&*put.name) {
            true => Err(format!(
                "{MAX_UPLOADED} files are uploaded, which is the maximum: remove some with `brasserie artifact rm --file`"
            )),
            false => Ok(()),
        }
    }

    fn begin(
        &self,
        number: i64,
        put: Put,
        is_expelled: &dyn Fn() -> bool,
    ) -> Result<PutProgress, PutRefusal> {
        let by = (&put.from, is_expelled);
        self.measure_again();
        let (parts, artifact) = (&self.0, put.artifact);
        match parts
            .store
            .receive(&parts.namespace, artifact.id, artifact.size)
        {
            Ok(incoming) => {
                let upload = Upload {
                    name: put.name,
                    artifact,
                    owner: owner_of(&put.from).cloned(),
                    incoming,
                };
                self.add(number, upload, (put.offset, &put.bytes), by)
            }
            Err(ReceiveError::Held(_)) => self.name(&put.name, artifact, by),
            Err(error) => Err(self.refusal(error)),
        }
    }

    /// Appends a piece, and finishes the upload with the last one.
    fn add(
        &self,
        number: i64,
        mut upload: Upload,
        (offset, bytes): (u64, &[u8]),
        by: (&Principal, &dyn Fn() -> bool),
    ) -> Result<PutProgress, PutRefusal> {
        let received = upload.incoming.received();
        // A piece that comes again, because its answer was lost, has no effect.
        if offset == received && !bytes.is_empty() {
            let is_last = received + bytes.len() as u64 == upload.artifact.size;
            if bytes.len() > MOST_BYTES || (bytes.len() < LEAST_BYTES && !is_last) {
                return Err(PutRefusal::Refused(format!(
                    "a piece has {LEAST_BYTES} to {MOST_BYTES} bytes, unless it is the last one"
                )));
            }
            upload
                .incoming
                .append(bytes)
                .map_err(|error| self.refusal(error))?;
        }
        let offset = upload.incoming.received();
        if offset < upload.artifact.size {
            let mut uploads = self.0.uploads.lock();
            uploads.put_back(number, upload, Instant::now());
            return Ok(PutProgress::Wants {
                upload: number,
                offset,
            });
        }
        upload
            .incoming
            .finish()
            .map_err(|error| self.refusal(error))?;
        self.name(&upload.name, upload.artifact, by)
    }

    /// Gives a content of the store a name.
    fn name(
        &self,
        name: &str,
        artifact: Artifact,
        (from, is_expelled): (&Principal, &dyn Fn() -> bool),
    ) -> Result<PutProgress, PutRefusal> {
        let mut names = self.0.names.lock();
        // Those before it may have waited for their disk.
        if is_expelled() {
            return Err(PutRefusal::Refused(EXPELLED.to_owned()));
        }
        // Somebody else may have used the name since the upload began.
        check_owner(from, Owned::File(name), &names.owner(name))?;
        let why = match self.0.store.find(&self.0.namespace, artifact.id) {
            None => Some("the file was deleted meanwhile: begin the upload again".to_owned()),
            // Workers would take each copy for a damaged one.
            Some(held) if held.size != artifact.size => Some(format!(
                "the file with this SHA-256 has {} bytes, not {}: begin the upload again with the right size",
                held.size, artifact.size
            )),
            Some(_) => None,
        };
        if let Some(why) = why {
            return Err(PutRefusal::Refused(why));
        }
        let named = names.upload(name, artifact, owner_of(from));
        drop(names);
        named.map_err(|error| PutRefusal::Refused(self.cannot_record(&error)))?;
        self.tell();
        let size = artifact.size;
        Ok(PutProgress::Done { size })
    }

    fn refusal(&self, error: ReceiveError) -> PutRefusal {
        PutRefusal::Refused(match error {
            ReceiveError::Damaged { id, found } => format!(
                "the bytes have the SHA-256 {found} and not {id}: the file has changed meanwhile, or was damaged on the way. Upload it again"
            ),
            ReceiveError::TooLong { size, .. } => {
                format!(
                    "more than the {size} bytes of the file have come: it has changed meanwhile. Upload it again"
                )
            }
            ReceiveError::Store(error) => self.explain_write(&error),
            ReceiveError::Held(_) | ReceiveError::Incomplete { .. } => error.to_string(),
        })
    }
}
