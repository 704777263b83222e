//! Tests which callers the scheduler admits, and which files its first start leaves.

use std::fs;
use std::net::SocketAddr;

use brasserie_common::Shard;
use brasserie_common::access::Role;
use brasserie_common_identity::{
    ADMIN_TOKEN, CERTIFICATE, Certified, Credential, FOLDER, KEY, KeyRequest, Proven, Secret,
    proven,
};
use brasserie_thrift::rpc::Authenticator as _;
use tokio_util::sync::CancellationToken;

use super::folder::TOKENS;
use super::registry::LAPSED_FOR;
use super::*;

const MINUTE: Duration = Duration::from_secs(60);

/// A data directory, and what opens the identity in it.
pub(crate) struct Bench {
    directory: DataDir,
    audit: Audit,
    _folder: tempfile::TempDir,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = DataDir::open(&folder.path().join("d")).expect("a directory");
        let audit = Audit::open(&directory, 0).expect("a folder");
        Bench {
            directory,
            audit,
            _folder: folder,
        }
    }

    fn try_open(
        &self,
        creation: AuthorityCreation,
    ) -> Result<Option<Arc<Security>>, SecurityError> {
        self.try_open_for(creation, PlainPeers::Strangers)
    }

    fn try_open_for(
        &self,
        creation: AuthorityCreation,
        plain: PlainPeers,
    ) -> Result<Option<Arc<Security>>, SecurityError> {
        let choices = (creation, plain);
        Security::open(
            &self.directory,
            choices,
            Lifetime::WORKER.0,
            self.audit.clone(),
        )
    }

    pub(crate) fn security(&self) -> Arc<Security> {
        self.security_for(PlainPeers::Strangers)
    }

    /// Opens the identity, which treats peers without TLS in this way.
    pub(crate) fn security_for(&self, plain: PlainPeers) -> Arc<Security> {
        let opened = self.try_open_for(AuthorityCreation::IfMissing, plain);
        opened.expect("an authority").expect("an authority")
    }

    /// Returns the path of the data directory.
    pub(crate) fn path(&self) -> &std::path::Path {
        self.directory.path()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(FOLDER).join(name)
    }
}

fn at() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 7))
}

/// Returns who the holder of a certificate is to the scheduler.
fn caller_with(security: &Security, own: &Credential) -> Principal {
    security.identify(at(), &[own.certificate().clone()])
}

/// Returns why the caller is a stranger.
fn why(caller: &Principal) -> &str {
    match caller {
        Principal::Stranger(stranger) => &stranger.why,
        known => panic!("the caller is {known}"),
    }
}

/// Returns the identity of the holder of a new token.
fn person(security: &Security, terms: Terms) -> Identity {
    let (token, _) = security.create_token(terms).expect("good terms");
    let shown = security.authenticate(&token.secret.reveal(), at());
    shown.expect("a valid token")
}

fn certify(security: &Security, person: &Identity) -> Result<Credential, NotAdmitted> {
    let key = KeyRequest::create().expect("a key");
    let chain = security.certify_person(person, key.request())?;
    Ok(key.with_chain(chain).expect("its key"))
}

fn proven_by(own: &Credential) -> Proven {
    proven(own.certificate()).expect("a certificate of the cluster")
}

#[test]
fn the_certificate_of_a_person_is_worth_what_its_token_is_worth() {
    let bench = Bench::new();
    let security = bench.security();
    let terms = Terms {
        owner: Some("ana".to_owned()),
        ..Terms::person(Role::Submitter, MINUTE)
    };
    let ana = person(&security, terms);
    let own = certify(&security, &ana).expect("a person with a token");
    let token_end = ana.until.expect("a token expires");
    assert!(proven_by(&own).until <= token_end, "it outlives the token");
    let Principal::Authenticated(seen) = caller_with(&security, &own) else {
        panic!("a valid certificate is refused");
    };
    assert_eq!(
        (seen.role, seen.owner.as_deref()),
        (Role::Submitter, Some("ana"))
    );
    assert_eq!(seen.until, Some(proven_by(&own).until));
    // A certificate gives no further one.
    let again = certify(&security, &seen).map(|_| ());
    assert_eq!(again, Err(NotAdmitted::NoCertificate));
    let late = security.proven_holder(
        at(),
        (proven_by(&own), Some(security.authority().hash())),
        token_end,
    );
    assert_eq!(late, Err("its certificate has expired".to_owned()));
    let number = ana.token.expect("a number");
    security.revoke_token(number).expect("it is there");
    assert!(why(&caller_with(&security, &own)).contains("no such token"));
    assert_eq!(
        certify(&security, &ana).map(|_| ()),
        Err(NotAdmitted::Unknown)
    );
}

