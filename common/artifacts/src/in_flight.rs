//! The operations that disks perform now, by which a disk that hangs is noticed without a wait for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::catalog::DiskNumber;

/// A table of the operations in flight. One operation is a short sequence of system calls, with at most some hundred megabytes.
pub struct DiskOperations {
    /// The time after which an operation shows that its disk hangs.
    limit: Duration,
    operations: Mutex<Operations>,
}

#[derive(Default)]
struct Operations {
    begun_so_far: u64,
    begun: BTreeMap<u64, (DiskNumber, Instant)>,
}

/// An operation in flight. Its end removes it from the table.
pub struct OperationTicket<'a> {
    table: &'a DiskOperations,
    number: u64,
}

impl DiskOperations {
    pub fn new(limit: Duration) -> Self {
        let operations = Mutex::default();
        DiskOperations { limit, operations }
    }

    pub fn begin(&self, disk: DiskNumber) -> OperationTicket<'_> {
        let mut operations = self.operations.lock();
        operations.begun_so_far += 1;
        let number = operations.begun_so_far;
        operations.begun.insert(number, (disk, Instant::now()));
        OperationTicket {
            table: self,
            number,
        }
    }

    /// Returns the disks with an operation that has reached the limit.
    pub fn hung(&self) -> BTreeSet<DiskNumber> {
        let operations = self.operations.lock();
        let late = operations
            .begun
            .values()
            .filter(|(_, since)| since.elapsed() >= self.limit);
        late.map(|(disk, _)| *disk).collect()
    }
}

impl Drop for OperationTicket<'_> {
    fn drop(&mut self) {
        self.table.operations.lock().begun.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_hangs_while_an_operation_is_late() {
        let table = DiskOperations::new(Duration::ZERO);
        let ticket = table.begin(DiskNumber(1));
        assert_eq!(table.hung(), BTreeSet::from([DiskNumber(1)]));
        drop(ticket);
        assert_eq!(table.hung(), BTreeSet::new());
        let table = DiskOperations::new(Duration::from_secs(3600));
        let _ticket = table.begin(DiskNumber(1));
        assert_eq!(table.hung(), BTreeSet::new());
    }
}
