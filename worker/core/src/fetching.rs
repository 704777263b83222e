//! A worker that fetches work: what its policies hear of associations and tasks, and how what they decide is done.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::{
    CallId, JobName, Processor, ReportPolicy, RunningTask, SchedulerId, ServiceAddress, TaskKey,
    Time, WallTime, WorkReply, WorkRequestSeq, WorkerId,
};

use self::scene::{is_absent, scene, true_reason, unreported};
use crate::association::Association;
use crate::config::{MemberList, Options, WorkFetch};
use crate::jobs::Jobs;
use crate::outbox::Turn;
use crate::piece::Piece;
use crate::whereabouts::Reader;
use crate::work_fetch::{
    Association as Terms, AssociationIndex, CheckEvent, Fetcher, Leaves, ListReason, Overview,
    ProcessorKind, Processors, RpcReason, Saved, SavedScheduler, SavedState, Setup, Step, Task,
    TaskEnd, TaskNumber,
};

mod choosing;
mod scene;
mod talks;
mod wishes;

use choosing::pause_after;
pub(crate) use choosing::{Turns, choose_runs};
pub(crate) use wishes::fetches_none;

/// No machine has more processors of one type.
const MOST_INSTANCES: f64 = 1_000_000.0;
/// A worker takes no more than so many times what its buffer holds.
const MOST_BUFFERS: f64 = 2.0;

/// For people.
const NO_REQUESTS: &str = "it takes no requests, and sends as much as it has slots for";
const NOT_HEALTHY: &str = "does not take the worker for healthy";
const ENDING: &str = "the worker takes no more work for it: it drains, or ends";

/// The state of a worker's work fetch, beside its policies'.
#[derive(Clone, Debug)]
pub(crate) struct Fetching {
    fetcher: Fetcher,
    card_weight: f64,
    /// By which what was learned of schedulers is saved.
    addresses: Vec<String>,
    jobs: Jobs,
    last_task: u64,
    /// Who each association was with when it was looked last.
    met: Vec<Met>,
    /// By association; one that does not is asked again when it is another instance.
    takes_requests: Vec<Takes>,
    calls: BTreeMap<CallId, Asking>,
    /// Of the tasks that wait: instances times milliseconds, by type.
    backlog: BTreeMap<Processor, u64>,
    /// What was chosen last counts until then.
    chosen_until: Time,
    /// It is not looked before whom to ask.
    asked_until: Time,
}

/// Who an association is, and with whom.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Met {
    with: Option<(WorkerId, SchedulerId)>,
    is_absent: bool,
    /// The last one that there was.
    scheduler: Option<SchedulerId>,
}

/// Whether requests for work are known to a scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Requests,
    /// So many of its members have said in a row that they do not know the call. Others may be newer.
    NoneOf(usize),
    Nothing,
}

impl Takes {
    fn any(self) -> bool {
        match self {
            Takes::Requests | Takes::NoneOf(_) => true,
            Takes::Nothing => false,
        }
    }

    /// One more of so many does not know the call.
    fn is_unknown_to_one_of(&mut self, members: usize) {
        let before = match *self {
            Takes::Requests => 0,
            Takes::NoneOf(before) => before,
            Takes::Nothing => return,
        };
        *self = match before + 1 >= members {
            true => Takes::Nothing,
            false => Takes::NoneOf(before + 1),
        };
    }
}

/// A call on its way.
#[derive(Clone, Copy, Debug)]
struct Asking {
    association: AssociationIndex,
    seq: WorkRequestSeq,
    deadline: Time,
}

/// The tasks that are there, as policies see them, and whose each is.
struct Here {
    tasks: Vec<Task>,
    keys: Vec<(AssociationIndex, TaskKey)>,
}

