//! Budgets for work in slices, and memory release in slices: the kernel takes milliseconds to take back a column of ten million nodes.

/// The budget of one slice of work, in nanoseconds.
///
/// Each step is charged what it costs with ten million nodes and a cold cache. So most slices take less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WorkBudget {
    left: u64,
    whole: u64,
}

impl WorkBudget {
    pub(crate) fn new(nanos: u64) -> Self {
        WorkBudget {
            left: nanos,
            whole: nanos,
        }
    }

    /// Returns a budget without a limit.
    pub(crate) fn endless() -> Self {
        WorkBudget::new(u64::MAX)
    }

    /// Doubles the budget `times` times.
    pub(crate) fn double(&mut self, times: u32) {
        let factor = 1_u64.checked_shl(times).unwrap_or(u64::MAX);
        self.left = self.left.saturating_mul(factor);
        self.whole = self.whole.saturating_mul(factor);
    }

    pub(crate) fn is_left(self) -> bool {
        self.left > 0
    }

    /// Returns whether an indivisible step may run: it fits, or nothing has been spent in this slice.
    pub(crate) fn has_room_for(self, nanos: u64) -> bool {
        self.left >= nanos || self.left == self.whole
    }

    /// Deducts the cost of a step, which may exceed the rest of the budget.
    pub(crate) fn spend(&mut self, nanos: u64) {
        self.left = self.left.saturating_sub(nanos);
    }
}

/// Bytes that are given back in one step.
const PIECE_BYTES: usize = 1 << 20;
/// Nanoseconds that the kernel takes for 256 pages, with some reserve for memory that had to be moved.
pub(crate) const PIECE_COST: u64 = 250_000;

/// Bytes that are written in one step. This crate's tests write few, so that small tables also need several steps.
const FILLED_BYTES: usize = if cfg!(test) { 16 } else { 1 << 18 };
/// Nanoseconds for a byte. The kernel clears a huge page of 2 MiB at its first write, which takes two milliseconds on slow memory.
const BYTE_COST: u64 = 1;

/// Bytes of a page that the kernel clears as a whole.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Returns the cost of the first write to `bytes` of untouched memory.
pub(crate) fn cost_to_touch(bytes: usize) -> u64 {
    BYTE_COST * bytes.min(HUGE_PAGE) as u64
}

/// Extends a vector to `len` elements with `value`, step by step, because recycled memory must be written. Returns whether the length is
/// reached.
pub(crate) fn fill<T: Copy>(
    vector: &mut Vec<T>,
    len: usize,
    value: T,
    work: &mut WorkBudget,
) -> bool {
    let piece = (FILLED_BYTES / size_of::<T>()).max(1);
    // Reserves everything at once, because growing would copy the elements.
    vector.reserve_exact(len.saturating_sub(vector.len()));
    while vector.len() < len {
        if !work.is_left() {
            return false;
        }
        if vector.is_empty() {
            // The vector may begin shortly before a page boundary, so the clearing of one more page is charged.
            work.spend(cost_to_touch(len * size_of::<T>()));
        }
        let end = len.min(vector.len() + piece);
        work.spend(BYTE_COST * ((end - vector.len()) * size_of::<T>()) as u64);
        vector.resize(end, value);
    }
    true
}

/// Gives the memory of a vector back, from its end. Returns whether all of it is gone.
pub(crate) fn shed<T>(vector: &mut Vec<T>, work: &mut WorkBudget) -> bool {
    let piece = (PIECE_BYTES / size_of::<T>()).max(1);
    while vector.capacity() > piece {
        if !work.is_left() {
            return false;
        }
        work.spend(PIECE_COST);
        let kept = vector.len().min(vector.capacity() - piece);
        vector.truncate(kept);
        vector.shrink_to(vector.capacity() - piece);
    }
    work.spend(cost_to_shed(vector.capacity() * size_of::<T>()));
    *vector = Vec::new();
    true
}

/// Returns the cost of [`shed`] for `bytes`.
pub(crate) fn cost_to_shed(bytes: usize) -> u64 {
    PIECE_COST * bytes as u64 / PIECE_BYTES as u64
}

/// Does the same as [`shed`] for text.
pub(crate) fn shed_text(text: &mut String, work: &mut WorkBudget) -> bool {
    while text.capacity() > PIECE_BYTES {
        if !work.is_left() {
            return false;
        }
        work.spend(PIECE_COST);
        let mut kept = text.len().min(text.capacity() - PIECE_BYTES);
        while !text.is_char_boundary(kept) {
            kept -= 1;
        }
        text.truncate(kept);
        text.shrink_to(text.capacity() - PIECE_BYTES);
    }
    *text = String::new();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_vector_comes_piece_by_piece() {
        let piece = FILLED_BYTES / size_of::<u32>();
        let (mut vector, mut slices) = (vec![3_u32], 0);
        while !fill(&mut vector, 3 * piece, 7, &mut WorkBudget::new(1)) {
            slices += 1;
            assert_eq!(vector.len(), 1 + slices * piece);
        }
        assert_eq!((slices, vector.len(), vector[0]), (2, 3 * piece, 3));
        assert!(vector[1..].iter().all(|n| *n == 7));
        assert!(
            fill(&mut vector, 1, 8, &mut WorkBudget::new(1)),
            "it is longer"
        );
    }

    #[test]
    fn a_long_vector_goes_piece_by_piece() {
        let mut vector = vec![7_u32; 1 << 20];
        let mut slices = 0;
        while !shed(&mut vector, &mut WorkBudget::new(1)) {
            slices += 1;
            assert!(vector.iter().all(|n| *n == 7));
        }
        assert_eq!((slices, vector.capacity()), (2, 0));
    }
}
