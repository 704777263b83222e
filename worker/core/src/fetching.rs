//! The work fetch of a pull worker: passes associations and tasks to the policies, and returns their decisions.

mod jobs;
mod operator_requests;
mod requests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::{
    CallId, Card, Processor, RefusalCode, ReportPolicy, ReportedStatus, RunningTask, SchedulerId,
    ServiceAddress, TaskKey, Time, WallTime, WorkReply, WorkerId,
};
use brasserie_worker_fetch::{
    Association as Terms, AssociationIndex, CheckEvent, Fetcher, FetcherStep, FixedTasks, Leaves,
    Overview, ProcessorKind, Processors, Saved, SavedScheduler, SavedState, Setup,
    Task as PolicyTask, TaskNumber, TaskResult,
};

use self::jobs::JobNumbers;
use crate::config::{Options, WorkFetch};
use crate::effect::Refusal;
use crate::event::RunTask;
use crate::machine::{Begin, processor_of};
use crate::tasks::{PullTask, WorkerTask};
pub(crate) use operator_requests::does_not_fetch;
pub(crate) use requests::DecidedRequest;
pub(crate) use view::{SchedulerView, WorkerMoment, unreported};

/// More processors of one type than any machine has.
const MOST_INSTANCES: f64 = 1_000_000.0;
/// The worker queues at most this many times the content of its buffer.
const MOST_BUFFERS: f64 = 2.0;

/// The pause after a scan of all tasks, for each task: the more tasks there are, the more expensive a scan is.
const SCAN_FOR_EACH: Duration = Duration::from_micros(20);
/// The maximum pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

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
    jobs: JobNumbers,
    last_task: u64,
    /// The instances of each association in the last turn.
    met: Vec<Met>,
    /// One entry per association. A scheduler that takes no requests is asked again once another instance answers.
    takes_requests: Vec<Takes>,
    calls: BTreeMap<CallId, DecidedRequest>,
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

/// The open tasks in the form for policies, with their associations and keys.
#[derive(Debug, Default)]
pub(crate) struct OpenTasks {
    pub tasks: Vec<PolicyTask>,
    keys: Vec<(AssociationIndex, TaskKey)>,
    /// Those that were asked to end.
    ending: BTreeSet<TaskNumber>,
}

/// The result of a choice, with the most important tasks first.
#[derive(Debug)]
pub(crate) struct ChosenTasks {
    pub order: Vec<(AssociationIndex, TaskKey)>,
    pub stop: Vec<(AssociationIndex, TaskKey)>,
    pub resume: Vec<(AssociationIndex, TaskKey)>,
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
        let mut jobs = JobNumbers::default();
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

    /// Handles the acceptance of a run, and returns its data for the policies.
    pub(crate) fn accept(
        &mut self,
        now: Time,
        of: AssociationIndex,
        run: &RunTask,
        begin: &Begin,
        machine: &[Card],
    ) -> PullTask {
        self.last_task += 1;
        let job = self.jobs.number(of, &run.task.job);
        let numbers = (TaskNumber(self.last_task), job);
        // A queued task adds at most one buffer to the backlog for each instance that it uses. A long task for a single instance gives the
        // other instances nothing to do, so work for them is requested while it waits.
        let seconds = self.fetcher.expected(of, job, run.task.work.est_duration);
        let backlog = seconds.min(self.fetcher.profile().high_water());
        let own = (&run.task, &run.options);
        let mut pull = PullTask::new(now, numbers, own, machine, backlog);
        match begin {
            Begin::Now(_) => pull.begin(now),
            Begin::Later => {
                *self.backlog.entry(pull.processor.clone()).or_default() += pull.backlog;
            }
        }
        let task = self.task(now, of, &pull);
        self.fetcher.task_came(&task);
        pull
    }

    /// Removes a task from the backlog, because it is no longer queued.
    pub(crate) fn left_queue(&mut self, pull: &PullTask) {
        if let Some(backlog) = self.backlog.get_mut(&pull.processor) {
            *backlog = backlog.saturating_sub(pull.backlog);
        }
    }

    /// Records that a task stops executing now.
    pub(crate) fn stopped(&mut self, now: Time, of: AssociationIndex, pull: &PullTask) {
        let task = self.task(now, of, pull);
        self.fetcher.task_stopped(now, &task);
    }

