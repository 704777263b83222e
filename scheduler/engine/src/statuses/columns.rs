//! One job's small columns over the nodes of its level: what each task's state is, and which may be tried.

use std::sync::OnceLock;

use crate::placement::bit_tree::BitTree;
use crate::statuses::gate::Gate;
use crate::statuses::tally::Tally;
use crate::types::{TASK_STATES, TaskState};
use crate::work::{Work, shed};

/// Set in a state byte if the task could start but for slots.
const ELIGIBLE: u8 = 0x80;
/// Set in a state byte if the task waits for slots of its own node.
const PARKED_HERE: u8 = 0x40;
/// Set in a state byte if the task waits for slots of a node above, or for a host.
const PARKED_ABOVE: u8 = 0x20;
const STATE: u8 = 0x1f;

/// Where a task waits; with replicas it may be both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parked {
    Here,
    Above,
}

/// What follows of a job from a forest. While a new forest is made, there are columns for it beside those in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns {
    /// One byte a position of the level's order. Invariant: `counts` and `eligible` count what is in it.
    states: Vec<u8>,
    counts: [u64; TASK_STATES],
    pub(crate) eligible: u32,
    /// Positions of eligible tasks that may fit. An eligible task is in here or in a wait list; or in both, if it was the first in
    /// the list and has been called to have a look.
    pub(crate) ready: BitTree,
    /// All is set, and has been kept up to date since.
    pub(crate) are_whole: bool,
    /// Nothing of the job starts unless it is open. Follows `Job::after_all`, and the columns of those jobs.
    pub(crate) gate: Gate,
    /// What `Job::followers` were told last.
    pub(crate) seen_as: Gate,
    /// Only if somebody has asked since the columns were computed.
    pub(crate) tally: OnceLock<Box<Tally>>,
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
    /// Forgets everything but how the job looks as a whole; `len` positions, all to be set.
    pub(crate) fn reset(&mut self, len: usize) {
        self.states = vec![TaskState::Unstarted as u8; len];
        self.counts = [0; TASK_STATES];
        self.counts[TaskState::Unstarted as usize] = len as u64;
        self.eligible = 0;
        self.are_whole = false;
        self.ready = BitTree::with_room(len);
        self.tally = OnceLock::new();
    }

    /// Number of positions.
    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn state(&self, position: u32) -> TaskState {
        TaskState::from_u8(self.states[position as usize] & STATE)
    }

    pub(crate) fn is_eligible(&self, position: u32) -> bool {
        self.states[position as usize] & ELIGIBLE != 0
    }

    /// Whether the task is in a wait list.
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

    /// Every eligible task is ready, and none is in a wait list any more.
    pub(crate) fn requeue(&mut self) {
        for position in 0..self.states.len() {
            self.states[position] &= !(PARKED_HERE | PARKED_ABOVE);
            if self.states[position] & ELIGIBLE != 0 {
                self.ready.insert(position);
            }
        }
    }

    /// Returns the state before.
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

    /// Everything but how the job looks as a whole.
    pub(crate) fn take_out(&mut self) -> Columns {
        let rest = Columns {
            gate: self.gate,
            seen_as: self.seen_as,
            ..Columns::default()
        };
        std::mem::replace(self, rest)
    }

    /// Gives its memory back, little by little; whether all of it is gone.
    pub(crate) fn shed(&mut self, work: &mut Work) -> bool {
        self.tally = OnceLock::new();
        self.ready = BitTree::default();
        shed(&mut self.states, work)
    }
}
