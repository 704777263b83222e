//! Limits how often the certificate of a shard is renewed: each renewal writes the registry, and the holder of a stolen key would otherwise keep
//! the disk from all others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::Shard;
use brasserie_common::access::ShardLabel;
use brasserie_common_identity::AuthorityHash;
use parking_lot::Mutex;

use super::certificates::IssuedChain;
use super::{NotAdmitted, Security};

/// The shortest time between two renewals of a shard, or a quarter of the life of its certificates if that is shorter. A worker renews after half
/// of it, and once more if the answer was lost.
const LEAST_PAUSE: Duration = Duration::from_secs(20);
/// The same after a renewal that has failed.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// The renewals that are under way, and those that were lately.
#[derive(Default)]
pub(super) struct RenewalLimiter(Mutex<BTreeMap<ShardLabel, LastRenewal>>);

/// A renewal of a shard, the last one.
struct LastRenewal {
    /// The authorities that were accepted. If there are others, a worker renews at once.
    authorities: Vec<AuthorityHash>,
    /// The time from which the next one may begin; `None` while this one is under way.
    next: Option<Instant>,
}

/// The right to renew the certificate of a shard once.
pub(crate) struct RenewalTurn {
    security: Arc<Security>,
    shard: ShardLabel,
    /// The second since which certificates of the shard count. A later one says that it has joined anew or is revoked since.
    valid_from: i64,
    /// The pause after it; zero if nothing was done.
    pause: Duration,
}

impl Security {
    /// Begins a renewal. Errors if one is under way for this shard, or was lately. Does not wait for the disk.
    pub(crate) fn begin_renewal(
        self: &Arc<Self>,
        shard: ShardLabel,
    ) -> Result<RenewalTurn, NotAdmitted> {
        let (now, authorities) = (Instant::now(), self.trusted());
        let mut all = self.renewal_limiter.0.lock();
        let is_too_early = |last: &LastRenewal| match last.next {
            None => true,
            Some(next) => now < next && last.authorities == authorities,
        };
        if all.get(&shard).is_some_and(is_too_early) {
            return Err(NotAdmitted::RenewedLately(shard));
        }
        // Old entries decide nothing, and shards come and go.
        all.retain(|_, last| last.next.is_none_or(|next| now < next));
        let begun = LastRenewal {
            authorities,
            next: None,
        };
        all.insert(shard.clone(), begun);
        drop(all);
        let valid_from = self.registry.lock().valid_from(&shard);
        Ok(RenewalTurn {
            security: Arc::clone(self),
            shard,
            valid_from,
            pause: Duration::ZERO,
        })
    }
}

impl RenewalTurn {
    /// Certifies another key of the shard. Waits for the disk.
    pub(crate) fn renew(mut self, request: &[u8]) -> IssuedChain {
        let renewed = self.security.renew(&self.shard, self.valid_from, request);
        self.pause_after(renewed)
    }

    /// Certifies a request of a worker again that has admitted it before. Waits for the disk.
    pub(crate) fn join_again(mut self, secret: &str, shard: &Shard, request: &[u8]) -> IssuedChain {
        let joined = self.security.join(secret, shard, request);
        self.pause_after(joined)
    }

    fn pause_after(&mut self, outcome: IssuedChain) -> IssuedChain {
        self.pause = match &outcome {
            Ok(_) => LEAST_PAUSE.min(self.security.worker_life.0 / 4),
            Err(_) => FAILED_PAUSE,
        };
        outcome
    }
}

impl Drop for RenewalTurn {
    fn drop(&mut self) {
        let mut all = self.security.renewal_limiter.0.lock();
        if self.pause.is_zero() {
            all.remove(&self.shard);
        } else if let Some(renewal) = all.get_mut(&self.shard) {
            renewal.next = Some(Instant::now() + self.pause);
        }
    }
}
