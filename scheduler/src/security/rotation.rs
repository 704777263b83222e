//! The replacement of the authority by a successor, while everybody goes on working.
//!
//! ```text
//! one authority --rotate--> two: certificates of both are accepted --finish--> one
//! ```
//!
//! Workers renew their certificates with the new authority between the two steps, and tokens with the hash of the former one still prove
//! the scheduler. The key of the former authority is gone from the first step on: it vouches for the successor's key by a certificate.
//!
//! Somebody else may have that key, so a certificate of the former authority counts only for a key of its shard that the scheduler knows.

use std::sync::Arc;

use brasserie_common::WallTime;
use brasserie_common::access::ShardLabel;
use brasserie_common::text::printable;
use brasserie_common_identity::{
    ADMIN_TOKEN, Authority, AuthorityHash, IdentityError, KEY, TrustDomain,
};
use brasserie_common_runtime::Clock;

use super::authentication::RpcTls;
use super::folder::set_authority_of_admin_token;
use super::registry::Registry;
use super::writes::WriteTurn;
use super::{NotAdmitted, Security};

/// The most shards that a refusal or a problem names.
const MOST_NAMED: usize = 10;

/// A step of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RotationStep {
    /// Create the successor.
    Begin,
    /// Trust the former authority no longer, unless workers still have its certificates.
    Finish,
    /// Finish also if workers still have its certificates. They must join anew.
    FinishAnyway,
}

/// The authority and its rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthorityState {
    pub trust_domain: TrustDomain,
    pub hash: AuthorityHash,
    pub expires: WallTime,
    /// The authority that a rotation replaces.
    pub former: Option<AuthorityHash>,
    /// The shards whose valid certificates are of that authority. After the end of a rotation by force, those that it has shut out.
    pub not_renewed: Vec<String>,
}

/// The authority after a step, which is on disk.
struct Successor {
    authority: Authority,
    /// The scheduler's own certificate by it.
    rpc_tls: RpcTls,
    /// Why the step has left something to do.
    unfinished: Option<IdentityError>,
}

impl Security {
    /// Returns the authority and the rotation that is under way.
    pub(crate) fn authority_state(&self) -> Result<AuthorityState, NotAdmitted> {
        let authority = self.authority();
        Ok(state(&authority, &self.registry.lock())?)
    }

    /// Performs a step of a rotation, unless its caller was revoked while it waited. Waits for the disk. Errors with
    /// [`NotAdmitted::Unfinished`] if it is in force, and something is left to do.
    pub(crate) fn rotate(
        &self,
        step: RotationStep,
        is_revoked: impl Fn() -> bool,
    ) -> Result<AuthorityState, NotAdmitted> {
        // Nobody gets a certificate meanwhile.
        let turn = self.writes.turn()?;
        if is_revoked() {
            return refused("its caller was revoked while the rotation waited for the disk");
        }
        let registry = self.registry.lock().clone();
        let authority = self.authority();
        let is_under_way = authority.former().is_some();
        let next = match (step, is_under_way) {
            (RotationStep::Begin, false) => self.begin_rotation(&authority, &turn)?,
            (RotationStep::Begin, true) => {
                return refused(
                    "a rotation is under way already. See `brasserie ca status`, and finish it first: `brasserie ca rotate --finish`",
                );
            }
            (RotationStep::Finish | RotationStep::FinishAnyway, false) => {
                return refused("no rotation is under way");
            }
            (RotationStep::Finish, true) => {
                check_all_renewed(&authority, &registry)?;
                self.finish_rotation(&authority, registry.clone(), &turn)?
            }
            (RotationStep::FinishAnyway, true) => {
                self.finish_rotation(&authority, registry.clone(), &turn)?
            }
        };
        let Successor {
            authority,
            rpc_tls,
            unfinished,
        } = next;
        let mut state = state(&authority, &registry)?;
        if step == RotationStep::FinishAnyway {
            state.not_renewed = names_not_renewed(&authority, &registry);
        }
        let mut own = self.own.lock();
        (own.authority, own.rpc_tls) = (Arc::new(authority), rpc_tls);
        own.web_tls.forget_certificate();
        drop(own);
        match step {
            // Workers that have renewed accept the new certificate alone.
            RotationStep::Begin => self.reconnect_to_workers(),
            RotationStep::Finish | RotationStep::FinishAnyway => {}
        }
        self.notify_workers();
        // This includes workers that have renewed: somebody else may have their former certificates. Workers come back at once, so this is last.
        self.reconnect_certified_peers();
        match unfinished {
            Some(why) => Err(NotAdmitted::Unfinished(format!(
                "the new authority is in force, and certificates of both are accepted. But {KEY} may have the key of the former one too, or \
                 {ADMIN_TOKEN} names that one: {why}. `brasserie ca rotate --finish` and each start of the scheduler try again to correct both"
            ))),
            None => Ok(state),
        }
    }

