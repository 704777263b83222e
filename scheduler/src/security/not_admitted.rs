//! The reasons for which callers are not admitted, and for which requests about identities are refused.

use brasserie_common::Shard;
use brasserie_common::access::{MUST_JOIN_AGAIN, NO_AUTHORITY, ShardLabel, TokenNumber};
use brasserie_common::text::printable;
use brasserie_common_identity::IdentityError;

/// A reason for which a caller is not admitted, or a request of an administrator is refused. Each text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAdmitted {
    #[error(
        "no such token: it was revoked, has expired, or is another cluster's. Ask an administrator for a new one: brasserie token create --role ROLE"
    )]
    Unknown,
    #[error(
        "the token has expired. Ask an administrator for a new one: brasserie token create --role ROLE"
    )]
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
        "the shard `{}` has joined with this token before, or may have, and its certificate is revoked since. Ask an administrator for a new one: brasserie \
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
         If this is the worker of the shard, end it and its certificates, and start it in its data directory with --join-token and a new token: \
         brasserie worker revoke {0}; brasserie token create --role worker"
    )]
    OtherKey(ShardLabel),
    #[error(
        "the token names an authority of the cluster that was replaced. Ask an administrator for a new one: brasserie token create --role ROLE"
    )]
    Replaced,
    #[error("{0}")]
    BadTerms(String),
    #[error(
        "there are {most} tokens, as many as are kept: revoke some with brasserie token revoke"
    )]
    TooMany { most: usize },
    #[error(
        "the file with tokens and shards would have more than {most} bytes, as many as it may. Revoke tokens that nobody uses (brasserie token revoke). \
         Shards take most of it if workers join under ever new names: let them join under names that they had before. Beyond 10,000 shards, \
         the scheduler forgets those whose last certificate has expired more than 30 days ago"
    )]
    TooLarge { most: usize },
    #[error(
        "no shard `{shard}` has joined, and {most} such shards are revoked already, as many as are kept. See `brasserie worker list` and \
         `brasserie audit --what join` for names"
    )]
    TooManyUnknown { shard: ShardLabel, most: usize },
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
    NotWritten(String),
    /// A step of a rotation is in force, and something is left to do.
    #[error("{0}")]
    Unfinished(String),
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
            | NotAdmitted::TooMany { .. }
            | NotAdmitted::TooLarge { .. }
            | NotAdmitted::TooManyUnknown { .. }
            | NotAdmitted::Unfinished(_)
            | NotAdmitted::NoToken(_)
            | NotAdmitted::NotWritten(_)
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
