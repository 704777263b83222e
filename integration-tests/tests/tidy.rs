//! Tests the rules of the codebase that a text search can check: see docs/src/design/habits.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace holds this crate")
        .to_owned()
}

/// Returns every tracked or new source file except generated ones, with its path from the root.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    collect(&root(), ".rs", &mut files);
    let name = |path: &PathBuf| {
        path.strip_prefix(root())
            .expect("below the root")
            .to_string_lossy()
            .into_owned()
    };
    let mut sources: Vec<(String, String)> = files
        .iter()
        .map(|path| {
            (
                name(path),
                fs::read_to_string(path).expect("a source file is UTF-8"),
            )
        })
        .filter(|(name, _)| !name.starts_with("thrift/src/generated/"))
        .collect();
    sources.sort();
    assert!(
        sources.len() > 50,
        "the walk found only {} files",
        sources.len()
    );
    sources
}

fn collect(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the repository is readable") {
        let path = entry.expect("a folder entry is readable").path();
        let name = path
            .file_name()
            .expect("an entry has a name")
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && !path.is_symlink() {
            if name != "target" && !name.starts_with('.') {
                collect(&path, ending, files);
            }
        } else if name.ends_with(ending) && path.exists() {
            files.push(path);
        }
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let silent: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| {
            !text
                .lines()
                .next()
                .is_some_and(|first| first.starts_with("//! "))
        })
        .map(|(name, _)| name)
        .collect();
    assert!(
        silent.is_empty(),
        "files whose first line is not a `//!` sentence: {silent:#?}"
    );
}

