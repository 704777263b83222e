//! Combines the policies of work fetch into one state machine, which decides what to ask of which scheduler and which tasks run.
//!
//! The caller reports events to a [`Fetcher`] and shows it the tasks at the worker ([`FetcherInput`]). The fetcher returns the next
//! [`FetcherStep`] and, independently, a [`Schedule`]. Both calls scan all tasks, so the caller makes them only when they are due.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{Processor, ServiceAddress, Story, Time, WorkDemand, WorkRequestSeq};

use self::outstanding::{Outstanding, RequestPhase};
use self::saving::Here;
use super::amounts::amount;
use super::contact_state::ContactState;
use super::driver::{CheckEvent, Computing, ContactDriver, ListReason};
use super::estimates::{Estimates, Lengths};
use super::job_sched::{Preemption, Schedule, SchedulingInput};
use super::members::Members;
use super::outlook::Outlook;
use super::profile::Profile;
use super::reason::RpcReason;
use super::rec::{Accounting, SavedRec};
use super::report::Unreported;
use super::rpc_policy::Terms;
use super::rr_sim::SimulationInput;
use super::types::{Association, AssociationIndex, ProcessorType, Processors, Task, TaskNumber};

mod asking;
mod conversion;
mod outstanding;
mod overview;
mod saving;

pub use overview::{AssociationOverview, Overview, PairOverview, TypeOverview};
pub use saving::Saved;

/// Time after which a request with pending verdicts is repeated, unless the answer to a heartbeat brings them first.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
/// Time that the worker waits for the next task of a lingering request after a completion. It is longer than a scheduler takes to record
/// the completion and send a task. After it the worker asks again.
const REFILL_TIME: Duration = Duration::from_millis(100);
/// Minimum time between two choices of the running tasks. In between, tasks start in the order of the last choice.
const LEAST_BETWEEN_CHOICES: Duration = Duration::from_millis(50);

/// The configuration of a fetcher at its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    pub profile: Profile,
    pub preemption: Preemption,
    pub processors: Processors,
    pub associations: Vec<Association>,
    /// The addresses of each association's scheduler.
    pub members: Vec<Vec<ServiceAddress>>,
    /// Time that the worker waits for pending verdicts.
    pub patience: Duration,
    /// The seed of the random numbers.
    pub seed: u64,
}

/// The state that a fetcher inspects.
#[derive(Clone, Copy, Debug)]
pub struct FetcherInput<'a> {
    pub now: Time,
    pub computing: Computing,
    /// All tasks at the worker that have not ended, of all associations.
    pub tasks: &'a [Task],
    /// The states by association.
    pub association_states: &'a [AssociationState],
    /// Completions that are held back to be reported together.
    pub unreported: &'a [Unreported],
}

/// The state of an association that the fetcher does not track itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssociationState {
    /// The operator has suspended the scheduler.
    pub is_suspended: bool,
    /// The scheduler does not count the worker as one of its healthy workers.
    pub is_absent: bool,
    /// The worker wants no more work from this scheduler.
    pub wants_no_more_work: bool,
    /// The number of reported completions that the scheduler has not acknowledged.
    pub unacknowledged: usize,
}

/// The tasks that cannot start or stop now.
#[derive(Clone, Copy, Debug)]
pub struct FixedTasks<'a> {
    /// Tasks that are about to end.
    pub ending: &'a BTreeSet<TaskNumber>,
    /// Tasks that could not start now even if all processors were free.
    pub held_back: &'a BTreeSet<TaskNumber>,
}

/// The next action of the caller.
#[derive(Clone, Debug, PartialEq)]
pub enum FetcherStep {
    /// Nothing is due before `until`, unless something happens.
    Wait {
        until: Time,
    },
    /// Read the scheduler's member list again, and report the result with [`Fetcher::list_read`].
    ReadList {
        association: AssociationIndex,
        why: ListReason,
    },
    Ask(Request),
}

/// A work request. The caller reports its outcome with [`Fetcher::answered`] or [`Fetcher::not_served`].
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub association: AssociationIndex,
    pub seq: WorkRequestSeq,
    pub reason: RpcReason,
    pub to: ServiceAddress,
    /// One for each of the worker's processor types.
    pub demands: Vec<WorkDemand>,
    pub linger: Duration,
}

/// The result of a task.
#[derive(Clone, Copy, Debug)]
pub enum TaskResult<'a> {
    /// The task succeeded after `took` seconds of run time; `given` is its job's own estimate in seconds.
    Well {
        given: Option<f64>,
        took: f64,
    },
    Failed {
        story: &'a Story,
    },
    /// The end says nothing of run times or failures.
    Other,
}

