//! Tests of a disk that hangs and of a file that changes, which only the inside of a store can imitate.

use super::*;
use crate::shared::WriteError;
use crate::stop::StopCheck;
use crate::take_in::{CopyError, copy_file};
use crate::task_files::OutputRefusal;
use crate::usage::FoundCondition;

#[test]
fn threads_share_a_store_and_pass_on_its_transfers() {
    fn is_shared<T: Send + Sync>() {}
    fn is_passed_on<T: Send>() {}
    is_shared::<ArtifactStore>();
    is_shared::<ArtifactReader>();
    is_passed_on::<Incoming>();
}

#[test]
fn a_disk_that_hangs_gets_no_new_artifacts_and_its_usage_is_known() {
    let folders = [
        tempfile::tempdir().expect("a folder"),
        tempfile::tempdir().expect("a folder"),
    ];
    let disks = folders.iter().map(|folder| DiskFlag {
        path: folder.path().to_owned(),
        capacity: Some(100),
        medium: Default::default(),
    });
    let options = StoreOptions {
        reserve: 0,
        hang_after: Duration::ZERO,
        ..StoreOptions::new(disks.collect())
    };
    let (store, _) = ArtifactStore::open(&options).expect("usable disks");
    let namespace = ArtifactNamespace::try_from("one").expect("a name");
    let conditions = || {
        let usage = store.usage().into_iter();
        usage.map(|disk| disk.condition).collect::<Vec<_>>()
    };
    let ticket = store.0.in_flight.begin(DiskNumber(0));
    assert_eq!(
        conditions(),
        [FoundCondition::IoHang, FoundCondition::Healthy]
    );
    let incoming = store
        .receive(&namespace, ArtifactId([1; 32]), 10)
        .expect("the other disk");
    assert_eq!(store.usage()[1].usable, 90);
    let second = store.0.in_flight.begin(DiskNumber(1));
    let refused = store
        .receive(&namespace, ArtifactId([2; 32]), 10)
        .err()
        .expect("both hang");
    assert!(
        matches!(refused, ReceiveError::Store(WriteError::NoDisk)),
        "{refused}"
    );
    drop((ticket, second, incoming));
    assert_eq!(
        conditions(),
        [FoundCondition::Healthy, FoundCondition::Healthy]
    );
}

/// A file that has grown or shrunk since it was opened is refused, and one that grows for ever is not read for ever.
#[test]
fn a_file_of_another_length_than_it_had_is_refused() {
    let disk = tempfile::tempdir().expect("a folder");
    let flag = disk.path().to_str().expect("text").parse().expect("a flag");
    let options = StoreOptions {
        reserve: 0,
        ..StoreOptions::new(vec![flag])
    };
    let (store, _) = ArtifactStore::open(&options).expect("a usable disk");
    let output = disk.path().join("output");
    std::fs::write(&output, [1; 5000]).expect("written");
    let copied = |path: &std::path::Path, size| {
        let file = std::fs::File::open(path).expect("it is there");
        copy_file(&store.0, &file, size, StopCheck::NEVER).map(|partial| partial.length())
    };
    assert!(matches!(copied(&output, 5000), Ok(5000)));
    for size in [0, 4999, 5001, 2 << 20] {
        let Err(CopyError::Output(OutputRefusal::Changed { expected })) = copied(&output, size)
        else {
            panic!("{size}");
        };
        assert_eq!(expected, size);
    }
    let endless = copied(std::path::Path::new("/dev/zero"), 3 << 20);
    assert!(matches!(
        endless,
        Err(CopyError::Output(OutputRefusal::Changed { .. }))
    ));
    assert_eq!(store.usage()[0].used, 0);
}
