//! The registry of a cluster's identities: its tokens, the shards with certificates, and the revocations of both.
//!
//! It decides without input or output. Only digests of secrets are kept.

mod admission;
mod revocations;
mod shards;
mod tokens;

use std::collections::BTreeMap;

use brasserie_common::WallTime;
use brasserie_common::access::{ShardLabel, TokenNumber};
use brasserie_common_identity::{AuthorityHash, CLOCK_SKEW, Secret, TokenError, from_hex, hex};
use serde::{Deserialize, Serialize};
use sha2::Digest as _;

use super::not_admitted::NotAdmitted;
pub(crate) use revocations::{Revocation, RevokedCertificates};
pub(crate) use shards::LAPSED_FOR;
use shards::ShardRecord;
use tokens::MOST_TOKENS;
pub(crate) use tokens::{Person, Terms, TokenAuthority, TokenRecord};

/// The shards that are kept at least, also after their certificates have ended: more than most clusters ever have, and a file of some MiB.
const LEAST_SHARDS: usize = 10_000;
/// The revoked tokens of people that are kept at least, also after the certificates by them have expired.
const LEAST_REVOKED_TOKENS: usize = 4096;

/// The registry. `tokens.json` has its fields, which keep their names there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Registry {
    tokens: BTreeMap<String, TokenRecord>,
    shards: BTreeMap<String, ShardRecord>,
    /// The numbers of revoked tokens whose holders may still have certificates for calls to workers, and until when, in milliseconds.
    #[serde(rename = "ended")]
    revoked_tokens: BTreeMap<String, i64>,
    /// The number of revocations since the start of the scheduler. A copy has those up to its own number.
    #[serde(skip)]
    revocations: u64,
    /// The revocations that are in effect and not on disk, with their numbers.
    #[serde(skip)]
    unwritten: Vec<(u64, Revocation)>,
}

impl Registry {
    /// Puts a changed copy in its place. Certificates that were shown since the copy was made stay known, and so does which of them are of this
    /// authority. Revocations since then stay in effect, also for certificates that the change has added. Returns whether there were such.
    pub(crate) fn replace(&mut self, changed: Registry, authority: &AuthorityHash) -> bool {
        let before = std::mem::replace(self, changed);
        let current = authority.to_string();
        for (label, former) in before.shards {
            let kept = self.shards.entry(label);
            let kept = kept.or_insert_with(|| former.clone());
            kept.merge(&former, &current);
        }
        let mut unwritten = before.unwritten;
        unwritten.retain(|(number, _)| *number > self.revocations);
        for (_, revocation) in &unwritten {
            // It has succeeded before.
            let _ = self.apply(revocation);
        }
        (self.unwritten, self.revocations) = (unwritten, before.revocations);
        !self.unwritten.is_empty()
    }

    /// Makes a change of a shard and of a token. If it is refused, both are as they were.
    pub(crate) fn attempt<T>(
        &mut self,
        (shard, token): &(Option<ShardLabel>, Option<TokenNumber>),
        make: impl FnOnce(&mut Registry) -> Result<T, NotAdmitted>,
    ) -> Result<T, NotAdmitted> {
        let shard = shard.as_ref().map(|label| label.as_str().to_owned());
        let shard = shard.map(|name| (self.shards.get(&name).cloned(), name));
        let token = token.map(|number| number.to_string());
        let token = token.map(|name| (self.tokens.get(&name).cloned(), name));
        let made = make(self);
        if made.is_err() {
            restore(&mut self.shards, shard);
            restore(&mut self.tokens, token);
        }
        made
    }

    /// Forgets records that decide nothing any more, and only if there are many: the certificates of shards that can no longer be renewed,
    /// revocations of tokens by which all certificates have expired, and expired tokens.
    ///
    /// Invariant: few records stay for ever. A clock that was ahead for a moment would otherwise revive revoked certificates once it is right.
    pub(crate) fn forget_ended(&mut self, now: WallTime) {
        self.forget_beyond(KeepAtLeast::USUAL, now);
    }

