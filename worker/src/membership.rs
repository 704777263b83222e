//! The worker's membership of a cluster with an authority: how it joins, its certificate, and who may call it.
//!
//! A worker without a membership accepts calls without any proof, and calls its schedulers in plain text. A worker with one calls inside TLS only.
//!
//! The scheduler tells the worker which certificates are revoked: after the first heartbeat of each start, and after each change. Before
//! that, the worker refuses other workers and people, so that no restart makes it forget a revocation.
//!
//! While a rotation replaces the authority, somebody else may have the key of the former one. A worker with a certificate of the new authority
//! accepts schedulers and people of that one alone. Other workers may be of the former one until the rotation ends, as they renew later.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use brasserie_common::access::{
    INSIDE_TLS, Identity, IdentityProof, MUST_JOIN_AGAIN, NO_AUTHORITY, Role, ShardLabel,
    TokenNumber,
};
use brasserie_common::text::printable;
use brasserie_common::{Principal, ServiceAddress, Shard, Time, WallTime};
use brasserie_common_identity::{
    AuthorityHash, CertificateDer, Credential, FOLDER, IdentityError, JOIN_TOKEN_VARIABLE,
    KeyRequest, MAX_TOKEN_BYTES, Proven, Token, TokenError, TokenForm, TrustDomain,
    UNKNOWN_SCHEDULER, client_config, joining_client_config, leads_to, proven, server_config,
};
use brasserie_common_runtime::{Clock, FileError, files};
use brasserie_thrift::generated::brasserie::{
    BrasserieJoinArgs, BrasserieJoinResult, BrasserieRenewCertificateArgs,
    BrasserieRenewCertificateResult, CertificateNews, IssuedCertificate, NotAdmittedException,
};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerUpdateStatusBatchArgs, BistroSchedulerUpdateStatusBatchResult,
};
use brasserie_thrift::rpc::{
    Authenticator, CallError, CallResult, CallTimeouts, ClientConfig, ClientPool, Credentials,
    Disconnector, NotSent, PeerAddr, ServerHandle, THRIFT, Unknown,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::options::{SchedulerOptions, TokenPlace};

/// The file with the certificate and its key.
pub(crate) const OWN: &str = "worker.pem";
/// The file with the key of a worker that joins, and the request that it makes until the scheduler has answered.
const JOINING: &str = "joining.pem";
/// The pause between two attempts to join or to renew, while the scheduler does not answer.
pub(crate) const RETRY: Duration = Duration::from_secs(5);
/// The time after which a failure to renew is logged again, while its reason is the same.
const LOG_PAUSE: Duration = Duration::from_secs(60);
/// The number of calls at each address of a scheduler after which a worker waits no longer for those that do not answer, if another address
/// is that of another cluster. With two addresses, that is a minute: a scheduler that restarts is back before.
const PATIENT_ROUNDS: usize = 6;
/// The longest time between two checks whether the certificate is to be renewed, as clocks may be set meanwhile; and the shortest time between
/// two renewals, unless half of the certificate's life is shorter. So a worker whose clock is wrong by days does not renew all the time.
const RENEWAL_CHECK: Duration = Duration::from_secs(60);
/// The shortest.
const LEAST_RENEWAL_CHECK: Duration = Duration::from_secs(1);
/// The words with which a scheduler refuses the calls of a worker whose certificate has expired.
const MUST_RENEW: &str = "it may only renew it";
/// The time within which all workers renew when the authority is replaced: not all at the same moment.
const RENEWALS_SPREAD_MS: u64 = 5000;

/// The reason why a worker cannot become or stay a member.
#[derive(Debug, thiserror::Error)]
pub enum MembershipError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error("--join-token: {0}")]
    Read(#[from] FileError),
    #[error("--join-token: cannot read standard input: {0}")]
    StandardInput(std::io::Error),
    #[error("the token for joining: {0}")]
    Token(#[from] TokenError),
    #[error(
        "the token is for people; a worker joins with one of brasserie token create --role worker"
    )]
    NotForJoining,
    #[error(
        "a worker that joins a cluster with an authority works for one scheduler: give --scheduler once"
    )]
    SeveralSchedulers,
    #[error("the scheduler does not admit this worker: {0}")]
    NotAdmitted(String),
    #[error(
        "no scheduler at the given address has the authority of the token. Either the token is of another cluster, or the authority was replaced \
         since, or somebody poses as the scheduler. Check --scheduler, and get a new token from an administrator: brasserie token create --role \
         worker"
    )]
    OtherAuthority,
    #[error(
        "the scheduler at {0} says that it has no authority, so that no worker can join it. Start it with --listen of an address of the network. \
         Or, if it is on this machine and everybody here may run programs, remove --join-token. Otherwise, somebody may pose as the scheduler"
    )]
    NoAuthority(ServiceAddress),
    #[error(
        "the data directory is that of the shard `{kept}` of its cluster, not of `{wanted}`: choose another --data-dir, or --shard {kept}"
    )]
    OtherShard { kept: ShardLabel, wanted: Shard },
    #[error("the certificate that the scheduler has issued is for another shard or cluster")]
    OtherCertificate,
}

impl MembershipError {
    /// Returns whether each further start would fail in the same way.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            MembershipError::NotAdmitted(_)
                | MembershipError::Token(_)
                | MembershipError::OtherShard { .. }
                | MembershipError::OtherCertificate
                | MembershipError::OtherAuthority
                | MembershipError::NoAuthority(_)
        )
    }
}

/// The worker's side of the network. Without a membership, it is as open as the machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Membership(Option<Arc<Member>>);

