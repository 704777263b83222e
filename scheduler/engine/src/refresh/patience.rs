//! How long a node table on its way is kept out by what arrives meanwhile: not for ever.
//!
//! Most of what is done of a table stays done whatever arrives: its rows, its indexes, and the columns of jobs that stay as they are.
//! The rest may have to be done again after each save, so if saves come in every turn and it does not fit in one, it is never done. A
//! longer slice is the only way out. Once nothing else is left to do, it gets at most about twice as long as what one turn's arrivals
//! undo takes. Of that the columns were computed in force in that turn as well, and at once; with them go a look at each job and each
//! gate, and what arrivals leave to be freed. If each turn brings other levels or another order, it is the whole table. And as long as
//! columns are lost again in every turn, slices get longer while other work goes on, too: so what is left bounds them as well.

use crate::work::Work;

/// So many slices in vain make the next ones twice as long: a few saves at the end of a refresh change nothing, and of what takes a
/// thousand slices a save a turn keeps a table out for forty turns.
const TURNS_A_DOUBLING: u32 = 4;

/// What the last slice has done beside looking, as far as it was not undone in a way that can be repeated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Progress {
    #[default]
    None,
    /// Columns of jobs that were added meanwhile: there is no end of it if more are added in every turn.
    Added,
    /// There is no more of this than the table, the jobs and the levels have, whatever arrives.
    Lasting,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    /// Something has arrived since the last slice that undid some of what there was, if only how far a look at all jobs had come.
    undone: bool,
    /// Since the last slice began something was undone that may be undone as often as it is done.
    lost: bool,
    progress: Progress,
    /// Slices after which nothing was done that had not been done before.
    pub(crate) in_vain: u32,
}

impl Patience {
    /// Some of what was done must be done again, but not what counts as progress; or it was lost for the first time, and there are
    /// only so many first times.
    pub(crate) fn undo(&mut self) {
        self.undone = true;
    }

    /// What had to be done again for an earlier arrival, or all of it, must be done again.
    pub(crate) fn undo_again(&mut self) {
        self.lost = true;
    }

    /// Jobs were added.
    pub(super) fn undo_by_adding(&mut self) {
        self.undone = true;
        match self.progress {
            Progress::Added => self.progress = Progress::None,
            Progress::None | Progress::Lasting => {}
        }
    }

    pub(super) fn note_progress(&mut self, progress: Progress) {
        self.progress = self.progress.max(progress);
    }

    /// A slice begins: gives it the length that it needs.
    ///
    /// Whatever arrives, a table comes in force: work that counts as progress comes to an end, unless it is undone again or jobs are
    /// added again and again, and each turn in which that makes it endless is one in vain.
    pub(crate) fn begin_slice(&mut self, work: &mut Work) {
        let undone = std::mem::take(&mut self.undone);
        let lost = std::mem::take(&mut self.lost);
        let progress = std::mem::take(&mut self.progress);
        if lost || (undone && progress == Progress::None) {
            self.in_vain = self.in_vain.saturating_add(1);
        }
        work.double(self.in_vain / TURNS_A_DOUBLING);
    }

    /// A table has come in force.
    pub(crate) fn table_is_in_force(&mut self) {
        self.in_vain = 0;
    }
}
