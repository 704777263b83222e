//! The worker: its own code decides whom to ask for work and what runs; here is what it is told and shown.

use std::collections::BTreeSet;
use std::time::Duration;

use brasserie_common::{Fault, ServiceAddress, Story, Time, WorkReply, WorkRequestSeq};
use brasserie_worker_core::work_fetch::{
    Association, AssociationIndex, Computing, Fetcher, Leaves, Limits, ProcessorKind,
    ProcessorType, Processors, Progress, ReportPolicy, Saved, SavedRec, Scene, Schedule, Setup,
    Stage, Standing, Step, Task, TaskEnd, TaskNumber, Told, Unreported, Usage, remaining,
};

use crate::scenario::{Deadlines, Dispatch, Scenario, Version, Worker};

/// So long verdicts are waited for that are not known yet; simulated schedulers always know theirs.
const PATIENCE: Duration = Duration::from_secs(30);
/// A worker refuses tasks beyond so many of its buffers.
const MOST_BUFFERS: f64 = 2.0;
/// What the worker believes in of how often it is there.
const LEAST_AVAILABILITY: f64 = 0.01;

/// The worker's half of a run.
pub struct Client {
    fetcher: Fetcher,
    /// That are here and have not ended, in the order in which they came.
    tasks: Vec<Task>,
    /// Of each of them.
    notes: Vec<Note>,
    /// Ends that wait for a contact.
    unreported: Vec<Unreported>,
    standings: Vec<Standing>,
    computing: Computing,
    deadlines: Deadlines,
    dispatch: Dispatch,
    tells_progress: bool,
}

/// What the worker knows of a task beside what it shows.
#[derive(Clone, Copy, Debug)]
struct Note {
    /// What its scheduler says.
    given: Option<f64>,
    progress: Progress,
}

/// A task that comes.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub number: TaskNumber,
    pub scheduler: usize,
    pub job: usize,
    pub version: Version,
    pub estimate: Option<f64>,
    pub deadline: Option<Time>,
}

/// How a task has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    Failed,
}

