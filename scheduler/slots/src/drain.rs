//! The life cycle of a worker that drains: its states, the events that change them, and the waits before it exits.
//!
//! The worker itself is the authority: it applies events, and reports its state. The scheduler's side is
//! [`ArtifactWorkers`](super::ArtifactWorkers).

use std::time::Duration;

use brasserie_common::Time;

/// Time between an event that ends the worker and the earliest exit. The reply to the caller and the last reports leave in this time.
const EXIT_DELAY: Duration = Duration::from_secs(10);
/// Longest wait of a graceful exit for open artifacts. It ends before the 600 s after which an operator expects the process to be gone.
const GRACEFUL_LIMIT: Duration = Duration::from_secs(480);
/// Longest wait of a decommission for the removal or replication of the data: enough for the jobs of most owners to complete.
const DECOMMISSION_LIMIT: Duration = Duration::from_secs(6 * 3600);

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

    /// Returns true if the diagram has an arrow from this state to `next`.
    pub fn can_become(self, next: DrainState) -> bool {
        match self {
            DrainState::Normal => !matches!(
                next,
                DrainState::Normal | DrainState::Idle | DrainState::Exited
            ),
            DrainState::DecommissioningThenIdle => !matches!(
                next,
                DrainState::DecommissioningThenIdle | DrainState::Exited
            ),
            DrainState::Idle => {
                next == DrainState::Normal || next.is_leaving() && next != DrainState::Exited
            }
            DrainState::GracefulExit | DrainState::Decommissioning | DrainState::ImmediateExit => {
                next == DrainState::Exited
            }
            DrainState::Exited => false,
        }
    }

    /// Returns the state that follows an event. Errors if the event has no meaning in this state.
    pub fn after(self, event: DrainEvent) -> Result<DrainState, EventRefused> {
        let next = match event {
            DrainEvent::Graceful => DrainState::GracefulExit,
            DrainEvent::Decommission => DrainState::Decommissioning,
            DrainEvent::DecommissionThenIdle => DrainState::DecommissioningThenIdle,
            DrainEvent::Recommission => DrainState::Normal,
            DrainEvent::Immediately => DrainState::ImmediateExit,
        };
        if self.can_become(next) {
            Ok(next)
        } else {
            Err(EventRefused { state: self, event })
        }
    }
}

/// The data of a draining worker that delay its exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemainingData {
    /// Artifacts that tasks still write.
    pub open_artifacts: usize,
    /// Artifact sets that have data on this worker and not yet elsewhere.
    pub artifact_sets: usize,
}

/// The life cycle of one worker, as the worker keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drain {
    state: DrainState,
    /// Start of the state.
    since: Time,
}

impl Drain {
    /// Starts in `Normal`.
    pub fn new(now: Time) -> Self {
        Drain {
            state: DrainState::Normal,
            since: now,
        }
    }

    pub fn state(&self) -> DrainState {
        self.state
    }

    /// Returns true if the worker accepts tasks and artifacts.
    pub fn accepts_work(&self) -> bool {
        self.state == DrainState::Normal
    }

    /// Applies an event and returns the new state. Errors, without a change, if the event has no meaning in the present state.
    pub fn apply(&mut self, event: DrainEvent, now: Time) -> Result<DrainState, EventRefused> {
        let next = self.state.after(event)?;
        self.enter(next, now);
        Ok(next)
    }

    /// Takes the step that depends on data and time. Returns the new state if there is one.
    pub fn advance(&mut self, remaining: RemainingData, now: Time) -> Option<DrainState> {
        let waited = now.since(self.since);
        let over = |rest: usize, limit: Duration| {
            waited >= EXIT_DELAY && (rest == 0 || waited - EXIT_DELAY >= limit)
        };
        let next = match self.state {
            DrainState::DecommissioningThenIdle => {
                (remaining.artifact_sets == 0).then_some(DrainState::Idle)
            }
            DrainState::GracefulExit => {
                over(remaining.open_artifacts, GRACEFUL_LIMIT).then_some(DrainState::Exited)
            }
            DrainState::Decommissioning => {
                over(remaining.artifact_sets, DECOMMISSION_LIMIT).then_some(DrainState::Exited)
            }
            DrainState::ImmediateExit => over(0, Duration::ZERO).then_some(DrainState::Exited),
            DrainState::Normal | DrainState::Idle | DrainState::Exited => None,
        }?;
        self.enter(next, now);
        Some(next)
    }