impl Fetching {
    pub(crate) fn new(options: &Options, work_fetch: &WorkFetch, now: Time) -> Self {
        let own = options.associations.iter();
        let terms = own.clone().map(|one| Terms {
            share: one.share,
            max_concurrent: None,
            max_concurrent_of_jobs: BTreeMap::new(),
        });
        let setup = Setup {
            profile: work_fetch.profile.clone(),
            preemption: work_fetch.preemption,
            processors: processors(&options.description.usable, work_fetch.card_weight),
            associations: terms.collect(),
            members: own.clone().map(|one| one.members.clone()).collect(),
            patience: options.description.heartbeat_period.saturating_mul(2),
            seed: work_fetch.seed,
        };
        let mut jobs = Jobs::default();
        let addresses: Vec<String> = own.map(|one| one.called()).collect();
        let saved = work_fetch.saved.as_ref();
        let saved = saved.map_or_else(Saved::default, |saved| jobs.places(saved, &addresses));
        Fetching {
            addresses,
            met: vec![Met::default(); setup.associations.len()],
            takes_requests: vec![Takes::Requests; setup.associations.len()],
            fetcher: Fetcher::new(setup, now, &saved),
            card_weight: work_fetch.card_weight,
            jobs,
            last_task: 0,
            calls: BTreeMap::new(),
            backlog: BTreeMap::new(),
            chosen_until: Time::ZERO,
            asked_until: Time::ZERO,
        }
    }

    // ---- tasks ----

    /// A number for a task, and one for its job.
    pub(crate) fn numbers(&mut self, of: AssociationIndex, job: &JobName) -> (TaskNumber, u32) {
        self.last_task += 1;
        (TaskNumber(self.last_task), self.jobs.number(of, job))
    }

    /// Seconds that a task takes that has not begun.
    pub(crate) fn estimate(&self, of: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        self.fetcher.expected(of, job, given)
    }

    /// A task was accepted.
    pub(crate) fn came(&mut self, now: Time, of: AssociationIndex, piece: &Piece) {
        if piece.waits() {
            *self.backlog.entry(piece.processor.clone()).or_default() += piece.backlog;
        }
        let task = self.task(now, of, piece);
        self.fetcher.task_came(&task);
    }

    /// It waits no more, whatever it does instead.
    pub(crate) fn left_the_queue(&mut self, piece: &Piece) {
        if let Some(backlog) = self.backlog.get_mut(&piece.processor) {
            *backlog = backlog.saturating_sub(piece.backlog);
        }
    }

    /// It does not execute any more, but did until now.
    pub(crate) fn stopped(&mut self, now: Time, of: AssociationIndex, piece: &Piece) {
        let task = self.task(now, of, piece);
        self.fetcher.task_stopped(now, &task);
    }

    /// It has ended, and stopped before if it executed.
    pub(crate) fn ended(
        &mut self,
        now: Time,
        of: AssociationIndex,
        piece: &Piece,
        end: TaskEnd<'_>,
        leaves: Leaves,
    ) {
        let task = self.task(now, of, piece);
        self.fetcher.task_ended(now, &task, end, leaves);
    }

    /// It was refused for the moment.
    pub(crate) fn refused(&mut self, of: AssociationIndex) {
        self.fetcher.task_refused(of);
    }

    /// Its scheduler knows its end.
    pub(crate) fn gone(&mut self, of: AssociationIndex, piece: &Piece) {
        self.fetcher.task_gone(of, piece.number);
    }

    fn task(&self, now: Time, of: AssociationIndex, piece: &Piece) -> Task {
        let estimate = self.estimate(of, piece.job, piece.given);
        let type_of_cards = match &piece.processor {
            Processor::Cpu => None,
            cards @ Processor::Cards(_) => self.fetcher.processor_type(cards),
        };
        let reckoned = (self.fetcher.lengths(), estimate);
        piece.task(now, of, reckoned, type_of_cards)
    }

    /// What a task of so many seconds counts of what waits, for each instance that it uses: no more than one buffer. A long one that waits for
    /// a single instance is nothing to do for the others, for which work is asked for while it waits.
    pub(crate) fn backlog(&self, seconds: f64) -> f64 {
        seconds.min(self.fetcher.profile().high_water())
    }

    /// Whether so much more may wait for the type; the first may always.
    pub(crate) fn may_wait(&self, processor: &Processor) -> bool {
        let waiting = self.backlog.get(processor).copied().unwrap_or(0);
        let instances = self
            .fetcher
            .processor_type(processor)
            .map_or(1.0, |of| self.fetcher.processors().instances(of).max(1.0));
        let most = MOST_BUFFERS * self.fetcher.profile().high_water() * instances;
        waiting == 0 || (waiting as f64) < most * 1000.0
    }

