//! Tests that each test and law named in the protocol's description exists, and that each law is named there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folders for the page's abbreviations of files.
const FOLDERS: [(&str, &str); 3] = [
    ("S/", "scheduler/core/tests/scenarios/"),
    ("W/", "worker/core/tests/scenarios/"),
    ("L/", "integration-tests/sim/src/invariants/"),
];
/// The locations for the page's abbreviations of tests: a file, or a folder of them.
const TESTS: [(&str, &str); 4] = [
    ("t", "scheduler/core/tests/transcripts.rs"),
    ("f", "scheduler/core/tests/transcripts_faults.rs"),
    ("r", "scheduler/core/tests/transcripts_records.rs"),
    ("w", "worker/core/src/worker/tests"),
];
/// Minimum number of names. Far fewer would mean that the search does not work.
const LEAST_NAMES: usize = 150;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace holds this crate")
        .to_owned()
}

fn page() -> String {
    fs::read_to_string(root().join("thrift/PROTOCOL.md")).expect("the page is there")
}

/// Returns every text between two backticks.
fn quoted(page: &str) -> BTreeSet<&str> {
    page.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

fn sources(path: &Path) -> String {
    if path.is_file() {
        return fs::read_to_string(path).expect("a source file is UTF-8");
    }
    let entries = fs::read_dir(path).expect("a named folder is there");
    entries
        .map(|entry| sources(&entry.expect("an entry is readable").path()))
        .collect()
}

/// Returns whether the named file or test exists; `None` if it is no name of a file or test.
fn exists(name: &str) -> Option<bool> {
    if let Some((short, folder)) = FOLDERS.iter().find(|(short, _)| name.starts_with(short)) {
        let file = name.strip_prefix(short)?;
        return (!file.is_empty()).then(|| root().join(folder).join(file).is_file());
    }
    let (place, test) = name.split_once("::").unwrap_or((name, ""));
    let (_, path) = TESTS
        .iter()
        .find(|(short, _)| *short == place)
        .copied()
        .unwrap_or((place, place));
    if test.is_empty() {
        let is_path = path.contains('/') && path.ends_with(".rs");
        return is_path.then(|| root().join(path).is_file());
    }
    let path = root().join(path);
    path.exists()
        .then(|| sources(&path).contains(&format!("fn {test}(")))
}

#[test]
fn what_the_page_names_exists() {
    let page = page();
    let judged: Vec<(&str, bool)> = quoted(&page)
        .into_iter()
        .filter_map(|name| Some((name, exists(name)?)))
        .collect();
    assert!(judged.len() >= LEAST_NAMES, "only {} names", judged.len());
    let missing: Vec<&str> = judged
        .into_iter()
        .filter_map(|(name, is_there)| (!is_there).then_some(name))
        .collect();
    assert!(missing.is_empty(), "named, and not there: {missing:#?}");
}

#[test]
fn every_law_is_named() {
    let page = page();
    let named = quoted(&page);
    let laws = fs::read_dir(root().join("integration-tests/sim/src/invariants"));
    let mut unnamed = Vec::new();
    for law in laws.expect("the laws are there") {
        let path = law.expect("an entry is readable").path();
        let file = path.file_name().expect("an entry has a name");
        let name = format!("L/{}", file.to_string_lossy());
        if sources(&path).contains("impl Law for") && !named.contains(name.as_str()) {
            unnamed.push(name);
        }
    }
    assert!(
        unnamed.is_empty(),
        "laws that the page does not name: {unnamed:#?}"
    );
}

#[test]
fn a_name_that_is_nowhere_is_found_out() {
    assert_eq!(exists("S/no_such_scenario.txt"), Some(false));
    assert_eq!(exists("t::no_such_test"), Some(false));
    assert_eq!(exists("common/src/no_such_file.rs"), Some(false));
    assert_eq!(exists("processHeartbeat"), None);
    assert_eq!(
        exists("r::no_prefix_of_its_first_records_makes_a_new_directory_trusted"),
        Some(true)
    );
}