/// What of a scheduler goes into the series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Glance {
    pub rec: f64,
    pub priority: f64,
    pub tasks: usize,
    /// Seconds that they take.
    pub queued: f64,
    /// Instances that they keep busy, of all types.
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
            // Whoever is sent tasks unasked has no contact to tell their ends with.
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
            standings: vec![Standing::default(); schedulers.len()],
            computing: Computing::Allowed,
            deadlines: scenario.policy.deadlines,
            dispatch: scenario.policy.dispatch,
            tells_progress: scenario.policy.tells_progress,
        }
    }

    /// Whether ends are told at once, by themselves.
    pub fn reports_at_once(&self) -> bool {
        self.fetcher.profile().report == ReportPolicy::Immediate
    }

    /// When it has something to do, if nothing happens; it may have passed. Who is offline asks nobody.
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

    /// A new choice changes something only if somebody waits; else it is made for the accounts.
    fn choice_due(&self) -> Time {
        let runs = |task: &Task| task.stage.is_executing();
        match self.tasks.iter().all(runs) {
            true => self.fetcher.accounts_due(),
            false => self.fetcher.choice_due(),
        }
    }

    /// What runs from now on, if it is time to choose.
    pub fn choose(&mut self, now: Time) -> Option<Schedule> {
        if self.computing == Computing::Suspended || self.choice_due() > now {
            return None;
        }
        self.look();
        let mut shown = self.tasks.clone();
        if self.deadlines == Deadlines::Ignored {
            // Nothing is in danger then, and priorities alone decide.
            shown.iter_mut().for_each(|task| task.deadline = None);
        }
        let limits = Limits {
            ending: &BTreeSet::new(),
            held_back: &BTreeSet::new(),
        };
        let schedule = self.fetcher.choose(now, &shown, limits);
        for number in schedule.start.iter().chain(&schedule.resume) {
            self.set_stage(*number, Stage::Executing { since: now });
        }
        for number in &schedule.preempt {
            self.stop(now, *number);
        }
        Some(schedule)
    }

    /// Whom to talk to. One that is sent tasks unasked talks to nobody.
    pub fn next(&mut self, now: Time) -> Option<Step> {
        if self.dispatch == Dispatch::Push || self.fetcher.due() > now {
            return None;
        }
        self.look();
        let Client {
            fetcher,
            tasks,
            unreported,
            standings,
            computing,
            ..
        } = self;
        let step = fetcher.next(&Scene {
            now,
            computing: *computing,
            tasks,
            standings,
            unreported,
        });
        match step {
            Step::Wait { .. } => None,
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

    /// The list of its members was read: it is as it was.
    pub fn list_read(&mut self, now: Time, scheduler: usize, name: &str) {
        let members = Some(vec![address(name)]);
        let association = AssociationIndex(scheduler);
        self.fetcher.list_read(now, association, members);
    }

    /// Whether another task may come that counts as this type: not while so much waits for it that the buffer was filled again and again, by
    /// one task no more than once. The first may always.
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

    /// Those that have not begun, but for those that will at once: as long as each finds its processors, and nobody came before who does not.
    fn waiting(&self) -> Vec<&Task> {
        let processors = self.fetcher.processors();
        let executing = self.tasks.iter().filter(|task| task.stage.is_executing());
        let mut begun: Vec<&Task> = executing.collect();
        let queued = self.tasks.iter().filter(|task| task.stage == Stage::Queued);
        let mut queued = queued.peekable();
        while let Some(task) = queued.peek() {
            let of_type = task.usage.processor_type();
            let used: f64 = begun.iter().map(|other| other.usage.of(of_type)).sum();
            let free = processors.instances(of_type) - used;
            // Of the CPU any part that is free will do.
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

    pub fn came(&mut self, now: Time, arrival: &Arrival) {
        let association = AssociationIndex(arrival.scheduler);
        let job = number_of(arrival.job);
        let estimate = self.fetcher.expected(association, job, arrival.estimate);
        let cards = arrival.version.cards;
        let task = Task {
            number: arrival.number,
            association,
            job,
            usage: Usage {
                cpus: arrival.version.cpus,
                cards: cards.map(|(place, count)| (ProcessorType(place + 1), count)),
            },
            remaining: estimate,
            received: now,
            deadline: arrival.deadline,
            stage: Stage::Queued,
        };
        self.fetcher.task_came(&task);
        self.tasks.push(task);
        self.notes.push(Note {
            given: arrival.estimate,
            progress: Progress::default(),
        });
    }

    /// A task has run for some seconds more, and so much of it is done.
    pub fn ran(&mut self, number: TaskNumber, seconds: f64, done: f64) {
        let Some(at) = self.place(number) else { return };
        let progress = &mut self.notes[at].progress;
        progress.elapsed += seconds;
        if self.tells_progress {
            progress.done = Some((done, progress.elapsed));
        }
    }

    pub fn ended(&mut self, now: Time, number: TaskNumber, how: Ended) {
        let Some(at) = self.place(number) else { return };
        let task = self.tasks.remove(at);
        let Note { given, progress } = self.notes.remove(at);
        let took = progress.elapsed;
        self.fetcher.task_stopped(now, &task);
        let story = failure();
        let end = match how {
            Ended::Well => TaskEnd::Well { given, took },
            Ended::Failed => TaskEnd::Failed { story: &story },
        };
        let leaves = match self.reports_at_once() {
            true => Leaves::Idle,
            false => Leaves::Nothing,
        };
        self.fetcher.task_ended(now, &task, end, leaves);
        if self.reports_at_once() {
            self.standings[task.association.0].unacknowledged += 1;
            return;
        }
        self.unreported.push(Unreported {
            association: task.association,
            task: number,
            told: Told::End,
            policy: None,
            ended: now,
            deadline: task.deadline,
        });
    }

    /// What waits to be told to this scheduler with its next contact.
    pub fn waiting_for(&self, scheduler: usize) -> Vec<TaskNumber> {
        let all = self.unreported.iter();
        let its = all.filter(|end| end.association.0 == scheduler);
        its.map(|end| end.task).collect()
    }

    /// The scheduler knows how it has ended.
    pub fn reported(&mut self, scheduler: usize, number: TaskNumber) {
        let standing = &mut self.standings[scheduler];
        standing.unacknowledged = standing.unacknowledged.saturating_sub(1);
        self.unreported.retain(|end| end.task != number);
        self.fetcher.task_gone(AssociationIndex(scheduler), number);
    }

    /// The worker may not compute from now on; who runs then.
    pub fn suspend(&mut self, now: Time) -> Vec<TaskNumber> {
        self.computing = Computing::Suspended;
        let executing = self.tasks.iter().filter(|task| task.stage.is_executing());
        let executing: Vec<TaskNumber> = executing.map(|task| task.number).collect();
        for number in &executing {
            self.stop(now, *number);
        }
        executing
    }

    /// It may again.
    pub fn resume(&mut self) {
        self.computing = Computing::Allowed;
        self.fetcher.wants_choice();
    }

    /// The tasks of this scheduler that are here, what each still takes, and until when it has to have run.
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

    /// Of each scheduler, and the instance-seconds that are missing in the buffer, by type.
    pub fn glance(&mut self, now: Time) -> (Vec<Glance>, Vec<f64>) {
        self.look();
        let overview = self.fetcher.overview(&Scene {
            now,
            computing: self.computing,
            tasks: &self.tasks,
            standings: &self.standings,
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
        let glances = (0..self.standings.len()).map(of_one);
        (glances.collect(), shortfall.collect())
    }

    /// Shows of each task what it still takes.
    fn look(&mut self) {
        for (task, note) in self.tasks.iter_mut().zip(&self.notes) {
            let estimate = (self.fetcher).expected(task.association, task.job, note.given);
            task.remaining = remaining(self.fetcher.lengths(), estimate, note.progress);
        }
    }

    fn stop(&mut self, now: Time, number: TaskNumber) {
        let Some(at) = self.place(number) else { return };
        self.fetcher.task_stopped(now, &self.tasks[at]);
        self.set_stage(number, Stage::Preempted { has_process: true });
    }

    fn set_stage(&mut self, number: TaskNumber, stage: Stage) {
        if let Some(at) = self.place(number) {
            self.tasks[at].stage = stage;
        }
    }

    fn place(&self, number: TaskNumber) -> Option<usize> {
        self.tasks.iter().position(|task| task.number == number)
    }
}

/// Of the n-th of a scheduler's jobs.
fn number_of(job: usize) -> u32 {
    u32::try_from(job).unwrap_or(u32::MAX)
}

fn address(name: &str) -> ServiceAddress {
    ServiceAddress {
        host: name.into(),
        port: 1,
    }
}

/// A task that says itself that it has failed.
fn failure() -> Story {
    Story {
        fault: Fault::Task,
        ..Story::exited(1)
    }
}

/// As the worker sees them, who knows how often it is there.
pub fn processors(worker: &Worker) -> Processors {
    let kind = |of_type: usize, part: f64| ProcessorKind {
        name: worker.type_name(of_type).to_owned(),
        instances: worker.instances(of_type),
        relative_speed: worker.speed(of_type),
        availability: (worker.on.part * part).clamp(LEAST_AVAILABILITY, 1.0),
    };
    let cpu = kind(0, worker.active.part);
    // Cards can work only while the worker computes.
    let of_cards = worker.active.part * worker.cards_active.part;
    let cards = (1..worker.types()).map(|of_type| kind(of_type, of_cards));
    Processors::new(cpu, cards.collect())
}

/// Since time began.
pub fn seconds(time: Time) -> f64 {
    time.as_nanos() as f64 / 1e9
}

/// Nanoseconds, rounded up: what takes so long is over then.
pub fn span(seconds: f64) -> Duration {
    Duration::from_nanos((seconds.clamp(0.0, 1e10) * 1e9).ceil() as u64)
}
