//! The simulated worker. It feeds events and tasks to the worker's own policies and carries out their decisions.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{Fault, ServiceAddress, Story, Time, WorkReply, WorkRequestSeq};
use brasserie_worker_fetch::{
    Association, AssociationIndex, AssociationState, Computing, Fetcher, FetcherInput, FetcherStep,
    FixedTasks, Leaves, ProcessorKind, ProcessorType, ProcessorUsage, Processors, ReportContent,
    ReportPolicy, Saved, SavedRec, Schedule, Setup, Task, TaskNumber, TaskProgress, TaskResult,
    TaskStage, Unreported, remaining,
};

use crate::scenario::{Deadlines, Dispatch, Scenario, Version, Worker};

/// Time to wait for pending verdicts. Simulated schedulers always know theirs.
const PATIENCE: Duration = Duration::from_secs(30);
/// Limit of the waiting work, in buffers. The worker refuses more.
const MOST_BUFFERS: f64 = 2.0;
/// Lower limit of the availability that the worker assumes.
const LEAST_AVAILABILITY: f64 = 0.01;

/// The worker of a run.
pub struct Client {
    fetcher: Fetcher,
    /// The tasks at the worker that have not ended, in the order of arrival.
    tasks: Vec<Task>,
    /// The notes of each task.
    notes: Vec<Note>,
    /// Completions that wait for a contact.
    unreported: Vec<Unreported>,
    association_states: Vec<AssociationState>,
    computing: Computing,
    deadlines: Deadlines,
    dispatch: Dispatch,
    tells_progress: bool,
}

/// The worker's knowledge of a task that is not in [`Task`].
#[derive(Clone, Copy, Debug)]
struct Note {
    /// The scheduler's estimate in seconds.
    given: Option<f64>,
    progress: TaskProgress,
}

/// A task that arrives.
#[derive(Clone, Copy, Debug)]
pub struct TaskArrival {
    pub number: TaskNumber,
    pub scheduler: usize,
    pub job: usize,
    pub version: Version,
    pub estimate: Option<f64>,
    pub deadline: Option<Time>,
}

/// The result of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnding {
    Well,
    Failed,
}

/// The state of a scheduler for the time series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Glance {
    pub rec: f64,
    pub priority: f64,
    pub tasks: usize,
    /// Seconds of run time that its tasks still need.
    pub queued: f64,
    /// Instances that its running tasks occupy, summed over all types.
    pub usage: f64,
}

impl Client {
    pub fn new(scenario: &Scenario, now: Time) -> Self {
        let schedulers = &scenario.schedulers;
        let associations = schedulers.iter().map(|scheduler| {
            let jobs = scheduler.jobs.iter().enumerate();
            let limited = jobs.filter_map(|(job, of)| Some((number_of(job), of.max_concurrent?)));
            Association {
                share: scheduler.share,
                max_concurrent: scheduler.max_concurrent,
                max_concurrent_of_jobs: limited.collect(),
            }
        });
        let mut profile = scenario.profile.clone();
        profile.linger = scenario.policy.linger;
        if scenario.policy.dispatch == Dispatch::Push {
            // A worker without requests has no contact with which it could report.
            profile.report = ReportPolicy::Immediate;
        }
        let setup = Setup {
            profile,
            preemption: scenario.policy.preemption,
            processors: processors(&scenario.worker),
            associations: associations.collect(),
            members: schedulers
                .iter()
                .map(|it| vec![address(&it.name)])
                .collect(),
            patience: PATIENCE,
            seed: scenario.seed,
        };
        let rec = schedulers.iter().map(|scheduler| SavedRec {
            average: scheduler.rec,
            age: 0.0,
        });
        let saved = Saved {
            rec: rec.collect(),
            ..Saved::default()
        };
        Client {
            fetcher: Fetcher::new(setup, now, &saved),
            tasks: Vec::new(),
            notes: Vec::new(),
            unreported: Vec::new(),
            association_states: vec![AssociationState::default(); schedulers.len()],
            computing: Computing::Allowed,
            deadlines: scenario.policy.deadlines,
            dispatch: scenario.policy.dispatch,
            tells_progress: scenario.policy.tells_progress,
        }
    }