/// The effect of a completion on the task's resources at its scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// The scheduler learns of the completion at once, and the resources are idle.
    Idle,
    /// The scheduler learns of the completion later, or counts the task as never started here.
    Nothing,
}

/// The state machine of work fetch; see the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetcher {
    profile: Profile,
    preemption: Preemption,
    processors: Processors,
    associations: Vec<Association>,
    patience: Duration,
    rng: Rng,
    driver: ContactDriver,
    /// The next two are by association.
    contacts: Vec<ContactState>,
    outstanding: Vec<Option<Outstanding>>,
    accounting: Accounting,
    estimates: Estimates,
    /// The number of the last request. It rises for the worker's whole life, across associations.
    last_seq: WorkRequestSeq,
    /// Tasks at the worker that arrived for a lingering request. Their completions restore its credit.
    come_back: BTreeSet<TaskNumber>,
    /// The time at which the driver must run if no event comes first.
    wakes: Time,
    chosen_at: Option<Time>,
    wants_choice: bool,
    /// Whether a scheduler had too many unacknowledged completions at the last check to be asked.
    is_choked: bool,
}

impl Fetcher {
    pub fn new(setup: Setup, now: Time, saved: &Saved) -> Self {
        let mut rng = Rng::new(setup.seed, Purpose::Backoff);
        let Setup {
            profile,
            preemption,
            processors,
            associations,
            members,
            patience,
            seed: _,
        } = setup;
        let mut members = members.into_iter();
        let contact = |index: usize| {
            let known = members.next().unwrap_or_default();
            let here = Here {
                now,
                processors: &processors,
                profile: &profile,
                linger: asking::linger(&profile, &associations),
            };
            saved.contact(index, here, known, draw(&mut rng))
        };
        let contacts: Vec<ContactState> = (0..associations.len()).map(contact).collect();
        let rec: Vec<SavedRec> = (0..associations.len())
            .map(|index| saved.rec(index).within(&processors))
            .collect();
        Fetcher {
            driver: ContactDriver::new(),
            outstanding: vec![None; contacts.len()],
            contacts,
            accounting: Accounting::new(&rec, now, &profile),
            estimates: saved.estimates(),
            last_seq: WorkRequestSeq::default(),
            come_back: BTreeSet::new(),
            wakes: now,
            chosen_at: None,
            wants_choice: true,
            is_choked: false,
            profile,
            preemption,
            processors,
            associations,
            patience,
            rng,
        }
    }

    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Returns how the rest of a running task is estimated.
    pub fn lengths(&self) -> Lengths {
        match self.associations.len() {
            1 => Lengths::AsEstimated,
            _ => Lengths::WithoutMemory,
        }
    }

    /// Returns the number of addresses of the scheduler.
    pub fn members(&self, association: AssociationIndex) -> usize {
        let contact = self.contacts.get(association.0);
        contact.map_or(0, |contact| contact.members.addresses().len())
    }

    pub fn processors(&self) -> &Processors {
        &self.processors
    }

    /// Returns the type of this name among the worker's processors.
    pub fn processor_type(&self, called: &Processor) -> Option<ProcessorType> {
        conversion::type_called(&self.processors, called)
    }

    /// Adapts to other processors of the worker. The contact state of types that stay is kept.
    pub fn set_processors(&mut self, now: Time, processors: Processors) {
        if processors == self.processors {
            return;
        }
        for contact in &mut self.contacts {
            contact.set_processors(now, (&self.processors, &processors), &self.profile);
        }
        self.processors = processors;
        for index in 0..self.contacts.len() {
            self.reset(AssociationIndex(index));
        }
        self.check(CheckEvent::ProcessorsChanged);
        self.wants_choice = true;
    }

    /// Requests a check for work because of this event.
    pub fn check(&mut self, event: CheckEvent) {
        self.driver.request_check(event);
        self.wakes = Time::ZERO;
    }

    // ---- tasks ----

    /// Notes that a task was accepted: its scheduler has work of the type, whatever it said before.
    pub fn task_came(&mut self, task: &Task) {
        let correction = amount(self.estimates.correction(task.association));
        if let Some(contact) = self.contacts.get_mut(task.association.0) {
            let secs = amount(task.remaining) / correction;
            contact.pairs.task_came(task.received, &task.usage, secs);
        }
        if !self.linger().is_zero() {
            self.come_back.insert(task.number);
        }
        self.wants_choice = true;
    }

