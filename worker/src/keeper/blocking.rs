//! Runs those of the keeper's reads and writes that a disk or another program may block, on a thread of their own. The thread that kills
//! waits a moment for them, and continues without them.

use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// The time that the keeper waits for one operation. A file in the page cache takes microseconds, and this leaves most of
/// [`super::lease`]'s patience.
pub(super) const LIMIT: Duration = Duration::from_millis(50);

type Work = Box<dyn FnOnce() + Send>;

/// Returns the result of `work`, or `None` if it is late or if earlier work is still running. Late work still happens.
pub(super) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, result) = sync_channel(1);
    let work = Box::new(move || {
        // The send fails if the caller has continued without the result.
        let _ = sender.send(work());
    });
    // The queue is full when the thread hangs.
    thread().as_ref()?.try_send(work).ok()?;
    result.recv_timeout(LIMIT).ok()
}

/// Returns the thread's queue. The first call starts the thread; `None` if the system refuses one.
pub(super) fn thread() -> &'static Option<SyncSender<Work>> {
    static THREAD: OnceLock<Option<SyncSender<Work>>> = OnceLock::new();
    THREAD.get_or_init(|| {
        // The queue has room for one item: the thread may have sent its last result and not yet be waiting for more.
        let (sender, queue): (_, Receiver<Work>) = sync_channel(1);
        let run = move || queue.iter().for_each(|work| work());
        let thread = std::thread::Builder::new().name("disk".to_owned());
        thread.spawn(run).is_ok().then_some(sender)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn work_that_hangs_delays_nobody_and_work_that_does_not_is_done() {
        assert_eq!(run(|| 1), Some(1));
        let (resume, hang) = channel::<()>();
        let started = Instant::now();
        // The first call hangs, the second waits behind it, the others are refused at once.
        assert_eq!(run(move || hang.recv().is_ok()), None);
        for _ in 0..100 {
            assert_eq!(run(|| 2), None);
        }
        assert!(started.elapsed() < Duration::from_secs(5));
        resume.send(()).expect("it hangs");
        let works = || (started.elapsed() < Duration::from_secs(60)).then(|| run(|| 3));
        while works().expect("it does not go on") != Some(3) {}
    }
}