    /// Handles the end of a task with this final status.
    pub(crate) fn ended(
        &mut self,
        now: Time,
        of: AssociationIndex,
        (task, pull): (&WorkerTask, &PullTask),
        status: &ReportedStatus,
    ) {
        if pull.executes() {
            self.stopped(now, of, pull);
        } else if pull.waits() {
            self.left_queue(pull);
        }
        let end = match &task.running.story {
            _ if status.is_done() && !pull.waits() => TaskResult::Well {
                given: pull.given,
                took: pull.executed(now),
            },
            Some(story) if !status.is_done() => TaskResult::Failed { story },
            Some(_) | None => TaskResult::Other,
        };
        let is_told_at_once = self.report_policy(of, &task.running) == ReportPolicy::Immediate;
        // The scheduler counts nothing as idle again for a run that never began or that a fault of the machine ended.
        let counts = !status.is_incomplete_backoff() && !status.is_overwriteable();
        let leaves = match is_told_at_once && counts {
            true => Leaves::Idle,
            false => Leaves::Nothing,
        };
        let task = self.task(now, of, pull);
        self.fetcher.task_ended(now, &task, end, leaves);
    }

    /// Records that a task was refused as busy.
    pub(crate) fn refused(&mut self, of: AssociationIndex) {
        self.fetcher.task_refused(of);
    }

    /// Handles the scheduler's acknowledgement of a completion.
    pub(crate) fn acknowledged(&mut self, of: AssociationIndex, pull: &PullTask) {
        self.fetcher.task_gone(of, pull.number);
    }

    fn task(&self, now: Time, of: AssociationIndex, pull: &PullTask) -> PolicyTask {
        let estimate = self.fetcher.expected(of, pull.job, pull.given);
        let type_of_cards = match &pull.processor {
            Processor::Cpu => None,
            cards @ Processor::Cards(_) => self.fetcher.processor_type(cards),
        };
        let reckoned = (self.fetcher.lengths(), estimate);
        pull.for_policies(now, of, reckoned, type_of_cards)
    }

    /// Refuses to queue a task if too much work waits. The bound is needed because tasks beyond it would complete as late elsewhere. The
    /// first one may always wait.
    pub(crate) fn check_backlog(
        &self,
        task: &RunningTask,
        machine: &[Card],
    ) -> Result<(), Refusal> {
        let processor = processor_of(task, machine);
        let waiting = self.backlog.get(&processor).copied().unwrap_or(0);
        let instances = self
            .fetcher
            .processor_type(&processor)
            .map_or(1.0, |of| self.fetcher.processors().instances(of).max(1.0));
        let most = MOST_BUFFERS * self.fetcher.profile().high_water() * instances;
        if waiting == 0 || (waiting as f64) < most * 1000.0 {
            return Ok(());
        }
        Err(Refusal::new(
            RefusalCode::Busy,
            format!("so much work waits for {processor} that this would wait too long"),
        ))
    }

    /// Returns when the completion of this task is reported. A scheduler that takes no requests is never contacted for work, so its
    /// completions are not held back.
    pub(crate) fn report_policy(&self, of: AssociationIndex, task: &RunningTask) -> ReportPolicy {
        let own = self.fetcher.profile().report;
        match self.takes_requests(of) {
            true => task.work.report.unwrap_or(own),
            false => ReportPolicy::Immediate,
        }
    }

    // ---- schedulers ----