    /// When the end of this task is told. Who takes no requests is never talked to, and waits for none.
    pub(crate) fn report_policy(&self, of: AssociationIndex, task: &RunningTask) -> ReportPolicy {
        let own = self.fetcher.profile().report;
        match self.takes_requests.get(of.0) {
            Some(takes) if takes.any() => task.work.report.unwrap_or(own),
            Some(_) | None => ReportPolicy::Immediate,
        }
    }

    // ---- schedulers ----

    /// What an answer to a heartbeat says of work.
    pub(crate) fn heartbeat_answered(
        &mut self,
        now: Time,
        of: AssociationIndex,
        work: Option<&WorkReply>,
        request_delay: Option<Duration>,
    ) {
        if let Some(reply) = work {
            self.takes_requests[of.0] = Takes::Requests;
            self.fetcher.heartbeat_says(now, of, reply);
        }
        self.fetcher.heartbeat_answered(now, of, request_delay);
    }

    /// The scheduler's instance answers heartbeats at this member, and did not before.
    pub(crate) fn found_at(&mut self, of: AssociationIndex, member: &ServiceAddress) {
        self.fetcher.found_at(of, member);
    }

    /// The list of the scheduler's members was read; `None`: it could not be.
    pub(crate) fn list_read(
        &mut self,
        now: Time,
        of: AssociationIndex,
        read: Option<Vec<ServiceAddress>>,
    ) {
        self.fetcher.list_read(now, of, read);
    }

    /// What the machine offers is another.
    pub(crate) fn set_usable(&mut self, now: Time, usable: &UsablePhysicalResources) {
        let processors = processors(usable, self.card_weight);
        self.fetcher.set_processors(now, processors);
    }

    /// Who has a new scheduler, or is a new instance, begins anew; who has met one may be asked.
    fn meet(&mut self, now: Time, associations: &[Association]) {
        for (association, met) in associations.iter().zip(&mut self.met) {
            let with = association.scheduler();
            let met_now = Met {
                with: with.map(|scheduler| (association.id(), scheduler)),
                is_absent: is_absent(association),
                scheduler: met.scheduler,
            };
            let before = std::mem::replace(met, met_now);
            if before.is_absent && !met_now.is_absent {
                self.fetcher.check(CheckEvent::Reconnected);
            }
            if met_now.is_absent && !before.is_absent {
                self.fetcher.out_of_favour(association.index);
            }
            if before.with == met_now.with {
                continue;
            }
            let index = association.index;
            self.calls.retain(|_, asking| asking.association != index);
            self.takes_requests[index.0] = Takes::Requests;
            let is_another = match (met.scheduler, association.scheduler()) {
                (Some(before), Some(now)) => before != now,
                (None, _) | (_, None) => false,
            };
            met.scheduler = association.scheduler().or(met.scheduler);
            match is_another {
                true => self.fetcher.is_another(now, index),
                false => self.fetcher.reset(index),
            }
        }
    }

    // ---- decisions ----

    /// When there is something to do, if nothing happens until then; `None`: never.
    pub(crate) fn due(&self, waiting: usize) -> Time {
        let call = self.calls.values().next().map(|call| call.deadline);
        let due = self.ask_due().min(self.choice_due(waiting));
        call.map_or(due, |call| due.min(call))
    }

    /// A new choice changes something only if somebody waits; else it is made for the accounts.
    fn choice_due(&self, waiting: usize) -> Time {
        match waiting {
            0 => self.fetcher.accounts_due(),
            _ => self.fetcher.choice_due().max(self.chosen_until),
        }
    }

    fn ask_due(&self) -> Time {
        self.fetcher.due().max(self.asked_until)
    }

    fn here(&self, now: Time, associations: &[Association]) -> Here {
        let mut here = Here {
            tasks: Vec::new(),
            keys: Vec::new(),
        };
        for association in associations {
            for (key, task) in association.tasks.iter() {
                if let Some(piece) = task.piece.as_ref().filter(|_| task.is_open()) {
                    here.tasks.push(self.task(now, association.index, piece));
                    here.keys.push((association.index, key.clone()));
                }
            }
        }
        here
    }

