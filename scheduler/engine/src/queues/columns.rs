//! One job's columns over the nodes of its level: the state of each task, and which tasks may be tried.

use std::sync::OnceLock;

use super::gates::{Gate, WAITING};
use super::tally::Tally;
use crate::bit_tree::BitTree;
use crate::types::{TASK_STATES, TaskState};
use crate::work::{WorkBudget, fill, shed};

/// Flag of a state byte: the task lacks nothing but slots.
const ELIGIBLE: u8 = 0x80;
/// Flag of a state byte: the task waits for slots of its own node.
const PARKED_HERE: u8 = 0x40;
/// Flag of a state byte: the task waits for slots of a node above, or for a host.
const PARKED_ABOVE: u8 = 0x20;
const STATE: u8 = 0x1f;

/// Where a task waits. A task with replicas may wait at both places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parked {
    Here,
    Above,
}

/// The data of a job that follows from a forest. While a new forest is built, each job has a second set of columns for it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// One byte for each position of the level's order. Invariant: `counts` and `eligible` count its contents.
    states: Vec<u8>,
    counts: [u64; TASK_STATES],
    pub eligible: u32,
    /// Positions of eligible tasks that may fit. An eligible task is in here or in a wait list. It is in both after it was woken as the
    /// first of its list.
    pub ready: BitTree,
    /// All positions are set, and have been kept up to date since.
    pub are_whole: bool,
    /// No task of the job starts unless the gate is open. Follows from `Job::after_all` and the columns of those jobs.
    pub gate: Gate,
    /// The job's own gate as `Job::followers` saw it last.
    pub seen_as: Gate,
    /// Present if a histogram was requested since the columns were computed.
    pub tally: OnceLock<Box<Tally>>,
}

impl Parked {
    fn flag(self) -> u8 {
        match self {
            Parked::Here => PARKED_HERE,
            Parked::Above => PARKED_ABOVE,
        }
    }
}

impl Columns {
    /// Extends columns without positions to `len` unset positions, step by step. Returns whether the length is reached. The positions that
    /// exist can be set meanwhile.
    pub(crate) fn make_room(&mut self, len: usize, work: &mut WorkBudget) -> bool {
        // The ready set comes first, because nothing is ready while there are no positions.
        if !self.ready.make_room(len, work) {
            return false;
        }
        let before = self.states.len();
        let is_enough = fill(&mut self.states, len, TaskState::Unstarted as u8, work);
        self.counts[TaskState::Unstarted as usize] += (self.states.len() - before) as u64;
        is_enough
    }

    /// Returns the number of positions.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn state(&self, position: u32) -> TaskState {
        TaskState::from_u8(self.states[position as usize] & STATE)
    }

    pub(crate) fn is_eligible(&self, position: u32) -> bool {
        self.states[position as usize] & ELIGIBLE != 0
    }

    /// Returns whether the task is in a wait list.
    pub(crate) fn is_parked(&self, position: u32) -> bool {
        self.states[position as usize] & (PARKED_HERE | PARKED_ABOVE) != 0
    }

    pub(crate) fn is_parked_at(&self, position: u32, place: Parked) -> bool {
        self.states[position as usize] & place.flag() != 0
    }

    pub(crate) fn set_parked(&mut self, position: u32, place: Parked) {
        self.states[position as usize] |= place.flag();
    }

    pub(crate) fn clear_parked(&mut self, position: u32) {
        self.states[position as usize] &= !(PARKED_HERE | PARKED_ABOVE);
    }

    /// Marks every eligible task ready, and none as waiting in a list.
    pub(crate) fn requeue(&mut self) {
        for position in 0..self.states.len() {
            self.states[position] &= !(PARKED_HERE | PARKED_ABOVE);
            if self.states[position] & ELIGIBLE != 0 {
                self.ready.insert(position);
            }
        }
    }

    /// Returns the previous state.
    pub(crate) fn set_state(&mut self, position: u32, state: TaskState) -> TaskState {
        let before = self.state(position);
        if before != state {
            self.counts[before as usize] -= 1;
            self.counts[state as usize] += 1;
            let byte = &mut self.states[position as usize];
            *byte = (*byte & !STATE) | state as u8;
        }
        before
    }

    pub(crate) fn set_eligible(&mut self, position: u32) {
        let byte = &mut self.states[position as usize];
        if *byte & ELIGIBLE == 0 {
            *byte |= ELIGIBLE;
            self.eligible += 1;
        }
    }

    pub(crate) fn clear_eligible(&mut self, position: u32) {
        let byte = &mut self.states[position as usize];
        if *byte & ELIGIBLE != 0 {
            *byte &= !ELIGIBLE;
            self.eligible -= 1;
        }
    }

    pub(crate) fn count(&self, state: TaskState) -> u64 {
        self.counts[state as usize]
    }

    pub(crate) fn count_all(&self, states: &[TaskState]) -> u64 {
        states.iter().map(|state| self.count(*state)).sum()
    }

    /// Returns a task's state as other components see it. A hopeless gate makes waiting tasks `Never` without a change of the columns.
    pub(crate) fn shown_state(&self, position: u32) -> TaskState {
        match self.state(position) {
            state if self.gate == Gate::Hopeless && WAITING.contains(&state) => TaskState::Never,
            state => state,
        }
    }

    /// Takes out everything except the gates.
    pub(crate) fn take_out(&mut self) -> Columns {
        let rest = Columns {
            gate: self.gate,
            seen_as: self.seen_as,
            ..Columns::default()
        };
        std::mem::replace(self, rest)
    }

    /// Gives the memory back, step by step. Returns whether all of it is gone.
    pub(crate) fn shed(&mut self, work: &mut WorkBudget) -> bool {
        let mut tally = self.tally.get_mut();
        tally.as_mut().is_none_or(|tally| tally.shed(work))
            && self.ready.shed(work)
            && shed(&mut self.states, work)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_piece_by_piece_and_those_that_are_there_can_be_set() {
        const LEN: usize = 1000;
        let mut columns = Columns::default();
        let (mut slices, mut set) = (1, 0);
        while !columns.make_room(LEN, &mut WorkBudget::new(1)) {
            slices += 1;
            let len = columns.len();
            assert!(len < LEN);
            if len > 0 {
                columns.set_state(len as u32 - 1, TaskState::Done);
                columns.set_eligible(len as u32 - 1);
                columns.ready.insert(len - 1);
                set += 1;
            }
        }
        assert!(slices > LEN / 20 && set > LEN / 20, "{slices}, {set}");
        assert_eq!(columns.len(), LEN);
        assert_eq!(columns.count(TaskState::Done), set as u64);
        assert_eq!(columns.count(TaskState::Unstarted), (LEN - set) as u64);
        assert_eq!(columns.ready.iter().count(), set);
        let mut empty = BitTree::default();
        while !empty.make_room(LEN * LEN, &mut WorkBudget::new(1)) {}
        assert_eq!(empty, BitTree::with_room(LEN * LEN));
        assert!(
            empty.make_room(LEN, &mut WorkBudget::new(1)),
            "there is more"
        );
    }
}
