//! Tests of the opening of disks, and of several disks in one store.

use std::fs;
use std::os::unix::fs::symlink;

use brasserie_common::ArtifactNamespace;
use brasserie_common_artifacts::{
    ArtifactStore, DiskMistake, FoundCondition, OpenFinding, StoreOptions,
};

use crate::bench::{Bench, is_root, mode_of, set_mode};

fn bench() -> (tempfile::TempDir, Bench) {
    let disk = tempfile::tempdir().expect("a folder");
    let bench = Bench::on(&[disk.path()]);
    (disk, bench)
}

#[test]
fn a_reopened_store_has_the_same_artifacts() {
    let (disk, bench) = bench();
    for number in 0..50_u32 {
        bench.add(&number.to_be_bytes());
    }
    let deleted = bench.add(b"deleted");
    bench.store.delete(&bench.namespace, [deleted.id]);
    let namespace = bench.namespace.clone();
    let other = ArtifactNamespace::try_from("other").expect("a name");
    let state = |store: &ArtifactStore| {
        let used = store.usage()[0].used;
        (
            store.holdings(&namespace),
            store.contents(&namespace),
            store.contents(&other),
            used,
        )
    };
    let before = state(&bench.store);
    assert_eq!(before.0.len(), 50);
    // A worker was killed between the write of a file and its rename.
    let leave = || {
        fs::write(disk.path().join("incoming/7"), "partial").expect("ours");
        fs::write(disk.path().join("incoming/8"), "").expect("ours");
    };
    let (bench, findings) = bench.reopen_after(leave);
    assert!(
        matches!(findings[..], [OpenFinding::PartialFiles { count: 2, .. }]),
        "{findings:?}"
    );
    assert_eq!(state(&bench.store), before);
    assert_eq!(
        bench.store.namespaces().as_slice(),
        std::slice::from_ref(&namespace)
    );
    bench.assert_consistent();
}

#[test]
fn a_disk_that_starts_empty_has_a_new_generation() {
    let (disk, bench) = bench();
    let generation = |bench: &Bench| bench.store.usage()[0].generation.expect("an open disk");
    let first = generation(&bench);
    let artifact = bench.add(b"x");
    let (bench, findings) = bench.reopen_after(|| {});
    assert!(findings.is_empty(), "{findings:?}");
    assert_eq!(generation(&bench), first);
    let (bench, findings) =
        bench.reopen_after(|| fs::remove_file(disk.path().join("generation")).expect("ours"));
    assert!(
        matches!(findings[..], [OpenFinding::NewGeneration { .. }]),
        "{findings:?}"
    );
    let second = generation(&bench);
    assert_ne!(second, first);
    let file = bench.file_of(artifact.id);
    let (bench, _) = bench.reopen_after(|| fs::remove_file(file).expect("ours"));
    let third = generation(&bench);
    assert!(third != first && third != second);
    bench.add(b"x");
    let (bench, _) = bench.reopen_after(|| {
        for name in ["generation", "lock", "incoming", "content"] {
            let path = disk.path().join(name);
            let removed = if path.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
            removed.expect("ours");
        }
    });
    assert!(![first, second, third].contains(&generation(&bench)));
    bench.assert_consistent();
}

#[test]
fn a_disk_has_one_store_at_a_time() {
    let (disk, bench) = bench();
    let second = ArtifactStore::open(&bench.options);
    let error = second.err().expect("it is in use");
    assert!(matches!(error, DiskMistake::InUse { .. }), "{error}");
    let text = error.to_string();
    assert!(
        text.contains(&disk.path().display().to_string()) && text.contains("--disk"),
        "{text}"
    );
    let (_, findings) = bench.reopen_after(|| {});
    assert!(
        matches!(findings[..], [OpenFinding::NewGeneration { .. }]),
        "{findings:?}"
    );
}

#[test]
fn folders_of_others_are_refused() {
    let (disk, bench) = bench();
    let open = |options: &StoreOptions| ArtifactStore::open(options).err().expect("refused");
    let Bench { store, options, .. } = bench;
    drop(store);
    set_mode(disk.path(), 0o770);
    let error = open(&options);
    assert!(
        matches!(error, DiskMistake::Writable { mode: 0o770, .. }),
        "{error}"
    );
    set_mode(disk.path(), 0o755);
    drop(ArtifactStore::open(&options).expect("private again"));
    fs::remove_file(disk.path().join("generation")).expect("ours");
    fs::write(disk.path().join("thesis.tex"), "").expect("written");
    let error = open(&options);
    assert!(
        matches!(&error, DiskMistake::Strange { entry, .. } if entry.as_os_str() == "thesis.tex"),
        "{error}"
    );
    fs::remove_file(disk.path().join("thesis.tex")).expect("ours");
    drop(ArtifactStore::open(&options).expect("a store without its generation"));
    // A folder that has the name of ours is not ours.
    fs::remove_file(disk.path().join("generation")).expect("ours");
    fs::remove_file(disk.path().join("lock")).expect("ours");
    fs::write(disk.path().join("incoming/letter"), "").expect("written");
    let error = open(&options);
    assert!(
        matches!(&error, DiskMistake::Strange { entry, .. } if entry.as_os_str() == "incoming"),
        "{error}"
    );
    assert!(disk.path().join("incoming/letter").exists());
    if is_root("a folder of another user") {
        nix::unistd::chown(disk.path(), Some(4711.into()), None).expect("root may");
        assert!(matches!(
            open(&options),
            DiskMistake::Foreign {
                owner: 4711,
                own: 0,
                ..
            }
        ));
    }
}

