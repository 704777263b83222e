//! The tokens of a cluster, and the shards that have a certificate. Only digests of secrets are kept.
//!
//! Invariant: a change is in the file before its effect leaves the scheduler, so that a token with one use is used once, whatever crashes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::{CallOrigin, Identity, Role, RunAs, ShardLabel, TokenNumber};
use brasserie_common::text::printable;
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::{AuthorityHash, Life, Lifetime, Secret};
use serde::{Deserialize, Serialize};

/// The most tokens at a time: enough for each person and machine of a large cluster.
const MOST_TOKENS: usize = 10_000;
/// The longest life of a token for joining: who may add a machine to the cluster should not be forgotten.
const LONGEST_JOIN: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The longest life of a token for people.
const LONGEST_PERSON: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The most uses of a token for joining.
const MOST_USES: u32 = 100_000;
/// The most accounts of one token.
const MOST_ACCOUNTS: usize = 100;
/// The longest name of an owner, in bytes.
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
}

/// A token without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct KeptToken {
    digest: [u8; 32],
    role: String,
    pub shard: Option<Shard>,
    pub owner: Option<String>,
    /// Accounts as [`RunAs`] reads them. Earlier releases granted none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub run_as: Vec<String>,
    pub uses: u32,
    pub uses_left: u32,
    created_ms: i64,
    expires_ms: i64,
}

impl KeptToken {
    /// Returns the role; `None` if a later release has written another one.
    pub(crate) fn role(&self) -> Option<Role> {
        Role::from_name(&self.role)
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
    /// The time at which its last certificate expires, in milliseconds.
    until_ms: i64,
    /// Certificates that were issued before this second are revoked.
    valid_from: i64,
    is_revoked: bool,
    /// The token and the SHA-256 of the request with which it has joined.
    joined: ([u8; 32], [u8; 32]),
    /// The hash of the authority that has issued the last certificate that its worker has shown, or with which it has joined; empty if that
    /// is not known.
    #[serde(default)]
    authority: String,
    /// The time at which the last revoked certificate expires, in milliseconds.
    #[serde(default)]
    revoked_until_ms: i64,
}

/// All of it, as the file has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tokens {
    tokens: BTreeMap<String, KeptToken>,
    shards: BTreeMap<String, KeptShard>,
    /// The numbers of revoked tokens whose holders may still have certificates for calls to workers, and until when, in milliseconds.
    #[serde(default)]
    ended: BTreeMap<String, i64>,
}

/// The certificates that are revoked and have not expired.
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
        "the certificate of the shard `{0}` is revoked. To let it join again, an administrator creates a token: brasserie token create --role worker"
    )]
    Revoked(ShardLabel),
    #[error(
        "the certificate has expired more than 30 days ago. Join again with a new token: brasserie token create --role worker"
    )]
    Lapsed,
    #[error("{0}")]
    BadTerms(String),
    #[error(
        "there are {MOST_TOKENS} tokens, as many as are kept: revoke some with brasserie token revoke"
    )]
    TooMany,
    #[error("no shard `{}` has joined", printable(.0.as_str()))]
    NoShard(Shard),
    #[error("there is no token with the number {0}: see brasserie token list")]
    NoToken(String),
    #[error(
        "the scheduler has no authority, because it listens on loopback addresses only: anybody on this machine may call it"
    )]
    Open,
    #[error("{0}")]
    Failed(String),
}

/// The person that a token stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Person {
    pub role: Role,
    pub owner: Option<String>,
    pub run_as: Arc<[RunAs]>,
    pub token: TokenNumber,
}

