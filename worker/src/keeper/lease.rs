//! The lease: the time until which the kept program may leave its tasks alive, for each of its schedulers. The program renews it and the
//! keeper reads it, and neither waits for the other.
//!
//! ```text
//!   worker --terms--> page (a little shared memory) <--reads when a time is over, or the bell rings-- keeper
//!      \------------> bell (a pipe), only when a time was brought forward ------------------------------/
//! ```
//!
//! The terms of all schedulers are followed by the number of schedulers, and by the path of the file that lists the locations of the
//! tasks' control groups, if the program makes any.
//!
//! A renewal writes 24 bytes into memory, at most once per turn of the driver and scheduler, and only if the terms have changed. They
//! change with answered heartbeats (at most 20 a second), with healthchecks, and with the stages of the worker's life. Nothing queues up,
//! so a keeper that was stopped finds the present terms and no old ones.

use std::ffi::{CStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use brasserie_common::Time;
use brasserie_common::health::timeouts::KEEPER_DELAY;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::unistd::pipe2;

use super::KeeperError;
use crate::MOST_SCHEDULERS;
use crate::marker::marker;
use crate::variables::LEASE_VARIABLE;

/// The time that the keeper leaves to a program that is only slow. The rest of [`KEEPER_DELAY`] is for the keeper's own killing: one scan
/// of the machine's processes and ten rounds of its sweep.
const PATIENCE: Duration = Duration::from_millis(250);
const _: () = assert!(PATIENCE.as_millis() * 2 <= KEEPER_DELAY.as_millis());

/// The page's name in `/proc`.
const PAGE_NAME: &CStr = c"brasserie-lease";
/// The size of one scheduler's terms.
const TERMS_BYTES: usize = 24;
/// The offset of the number of schedulers.
const COUNT_AT: usize = MOST_SCHEDULERS * TERMS_BYTES;
const PATH_AT: usize = COUNT_AT + size_of::<u64>();
/// The check value that distinguishes terms from a page that is just being written.
const CHECK: u64 = 0x6272_6173_7365_7269;
/// The number of attempts to read a page that is being written, which takes nanoseconds.
const READS: usize = 16;
/// The kernel's limit for paths, in bytes.
const MAX_PATH_BYTES: usize = 4096;
/// The number of bytes read from the bell at once. Their number has no meaning.
const BELL_BYTES: usize = 64;

/// The times at which the keeper acts in the program's place, by the clock that counts suspend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The keeper stops the program and sends its tasks SIGTERM.
    term_at: Time,
    /// The keeper sends SIGKILL to the program and its tasks.
    kill_at: Time,
}

impl Terms {
    /// The terms if no scheduler relies on the death of the tasks.
    pub const NONE: Terms = Terms {
        term_at: Time::NEVER,
        kill_at: Time::NEVER,
    };

    /// Returns the terms of a program that begins to end its tasks at `until` unless the lease is renewed, and may take `kill_wait` for
    /// that.
    pub fn living(until: Time, kill_wait: Duration) -> Self {
        Terms {
            term_at: until + PATIENCE,
            kill_at: until + kill_wait + PATIENCE,
        }
    }

    /// Returns the terms of a program that has begun to end its tasks at `since`, or should have.
    pub fn dying(since: Time, kill_wait: Duration) -> Self {
        Terms {
            term_at: Time::NEVER,
            ..Terms::living(since, kill_wait)
        }
    }

    /// Returns terms by which the program and all tasks are killed at `at` at the latest.
    pub fn killed_by(self, at: Time) -> Self {
        Terms {
            kill_at: self.kill_at.min(at),
            ..self
        }
    }

    pub(super) fn term_at(self) -> Time {
        self.term_at
    }

    pub(super) fn kill_at(self) -> Time {
        self.kill_at
    }

    /// Returns the time of the first action.
    pub(super) fn first(self) -> Time {
        self.term_at.min(self.kill_at)
    }

    fn brings_forward(self, before: Terms) -> bool {
        self.term_at < before.term_at || self.kill_at < before.kill_at
    }