/// A member of a cluster.
struct Member {
    folder: PathBuf,
    trust_domain: TrustDomain,
    shard: ShardLabel,
    own: Mutex<OwnSide>,
    /// The last news from the scheduler since the worker started; `None`: none yet.
    learned: Mutex<Option<Learned>>,
    /// Ends the connections of those who may no longer call; set once the port is served.
    server: Mutex<Option<Disconnector>>,
    /// Wakes the task that renews the certificate.
    renew: Notify,
    /// Whether the scheduler has refused a call because the certificate has expired.
    must_renew: AtomicBool,
    /// Grows when calls need new connections.
    proofs: AtomicU64,
}

/// The scheduler's news about certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Learned {
    /// The certificates of a shard that were issued before this second are revoked.
    shards: BTreeMap<ShardLabel, i64>,
    /// The revoked tokens of people who may still have a certificate.
    tokens: BTreeSet<TokenNumber>,
    /// The authorities whose certificates are accepted. If the worker's own are others, it renews its certificate.
    authorities: BTreeSet<[u8; 32]>,
    /// The process of the scheduler, and the number of the news in it.
    told: (i64, i64),
}

/// The certificate in the form that TLS takes, for calls in both directions.
struct OwnSide {
    server: Arc<rustls::ServerConfig>,
    client: Arc<rustls::ClientConfig>,
    authorities: BTreeSet<[u8; 32]>,
    /// The authority that has issued the certificate.
    newest: CertificateDer<'static>,
    issued: WallTime,
    until: WallTime,
    /// The time since which the worker has it, by the clock that nobody sets.
    since: Time,
    /// Whether this process has got it from the scheduler.
    is_new: bool,
}

impl OwnSide {
    fn of(credential: &Credential, is_new: bool) -> Result<Self, IdentityError> {
        let trusted = credential.authorities();
        let newest = trusted.first().cloned();
        let newest =
            newest.ok_or_else(|| IdentityError::NotOurs("it has no authority".to_owned()))?;
        let proven = proven(credential.certificate())?;
        Ok(OwnSide {
            newest,
            server: server_config(credential, &trusted, THRIFT)?,
            client: client_config(Some(credential), &trusted, THRIFT)?,
            authorities: trusted.iter().map(|one| AuthorityHash::of(one).0).collect(),
            issued: proven.issued,
            until: proven.until,
            since: Clock.now(),
            is_new,
        })
    }

    /// Returns the time until a new certificate is wanted: from the middle of the life of this one by either clock. The clock for dates may be
    /// wrong, so it does not count soon after a renewal.
    fn time_to_renewal(&self, now: Time, wall: WallTime) -> Duration {
        let half = self.issued.until(self.until) / 2;
        let passed = now.since(self.since);
        let pause = match self.is_new {
            true => RENEWAL_CHECK.min(half).saturating_sub(passed),
            false => Duration::ZERO,
        };
        let by_date = wall.until(self.issued + half).max(pause);
        by_date.min(half.saturating_sub(passed))
    }

    /// Returns whether the scheduler accepts fewer authorities than this certificate was issued with, because a rotation has ended.
    fn is_behind(&self, learned: &Learned) -> bool {
        !learned.authorities.is_empty() && !self.authorities.is_subset(&learned.authorities)
    }
}

/// The scheduler's answer about a worker's certificate.
enum Acceptance {
    /// The scheduler accepts it, or refuses the call for another reason.
    Accepted,
    /// There is none, or the scheduler refuses it for good.
    MustJoin,
    /// No address has a scheduler with an authority that the worker trusts.
    OtherAuthority,
}

/// Returns whether a worker with this data directory has joined a cluster. A certificate that cannot be read counts too, so that the worker
/// does not start without it.
pub(crate) fn has_joined(data_dir: &Path) -> bool {
    !matches!(files::exists(&data_dir.join(FOLDER).join(OWN)), Ok(false))
}

impl Membership {
    /// Reads the membership, or joins with the token that the operator has given. Without either, the worker is no member.
    ///
    /// A token is for a worker without a certificate, or with one that the scheduler refuses for good, or for one that moves to a scheduler with
    /// another authority. All wait for the scheduler, however long that takes.
    pub(crate) async fn establish(
        data_dir: &Path,
        token: Option<TokenPlace>,
        schedulers: &[SchedulerOptions],
        timeouts: CallTimeouts,
    ) -> Result<Self, MembershipError> {
        let folder = data_dir.join(FOLDER);
        let kept = Credential::read(&folder.join(OWN))?;
        let only_one = match schedulers {
            [scheduler] => Ok(scheduler),
            _ => Err(MembershipError::SeveralSchedulers),
        };
        if kept.is_none() && token.is_none() {
            return Ok(Membership(None));
        }
        let scheduler = only_one?;
        let member = |credential: &Credential, is_new: bool| {
            let member = Member::of(credential, is_new, &folder, &scheduler.shard)?;
            Ok::<_, MembershipError>(Membership(Some(Arc::new(member))))
        };
        let mut own = match kept {
            Some(kept) => member(&kept, false)?,
            None => Membership(None),
        };
        if let Some(place) = token {
            let joined = match own.acceptance(scheduler, timeouts).await {
                Acceptance::Accepted => None,
                Acceptance::MustJoin => {
                    let token = read_token(place).await?;
                    Some(join(kept_request(&folder)?, scheduler, &token, timeouts).await?)
                }
                Acceptance::OtherAuthority => {
                    match own.move_by(place, &folder, scheduler, timeouts).await {
                        Err(why) if !matches!(why, MembershipError::NotAdmitted(_)) => {
                            tracing::warn!("the worker keeps the certificate that it has: {why}");
                            // A later start may need the request again.
                            return Ok(own);
                        }
                        moved => moved?,
                    }
                }
            };
            if let Some(joined) = joined {
                let new = member(&joined, true)?;
                joined.write(&folder.join(OWN))?;
                own.log_join(&new, &scheduler.shard);
                own = new;
            }
        }
        forget_request(&folder)?;
        Ok(own)
    }