    fn enter(&mut self, next: DrainState, now: Time) {
        debug_assert!(self.state.can_become(next), "{:?} -> {next:?}", self.state);
        self.state = next;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::DrainEvent::*;
    use super::DrainState::*;
    use super::*;

    /// Rows: the state, and the states that may follow it. No other transition is allowed.
    const TRANSITIONS: [(DrainState, &[DrainState]); 7] = [
        (
            Normal,
            &[
                GracefulExit,
                ImmediateExit,
                Decommissioning,
                DecommissioningThenIdle,
            ],
        ),
        (
            DecommissioningThenIdle,
            &[Normal, Idle, GracefulExit, ImmediateExit, Decommissioning],
        ),
        (
            Idle,
            &[Normal, GracefulExit, ImmediateExit, Decommissioning],
        ),
        (GracefulExit, &[Exited]),
        (Decommissioning, &[Exited]),
        (ImmediateExit, &[Exited]),
        (Exited, &[]),
    ];

    #[test]
    fn every_pair_of_states_is_allowed_or_refused() {
        let mut pairs = 0;
        for (from, allowed) in TRANSITIONS {
            for to in DrainState::ALL {
                assert_eq!(
                    from.can_become(to),
                    allowed.contains(&to),
                    "{from:?} {to:?}"
                );
                pairs += 1;
            }
        }
        assert_eq!(pairs, 49);
    }

    #[test]
    fn every_event_in_every_state() {
        for (state, rows) in [
            (
                Normal,
                [
                    (Graceful, Some(GracefulExit)),
                    (Decommission, Some(Decommissioning)),
                    (DecommissionThenIdle, Some(DecommissioningThenIdle)),
                    (Recommission, None),
                    (Immediately, Some(ImmediateExit)),
                ],
            ),
            (
                DecommissioningThenIdle,
                [
                    (Graceful, Some(GracefulExit)),
                    (Decommission, Some(Decommissioning)),
                    (DecommissionThenIdle, None),
                    (Recommission, Some(Normal)),
                    (Immediately, Some(ImmediateExit)),
                ],
            ),
            (
                Idle,
                [
                    (Graceful, Some(GracefulExit)),
                    (Decommission, Some(Decommissioning)),
                    (DecommissionThenIdle, None),
                    (Recommission, Some(Normal)),
                    (Immediately, Some(ImmediateExit)),
                ],
            ),
            (GracefulExit, DrainEvent::ALL.map(|event| (event, None))),
            (Decommissioning, DrainEvent::ALL.map(|event| (event, None))),
            (ImmediateExit, DrainEvent::ALL.map(|event| (event, None))),
            (Exited, DrainEvent::ALL.map(|event| (event, None))),
        ] {
            for (event, next) in rows {
                let mut drain = Drain {
                    state,
                    since: Time::ZERO,
                };
                let applied = drain.apply(event, Time::ZERO);
                assert_eq!(
                    applied,
                    next.ok_or(EventRefused { state, event }),
                    "{state:?} {event:?}"
                );
                assert_eq!(drain.state(), next.unwrap_or(state));
            }
        }
    }

    #[test]
    fn events_are_done_in_one_state_or_never() {
        for event in DrainEvent::ALL {
            for state in DrainState::ALL {
                let done = [(DecommissionThenIdle, Idle), (Recommission, Normal)];
                assert_eq!(event.is_done_in(state), done.contains(&(event, state)));
            }
        }
    }

    fn data(open_artifacts: usize, artifact_sets: usize) -> RemainingData {
        RemainingData {
            open_artifacts,
            artifact_sets,
        }
    }

    /// Returns the seconds from the event to the exit, with the remaining data given by second.
    fn exit_after(event: DrainEvent, remaining: impl Fn(u64) -> RemainingData) -> u64 {
        let mut drain = Drain::new(Time::ZERO);
        drain.apply(event, Time::ZERO).unwrap();
        let second = |s| Time::ZERO + Duration::from_secs(s);
        (0..=30_000)
            .find(|&s| drain.advance(remaining(s), second(s)) == Some(Exited))
            .expect("every exit has a limit")
    }

    #[test]
    fn exits_wait_for_their_data_up_to_a_limit() {
        assert_eq!(exit_after(Immediately, |_| data(9, 9)), 10);
        assert_eq!(exit_after(Graceful, |_| data(0, 9)), 10);
        assert_eq!(exit_after(Graceful, |s| data(usize::from(s < 77), 9)), 77);
        assert_eq!(exit_after(Graceful, |_| data(1, 0)), 490);
        assert_eq!(exit_after(Decommission, |_| data(9, 0)), 10);
        assert_eq!(
            exit_after(Decommission, |s| data(0, usize::from(s < 99))),
            99
        );
        assert_eq!(exit_after(Decommission, |_| data(0, 1)), 21_610);
    }

    #[test]
    fn a_worker_without_data_becomes_idle_and_returns() {
        let mut drain = Drain::new(Time::ZERO);
        assert!(drain.accepts_work());
        assert_eq!(drain.advance(data(0, 0), Time::NEVER), None);
        drain.apply(DecommissionThenIdle, Time::ZERO).unwrap();
        assert!(!drain.accepts_work());
        assert_eq!(drain.advance(data(0, 1), Time::NEVER), None);
        assert_eq!(drain.advance(data(1, 0), Time::ZERO), Some(Idle));
        assert_eq!(drain.advance(data(0, 0), Time::NEVER), None);
        drain.apply(Recommission, Time::ZERO).unwrap();
        assert!(drain.accepts_work());
    }
}
