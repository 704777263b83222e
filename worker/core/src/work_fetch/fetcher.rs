//! The policies put together: one machine that says whom to ask for work, and what runs.
//!
//! Whoever drives it tells it what has happened and shows it the tasks that are there ([`Scene`]). It answers with the next [`Step`] and,
//! apart from that, with a [`Schedule`]. Both are worth making only when they are due: they look at all tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{
    Processor, ServiceAddress, Story, Time, WorkDemand, WorkReply, WorkRequestSeq,
};

use super::contact_state::{ContactState, Reply, ReplyKind};
use super::driver::{
    Candidate, CheckEvent, Choice, Computing, Contact, Decision, Driver, ListReason, Round, Work,
};
use super::estimates::Estimates;
use super::fetch::{FetchRequest, Grounds, Source, SourcePair, Survey};
use super::job_sched::{EdfHistory, Hand, Preemption, Schedule};
use super::members::{Attempt, Members, NextTry, NotServed};
use super::outlook::Outlook;
use super::pair_backoff::{Asked, TypeReply};
use super::profile::Profile;
use super::reason::{RpcReason, Wish};
use super::rec::{Accounting, SavedRec};
use super::report::{Surroundings, Unreported};
use super::rpc_policy::{Link, Terms};
use super::rr_sim::Situation;
use super::types::{
    Association, AssociationIndex, PerType, ProcessorType, Processors, Task, TaskNumber,
};

mod overview;
mod saving;

pub use overview::{AssociationOverview, Overview, PairOverview, TypeOverview};
pub use saving::Saved;

/// A request whose verdicts were not known is repeated after this, unless a heartbeat's answer brings them before.
const REPEAT_AFTER: Duration = Duration::from_secs(1);
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
    /// What all tasks together may have.
    pub memory: f64,
    /// What each task is expected to have while it runs, in the same unit; none, if it is not named.
    pub expected_memory: &'a BTreeMap<TaskNumber, f64>,
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
    /// Well, after so many seconds of run time.
    Well {
        took: f64,
    },
    Failed {
        story: &'a Story,
    },
    /// It tells nothing of how long such tasks take, and nobody is to blame.
    Other,
}

