//! The files of the folder `identity` in the data directory, as a start finds and creates them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_common::WallTime;
use brasserie_common::access::{Role, TokenNumber};
use brasserie_common_identity::{
    ADMIN_TOKEN, Authority, CERTIFICATE, FOLDER, IdentityError, KEY, MAX_TOKEN_BYTES, Secret,
    Token, TokenForm, write_secret,
};
use brasserie_common_runtime::files::{self, OthersMay};
use brasserie_common_runtime::{DataDir, DataDirError};

use super::registry::{Registry, Terms};
use super::{AuthorityCreation, NotAdmitted};
use crate::audit::Audit;

/// The file with the registry.
pub(super) const TOKENS: &str = "tokens.json";
/// The note of the first administrator's token, which names its file.
const ADMIN_NOTE: &str = "in identity/admin.token";
/// The size limit of the file with the registry.
const MAX_TOKENS_BYTES: usize = 64 << 20;
/// The life of the first administrator's token.
const ADMIN_LIFE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The reason why a scheduler's identity cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Folder(#[from] DataDirError),
    #[error(
        "{} has the tokens or the key of a cluster, but no {CERTIFICATE}. Restore {CERTIFICATE} and {KEY} there from a backup of this data \
         directory. To begin a new cluster instead, remove {}, and start once with --after-restoring-a-backup: all workers and people then need \
         new tokens", folder.display(), folder.display()
    )]
    NoAuthority { folder: PathBuf },
    #[error(
        "{} has the authority of a cluster, but no {TOKENS}: its tokens, its joined workers and its revocations are lost, so revoked certificates \
         would be accepted again. Restore {TOKENS} there from a backup of this data directory. To go on without it, start once with \
         --after-restoring-a-backup: nothing starts during the safe wait, people need new tokens, and what was revoked must be revoked again: \
         brasserie worker revoke", folder.display()
    )]
    TokensLost { folder: PathBuf },
    #[error(
        "the last scheduler of this data directory had an authority, but {} has none. Restore that folder from a backup of this data \
         directory. To go on with another authority, start once with --after-restoring-a-backup: nothing starts during the safe wait, and all \
         workers and people need new tokens", folder.display()
    )]
    AuthorityLost { folder: PathBuf },
    #[error(
        "{} is not what this program has written: {error}. Restore it from a backup of this data directory. To go on without it, move it away, and \
         start once with --after-restoring-a-backup: nothing starts during the safe wait, people need new tokens, and what was revoked must be \
         revoked again", path.display()
    )]
    Damaged {
        path: PathBuf,
        error: serde_json::Error,
    },
}

/// Opens the folder in a data directory, or creates it. Returns its path and contents; `None` if the scheduler has no authority.
pub(super) fn open(
    directory: &DataDir,
    creation: AuthorityCreation,
    audit: &Audit,
    now: WallTime,
) -> Result<Option<(PathBuf, Authority, Registry)>, SecurityError> {
    let found = find(&directory.path().join(FOLDER))?;
    let is_new = found.is_none();
    let authority = match (found, creation) {
        (Some(authority), _) => authority,
        (None, AuthorityCreation::Never) => return Ok(None),
        (None, AuthorityCreation::IfMissing) => Authority::create(now)?,
    };
    let path = directory.folder(FOLDER)?;
    check_admin(&path)?;
    if !is_new && authority.remove_other_keys(&path)? {
        tracing::warn!(
            "the file {KEY} had the key of another authority too, which is removed: a step of a rotation was cut off"
        );
    }
    // An operator copies the authority alone to a scheduler that takes over a cluster.
    let mut registry = match is_new || !exists(&path.join(TOKENS))? {
        true => {
            let mut registry = Registry::default();
            let (number, token) = create_admin(&path, &mut registry, &authority, now)?;
            audit.own_token(number, Some(ADMIN_NOTE));
            tracing::info!(token = %token.display(), "created the token of the administrator");
            registry
        }
        false => read_registry(&path.join(TOKENS))?,
    };
    if is_new {
        // It is written last: a crash before that leaves a folder from which the next start begins anew.
        authority.write(&path)?;
        tracing::info!(trust_domain = %authority.trust_domain(), "created the authority of a new cluster");
    }
    if let Some(admin) = set_authority_of_admin_token(&path, &authority)? {
        registry.set_authority(admin, &authority.hash());
    }
    Ok(Some((path, authority, registry)))
}