#[test]
fn nothing_is_left_half_done() {
    // Split, so that this file does not contain them.
    let banned = [
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("#[ig", "nore"),
        concat!("FIX", "ME"),
        concat!("#[al", "low("),
        concat!("#![al", "low("),
    ];
    let mut found = Vec::new();
    for (name, text) in sources() {
        for (number, line) in text.lines().enumerate() {
            for word in banned.iter().filter(|word| line.contains(**word)) {
                found.push(format!("{name}:{}: {word}", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// A property with its own runner draws other cases in each run, and `properties` does not find it.
#[test]
fn random_properties_have_one_runner() {
    let own = [
        concat!("prop", "test! {"),
        concat!("Proptest", "Config"),
        concat!("TestRunner", "::new"),
    ];
    let users: Vec<String> = sources()
        .into_iter()
        .filter(|(name, text)| {
            !name.starts_with("integration-tests/properties/")
                && own.iter().any(|word| text.contains(word))
        })
        .map(|(name, _)| name)
        .collect();
    assert!(
        users.is_empty(),
        "use `properties!` or `check` of integration-tests-properties: {users:#?}"
    );
}

#[test]
fn unsafe_code_lives_in_one_place() {
    let key = concat!("unsafe", "_code");
    let places: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| text.contains(key))
        .map(|(name, _)| name)
        .collect();
    let audited: Vec<&String> = places
        .iter()
        .filter(|name| !name.ends_with("tests/tidy.rs"))
        .collect();
    assert_eq!(
        audited,
        ["worker/src/process/spawn.rs"],
        "unsafe code is allowed in one audited file"
    );
}

#[test]
fn lib_roots_of_pure_crates_deny_hash_order() {
    for krate in [
        "common",
        "common/config",
        "scheduler/engine",
        "scheduler/core",
        "scheduler/slots",
        "scheduler/artifacts",
        "worker/core",
        "worker/fetch",
        "worker/gather",
        "integration-tests/sim",
    ] {
        let text = fs::read_to_string(root().join(krate).join("src/lib.rs"))
            .expect("a crate has a lib.rs");
        assert!(
            text.contains("#![deny(clippy::iter_over_hash_type)]"),
            "{krate} may iterate in hash order"
        );
    }
}

/// A reader should finish the entry pages before they get tired.
#[test]
fn the_entry_pages_are_short() {
    for (page, most_kib) in [("README.md", 8), ("ARCHITECTURE.md", 10)] {
        let bytes = fs::metadata(root().join(page))
            .expect("the page exists")
            .len();
        assert!(
            bytes <= most_kib * 1024,
            "{page} has {bytes} bytes; {most_kib} KiB are enough"
        );
    }
}

/// The permitted dependencies between crates: docs/src/design/crates.md.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("common", &[]),
    ("common/config", &["common"]),
    ("common/runtime", &["common"]),
    ("common/artifacts", &["common", "common-runtime"]),
    ("common/identity", &["common", "common-runtime"]),
    ("thrift", &["common", "common-runtime"]),
    ("scheduler/engine", &["common", "common-config"]),
    (
        "scheduler/core",
        &[
            "common",
            "common-config",
            "scheduler-engine",
            "scheduler-artifacts",
            "scheduler-slots",
        ],
    ),
    ("scheduler/slots", &["common"]),
    ("scheduler/artifacts", &["common"]),
    ("worker/fetch", &["common"]),
    ("worker/gather", &["common"]),
    ("worker/core", &["common", "worker-fetch"]),
    ("integration-tests/properties", &[]),
    (
        "integration-tests/sim",
        &[
            "common",
            "common-config",
            "scheduler-engine",
            "scheduler-core",
            "worker-core",
            "worker-gather",
        ],
    ),
    ("integration-tests/emulator", &["common", "worker-fetch"]),
    (
        "scheduler",
        &[
            "common",
            "common-config",
            "common-identity",
            "common-runtime",
            "thrift",
            "common-artifacts",
            "scheduler-engine",
            "scheduler-core",
        ],
    ),
    (
        "worker",
        &[
            "common",
            "common-identity",
            "common-runtime",
            "thrift",
            "worker-core",
            "common-artifacts",
            "worker-gather",
        ],
    ),
    (
        "cli",
        &[
            "common",
            "common-config",
            "common-identity",
            "common-runtime",
            "thrift",
            "scheduler",
            "worker",
        ],
    ),
];

#[test]
fn crates_know_only_whom_they_may() {
    for (krate, allowed) in MAY_KNOW {
        let manifest = fs::read_to_string(root().join(krate).join("Cargo.toml"))
            .expect("a crate has a manifest");
        let dependencies = manifest
            .split("[dev-dependencies]")
            .next()
            .expect("a split has a first part");
        let known: BTreeSet<&str> = dependencies
            .lines()
            .filter_map(|line| line.strip_prefix("brasserie-"))
            .filter_map(|rest| rest.split(['.', ' ', '=']).next())
            .collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        let excess: Vec<&&str> = known.difference(&allowed).collect();
        assert!(excess.is_empty(), "{krate} may not know {excess:?}");
    }
}

/// A package with other features in a build of the whole workspace is compiled twice: for the workspace, and for `cargo run`, which builds
/// the command line alone.
#[test]
fn the_command_line_uses_what_a_build_of_the_workspace_has_built() {
    let packages = |selection: &[&str]| -> BTreeSet<String> {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--locked", "--edges", "normal,build"])
            .args(["--prefix", "none", "--no-dedupe", "--format", "{p} {f}"])
            .args(selection)
            .current_dir(root())
            .output()
            .expect("cargo starts");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).expect("cargo writes UTF-8");
        text.lines().map(str::to_owned).collect()
    };
    let (all, one) = (packages(&["--workspace"]), packages(&["-p", "brasserie"]));
    assert!(one.len() > 50, "{one:?}");
    let other: Vec<&String> = one.difference(&all).collect();
    assert!(
        other.is_empty(),
        "a build of the workspace has other features of these packages; give them in the workspace's Cargo.toml: {other:#?}"
    );
}

/// Injected bugs need a feature that only the simulator's own crates pass on, so no program has them.
#[test]
fn no_program_enables_sabotage() {
    let allowed = BTreeMap::from([
        ("common/Cargo.toml", "sabotage = []"),
        (
            "integration-tests/Cargo.toml",
            "sabotage = [\"integration-tests-sim/sabotage\"]",
        ),
        (
            "integration-tests/sim/Cargo.toml",
            "sabotage = [\"brasserie-common/sabotage\"]",
        ),
    ]);
    let listed = Command::new("git")
        .args(["ls-files", "*Cargo.toml"])
        .current_dir(root())
        .output()
        .expect("git lists the manifests");
    let manifests = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    assert!(manifests.lines().count() > 10, "{manifests}");
    for manifest in manifests.lines() {
        let text = fs::read_to_string(root().join(manifest)).expect("a manifest is readable");
        let named: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with('#') && line.contains("sabotage"))
            .collect();
        let expected: Vec<&str> = allowed.get(manifest).copied().into_iter().collect();
        assert_eq!(named, expected, "{manifest}");
    }
}

/// Each injected bug has a site, and each site names a listed bug.
#[test]
fn each_sabotage_has_a_site() {
    let sources = sources();
    let list = "common/src/sabotage.rs";
    let (_, text) = sources
        .iter()
        .find(|(name, _)| name == list)
        .expect("the list of known bugs");
    let known: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("        Sabotage::")?.strip_suffix(','))
        .collect();
    assert!(known.len() > 20, "{known:?}");
    let mut sited = BTreeSet::new();
    for (name, text) in sources.iter().filter(|(name, _)| name != list) {
        let ours = concat!("sabotage::", "on(Sabotage::");
        for rest in text.split(ours).skip(1) {
            let bug = rest.split(')').next().unwrap_or_default();
            assert!(known.contains(bug), "{name}: {bug}");
            sited.insert(bug);
        }
    }
    assert_eq!(sited, known);
}

#[test]
fn top_level_is_as_designed() {
    let expected: BTreeSet<&str> = BTreeSet::from([
        "ARCHITECTURE.md",
        "BENCHMARKS.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "Cargo.lock",
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "cli",
        "clippy.toml",
        "common",
        "deny.toml",
        "docs",
        "examples",
        "integration-tests",
        "scheduler",
        "thrift",
        "worker",
    ]);
    let found: BTreeSet<String> = fs::read_dir(root())
        .expect("the root is readable")
        .map(|entry| {
            entry
                .expect("an entry is readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| !name.starts_with('.') && name != "target")
        .collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    assert_eq!(found, expected);
}

/// Each ban of a pure crate's `clippy.toml`, with a line that must trigger it.
const TRIPS: &[(&str, &str)] = &[
    (
        "std::time::Instant",
        "pub fn instant(_: std::time::Instant) {}",
    ),
    (
        "std::time::SystemTime",
        "pub fn system_time(_: std::time::SystemTime) {}",
    ),
    (
        "std::collections::HashMap",
        "pub fn map(_: std::collections::HashMap<u8, u8>) {}",
    ),
    (
        "std::collections::HashSet",
        "pub fn set(_: std::collections::HashSet<u8>) {}",
    ),
    (
        "std::hash::RandomState",
        "pub fn state(_: std::hash::RandomState) {}",
    ),
    (
        "std::thread::JoinHandle",
        "pub fn handle(_: std::thread::JoinHandle<()>) {}",
    ),
    ("std::fs::File", "pub fn file(_: std::fs::File) {}"),
    (
        "std::net::TcpStream",
        "pub fn stream(_: std::net::TcpStream) {}",
    ),
    (
        "std::net::TcpListener",
        "pub fn listener(_: std::net::TcpListener) {}",
    ),
    (
        "std::net::UdpSocket",
        "pub fn socket(_: std::net::UdpSocket) {}",
    ),
    (
        "std::process::Command",
        "pub fn command(_: std::process::Command) {}",
    ),
    (
        "std::time::Instant::now",
        "pub fn instant_now() { let _ = std::time::Instant::now(); }",
    ),
    (
        "std::time::SystemTime::now",
        "pub fn system_now() { let _ = std::time::SystemTime::now(); }",
    ),
    (
        "std::thread::spawn",
        "pub fn spawn() { let _ = std::thread::spawn(|| ()); }",
    ),
    (
        "std::thread::sleep",
        "pub fn sleep() { std::thread::sleep(std::time::Duration::ZERO); }",
    ),
    (
        "std::env::var",
        "pub fn var() { let _ = std::env::var(\"X\"); }",
    ),
    (
        "std::env::vars",
        "pub fn vars() { let _ = std::env::vars(); }",
    ),
    (
        "std::env::args",
        "pub fn args() { let _ = std::env::args(); }",
    ),
    (
        "std::env::current_dir",
        "pub fn current_dir() { let _ = std::env::current_dir(); }",
    ),
    (
        "std::fs::read",
        "pub fn read() { let _ = std::fs::read(\"x\"); }",
    ),
    (
        "std::fs::read_to_string",
        "pub fn read_text() { let _ = std::fs::read_to_string(\"x\"); }",
    ),
    (
        "std::fs::write",
        "pub fn write() { let _ = std::fs::write(\"x\", \"y\"); }",
    ),
    (
        "std::fs::read_dir",
        "pub fn read_dir() { let _ = std::fs::read_dir(\"x\"); }",
    ),
    (
        "std::process::exit",
        "pub fn exit() { std::process::exit(1) }",
    ),
    (
        "jiff::Timestamp::now",
        "pub fn timestamp_now() { let _ = jiff::Timestamp::now(); }",
    ),
    (
        "jiff::Zoned::now",
        "pub fn zoned_now() { let _ = jiff::Zoned::now(); }",
    ),
    (
        "jiff::tz::TimeZone::system",
        "pub fn zone() { let _ = jiff::tz::TimeZone::system(); }",
    ),
    (
        "jiff::tz::TimeZone::try_system",
        "pub fn try_zone() { let _ = jiff::tz::TimeZone::try_system(); }",
    ),
    (
        "jiff::tz::TimeZone::get",
        "pub fn get_zone() { let _ = jiff::tz::TimeZone::get(\"UTC\"); }",
    ),
    ("jiff::tz::db", "pub fn zones() { let _ = jiff::tz::db(); }"),
    (
        "jiff::tz::TimeZoneDatabase::from_env",
        "pub fn zones_of_env() { let _ = jiff::tz::TimeZoneDatabase::from_env(); }",
    ),
    (
        "jiff::tz::TimeZoneDatabase::from_dir",
        "pub fn zones_of_dir() { let _ = jiff::tz::TimeZoneDatabase::from_dir(\"x\"); }",
    ),
    (
        "jiff::tz::TimeZoneDatabase::from_concatenated_path",
        "pub fn zones_of_file() { let _ = jiff::tz::TimeZoneDatabase::from_concatenated_path(\"x\"); }",
    ),
    (
        "jiff::Timestamp::in_tz",
        "pub fn timestamp_in(t: jiff::Timestamp) { let _ = t.in_tz(\"UTC\"); }",
    ),
    (
        "jiff::Zoned::in_tz",
        "pub fn zoned_in(t: jiff::Zoned) { let _ = t.in_tz(\"UTC\"); }",
    ),
    (
        "jiff::civil::Date::in_tz",
        "pub fn date_in(t: jiff::civil::Date) { let _ = t.in_tz(\"UTC\"); }",
    ),
    (
        "jiff::civil::DateTime::in_tz",
        "pub fn time_in(t: jiff::civil::DateTime) { let _ = t.in_tz(\"UTC\"); }",
    ),
];

/// Runs the real lint on a probe crate with the configuration of a pure crate. This finds bans that Clippy does not understand, or that
/// were removed.
#[test]
fn each_purity_ban_fires() {
    let config =
        fs::read_to_string(root().join("common/clippy.toml")).expect("common has a clippy.toml");
    for krate in [
        "scheduler/engine",
        "scheduler/core",
        "scheduler/slots",
        "scheduler/artifacts",
        "worker/core",
        "worker/fetch",
        "worker/gather",
        "integration-tests/sim",
    ] {
        let theirs = fs::read_to_string(root().join(krate).join("clippy.toml"))
            .expect("a pure crate has a clippy.toml");
        assert_eq!(config, theirs, "{krate} has other bans than common");
    }
    let banned: BTreeSet<&str> = config
        .lines()
        .filter_map(|line| line.split("path = \"").nth(1)?.split('"').next())
        .collect();
    let tripped: BTreeSet<&str> = TRIPS.iter().map(|(path, _)| *path).collect();
    assert_eq!(banned, tripped, "each ban has a line that trips it");

    let probe = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(probe.path().join("src")).expect("a folder in it");
    fs::write(probe.path().join("clippy.toml"), &config).expect("a file in it");
    let manifest = "[package]\nname = \"purity-probe\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n\
        [dependencies]\njiff = { version = \"0.2\", default-features = false, features = [\"std\", \"tzdb-bundle-always\"] }\n";
    fs::write(probe.path().join("Cargo.toml"), manifest).expect("a file in it");
    // The same versions are already downloaded.
    fs::copy(root().join("Cargo.lock"), probe.path().join("Cargo.lock")).expect("a file in it");
    let mut lib = String::from("#![deny(clippy::iter_over_hash_type)]\n");
    for (_, line) in TRIPS {
        lib.push_str(line);
        lib.push('\n');
    }
    let hash_order = TRIPS.len() + 2;
    lib.push_str("pub fn order(s: &std::collections::HashSet<u8>) -> u32 { let mut n = 0; for x in s { n += u32::from(*x); } n }\n");
    fs::write(probe.path().join("src/lib.rs"), lib).expect("a file in it");

    let output = Command::new("cargo")
        .args(["clippy", "--offline", "--quiet", "--message-format=short"])
        .current_dir(probe.path())
        .env("CARGO_TARGET_DIR", probe.path().join("target"))
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo clippy runs");
    let text = String::from_utf8_lossy(&output.stderr);
    for (number, (path, line)) in TRIPS.iter().enumerate() {
        let place = format!("src/lib.rs:{}:", number + 2);
        let fired = text.lines().any(|l| {
            l.starts_with(&place) && l.contains("disallowed") && l.contains(&format!("`{path}`"))
        });
        assert!(
            fired,
            "the ban of {path} does not fire on `{line}`; Clippy said:\n{text}"
        );
    }
    let place = format!("src/lib.rs:{hash_order}:");
    assert!(
        text.lines()
            .any(|l| l.starts_with(&place) && l.contains("iteration over")),
        "hash order is not denied:\n{text}"
    );
}

#[test]
fn generated_code_is_what_the_idl_generates() {
    let output = Command::new(root().join("thrift/regenerate"))
        .arg("--check")
        .output()
        .expect("thrift/regenerate runs");
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        output.status.success(),
        "run thrift/regenerate and commit what it writes:\n{said}"
    );
}

/// Returns every Markdown file of the repository with its path from the root.
fn pages() -> BTreeMap<PathBuf, String> {
    let mut files = Vec::new();
    collect(&root(), ".md", &mut files);
    let relative = |path: &PathBuf| {
        path.strip_prefix(root())
            .expect("below the root")
            .to_owned()
    };
    let text = |path: &PathBuf| fs::read_to_string(path).expect("a page is UTF-8");
    files
        .iter()
        .map(|path| (relative(path), text(path)))
        .collect()
}

/// Returns the lines of a page outside of code blocks, with the files that it includes.
fn prose(pages: &BTreeMap<PathBuf, String>, page: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut in_code = false;
    for line in pages[page].lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        } else if let Some(file) = line.strip_prefix("{{#include ") {
            let file = file.trim_end_matches("}}");
            lines.extend(prose(pages, &beside(page, file)));
        } else if !in_code {
            lines.push(line.to_owned());
        }
    }
    lines
}

/// Resolves a path that is relative to a page, without a look at the disk.
fn beside(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => assert!(path.pop(), "{target} leaves the repository"),
            part => path.push(part),
        }
    }
    path
}