/// A request that has not got its verdicts.
///
/// ```text
///   InFlight --the member did not serve--> Retry --its pause is over--> InFlight
///      |   ^
///      |   +------------ a second later -----------+
///      +---- the verdicts are not known yet ----> Pending --too long--> (as if it had not been looked at)
/// ```
#[derive(Clone, Debug, PartialEq)]
struct Outstanding {
    seq: WorkRequestSeq,
    asked: Asked,
    demands: Vec<WorkDemand>,
    linger: Duration,
    since: Time,
    attempt: Attempt,
    phase: Phase,
    /// No other operation begins meanwhile.
    holds_driver: bool,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    InFlight,
    Retry { at: Time, to: ServiceAddress },
    Pending { repeat_at: Time },
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
    edf: EdfHistory,
    /// It rises for the worker's life, whatever becomes of associations.
    last_seq: WorkRequestSeq,
    /// When the driver has something to do, if nothing happens.
    wakes: Time,
    chosen_at: Option<Time>,
    wants_choice: bool,
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
            saved.contact(index, now, &processors, known, draw(&mut rng))
        };
        let contacts: Vec<ContactState> = (0..associations.len()).map(contact).collect();
        let rec: Vec<SavedRec> = (0..associations.len())
            .map(|index| saved.rec(index))
            .collect();
        Fetcher {
            driver: Driver::new(),
            outstanding: vec![None; contacts.len()],
            contacts,
            accounting: Accounting::new(&rec, now, &profile),
            estimates: saved.estimates(),
            edf: EdfHistory::default(),
            last_seq: WorkRequestSeq::default(),
            wakes: now,
            chosen_at: None,
            wants_choice: true,
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

    pub fn processors(&self) -> &Processors {
        &self.processors
    }

    /// The place of what is called so among the worker's processors.
    pub fn processor_type(&self, called: &Processor) -> Option<ProcessorType> {
        type_called(&self.processors, called)
    }

    /// The worker's processors are others: what is known of types that stay is kept.
    pub fn set_processors(&mut self, now: Time, processors: Processors) {
        if processors == self.processors {
            return;
        }
        for contact in &mut self.contacts {
            contact.set_processors(now, &self.processors, &processors);
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

    /// Seconds that a task of the job takes; `given` is what its scheduler says.
    pub fn estimate(&mut self, association: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        self.estimates.estimate(association, job, given)
    }

    /// A task was accepted: its scheduler has work of the type, whatever was said before.
    pub fn task_came(&mut self, task: &Task) {
        if let Some(contact) = self.contacts.get_mut(task.association.0) {
            contact.pairs.task_came(task.usage.processor_type());
        }
        self.wants_choice = true;
    }

    /// A task that executed does not any more: it is to be shown as it was.
    pub fn task_stopped(&mut self, now: Time, task: &Task) {
        self.accounting.stopped(now, task, &self.processors);
    }

    /// A task has ended; one that executed has stopped before.
    pub fn task_ended(&mut self, now: Time, task: &Task, end: TaskEnd<'_>) {
        let u = draw(&mut self.rng);
        match end {
            TaskEnd::Well { took } => self.estimates.learn(task.association, task.job, took),
            TaskEnd::Failed { story } => {
                if let Some(contact) = self.contacts.get_mut(task.association.0) {
                    let terms = terms(&self.profile, u);
                    contact.rpc.task_failed(now, task.number, story, terms);
                }
            }
            TaskEnd::Other => {}
        }
        self.check(CheckEvent::TaskEnded);
        self.wants_choice = true;
    }

    /// The scheduler knows how the task has ended.
    pub fn task_gone(&mut self, association: AssociationIndex, task: TaskNumber) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.rpc.task_gone(task);
        }
    }

    // ---- what runs ----

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
            outlook: &outlook,
            memory: limits.memory,
            expected_memory: limits.expected_memory,
        };
        let schedule = hand.choose(&mut self.edf);
        if schedule.wants_fetch {
            self.check(CheckEvent::IdleProcessors);
        }
        schedule
    }

    /// What is expected of these tasks.
    pub fn outlook(&self, now: Time, tasks: &[Task]) -> Outlook {
        let situation = Situation {
            now,
            processors: &self.processors,
            associations: &self.associations,
            rec: self.accounting.averages(),
            tasks,
            profile: &self.profile,
        };
        situation.outlook()
    }

    // ---- whom to ask ----

    /// When [`Fetcher::next`] has something to say, if nothing happens until then; it may have passed.
    pub fn due(&self) -> Time {
        let driver = match self.driver.in_progress() {
            Some(_) => Time::NEVER,
            None => self.wakes.max(self.driver.opens(&self.profile)),
        };
        let requests = self.outstanding.iter().flatten();
        let requests = requests.map(|one| one.due(self.patience));
        requests.chain([driver]).min().unwrap_or(Time::NEVER)
    }

    /// What to do now, which is then taken to be done.
    pub fn next(&mut self, scene: &Scene<'_>) -> Step {
        self.give_up_pending(scene.now);
        if let Some(again) = self.ask_again(scene) {
            return again;
        }
        let now = scene.now;
        if self.driver.in_progress().is_none() && self.wakes <= now {
            let step = self.look(scene);
            if let Some(step) = step {
                return step;
            }
        }
        Step::Wait { until: self.due() }
    }

    fn look(&mut self, scene: &Scene<'_>) -> Option<Step> {
        let mut chosen = None;
        let outstanding = self.asked_by_type();
        let with_tasks: BTreeSet<AssociationIndex> =
            scene.tasks.iter().map(|task| task.association).collect();
        let all = self.contacts.iter_mut().enumerate();
        let mut candidates: Vec<Candidate<'_>> = all
            .map(|(index, state)| {
                let standing = scene.standings.get(index).copied().unwrap_or_default();
                let has_here = with_tasks.contains(&AssociationIndex(index));
                candidate(state, standing, has_here)
            })
            .collect();
        let round = Round {
            now: scene.now,
            profile: &self.profile,
            computing: scene.computing,
            surroundings: Surroundings::default(),
            unreported: scene.unreported,
        };
        let situation = Situation {
            now: scene.now,
            processors: &self.processors,
            associations: &self.associations,
            rec: self.accounting.averages(),
            tasks: scene.tasks,
            profile: &self.profile,
        };
        let decision = self.driver.next(&round, &mut candidates, |candidates| {
            let states = candidates.iter().map(|candidate| &*candidate.state);
            let sources = sources(&self.processors, states, scene.standings);
            let outlook = situation.outlook();
            let request =
                Survey::new(grounds(&situation, &sources, &outlook, &outstanding)).choose()?;
            let choice = Choice {
                association: request.association,
                of_instances: request.asks_for_instances(),
            };
            chosen = Some(request);
            Some(choice)
        });
        match decision {
            Decision::Nothing { until } => {
                self.wakes = until;
                None
            }
            Decision::ReadList { association, why } => Some(Step::ReadList { association, why }),
            Decision::Contact(contact) => {
                let request = self.request_of(contact, chosen, scene, &outstanding);
                Some(self.ask(scene.now, contact, request))
            }
        }
    }

    /// Which work a contact asks for; it may be none.
    fn request_of(
        &self,
        contact: Contact,
        chosen: Option<FetchRequest>,
        scene: &Scene<'_>,
        outstanding: &PerType<Option<AssociationIndex>>,
    ) -> Option<FetchRequest> {
        match contact.work {
            Work::Chosen => chosen,
            Work::ChosenInstances => chosen?.only_instances(&self.processors),
            Work::Piggyback => {
                let outlook = self.outlook(scene.now, scene.tasks);
                let sources = sources(&self.processors, self.contacts.iter(), scene.standings);
                let situation = Situation {
                    now: scene.now,
                    processors: &self.processors,
                    associations: &self.associations,
                    rec: self.accounting.averages(),
                    tasks: scene.tasks,
                    profile: &self.profile,
                };
                let survey = Survey::new(grounds(&situation, &sources, &outlook, outstanding));
                match contact.reason {
                    RpcReason::Wished(Wish::Init) => survey.initial(contact.association),
                    _ => survey.piggyback(contact.association),
                }
            }
        }
    }

    fn ask(&mut self, now: Time, contact: Contact, request: Option<FetchRequest>) -> Step {
        let association = contact.association;
        let attempt = self.contacts[association.0].members.begin();
        let Some((attempt, to)) = attempt else {
            // The driver would have had the list read before.
            self.driver.over(CheckEvent::ContactOver);
            self.wakes = Time::ZERO;
            return Step::Wait { until: self.due() };
        };
        self.last_seq.0 += 1;
        let seq = self.last_seq;
        let is_asked = |of_type| {
            let request = request.as_ref();
            request.is_some_and(|request| request.asks_for(of_type))
        };
        let mut types = self.processors.table(&false);
        for of_type in self.processors.types() {
            types[of_type] = is_asked(of_type);
        }
        let outstanding = Outstanding {
            seq,
            asked: Asked {
                reason: contact.reason,
                types,
            },
            demands: demands(&self.processors, request.as_ref()),
            linger: self.linger(),
            since: now,
            attempt,
            phase: Phase::InFlight,
            holds_driver: true,
        };
        let step = Step::Ask(outstanding.request(association, to));
        self.outstanding[association.0] = Some(outstanding);
        step
    }

    /// A worker with several schedulers asks the next one when one has had its say: what that one found later would be too much.
    fn linger(&self) -> Duration {
        match self.associations.len() {
            1 => Duration::from_secs_f64(self.profile.linger.clamp(0.0, 1e9)),
            _ => Duration::ZERO,
        }
    }

    /// The scheduler has answered, or its answer to a heartbeat says what became of a request.
    pub fn answered(&mut self, now: Time, association: AssociationIndex, reply: &WorkReply) {
        let place = association.0;
        let Some(Some(outstanding)) = self.outstanding.get_mut(place) else {
            return;
        };
        if outstanding.seq != reply.seq {
            return;
        }
        let reply = heard(&self.processors, reply);
        match reply.kind() {
            ReplyKind::Pending => {
                let after = Duration::from_secs_f64(reply.request_delay).max(REPEAT_AFTER);
                outstanding.phase = Phase::Pending {
                    repeat_at: now + after,
                };
                if std::mem::take(&mut outstanding.holds_driver) {
                    self.driver.over(CheckEvent::ContactOver);
                    self.wakes = Time::ZERO;
                }
            }
            ReplyKind::Stale => {
                self.contacts[place].rpc.abandoned();
                self.end(association, CheckEvent::ContactOver);
            }
            ReplyKind::Good | ReplyKind::Deferral => {
                let u = draw(&mut self.rng);
                let terms = terms(&self.profile, u);
                let asked = outstanding.asked.clone();
                self.contacts[place].replied(now, &asked, &reply, terms);
                self.end(association, CheckEvent::ContactOver);
            }
        }
    }

    /// The member that was asked has not served the request.
    pub fn not_served(
        &mut self,
        now: Time,
        association: AssociationIndex,
        seq: WorkRequestSeq,
        why: NotServed,
    ) {
        let Some(Some(outstanding)) = self.outstanding.get_mut(association.0) else {
            return;
        };
        if outstanding.seq != seq || outstanding.phase != Phase::InFlight {
            return;
        }
        match outstanding.attempt.next(why) {
            NextTry::Member { address, after } => {
                outstanding.phase = Phase::Retry {
                    at: now + after,
                    to: address,
                };
            }
            NextTry::Exhausted => {
                let u = draw(&mut self.rng);
                let terms = terms(&self.profile, u);
                self.contacts[association.0].rpc.rpc_failed(now, terms);
                self.end(association, CheckEvent::ContactOver);
            }
        }
    }

    /// The list of the scheduler's members was read; `None`: it could not be.
    pub fn list_read(
        &mut self,
        now: Time,
        association: AssociationIndex,
        read: Option<Vec<ServiceAddress>>,
    ) {
        let u = draw(&mut self.rng);
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.list_read(now, read, terms(&self.profile, u));
        }
        if self.driver.in_progress() == Some(association) {
            self.driver.over(CheckEvent::ListRead);
            self.wakes = Time::ZERO;
        }
    }

    /// A member of the scheduler has answered a heartbeat; `request_delay`: no request is to come before.
    pub fn heartbeat_answered(
        &mut self,
        now: Time,
        association: AssociationIndex,
        request_delay: Option<Duration>,
    ) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.rpc.heartbeat_answered();
            if let Some(delay) = request_delay {
                contact.rpc.delayed(now, delay.as_secs_f64());
            }
        }
    }

    /// The association has begun anew: nobody will answer what was asked.
    pub fn reset(&mut self, association: AssociationIndex) {
        let Some(contact) = self.contacts.get_mut(association.0) else {
            return;
        };
        contact.rpc.abandoned();
        self.end(association, CheckEvent::Reconnected);
    }

    /// The operator wants the scheduler to be asked now, whatever is backed off.
    pub fn update(&mut self, now: Time, association: AssociationIndex) {
        if let Some(contact) = self.contacts.get_mut(association.0) {
            contact.update(now);
            self.check(CheckEvent::User);
        }
    }

    fn end(&mut self, association: AssociationIndex, event: CheckEvent) {
        let outstanding = self.outstanding[association.0].take();
        let held = outstanding.is_some_and(|outstanding| outstanding.holds_driver);
        match held || self.driver.in_progress() == Some(association) {
            true => self.driver.over(event),
            false => self.driver.request_check(event),
        }
        self.wakes = Time::ZERO;
    }

    /// Whose verdicts were not known for too long may have no time for them.
    fn give_up_pending(&mut self, now: Time) {
        for place in 0..self.outstanding.len() {
            let is_over = self.outstanding[place]
                .as_ref()
                .is_some_and(|one| one.is_given_up(now, self.patience));
            if is_over {
                self.contacts[place].rpc.deferred(now, 0.0, &self.profile);
                self.end(AssociationIndex(place), CheckEvent::ContactOver);
            }
        }
    }

    /// A request that goes to the next member, or again to the same for its verdicts.
    fn ask_again(&mut self, scene: &Scene<'_>) -> Option<Step> {
        let all = self.outstanding.iter_mut().enumerate();
        for (place, outstanding) in all {
            let Some(outstanding) = outstanding else {
                continue;
            };
            let is_absent = scene.standings.get(place).is_some_and(|one| one.is_absent);
            let to = match &outstanding.phase {
                Phase::Retry { at, to } if *at <= scene.now => to.clone(),
                Phase::Pending { repeat_at } if *repeat_at <= scene.now && !is_absent => {
                    outstanding.attempt.asked().clone()
                }
                Phase::InFlight | Phase::Retry { .. } | Phase::Pending { .. } => continue,
            };
            outstanding.phase = Phase::InFlight;
            return Some(Step::Ask(outstanding.request(AssociationIndex(place), to)));
        }
        None
    }

    /// Who was asked for each type and has not said what it found.
    fn asked_by_type(&self) -> PerType<Option<AssociationIndex>> {
        let mut by_type = self.processors.table(&None);
        for (place, outstanding) in self.outstanding.iter().enumerate() {
            for (of_type, asked) in outstanding.iter().flat_map(|one| one.asked.types.iter()) {
                if *asked {
                    by_type[of_type] = Some(AssociationIndex(place));
                }
            }
        }
        by_type
    }
}