    fn encode(self) -> [u8; TERMS_BYTES] {
        let (term, kill) = (self.term_at.as_nanos(), self.kill_at.as_nanos());
        let mut page = [0; TERMS_BYTES];
        page[0..8].copy_from_slice(&term.to_le_bytes());
        page[8..16].copy_from_slice(&kill.to_le_bytes());
        page[16..24].copy_from_slice(&check(term, kill).to_le_bytes());
        page
    }

    fn decode(page: &[u8; TERMS_BYTES]) -> Option<Self> {
        let number =
            |at: usize| u64::from_le_bytes(std::array::from_fn::<u8, 8, _>(|i| page[at + i]));
        let (term, kill) = (number(0), number(8));
        (number(16) == check(term, kill)).then(|| Terms {
            term_at: Time::from_nanos(term),
            kill_at: Time::from_nanos(kill),
        })
    }
}

fn check(term: u64, kill: u64) -> u64 {
    CHECK ^ term ^ kill.rotate_left(32)
}

/// The program's side of the lease.
#[derive(Debug)]
pub struct Lease {
    page: File,
    bell: File,
    written: [Terms; MOST_SCHEDULERS],
}

impl Lease {
    /// Opens the lease that the keeper of this process enforces; `None` if this process has no keeper.
    pub fn of_this_process() -> Result<Option<Self>, KeeperError> {
        if marker().is_none() {
            return Ok(None);
        }
        let numbers = std::env::var(LEASE_VARIABLE).unwrap_or_default();
        Lease::open(&numbers).map(Some).map_err(KeeperError::Lease)
    }

    /// Opens the descriptors through `/proc`, since a number alone does not prove that the descriptor is the lease's. The inherited ones
    /// stay open, and tasks close them like all others.
    fn open(numbers: &str) -> io::Result<Self> {
        let malformed = || io::Error::other(format!("{LEASE_VARIABLE} is `{numbers}`"));
        let (page, bell) = numbers.split_once(':').ok_or_else(malformed)?;
        let open = |number: &str| {
            let number: u32 = number.parse().map_err(|_| malformed())?;
            let mut options = OpenOptions::new();
            options.write(true).custom_flags(OFlag::O_NONBLOCK.bits());
            options.open(format!("/proc/self/fd/{number}"))
        };
        Ok(Lease {
            page: open(page)?,
            bell: open(bell)?,
            written: [Terms::NONE; MOST_SCHEDULERS],
        })
    }

    /// Stores the path of the file that lists the locations of the tasks' control groups. The worker calls it once, before it makes the
    /// first group.
    pub fn tell_places(&self, file: &Path) -> io::Result<()> {
        let path = file.as_os_str().as_bytes();
        self.page.write_all_at(path, PATH_AT as u64)
    }

    /// Stores the number of the program's schedulers. The worker calls it once, before any task starts. If there are several, the keeper
    /// ends the tasks of one scheduler alone, and needs their marks for that.
    pub fn tell_schedulers(&self, count: usize) -> io::Result<()> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.page
            .write_all_at(&count.to_le_bytes(), COUNT_AT as u64)
    }

    /// Stores the terms of scheduler number `of`. Never waits.
    pub fn renew(&mut self, of: usize, terms: Terms) {
        let Some(written) = self.written.get_mut(of).filter(|before| **before != terms) else {
            return;
        };
        let at = (of * TERMS_BYTES) as u64;
        if let Err(error) = self.page.write_all_at(&terms.encode(), at) {
            // A write to existing memory cannot fail. If it did, the keeper's times would be too early, which is safe.
            tracing::error!("cannot renew the keeper's lease: {error}");
            return;
        }
        if terms.brings_forward(*written) {
            // A full pipe has rung already.
            let _ = (&self.bell).write(&[1]);
        }
        *written = terms;
    }
}

/// The keeper's side of the lease.
#[derive(Debug)]
pub(super) struct LeaseLedger {
    page: File,
    bell: File,
    /// The writing end, kept open so that the bell never appears closed.
    ring: OwnedFd,
    known: [Terms; MOST_SCHEDULERS],
}

