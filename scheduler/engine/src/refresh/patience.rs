//! How long a node table on its way is kept out by what arrives meanwhile: not for ever.
//!
//! Most of what is done of a table stays done whatever arrives: its rows, its indexes, and the columns of jobs that stay as they are.
//! The rest may have to be done again after each save, so if saves come in every turn and it does not fit in one, it is never done. A
//! longer slice is the only way out. In the end it is as long as what one turn's arrivals undo takes, which was done in force in that
//! turn as well, and at once.

use crate::work::Work;

/// So many slices in vain make the next ones twice as long: a few saves at the end of a refresh change nothing, and of what takes a
/// thousand slices a save a turn keeps a table out for forty turns.
const TURNS_A_DOUBLING: u32 = 4;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// Something has arrived since the last slice that undid some of what there was.
    undone: bool,
    /// The last slice did something that nothing can undo.
    progress: bool,
    /// Slices after which nothing was done that had not been done before.
    in_vain: u32,
}

impl Patience {
    /// Some of what was done must be done again.
    pub(crate) fn undo(&mut self) {
        self.undone = true;
    }

    /// All of it.
    pub(crate) fn undo_all(&mut self) {
        self.undone = true;
        self.progress = false;
    }

    /// Something is done for good. There is no more of this than the table, the jobs and the levels have, whatever arrives.
    pub(crate) fn note_progress(&mut self) {
        self.progress = true;
    }

    /// A slice begins: gives it the length that it needs.
    pub(crate) fn begin_slice(&mut self, work: &mut Work) {
        if std::mem::take(&mut self.undone) && !self.progress {
            self.in_vain = self.in_vain.saturating_add(1);
        }
        self.progress = false;
        work.double(self.in_vain / TURNS_A_DOUBLING);
    }

    /// A table has come in force.
    pub(crate) fn table_is_in_force(&mut self) {
        self.in_vain = 0;
    }
}