impl Outstanding {
    fn request(&self, association: AssociationIndex, to: ServiceAddress) -> Request {
        Request {
            association,
            seq: self.seq,
            reason: self.asked.reason,
            to,
            demands: self.demands.clone(),
            linger: self.linger,
        }
    }

    fn due(&self, patience: Duration) -> Time {
        match self.phase {
            Phase::InFlight => Time::NEVER,
            Phase::Retry { at, .. } => at,
            Phase::Pending { repeat_at } => repeat_at.min(self.since + patience),
        }
    }

    fn is_given_up(&self, now: Time, patience: Duration) -> bool {
        match self.phase {
            Phase::InFlight | Phase::Retry { .. } => false,
            Phase::Pending { .. } => self.since + patience <= now,
        }
    }
}

/// Uniform in [0, 1).
fn draw(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn terms(profile: &Profile, u: f64) -> Terms<'_> {
    Terms {
        profile,
        link: Link::Up,
        u,
    }
}

fn candidate(state: &mut ContactState, standing: Standing, has_here: bool) -> Candidate<'_> {
    Candidate {
        state,
        is_suspended: standing.is_suspended,
        is_absent: standing.is_absent,
        wants_no_more_work: standing.wants_no_more_work,
        has_tasks: has_here || standing.unacknowledged > 0,
        has_message: false,
        outputs_since: None,
        has_ended_task: false,
    }
}

