//! The revocations of tokens and certificates, and whether they are on disk.

use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_common::access::{Role, ShardLabel, TokenNumber};

use super::Registry;
use crate::security::not_admitted::NotAdmitted;

/// The most revoked shards, and the most revoked tokens, that workers receive: a message of about 1 MiB.
const MOST_SENT: usize = 10_000;
/// The most revoked shards of which no certificate is known. Others could push the revocations of true shards out of those that are sent.
const MOST_UNKNOWN: usize = 5_000;

/// A revocation. It takes effect before it is on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Revocation {
    /// The end of the token with this number, whose holder may have a certificate until then.
    Token {
        number: TokenNumber,
        certified_until: WallTime,
    },
    /// The end of all certificates of a shard, also of those that are not known: they live for `life` at most.
    Shard {
        shard: ShardLabel,
        now: WallTime,
        life: Duration,
    },
}

/// The certificates that are revoked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RevokedCertificates {
    /// The certificates of a shard that were issued before a second.
    pub shards: Vec<(ShardLabel, i64)>,
    /// Those that people have by the tokens with these numbers.
    pub tokens: Vec<String>,
}

impl Registry {
    /// Returns the certificates that are revoked, at most `MOST_SENT` of each kind. No clock decides: that of the scheduler may be wrong, and
    /// those of workers may be behind.
    pub(crate) fn revoked(&self) -> RevokedCertificates {
        let shards = self.shards.iter().filter_map(|(label, kept)| {
            let (valid_from, until) = kept.revocation()?;
            Some((until, (ShardLabel::from_label(label)?, valid_from)))
        });
        let tokens = self.revoked_tokens.iter();
        let tokens = tokens.map(|(number, until)| (*until, number.clone()));
        RevokedCertificates {
            shards: latest(shards, MOST_SENT),
            tokens: latest(tokens, MOST_SENT),
        }
    }

    /// Makes a revocation that is not on disk yet. Returns its number, or that of the same one of a token, which may be under way.
    pub(crate) fn revoke_in_memory(&mut self, revocation: Revocation) -> Result<u64, NotAdmitted> {
        if let Revocation::Token { number, .. } = &revocation {
            let is_same = |made: &Revocation| matches!(made, Revocation::Token { number: ended, .. } if ended == number);
            let mut unwritten = self.unwritten.iter();
            if let Some((made, _)) = unwritten.find(|(_, made)| is_same(made)) {
                return Ok(*made);
            }
        }
        self.apply(&revocation)?;
        self.revocations += 1;
        self.unwritten.push((self.revocations, revocation));
        Ok(self.revocations)
    }

    /// Notes that a copy with this number of revocations is on disk.
    pub(crate) fn note_written(&mut self, revocations: u64) {
        self.unwritten.retain(|(number, _)| *number > revocations);
    }

    /// Returns the number of revocations since the start of the scheduler.
    pub(crate) fn revocations(&self) -> u64 {
        self.revocations
    }

    /// Returns whether all revocations up to this number are on disk.
    pub(crate) fn are_written(&self, revocations: u64) -> bool {
        self.unwritten
            .iter()
            .all(|(number, _)| *number > revocations)
    }

    pub(super) fn apply(&mut self, revocation: &Revocation) -> Result<(), NotAdmitted> {
        match revocation {
            Revocation::Token {
                number,
                certified_until,
            } => self.revoke(*number, *certified_until),
            Revocation::Shard { shard, now, life } => self.revoke_shard(*now, shard, *life),
        }
    }

    /// Ends a token. Its holder may have a certificate until `certified_until`.
    pub(super) fn revoke(
        &mut self,
        number: TokenNumber,
        certified_until: WallTime,
    ) -> Result<(), NotAdmitted> {
        let kept = number.to_string();
        let ended = self.tokens.remove(&kept);
        let ended = ended.ok_or(NotAdmitted::NoToken(number))?;
        if ended.role() != Some(Role::Worker) {
            let until = certified_until.as_millis();
            self.revoked_tokens.insert(kept, until);
        }
        Ok(())
    }

