//! The constant options of a worker.

use std::time::Duration;

use brasserie_common::worker::MachinePortLock;
use brasserie_common::{ServiceAddress, Shard, WorkerDescription, WorkerId};
use brasserie_worker_fetch::{Preemption, Profile, SavedState};

/// The wire carries seconds as signed 32-bit integers.
const MAX_WIRE: Duration = Duration::from_secs(i32::MAX as u64);

/// The default share of a scheduler, relative to the shares of the others.
const USUAL_SHARE: f64 = 100.0;

/// The options of a worker. They never change after its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The worker's address and the resources of its machine, as every scheduler receives them. Its shard, instance and machine lock are
    /// ignored: those in `associations` count. The heartbeat period is rounded up to whole seconds, at least one.
    pub description: WorkerDescription,
    /// One entry per scheduler, at least one.
    pub associations: Vec<AssociationOptions>,
    /// The wait between TERM and KILL when the operator ends the worker.
    pub shutdown_kill_wait: Duration,
    /// The maximum time that a draining worker waits for its tasks before it ends them; `None`: no limit.
    pub drain_timeout: Option<Duration>,
    /// The command of jobs without a command of their own. If it is empty, such jobs are refused.
    pub worker_command: Vec<String>,
    /// The time after which a call to the scheduler without an outcome has failed; a later outcome is dropped. It must exceed the sum of
    /// the shell's connect, send and receive timeouts. Otherwise the worker drops answers that are still in flight.
    pub call_deadline: Duration,
    /// Settings of a pull worker, which requests work and queues tasks. `None`: the worker accepts the tasks that it is sent and starts
    /// them at once.
    pub work_fetch: Option<WorkFetch>,
}

/// The options of one association: the worker as one scheduler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationOptions {
    pub shard: Shard,
    /// The first instance. If it ends while other associations go on, another instance replaces it. No two associations have the same id.
    pub id: WorkerId,
    /// The lock of all instances of this association, and of no other association. Two associations may meet at one scheduler that has two
    /// names. With different locks, the scheduler takes neither for the successor of the other, whose tasks would count as dead.
    pub machine_lock: MachinePortLock,
    /// The scheduler's share of the machine, relative to the other shares. A scheduler with share 0 gets only what the others leave.
    pub share: f64,
    /// Addresses of the scheduler, each once. Any of them may answer. A pull worker has at least one.
    pub members: Vec<ServiceAddress>,
    pub list: MemberList,
}

/// Whether the members of a scheduler can change while the worker runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MemberList {
    /// The operator has named the members.
    #[default]
    Fixed,
    /// [`crate::Call::ReadMembers`] returns the current members. What the worker learns about the scheduler is saved under the name
    /// `called`, even if all members change.
    Read { called: String },
}

/// The settings of a pull worker.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkFetch {
    pub profile: Profile,
    pub preemption: Preemption,
    /// The weight of a GPU, in CPUs, in the account of the work that each scheduler got.
    pub card_weight: f64,
    /// The seed for the random parts of waits. Each worker needs a different one.
    pub seed: u64,
    /// The state that earlier workers learned, aged until now.
    pub saved: Option<SavedState>,
}

/// The default weight of a GPU, in CPUs. At its peak, a GPU computes about fifty times as much as a CPU, and BOINC assumes that tasks use a
/// fifth of the peak.
const USUAL_CARD_WEIGHT: f64 = 10.0;

impl WorkFetch {
    /// Returns the settings of a worker that has learned nothing yet.
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
    /// Returns options for one scheduler, with the default waits and no command.
    pub fn new(description: WorkerDescription) -> Self {
        Options {
            associations: vec![AssociationOptions::new(&description)],
            description,
            shutdown_kill_wait: Duration::from_secs(5),
            drain_timeout: None,
            worker_command: Vec::new(),
            // The default timeouts add up to 4 s; this is 2.5 times as long.
            call_deadline: Duration::from_secs(10),
            work_fetch: None,
        }
    }

    /// Rounds the heartbeat period to what the wire can carry. The scheduler judges by the whole seconds that it receives, and both sides
    /// must use the same value.
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
    /// Returns the name under which the worker saves what it learns about the scheduler: the name of the member list, or else the first
    /// address.
    pub(crate) fn called(&self) -> String {
        match &self.list {
            MemberList::Read { called } => called.clone(),
            MemberList::Fixed => {
                let first = self.members.first();
                first.map(ToString::to_string).unwrap_or_default()
            }
        }
    }

    /// Returns the options that the description gives, with the default share and no members.
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