    fn forget_beyond(&mut self, least: KeepAtLeast, now: WallTime) {
        forget(&mut self.tokens, least.tokens, now, TokenRecord::expires);
        forget(
            &mut self.revoked_tokens,
            least.revoked_tokens,
            now,
            |until| WallTime::from_millis(*until) + CLOCK_SKEW,
        );
        forget(&mut self.shards, least.shards, now, ShardRecord::ends);
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

    /// Returns whether nobody has used the tokens since the first start of the scheduler: there is one token at most, and no shard.
    pub(crate) fn is_new(&self) -> bool {
        self.tokens.len() <= 1 && self.shards.is_empty() && self.revoked_tokens.is_empty()
    }
}

/// The records that are kept at least, however old they are. So a clock that is wrong for a while makes the scheduler forget nothing.
#[derive(Clone, Copy, Debug)]
struct KeepAtLeast {
    tokens: usize,
    shards: usize,
    revoked_tokens: usize,
}

impl KeepAtLeast {
    /// One less than the most tokens, so that there is a place for the next one.
    const USUAL: KeepAtLeast = KeepAtLeast {
        tokens: MOST_TOKENS - 1,
        shards: LEAST_SHARDS,
        revoked_tokens: LEAST_REVOKED_TOKENS,
    };
}

/// Makes a record what it was: nothing, if there was none of this name.
fn restore<V>(records: &mut BTreeMap<String, V>, former: Option<(Option<V>, String)>) {
    match former {
        Some((Some(record), name)) => drop(records.insert(name, record)),
        Some((None, name)) => drop(records.remove(&name)),
        None => {}
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use brasserie_common::Shard;
    use brasserie_common::access::{Role, ShardLabel};

    use super::*;

    pub(super) const DAY: Duration = Duration::from_secs(86_400);

    pub(super) const SECOND: Duration = Duration::from_secs(1);

    pub(super) const NOW: WallTime = WallTime(1_700_000_000_000);

    pub(super) const NONE: KeepAtLeast = KeepAtLeast {
        tokens: 0,
        shards: 0,
        revoked_tokens: 0,
    };

    pub(super) fn join(uses: u32) -> Terms {
        Terms::joining(Duration::from_secs(1800), uses)
    }

    pub(super) fn shard(name: &str) -> Shard {
        Shard::try_from(name).expect("a name")
    }

    pub(super) fn label(name: &str) -> ShardLabel {
        ShardLabel::of(&shard(name))
    }

    pub(super) fn secret() -> Secret {
        Secret::random().expect("entropy")
    }

    /// Returns a registry with one token for joining, and its secret.
    pub(super) fn tokens(uses: u32) -> (Registry, Secret) {
        let (mut tokens, own) = (Registry::default(), secret());
        tokens.add(NOW, &own, join(uses)).expect("good terms");
        (tokens, own)
    }

    /// Returns the time at which a certificate of a week is issued, which a key of this number gets.
    pub(super) fn admit(tokens: &mut Registry, now: WallTime, own: &Secret, key: u8) -> WallTime {
        let admitted = tokens.admit(now, own, (&shard("a"), &[key]), 7 * DAY);
        admitted.expect("a valid token").1.issued
    }

    #[test]
    fn shards_are_forgotten_once_nobody_can_renew_their_certificates_and_there_are_many() {
        let (mut tokens, own) = tokens(2);
        admit(&mut tokens, NOW, &own, 1);
        let other = tokens.admit(NOW, &own, (&shard("b"), &[2]), DAY);
        other.expect("a token for two");
        tokens
            .revoke_shard(NOW, &label("b"), 9 * DAY)
            .expect("it has joined");
        tokens.forget_ended(NOW + 40 * DAY);
        assert_eq!(tokens.shards.len(), 2, "there are few");
        for (days, left) in [(30, 2), (38, 1), (40, 0)] {
            tokens.forget_beyond(NONE, NOW + days * DAY);
            assert_eq!(tokens.shards.len(), left, "after {days} days");
        }
        assert!(tokens.is_new());
    }

    #[test]
    fn a_clock_that_was_ahead_makes_the_scheduler_forget_neither_revocations_nor_tokens() {
        let (mut tokens, own) = tokens(9);
        let issued = admit(&mut tokens, NOW, &own, 1);
        tokens
            .revoke_shard(NOW, &label("a"), 7 * DAY)
            .expect("it has joined");
        let (viewer, ended) = (secret(), secret());
        for person in [&viewer, &ended] {
            let terms = Terms::person(Role::Viewer, DAY);
            tokens.add(NOW, person, terms).expect("good terms");
        }
        let until = NOW + Duration::from_secs(600);
        tokens.revoke(ended.number(), until).expect("it is there");
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
    }
}