    /// Ends all certificates of a shard, also those that are not known: they live for `life` at most. The shard itself may be unknown, as after
    /// the loss of this registry. Errors if too many such shards are revoked.
    pub(super) fn revoke_shard(
        &mut self,
        now: WallTime,
        shard: &ShardLabel,
        life: Duration,
    ) -> Result<(), NotAdmitted> {
        if self.shard(shard).is_none() {
            let unknown = self.shards.values().filter(|kept| !kept.is_known());
            if unknown.count() >= MOST_UNKNOWN {
                let (shard, most) = (shard.clone(), MOST_UNKNOWN);
                return Err(NotAdmitted::TooManyUnknown { shard, most });
            }
        }
        self.shard_or_new(shard);
        let tokens = &self.tokens;
        if let Some(kept) = self.shards.get_mut(shard.as_str()) {
            kept.revoke(now, life, |token| tokens.contains_key(token));
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use brasserie_common_identity::{AuthorityHash, Life, Lifetime};

    use super::*;
    use crate::security::registry::{LAPSED_FOR, Terms};

    use crate::security::registry::tests::{
        DAY, NONE, NOW, SECOND, admit, join, label, secret, shard, tokens,
    };

    #[test]
    fn the_revocations_that_end_last_are_sent() {
        let times = [(2, "b"), (3, "c"), (1, "a")];
        assert_eq!(latest(times.into_iter(), 2), ["c", "b"]);
        assert_eq!(latest(times.into_iter(), 3), ["b", "c", "a"]);
    }

    #[test]
    fn a_revocation_is_kept_until_the_last_certificate_has_expired() {
        // The bounds are zero, so that only the time decides.
        let revoked = |tokens: &Registry, at: WallTime| {
            let mut tokens = tokens.clone();
            tokens.forget_beyond(NONE, at + LAPSED_FOR);
            !tokens.revoked().shards.is_empty()
        };
        let end = |tokens: &mut Registry| tokens.revoke_shard(NOW + DAY, &label("a"), SECOND);
        // The answer to the first request was lost, and the second certificate is valid for longer.
        let (mut tokens, own) = tokens(1);
        admit(&mut tokens, NOW, &own, 1);
        let later = NOW + Duration::from_secs(1000);
        admit(&mut tokens, later, &own, 1);
        end(&mut tokens).expect("it has joined");
        assert!(revoked(&tokens, later + 7 * DAY - SECOND));
        // The second certificate has a shorter life than the first.
        let mut tokens = Registry::default();
        for life in [7 * DAY, DAY] {
            tokens.renew(NOW, &label("a"), life).expect("not revoked");
        }
        assert_eq!(
            tokens.overdue_certificates(NOW + DAY, Lifetime(DAY))["s-a"],
            Duration::ZERO
        );
        end(&mut tokens).expect("it has joined");
        assert!(revoked(&tokens, NOW + 7 * DAY - SECOND));
        assert!(!revoked(&tokens, NOW + 7 * DAY + SECOND));
        // A backup knows an earlier certificate than the worker has.
        let life = |days: u32| Life {
            issued: NOW,
            until: NOW + days * DAY,
        };
        let mut tokens = Registry::default();
        for days in [7, 10] {
            tokens.note_certificate(&label("a"), life(days));
        }
        let copy = tokens.clone();
        tokens.note_certificate(&label("a"), life(12));
        tokens.replace(copy, &AuthorityHash([0; 32]));
        end(&mut tokens).expect("it has joined");
        tokens.note_certificate(&label("a"), life(14));
        assert!(revoked(&tokens, NOW + 13 * DAY));
        assert!(!revoked(&tokens, NOW + 15 * DAY));
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
        let number = tokens.revoke_in_memory(revocation(label("a")));
        let number = number.expect("it has joined");
        tokens.note_written(first.revocations());
        assert!(tokens.replace(first, &AuthorityHash([0; 32])), "a new end");
        let refused = Err(NotAdmitted::Revoked(label("a")));
        assert_eq!(tokens.check_shard(&label("a"), renewed), refused);
        assert!(!tokens.are_written(number));
        // The next copy has it.
        let mut second = tokens.clone();
        let (other, terms) = (secret(), join(1));
        second.add(NOW, &other, terms).expect("good terms");
        let joined = admit(&mut second, NOW, &other, 2);
        tokens.note_written(second.revocations());
        assert!(!tokens.replace(second, &AuthorityHash([0; 32])));
        assert!(tokens.are_written(number));
        assert_eq!(tokens.check_shard(&label("a"), joined), Ok(()));
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
        tokens
            .revoke_shard(lapsed, &label("a"), DAY)
            .expect("it has joined");
        for used in [&first, &second] {
            let again = tokens.check_admission(lapsed, used, (&a, &[3]));
            assert_eq!(again, Err(NotAdmitted::RevokedToken(a.clone())));
        }
    }

    #[test]
    fn a_shard_that_is_not_known_is_revoked_before_anybody_shows_its_certificate() {
        let (mut tokens, early) = tokens(9);
        let (now, certificate) = (
            NOW + SECOND,
            Life {
                issued: NOW,
                until: NOW + 7 * DAY,
            },
        );
        tokens
            .revoke_shard(now, &label("a"), 7 * DAY)
            .expect("there are few");
        assert!(!tokens.is_known(&label("a")), "nobody has shown one");
        assert_eq!(tokens.revoked().shards.len(), 1, "workers learn it");
        tokens.note_certificate(&label("a"), certificate);
        assert!(tokens.is_known(&label("a")));
        let refused = Err(NotAdmitted::Revoked(label("a")));
        assert_eq!(tokens.check_shard(&label("a"), NOW), refused);
        // The thief may have a token of before, so only a new one admits the true worker.
        let again = tokens.check_admission(now, &early, (&shard("a"), &[1]));
        assert_eq!(again, Err(NotAdmitted::RevokedToken(shard("a"))));
        let new = secret();
        tokens.add(now, &new, join(1)).expect("good terms");
        let issued = admit(&mut tokens, now, &new, 2);
        assert_eq!(tokens.check_shard(&label("a"), issued), Ok(()));
    }

    #[test]
    fn names_of_shards_that_nobody_has_do_not_fill_the_registry() {
        let mut tokens = Registry::default();
        tokens.note_certificate(
            &label("known"),
            Life {
                issued: NOW,
                until: NOW + DAY,
            },
        );
        let mut revoke = |name: &str| tokens.revoke_shard(NOW, &label(name), DAY);
        for number in 0..MOST_UNKNOWN {
            revoke(&number.to_string()).expect("there is a place");
        }
        let (shard, most) = (label("another"), MOST_UNKNOWN);
        let full = Err(NotAdmitted::TooManyUnknown { shard, most });
        assert_eq!(revoke("another"), full);
        revoke("0").expect("it is there");
        revoke("known").expect("its certificate is known");
    }
}
