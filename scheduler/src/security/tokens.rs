//! The tokens of a cluster, and the shards that have a certificate. Only digests of secrets are kept.
//!
//! Invariant: a change is in the file before its effect leaves the scheduler, so that a token with one use is used once, whatever crashes.
//! Revocations alone take effect at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::{
    CallOrigin, Identity, IdentityProof, MUST_JOIN_AGAIN, NO_AUTHORITY, Role, RunAs, ShardLabel,
    TokenNumber,
};
use brasserie_common::text::printable;
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::{
    AuthorityHash, CLOCK_SKEW, IdentityError, Life, Lifetime, Secret, TokenError, from_hex, hex,
};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::LAPSED_FOR;

/// The most tokens at a time: enough for each person and machine of a large cluster. Expired ones are kept as long as they are fewer.
const MOST_TOKENS: usize = 10_000;
/// The shards that are kept at least, also after their certificates have ended: more than most clusters ever have, and a file of some MiB.
const LEAST_SHARDS: usize = 10_000;
/// The revoked tokens of people that are kept at least, also after the certificates by them have expired.
const LEAST_ENDED: usize = 4096;
/// The most revoked shards, and the most revoked tokens, of which workers learn: a message of about 1 MiB.
const MOST_TOLD: usize = 10_000;
/// The longest life of a token for joining: who may add a machine to the cluster should not be forgotten.
const LONGEST_JOIN: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The longest life of a token for people.
const LONGEST_PERSON: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The most uses of a token for joining.
const MOST_USES: u32 = 100_000;
/// The most accounts of one token.
const MOST_ACCOUNTS: usize = 100;
/// The most keys of a shard that are kept: the one that its worker shows, and those of two renewals whose answers may be under way.
const MOST_KEYS: usize = 3;
/// The longest name of an owner, and the longest note, in bytes.
const LONGEST_OWNER: usize = 200;

/// The rights that a token gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub role: Role,
    pub lives_for: Duration,
    /// Tokens for joining.
    pub uses: u32,
    pub shard: Option<Shard>,
    /// Tokens of submitters.
    pub owner: Option<String>,
    /// Tokens of submitters: the accounts that their jobs may name.
    pub run_as: Vec<RunAs>,
    /// A text for people.
    pub note: Option<String>,
    /// The creator, for people.
    pub created_by: Option<String>,
}

impl Terms {
    /// Returns the terms of a token with which workers join.
    pub(crate) fn joining(lives_for: Duration, uses: u32) -> Self {
        Terms {
            uses,
            ..Terms::person(Role::Worker, lives_for)
        }
    }

    /// Returns the terms of a token for a person without an owner.
    pub(crate) fn person(role: Role, lives_for: Duration) -> Self {
        Terms {
            role,
            lives_for,
            uses: 0,
            shard: None,
            owner: None,
            run_as: Vec::new(),
            note: None,
            created_by: None,
        }
    }

    /// Returns the terms of a token that the scheduler creates by itself, and the reason.
    pub(super) fn own(self, note: &str) -> Self {
        Terms {
            note: Some(note.to_owned()),
            created_by: Some("scheduler".to_owned()),
            ..self
        }
    }
}

/// A SHA-256. The file has its hex digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
struct Digest([u8; 32]);

impl Digest {
    /// Returns the digest of a token and of the request with which a worker joins by it.
    fn of_joining(secret: &Secret, request: &[u8]) -> Self {
        let both = sha2::Sha256::new_with_prefix(secret.digest());
        Digest(both.chain_update(request).finalize().into())
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        hex(&digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = TokenError;

    fn try_from(digits: String) -> Result<Self, TokenError> {
        from_hex(&digits).map(Digest)
    }
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptToken {
    digest: Digest,
    role: String,
    pub shard: Option<Shard>,
    pub owner: Option<String>,
    /// Accounts as [`RunAs`] reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_as: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
    pub uses: u32,
    pub uses_left: u32,
    created_ms: i64,
    expires_ms: i64,
    /// The SHA-256 of the authority that the token names; `None` if an earlier release has created it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    authority: Option<Digest>,
}

/// Whether the authority that a token names is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenAuthority {
    Current,
    /// A rotation replaces it.
    Former,
    /// It was replaced, and the token with it.
    Replaced,
}

impl TokenAuthority {
    pub(crate) fn name(self) -> &'static str {
        match self {
            TokenAuthority::Current => "current",
            TokenAuthority::Former => "former",
            TokenAuthority::Replaced => "replaced",
        }
    }

    /// Returns which of the accepted authorities this is, of which the current one is the first.
    pub(super) fn among(trusted: &[AuthorityHash], authority: &AuthorityHash) -> Self {
        match trusted.iter().position(|trusted| trusted == authority) {
            Some(0) => TokenAuthority::Current,
            Some(_) => TokenAuthority::Former,
            None => TokenAuthority::Replaced,
        }
    }
}

impl KeptToken {
    /// Returns the role; `None` if a later release has written another one.
    pub(crate) fn role(&self) -> Option<Role> {
        Role::from_name(&self.role)
    }

    /// Returns whether the authority that the token names is one of the accepted ones; `None` if that is not known.
    pub(crate) fn authority(&self, trusted: &[AuthorityHash]) -> Option<TokenAuthority> {
        let authority = self.authority?;
        Some(TokenAuthority::among(trusted, &AuthorityHash(authority.0)))
    }

    pub(crate) fn created(&self) -> WallTime {
        WallTime::from_millis(self.created_ms)
    }

    pub(crate) fn expires(&self) -> WallTime {
        WallTime::from_millis(self.expires_ms)
    }
}

/// The certificates of a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KeptShard {
    /// The name, for people.
    shard: Shard,
    /// The time at which the last of its certificates expires, in milliseconds.
    until_ms: i64,
    /// The time at which the certificate expires that was issued last, in milliseconds. An earlier one may be valid for longer.
    newest_until_ms: i64,
    /// The second in which the last certificate was issued.
    issued: i64,
    /// Certificates that were issued before this second are revoked.
    valid_from: i64,
    is_revoked: bool,
    /// The token and the request with which it has joined; zero if another scheduler has admitted it.
    joined: Digest,
    /// The numbers of the tokens with which it has joined, as long as these are kept.
    #[serde(default)]
    joined_with: Vec<String>,
    /// The numbers of tokens with which it had joined before a revocation, as long as these tokens are kept. They admit it no more.
    #[serde(default)]
    refused_tokens: Vec<String>,
    /// The hash of the authority that has issued the last certificate that its worker has shown, or with which it has joined; empty if that
    /// is not known.
    authority: String,
    /// The time at which the last revoked certificate expires, in milliseconds.
    revoked_until_ms: i64,
    /// The SHA-256 of its last public keys, the oldest first. None if only an earlier release has seen its certificates.
    #[serde(default)]
    keys: Vec<Digest>,
    /// The last one whose certificate was shown; zero if that is not known.
    #[serde(default)]
    shown_key: Digest,
}

impl KeptShard {
    /// A shard without certificates.
    fn new(shard: Shard) -> Self {
        KeptShard {
            shard,
            until_ms: 0,
            newest_until_ms: 0,
            issued: 0,
            valid_from: 0,
            is_revoked: false,
            joined: Digest::default(),
            joined_with: Vec::new(),
            refused_tokens: Vec::new(),
            authority: String::new(),
            revoked_until_ms: 0,
            keys: Vec::new(),
            shown_key: Digest::default(),
        }
    }

    /// Adds a key. The one that was shown last stays.
    fn add_key(&mut self, key: Digest) {
        if self.keys.contains(&key) {
            return;
        }
        if self.keys.len() >= MOST_KEYS {
            let oldest = self.keys.iter().position(|key| *key != self.shown_key);
            self.keys.remove(oldest.unwrap_or_default());
        }
        self.keys.push(key);
    }

