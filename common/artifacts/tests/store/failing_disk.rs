//! Tests a disk that fails: a file system in a file of which the end is cut off.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use brasserie_common_artifacts::{ContentError, CopyLoss, FoundCondition};
use nix::fcntl::{PosixFadviseAdvice, posix_fadvise};

use crate::bench::{Bench, on_image, set_mode};

const IMAGE_BYTES: u64 = 64 << 20;

/// The file system reads its tables when it is mounted, and the artifact's blocks come after them.
fn a_disk_that_cannot_be_read(place: &Path, image: &Path) {
    set_mode(place, 0o700);
    let disk = place.join("disk");
    let healthy = tempfile::tempdir().expect("a folder");
    let mut bench = Bench::on(&[&disk, healthy.path()]);
    bench.options.disks[1].capacity = Some(1);
    let (bench, _) = bench.reopen_after(|| {});
    let content = vec![7; 24 << 20];
    let artifact = bench.add(&content);
    let file = File::open(bench.file_of(artifact.id)).expect("it is on the first disk");
    posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED).expect("forgotten");
    let image = File::options().write(true).open(image).expect("ours");
    image.set_len(16 << 20).expect("shortened");
    let error = bench
        .store
        .check(&bench.namespace, artifact.id)
        .expect_err("it cannot be read");
    assert!(
        matches!(
            error,
            ContentError::Lost {
                cause: CopyLoss::Unreadable(_),
                ..
            }
        ),
        "{error}"
    );
    assert_eq!(bench.store.drain_lost(&bench.namespace).len(), 1);
    let usage = bench.store.usage();
    assert!(
        matches!(usage[0].condition, FoundCondition::ReadError(_)),
        "{usage:?}"
    );
    assert_eq!(usage[1].condition, FoundCondition::Healthy);
    // The failed disk has the most space, and gets nothing.
    assert!(usage[0].usable > usage[1].usable);
    bench.add(b"x");
    assert_eq!(bench.store.usage()[1].used, 1);
}

#[test]
fn an_unreadable_artifact_is_lost_and_its_disk_gets_no_others() {
    let has_mkfs = Command::new("mkfs.ext4").arg("-V").output().is_ok();
    if !has_mkfs {
        eprintln!("unproven: there is no mkfs.ext4 to make a disk that fails");
        return;
    }
    let make = |image: &Path| {
        let mut command = Command::new("mkfs.ext4");
        command.args(["-q", "-F", "-O", "^has_journal"]).arg(image);
        command
    };
    on_image("ext4", IMAGE_BYTES, make, |place, image| {
        a_disk_that_cannot_be_read(place, image);
        // Errors of the last writes are expected.
        let _ = fs::remove_file(image);
    });
}
