//! The tokens of a cluster, without their secrets.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::{CallOrigin, Identity, IdentityProof, Role, RunAs, TokenNumber};
use brasserie_common::text::printable;
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::{AuthorityHash, Life, Secret};
use serde::{Deserialize, Serialize};

use super::{Digest, Registry};
use crate::security::not_admitted::NotAdmitted;

/// The most tokens at a time: enough for each person and machine of a large cluster. Expired ones are kept as long as they are fewer.
pub(super) const MOST_TOKENS: usize = 10_000;
/// The longest life of a token for joining: who may add a machine to the cluster should not be forgotten.
const LONGEST_JOIN: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The longest life of a token for people.
const LONGEST_PERSON: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// The most uses of a token for joining.
const MOST_USES: u32 = 100_000;
/// The most accounts of one token.
const MOST_ACCOUNTS: usize = 100;
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
    pub(crate) fn own(self, note: &str) -> Self {
        Terms {
            note: Some(note.to_owned()),
            created_by: Some("scheduler".to_owned()),
            ..self
        }
    }
}

/// A token without its secret, as the file has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
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

impl TokenRecord {
    /// Returns the role; `None` if a later release has written another one.
    pub(crate) fn role(&self) -> Option<Role> {
        Role::from_name(&self.role)
    }

    /// Returns whether the authority that the token names is one of the accepted ones; `None` if that is not known.
    pub(crate) fn authority(&self, trusted: &[AuthorityHash]) -> Option<TokenAuthority> {
        let authority = AuthorityHash(self.authority?.0);
        // The current one is the first.
        let place = trusted.iter().position(|trusted| *trusted == authority);
        Some(match place {
            Some(0) => TokenAuthority::Current,
            Some(_) => TokenAuthority::Former,
            None => TokenAuthority::Replaced,
        })
    }

    pub(crate) fn created(&self) -> WallTime {
        WallTime::from_millis(self.created_ms)
    }

    pub(crate) fn expires(&self) -> WallTime {
        WallTime::from_millis(self.expires_ms)
    }
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
    pub(crate) fn identity(self, from: impl Into<CallOrigin>) -> Identity {
        Identity {
            token: Some(self.token),
            owner: self.owner.map(Arc::from),
            run_as: self.run_as,
            until: Some(self.until),
            ..Identity::new(self.role, IdentityProof::Token, from)
        }
    }
}

impl Registry {
    fn token(&self, number: TokenNumber) -> Option<&TokenRecord> {
        self.tokens.get(&number.to_string())
    }

    /// Returns the token with this secret.
    pub(super) fn token_with(&self, secret: &Secret) -> Result<&TokenRecord, NotAdmitted> {
        let token = self.token(secret.number());
        let token = token.filter(|token| token.digest.0 == secret.digest());
        token.ok_or(NotAdmitted::Unknown)
    }

    /// Adds a token.
    pub(crate) fn add(
        &mut self,
        now: WallTime,
        secret: &Secret,
        terms: Terms,
    ) -> Result<TokenRecord, NotAdmitted> {
        check_terms(&terms)?;
        if self.tokens.len() >= MOST_TOKENS {
            return Err(NotAdmitted::TooMany { most: MOST_TOKENS });
        }
        let kept = TokenRecord {
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
    pub(crate) fn set_authority(
        &mut self,
        number: TokenNumber,
        authority: &AuthorityHash,
    ) -> Option<&TokenRecord> {
        let token = self.tokens.get_mut(&number.to_string())?;
        token.authority = Some(Digest(authority.0));
        Some(token)
    }

    /// Notes that the tokens of an earlier release name this authority, if they prove any scheduler at all.
    pub(crate) fn set_missing_authorities(&mut self, authority: &AuthorityHash) {
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
        match self
            .token(number)
            .and_then(|token| token.authority(trusted))
        {
            Some(TokenAuthority::Replaced) => Err(NotAdmitted::Replaced),
            Some(TokenAuthority::Current | TokenAuthority::Former) | None => Ok(()),
        }
    }

    /// Returns the person with this secret of a token.
    pub(crate) fn person(&self, now: WallTime, secret: &Secret) -> Result<Person, NotAdmitted> {
        self.token_with(secret)?;
        self.holder(now, secret.number())
    }

    /// Returns the person with this token, whose secret was shown before.
    pub(crate) fn holder(&self, now: WallTime, number: TokenNumber) -> Result<Person, NotAdmitted> {
        let token = self.token(number).ok_or(NotAdmitted::Unknown)?;
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
    pub(crate) fn token_life(&self, number: TokenNumber) -> Option<Life> {
        let token = self.token(number)?;
        Some(Life {
            issued: token.created(),
            until: token.expires(),
        })
    }

    /// Returns the tokens that are valid, by number.
    pub(crate) fn valid_tokens(&self, now: WallTime) -> impl Iterator<Item = (&str, &TokenRecord)> {
        let tokens = self.tokens.iter();
        let valid = tokens.filter(move |(_, token)| token.expires() > now);
        valid.map(|(number, token)| (number.as_str(), token))
    }
}

/// Errors if there are no such tokens.
fn check_terms(terms: &Terms) -> Result<(), NotAdmitted> {
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
    use brasserie_common_identity::CLOCK_SKEW;

    use super::*;
    use crate::security::registry::RevokedCertificates;

    use crate::security::registry::tests::{DAY, NONE, NOW, join, secret, shard};

    #[test]
    fn people_are_who_their_token_says_until_it_is_revoked() {
        let (mut tokens, own) = (Registry::default(), secret());
        let terms = Terms {
            owner: Some("ana".to_owned()),
            run_as: vec![RunAs::from_text("batch:data").expect("an account")],
            ..Terms::person(Role::Submitter, DAY)
        };
        let accounts = terms.run_as.clone();
        tokens.add(NOW, &own, terms).expect("good terms");
        let text = serde_json::to_string(&tokens).expect("JSON");
        let mut tokens: Registry = serde_json::from_str(&text).expect("what was written");
        let person = tokens.person(NOW, &own).expect("valid");
        assert_eq!(
            (person.role, person.owner.as_deref()),
            (Role::Submitter, Some("ana"))
        );
        assert_eq!(*person.run_as, *accounts);
        assert_eq!(tokens.person(NOW + DAY, &own), Err(NotAdmitted::Expired));
        let admitted = tokens.check_admission(NOW, &own, (&shard("a"), &[11]));
        assert_eq!(admitted, Err(NotAdmitted::NotForJoining));
        assert_eq!(tokens.valid_tokens(NOW).count(), 1);
        let number = own.number().to_string();
        assert_eq!(tokens.revoked(), RevokedCertificates::default());
        let until = NOW + Duration::from_secs(600);
        assert_eq!(tokens.revoke(own.number(), until), Ok(()));
        assert_eq!(tokens.person(NOW, &own), Err(NotAdmitted::Unknown));
        // The clock of a worker may be a day behind, so that it accepts certificates for as long.
        for (passed, is_told) in [(Duration::ZERO, true), (CLOCK_SKEW, false)] {
            let mut later = tokens.clone();
            later.forget_beyond(NONE, until + passed);
            assert_eq!(later.revoked().tokens.contains(&number), is_told);
        }
        let again = tokens.revoke(own.number(), until);
        assert_eq!(again, Err(NotAdmitted::NoToken(own.number())));
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
            let refused = Registry::default().add(NOW, &secret(), terms.clone());
            assert!(
                matches!(refused, Err(NotAdmitted::BadTerms(_))),
                "{terms:?}"
            );
        }
    }
}
