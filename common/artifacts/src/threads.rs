//! Work on threads that end within one operation: the hashing of bytes while they are written, and syncs of many files at once.

use std::panic::resume_unwind;
use std::thread;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};

/// The fewest bytes for which another thread is worth its start.
const LEAST_BYTES: usize = 256 << 10;
/// The syncs at once. The kernel answers all that wait with one write of the journal and one flush of the disk.
const MOST_SYNCS: usize = 16;

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
    let threads = items.len().min(MOST_SYNCS);
    let queue = Mutex::new(items.into_iter());
    let next = || queue.lock().next();
    let work = || std::iter::from_fn(next).map(&sync).collect::<Vec<R>>();
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
}