    /// Returns whether completions are reported at once, each in its own contact.
    pub fn reports_at_once(&self) -> bool {
        self.fetcher.profile().report == ReportPolicy::Immediate
    }

    /// Returns the time at which the worker has something to do if no event comes first. It may have passed. An unconnected worker makes no
    /// requests.
    pub fn wakes(&self, is_connected: bool) -> Time {
        let choice = match self.computing {
            Computing::Allowed => self.choice_due(),
            Computing::Suspended => Time::NEVER,
        };
        let asks = match self.dispatch {
            Dispatch::Pull if is_connected => self.fetcher.due(),
            Dispatch::Pull | Dispatch::Push => Time::NEVER,
        };
        choice.min(asks)
    }

    /// Returns the time of the next choice. If no task waits, a choice only updates the accounts.
    fn choice_due(&self) -> Time {
        let runs = |task: &Task| task.stage.is_executing();
        match self.tasks.iter().all(runs) {
            true => self.fetcher.accounts_due(),
            false => self.fetcher.choice_due(),
        }
    }

    /// Chooses the running tasks if a choice is due, and returns the changes.
    pub fn choose(&mut self, now: Time) -> Option<Schedule> {
        if self.computing == Computing::Suspended || self.choice_due() > now {
            return None;
        }
        self.look();
        let mut shown = self.tasks.clone();
        if self.deadlines == Deadlines::Ignored {
            // No task is in danger without deadlines, so only priorities decide.
            shown.iter_mut().for_each(|task| task.deadline = None);
        }
        let fixed = FixedTasks {
            ending: &BTreeSet::new(),
            held_back: &BTreeSet::new(),
        };
        let schedule = self.fetcher.choose(now, &shown, fixed);
        for number in schedule.start.iter().chain(&schedule.resume) {
            self.set_stage(*number, TaskStage::Executing { since: now });
        }
        for number in &schedule.preempt {
            self.stop(now, *number);
        }
        Some(schedule)
    }

    /// Returns the next contact or list reading, if any. A worker that gets tasks without requests makes none.
    pub fn next(&mut self, now: Time) -> Option<FetcherStep> {
        if self.dispatch == Dispatch::Push || self.fetcher.due() > now {
            return None;
        }
        self.look();
        let Client {
            fetcher,
            tasks,
            unreported,
            association_states,
            computing,
            ..
        } = self;
        let step = fetcher.next(&FetcherInput {
            now,
            computing: *computing,
            tasks,
            association_states,
            unreported,
        });
        match step {
            FetcherStep::Wait { .. } => None,
            step => Some(step),
        }
    }

    pub fn answered(&mut self, now: Time, scheduler: usize, reply: &WorkReply) {
        let association = AssociationIndex(scheduler);
        self.fetcher.answered(now, association, reply);
    }

    pub fn not_served(&mut self, now: Time, scheduler: usize, seq: WorkRequestSeq) {
        let association = AssociationIndex(scheduler);
        self.fetcher.not_served(now, association, seq);
    }

    /// Reads the scheduler's member list, which never changes.
    pub fn list_read(&mut self, now: Time, scheduler: usize, name: &str) {
        let members = Some(vec![address(name)]);
        let association = AssociationIndex(scheduler);
        self.fetcher.list_read(now, association, members);
    }

    /// Returns whether the worker accepts another task of this type. It refuses tasks if a limited number of buffers waits; each task
    /// counts as one buffer at most. The first waiting task is always accepted.
    pub fn takes(&mut self, of_type: usize) -> bool {
        self.look();
        let of_type = ProcessorType(of_type);
        let waiting = self.waiting().into_iter();
        let its = waiting.filter(|task| task.usage.processor_type() == of_type);
        let buffer = self.fetcher.profile().high_water();
        let backlog: f64 = its
            .map(|task| task.remaining.min(buffer) * task.usage.of_its_type())
            .sum();
        let instances = self.fetcher.processors().instances(of_type).max(1.0);
        let most = MOST_BUFFERS * buffer * instances;
        backlog <= 0.0 || backlog < most
    }