fn grounds<'a>(
    situation: &Situation<'a>,
    sources: &'a [Source],
    outlook: &'a Outlook,
    outstanding: &'a PerType<Option<AssociationIndex>>,
) -> Grounds<'a> {
    Grounds {
        now: situation.now,
        profile: situation.profile,
        processors: situation.processors,
        associations: situation.associations,
        sources,
        rec: situation.rec,
        tasks: situation.tasks,
        outlook,
        outstanding,
    }
}

fn sources<'a>(
    processors: &Processors,
    states: impl Iterator<Item = &'a ContactState>,
    standings: &[Standing],
) -> Vec<Source> {
    let source = |(place, state): (usize, &ContactState)| {
        let standing = standings.get(place).copied().unwrap_or_default();
        let mut of_type = processors.table(&SourcePair::default());
        for of in processors.types() {
            let pair = state.pairs.of(of);
            of_type[of] = SourcePair {
                no_apps: pair.has_no_apps(),
                had_none: pair.came_empty(),
                backed_off_until: pair.backed_off_until(),
            };
        }
        Source {
            suspended: standing.is_suspended || standing.is_absent,
            list_pending: state.rpc.wants_list(),
            no_more_work: standing.wants_no_more_work,
            unacknowledged: standing.unacknowledged,
            min_rpc_time: state.rpc.min_rpc_time(),
            correction: 1.0,
            of_type,
        }
    };
    states.enumerate().map(source).collect()
}