    fn begin_rotation(
        &self,
        former: &Authority,
        turn: &WriteTurn<'_>,
    ) -> Result<Successor, NotAdmitted> {
        let now = Clock.wall();
        let mut registry = self.registry.lock();
        registry.set_missing_authorities(&former.hash());
        let copy = registry.clone();
        drop(registry);
        // The keys that were shown decide who may renew, also after a restart.
        self.write(&copy, turn)?;
        let made = former.successor(now)?;
        // An authority that is written can certify the scheduler.
        let rpc_tls = RpcTls::create(&made, now)?;
        let mut unfinished = self.write_authority(&made)?;
        if let Err(why) = self.correct_admin_token(&made) {
            unfinished = Some(why);
        }
        Ok(Successor {
            authority: made,
            rpc_tls,
            unfinished,
        })
    }

    /// Writes an authority. Errors if the next start would find another one. Returns why something else failed.
    fn write_authority(&self, made: &Authority) -> Result<Option<IdentityError>, IdentityError> {
        let Err(why) = made.write(&self.folder) else {
            return Ok(None);
        };
        match Authority::read(&self.folder) {
            Ok(Some(kept)) if kept.hash() == made.hash() => Ok(Some(why)),
            Ok(_) | Err(_) => Err(why),
        }
    }

    /// Makes the file with the administrator's token name this authority.
    fn correct_admin_token(&self, authority: &Authority) -> Result<(), IdentityError> {
        if let Some(admin) = set_authority_of_admin_token(&self.folder, authority)? {
            let mut registry = self.registry.lock();
            registry.set_authority(admin, &authority.hash());
        }
        Ok(())
    }

    fn finish_rotation(
        &self,
        authority: &Authority,
        mut registry: Registry,
        turn: &WriteTurn<'_>,
    ) -> Result<Successor, NotAdmitted> {
        let now = Clock.wall();
        // The first step may have left this to do.
        authority.remove_other_keys(&self.folder)?;
        self.correct_admin_token(authority)?;
        let not_renewed = registry.not_renewed(now, authority.hash());
        let not_renewed: Vec<ShardLabel> = not_renewed.map(|(label, _)| label).collect();
        let former = authority.former();
        registry.end_certificates(now, former, &not_renewed);
        // The registry is written first, so that no crash leaves a shard that nobody can join as any more. Until the former authority is gone, the
        // worker of the shard can renew.
        self.write(&registry, turn)?;
        self.registry
            .lock()
            .end_certificates(now, former, &not_renewed);
        let left = authority.forget_former(&self.folder)?;
        let rpc_tls = RpcTls::create(&left, now)?;
        Ok(Successor {
            authority: left,
            rpc_tls,
            unfinished: None,
        })
    }
}

fn state(authority: &Authority, registry: &Registry) -> Result<AuthorityState, IdentityError> {
    let former = authority.former();
    let not_renewed = match former {
        Some(_) => names_not_renewed(authority, registry),
        None => Vec::new(),
    };
    Ok(AuthorityState {
        trust_domain: authority.trust_domain().clone(),
        hash: authority.hash(),
        expires: authority.until()?,
        former,
        not_renewed,
    })
}

fn names_not_renewed(authority: &Authority, registry: &Registry) -> Vec<String> {
    let shards = registry.not_renewed(Clock.wall(), authority.hash());
    shards.map(|(_, shard)| shard.as_str().to_owned()).collect()
}

/// Errors if workers still have certificates of the former authority.
fn check_all_renewed(authority: &Authority, registry: &Registry) -> Result<(), NotAdmitted> {
    if authority.trusted(Clock.wall()).len() == 1 {
        // The rotation has ended by itself, and such workers are shut out already.
        return Ok(());
    }
    let shards = names_not_renewed(authority, registry);
    if shards.is_empty() {
        return Ok(());
    }
    refused(format!(
        "{} workers have certificates of the former authority: {}. A worker renews within seconds of its next heartbeat. One that stays away has \
         to join again after --force: it is started in its data directory with --join-token and a token of `brasserie token create --role worker`",
        shards.len(),
        named(&shards)
    ))
}

