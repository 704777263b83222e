//! Joins a cluster with a token, if the scheduler accepts no certificate that the worker has.

use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use brasserie_common::access::{MUST_JOIN_AGAIN, NO_AUTHORITY};
use brasserie_common::text::printable;
use brasserie_common::{ServiceAddress, Shard};
use brasserie_common_identity::{
    AuthorityHash, CertificateDer, Credential, FOLDER, IdentityError, JOIN_TOKEN_VARIABLE,
    KeyRequest, MAX_TOKEN_BYTES, Token, TokenForm, UNKNOWN_SCHEDULER, joining_client_config,
};
use brasserie_common_runtime::files;
use brasserie_thrift::generated::brasserie::{
    BrasserieJoinArgs, BrasserieJoinResult, IssuedCertificate, NotAdmittedException,
};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerUpdateStatusBatchArgs, BistroSchedulerUpdateStatusBatchResult,
};
use brasserie_thrift::rpc::{
    CallError, CallResult, CallTimeouts, ClientConfig, ClientPool, Credentials, NotSent, PeerAddr,
    THRIFT, Unknown,
};

use super::{CERTIFICATE_FILE, Member, Membership, MembershipError, RETRY};
use crate::options::{SchedulerOptions, TokenPlace};

/// The file with the key of a worker that joins, and with its request until the scheduler has answered.
const REQUEST_FILE: &str = "joining.pem";
/// The number of calls at each address of a scheduler after which a worker stops waiting for addresses without an answer, if another
/// address is that of another cluster. With two addresses, that is a minute: long enough for a scheduler that restarts.
const MAX_ROUNDS: usize = 6;

/// The state of the certificate that a worker has at its start.
enum CertificateState {
    /// The scheduler accepts it, or refuses the call for another reason.
    Accepted,
    /// There is none, or the scheduler refuses it for good.
    MustJoin,
    /// No address has a scheduler with an authority that the worker trusts.
    OtherAuthority,
}

impl Membership {
    /// Reads the membership, or joins with the token that the operator has given. Without either, the worker is no member.
    ///
    /// The worker uses the token if it has no certificate, if the scheduler refuses its certificate for good, or if the scheduler has
    /// another authority, which the token names. It waits for the scheduler without a limit.
    pub(crate) async fn establish(
        data_dir: &Path,
        token: Option<TokenPlace>,
        schedulers: &[SchedulerOptions],
        timeouts: CallTimeouts,
    ) -> Result<Self, MembershipError> {
        let folder = data_dir.join(FOLDER);
        let stored = Credential::read(&folder.join(CERTIFICATE_FILE))?;
        if stored.is_none() && token.is_none() {
            return Ok(Membership(None));
        }
        let [scheduler] = schedulers else {
            return Err(MembershipError::SeveralSchedulers);
        };
        let member = |credential: &Credential, is_new: bool| {
            let member = Member::new(credential, is_new, &folder, &scheduler.shard)?;
            Ok::<_, MembershipError>(Membership(Some(Arc::new(member))))
        };
        let mut own = match stored {
            Some(stored) => member(&stored, false)?,
            None => Membership(None),
        };
        if let Some(place) = token {
            let joined = match own.certificate_state(scheduler, timeouts).await {
                CertificateState::Accepted => None,
                CertificateState::MustJoin => {
                    let token = read_token(place).await?;
                    Some(join(&folder, scheduler, &token, timeouts).await?)
                }
                CertificateState::OtherAuthority => {
                    let joined = own.join_other_authority(place, &folder, scheduler, timeouts);
                    match joined.await {
                        Err(why) if !matches!(why, MembershipError::NotAdmitted(_)) => {
                            tracing::warn!("the worker keeps the certificate that it has: {why}");
                            // A later start may need the request again.
                            return Ok(own);
                        }
                        joined => joined?,
                    }
                }
            };
            if let Some(joined) = joined {
                let new = member(&joined, true)?;
                joined.write(&folder.join(CERTIFICATE_FILE))?;
                own.log_joining(&new, &scheduler.shard);
                own = new;
            }
        }
        remove_request(&folder)?;
        Ok(own)
    }

    /// Joins with a token of an authority that the worker does not trust; `None` if it trusts that authority.
    async fn join_other_authority(
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
        join(folder, scheduler, &token, timeouts).await.map(Some)
    }

    /// Logs that another membership replaces this one.
    fn log_joining(&self, joined: &Membership, shard: &Shard) {
        let shard = shard.as_str();
        match (&self.0, &joined.0) {
            (Some(from), Some(to)) if from.trust_domain != to.trust_domain => {
                let (from, to) = (&from.trust_domain, &to.trust_domain);
                tracing::warn!(shard, %from, %to, "joined the cluster, and left another one, as the operator has given a token for this one");
            }
            _ => tracing::info!(shard, "joined the cluster"),
        }
    }

