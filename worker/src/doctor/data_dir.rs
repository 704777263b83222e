//! Checks whether a folder can be a worker's data directory: writing, syncing, locking and free space.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use brasserie_common_runtime::DataDir;
use brasserie_common_runtime::files::Owner;
use nix::sys::statvfs::statvfs;

use super::{CheckVerdict, Finding};

pub(super) const TOPIC: &str = "data directory";

/// The free space below which the doctor warns, in bytes. With less, a worker soon drops task logs.
const LITTLE_ROOM: u64 = 1 << 30;
/// The duration above which a sync counts as slow. Each completion waits for a sync of its scheduler, and logs for one a second, so a
/// slower disk delays everything.
const SLOW_SYNC: Duration = Duration::from_millis(100);

/// The measurements of a disk.
#[derive(Clone, Copy, Debug)]
struct DiskMeasurements {
    free: u64,
    sync: Duration,
}

pub(super) fn examine(path: &Path) -> Finding {
    // A relative path may have no ancestor that exists; its absolute form has.
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let path = absolute.as_path();
    let shown = path.display();
    // A worker creates missing folders, so the nearest existing one is checked.
    let Some(there) = path.ancestors().find(|path| path.exists()) else {
        let text = format!("nothing above {shown} exists");
        return Finding::new(TOPIC, CheckVerdict::Lacking, text);
    };
    if there == path
        && let Err(refusal) = DataDir::check(path, Owner::Worker)
    {
        return Finding::new(TOPIC, CheckVerdict::Lacking, refusal.to_string());
    }
    match try_it(there) {
        Ok(seen) => judged(there, seen),
        Err(error) => {
            let text = format!("{} cannot be used: {error}", there.display());
            Finding::new(TOPIC, CheckVerdict::Lacking, text)
        }
    }
}

fn judged(path: &Path, seen: DiskMeasurements) -> Finding {
    let shown = path.display();
    let free = seen.free >> 20;
    let text = format!(
        "{shown}: writable, locks work, a sync takes {} ms, {free} MiB free",
        seen.sync.as_millis()
    );
    if seen.free < LITTLE_ROOM {
        let text = format!("{text}: too little for logs");
        return Finding::new(TOPIC, CheckVerdict::Limited, text);
    }
    if seen.sync > SLOW_SYNC {
        let text = format!("{text}: a slow disk, or a busy one");
        return Finding::new(TOPIC, CheckVerdict::Limited, text);
    }
    Finding::new(TOPIC, CheckVerdict::Fine, text)
}

/// Tests a folder with a file that has no name, so that nothing is left whatever happens.
fn try_it(folder: &Path) -> io::Result<DiskMeasurements> {
    let mut file = tempfile::tempfile_in(folder)?;
    file.write_all(b"brasserie")?;
    let begun = Instant::now();
    file.sync_all()?;
    File::open(folder)?.sync_all()?;
    let sync = begun.elapsed();
    file.try_lock()?;
    let room = statvfs(folder)?;
    Ok(DiskMeasurements {
        free: room.blocks_available().saturating_mul(room.fragment_size()),
        sync,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_is_not_there_yet_is_judged_by_the_one_above() {
        let folder = tempfile::tempdir().expect("a folder");
        let found = examine(&folder.path().join("a/b/c"));
        assert_ne!(found.verdict, CheckVerdict::Lacking, "{found:?}");
        assert!(!folder.path().join("a").exists());
    }

    #[test]
    fn a_relative_path_begins_in_the_working_directory() {
        let found = examine(Path::new("new-data-dir-of-a-test"));
        assert_ne!(found.verdict, CheckVerdict::Lacking, "{found:?}");
        let here = std::env::current_dir().expect("a folder");
        assert!(
            found.text.starts_with(&here.display().to_string()),
            "{found:?}"
        );
    }

    #[test]
    fn a_file_is_no_folder() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        assert_eq!(examine(file.path()).verdict, CheckVerdict::Lacking);
    }

    #[test]
    fn a_folder_that_a_worker_would_refuse_is_told_with_the_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        std::fs::set_permissions(path, Permissions::from_mode(0o777)).expect("it is ours");
        assert_ne!(
            examine(path).verdict,
            CheckVerdict::Lacking,
            "a worker mends it"
        );
        std::fs::write(path.join("file"), "").expect("it is ours");
        let found = examine(path);
        assert_eq!(found.verdict, CheckVerdict::Lacking);
        assert!(found.text.contains("chmod go-w"), "{found:?}");
    }

    #[test]
    fn little_room_and_slow_disks_are_told() {
        let seen = |free, ms| DiskMeasurements {
            free,
            sync: Duration::from_millis(ms),
        };
        let of = |free, ms| judged(Path::new("/d"), seen(free, ms));
        let fine = of(5 << 30, 3);
        assert_eq!(fine.verdict, CheckVerdict::Fine);
        let text = "/d: writable, locks work, a sync takes 3 ms, 5120 MiB free";
        assert_eq!(fine.text, text);
        assert_eq!(of(1 << 20, 3).verdict, CheckVerdict::Limited);
        assert_eq!(of(5 << 30, 300).verdict, CheckVerdict::Limited);
    }
}
