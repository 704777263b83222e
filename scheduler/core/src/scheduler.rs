//! The state of a scheduler, and the dispatch of each event to the module that handles it.

mod adoption;
mod artifact_removal;
mod artifact_slots;
mod artifacts;
mod bulk_changes;
mod call_content;
mod calls;
mod completion;
mod config;
mod credit;
pub mod effect;
mod evaluation;
pub mod event;
pub mod files;
mod forgetting;
mod heartbeat;
pub mod history;
mod initial_wait;
mod inputs;
mod jobs;
mod kill;
mod leaving;
mod ledger;
mod obedience;
mod orders;
mod orphans;
mod outbox;
mod output_sets;
pub mod plan;
pub mod questions;
pub mod replies;
mod retention;
mod shape;
mod standby;
mod start;
pub mod view;
mod work_requests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use artifacts::{namespace_of, restored};
use brasserie_common::ids::InstanceId;
use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::{ArtifactNamespace, JobId, RecordSeq, SchedulerId, TaskKey, Time, WallTime};
use brasserie_common_config::ScheduleMemory;
use brasserie_scheduler_artifacts::Clocks;
use brasserie_scheduler_engine::{Engine, NodesOwner, Task};
use effect::Effect;
use event::{Event, ShellReport};
use outbox::{Outbox, Outgoing};
use questions::Questions;

use crate::artifacts::Artifacts;
use crate::bulk_changes::BulkChanges;
use crate::calls::Calls;
use crate::estimates::Estimates;
use crate::fences::Fences;
use crate::jobs::Jobs;
use crate::news::{News, NewsKind};
use crate::nodes::{NodesInForce, SourceNodes};
use crate::notices::Notices;
use crate::options::Options;
use crate::orders::Orders;
use crate::orphans::Orphans;
use crate::pool::Pool;
use crate::record::{ClusterId, Durable, OWN_RECORD, Record};
use crate::retention::Upkeep;
use crate::runs::Runs;
use crate::store_size::StoreSizes;
use crate::waits::Pauses;
use crate::waits::initial_wait::InitialWait;
use crate::waits::safety::SafetyWaits;
use crate::work_requests::WorkRequests;

/// One scheduler instance.
///
/// Call [`Scheduler::handle`] for each event, then [`Scheduler::handle_timeout`] once, then [`Scheduler::poll_effect`] until it is empty;
/// sleep until [`Scheduler::poll_timeout`] or the next event. `now` never goes back.
#[derive(Clone, Debug)]
pub struct Scheduler {
    options: Options,
    id: SchedulerId,
    cluster: ClusterId,
    wall: WallTime,
    engine: Engine,
    pool: Pool,
    runs: Runs,
    safety: SafetyWaits,
    fences: Fences,
    nodes: NodesInForce,
    /// The times since which the tasks of each job may start; for people.
    configured_since: BTreeMap<JobId, WallTime>,
    orphans: Orphans,
    jobs: Jobs,
    bulk_changes: BulkChanges,
    /// The recorded times of schedules.
    times: ScheduleMemory,
    wait: InitialWait,
    pauses: Pauses,
    calls: Calls,
    work_requests: WorkRequests,
    estimates: Estimates,
    outbox: Outbox,
    artifacts: Artifacts,
    orders: Orders,
    /// Tasks with lost outputs that another task has missed. They run again from the next turn on.
    lost_producers: BTreeSet<Task>,
    upkeep: Upkeep,
    store_sizes: StoreSizes,
    questions: Questions,
    shell: ShellReport,
    notices: Notices,
    invocation_ids: Rng,
    config_error: Option<String>,
    /// The error of the node sources, if their last refresh has failed.
    nodes_error: Option<String>,
    /// The last turn stopped at its limit of placements or of tries.
    more_to_place: bool,
    /// The time of the next take-back of a task that stands by.
    next_take_back: Option<Time>,
    /// A newer instance runs, so this one starts nothing and exits.
    stepped_down: Option<SchedulerId>,
}

