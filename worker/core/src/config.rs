//! What a worker is told at its start and never changes.

use std::time::Duration;

use brasserie_common::worker::MachinePortLock;
use brasserie_common::{ServiceAddress, Shard, WorkerDescription, WorkerId};

use crate::work_fetch::{Preemption, Profile, SavedState};

/// Seconds on the wire are 32 bits signed.
const MAX_WIRE: Duration = Duration::from_secs(i32::MAX as u64);

/// A scheduler's part, beside the others.
const USUAL_SHARE: f64 = 100.0;

/// The constant part of a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Where the worker listens and what its machine offers: what every scheduler hears of it. Its shard, its instance and its machine lock
    /// are in `associations`, whatever they are here. The heartbeat period is raised to whole seconds, at least one.
    pub description: WorkerDescription,
    /// Who it is for each of its schedulers: one at least.
    pub associations: Vec<AssociationOptions>,
    /// Between TERM and KILL when the operator ends the worker.
    pub shutdown_kill_wait: Duration,
    /// How long a worker that drains waits for its tasks before it ends them; `None`: for ever.
    pub drain_timeout: Option<Duration>,
    /// For jobs without a command; empty = such jobs are refused.
    pub worker_command: Vec<String>,
    /// A call to the scheduler without an outcome after this time has failed, and a later outcome is dropped. It must exceed
    /// the shell's connect, send and receive timeouts together, or answers that are on their way are thrown away.
    pub call_deadline: Duration,
    /// Asks for work and lets tasks wait; `None`: it takes what it is sent, and starts it at once.
    pub work_fetch: Option<WorkFetch>,
}

/// What the worker is for one scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationOptions {
    pub shard: Shard,
    /// Its first instance; one that ends while others go on is followed by another. No two associations have the same.
    pub id: WorkerId,
    /// Of all its instances, and of no other association: should two of them meet at one scheduler, which goes by two names, neither must
    /// be taken for the other's successor, whose tasks are dead.
    pub machine_lock: MachinePortLock,
    /// Of the machine, beside the other shares; 0: only what the others leave.
    pub share: f64,
    /// Where the scheduler is: whoever answers of these, each once. A worker that fetches work has one at least.
    pub members: Vec<ServiceAddress>,
    pub list: MemberList,
}

/// Whether the members of a scheduler can become others while the worker runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MemberList {
    /// They are what the operator has said.
    #[default]
    Fixed,
    /// [`crate::Call::ReadMembers`] tells who they are now. By this name what is learned of the scheduler is kept, whoever they are.
    Read { called: String },
}

/// How a worker fetches work.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkFetch {
    pub profile: Profile,
    pub preemption: Preemption,
    /// What a card is worth beside a CPU when it is reckoned what each scheduler got.
    pub card_weight: f64,
    /// Of the random parts of waits: each worker has another.
    pub seed: u64,
    /// What was learned before the worker began, aged until now.
    pub saved: Option<SavedState>,
}

/// A card is worth so many CPUs, if nobody says: at its peak it does some fifty times what one of them does, and the volunteers' system
/// guesses that a fifth of its peak is used.
const USUAL_CARD_WEIGHT: f64 = 10.0;

impl WorkFetch {
    /// Of a worker that knows nothing yet.
    pub fn new(profile: Profile, seed: u64) -> Self {
        WorkFetch {
            profile,
            preemption: Preemption::Off,
            card_weight: USUAL_CARD_WEIGHT,
            seed,
            saved: None,
        }
    }
}

impl Options {
    /// For one scheduler, with the usual waits and no command.
    pub fn new(description: WorkerDescription) -> Self {
        Options {
            associations: vec![AssociationOptions::new(&description)],
            description,
            shutdown_kill_wait: Duration::from_secs(5),
            drain_timeout: None,
            worker_command: Vec::new(),
            // Twice and a half of the default timeouts, which add up to 4 s.
            call_deadline: Duration::from_secs(10),
            work_fetch: None,
        }
    }

    /// What the wire can say: the scheduler judges by the whole seconds that it is sent, and both sides must mean the same.
    pub(crate) fn normalised(mut self) -> Self {
        let period = self.description.heartbeat_period;
        let whole = Duration::from_secs(
            period
                .as_secs()
                .saturating_add(u64::from(period.subsec_nanos() > 0)),
        );
        self.description.heartbeat_period = whole.clamp(Duration::from_secs(1), MAX_WIRE);
        self.description.has_worker_command = !self.worker_command.is_empty();
        self
    }
}

impl AssociationOptions {
    /// By that what is learned of the scheduler is kept: where it was first said to be, or what its list is called.
    pub(crate) fn called(&self) -> String {
        match &self.list {
            MemberList::Read { called } => called.clone(),
            MemberList::Fixed => {
                let first = self.members.first();
                first.map(ToString::to_string).unwrap_or_default()
            }
        }
    }

    /// As it is described, with the usual share.
    pub fn new(description: &WorkerDescription) -> Self {
        AssociationOptions {
            shard: description.shard.clone(),
            id: description.id,
            machine_lock: description.machine_lock.clone(),
            share: USUAL_SHARE,
            members: Vec::new(),
            list: MemberList::Fixed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heartbeat_period_is_what_the_wire_can_say() {
        for (given, used) in [(0, 1000), (500, 1000), (1000, 1000), (1001, 2000)] {
            let mut options = Options::new(WorkerDescription::default());
            options.description.heartbeat_period = Duration::from_millis(given);
            let options = options.normalised();
            assert_eq!(
                options.description.heartbeat_period,
                Duration::from_millis(used)
            );
        }
    }

    #[test]
    fn a_card_is_worth_a_fifth_of_its_peak() {
        let (peak, part_used) = (50.0, 0.2);
        let usual = WorkFetch::new(Profile::CLUSTER, 0).card_weight;
        assert_eq!(usual, peak * part_used);
        assert_eq!(WorkFetch::new(Profile::VOLUNTEER, 0).card_weight, usual);
    }

    #[test]
    fn the_description_says_whether_there_is_a_worker_command() {
        let mut options = Options::new(WorkerDescription::default());
        options.worker_command = vec!["/bin/true".to_owned()];
        assert!(options.normalised().description.has_worker_command);
    }
}
