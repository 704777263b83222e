//! Limits how long arriving events can keep a node table from coming into force.
//!
//! Most work of a refresh stays valid whatever arrives: rows, indexes, and the columns of unchanged jobs. The rest may have to be redone
//! after each save. If saves come in every turn and the rest does not fit into one slice, it never completes. Only a longer slice helps.
//! Once nothing else is left, a slice gets at most about twice as long as the work that one turn's events undo. The same turn also computed
//! these columns in force, at once. A check of each job and gate, and the freeing of lost columns, come on top. If each turn brings other
//! levels or another node order, that work is the whole table. While columns are lost again in every turn, slices get longer during other
//! work, too, so the remaining work also bounds them.

use crate::work::WorkBudget;

/// Number of slices in vain that doubles the length of the next ones. A few saves at the end of a refresh change nothing. A save in every
/// turn delays a table of a thousand slices by forty turns.
const TURNS_A_DOUBLING: u32 = 4;

/// Progress of the last slice, without progress that was undone in a way that can repeat.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SliceProgress {
    #[default]
    None,
    /// Columns of jobs that were added during the refresh. Such work is endless if more are added in every turn.
    Added,
    /// Work that the sizes of the table, the jobs and the levels bound, whatever arrives.
    Lasting,
}

/// The work that is lost when columns of some jobs no longer hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The progress of the pass over all jobs, and columns of jobs that had not changed before. Each job causes such a loss only once.
    Once,
    /// The same, and there is more work because jobs were added.
    Added,
    /// Columns of jobs that had changed before. Such losses may repeat without end.
    Again,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SliceLength {
    /// Whether an event since the last slice undid some work, if only the progress of a pass over all jobs.
    undone: bool,
    /// Whether work was undone since the last slice began that may be undone as often as it is done.
    lost: bool,
    progress: SliceProgress,
    /// Number of slices that did nothing new.
    in_vain: u32,
}

impl SliceLength {
    /// Notes that work must be redone. It does not count as progress, or it was lost for the first time, which happens only so often.
    pub(crate) fn undo(&mut self) {
        self.undone = true;
    }

    /// Notes that all work, or work that was redone for an earlier event, must be redone.
    pub(crate) fn undo_again(&mut self) {
        self.lost = true;
    }

    /// Notes that columns of some jobs no longer hold.
    pub(crate) fn lose(&mut self, loss: Loss) {
        match loss {
            Loss::Once => {}
            Loss::Added => self.undo_by_adding(),
            Loss::Again => self.undo_again(),
        }
    }

    /// Returns the number of slices that did nothing new.
    #[cfg(test)]
    pub(crate) fn in_vain(&self) -> u32 {
        self.in_vain
    }

    /// Notes that jobs were added.
    fn undo_by_adding(&mut self) {
        self.undone = true;
        match self.progress {
            SliceProgress::Added => self.progress = SliceProgress::None,
            SliceProgress::None | SliceProgress::Lasting => {}
        }
    }

    pub(crate) fn note_progress(&mut self, progress: SliceProgress) {
        self.progress = self.progress.max(progress);
    }

    /// Begins a slice and extends its budget as needed.
    ///
    /// Every table comes into force, whatever arrives. Work that counts as progress ends, unless it is undone again or jobs are added again
    /// and again. Each turn in which that happens counts as one in vain.
    pub(crate) fn begin_slice(&mut self, work: &mut WorkBudget) {
        let undone = std::mem::take(&mut self.undone);
        let lost = std::mem::take(&mut self.lost);
        let progress = std::mem::take(&mut self.progress);
        if lost || (undone && progress == SliceProgress::None) {
            self.in_vain = self.in_vain.saturating_add(1);
        }
        work.double(self.in_vain / TURNS_A_DOUBLING);
    }

    /// Notes that a table has come into force.
    pub(crate) fn table_is_in_force(&mut self) {
        self.in_vain = 0;
    }
}