#[test]
fn entries_that_no_store_has_written_are_set_aside() {
    let (disk, bench) = bench();
    let artifact = bench.add(b"x");
    let hex = artifact.id.to_string();
    let content = disk.path().join("content");
    let (bench, findings) = bench.reopen_after(|| {
        let folder = content.join("one").join(&hex[..2]);
        fs::write(folder.join("notes.txt"), "precious").expect("ours");
        fs::write(folder.join(hex.to_uppercase()), "x").expect("ours");
        symlink("/etc/passwd", folder.join("0".repeat(64))).expect("ours");
        fs::create_dir(folder.join(format!("{}{}", &hex[..2], "1".repeat(62)))).expect("ours");
        fs::write(content.join("one/file"), "").expect("ours");
        fs::create_dir_all(content.join("one/zz")).expect("ours");
        fs::write(content.join("one/zz").join(&hex), "x").expect("ours");
        fs::create_dir(content.join("no namespace")).expect("ours");
    });
    let count = findings
        .iter()
        .filter(|finding| matches!(finding, OpenFinding::SetAside { .. }))
        .count();
    assert_eq!((count, findings.len()), (7, 7), "{findings:?}");
    assert_eq!(
        fs::read_dir(disk.path().join("set-aside"))
            .expect("a folder")
            .count(),
        7
    );
    assert_eq!(bench.store.holdings(&bench.namespace).len(), 1);
    assert_eq!(mode_of(&disk.path().join("set-aside")), 0o700);
    bench.assert_consistent();
}

#[test]
fn a_broken_disk_does_not_stop_the_others() {
    let (one, other) = (
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    );
    let broken = one.path().join("file");
    fs::write(&broken, "").expect("written");
    let bench = Bench::on(&[&broken, other.path()]);
    let usage = bench.store.usage();
    assert!(
        matches!(&usage[0].condition, FoundCondition::ReadError(why) if why.contains("cannot use")),
        "{usage:?}"
    );
    assert_eq!((usage[0].usable, usage[0].generation), (0, None));
    assert_eq!(usage[1].condition, FoundCondition::Healthy);
    bench.store.probe(usage[0].disk).expect_err("still broken");
    bench.store.probe(usage[1].disk).expect("it works");
    let artifact = bench.add(b"x");
    assert_eq!(bench.store.usage()[1].used, 1);
    bench.stage(&artifact, "x").expect("staged");
    drop(bench);
    let bench = Bench::on(&[&broken]);
    bench.write("x", "x");
    let error = bench.take("x").expect_err("no disk works");
    assert!(error.to_string().contains("no working disk"), "{error}");
}

#[test]
fn artifacts_go_to_the_disk_with_the_most_space_and_are_on_one_disk() {
    let folders = [
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    ];
    let mut options = Bench::on(&[folders[0].path(), folders[1].path()])
        .options
        .clone();
    options.disks[0].capacity = Some(100);
    options.disks[1].capacity = Some(150);
    let bench = Bench::with(options);
    let used = |bench: &Bench| {
        bench
            .store
            .usage()
            .iter()
            .map(|disk| disk.used)
            .collect::<Vec<_>>()
    };
    for (size, expected) in [
        (60, [0, 60]),
        (50, [50, 60]),
        (80, [50, 140]),
        (30, [80, 140]),
    ] {
        bench.add(&vec![size; usize::from(size)]);
        assert_eq!(used(&bench), expected);
    }
    let error = bench
        .receive(&[0; 30])
        .expect_err("the capacities are used");
    assert!(
        error
            .to_string()
            .contains("no space for 30 B: its disk with the most space has 20 B"),
        "{error}"
    );
    let digests = bench.store.contents(&bench.namespace);
    assert!(digests.len() == 2 && digests[0] != digests[1]);
    bench.assert_consistent();
    // A person has copied an artifact to the other disk.
    let hex = bench.store.holdings(&bench.namespace)[0].id.to_string();
    let place = |disk: usize| {
        folders[disk]
            .path()
            .join("content/one")
            .join(&hex[..2])
            .join(&hex)
    };
    let (bench, findings) = bench.reopen_after(|| {
        let (from, to) = if place(0).exists() {
            (place(0), place(1))
        } else {
            (place(1), place(0))
        };
        fs::create_dir_all(to.parent().expect("a folder")).expect("ours");
        fs::copy(from, to).expect("ours");
    });
    let duplicates = findings
        .iter()
        .filter(|finding| matches!(finding, OpenFinding::Duplicate { .. }));
    assert_eq!(duplicates.count(), 1);
    assert!(
        findings
            .iter()
            .any(|finding| matches!(finding, OpenFinding::SameFileSystem { .. }))
    );
    bench.assert_consistent();
}
