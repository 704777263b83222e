//! The replacement of the authority by a successor, while everybody goes on working.
//!
//! ```text
//! one authority --rotate--> two: certificates of both are accepted --finish--> one
//! ```
//!
//! Workers renew their certificates with the new authority between the two steps, and tokens with the hash of the former one still prove
//! the scheduler. The key of the former authority is gone from the first step on: it vouches for the successor's key by a certificate.

use std::path::Path;
use std::sync::Arc;

use brasserie_common::WallTime;
use brasserie_common::access::ShardLabel;
use brasserie_common_identity::{
    Authority, AuthorityHash, Cluster, IdentityError, MAX_TOKEN_BYTES, Token, write_secret,
};
use brasserie_common_runtime::{Clock, files};

use super::door::OwnSide;
use super::tokens::Tokens;
use super::{ADMIN_TOKEN, Guard, NotAdmitted};

/// The most shards that a refusal names.
const MOST_NAMED: usize = 10;

/// A step of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RotationStep {
    /// Create the successor.
    Begin,
    /// Trust the former authority no longer, unless workers still have its certificates.
    Finish,
    /// Finish also if workers still have its certificates. They must join anew.
    FinishAnyway,
}

/// The authority and its rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuthorityState {
    pub cluster: Cluster,
    pub hash: AuthorityHash,
    pub expires: WallTime,
    /// The authority that a rotation replaces.
    pub former: Option<AuthorityHash>,
    /// The shards whose valid certificates are of that authority.
    pub behind: Vec<String>,
}

/// The authority after a step, the scheduler's own certificate by it, and the shards that are shut out.
type Next = (Authority, OwnSide, Vec<ShardLabel>);

impl Guard {
    pub(crate) fn authority_state(&self) -> Result<AuthorityState, NotAdmitted> {
        let tokens = self.tokens.lock().clone();
        Ok(state(&self.authority(), &tokens)?)
    }

    /// Performs a step of a rotation. Waits for the disk.
    pub(crate) fn rotate(&self, step: RotationStep) -> Result<AuthorityState, NotAdmitted> {
        // Nobody gets a certificate meanwhile.
        let _turn = self.changing.lock();
        let tokens = self.tokens.lock().clone();
        let authority = self.authority();
        let is_under_way = authority.former().is_some();
        let next = match (step, is_under_way) {
            (RotationStep::Begin, false) => self.begin_rotation(&authority)?,
            (RotationStep::Begin, true) => {
                return refused(
                    "a rotation is under way already. See `brasserie ca status`, and finish it first: brasserie ca rotate --finish",
                );
            }
            (RotationStep::Finish | RotationStep::FinishAnyway, false) => {
                return refused("no rotation is under way");
            }
            (RotationStep::Finish, true) => {
                check_that_none_is_behind(&authority, &tokens)?;
                self.finish_rotation(&authority, tokens.clone())?
            }
            (RotationStep::FinishAnyway, true) => {
                self.finish_rotation(&authority, tokens.clone())?
            }
        };
        let (authority, own, shut_out) = next;
        let state = state(&authority, &tokens)?;
        let mut side = self.side.lock();
        (side.authority, side.own) = (Arc::new(authority), own);
        side.web.forget_certificate();
        drop(side);
        self.tell_workers();
        // Only now, as they come back at once.
        self.disconnect(|peer| {
            peer.shard
                .as_ref()
                .is_some_and(|own| shut_out.contains(own))
        });
        Ok(state)
    }

    fn begin_rotation(&self, former: &Authority) -> Result<Next, NotAdmitted> {
        let now = Clock.wall();
        let made = former.successor(now)?;
        // It is of use before it is kept.
        let own = OwnSide::create(&made, now)?;
        made.write(&self.folder)?;
        follow(&self.folder, &made)?;
        Ok((made, own, Vec::new()))
    }

    fn finish_rotation(
        &self,
        authority: &Authority,
        mut tokens: Tokens,
    ) -> Result<Next, NotAdmitted> {
        let now = Clock.wall();
        let left = authority.forget_former(&self.folder)?;
        let own = OwnSide::create(&left, now)?;
        let behind = tokens.behind(now, left.hash()).map(|(label, _)| label);
        let behind: Vec<ShardLabel> = behind.collect();
        tokens.end(now, &behind);
        self.keep(&tokens)?;
        self.tokens.lock().end(now, &behind);
        Ok((left, own, behind))
    }
}

/// Makes the administrator's token name this authority. Its secret stays the same. A file with anything else stays as it is.
pub(super) fn follow(folder: &Path, authority: &Authority) -> Result<(), IdentityError> {
    let path = folder.join(ADMIN_TOKEN);
    let Ok(text) = files::read_regular(&path, MAX_TOKEN_BYTES) else {
        return Ok(());
    };
    let token = String::from_utf8(text).ok();
    let token = token.and_then(|text| Token::from_text(&text).ok());
    match token {
        Some(token) if token.authority != authority.hash() => {
            let token = Token {
                authority: authority.hash(),
                ..token
            };
            write_secret(&path, format!("{}\n", token.reveal()).as_bytes())
        }
        Some(_) | None => Ok(()),
    }
}

fn state(authority: &Authority, tokens: &Tokens) -> Result<AuthorityState, IdentityError> {
    let former = authority.former();
    let behind = match former {
        Some(_) => names_behind(authority, tokens),
        None => Vec::new(),
    };
    Ok(AuthorityState {
        cluster: authority.cluster().clone(),
        hash: authority.hash(),
        expires: authority.until()?,
        former,
        behind,
    })
}

fn names_behind(authority: &Authority, tokens: &Tokens) -> Vec<String> {
    let behind = tokens.behind(Clock.wall(), authority.hash());
    behind.map(|(_, shard)| shard.as_str().to_owned()).collect()
}

fn check_that_none_is_behind(authority: &Authority, tokens: &Tokens) -> Result<(), NotAdmitted> {
    let behind = names_behind(authority, tokens);
    if behind.is_empty() {
        return Ok(());
    }
    let named = behind.iter().take(MOST_NAMED);
    let named: Vec<_> = named
        .map(|name| brasserie_common::text::printable(name).to_string())
        .collect();
    let (count, more) = (behind.len(), behind.len() - named.len());
    let more = match more {
        0 => String::new(),
        more => format!(" and {more} others"),
    };
    refused(format!(
        "{count} workers have certificates of the former authority: {}{more}. A worker renews within seconds of its next heartbeat. One that \
         stays away has to join again after --force: with `brasserie token create --role worker`, and without the folder `identity` in its data \
         directory",
        named.join(", ")
    ))
}

fn refused<T>(why: impl Into<String>) -> Result<T, NotAdmitted> {
    Err(NotAdmitted::BadTerms(why.into()))
}
