//! The certificates of others that a worker accepts, by its own authorities and the scheduler's rules.
//!
//! The scheduler sends its rules after the first heartbeat of each start of a worker, and after each change. Before that, the worker
//! refuses other workers and people, so that no restart makes it accept a revoked certificate.
//!
//! While a rotation replaces the authority, somebody else may have the key of the former one. A worker with a certificate of the new
//! authority accepts schedulers and people of that one alone. Other workers may be of the former one until the rotation ends, as they renew
//! later.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use brasserie_common::Principal;
use brasserie_common::access::{
    INSIDE_TLS, Identity, IdentityProof, Role, ShardLabel, TokenNumber,
};
use brasserie_common_identity::{AuthorityHash, CertificateDer, Proven, leads_to, proven};
use brasserie_common_runtime::Clock;
use brasserie_thrift::generated::brasserie::CertificateNews;
use brasserie_thrift::rpc::{Authenticator, Credentials};

use super::Member;
use super::certificate::OwnCertificate;

/// The scheduler's rules for certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CertificateRules {
    /// The certificates of a shard that were issued before this second are revoked.
    shards: BTreeMap<ShardLabel, i64>,
    /// The revoked tokens of people who may still have a certificate.
    tokens: BTreeSet<TokenNumber>,
    /// The authorities whose certificates the scheduler accepts; empty if it names none.
    authorities: BTreeSet<AuthorityHash>,
    /// The process of the scheduler, and the number of these rules in that process.
    version: (i64, i64),
}

impl From<CertificateNews> for CertificateRules {
    fn from(news: CertificateNews) -> Self {
        let shards = news.shards.unwrap_or_default().into_iter();
        let shards = shards.filter_map(|revoked| {
            let label = ShardLabel::from_label(&revoked.shard?)?;
            Some((label, revoked.issued_before.unwrap_or_default()))
        });
        let tokens = news.tokens.unwrap_or_default().into_iter();
        let tokens = tokens.filter_map(|number| TokenNumber::from_text(&number));
        let authorities = news.authorities.unwrap_or_default().into_iter();
        let authorities = authorities.filter_map(|hash| hash.try_into().ok());
        CertificateRules {
            shards: shards.collect(),
            tokens: tokens.collect(),
            authorities: authorities.map(AuthorityHash).collect(),
            version: (
                news.source.unwrap_or_default(),
                news.number.unwrap_or_default(),
            ),
        }
    }
}

impl CertificateRules {
    /// Returns whether these rules are of the same process as others, and later.
    fn is_after(&self, other: &Self) -> bool {
        self.version.0 == other.version.0 && self.version.1 > other.version.1
    }

    /// Returns whether the authorities are others than those of the worker's certificate, because a rotation has begun or ended.
    pub(super) fn differ_from(&self, own: &OwnCertificate) -> bool {
        !self.authorities.is_empty() && self.authorities != *own.authorities()
    }

    /// Returns whether the worker's certificate was issued with an authority that is not accepted any more, because a rotation has ended.
    fn end_authority_of(&self, own: &OwnCertificate) -> bool {
        !self.authorities.is_empty() && !own.authorities().is_subset(&self.authorities)
    }
}

impl Member {
    /// Puts rules of the scheduler in force, and closes connections of peers that they forbid.
    pub(super) fn update_rules(&self, rules: CertificateRules) {
        let mut in_force = self.rules.lock();
        // Calls of the scheduler may overtake each other.
        if in_force
            .as_ref()
            .is_some_and(|known| known.is_after(&rules))
        {
            return;
        }
        let former = in_force.replace(rules.clone());
        drop(in_force);
        let is_first = former.is_none();
        let former = former.unwrap_or_default();
        let is_new_shard = |shard: &ShardLabel| {
            let revoked = rules.shards.get(shard);
            revoked.is_some() && revoked != former.shards.get(shard)
        };
        let is_new_token =
            |token: &TokenNumber| rules.tokens.contains(token) && !former.tokens.contains(token);
        // Only workers may have connected with a certificate of the former authority.
        let has_ended = rules.end_authority_of(&self.own.lock());
        if has_ended || rules.shards.keys().any(is_new_shard) {
            // Servers prove themselves again too.
            self.reconnect_calls();
        }
        if let Some(server) = &*self.server.lock() {
            server.disconnect(|peer| match peer {
                Principal::Authenticated(identity) => match &identity.shard {
                    _ if has_ended && identity.role == Role::Worker => true,
                    Some(shard) => is_new_shard(shard),
                    None => identity.token.as_ref().is_some_and(is_new_token),
                },
                // The worker refused some of them only because it had no rules yet. They call again.
                Principal::Stranger(_) => is_first,
                Principal::Unauthenticated(_) | Principal::Own => false,
            });
        }
        if self.needs_renewal() {
            self.renewal_wanted.notify_one();
        }
    }