impl LeaseLedger {
    pub(super) fn new() -> Result<Self, Errno> {
        // The descriptors are not close-on-exec: the program inherits both, and this process starts no other program.
        let page = File::from(page()?);
        let (bell, ring) = pipe2(OFlag::O_NONBLOCK)?;
        page.write_all_at(&Terms::NONE.encode().repeat(MOST_SCHEDULERS), 0)
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))?;
        Ok(LeaseLedger {
            page,
            bell: File::from(bell),
            ring,
            known: [Terms::NONE; MOST_SCHEDULERS],
        })
    }

    /// Returns the value of [`LEASE_VARIABLE`].
    pub(super) fn numbers(&self) -> String {
        format!("{}:{}", self.page.as_raw_fd(), self.ring.as_raw_fd())
    }

    /// Returns the path that the program stored by [`Lease::tell_places`].
    pub(super) fn places(&self) -> Option<PathBuf> {
        let mut path = vec![0; MAX_PATH_BYTES];
        let length = self.page.read_at(&mut path, PATH_AT as u64).ok()?;
        path.truncate(length);
        (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path)))
    }

    /// Returns the number that the program stored by [`Lease::tell_schedulers`].
    pub(super) fn schedulers(&self) -> usize {
        let mut count = [0; size_of::<u64>()];
        let read = self.page.read_exact_at(&mut count, COUNT_AT as u64);
        let told = read
            .ok()
            .and_then(|()| usize::try_from(u64::from_le_bytes(count)).ok());
        told.unwrap_or_default().clamp(1, MOST_SCHEDULERS)
    }

    /// Returns the descriptor that is readable after terms were brought forward.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Returns the present terms of all schedulers, and silences the bell.
    pub(super) fn read(&mut self) -> [Terms; MOST_SCHEDULERS] {
        // The bell comes before the page, so that a later change rings again.
        let mut bytes = [0; BELL_BYTES];
        while matches!((&self.bell).read(&mut bytes), Ok(count) if count > 0) {}
        for of in 0..MOST_SCHEDULERS {
            self.read_one(of);
        }
        self.known
    }
}

impl LeaseLedger {
    fn read_one(&mut self, of: usize) {
        for _ in 0..READS {
            let mut page = [0; TERMS_BYTES];
            if self
                .page
                .read_exact_at(&mut page, (of * TERMS_BYTES) as u64)
                .is_ok()
                && let Some(terms) = Terms::decode(&page)
            {
                self.known[of] = terms;
                break;
            }
        }
    }
}

