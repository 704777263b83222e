//! Reads the environments of processes on threads of their own. `/proc/PID/environ` takes the memory lock of the process, and a process
//! that hangs in the kernel may hold that lock for as long as it hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

use nix::unistd::Pid;

use super::{ProcessEntry, environment_has};

/// The largest number of readers that hang at the same time, each at another process. With more of them, only the list of process groups,
/// control groups and descent show to which task a process belongs.
const MOST_LATE: usize = 8;

/// Threads that search environments for an entry. A reader that hangs delays nobody: the next request goes to another reader, which skips
/// the process at which the first one hangs.
pub(crate) struct Environments {
    /// Returns whether a process was started with the entry.
    has_entry: Arc<dyn Fn(Pid) -> bool + Send + Sync>,
    /// The reader for the next request.
    idle: Option<EnvironmentReader>,
    /// The readers that have not finished their request in time.
    late: Vec<EnvironmentReader>,
    /// The processes of the last request for which there was no reader.
    unread: Vec<Pid>,
}

struct EnvironmentReader {
    requests: Sender<Vec<ProcessEntry>>,
    /// Processes with the entry, and `None` at the end of a request.
    answers: Receiver<Option<ProcessEntry>>,
    /// The process whose environment the thread reads.
    at: Arc<AtomicI32>,
}

impl Environments {
    /// Makes readers for `entry`, a name and value. Starts the first thread.
    pub(crate) fn with(entry: Vec<u8>) -> Self {
        Environments::read_by(move |pid| environment_has(pid, &entry))
    }

    fn read_by(has_entry: impl Fn(Pid) -> bool + Send + Sync + 'static) -> Self {
        let mut environments = Environments {
            has_entry: Arc::new(has_entry),
            idle: None,
            late: Vec::new(),
            unread: Vec::new(),
        };
        environments.idle = environments.start();
        environments
    }

    /// Returns those of `candidates` that have the entry and whose environments were read by `until`. Adds processes that late readers
    /// have meanwhile found among earlier candidates.
    pub(crate) fn find(
        &mut self,
        mut candidates: Vec<ProcessEntry>,
        until: Instant,
    ) -> Vec<ProcessEntry> {
        let mut found = Vec::new();
        for mut reader in std::mem::take(&mut self.late) {
            match reader.collect(&mut found, Instant::now()) {
                EnvironmentRead::Over => self.idle = Some(reader),
                EnvironmentRead::Late => self.late.push(reader),
            }
        }
        let hanging = self.hanging();
        candidates.retain(|process| !hanging.contains(&process.pid));
        self.unread.clear();
        if candidates.is_empty() || Instant::now() >= until {
            return found;
        }
        // The system may refuse another thread.
        let may_ask = self.late.len() < MOST_LATE;
        let reader = may_ask.then(|| self.idle.take().or_else(|| self.start()));
        let Some(mut reader) = reader.flatten() else {
            self.unread = candidates.iter().map(|process| process.pid).collect();
            return found;
        };
        // Invariant: the thread of an idle reader waits for requests.
        reader.requests.send(candidates).expect("a reader lives");
        match reader.collect(&mut found, until) {
            EnvironmentRead::Over => self.idle = Some(reader),
            EnvironmentRead::Late => self.late.push(reader),
        }
        found
    }

    /// Returns the processes whose environments could not be read.
    pub(crate) fn unreadable(&self) -> Vec<Pid> {
        let mut pids = self.hanging();
        pids.extend(&self.unread);
        pids
    }

    /// Returns the processes at which late readers hang.
    fn hanging(&self) -> Vec<Pid> {
        let at = |reader: &EnvironmentReader| Pid::from_raw(reader.at.load(Ordering::Relaxed));
        self.late.iter().map(at).collect()
    }

