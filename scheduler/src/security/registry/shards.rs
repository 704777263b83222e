//! The shards that have a certificate, with their keys.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::access::{ShardLabel, TokenNumber};
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::{AuthorityHash, CLOCK_SKEW, Life, Lifetime};
use serde::{Deserialize, Serialize};

use super::{Digest, Registry};
use crate::security::not_admitted::NotAdmitted;

/// The time after its end in which a worker's certificate may still be renewed.
pub(crate) const LAPSED_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The most keys of a shard that are kept: the one that its worker shows, and those of two renewals whose answers may be under way.
const MOST_KEYS: usize = 3;

/// A shard that has joined, with its certificates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardRecord {
    /// The name, for people. It is the label of the shard where only its hash is known.
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
    /// Tokens that were created earlier, in milliseconds, admit it no more: they may have admitted it at another scheduler, or before this
    /// one was restored.
    #[serde(default)]
    tokens_from_ms: i64,
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

impl ShardRecord {
    /// Returns a shard without certificates.
    pub(super) fn new(shard: Shard) -> Self {
        ShardRecord {
            shard,
            until_ms: 0,
            newest_until_ms: 0,
            issued: 0,
            valid_from: 0,
            is_revoked: false,
            joined: Digest::default(),
            joined_with: Vec::new(),
            refused_tokens: Vec::new(),
            tokens_from_ms: 0,
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
    pub(super) fn issue(&mut self, now: WallTime, life: Duration) -> Result<Life, NotAdmitted> {
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

    /// Returns whether the shard had joined with this token before its certificates were revoked, or may have.
    pub(super) fn refuses(&self, token: TokenNumber, created: WallTime) -> bool {
        let is_refused = self.refused_tokens.contains(&token.to_string());
        is_refused || created.as_millis() < self.tokens_from_ms
    }

    /// Returns whether a certificate of the shard is known.
    pub(super) fn is_known(&self) -> bool {
        self.issued > 0
    }

    /// Returns whether the shard has joined by this token and request last, and is not revoked since.
    pub(super) fn has_joined_by(&self, joined: Digest) -> bool {
        !self.is_revoked && self.joined == joined
    }

    /// Returns whether one of its certificates is valid.
    pub(super) fn is_certified(&self, now: WallTime) -> bool {
        !self.is_revoked && self.until_ms > now.as_millis()
    }

    /// Notes that the shard joins by this digest of token and request, with this token. Its former certificates and keys end. `is_kept` returns
    /// whether the registry has a token.
    pub(super) fn join(
        &mut self,
        now: WallTime,
        (joined, token): (Digest, TokenNumber),
        is_kept: impl Fn(&str) -> bool,
    ) {
        self.refuse_issued(now);
        self.is_revoked = false;
        self.joined = joined;
        self.joined_with.push(token.to_string());
        self.joined_with.sort_unstable();
        self.joined_with.dedup();
        self.joined_with.retain(|number| is_kept(number));
        self.keys.clear();
    }

    /// Revokes all certificates, also those that are not known: they live for `life` at most. `is_kept` returns whether the registry has a token.
    pub(super) fn revoke(&mut self, now: WallTime, life: Duration, is_kept: impl Fn(&str) -> bool) {
        self.refuse_issued(now);
        self.is_revoked = true;
        if self.joined == Digest::default() {
            self.tokens_from_ms = now.as_millis();
        }
        self.refused_tokens.append(&mut self.joined_with);
        self.refused_tokens.retain(|number| is_kept(number));
        let until = self.until_ms.max((now + life).as_millis());
        self.revoked_until_ms = self.revoked_until_ms.max(until);
    }

    /// Returns the second before which certificates are revoked, and when the last of these expires, in milliseconds. `None` if none is.
    pub(super) fn revocation(&self) -> Option<(i64, i64)> {
        (self.revoked_until_ms > 0).then_some((self.valid_from, self.revoked_until_ms))
    }

    /// Adds the certificates that this shard had in another copy of the registry. The authority of the last one counts if it is `current`.
    pub(super) fn merge(&mut self, other: &ShardRecord, current: &str) {
        if ShardLabel::from_hash(self.shard.as_str()).is_some() {
            self.shard = other.shard.clone();
        }
        let issued = WallTime::from_secs(other.issued);
        for until in [other.newest_until_ms, other.until_ms].map(WallTime::from_millis) {
            self.note(Life { issued, until });
        }
        if other.authority == current {
            self.authority.clone_from(&other.authority);
        }
        if self.shown_key != other.shown_key {
            self.add_key(other.shown_key);
            self.shown_key = other.shown_key;
        }
    }

    /// Returns the time from which none of its certificates can be renewed.
    pub(super) fn ends(&self) -> WallTime {
        let last = self.until_ms.max(self.revoked_until_ms);
        WallTime::from_millis(last) + LAPSED_FOR
    }

    /// Revokes all certificates that were issued until now, by this clock or one that was ahead.
    fn refuse_issued(&mut self, now: WallTime) {
        let last = now.as_secs().max(self.issued).max(self.valid_from);
        self.valid_from = last.saturating_add(1);
    }
}

impl Registry {
    pub(super) fn shard(&self, label: &ShardLabel) -> Option<&ShardRecord> {
        self.shards.get(label.as_str())
    }

    /// Returns whether a shard is revoked, and no certificate of it is known that was issued after the revocation.
    pub(crate) fn has_revoked(&self, shard: &ShardLabel) -> bool {
        let kept = self.shard(shard);
        kept.is_some_and(|kept| kept.is_revoked && kept.issued < kept.valid_from)
    }

    /// Returns the second since which the certificates of a shard count.
    pub(crate) fn valid_from(&self, shard: &ShardLabel) -> i64 {
        self.shard(shard).map_or(0, |kept| kept.valid_from)
    }

    /// Returns the life of another certificate of a shard, to be issued now.
    pub(crate) fn renew(
        &mut self,
        now: WallTime,
        shard: &ShardLabel,
        life: Duration,
    ) -> Result<Life, NotAdmitted> {
        match self.shard_or_new(shard) {
            Some(kept) if !kept.is_revoked => kept.issue(now, life),
            Some(_) | None => Err(NotAdmitted::Revoked(shard.clone())),
        }
    }

    /// Notes a certificate of the authority that a shard has shown. If it was not known, another scheduler with this authority has issued it,
    /// or this one did after the backup from which its directory was restored. Returns whether the shard was not known.
    pub(crate) fn note_certificate(&mut self, shard: &ShardLabel, life: Life) -> bool {
        let shards = self.shards.len();
        if let Some(kept) = self.shard_or_new(shard) {
            kept.note(life);
        }
        self.shards.len() > shards
    }

    /// Returns the shard with this label, which is added if it is not known.
    pub(super) fn shard_or_new(&mut self, label: &ShardLabel) -> Option<&mut ShardRecord> {
        let name = label.shard();
        let shard = name
            .clone()
            .map_or_else(|| Shard::try_from(label.as_str()), Ok);
        let shard = shard.ok()?;
        let kept = self.shards.entry(label.as_str().to_owned());
        let kept = kept.or_insert_with(|| ShardRecord::new(shard));
        if let Some(name) = name {
            kept.shard = name;
        }
        Some(kept)
    }

    /// Notes the name of a shard of which only the hash was known.
    pub(crate) fn note_name(&mut self, shard: &Shard) {
        if let Some(kept) = self.shards.get_mut(ShardLabel::of(shard).as_str()) {
            kept.shard = shard.clone();
        }
    }

    /// Returns the label with its shard, if this is known.
    pub(crate) fn named(&self, label: ShardLabel) -> ShardLabel {
        match self.shard(&label) {
            Some(kept) => label.with_shard(&kept.shard),
            None => label,
        }
    }

    /// Returns the label of a shard that people name: by its name, or by its hash as it is shown where the name is not known.
    pub(crate) fn label_of(&self, named: &Shard) -> ShardLabel {
        let label = ShardLabel::of(named);
        match ShardLabel::from_hash(named.as_str()) {
            Some(hash) if self.shard(&label).is_none() => self.named(hash),
            Some(_) | None => label,
        }
    }

    /// Returns whether a certificate of a shard is known.
    pub(crate) fn is_known(&self, shard: &ShardLabel) -> bool {
        self.shard(shard).is_some_and(ShardRecord::is_known)
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
        let kept = self.shard(shard);
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
    pub(crate) fn not_renewed(
        &self,
        now: WallTime,
        authority: AuthorityHash,
    ) -> impl Iterator<Item = (ShardLabel, &Shard)> {
        let current = authority.to_string();
        let shards = self.shards.iter();
        shards.filter_map(move |(label, kept)| {
            let is_meant = kept.is_certified(now) && kept.authority != current;
            let label = ShardLabel::from_label(label).filter(|_| is_meant)?;
            Some((label, &kept.shard))
        })
    }

    /// Returns the shards that are revoked, and have not joined again.
    pub(crate) fn revoked_shards(&self) -> impl Iterator<Item = &Shard> {
        let revoked = self.shards.values().filter(|kept| kept.is_revoked);
        revoked.map(|kept| &kept.shard)
    }

    /// Returns the shards whose last certificate is of an authority that is not accepted any more, and could otherwise be renewed.
    pub(crate) fn shut_out(&self, now: WallTime, trusted: &[AuthorityHash]) -> Vec<String> {
        let trusted: Vec<String> = trusted.iter().map(AuthorityHash::to_string).collect();
        let is_shut_out = |kept: &&ShardRecord| {
            let until = WallTime::from_millis(kept.until_ms) + LAPSED_FOR;
            let is_known = !kept.authority.is_empty();
            is_known && !trusted.contains(&kept.authority) && !kept.is_revoked && now < until
        };
        let shut_out = self.shards.values().filter(is_shut_out);
        shut_out
            .map(|kept| kept.shard.as_str().to_owned())
            .collect()
    }

    /// Ends the certificates of shards whose authority, the former one, is gone, so that their workers may join again.
    pub(crate) fn end_certificates<'a>(
        &mut self,
        now: WallTime,
        former: Option<AuthorityHash>,
        shards: impl IntoIterator<Item = &'a ShardLabel>,
    ) {
        for shard in shards {
            if let Some(kept) = self.shards.get_mut(shard.as_str()) {
                (kept.until_ms, kept.newest_until_ms) = (now.as_millis(), now.as_millis());
                if let (true, Some(former)) = (kept.authority.is_empty(), &former) {
                    kept.authority = former.to_string();
                }
            }
        }
    }

    /// Errors if a certificate of the shard that was issued at this time is revoked.
    pub(crate) fn check_shard(
        &self,
        shard: &ShardLabel,
        issued: WallTime,
    ) -> Result<(), NotAdmitted> {
        match self.shard(shard) {
            Some(kept) if kept.is_revoked || issued.as_secs() < kept.valid_from => {
                Err(NotAdmitted::Revoked(shard.clone()))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Returns the labels of the shards whose certificates, of this lifetime, have less than a third of it left, and how long they are valid.
    /// Workers renew them earlier.
    pub(crate) fn overdue_certificates(
        &self,
        now: WallTime,
        life: Lifetime,
    ) -> BTreeMap<String, Duration> {
        let valid = self.shards.iter().filter(|(_, kept)| !kept.is_revoked);
        let left = valid.map(|(label, kept)| {
            let left = now.until(WallTime::from_millis(kept.newest_until_ms));
            (label.clone(), left)
        });
        left.filter(|(_, left)| *left < life.0 / 3).collect()
    }

    /// Returns whether the certificates of a shard are revoked, and it has not joined again.
    pub(crate) fn is_revoked(&self, shard: &str) -> bool {
        let Ok(shard) = Shard::try_from(shard) else {
            return false;
        };
        let kept = self.shard(&ShardLabel::of(&shard));
        kept.is_some_and(|kept| kept.is_revoked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::registry::tests::{
        DAY, NOW, SECOND, admit, join, label, secret, shard, tokens,
    };

    #[test]
    fn a_certificate_that_is_not_renewed_in_time_is_late() {
        let (mut tokens, own) = (Registry::default(), secret());
        tokens.add(NOW, &own, join(2)).expect("good terms");
        let life = Lifetime(9 * DAY);
        for name in ["a", "b"] {
            let admitted = tokens.admit(NOW, &own, (&shard(name), &[1]), 9 * DAY);
            admitted.expect("a token for two");
        }
        let issued = NOW + SECOND;
        assert!(
            tokens
                .overdue_certificates(issued + 6 * DAY, life)
                .is_empty()
        );
        let late = tokens.overdue_certificates(issued + 7 * DAY, life);
        assert_eq!(late.get("s-a"), Some(&(2 * DAY)));
        assert_eq!(
            tokens.overdue_certificates(NOW + 10 * DAY, life)["s-b"],
            Duration::ZERO
        );
        let renewed = tokens.renew(NOW + 7 * DAY, &label("a"), 9 * DAY);
        renewed.expect("it has joined");
        let revoked = tokens.revoke_shard(NOW, &label("b"), life.0);
        revoked.expect("it has joined");
        assert!(tokens.overdue_certificates(NOW + 7 * DAY, life).is_empty());
    }

    #[test]
    fn the_key_that_a_worker_shows_outlives_renewals_whose_answers_are_lost() {
        let (mut tokens, own) = tokens(1);
        admit(&mut tokens, NOW, &own, 1);
        let a = label("a");
        let known = |tokens: &Registry, key: u8| tokens.check_key(&a, [key; 32]).is_ok();
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
        let mut tokens: Registry = serde_json::from_value(text).expect("tokens");
        assert!(!known(&tokens, 20));
        assert!(!tokens.note_shown_key(&a, [20; 32]) && known(&tokens, 20));
    }
}
