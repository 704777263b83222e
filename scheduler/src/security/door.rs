//! The door of the scheduler's port, and its own side of TLS.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use brasserie_common::access::{CallOrigin, Identity, LocalUser, Role, ShardLabel};
use brasserie_common::{Principal, WallTime};
use brasserie_common_identity::{
    Authority, CertificateDer, IdentityError, Lifetime, Proven, client_config, proven,
    server_config,
};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::{Credentials, Doorkeeper, THRIFT};

use super::{Guard, LAPSED_FOR, NotAdmitted, PlainPeers};
use crate::audit::RefusalReason;

/// The scheduler's certificate in the form that TLS takes, for calls in both directions.
pub(super) struct OwnSide {
    server: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
    /// The time from which a new certificate is wanted: half of the life of this one, or the end of a rotation.
    renew_at: WallTime,
    /// The number of authorities whose certificates are accepted.
    trusts: usize,
}

impl OwnSide {
    /// Creates a key and its certificate. They are in memory only: the next start creates others.
    pub(super) fn create(authority: &Authority, now: WallTime) -> Result<Self, IdentityError> {
        let own = authority.credential(Role::Scheduler, now, Lifetime::SCHEDULER)?;
        let trusted = authority.trusted(now);
        let half = now + Lifetime::SCHEDULER.0 / 2;
        let former_until = authority.former_until().filter(|_| trusted.len() > 1);
        Ok(OwnSide {
            server: server_config(&own, &trusted, THRIFT)?,
            client: client_config(Some(&own), &trusted, THRIFT)?,
            renew_at: former_until.map_or(half, |until| until.min(half)),
            trusts: trusted.len(),
        })
    }
}

impl Guard {
    /// Calls `look` with the scheduler's side of TLS, renewed if it is time.
    fn own<T>(&self, look: impl FnOnce(&OwnSide) -> T) -> T {
        let now = Clock.wall();
        let mut own = self.own.lock();
        let trusted = own.trusts;
        if now >= own.renew_at {
            match OwnSide::create(&self.authority(), now) {
                Ok(renewed) => *own = renewed,
                // The old one is good for as long again, and each new connection tries again.
                Err(error) => tracing::error!(%error, "cannot renew the scheduler's certificate"),
            }
        }
        let (seen, has_ended) = (look(&own), own.trusts < trusted);
        drop(own);
        if has_ended {
            tracing::warn!(
                "a rotation of the authority was not finished in time: certificates of the former one are not accepted any more"
            );
            self.tell_workers();
            self.ask_for_proofs_anew();
        }
        seen
    }

    /// Errors if a certificate of a shard is revoked. Notes which authority it is of.
    fn check_worker(
        &self,
        shard: &ShardLabel,
        proven: &Proven,
        shown: &CertificateDer<'_>,
    ) -> Result<(), NotAdmitted> {
        let authority = self.authority();
        let mut tokens = self.tokens.lock();
        tokens.adopt(shard, proven.until);
        tokens.check_shard(shard, proven.issued)?;
        // A certificate that was issued may be lost on its way, so only one that is shown counts.
        if authority.has_issued(shown) {
            tokens.note_authority(shard, &authority.hash());
        }
        Ok(())
    }

    /// Returns who the holder of a verified certificate is.
    fn holder(&self, from: SocketAddr, shown: &CertificateDer<'_>) -> Result<Identity, String> {
        let now = Clock.wall();
        let proven = proven(shown).map_err(|error| error.to_string())?;
        let certified = &proven.certified;
        if certified.cluster != self.cluster {
            return Err("its certificate is of another cluster".to_owned());
        }
        let role = match (&certified.shard, certified.role) {
            (Some(shard), Role::Worker) => {
                let checked = self.check_worker(shard, &proven, shown);
                checked.map_err(|error| error.to_string())?;
                match (now < proven.until, now < proven.until + LAPSED_FOR) {
                    (true, _) => Role::Worker,
                    (false, true) => Role::Lapsed,
                    (false, false) => return Err(NotAdmitted::Lapsed.to_string()),
                }
            }
            // Workers renew theirs with the new authority. Nobody else has a certificate for longer than minutes.
            _ if !self.authority().has_issued(shown) => {
                return Err("its certificate is of an authority that was replaced".to_owned());
            }
            (_, role) if now < proven.until => role,
            _ => return Err("its certificate has expired".to_owned()),
        };
        Ok(Identity {
            role,
            shard: certified.shard.clone(),
            token: certified.token,
            owner: None,
            run_as: Arc::default(),
            from: from.into(),
        })
    }
}

impl Doorkeeper for Guard {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        Some(self.own(|own| Arc::clone(&own.server)))
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        let is_local = from.ip().to_canonical().is_loopback();
        match self.plain {
            PlainPeers::All => Principal::Unauthenticated(from),
            PlainPeers::Loopback if is_local => Principal::Unauthenticated(from),
            PlainPeers::Loopback | PlainPeers::Strangers => {
                let why = "this scheduler takes calls inside TLS only. A worker joins with --join-token, people use a token: see \
                           `brasserie token --help`";
                Principal::stranger(from, why)
            }
        }
    }

    fn identify(&self, from: SocketAddr, certificates: &[CertificateDer<'static>]) -> Principal {
        let Some(first) = certificates.first() else {
            let why = "the caller has neither a certificate nor a token";
            return Principal::stranger(from, why);
        };
        match self.holder(from, first) {
            Ok(identity) => Principal::Authenticated(Arc::new(identity)),
            Err(why) => Principal::stranger(from, why),
        }
    }

    fn failed(&self, from: SocketAddr, why: &str) {
        let by = Principal::stranger(from, "");
        let call = "handshake";
        if self.audit.refused(RefusalReason::Proof, &by, call, why) {
            tracing::warn!(%from, why, "no handshake of TLS with a caller");
        }
    }

    fn local(&self, user: LocalUser) -> Principal {
        let known = self.locals.iter().find(|known| known.uid == user.uid);
        let Some(known) = known else {
            let why = "the local socket is for the scheduler's own user and root. Ask an administrator for a token: `brasserie token create`";
            return Principal::stranger(CallOrigin::Local(user), why);
        };
        Principal::Authenticated(Arc::new(Identity {
            role: Role::Admin,
            shard: None,
            token: None,
            owner: None,
            run_as: Arc::default(),
            from: CallOrigin::Local(known.clone()),
        }))
    }
}

impl Credentials for Guard {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        self.own(|own| Arc::clone(&own.client))
    }

    fn accepts(&self, shown: &CertificateDer<'_>) -> Result<(), String> {
        let proven = proven(shown).map_err(|error| error.to_string())?;
        match &proven.certified.shard {
            Some(shard) => {
                let checked = self.check_worker(shard, &proven, shown);
                checked.map_err(|error| error.to_string())
            }
            None => Err("its certificate is of no worker".to_owned()),
        }
    }

    fn version(&self) -> u64 {
        self.proofs.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Guard({})", self.cluster)
    }
}