    /// Asks, until there is nothing to ask for now.
    fn ask(&mut self, associations: &mut [Association], turn: &mut Turn<'_>) {
        self.give_up_calls(turn.now);
        for (association, takes) in associations.iter_mut().zip(&self.takes_requests) {
            if !takes.any() && association.reports.held().len() > 0 {
                association.tell_ends(turn);
            }
        }
        while self.ask_due() <= turn.now {
            let here = self.here(turn.now, associations);
            self.asked_until = turn.now + pause_after(here.tasks.len());
            let standings = self.standings(associations);
            let unreported = unreported(associations);
            let looks = (&here.tasks[..], &standings[..], &unreported[..]);
            let scene = scene(turn.now, associations, looks);
            match self.fetcher.next(&scene) {
                Step::Wait { .. } => return,
                Step::ReadList { association, why } => {
                    if why == ListReason::NobodyKnown(RpcReason::ResultsDue) {
                        // Where its members are is asked for work alone.
                        associations[association.0].tell_ends(turn);
                    }
                    let one = &mut associations[association.0];
                    match one.whereabouts.list() {
                        MemberList::Read { .. } => one.read_members(turn, Reader::WorkFetch),
                        MemberList::Fixed => {
                            let own = one.whereabouts.members();
                            let read = (!own.is_empty()).then(|| own.to_vec());
                            self.fetcher.list_read(turn.now, association, read);
                        }
                    }
                }
                Step::Ask(request) => {
                    // What has ended goes first: it frees what the work may need.
                    associations[request.association.0].tell_ends(turn);
                    self.send(associations, turn, request);
                }
            }
        }
    }

    pub(crate) fn overview(&self, now: Time, associations: &[Association]) -> Overview {
        let here = self.here(now, associations);
        let standings = self.standings(associations);
        let unreported = unreported(associations);
        let looks = (&here.tasks[..], &standings[..], &unreported[..]);
        let scene = scene(now, associations, looks);
        let mut overview = self.fetcher.overview(&scene);
        for (told, one) in overview.of_association.iter_mut().zip(associations) {
            told.facts = Some(one.facts());
            let takes = self.takes_requests[one.index.0];
            told.reason = true_reason(now, (one, takes), told.reason.take());
        }
        overview
    }

    /// All that another worker in its place can use; `wall`: what time it is for people.
    pub(crate) fn save(&self, now: Time, wall: WallTime) -> SavedState {
        let Saved {
            contacts,
            rec,
            corrections,
            estimates,
        } = self.fetcher.save(now);
        let own = contacts.into_iter().zip(rec).zip(corrections);
        let schedulers = self.addresses.iter().zip(own);
        let schedulers = schedulers.filter_map(|(address, ((contact, rec), correction))| {
            let saved = SavedScheduler {
                contact: contact?,
                rec,
                correction,
            };
            Some((address.clone(), saved))
        });
        let names = self.jobs.names();
        let name = |of: AssociationIndex, job: u32| {
            let name = names.get(&(of, job))?;
            Some((self.addresses.get(of.0)?.clone(), name.to_string()))
        };
        SavedState::new(wall, schedulers.collect(), &estimates, name)
    }
}

/// Asks for work, if it is time.
pub(crate) fn ask_for_work(associations: &mut [Association], turn: &mut Turn<'_>) {
    let Some(mut fetching) = turn.machine.fetching.take() else {
        return;
    };
    fetching.ask(associations, turn);
    turn.machine.fetching = Some(fetching);
}

/// What a machine offers, by types: cards of one model are one. A machine that says nothing has a CPU.
fn processors(usable: &UsablePhysicalResources, card_weight: f64) -> Processors {
    let mut models: BTreeMap<&str, u32> = BTreeMap::new();
    for card in &usable.gpus {
        *models.entry(card.name.as_str()).or_default() += 1;
    }
    let kind = |name: &str, instances: u32, relative_speed: f64| ProcessorKind {
        name: name.to_owned(),
        instances,
        relative_speed,
        // A worker whose machine is switched off, or taken back, ends: as long as it runs its processors are there.
        availability: 1.0,
    };
    // A float cast saturates, and what is no number is 0.
    let cpus = usable.cpu_cores.min(MOST_INSTANCES) as u32;
    let cards = models.into_iter();
    Processors::new(
        kind(Processor::Cpu.as_str(), cpus.max(1), 1.0),
        cards
            .map(|(model, count)| kind(model, count, card_weight))
            .collect(),
    )
}