/// Returns the names under which links reach the headings of a page, by the rules of mdBook and of code hosts.
fn anchors(lines: &[String]) -> BTreeSet<String> {
    let heading = |line: &String| {
        let text = line
            .strip_prefix('#')?
            .trim_start_matches('#')
            .strip_prefix(' ')?;
        let kept = text.trim().to_lowercase();
        let kept = kept
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        Some(kept.map(|c| if c == ' ' { '-' } else { c }).collect())
    };
    let explicit =
        |line: &String| Some(line.split_once("<a id=\"")?.1.split_once('"')?.0.to_owned());
    let all = |line| [heading(line), explicit(line)].into_iter().flatten();
    lines.iter().flat_map(all).collect()
}

/// Returns the targets of the links of a line. Text between backquotes has none.
fn targets(line: &str) -> Vec<String> {
    let outside: Vec<&str> = line.split('`').step_by(2).collect();
    let line = outside.join("code");
    let mut rest = line.split("](").skip(1);
    let target = |part: &str| part.split_once(')').map(|(target, _)| target.to_owned());
    std::iter::from_fn(|| rest.next())
        .filter_map(target)
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let mut broken = Vec::new();
    for page in pages.keys() {
        let lines = prose(&pages, page);
        let is_web = |target: &String| target.contains("://");
        for target in lines
            .iter()
            .flat_map(|line| targets(line))
            .filter(|target| !is_web(target))
        {
            let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = match file {
                "" => page.clone(),
                file => beside(page, file),
            };
            let in_book = !page.starts_with("docs/src") || path.starts_with("docs/src");
            let exists = pages.contains_key(&path) || root().join(&path).exists();
            let has_anchor = anchor.is_empty()
                || pages.contains_key(&path) && anchors(&prose(&pages, &path)).contains(anchor);
            if !(in_book && exists && has_anchor) {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(
        pages.len() > 20,
        "the walk found only {} pages",
        pages.len()
    );
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn the_summary_of_the_book_lists_every_page() {
    let pages = pages();
    let summary = Path::new("docs/src/SUMMARY.md");
    let lines = prose(&pages, summary);
    let listed = lines.iter().flat_map(|line| targets(line));
    let mut listed: BTreeSet<PathBuf> = listed.map(|target| beside(summary, &target)).collect();
    listed.insert(summary.to_owned());
    let in_book = pages.keys().filter(|page| page.starts_with("docs/src"));
    let all: BTreeSet<PathBuf> = in_book.cloned().collect();
    assert_eq!(listed, all);
}

/// Words with which no paragraph of a comment begins: the reader must know its subject first.
const NO_SUBJECT: &[&str] = &[
    "who",
    "whom",
    "whose",
    "whoever",
    "what",
    "whatever",
    "which",
    "whichever",
    "of",
    "in",
    "on",
    "at",
    "by",
    "for",
    "from",
    "to",
    "with",
    "without",
    "under",
    "beside",
    "besides",
    "between",
    "within",
    "after",
    "before",
    "until",
    "since",
    "among",
    "through",
    "throughout",
    "beyond",
    "below",
    "above",
    "near",
    "per",
    "into",
    "over",
    "against",
    "during",
    "as",
    "like",
    "unlike",
    "behind",
    "across",
    "along",
    "around",
    "despite",
    "except",
    "inside",
    "outside",
    "past",
    "toward",
    "towards",
    "upon",
    "via",
];

/// Returns the first lines of the paragraphs of comments, without code blocks, each with its line number.
fn comment_paragraphs(text: &str) -> Vec<(usize, &str)> {
    let mut paragraphs = Vec::new();
    let (mut in_paragraph, mut in_code) = (false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let comment = line.trim_start().strip_prefix("//");
        let Some(comment) = comment.map(|text| text.trim_start_matches(['/', '!']).trim()) else {
            (in_paragraph, in_code) = (false, false);
            continue;
        };
        let is_item = comment.starts_with("* ") || comment.starts_with("- ");
        if comment.starts_with("```") {
            in_code = !in_code;
        } else if !in_code && !comment.is_empty() && (!in_paragraph || is_item) {
            paragraphs.push((number, comment.trim_start_matches(['*', '-', ' '])));
        }
        in_paragraph = !comment.is_empty();
    }
    paragraphs
}

#[test]
fn comments_begin_with_their_subject() {
    let mut found = Vec::new();
    for (name, text) in sources() {
        for (number, paragraph) in comment_paragraphs(&text) {
            let end = paragraph.find(|c: char| !c.is_alphabetic());
            let word = &paragraph[..end.unwrap_or(paragraph.len())];
            if NO_SUBJECT.contains(&word.to_lowercase().as_str()) {
                found.push(format!("{name}:{number}: {paragraph}"));
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}