    /// Notes a certificate with this life. Invariant: `until_ms` and `revoked_until_ms` never become earlier by that.
    fn note(&mut self, life: Life) {
        let (issued, until) = (life.issued.as_secs(), life.until.as_millis());
        if issued > self.issued {
            (self.issued, self.newest_until_ms) = (issued, until);
        }
        self.until_ms = self.until_ms.max(until);
        if self.is_revoked || issued < self.valid_from {
            self.revoked_until_ms = self.revoked_until_ms.max(until);
        }
    }

    /// Returns the life of a certificate that is issued now. It begins after the revoked ones, also if the clock was set back.
    fn issue(&mut self, now: WallTime, life: Duration) -> Result<Life, NotAdmitted> {
        let issued = now.max(WallTime::from_secs(self.valid_from));
        if issued > now + CLOCK_SKEW {
            return Err(NotAdmitted::ClockBehind(self.shard.clone()));
        }
        let life = Life {
            issued,
            until: issued + life,
        };
        self.note(life);
        self.newest_until_ms = life.until.as_millis();
        Ok(life)
    }

    /// Revokes all certificates that were issued until now, by this clock or one that was ahead.
    fn refuse_issued(&mut self, now: WallTime) {
        let last = now.as_secs().max(self.issued).max(self.valid_from);
        self.valid_from = last.saturating_add(1);
    }
}

/// All of it, as the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    tokens: BTreeMap<String, KeptToken>,
    shards: BTreeMap<String, KeptShard>,
    /// The numbers of revoked tokens whose holders may still have certificates for calls to workers, and until when, in milliseconds.
    ended: BTreeMap<String, i64>,
    /// The number of revocations since the start of the scheduler. A copy has those up to its own number.
    #[serde(skip)]
    revocations: u64,
    /// Those that are in effect, but not on disk, with their numbers.
    #[serde(skip)]
    unkept: Vec<(u64, Revocation)>,
}

/// A revocation. It takes effect before it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Revocation {
    /// The end of the token with this number, whose holder may have a certificate until then.
    Token {
        number: String,
        certified_until: WallTime,
    },
    /// The end of all certificates of a shard, also of those that are not known: they live for `life` at most.
    Shard {
        shard: Shard,
        now: WallTime,
        life: Duration,
    },
}

/// The records that are kept at least, however old they are. So a clock that is wrong for a while makes the scheduler forget nothing.
#[derive(Clone, Copy, Debug)]
struct Least {
    tokens: usize,
    shards: usize,
    ended: usize,
}

impl Least {
    /// One less than the most tokens, so that there is a place for the next one.
    const KEPT: Least = Least {
        tokens: MOST_TOKENS - 1,
        shards: LEAST_SHARDS,
        ended: LEAST_ENDED,
    };
}

/// The certificates that are revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Revoked {
    /// The certificates of a shard that were issued before a second.
    pub shards: Vec<(ShardLabel, i64)>,
    /// Those that people have by the tokens with these numbers.
    pub tokens: Vec<String>,
}

/// Why somebody is not admitted, or an administrator's request is refused. Each says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAdmitted {
    #[error(
        "no such token: it was revoked, has expired, or is another cluster's. Ask an administrator for a new one: brasserie token create"
    )]
    Unknown,
    #[error("the token has expired. Ask an administrator for a new one: brasserie token create")]
    Expired,
    #[error(
        "the token was used before, as often as it may be. Ask an administrator for a new one: brasserie token create --role worker"
    )]
    Used,
    #[error(
        "the token is for people; a worker joins with one of brasserie token create --role worker"
    )]
    NotForJoining,
    #[error(
        "the token is for a worker that joins; people use one of brasserie token create --role viewer"
    )]
    NotForPeople,
    #[error("the token is for the shard `{}` alone, not for `{}`", printable(.bound.as_str()), printable(.wanted.as_str()))]
    OtherShard { bound: Shard, wanted: Shard },
    #[error(
        "the shard `{}` has a valid certificate. Start its worker in the data directory that it had. If that is lost, an administrator \
         ends the certificate first: brasserie worker revoke {}", printable(.0.as_str()), printable(.0.as_str())
    )]
    Taken(Shard),
    #[error(
        "the certificate of the shard `{0}` is revoked. To let the worker {MUST_JOIN_AGAIN}, end it, and start it in its data directory with \
         --join-token and a token of an administrator: brasserie token create --role worker"
    )]
    Revoked(ShardLabel),
    #[error(
        "the certificate has expired more than 30 days ago. To let the worker {MUST_JOIN_AGAIN}, end it, and start it in its data directory with \
         --join-token and a token of an administrator: brasserie token create --role worker"
    )]
    Lapsed,
    #[error(
        "the shard `{}` has joined with this token before, and its certificate is revoked since. Ask an administrator for a new one: brasserie \
         token create --role worker", printable(.0.as_str())
    )]
    RevokedToken(Shard),
    #[error(
        "the last certificate of the shard `{}` is of more than a day in the future: the clock of the scheduler's machine is wrong, or was. Set the \
         clock, or choose another --shard", printable(.0.as_str())
    )]
    ClockBehind(Shard),
    #[error(
        "certificates for calls to workers are for callers who show a token, and for users of the local socket. A certificate gives no other one"
    )]
    NoCertificate,
    #[error(
        "the certificate of the shard `{0}` is of the authority that a rotation replaces, and not for a key that this scheduler knows of the shard. \
         If this is the worker of the shard, end its certificates, remove `identity` in its data directory, and start it with a new token: \
         brasserie worker revoke {0}; brasserie token create --role worker"
    )]
    OtherKey(ShardLabel),
    #[error(
        "the token names an authority of the cluster that was replaced. Ask an administrator for a new one: brasserie token create"
    )]
    Replaced,
    #[error("{0}")]
    BadTerms(String),
    #[error(
        "there are {MOST_TOKENS} tokens, as many as are kept: revoke some with brasserie token revoke"
    )]
    TooMany,
    #[error(
        "the file with the tokens would have more than {most} bytes, as many as it may: revoke some with brasserie token revoke"
    )]
    TooLarge { most: usize },
    #[error("no shard `{}` has joined", printable(.0.as_str()))]
    NoShard(Shard),
    #[error("there is no token with the number {0}: see brasserie token list")]
    NoToken(TokenNumber),
    #[error("this is no number of a token, which has 16 hex digits: see brasserie token list")]
    NoNumber,
    #[error(
        "{NO_AUTHORITY} and needs no proof: everybody who reaches its port may call it. It has an authority if it listens on another address \
         than a loopback one, without --insecure-network"
    )]
    Open,
    #[error(
        "the certificate of the shard `{0}` is being renewed, or was a moment ago: try again later"
    )]
    RenewedLately(ShardLabel),
    #[error(
        "it is in effect, but not on disk: {0}. The scheduler writes it as soon as the disk permits, and `brasserie status` names the problem \
         until then. If the scheduler ends before, the revocation is lost: repeat it then"
    )]
    NotKept(String),
    #[error("{0}")]
    Failed(String),
}

