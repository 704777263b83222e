//! Revocations. They take effect before they are on disk, so that a full disk keeps no stolen key in use.
//!
//! ```text
//! (made) --in memory, workers notified, connections closed--> in effect --the disk takes it--> kept
//!                                                                |  ^
//!                                                                +--+ it does not: status names it, another attempt each second
//! ```

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::Shard;
use brasserie_common::access::{Identity, Role, ShardLabel};
use brasserie_common_identity::Lifetime;
use brasserie_common_runtime::Clock;
use tokio_util::sync::CancellationToken;

use super::tokens::Tokens;
use super::{Guard, NotAdmitted};

/// The time between attempts to write revocations that the disk has not taken, as of the store.
const RETRY: Duration = Duration::from_secs(1);

impl Guard {
    /// Ends a token, and the connections of its holders, also if the disk takes nothing. Waits for the disk.
    pub(crate) fn revoke_token(&self, number: &str) -> Result<(), NotAdmitted> {
        let certified_until = Clock.wall() + 2 * Lifetime::PERSON.0;
        self.revoke(
            |tokens| tokens.revoke(number, certified_until),
            |guard, number| {
                guard.disconnect(|identity| {
                    identity.role != Role::Worker && identity.token == Some(number)
                });
            },
        )
    }

    /// Ends the certificates of a shard, and its connections in both directions, also if the disk takes nothing. Waits for the disk.
    pub(crate) fn revoke_worker(&self, shard: &Shard) -> Result<(), NotAdmitted> {
        let label = ShardLabel::of(shard);
        let is_meant = |identity: &Identity| identity.shard.as_ref() == Some(&label);
        self.revoke(
            |tokens| tokens.revoke_shard(Clock.wall(), shard, self.worker_life.0),
            |guard, ()| {
                guard.call_anew();
                guard.disconnect(is_meant);
            },
        )
    }

    fn revoke<T>(
        &self,
        make: impl FnOnce(&mut Tokens) -> Result<T, NotAdmitted>,
        cut_off: impl FnOnce(&Self, T),
    ) -> Result<(), NotAdmitted> {
        let _turn = self.changing.lock();
        let (changed, made) = self.changed(make)?;
        self.put_in_force(changed.clone());
        self.tell_workers();
        cut_off(self, made);
        self.keep(&changed).map_err(|why| {
            let why = why.to_string();
            self.unkept.lock().replace(why.clone());
            NotAdmitted::NotKept(why)
        })
    }

    /// Returns the problem of revocations that are not on disk.
    pub(super) fn unkept_problem(&self) -> Option<String> {
        let unkept = self.unkept.lock().clone();
        unkept.map(|why| {
            format!(
                "revocations are in effect, but not on disk: a restart of the scheduler would lose them. It tries to write them each second: {why}"
            )
        })
    }

    /// Writes revocations as soon as the disk takes them, and once more at the end.
    pub(super) async fn write_late(self: Arc<Self>, stop: CancellationToken) {
        let mut is_over = false;
        while !is_over {
            tokio::select! {
                () = stop.cancelled() => is_over = true,
                () = tokio::time::sleep(RETRY) => {}
            }
            if self.unkept.lock().is_none() {
                continue;
            }
            let guard = Arc::clone(&self);
            // The status has its error, if there was one.
            let _ = tokio::task::spawn_blocking(move || guard.write_unkept()).await;
        }
    }

    pub(super) fn write_unkept(&self) {
        let _turn = self.changing.lock();
        let tokens = self.tokens.lock().clone();
        if self.keep(&tokens).is_ok() {
            tracing::info!("the revocations that the disk had not taken are on disk");
        }
    }
}