    /// Joins anew with a token of an authority that the kept certificate does not know; `None` if it knows that one. The scheduler must prove the
    /// token's authority.
    async fn move_by(
        &self,
        place: TokenPlace,
        folder: &Path,
        scheduler: &SchedulerOptions,
        timeouts: CallTimeouts,
    ) -> Result<Option<Credential>, MembershipError> {
        let token = read_token(place).await?;
        let member = self.0.as_ref();
        if member.is_some_and(|member| member.trusts(token.authority)) {
            return Ok(None);
        }
        let joined = join(kept_request(folder)?, scheduler, &token, timeouts).await?;
        Ok(Some(joined))
    }

    /// Logs that this membership was replaced.
    fn log_join(&self, joined: &Membership, shard: &Shard) {
        let shard = shard.as_str();
        match (&self.0, &joined.0) {
            (Some(from), Some(to)) if from.trust_domain != to.trust_domain => {
                let (from, to) = (&from.trust_domain, &to.trust_domain);
                tracing::warn!(shard, %from, %to, "joined the cluster, and left another one, as the operator has given a token for this one");
            }
            _ => tracing::info!(shard, "joined the cluster"),
        }
    }

    /// Returns what the scheduler says about the certificate that the worker has. Waits for its answer, as joining does: before that, no
    /// scheduler gives the worker anything to do.
    async fn acceptance(&self, scheduler: &SchedulerOptions, timeouts: CallTimeouts) -> Acceptance {
        if !self.is_member() {
            return Acceptance::MustJoin;
        }
        let pool = ClientPool::new(ClientConfig {
            timeouts,
            credentials: self.credentials(),
            ..ClientConfig::default()
        });
        let updates = Vec::new();
        let nothing = BistroSchedulerUpdateStatusBatchArgs { updates };
        let mut findings = Findings::at(scheduler.members.len());
        for (at, address) in scheduler.members.iter().enumerate().cycle() {
            // A call of workers that changes nothing.
            let called = pool.call::<_, BistroSchedulerUpdateStatusBatchResult>(
                &self.scheduler(address),
                "updateStatusBatch",
                &nothing,
            );
            let called = called.await;
            let other = called.is_of_other_authority().then_some(());
            let is_over = findings.note(at, other, is_taken(&called)).is_some();
            match called.into_result() {
                Ok(_) => return Acceptance::Accepted,
                Err(CallError::Unknown(Unknown::Exception { message, .. })) => {
                    if !message.contains(MUST_JOIN_AGAIN) {
                        return Acceptance::Accepted;
                    }
                    let why = printable(&message);
                    tracing::warn!("the worker joins again, as its scheduler has said: {why}");
                    return Acceptance::MustJoin;
                }
                // The worker says so at its heartbeats, too.
                Err(_) if is_over => return Acceptance::OtherAuthority,
                Err(why) => {
                    tracing::warn!(scheduler = %address, "cannot ask yet whether the certificate is accepted, trying again: {why}");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
        Acceptance::OtherAuthority
    }

    pub(crate) fn is_member(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the scheduler at this address.
    pub(crate) fn scheduler(&self, at: &ServiceAddress) -> PeerAddr {
        self.peer(at, Role::Scheduler)
    }

    /// Returns another worker at this address.
    pub(crate) fn worker(&self, at: &ServiceAddress) -> PeerAddr {
        self.peer(at, Role::Worker)
    }

    fn peer(&self, at: &ServiceAddress, role: Role) -> PeerAddr {
        let peer = PeerAddr::new(&at.host, at.port);
        match &self.0 {
            Some(member) => peer.proving(&member.trust_domain.of_role(role)),
            None => peer,
        }
    }

    /// Returns the worker's side of TLS for its calls.
    pub(crate) fn credentials(&self) -> Option<Arc<dyn Credentials>> {
        let member = self.0.clone()?;
        Some(member)
    }

    /// Returns what asks the callers of the worker's port who they are.
    pub(crate) fn authenticator(&self) -> Option<Arc<dyn Authenticator>> {
        let member = self.0.clone()?;
        Some(member)
    }

    /// Lets the member close connections of this server.
    pub(crate) fn watch(&self, server: &ServerHandle) {
        if let Some(member) = &self.0 {
            *member.server.lock() = Some(server.disconnector());
        }
    }

    /// Takes in what the scheduler tells about certificates, and closes the connections of those that are revoked now.
    pub(crate) fn learn(&self, news: CertificateNews) {
        if let Some(member) = &self.0 {
            member.learn(Learned::from(news));
        }
    }

    /// Returns what to add to the reason of a failed call to the scheduler; `None` if that is nothing. Renews the certificate if it has
    /// expired by the clock of the scheduler.
    pub(crate) fn remedy<T>(&self, result: &CallResult<T>) -> Option<String> {
        let member = self.0.as_ref()?;
        if says(result, MUST_RENEW) {
            member.must_renew.store(true, Ordering::SeqCst);
            member.renew.notify_one();
        }
        if says(result, MUST_JOIN_AGAIN) {
            let text = "Until then, this worker goes on asking. It ends its tasks only when the scheduler counts it as lost";
            return Some(text.to_owned());
        }
        result
            .is_of_other_authority()
            .then(|| member.other_authority())
    }

    /// Renews the certificate whenever half of its life is over or the authority is replaced, until the worker ends. `scheduler` returns
    /// the current address.
    pub(crate) async fn keep(
        self,
        pool: ClientPool,
        scheduler: impl Fn() -> ServiceAddress,
        stop: CancellationToken,
    ) {
        let Some(member) = self.0.clone() else {
            return;
        };
        let (mut wait, mut logged) = (RETRY, LoggedFailure::default());
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = member.renew.notified() => {
                    // Not all workers of a cluster at the same moment.
                    let pause = Clock.seed() % RENEWALS_SPREAD_MS;
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                }
            }
            wait = member.time_to_check();
            if !member.wants_renewal() {
                continue;
            }
            let peer = self.scheduler(&scheduler());
            match member.renew(&pool, &peer).await {
                Ok(until) => {
                    tracing::info!(until = %until.as_secs(), "renewed the certificate");
                    logged = LoggedFailure::default();
                    wait = member.time_to_check();
                }
                Err(why) => {
                    if logged.is_due(Clock.now(), &why) {
                        tracing::warn!("cannot renew the certificate, trying again: {why}");
                    }
                    wait = RETRY;
                }
            }
        }
    }
}

/// The last failure to renew that was logged.
#[derive(Debug, Default)]
struct LoggedFailure(Option<(Time, String)>);

impl LoggedFailure {
    /// Returns whether a failure is to be logged now: at once if its reason is another one, and later only from time to time.
    fn is_due(&mut self, now: Time, why: &str) -> bool {
        let is_logged = |(at, logged): &(Time, String)| logged == why && now.since(*at) < LOG_PAUSE;
        let is_due = !self.0.as_ref().is_some_and(is_logged);
        if is_due {
            self.0 = Some((now, why.to_owned()));
        }
        is_due
    }
}

/// Makes the folder for keys, for this user alone.
fn make_folder(folder: &Path) -> Result<(), IdentityError> {
    use std::os::unix::fs::DirBuilderExt as _;
    let made = std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder);
    made.map_err(|error| IdentityError::Write {
        path: folder.to_owned(),
        error,
    })
}

/// Returns the key of an earlier start that was not answered, or a new one that is on disk. So a scheduler that has used the token for a
/// request gets the same request after a crash.
fn kept_request(folder: &Path) -> Result<KeyRequest, IdentityError> {
    let path = folder.join(JOINING);
    if let Some(kept) = KeyRequest::read(&path)? {
        return Ok(kept);
    }
    let key = KeyRequest::create()?;
    make_folder(folder)?;
    key.write(&path)?;
    Ok(key)
}

/// Removes the request of a worker that has its certificate.
fn forget_request(folder: &Path) -> Result<(), IdentityError> {
    let path = folder.join(JOINING);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(IdentityError::Write { path, error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Reads the token from the place that the operator has chosen.
async fn read_token(place: TokenPlace) -> Result<Token, MembershipError> {
    let read = move || -> Result<String, MembershipError> {
        match place {
            TokenPlace::File(path) => Ok(files::read_secret(&path, MAX_TOKEN_BYTES)?),
            TokenPlace::StandardInput => {
                let mut line = String::new();
                let read = std::io::stdin().read_line(&mut line);
                read.map_err(MembershipError::StandardInput)?;
                Ok(line)
            }
            TokenPlace::Environment => Ok(std::env::var(JOIN_TOKEN_VARIABLE).unwrap_or_default()),
        }
    };
    let read = tokio::task::spawn_blocking(read).await;
    let text = read.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    let token = Token::from_text(&text)?;
    match token.form {
        TokenForm::Join => Ok(token),
        TokenForm::Person => Err(MembershipError::NotForJoining),
    }
}

/// The settings of a worker that has no certificate yet.
#[derive(Debug)]
struct Joining(Arc<rustls::ClientConfig>);

impl Credentials for Joining {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.0)
    }
}

/// Returns whether the peer has refused a call with these words.
fn says<T>(result: &CallResult<T>, words: &str) -> bool {
    match result {
        CallResult::Unknown(Unknown::Exception { message, .. }) => message.contains(words),
        CallResult::Done(_) | CallResult::NotSent(_) | CallResult::Unknown(_) => false,
    }
}

/// The last findings at the addresses of a scheduler, each of which says why the worker is no member there; `None`: nothing
/// speaks against it.
struct Findings<T> {
    last: Vec<Option<T>>,
    /// The number of calls, at one address after the other, since one was taken by a peer that may be the scheduler.
    calls: usize,
}

impl<T> Findings<T> {
    fn at(addresses: usize) -> Self {
        Findings {
            last: (0..addresses).map(|_| None).collect(),
            calls: 0,
        }
    }

    /// Notes a call at an address. One that was not taken changes no finding. Returns a finding once there is no hope: each address has
    /// one, or has had time to answer.
    fn note(&mut self, at: usize, found: Option<T>, is_taken: bool) -> Option<T> {
        self.calls += 1;
        if found.is_none() && is_taken {
            self.calls = 0;
        }
        if found.is_some() || is_taken {
            self.last[at] = found;
        }
        let is_late = self.calls >= PATIENT_ROUNDS * self.last.len();
        if is_late || self.last.iter().all(Option::is_some) {
            return self.last.iter_mut().find_map(Option::take);
        }
        None
    }
}

/// Returns whether a peer that may be the scheduler has taken the call.
fn is_taken<T>(called: &CallResult<T>) -> bool {
    !matches!(called, CallResult::NotSent(_))
}

/// Returns whether the scheduler at an address says that it has no authority. Such a scheduler takes TLS for an error, so this asks in plain
/// text, and without a secret.
pub async fn has_no_authority(peer: &PeerAddr, timeouts: CallTimeouts) -> bool {
    let pool = ClientPool::new(ClientConfig {
        timeouts,
        ..ClientConfig::default()
    });
    let nothing = BrasserieJoinArgs {
        secret: String::new(),
        shard: String::new(),
        request: Vec::new(),
    };
    let called = pool.call::<_, BrasserieJoinResult>(peer, "join", &nothing);
    match called.await {
        CallResult::Done(BrasserieJoinResult { ex: Some(why), .. }) => {
            why.message.is_some_and(|why| why.starts_with(NO_AUTHORITY))
        }
        CallResult::Done(_) | CallResult::NotSent(_) | CallResult::Unknown(_) => false,
    }
}

/// Joins with a token. The request stays the same until the scheduler has answered, so that an answer that is lost costs nothing.
async fn join(
    key: KeyRequest,
    scheduler: &SchedulerOptions,
    token: &Token,
    timeouts: CallTimeouts,
) -> Result<Credential, MembershipError> {
    let joining = Joining(joining_client_config(token.authority, THRIFT)?);
    let pool = ClientPool::new(ClientConfig {
        timeouts,
        credentials: Some(Arc::new(joining)),
        ..ClientConfig::default()
    });
    let arguments = BrasserieJoinArgs {
        secret: token.secret.reveal(),
        shard: scheduler.shard.as_str().to_owned(),
        request: key.request().to_vec(),
    };
    let mut findings = Findings::at(scheduler.members.len());
    let mut attempt = 0;
    let chain = loop {
        let at = attempt % scheduler.members.len();
        let member = &scheduler.members[at];
        attempt += 1;
        // The hash in the token decides; the name is not known yet.
        let plain = PeerAddr::new(&member.host, member.port);
        let peer = plain.clone().proving(UNKNOWN_SCHEDULER);
        let called = pool
            .call::<_, BrasserieJoinResult>(&peer, "join", &arguments)
            .await;
        let is_closed = matches!(called, CallResult::NotSent(NotSent::ConnectionLost(_)));
        let why = match called.is_of_other_authority() {
            true => Some(MembershipError::OtherAuthority),
            false if is_closed && has_no_authority(&plain, timeouts).await => {
                Some(MembershipError::NoAuthority(member.clone()))
            }
            false => None,
        };
        // An address may be that of another cluster, so each is tried.
        if let Some(why) = findings.note(at, why, is_taken(&called)) {
            return Err(why);
        }
        match answer(called.map(|result| (result.result_value, result.ex))) {
            Ok(chain) => break chain,
            Err(Refusal::Final(why)) => return Err(MembershipError::NotAdmitted(why)),
            Err(Refusal::NoAnswer(why)) => {
                tracing::warn!(scheduler = %member, "cannot join yet, trying again: {why}");
                tokio::time::sleep(RETRY).await;
            }
        }
    };
    let credential = key.with_chain(chain)?;
    let mut authorities = credential.authorities().into_iter();
    match authorities.any(|one| AuthorityHash::of(&one) == token.authority) {
        true => Ok(credential),
        false => Err(MembershipError::OtherCertificate),
    }
}

/// Why there is no certificate.
enum Refusal {
    /// The scheduler has said no.
    Final(String),
    /// Another attempt may succeed.
    NoAnswer(String),
}

fn answer(
    called: CallResult<(Option<IssuedCertificate>, Option<NotAdmittedException>)>,
) -> Result<Vec<CertificateDer<'static>>, Refusal> {
    match called {
        CallResult::Done((_, Some(refused))) => {
            let why = refused.message.unwrap_or_default();
            Err(Refusal::Final(printable(&why)))
        }
        CallResult::Done((Some(issued), None)) => {
            let chain = issued.chain.unwrap_or_default();
            Ok(chain.into_iter().map(CertificateDer::from).collect())
        }
        CallResult::Done((None, None)) => Err(Refusal::NoAnswer("the answer is empty".to_owned())),
        CallResult::NotSent(why) => Err(Refusal::NoAnswer(why.to_string())),
        CallResult::Unknown(why) => Err(Refusal::NoAnswer(why.to_string())),
    }
}

impl From<CertificateNews> for Learned {
    fn from(news: CertificateNews) -> Self {
        let shards = news.shards.unwrap_or_default().into_iter();
        let shards = shards.filter_map(|revoked| {
            let label = ShardLabel::from_label(&revoked.shard?)?;
            Some((label, revoked.issued_before.unwrap_or_default()))
        });
        let tokens = news.tokens.unwrap_or_default().into_iter();
        let tokens = tokens.filter_map(|number| u64::from_str_radix(&number, 16).ok());
        let authorities = news.authorities.unwrap_or_default().into_iter();
        Learned {
            shards: shards.collect(),
            tokens: tokens.map(TokenNumber).collect(),
            authorities: authorities
                .filter_map(|hash| hash.try_into().ok())
                .collect(),
            told: (
                news.source.unwrap_or_default(),
                news.number.unwrap_or_default(),
            ),
        }
    }
}

impl Member {
    /// Errors if the certificate is for another shard.
    fn of(
        credential: &Credential,
        is_new: bool,
        folder: &Path,
        wanted: &Shard,
    ) -> Result<Self, MembershipError> {
        let certified = proven(credential.certificate())?.certified;
        let shard = certified.shard.ok_or(MembershipError::OtherCertificate)?;
        if shard != ShardLabel::of(wanted) {
            return Err(MembershipError::OtherShard {
                kept: shard,
                wanted: wanted.clone(),
            });
        }
        Ok(Member {
            folder: folder.to_owned(),
            trust_domain: certified.trust_domain,
            shard,
            own: Mutex::new(OwnSide::of(credential, is_new)?),
            learned: Mutex::default(),
            server: Mutex::default(),
            renew: Notify::new(),
            must_renew: AtomicBool::new(false),
            proofs: AtomicU64::new(0),
        })
    }

