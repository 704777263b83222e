//! The receiving of an artifact from other workers.

use std::collections::BTreeMap;

use brasserie_common::ArtifactId;
use thiserror::Error;

use crate::artifact_key::ArtifactKey;
use crate::partial::Partial;
use crate::shared::WriteError;

/// The reason why an artifact was not received. Nothing of it is kept.
#[derive(Debug, Error)]
pub enum ReceiveError {
    #[error("the store has the artifact {0} already")]
    Held(ArtifactId),
    #[error(
        "the sender of the artifact {id} sent more than its {size} bytes: receive it from another holder"
    )]
    TooLong { id: ArtifactId, size: u64 },
    #[error(
        "only {received} of {size} bytes of the artifact {id} have arrived: receive the rest, or try another holder"
    )]
    Incomplete {
        id: ArtifactId,
        size: u64,
        received: u64,
    },
    #[error(
        "the received bytes of the artifact {id} have the SHA-256 {found}: receive it from another holder"
    )]
    Damaged { id: ArtifactId, found: ArtifactId },
    #[error(transparent)]
    Store(#[from] WriteError),
}

/// An artifact that is being received, in order and from any holders. Dropping it deletes the partial file and ends its reservation.
pub struct Incoming {
    partial: Partial,
    key: ArtifactKey,
    size: u64,
}

impl Incoming {
    /// Wraps an empty partial file with a reservation of `size` bytes.
    pub fn new(partial: Partial, key: ArtifactKey, size: u64) -> Self {
        Incoming { partial, key, size }
    }

    /// Returns the number of bytes that were appended, where a broken transfer resumes.
    pub fn received(&self) -> u64 {
        self.partial.length()
    }

    /// Appends the next bytes. After an error of the store the value is only good for being dropped.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), ReceiveError> {
        let (id, size) = (self.key.id, self.size);
        if bytes.len() as u64 > size - self.received() {
            return Err(ReceiveError::TooLong { id, size });
        }
        Ok(self.partial.append(bytes)?)
    }

    /// Writes what is still in memory to the file, so that a copy that waits for [`Incoming::finish_all`] takes no memory.
    pub fn write_out(&mut self) -> Result<(), ReceiveError> {
        Ok(self.partial.write_out()?)
    }

    /// Verifies the content and adds the artifact to the store, which keeps it through a crash when this returns. Succeeds too if another
    /// operation has added the artifact meanwhile.
    pub fn finish(self) -> Result<(), ReceiveError> {
        self.verify()?;
        Ok(self.partial.keep(&self.key)?)
    }

    /// Finishes several artifacts of one store, which takes much less time than one after the other if they are small.
    pub fn finish_all(
        all: impl IntoIterator<Item = Incoming>,
    ) -> Vec<(ArtifactId, Result<(), ReceiveError>)> {
        let mut results = Vec::new();
        let mut verified = BTreeMap::new();
        for incoming in all {
            match incoming.verify() {
                Ok(()) => drop(verified.insert(incoming.key, incoming.partial)),
                Err(error) => results.push((incoming.key.id, Err(error))),
            }
        }
        let kept = Partial::keep_all(verified).into_iter();
        results.extend(kept.map(|(key, kept)| (key.id, kept.map_err(ReceiveError::from))));
        results
    }

    fn verify(&self) -> Result<(), ReceiveError> {
        let (id, size, received) = (self.key.id, self.size, self.received());
        if received != size {
            return Err(ReceiveError::Incomplete { id, size, received });
        }
        match self.partial.id() {
            found if found == id => Ok(()),
            found => Err(ReceiveError::Damaged { id, found }),
        }
    }
}