#[test]
fn a_certificate_without_a_token_is_for_calls_to_workers_only() {
    let bench = Bench::new();
    let security = bench.security();
    let user = security.local_admins[0].clone();
    let Principal::Authenticated(local) = security.local(user) else {
        panic!("the scheduler's own user is refused");
    };
    let own = certify(&security, &local).expect("a user of the local socket");
    let caller = caller_with(&security, &own);
    assert!(why(&caller).contains("goes back to no token"), "{caller:?}");
}

/// Joins as the worker `w1` with a new token.
fn join(security: &Security) -> Credential {
    let (token, _) = security
        .create_token(Terms::joining(MINUTE, 1))
        .expect("good terms");
    let (key, shard) = (KeyRequest::create().expect("a key"), Shard::try_from("w1"));
    let chain = security.join(
        &token.secret.reveal(),
        &shard.expect("a name"),
        key.request(),
    );
    key.with_chain(chain.expect("a valid token"))
        .expect("its key")
}

#[test]
fn a_shard_that_another_machine_has_taken_over_has_one_key() {
    let bench = Bench::new();
    let security = bench.security();
    let first = join(&security);
    // Its certificate has expired.
    let label = proven_by(&first).certified.shard.expect("a shard");
    let now = Clock.wall();
    security
        .registry
        .lock()
        .end_certificates(now, None, [&label]);
    let second = join(&security);
    let caller = caller_with(&security, &second);
    assert!(caller.identity().is_some(), "{caller:?}");
    assert!(why(&caller_with(&security, &first)).contains("is revoked"));
}

#[test]
fn a_worker_renews_an_expired_certificate_for_thirty_days() {
    let bench = Bench::new();
    let security = bench.security();
    let proven = proven_by(&join(&security));
    let role = |at_time| {
        let holder = security.proven_holder(
            at(),
            (proven.clone(), Some(security.authority().hash())),
            at_time,
        );
        holder.map(|holder| holder.role)
    };
    assert_eq!(role(Clock.wall()), Ok(Role::Worker));
    assert_eq!(role(proven.until), Ok(Role::Lapsed));
    let lapsed = role(proven.until + LAPSED_FOR);
    assert_eq!(lapsed, Err(NotAdmitted::Lapsed.to_string()));
}

#[test]
fn a_join_is_refused_without_waiting_and_a_full_disk_is_no_refusal() {
    let bench = Bench::new();
    let security = bench.security();
    let shard = Shard::try_from("w1").expect("a name");
    let (token, _) = security
        .create_token(Terms::joining(MINUTE, 1))
        .expect("good terms");
    let secret = token.secret.reveal();
    // A change waits for the disk.
    let turn = security.writes.turn().expect("nobody else");
    let checked = security.check_join(&"ab".repeat(32), &shard, b"");
    assert_eq!(checked, Err(NotAdmitted::Unknown));
    assert_eq!(security.check_join(&secret, &shard, b""), Ok(false));
    drop(turn);
    // A folder in the way of the temporary file stands for a disk that takes nothing.
    fs::create_dir(bench.file(".tokens.json.tmp")).expect("a folder");
    let key = KeyRequest::create().expect("a key");
    let full = security.join(&secret, &shard, key.request()).map(|_| ());
    let why = full.expect_err("a full disk");
    assert!(why.is_temporary(), "{why}");
    fs::remove_dir(bench.file(".tokens.json.tmp")).expect("it is there");
    security
        .join(&secret, &shard, key.request())
        .expect("the token is not used up");
}

#[test]
fn a_clock_that_was_set_back_renews_the_schedulers_own_certificate() {
    let now = Clock.wall();
    assert!(!authentication::needs_renewal(now, now));
    assert!(authentication::needs_renewal(now, now - MINUTE));
    assert!(authentication::needs_renewal(
        now,
        now + Lifetime::SCHEDULER.0
    ));
}

#[test]
fn a_first_start_that_was_cut_off_begins_anew() {
    let bench = Bench::new();
    let first = bench.security().trust_domain().to_owned();
    // Only the certificate was not written yet.
    fs::remove_file(bench.file(CERTIFICATE)).expect("a certificate");
    let opened = bench.try_open(AuthorityCreation::Never);
    assert!(opened.expect("as if it were new").is_none());
    let second = bench.security();
    assert_ne!(second.trust_domain(), first);
    let token = fs::read_to_string(bench.file(ADMIN_TOKEN)).expect("a token");
    let admin = second
        .authenticate_token(&token, at())
        .expect("the token of this authority");
    assert_eq!(admin.role, Role::Admin);
}

