//! The worker's membership of a cluster with an authority: its certificate, and the callers and servers that it accepts.
//!
//! A worker without a membership accepts calls without any proof, and calls its schedulers in plain text. A member uses TLS for both.
//!
//! * `joining` decides at the start whether the worker uses a token, and when it gives up waiting for the scheduler.
//! * `certificate` decides when the worker renews its certificate.
//! * `acceptance` decides which certificates of callers and servers count, by the rules that the scheduler sends.

mod acceptance;
mod certificate;
mod joining;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use brasserie_common::access::{MUST_JOIN_AGAIN, Role, ShardLabel};
use brasserie_common::{ServiceAddress, Shard};
use brasserie_common_identity::{
    Credential, FOLDER, IdentityError, TokenError, TrustDomain, proven,
};
use brasserie_common_runtime::{FileError, files};
use brasserie_thrift::generated::brasserie::CertificateNews;
use brasserie_thrift::rpc::{
    Authenticator, CallResult, Credentials, Disconnector, PeerAddr, ServerHandle, Unknown,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use acceptance::CertificateRules;
use certificate::OwnCertificate;
pub use joining::has_no_authority;

/// The file with the certificate and its key, in the folder `identity` of the data directory.
pub(crate) const CERTIFICATE_FILE: &str = "worker.pem";
/// The pause between two attempts to join or to renew, while the scheduler does not answer.
pub(crate) const RETRY: Duration = Duration::from_secs(5);
/// The words with which a scheduler refuses the calls of a worker whose certificate has expired.
const MUST_RENEW: &str = "it may only renew it";

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

/// The membership of a worker; `None`: the worker is no member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Membership(Option<Arc<Member>>);

/// A member of a cluster.
struct Member {
    folder: PathBuf,
    trust_domain: TrustDomain,
    shard: ShardLabel,
    own: Mutex<OwnCertificate>,
    /// The scheduler's last rules since the worker started; `None`: none yet.
    rules: Mutex<Option<CertificateRules>>,
    /// Ends the connections of peers that may no longer call; set once the port is served.
    server: Mutex<Option<Disconnector>>,
    /// Wakes the task that renews the certificate.
    renewal_wanted: Notify,
    /// Whether the scheduler has refused a call because the certificate has expired.
    is_expired_at_scheduler: AtomicBool,
    /// Grows when calls need new connections.
    credentials_version: AtomicU64,
}

/// Returns whether a worker with this data directory has joined a cluster. A certificate that cannot be read counts too, so that the worker
/// does not start without it.
pub(crate) fn has_joined(data_dir: &Path) -> bool {
    let file = data_dir.join(FOLDER).join(CERTIFICATE_FILE);
    !matches!(files::exists(&file), Ok(false))
}

impl Membership {
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

    /// Returns the worker's side of TLS for its port, which identifies the callers.
    pub(crate) fn authenticator(&self) -> Option<Arc<dyn Authenticator>> {
        let member = self.0.clone()?;
        Some(member)
    }

    /// Lets the member close connections of this server.
    pub(crate) fn set_server(&self, server: &ServerHandle) {
        if let Some(member) = &self.0 {
            *member.server.lock() = Some(server.disconnector());
        }
    }

    /// Puts the scheduler's rules for certificates in force, and closes the connections of peers with certificates that are revoked now.
    pub(crate) fn update_rules(&self, news: CertificateNews) {
        if let Some(member) = &self.0 {
            member.update_rules(news.into());
        }
    }

    /// Returns advice to add to the reason of a failed call to the scheduler, if there is any. Renews the certificate if it has expired by
    /// the clock of the scheduler.
    pub(crate) fn remedy<T>(&self, result: &CallResult<T>) -> Option<String> {
        let member = self.0.as_ref()?;
        if is_refused_with(result, MUST_RENEW) {
            member.is_expired_at_scheduler.store(true, Ordering::SeqCst);
            member.renewal_wanted.notify_one();
        }
        if is_refused_with(result, MUST_JOIN_AGAIN) {
            let text = "Until then, this worker goes on asking. It ends its tasks only when the scheduler counts it as lost";
            return Some(text.to_owned());
        }
        result
            .is_of_other_authority()
            .then(|| member.other_authority_advice())
    }
}

/// Returns whether the peer has refused a call with these words.
fn is_refused_with<T>(result: &CallResult<T>, words: &str) -> bool {
    match result {
        CallResult::Unknown(Unknown::Exception { message, .. }) => message.contains(words),
        CallResult::Done(_) | CallResult::NotSent(_) | CallResult::Unknown(_) => false,
    }
}

impl Member {
    /// Errors if the certificate is for another shard.
    fn new(
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
            own: Mutex::new(OwnCertificate::new(credential, is_new)?),
            rules: Mutex::default(),
            server: Mutex::default(),
            renewal_wanted: Notify::new(),
            is_expired_at_scheduler: AtomicBool::new(false),
            credentials_version: AtomicU64::new(0),
        })
    }

    /// Makes further calls use new connections.
    fn reconnect_calls(&self) {
        self.credentials_version.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns advice for a scheduler with another authority.
    fn other_authority_advice(&self) -> String {
        format!(
            "The scheduler there has another authority than the certificate of this worker. Either it is the scheduler of another cluster than {}, \
             or its authority was replaced while this worker was away. In that case, end this worker, and start it in its data directory with \
             --join-token and a token of an administrator of that scheduler: brasserie token create --role worker",
            self.trust_domain
        )
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Member({} of {})", self.shard, self.trust_domain)
    }
}

/// Members and certificates for the tests of this module.
#[cfg(test)]
mod fixtures {
    use brasserie_common_identity::{Authority, Certified, KeyRequest, Lifetime};
    use brasserie_common_runtime::Clock;

    use super::*;

    pub(super) fn authority() -> Authority {
        Authority::create(Clock.wall()).expect("an authority")
    }

    pub(super) fn credential(authority: &Authority, role: Role, shard: Option<&str>) -> Credential {
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

    pub(super) fn own_certificate(authority: &Authority, is_new: bool) -> OwnCertificate {
        let own = credential(authority, Role::Worker, Some("w1"));
        OwnCertificate::new(&own, is_new).expect("ours")
    }

    pub(super) fn member(authority: &Authority) -> Member {
        let own = credential(authority, Role::Worker, Some("w1"));
        let shard = Shard::try_from("w1").expect("a shard");
        Member::new(&own, true, Path::new(""), &shard).expect("its shard")
    }

    pub(super) fn label(shard: &str) -> ShardLabel {
        ShardLabel::of(&Shard::try_from(shard).expect("a shard"))
    }
}
