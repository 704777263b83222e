//! One job: what the configuration makes of it, its tasks' last statuses, and small columns over the nodes of its level.

use std::sync::OnceLock;

use brasserie_common::{JobId, NodeId, StatusBits};
use brasserie_common_config::{JobConfig, LevelId, ResourceId, Shared};

use crate::forest::filter::JobFilters;
use crate::placement::bit_tree::BitTree;
use crate::statuses::column::Statuses;
use crate::statuses::gate::Gate;
use crate::statuses::tally::Tally;
use crate::types::{TASK_STATES, TaskState};

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

#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// `None`: it is not configured, and its name is known for other reasons.
    pub(crate) config: Option<Shared<JobConfig>>,
    pub(crate) level: Option<LevelId>,
    pub(crate) can_run: bool,
    pub(crate) filters: JobFilters,
    /// Why a filter cannot be used.
    pub(crate) filter_problems: Vec<String>,
    /// Position in the pool's demands.
    pub(crate) demand: usize,
    /// A resource of the path that no node has enough of.
    pub(crate) unmeetable: Option<ResourceId>,
    /// `unmeetable`, or no worker could ever serve it.
    pub(crate) infeasible: bool,
    pub(crate) depends_on: Vec<JobId>,
    pub(crate) dependents: Vec<JobId>,
    /// Jobs all of whose tasks must be done before one of this job starts.
    pub(crate) after_all: Vec<JobId>,
    /// Jobs that have this one in `after_all`.
    pub(crate) followers: Vec<JobId>,
    /// Nothing of the job starts unless it is open. Follows `after_all`.
    pub(crate) gate: Gate,
    /// What `followers` were told last.
    pub(crate) seen_as: Gate,
    /// Its tasks run on workers of the host that is named as the node above them of this level.
    pub(crate) host_level: Option<LevelId>,
    /// It depends on itself, by whatever way round.
    pub(crate) cyclic: bool,
    /// What the last run of each task ended in.
    pub(crate) statuses: Statuses,
    /// How many tasks run, also on nodes that are no longer in the forest.
    pub(crate) running: u32,
    /// One byte a position of the level's order. Invariant: `counts` and `eligible` count what is in it.
    states: Vec<u8>,
    counts: [u64; TASK_STATES],
    pub(crate) eligible: u32,
    /// Positions of eligible tasks that may fit. An eligible task is in here or in a wait list; or in both, if it was the first in
    /// the list and has been called to have a look.
    pub(crate) ready: BitTree,
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

impl Job {
    /// Some job waits for this one, node by node or as a whole.
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.dependents.is_empty() || !self.followers.is_empty()
    }

    /// Forgets the columns; `len` positions, all to be set.
    pub(crate) fn reset_columns(&mut self, len: usize) {
        self.states = vec![TaskState::Unstarted as u8; len];
        self.counts = [0; TASK_STATES];
        self.counts[TaskState::Unstarted as usize] = len as u64;
        self.eligible = 0;
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

    pub(crate) fn is_done_on(&self, node: NodeId) -> bool {
        let bits = self.statuses.bits(node);
        bits.is_some_and(|bits| bits.has(StatusBits::DONE))
    }
}
