//! Tests of folders as artifacts: their archives, and what a task gets from these.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use brasserie_common::ArtifactForm;
use brasserie_common_artifacts::{FolderLimits, StoreOptions, TakeInError, local_artifact};
use proptest::prelude::*;

use crate::bench::{Bench, mode_of, paths_below, set_mode};

fn bench() -> (tempfile::TempDir, Bench) {
    let disk = tempfile::tempdir().expect("a folder");
    let bench = Bench::on(&[disk.path()]);
    (disk, bench)
}

/// The content of a folder: for each path the bytes of a file and whether its owner may execute it; none for a folder.
type Tree = BTreeMap<PathBuf, Option<(Vec<u8>, bool)>>;

fn tree_of(folder: &Path) -> Tree {
    let paths = paths_below(folder);
    let entries = paths.into_iter().map(|path| {
        let file = path.is_file().then(|| {
            let content = fs::read(&path).expect("a file");
            (content, mode_of(&path) & 0o100 != 0)
        });
        (
            path.strip_prefix(folder).expect("below it").to_owned(),
            file,
        )
    });
    entries.collect()
}

fn build(folder: &Path, tree: &Tree) {
    fs::create_dir_all(folder).expect("a folder");
    for (path, file) in tree {
        let path = folder.join(path);
        match file {
            None => fs::create_dir_all(&path).expect("a folder"),
            Some((content, executable)) => {
                fs::create_dir_all(path.parent().expect("below it")).expect("a folder");
                fs::write(&path, content).expect("written");
                set_mode(&path, if *executable { 0o711 } else { 0o640 });
            }
        }
    }
}

/// The SHA-256 that this folder has in every store and in every release.
#[test]
fn a_folder_has_the_same_name_everywhere() {
    let (_disk, bench) = bench();
    set_mode(&bench.write("out/bin/run", "#!/bin/sh\n"), 0o755);
    set_mode(&bench.write("out/bin.txt", "b"), 0o600);
    bench.write(&format!("out/{}/deep", "long".repeat(40)), "");
    fs::create_dir(bench.task.path().join("out/empty")).expect("a folder");
    let artifact = bench.take("out/").expect("a folder");
    assert_eq!(artifact.form, ArtifactForm::Folder);
    assert_eq!(
        artifact.id.to_string(),
        "f81633c1a463005e9f55e3846bdde2bc176e75baaac9e8b285a2cfe706cf29db"
    );
    let out = bench.task.path().join("out");
    assert_eq!(local_artifact(&out).expect("a folder"), artifact);
    let file = bench.take("out/bin/run").expect("a file");
    let path = out.join("bin/run");
    assert_eq!(local_artifact(&path).expect("a file"), file);
    symlink("bin.txt", out.join("link")).expect("a link");
    let refused = local_artifact(&out).expect_err("a link").to_string();
    assert!(refused.contains("link"), "{refused}");
    fs::remove_file(out.join("link")).expect("ours");
    // GNU tar with the same settings orders files in the same way, and unpacks them.
    let bytes = fs::read(bench.file_of(artifact.id)).expect("ours");
    let mut archive = tar::Archive::new(bytes.as_slice());
    let unpacked = tempfile::tempdir().expect("a folder");
    archive.unpack(unpacked.path()).expect("an archive");
    assert_eq!(
        tree_of(unpacked.path()),
        tree_of(&bench.task.path().join("out"))
    );
}

#[test]
fn an_empty_folder_and_ten_thousand_files_are_folders() {
    let (_disk, bench) = bench();
    fs::create_dir(bench.task.path().join("empty")).expect("a folder");
    let empty = bench.take("empty/").expect("a folder");
    assert_eq!(empty.size, 1024);
    let staged = bench.stage(&empty, "empty").expect("staged");
    assert_eq!(mode_of(&staged), 0o755);
    for number in 0..10_000 {
        bench.write(&format!("many/{}/{number}", number % 7), number.to_string());
    }
    let many = bench.take("many/").expect("a folder");
    assert_eq!(many.size, 10_007 * 512 + 10_000 * 512 + 1024);
    let staged = bench.stage(&many, "many").expect("staged");
    assert_eq!(tree_of(&staged), tree_of(&bench.task.path().join("many")));
    bench.assert_consistent();
}