    /// Returns the queued tasks that do not start at once. Tasks start in the order of arrival as long as each finds its processors.
    fn waiting(&self) -> Vec<&Task> {
        let processors = self.fetcher.processors();
        let executing = self.tasks.iter().filter(|task| task.stage.is_executing());
        let mut begun: Vec<&Task> = executing.collect();
        let queued = self
            .tasks
            .iter()
            .filter(|task| task.stage == TaskStage::Queued);
        let mut queued = queued.peekable();
        while let Some(task) = queued.peek() {
            let of_type = task.usage.processor_type();
            let used: f64 = begun.iter().map(|other| other.usage.of(of_type)).sum();
            let free = processors.instances(of_type) - used;
            // A CPU task starts on any free part of the CPUs.
            let fits = match task.usage.cards {
                Some((_, cards)) => cards <= free + 1e-6,
                None => free > 1e-6,
            };
            if !fits {
                break;
            }
            begun.extend(queued.next());
        }
        queued.collect()
    }

    pub fn came(&mut self, now: Time, arrival: &TaskArrival) {
        let association = AssociationIndex(arrival.scheduler);
        let job = number_of(arrival.job);
        let estimate = self.fetcher.expected(association, job, arrival.estimate);
        let cards = arrival.version.cards;
        let task = Task {
            number: arrival.number,
            association,
            job,
            usage: ProcessorUsage {
                cpus: arrival.version.cpus,
                cards: cards.map(|(place, count)| (ProcessorType(place + 1), count)),
            },
            remaining: estimate,
            received: now,
            deadline: arrival.deadline,
            stage: TaskStage::Queued,
        };
        self.fetcher.task_came(&task);
        self.tasks.push(task);
        self.notes.push(Note {
            given: arrival.estimate,
            progress: TaskProgress::default(),
        });
    }

    /// Notes that a task ran for some more seconds; `done` is the completed fraction of its work.
    pub fn ran(&mut self, number: TaskNumber, seconds: f64, done: f64) {
        let Some(at) = self.place(number) else { return };
        let progress = &mut self.notes[at].progress;
        progress.elapsed += seconds;
        if self.tells_progress {
            progress.done = Some((done, progress.elapsed));
        }
    }

    pub fn ended(&mut self, now: Time, number: TaskNumber, how: TaskEnding) {
        let Some(at) = self.place(number) else { return };
        let task = self.tasks.remove(at);
        let Note { given, progress } = self.notes.remove(at);
        let took = progress.elapsed;
        self.fetcher.task_stopped(now, &task);
        let story = failure();
        let end = match how {
            TaskEnding::Well => TaskResult::Well { given, took },
            TaskEnding::Failed => TaskResult::Failed { story: &story },
        };
        let leaves = match self.reports_at_once() {
            true => Leaves::Idle,
            false => Leaves::Nothing,
        };
        self.fetcher.task_ended(now, &task, end, leaves);
        if self.reports_at_once() {
            self.association_states[task.association.0].unacknowledged += 1;
            return;
        }
        self.unreported.push(Unreported {
            association: task.association,
            task: number,
            told: ReportContent::End,
            policy: None,
            ended: now,
            deadline: task.deadline,
        });
    }

    /// Returns the completions to report with the next contact to this scheduler.
    pub fn waiting_for(&self, scheduler: usize) -> Vec<TaskNumber> {
        let all = self.unreported.iter();
        let its = all.filter(|end| end.association.0 == scheduler);
        its.map(|end| end.task).collect()
    }

    /// Notes that the scheduler has acknowledged the completion.
    pub fn reported(&mut self, scheduler: usize, number: TaskNumber) {
        let association_state = &mut self.association_states[scheduler];
        association_state.unacknowledged = association_state.unacknowledged.saturating_sub(1);
        self.unreported.retain(|end| end.task != number);
        self.fetcher.task_gone(AssociationIndex(scheduler), number);
    }

    /// Suspends computing. Returns the tasks that ran.
    pub fn suspend(&mut self, now: Time) -> Vec<TaskNumber> {
        self.computing = Computing::Suspended;
        let executing = self.tasks.iter().filter(|task| task.stage.is_executing());
        let executing: Vec<TaskNumber> = executing.map(|task| task.number).collect();
        for number in &executing {
            self.stop(now, *number);
        }
        executing
    }