    /// Asks the scheduler whether it accepts the worker's certificate. Waits for the answer, because no scheduler gives the worker any task
    /// before that.
    async fn certificate_state(
        &self,
        scheduler: &SchedulerOptions,
        timeouts: CallTimeouts,
    ) -> CertificateState {
        if !self.is_member() {
            return CertificateState::MustJoin;
        }
        let pool = &pool(timeouts, self.credentials());
        // A call of workers that changes nothing.
        let updates = Vec::new();
        let arguments = &BistroSchedulerUpdateStatusBatchArgs { updates };
        let failure = "cannot ask yet whether the certificate is accepted";
        let answered = call_until_answered(scheduler, failure, |address| async move {
            let (peer, method) = (self.scheduler(address), "updateStatusBatch");
            let called = pool.call(&peer, method, arguments).await;
            let called: CallResult<BistroSchedulerUpdateStatusBatchResult> = called;
            Attempt {
                is_received: is_received(&called),
                mismatch: called.is_of_other_authority().then_some(()),
                answer: match called.into_result() {
                    Ok(_) => Ok(None),
                    Err(CallError::Unknown(Unknown::Exception { message, .. })) => {
                        Ok(Some(message))
                    }
                    Err(why) => Err(why.to_string()),
                },
            }
        });
        match answered.await {
            Ok(Some(refusal)) if refusal.contains(MUST_JOIN_AGAIN) => {
                let why = printable(&refusal);
                tracing::warn!("the worker joins again, as its scheduler has said: {why}");
                CertificateState::MustJoin
            }
            Ok(_) => CertificateState::Accepted,
            // Failed heartbeats log the same.
            Err(()) => CertificateState::OtherAuthority,
        }
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

/// Returns the stored request of an earlier start that got no answer, or stores a new one. A scheduler that has used the token for a
/// request answers the same request again after a crash.
fn stored_request(folder: &Path) -> Result<KeyRequest, IdentityError> {
    let path = folder.join(REQUEST_FILE);
    if let Some(stored) = KeyRequest::read(&path)? {
        return Ok(stored);
    }
    let key = KeyRequest::create()?;
    let mut private = std::fs::DirBuilder::new();
    let created = private.recursive(true).mode(0o700).create(folder);
    created.map_err(|error| IdentityError::Write {
        path: folder.to_owned(),
        error,
    })?;
    key.write(&path)?;
    Ok(key)
}

/// Removes the request of a worker that has its certificate.
fn remove_request(folder: &Path) -> Result<(), IdentityError> {
    let path = folder.join(REQUEST_FILE);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(IdentityError::Write { path, error })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The worker's side of TLS while it has no certificate.
#[derive(Debug)]
struct JoiningCredentials(Arc<rustls::ClientConfig>);

impl Credentials for JoiningCredentials {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.0)
    }
}

fn pool(timeouts: CallTimeouts, credentials: Option<Arc<dyn Credentials>>) -> ClientPool {
    ClientPool::new(ClientConfig {
        timeouts,
        credentials,
        ..ClientConfig::default()
    })
}

/// Joins with a token. The request stays the same until the scheduler has answered, so a lost answer uses up no token.
async fn join(
    folder: &Path,
    scheduler: &SchedulerOptions,
    token: &Token,
    timeouts: CallTimeouts,
) -> Result<Credential, MembershipError> {
    let key = stored_request(folder)?;
    let credentials = JoiningCredentials(joining_client_config(token.authority, THRIFT)?);
    let pool = &pool(timeouts, Some(Arc::new(credentials)));
    let arguments = &BrasserieJoinArgs {
        secret: token.secret.reveal(),
        shard: scheduler.shard.as_str().to_owned(),
        request: key.request().to_vec(),
    };
    let issued = call_until_answered(scheduler, "cannot join yet", |address| async move {
        let plain = PeerAddr::new(&address.host, address.port);
        let peer = plain.clone().proving(UNKNOWN_SCHEDULER);
        let called: CallResult<BrasserieJoinResult> = pool.call(&peer, "join", arguments).await;
        let is_closed = matches!(called, CallResult::NotSent(NotSent::ConnectionLost(_)));
        Attempt {
            is_received: is_received(&called),
            mismatch: match called.is_of_other_authority() {
                true => Some(MembershipError::OtherAuthority),
                false if is_closed && has_no_authority(&plain, timeouts).await => {
                    Some(MembershipError::NoAuthority(address.clone()))
                }
                false => None,
            },
            answer: issued_chain(called.map(|result| (result.result_value, result.ex))),
        }
    });
    let chain = issued.await?.map_err(MembershipError::NotAdmitted)?;
    let credential = key.with_chain(chain)?;
    let mut authorities = credential.authorities().into_iter();
    match authorities.any(|one| AuthorityHash::of(&one) == token.authority) {
        true => Ok(credential),
        false => Err(MembershipError::OtherCertificate),
    }
}

/// Returns whether the scheduler at an address says that it has no authority. Such a scheduler closes connections of TLS, so this call is
/// in plain text, and without a secret.
pub async fn has_no_authority(peer: &PeerAddr, timeouts: CallTimeouts) -> bool {
    let nothing = BrasserieJoinArgs {
        secret: String::new(),
        shard: String::new(),
        request: Vec::new(),
    };
    let pool = pool(timeouts, None);
    let called = pool.call::<_, BrasserieJoinResult>(peer, "join", &nothing);
    let CallResult::Done(answer) = called.await else {
        return false;
    };
    let message = answer.ex.and_then(|refused| refused.message);
    message.is_some_and(|message| message.starts_with(NO_AUTHORITY))
}

/// The chain of a new certificate, or the scheduler's reason for refusing it.
type IssuedChain = Result<Vec<CertificateDer<'static>>, String>;

/// Returns the scheduler's answer to a request for a certificate. Errors if there is none, so that another attempt may succeed.
pub(super) fn issued_chain(
    called: CallResult<(Option<IssuedCertificate>, Option<NotAdmittedException>)>,
) -> Result<IssuedChain, String> {
    match called {
        CallResult::Done((_, Some(refused))) => {
            let why = refused.message.unwrap_or_default();
            Ok(Err(printable(&why)))
        }
        CallResult::Done((Some(issued), None)) => {
            let chain = issued.chain.unwrap_or_default();
            Ok(Ok(chain.into_iter().map(CertificateDer::from).collect()))
        }
        CallResult::Done((None, None)) => Err("the answer is empty".to_owned()),
        CallResult::NotSent(why) => Err(why.to_string()),
        CallResult::Unknown(why) => Err(why.to_string()),
    }
}

/// A call at one address of a scheduler.
struct Attempt<T, E> {
    /// Whether a peer has received the call.
    is_received: bool,
    /// The reason why the peer is not the worker's scheduler; `None` if it may be.
    mismatch: Option<E>,
    /// The answer, or the reason to try again.
    answer: Result<T, String>,
}

fn is_received<T>(called: &CallResult<T>) -> bool {
    !matches!(called, CallResult::NotSent(_))
}

/// Calls one address of a scheduler after the other until one answers. Errors with a mismatch if no address is left that may be the
/// worker's scheduler. `failure` says in the log what the worker cannot do yet.
async fn call_until_answered<'a, T, E, F: Future<Output = Attempt<T, E>>>(
    scheduler: &'a SchedulerOptions,
    failure: &str,
    call: impl Fn(&'a ServiceAddress) -> F,
) -> Result<T, E> {
    let mut mismatches = Mismatches::new(scheduler.members.len());
    let mut at = 0;
    loop {
        let address = &scheduler.members[at];
        let attempt = call(address).await;
        // An address may be that of another cluster, so the worker tries each.
        if let Some(why) = mismatches.note(at, attempt.mismatch, attempt.is_received) {
            return Err(why);
        }
        match attempt.answer {
            Ok(answer) => return Ok(answer),
            Err(why) => {
                tracing::warn!(scheduler = %address, "{failure}, trying again: {why}");
                tokio::time::sleep(RETRY).await;
            }
        }
        at = (at + 1) % scheduler.members.len();
    }
}

/// The addresses of a scheduler, each with the mismatch of the last call there.
struct Mismatches<E> {
    last: Vec<Option<E>>,
    /// The number of calls, at one address after the other, since a peer that may be the scheduler has received one.
    calls: usize,
}

impl<E> Mismatches<E> {
    fn new(addresses: usize) -> Self {
        Mismatches {
            last: (0..addresses).map(|_| None).collect(),
            calls: 0,
        }
    }