#[test]
fn folders_beyond_the_limits_are_refused() {
    let disk = tempfile::tempdir().expect("a folder");
    let base = Bench::on(&[disk.path()]).options.clone();
    let bench = Bench::with(StoreOptions {
        folder_limits: FolderLimits {
            entries: 5,
            depth: 3,
            path_bytes: 20,
        },
        ..base
    });
    bench.write("fits/a/b/c", "");
    bench.write("fits/d", "");
    bench.write("fits/e", "");
    bench.take("fits/").expect("within the limits");
    bench.write("many/a/b", "");
    for name in ["c", "d", "e", "f"] {
        bench.write(&format!("many/{name}"), "");
    }
    bench.write("deep/a/b/c/d", "");
    bench.write("long/12345678901234567890x", "");
    for (output, path, text) in [
        ("many/", "many/a", "more than 5 files"),
        ("deep/", "deep/a/b/c/d", "more than 3 names"),
        (
            "long/",
            "long/12345678901234567890x",
            "longer than 20 bytes",
        ),
    ] {
        let error = bench.take(output).expect_err("beyond the limits");
        let TakeInError::Output { path: refused, why } = &error else {
            panic!("{error}");
        };
        assert_eq!(refused, Path::new(path));
        assert!(why.to_string().contains(text), "{why}");
    }
    bench.assert_consistent();
}

#[test]
fn a_damaged_folder_is_lost_and_nothing_of_it_is_left() {
    let (_disk, bench) = bench();
    bench.write("out/a/b", vec![1; 100_000]);
    let artifact = bench.take("out/").expect("a folder");
    let file = bench.file_of(artifact.id);
    let whole = fs::read(&file).expect("ours");
    for at in [0, 200, 1500, whole.len() - 1] {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        set_mode(&file, 0o600);
        fs::write(&file, damaged).expect("ours");
        let error = bench.stage(&artifact, "input").expect_err("damaged");
        assert!(error.to_string().contains("another SHA-256"), "{error}");
        assert_eq!(paths_below(bench.inputs.path()).len(), 0);
        bench.receive(&whole).expect("fetched again");
    }
    bench.stage(&artifact, "input").expect("whole");
    assert_eq!(bench.store.drain_lost(&bench.namespace).len(), 4);
    bench.assert_consistent();
}

/// Random names with bytes that are no UTF-8, that end lines, and that sort around `/`.
fn any_name() -> impl Strategy<Value = OsString> {
    let byte = prop_oneof![
        Just(b'a'),
        Just(b'.'),
        Just(b'-'),
        Just(b'0'),
        Just(b'\n'),
        Just(0xff),
        Just(b' ')
    ];
    let short = proptest::collection::vec(byte, 1..4);
    let long = (100..255_usize).prop_map(|length| vec![b'n'; length]);
    let bytes = prop_oneof![9 => short, 1 => long];
    let names = bytes.prop_filter("no name", |name| name != b"." && name != b"..");
    names.prop_map(OsString::from_vec)
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let path = proptest::collection::vec(any_name(), 1..5);
    let content = proptest::collection::vec(any::<u8>(), 0..1500);
    let file = proptest::option::weighted(0.8, (content, any::<bool>()));
    proptest::collection::vec((path, file), 0..12).prop_map(|entries| {
        let mut tree = Tree::new();
        for (names, file) in entries {
            let path: PathBuf = names.iter().collect();
            let is_free = |(known, file): (&PathBuf, &Option<_>)| {
                !(known.starts_with(&path) || path.starts_with(known) && file.is_some())
            };
            if tree.iter().all(is_free) {
                tree.insert(path, file);
            }
        }
        tree
    })
}

integration_tests_properties::properties! {
    40;

    #[test]
    fn any_folder_comes_back_as_it_was(tree in any_tree()) {
        let (_disk, bench) = bench();
        let source = bench.task.path().join("out");
        build(&source, &tree);
        let artifact = bench.take("out/").expect("a folder");
        let staged = bench.stage(&artifact, "in").expect("staged");
        let (before, after) = (tree_of(&source), tree_of(&staged));
        prop_assert_eq!(&before, &after);
        // The same files in another folder are the same artifact.
        build(&bench.task.path().join("copy"), &before);
        prop_assert_eq!(bench.take("copy/").expect("a folder"), artifact);
        let bytes = fs::read(bench.file_of(artifact.id)).expect("ours");
        let mut archive = tar::Archive::new(bytes.as_slice());
        let mut paths: Vec<Vec<u8>> = Vec::new();
        for entry in archive.entries().expect("an archive") {
            let entry = entry.expect("an entry");
            let path = entry.path_bytes();
            paths.push(path.strip_suffix(b"/").unwrap_or(&path).to_vec());
        }
        paths.sort();
        let mut expected: Vec<Vec<u8>> = before.keys().map(|path| path.as_os_str().as_bytes().to_vec()).collect();
        expected.sort();
        prop_assert_eq!(paths, expected);
    }
}
