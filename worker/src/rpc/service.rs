//! The worker's Thrift service: turns calls into events on two lanes, and reads pages of logs without the core.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brasserie_common::access::WORKER_CALLS;
use brasserie_common::logs::LogQuery;
use brasserie_common::work_overview::WorkFetchStatus;
use brasserie_common::{RefusalCode, RequestId};
use brasserie_common_runtime::Clock;
use brasserie_thrift::convert::{undeclared_refusal, worker_exception};
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerDrainArgs, BrasserieWorkerDrainResult, BrasserieWorkerFetchWorkArgs,
    BrasserieWorkerFetchWorkResult, BrasserieWorkerGetWorkFetchArgs,
    BrasserieWorkerGetWorkFetchResult, BrasserieWorkerLearnCertificatesArgs,
    BrasserieWorkerLearnCertificatesResult,
};
use brasserie_thrift::generated::common::LogLines;
use brasserie_thrift::generated::fb303::{
    FacebookServiceGetStatusArgs, FacebookServiceGetStatusResult, FbStatus,
};
use brasserie_thrift::generated::worker::{
    BistroWorkerException, BistroWorkerGetJobLogsByIDArgs, BistroWorkerGetJobLogsByIDResult,
    BistroWorkerGetRunningTasksArgs, BistroWorkerGetRunningTasksResult, BistroWorkerKillTaskArgs,
    BistroWorkerKillTaskResult, BistroWorkerNotifyIfTasksNotRunningArgs,
    BistroWorkerNotifyIfTasksNotRunningResult, BistroWorkerRequestSuicideArgs,
    BistroWorkerRequestSuicideResult, BistroWorkerRunTaskArgs, BistroWorkerRunTaskResult,
    RunTaskAnswer,
};
use brasserie_thrift::rpc::{Accepts, IncomingCall, LACK_OF_ROOM, Responder, Service};
use brasserie_worker_core::{Event, Refusal, Reply};
use thrift::protocol::TSerializable;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::requests::{IntoEvent, RequestOrigin};
use crate::artifacts::ArtifactServer;
use crate::logs::LogStore;
use crate::membership::Membership;

/// The capacity of the lane for health calls. A scheduler has at most two under way, so many schedulers can restart within one turn.
const HEALTH_LANE: usize = 256;
/// The capacity of the lane for calls about tasks: a tenth of a second of the core's work. Further calls are refused as BUSY.
const WORK_LANE: usize = 4096;
/// The number of log pages that are read at once: enough to keep a disk busy, few enough to leave the machine to its tasks.
const LOG_READERS: usize = 4;
/// The number of log readers that may queue. With four readers at 40 ms a page, the last one waits less than the two seconds after which
/// readers give up.
const LOG_QUEUE: usize = 128;
/// The number of `getWorkFetch` calls that may wait for the core. Each simulates all tasks of the worker, as a work request does, and
/// such calls must not delay the core's own work.
const LOOKS: usize = 2;

/// The terms on which a call passes to the core.
struct CallTerms {
    accepts: Accepts,
    /// The caller's place in a limited queue. The caller holds it until the answer.
    place: Option<OwnedSemaphorePermit>,
}

impl CallTerms {
    /// Returns the terms on which every call passes.
    fn all_calls() -> Self {
        CallTerms {
            accepts: Accepts::All,
            place: None,
        }
    }

    /// Returns the terms on which only calls of the health lane pass.
    fn health_calls_only() -> Self {
        CallTerms {
            accepts: Accepts::HealthCalls,
            place: None,
        }
    }

    /// Returns the terms on which a call passes whose caller holds a place.
    fn holding(place: OwnedSemaphorePermit) -> Self {
        CallTerms {
            accepts: Accepts::All,
            place: Some(place),
        }
    }
}

/// A call on its way to the core.
pub(crate) struct CallArrival {
    pub event: Event,
    pub request: RequestId,
    pub waiting: WaitingCaller,
}

/// A caller that waits for the core's answer.
pub(crate) struct WaitingCaller {
    method: Method,
    responder: Responder,
    /// The caller's place in a limited queue, released with the answer.
    _place: Option<OwnedSemaphorePermit>,
}

/// The receiving ends of the queues of calls to the core.
pub(crate) struct Lanes {
    /// Calls that keep peers healthy: a flood of tasks must not starve them.
    pub health: mpsc::Receiver<CallArrival>,
    pub work: mpsc::Receiver<CallArrival>,
}