/// Formats the names of shards, of which it has the first ones.
pub(super) fn named(shards: &[String]) -> String {
    let first = shards.iter().take(MOST_NAMED);
    let first: Vec<_> = first.map(|name| printable(name).to_string()).collect();
    let more = match shards.len() - first.len() {
        0 => String::new(),
        more => format!(" and {more} others"),
    };
    format!("{}{more}", first.join(", "))
}

fn refused<T>(why: impl Into<String>) -> Result<T, NotAdmitted> {
    Err(NotAdmitted::BadTerms(why.into()))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use brasserie_common::access::Role;
    use brasserie_common::{Principal, Shard};
    use brasserie_common_identity::{
        CertificateDer, Certified, KeyRequest, Lifetime, Token, write_secret,
    };
    use brasserie_thrift::rpc::{Authenticator as _, Credentials as _};

    use super::*;
    use crate::security::tests::Bench;
    use crate::security::{Terms, TokenAuthority};

    const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

    /// Returns whether the holder of these certificates is admitted.
    fn enters(security: &Security, chain: &[CertificateDer<'static>]) -> bool {
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        security.identify(from, chain).identity().is_some()
    }

    /// Returns a certificate of a shard for a key that the scheduler has never seen.
    fn forged(authority: &Authority, shard: &Shard) -> Vec<CertificateDer<'static>> {
        let certified = Certified {
            trust_domain: authority.trust_domain().clone(),
            role: Role::Worker,
            shard: Some(ShardLabel::of(shard)),
            token: None,
        };
        let key = KeyRequest::create().expect("a key");
        // Later than all that are revoked by then.
        let at = Clock.wall() + MINUTE;
        let forged = authority.certify(key.request(), &certified, at, Lifetime::WORKER);
        forged.expect("a certificate")
    }

    fn join(security: &Security, shard: &Shard) -> Vec<CertificateDer<'static>> {
        let (token, _) = security
            .create_token(Terms::joining(MINUTE, 1))
            .expect("good terms");
        let key = KeyRequest::create().expect("a key");
        let joined = security.join(&token.secret.reveal(), shard, key.request());
        joined.expect("a certificate")
    }

    #[test]
    fn a_worker_is_behind_until_it_shows_its_new_certificate_and_people_of_before_are_refused() {
        let bench = Bench::new();
        let security = bench.security();
        let shard = Shard::try_from("w1").expect("a shard");
        let label = ShardLabel::of(&shard);
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        let former = join(&security, &shard);
        let (token, _) = security
            .create_token(Terms::person(Role::Admin, MINUTE))
            .expect("good terms");
        let admin = security.authenticate(&token.secret.reveal(), from);
        let key = KeyRequest::create().expect("a key");
        let admin = security.certify_person(&admin.expect("a person"), key.request());
        let admin = admin.expect("a certificate");
        let enters = |chain: &[CertificateDer<'static>]| enters(&security, chain);
        assert!(enters(&former) && enters(&admin));

        let begun = security
            .rotate(RotationStep::Begin, || false)
            .expect("a folder");
        assert_eq!(begun.not_renewed, ["w1"]);
        assert!(enters(&former), "it must renew");
        assert!(!enters(&admin));
        let key = KeyRequest::create().expect("a key");
        let valid_from = security.registry.lock().valid_from(&label);
        let renewed = security.renew(&label, valid_from, key.request());
        let renewed = renewed.expect("a certificate");
        // The answer may be lost.
        let state = || security.authority_state().expect("an authority");
        assert_eq!(state().not_renewed, ["w1"]);
        assert!(enters(&renewed));
        assert_eq!(state().not_renewed, [""; 0]);
        let version = security.version();
        security
            .rotate(RotationStep::Finish, || false)
            .expect("none is behind");
        assert!(
            security.version() > version,
            "calls leave over new connections"
        );

        security.accepts(&renewed).expect("the worker of its shard");
        let version = security.version();
        security.revoke_worker(&shard).expect("it has joined");
        assert!(security.version() > version);
        let why = security.accepts(&renewed).expect_err("it is revoked");
        assert!(why.contains("is revoked"), "{why}");
        let again = join(&security, &shard);
        security.accepts(&again).expect("it has joined again");
        security.accepts(&renewed).expect_err("it stays revoked");
    }

    #[test]
    fn a_certificate_of_the_former_authority_counts_only_for_a_known_key_of_its_shard() {
        let bench = Bench::new();
        let security = bench.security();
        let shard = |name| Shard::try_from(name).expect("a shard");
        let stolen = security.authority();
        let joined = join(&security, &shard("w1"));
        // Another head node has admitted this worker.
        let adopted = forged(&stolen, &shard("w2"));
        assert!(enters(&security, &adopted));
        security
            .rotate(RotationStep::Begin, || false)
            .expect("a folder");
        // The scheduler knows the keys also after a restart.
        for security in [Arc::clone(&security), bench.security()] {
            assert!(enters(&security, &joined) && enters(&security, &adopted));
            security.accepts(&joined).expect("the worker of its shard");
            for name in ["w1", "w2", "unknown"] {
                let forged = forged(&stolen, &shard(name));
                let from = SocketAddr::from(([10, 0, 0, 1], 1));
                let refused = security.identify(from, &forged);
                let Principal::Stranger(refused) = refused else {
                    panic!("{name}: {refused}");
                };
                let remedy = format!("brasserie worker revoke {name}");
                assert!(refused.why.contains(&remedy), "{}", refused.why);
                security.accepts(&forged).expect_err("it poses as a worker");
            }
            let state = security.authority_state().expect("an authority");
            assert_eq!(
                state.not_renewed,
                ["w1", "w2"],
                "a forged one adds no shard"
            );
        }
    }

    #[test]
    fn a_token_ends_with_the_authority_that_it_names() {
        let bench = Bench::new();
        let security = bench.security();
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        let shard = Shard::try_from("w1").expect("a shard");
        let create = |terms| security.create_token(terms).expect("good terms").0;
        let former = create(Terms::person(Role::Viewer, MINUTE));
        let joining = create(Terms::joining(MINUTE, 1)).secret.reveal();
        let shown = |token: &Token| {
            security
                .authenticate_token(&token.reveal(), from)
                .map(|_| ())
        };
        let authenticated = |token: &Token| {
            let known = security.authenticate(&token.secret.reveal(), from);
            known.map(|_| ())
        };
        let names = || {
            let mut names: Vec<_> = security
                .valid_tokens()
                .iter()
                .map(|(_, kept)| security.authority_of(kept))
                .collect();
            names.sort_by_key(|name| name.map(TokenAuthority::name));
            names
        };
        security
            .rotate(RotationStep::Begin, || false)
            .expect("a folder");
        let current = create(Terms::person(Role::Viewer, MINUTE));
        assert_eq!((shown(&former), authenticated(&former)), (Ok(()), Ok(())));
        assert_eq!(security.check_join(&joining, &shard, b""), Ok(false));
        use TokenAuthority::{Current, Former, Replaced};
        // The file of the administrator's token names the new authority.
        assert_eq!(
            names(),
            [Some(Current), Some(Current), Some(Former), Some(Former)]
        );
        security
            .rotate(RotationStep::Finish, || false)
            .expect("none is behind");
        assert_eq!(
            names(),
            [Some(Current), Some(Current), Some(Replaced), Some(Replaced)]
        );
        let refused = || Err(NotAdmitted::Replaced);
        assert_eq!(
            (shown(&former), authenticated(&former)),
            (refused(), refused())
        );
        assert_eq!(
            security.check_join(&joining, &shard, b"").map(|_| ()),
            refused()
        );
        assert_eq!((shown(&current), authenticated(&current)), (Ok(()), Ok(())));
        // Its text names the former authority, whatever is kept.
        let old_text = Token {
            authority: former.authority,
            ..current
        };
        assert_eq!(shown(&old_text), refused());
    }

    #[test]
    fn workers_that_a_rotation_has_shut_out_are_named_until_they_join_again_or_are_revoked() {
        let bench = Bench::new();
        let security = bench.security();
        let shards = ["w1", "w2", "w3"].map(|name| Shard::try_from(name).expect("a shard"));
        for shard in &shards {
            join(&security, shard);
        }
        // An earlier release has not noted whose certificate it was.
        let label = ShardLabel::of(&shards[1]);
        let mut text = security.registry.lock().to_json(usize::MAX).expect("JSON");
        let mut kept: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        kept["shards"][label.as_str()]["authority"] = "".into();
        text = serde_json::to_vec(&kept).expect("JSON");
        *security.registry.lock() = serde_json::from_slice(&text).expect("a registry");
        let shut_out = |security: &Security| {
            let trusted = security.trusted();
            security.registry.lock().shut_out(Clock.wall(), &trusted)
        };
        security
            .rotate(RotationStep::Begin, || false)
            .expect("a folder");
        assert_eq!(shut_out(&security), [""; 0], "they renew");
        let forced = security
            .rotate(RotationStep::FinishAnyway, || false)
            .expect("forced");
        assert!(
            !forced.not_renewed.is_empty(),
            "the workers that are shut out"
        );
        assert_eq!(shut_out(&bench.security()), ["w1", "w2", "w3"]);
        join(&security, &shards[0]);
        security.revoke_worker(&shards[2]).expect("it has joined");
        assert_eq!(shut_out(&security), ["w2"]);
        let later = Clock.wall() + 31 * 24 * 60 * MINUTE;
        let trusted = security.trusted();
        let forgotten = security.registry.lock().shut_out(later, &trusted);
        assert_eq!(forgotten, [""; 0], "nobody could have renewed either");
        let names: Vec<String> = (10..22).map(|number: u8| number.to_string()).collect();
        assert!(
            named(&names).ends_with("19 and 2 others"),
            "{}",
            named(&names)
        );
    }

    #[test]
    fn a_step_whose_caller_was_revoked_while_it_waited_changes_nothing() {
        let bench = Bench::new();
        let security = bench.security();
        let before = security.authority_state().expect("an authority");
        let refused = security.rotate(RotationStep::Begin, || true);
        let refused = refused.expect_err("its caller is revoked");
        assert!(refused.to_string().contains("was revoked"), "{refused}");
        assert_eq!(security.authority_state().expect("an authority"), before);
    }

    #[test]
    fn a_crash_before_the_last_step_leaves_no_shard_that_nobody_can_join_as() {
        let bench = Bench::new();
        let security = bench.security();
        let shard = Shard::try_from("w1").expect("a shard");
        join(&security, &shard);
        security
            .rotate(RotationStep::Begin, || false)
            .expect("a folder");
        // The file of the authority cannot be replaced.
        let path = security.folder.join("authority.pem");
        std::fs::remove_file(&path).expect("it is there");
        std::fs::create_dir(&path).expect("a folder");
        let failed = security.rotate(RotationStep::FinishAnyway, || false);
        assert!(matches!(failed, Err(NotAdmitted::Failed(_))), "{failed:?}");
        join(&security, &shard);
    }

    #[test]
    fn a_start_removes_the_former_key_that_a_crash_has_left() {
        let bench = Bench::new();
        let path = bench.security().folder.join(KEY);
        let former = std::fs::read_to_string(&path).expect("a key");
        bench
            .security()
            .rotate(RotationStep::Begin, || false)
            .expect("a folder");
        let own = std::fs::read_to_string(&path).expect("a key");
        // The certificates are written, and the key alone is not.
        write_secret(&path, format!("{own}{former}").as_bytes()).expect("a folder");
        let next = bench.security();
        assert_eq!(std::fs::read_to_string(&path).expect("a key"), own);
        // A disk that has not taken the last write of the first step.
        write_secret(&path, format!("{own}{former}").as_bytes()).expect("a folder");
        next.rotate(RotationStep::Finish, || false)
            .expect("nobody is behind");
        assert_eq!(std::fs::read_to_string(&path).expect("a key"), own);
    }

    #[test]
    fn a_step_whose_admin_token_the_disk_does_not_take_is_in_force_and_says_so() {
        let bench = Bench::new();
        let security = bench.security();
        let former = security.authority().hash();
        let file = |name: &str| security.folder.join(name);
        let obstacle = file(".admin.token.tmp");
        std::fs::create_dir(&obstacle).expect("a folder in its way");
        let failed = security.rotate(RotationStep::Begin, || false);
        let Err(why @ NotAdmitted::Unfinished(_)) = failed else {
            panic!("{failed:?}");
        };
        assert!(!why.is_temporary(), "a retry would be refused");
        assert!(why.to_string().contains("is in force"), "{why}");
        // Memory and disk have the same authority.
        let kept = Authority::read(&security.folder).expect("it is whole");
        let kept = kept.expect("an authority");
        assert_eq!(kept.hash(), security.authority().hash());
        assert_eq!(
            (kept.former(), security.authority().former()),
            (Some(former), Some(former))
        );
        security
            .rotate(RotationStep::Finish, || false)
            .expect_err("the token would be of no use");
        assert_eq!(security.authority().former(), Some(former));
        std::fs::remove_dir(&obstacle).expect("it is there");
        security
            .rotate(RotationStep::Finish, || false)
            .expect("nobody is behind");
        let token = std::fs::read_to_string(file(ADMIN_TOKEN)).expect("a token");
        let token = Token::from_text(&token).expect("a token");
        assert_eq!(token.authority, kept.hash());
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        security
            .authenticate_token(&token.reveal(), from)
            .expect("the administrator");
    }
}
