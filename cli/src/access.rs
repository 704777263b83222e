//! The token of the caller, and files with secrets.

use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use brasserie_common::text::shell_word;
use brasserie_common_identity::{
    ADMIN_TOKEN, FOLDER, MAX_TOKEN_BYTES, TOKEN_VARIABLE, Token, TokenForm, joining_client_config,
};
use brasserie_common_runtime::files::{self, FileError};
use brasserie_thrift::rpc::{Credentials, THRIFT};
use nix::unistd::{Uid, User};

use crate::failure::Failure;
use crate::secret_line::secret_line;

/// Reads the token of a person from a file that nobody else may read, from a scheduler's data directory, or from standard input, which is
/// `-`.
pub(crate) fn read_token(file: &Path) -> Result<Token> {
    if file != Path::new("-") {
        return parse_token(&token_text(file)?);
    }
    let line = secret_line(MAX_TOKEN_BYTES);
    let line = line.context("cannot read the token from standard input")?;
    match line.trim().is_empty() {
        true => Err(Failure::usage("standard input has no token").into()),
        false => parse_token(&line),
    }
}

/// Reads the token in the environment; `None` if there is none.
pub(crate) fn token_of_environment() -> Result<Option<Token>> {
    let text = std::env::var(TOKEN_VARIABLE)
        .ok()
        .filter(|text| !text.is_empty());
    text.map(|text| parse_token(&text)).transpose()
}

/// Reads the token of a person.
pub(crate) fn parse_token(text: &str) -> Result<Token> {
    let token = Token::from_text(text).map_err(|error| Failure::usage(error.to_string()))?;
    match token.form {
        TokenForm::Person => Ok(token),
        TokenForm::Join => Err(
            Failure::usage("the token is for a worker that joins".to_owned())
                .remedy("People use one of `brasserie token create --role viewer`, or another role")
                .into(),
        ),
    }
}

/// Reads a token from a file that nobody else may read, or from a scheduler's data directory.
fn token_text(file: &Path) -> Result<String> {
    if !file.is_dir() {
        return read_secret(file, MAX_TOKEN_BYTES);
    }
    let path = file.join(FOLDER).join(ADMIN_TOKEN);
    let text = files::read_secret(&path, MAX_TOKEN_BYTES);
    let text = text.map_err(|error| match &error {
        FileError::Read { error: why, .. } if why.kind() == ErrorKind::NotFound => {
            Failure::usage(error.to_string()).remedy(
                "A scheduler without an authority has no such file and needs no token: leave the flag out. Another one writes it at its first start",
            )
        }
        _ => unreadable(&path, &error),
    });
    Ok(text?)
}

/// Reads a text file that nobody else may read, because it has tokens.
pub(crate) fn read_secret(path: &Path, max_bytes: u64) -> Result<String> {
    let text = files::read_secret(path, max_bytes);
    text.map_err(|error| unreadable(path, &error).into())
}

/// Creates the failure for a file that cannot be read, or that other users may read although it has a secret.
pub(crate) fn unreadable(path: &Path, error: &FileError) -> Failure {
    match error {
        FileError::Exposed { mode, .. } => Failure::usage(format!(
            "other users may read {}, which has a secret: its mode is {mode:04o}",
            path.display()
        ))
        .remedy(format!(
            "If nobody has read it, run: chmod 600 {}. After `umask 077`, a shell creates files with this mode",
            shell_word(&path.to_string_lossy())
        )),
        FileError::Read { error: why, .. } if why.kind() == ErrorKind::PermissionDenied => {
            Failure::usage(error.to_string()).remedy(owner_remedy(path))
        }
        other => Failure::usage(other.to_string()),
    }
}

/// Returns the remedy for a file that this user may not use: its owner, or that of the innermost folder on its path that can be seen.
pub(crate) fn owner_remedy(path: &Path) -> String {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let seen = path
        .ancestors()
        .find_map(|path| Some((path, path.metadata().ok()?)));
    let Some((seen, found)) = seen else {
        return "Run the command as the user to whom the file belongs".to_owned();
    };
    let uid = Uid::from_raw(found.uid());
    let user = User::from_uid(uid).ok().flatten().map(|user| user.name);
    format!(
        "{} belongs to the user `{}`: run the command as this user",
        seen.display(),
        user.unwrap_or_else(|| uid.to_string())
    )
}

/// The caller's side of TLS towards a scheduler, by a token. The token names the authority of that scheduler.
pub(crate) struct TokenCredentials {
    tls: Arc<rustls::ClientConfig>,
    secret: String,
}

impl TokenCredentials {
    pub(crate) fn new(token: &Token) -> Result<Self> {
        Ok(TokenCredentials {
            tls: joining_client_config(token.authority, THRIFT)?,
            secret: token.secret.reveal(),
        })
    }
}

impl Credentials for TokenCredentials {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.tls)
    }

    fn secret(&self) -> Option<String> {
        Some(self.secret.clone())
    }
}

impl fmt::Debug for TokenCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenCredentials(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_directory_without_a_token_says_that_none_may_be_needed() {
        let folder = tempfile::tempdir().expect("a folder");
        let error = read_token(folder.path()).expect_err("there is no token");
        let failure = error.downcast_ref::<Failure>().expect("a failure");
        let failure = format!("{failure:?}");
        assert!(failure.contains("needs no token"), "{failure}");
    }
}
