//! Tests that each test and law named in the protocol's description exists, and that each law is stated there in its own words.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use integration_tests_sim::laws::Laws;

/// The folders for the page's abbreviations of files.
const FOLDERS: [(&str, &str); 2] = [
    ("S/", "scheduler/core/tests/scenarios/"),
    ("W/", "worker/core/tests/scenarios/"),
];
/// The page's abbreviation of laws.
const LAW: &str = "L/";
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
    if let Some(law) = name.strip_prefix(LAW) {
        let laws = Laws::all();
        return (!law.is_empty()).then(|| laws.statements().any(|(name, _)| name == law));
    }
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

/// Returns the table of laws: each name with its statement.
fn law_table(page: &str) -> BTreeMap<&str, String> {
    let rows = page.lines().filter_map(|line| {
        let cells = line.strip_prefix("| `L/")?.strip_suffix(" |")?;
        let (name, statement) = cells.split_once("` | ")?;
        Some((name, format!("{statement}.")))
    });
    rows.collect()
}

#[test]
fn every_law_is_stated_in_its_own_words() {
    let page = page();
    let laws = Laws::all();
    let stated: BTreeMap<&str, String> = laws.statements().collect();
    assert_eq!(law_table(&page), stated);
}

#[test]
fn a_name_that_is_nowhere_is_found_out() {
    assert_eq!(exists("S/no_such_scenario.txt"), Some(false));
    assert_eq!(exists("L/no_such_law"), Some(false));
    assert_eq!(exists("t::no_such_test"), Some(false));
    assert_eq!(exists("common/src/no_such_file.rs"), Some(false));
    assert_eq!(exists("processHeartbeat"), None);
    assert_eq!(
        exists("r::no_prefix_of_its_first_records_makes_a_new_directory_trusted"),
        Some(true)
    );
}
