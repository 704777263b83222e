//! Tokens: secrets that prove who may join a cluster, or who a person is.
//!
//! | form | text |
//! |---|---|
//! | for joining | `brj1-HASH-SECRET` |
//! | for people | `brt1-HASH-SECRET` |
//!
//! Hash and secret are 64 hex digits each. The hash is that of the cluster's authority, so that the holder proves the scheduler before it
//! sends the secret.

use std::fmt;

use brasserie_common::access::TokenNumber;
use sha2::Digest as _;

use crate::names::hex;
use crate::{AuthorityHash, IdentityError};

const JOIN: &str = "brj1-";
const PERSON: &str = "brt1-";
const SECRET_BYTES: usize = 32;
/// The number of hex digits after which a text that begins as a token is taken for one: half of a hash, and more than a name has.
const MANY_DIGITS: usize = 32;
/// The variable of the environment with the token of a person.
pub const TOKEN_VARIABLE: &str = "BRASSERIE_TOKEN";
/// The variable of the environment with the token of a worker that joins.
pub const JOIN_TOKEN_VARIABLE: &str = "BRASSERIE_JOIN_TOKEN";
/// The size limit of a file with a token: many times that of a token.
pub const MAX_TOKEN_BYTES: u64 = 4096;

/// The reason for which a program refuses its command line, if [`Token::is_in_command_line`].
pub const TOKEN_IN_PLAIN_SIGHT: &str = "the command line has a token in plain sight: it may now be in the shell's history, and \
                                        every user of this machine can read the command lines of processes";

/// A secret of 256 random bits. It shows itself in no log and in no message of an error.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    pub fn random() -> Result<Self, IdentityError> {
        let mut bytes = [0; SECRET_BYTES];
        getrandom::fill(&mut bytes).map_err(IdentityError::Entropy)?;
        Ok(Secret(bytes))
    }

    /// Returns the digits, to be sent inside TLS.
    pub fn reveal(&self) -> String {
        hex(&self.0)
    }

    /// Returns the SHA-256, which alone is kept. The secret is random, so that no slower hash is needed.
    pub fn digest(&self) -> [u8; 32] {
        sha2::Sha256::digest(self.0).into()
    }

    /// Returns the number by which the token is listed: the first bytes of the digest.
    pub fn number(&self) -> TokenNumber {
        let mut first = [0; 8];
        first.copy_from_slice(&self.digest()[..8]);
        TokenNumber(u64::from_be_bytes(first))
    }

    /// Reads the 64 hex digits of a secret.
    pub fn from_digits(digits: &str) -> Result<Self, TokenError> {
        from_hex(digits).map(Secret)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The purpose of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenForm {
    /// A worker joins with it.
    Join,
    /// A person or a program shows it with its calls.
    Person,
}

/// A token in full.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub form: TokenForm,
    pub authority: AuthorityHash,
    pub secret: Secret,
}

/// The reason why a text is no token. It never repeats the text, which may be a secret with a typing error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error(
        "this is no token: one begins with {JOIN} (for joining) or {PERSON} (for people). `brasserie token create` prints one"
    )]
    Form,
    #[error(
        "the token is not whole: hash and secret have 64 hex digits each. Copy the whole line that `brasserie token create` has printed"
    )]
    Digits,
}

impl Token {
    /// Reads a token. Spaces and line ends around it do not matter.
    pub fn from_text(text: &str) -> Result<Self, TokenError> {
        let text = text.trim();
        let forms = [(JOIN, TokenForm::Join), (PERSON, TokenForm::Person)];
        let mut forms = forms.into_iter();
        let (form, rest) = forms
            .find_map(|(prefix, form)| Some((form, text.strip_prefix(prefix)?)))
            .ok_or(TokenError::Form)?;
        let (hash, secret) = rest.split_once('-').ok_or(TokenError::Digits)?;
        Ok(Token {
            form,
            authority: AuthorityHash(from_hex(hash)?),
            secret: Secret::from_digits(secret)?,
        })
    }

    /// Returns whether the text contains a token, whole or damaged, and so must not be repeated.
    pub fn is_in(text: &str) -> bool {
        let has_digits = |rest: &str| {
            let mut digits = rest.bytes().take_while(u8::is_ascii_hexdigit);
            digits.nth(MANY_DIGITS - 1).is_some()
        };
        let mut forms = [JOIN, PERSON].into_iter();
        forms.any(|form| text.split(form).skip(1).any(has_digits))
    }

    /// Returns whether the command line of this process contains a token, so that its parser must not quote it in a message.
    pub fn is_in_command_line() -> bool {
        std::env::args_os().any(|word| Token::is_in(&word.to_string_lossy()))
    }

    /// Returns the text with the secret, to be shown once.
    pub fn reveal(&self) -> String {
        let prefix = match self.form {
            TokenForm::Join => JOIN,
            TokenForm::Person => PERSON,
        };
        format!("{prefix}{}-{}", self.authority, self.secret.reveal())
    }
}

/// Reads 64 hex digits.
pub fn from_hex(digits: &str) -> Result<[u8; 32], TokenError> {
    let mut bytes = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return Err(TokenError::Digits);
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        let pair = &digits[2 * at..2 * at + 2];
        // `from_str_radix` would accept a sign.
        let is_hex = pair.bytes().all(|digit| digit.is_ascii_hexdigit());
        let value = u8::from_str_radix(pair, 16).ok().filter(|_| is_hex);
        *byte = value.ok_or(TokenError::Digits)?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_hides_its_secret() {
        let secret = Secret::random().expect("entropy");
        for form in [TokenForm::Person, TokenForm::Join] {
            let token = Token {
                form,
                authority: AuthorityHash([0xab; 32]),
                secret: secret.clone(),
            };
            let text = token.reveal();
            assert_eq!(Token::from_text(&format!(" {text}\n")), Ok(token.clone()));
            assert_eq!(
                Token::from_text(&text[..text.len() - 1]),
                Err(TokenError::Digits)
            );
            let digits = &text[text.len() - 64..];
            assert!(!format!("{token:?}").contains(digits));
            assert!(Token::is_in(&format!("--token-file=@{}", &text[..100])));
        }
        assert_ne!(secret.number(), Secret::random().expect("entropy").number());
    }

    #[test]
    fn other_texts_are_refused_without_being_repeated() {
        let typo = format!("brt1-{}-{}", "ab".repeat(32), "+1".repeat(32));
        for (text, error) in [
            ("", TokenError::Form),
            ("hunter2", TokenError::Form),
            ("brj1-00", TokenError::Digits),
            (&*typo, TokenError::Digits),
        ] {
            assert_eq!(Token::from_text(text), Err(error), "{text}");
        }
        assert!(!TokenError::Form.to_string().contains("hunter2"));
        for name in ["", "brt1-", "brt1-20261130", "xbrj1-ab"] {
            assert!(!Token::is_in(name), "{name}");
        }
    }
}
