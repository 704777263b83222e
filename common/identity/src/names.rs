//! The names in certificates, which say what they prove. All are DNS names below `DOMAIN.brasserie`, which no resolver knows:
//!
//! | name | proves |
//! |---|---|
//! | `scheduler.DOMAIN.brasserie` | a scheduler of the cluster |
//! | `worker.DOMAIN.brasserie` | a worker of the cluster |
//! | `SHARD.worker.DOMAIN.brasserie` | the worker of this shard, as its [`ShardLabel`] |
//! | `ROLE.DOMAIN.brasserie` | a person with this role |
//! | `t-NUMBER.token.DOMAIN.brasserie` | the token that the certificate goes back to |
//!
//! The common name of the subject is `worker SHARD` or the role, for people. It proves nothing, and shows the shard of a label that is a hash.

use std::fmt;
use std::sync::Arc;

use brasserie_common::Shard;
use brasserie_common::access::{Role, ShardLabel, TokenNumber};

use crate::IdentityError;

/// The last label of all names.
const LAST_LABEL: &str = "brasserie";
/// The name of a scheduler for [`joining_client_config`](crate::joining_client_config). The client does not know the trust domain yet, and
/// checks the hash of the authority instead of this name.
pub const UNKNOWN_SCHEDULER: &str = "scheduler.brasserie";
/// Random bytes in a trust domain.
const TRUST_DOMAIN_BYTES: usize = 10;

/// The name of a cluster in its certificates: 20 random hex digits, which its authority keeps for ever. The `cluster` of a status is another
/// name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TrustDomain(Arc<str>);

impl TrustDomain {
    pub fn random() -> Result<Self, IdentityError> {
        let mut bytes = [0; TRUST_DOMAIN_BYTES];
        getrandom::fill(&mut bytes).map_err(IdentityError::Entropy)?;
        Ok(TrustDomain(hex(&bytes).into()))
    }

