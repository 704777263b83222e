//! The states of a worker that drains, and the events by which an operator changes them, as far as the lists of workers depend on them.
//!
//! A worker reports its state. Orders of operators, and the waits before a worker exits, are elsewhere: they are the scheduler's.

/// A wish of an operator about a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainEvent {
    /// Exit when running tasks are done. The data stay, and the worker is expected to return.
    Graceful,
    /// Exit when no data are left.
    Decommission,
    /// Become idle when no data are left.
    DecommissionThenIdle,
    /// Accept work again.
    Recommission,
    /// Exit at once.
    Immediately,
}

impl DrainEvent {
    pub const ALL: [DrainEvent; 5] = [
        DrainEvent::Graceful,
        DrainEvent::Decommission,
        DrainEvent::DecommissionThenIdle,
        DrainEvent::Recommission,
        DrainEvent::Immediately,
    ];

    /// Returns true if a worker in this state has nothing left to do for the event. Events that end the worker are done only when it has
    /// registered again.
    pub fn is_done_in(self, state: DrainState) -> bool {
        match self {
            DrainEvent::DecommissionThenIdle => state == DrainState::Idle,
            DrainEvent::Recommission => state == DrainState::Normal,
            DrainEvent::Graceful | DrainEvent::Decommission | DrainEvent::Immediately => false,
        }
    }
}

/// The life-cycle state of a worker.
///
/// ```text
/// Normal --(DecommissionThenIdle)--> DecommissioningThenIdle --no data are left--> Idle
///   ^                                           |                                   |
///   '--------------(Recommission)---------------+-----------------------------------'
///
/// Normal, DecommissioningThenIdle, Idle
///   |--(Graceful)------> GracefulExit ----no open artifact, or 480 s--.
///   |--(Decommission)--> Decommissioning --no data are left, or 6 h---+--> Exited
///   '--(Immediately)---> ImmediateExit -------------------------------'
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DrainState {
    /// The worker accepts tasks and artifacts.
    Normal,
    /// The worker has no data, accepts none, and waits to be recommissioned or ended.
    Idle,
    /// The worker is about to end its process, or has ended it.
    Exited,
    /// The worker accepts nothing, and becomes idle when it has no data.
    DecommissioningThenIdle,
    /// The worker accepts nothing, and exits when it has no data.
    Decommissioning,
    /// The worker accepts nothing, and exits when its tasks have written their artifacts.
    GracefulExit,
    /// The worker accepts nothing, and exits after 10 s.
    ImmediateExit,
}

/// The refusal of an event that has no meaning in the worker's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a worker in the state {state:?} cannot carry out {event:?}")]
pub struct EventRefused {
    pub state: DrainState,
    pub event: DrainEvent,
}

impl DrainState {
    pub const ALL: [DrainState; 7] = [
        DrainState::Normal,
        DrainState::Idle,
        DrainState::Exited,
        DrainState::DecommissioningThenIdle,
        DrainState::Decommissioning,
        DrainState::GracefulExit,
        DrainState::ImmediateExit,
    ];

    /// Returns true if the worker is on its way out. Only a new registration ends these states.
    pub fn is_leaving(self) -> bool {
        match self {
            DrainState::Exited
            | DrainState::Decommissioning
            | DrainState::GracefulExit
            | DrainState::ImmediateExit => true,
            DrainState::Normal | DrainState::Idle | DrainState::DecommissioningThenIdle => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_done_in_one_state_or_never() {
        for event in DrainEvent::ALL {
            for state in DrainState::ALL {
                let done = [
                    (DrainEvent::DecommissionThenIdle, DrainState::Idle),
                    (DrainEvent::Recommission, DrainState::Normal),
                ];
                assert_eq!(event.is_done_in(state), done.contains(&(event, state)));
            }
        }
    }
}