    /// Starts a reader; `None` if the system refuses a thread.
    fn start(&self) -> Option<EnvironmentReader> {
        let (requests, queue): (_, Receiver<Vec<ProcessEntry>>) = channel();
        let (sender, answers) = channel();
        let at = Arc::new(AtomicI32::new(0));
        let (has_entry, reading) = (Arc::clone(&self.has_entry), Arc::clone(&at));
        let run = move || {
            for request in queue {
                for one in request {
                    reading.store(one.pid.as_raw(), Ordering::Relaxed);
                    if has_entry(one.pid) && sender.send(Some(one)).is_err() {
                        return;
                    }
                }
                if sender.send(None).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("environments".to_owned());
        thread.spawn(run).ok()?;
        Some(EnvironmentReader {
            requests,
            answers,
            at,
        })
    }
}

/// The state of a reader's request.
enum EnvironmentRead {
    Over,
    Late,
}

impl EnvironmentReader {
    /// Adds the thread's answers until `until` to `found`.
    fn collect(&mut self, found: &mut Vec<ProcessEntry>, until: Instant) -> EnvironmentRead {
        loop {
            let rest = until.saturating_duration_since(Instant::now());
            match self.answers.recv_timeout(rest) {
                Ok(Some(process)) => found.push(process),
                Ok(None) => return EnvironmentRead::Over,
                Err(_) => return EnvironmentRead::Late,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use nix::unistd::getpid;

    use super::super::find;
    use super::*;

    const SHORT: Duration = Duration::from_millis(10);
    const LONG: Duration = Duration::from_secs(60);

    fn process(pid: i32) -> ProcessEntry {
        let me = find(getpid()).expect("this process");
        ProcessEntry {
            pid: Pid::from_raw(pid),
            ..me
        }
    }

    fn pids(mut found: Vec<ProcessEntry>) -> Vec<i32> {
        found.sort_by_key(|process| process.pid);
        found.iter().map(|process| process.pid.as_raw()).collect()
    }

    #[test]
    fn a_process_whose_environment_hangs_hides_no_other() {
        let (resume, hang) = channel::<()>();
        let hang = Mutex::new(hang);
        let mut environments = Environments::read_by(move |pid| {
            if pid.as_raw() == 2 {
                let _ = hang.lock().expect("one reader hangs").recv();
            }
            pid.as_raw() != 3
        });
        let all: Vec<ProcessEntry> = (1..=4).map(process).collect();
        let find = |environments: &mut Environments, limit| {
            pids(environments.find(all.clone(), Instant::now() + limit))
        };
        let mut first = find(&mut environments, SHORT);
        let deadline = Instant::now() + LONG;
        while environments.hanging() != [Pid::from_raw(2)] {
            assert!(Instant::now() < deadline, "the reader does not start");
            thread::yield_now();
        }
        first.extend(find(&mut environments, LONG));
        first.dedup();
        assert_eq!(first, [1, 4]);
        // A second reader skips the process at which the first one hangs, however often the caller asks.
        for _ in 0..2 * MOST_LATE {
            assert_eq!(find(&mut environments, LONG), [1, 4]);
        }
        // The answer of the first reader arrives late.
        drop(resume);
        let mut late = Vec::new();
        while !late.contains(&2) {
            assert!(Instant::now() < deadline, "the first reader does not go on");
            late = find(&mut environments, LONG);
        }
    }

    #[test]
    fn readers_that_hang_are_few() {
        let (_resume, hang) = channel::<()>();
        let hang = Arc::new(Mutex::new(hang));
        let read = Arc::clone(&hang);
        let mut environments =
            Environments::read_by(move |_| read.lock().expect("alive").recv().is_ok());
        let all: Vec<ProcessEntry> = (1..=100).map(process).collect();
        for _ in 0..2 * MOST_LATE {
            let found = environments.find(all.clone(), Instant::now() + SHORT);
            assert!(found.is_empty(), "{found:?}");
        }
        assert_eq!(environments.hanging().len(), MOST_LATE);
        // The other processes do not count as read.
        assert_eq!(environments.unreadable().len(), all.len());
    }
}
