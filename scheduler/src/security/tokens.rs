//! Creates tokens, and identifies the callers that show one.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use brasserie_common::Principal;
use brasserie_common::access::{CallOrigin, Identity, Role, TokenNumber};
use brasserie_common_identity::{Life, Secret, Token, TokenForm};
use brasserie_common_runtime::{Clock, net};

use super::registry::{Person, Registry, Terms, TokenAuthority, TokenRecord};
use super::{NotAdmitted, Security};

/// The life of the token that a scheduler prints at its start.
const INVITATION_LIFE: Duration = Duration::from_secs(30 * 60);

/// The text that tells people how a worker joins. It contains the secret of a token.
#[derive(Clone, Debug)]
pub struct Invitation(String);

impl fmt::Display for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Security {
    /// Returns the caller that shows the secret of a token for people, in hex digits.
    pub(crate) fn authenticate(
        &self,
        secret: &str,
        from: impl Into<CallOrigin>,
    ) -> Result<Identity, NotAdmitted> {
        let secret = Secret::from_digits(secret).map_err(|_| NotAdmitted::Unknown)?;
        let person = self.registry.lock().person(Clock.wall(), &secret)?;
        let person = self.token_holder(person.token)?;
        Ok(person.identity(from))
    }

    /// Returns the caller that shows this token, which is written as `brasserie token create` prints it.
    pub(crate) fn authenticate_token(
        &self,
        token: &str,
        from: SocketAddr,
    ) -> Result<Identity, NotAdmitted> {
        let token = Token::from_text(token);
        let token = token.map_err(|error| NotAdmitted::BadTerms(error.to_string()))?;
        match token.form {
            TokenForm::Person => {
                let person = self.authenticate(&token.secret.reveal(), from)?;
                match self.trusted().contains(&token.authority) {
                    true => Ok(person),
                    false => Err(NotAdmitted::Replaced),
                }
            }
            TokenForm::Join => Err(NotAdmitted::NotForPeople),
        }
    }

    /// Returns the person with this token, which was shown before. Errors once it is revoked or expired, or its authority was replaced.
    pub(crate) fn token_holder(&self, token: TokenNumber) -> Result<Person, NotAdmitted> {
        let trusted = self.trusted();
        let registry = self.registry.lock();
        registry.check_authority(token, &trusted)?;
        registry.holder(Clock.wall(), token)
    }

    /// Returns the life of a token that is kept.
    pub(crate) fn token_life(&self, token: TokenNumber) -> Option<Life> {
        self.registry.lock().token_life(token)
    }

    /// Creates a token. Waits for the disk.
    pub(crate) fn create_token(&self, terms: Terms) -> Result<(Token, TokenRecord), NotAdmitted> {
        let secret = Secret::random()?;
        let form = match terms.role {
            Role::Worker => TokenForm::Join,
            _ => TokenForm::Person,
        };
        let number = secret.number();
        let added = secret.clone();
        let add = move |security: &Security, registry: &mut Registry| {
            let (now, authority) = (Clock.wall(), security.authority().hash());
            // The change before it may have taken the last place.
            registry.forget_ended(now);
            let added = registry.add(now, &added, terms)?;
            let bound = registry.set_authority(number, &authority).cloned();
            Ok((bound.unwrap_or(added), authority))
        };
        let (kept, authority) = self.change((None, Some(number)), add, |_| ())?;
        let token = Token {
            form,
            authority,
            secret,
        };
        Ok((token, kept))
    }

    /// Creates a token for one worker, and says how the worker joins. Waits for the disk.
    pub(crate) fn invite(&self, address: SocketAddr) -> Result<Invitation, NotAdmitted> {
        let terms = Terms::joining(INVITATION_LIFE, 1).own("printed at the start");
        let (token, kept) = self.create_token(terms)?;
        self.audit
            .own_token(token.secret.number(), kept.note.as_deref());
        let host = match address.ip().is_unspecified() {
            true => net::host_name().unwrap_or_else(|| "THIS-MACHINE".to_owned()),
            false => address.ip().to_string(),
        };
        let port = address.port();
        Ok(Invitation(format!(
            "To let a worker join within 30 minutes, run on its machine\n\n  brasserie-worker --scheduler {host}:{port} --shard NAME \
             --data-dir DIR --join-token -\n\nand give it this line:\n\n  {}\n\nFor others: brasserie token create --help",
            token.reveal()
        )))
    }

    /// Returns the valid tokens by their numbers.
    pub(crate) fn valid_tokens(&self) -> Vec<(String, TokenRecord)> {
        let registry = self.registry.lock();
        let valid = registry.valid_tokens(Clock.wall());
        valid
            .map(|(number, token)| (number.to_owned(), token.clone()))
            .collect()
    }

    /// Returns whether the authority that a token names is accepted; `None` if it is not known which one that is.
    pub(crate) fn authority_of(&self, token: &TokenRecord) -> Option<TokenAuthority> {
        token.authority(&self.trusted())
    }

    /// Closes the connections of people whose token names an authority that was replaced, except one.
    pub(crate) fn disconnect_replaced(&self, except: Option<&CallOrigin>) {
        let (trusted, registry) = (self.trusted(), self.registry.lock().clone());
        let is_replaced = |token| registry.check_authority(token, &trusted).is_err();
        self.disconnect(|identity| {
            let is_meant = identity.role != Role::Worker && Some(&identity.from) != except;
            is_meant && identity.token.is_some_and(is_replaced)
        });
    }

    /// Counts, audits and logs a call with a token that is not valid. A flood of them has few lines.
    pub(crate) fn note_false_token(
        &self,
        from: &CallOrigin,
        call: &str,
        (shown, why): (&str, &str),
    ) {
        let by = Principal::stranger(from.clone(), "");
        let number = token_number(shown);
        if self.audit.false_token(&by, call, (number, why)) {
            let token = number.map(|number| number.to_string());
            tracing::warn!(%from, call, why, token, "a caller has shown no valid token");
        }
    }
}

/// Returns the number of a token that a caller shows, in full or its secret alone; `None` if the text is no token. The token need not be valid. The
/// number does not reveal its secret.
pub(crate) fn token_number(shown: &str) -> Option<TokenNumber> {
    let secret = match Token::from_text(shown) {
        Ok(token) => token.secret,
        Err(_) => Secret::from_digits(shown).ok()?,
    };
    Some(secret.number())
}
