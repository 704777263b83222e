//! Checks whether a data directory has lost its identity or a part of it. Without the check, such a scheduler would start as a new cluster, or
//! with all revocations forgotten.

use std::path::{Path, PathBuf};

use brasserie_common_identity::{CERTIFICATE, FOLDER};
use brasserie_common_runtime::DataDir;
use serde_json::json;

use super::folder::{TOKENS, exists, find};
use super::{AuthorityCreation, SecurityError};
use crate::audit::Audit;
use crate::store::{FormerAuthority, LostRecords};

/// A check of a data directory, with what its store and its operator say about the last scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostIdentityCheck {
    pub authority: FormerAuthority,
    /// Whether the store has records of a scheduler.
    pub has_records: bool,
    /// The operator's statement.
    pub may_be_lost: LostRecords,
}

impl LostIdentityCheck {
    /// Errors if the directory has lost its authority or its tokens, unless the operator expects that. Returns whether to create an
    /// authority: a cluster that had one gets another one.
    pub(crate) fn check(
        self,
        directory: &DataDir,
        creation: AuthorityCreation,
        audit: &Audit,
    ) -> Result<AuthorityCreation, SecurityError> {
        let folder = directory.path().join(FOLDER);
        let Some(lost) = self.lost(&folder)? else {
            return Ok(creation);
        };
        if lost == LostIdentity::Authority {
            // The rest of it must come back together with the authority, or go.
            find(&folder)?;
        }
        if self.may_be_lost == LostRecords::None {
            return Err(lost.error(folder));
        }
        let text = lost.text();
        tracing::warn!(folder = %folder.display(), "{text}");
        audit.own("identityLost", Some(json!({ "lost": lost.name() })));
        Ok(match lost {
            LostIdentity::Authority => AuthorityCreation::IfMissing,
            LostIdentity::Tokens => creation,
        })
    }

    /// Returns what to do about the identity that the directory has lost; `None` if it has lost nothing.
    pub(crate) fn lost_text(
        self,
        directory: &DataDir,
    ) -> Result<Option<&'static str>, SecurityError> {
        let lost = self.lost(&directory.path().join(FOLDER))?;
        Ok(lost.map(LostIdentity::text))
    }

    fn lost(self, folder: &Path) -> Result<Option<LostIdentity>, SecurityError> {
        let has_authority = exists(&folder.join(CERTIFICATE))?;
        let has_tokens = exists(&folder.join(TOKENS))?;
        // A scheduler that takes over a cluster has a copy of its authority in a new directory.
        let had_tokens = self.has_records && self.authority != FormerAuthority::Absent;
        Ok(if has_authority {
            (had_tokens && !has_tokens).then_some(LostIdentity::Tokens)
        } else {
            (self.authority == FormerAuthority::Present).then_some(LostIdentity::Authority)
        })
    }
}

/// The part of its identity that a directory has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LostIdentity {
    Tokens,
    Authority,
}

impl LostIdentity {
    fn error(self, folder: PathBuf) -> SecurityError {
        match self {
            LostIdentity::Tokens => SecurityError::TokensLost { folder },
            LostIdentity::Authority => SecurityError::AuthorityLost { folder },
        }
    }

    fn name(self) -> &'static str {
        match self {
            LostIdentity::Tokens => "tokens",
            LostIdentity::Authority => "authority",
        }
    }

    /// Says what the operator has to do after a start without it.
    fn text(self) -> &'static str {
        match self {
            LostIdentity::Tokens => {
                "the tokens, the joined workers and the revocations of this cluster are lost: revoked certificates of workers are accepted \
                 again until they are revoked again (`brasserie worker revoke`), and people need new tokens"
            }
            LostIdentity::Authority => {
                "the authority of this cluster is lost: the scheduler has another one, to which all workers must join again, and people need \
                 new tokens"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use brasserie_common_identity::KEY;

    use super::*;

    const USED: LostIdentityCheck = LostIdentityCheck {
        authority: FormerAuthority::Present,
        has_records: true,
        may_be_lost: LostRecords::None,
    };

    /// Returns the outcome in a directory with these files of an identity.
    fn check(
        former: LostIdentityCheck,
        files: &[&str],
    ) -> Result<AuthorityCreation, SecurityError> {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = DataDir::open(&folder.path().join("d")).expect("a directory");
        let audit = Audit::open(&directory, 0).expect("a folder");
        let identity = directory.folder(FOLDER).expect("a folder");
        for file in files {
            fs::write(identity.join(file), "").expect("a file");
        }
        former.check(&directory, AuthorityCreation::Never, &audit)
    }

    #[test]
    fn a_used_directory_starts_without_its_identity_only_if_the_operator_knows() {
        let unknown = LostIdentityCheck {
            authority: FormerAuthority::Unknown,
            ..USED
        };
        let backup = |former| LostIdentityCheck {
            may_be_lost: LostRecords::Expected,
            ..former
        };
        for former in [USED, unknown] {
            let lost = check(former, &[CERTIFICATE]);
            assert!(matches!(lost, Err(SecurityError::TokensLost { .. })));
            let known = check(backup(former), &[CERTIFICATE]);
            assert!(matches!(known, Ok(AuthorityCreation::Never)), "it has one");
            check(former, &[CERTIFICATE, TOKENS]).expect("nothing is lost");
        }
        let lost = check(USED, &[]);
        assert!(matches!(lost, Err(SecurityError::AuthorityLost { .. })));
        let another = check(backup(USED), &[]);
        assert!(matches!(another, Ok(AuthorityCreation::IfMissing)));
        for former in [USED, backup(USED)] {
            let half = check(former, &[KEY]);
            assert!(matches!(half, Err(SecurityError::NoAuthority { .. })));
        }
        check(unknown, &[]).expect("perhaps it has had none");
    }

    #[test]
    fn a_new_directory_may_have_a_copy_of_an_authority_alone() {
        let new = LostIdentityCheck {
            authority: FormerAuthority::Unknown,
            has_records: false,
            may_be_lost: LostRecords::None,
        };
        let open = LostIdentityCheck {
            authority: FormerAuthority::Absent,
            ..USED
        };
        for former in [new, open] {
            check(former, &[CERTIFICATE]).expect("it takes a cluster over");
            check(former, &[]).expect("it has had no authority");
        }
    }
}
