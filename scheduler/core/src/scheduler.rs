//! The state of a scheduler, and the dispatch of each event to the module that handles it.

pub mod effect;
pub mod event;
pub mod history;
mod parts;
pub mod plan;
pub mod questions;
pub mod replies;
mod shape;
pub mod starts;
pub mod view;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use brasserie_common::ids::InstanceId;
use brasserie_common::rng::{Purpose, Rng};
use brasserie_common::sabotage::{self, Sabotage};
use brasserie_common::{CallId, RecordSeq, RequestId, SchedulerId, TaskKey, Time, WallTime};
use brasserie_common_config::{Config, ScheduleMemory};
use brasserie_scheduler_engine::{Engine, Task};
use effect::{Effect, Reply};
use event::Event;
use questions::Questions;
use replies::{HeldReply, Replies};

use crate::calls::{Call, Calls};
use crate::estimates::Estimates;
use crate::fences::Fences;
use crate::jobs::{ConfigOrigin, Jobs, NodesOf};
use crate::news::{Kept, News, NewsKind};
use crate::options::Options;
use crate::reconcile::Orphans;
use crate::record::{ClusterId, Durable, OWN_RECORD, Record};
use crate::retention::Upkeep;
use crate::store_size::StoreSizes;
use crate::tasks::Tasks;
use crate::workers::Workers;
use crate::workers::asking::Asking;
use crate::workers::forgetting::Awake;
use crate::workers::initial_wait::InitialWait;

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
    workers: Workers,
    tasks: Tasks,
    fences: Fences,
    orphans: Orphans,
    jobs: Jobs,
    /// The recorded times of schedules.
    times: ScheduleMemory,
    wait: InitialWait,
    awake: Awake,
    calls: Calls,
    pub(crate) asking: Asking,
    estimates: Estimates,
    log: Log,
    replies: Replies,
    upkeep: Upkeep,
    store_sizes: StoreSizes,
    questions: Questions,
    effects: VecDeque<Effect>,
    news: Kept,
    invocation_ids: Rng,
    config_error: Option<String>,
    nodes_error: Option<String>,
    /// The last turn stopped at its limit of placements or of tries.
    pub(crate) more_to_place: bool,
    /// A newer instance runs, so this one starts nothing and exits.
    stepped_down: Option<SchedulerId>,
}

/// The numbers of the last record and of the last durable record.
#[derive(Clone, Debug, Default)]
struct Log {
    last: RecordSeq,
    persisted: RecordSeq,
    error: Option<String>,
}

impl Scheduler {
    /// Creates a new instance on the durable state of the directory.
    pub fn new(options: Options, durable: Durable, now: Time, wall: WallTime) -> Self {
        let options = Options {
            timeouts: options.timeouts.clamped(),
            ..options
        };
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
        let mut scheduler = Scheduler {
            id,
            cluster,
            wall,
            engine: Engine::new(options.seed),
            workers: Workers::new(id, &durable.left),
            tasks: Tasks::new(&durable),
            fences: Fences::new(durable.fence_generation, start_time),
            orphans: Orphans::default(),
            jobs: Jobs::new(&durable),
            times: durable.schedule_memory(),
            wait: InitialWait::new(&options, &durable, now),
            awake: Awake::new(now, options.timeouts),
            calls: Calls::default(),
            asking: Asking::default(),
            estimates: Estimates::default(),
            log: Log::default(),
            replies: Replies::default(),
            upkeep: Upkeep::new(durable.observed),
            store_sizes: StoreSizes::default(),
            questions: Questions::default(),
            effects: VecDeque::new(),
            news: Kept::default(),
            // Each instance has its own stream. Otherwise two instances with one seed would draw the same ids.
            invocation_ids: Rng::new(
                options.seed.wrapping_add(start_time.cast_unsigned()),
                Purpose::InvocationIds,
            ),
            config_error: None,
            nodes_error: None,
            more_to_place: false,
            stepped_down: None,
            options,
        };
        let wait = scheduler.wait.restart_must_wait(OWN_RECORD);
        scheduler.persist(Record::SchedulerStarted {
            cluster,
            scheduler: id,
            wait,
            generation: scheduler.fences.generation(),
        });
        scheduler.remember(now, durable.forgotten, durable.statuses);
        scheduler.remember_missing(durable.missing, durable.missing_jobs);
        scheduler
    }