impl NotAdmitted {
    /// Returns whether the same call may succeed later.
    pub(crate) fn is_temporary(&self) -> bool {
        match self {
            NotAdmitted::RenewedLately(_)
            | NotAdmitted::Failed(_)
            | NotAdmitted::ClockBehind(_) => true,
            NotAdmitted::Unknown
            | NotAdmitted::Expired
            | NotAdmitted::Used
            | NotAdmitted::NotForJoining
            | NotAdmitted::NotForPeople
            | NotAdmitted::OtherShard { .. }
            | NotAdmitted::Taken(_)
            | NotAdmitted::Revoked(_)
            | NotAdmitted::Lapsed
            | NotAdmitted::RevokedToken(_)
            | NotAdmitted::NoCertificate
            | NotAdmitted::OtherKey(_)
            | NotAdmitted::Replaced
            | NotAdmitted::BadTerms(_)
            | NotAdmitted::TooMany
            | NotAdmitted::TooLarge { .. }
            | NotAdmitted::NoShard(_)
            | NotAdmitted::NoToken(_)
            | NotAdmitted::NotKept(_)
            | NotAdmitted::NoNumber
            | NotAdmitted::Open => false,
        }
    }
}

impl From<IdentityError> for NotAdmitted {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::BadRequest(_) => NotAdmitted::BadTerms(error.to_string()),
            error => NotAdmitted::Failed(error.to_string()),
        }
    }
}

/// The person that a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub role: Role,
    pub owner: Option<String>,
    pub run_as: Arc<[RunAs]>,
    pub token: TokenNumber,
    pub until: WallTime,
}

impl Person {
    pub(super) fn identity(self, from: impl Into<CallOrigin>) -> Identity {
        Identity {
            token: Some(self.token),
            owner: self.owner.map(Arc::from),
            run_as: self.run_as,
            until: Some(self.until),
            ..Identity::new(self.role, IdentityProof::Token, from)
        }
    }
}

impl Tokens {
    /// Adds a token.
    pub(crate) fn add(
        &mut self,
        now: WallTime,
        secret: &Secret,
        terms: Terms,
    ) -> Result<KeptToken, NotAdmitted> {
        check(&terms)?;
        if self.tokens.len() >= MOST_TOKENS {
            return Err(NotAdmitted::TooMany);
        }
        let kept = KeptToken {
            digest: Digest(secret.digest()),
            role: terms.role.name().to_owned(),
            shard: terms.shard,
            owner: terms.owner,
            run_as: terms.run_as.iter().map(RunAs::to_string).collect(),
            note: terms.note,
            created_by: terms.created_by,
            uses: terms.uses,
            uses_left: terms.uses,
            created_ms: now.as_millis(),
            expires_ms: (now + terms.lives_for).as_millis(),
            authority: None,
        };
        self.tokens
            .insert(secret.number().to_string(), kept.clone());
        Ok(kept)
    }

    /// Notes the authority that a token names. Returns the token; `None` if it is not kept.
    pub(crate) fn bind(
        &mut self,
        number: TokenNumber,
        authority: &AuthorityHash,
    ) -> Option<&KeptToken> {
        let token = self.tokens.get_mut(&number.to_string())?;
        token.authority = Some(Digest(authority.0));
        Some(token)
    }

    /// Notes that the tokens of an earlier release name this authority, if they prove any scheduler at all.
    pub(crate) fn bind_others(&mut self, authority: &AuthorityHash) {
        for token in self.tokens.values_mut() {
            token.authority.get_or_insert(Digest(authority.0));
        }
    }

    /// Errors if a token names an authority that is not accepted any more. A false scheduler may know its secret.
    pub(crate) fn check_authority(
        &self,
        number: TokenNumber,
        trusted: &[AuthorityHash],
    ) -> Result<(), NotAdmitted> {
        let token = self.tokens.get(&number.to_string());
        match token.and_then(|token| token.authority(trusted)) {
            Some(TokenAuthority::Replaced) => Err(NotAdmitted::Replaced),
            Some(TokenAuthority::Current | TokenAuthority::Former) | None => Ok(()),
        }
    }

    /// Errors if a token does not admit a worker for a shard. Returns the token's number, and whether the same request was admitted before.
    pub(crate) fn check_admission(
        &self,
        now: WallTime,
        secret: &Secret,
        (shard, request): (&Shard, &[u8]),
    ) -> Result<(TokenNumber, bool), NotAdmitted> {
        let number = secret.number();
        let token = self.tokens.get(&number.to_string());
        let token = token.filter(|token| token.digest.0 == secret.digest());
        let token = token.ok_or(NotAdmitted::Unknown)?;
        if token.role() != Some(Role::Worker) {
            return Err(NotAdmitted::NotForJoining);
        }
        if token.expires() <= now {
            return Err(NotAdmitted::Expired);
        }
        let former = self.shards.get(ShardLabel::of(shard).as_str());
        // A worker that is started again with its token in a file must not undo the revocation.
        if former.is_some_and(|it| it.refused_tokens.contains(&number.to_string())) {
            return Err(NotAdmitted::RevokedToken(shard.clone()));
        }
        let former = former.filter(|former| !former.is_revoked);
        let joined = Digest::of_joining(secret, request);
        if former.is_some_and(|former| former.joined == joined) {
            return Ok((number, true));
        }
        if token.uses_left == 0 {
            return Err(NotAdmitted::Used);
        }
        if let Some(bound) = &token.shard
            && bound != shard
        {
            let (bound, wanted) = (bound.clone(), shard.clone());
            return Err(NotAdmitted::OtherShard { bound, wanted });
        }
        match former.is_some_and(|former| former.until_ms > now.as_millis()) {
            true => Err(NotAdmitted::Taken(shard.clone())),
            false => Ok((number, false)),
        }
    }

    /// Uses a token to admit a worker for a shard. Returns the token's number, and the life of the certificate to issue.
    ///
    /// The same request again, whose answer was lost, uses up nothing. Another one ends the certificates that the shard had: those that have
    /// expired could still be renewed.
    pub(crate) fn admit(
        &mut self,
        now: WallTime,
        secret: &Secret,
        (shard, request): (&Shard, &[u8]),
        life: Duration,
    ) -> Result<(TokenNumber, Life), NotAdmitted> {
        let (number, is_again) = self.check_admission(now, secret, (shard, request))?;
        let kept = self.shards.entry(ShardLabel::of(shard).as_str().to_owned());
        let kept = kept.or_insert_with(|| KeptShard::new(shard.clone()));
        if !is_again {
            if let Some(token) = self.tokens.get_mut(&number.to_string()) {
                token.uses_left -= 1;
            }
            kept.refuse_issued(now);
            kept.is_revoked = false;
            kept.joined = Digest::of_joining(secret, request);
            kept.joined_with.push(number.to_string());
            kept.joined_with.sort_unstable();
            kept.joined_with.dedup();
            let tokens = &self.tokens;
            kept.joined_with
                .retain(|number| tokens.contains_key(number));
            kept.keys.clear();
        }
        Ok((number, kept.issue(now, life)?))
    }

    /// Returns the second since which the certificates of a shard count.
    pub(crate) fn valid_from(&self, shard: &ShardLabel) -> i64 {
        let kept = self.shards.get(shard.as_str());
        kept.map_or(0, |kept| kept.valid_from)
    }

    /// Returns the life of another certificate of a shard, to be issued now.
    pub(crate) fn renew(
        &mut self,
        now: WallTime,
        shard: &ShardLabel,
        life: Duration,
    ) -> Result<Life, NotAdmitted> {
        match self.known(shard) {
            Some(kept) if !kept.is_revoked => kept.issue(now, life),
            Some(_) | None => Err(NotAdmitted::Revoked(shard.clone())),
        }
    }

    /// Notes a certificate of the authority that a shard has shown. If it was not known, another scheduler with this authority has issued it,
    /// or this one did after the backup from which its directory was restored. Returns whether the shard was not known.
    pub(crate) fn adopt(&mut self, shard: &ShardLabel, life: Life) -> bool {
        let shards = self.shards.len();
        if let Some(kept) = self.known(shard) {
            kept.note(life);
        }
        self.shards.len() > shards
    }

