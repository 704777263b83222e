//! The contexts of a user: the clusters that it calls, with their addresses and its tokens, in one file that nobody else may read.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use brasserie_common_identity::Token;
use brasserie_common_runtime::files;
use toml::de::{DeTable, DeValue};

use crate::access;
use crate::addresses::scheduler_peer;
use crate::failure::Failure;
use crate::output::printable;

/// The size limit of the file: hundreds of contexts.
const MAX_BYTES: u64 = 1 << 20;
/// The longest name of a context, in bytes.
const MAX_NAME: usize = 64;
/// The file that a command locks while it changes the contexts.
const LOCK_FILE: &str = "contexts.lock";
const FILE_HEADER: &str =
    "# The contexts of `brasserie context`. The tokens are secret: keep this file for yourself.\n";

/// A cluster, as one user calls it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Context {
    /// The addresses, at least one.
    pub schedulers: Vec<String>,
    /// It names the authority of the cluster by its hash, so no other scheduler is called. `None`: the scheduler asks for no proof.
    pub token: Option<Token>,
    /// The cluster, as its scheduler named it when the context was added.
    pub cluster: Option<String>,
    pub role: Option<String>,
}

/// All contexts of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contexts {
    pub in_use: Option<String>,
    pub all: BTreeMap<String, Context>,
}

impl Contexts {
    /// Reads the file of this user. There are no contexts if it does not exist.
    pub(crate) fn read() -> Result<Self> {
        match file_path() {
            Some(path) => Self::read_from(&path),
            None => Ok(Contexts::default()),
        }
    }

    fn read_from(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Contexts::default());
        }
        let text = access::read_secret(path, MAX_BYTES)?;
        let parsed = parse(&text);
        Ok(parsed.map_err(|problem| {
            Failure::usage(format!("{}: {problem}", path.display()))
                .remedy("Mend or remove the file; `brasserie context add` writes another one")
        })?)
    }

    /// Changes the file of this user, for it alone. Changes at the same time wait for each other, so none is lost. Changes nothing if `change`
    /// fails.
    pub(crate) fn change<T>(change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let path = file_path().ok_or_else(|| {
            Failure::usage(
                "there is no place for contexts: neither XDG_CONFIG_HOME nor HOME is set",
            )
        })?;
        Self::change_at(&path, change)
    }

    fn change_at<T>(path: &Path, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let cannot = || format!("cannot write {}", path.display());
        let folder = path.parent().unwrap_or(Path::new("/"));
        let created = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        created.with_context(cannot)?;
        let lock = folder.join(LOCK_FILE);
        let _lock = match files::lock(&lock) {
            Ok(lock) => Some(lock),
            // Some file systems of clusters have no locks. A context without one is better than none.
            Err(error) if error.kind() == ErrorKind::Unsupported => None,
            Err(error) => {
                let cannot = format!("cannot lock {}", lock.display());
                return Err(anyhow::Error::new(error).context(cannot));
            }
        };
        let mut contexts = Self::read_from(path)?;
        let changed = change(&mut contexts)?;
        files::atomic_write(path, contexts.to_toml().as_bytes()).with_context(cannot)?;
        Ok(changed)
    }

    fn to_toml(&self) -> String {
        let mut text = FILE_HEADER.to_owned();
        if let Some(name) = &self.in_use {
            text.push_str(&format!("in_use = {}\n", toml_string(name)));
        }
        for (name, context) in &self.all {
            let schedulers: Vec<String> = context
                .schedulers
                .iter()
                .map(|at| toml_string(at))
                .collect();
            text.push_str(&format!("\n[contexts.{}]\n", toml_string(name)));
            text.push_str(&format!("schedulers = [{}]\n", schedulers.join(", ")));
            let token = context.token.as_ref().map(Token::reveal);
            let others = [
                ("token", &token),
                ("cluster", &context.cluster),
                ("role", &context.role),
            ];
            for (key, value) in others {
                if let Some(value) = value {
                    text.push_str(&format!("{key} = {}\n", toml_string(value)));
                }
            }
        }
        text
    }

    /// Returns the context with this name.
    pub(crate) fn named(&self, name: &str) -> Result<Context> {
        let context = self.all.get(name).cloned();
        Ok(context.ok_or_else(|| {
            let shown = match Token::is_in(name) {
                true => "of this name, which is a token".to_owned(),
                false => format!("`{}`", printable(name)),
            };
            Failure::usage(format!("there is no context {shown}"))
                .remedy("`brasserie context list` shows them, and `brasserie context add` adds one")
        })?)
    }

    /// Returns the context in use, if one is.
    pub(crate) fn in_use(&self) -> Result<Option<Context>> {
        self.in_use
            .as_deref()
            .map(|name| self.named(name))
            .transpose()
    }
}

