//! Reads how long the authority and the administrator's token in a data directory are still valid, for `brasserie doctor`. Changes nothing, so
//! the scheduler may run.

use std::path::Path;

use brasserie_common_identity::{ADMIN_TOKEN, FOLDER, IdentityError, Life, MAX_TOKEN_BYTES, Token};
use brasserie_common_runtime::files::{self, OthersMay};

use super::SecurityError;
use super::folder::{TOKENS, exists, find, read_registry};

/// The lives of the secrets in a scheduler's data directory. Errors are those for which a start would fail, such as files that other users
/// may read.
#[derive(Debug)]
pub struct IdentityExamination {
    /// `None`: the scheduler has no authority.
    pub authority: Result<Option<Life>, SecurityError>,
    /// The token in `identity/admin.token`. `None`: there is no such file, or its token is not kept, because it was revoked.
    pub admin_token: Result<Option<Life>, SecurityError>,
}

/// Examines a scheduler's data directory.
pub fn examine_identity(data_dir: &Path) -> IdentityExamination {
    let folder = data_dir.join(FOLDER);
    IdentityExamination {
        authority: authority(&folder),
        admin_token: admin_token(&folder),
    }
}

fn authority(folder: &Path) -> Result<Option<Life>, SecurityError> {
    let found = find(folder)?;
    let life = found.map(|authority| Life::of(authority.certificate()));
    Ok(life.transpose()?)
}

fn admin_token(folder: &Path) -> Result<Option<Life>, SecurityError> {
    let (path, registry) = (folder.join(ADMIN_TOKEN), folder.join(TOKENS));
    let has_registry = exists(&registry)?;
    let registry = has_registry.then(|| read_registry(&registry)).transpose()?;
    if !exists(&path)? {
        return Ok(None);
    }
    let text = files::read_own(&path, MAX_TOKEN_BYTES, OthersMay::DoNothing);
    let text = text.map_err(IdentityError::from)?;
    let token = Token::from_text(&String::from_utf8_lossy(&text)).ok();
    let life = registry.zip(token);
    Ok(life.and_then(|(registry, token)| registry.token_life(token.secret.number())))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use crate::security::tests::Bench;

    use super::*;

    #[test]
    fn a_data_directory_has_an_authority_and_a_token_until_others_may_read_them() {
        let bench = Bench::new();
        let examine = || examine_identity(bench.path());
        let none = examine();
        assert!(matches!(none.authority, Ok(None)), "{none:?}");
        assert!(matches!(none.admin_token, Ok(None)), "{none:?}");
        let security = bench.security();
        let days = |life: &Result<Option<Life>, SecurityError>| {
            let life = life.as_ref().expect("files of this user").expect("a life");
            life.issued.until(life.until).as_secs() / 86_400
        };
        let found = examine();
        assert_eq!(days(&found.admin_token), 365);
        assert!(days(&found.authority) > 3000, "{found:?}");
        let token = bench.path().join(FOLDER).join(ADMIN_TOKEN);
        std::fs::set_permissions(&token, Permissions::from_mode(0o644)).expect("a file");
        let exposed = examine();
        assert!(exposed.admin_token.is_err() && exposed.authority.is_ok());
        std::fs::set_permissions(&token, Permissions::from_mode(0o600)).expect("a file");
        let tokens = security.valid_tokens();
        let number = tokens[0].0.as_str();
        let number = brasserie_common::access::TokenNumber::from_text(number);
        let revoked = security.revoke_token(number.expect("a number"));
        revoked.expect("the only token");
        assert!(matches!(examine().admin_token, Ok(None)));
    }
}