    /// Returns the holder of the first of these certificates, which the handshake has verified.
    fn certificate_holder(
        &self,
        from: SocketAddr,
        shown: &[CertificateDer<'static>],
    ) -> Result<Identity, String> {
        let proven = proven_by(shown)?;
        if proven.certified.trust_domain != self.trust_domain {
            return Err("its certificate is of another cluster".to_owned());
        }
        if proven.until <= Clock.wall() {
            return Err("its certificate has expired".to_owned());
        }
        self.check_accepted(&proven, shown)?;
        let certified = proven.certified;
        // A program renews its certificate over the connections that it has. A person's is good for its minutes alone.
        let is_program = matches!(certified.role, Role::Scheduler | Role::Worker);
        Ok(Identity {
            shard: certified.shard,
            token: certified.token,
            until: (!is_program).then_some(proven.until),
            ..Identity::new(certified.role, IdentityProof::Certificate, from)
        })
    }

    /// Errors if a valid certificate is revoked, or of an authority whose certificates are not accepted for its role.
    fn check_accepted(
        &self,
        proven: &Proven,
        shown: &[CertificateDer<'static>],
    ) -> Result<(), String> {
        self.check_authority(proven.certified.role, shown)?;
        self.check_revoked(proven)
    }

    fn check_authority(&self, role: Role, shown: &[CertificateDer<'static>]) -> Result<(), String> {
        let issuer = {
            let (own, rules) = (self.own.lock(), self.rules.lock());
            let has_ended = rules
                .as_ref()
                .is_some_and(|rules| rules.end_authority_of(&own));
            if own.authorities().len() == 1 || (role == Role::Worker && !has_ended) {
                return Ok(());
            }
            own.issuer().clone()
        };
        match leads_to(shown, &issuer, Clock.wall()) {
            true => Ok(()),
            false => Err(
                "its certificate is of an authority that was replaced. A command that runs again gets a certificate of the new one; a second \
                 head node needs a copy of the new one"
                    .to_owned(),
            ),
        }
    }

    /// Errors if a valid certificate is revoked, or if the worker has no rules to check that.
    fn check_revoked(&self, proven: &Proven) -> Result<(), String> {
        let certified = &proven.certified;
        if certified.role == Role::Scheduler {
            return Ok(());
        }
        let rules = self.rules.lock();
        let Some(rules) = &*rules else {
            return Err(
                "this worker has just started, and its scheduler has not told it yet which certificates are revoked: try again in some seconds"
                    .to_owned(),
            );
        };
        let is_revoked_token = |token: &TokenNumber| rules.tokens.contains(token);
        match &certified.shard {
            Some(shard) => match rules.shards.get(shard) {
                Some(before) if proven.issued.as_secs() < *before => Err(format!(
                    "its certificate is revoked, that of the shard `{shard}`"
                )),
                _ => Ok(()),
            },
            None if certified.token.as_ref().is_some_and(is_revoked_token) => {
                Err("its certificate is revoked".to_owned())
            }
            None => Ok(()),
        }
    }
}

/// Reads what the first of the certificates that a peer has shown proves.
fn proven_by(shown: &[CertificateDer<'static>]) -> Result<Proven, String> {
    let first = shown.first().ok_or("the peer has shown no certificate")?;
    proven(first).map_err(|error| error.to_string())
}

impl Authenticator for Member {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        Some(self.own.lock().server())
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        let why = format!(
            "this worker takes calls {INSIDE_TLS}, from its scheduler, other workers and people of its cluster"
        );
        Principal::plain_stranger(from, why)
    }

    fn identify(&self, from: SocketAddr, certificates: &[CertificateDer<'static>]) -> Principal {
        match self.certificate_holder(from, certificates) {
            Ok(identity) => Principal::Authenticated(Arc::new(identity)),
            Err(why) => Principal::stranger(from, why),
        }
    }
}

impl Credentials for Member {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        self.own.lock().client()
    }

    fn accepts(&self, shown: &[CertificateDer<'static>]) -> Result<(), String> {
        self.check_accepted(&proven_by(shown)?, shown)
    }

    fn version(&self) -> u64 {
        self.credentials_version.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common_identity::Authority;
    use brasserie_thrift::generated::brasserie::RevokedShard;

    use super::super::fixtures::{authority, credential, label, member, own_certificate};
    use super::*;

    #[test]
    fn rules_that_were_overtaken_are_ignored() {
        let member = member(&authority());
        let rules = |version: (i64, i64), shards: &[&str]| {
            let revoked = |shard: &&str| RevokedShard {
                shard: Some(label(shard).as_str().to_owned()),
                issued_before: Some(1),
            };
            CertificateRules::from(CertificateNews {
                shards: Some(shards.iter().map(revoked).collect()),
                source: Some(version.0),
                number: Some(version.1),
                ..CertificateNews::default()
            })
        };
        let revoked = || {
            let rules = member.rules.lock();
            let rules = rules.as_ref().expect("some rules");
            rules.shards.keys().cloned().collect::<Vec<_>>()
        };
        member.update_rules(rules((7, 2), &["w2"]));
        let version = member.version();
        member.update_rules(rules((7, 1), &[]));
        assert_eq!(revoked(), [label("w2")]);
        member.update_rules(rules((7, 3), &["w2", "w3"]));
        assert_eq!(revoked(), [label("w2"), label("w3")]);
        assert!(member.version() > version, "servers prove themselves again");
        // Another process of the scheduler counts from the beginning.
        member.update_rules(rules((8, 0), &["w3"]));
        assert_eq!(revoked(), [label("w3")]);
    }

    #[test]
    fn a_worker_that_has_renewed_obeys_the_new_authority_alone() {
        let first = authority();
        let second = first.successor(Clock.wall()).expect("a successor");
        let third = second.successor(Clock.wall()).expect("a successor");
        let member = member(&first);
        let trusts = |authorities: &[&Authority]| CertificateRules {
            authorities: authorities.iter().map(|one| one.hash()).collect(),
            ..CertificateRules::default()
        };
        let people = [
            Role::Scheduler,
            Role::Admin,
            Role::Operator,
            Role::Submitter,
            Role::Viewer,
        ];
        let accepted = |authority: &Authority, role: Role| {
            let shard = (role == Role::Worker).then_some("w2");
            let shown = credential(authority, role, shard);
            let from = SocketAddr::from(([10, 0, 0, 1], 7));
            let caller = member.identify(from, shown.chain());
            let is_caller = caller.identity().is_some();
            let as_server = member.accepts(shown.chain());
            assert_eq!(is_caller, as_server.is_ok(), "{role} in both directions");
            as_server
        };
        let all_are = |authority: &Authority, wanted: bool| {
            for role in people {
                let accepted = accepted(authority, role);
                assert_eq!(accepted.is_ok(), wanted, "{role}: {accepted:?}");
            }
        };
        // The worker has not renewed yet, and the scheduler has its new certificate.
        member.update_rules(trusts(&[&second, &first]));
        all_are(&first, true);
        all_are(&second, true);
        member.replace_certificate(own_certificate(&second, true));
        all_are(&second, true);
        all_are(&first, false);
        let why = accepted(&first, Role::Scheduler).expect_err("a thief");
        let is_plain = !why.contains("  ");
        assert!(why.contains("was replaced") && is_plain, "{why}");
        accepted(&first, Role::Worker).expect("it has not renewed yet");
        // The end of the rotation arrives before this worker has renewed again.
        let version = member.version();
        member.update_rules(trusts(&[&second]));
        assert!(member.version() > version, "servers prove themselves again");
        accepted(&first, Role::Worker).expect_err("it had to renew");
        accepted(&second, Role::Worker).expect("a worker");
        let trusted = [&first, &second, &third].map(|one| member.trusts(one.hash()));
        assert_eq!(
            trusted,
            [true, true, false],
            "a token of another one moves it"
        );
        // The worker was away meanwhile, and another rotation has begun.
        member.update_rules(trusts(&[&third, &second]));
        all_are(&third, true);
        all_are(&second, true);
        all_are(&first, false);
    }
}
