//! Identifies the peers of the scheduler's Thrift port, and holds its own side of TLS for calls.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use brasserie_common::access::{
    CallOrigin, INSIDE_TLS, Identity, IdentityProof, LocalUser, Role, ShardLabel,
};
use brasserie_common::{Principal, Shard, WallTime};
use brasserie_common_identity::{
    Authority, AuthorityHash, CertificateDer, IdentityError, Life, Lifetime, Proven, client_config,
    proven, server_config,
};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::{Authenticator, Credentials, THRIFT};

use super::registry::LAPSED_FOR;
use super::{NotAdmitted, OwnCertificates, PlainPeers, Security};
use crate::audit::RefusalReason;

/// The scheduler's certificate in the form that TLS takes, for calls in both directions.
pub(super) struct RpcTls {
    server: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
    issued: WallTime,
    /// The time at which the rotation that is under way ends by itself.
    former_until: Option<WallTime>,
    /// The number of authorities whose certificates are accepted.
    trusted: usize,
}

impl RpcTls {
    /// Creates a key and its certificate. They are in memory only: the next start creates others.
    pub(super) fn create(authority: &Authority, now: WallTime) -> Result<Self, IdentityError> {
        let own = authority.credential(Role::Scheduler, now, Lifetime::SCHEDULER)?;
        let trusted = authority.trusted(now);
        let former_until = authority.former_until().filter(|_| trusted.len() > 1);
        Ok(RpcTls {
            server: server_config(&own, &trusted, THRIFT)?,
            client: client_config(Some(&own), &trusted, THRIFT)?,
            issued: now,
            former_until,
            trusted: trusted.len(),
        })
    }
}

impl Security {
    /// Calls `read` with the scheduler's side of TLS, renewed if it is time.
    fn with_rpc_tls<T>(&self, read: impl FnOnce(&RpcTls) -> T) -> T {
        let now = Clock.wall();
        let mut own = self.own.lock();
        let OwnCertificates {
            authority, rpc_tls, ..
        } = &mut *own;
        let trusted = rpc_tls.trusted;
        let has_ended = rpc_tls.former_until.is_some_and(|until| now >= until);
        if has_ended || needs_renewal(rpc_tls.issued, now) {
            match RpcTls::create(authority, now) {
                Ok(renewed) => *rpc_tls = renewed,
                // The old one is good for as long again, and each new connection tries again.
                Err(error) => tracing::error!(%error, "cannot renew the scheduler's certificate"),
            }
        }
        let (found, has_ended) = (read(rpc_tls), rpc_tls.trusted < trusted);
        drop(own);
        if has_ended {
            tracing::warn!(
                "a rotation of the authority was not finished in time: certificates of the former one are not accepted any more"
            );
            self.notify_workers();
            self.reconnect_certified_peers();
            self.disconnect_replaced(None);
        }
        found
    }

    /// Errors if a certificate of a shard is revoked, or of a former authority and not for a key of the shard: somebody else may have the key of
    /// that authority. `issuer` is the current authority; `None` means a former one.
    fn check_worker(
        &self,
        shard: &ShardLabel,
        proven: &Proven,
        issuer: Option<AuthorityHash>,
    ) -> Result<(), NotAdmitted> {
        let issued = proven.issued;
        let mut registry = self.registry.lock();
        let Some(authority) = issuer else {
            registry.check_shard(shard, issued)?;
            return registry.check_key(shard, proven.key);
        };
        let until = proven.until;
        let is_new = registry.note_certificate(shard, Life { issued, until });
        registry.check_shard(shard, issued)?;
        // A certificate that was issued may be lost on its way, so only one that is shown counts.
        registry.note_authority(shard, &authority);
        if registry.note_shown_key(shard, proven.key) || is_new {
            tracing::warn!(
                %shard,
                "a worker shows a valid certificate that this scheduler does not know. Another head node may have issued it, or this one before its \
                 data directory was restored. Otherwise somebody has the key of the authority: then `brasserie ca rotate` replaces it."
            );
        }
        Ok(())
    }

    /// Notes the shard of a worker whose certificate shows only its hash, as those of earlier releases do.
    pub(crate) fn note_name(&self, by: &Principal, shard: &Shard) {
        let Principal::Authenticated(identity) = by else {
            return;
        };
        let label = identity.shard.as_ref();
        let is_hash = label.is_some_and(|label| label.shard().is_none());
        if is_hash && identity.speaks_for(shard) {
            self.registry.lock().note_name(shard);
        }
    }

    /// Returns the holder of a certificate that the handshake has verified.
    fn certificate_holder(
        &self,
        from: SocketAddr,
        shown: &CertificateDer<'_>,
    ) -> Result<Identity, String> {
        let proven = proven(shown).map_err(|error| error.to_string())?;
        self.proven_holder(from, (proven, self.issuer(shown)), Clock.wall())
    }

    /// Returns the authority if it has issued a certificate; `None` if a former one has.
    fn issuer(&self, shown: &CertificateDer<'_>) -> Option<AuthorityHash> {
        let authority = self.authority();
        authority.has_issued(shown).then(|| authority.hash())
    }