#[test]
fn an_authority_that_is_lost_or_unreadable_is_not_replaced() {
    let bench = Bench::new();
    join(&bench.security());
    let kept = fs::read(bench.file(CERTIFICATE)).expect("a certificate");
    fs::remove_file(bench.file(CERTIFICATE)).expect("a certificate");
    let refused = |creation| match bench.try_open(creation) {
        Ok(_) => panic!("the scheduler starts without its authority"),
        Err(error) => error.to_string(),
    };
    for creation in [AuthorityCreation::Never, AuthorityCreation::IfMissing] {
        let why = refused(creation);
        assert!(why.contains("Restore authority.pem"), "{why}");
    }
    // A key alone, and a path that leads nowhere.
    fs::remove_file(bench.file(TOKENS)).expect("tokens");
    assert!(refused(AuthorityCreation::IfMissing).contains("Restore authority.pem"));
    fs::write(bench.file(CERTIFICATE), kept).expect("a folder");
    bench.security();
    let folder = bench.directory.path().join(FOLDER);
    fs::rename(&folder, bench.directory.path().join("elsewhere")).expect("a folder");
    fs::write(&folder, "a file in its place").expect("a file");
    let why = refused(AuthorityCreation::Never);
    assert!(why.contains("cannot read"), "{why}");
}

/// Opens an identity with the worker `w1` and a viewer. Returns it, the shard, the viewer's secret, and the changes from now on.
fn in_use(bench: &Bench) -> (Arc<Security>, Shard, Secret, watch::Receiver<u64>) {
    let security = bench.security();
    join(&security);
    let viewer = security.create_token(Terms::person(Role::Viewer, MINUTE));
    let (token, _) = viewer.expect("good terms");
    let mut changes = security.news_version();
    changes.mark_unchanged();
    let shard = Shard::try_from("w1").expect("a name");
    (security, shard, token.secret, changes)
}

#[test]
fn a_revocation_is_in_effect_before_the_disk_takes_it_and_kept_once_it_does() {
    let bench = Bench::new();
    let (security, shard, secret, changes) = in_use(&bench);
    let number = secret.number();
    fs::create_dir(bench.file(".tokens.json.tmp")).expect("a folder in its way");
    let failed = security.revoke_token(number).expect_err("it is not kept");
    assert!(matches!(failed, NotAdmitted::NotWritten(_)), "{failed}");
    assert!(changes.has_changed().expect("it lives"), "workers learn it");
    let again = security.revoke_token(number).expect_err("nor is it now");
    assert!(matches!(again, NotAdmitted::NotWritten(_)), "{again}");
    let refused = security.authenticate(&secret.reveal(), at());
    assert_eq!(refused.map(|_| ()), Err(NotAdmitted::Unknown));
    security.revoke_worker(&shard).expect_err("it is not kept");
    assert!(security.registry.lock().is_revoked(shard.as_str()));
    security.write_once();
    let problem = security
        .unwritten_problem()
        .expect("the disk takes nothing");
    assert!(problem.contains("not on disk") && problem.contains(TOKENS));
    fs::remove_dir(bench.file(".tokens.json.tmp")).expect("it is there");
    security.write_once();
    assert_eq!(security.unwritten_problem(), None);
    drop(security);
    let again = bench.security();
    let refused = again.authenticate(&secret.reveal(), at());
    assert_eq!(refused.map(|_| ()), Err(NotAdmitted::Unknown));
    assert!(again.registry.lock().is_revoked(shard.as_str()));
}

#[tokio::test]
async fn a_disk_that_does_not_answer_delays_neither_a_revocation_nor_the_end() {
    let bench = Bench::new();
    let (security, shard, secret, mut changes) = in_use(&bench);
    let number = secret.number();
    // A change that keeps its turn stands for one that waits in the kernel.
    let turn = security.writes.turn().expect("nobody else");
    let revoking = Arc::clone(&security);
    let revoking = tokio::task::spawn_blocking(move || revoking.revoke_token(number));
    changes.changed().await.expect("workers learn it");
    let refused = security.authenticate(&secret.reveal(), at());
    assert_eq!(refused.map(|_| ()), Err(NotAdmitted::Unknown));
    let stop = CancellationToken::new();
    stop.cancel();
    Arc::clone(&security).write_revocations(stop).await;
    let failed = revoking.await.expect("it has ended").expect_err("not kept");
    assert!(failed.to_string().contains("has not answered"), "{failed}");
    let problem = security.unwritten_problem().expect("it is not on disk");
    assert!(problem.contains("has not answered"), "{problem}");
    let problem = security.stall_problem().expect("the disk hangs");
    assert!(problem.contains("Revocations take effect"), "{problem}");
    drop(turn);
    security.revoke_worker(&shard).expect("the disk answers");
    assert_eq!(
        security.unwritten_problem().or(security.stall_problem()),
        None
    );
    let again = bench.security();
    let refused = again.authenticate(&secret.reveal(), at());
    assert_eq!(refused.map(|_| ()), Err(NotAdmitted::Unknown));
    assert!(again.registry.lock().is_revoked(shard.as_str()));
}

