//! Certifies the keys of workers that join or renew their certificates, and those of people for calls to workers.

use std::sync::Arc;

use brasserie_common::access::{Identity, IdentityProof, Role, ShardLabel, TokenNumber};
use brasserie_common::{Principal, Shard, WallTime};
use brasserie_common_identity::{CertificateDer, Certified, Lifetime, Secret, proven};
use brasserie_common_runtime::Clock;

use super::registry::Registry;
use super::{NotAdmitted, Security};

/// The certificate that was issued and those that vouch for it, or the reason why there is none.
pub(crate) type IssuedChain = Result<Vec<CertificateDer<'static>>, NotAdmitted>;

impl Security {
    /// Errors if a worker may not join. Returns whether the same request was admitted before. Does not wait for the disk, so
    /// that callers without a good token wait in no queue.
    pub(crate) fn check_join(
        &self,
        secret: &str,
        shard: &Shard,
        request: &[u8],
    ) -> Result<bool, NotAdmitted> {
        let secret = Secret::from_digits(secret).map_err(|_| NotAdmitted::Unknown)?;
        let trusted = self.trusted();
        let registry = self.registry.lock();
        let checked = registry.check_admission(Clock.wall(), &secret, (shard, request));
        let (number, is_again) = checked?;
        registry.check_authority(number, &trusted)?;
        Ok(is_again)
    }

    /// Admits a worker that joins. Waits for the disk.
    pub(crate) fn join(&self, secret: &str, shard: &Shard, request: &[u8]) -> IssuedChain {
        let now = Clock.wall();
        let secret = Secret::from_digits(secret).map_err(|_| NotAdmitted::Unknown)?;
        let label = ShardLabel::of(shard);
        let touched = (Some(label.clone()), Some(secret.number()));
        let (shard, request, joined) = (shard.clone(), request.to_vec(), label.clone());
        let admit = move |security: &Security, registry: &mut Registry| {
            let life = security.worker_life.0;
            let (token, life) = registry.admit(now, &secret, (&shard, &request), life)?;
            registry.check_authority(token, &security.trusted())?;
            // A request that cannot be certified uses up no token.
            security.certify(registry, &request, (joined, Some(token)), life.issued)
        };
        self.change(touched, admit, move |security| {
            // A former key of the shard, with an expired certificate, may not be renewed any more.
            security.disconnect(|identity| identity.shard.as_ref() == Some(&label));
        })
    }

    /// Certifies another key of a worker that has a certificate, unless those since this second do not count any more. Waits for the disk.
    pub(crate) fn renew(&self, shard: &ShardLabel, valid_from: i64, request: &[u8]) -> IssuedChain {
        let now = Clock.wall();
        let (renewed, shard, request) = (shard.clone(), shard.clone(), request.to_vec());
        let renew = move |security: &Security, registry: &mut Registry| {
            if registry.valid_from(&shard) != valid_from {
                return Err(NotAdmitted::Revoked(shard));
            }
            let life = registry.renew(now, &shard, security.worker_life.0)?;
            security.certify(registry, &request, (shard, None), life.issued)
        };
        self.change((Some(renewed.clone()), None), renew, move |security| {
            security.admit_again(&renewed);
        })
    }

    /// Certifies a key of a person for calls to workers, for no longer than its token is valid.
    pub(crate) fn certify_person(&self, person: &Identity, request: &[u8]) -> IssuedChain {
        if person.proof == IdentityProof::Certificate {
            return Err(NotAdmitted::NoCertificate);
        }
        let (now, mut life) = (Clock.wall(), Lifetime::PERSON);
        if let Some(token) = person.token {
            let holder = self.token_holder(token)?;
            life.0 = life.0.min(now.until(holder.until));
        }
        let certified = Certified {
            trust_domain: self.trust_domain.clone(),
            role: person.role,
            shard: None,
            token: person.token,
        };
        Ok(self.authority().certify(request, &certified, now, life)?)
    }

    /// Certifies a key of a worker, which has joined with this token, or renews.
    fn certify(
        &self,
        registry: &mut Registry,
        request: &[u8],
        (shard, token): (ShardLabel, Option<TokenNumber>),
        issued: WallTime,
    ) -> IssuedChain {
        let authority = self.authority();
        if token.is_some() {
            registry.note_authority(&shard, &authority.hash());
        }
        let certified = Certified {
            trust_domain: self.trust_domain.clone(),
            role: Role::Worker,
            shard: Some(registry.named(shard.clone())),
            token,
        };
        let chain = authority.certify(request, &certified, issued, self.worker_life)?;
        registry.note_key(&shard, proven(&chain[0])?.key);
        Ok(chain)
    }

    /// Makes the open connections of a worker with an expired certificate those of a worker that has renewed it.
    fn admit_again(&self, shard: &ShardLabel) {
        if let Some(server) = &*self.server.lock() {
            let is_lapsed =
                |peer: &&Identity| peer.role == Role::Lapsed && peer.shard.as_ref() == Some(shard);
            server.identify(|peer| {
                let lapsed = peer.identity().filter(is_lapsed)?;
                Some(Principal::Authenticated(Arc::new(Identity {
                    role: Role::Worker,
                    ..lapsed.clone()
                })))
            });
        }
    }
}
