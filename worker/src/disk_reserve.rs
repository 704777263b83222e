//! Keeps some bytes of a disk free of task output, for the records of completions: a scheduler's store may be on the same disk, as in
//! `brasserie run`.

use std::io;
use std::path::Path;

use brasserie_common::text::readable_bytes;
use nix::sys::statvfs::statvfs;

/// Bytes of a disk that task output leaves free. A store reuses the space of its log after about 4 MiB, and 200,000 completions take the
/// rest.
const RESERVE: u64 = 64 << 20;
/// The reserve of a disk below 256 MiB is the disk's size divided by this number.
const RESERVE_OF_SMALL_DISK: u64 = 4;

/// Errors if `bytes` more of task output in `folder` would use the reserve of its disk.
pub(crate) fn check(folder: &Path, bytes: u64) -> io::Result<()> {
    // The write itself fails if the disk is gone.
    let Ok(disk) = statvfs(folder) else {
        return Ok(());
    };
    let all = disk.blocks() * disk.fragment_size();
    let free = disk.blocks_available() * disk.fragment_size();
    let reserve = RESERVE.min(all / RESERVE_OF_SMALL_DISK);
    if free >= reserve + bytes {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::StorageFull,
        format!(
            "the disk of {} has {} of {} free, and task output leaves {} to the records of completions. Make room there or use a \
             --data-dir on a larger disk",
            folder.display(),
            readable_bytes(free),
            readable_bytes(all),
            readable_bytes(reserve)
        ),
    ))
}
