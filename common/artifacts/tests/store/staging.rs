//! Tests of the inputs of tasks.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, symlink};

use brasserie_common::{Artifact, ArtifactForm};
use brasserie_common_artifacts::{InputPlace, StageError, StopCheck, TaskUser};

use crate::bench::{Bench, file_artifact, is_root, mode_of, paths_below, set_mode};

fn bench() -> (tempfile::TempDir, Bench) {
    let disk = tempfile::tempdir().expect("a folder");
    let bench = Bench::on(&[disk.path()]);
    (disk, bench)
}

#[test]
fn a_task_cannot_change_the_store_through_its_input() {
    let (_disk, bench) = bench();
    let artifact = bench.add(b"content");
    let input = bench.stage(&artifact, "input").expect("staged");
    assert_eq!(mode_of(&input), 0o444);
    let (one, other) = (
        fs::metadata(&input),
        fs::metadata(bench.file_of(artifact.id)),
    );
    assert_ne!(one.expect("a file").ino(), other.expect("a file").ino());
    set_mode(&input, 0o644);
    fs::write(&input, "changed").expect("its own file");
    bench
        .store
        .check(&bench.namespace, artifact.id)
        .expect("unchanged");
    let run = Artifact {
        form: ArtifactForm::Executable,
        ..artifact
    };
    assert_eq!(mode_of(&bench.stage(&run, "run").expect("staged")), 0o555);
}

#[test]
fn a_place_that_is_taken_stays_as_it_is() {
    let (_disk, bench) = bench();
    let outside = tempfile::tempdir().expect("a folder");
    let target = outside.path().join("target");
    symlink(&target, bench.inputs.path().join("link")).expect("a link");
    fs::write(bench.inputs.path().join("file"), "mine").expect("written");
    bench.write("folder/x", "x");
    let folder = bench.take("folder/").expect("a folder");
    for artifact in [bench.add(b"content"), folder] {
        for name in ["link", "file"] {
            let error = bench.stage(&artifact, name).expect_err("it is taken");
            assert!(matches!(&error, StageError::Task { .. }), "{error}");
        }
        for name in ["", ".", "..", "a/b", "a\0"] {
            let error = bench.stage(&artifact, name).expect_err("no name");
            assert!(matches!(error, StageError::Name(_)), "{error}");
        }
    }
    assert!(!target.exists());
    assert_eq!(
        fs::read(bench.inputs.path().join("file")).expect("mine"),
        b"mine"
    );
    assert_eq!(paths_below(bench.inputs.path()).len(), 2);
}

#[test]
fn what_is_no_folder_stays_whole_and_is_not_unpacked() {
    let (_disk, bench) = bench();
    let file = bench.add(&[0; 4096]);
    let folder = Artifact {
        form: ArtifactForm::Folder,
        ..file
    };
    let error = bench.stage(&folder, "input").expect_err("no archive");
    assert!(matches!(error, StageError::NotFolder { .. }), "{error}");
    assert_eq!(paths_below(bench.inputs.path()).len(), 0);
    bench.stage(&file, "input").expect("it is whole");
    assert!(bench.store.drain_lost(&bench.namespace).is_empty());
}

/// Archives of another program are refused, and nothing of them is left: not even an entry before the hostile one.
#[test]
fn a_hostile_archive_writes_nothing_outside_its_folder() {
    let (_disk, bench) = bench();
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(4);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    archive
        .append_data(&mut header, "good", &b"good"[..])
        .expect("in memory");
    let mut hostile = header.clone();
    hostile.as_old_mut().name[..7].copy_from_slice(b"../evil");
    hostile.set_cksum();
    archive.append(&hostile, &b"evil"[..]).expect("in memory");
    let bytes = archive.into_inner().expect("in memory");
    bench.receive(&bytes).expect("any bytes are a file");
    let artifact = Artifact {
        form: ArtifactForm::Folder,
        ..file_artifact(&bytes)
    };
    let error = bench.stage(&artifact, "input").expect_err("hostile");
    assert!(matches!(error, StageError::NotFolder { .. }), "{error}");
    assert_eq!(paths_below(bench.inputs.path()).len(), 0);
}

#[test]
fn inputs_belong_to_the_user_of_the_task() {
    if !is_root("another owner") {
        return;
    }
    let (_disk, bench) = bench();
    bench.write("folder/sub/x", "x");
    let folder = bench.take("folder/").expect("a folder");
    let inputs = File::open(bench.inputs.path()).expect("it is there");
    for (artifact, name) in [(bench.add(b"content"), "file"), (folder, "folder")] {
        let place = InputPlace {
            folder: inputs.as_fd(),
            name: OsStr::new(name),
            owner: Some(TaskUser {
                uid: 4711,
                gid: 4712,
            }),
            stop: StopCheck::NEVER,
        };
        bench
            .store
            .stage(&bench.namespace, &artifact, &place)
            .expect("staged");
    }
    let paths = paths_below(bench.inputs.path());
    assert_eq!(paths.len(), 4);
    for path in paths {
        let metadata = fs::metadata(&path).expect("it exists");
        assert_eq!(
            (metadata.uid(), metadata.gid()),
            (4711, 4712),
            "{}",
            path.display()
        );
        let mode = if metadata.is_dir() { 0o755 } else { 0o444 };
        assert_eq!(mode_of(&path), mode);
    }
}