    /// Returns the shard with this label, which is added if it is not known.
    fn known(&mut self, label: &ShardLabel) -> Option<&mut KeptShard> {
        let shard = Shard::try_from(label.to_string()).ok()?;
        let kept = self.shards.entry(label.as_str().to_owned());
        Some(kept.or_insert_with(|| KeptShard::new(shard)))
    }

    /// Puts a changed copy in its place. Certificates that were adopted since the copy was made stay known, and so do those of this authority
    /// that were shown since. Revocations since then stay in effect, also for certificates that the change has added. Returns whether there
    /// were such.
    pub(crate) fn replace(&mut self, changed: Tokens, authority: &AuthorityHash) -> bool {
        let before = std::mem::replace(self, changed);
        let current = authority.to_string();
        for (label, former) in before.shards {
            let issued = WallTime::from_secs(former.issued);
            let ends = [former.newest_until_ms, former.until_ms].map(WallTime::from_millis);
            let is_current = former.authority == current;
            let shown_key = former.shown_key;
            let kept = self.shards.entry(label).or_insert(former);
            for until in ends {
                kept.note(Life { issued, until });
            }
            if is_current {
                kept.authority.clone_from(&current);
            }
            if kept.shown_key != shown_key {
                kept.add_key(shown_key);
                kept.shown_key = shown_key;
            }
        }
        let mut unkept = before.unkept;
        unkept.retain(|(number, _)| *number > self.revocations);
        for (_, revocation) in &unkept {
            // It has succeeded before.
            let _ = self.apply(revocation);
        }
        (self.unkept, self.revocations) = (unkept, before.revocations);
        !self.unkept.is_empty()
    }

    /// Notes the key of a certificate that was issued for a shard.
    pub(crate) fn note_key(&mut self, shard: &ShardLabel, key: [u8; 32]) {
        if let Some(kept) = self.shards.get_mut(shard.as_str()) {
            kept.add_key(Digest(key));
        }
    }

    /// Notes the key of a certificate that the worker of a shard has shown, and that the authority itself has issued. Returns whether only
    /// other keys of the shard were known.
    pub(crate) fn note_shown_key(&mut self, shard: &ShardLabel, key: [u8; 32]) -> bool {
        let Some(kept) = self.shards.get_mut(shard.as_str()) else {
            return false;
        };
        let key = Digest(key);
        let is_foreign = !kept.keys.is_empty() && !kept.keys.contains(&key);
        kept.add_key(key);
        kept.shown_key = key;
        is_foreign
    }

    /// Errors if a key is not known to be one of a shard.
    pub(crate) fn check_key(&self, shard: &ShardLabel, key: [u8; 32]) -> Result<(), NotAdmitted> {
        let kept = self.shards.get(shard.as_str());
        match kept.is_some_and(|kept| kept.keys.contains(&Digest(key))) {
            true => Ok(()),
            false => Err(NotAdmitted::OtherKey(shard.clone())),
        }
    }

    /// Notes which authority has issued the certificate that the worker of a shard has.
    pub(crate) fn note_authority(&mut self, shard: &ShardLabel, authority: &AuthorityHash) {
        if let Some(kept) = self.shards.get_mut(shard.as_str()) {
            kept.authority = authority.to_string();
        }
    }

    /// Returns the shards with a valid certificate of another authority than this.
    pub(crate) fn behind(
        &self,
        now: WallTime,
        authority: AuthorityHash,
    ) -> impl Iterator<Item = (ShardLabel, &Shard)> {
        let current = authority.to_string();
        let shards = self.shards.iter();
        shards.filter_map(move |(label, kept)| {
            let is_valid = !kept.is_revoked && kept.until_ms > now.as_millis();
            let label = ShardLabel::from_label(label).filter(|_| is_valid)?;
            (kept.authority != current).then_some((label, &kept.shard))
        })
    }