    /// Returns the holder of a certificate that proves this at a time. It has this issuer, or that is a former authority.
    pub(super) fn proven_holder(
        &self,
        from: SocketAddr,
        (proven, issuer): (Proven, Option<AuthorityHash>),
        now: WallTime,
    ) -> Result<Identity, String> {
        let (certified, is_valid) = (&proven.certified, now < proven.until);
        if certified.trust_domain != self.trust_domain {
            return Err("its certificate is of another cluster".to_owned());
        }
        let proof = IdentityProof::Certificate;
        match (&certified.shard, certified.role) {
            (Some(shard), Role::Worker) => {
                // Certificates of earlier releases do not show the shard of a hash.
                let shard = &self.registry.lock().named(shard.clone());
                if now >= proven.until + LAPSED_FOR {
                    return Err(NotAdmitted::Lapsed.to_string());
                }
                let checked = self.check_worker(shard, &proven, issuer);
                checked.map_err(|error| error.to_string())?;
                let role = if is_valid { Role::Worker } else { Role::Lapsed };
                Ok(Identity {
                    shard: Some(shard.clone()),
                    token: certified.token,
                    ..Identity::new(role, proof, from)
                })
            }
            // Workers renew theirs with the new authority. Nobody else has a certificate for longer than minutes.
            _ if issuer.is_none() => {
                Err("its certificate is of an authority that was replaced".to_owned())
            }
            _ if !is_valid => Err("its certificate has expired".to_owned()),
            (_, role @ Role::Scheduler) => Ok(Identity::new(role, proof, from)),
            // The certificate of a person is worth what its token is worth now.
            _ => {
                let token = certified.token.ok_or(
                    "its certificate is for calls to workers only, as it goes back to no token",
                )?;
                let person = self.token_holder(token);
                let person = person.map_err(|error| error.to_string())?;
                Ok(Identity {
                    until: Some(person.until.min(proven.until)),
                    proof,
                    ..person.identity(from)
                })
            }
        }
    }
}

/// Returns whether the scheduler needs a new certificate for itself: from half of the life of the one that was issued at this time, or if the
/// clock was set back.
pub(super) fn needs_renewal(issued: WallTime, now: WallTime) -> bool {
    now < issued || now >= issued + Lifetime::SCHEDULER.0 / 2
}

impl Authenticator for Security {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        Some(self.with_rpc_tls(|tls| Arc::clone(&tls.server)))
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        let is_local = from.ip().to_canonical().is_loopback();
        match self.plain_peers {
            PlainPeers::All => Principal::Unauthenticated(from),
            PlainPeers::Loopback if is_local => Principal::Unauthenticated(from),
            PlainPeers::Loopback | PlainPeers::Strangers => {
                let why = format!(
                    "this scheduler takes calls {INSIDE_TLS}. A worker joins with --join-token, people use a token: see \
                     `brasserie token --help`"
                );
                Principal::plain_stranger(from, why)
            }
        }
    }

    fn identify(&self, from: SocketAddr, certificates: &[CertificateDer<'static>]) -> Principal {
        let Some(first) = certificates.first() else {
            let why = "the caller has neither a certificate nor a token";
            return Principal::stranger(from, why);
        };
        match self.certificate_holder(from, first) {
            Ok(identity) => Principal::Authenticated(Arc::new(identity)),
            Err(why) => {
                // The certificate is of the authority or a former one: the handshake has verified that.
                let shown = proven(first).map(|proven| proven.certified);
                let (shard, token) = shown
                    .map(|certified| (certified.shard, certified.token))
                    .unwrap_or_default();
                let shard = shard.map(|shard| self.registry.lock().named(shard));
                Principal::refused_certificate(from, why, (shard, token))
            }
        }
    }

    fn failed(&self, from: SocketAddr, why: &str) {
        let by = Principal::stranger(from, "");
        let call = "handshake";
        let why = &handshake_failure(why);
        if self.audit.refused(RefusalReason::Proof, &by, call, why) {
            tracing::warn!(%from, why, "no handshake of TLS with a caller");
        }
    }

    fn local(&self, user: LocalUser) -> Principal {
        let known = self.local_admins.iter().find(|known| known.uid == user.uid);
        let Some(known) = known else {
            let why = "the local socket is for the scheduler's own user and root. Ask an administrator for a token: `brasserie token create --role ROLE`";
            return Principal::stranger(CallOrigin::Local(user), why);
        };
        let (proof, from) = (IdentityProof::LocalSocket, CallOrigin::Local(known.clone()));
        Principal::Authenticated(Arc::new(Identity::new(Role::Admin, proof, from)))
    }
}

/// Returns why a handshake with a caller has failed, with what that means if the authorities differ.
fn handshake_failure(why: &str) -> String {
    let meaning = match why {
        _ if why.contains("UnknownCA") => {
            "the caller does not accept the authority of this scheduler. Its token or certificate is of another cluster, or of an authority \
             that was replaced: it needs a new token"
        }
        _ if why.contains("UnknownIssuer") => {
            "the caller has a certificate of another authority. It is of another cluster, or its authority was replaced, and it needs a new \
             token. Otherwise somebody may pose as a worker"
        }
        _ => return why.to_owned(),
    };
    format!("{why}: {meaning}")
}

impl Credentials for Security {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        self.with_rpc_tls(|tls| Arc::clone(&tls.client))
    }

    fn accepts(&self, shown: &[CertificateDer<'static>]) -> Result<(), String> {
        let shown = shown.first().ok_or("it has no certificate")?;
        let proven = proven(shown).map_err(|error| error.to_string())?;
        match &proven.certified.shard {
            Some(shard) => {
                let checked = self.check_worker(shard, &proven, self.issuer(shown));
                checked.map_err(|error| error.to_string())
            }
            None => Err("its certificate is of no worker".to_owned()),
        }
    }

    fn version(&self) -> u64 {
        self.credentials_version.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Security {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Security({})", self.trust_domain)
    }
}
