//! Tests of artifacts that are received and served, and of lost ones.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;

use brasserie_common::ArtifactId;
use brasserie_common_artifacts::{
    ContentError, CopyLoss, Incoming, ReceiveError, StageError, TakeInError, WriteError,
};

use crate::bench::{Bench, file_artifact, id_of, set_mode};

fn bench() -> (tempfile::TempDir, Bench) {
    let disk = tempfile::tempdir().expect("a folder");
    let bench = Bench::on(&[disk.path()]);
    (disk, bench)
}

/// Some megabytes without a pattern of the chunks' length.
fn content() -> Vec<u8> {
    (0..2_500_000_u32)
        .flat_map(|at| [at as u8, (at >> 8) as u8])
        .collect()
}

#[test]
fn an_artifact_is_received_in_parts_and_served_in_others() {
    let (_disk, bench) = bench();
    let (content, size) = (content(), 5_000_000);
    let id = id_of(&content);
    let mut incoming = bench
        .store
        .receive(&bench.namespace, id, size)
        .expect("space");
    // The first connection breaks; the next one resumes.
    incoming
        .append(&content[..1_234_567])
        .expect("the first part");
    assert_eq!(incoming.received(), 1_234_567);
    assert!(matches!(
        bench.store.read(&bench.namespace, id),
        Err(ContentError::NotHeld { .. })
    ));
    for part in content[1_234_567..].chunks(300_001) {
        incoming.append(part).expect("the next part");
    }
    incoming.finish().expect("it is whole");
    let reader = bench.store.read(&bench.namespace, id).expect("it is held");
    assert_eq!(reader.size(), size);
    assert_eq!(
        reader.read_at(4_999_990, 100).expect("the end"),
        content[4_999_990..]
    );
    assert_eq!(reader.read_at(5_000_000, 1).expect("nothing"), b"");
    // Deletion during a transfer is harmless.
    assert!(bench.store.delete(&bench.namespace, [id, id]).is_empty());
    assert!(!bench.file_of(id).exists());
    assert_eq!(
        reader.read_at(0, 2_000_000).expect("the begin"),
        content[..2_000_000]
    );
    assert!(bench.store.drain_lost(&bench.namespace).is_empty());
    bench.assert_consistent();
}

#[test]
fn wrong_content_never_gets_in() {
    let (_disk, bench) = bench();
    let id = id_of(b"right");
    let receive = |parts: &[&[u8]]| {
        let mut incoming = bench.store.receive(&bench.namespace, id, 5)?;
        parts.iter().try_for_each(|part| incoming.append(part))?;
        incoming.finish()
    };
    let damaged = receive(&[b"wr", b"ong"]).expect_err("another content");
    assert!(matches!(damaged, ReceiveError::Damaged { found, .. } if found == id_of(b"wrong")));
    let short = receive(&[b"righ"]).expect_err("too short");
    assert!(
        matches!(short, ReceiveError::Incomplete { received: 4, .. }),
        "{short}"
    );
    let long = receive(&[b"right", b"x"]).expect_err("too long");
    assert!(matches!(long, ReceiveError::TooLong { .. }), "{long}");
    assert_eq!(bench.store.find(&bench.namespace, id), None);
    bench.assert_consistent();
    receive(&[b"right"]).expect("the right content");
    assert!(matches!(receive(&[b"right"]), Err(ReceiveError::Held(_))));
    bench.assert_consistent();
}

/// Each of many artifacts that are finished together has its own result.
#[test]
fn artifacts_that_are_finished_together_fail_alone() {
    let (_disk, bench) = bench();
    let contents: Vec<Vec<u8>> = (0..600_u32).map(|n| n.to_be_bytes().to_vec()).collect();
    let receive = |content: &[u8], bytes: &[u8]| {
        let size = content.len() as u64;
        let incoming = bench.store.receive(&bench.namespace, id_of(content), size);
        let mut incoming = incoming.expect("space");
        incoming.append(bytes).expect("it fits");
        incoming
    };
    let mut all: Vec<Incoming> = contents.iter().map(|one| receive(one, one)).collect();
    all.push(receive(b"right", b"wrong"));
    all.push(receive(b"whole", b"who"));
    // Another transfer of the first artifact.
    all.push(receive(&contents[0], &contents[0]));
    // This one has arrived on another way meanwhile.
    bench.receive(&contents[1]).expect("it is received");
    let results = Incoming::finish_all(all);
    let failed = results
        .iter()
        .filter_map(|(id, result)| Some((*id, result.as_ref().err()?)));
    let failed: BTreeMap<ArtifactId, &ReceiveError> = failed.collect();
    assert_eq!(failed.len(), 2, "{failed:?}");
    assert!(matches!(
        failed[&id_of(b"right")],
        ReceiveError::Damaged { .. }
    ));
    assert!(matches!(
        failed[&id_of(b"whole")],
        ReceiveError::Incomplete { received: 3, .. }
    ));
    assert_eq!(bench.store.usage()[0].used, 2400);
    bench.assert_consistent();
    let (bench, findings) = bench.reopen_after(|| {});
    assert!(findings.is_empty(), "{findings:?}");
    let check = |content: &Vec<u8>| bench.store.check(&bench.namespace, id_of(content));
    contents.iter().try_for_each(check).expect("all are whole");
}