    fn learn(&self, learned: Learned) {
        let mut known = self.learned.lock();
        let is_late =
            |known: &Learned| known.told.0 == learned.told.0 && known.told.1 > learned.told.1;
        if known.as_ref().is_some_and(is_late) {
            // Two calls have overtaken each other.
            return;
        }
        let before = known.replace(learned.clone());
        drop(known);
        let is_first = before.is_none();
        let before = before.unwrap_or_default();
        let new_shard = |shard: &ShardLabel| {
            let revoked = learned.shards.get(shard);
            revoked.is_some() && revoked != before.shards.get(shard)
        };
        // Others than workers have come by the new authority alone.
        let is_behind = self.own.lock().is_behind(&learned);
        if is_behind || learned.shards.keys().any(new_shard) {
            // Servers prove themselves anew too.
            self.call_anew();
        }
        let new_token =
            |token: &TokenNumber| learned.tokens.contains(token) && !before.tokens.contains(token);
        if let Some(server) = &*self.server.lock() {
            server.disconnect(|peer| match peer {
                Principal::Authenticated(identity) => {
                    (is_behind && identity.role == Role::Worker)
                        || identity.shard.as_ref().is_some_and(new_shard)
                        || (identity.shard.is_none()
                            && identity.token.as_ref().is_some_and(new_token))
                }
                // Some of them were refused only because the worker did not know yet. They come again.
                Principal::Stranger(_) => is_first,
                Principal::Unauthenticated(_) | Principal::Own => false,
            });
        }
        if self.wants_renewal() {
            self.renew.notify_one();
        }
    }

