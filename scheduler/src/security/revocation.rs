//! Revocations. They take effect before they are on disk, so that a full disk, or one that does not answer, keeps no stolen key in use.
//!
//! ```text
//! (made) --in memory, workers notified, connections closed--> in effect --the disk takes it--> kept
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
use brasserie_common::access::{Identity, Role, ShardLabel, TokenNumber};
use brasserie_common_identity::Lifetime;
use brasserie_common_runtime::Clock;
use tokio_util::sync::CancellationToken;

use super::tokens::Revocation;
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
    /// seconds at most.
    pub(crate) fn revoke_worker(&self, shard: &Shard) -> Result<(), NotAdmitted> {
        let label = ShardLabel::of(shard);
        let is_meant = |identity: &Identity| identity.shard.as_ref() == Some(&label);
        let revocation = Revocation::Shard {
            shard: shard.clone(),
            now: Clock.wall(),
            life: self.worker_life.0,
        };
        self.revoke(revocation, || {
            self.call_anew();
            self.disconnect(is_meant);
        })
    }

    fn revoke(&self, revocation: Revocation, cut_off: impl FnOnce()) -> Result<(), NotAdmitted> {
        let number = self.tokens.lock().revoke_unkept(revocation)?;
        self.tell_workers();
        cut_off();
        let written = self.write_apart().map_err(|error| error.to_string());
        let kept = written.and_then(|failures| self.wait_until_kept(number, failures));
        kept.map_err(NotAdmitted::NotKept)
    }

    /// Waits until all revocations up to this number are on disk, for some seconds at most. Errors if a write fails after the first `failures`.
    fn wait_until_kept(&self, number: u64, failures: u64) -> Result<(), String> {
        self.disk
            .wait(failures, || self.tokens.lock().are_kept(number))
    }

    fn are_all_kept(&self) -> bool {
        let tokens = self.tokens.lock();
        tokens.are_kept(tokens.revocations())
    }

    /// Makes a thread write the revocations that are not on disk, unless one does so already. Returns the number of writes that have failed.
    fn write_apart(&self) -> io::Result<u64> {
        self.disk.ensure_thread(|| {
            // Invariant: this value is in an `Arc`, and is borrowed here.
            let Some(security) = self.me.upgrade() else {
                return Err(io::Error::other("the scheduler ends"));
            };
            let named = std::thread::Builder::new().name("revocations".to_owned());
            named.spawn(move || security.write_all_unkept()).map(|_| ())
        })
    }

    fn write_all_unkept(&self) {
        loop {
            let is_written = self.write_unkept();
            if self.disk.ends_thread(|| !is_written || self.are_all_kept()) {
                return;
            }
        }
    }

    /// Returns the problem of revocations that are not on disk.
    pub(super) fn unkept_problem(&self) -> Option<String> {
        let why = self.disk.problem().filter(|_| !self.are_all_kept())?;
        Some(format!(
            "revocations are in effect, but not on disk: a restart of the scheduler would lose them. It tries to write them each second: {why}"
        ))
    }

    /// Returns the problem of a disk that does not answer.
    pub(super) fn stalled_problem(&self) -> Option<String> {
        let why = self.disk.stall()?;
        Some(format!(
            "{why}: until it does, no worker joins or renews its certificate, and no token is created. Revocations take effect"
        ))
    }

    /// Writes revocations as soon as the disk takes them, and once more at the end, which waits for the disk for some seconds at most.
    pub(crate) async fn write_late(self: Arc<Self>, stop: CancellationToken) {
        let mut is_over = false;
        while !is_over {
            tokio::select! {
                () = stop.cancelled() => is_over = true,
                () = tokio::time::sleep(RETRY) => {}
            }
            if self.are_all_kept() {
                continue;
            }
            let Ok(failures) = self.write_apart() else {
                continue;
            };
            if is_over {
                let security = Arc::clone(&self);
                let all = security.tokens.lock().revocations();
                let wait = move || security.wait_until_kept(all, failures);
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
    pub(super) fn write_unkept(&self) -> bool {
        let Ok(turn) = self.disk.turn() else {
            return false;
        };
        if self.are_all_kept() {
            return true;
        }
        let had_failed = self.disk.problem().is_some();
        let tokens = self.tokens.lock().clone();
        let is_written = self.keep(&tokens, &turn).is_ok();
        if is_written && had_failed {
            tracing::info!("the revocations that the disk had not taken are on disk");
        }
        is_written
    }
}