    /// Notes that a task no longer executes. `task` is its state while it executed.
    pub fn task_stopped(&mut self, now: Time, task: &Task) {
        self.accounting.stopped(now, task, &self.processors);
    }

    /// Notes that a task has ended. A task that executed must have been reported as stopped before.
    pub fn task_ended(&mut self, now: Time, task: &Task, end: TaskResult<'_>, leaves: Leaves) {
        let u = draw(&mut self.rng);
        match end {
            TaskResult::Well { given, took } => {
                self.estimates
                    .learn(task.association, task.job, given, took);
            }
            TaskResult::Failed { story } => {
                if let Some(contact) = self.contacts.get_mut(task.association.0) {
                    let terms = terms(&self.profile, u);
                    contact.rpc.task_failed(now, task.number, story, terms);
                }
            }
            TaskResult::Other => {}
        }
        let of_type = task.usage.processor_type();
        let comes_back = self.come_back.remove(&task.number);
        if comes_back
            && leaves == Leaves::Idle
            && let Some(contact) = self.contacts.get_mut(task.association.0)
        {
            contact.pairs.gives_back(now, &task.usage, REFILL_TIME);
        }
        for contact in &mut self.contacts {
            contact.pairs.task_ended(of_type);
        }
        for outstanding in self.outstanding.iter_mut().flatten() {
            if self.processors.types().any(|known| known == of_type) {
                outstanding.ended[of_type] = true;
            }
        }
        self.check(CheckEvent::TaskEnded);
        self.wants_choice = true;
    }

    /// Notes that the scheduler has acknowledged the task's completion.
    pub fn task_gone(&mut self, association: AssociationIndex, task: TaskNumber) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.rpc.task_gone(task);
        }
        if self.is_choked {
            self.check(CheckEvent::EndAcknowledged);
        }
    }

    /// Returns the expected run time of a task of the job in seconds; `given` is the job's own estimate.
    pub fn expected(&self, association: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        self.estimates.expected(association, job, given)
    }

    // ---- running tasks ----

    /// Returns the time at which a choice is due even if no task waits, because run times must be accounted.
    pub fn accounts_due(&self) -> Time {
        let period = Duration::from_secs_f64(self.profile.schedule_period.clamp(0.0, 1e9));
        self.chosen_at.map_or(Time::ZERO, |last| last + period)
    }

    /// Returns the time at which the next choice of the running tasks is due. It may have passed.
    pub fn choice_due(&self) -> Time {
        let Some(last) = self.chosen_at else {
            return Time::ZERO;
        };
        let period = Duration::from_secs_f64(self.profile.schedule_period.clamp(0.0, 1e9));
        match self.wants_choice {
            true => last + LEAST_BETWEEN_CHOICES.min(period),
            false => last + period,
        }
    }

    /// Notes that an input of the next choice has changed.
    pub fn wants_choice(&mut self) {
        self.wants_choice = true;
    }

    /// Chooses the running tasks.
    pub fn choose(&mut self, now: Time, tasks: &[Task], fixed: FixedTasks<'_>) -> Schedule {
        self.chosen_at = Some(now);
        self.wants_choice = false;
        self.accounting.adjust(now, tasks, &self.processors);
        let outlook = self.outlook(now, tasks);
        let input = SchedulingInput {
            now,
            profile: &self.profile,
            preemption: self.preemption,
            processors: &self.processors,
            associations: &self.associations,
            rec: self.accounting.averages(),
            tasks,
            ending: fixed.ending,
            held_back: fixed.held_back,
            outlook: &outlook,
        };
        let schedule = input.choose();
        if schedule.wants_fetch {
            self.check(CheckEvent::IdleProcessors);
        }
        schedule
    }

    /// Returns the simulation's result for these tasks.
    pub fn outlook(&self, now: Time, tasks: &[Task]) -> Outlook {
        self.simulation_input(now, tasks).outlook()
    }

    fn simulation_input<'a>(&'a self, now: Time, tasks: &'a [Task]) -> SimulationInput<'a> {
        SimulationInput {
            now,
            processors: &self.processors,
            associations: &self.associations,
            rec: self.accounting.averages(),
            tasks,
            profile: &self.profile,
        }
    }
}

/// Returns a random number, uniform in [0, 1).
fn draw(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn terms(profile: &Profile, u: f64) -> Terms<'_> {
    Terms { profile, u }
}

/// Returns the contact state of a scheduler for which none was saved.
fn attached(processors: &Processors, members: Vec<ServiceAddress>, u: f64) -> ContactState {
    ContactState::new(processors, Members::new(members, u))
}

#[cfg(test)]
mod tests;
