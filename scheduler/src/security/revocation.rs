//! Revocations. They take effect before they are on disk, so that a full disk, or one that does not answer, keeps no stolen key in use.
//!
//! ```text
//! (made) --in memory, workers notified, connections closed--> in effect --the disk takes it--> on disk
//!                                                                |  ^
//!                                                                +--+ it does not: status names it, another attempt each second
//! ```
//!
//! A thread writes them, as nobody can end the wait of a thread for its disk. The caller waits for some seconds at most. A change that was
//! being written meanwhile is put in force with the revocation, and a later one writes it too: so it waits for two writes at most.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::Shard;
use brasserie_common::access::{Identity, Role, TokenNumber};
use brasserie_common_identity::Lifetime;
use brasserie_common_runtime::Clock;
use tokio_util::sync::CancellationToken;

use super::registry::Revocation;
use super::{NotAdmitted, Security};

/// The time between attempts to write revocations that the disk has not taken, as of the store.
const RETRY: Duration = Duration::from_secs(1);

impl Security {
    /// Ends a token, and the connections of its holders, also if the disk takes nothing. Waits for the disk for some seconds at most.
    pub(crate) fn revoke_token(&self, number: TokenNumber) -> Result<(), NotAdmitted> {
        let revocation = Revocation::Token {
            number,
            certified_until: Clock.wall() + 2 * Lifetime::PERSON.0,
        };
        self.revoke(revocation, || {
            self.disconnect(|identity| {
                identity.role != Role::Worker && identity.token == Some(number)
            });
        })
    }

    /// Ends the certificates of a shard, and its connections in both directions, also if the disk takes nothing. Waits for the disk for some
    /// seconds at most. Returns whether a certificate of the shard was known. Workers are not notified of what they know: see
    /// [`Security::has_revoked`].
    pub(crate) fn revoke_worker(&self, shard: &Shard) -> Result<bool, NotAdmitted> {
        let registry = self.registry.lock();
        let label = registry.label_of(shard);
        let is_known = registry.is_known(&label);
        drop(registry);
        let is_meant = |identity: &Identity| identity.shard.as_ref() == Some(&label);
        if self.has_revoked(shard) {
            self.disconnect(is_meant);
            return self.keep_all().map(|()| is_known);
        }
        let revocation = Revocation::Shard {
            shard: label.clone(),
            now: Clock.wall(),
            life: self.worker_life.0,
        };
        self.revoke(revocation, || {
            self.reconnect_to_workers();
            self.disconnect(is_meant);
        })?;
        Ok(is_known)
    }

    /// Returns whether all certificates of a shard that are known are revoked, so that another revocation changes nothing.
    pub(crate) fn has_revoked(&self, shard: &Shard) -> bool {
        let registry = self.registry.lock();
        registry.has_revoked(&registry.label_of(shard))
    }

    /// Waits until the revocations are on disk, for some seconds at most. Errors if they are not.
    fn keep_all(&self) -> Result<(), NotAdmitted> {
        let all = self.registry.lock().revocations();
        if self.are_all_written() {
            return Ok(());
        }
        self.keep(all)
    }

    fn revoke(&self, revocation: Revocation, cut_off: impl FnOnce()) -> Result<(), NotAdmitted> {
        let number = self.registry.lock().revoke_in_memory(revocation)?;
        self.notify_workers();
        cut_off();
        self.keep(number)
    }

    /// Has a thread write the revocations, and waits for those up to this number.
    fn keep(&self, number: u64) -> Result<(), NotAdmitted> {
        let written = self.write_in_thread().map_err(|error| error.to_string());
        let kept = written.and_then(|failures| self.wait_until_written(number, failures));
        kept.map_err(NotAdmitted::NotWritten)
    }

    /// Waits until all revocations up to this number are on disk, for some seconds at most. Errors if a write fails after the first `failures`.
    fn wait_until_written(&self, number: u64, failures: u64) -> Result<(), String> {
        self.writes
            .wait(failures, || self.registry.lock().are_written(number))
    }

    fn are_all_written(&self) -> bool {
        let registry = self.registry.lock();
        registry.are_written(registry.revocations())
    }

    /// Makes a thread write the revocations that are not on disk, unless one does so already. Returns the number of writes that have failed.
    fn write_in_thread(&self) -> io::Result<u64> {
        self.writes.ensure_thread(|| {
            // Invariant: this value is in an `Arc`, and is borrowed here.
            let Some(security) = self.weak_self.upgrade() else {
                return Err(io::Error::other("the scheduler ends"));
            };
            let named = std::thread::Builder::new().name("revocations".to_owned());
            named.spawn(move || security.write_until_done()).map(|_| ())
        })
    }

    fn write_until_done(&self) {
        loop {
            let is_written = self.write_once();
            if self
                .writes
                .ends_thread(|| !is_written || self.are_all_written())
            {
                return;
            }
        }
    }

    /// Returns the problem of revocations that are not on disk.
    pub(super) fn unwritten_problem(&self) -> Option<String> {
        let why = self.writes.problem().filter(|_| !self.are_all_written())?;
        Some(format!(
            "revocations are in effect, but not on disk: a restart of the scheduler would lose them. It tries to write them each second: {why}"
        ))
    }

    /// Returns the problem of a disk that does not answer.
    pub(super) fn stall_problem(&self) -> Option<String> {
        let why = self.writes.stall()?;
        Some(format!(
            "{why}: until it does, no worker joins or renews its certificate, and no token is created. Revocations take effect"
        ))
    }

    /// Writes revocations as soon as the disk takes them, and once more at the end, which waits for the disk for some seconds at most.
    pub(crate) async fn write_revocations(self: Arc<Self>, stop: CancellationToken) {
        let mut is_over = false;
        while !is_over {
            tokio::select! {
                () = stop.cancelled() => is_over = true,
                () = tokio::time::sleep(RETRY) => {}
            }
            if self.are_all_written() {
                continue;
            }
            let Ok(failures) = self.write_in_thread() else {
                continue;
            };
            if is_over {
                let security = Arc::clone(&self);
                let all = security.registry.lock().revocations();
                let wait = move || security.wait_until_written(all, failures);
                if let Ok(Err(why)) = tokio::task::spawn_blocking(wait).await {
                    tracing::error!(
                        "the scheduler ends with revocations that are not on disk, and that its next start does not know. Repeat them then \
                         (brasserie token revoke, brasserie worker revoke): {why}"
                    );
                }
            }
        }
    }

    /// Writes the revocations that are not on disk. Returns whether all that were made before are there now.
    pub(super) fn write_once(&self) -> bool {
        let Ok(turn) = self.writes.turn() else {
            return false;
        };
        if self.are_all_written() {
            return true;
        }
        let had_failed = self.writes.problem().is_some();
        let copy = self.registry.lock().clone();
        let is_written = self.write(&copy, &turn).is_ok();
        if is_written && had_failed {
            tracing::info!("the revocations that the disk had not taken are on disk");
        }
        is_written
    }
}