/// The Thrift service of one worker.
pub(crate) struct WorkerService {
    health: mpsc::Sender<CallArrival>,
    work: mpsc::Sender<CallArrival>,
    next_request: AtomicU64,
    logs: Arc<LogStore>,
    artifacts: Arc<ArtifactServer>,
    membership: Membership,
    readers: Arc<Semaphore>,
    queue: Arc<Semaphore>,
    looks: Arc<Semaphore>,
}

/// The calls that the core answers. They differ in the form of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    GetRunningTasks,
    RunTask,
    NotifyIfTasksNotRunning,
    RequestSuicide,
    KillTask,
    GetWorkFetch,
    FetchWork,
    Drain,
}

impl Method {
    /// Returns whether the core accepts the call only from a scheduler that the worker obeys.
    fn is_of_scheduler(self) -> bool {
        match self {
            Method::GetRunningTasks
            | Method::RunTask
            | Method::NotifyIfTasksNotRunning
            | Method::RequestSuicide
            | Method::KillTask => true,
            Method::GetWorkFetch | Method::FetchWork | Method::Drain => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallLane {
    Health,
    Work,
}

impl WorkerService {
    pub(crate) fn new(
        logs: Arc<LogStore>,
        artifacts: Arc<ArtifactServer>,
        membership: Membership,
    ) -> (Self, Lanes) {
        let (health, health_lane) = mpsc::channel(HEALTH_LANE);
        let (work, work_lane) = mpsc::channel(WORK_LANE);
        let service = WorkerService {
            health,
            work,
            next_request: AtomicU64::new(1),
            logs,
            artifacts,
            membership,
            readers: Arc::new(Semaphore::new(LOG_READERS)),
            queue: Arc::new(Semaphore::new(LOG_QUEUE)),
            looks: Arc::new(Semaphore::new(LOOKS)),
        };
        let lanes = Lanes {
            health: health_lane,
            work: work_lane,
        };
        (service, lanes)
    }

    /// Passes a call to the core if its terms allow it.
    fn ask<A: TSerializable + IntoEvent>(
        &self,
        method: Method,
        call: IncomingCall<'_>,
        CallTerms { accepts, place }: CallTerms,
    ) {
        let from = call.principal();
        let Some((arguments, responder)) = call.arguments::<A>() else {
            return;
        };
        let request = RequestId(self.next_request.fetch_add(1, Ordering::Relaxed));
        let waiting = WaitingCaller {
            method,
            responder,
            _place: place,
        };
        let event = match arguments.into_event(RequestOrigin { request, from }) {
            Ok(event) => event,
            Err(error) => return waiting.refuse(RefusalCode::Unspecified, &error.to_string()),
        };
        let lane = match lane(&event) {
            CallLane::Health => &self.health,
            CallLane::Work if accepts == Accepts::HealthCalls => {
                return waiting.refuse(RefusalCode::Busy, LACK_OF_ROOM);
            }
            CallLane::Work => &self.work,
        };
        let arrival = CallArrival {
            event,
            request,
            waiting,
        };
        match lane.try_send(arrival) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(arrival)) => {
                arrival
                    .waiting
                    .refuse(RefusalCode::Busy, "too many calls wait here already");
            }
            Err(mpsc::error::TrySendError::Closed(arrival)) => {
                arrival
                    .waiting
                    .refuse(RefusalCode::Draining, "the worker has ended");
            }
        }
    }

    fn look_at_work_fetch(&self, call: IncomingCall<'_>) {
        type Arguments = BrasserieWorkerGetWorkFetchArgs;
        match Arc::clone(&self.looks).try_acquire_owned() {
            Ok(place) => {
                self.ask::<Arguments>(Method::GetWorkFetch, call, CallTerms::holding(place))
            }
            Err(_) => call.serve(|_: Arguments, responder| {
                let text = "others look at work fetch at this moment: ask again";
                let text = undeclared_refusal(RefusalCode::Busy, text);
                responder.fail(text);
            }),
        }
    }

    fn read_logs(&self, arguments: BistroWorkerGetJobLogsByIDArgs, responder: Responder) {
        let query = match LogQuery::try_from(arguments) {
            Ok(query) => query,
            Err(error) => {
                return log_refusal(responder, RefusalCode::Unspecified, &error.to_string());
            }
        };
        let Ok(place) = Arc::clone(&self.queue).try_acquire_owned() else {
            let text = "too many readers of logs wait here already";
            return log_refusal(responder, RefusalCode::Busy, text);
        };
        let (readers, logs) = (Arc::clone(&self.readers), Arc::clone(&self.logs));
        tokio::spawn(async move {
            // The semaphore is never closed, so the permit always comes.
            let turn = readers.acquire_owned().await;
            let read = tokio::task::spawn_blocking(move || {
                let page = logs.query(&query);
                drop((turn, place));
                page
            });
            match read.await {
                Ok(Ok(page)) => responder.reply(&BistroWorkerGetJobLogsByIDResult {
                    result_value: Some(LogLines::from(page)),
                    ex: None,
                }),
                Ok(Err(error)) => {
                    log_refusal(responder, RefusalCode::Unspecified, &error.to_string())
                }
                // A dropped responder answers with an internal error. The panic was printed where it happened.
                Err(_) => drop(responder),
            }
        });
    }
}

impl Service for WorkerService {
    fn call(&self, call: IncomingCall<'_>) {
        let Ok((call, _)) = call.permitted(WORKER_CALLS) else {
            return;
        };
        match call.method() {
            "getRunningTasks" => {
                self.ask::<BistroWorkerGetRunningTasksArgs>(
                    Method::GetRunningTasks,
                    call,
                    CallTerms::all_calls(),
                );
            }
            "runTask" => {
                self.ask::<BistroWorkerRunTaskArgs>(Method::RunTask, call, CallTerms::all_calls())
            }
            "notifyIfTasksNotRunning" => {
                let method = Method::NotifyIfTasksNotRunning;
                self.ask::<BistroWorkerNotifyIfTasksNotRunningArgs>(
                    method,
                    call,
                    CallTerms::all_calls(),
                );
            }
            "requestSuicide" => {
                self.ask::<BistroWorkerRequestSuicideArgs>(
                    Method::RequestSuicide,
                    call,
                    CallTerms::all_calls(),
                );
            }
            "killTask" => {
                self.ask::<BistroWorkerKillTaskArgs>(Method::KillTask, call, CallTerms::all_calls())
            }
            "getWorkFetch" => self.look_at_work_fetch(call),
            "fetchWork" => self.ask::<BrasserieWorkerFetchWorkArgs>(
                Method::FetchWork,
                call,
                CallTerms::all_calls(),
            ),
            "drain" => {
                self.ask::<BrasserieWorkerDrainArgs>(Method::Drain, call, CallTerms::all_calls())
            }
            "learnCertificates" => {
                call.serve(|news: BrasserieWorkerLearnCertificatesArgs, responder| {
                    self.membership.update_rules(news.news);
                    responder.reply(&BrasserieWorkerLearnCertificatesResult {});
                });
            }
            "fetchArtifacts" => {
                call.serve(|arguments, responder| self.artifacts.serve(arguments, responder));
            }
            "checkArtifact" => {
                call.serve(|arguments, responder| self.artifacts.check(arguments, responder));
            }
            "getJobLogsByID" => {
                call.serve(|arguments, responder| self.read_logs(arguments, responder))
            }
            "getStatus" => call.serve(|_: FacebookServiceGetStatusArgs, responder| {
                let result_value = Some(FbStatus::ALIVE);
                responder.reply(&FacebookServiceGetStatusResult { result_value });
            }),
            _ => call.unknown_method(),
        }
    }

