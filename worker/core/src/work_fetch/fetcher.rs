//! The policies put together: one machine that says whom to ask for work, and what runs.
//!
//! Whoever drives it tells it what has happened and shows it the tasks that are there ([`Scene`]). It answers with the next [`Step`] and,
//! apart from that, with a [`Schedule`]. Both are worth making only when they are due: they look at all tasks.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{Processor, ServiceAddress, Story, Time, WorkDemand, WorkRequestSeq};

use self::outstanding::{Outstanding, Phase};
use self::saving::Here;
use super::amounts::amount;
use super::contact_state::ContactState;
use super::driver::{CheckEvent, Computing, Driver, ListReason};
use super::estimates::{Estimates, Lengths};
use super::job_sched::{Hand, Preemption, Schedule};
use super::members::Members;
use super::outlook::Outlook;
use super::profile::Profile;
use super::reason::RpcReason;
use super::rec::{Accounting, SavedRec};
use super::report::Unreported;
use super::rpc_policy::Terms;
use super::rr_sim::Situation;
use super::types::{Association, AssociationIndex, ProcessorType, Processors, Task, TaskNumber};

mod asking;
mod outstanding;
mod overview;
mod saving;
mod words;

pub use overview::{AssociationOverview, Overview, PairOverview, TypeOverview};
pub use saving::Saved;

/// A request whose verdicts were not known is repeated after this, unless a heartbeat's answer brings them before.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
/// What a request that lingers should bring as a task ends is waited for so long before it is asked for: longer than a scheduler takes to
/// write the end down and to send the next task.
const REFILL_TIME: Duration = Duration::from_millis(100);
/// What runs is chosen anew no sooner than this after it was: until then tasks begin in the order of the last choice.
const LEAST_BETWEEN_CHOICES: Duration = Duration::from_millis(50);

/// What a fetcher is told at its start.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    pub profile: Profile,
    pub preemption: Preemption,
    pub processors: Processors,
    pub associations: Vec<Association>,
    /// Where each association's scheduler is.
    pub members: Vec<Vec<ServiceAddress>>,
    /// So long verdicts are waited for that are not known yet.
    pub patience: Duration,
    /// Of its random numbers.
    pub seed: u64,
}

/// What a fetcher looks at.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    pub now: Time,
    pub computing: Computing,
    /// All that are here and have not ended, of all associations.
    pub tasks: &'a [Task],
    /// By association.
    pub standings: &'a [Standing],
    /// Ends that wait for others to be told with them.
    pub unreported: &'a [Unreported],
}

/// How an association is, beside what the fetcher knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The operator does not let the scheduler have its way.
    pub is_suspended: bool,
    /// The scheduler does not take the worker for a healthy one of its own.
    pub is_absent: bool,
    /// It gets nothing more to do here.
    pub wants_no_more_work: bool,
    /// Ends that it was told and has not acknowledged.
    pub unacknowledged: usize,
}

/// All that cannot begin now, or that a choice must know beside tasks.
#[derive(Clone, Copy, Debug)]
pub struct Limits<'a> {
    /// Whose end is under way.
    pub ending: &'a BTreeSet<TaskNumber>,
    /// Those that could not begin now, however few processors are busy.
    pub held_back: &'a BTreeSet<TaskNumber>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Nothing before that, unless something happens.
    Wait {
        until: Time,
    },
    /// Read again who the scheduler's members are; tell with [`Fetcher::list_read`].
    ReadList {
        association: AssociationIndex,
        why: ListReason,
    },
    Ask(Request),
}

/// A request for work; what became of it is told with [`Fetcher::answered`] or [`Fetcher::not_served`].
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub association: AssociationIndex,
    pub seq: WorkRequestSeq,
    pub reason: RpcReason,
    pub to: ServiceAddress,
    /// Of each type of the worker's processors.
    pub demands: Vec<WorkDemand>,
    pub linger: Duration,
}

/// How a task has ended.
#[derive(Clone, Copy, Debug)]
pub enum TaskEnd<'a> {
    /// Well, after so many seconds of run time; its scheduler said so many.
    Well {
        given: Option<f64>,
        took: f64,
    },
    Failed {
        story: &'a Story,
    },
    /// It tells nothing of how long such tasks take, and nobody is to blame.
    Other,
}

