//! The lease: until when the kept program may leave its tasks alive, for each of its schedulers. The program renews it, the keeper
//! reads it, neither waits for the other.
//!
//! ```text
//!   worker --terms--> page (a little shared memory) <--reads when a time is over, or the bell rings-- keeper
//!      \------------> bell (a pipe), only when a time was brought forward ------------------------------/
//! ```
//!
//! Behind the terms of all schedulers stand their number, and the path of the file that names where the tasks' control groups are, if the program makes any.
//!
//! A renewal is one write of 24 bytes into memory, at most one a turn of the driver and scheduler, and only if its terms have changed; they
//! change with heartbeats that are answered (at most 20 a second), healthchecks and the worker's own fate. Nothing queues up, so
//! that a keeper that was stopped finds the present terms and no old ones.

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

use super::{KeeperError, marker};
use crate::scheduler_flag::MOST_SCHEDULERS;

/// How long the keeper lets a program that is only slow do its own killing; what is left of [`KEEPER_DELAY`] is for the keeper's:
/// a look at the machine's processes and ten rounds of its sweep.
const PATIENCE: Duration = Duration::from_millis(250);
const _: () = assert!(PATIENCE.as_millis() * 2 <= KEEPER_DELAY.as_millis());

/// Numbers of the page's and the bell's descriptors, which the program inherits.
pub(crate) const LEASE_VARIABLE: &str = "BRASSERIE_KEEPER_LEASE";
/// As `/proc` shows it.
const PAGE_NAME: &CStr = c"brasserie-lease";
/// Of one scheduler's terms.
const TERMS_BYTES: usize = 24;
/// Where the number of schedulers is.
const COUNT_AT: usize = MOST_SCHEDULERS * TERMS_BYTES;
const PATH_AT: usize = COUNT_AT + size_of::<u64>();
/// Tells terms from a page that is just being written.
const CHECK: u64 = 0x6272_6173_7365_7269;
/// Reads of a page that is being written, which takes nanoseconds.
const READS: usize = 16;
/// The kernel takes no longer paths.
const MAX_PATH_BYTES: usize = 4096;
/// Bytes of the bell taken at once; more of them say the same.
const BELL_BYTES: usize = 64;

/// When the keeper acts in the program's stead, by the clock that counts suspend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The program is stopped, its tasks get SIGTERM.
    term_at: Time,
    /// Program and tasks get SIGKILL.
    kill_at: Time,
}

impl Terms {
    /// Nobody counts on the death of the tasks.
    pub const NONE: Terms = Terms {
        term_at: Time::NEVER,
        kill_at: Time::NEVER,
    };

    /// The program begins to end its tasks at `until` if it hears nothing more, and may take `kill_wait` over it.
    pub fn living(until: Time, kill_wait: Duration) -> Self {
        Terms {
            term_at: until + PATIENCE,
            kill_at: until + kill_wait + PATIENCE,
        }
    }

    /// The program has begun to end its tasks at `since`, or should have.
    pub fn dying(since: Time, kill_wait: Duration) -> Self {
        Terms {
            term_at: Time::NEVER,
            ..Terms::living(since, kill_wait)
        }
    }

    /// The same, and whatever is alive at `at` is killed, as is the program.
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

    /// When something is to be done first.
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

/// The program's end.
#[derive(Debug)]
pub struct Lease {
    page: File,
    bell: File,
    written: [Terms; MOST_SCHEDULERS],
}

impl Lease {
    /// The lease that the keeper of this process holds; `None` if it has no keeper.
    pub fn of_this_process() -> Result<Option<Self>, KeeperError> {
        if marker().is_none() {
            return Ok(None);
        }
        let numbers = std::env::var(LEASE_VARIABLE).unwrap_or_default();
        Lease::open(&numbers).map(Some).map_err(KeeperError::Lease)
    }

    /// By way of `/proc`, since a number alone is no proof that the descriptor is ours. What was inherited stays open, and is
    /// closed in tasks like all else.
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

    /// Where the file is that names the places of the tasks' control groups. Once, before the first one is made.
    pub fn tell_places(&self, file: &Path) -> io::Result<()> {
        let path = file.as_os_str().as_bytes();
        self.page.write_all_at(path, PATH_AT as u64)
    }

    /// How many schedulers the program has; once, before any task is started. Of several the keeper ends the tasks of one without the
    /// others', and needs their marks for that.
    pub fn tell_schedulers(&self, count: usize) -> io::Result<()> {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.page
            .write_all_at(&count.to_le_bytes(), COUNT_AT as u64)
    }

