//! Owners of jobs, uploaded files and reservations, and the one decision about who may change these.

use std::fmt;
use std::sync::Arc;

use brasserie_common::Principal;
use brasserie_common::access::{Identity, Role};
use brasserie_common::text::printable;

/// The owner of a job, an uploaded file or a reservation: the submitter who gave it first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The config file, whose jobs only operators and administrators change.
    ConfigFile,
    /// It was given by an operator or administrator, or before anybody had to prove who they are.
    Nobody,
    Submitter(Arc<str>),
    /// It does not exist yet, and will be the caller's.
    Caller,
    /// It does not exist any more, and what it has left belongs to nobody.
    Gone,
}

impl Owner {
    /// Returns the owner of what was given by this owner of a token, if by any.
    pub fn of(kept: Option<&Arc<str>>) -> Self {
        kept.map_or(Owner::Nobody, |owner| Owner::Submitter(Arc::clone(owner)))
    }
}

/// The object that a caller wants to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned<'a> {
    Job(&'a str),
    File(&'a str),
    Reservation(u64),
}

impl fmt::Display for Owned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Owned::Job(name) => write!(f, "job `{}`", printable(name)),
            Owned::File(name) => write!(f, "the file `{}`", printable(name)),
            Owned::Reservation(number) => write!(f, "reservation {number}"),
        }
    }
}

/// The reason why a caller may not change what others own. It names the owner and the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOwner {
    what: String,
    owner: Owner,
    caller: Option<Arc<str>>,
}

/// Returns the owner that the caller's token names.
pub fn owner_of(from: &Principal) -> Option<&Arc<str>> {
    from.identity()?.owner.as_ref()
}

/// Errors if the caller may not change what has this owner: submitters change their own, operators and administrators everything. Where
/// nobody has to prove who they are, everybody may.
pub fn check_owner(from: &Principal, what: Owned<'_>, owner: &Owner) -> Result<(), NotOwner> {
    let caller = owner_of(from);
    let may = match from {
        Principal::Unauthenticated(_) | Principal::Own => true,
        Principal::Stranger(..) => false,
        Principal::Authenticated(identity) => match identity.role {
            Role::Admin | Role::Operator => true,
            Role::Submitter => match owner {
                Owner::Submitter(owner) => caller == Some(owner),
                Owner::Caller => caller.is_some(),
                Owner::ConfigFile | Owner::Nobody | Owner::Gone => false,
            },
            Role::Scheduler | Role::Worker | Role::Lapsed | Role::Viewer => false,
        },
    };
    if may {
        return Ok(());
    }
    Err(NotOwner {
        what: what.to_string(),
        owner: owner.clone(),
        caller: caller.cloned(),
    })
}

/// Returns the identity whose rights are bounded by what was granted to its token; `None`: the caller may do all.
pub(crate) fn bounded(from: &Principal) -> Option<&Identity> {
    let identity = from.identity();
    identity.filter(|identity| identity.role == Role::Submitter)
}

impl fmt::Display for NotOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = &self.what;
        match &self.owner {
            Owner::Submitter(owner) => {
                let owner = printable(owner);
                write!(
                    f,
                    "{what} is owned by `{owner}`: ask `{owner}`, an operator or an administrator to change it"
                )?;
            }
            Owner::ConfigFile => write!(
                f,
                "{what} is owned by the scheduler, as it is in the config file: ask an operator or an administrator to change it"
            )?,
            Owner::Nobody => write!(
                f,
                "{what} is owned by nobody, as no submitter has given it: ask an operator or an administrator to change it"
            )?,
            Owner::Gone => write!(
                f,
                "{what} does not exist, and what it may have left is owned by nobody: submit it again, or ask an operator or an administrator"
            )?,
            Owner::Caller => write!(f, "{what} would be owned by nobody")?,
        }
        match &self.caller {
            Some(caller) => write!(f, ". Your token is for what `{}` owns", printable(caller)),
            None => f.write_str(". The call names no owner: show the token of one"),
        }
    }
}

impl std::error::Error for NotOwner {}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use brasserie_common::access::IdentityProof;

    use super::*;

    fn caller(role: Role, owner: Option<&str>) -> Principal {
        let from = SocketAddr::from(([10, 0, 0, 1], 1));
        Principal::Authenticated(Arc::new(Identity {
            owner: owner.map(Arc::from),
            ..Identity::new(role, IdentityProof::Token, from)
        }))
    }

    #[test]
    fn submitters_change_their_own_and_operators_all() {
        let ana = || Owner::Submitter("ana".into());
        let owners = [
            Owner::ConfigFile,
            Owner::Nobody,
            Owner::Gone,
            Owner::Submitter("bob".into()),
        ];
        let may = |from: &Principal, owner: &Owner| check_owner(from, Owned::Job("x"), owner);
        let free = [
            Principal::Own,
            Principal::Unauthenticated(SocketAddr::from(([127, 0, 0, 1], 1))),
            caller(Role::Operator, None),
            caller(Role::Admin, None),
        ];
        for owner in owners.iter().chain([&ana(), &Owner::Caller]) {
            for from in &free {
                assert_eq!(may(from, owner), Ok(()), "{from} {owner:?}");
            }
            for role in [Role::Worker, Role::Viewer, Role::Scheduler, Role::Lapsed] {
                assert!(may(&caller(role, Some("ana")), owner).is_err(), "{role}");
            }
            // Such a submitter has a certificate alone.
            assert!(may(&caller(Role::Submitter, None), owner).is_err());
        }
        let own = caller(Role::Submitter, Some("ana"));
        assert_eq!(may(&own, &ana()), Ok(()));
        assert_eq!(may(&own, &Owner::Caller), Ok(()));
        for owner in &owners {
            let why = may(&own, owner).expect_err("a refusal").to_string();
            assert!(why.starts_with("job `x` "), "{why}");
            assert!(why.contains("owned by"), "{why}");
            assert!(why.contains("an operator or an administrator"), "{why}");
            assert!(why.ends_with("for what `ana` owns"), "{why}");
        }
        let bobs = may(&own, &owners[3]).expect_err("a refusal").to_string();
        assert!(bobs.contains("owned by `bob`: ask `bob`,"), "{bobs}");
    }
}