    /// Returns whether the scheduler may know requests for work.
    pub(crate) fn takes_requests(&self, of: AssociationIndex) -> bool {
        self.takes_requests
            .get(of.0)
            .is_some_and(|takes| takes.any())
    }

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
    pub(crate) fn meet(&mut self, now: Time, schedulers: &[SchedulerView<'_>]) {
        for (view, met) in schedulers.iter().zip(&mut self.met) {
            let with = view.scheduler;
            let met_now = Met {
                with: with.map(|scheduler| (view.instance, scheduler)),
                is_absent: view.is_absent,
                scheduler: met.scheduler,
            };
            let before = std::mem::replace(met, met_now);
            if before.is_absent && !met_now.is_absent {
                self.fetcher.check(CheckEvent::Reconnected);
            }
            if met_now.is_absent && !before.is_absent {
                self.fetcher.out_of_favour(view.index);
            }
            if before.with == met_now.with {
                continue;
            }
            let index = view.index;
            self.calls.retain(|_, asked| asked.association != index);
            self.takes_requests[index.0] = Takes::Requests;
            let is_another = match (met.scheduler, with) {
                (Some(before), Some(now)) => before != now,
                (None, _) | (_, None) => false,
            };
            met.scheduler = with.or(met.scheduler);
            match is_another {
                true => self.fetcher.scheduler_replaced(now, index),
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
    pub(crate) fn choice_due(&self, waiting: usize) -> Time {
        match waiting {
            0 => self.fetcher.accounts_due(),
            _ => self.fetcher.choice_due().max(self.chosen_until),
        }
    }

    pub(crate) fn ask_due(&self) -> Time {
        self.fetcher.due().max(self.asked_until)
    }

    /// Returns the open tasks of all associations, in order.
    pub(crate) fn open_tasks<'a>(
        &self,
        now: Time,
        tasks: impl Iterator<Item = (AssociationIndex, &'a TaskKey, &'a WorkerTask)>,
    ) -> OpenTasks {
        let mut open = OpenTasks::default();
        for (of, key, task) in tasks {
            if let Some(pull) = task.pull.as_ref().filter(|_| task.is_open()) {
                open.tasks.push(self.task(now, of, pull));
                open.keys.push((of, key.clone()));
                if pull.is_ending() {
                    open.ending.insert(pull.number);
                }
            }
        }
        open
    }

    /// Chooses the running tasks and the order of the queued ones. `held_back` are the queued tasks that could not begin whatever is chosen.
    pub(crate) fn choose(
        &mut self,
        now: Time,
        open: &OpenTasks,
        held_back: &BTreeSet<TaskNumber>,
    ) -> ChosenTasks {
        let fixed = FixedTasks {
            ending: &open.ending,
            held_back,
        };
        self.chosen_until = now + pause_after(open.tasks.len());
        let schedule = self.fetcher.choose(now, &open.tasks, fixed);
        let by_number: BTreeMap<TaskNumber, usize> = (open.tasks.iter().enumerate())
            .map(|(at, task)| (task.number, at))
            .collect();
        let whose = |numbers: &[TaskNumber]| -> Vec<(AssociationIndex, TaskKey)> {
            let at = numbers.iter().filter_map(|one| by_number.get(one));
            at.map(|at| open.keys[*at].clone()).collect()
        };
        ChosenTasks {
            order: [whose(&schedule.start), whose(&schedule.next)].concat(),
            stop: whose(&schedule.preempt),
            resume: whose(&schedule.resume),
        }
    }

    /// Returns the next step of the work fetch, which is due.
    pub(crate) fn next_step(&mut self, moment: &WorkerMoment<'_>) -> FetcherStep {
        self.asked_until = moment.now + pause_after(moment.tasks.len());
        let association_states = self.association_states(moment.schedulers);
        self.fetcher.next(&moment.input(&association_states))
    }

    /// Returns what people see of the work fetch. `unanswered` returns for how long a scheduler has not answered, and why.
    pub(crate) fn overview(
        &self,
        moment: &WorkerMoment<'_>,
        unanswered: impl Fn(AssociationIndex) -> Option<String>,
    ) -> Overview {
        let association_states = self.association_states(moment.schedulers);
        let mut overview = self.fetcher.overview(&moment.input(&association_states));
        for (told, view) in overview.of_association.iter_mut().zip(moment.schedulers) {
            let takes = self.takes_requests[view.index.0];
            told.reason = true_reason(view, takes, unanswered(view.index), told.reason.take());
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

/// Returns the pause between two scans of this many tasks for the same purpose.
fn pause_after(tasks: usize) -> Duration {
    let tasks = u32::try_from(tasks).unwrap_or(u32::MAX);
    SCAN_FOR_EACH.saturating_mul(tasks).min(LONGEST_PAUSE)
}

/// Returns why a scheduler is not asked, or is asked in vain. The policies know only that it would send nothing, and not why.
fn true_reason(
    view: &SchedulerView<'_>,
    takes: Takes,
    unanswered: Option<String>,
    said: Option<String>,
) -> Option<String> {
    if !view.is_running {
        return match view.is_absent {
            true => Some(ENDING.to_owned()),
            false => said,
        };
    }
    // All other reasons follow from this one: completions wait for the scheduler, and requests fail.
    if unanswered.is_some() {
        return unanswered;
    }
    match (view.is_absent, takes.any()) {
        (true, _) => Some(NOT_HEALTHY.to_owned()),
        (false, false) => Some(NO_REQUESTS.to_owned()),
        (false, true) => said,
    }
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
