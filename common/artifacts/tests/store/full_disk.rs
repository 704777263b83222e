//! Tests a disk that is really full: a small file system that only this test's threads see.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;

use brasserie_common::{Artifact, ArtifactForm};
use brasserie_common_artifacts::{
    FoundCondition, InputPlace, ReceiveError, StageError, StopCheck, TakeInError, WriteError,
};

use crate::bench::{Bench, Mounted, file_artifact, id_of, paths_below};

const DISK_BYTES: usize = 4 << 20;

/// Runs a test on a small disk, on a thread whose end unmounts the disk.
fn on_small_disk(options: &'static str, test: fn(&Path)) {
    let disk = tempfile::tempdir().expect("a folder");
    let thread = std::thread::spawn(move || {
        let options = format!("size={DISK_BYTES},mode=700{options}");
        match Mounted::new("tmpfs", disk.path(), "tmpfs", Some(&options)) {
            Ok(_mounted) => test(disk.path()),
            Err(error) => eprintln!(
                "unproven: a full disk cannot be made here, a mount of one's own is refused: {error}"
            ),
        }
    });
    thread.join().expect("the disk's part went well");
}

fn is_usable(bench: &Bench) {
    let artifact = bench.add(&[9; 100_000]);
    bench
        .store
        .check(&bench.namespace, artifact.id)
        .expect("it is whole");
    assert_eq!(bench.store.usage()[0].condition, FoundCondition::Healthy);
    bench.assert_consistent();
}

#[test]
fn a_disk_that_fills_up_during_a_transfer_fails_it_and_nothing_else() {
    on_small_disk("", |disk| {
        let bench = Bench::on(&[disk]);
        let content = vec![3; 3 << 20];
        let mut incoming = bench
            .store
            .receive(&bench.namespace, id_of(&content), 3 << 20)
            .expect("space");
        let filler = disk.join("filler");
        fs::write(&filler, vec![0; 2 << 20]).expect("there is space");
        let error = incoming.append(&content).expect_err("the disk is full");
        assert!(
            matches!(&error, ReceiveError::Store(WriteError::DiskFull { .. })),
            "{error}"
        );
        assert!(
            error.to_string().contains(&disk.display().to_string()),
            "{error}"
        );
        drop(incoming);
        bench.assert_consistent();
        fs::remove_file(filler).expect("removed");
        is_usable(&bench);
    });
}

#[test]
fn outputs_that_do_not_fit_are_refused() {
    on_small_disk("", |disk| {
        let bench = Bench::on(&[disk]);
        bench.write("large", vec![1; DISK_BYTES + 1]);
        bench.write("folder/a", vec![1; 100]);
        bench.write("folder/b", vec![1; DISK_BYTES - 1000]);
        for output in ["large", "folder/"] {
            let error = bench.take(output).expect_err("it does not fit");
            assert!(
                matches!(error, TakeInError::Store(WriteError::NoSpace { .. })),
                "{error}"
            );
            bench.assert_consistent();
        }
        // Another program uses the disk now: the store sees its free space with the next operation.
        let filler = disk.join("filler");
        fs::write(&filler, vec![0; DISK_BYTES - 8192]).expect("there is space");
        bench.write("small", vec![1; 100_000]);
        let error = bench.take("small").expect_err("it does not fit");
        assert!(
            matches!(error, TakeInError::Store(WriteError::NoSpace { .. })),
            "{error}"
        );
        fs::write(disk.join("rest"), vec![0; DISK_BYTES]).expect_err("it takes all the space");
        bench
            .store
            .probe(bench.store.usage()[0].disk)
            .expect("a full disk is no broken one");
        assert_eq!(bench.store.usage()[0].condition, FoundCondition::HighUsage);
        fs::remove_file(filler).expect("removed");
        bench
            .store
            .probe(bench.store.usage()[0].disk)
            .expect("it works");
        is_usable(&bench);
    });
}

