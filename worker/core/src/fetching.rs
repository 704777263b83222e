//! The work fetch of a pull worker: passes associations and tasks to its policies, and carries out their decisions.

use std::collections::BTreeMap;
use std::time::Duration;

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::{
    CallId, JobName, Processor, ReportPolicy, RunningTask, SchedulerId, ServiceAddress, TaskKey,
    Time, WallTime, WorkReply, WorkRequestSeq, WorkerId,
};
use brasserie_worker_fetch::{
    Association as Terms, AssociationIndex, CheckEvent, Fetcher, Leaves, ListReason, Overview,
    ProcessorKind, Processors, RpcReason, Saved, SavedScheduler, SavedState, Setup, Step, Task,
    TaskEnd, TaskNumber,
};

use self::scene::{is_absent, scene, true_reason, unreported};
use crate::association::Association;
use crate::config::{MemberList, Options, WorkFetch};
use crate::jobs::Jobs;
use crate::piece::Piece;
use crate::turn::Turn;
use crate::whereabouts::Reader;

mod choosing;
mod scene;
mod talks;
mod wishes;

use choosing::pause_after;
pub(crate) use choosing::{Turns, choose_runs};
pub(crate) use wishes::fetches_none;

/// More processors of one type than any machine has.
const MOST_INSTANCES: f64 = 1_000_000.0;
/// The worker queues at most this many times the content of its buffer.
const MOST_BUFFERS: f64 = 2.0;

/// Texts for people.
const NO_REQUESTS: &str = "it takes no requests, and sends as much as it has slots for";
const NOT_HEALTHY: &str = "does not take the worker for healthy";
const ENDING: &str = "the worker takes no more work for it: it drains, or ends";

/// The state of the work fetch, apart from the state of the policies.
#[derive(Clone, Debug)]
pub(crate) struct Fetching {
    fetcher: Fetcher,
    card_weight: f64,
    /// The names under which the learned state of each scheduler is saved.
    addresses: Vec<String>,
    jobs: Jobs,
    last_task: u64,
    /// The instances of each association in the last turn.
    met: Vec<Met>,
    /// One entry per association. A scheduler that takes no requests is asked again once another instance answers.
    takes_requests: Vec<Takes>,
    calls: BTreeMap<CallId, Asking>,
    /// The queued work by processor type, in instance-milliseconds.
    backlog: BTreeMap<Processor, u64>,
    /// No new choice of running tasks is made before this time.
    chosen_until: Time,
    /// No new check for a scheduler to ask is made before this time.
    asked_until: Time,
}

/// The two instances of an association, and whether its scheduler would send nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Met {
    with: Option<(WorkerId, SchedulerId)>,
    is_absent: bool,
    /// The last known scheduler instance.
    scheduler: Option<SchedulerId>,
}

/// Whether a scheduler knows requests for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    Requests,
    /// This many members in a row have answered that they do not know the call. Other members may be newer.
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

    /// Records that one more of `members` members does not know the call.
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

/// A request for work in flight.
#[derive(Clone, Copy, Debug)]
struct Asking {
    association: AssociationIndex,
    seq: WorkRequestSeq,
    deadline: Time,
}

