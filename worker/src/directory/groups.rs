//! The list of running process groups on disk: fixed slots, written in place, never synced. The page cache survives the death of this
//! process, and if the machine goes down, the listed processes end with it.
//!
//! The first slot is a header: the PID namespace in which the numbers count, and the last time at which the worker is known to have held
//! the numbers.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brasserie_common::{InvocationId, Time};
use brasserie_common_runtime::files::{open_own, open_regular};
use brasserie_worker_core::AssociationIndex;
use nix::unistd::Pid;

use super::namespace::PidNamespace;
use super::{DirectoryError, io_error};
use crate::MOST_SCHEDULERS;
use crate::proc_table::StartTicks;

pub(super) const FILE: &str = "groups";
/// The size of a slot: process group, check value, time of listing, invocation.
const SLOT_BYTES: usize = 32;
/// The largest number of listed tasks: more than the default limit of a user's processes. Tasks beyond it are still found by their
/// environment.
const MAX_SLOTS: usize = 65_536;
/// The check value of a slot, which reveals torn or foreign ones. The index of the task's scheduler is added.
const SLOT_MAGIC: u32 = 0x4252_5331;
/// The check value of a header. Its group is 0, so earlier versions skip it.
const HEADER_MAGIC: u32 = 0x4252_4831;
/// The check value of a header whose namespace ends with the worker.
const HEADER_MAGIC_OWN: u32 = HEADER_MAGIC + 1;
/// The offset of the hold time in the header, in bytes.
const HELD_AT: u64 = 8;

/// One group as the last user of the directory listed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListedGroup {
    pub group: Pid,
    /// The time of listing, after the leader had started, by the clock that counts suspend. A process that has the number now and started
    /// later is not the leader.
    pub listed: Time,
    pub invocation: InvocationId,
    /// The association to which the task belongs.
    pub association: AssociationIndex,
}

/// The list as the last user of the directory left it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftGroups {
    pub groups: Vec<ListedGroup>,
    /// The header; `None` if the last user was an earlier version, which wrote none.
    pub header: Option<Header>,
}

/// Properties of all listed groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The namespace in which the numbers count.
    pub namespace: PidNamespace,
    pub lifetime: NamespaceLifetime,
    /// A time at which the worker had not reaped the leader of any group that is still listed. So each number was still its group's.
    pub held: Time,
}

/// The lifetime of a worker's PID namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceLifetime {
    /// Its first process is the worker or the worker's keeper: the kernel kills all tasks with it.
    Worker,
    /// Other programs also live in it.
    Shared,
}

/// The writer of the hold time. The thread that reaps sets the time, and another one writes it to the list, because it may wait for a
/// disk.
#[derive(Debug)]
pub(crate) struct HeldUntil {
    file: File,
    held: Arc<AtomicU64>,
    written: u64,
}

impl HeldUntil {
    /// Writes the time if there is a later one. Blocks for the page cache.
    pub(crate) fn write(&mut self) {
        let held = self.held.load(Ordering::Acquire);
        if held == self.written {
            return;
        }
        self.written = held;
        if let Err(error) = self.file.write_all_at(&held.to_le_bytes(), HELD_AT) {
            tracing::warn!("cannot write to the list of process groups: {error}");
        }
    }
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
    held: Arc<AtomicU64>,
}