    /// Serves the calls for which the server has a reserve. Healthchecks are tasks, so `runTask` must be parsed first. The refusal of a
    /// task promises that it was not started.
    fn call_from_reserve(&self, call: IncomingCall<'_>) {
        let Ok((call, _)) = call.permitted(WORKER_CALLS) else {
            return;
        };
        match call.method() {
            "runTask" => self.ask::<BistroWorkerRunTaskArgs>(
                Method::RunTask,
                call,
                CallTerms::health_calls_only(),
            ),
            "killTask" => {
                self.ask::<BistroWorkerKillTaskArgs>(
                    Method::KillTask,
                    call,
                    CallTerms::health_calls_only(),
                );
            }
            "getRunningTasks" | "requestSuicide" | "getStatus" => self.call(call),
            _ => call.refuse_for_lack_of_room(),
        }
    }
}

/// Returns the lane of a call: calls on which the protocol's liveness depends go first. The protocol tolerates reordering, as calls
/// travel over several connections anyway.
fn lane(event: &Event) -> CallLane {
    match event {
        Event::GetRunningTasks { .. } | Event::RequestSuicide { .. } => CallLane::Health,
        Event::RunTask { run, .. } if run.task.is_healthcheck() => CallLane::Health,
        Event::RunTask { .. }
        | Event::NotifyIfTasksNotRunning { .. }
        | Event::KillTask { .. }
        | Event::ShowWorkFetch { .. }
        | Event::FetchWork { .. }
        | Event::RequestDrain { .. } => CallLane::Work,
        // These events are not calls and never reach this function.
        Event::WallClock(_)
        | Event::CallCompleted { .. }
        | Event::ConnectionLost { .. }
        | Event::NewInstance { .. }
        | Event::TaskStarted { .. }
        | Event::TaskEnded { .. }
        | Event::OutputsTaken { .. }
        | Event::TaskSampled { .. }
        | Event::UsableResources(_)
        | Event::Drain
        | Event::Shutdown => CallLane::Work,
    }
}

fn log_refusal(responder: Responder, code: RefusalCode, text: &str) {
    responder.reply(&BistroWorkerGetJobLogsByIDResult {
        result_value: None,
        ex: Some(worker_exception(code, text)),
    });
}

impl WaitingCaller {
    /// Sends the core's answer to the caller.
    pub(crate) fn answer(self, reply: Result<Reply, Refusal>) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(refusal) => return self.refuse(refusal.code, &refusal.message),
        };
        let responder = self.responder;
        if self.method.is_of_scheduler() {
            responder.mark_known();
        }
        match (self.method, reply) {
            (Method::GetRunningTasks, Reply::RunningTasks(tasks)) => {
                let tasks = tasks.into_iter().map(Into::into).collect();
                responder.reply(&BistroWorkerGetRunningTasksResult {
                    result_value: Some(tasks),
                });
            }
            (Method::RunTask, Reply::Empty) => {
                responder.reply(&BistroWorkerRunTaskResult { ex: None });
            }
            (Method::RunTask, Reply::Accepted { queued_at }) => {
                responder.reply(&RunTaskAnswer {
                    ex: None,
                    queued_at: Some(queued_at.unwrap_or(0)),
                });
            }
            (Method::NotifyIfTasksNotRunning, Reply::Empty) => {
                responder.reply(&BistroWorkerNotifyIfTasksNotRunningResult {});
            }
            (Method::RequestSuicide, Reply::Empty) => {
                responder.reply(&BistroWorkerRequestSuicideResult { ex: None });
            }
            (Method::KillTask, Reply::Empty) => {
                responder.reply(&BistroWorkerKillTaskResult { ex: None });
            }
            (Method::GetWorkFetch, Reply::WorkFetch(overview)) => {
                let status = WorkFetchStatus {
                    taken: Clock.wall(),
                    overview: overview.map(|overview| *overview),
                };
                responder.reply(&BrasserieWorkerGetWorkFetchResult {
                    result_value: Some(status.into()),
                });
            }
            (Method::FetchWork, Reply::WorkWishes(wishes)) => {
                responder.reply(&BrasserieWorkerFetchWorkResult {
                    result_value: Some(wishes.into_iter().map(Into::into).collect()),
                    ex: None,
                });
            }
            (Method::Drain, Reply::Draining(running)) => {
                responder.reply(&BrasserieWorkerDrainResult {
                    result_value: Some(i32::try_from(running).unwrap_or(i32::MAX)),
                    ex: None,
                });
            }
            (
                method,
                reply @ (Reply::Empty
                | Reply::Accepted { .. }
                | Reply::RunningTasks(_)
                | Reply::WorkFetch(_)
                | Reply::WorkWishes(_)
                | Reply::Draining(_)),
            ) => {
                let text = format!("the core answered {method:?} with {reply:?}");
                responder.fail(text);
            }
        }
    }

    /// Refuses the call. If the method declares an exception, the refusal promises that nothing happened.
    fn refuse(self, code: RefusalCode, text: &str) {
        let ex = || -> Option<BistroWorkerException> { Some(worker_exception(code, text)) };
        let responder = self.responder;
        match self.method {
            Method::RunTask => responder.reply(&BistroWorkerRunTaskResult { ex: ex() }),
            Method::RequestSuicide => {
                responder.reply(&BistroWorkerRequestSuicideResult { ex: ex() });
            }
            Method::KillTask => responder.reply(&BistroWorkerKillTaskResult { ex: ex() }),
            Method::FetchWork => responder.reply(&BrasserieWorkerFetchWorkResult {
                result_value: None,
                ex: ex(),
            }),
            Method::Drain => responder.reply(&BrasserieWorkerDrainResult {
                result_value: None,
                ex: ex(),
            }),
            Method::GetRunningTasks | Method::NotifyIfTasksNotRunning | Method::GetWorkFetch => {
                let text = undeclared_refusal(code, text);
                responder.fail(text);
            }
        }
    }
}