/// A read-only look at all components. It cannot change any.
#[derive(Clone, Copy)]
struct View<'a>(&'a Scheduler);

impl Deref for View<'_> {
    type Target = Scheduler;

    fn deref(&self) -> &Scheduler {
        self.0
    }
}

impl Scheduler {
    /// Creates a new instance on the durable state of the directory.
    pub fn new(mut options: Options, durable: Durable, now: Time, wall: WallTime) -> Self {
        options.timeouts = options.timeouts.clamped();
        let mut ids = Rng::new(options.seed, Purpose::InstanceIds);
        // The start time is later than that of every earlier instance even if the wall clock went back, so bindings only move forward.
        let after_last = durable
            .last_scheduler()
            .map_or(0, |last| last.0.start_time.saturating_add(1));
        let start_time = wall.as_secs().max(after_last);
        let id = SchedulerId(InstanceId {
            start_time,
            rand: ids.next_i64(),
        });
        let cluster = durable.cluster.unwrap_or_else(|| ClusterId(ids.next_u64()));
        let mut engine = Engine::new(options.seed);
        engine.set_nodes_owner(NodesOwner::OtherConfig);
        let mut scheduler = Scheduler {
            id,
            cluster,
            wall,
            engine,
            pool: Pool::new(id, &durable.left),
            runs: Runs::new(&durable),
            fences: Fences::new(durable.fence_generation, start_time),
            safety: SafetyWaits::default(),
            nodes: NodesInForce::default(),
            configured_since: BTreeMap::new(),
            orphans: Orphans::default(),
            jobs: Jobs::new(&durable),
            bulk_changes: BulkChanges::default(),
            times: durable.schedule_memory(),
            wait: InitialWait::new(&options, &durable, now),
            pauses: Pauses::new(now, options.timeouts),
            calls: Calls::default(),
            work_requests: WorkRequests::default(),
            estimates: Estimates::default(),
            outbox: Outbox::default(),
            artifacts: Artifacts::new(
                namespace_of(cluster),
                restored(&durable, wall),
                Clocks { time: now, wall },
                (options.slots, Rng::new(options.seed, Purpose::PeerOrder)),
            ),
            orders: Orders::new(durable.orders),
            lost_producers: BTreeSet::new(),
            upkeep: Upkeep::new(durable.observed),
            store_sizes: StoreSizes::default(),
            questions: Questions::default(),
            shell: ShellReport::default(),
            notices: Notices::default(),
            // Each instance has its own stream. Otherwise two instances with one seed would draw the same ids.
            invocation_ids: Rng::new(
                options.seed.wrapping_add(start_time.cast_unsigned()),
                Purpose::InvocationIds,
            ),
            config_error: None,
            nodes_error: None,
            more_to_place: false,
            next_take_back: None,
            stepped_down: None,
            options,
        };
        let wait = scheduler.wait.restart_must_wait(OWN_RECORD);
        scheduler.outbox.persist(Record::SchedulerStarted {
            cluster,
            scheduler: id,
            wait,
            generation: scheduler.fences.generation(),
        });
        scheduler.remember(now, durable.forgotten, durable.statuses);
        scheduler.remember_missing(durable.missing, durable.missing_jobs);
        scheduler
    }

    /// Sets how many runs share a generation of fences. Tests cannot wait for 2^31 - 1 runs.
    pub fn with_runs_per_generation(mut self, runs: u32) -> Self {
        self.fences.set_per_generation(runs);
        self
    }