/// The open tasks in the form for policies, with their associations and keys.
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

    /// Returns a new number for a task, and the number of its job.
    pub(crate) fn numbers(&mut self, of: AssociationIndex, job: &JobName) -> (TaskNumber, u32) {
        self.last_task += 1;
        (TaskNumber(self.last_task), self.jobs.number(of, job))
    }

    /// Returns the expected run time of a task that has not begun, in seconds.
    pub(crate) fn estimate(&self, of: AssociationIndex, job: u32, given: Option<f64>) -> f64 {
        self.fetcher.expected(of, job, given)
    }

    /// Handles the acceptance of a task.
    pub(crate) fn came(&mut self, now: Time, of: AssociationIndex, piece: &Piece) {
        if piece.waits() {
            *self.backlog.entry(piece.processor.clone()).or_default() += piece.backlog;
        }
        let task = self.task(now, of, piece);
        self.fetcher.task_came(&task);
    }

    /// Removes a task from the backlog, because it is no longer queued.
    pub(crate) fn left_the_queue(&mut self, piece: &Piece) {
        if let Some(backlog) = self.backlog.get_mut(&piece.processor) {
            *backlog = backlog.saturating_sub(piece.backlog);
        }
    }

    /// Records that a task stops executing now.
    pub(crate) fn stopped(&mut self, now: Time, of: AssociationIndex, piece: &Piece) {
        let task = self.task(now, of, piece);
        self.fetcher.task_stopped(now, &task);
    }

    /// Handles the end of a task. A task that executed must have been passed to `stopped` before.
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

    /// Records that a task was refused as busy.
    pub(crate) fn refused(&mut self, of: AssociationIndex) {
        self.fetcher.task_refused(of);
    }

    /// Handles the scheduler's acknowledgement of a completion.
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

    /// Returns the seconds that a queued task adds to the backlog for each instance that it uses: at most one buffer. A long task for a
    /// single instance gives the other instances nothing to do, so work for them is requested while it waits.
    pub(crate) fn backlog(&self, seconds: f64) -> f64 {
        seconds.min(self.fetcher.profile().high_water())
    }

    /// Returns whether another task may wait for this processor type. The first one always may.
    pub(crate) fn may_wait(&self, processor: &Processor) -> bool {
        let waiting = self.backlog.get(processor).copied().unwrap_or(0);
        let instances = self
            .fetcher
            .processor_type(processor)
            .map_or(1.0, |of| self.fetcher.processors().instances(of).max(1.0));
        let most = MOST_BUFFERS * self.fetcher.profile().high_water() * instances;
        waiting == 0 || (waiting as f64) < most * 1000.0
    }

    /// Returns when the completion of this task is reported. A scheduler that takes no requests is never contacted for work, so its
    /// completions are not held back.
    pub(crate) fn report_policy(&self, of: AssociationIndex, task: &RunningTask) -> ReportPolicy {
        let own = self.fetcher.profile().report;
        match self.takes_requests.get(of.0) {
            Some(takes) if takes.any() => task.work.report.unwrap_or(own),
            Some(_) | None => ReportPolicy::Immediate,
        }
    }

    // ---- schedulers ----

    /// Handles the part of a heartbeat answer that concerns work.
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

    /// Records that the scheduler instance answers heartbeats at this member, and did not before.
    pub(crate) fn found_at(&mut self, of: AssociationIndex, member: &ServiceAddress) {
        self.fetcher.found_at(of, member);
    }

    /// Handles a read of the scheduler's member list; `None` if the read failed.
    pub(crate) fn list_read(
        &mut self,
        now: Time,
        of: AssociationIndex,
        read: Option<Vec<ServiceAddress>>,
    ) {
        self.fetcher.list_read(now, of, read);
    }

    /// Sets the resources of the machine.
    pub(crate) fn set_usable(&mut self, now: Time, usable: &UsablePhysicalResources) {
        let processors = processors(usable, self.card_weight);
        self.fetcher.set_processors(now, processors);
    }

    /// Detects associations with a new scheduler or a new worker instance, which begin anew, and those whose scheduler may be asked again.
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

    /// Returns when there is something to do if no event arrives.
    pub(crate) fn due(&self, waiting: usize) -> Time {
        let call = self.calls.values().next().map(|call| call.deadline);
        let due = self.ask_due().min(self.choice_due(waiting));
        call.map_or(due, |call| due.min(call))
    }

    /// Returns when to choose the running tasks again. Without waiting tasks, a choice changes nothing and only keeps the accounts.
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

    /// Sends requests until there is nothing more to ask for now.
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
                        // Only requests for work need a member. Completions that are due can leave now.
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
                    // Completions go first: they free resources that the requested tasks may need.
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

    /// Returns what a later worker in its place can use. `wall` is the current wall clock time.
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

/// Requests work, if it is time.
pub(crate) fn ask_for_work(associations: &mut [Association], turn: &mut Turn<'_>) {
    let Some(mut fetching) = turn.machine.fetching.take() else {
        return;
    };
    fetching.ask(associations, turn);
    turn.machine.fetching = Some(fetching);
}

/// Returns the processors of the machine by type; GPUs of one model are one type. A machine that reports nothing has one CPU.
fn processors(usable: &UsablePhysicalResources, card_weight: f64) -> Processors {
    let mut models: BTreeMap<&str, u32> = BTreeMap::new();
    for card in &usable.gpus {
        *models.entry(card.name.as_str()).or_default() += 1;
    }
    let kind = |name: &str, instances: u32, relative_speed: f64| ProcessorKind {
        name: name.to_owned(),
        instances,
        relative_speed,
        // A worker whose machine is switched off or taken back ends. So while a worker runs, its processors are available.
        availability: 1.0,
    };
    // A float cast saturates, and NaN becomes 0.
    let cpus = usable.cpu_cores.min(MOST_INSTANCES) as u32;
    let cards = models.into_iter();
    Processors::new(
        kind(Processor::Cpu.as_str(), cpus.max(1), 1.0),
        cards
            .map(|(model, count)| kind(model, count, card_weight))
            .collect(),
    )
}
