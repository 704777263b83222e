//! Tests that the pages agree with the programs: reference pages, configs, and the commands of the quickstart.

mod command_line;
mod configs;
mod quickstart;
mod reference;

use std::fs;
use std::path::{Path, PathBuf};

/// The environment variable with which tests write generated pages instead of comparing them.
const BLESS_VARIABLE: &str = "BLESS";

fn root() -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    folder
        .parent()
        .expect("the workspace holds this crate")
        .to_owned()
}

/// Returns the text of a page by its path from the root.
fn page(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Compares a generated page with the committed one, or writes it if the environment says so.
fn check_generated(path: &str, generated: &str) {
    if std::env::var_os(BLESS_VARIABLE).is_some() {
        fs::write(root().join(path), generated).expect("the repository is writable");
    }
    assert!(
        page(path) == generated,
        "{path} is out of date; {BLESS_VARIABLE}=1 cargo test -p integration-tests --test docs writes it"
    );
}

/// A fenced block of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Block {
    /// The file and the line of the opening fence.
    place: String,
    /// The text after the opening fence: a language, and `,fragment` after it for a part of a config.
    info: String,
    text: String,
}

/// Returns the fenced blocks of a page in their order.
fn blocks(path: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for (number, line) in (1..).zip(page(path).lines()) {
        match (line.trim_start().strip_prefix("```"), open.as_mut()) {
            (Some(info), None) => {
                open = Some(Block {
                    place: format!("{path}:{number}"),
                    info: info.to_owned(),
                    text: String::new(),
                });
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (None, Some(block)) => block.text.extend([line, "\n"]),
            (None, None) => {}
        }
    }
    assert_eq!(open, None, "a block without its end");
    blocks
}

/// Returns the paths of the README and of all pages of the book's own folder, from the root.
fn pages_for_users() -> Vec<String> {
    let mut pages = vec!["README.md".to_owned()];
    let mut folders = vec!["docs/src".to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("the book's folders are readable") {
            let entry = entry.expect("a folder entry is readable");
            let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                folders.push(path);
            } else if path.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    assert!(pages.len() > 20, "the walk found only {pages:?}");
    pages.sort();
    pages
}

/// Returns the commands of a block: its lines without comments, with continued lines in one.
fn commands(block: &Block) -> Vec<String> {
    let text = block.text.replace("\\\n", " ");
    let lines = text
        .lines()
        .map(|line| line.split(" #").next().unwrap_or(line));
    let lines = lines.map(|line| line.trim().to_owned());
    lines.filter(|line| !line.is_empty()).collect()
}