/// Reads the authority in its folder; `None` if the scheduler has had none. Errors if it had one.
pub(super) fn find(folder: &Path) -> Result<Option<Authority>, SecurityError> {
    if let Some(found) = Authority::read(folder)? {
        return Ok(Some(found));
    }
    // A first start that was cut off leaves the token of its administrator, and then perhaps a key.
    let registry = folder.join(TOKENS);
    let is_new = match exists(&registry)? {
        true => read_registry(&registry)?.is_new(),
        false => !exists(&folder.join(KEY))?,
    };
    match is_new {
        true => Ok(None),
        false => Err(SecurityError::NoAuthority {
            folder: folder.to_owned(),
        }),
    }
}

pub(super) fn exists(path: &Path) -> Result<bool, IdentityError> {
    Ok(files::exists(path)?)
}

pub(super) fn read_registry(path: &Path) -> Result<Registry, SecurityError> {
    let bytes = files::read_own(path, MAX_TOKENS_BYTES as u64, OthersMay::DoNothing);
    let bytes = bytes.map_err(IdentityError::from)?;
    serde_json::from_slice(&bytes).map_err(|error| SecurityError::Damaged {
        path: path.to_owned(),
        error,
    })
}

/// Writes the registry. Errors if its file would be too large for the next start, or the disk does not take it.
pub(super) fn write_registry(folder: &Path, registry: &Registry) -> Result<(), NotAdmitted> {
    let text = registry.to_json(MAX_TOKENS_BYTES)?;
    Ok(write_secret(&folder.join(TOKENS), &text)?)
}

/// Creates the token of the first administrator, and keeps it in a file for this user alone.
fn create_admin(
    folder: &Path,
    registry: &mut Registry,
    authority: &Authority,
    now: WallTime,
) -> Result<(TokenNumber, PathBuf), SecurityError> {
    let secret = Secret::random()?;
    let number = secret.number();
    let terms = Terms::person(Role::Admin, ADMIN_LIFE).own(ADMIN_NOTE);
    let added = registry.add(now, &secret, terms);
    registry.set_authority(number, &authority.hash());
    debug_assert!(
        added.is_ok(),
        "the terms are good, and there is no other token"
    );
    let token = Token {
        form: TokenForm::Person,
        authority: authority.hash(),
        secret,
    };
    let path = folder.join(ADMIN_TOKEN);
    let text = format!("{}\n", token.reveal());
    write_secret(&path, text.as_bytes())?;
    let kept = folder.join(TOKENS);
    let text = registry.to_json(MAX_TOKENS_BYTES);
    let text = text.map_err(|why| IdentityError::Write {
        path: kept.clone(),
        error: std::io::Error::other(why),
    })?;
    write_secret(&kept, &text)?;
    Ok((number, path))
}

/// Errors if others may know the first administrator's token, or have put another file in its place.
fn check_admin(folder: &Path) -> Result<(), SecurityError> {
    let path = folder.join(ADMIN_TOKEN);
    if exists(&path)? {
        files::check_own(&path, OthersMay::DoNothing).map_err(IdentityError::from)?;
    }
    Ok(())
}

/// Makes the administrator's token name this authority, and returns its number. Its secret stays the same. A file with anything else stays as
/// it is.
pub(super) fn set_authority_of_admin_token(
    folder: &Path,
    authority: &Authority,
) -> Result<Option<TokenNumber>, IdentityError> {
    let path = folder.join(ADMIN_TOKEN);
    let Ok(text) = files::read_regular(&path, MAX_TOKEN_BYTES) else {
        return Ok(None);
    };
    let token = String::from_utf8(text).ok();
    let Some(token) = token.and_then(|text| Token::from_text(&text).ok()) else {
        return Ok(None);
    };
    let number = token.secret.number();
    if token.authority != authority.hash() {
        let token = Token {
            authority: authority.hash(),
            ..token
        };
        write_secret(&path, format!("{}\n", token.reveal()).as_bytes())?;
    }
    Ok(Some(number))
}