    /// Handles one event.
    pub fn handle(&mut self, now: Time, event: Event) {
        if let Some(newer) = self.stepped_down {
            return self.handle_stepped_down(now, newer, event);
        }
        self.awake.turn(now);
        // Checks workers before the event is served: a machine that wakes up must not act on outdated health.
        self.evaluate_due_workers(now);
        match event {
            Event::WallClock(wall) => self.wall = wall,
            Event::Heartbeat {
                request,
                from: _,
                worker,
                worker_set,
                goodbye,
            } => {
                self.heartbeat(now, request, *worker, worker_set, goodbye);
            }
            Event::UpdateStatus {
                request,
                from: _,
                update,
            } => self.update_status(now, request, &update),
            Event::RequestWork {
                request,
                from: _,
                work,
            } => self.request_work(now, request, *work),
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
            Event::Query {
                request,
                from: _,
                query,
            } => self.query(now, request, query),
            Event::CallCompleted { call, outcome } => self.call_completed(now, call, outcome),
            Event::Persisted { up_to } => self.persisted(now, up_to),
            Event::StoreFailed { message } => {
                self.log.error = Some(message);
                self.answer_all_marked(now);
            }
            Event::StoreRecovered => self.log.error = None,
            Event::StoreMeasured { size } => self.store_sizes.measured(now, size),
            Event::ConfigLoaded {
                config,
                warnings,
                origin,
            } => self.config_loaded(now, (config, warnings, origin)),
            Event::ConfigFailed { message } => self.config_failed(message),
            Event::NodesLoaded { nodes, config } => {
                self.nodes_loaded(now, NodesOf { nodes, config });
            }
            Event::NodesFailed { message } => self.nodes_error = Some(message),
        }
    }

    fn config_loaded(
        &mut self,
        now: Time,
        (config, warnings, origin): (Arc<Config>, Vec<String>, ConfigOrigin),
    ) {
        self.config_error = None;
        self.jobs.load_file(config, warnings, origin);
        self.put_jobs_in_force(now);
        if let Some(why) = self.jobs.refused_file() {
            self.note_news(News::Problem(why));
        }
    }

    fn config_failed(&mut self, message: String) {
        self.config_error = Some(message);
        self.jobs.file_failed();
    }

    fn nodes_loaded(&mut self, now: Time, found: NodesOf) {
        self.nodes_error = None;
        self.put_jobs_in_force(now);
        if self.jobs.wants(&found) {
            self.begin_nodes(found);
        }
    }