    /// Resumes computing.
    pub fn resume(&mut self) {
        self.computing = Computing::Allowed;
        self.fetcher.wants_choice();
    }

    /// Returns, for each task of this scheduler at the worker, the remaining seconds and the seconds until its deadline.
    pub fn known(&mut self, now: Time, scheduler: usize) -> Vec<(f64, Option<f64>)> {
        self.look();
        let its = self.tasks.iter();
        let its = its.filter(|task| task.association.0 == scheduler);
        its.map(|task| {
            let left = |deadline: Time| seconds(deadline) - seconds(now);
            (task.remaining, task.deadline.map(left))
        })
        .collect()
    }

    /// Returns the state of each scheduler, and the missing instance-seconds of the buffer for each type.
    pub fn glance(&mut self, now: Time) -> (Vec<Glance>, Vec<f64>) {
        self.look();
        let overview = self.fetcher.overview(&FetcherInput {
            now,
            computing: self.computing,
            tasks: &self.tasks,
            association_states: &self.association_states,
            unreported: &self.unreported,
        });
        let rec = self.fetcher.save(now).rec;
        let of_one = |scheduler: usize| {
            let its = || {
                let all = self.tasks.iter();
                all.filter(move |task| task.association.0 == scheduler)
            };
            let executing = its().filter(|task| task.stage.is_executing());
            Glance {
                rec: rec.get(scheduler).map_or(0.0, |rec| rec.average),
                priority: overview.of_association[scheduler].priority,
                tasks: its().count(),
                queued: its().map(|task| task.remaining).sum(),
                usage: executing.map(|task| task.usage.of_its_type()).sum(),
            }
        };
        let shortfall = overview.of_type.iter().map(|it| it.shortfall);
        let glances = (0..self.association_states.len()).map(of_one);
        (glances.collect(), shortfall.collect())
    }

    /// Updates the estimated remaining time of each task.
    fn look(&mut self) {
        for (task, note) in self.tasks.iter_mut().zip(&self.notes) {
            let estimate = (self.fetcher).expected(task.association, task.job, note.given);
            task.remaining = remaining(self.fetcher.lengths(), estimate, note.progress);
        }
    }

    fn stop(&mut self, now: Time, number: TaskNumber) {
        let Some(at) = self.place(number) else { return };
        self.fetcher.task_stopped(now, &self.tasks[at]);
        self.set_stage(number, TaskStage::Preempted { has_process: true });
    }

    fn set_stage(&mut self, number: TaskNumber, stage: TaskStage) {
        if let Some(at) = self.place(number) {
            self.tasks[at].stage = stage;
        }
    }

    fn place(&self, number: TaskNumber) -> Option<usize> {
        self.tasks.iter().position(|task| task.number == number)
    }
}

/// Returns the number of the scheduler's job at this index.
fn number_of(job: usize) -> u32 {
    u32::try_from(job).unwrap_or(u32::MAX)
}

fn address(name: &str) -> ServiceAddress {
    ServiceAddress {
        host: name.into(),
        port: 1,
    }
}

/// Returns the story of a task that reported its own failure.
fn failure() -> Story {
    Story {
        fault: Fault::Task,
        ..Story::exited(1)
    }
}

/// Returns the processors as the worker sees them, with their availability.
pub fn processors(worker: &Worker) -> Processors {
    let kind = |of_type: usize, part: f64| ProcessorKind {
        name: worker.type_name(of_type).to_owned(),
        instances: worker.instances(of_type),
        relative_speed: worker.speed(of_type),
        availability: (worker.on.part * part).clamp(LEAST_AVAILABILITY, 1.0),
    };
    let cpu = kind(0, worker.active.part);
    // GPUs can work only while the worker computes.
    let of_cards = worker.active.part * worker.cards_active.part;
    let cards = (1..worker.types()).map(|of_type| kind(of_type, of_cards));
    Processors::new(cpu, cards.collect())
}

/// Converts an instant to seconds since time zero.
pub fn seconds(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// Converts seconds to a span, rounded up to nanoseconds, so that a task of this length has ended by then.
pub fn span(seconds: f64) -> Duration {
    Duration::from_nanos((seconds.clamp(0.0, 1e10) * 1e9).ceil() as u64)
}