    /// Reads a trust domain; `None` if the text is none.
    pub fn from_text(text: &str) -> Option<Self> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_name = text.len() == 2 * TRUST_DOMAIN_BYTES && text.bytes().all(is_digit);
        is_name.then(|| TrustDomain(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name that each certificate of this role has.
    pub fn of_role(&self, role: Role) -> String {
        format!("{role}.{self}.{LAST_LABEL}")
    }

    /// Returns the name that only the worker of this shard can prove.
    pub fn of_shard(&self, shard: &ShardLabel) -> String {
        format!("{}.worker.{self}.{LAST_LABEL}", shard.as_str())
    }

    fn of_token(&self, token: TokenNumber) -> String {
        format!("t-{token}.token.{self}.{LAST_LABEL}")
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The content of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certified {
    pub trust_domain: TrustDomain,
    pub role: Role,
    /// Only of workers.
    pub shard: Option<ShardLabel>,
    /// The token with which its holder has joined.
    pub token: Option<TokenNumber>,
}

impl Certified {
    /// Returns the names for the certificate.
    pub fn names(&self) -> Vec<String> {
        let shard = self
            .shard
            .as_ref()
            .map(|shard| self.trust_domain.of_shard(shard));
        let token = self.token.map(|token| self.trust_domain.of_token(token));
        let role = Some(self.trust_domain.of_role(self.role));
        role.into_iter().chain(shard).chain(token).collect()
    }

    /// Returns the common name for the certificate.
    pub(crate) fn subject(&self) -> String {
        let shard = self.shard.as_ref();
        match shard.map(|shard| (shard, shard.shard())) {
            Some((_, Some(shard))) => format!("{} {}", self.role, shard.as_str()),
            Some((label, None)) => format!("{} {label}", self.role),
            None => self.role.to_string(),
        }
    }

    /// Returns the same with the shard that a common name has, if it is the shard of the label.
    pub(crate) fn with_subject(mut self, name: &str) -> Self {
        let shard = name.strip_prefix("worker ").map(Shard::try_from);
        if let (Some(label), Some(Ok(shard))) = (&self.shard, shard) {
            self.shard = Some(label.clone().with_shard(&shard));
        }
        self
    }

    /// Reads the names of a verified certificate. Errors if they are not those that [`Certified::names`] writes.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, IdentityError> {
        let names: Vec<&str> = names.into_iter().collect();
        let foreign = || IdentityError::NotOurs(names.join(", "));
        let (mut role, mut shard, mut token) = (None, None, None);
        let mut domains = Vec::new();
        for name in &names {
            let labels: Vec<&str> = name.split('.').collect();
            let domain = match labels[..] {
                [named, domain, LAST_LABEL] => {
                    role = Some(Role::from_name(named).ok_or_else(foreign)?);
                    domain
                }
                [label, "worker", domain, LAST_LABEL] => {
                    shard = Some(ShardLabel::from_label(label).ok_or_else(foreign)?);
                    domain
                }
                [label, "token", domain, LAST_LABEL] => {
                    let digits = label.strip_prefix("t-").ok_or_else(foreign)?;
                    let number = u64::from_str_radix(digits, 16).map_err(|_| foreign())?;
                    token = Some(TokenNumber(number));
                    domain
                }
                _ => return Err(foreign()),
            };
            domains.push(TrustDomain::from_text(domain).ok_or_else(foreign)?);
        }
        let certified = Certified {
            trust_domain: domains.pop().ok_or_else(foreign)?,
            role: role.ok_or_else(foreign)?,
            shard,
            token,
        };
        // The same names in the same order: none twice, none of another cluster, no shard of somebody who is no worker.
        let is_worker = certified.role == Role::Worker;
        let is_same = certified.names() == names && is_worker == certified.shard.is_some();
        if is_same {
            Ok(certified)
        } else {
            Err(foreign())
        }
    }
}

/// Formats bytes as lower-case hex digits.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(digits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worker() -> Certified {
        Certified {
            trust_domain: TrustDomain::from_text("00112233445566778899").expect("a trust domain"),
            role: Role::Worker,
            shard: Some(ShardLabel::of(&Shard::try_from("w1").expect("a shard"))),
            token: Some(TokenNumber(7)),
        }
    }

    #[test]
    fn names_tell_what_was_certified() {
        let admin = Certified {
            role: Role::Admin,
            shard: None,
            token: None,
            ..worker()
        };
        for certified in [worker(), admin] {
            let names = certified.names();
            let read = Certified::from_names(names.iter().map(String::as_str));
            assert_eq!(read.expect("ours"), certified);
        }
    }

    #[test]
    fn the_subject_shows_the_shard_of_a_hash_and_of_no_other() {
        let shard = |name| Shard::try_from(name).expect("a shard");
        let node = Certified {
            shard: Some(ShardLabel::of(&shard("node7.example.com"))),
            ..worker()
        };
        let names = node.names();
        let read = || Certified::from_names(names.iter().map(String::as_str)).expect("ours");
        let shown = |subject: &str| {
            let read = read().with_subject(subject);
            assert_eq!(read, node);
            read.shard.and_then(|label| label.shard())
        };
        assert_eq!(shown(&node.subject()), Some(shard("node7.example.com")));
        for other in ["worker node8.example.com", "node7.example.com", ""] {
            assert_eq!(shown(other), None, "{other}");
        }
        assert_eq!(worker().subject(), "worker w1");
        assert_eq!(worker().with_subject("worker w2"), worker());
    }

    #[test]
    fn other_names_prove_nothing() {
        let own = worker().names();
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        let other = "scheduler.99112233445566778899.brasserie";
        let cases: [&[&str]; 8] = [
            &[],
            &["example.org"],
            &["worker.example.brasserie"],
            &["boss.00112233445566778899.brasserie"],
            // A worker without a shard, and a shard without a worker.
            &own[..1],
            &own[1..2],
            &[own[0], own[1], own[2], other],
            &["admin.00112233445566778899.brasserie", own[1]],
        ];
        for names in cases {
            let read = Certified::from_names(names.iter().copied());
            assert!(read.is_err(), "{names:?}");
        }
    }
}