fn type_called(processors: &Processors, called: &Processor) -> Option<ProcessorType> {
    let mut types = processors.types();
    types.find(|of_type| processor(processors, *of_type) == *called)
}

fn processor(processors: &Processors, of_type: ProcessorType) -> Processor {
    match of_type {
        ProcessorType::CPU => Processor::Cpu,
        _ => Processor::Cards(processors[of_type].name.as_str().into()),
    }
}

/// As they travel: one for each type of which there is any.
fn demands(processors: &Processors, request: Option<&FetchRequest>) -> Vec<WorkDemand> {
    let there = processors
        .types()
        .filter(|of_type| processors.instances(*of_type) > 0.0);
    let demand = |of_type: ProcessorType| {
        let name = processor(processors, of_type);
        let nothing = WorkDemand::none(name, processors.instances(of_type));
        match request.map(|request| request.of_type[of_type]) {
            Some(demand) => WorkDemand {
                instance_secs: demand.secs,
                instances: demand.instances,
                idle: demand.idle,
                estimated_delay: demand.estimated_delay,
                ..nothing
            },
            None => nothing,
        }
    };
    there.map(demand).collect()
}

/// A reply in the terms of the policies; of types that the worker does not have it says nothing.
fn heard(processors: &Processors, reply: &WorkReply) -> Reply {
    let mut of_type = processors.table(&TypeReply::default());
    for (called, verdict) in &reply.verdicts {
        if let Some(known) = type_called(processors, called) {
            of_type[known].verdict = Some(*verdict);
        }
    }
    for called in &reply.no_apps {
        if let Some(known) = type_called(processors, called) {
            of_type[known].no_apps = true;
        }
    }
    Reply {
        of_type,
        request_delay: reply.request_delay.as_secs_f64(),
        next_contact: reply.next_contact.map_or(0.0, |at| at.as_secs_f64()),
    }
}

/// Where a worker finds its members if nothing was saved of them.
fn attached(processors: &Processors, members: Vec<ServiceAddress>, u: f64) -> ContactState {
    ContactState::new(processors, Members::new(members, u))
}

#[cfg(test)]
mod tests;