impl Person {
    pub(super) fn identity(self, from: impl Into<CallOrigin>) -> Identity {
        Identity {
            role: self.role,
            shard: None,
            token: Some(self.token),
            owner: self.owner.map(Arc::from),
            run_as: self.run_as,
            from: from.into(),
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
        self.forget_ended(now);
        if self.tokens.len() >= MOST_TOKENS {
            return Err(NotAdmitted::TooMany);
        }
        let kept = KeptToken {
            digest: secret.digest(),
            role: terms.role.name().to_owned(),
            shard: terms.shard,
            owner: terms.owner,
            run_as: terms.run_as.iter().map(RunAs::to_string).collect(),
            uses: terms.uses,
            uses_left: terms.uses,
            created_ms: now.as_millis(),
            expires_ms: (now + terms.lives_for).as_millis(),
        };
        self.tokens
            .insert(secret.number().to_string(), kept.clone());
        Ok(kept)
    }

    /// Uses a token to admit a worker for a shard, whose certificate will be valid until `until`. Returns the token's number.
    ///
    /// The same request again, whose answer was lost, uses up nothing.
    pub(crate) fn admit(
        &mut self,
        now: WallTime,
        secret: &Secret,
        (shard, request): (&Shard, [u8; 32]),
        until: WallTime,
    ) -> Result<TokenNumber, NotAdmitted> {
        let number = secret.number();
        let token = self.tokens.get_mut(&number.to_string());
        let token = token.filter(|token| token.digest == secret.digest());
        let token = token.ok_or(NotAdmitted::Unknown)?;
        if token.role() != Some(Role::Worker) {
            return Err(NotAdmitted::NotForJoining);
        }
        if token.expires() <= now {
            return Err(NotAdmitted::Expired);
        }
        let label = ShardLabel::of(shard).as_str().to_owned();
        let joined = (token.digest, request);
        let former = self.shards.get(&label);
        if former.is_some_and(|former| !former.is_revoked && former.joined == joined) {
            return Ok(number);
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
        if former.is_some_and(|former| !former.is_revoked && former.until_ms > now.as_millis()) {
            return Err(NotAdmitted::Taken(shard.clone()));
        }
        let kept = KeptShard {
            shard: shard.clone(),
            until_ms: until.as_millis(),
            valid_from: former.map_or(0, |former| former.valid_from),
            is_revoked: false,
            joined,
            authority: String::new(),
            revoked_until_ms: former.map_or(0, |former| former.revoked_until_ms),
        };
        token.uses_left -= 1;
        self.shards.insert(label, kept);
        Ok(number)
    }

    /// Notes that a shard's certificate is renewed until `until`.
    pub(crate) fn renew(&mut self, shard: &ShardLabel, until: WallTime) -> Result<(), NotAdmitted> {
        self.adopt(shard, until);
        match self.shards.get_mut(shard.as_str()) {
            Some(kept) if !kept.is_revoked => {
                kept.until_ms = until.as_millis();
                Ok(())
            }
            Some(_) | None => Err(NotAdmitted::Revoked(shard.clone())),
        }
    }

    /// Adds a shard that is not known but has a certificate of the authority. Another scheduler with this authority has admitted it, or this
    /// one did after the backup from which its directory was restored.
    pub(crate) fn adopt(&mut self, shard: &ShardLabel, until: WallTime) {
        let name = Shard::try_from(shard.to_string());
        if let (false, Ok(name)) = (self.shards.contains_key(shard.as_str()), name) {
            let kept = KeptShard {
                shard: name,
                until_ms: until.as_millis(),
                valid_from: 0,
                is_revoked: false,
                joined: ([0; 32], [0; 32]),
                authority: String::new(),
                revoked_until_ms: 0,
            };
            self.shards.insert(shard.as_str().to_owned(), kept);
        }
    }

    /// Puts a changed copy in its place. Shards stay that were adopted since the copy was made, and so do those that have shown a certificate
    /// of this authority.
    pub(crate) fn replace(&mut self, changed: Tokens, authority: &AuthorityHash) {
        let before = std::mem::replace(self, changed);
        let current = authority.to_string();
        for (label, kept) in before.shards {
            let is_current = kept.authority == current;
            let now = self.shards.entry(label).or_insert(kept);
            if is_current {
                now.authority.clone_from(&current);
            }
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
                kept.until_ms = now.as_millis();
            }
        }
    }

    /// Returns the certificates that are revoked and have not expired.
    pub(crate) fn revoked(&self, now: WallTime) -> Revoked {
        let now = now.as_millis();
        let shards = self.shards.iter();
        let shards = shards.filter(|(_, kept)| kept.revoked_until_ms > now);
        let shards = shards
            .filter_map(|(label, kept)| Some((ShardLabel::from_label(label)?, kept.valid_from)));
        let tokens = self.ended.iter().filter(|(_, until)| **until > now);
        Revoked {
            shards: shards.collect(),
            tokens: tokens.map(|(number, _)| number.clone()).collect(),
        }
    }

    /// Returns the first second of which a shard's new certificate may be, so that it is later than every revoked one.
    pub(crate) fn valid_from(&self, shard: &ShardLabel) -> WallTime {
        let kept = self.shards.get(shard.as_str());
        WallTime::from_secs(kept.map_or(0, |kept| kept.valid_from))
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
        let is_it = token.is_some_and(|token| token.digest == secret.digest());
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
            let left = now.until(WallTime::from_millis(kept.until_ms));
            (kept.shard.as_str().to_owned(), left)
        });
        left.filter(|(_, left)| *left < life.0 / 3).collect()
    }

    /// Ends a token. Its holder may have a certificate until `certified_until`.
    pub(crate) fn revoke(
        &mut self,
        now: WallTime,
        number: &str,
        certified_until: WallTime,
    ) -> Result<TokenNumber, NotAdmitted> {
        let missing = || NotAdmitted::NoToken(printable(number).to_string());
        let parsed = u64::from_str_radix(number, 16).map_err(|_| missing())?;
        let ended = self.tokens.remove(number).ok_or_else(missing)?;
        self.ended.retain(|_, until| *until > now.as_millis());
        if ended.role() != Some(Role::Worker) {
            let until = certified_until.as_millis();
            self.ended.insert(number.to_owned(), until);
        }
        Ok(TokenNumber(parsed))
    }

    /// Ends all certificates of a shard.
    pub(crate) fn revoke_shard(&mut self, now: WallTime, shard: &Shard) -> Result<(), NotAdmitted> {
        let kept = self.shards.get_mut(ShardLabel::of(shard).as_str());
        let kept = kept.ok_or_else(|| NotAdmitted::NoShard(shard.clone()))?;
        kept.is_revoked = true;
        kept.valid_from = now.as_secs().saturating_add(1);
        kept.revoked_until_ms = kept.revoked_until_ms.max(kept.until_ms);
        Ok(())
    }

    /// Returns the tokens that are valid, by number.
    pub(crate) fn valid(&self, now: WallTime) -> impl Iterator<Item = (&str, &KeptToken)> {
        let tokens = self.tokens.iter();
        let valid = tokens.filter(move |(_, token)| token.expires() > now);
        valid.map(|(number, token)| (number.as_str(), token))
    }

    /// Forgets tokens some time after they have expired. Until then, their holders learn why they are refused.
    fn forget_ended(&mut self, now: WallTime) {
        let keeps_until = |token: &KeptToken| token.expires() + LONGEST_JOIN;
        self.tokens.retain(|_, token| keeps_until(token) > now);
    }
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
    match (&terms.owner, terms.role == Role::Submitter) {
        (None, true) => bad("a submitter needs an owner, whose jobs it may change".to_owned()),
        (Some(_), false) => bad("only submitters have an owner".to_owned()),
        (Some(owner), true) if owner.is_empty() || owner.len() > LONGEST_OWNER => bad(format!(
            "the name of an owner has 1 to {LONGEST_OWNER} bytes"
        )),
        (None, false) | (Some(_), true) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const NOW: WallTime = WallTime(1_700_000_000_000);

    fn join(uses: u32) -> Terms {
        Terms {
            role: Role::Worker,
            lives_for: Duration::from_secs(1800),
            uses,
            shard: None,
            owner: None,
            run_as: Vec::new(),
        }
    }

    fn shard(name: &str) -> Shard {
        Shard::try_from(name).expect("a name")
    }

    fn secret() -> Secret {
        Secret::random().expect("entropy")
    }

    #[test]
    fn a_certificate_that_is_not_renewed_in_time_is_late() {
        let (mut tokens, own) = (Tokens::default(), secret());
        tokens.add(NOW, &own, join(2)).expect("good terms");
        let life = Lifetime(9 * DAY);
        for name in ["a", "b"] {
            let admitted = tokens.admit(NOW, &own, (&shard(name), [1; 32]), NOW + 9 * DAY);
            admitted.expect("a token for two");
        }
        assert!(tokens.late(NOW + 6 * DAY, life).is_empty());
        let late = tokens.late(NOW + 7 * DAY, life);
        assert_eq!(late.get("a"), Some(&(2 * DAY)));
        assert_eq!(tokens.late(NOW + 10 * DAY, life)["b"], Duration::ZERO);
        let label = ShardLabel::of(&shard("a"));
        tokens.renew(&label, NOW + 16 * DAY).expect("it has joined");
        tokens
            .revoke_shard(NOW, &shard("b"))
            .expect("it has joined");
        assert!(tokens.late(NOW + 7 * DAY, life).is_empty());
    }

    #[test]
    fn a_token_admits_as_often_as_it_may_and_not_after_its_end() {
        let (mut tokens, own) = (Tokens::default(), secret());
        tokens.add(NOW, &own, join(2)).expect("good terms");
        let until = NOW + 7 * DAY;
        let late = NOW + Duration::from_secs(1800);
        let admitted = tokens.admit(NOW, &secret(), (&shard("a"), [1; 32]), until);
        assert_eq!(admitted, Err(NotAdmitted::Unknown));
        assert_eq!(
            tokens.admit(late, &own, (&shard("a"), [2; 32]), until),
            Err(NotAdmitted::Expired)
        );
        assert_eq!(
            tokens.admit(NOW, &own, (&shard("a"), [3; 32]), until),
            Ok(own.number())
        );
        assert_eq!(
            tokens.admit(NOW, &own, (&shard("b"), [4; 32]), until),
            Ok(own.number())
        );
        assert_eq!(
            tokens.admit(NOW, &own, (&shard("c"), [5; 32]), until),
            Err(NotAdmitted::Used)
        );
        // The answer to the last admission was lost.
        let again = tokens.admit(NOW, &own, (&shard("b"), [4; 32]), until);
        assert_eq!(again, Ok(own.number()));
        assert_eq!(tokens.person(NOW, &own), Err(NotAdmitted::NotForPeople));
        // A kept token tells the secret to nobody, and is read back.
        let text = serde_json::to_string(&tokens).expect("JSON");
        assert!(!text.contains(&own.reveal()));
        assert_eq!(serde_json::from_str::<Tokens>(&text).expect("JSON"), tokens);
    }

    #[test]
    fn no_token_takes_a_shard_over_that_has_a_certificate() {
        let (mut tokens, own) = (Tokens::default(), secret());
        tokens.add(NOW, &own, join(9)).expect("good terms");
        let (a, label, until) = (shard("a"), ShardLabel::of(&shard("a")), NOW + 7 * DAY);
        tokens
            .admit(NOW, &own, (&a, [6; 32]), until)
            .expect("the first");
        assert_eq!(
            tokens.admit(NOW, &own, (&a, [7; 32]), until),
            Err(NotAdmitted::Taken(a.clone()))
        );
        assert_eq!(tokens.check_shard(&label, NOW), Ok(()));
        let refused = tokens.clone();
        tokens.revoke_shard(NOW, &a).expect("it has joined");
        assert_eq!(
            tokens.check_shard(&label, NOW),
            Err(NotAdmitted::Revoked(label.clone()))
        );
        assert_eq!(
            tokens.renew(&label, until),
            Err(NotAdmitted::Revoked(label.clone()))
        );
        tokens
            .admit(NOW, &own, (&a, [8; 32]), until)
            .expect("it may join again");
        // The new certificate is later than the revoked one, which stays revoked.
        assert_eq!(
            tokens.check_shard(&label, NOW),
            Err(NotAdmitted::Revoked(label.clone()))
        );
        let from = tokens.valid_from(&label);
        assert_eq!(tokens.check_shard(&label, from), Ok(()));
        // Another scheduler with this authority has admitted it.
        let unknown = ShardLabel::of(&shard("b"));
        assert_eq!(refused.check_shard(&unknown, NOW), Ok(()));
        let late = NOW + 8 * DAY;
        let mut expired = refused;
        let other = secret();
        expired.add(late, &other, join(1)).expect("good terms");
        expired
            .admit(late, &other, (&a, [9; 32]), late + DAY)
            .expect("its certificate has expired");
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
        assert_eq!(
            tokens.admit(NOW, &own, (&shard("b"), [10; 32]), NOW + DAY),
            refused
        );
    }

    #[test]
    fn people_are_who_their_token_says_until_it_is_revoked() {
        let (mut tokens, own) = (Tokens::default(), secret());
        let terms = Terms {
            role: Role::Submitter,
            lives_for: DAY,
            uses: 0,
            shard: None,
            owner: Some("ana".to_owned()),
            run_as: vec![RunAs::from_text("batch:data").expect("an account")],
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
        let admitted = tokens.admit(NOW, &own, (&shard("a"), [11; 32]), NOW + DAY);
        assert_eq!(admitted, Err(NotAdmitted::NotForJoining));
        assert_eq!(tokens.valid(NOW).count(), 1);
        let number = own.number().to_string();
        assert_eq!(tokens.revoked(NOW), Revoked::default());
        let until = NOW + Duration::from_secs(600);
        assert_eq!(tokens.revoke(NOW, &number, until), Ok(own.number()));
        assert_eq!(tokens.person(NOW, &own), Err(NotAdmitted::Unknown));
        assert_eq!(tokens.revoked(NOW).tokens.concat(), number);
        assert_eq!(tokens.revoked(until), Revoked::default());
        let again = tokens.revoke(NOW, &number, until);
        assert_eq!(again, Err(NotAdmitted::NoToken(number)));
    }

    #[test]
    fn terms_that_mean_nothing_are_refused() {
        let person = |role: Role, owner: Option<&str>| Terms {
            role,
            lives_for: DAY,
            uses: 0,
            shard: None,
            owner: owner.map(str::to_owned),
            run_as: Vec::new(),
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
            person(Role::Viewer, Some("ana")),
        ] {
            let refused = Tokens::default().add(NOW, &secret(), terms.clone());
            assert!(
                matches!(refused, Err(NotAdmitted::BadTerms(_))),
                "{terms:?}"
            );
        }
    }
}