/// What the end of a task leaves of it at its scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// It hears of it at once, and what the task used is idle.
    Idle,
    /// It hears of it later, or takes the task never to have run there.
    Nothing,
}

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetcher {
    profile: Profile,
    preemption: Preemption,
    processors: Processors,
    associations: Vec<Association>,
    patience: Duration,
    rng: Rng,
    driver: Driver,
    /// By association, as the next one.
    contacts: Vec<ContactState>,
    outstanding: Vec<Option<Outstanding>>,
    accounting: Accounting,
    estimates: Estimates,
    /// It rises for the worker's life, whatever becomes of associations.
    last_seq: WorkRequestSeq,
    /// Those that came for a request that lingers, and run: what they use is idle again by their ends.
    come_back: BTreeSet<TaskNumber>,
    /// When the driver has something to do, if nothing happens.
    wakes: Time,
    chosen_at: Option<Time>,
    wants_choice: bool,
    /// At the last look a scheduler had not acknowledged too many ends to be asked.
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
            driver: Driver::new(),
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

    /// How the rest of tasks is reckoned.
    pub fn lengths(&self) -> Lengths {
        match self.associations.len() {
            1 => Lengths::AsEstimated,
            _ => Lengths::WithoutMemory,
        }
    }

    /// How many addresses the scheduler has.
    pub fn members(&self, association: AssociationIndex) -> usize {
        let contact = self.contacts.get(association.0);
        contact.map_or(0, |contact| contact.members.addresses().len())
    }

    pub fn processors(&self) -> &Processors {
        &self.processors
    }

    /// The place of what is called so among the worker's processors.
    pub fn processor_type(&self, called: &Processor) -> Option<ProcessorType> {
        words::type_called(&self.processors, called)
    }

    /// The worker's processors are others: what is known of types that stay is kept.
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

    /// It should be looked whether to ask for work, since this has happened.
    pub fn check(&mut self, event: CheckEvent) {
        self.driver.request_check(event);
        self.wakes = Time::ZERO;
    }

    // ---- tasks ----

    /// A task was accepted: its scheduler has work of the type, whatever was said before.
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

    /// A task that executed does not any more: it is to be shown as it was.
    pub fn task_stopped(&mut self, now: Time, task: &Task) {
        self.accounting.stopped(now, task, &self.processors);
    }

    /// A task has ended; one that executed has stopped before.
    pub fn task_ended(&mut self, now: Time, task: &Task, end: TaskEnd<'_>, leaves: Leaves) {
        let u = draw(&mut self.rng);
        match end {
            TaskEnd::Well { given, took } => {
                self.estimates
                    .learn(task.association, task.job, given, took);
            }
            TaskEnd::Failed { story } => {
                if let Some(contact) = self.contacts.get_mut(task.association.0) {
                    let terms = terms(&self.profile, u);
                    contact.rpc.task_failed(now, task.number, story, terms);
                }
            }
            TaskEnd::Other => {}
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

    /// The scheduler knows how the task has ended.
    pub fn task_gone(&mut self, association: AssociationIndex, task: TaskNumber) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.rpc.task_gone(task);
        }
        if self.is_choked {
            self.check(CheckEvent::EndAcknowledged);
        }
    }

    /// Seconds that a task of the job takes; `given` is what its scheduler says.
    pub fn expected(&self, association: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        self.estimates.expected(association, job, given)
    }

    // ---- what runs ----

    /// When a choice is to be made although nobody waits: what runs must be accounted.
    pub fn accounts_due(&self) -> Time {
        let period = Duration::from_secs_f64(self.profile.schedule_period.clamp(0.0, 1e9));
        self.chosen_at.map_or(Time::ZERO, |last| last + period)
    }

    /// When it is to be chosen what runs; it may have passed.
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

    /// Something that the next choice depends on is another.
    pub fn wants_choice(&mut self) {
        self.wants_choice = true;
    }

    /// Chooses what runs.
    pub fn choose(&mut self, now: Time, tasks: &[Task], limits: Limits<'_>) -> Schedule {
        self.chosen_at = Some(now);
        self.wants_choice = false;
        self.accounting.adjust(now, tasks, &self.processors);
        let outlook = self.outlook(now, tasks);
        let hand = Hand {
            now,
            profile: &self.profile,
            preemption: self.preemption,
            processors: &self.processors,
            associations: &self.associations,
            rec: self.accounting.averages(),
            tasks,
            ending: limits.ending,
            held_back: limits.held_back,
            outlook: &outlook,
        };
        let schedule = hand.choose();
        if schedule.wants_fetch {
            self.check(CheckEvent::IdleProcessors);
        }
        schedule
    }

    /// What is expected of these tasks.
    pub fn outlook(&self, now: Time, tasks: &[Task]) -> Outlook {
        self.situation(now, tasks).outlook()
    }

    fn situation<'a>(&'a self, now: Time, tasks: &'a [Task]) -> Situation<'a> {
        Situation {
            now,
            processors: &self.processors,
            associations: &self.associations,
            rec: self.accounting.averages(),
            tasks,
            profile: &self.profile,
        }
    }
}

/// Uniform in [0, 1).
fn draw(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn terms(profile: &Profile, u: f64) -> Terms<'_> {
    Terms { profile, u }
}

/// Where a worker finds its members if nothing was saved of them.
fn attached(processors: &Processors, members: Vec<ServiceAddress>, u: f64) -> ContactState {
    ContactState::new(processors, Members::new(members, u))
}

#[cfg(test)]
mod tests;