    /// Those of one scheduler. Never waits.
    pub fn renew(&mut self, of: usize, terms: Terms) {
        let Some(written) = self.written.get_mut(of).filter(|before| **before != terms) else {
            return;
        };
        let at = (of * TERMS_BYTES) as u64;
        if let Err(error) = self.page.write_all_at(&terms.encode(), at) {
            // Memory that exists already cannot refuse; what the keeper knows is at worst too early, which is safe.
            tracing::error!("cannot renew the keeper's lease: {error}");
            return;
        }
        if terms.brings_forward(*written) {
            // A bell that is full has been rung.
            let _ = (&self.bell).write(&[1]);
        }
        *written = terms;
    }
}

/// The keeper's end.
#[derive(Debug)]
pub(super) struct Ledger {
    page: File,
    bell: File,
    /// Kept open, so that the bell never looks hung up.
    ring: OwnedFd,
    known: [Terms; MOST_SCHEDULERS],
}

impl Ledger {
    pub(super) fn new() -> Result<Self, Errno> {
        // Not close-on-exec: the program inherits both, and nobody else is ever started from here.
        let page = File::from(page()?);
        let (bell, ring) = pipe2(OFlag::O_NONBLOCK)?;
        page.write_all_at(&Terms::NONE.encode().repeat(MOST_SCHEDULERS), 0)
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or_default()))?;
        Ok(Ledger {
            page,
            bell: File::from(bell),
            ring,
            known: [Terms::NONE; MOST_SCHEDULERS],
        })
    }

    /// For [`LEASE_VARIABLE`].
    pub(super) fn numbers(&self) -> String {
        format!("{}:{}", self.page.as_raw_fd(), self.ring.as_raw_fd())
    }

    /// What the program has told by [`Lease::tell_places`].
    pub(super) fn places(&self) -> Option<PathBuf> {
        let mut path = vec![0; MAX_PATH_BYTES];
        let length = self.page.read_at(&mut path, PATH_AT as u64).ok()?;
        path.truncate(length);
        (!path.is_empty()).then(|| PathBuf::from(OsString::from_vec(path)))
    }

    /// What the program has told by [`Lease::tell_schedulers`].
    pub(super) fn schedulers(&self) -> usize {
        let mut count = [0; size_of::<u64>()];
        let read = self.page.read_exact_at(&mut count, COUNT_AT as u64);
        let told = read
            .ok()
            .and_then(|()| usize::try_from(u64::from_le_bytes(count)).ok());
        told.unwrap_or_default().clamp(1, MOST_SCHEDULERS)
    }

    /// Readable when the terms were brought forward.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// The present terms of all schedulers; silences the bell.
    pub(super) fn read(&mut self) -> [Terms; MOST_SCHEDULERS] {
        // Before the page is read, so that a later change rings again.
        let mut bytes = [0; BELL_BYTES];
        while matches!((&self.bell).read(&mut bytes), Ok(count) if count > 0) {}
        for of in 0..MOST_SCHEDULERS {
            self.read_one(of);
        }
        self.known
    }
}

impl Ledger {
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

/// Without the right to be executed, which some machines insist on and kernels before 6.3 do not know.
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

    fn rings(ledger: &Ledger) -> bool {
        let mut fds = [PollFd::new(ledger.bell(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO).expect("polled") == 1
    }

    #[test]
    fn the_keeper_reads_the_last_terms_and_hears_only_of_those_that_hurry() {
        let mut ledger = Ledger::new().expect("made");
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
        let mut ledger = Ledger::new().expect("made");
        let mut lease = Lease::open(&ledger.numbers()).expect("opened");
        // More than any pipe holds, each one earlier than the one before.
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
        let mut ledger = Ledger::new().expect("made");
        assert_eq!(ledger.places(), None);
        let mut lease = Lease::open(&ledger.numbers()).expect("opened");
        lease.tell_places(Path::new("/data/cgroups")).expect("told");
        lease.renew(0, Terms::living(at(100), WAIT));
        assert_eq!(ledger.places(), Some(PathBuf::from("/data/cgroups")));
        assert_eq!(ledger.read()[0], Terms::living(at(100), WAIT));
    }

    #[test]
    fn each_scheduler_has_terms_of_its_own() {
        let mut ledger = Ledger::new().expect("made");
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
        // Later for one says nothing of the other.
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