/// Makes the page without the right to be executed, which some machines require and kernels before 6.3 do not support.
fn page() -> Result<OwnedFd, Errno> {
    let no_exec = MFdFlags::from_bits_retain(libc::MFD_NOEXEC_SEAL);
    match memfd_create(PAGE_NAME, no_exec) {
        Err(Errno::EINVAL) => memfd_create(PAGE_NAME, MFdFlags::empty()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    const WAIT: Duration = Duration::from_secs(5);

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    fn rings(ledger: &LeaseLedger) -> bool {
        let mut fds = [PollFd::new(ledger.bell(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).expect("polled") == 1
    }

    #[test]
    fn the_keeper_reads_the_last_terms_and_hears_only_of_those_that_hurry() {
        let mut ledger = LeaseLedger::new().expect("made");
        assert_eq!(ledger.read()[0], Terms::NONE);
        let mut lease = Lease::open(&ledger.numbers()).expect("opened");
        lease.renew(0, Terms::NONE);
        assert!(!rings(&ledger));
        for (terms, hurries) in [
            (Terms::living(at(100), WAIT), true),
            (Terms::living(at(110), WAIT), false),
            (Terms::living(at(110), Duration::ZERO), true),
            (Terms::dying(at(110), WAIT), false),
            (Terms::dying(at(109), WAIT), true),
            (Terms::NONE, false),
        ] {
            lease.renew(0, terms);
            assert_eq!(rings(&ledger), hurries, "{terms:?}");
            assert_eq!(ledger.read()[0], terms);
            assert!(!rings(&ledger));
        }
    }

    #[test]
    fn a_bell_that_nobody_hears_does_not_hold_the_worker_up() {
        let mut ledger = LeaseLedger::new().expect("made");
        let mut lease = Lease::open(&ledger.numbers()).expect("opened");
        // More writes than any pipe holds, each with an earlier time than the one before.
        for second in (1..100_000).rev() {
            lease.renew(0, Terms::living(at(second), WAIT));
        }
        assert!(rings(&ledger));
        assert_eq!(ledger.read()[0], Terms::living(at(1), WAIT));
    }

    #[test]
    fn the_program_comes_first_and_the_keeper_in_time() {
        let terms = Terms::living(at(100), WAIT);
        assert!(at(100) < terms.term_at() && terms.first() == terms.term_at());
        assert!(at(105) < terms.kill_at() && terms.kill_at() < at(105) + KEEPER_DELAY);
        let terms = Terms::dying(at(100), WAIT);
        assert_eq!(
            (terms.term_at(), terms.first()),
            (Time::NEVER, terms.kill_at())
        );
        assert_eq!(Terms::NONE.first(), Time::NEVER);
        let leaving = Terms::living(at(100), WAIT).killed_by(at(50));
        assert_eq!((leaving.first(), leaving.kill_at()), (at(50), at(50)));
        let sooner = Terms::living(at(10), WAIT);
        assert_eq!(sooner.killed_by(at(50)), sooner);
        assert_eq!(Terms::NONE.killed_by(at(50)).first(), at(50));
    }

    #[test]
    fn the_places_of_groups_are_told_beside_the_terms() {
        let mut ledger = LeaseLedger::new().expect("made");
        assert_eq!(ledger.places(), None);
        let mut lease = Lease::open(&ledger.numbers()).expect("opened");
        lease.tell_places(Path::new("/data/cgroups")).expect("told");
        lease.renew(0, Terms::living(at(100), WAIT));
        assert_eq!(ledger.places(), Some(PathBuf::from("/data/cgroups")));
        assert_eq!(ledger.read()[0], Terms::living(at(100), WAIT));
    }

    #[test]
    fn each_scheduler_has_terms_of_its_own() {
        let mut ledger = LeaseLedger::new().expect("made");
        assert_eq!(ledger.schedulers(), 1);
        let mut lease = Lease::open(&ledger.numbers()).expect("opened");
        lease.tell_schedulers(2).expect("told");
        lease.tell_places(Path::new("/data/cgroups")).expect("told");
        lease.renew(1, Terms::living(at(100), WAIT));
        assert!(rings(&ledger));
        lease.renew(0, Terms::living(at(200), WAIT));
        lease.renew(MOST_SCHEDULERS, Terms::living(at(1), WAIT));
        let mut told = [Terms::NONE; MOST_SCHEDULERS];
        (told[0], told[1]) = (Terms::living(at(200), WAIT), Terms::living(at(100), WAIT));
        assert_eq!(ledger.read(), told);
        // A later time for one scheduler changes nothing for the other.
        lease.renew(1, Terms::NONE);
        assert!(!rings(&ledger));
        assert_eq!(ledger.read()[..2], [told[0], Terms::NONE]);
        assert_eq!(ledger.schedulers(), 2);
        assert_eq!(ledger.places(), Some(PathBuf::from("/data/cgroups")));
    }

    #[test]
    fn half_a_page_and_strange_numbers_are_nothing() {
        let mut page = Terms::living(at(7), WAIT).encode();
        page[3] ^= 1;
        assert_eq!(Terms::decode(&page), None);
        assert_eq!(Terms::decode(&[0; TERMS_BYTES]), None);
        for bad in ["", "3", "x:y", "-1:2", "999999:999998"] {
            assert!(Lease::open(bad).is_err(), "{bad}");
        }
    }
}