/// Two transfers that finish the same artifacts in different orders do not wait for each other.
#[test]
fn overlapping_artifacts_are_finished_at_once() {
    let (_disk, bench) = bench();
    let contents: Vec<[u8; 4]> = (0..300_u32).map(u32::to_be_bytes).collect();
    let receive = |content: &[u8; 4]| {
        let incoming = bench.store.receive(&bench.namespace, id_of(content), 4);
        let mut incoming = incoming.expect("space");
        incoming.append(content).expect("it fits");
        incoming
    };
    let one: Vec<Incoming> = contents.iter().map(receive).collect();
    let other: Vec<Incoming> = contents.iter().rev().map(receive).collect();
    let results = thread::scope(|scope| {
        let both = [one, other].map(|all| scope.spawn(|| Incoming::finish_all(all)));
        let results = both.map(|one| one.join().expect("no panic"));
        results
            .into_iter()
            .flatten()
            .map(|(_, result)| result)
            .collect::<Vec<_>>()
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(bench.store.usage()[0].used, 1200);
    bench.assert_consistent();
}

#[test]
fn the_same_artifact_received_at_once_is_kept_once() {
    let (_disk, bench) = bench();
    let content = content();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| match bench.receive(&content) {
                Ok(()) | Err(ReceiveError::Held(_)) => {}
                Err(error) => panic!("{error}"),
            });
        }
    });
    assert_eq!(bench.store.holdings(&bench.namespace).len(), 1);
    bench.assert_consistent();
    let mut incoming = bench
        .store
        .receive(&bench.namespace, id_of(b"x"), 1)
        .expect("space");
    incoming.append(b"x").expect("space");
    bench.add(b"x");
    incoming.finish().expect("another way was faster");
    bench.assert_consistent();
}

/// Threads write, read and delete the same few artifacts, on two disks of which each is full with two of them.
#[test]
fn operations_on_the_same_artifacts_do_not_disturb_each_other() {
    let folders =
        [tempfile::tempdir(), tempfile::tempdir()].map(|folder| folder.expect("a folder"));
    let mut options = Bench::on(&[folders[0].path(), folders[1].path()])
        .options
        .clone();
    for disk in &mut options.disks {
        disk.capacity = Some(25_000);
    }
    let bench = Bench::with(options);
    let contents: Vec<Vec<u8>> = (1..=5).map(|byte| vec![byte; 10_000]).collect();
    for (number, content) in contents.iter().enumerate() {
        bench.write(&number.to_string(), content);
    }
    let work = |thread: usize| {
        for round in 0..300 {
            let number = (round * 7 + thread * 3) % contents.len();
            let artifact = file_artifact(&contents[number]);
            let content = match (round + thread * 2) % 6 {
                0 | 1 => match bench.receive(&contents[number]) {
                    Ok(())
                    | Err(
                        ReceiveError::Held(_) | ReceiveError::Store(WriteError::NoSpace { .. }),
                    ) => Ok(()),
                    Err(error) => panic!("{error}"),
                },
                2 => match bench.take(&number.to_string()) {
                    Ok(_) | Err(TakeInError::Store(WriteError::NoSpace { .. })) => Ok(()),
                    Err(error) => panic!("{error}"),
                },
                3 => match bench.stage(&artifact, &format!("{thread} {round}")) {
                    Ok(_) => Ok(()),
                    Err(StageError::Content(error)) => Err(error),
                    Err(error) => panic!("{error}"),
                },
                4 => bench.store.check(&bench.namespace, artifact.id),
                _ => {
                    assert!(
                        bench
                            .store
                            .delete(&bench.namespace, [artifact.id])
                            .is_empty()
                    );
                    Ok(())
                }
            };
            assert!(
                matches!(content, Ok(()) | Err(ContentError::NotHeld { .. })),
                "{content:?}"
            );
        }
    };
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let work = &work;
            scope.spawn(move || work(thread));
        }
    });
    assert!(bench.store.drain_lost(&bench.namespace).is_empty());
    bench.assert_consistent();
    let ids = contents.iter().map(|content| id_of(content));
    assert!(bench.store.delete(&bench.namespace, ids).is_empty());
    let usable: u64 = bench.store.usage().iter().map(|disk| disk.usable).sum();
    assert_eq!(usable, 50_000);
}