    /// Handles everything that is due by the clock, then starts tasks. Called once a turn.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.stepped_down.is_some() {
            return;
        }
        self.awake.turn(now);
        self.put_jobs_in_force(now);
        if self.slices_are_due() {
            self.go_on_with_slices(now);
        }
        self.evaluate_due_workers(now);
        self.forget_the_dead(now);
        self.expire_calls(now);
        self.abandon_replies(now);
        self.answer_late_questions(now);
        self.evaluate_permitted(now);
        self.update_initial_wait(now);
        self.spread_the_set(now);
        self.engine.handle_timeout(now);
        for worker in self.workers.take_gone() {
            self.tasks.left(worker);
        }
        self.tasks.drop_forgotten();
        self.tasks.floors_mut().drop_passed(now);
        self.continue_refresh(now);
        self.trim_history(now);
        self.look_for_orphans(now);
        self.kill_due_orphans(now);
        self.start_tasks(now);
        self.answer_requests(now);
        let Log {
            persisted, last, ..
        } = self.log;
        self.replies.watch(now, persisted, last);
    }

    /// Returns when to call [`Scheduler::handle_timeout`] if no event arrives before.
    pub fn poll_timeout(&self) -> Option<Time> {
        if self.stepped_down.is_some() {
            return None;
        }
        let is_asked = self.engine.wants_held_nodes().is_some();
        let has_more = self.is_settling() || is_asked || self.tasks.is_drop_due();
        if self.more_to_place || self.slices_are_due() || has_more {
            return Some(Time::ZERO);
        }
        [
            self.workers.next_wake(),
            self.workers.next_spreading(),
            self.workers.next_forgotten(),
            self.calls.next_deadline(),
            self.replies.next_deadline(),
            self.questions.next_deadline(),
            self.wait.next_change(),
            self.engine.poll_timeout(),
            self.asking.next_answer(),
            Some(self.awake.next_turn()),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Returns the next effect, in order.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// Returns the events for the operator's log since the last call, and how many more of each kind were dropped.
    pub fn take_news(&mut self) -> (Vec<News>, BTreeMap<NewsKind, u64>) {
        self.news.take()
    }

    pub(crate) fn note_news(&mut self, news: News) {
        self.news.add(news);
    }

    /// Shows a problem in `status` for a few minutes, and logs it unless `status` already shows it.
    pub(crate) fn note_problem(&mut self, now: Time, text: &str) {
        let news = self.tasks.problems_mut().note(now, text);
        self.note_problem_news(news);
    }

    pub(crate) fn note_problem_news(&mut self, news: Option<String>) {
        if let Some(text) = news {
            self.note_news(News::Problem(text));
        }
    }

    pub fn id(&self) -> SchedulerId {
        self.id
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

    pub(crate) fn note_stepped_down(&mut self, newer: SchedulerId) {
        self.stepped_down = Some(newer);
    }

    /// Draws the random half of a new invocation.
    pub(crate) fn draw_invocation(&mut self) -> i64 {
        self.invocation_ids.next_i64()
    }

    pub(crate) fn task_key(&self, task: Task) -> TaskKey {
        TaskKey {
            job: self.engine.job_name(task.job).clone(),
            node: self.engine.node_name(task.node),
        }
    }

    pub(crate) fn is_persisted(&self, seq: RecordSeq) -> bool {
        seq <= self.log.persisted
    }

    /// Returns the error of the node sources, if their last refresh has failed.
    pub(crate) fn nodes_error(&self) -> Option<&str> {
        self.nodes_error.as_deref()
    }

    /// Returns why nothing can be made durable at present: the store reports a failure, or it makes no progress.
    pub(crate) fn store_error(&self) -> Option<&str> {
        let stall = "it has not synced a record for seconds; check the disk of the data directory";
        let stalled = self.replies.is_stalled().then_some(stall);
        self.log.error.as_deref().or(stalled)
    }

    /// Returns the latest durable record.
    pub(crate) fn persisted_record(&self) -> RecordSeq {
        self.log.persisted
    }

    /// Returns the latest record, durable or not.
    pub(crate) fn last_record(&self) -> RecordSeq {
        self.log.last
    }

    /// Returns the number of the next record.
    pub(crate) fn next_record(&self) -> RecordSeq {
        self.log.last.next()
    }

    /// Requests that a record be made durable.
    pub(crate) fn persist(&mut self, record: Record) -> RecordSeq {
        self.log.last = self.log.last.next();
        let seq = self.log.last;
        if let Record::WorkerLeft { worker, .. } = &record
            && !self.workers.holds_a_shard(*worker)
        {
            self.tasks.left(*worker);
        }
        self.effects.push_back(Effect::Persist { seq, record });
        seq
    }

    /// Answers a request at once. This reply replaces one that waits for a record.
    pub(crate) fn reply(&mut self, request: RequestId, reply: Reply) {
        self.effects.push_back(Effect::Reply {
            request,
            after: None,
            reply,
        });
    }

    /// Answers a request once `after` is durable, or with a refusal if that takes longer than [`crate::MAX_REPLY_WAIT`].
    pub(crate) fn reply_after(
        &mut self,
        now: Time,
        (request, after): (RequestId, Option<RecordSeq>),
        reply: Reply,
        held: HeldReply,
    ) {
        let after = after.filter(|&seq| !self.is_persisted(seq));
        let after = after.filter(|_| !sabotage::on(Sabotage::AcknowledgeBeforeDurable));
        if let Some(after) = after {
            let persisted = self.log.persisted;
            let earlier = self.replies.wait(now, persisted, (request, after), held);
            if let Some((earlier, refusal)) = earlier {
                self.reply(earlier, refusal);
            }
        }
        self.effects.push_back(Effect::Reply {
            request,
            after,
            reply,
        });
    }

    /// Refuses requests whose reply has waited for too long. Their changes may still become durable, and the refusal says so.
    fn abandon_replies(&mut self, now: Time) {
        while let Some((request, refusal)) = self.replies.abandon(now, self.log.persisted) {
            self.reply(request, refusal);
        }
        if self.replies.is_stalled() {
            self.abandon_wishes();
        }
    }

    /// Returns whether this instance's own record is durable. A worker called before that would remember an instance that the directory
    /// does not. Calls that waited for a failing store would also pile up and leave all at once.
    pub(crate) fn may_call(&self) -> bool {
        self.is_persisted(OWN_RECORD)
    }

    /// Calls a worker. The call leaves at once, because the records that it depends on are already durable:
    ///
    /// * A task goes only to an instance that became HEALTHY after its record was durable, and only after the task's previous completion is
    ///   durable.
    /// * Questions and kills concern runs that were started so, or that the worker listed.
    /// * Fetches and healthchecks start no task.
    /// * An instance that is asked to die before its loss is durable counts as alive after a restart, and the restarted scheduler waits for
    ///   it.
    pub(crate) fn send(&mut self, id: CallId, peer: brasserie_common::ServiceAddress, call: Call) {
        assert!(
            self.may_call(),
            "Invariant: nobody is called before this instance is recorded"
        );
        self.effects.push_back(Effect::Call { id, peer, call });
    }

    fn persisted(&mut self, now: Time, up_to: RecordSeq) {
        let might_call = self.may_call();
        self.log.persisted = self.log.persisted.max(up_to);
        self.replies.persisted(self.log.persisted);
        self.questions.persisted(self.log.persisted);
        if !might_call && self.may_call() {
            self.evaluate_all(now);
        }
        for task in self.tasks.take_persisted(up_to) {
            self.engine.release(now, task);
        }
        self.jobs.persisted(up_to);
        self.go_on_with_slices(now);
        let recorded = self.workers.take_recorded(up_to);
        for shard in recorded {
            self.evaluate(now, &shard);
        }
    }
}