impl GroupList {
    /// Returns what the last user listed. Skips invalid slots.
    pub(crate) fn read(dir: &Path) -> Result<LeftGroups, DirectoryError> {
        let path = dir.join(FILE);
        let file = match open_regular(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(LeftGroups::default());
            }
            Err(error) => return Err(io_error(&path)(error)),
        };
        let mut bytes = Vec::new();
        let limit = ((1 + MAX_SLOTS) * SLOT_BYTES) as u64;
        io::Read::read_to_end(&mut io::Read::take(file, limit), &mut bytes)
            .map_err(io_error(&path))?;
        let (slots, _) = bytes.as_chunks::<SLOT_BYTES>();
        Ok(LeftGroups {
            groups: slots.iter().filter_map(decode).collect(),
            header: slots.first().and_then(decode_header),
        })
    }

    /// Creates an empty list in place of an older one. `header` is `None` if `/proc` does not show the namespace in which the numbers
    /// count.
    pub(super) fn create(dir: &Path, header: Option<Header>) -> Result<Self, DirectoryError> {
        let path = dir.join(FILE);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = open_own(&path, &mut options).map_err(io_error(&path))?;
        let bytes = header.map_or([0; SLOT_BYTES], encode_header);
        file.write_all_at(&bytes, 0).map_err(io_error(&path))?;
        Ok(GroupList {
            file,
            free: Vec::new(),
            used_up_to: 0,
            held: Arc::new(AtomicU64::new(0)),
        })
    }

    /// Returns the hold time for the thread that reaps. It stores a time at which it has reaped no leader of a listed group.
    pub(crate) fn held(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.held)
    }

    /// Returns the writer of the hold time.
    pub(crate) fn held_until(&self) -> io::Result<HeldUntil> {
        Ok(HeldUntil {
            file: self.file.try_clone()?,
            held: self.held(),
            written: 0,
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

    /// Removes a group from the list.
    pub(crate) fn remove(&mut self, slot: Slot) {
        // A slot that stays names a dead group. Its time of listing distinguishes it from any later one.
        if let Err(error) = self.write(slot, &[0; SLOT_BYTES]) {
            tracing::warn!("cannot take a process group off the list: {error}");
        }
        self.free.push(slot);
    }

    fn write(&self, slot: Slot, bytes: &[u8; SLOT_BYTES]) -> io::Result<()> {
        let at = (1 + slot.0) * SLOT_BYTES;
        self.file.write_all_at(bytes, at as u64)
    }
}

fn encode_header(header: Header) -> [u8; SLOT_BYTES] {
    let magic = match header.lifetime {
        NamespaceLifetime::Shared => HEADER_MAGIC,
        NamespaceLifetime::Worker => HEADER_MAGIC_OWN,
    };
    let mut slot = [0; SLOT_BYTES];
    slot[4..8].copy_from_slice(&magic.to_le_bytes());
    slot[8..16].copy_from_slice(&header.held.as_nanos().to_le_bytes());
    slot[16..24].copy_from_slice(&header.namespace.inode.to_le_bytes());
    slot[24..32].copy_from_slice(&header.namespace.init.0.to_le_bytes());
    slot
}

fn decode_header(slot: &[u8; SLOT_BYTES]) -> Option<Header> {
    let number = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| slot[at + i]));
    let head = number(0);
    let lifetime = match u32::try_from(head >> 32) {
        Ok(HEADER_MAGIC) => NamespaceLifetime::Shared,
        Ok(HEADER_MAGIC_OWN) => NamespaceLifetime::Worker,
        Ok(_) | Err(_) => return None,
    };
    (head & u64::from(u32::MAX) == 0).then(|| Header {
        namespace: PidNamespace {
            inode: number(16),
            init: StartTicks(number(24)),
        },
        lifetime,
        held: Time::from_nanos(number(8)),
    })
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
    // Groups 0 and 1 mean the caller's own and init's to kill(2): a damaged slot must never contain them.
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

    fn header() -> Header {
        Header {
            namespace: PidNamespace {
                inode: 4_026_531_836,
                init: StartTicks(5),
            },
            lifetime: NamespaceLifetime::Shared,
            held: Time::from_nanos(0),
        }
    }

    fn groups(dir: &Path) -> Vec<ListedGroup> {
        GroupList::read(dir).expect("read").groups
    }

    #[test]
    fn the_next_user_reads_until_when_the_numbers_were_held_and_where_they_count() {
        let dir = tempfile::tempdir().expect("a folder");
        for lifetime in [NamespaceLifetime::Worker, NamespaceLifetime::Shared] {
            let header = Header {
                lifetime,
                ..header()
            };
            let mut list = GroupList::create(dir.path(), Some(header)).expect("created");
            let mut until = list.held_until().expect("a second descriptor");
            list.add(listed(10)).expect("listed");
            list.held().store(99, Ordering::Release);
            until.write();
            let left = GroupList::read(dir.path()).expect("read");
            let held = Time::from_nanos(99);
            assert_eq!(left.header, Some(Header { held, ..header }));
            assert_eq!(left.groups, [listed(10)]);
        }
        GroupList::create(dir.path(), None).expect("created");
        let left = GroupList::read(dir.path()).expect("read");
        assert_eq!(left, LeftGroups::default());
        // An earlier version has no header: its first slot is a group.
        files::atomic_write(&dir.path().join(FILE), &encode(&listed(10))).expect("written");
        let left = GroupList::read(dir.path()).expect("read");
        assert_eq!((left.header, left.groups), (None, vec![listed(10)]));
    }

    #[test]
    fn the_next_user_reads_what_was_not_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(groups(dir.path()), []);
        let mut list = GroupList::create(dir.path(), Some(header())).expect("created");
        let first = list.add(listed(10)).expect("listed");
        list.add(listed(11)).expect("listed");
        list.remove(first);
        assert_eq!(list.add(listed(12)), Some(first), "slots are used again");
        let mut last = listed(13);
        last.association = AssociationIndex(MOST_SCHEDULERS - 1);
        list.add(last).expect("listed");
        assert_eq!(groups(dir.path()), [listed(12), listed(11), last]);
        GroupList::create(dir.path(), Some(header())).expect("created");
        assert_eq!(groups(dir.path()), []);
    }

    #[test]
    fn a_pipe_in_place_of_the_list_does_not_hold_up_the_start() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join(FILE);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let created = GroupList::create(dir.path(), Some(header())).map(drop);
        for refused in [created, GroupList::read(dir.path()).map(drop)] {
            let text = refused.expect_err("a pipe").to_string();
            assert!(text.contains("regular file"), "{text}");
        }
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
        let left = GroupList::read(dir.path()).expect("read");
        assert_eq!(left, LeftGroups::default());
    }
}