#[test]
fn an_abandoned_transfer_leaves_nothing() {
    let (_disk, bench) = bench();
    let usable = || bench.store.usage()[0].usable;
    let before = usable();
    let mut incoming = bench
        .store
        .receive(&bench.namespace, id_of(b"x"), 1 << 30)
        .expect("space");
    // The margin is for other programs on this file system.
    assert!(usable() <= before - (1 << 29));
    incoming.append(&vec![0; 1 << 21]).expect("space");
    drop(incoming);
    assert!(usable() >= before - (1 << 29));
    bench.assert_consistent();
}

#[test]
fn lost_artifacts_are_found_however_they_are_used() {
    let (_disk, bench) = bench();
    type Damage = fn(&File);
    let damages: [(Option<Damage>, &str); 3] = [
        (
            Some(|file| file.write_all_at(b"X", 3).expect("written")),
            "another SHA-256",
        ),
        (
            Some(|file| file.set_len(4).expect("shortened")),
            "4 bytes instead of 7",
        ),
        (None, "missing"),
    ];
    for (damage, text) in damages {
        for usage in ["check", "stage", "stage executable", "stage folder", "read"] {
            let mut artifact = bench.add(b"content");
            let file = bench.file_of(artifact.id);
            set_mode(&file, 0o600);
            match damage {
                Some(damage) => damage(&File::options().write(true).open(&file).expect("ours")),
                None => fs::remove_file(&file).expect("ours"),
            }
            let error = match usage {
                "check" => bench
                    .store
                    .check(&bench.namespace, artifact.id)
                    .expect_err("lost")
                    .to_string(),
                // The receiver of a transfer verifies the content.
                "read" if text.contains("SHA-256") => bench
                    .store
                    .check(&bench.namespace, artifact.id)
                    .expect_err("lost")
                    .to_string(),
                "read" => {
                    let read = bench.store.read(&bench.namespace, artifact.id);
                    read.err().expect("lost").to_string()
                }
                form => {
                    artifact.form = match form {
                        "stage" => brasserie_common::ArtifactForm::File,
                        "stage folder" => brasserie_common::ArtifactForm::Folder,
                        _ => brasserie_common::ArtifactForm::Executable,
                    };
                    bench
                        .stage(&artifact, "input")
                        .expect_err("lost")
                        .to_string()
                }
            };
            assert!(
                error.contains(text) && error.contains(&file.display().to_string()),
                "{usage}: {error}"
            );
            assert_eq!(
                fs::read_dir(bench.inputs.path()).expect("a folder").count(),
                0
            );
            let lost = bench.store.drain_lost(&bench.namespace);
            assert_eq!((lost.len(), lost[0].id), (1, artifact.id));
            assert_eq!(lost[0].generation, bench.store.usage()[0].generation);
            assert!(!file.exists() && bench.store.drain_lost(&bench.namespace).is_empty());
            bench.assert_consistent();
        }
    }
}

#[test]
fn a_file_shortened_under_a_reader_is_lost_and_its_successor_is_not() {
    let (_disk, bench) = bench();
    let artifact = bench.add(&[5; 1000]);
    let reader = bench
        .store
        .read(&bench.namespace, artifact.id)
        .expect("held");
    let file = bench.file_of(artifact.id);
    set_mode(&file, 0o600);
    let opened = File::options().write(true).open(&file).expect("ours");
    opened.set_len(600).expect("shortened");
    assert_eq!(reader.read_at(0, 600).expect("still there").len(), 600);
    // The artifact arrives again, before the first reader notices that its file is short.
    bench
        .store
        .check(&bench.namespace, artifact.id)
        .expect_err("it is short");
    bench.receive(&[5; 1000]).expect("space");
    let error = reader.read_at(0, 1000).expect_err("it is short");
    assert!(matches!(
        error,
        ContentError::Lost {
            cause: CopyLoss::WrongSize {
                expected: 1000,
                found: 600
            },
            ..
        }
    ));
    assert_eq!(bench.store.drain_lost(&bench.namespace).len(), 1);
    bench
        .stage(&file_artifact(&[5; 1000]), "again")
        .expect("the successor is whole");
    bench.assert_consistent();
}