#[test]
fn a_shard_renews_once_at_a_time_and_once_in_a_minute_except_after_a_rotation() {
    let bench = Bench::new();
    let security = bench.security();
    let label = |name| ShardLabel::of(&Shard::try_from(name).expect("a name"));
    join(&security);
    let begin = |name| security.begin_renewal(label(name));
    let key = KeyRequest::create().expect("a key");
    let early = Some(NotAdmitted::RenewedLately(label("w1")));
    let turn = begin("w1").expect("the first");
    assert_eq!(begin("w1").err(), early, "one is under way");
    assert_eq!(begin("w2").err(), None);
    // There was no place for the first.
    drop(turn);
    let turn = begin("w1").expect("nothing was done");
    let renewed = turn.renew(key.request());
    let own = key.with_chain(renewed.expect("a certificate"));
    assert!(own.is_ok());
    assert_eq!(begin("w1").err(), early, "it was a moment ago");
    for step in [RotationStep::Begin, RotationStep::FinishAnyway] {
        security.rotate(step, || false).expect("a folder");
        let key = KeyRequest::create().expect("a key");
        let turn = begin("w1").expect("the authorities are others");
        turn.renew(key.request()).expect("a certificate");
        assert_eq!(begin("w1").err(), early);
    }
}

#[test]
fn a_worker_whose_name_is_no_label_is_known_by_its_name_once_it_has_said_it() {
    let bench = Bench::new();
    let security = bench.security();
    let shard = |name: &str| Shard::try_from(name).expect("a name");
    let node = shard("node7.example.com");
    let label = ShardLabel::of(&node);
    // A certificate of an earlier release, which another head node has issued: it shows the hash alone.
    let certified = Certified {
        trust_domain: security.trust_domain.clone(),
        role: Role::Worker,
        shard: ShardLabel::from_label(label.as_str()),
        token: None,
    };
    let key = KeyRequest::create().expect("a key");
    let life = Lifetime::WORKER;
    let chain = security.authority();
    let chain = chain.certify(key.request(), &certified, Clock.wall(), life);
    let own = key.with_chain(chain.expect("a certificate"));
    let own = own.expect("its key");
    let caller = caller_with(&security, &own);
    security
        .rotate(RotationStep::Begin, || false)
        .expect("a folder");
    let behind = || {
        let state = security.authority_state().expect("an authority");
        state.not_renewed.join(" ")
    };
    let hash = behind();
    assert!(hash.starts_with("h-"), "{hash}");
    for name in ["node8.example.com", node.as_str()] {
        assert_eq!(behind(), hash);
        security.note_name(&caller, &shard(name));
    }
    assert_eq!(behind(), node.as_str());
    let caller = caller_with(&security, &own).to_string();
    assert!(caller.contains("worker `node7.example.com` at"), "{caller}");
    // The next certificate has the name.
    let key = KeyRequest::create().expect("a key");
    let valid_from = security.registry.lock().valid_from(&label);
    let hashed = certified.shard.expect("a label");
    let chain = security.renew(&hashed, valid_from, key.request());
    let next = key.with_chain(chain.expect("a certificate"));
    let next = proven_by(&next.expect("its key")).certified.shard;
    assert_eq!(next.and_then(|label| label.shard()), Some(node.clone()));
    // People revoke it by what was shown.
    assert_eq!(security.revoke_worker(&shard(&hash)), Ok(true));
    assert!(security.registry.lock().is_revoked(node.as_str()));
    assert_eq!(security.revoke_worker(&shard("unknown")), Ok(false));
}

#[test]
fn files_of_an_identity_that_others_may_use_are_refused() {
    use std::os::unix::fs::PermissionsExt as _;

    let bench = Bench::new();
    bench.security();
    let set_mode = |file: &str, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(bench.file(file), mode).expect("its own");
    };
    for (file, command) in [
        (TOKENS, "chmod 600"),
        (ADMIN_TOKEN, "chmod 600"),
        (KEY, "chmod 600"),
        (CERTIFICATE, "chmod go-w"),
    ] {
        set_mode(file, 0o666);
        let Err(refused) = bench.try_open(AuthorityCreation::IfMissing) else {
            panic!("the scheduler starts with {file} in the hands of others");
        };
        let said = format!("{command} {}", bench.file(file).display());
        assert!(refused.to_string().contains(&said), "{refused}");
        set_mode(file, 0o600);
        let (kept, target) = (bench.file(file), bench.file("elsewhere"));
        fs::rename(&kept, &target).expect("a file");
        std::os::unix::fs::symlink(&target, &kept).expect("a link");
        let Err(refused) = bench.try_open(AuthorityCreation::IfMissing) else {
            panic!("the scheduler follows a link to {file}");
        };
        assert!(refused.to_string().contains("cp -p"), "{refused}");
        fs::rename(&target, &kept).expect("a file");
        bench.security();
    }
}