    /// Ends the certificates of shards whose authority is gone, so that their workers may join again.
    pub(crate) fn end<'a>(
        &mut self,
        now: WallTime,
        shards: impl IntoIterator<Item = &'a ShardLabel>,
    ) {
        for shard in shards {
            if let Some(kept) = self.shards.get_mut(shard.as_str()) {
                (kept.until_ms, kept.newest_until_ms) = (now.as_millis(), now.as_millis());
            }
        }
    }

    /// Returns the certificates that are revoked, at most `MOST_TOLD` of each kind. No clock decides: that of the scheduler may be wrong, and
    /// those of workers may be behind.
    pub(crate) fn revoked(&self) -> Revoked {
        let shards = self.shards.iter();
        let shards = shards.filter(|(_, kept)| kept.revoked_until_ms > 0);
        let shards = shards.filter_map(|(label, kept)| {
            let revoked = (ShardLabel::from_label(label)?, kept.valid_from);
            Some((kept.revoked_until_ms, revoked))
        });
        let tokens = self.ended.iter();
        let tokens = tokens.map(|(number, until)| (*until, number.clone()));
        Revoked {
            shards: latest(shards, MOST_TOLD),
            tokens: latest(tokens, MOST_TOLD),
        }
    }

    /// Errors if a certificate of the shard that was issued at this time is revoked.
    pub(crate) fn check_shard(
        &self,
        shard: &ShardLabel,
        issued: WallTime,
    ) -> Result<(), NotAdmitted> {
        match self.shards.get(shard.as_str()) {
            Some(kept) if kept.is_revoked || issued.as_secs() < kept.valid_from => {
                Err(NotAdmitted::Revoked(shard.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns who holds a token for people.
    pub(crate) fn person(&self, now: WallTime, secret: &Secret) -> Result<Person, NotAdmitted> {
        let number = secret.number();
        let token = self.tokens.get(&number.to_string());
        let is_it = token.is_some_and(|token| token.digest.0 == secret.digest());
        match is_it {
            true => self.holder(now, number),
            false => Err(NotAdmitted::Unknown),
        }
    }

    /// Returns who holds a token for people whose secret was shown before.
    pub(crate) fn holder(&self, now: WallTime, number: TokenNumber) -> Result<Person, NotAdmitted> {
        let token = self.tokens.get(&number.to_string());
        let token = token.ok_or(NotAdmitted::Unknown)?;
        if token.expires() <= now {
            return Err(NotAdmitted::Expired);
        }
        match token.role() {
            None | Some(Role::Worker | Role::Scheduler | Role::Lapsed) => {
                Err(NotAdmitted::NotForPeople)
            }
            Some(role) => Ok(Person {
                role,
                owner: token.owner.clone(),
                run_as: token
                    .run_as
                    .iter()
                    .filter_map(|account| RunAs::from_text(account))
                    .collect(),
                token: number,
                until: token.expires(),
            }),
        }
    }

    /// Returns the life of a token.
    pub(crate) fn life(&self, number: TokenNumber) -> Option<Life> {
        let token = self.tokens.get(&number.to_string())?;
        Some(Life {
            issued: token.created(),
            until: token.expires(),
        })
    }

    /// Returns the shards whose certificates, of this lifetime, have less than a third of it left, and how long they are valid. Workers renew
    /// them earlier.
    pub(crate) fn late(&self, now: WallTime, life: Lifetime) -> BTreeMap<String, Duration> {
        let valid = self.shards.values().filter(|kept| !kept.is_revoked);
        let left = valid.map(|kept| {
            let left = now.until(WallTime::from_millis(kept.newest_until_ms));
            (kept.shard.as_str().to_owned(), left)
        });
        left.filter(|(_, left)| *left < life.0 / 3).collect()
    }

    /// Returns whether the certificates of a shard are revoked, and it has not joined again.
    pub(crate) fn is_revoked(&self, shard: &str) -> bool {
        let Ok(shard) = Shard::try_from(shard) else {
            return false;
        };
        let kept = self.shards.get(ShardLabel::of(&shard).as_str());
        kept.is_some_and(|kept| kept.is_revoked)
    }

    /// Makes a revocation that is not on disk yet, and returns its number.
    pub(crate) fn revoke_unkept(&mut self, revocation: Revocation) -> Result<u64, NotAdmitted> {
        if let Revocation::Token { number, .. } = &revocation
            && let Some(made) = self.unkept_end_of(number)
        {
            return Ok(made);
        }
        self.apply(&revocation)?;
        self.revocations += 1;
        self.unkept.push((self.revocations, revocation));
        Ok(self.revocations)
    }

    /// Returns the number of the revocation of a token that is not on disk yet.
    fn unkept_end_of(&self, token: &str) -> Option<u64> {
        let ends_it =
            |of: &Revocation| matches!(of, Revocation::Token { number, .. } if number == token);
        let mut unkept = self.unkept.iter();
        unkept.find(|(_, of)| ends_it(of)).map(|(made, _)| *made)
    }

    /// Notes that a copy with this number of revocations is on disk.
    pub(crate) fn note_kept(&mut self, revocations: u64) {
        self.unkept.retain(|(number, _)| *number > revocations);
    }

    /// Returns the number of revocations since the start of the scheduler.
    pub(crate) fn revocations(&self) -> u64 {
        self.revocations
    }

    /// Returns whether all revocations up to this number are on disk.
    pub(crate) fn are_kept(&self, revocations: u64) -> bool {
        self.unkept.iter().all(|(number, _)| *number > revocations)
    }

    fn apply(&mut self, revocation: &Revocation) -> Result<(), NotAdmitted> {
        match revocation {
            Revocation::Token {
                number,
                certified_until,
            } => self.revoke(number, *certified_until).map(|_| ()),
            Revocation::Shard { shard, now, life } => self.revoke_shard(*now, shard, *life),
        }
    }

    /// Ends a token. Its holder may have a certificate until `certified_until`.
    fn revoke(
        &mut self,
        number: &str,
        certified_until: WallTime,
    ) -> Result<TokenNumber, NotAdmitted> {
        // A text that is no number may be a secret, so nobody repeats it.
        let parsed = u64::from_str_radix(number, 16).map_err(|_| NotAdmitted::NoNumber)?;
        let missing = || NotAdmitted::NoToken(TokenNumber(parsed));
        let number = TokenNumber(parsed).to_string();
        let ended = self.tokens.remove(&number).ok_or_else(missing)?;
        if ended.role() != Some(Role::Worker) {
            let until = certified_until.as_millis();
            self.ended.insert(number, until);
        }
        Ok(TokenNumber(parsed))
    }

    /// Ends all certificates of a shard, also those that are not known: they live for `life` at most.
    fn revoke_shard(
        &mut self,
        now: WallTime,
        shard: &Shard,
        life: Duration,
    ) -> Result<(), NotAdmitted> {
        let kept = self.shards.get_mut(ShardLabel::of(shard).as_str());
        let kept = kept.ok_or_else(|| NotAdmitted::NoShard(shard.clone()))?;
        kept.refuse_issued(now);
        kept.is_revoked = true;
        kept.refused_tokens.append(&mut kept.joined_with);
        let tokens = &self.tokens;
        kept.refused_tokens
            .retain(|number| tokens.contains_key(number));
        let until = kept.until_ms.max((now + life).as_millis());
        kept.revoked_until_ms = kept.revoked_until_ms.max(until);
        Ok(())
    }

    /// Returns the tokens that are valid, by number.
    pub(crate) fn valid(&self, now: WallTime) -> impl Iterator<Item = (&str, &KeptToken)> {
        let tokens = self.tokens.iter();
        let valid = tokens.filter(move |(_, token)| token.expires() > now);
        valid.map(|(number, token)| (number.as_str(), token))
    }

    /// Forgets what decides nothing any more, and only if there is much of it: the certificates of shards that can no longer be renewed,
    /// revocations of tokens by which all certificates have expired, and expired tokens.
    ///
    /// Invariant: few records stay for ever. A clock that was ahead for a moment would otherwise revive revoked certificates once it is right.
    pub(crate) fn forget_ended(&mut self, now: WallTime) {
        self.forget_beyond(Least::KEPT, now);
    }

    fn forget_beyond(&mut self, least: Least, now: WallTime) {
        forget(&mut self.tokens, least.tokens, now, KeptToken::expires);
        forget(&mut self.ended, least.ended, now, |until| {
            WallTime::from_millis(*until) + CLOCK_SKEW
        });
        forget(&mut self.shards, least.shards, now, |kept| {
            let last = kept.until_ms.max(kept.revoked_until_ms);
            WallTime::from_millis(last) + LAPSED_FOR
        });
    }

    /// Returns the text of the file. Errors if it has more than `most` bytes: the next start could not read it.
    pub(crate) fn to_json(&self, most: usize) -> Result<Vec<u8>, NotAdmitted> {
        let text = serde_json::to_vec(self);
        let text = text.map_err(|error| NotAdmitted::Failed(error.to_string()))?;
        match text.len() <= most {
            true => Ok(text),
            false => Err(NotAdmitted::TooLarge { most }),
        }
    }

    /// Returns whether nobody has used them since the first start of the scheduler: there is one token at most, and no shard.
    pub(crate) fn are_new(&self) -> bool {
        self.tokens.len() <= 1 && self.shards.is_empty() && self.ended.is_empty()
    }
}

/// Forgets records that have ended, those that ended first before others, until `least` are left.
fn forget<V>(
    records: &mut BTreeMap<String, V>,
    least: usize,
    now: WallTime,
    end: impl Fn(&V) -> WallTime,
) {
    let excess = records.len().saturating_sub(least);
    if excess == 0 {
        return;
    }
    let ends = records
        .iter()
        .map(|(name, record)| (end(record), name.clone()));
    let mut ended: Vec<_> = ends.filter(|(end, _)| *end <= now).collect();
    ended.sort_unstable();
    for (_, name) in ended.into_iter().take(excess) {
        records.remove(&name);
    }
}

/// Returns at most `most` values, those with the latest times.
fn latest<V>(values: impl Iterator<Item = (i64, V)>, most: usize) -> Vec<V> {
    let mut values: Vec<_> = values.collect();
    if values.len() > most {
        values.sort_unstable_by_key(|(until, _)| std::cmp::Reverse(*until));
        values.truncate(most);
    }
    values.into_iter().map(|(_, value)| value).collect()
}

fn check(terms: &Terms) -> Result<(), NotAdmitted> {
    let bad = |text: String| Err(NotAdmitted::BadTerms(text));
    let is_join = match terms.role {
        Role::Worker => true,
        Role::Admin | Role::Operator | Role::Submitter | Role::Viewer => false,
        Role::Scheduler | Role::Lapsed => {
            return bad(format!(
                "there are no tokens for the role {}; there are worker, admin, operator, submitter and viewer",
                terms.role
            ));
        }
    };
    let longest = if is_join {
        LONGEST_JOIN
    } else {
        LONGEST_PERSON
    };
    if terms.lives_for.is_zero() || terms.lives_for > longest {
        let days = longest.as_secs() / 86_400;
        return bad(format!(
            "a token for the role {} lives for more than 0 seconds and at most {days} days",
            terms.role
        ));
    }
    if is_join && !(1..=MOST_USES).contains(&terms.uses) {
        return bad(format!("a token for joining has 1 to {MOST_USES} uses"));
    }
    if !is_join && terms.shard.is_some() {
        return bad("only tokens for joining name a shard".to_owned());
    }
    if !terms.run_as.is_empty() && terms.role != Role::Submitter {
        return bad("only tokens of submitters name accounts: operators and administrators may let tasks run as anybody".to_owned());
    }
    if terms.run_as.len() > MOST_ACCOUNTS {
        return bad(format!("a token names {MOST_ACCOUNTS} accounts at most"));
    }
    let is_name = |text: &str| (1..=LONGEST_OWNER).contains(&text.len());
    if terms.note.as_deref().is_some_and(|note| !is_name(note)) {
        return bad(format!("a note has 1 to {LONGEST_OWNER} bytes"));
    }
    match (&terms.owner, terms.role == Role::Submitter) {
        (None, true) => bad("a submitter needs an owner, whose jobs it may change (--owner NAME)".to_owned()),
        (Some(_), false) => bad("only submitters have an owner".to_owned()),
        (Some(owner), true) if !is_name(owner) => bad(format!(
            "the name of an owner has 1 to {LONGEST_OWNER} bytes"
        )),
        (Some(owner), true) if !is_visible(owner) => bad("the name of an owner has only characters that can be seen, and white space at neither end".to_owned()),
        (None, false) | (Some(_), true) => Ok(()),
    }
}

/// Returns whether a name has neither characters that are not seen, which make two names look the same, nor white space at an end.
fn is_visible(name: &str) -> bool {
    // These three can be seen, but need an escape.
    let rest = name.replace(['\\', '\'', '"'], "");
    name.trim() == name && rest.escape_debug().eq(rest.chars()) && printable(name) == name
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const SECOND: Duration = Duration::from_secs(1);
    const NOW: WallTime = WallTime(1_700_000_000_000);
    const NONE: Least = Least {
        tokens: 0,
        shards: 0,
        ended: 0,
    };

    fn join(uses: u32) -> Terms {
        Terms::joining(Duration::from_secs(1800), uses)
    }

    fn shard(name: &str) -> Shard {
        Shard::try_from(name).expect("a name")
    }

    fn label(name: &str) -> ShardLabel {
        ShardLabel::of(&shard(name))
    }

    fn secret() -> Secret {
        Secret::random().expect("entropy")
    }

    /// Tokens with one for joining, and it.
    fn tokens(uses: u32) -> (Tokens, Secret) {
        let (mut tokens, own) = (Tokens::default(), secret());
        tokens.add(NOW, &own, join(uses)).expect("good terms");
        (tokens, own)
    }

    /// Returns the time at which a certificate of a week is issued, which a key of this number gets.
    fn admit(tokens: &mut Tokens, now: WallTime, own: &Secret, key: u8) -> WallTime {
        let admitted = tokens.admit(now, own, (&shard("a"), &[key]), 7 * DAY);
        admitted.expect("a valid token").1.issued
    }

    #[test]
    fn a_certificate_that_is_not_renewed_in_time_is_late() {
        let (mut tokens, own) = (Tokens::default(), secret());
        tokens.add(NOW, &own, join(2)).expect("good terms");
        let life = Lifetime(9 * DAY);
        for name in ["a", "b"] {
            let admitted = tokens.admit(NOW, &own, (&shard(name), &[1]), 9 * DAY);
            admitted.expect("a token for two");
        }
        let issued = NOW + SECOND;
        assert!(tokens.late(issued + 6 * DAY, life).is_empty());
        let late = tokens.late(issued + 7 * DAY, life);
        assert_eq!(late.get("a"), Some(&(2 * DAY)));
        assert_eq!(tokens.late(NOW + 10 * DAY, life)["b"], Duration::ZERO);
        let renewed = tokens.renew(NOW + 7 * DAY, &label("a"), 9 * DAY);
        renewed.expect("it has joined");
        let revoked = tokens.revoke_shard(NOW, &shard("b"), life.0);
        revoked.expect("it has joined");
        assert!(tokens.late(NOW + 7 * DAY, life).is_empty());
    }

    #[test]
    fn a_token_admits_as_often_as_it_may_and_not_after_its_end() {
        let (mut tokens, own) = tokens(2);
        let late = NOW + Duration::from_secs(1800);
        let mut admit = |now, secret: &Secret, name: &str, key: u8| {
            let checked = tokens.check_admission(now, secret, (&shard(name), &[key]));
            let admitted = tokens.admit(now, secret, (&shard(name), &[key]), 7 * DAY);
            let number = admitted.map(|(number, _)| number);
            assert_eq!(
                checked.map(|(number, _)| number),
                number,
                "both say the same"
            );
            number
        };
        assert_eq!(admit(NOW, &secret(), "a", 1), Err(NotAdmitted::Unknown));
        assert_eq!(admit(late, &own, "a", 2), Err(NotAdmitted::Expired));
        assert_eq!(admit(NOW, &own, "a", 3), Ok(own.number()));
        assert_eq!(admit(NOW, &own, "b", 4), Ok(own.number()));
        assert_eq!(admit(NOW, &own, "c", 5), Err(NotAdmitted::Used));
        // The answer to the last admission was lost.
        assert_eq!(admit(NOW, &own, "b", 4), Ok(own.number()));
        assert_eq!(tokens.person(NOW, &own), Err(NotAdmitted::NotForPeople));
        // A kept token tells the secret to nobody, and is read back.
        let text = tokens.to_json(10_000).expect("JSON");
        let text = String::from_utf8(text).expect("text");
        assert!(!text.contains(&own.reveal()));
        assert!(text.contains(&hex(&own.digest())), "{text}");
        assert_eq!(serde_json::from_str::<Tokens>(&text).expect("JSON"), tokens);
        let most = text.len() - 1;
        assert_eq!(tokens.to_json(most), Err(NotAdmitted::TooLarge { most }));
    }

    #[test]
    fn no_token_takes_a_shard_over_that_has_a_certificate() {
        let (mut tokens, own) = tokens(9);
        let (a, label) = (shard("a"), label("a"));
        let mut current = admit(&mut tokens, NOW, &own, 6);
        let taken = tokens.check_admission(NOW, &own, (&a, &[7]));
        assert_eq!(taken, Err(NotAdmitted::Taken(a.clone())));
        assert_eq!(tokens.check_shard(&label, current), Ok(()));
        let refused = || NotAdmitted::Revoked(label.clone());
        let (mut own, mut used) = (own, Vec::new());
        // The second key is certified and revoked in the same second as the first.
        for key in [8, 9] {
            tokens.revoke_shard(NOW, &a, DAY).expect("it has joined");
            assert_eq!(tokens.check_shard(&label, current), Err(refused()));
            assert_eq!(tokens.renew(NOW, &label, DAY), Err(refused()));
            used.push(std::mem::replace(&mut own, secret()));
            tokens.add(NOW, &own, join(9)).expect("good terms");
            // No token that the shard has used undoes the revocation.
            for used in &used {
                let again = tokens.check_admission(NOW, used, (&a, &[key]));
                assert_eq!(again, Err(NotAdmitted::RevokedToken(a.clone())));
            }
            // The new certificate is later than the revoked one, which stays revoked.
            let next = admit(&mut tokens, NOW, &own, key);
            assert_eq!(tokens.check_shard(&label, current), Err(refused()));
            assert_eq!(tokens.check_shard(&label, next), Ok(()));
            current = next;
        }
        // Another scheduler with this authority has admitted it.
        let unknown = ShardLabel::of(&shard("b"));
        assert_eq!(tokens.check_shard(&unknown, NOW), Ok(()));
    }

    #[test]
    fn the_next_key_of_a_shard_ends_the_one_that_has_expired() {
        let (mut tokens, own) = tokens(1);
        let first = admit(&mut tokens, NOW, &own, 1);
        let (late, other) = (NOW + 8 * DAY, secret());
        tokens.add(late, &other, join(1)).expect("good terms");
        assert_eq!(
            tokens.check_shard(&label("a"), first),
            Ok(()),
            "it may renew"
        );
        let second = admit(&mut tokens, late, &other, 2);
        let refused = Err(NotAdmitted::Revoked(label("a")));
        assert_eq!(tokens.check_shard(&label("a"), first), refused);
        assert_eq!(tokens.check_shard(&label("a"), second), Ok(()));
    }

    #[test]
    fn a_clock_that_is_set_back_revives_no_key() {
        let (mut tokens, own) = tokens(9);
        let ahead = NOW + Duration::from_secs(1200);
        let first = admit(&mut tokens, ahead, &own, 1);
        tokens
            .revoke_shard(NOW, &shard("a"), DAY)
            .expect("it has joined");
        let other = secret();
        tokens.add(NOW, &other, join(1)).expect("good terms");
        let second = admit(&mut tokens, NOW, &other, 2);
        assert!(second > first, "{second} is after {first}");
        let refused = Err(NotAdmitted::Revoked(label("a")));
        assert_eq!(tokens.check_shard(&label("a"), first), refused);
        assert_eq!(tokens.check_shard(&label("a"), second), Ok(()));
        // Certificates are backdated by a day, so such a one would not be valid yet.
        let renewed = tokens.renew(NOW - 2 * DAY, &label("a"), DAY);
        assert_eq!(renewed, Err(NotAdmitted::ClockBehind(shard("a"))));
    }

    #[test]
    fn a_revocation_is_kept_until_the_last_certificate_has_expired() {
        // The bounds are zero, so that only the time decides.
        let revoked = |tokens: &Tokens, at: WallTime| {
            let mut tokens = tokens.clone();
            tokens.forget_beyond(NONE, at + LAPSED_FOR);
            !tokens.revoked().shards.is_empty()
        };
        let end = |tokens: &mut Tokens| tokens.revoke_shard(NOW + DAY, &shard("a"), SECOND);
        // The answer to the first request was lost, and the second certificate is valid for longer.
        let (mut tokens, own) = tokens(1);
        admit(&mut tokens, NOW, &own, 1);
        let later = NOW + Duration::from_secs(1000);
        admit(&mut tokens, later, &own, 1);
        end(&mut tokens).expect("it has joined");
        assert!(revoked(&tokens, later + 7 * DAY - SECOND));
        // The second certificate has a shorter life than the first.
        let mut tokens = Tokens::default();
        for life in [7 * DAY, DAY] {
            tokens.renew(NOW, &label("a"), life).expect("not revoked");
        }
        assert_eq!(tokens.late(NOW + DAY, Lifetime(DAY))["a"], Duration::ZERO);
        end(&mut tokens).expect("it has joined");
        assert!(revoked(&tokens, NOW + 7 * DAY - SECOND));
        assert!(!revoked(&tokens, NOW + 7 * DAY + SECOND));
        // A backup knows an earlier certificate than the worker has.
        let life = |days: u32| Life {
            issued: NOW,
            until: NOW + days * DAY,
        };
        let mut tokens = Tokens::default();
        for days in [7, 10] {
            tokens.adopt(&label("a"), life(days));
        }
        let copy = tokens.clone();
        tokens.adopt(&label("a"), life(12));
        tokens.replace(copy, &AuthorityHash([0; 32]));
        end(&mut tokens).expect("it has joined");
        tokens.adopt(&label("a"), life(14));
        assert!(revoked(&tokens, NOW + 13 * DAY));
        assert!(!revoked(&tokens, NOW + 15 * DAY));
    }

    #[test]
    fn shards_are_forgotten_once_nobody_can_renew_their_certificates_and_there_are_many() {
        let (mut tokens, own) = tokens(2);
        admit(&mut tokens, NOW, &own, 1);
        let other = tokens.admit(NOW, &own, (&shard("b"), &[2]), DAY);
        other.expect("a token for two");
        tokens
            .revoke_shard(NOW, &shard("b"), 9 * DAY)
            .expect("it has joined");
        tokens.forget_ended(NOW + 40 * DAY);
        assert_eq!(tokens.shards.len(), 2, "there are few");
        for (days, left) in [(30, 2), (38, 1), (40, 0)] {
            tokens.forget_beyond(NONE, NOW + days * DAY);
            assert_eq!(tokens.shards.len(), left, "after {days} days");
        }
        assert!(tokens.are_new());
    }

    #[test]
    fn a_clock_that_was_ahead_makes_the_scheduler_forget_neither_revocations_nor_tokens() {
        let (mut tokens, own) = tokens(9);
        let issued = admit(&mut tokens, NOW, &own, 1);
        tokens
            .revoke_shard(NOW, &shard("a"), 7 * DAY)
            .expect("it has joined");
        let (viewer, ended) = (secret(), secret());
        for person in [&viewer, &ended] {
            let terms = Terms::person(Role::Viewer, DAY);
            tokens.add(NOW, person, terms).expect("good terms");
        }
        let number = ended.number().to_string();
        let until = NOW + Duration::from_secs(600);
        tokens.revoke(&number, until).expect("it is there");
        let before = tokens.revoked();
        tokens.forget_ended(NOW + 1000 * DAY);
        // Each change then makes the scheduler forget, also one that adds a token.
        let terms = Terms::person(Role::Viewer, DAY);
        let added = tokens.add(NOW + 1000 * DAY, &secret(), terms);
        added.expect("good terms");
        assert_eq!(tokens.revoked(), before, "workers learn the same");
        let refused = Err(NotAdmitted::Revoked(label("a")));
        assert_eq!(tokens.check_shard(&label("a"), issued), refused);
        assert!(tokens.renew(NOW, &label("a"), DAY).is_err());
        tokens.person(NOW, &viewer).expect("it is valid again");
        assert_eq!(tokens.person(NOW, &ended), Err(NotAdmitted::Unknown));
    }

    #[test]
    fn a_record_is_forgotten_for_another_one_only_after_its_end_and_the_first_end_first() {
        let mut records = BTreeMap::from([
            ("last".to_owned(), NOW + DAY),
            ("second".to_owned(), NOW),
            ("first".to_owned(), NOW - DAY),
        ]);
        for (least, left) in [(3, 3), (2, 2), (0, 1)] {
            forget(&mut records, least, NOW, |end| *end);
            assert_eq!(records.len(), left, "at least {least}");
            assert!(!records.contains_key("first") || least == 3);
        }
        assert!(records.contains_key("last"), "it has not ended");
        let times = [(2, "b"), (3, "c"), (1, "a")];
        assert_eq!(latest(times.into_iter(), 2), ["c", "b"]);
        assert_eq!(latest(times.into_iter(), 3), ["b", "c", "a"]);
    }

    #[test]
    fn a_revocation_during_a_change_also_ends_what_the_change_has_added() {
        let (mut tokens, own) = tokens(9);
        admit(&mut tokens, NOW, &own, 1);
        let revocation = |shard| Revocation::Shard {
            shard,
            now: NOW,
            life: DAY,
        };
        // Two changes are made one after the other, and the disk takes neither in time.
        let mut first = tokens.clone();
        let renewed = first.renew(NOW + SECOND, &label("a"), DAY);
        let renewed = renewed.expect("not revoked").issued;
        let missing = tokens.revoke_unkept(revocation(shard("b")));
        assert_eq!(missing, Err(NotAdmitted::NoShard(shard("b"))));
        let number = tokens.revoke_unkept(revocation(shard("a")));
        let number = number.expect("it has joined");
        tokens.note_kept(first.revocations());
        assert!(tokens.replace(first, &AuthorityHash([0; 32])), "a new end");
        let refused = Err(NotAdmitted::Revoked(label("a")));
        assert_eq!(tokens.check_shard(&label("a"), renewed), refused);
        assert!(!tokens.are_kept(number));
        // The next copy has it.
        let mut second = tokens.clone();
        let (other, terms) = (secret(), join(1));
        second.add(NOW, &other, terms).expect("good terms");
        let joined = admit(&mut second, NOW, &other, 2);
        tokens.note_kept(second.revocations());
        assert!(!tokens.replace(second, &AuthorityHash([0; 32])));
        assert!(tokens.are_kept(number));
        assert_eq!(tokens.check_shard(&label("a"), joined), Ok(()));
    }

    #[test]
    fn the_key_that_a_worker_shows_outlives_renewals_whose_answers_are_lost() {
        let (mut tokens, own) = tokens(1);
        admit(&mut tokens, NOW, &own, 1);
        let a = label("a");
        let known = |tokens: &Tokens, key: u8| tokens.check_key(&a, [key; 32]).is_ok();
        tokens.note_key(&a, [1; 32]);
        assert!(!tokens.note_shown_key(&a, [1; 32]), "it was certified");
        for key in 2..=9 {
            tokens.note_key(&a, [key; 32]);
            assert!(known(&tokens, 1) && known(&tokens, key), "{key}");
        }
        assert!(!known(&tokens, 2));
        // Another head node has renewed it, while a change waits for the disk.
        let copy = tokens.clone();
        assert!(tokens.note_shown_key(&a, [20; 32]));
        tokens.replace(copy, &AuthorityHash([0; 32]));
        assert!(known(&tokens, 20) && known(&tokens, 9));
        // An earlier release has kept no keys.
        let text = tokens.to_json(10_000).expect("JSON");
        let mut text: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let kept = &mut text["shards"][a.as_str()];
        let kept = kept.as_object_mut().expect("a shard");
        assert!(kept.remove("keys").is_some() && kept.remove("shown_key").is_some());
        let mut tokens: Tokens = serde_json::from_value(text).expect("tokens");
        assert!(!known(&tokens, 20));
        assert!(!tokens.note_shown_key(&a, [20; 32]) && known(&tokens, 20));
    }

    #[test]
    fn a_bound_token_is_for_its_shard_alone() {
        let (mut tokens, own) = (Tokens::default(), secret());
        let terms = Terms {
            shard: Some(shard("a")),
            ..join(2)
        };
        tokens.add(NOW, &own, terms).expect("good terms");
        let (bound, wanted) = (shard("a"), shard("b"));
        let refused = Err(NotAdmitted::OtherShard { bound, wanted });
        let checked = tokens.check_admission(NOW, &own, (&shard("b"), &[10]));
        assert_eq!(checked, refused);
    }

    #[test]
    fn people_are_who_their_token_says_until_it_is_revoked() {
        let (mut tokens, own) = (Tokens::default(), secret());
        let terms = Terms {
            owner: Some("ana".to_owned()),
            run_as: vec![RunAs::from_text("batch:data").expect("an account")],
            ..Terms::person(Role::Submitter, DAY)
        };
        let accounts = terms.run_as.clone();
        tokens.add(NOW, &own, terms).expect("good terms");
        let text = serde_json::to_string(&tokens).expect("JSON");
        let mut tokens: Tokens = serde_json::from_str(&text).expect("what was written");
        let person = tokens.person(NOW, &own).expect("valid");
        assert_eq!(
            (person.role, person.owner.as_deref()),
            (Role::Submitter, Some("ana"))
        );
        assert_eq!(*person.run_as, *accounts);
        assert_eq!(tokens.person(NOW + DAY, &own), Err(NotAdmitted::Expired));
        let admitted = tokens.check_admission(NOW, &own, (&shard("a"), &[11]));
        assert_eq!(admitted, Err(NotAdmitted::NotForJoining));
        assert_eq!(tokens.valid(NOW).count(), 1);
        let number = own.number().to_string();
        assert_eq!(tokens.revoked(), Revoked::default());
        let until = NOW + Duration::from_secs(600);
        assert_eq!(tokens.revoke(&number, until), Ok(own.number()));
        assert_eq!(tokens.person(NOW, &own), Err(NotAdmitted::Unknown));
        // The clock of a worker may be a day behind, so that it accepts certificates for as long.
        for (passed, is_told) in [(Duration::ZERO, true), (CLOCK_SKEW, false)] {
            let mut later = tokens.clone();
            later.forget_beyond(NONE, until + passed);
            assert_eq!(later.revoked().tokens.contains(&number), is_told);
        }
        let again = tokens.revoke(&number, until);
        assert_eq!(again, Err(NotAdmitted::NoToken(own.number())));
        let secret = tokens.revoke(&own.reveal(), until);
        assert_eq!(secret, Err(NotAdmitted::NoNumber));
    }

    #[test]
    fn a_revocation_refuses_all_tokens_with_which_the_shard_has_joined() {
        let (mut tokens, first) = tokens(9);
        let (a, second) = (shard("a"), secret());
        let longer = Terms {
            lives_for: 20 * DAY,
            ..join(9)
        };
        tokens.add(NOW, &second, longer).expect("good terms");
        admit(&mut tokens, NOW, &second, 1);
        let lapsed = NOW + 9 * DAY;
        tokens.add(lapsed, &first, join(9)).expect("good terms");
        admit(&mut tokens, lapsed, &first, 2);
        tokens.revoke_shard(lapsed, &a, DAY).expect("it has joined");
        for used in [&first, &second] {
            let again = tokens.check_admission(lapsed, used, (&a, &[3]));
            assert_eq!(again, Err(NotAdmitted::RevokedToken(a.clone())));
        }
    }

    #[test]
    fn names_of_owners_are_of_all_languages() {
        for name in [
            "ana",
            "Ana O'Brien \"a\\b\"",
            "Zoe\u{308}",
            "王小明",
            "team/α",
        ] {
            assert!(is_visible(name), "{name}");
        }
    }

    #[test]
    fn terms_that_mean_nothing_are_refused() {
        let person = |role: Role, owner: Option<&str>| Terms {
            owner: owner.map(str::to_owned),
            ..Terms::person(role, DAY)
        };
        let of_a_person = Terms {
            shard: Some(shard("a")),
            ..person(Role::Viewer, None)
        };
        let accounts = Terms {
            run_as: vec![RunAs::from_text("batch").expect("an account")],
            ..person(Role::Operator, None)
        };
        let forever = Terms {
            lives_for: 31 * DAY,
            ..join(1)
        };
        for terms in [
            join(0),
            forever,
            of_a_person,
            accounts,
            person(Role::Scheduler, None),
            person(Role::Submitter, None),
            person(Role::Submitter, Some("")),
            person(Role::Submitter, Some(" ana")),
            person(Role::Submitter, Some("ana\t")),
            person(Role::Submitter, Some("a\nb")),
            person(Role::Submitter, Some("ana\u{202e}")),
            person(Role::Submitter, Some("a\u{200b}na")),
            person(Role::Submitter, Some("a\u{fe0f}na")),
            person(Role::Viewer, Some("ana")),
            Terms {
                note: Some(String::new()),
                ..join(1)
            },
        ] {
            let refused = Tokens::default().add(NOW, &secret(), terms.clone());
            assert!(
                matches!(refused, Err(NotAdmitted::BadTerms(_))),
                "{terms:?}"
            );
        }
    }
}