    /// Notes a call at an address. A call that no peer has received changes no mismatch. Returns a mismatch if each address has one, or has
    /// had time to answer.
    fn note(&mut self, at: usize, mismatch: Option<E>, is_received: bool) -> Option<E> {
        self.calls += 1;
        if mismatch.is_none() && is_received {
            self.calls = 0;
        }
        if mismatch.is_some() || is_received {
            self.last[at] = mismatch;
        }
        let is_late = self.calls >= MAX_ROUNDS * self.last.len();
        if is_late || self.last.iter().all(Option::is_some) {
            return self.last.iter_mut().find_map(Option::take);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_an_answer_hides_no_other_cluster() {
        let no_answer = |mismatches: &mut Mismatches<u8>| mismatches.note(0, None, false);
        let mut mismatches = Mismatches::new(2);
        for round in 1..=MAX_ROUNDS {
            assert_eq!(no_answer(&mut mismatches), None, "{round}");
            let ended = mismatches.note(1, Some(7), false).is_some();
            assert_eq!(ended, round == MAX_ROUNDS, "{round}");
        }
        // No address is of another cluster.
        let mut mismatches = Mismatches::new(1);
        assert!((0..100).all(|_| no_answer(&mut mismatches).is_none()));
        // Each has a mismatch, and the first does not answer at the moment.
        let mut mismatches = Mismatches::new(2);
        assert_eq!(mismatches.note(0, Some(1), false), None);
        assert_eq!(no_answer(&mut mismatches), None);
        assert_eq!(mismatches.note(1, Some(2), false), Some(1));
        // The first may be the scheduler, and is too busy.
        let mut mismatches = Mismatches::new(2);
        for _ in 0..100 {
            assert_eq!(mismatches.note(0, None, true), None);
            assert_eq!(mismatches.note(1, Some(2), false), None);
        }
    }
}