/// Returns the path of the file; `None` if the environment names no place for it.
fn file_path() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let folder = variable("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let folder = folder.or_else(|| Some(variable("HOME")?.join(".config")))?;
    Some(folder.join("brasserie").join("contexts.toml"))
}

/// Checks the name of a context.
pub(crate) fn context_name(text: &str) -> Result<String, String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a name has 1 to {MAX_NAME} letters, digits, and characters of `._-`"
        )),
    }
}

/// Formats a text as a string of TOML, whose escapes are those of JSON.
fn toml_string(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.replace('\u{7f}', "\\u007F")
}

/// Parses the file. A problem never has a part of the text, as that has secrets.
fn parse(text: &str) -> Result<Contexts, String> {
    let table = DeTable::parse(text).map_err(|error| {
        let before = error.span().map(|span| &text[..span.start.min(text.len())]);
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    let table = table.get_ref();
    let mut contexts = Contexts {
        in_use: text_of(table, "in_use")?,
        all: BTreeMap::new(),
    };
    let all = match table.get("contexts").map(toml::Spanned::get_ref) {
        None => return Ok(contexts),
        Some(DeValue::Table(all)) => all,
        Some(_) => return Err("`contexts` is no table".to_owned()),
    };
    for (name, value) in all {
        let name = name.get_ref().to_string();
        let of = |problem: String| format!("context `{}`: {problem}", printable(&name));
        let DeValue::Table(table) = value.get_ref() else {
            return Err(of("it is no table".to_owned()));
        };
        let context = context_of(table).map_err(of)?;
        contexts.all.insert(name, context);
    }
    Ok(contexts)
}

fn context_of(table: &DeTable<'_>) -> Result<Context, String> {
    let schedulers = match table.get("schedulers").map(toml::Spanned::get_ref) {
        Some(DeValue::Array(all)) => all.iter().map(|one| match one.get_ref() {
            DeValue::String(text) if scheduler_peer(text).is_some() => Ok(text.to_string()),
            _ => Err("`schedulers` has something that is no address".to_owned()),
        }),
        _ => return Err("`schedulers` is no list of addresses".to_owned()),
    };
    let schedulers: Vec<String> = schedulers.collect::<Result<_, _>>()?;
    if schedulers.is_empty() {
        return Err("`schedulers` is empty".to_owned());
    }
    let token = text_of(table, "token")?;
    let token = token.map(|text| access::parse_token(&text).map_err(|error| error.to_string()));
    Ok(Context {
        schedulers,
        token: token.transpose()?,
        cluster: text_of(table, "cluster")?,
        role: text_of(table, "role")?,
    })
}

fn text_of(table: &DeTable<'_>, key: &str) -> Result<Option<String>, String> {
    match table.get(key).map(toml::Spanned::get_ref) {
        None => Ok(None),
        Some(DeValue::String(text)) => Ok(Some(text.to_string())),
        Some(_) => Err(format!("`{key}` is no text in quotes")),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn two() -> Contexts {
        let token = format!("brt1-{}-{}", "ab".repeat(32), "cd".repeat(32));
        let own = Context {
            schedulers: vec!["a:1".to_owned(), "[::1]:2".to_owned()],
            token: access::parse_token(&token).ok(),
            cluster: Some("c\"\u{7f}\\".to_owned()),
            role: Some("viewer".to_owned()),
        };
        let open = Context {
            schedulers: vec!["unix:/run/b.sock".to_owned()],
            token: None,
            cluster: None,
            role: None,
        };
        assert!(own.token.is_some());
        Contexts {
            in_use: Some("prod.eu".to_owned()),
            all: [("prod.eu".to_owned(), own), ("home".to_owned(), open)].into(),
        }
    }

    #[test]
    fn contexts_are_read_back_and_are_for_their_user_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("brasserie/contexts.toml");
        assert_eq!(
            Contexts::read_from(&path).expect("none"),
            Contexts::default()
        );
        let write = |contexts: &mut Contexts| {
            *contexts = two();
            Ok(())
        };
        Contexts::change_at(&path, write).expect("a file");
        let read = Contexts::read_from(&path).expect("the contexts");
        assert_eq!(read, two());
        assert_eq!(
            read.in_use().expect("it is there"),
            read.all.get("prod.eu").cloned()
        );
        let mode = std::fs::metadata(&path)
            .expect("a file")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).expect("a mode");
        let exposed = Contexts::read_from(&path).expect_err("others may read it");
        assert!(
            exposed.to_string().contains("other users may read"),
            "{exposed}"
        );
    }

    #[test]
    fn changes_at_the_same_time_are_all_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("contexts.toml");
        let open = two().named("home").expect("a context");
        let add = |name: String| {
            let insert = |contexts: &mut Contexts| {
                contexts.all.insert(name, open.clone());
                Ok(())
            };
            Contexts::change_at(&path, insert).expect("a change");
        };
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let add = &add;
                scope.spawn(move || (0..10).for_each(|number| add(format!("{writer}-{number}"))));
            }
        });
        let kept = Contexts::read_from(&path).expect("the contexts");
        assert_eq!(kept.all.len(), 80);
        // A change that fails changes nothing.
        let fail = |contexts: &mut Contexts| -> Result<()> {
            contexts.all.clear();
            anyhow::bail!("no")
        };
        Contexts::change_at(&path, fail).expect_err("no change");
        assert_eq!(Contexts::read_from(&path).expect("the contexts"), kept);
    }

    #[test]
    fn a_damaged_file_is_refused_without_its_secrets() {
        let secret = "cd".repeat(32);
        for (text, problem) in [
            ("in_use = 'a'\ntoken = SECRET", "line 2"),
            (
                "[contexts.a]\ntoken = 'SECRET'",
                "context `a`: `schedulers`",
            ),
            (
                "[contexts.a]\nschedulers = ['a:1']\ntoken = 'brt1-SECRET'",
                "is not whole",
            ),
            ("[contexts.a]\nschedulers = ['SECRET']", "no address"),
            ("contexts = 'SECRET'", "no table"),
            ("in_use = 7", "no text"),
        ] {
            let why = parse(&text.replace("SECRET", &secret)).expect_err(text);
            assert!(
                why.contains(problem) && !why.contains(&secret),
                "{text}: {why}"
            );
        }
    }

    #[test]
    fn names_need_no_quoting() {
        for good in ["a", "prod.eu-1_x", &"n".repeat(64)] {
            assert_eq!(context_name(good), Ok(good.to_owned()));
        }
        for bad in ["", "a b", "é", "a/b", &"n".repeat(65)] {
            assert!(context_name(bad).is_err(), "{bad}");
        }
        let secret = "cd".repeat(32);
        let token = format!("brt1-{}-{secret}", "ab".repeat(32));
        let unknown = two().named(&token).expect_err("no context");
        assert!(!unknown.to_string().contains(&secret), "{unknown}");
    }
}
