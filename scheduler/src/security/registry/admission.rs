//! Decides which worker a token for joining admits.

use std::time::Duration;

use brasserie_common::access::{Role, ShardLabel, TokenNumber};
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::{Life, Secret};

use super::shards::ShardRecord;
use super::{Digest, Registry};
use crate::security::not_admitted::NotAdmitted;

impl Registry {
    /// Errors if a token does not admit a worker for a shard. Returns the token's number, and whether the same request was admitted before.
    pub(crate) fn check_admission(
        &self,
        now: WallTime,
        secret: &Secret,
        (shard, request): (&Shard, &[u8]),
    ) -> Result<(TokenNumber, bool), NotAdmitted> {
        let number = secret.number();
        let token = self.token_with(secret)?;
        if token.role() != Some(Role::Worker) {
            return Err(NotAdmitted::NotForJoining);
        }
        if token.expires() <= now {
            return Err(NotAdmitted::Expired);
        }
        let former = self.shard(&ShardLabel::of(shard));
        // A worker that is started again with its token in a file must not undo the revocation.
        if former.is_some_and(|former| former.refuses(number, token.created())) {
            return Err(NotAdmitted::RevokedToken(shard.clone()));
        }
        let joined = Digest::of_joining(secret, request);
        if former.is_some_and(|former| former.has_joined_by(joined)) {
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
        match former.is_some_and(|former| former.is_certified(now)) {
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
        self.note_name(shard);
        let kept = self.shards.entry(ShardLabel::of(shard).as_str().to_owned());
        let kept = kept.or_insert_with(|| ShardRecord::new(shard.clone()));
        if !is_again {
            if let Some(token) = self.tokens.get_mut(&number.to_string()) {
                token.uses_left -= 1;
            }
            let joined = Digest::of_joining(secret, request);
            let tokens = &self.tokens;
            kept.join(now, (joined, number), |token| tokens.contains_key(token));
        }
        Ok((number, kept.issue(now, life)?))
    }
}

#[cfg(test)]
mod tests {
    use brasserie_common_identity::hex;

    use super::*;
    use crate::security::registry::Terms;

    use crate::security::registry::tests::{DAY, NOW, admit, join, label, secret, shard, tokens};

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
        assert_eq!(
            serde_json::from_str::<Registry>(&text).expect("JSON"),
            tokens
        );
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
            tokens
                .revoke_shard(NOW, &label, DAY)
                .expect("it has joined");
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
            .revoke_shard(NOW, &label("a"), DAY)
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
    fn a_bound_token_is_for_its_shard_alone() {
        let (mut tokens, own) = (Registry::default(), secret());
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
}
