//! The list of running process groups on disk: fixed slots, written in place, never synced. The page cache survives the death
//! of this process, and a machine that goes down takes the listed processes with it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use brasserie_common::{InvocationId, Time};
use brasserie_worker_core::AssociationIndex;
use nix::unistd::Pid;

use super::{DirectoryError, io_error};
use crate::scheduler_flag::MOST_SCHEDULERS;

const FILE: &str = "groups";
/// Process group, a check, when it was listed, invocation.
const SLOT_BYTES: usize = 32;
/// Tasks that run at once and are listed. More than the default limit of processes of a user; those beyond it are still found
/// by their environment.
const MAX_SLOTS: usize = 65_536;
/// Tells a slot from a torn or foreign one; which of the worker's schedulers has sent the task is added.
const SLOT_MAGIC: u32 = 0x4252_5331;

/// One group as the last user of the directory listed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedGroup {
    pub group: Pid,
    /// By the clock that counts suspend, after its leader had started: whoever has the number now and started later is a
    /// stranger.
    pub listed: Time,
    pub invocation: InvocationId,
    /// Whose task it is.
    pub association: AssociationIndex,
}

/// A place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot(usize);

/// The list of this process.
#[derive(Debug)]
pub(crate) struct GroupList {
    file: File,
    free: Vec<Slot>,
    used_up_to: usize,
}

impl GroupList {
    /// What the last user listed; slots that make no sense are passed over.
    pub(crate) fn read(dir: &Path) -> Result<Vec<ListedGroup>, DirectoryError> {
        let path = dir.join(FILE);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error(&path)(error)),
        };
        let mut bytes = Vec::new();
        let limit = (MAX_SLOTS * SLOT_BYTES) as u64;
        io::Read::read_to_end(&mut io::Read::take(file, limit), &mut bytes)
            .map_err(io_error(&path))?;
        let (slots, _) = bytes.as_chunks::<SLOT_BYTES>();
        Ok(slots.iter().filter_map(decode).collect())
    }

    /// An empty list in place of an older one.
    pub(super) fn create(dir: &Path) -> Result<Self, DirectoryError> {
        let path = dir.join(FILE);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path).map_err(io_error(&path))?;
        Ok(GroupList {
            file,
            free: Vec::new(),
            used_up_to: 0,
        })
    }

    /// Lists a group. `None` if the list is full or the disk refuses, which is logged: the marker still finds the task.
    pub(crate) fn add(&mut self, listed: ListedGroup) -> Option<Slot> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.used_up_to < MAX_SLOTS => {
                self.used_up_to += 1;
                Slot(self.used_up_to - 1)
            }
            None => return None,
        };
        match self.write(slot, &encode(&listed)) {
            Ok(()) => Some(slot),
            Err(error) => {
                tracing::warn!(group = %listed.group, invocation = %listed.invocation, "cannot list a process group: {error}");
                self.free.push(slot);
                None
            }
        }
    }

    /// Takes a group off the list.
    pub(crate) fn remove(&mut self, slot: Slot) {
        // A slot that stays names a dead group, which its time of listing tells from any later one.
        if let Err(error) = self.write(slot, &[0; SLOT_BYTES]) {
            tracing::warn!("cannot take a process group off the list: {error}");
        }
        self.free.push(slot);
    }

    fn write(&self, slot: Slot, bytes: &[u8; SLOT_BYTES]) -> io::Result<()> {
        self.file.write_all_at(bytes, (slot.0 * SLOT_BYTES) as u64)
    }
}

fn encode(listed: &ListedGroup) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[0..4].copy_from_slice(&listed.group.as_raw().to_le_bytes());
    let of = u32::try_from(listed.association.0).unwrap_or(u32::MAX);
    slot[4..8].copy_from_slice(&SLOT_MAGIC.wrapping_add(of).to_le_bytes());
    slot[8..16].copy_from_slice(&listed.listed.as_nanos().to_le_bytes());
    slot[16..24].copy_from_slice(&listed.invocation.0.start_time.to_le_bytes());
    slot[24..32].copy_from_slice(&listed.invocation.0.rand.to_le_bytes());
    slot
}

fn decode(slot: &[u8; SLOT_BYTES]) -> Option<ListedGroup> {
    let part = |at: usize| -> [u8; 8] { std::array::from_fn(|i| slot[at + i]) };
    let head = u64::from_le_bytes(part(0));
    // Groups 0 and 1 are "mine" and "init's" to kill(2): a rotten slot must never say so.
    let group = i32::try_from(head & u64::from(u32::MAX))
        .ok()
        .filter(|g| *g > 1)?;
    let of = (head >> 32).checked_sub(u64::from(SLOT_MAGIC));
    let of = of.and_then(|of| usize::try_from(of).ok());
    let of = of.filter(|of| *of < MOST_SCHEDULERS)?;
    Some(ListedGroup {
        group: Pid::from_raw(group),
        listed: Time::from_nanos(u64::from_le_bytes(part(8))),
        invocation: InvocationId::new(i64::from_le_bytes(part(16)), i64::from_le_bytes(part(24))),
        association: AssociationIndex(of),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use brasserie_common_runtime::files;

    fn listed(group: i32) -> ListedGroup {
        ListedGroup {
            group: Pid::from_raw(group),
            listed: Time::from_nanos(77),
            invocation: InvocationId::new(3, -4),
            association: AssociationIndex::FIRST,
        }
    }

    #[test]
    fn the_next_user_reads_what_was_not_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(GroupList::read(dir.path()).expect("none yet"), []);
        let mut list = GroupList::create(dir.path()).expect("created");
        let first = list.add(listed(10)).expect("listed");
        list.add(listed(11)).expect("listed");
        list.remove(first);
        assert_eq!(list.add(listed(12)), Some(first), "slots are used again");
        let mut last = listed(13);
        last.association = AssociationIndex(MOST_SCHEDULERS - 1);
        list.add(last).expect("listed");
        let read = GroupList::read(dir.path()).expect("read");
        assert_eq!(read, [listed(12), listed(11), last]);
        GroupList::create(dir.path()).expect("created");
        assert_eq!(GroupList::read(dir.path()).expect("read"), []);
    }

    #[test]
    fn rotten_slots_name_nobody() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut bytes = vec![0xff; SLOT_BYTES];
        let mut of_nobody = listed(9);
        of_nobody.association = AssociationIndex(MOST_SCHEDULERS);
        bytes.extend(encode(&of_nobody));
        for group in [0, 1, -5] {
            bytes.extend(encode(&listed(group)));
        }
        bytes.extend(&encode(&listed(9))[..20]);
        files::atomic_write(&dir.path().join(FILE), &bytes).expect("written");
        assert_eq!(GroupList::read(dir.path()).expect("read"), []);
    }
}
