//! Work on threads that end within one operation: the hashing of bytes while they are written, and syncs and copies of many files at once.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, TrySendError};
use std::thread;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// The fewest bytes for which another thread is worth its start.
const LEAST_BYTES: usize = 256 << 10;
/// The syncs at once. The kernel answers all that wait with one write of the journal and one flush of the disk.
const MOST_SYNCS: usize = 16;
/// The threads that copy the files of one operation: enough for the kernel to create several at once, few enough to leave the machine to
/// its tasks.
const MOST_COPIERS: usize = 4;
/// The items that wait for a thread of [`copy_while`].
const MOST_QUEUED: usize = 64;

/// Adds bytes to a hash, and does `work` meanwhile.
pub fn hash_during<T>(hasher: &mut Sha256, bytes: &[u8], work: impl FnOnce() -> T) -> T {
    if bytes.len() < LEAST_BYTES {
        hasher.update(bytes);
        return work();
    }
    thread::scope(|scope| {
        let mut other = hasher.clone();
        let hashing = thread::Builder::new().spawn_scoped(scope, move || {
            other.update(bytes);
            other
        });
        let result = work();
        match hashing.map(thread::ScopedJoinHandle::join) {
            Ok(Ok(hashed)) => *hasher = hashed,
            Ok(Err(panic)) => resume_unwind(panic),
            // No thread is free.
            Err(_) => hasher.update(bytes),
        }
        result
    })
}

/// Syncs each item, many at once. The results are in any order.
pub fn sync_all<T: Send, R: Send>(items: Vec<T>, sync: impl Fn(T) -> R + Sync) -> Vec<R> {
    on_threads(MOST_SYNCS, items, sync)
}

/// Copies each item, a few at once. The results are in any order.
pub fn copy_all<T: Send, R: Send>(items: Vec<T>, copy: impl Fn(T) -> R + Sync) -> Vec<R> {
    on_threads(copiers(), items, copy)
}

/// Returns the number of threads of one operation that copies many files.
fn copiers() -> usize {
    thread::available_parallelism().map_or(1, |cores| cores.get().min(MOST_COPIERS))
}

fn on_threads<T: Send, R: Send>(
    most: usize,
    items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = items.len().min(most);
    let queue = Mutex::new(items.into_iter());
    let next = || queue.lock().next();
    let work = || std::iter::from_fn(next).map(&work).collect::<Vec<R>>();
    thread::scope(|scope| {
        let start = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads).map_while(start).collect();
        let mut results = work();
        for other in others {
            match other.join() {
                Ok(more) => results.extend(more),
                Err(panic) => resume_unwind(panic),
            }
        }
        results
    })
}

/// Copies items on other threads while `make` makes them. `make` passes each one to the function that it gets, which helps to copy if the
/// others are behind. Returns the first error, after which the rest is dropped; all threads have ended then. `bytes` is the size of the
/// whole work: for little of it no thread is started.
pub fn copy_while<T: Send, E: Send>(
    bytes: u64,
    copy: impl Fn(T) -> Result<(), E> + Sync,
    make: impl FnOnce(&mut dyn FnMut(T) -> Result<(), E>) -> Result<(), E>,
) -> Result<(), E> {
    let failure = Mutex::new(None);
    let is_over = AtomicBool::new(false);
    let end = |error: E| {
        failure.lock().get_or_insert(error);
        is_over.store(true, Ordering::Relaxed);
    };
    let others = match bytes < LEAST_BYTES as u64 {
        true => 0,
        false => copiers() - 1,
    };
    // No item waits if there are no other threads.
    let (sender, receiver) = mpsc::sync_channel(others.min(1) * MOST_QUEUED);
    let receiver = Mutex::new(receiver);
    let next = || receiver.lock().recv().ok();
    // Items are received to the end, so that the maker never waits for ever.
    let copy_one = |item: T| {
        if !is_over.load(Ordering::Relaxed)
            && let Err(error) = copy(item)
        {
            end(error);
        }
    };
    let work = || std::iter::from_fn(next).for_each(copy_one);
    thread::scope(|scope| {
        let sender = sender;
        for _ in 0..others {
            // The maker does all of the work if no thread is free.
            let _ = thread::Builder::new().spawn_scoped(scope, work);
        }
        let mut pass = |item: T| {
            match sender.try_send(item) {
                Ok(()) => {}
                Err(TrySendError::Full(item) | TrySendError::Disconnected(item)) => copy_one(item),
            }
            failure.lock().take().map_or(Ok(()), Err)
        };
        let made = make(&mut pass);
        if let Err(error) = made {
            end(error);
        }
        drop(sender);
        work();
    });
    failure.into_inner().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_all_bytes() {
        let bytes: Vec<u8> = (0..3 * LEAST_BYTES).map(|n| (n % 251) as u8).collect();
        let mut hasher = Sha256::new();
        let mut seen = Vec::new();
        for part in [&bytes[..10], &bytes[10..LEAST_BYTES], &bytes[LEAST_BYTES..]] {
            let count = hash_during(&mut hasher, part, || {
                seen.extend_from_slice(part);
                part.len()
            });
            assert_eq!(count, part.len());
        }
        assert_eq!(hasher.finalize(), Sha256::digest(&bytes));
        assert_eq!(seen, bytes);
    }

    #[test]
    fn each_item_is_synced_once() {
        for count in [0, 1, 2, 100] {
            let mut results = sync_all((0..count).collect(), |number| number + 1);
            results.sort_unstable();
            assert_eq!(results, (1..=count).collect::<Vec<i32>>());
        }
    }

    #[test]
    fn each_item_is_copied_once_whatever_the_number_of_threads() {
        for bytes in [0, u64::MAX] {
            let copied = Mutex::new(Vec::new());
            let copy = |number: u32| {
                copied.lock().push(number);
                Ok::<(), ()>(())
            };
            let made = copy_while(bytes, copy, |pass| (0..1000).try_for_each(pass));
            assert_eq!(made, Ok(()));
            let mut copied = copied.into_inner();
            copied.sort_unstable();
            assert_eq!(copied, (0..1000).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn the_first_error_ends_the_making_and_the_copies() {
        for bytes in [0, u64::MAX] {
            let copy = |number: u64| match number {
                10 => Err(number),
                _ => Ok(()),
            };
            let mut made = 0_u64;
            let result = copy_while(bytes, copy, |pass| {
                loop {
                    made += 1;
                    pass(made)?;
                }
            });
            assert_eq!(result, Err(10));
            let copies = AtomicBool::new(false);
            let copy = |()| {
                copies.store(true, Ordering::Relaxed);
                Ok(())
            };
            assert_eq!(copy_while(bytes, copy, |_| Err(7)), Err(7));
            assert!(!copies.into_inner());
        }
    }
}