    /// Returns whether the worker's certificate was issued with this authority among those that it trusts.
    fn trusts(&self, authority: AuthorityHash) -> bool {
        self.own.lock().authorities.contains(&authority.0)
    }

    /// Makes further calls go over new connections.
    fn call_anew(&self) {
        self.proofs.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns whether a new certificate is wanted now: from the middle of the life of this one, or if the scheduler's authorities are
    /// others, or if the scheduler says that this one has expired.
    fn wants_renewal(&self) -> bool {
        let own = self.own.lock();
        let learned = self.learned.lock();
        let is_other = |learned: &Learned| {
            !learned.authorities.is_empty() && learned.authorities != own.authorities
        };
        own.time_to_renewal(Clock.now(), Clock.wall()).is_zero()
            || self.must_renew.load(Ordering::SeqCst)
            || learned.as_ref().is_some_and(is_other)
    }

    /// Returns the time until the next check whether a new certificate is wanted.
    fn time_to_check(&self) -> Duration {
        let left = self.own.lock().time_to_renewal(Clock.now(), Clock.wall());
        left.clamp(LEAST_RENEWAL_CHECK, RENEWAL_CHECK)
    }

    /// Returns what to do if the scheduler has another authority.
    fn other_authority(&self) -> String {
        format!(
            "The scheduler there has another authority than the certificate of this worker. Either it is the scheduler of another cluster than {}, \
             or its authority was replaced while this worker was away. In that case, end this worker, and start it in its data directory with \
             --join-token and a token of an administrator of that scheduler: brasserie token create --role worker",
            self.trust_domain
        )
    }

    /// Gets a certificate for a new key, and keeps both.
    async fn renew(&self, pool: &ClientPool, peer: &PeerAddr) -> Result<WallTime, String> {
        let text = |error: IdentityError| error.to_string();
        let key = KeyRequest::create().map_err(text)?;
        let arguments = BrasserieRenewCertificateArgs {
            request: key.request().to_vec(),
        };
        let called =
            pool.call::<_, BrasserieRenewCertificateResult>(peer, "renewCertificate", &arguments);
        let called = called.await.map(|result| (result.result_value, result.ex));
        let is_other = called.is_of_other_authority();
        let chain = match answer(called) {
            Ok(chain) => chain,
            Err(Refusal::Final(why) | Refusal::NoAnswer(why)) => {
                return Err(match is_other {
                    true => format!("{why}. {}", self.other_authority()),
                    false => why,
                });
            }
        };
        let credential = key.with_chain(chain).map_err(text)?;
        let own = OwnSide::of(&credential, true).map_err(text)?;
        let certified = proven(credential.certificate()).map_err(text)?.certified;
        if (certified.trust_domain, certified.shard)
            != (self.trust_domain.clone(), Some(self.shard.clone()))
        {
            return Err(MembershipError::OtherCertificate.to_string());
        }
        let path = self.folder.join(OWN);
        let written = tokio::task::spawn_blocking(move || credential.write(&path)).await;
        written.map_err(|error| error.to_string())?.map_err(text)?;
        Ok(self.take(own))
    }

    /// Shows another certificate from now on, and returns when it expires. Peers prove themselves anew if the authorities are others.
    fn take(&self, own: OwnSide) -> WallTime {
        let until = own.until;
        self.must_renew.store(false, Ordering::SeqCst);
        let former = std::mem::replace(&mut *self.own.lock(), own);
        let is_other = former.authorities != self.own.lock().authorities;
        // The scheduler learns by the next call that the certificate has arrived.
        self.call_anew();
        if let (true, Some(server)) = (is_other, &*self.server.lock()) {
            server.disconnect_certified();
        }
        until
    }

    /// Returns who the holder is of the first of these certificates, which is verified.
    fn holder(
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
}

/// Reads what the first of the certificates that a peer has shown proves.
fn proven_by(shown: &[CertificateDer<'static>]) -> Result<Proven, String> {
    let first = shown
        .first()
        .ok_or_else(|| "the peer has shown no certificate".to_owned())?;
    proven(first).map_err(|error| error.to_string())
}

impl Member {
    /// Errors if a valid certificate is revoked, or goes back to an authority whose certificates are not accepted for its role.
    fn check_accepted(
        &self,
        proven: &Proven,
        shown: &[CertificateDer<'static>],
    ) -> Result<(), String> {
        self.check_authority(proven.certified.role, shown)?;
        self.check_revoked(proven)
    }

    fn check_authority(&self, role: Role, shown: &[CertificateDer<'static>]) -> Result<(), String> {
        let newest = {
            let (own, learned) = (self.own.lock(), self.learned.lock());
            let is_behind = learned
                .as_ref()
                .is_some_and(|learned| own.is_behind(learned));
            if own.authorities.len() == 1 || (role == Role::Worker && !is_behind) {
                return Ok(());
            }
            own.newest.clone()
        };
        match leads_to(shown, &newest, Clock.wall()) {
            true => Ok(()),
            false => Err(
                "its certificate is of an authority that was replaced. A command that runs again gets a certificate of the new one; a second \
                 head node needs a copy of the new one"
                    .to_owned(),
            ),
        }
    }

    /// Errors if a valid certificate is revoked, or if that is not known yet.
    fn check_revoked(&self, proven: &Proven) -> Result<(), String> {
        let certified = &proven.certified;
        if certified.role == Role::Scheduler {
            return Ok(());
        }
        let learned = self.learned.lock();
        let Some(learned) = &*learned else {
            return Err(
                "this worker has just started, and its scheduler has not told it yet which certificates are revoked: try again in some seconds"
                    .to_owned(),
            );
        };
        let is_revoked = match &certified.shard {
            Some(shard) => {
                let revoked = learned.shards.get(shard);
                revoked.is_some_and(|before| proven.issued.as_secs() < *before)
            }
            None => certified
                .token
                .is_some_and(|token| learned.tokens.contains(&token)),
        };
        match (is_revoked, &certified.shard) {
            (false, _) => Ok(()),
            (true, Some(shard)) => Err(format!(
                "its certificate is revoked, that of the shard `{shard}`"
            )),
            (true, None) => Err("its certificate is revoked".to_owned()),
        }
    }
}

impl Authenticator for Member {
    fn tls(&self) -> Option<Arc<rustls::ServerConfig>> {
        Some(Arc::clone(&self.own.lock().server))
    }

    fn plain(&self, from: SocketAddr) -> Principal {
        let why = format!(
            "this worker takes calls {INSIDE_TLS}, from its scheduler, other workers and people of its cluster"
        );
        Principal::plain_stranger(from, why)
    }

    fn identify(&self, from: SocketAddr, certificates: &[CertificateDer<'static>]) -> Principal {
        match self.holder(from, certificates) {
            Ok(identity) => Principal::Authenticated(Arc::new(identity)),
            Err(why) => Principal::stranger(from, why),
        }
    }
}

impl Credentials for Member {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.own.lock().client)
    }

    fn accepts(&self, shown: &[CertificateDer<'static>]) -> Result<(), String> {
        self.check_accepted(&proven_by(shown)?, shown)
    }

    fn version(&self) -> u64 {
        self.proofs.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Member({} of {})", self.shard, self.trust_domain)
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common_identity::{Authority, Certified, Lifetime};
    use brasserie_thrift::generated::brasserie::RevokedShard;

    use super::*;

    fn authority() -> Authority {
        Authority::create(Clock.wall()).expect("an authority")
    }

    fn credential(authority: &Authority, role: Role, shard: Option<&str>) -> Credential {
        let key = KeyRequest::create().expect("a key");
        let certified = Certified {
            trust_domain: authority.trust_domain().clone(),
            role,
            shard: shard.map(label),
            token: None,
        };
        let chain = authority.certify(key.request(), &certified, Clock.wall(), Lifetime::WORKER);
        let credential = key.with_chain(chain.expect("a certificate"));
        credential.expect("its key")
    }

    fn own_side(authority: &Authority, is_new: bool) -> OwnSide {
        let own = credential(authority, Role::Worker, Some("w1"));
        OwnSide::of(&own, is_new).expect("ours")
    }

    fn member(authority: &Authority) -> Member {
        Member {
            folder: PathBuf::new(),
            trust_domain: authority.trust_domain().clone(),
            shard: label("w1"),
            own: Mutex::new(own_side(authority, true)),
            learned: Mutex::default(),
            server: Mutex::default(),
            renew: Notify::new(),
            must_renew: AtomicBool::new(false),
            proofs: AtomicU64::new(0),
        }
    }

    fn label(shard: &str) -> ShardLabel {
        ShardLabel::of(&Shard::try_from(shard).expect("a shard"))
    }

    #[test]
    fn a_wrong_clock_makes_no_worker_renew_all_the_time_or_never() {
        let life = Lifetime::WORKER.0;
        let own = own_side(&authority(), true);
        let after =
            |passed: Duration, wall: WallTime| own.time_to_renewal(own.since + passed, wall);
        let right = own.issued;
        assert_eq!(after(Duration::ZERO, right), life / 2);
        assert_eq!(after(life / 2, right + life / 2), Duration::ZERO);
        let ahead = right + 10 * life;
        assert_eq!(after(Duration::ZERO, ahead), RENEWAL_CHECK);
        assert_eq!(after(RENEWAL_CHECK, ahead), Duration::ZERO);
        let behind = WallTime(0);
        assert_eq!(after(Duration::ZERO, behind), life / 2);
        assert_eq!(after(life / 2, behind), Duration::ZERO);
        // A certificate from the disk may be old.
        let kept = own_side(&authority(), false);
        assert_eq!(
            kept.time_to_renewal(kept.since, kept.issued + life),
            Duration::ZERO
        );
    }

    #[test]
    fn a_failing_renewal_is_logged_at_once_and_then_each_minute() {
        let mut logged = LoggedFailure::default();
        let mut is_due = |seconds: u64, why| {
            let now = Time::ZERO + Duration::from_secs(seconds);
            logged.is_due(now, why)
        };
        assert!(is_due(0, "revoked"));
        assert!(!(5..60).any(|second| is_due(second, "revoked")));
        assert!(is_due(60, "revoked"));
        assert!(is_due(61, "no answer") && is_due(62, "revoked"));
        assert!(!is_due(63, "revoked"));
    }

    #[test]
    fn an_address_without_an_answer_hides_no_other_cluster() {
        let dead = |findings: &mut Findings<u8>| findings.note(0, None, false);
        let mut findings = Findings::at(2);
        for round in 1..=PATIENT_ROUNDS {
            assert_eq!(dead(&mut findings), None, "{round}");
            let ended = findings.note(1, Some(7), false).is_some();
            assert_eq!(ended, round == PATIENT_ROUNDS, "{round}");
        }
        // None of them is of another cluster.
        let mut findings = Findings::at(1);
        assert!((0..100).all(|_| dead(&mut findings).is_none()));
        // Each has a finding, and the first does not answer at the moment.
        let mut findings = Findings::at(2);
        assert_eq!(findings.note(0, Some(1), false), None);
        assert_eq!(dead(&mut findings), None);
        assert_eq!(findings.note(1, Some(2), false), Some(1));
        // The first may be the scheduler, and is too busy.
        let mut findings = Findings::at(2);
        for _ in 0..100 {
            assert_eq!(findings.note(0, None, true), None);
            assert_eq!(findings.note(1, Some(2), false), None);
        }
    }

    #[test]
    fn news_that_were_overtaken_are_ignored() {
        let member = member(&authority());
        let news = |told: (i64, i64), shards: &[&str]| {
            let revoked = |shard: &&str| RevokedShard {
                shard: Some(label(shard).as_str().to_owned()),
                issued_before: Some(1),
            };
            Learned::from(CertificateNews {
                shards: Some(shards.iter().map(revoked).collect()),
                source: Some(told.0),
                number: Some(told.1),
                ..CertificateNews::default()
            })
        };
        let known = || {
            let learned = member.learned.lock();
            let learned = learned.as_ref().expect("some news");
            learned.shards.keys().cloned().collect::<Vec<_>>()
        };
        member.learn(news((7, 2), &["w2"]));
        let version = member.version();
        member.learn(news((7, 1), &[]));
        assert_eq!(known(), [label("w2")]);
        member.learn(news((7, 3), &["w2", "w3"]));
        assert_eq!(known(), [label("w2"), label("w3")]);
        assert!(member.version() > version, "servers prove themselves anew");
        // Another process of the scheduler counts anew.
        member.learn(news((8, 0), &["w3"]));
        assert_eq!(known(), [label("w3")]);
    }

    #[test]
    fn a_worker_that_has_renewed_obeys_the_new_authority_alone() {
        let first = authority();
        let second = first.successor(Clock.wall()).expect("a successor");
        let third = second.successor(Clock.wall()).expect("a successor");
        let member = member(&first);
        let trusts = |authorities: &[&Authority]| Learned {
            authorities: authorities.iter().map(|one| one.hash().0).collect(),
            ..Learned::default()
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
        // It has not renewed yet, and the scheduler has its new certificate.
        member.learn(trusts(&[&second, &first]));
        all_are(&first, true);
        all_are(&second, true);
        member.take(own_side(&second, true));
        all_are(&second, true);
        all_are(&first, false);
        let why = accepted(&first, Role::Scheduler).expect_err("a thief");
        let is_plain = !why.contains("  ");
        assert!(why.contains("was replaced") && is_plain, "{why}");
        accepted(&first, Role::Worker).expect("it has not renewed yet");
        // The end of the rotation arrives before this worker has renewed again.
        let version = member.version();
        member.learn(trusts(&[&second]));
        assert!(member.version() > version, "servers prove themselves anew");
        accepted(&first, Role::Worker).expect_err("it had to renew");
        accepted(&second, Role::Worker).expect("a worker");
        let trusted = [&first, &second, &third].map(|one| member.trusts(one.hash()));
        assert_eq!(
            trusted,
            [true, true, false],
            "a token of another one moves it"
        );
        // It was away meanwhile, and another rotation has begun.
        member.learn(trusts(&[&third, &second]));
        all_are(&third, true);
        all_are(&second, true);
        all_are(&first, false);
    }
}
