//! The space of one disk: the bytes of artifacts, the bytes that operations have reserved, and the bytes that further artifacts may use.
//!
//! The module performs no input or output. Its free space is the last measured one, corrected by what the store has written since.

/// Free and total bytes of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileSystemSpace {
    pub free: u64,
    pub total: u64,
}

/// The part of a disk's reserve in a small file system: the file system's size divided by this number.
const RESERVE_OF_SMALL_DISK: u64 = 4;

/// Space of one disk.
///
/// Invariant: `used` is the sum of the sizes of the disk's artifacts, `reserved` that of the open reservations, and `unwritten` that of
/// the reserved bytes which are not yet in a file.
#[derive(Clone, Copy, Debug)]
pub struct SpaceAccount {
    capacity: u64,
    reserve: u64,
    file_system: FileSystemSpace,
    used: u64,
    reserved: u64,
    unwritten: u64,
}

/// A part of a disk's space that one new artifact may fill.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reservation {
    pub bytes: u64,
    pub written: u64,
}

impl Reservation {
    fn unwritten(self) -> u64 {
        self.bytes - self.written
    }
}

impl SpaceAccount {
    /// Returns the space of an empty disk. `capacity` is none for the whole file system; `reserve` bytes stay free.
    pub fn new(capacity: Option<u64>, reserve: u64) -> Self {
        SpaceAccount {
            capacity: capacity.unwrap_or(u64::MAX),
            reserve,
            file_system: FileSystemSpace::default(),
            used: 0,
            reserved: 0,
            unwritten: 0,
        }
    }

    pub fn measured(&mut self, file_system: FileSystemSpace) {
        self.file_system = file_system;
    }

    /// Returns the bytes of all artifacts of the disk.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// Returns the most bytes of artifacts that the disk would have if nothing else was on it.
    pub fn total(&self) -> u64 {
        self.capacity.min(self.file_system.total)
    }

    /// Returns the bytes that further artifacts may use.
    pub fn usable(&self) -> u64 {
        let taken = self.used.saturating_add(self.reserved);
        let configured = self.capacity.saturating_sub(taken);
        let kept = self.kept_free().saturating_add(self.unwritten);
        configured.min(self.file_system.free.saturating_sub(kept))
    }

    /// Returns whether the file system has no more free bytes than the reserve.
    pub fn is_nearly_full(&self) -> bool {
        self.file_system.free <= self.kept_free()
    }

    /// Returns whether the file system has fewer free bytes than the reserve and the open reservations need.
    pub fn is_overcommitted(&self) -> bool {
        self.file_system.free < self.kept_free().saturating_add(self.unwritten)
    }

    fn kept_free(&self) -> u64 {
        self.reserve
            .min(self.file_system.total / RESERVE_OF_SMALL_DISK)
    }

    /// Adds bytes to a reservation, which the caller has compared with [`SpaceAccount::usable`].
    pub fn reserve(&mut self, reservation: &mut Reservation, bytes: u64) {
        self.reserved += bytes;
        self.unwritten += bytes;
        reservation.bytes += bytes;
    }

    /// Records that `bytes` of the reservation are in a file now.
    pub fn wrote(&mut self, reservation: &mut Reservation, bytes: u64) {
        assert!(
            bytes <= reservation.unwritten(),
            "Invariant: only reserved bytes are written"
        );
        self.unwritten -= bytes;
        reservation.written += bytes;
        self.file_system.free = self.file_system.free.saturating_sub(bytes);
    }

    /// Ends a reservation whose file is deleted.
    pub fn release(&mut self, reservation: Reservation) {
        self.reserved -= reservation.bytes;
        self.unwritten -= reservation.unwritten();
        self.file_system.free = self.file_system.free.saturating_add(reservation.written);
    }

    /// Ends a reservation whose file is an artifact now.
    pub fn keep(&mut self, reservation: Reservation) {
        self.reserved -= reservation.bytes;
        self.unwritten -= reservation.unwritten();
        self.used += reservation.written;
    }

    /// Adds an artifact that was on the disk when the store opened it.
    pub fn found(&mut self, size: u64) {
        self.used += size;
    }

    pub fn deleted(&mut self, size: u64) {
        self.used -= size;
        self.file_system.free = self.file_system.free.saturating_add(size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(capacity: Option<u64>, reserve: u64, free: u64, total: u64) -> SpaceAccount {
        let mut space = SpaceAccount::new(capacity, reserve);
        space.measured(FileSystemSpace { free, total });
        space
    }

    #[test]
    fn the_tighter_of_capacity_and_free_space_counts() {
        assert_eq!(space(Some(50), 10, 500, 1000).usable(), 50);
        assert_eq!(space(None, 10, 500, 1000).usable(), 490);
        assert_eq!(space(None, 10, 5, 1000).usable(), 0);
        // A quarter of a small file system is its reserve.
        assert_eq!(space(None, 5000, 900, 1000).usable(), 650);
        assert!(space(None, 10, 10, 1000).is_nearly_full());
    }

    #[test]
    fn written_bytes_of_a_reservation_are_not_subtracted_twice() {
        let mut space = space(Some(300), 0, 500, 1000);
        let mut reservation = Reservation::default();
        space.reserve(&mut reservation, 200);
        assert_eq!(space.usable(), 100);
        space.wrote(&mut reservation, 150);
        assert_eq!(space.usable(), 100);
        // Another program has filled the file system.
        space.measured(FileSystemSpace {
            free: 40,
            total: 1000,
        });
        assert_eq!((space.usable(), space.is_overcommitted()), (0, true));
        space.release(reservation);
        assert_eq!((space.usable(), space.used()), (190, 0));
        let mut reservation = Reservation::default();
        space.reserve(&mut reservation, 90);
        space.wrote(&mut reservation, 60);
        space.keep(reservation);
        assert_eq!((space.usable(), space.used()), (130, 60));
        space.deleted(60);
        assert_eq!((space.usable(), space.used()), (190, 0));
    }
}