    fn view(&self) -> View<'_> {
        View(self)
    }

    /// Returns a copy on which a configuration is tried out and which is then dropped. Omits the history of completions, which is the bulk
    /// of the state.
    fn to_try_out(&self) -> Scheduler {
        Scheduler {
            options: self.options.clone(),
            id: self.id,
            cluster: self.cluster,
            wall: self.wall,
            engine: self.engine.clone(),
            pool: self.pool.clone(),
            runs: self.runs.without_ends(),
            safety: SafetyWaits::default(),
            fences: self.fences.clone(),
            nodes: self.nodes.clone(),
            configured_since: self.configured_since.clone(),
            orphans: self.orphans.clone(),
            jobs: self.jobs.clone(),
            bulk_changes: self.bulk_changes.clone(),
            times: self.times.clone(),
            wait: self.wait.clone(),
            pauses: self.pauses,
            calls: self.calls.clone(),
            work_requests: WorkRequests::default(),
            estimates: self.estimates.clone(),
            outbox: self.outbox.emptied(),
            artifacts: self.artifacts.for_a_plan(),
            orders: self.orders.clone(),
            lost_producers: BTreeSet::new(),
            upkeep: Upkeep::default(),
            store_sizes: StoreSizes::default(),
            questions: Questions::default(),
            shell: ShellReport::default(),
            notices: self.notices.without_news(),
            invocation_ids: self.invocation_ids.clone(),
            config_error: self.config_error.clone(),
            nodes_error: self.nodes_error.clone(),
            more_to_place: self.more_to_place,
            next_take_back: self.next_take_back,
            stepped_down: self.stepped_down,
        }
    }

    /// Handles one event.
    pub fn handle(&mut self, now: Time, event: Event) {
        if let Some(newer) = self.stepped_down {
            return self.handle_stepped_down(now, newer, event);
        }
        self.pauses.turn(now);
        // Checks workers before the event is served: a machine that wakes up must not act on outdated health.
        self.evaluate_due_workers(now);
        match event {
            Event::WallClock(wall) => self.wall = wall,
            Event::Heartbeat {
                request,
                from,
                worker,
                worker_set,
                goodbye,
            } => self.heartbeat(now, (request, &from), *worker, worker_set, goodbye),
            Event::UpdateStatus {
                request,
                from: _,
                update,
            } => self.update_status(now, request, &update),
            Event::RequestWork {
                request,
                from,
                work,
            } => self.request_work(now, (request, &from), *work),
            Event::ReportArtifacts {
                request, report, ..
            } => self.report_artifacts(now, request, &report),
            Event::Slots(call) => self.serve_slots(now, &call),
            Event::KillTask {
                request,
                from,
                job,
                node,
            } => self.kill_task(now, (request, from), TaskKey { job, node }),
            Event::ChangeJob {
                request,
                from,
                job,
                change,
            } => self.change_job(now, (request, from), job, change),
            Event::ForgetWorker {
                request,
                from,
                shard,
                confirmed,
            } => self.forget_worker(now, (request, from), &shard, &confirmed),
            Event::OrderWorker(call) => self.order_worker(now, *call),
            Event::Query {
                request,
                from: _,
                query,
            } => self.query(now, request, query),
            Event::CallCompleted { call, outcome } => self.call_completed(now, call, outcome),
            Event::Persisted { up_to } => self.persisted(now, up_to),
            Event::StoreFailed { message } => self.store_failed(now, message),
            Event::StoreRecovered => self.outbox.store_recovered(),
            Event::StoreMeasured { size } => self.store_sizes.measured(now, size),
            Event::ShellReported(report) => self.shell = *report,
            Event::ConfigLoaded {
                config,
                warnings,
                origin,
            } => self.config_loaded(now, (config, warnings, origin)),
            Event::ConfigFailed { message } => self.config_failed(message),
            Event::NodesLoaded { nodes, config } => {
                self.nodes_loaded(now, SourceNodes { nodes, config });
            }
            Event::NodesFailed { message } => self.nodes_error = Some(message),
            Event::FilesKnown { files } => self.files_known(now, files),
        }
    }

    /// Handles everything that is due by the clock, then starts tasks. Called once a turn.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.stepped_down.is_some() {
            return;
        }
        self.pauses.turn(now);
        self.put_jobs_in_force(now);
        if self.bulk_changes.is_due(self.outbox.persisted()) {
            self.continue_bulk_changes(now);
        }
        self.evaluate_due_workers(now);
        self.forget_the_dead(now);
        self.expire_calls(now);
        self.outbox.abandon_replies(now);
        if self.outbox.is_stalled() {
            self.abandon_bulk_requests();
        }
        self.answer_late_questions(now);
        self.evaluate_permitted(now);
        self.update_initial_wait(now);
        self.judge_completeness(now);
        self.ask_for_echoes(now);
        self.engine.handle_timeout(now);
        for worker in self.pool.take_gone() {
            self.runs.left(worker);
        }
        self.runs.drop_settled_deletions();
        self.safety.drop_passed(now);
        self.continue_refresh(now);
        self.trim_history(now);
        self.check_runs(now);
        self.kill_due_orphans(now);
        self.make_lost_again(now);
        self.carry_out_orders(now);
        self.start_tasks(now);
        self.judge_outputs(now);
        self.take_back(now);
        self.answer_requests(now);
        self.outbox.watch_store(now);
    }

    /// Returns the next effect, in order, with the names and texts of a call. Must be called in the turn in which the effect was decided,
    /// because the ids in it may stand for other names later.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        Some(match self.outbox.poll()? {
            Outgoing::Effect(effect) => effect,
            Outgoing::Call {
                id,
                shard,
                peer,
                call,
            } => Effect::Call {
                id,
                shard,
                peer,
                call: self.view().content_of(call),
            },
        })
    }

    /// Returns when to call [`Scheduler::handle_timeout`] if no event arrives before.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.stepped_down.is_some() {
            return None;
        }
        let is_asked = self.engine.wants_held_nodes().is_some();
        let has_bulk_changes = self.bulk_changes.is_due(self.outbox.persisted());
        let has_lost = !self.lost_producers.is_empty();
        let has_more = self.is_settling() || is_asked || self.runs.is_drop_due() || has_lost;
        if self.more_to_place || has_bulk_changes || has_more {
            return Some(Time::ZERO);
        }
        [
            self.pool.next_wake(),
            self.pool.next_spreading(),
            self.pool.next_forgotten(),
            self.calls.next_deadline(),
            self.outbox.next_deadline(),
            self.questions.next_deadline(),
            self.wait.next_change(),
            self.engine.poll_timeout(),
            self.next_take_back,
            self.work_requests.next_answer(),
            self.artifacts.next_wake(),
            self.artifacts.next_report_due(),
            self.orders.next_check(),
            Some(self.pauses.next_turn()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the events for the operator's log since the last call, and how many more of each kind were dropped.
    pub fn take_news(&mut self) -> (Vec<News>, BTreeMap<NewsKind, u64>) {
        self.notices.take_news()
    }

    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub fn id(&self) -> SchedulerId {
        self.id
    }

    /// Returns the name of all artifacts of the data directory.
    pub fn artifact_namespace(&self) -> &ArtifactNamespace {
        self.artifacts.namespace()
    }

    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// Returns the latest wall clock that the shell has sent.
    pub fn wall(&self) -> WallTime {
        self.wall
    }

    /// Returns the newer instance for which this one has stepped down.
    pub fn stepped_down(&self) -> Option<SchedulerId> {
        self.stepped_down
    }

    fn store_failed(&mut self, now: Time, message: String) {
        self.outbox.store_failed(message);
        self.answer_all_marked(now);
    }

    fn persisted(&mut self, now: Time, up_to: RecordSeq) {
        let might_call = self.outbox.may_call();
        self.outbox.note_persisted(up_to);
        self.questions.persisted(self.outbox.persisted());
        if !might_call && self.outbox.may_call() {
            self.evaluate_all(now);
        }
        for task in self.runs.take_persisted(up_to) {
            self.engine.release(now, task);
        }
        self.jobs.persisted(up_to);
        self.continue_bulk_changes(now);
        let recorded = self.pool.take_recorded(up_to);
        for shard in recorded {
            self.evaluate(now, &shard);
        }
    }
}

/// Returns the names of a task.
fn task_key(engine: &Engine, task: Task) -> TaskKey {
    TaskKey {
        job: engine.job_name(task.job).clone(),
        node: engine.node_name(task.node),
    }
}