#[test]
fn the_space_that_another_program_takes_and_frees_is_measured() {
    on_small_disk("", |disk| {
        let bench = Bench::on(&[disk]);
        let usable = || bench.store.usage()[0].usable;
        let empty = usable();
        let filler = disk.join("filler");
        fs::write(&filler, vec![0; 1 << 20]).expect("there is space");
        assert_eq!(usable(), empty, "nothing has looked");
        bench.store.measure_again();
        assert_eq!(usable(), empty - (1 << 20));
        assert_eq!(bench.store.usage()[0].condition, FoundCondition::Healthy);
        fs::remove_file(filler).expect("removed");
        bench.store.measure_again();
        assert_eq!(usable(), empty);
    });
}

#[test]
fn the_reserve_stays_free() {
    on_small_disk("", |disk| {
        let mut options = Bench::on(&[disk]).options.clone();
        options.reserve = 1 << 30;
        let bench = Bench::with(options);
        bench.write("large", vec![1; DISK_BYTES * 3 / 4 + 1]);
        bench.take("large").expect_err("it would use the reserve");
        is_usable(&bench);
    });
}

/// A file system without free inodes cannot make the folder of an artifact, after all of its bytes were written.
#[test]
fn a_disk_without_inodes_keeps_nothing() {
    on_small_disk(",nr_inodes=9", |disk| {
        let bench = Bench::on(&[disk]);
        let mut kept = Vec::new();
        let error = (0..9_u8).find_map(|number| {
            bench.write("x", [number]);
            match bench.take("x") {
                Ok(artifact) => kept.push(artifact.id),
                Err(error) => return Some(error),
            }
            None
        });
        let error = error.expect("the inodes do not suffice");
        assert!(
            matches!(error, TakeInError::Store(WriteError::DiskFull { .. })),
            "{error}"
        );
        bench.assert_consistent();
        assert!(!kept.is_empty());
        bench.store.delete(&bench.namespace, kept.iter().copied());
        bench.write("x", [0]);
        bench.take("x").expect("there is an inode again");
        bench.assert_consistent();
    });
}

#[test]
fn a_task_folder_that_is_full_gets_nothing_and_the_artifact_stays() {
    on_small_disk("", |task_disk| {
        let disk = tempfile::tempdir().expect("a folder");
        let mut bench = Bench::on(&[disk.path()]);
        bench.inputs = tempfile::tempdir_in(task_disk).expect("a folder");
        bench.write("folder/a", vec![1; 1 << 20]);
        bench.write("folder/b", vec![1; DISK_BYTES]);
        let folder = bench.take("folder/").expect("there is space");
        let content = vec![1; DISK_BYTES + 1];
        let file = bench.add(&content);
        assert_eq!(file, file_artifact(&content));
        let executable = Artifact {
            form: ArtifactForm::Executable,
            ..file
        };
        for artifact in [file, executable, folder] {
            let error = bench
                .stage(&artifact, "input")
                .expect_err("it does not fit");
            let StageError::Task { error, .. } = error else {
                panic!("{error}");
            };
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
            assert_eq!(paths_below(bench.inputs.path()).len(), 0);
        }
        assert!(bench.store.drain_lost(&bench.namespace).is_empty());
        is_usable(&bench);
    });
}

/// A thread that creates files of a folder fails: the copy has one error, and nothing is left.
#[test]
fn a_folder_of_more_files_than_the_place_may_have_leaves_nothing() {
    on_small_disk(",nr_inodes=200", |place| {
        let disk = tempfile::tempdir().expect("a folder");
        let bench = Bench::on(&[disk.path()]);
        for number in 0..300 {
            bench.write(&format!("folder/{number}"), vec![1; 4096]);
        }
        let artifact = bench.take("folder/").expect("a folder");
        let folder = File::open(place).expect("it is there");
        let input = InputPlace {
            folder: folder.as_fd(),
            name: OsStr::new("input"),
            owner: None,
            stop: StopCheck::NEVER,
        };
        let error = bench.store.stage(&bench.namespace, &artifact, &input);
        let error = error.expect_err("it has too many files");
        assert!(matches!(&error, StageError::Task { .. }), "{error}");
        assert!(error.to_string().contains("No space left"), "{error}");
        assert_eq!(paths_below(place).len(), 0);
    });
}
