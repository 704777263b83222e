//! Serves the calls that change jobs. The core decides on each change, and answers once it is on disk.

use std::collections::BTreeSet;
use std::sync::Arc;

use brasserie_common::ids::NameError;
use brasserie_common::{Hold, JobName, NodeName, Principal};
use brasserie_common_config::Problem;
use brasserie_scheduler_core::{
    Event, ExpectedVersion, HoldId, HoldState, JobChange, JobChanged, JobRefusal, JobVersion,
    KilledTask, NeededOutputs, OutputHold, Rejection,
};
use brasserie_thrift::generated::brasserie::{
    BrasserieCancelJobArgs, BrasserieCancelJobResult, BrasserieDeleteHistoryArgs,
    BrasserieDeleteHistoryResult, BrasserieForgetOutputsArgs, BrasserieForgetOutputsResult,
    BrasserieForgiveTasksArgs, BrasserieForgiveTasksResult, BrasserieHoldOutputsArgs,
    BrasserieHoldOutputsResult, BrasserieKillTaskArgs, BrasserieKillTaskResult,
    BrasseriePauseJobArgs, BrasseriePauseJobResult, BrasserieRemoveJobArgs,
    BrasserieRemoveJobResult, BrasserieResumeJobArgs, BrasserieResumeJobResult,
    BrasserieSubmitJobArgs, BrasserieSubmitJobResult, DeletedHistory, ForgottenOutputs,
    JobRefusedException, SubmittedJob, TaskKill,
};
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerDeleteJobArgs, BistroSchedulerDeleteJobResult, BistroSchedulerForgiveJobArgs,
    BistroSchedulerForgiveJobResult, BistroSchedulerSaveJobArgs, BistroSchedulerSaveJobResult,
};
use brasserie_thrift::rpc::Responder;
use parking_lot::Mutex;
use serde_json::json;
use thrift::protocol::TSerializable;

use super::answers::unknown_job;
use super::changing::{Changing, OpenChange};
use super::import;
use crate::audit::{OpenLine, Outcome, RefusalReason};
use crate::inbox::{EventLane, Inbox, Stopped};
use crate::store::QueueRoom;
use crate::turns::Busy;

/// Value of `expectedVersion`: the version is the text's `version_id`.
const AS_TEXT_SAYS: i64 = -1;
/// Value of `expectedVersion`: any version.
const ANY: i64 = -2;

/// The most holds that are remembered. If there are more, the audit log has some of them again.
const MOST_HOLDS: usize = 4096;

/// Changes jobs.
pub(super) struct Jobs {
    changing: Changing,
    holds: Arc<KnownHolds>,
}

/// Holds of outputs whose begin the audit log has. Each comes again every few seconds.
#[derive(Default)]
struct KnownHolds(Mutex<BTreeSet<HoldKey>>);

/// A job, and a hold of its outputs.
type HoldKey = (String, HoldId);

impl KnownHolds {
    /// Notes a hold that begins, and forgets one that ends. Returns whether this continues a known one.
    fn note(&self, hold: OutputHold, key: &HoldKey) -> bool {
        let mut holds = self.0.lock();
        match hold {
            OutputHold::Continue => {
                if holds.len() >= MOST_HOLDS {
                    holds.clear();
                }
                !holds.insert(key.clone())
            }
            OutputHold::End => {
                holds.remove(key);
                false
            }
        }
    }

    fn has(&self, key: &HoldKey) -> bool {
        self.0.lock().contains(key)
    }

    fn forget(&self, key: &HoldKey) {
        self.0.lock().remove(key);
    }
}

/// Why a job was not changed.
#[derive(Debug, thiserror::Error)]
enum JobChangeFailure {
    #[error(transparent)]
    Refused(#[from] JobRefusal),
    #[error(transparent)]
    NotKilled(#[from] Rejection),
    #[error("the job's name is invalid: {0}")]
    Name(#[from] NameError),
    #[error("a node's name is invalid: {0}")]
    Node(NameError),
    #[error(
        "{0} is not a valid expected version: use 1 or more, 0 for a new job, -1 for the text's `version_id`, or -2 for any version"
    )]
    Expected(i64),
    #[error("the store cannot keep up; try again")]
    StoreIsFull,
    #[error(transparent)]
    Busy(#[from] Busy),
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl Jobs {
    pub(super) fn new(changing: Changing) -> Self {
        Jobs {
            changing,
            holds: Arc::default(),
        }
    }

    /// Sends the change to the core from a separate task, and passes the outcome to `answer`.
    fn change(
        &self,
        (open, from): (Result<OpenChange, Busy>, Principal),
        job: String,
        change: Result<JobChange, JobChangeFailure>,
        answer: impl FnOnce(Result<JobChanged, JobChangeFailure>) + Send + 'static,
    ) {
        let (inbox, room, line, place) = match open {
            Ok(open) => open,
            Err(busy) => return answer(Err(busy.into())),
        };
        let line = line.on("job", &job);
        let text = match &change {
            Ok(JobChange::Save { text, .. }) => Some(Arc::clone(text)),
            Ok(_) | Err(_) => None,
        };
        let hold = match &change {
            Ok(JobChange::HoldOutputs { hold, holder }) => Some((*hold, (job.clone(), *holder))),
            Ok(_) | Err(_) => None,
        };
        let holds = Arc::clone(&self.holds);
        tokio::spawn(async move {
            let _place = place;
            let outcome = ask(&inbox, &room, from, job, change).await;
            let is_known = match (&hold, &outcome) {
                (Some((hold, key)), Ok(_)) => holds.note(*hold, key),
                (Some((_, key)), Err(_)) => {
                    holds.forget(key);
                    false
                }
                (None, _) => false,
            };
            match is_known {
                true => line.discard(),
                false => write(line, text, &outcome),
            }
            answer(outcome);
        });
    }

    pub(super) fn save(&self, from: Principal, args: BistroSchedulerSaveJobArgs, to: Responder) {
        let name = args.job.name.clone().unwrap_or_default();
        let text = match import::job(args.job) {
            Ok(text) => text.into(),
            Err(error) => {
                // The error quotes the job, which may have secrets.
                let line = self.changing.line(&from, &to).on("job", &name);
                line.end(Outcome::Refused, Some(&"the job cannot be read"));
                return to.fail(error);
            }
        };
        let expected = ExpectedVersion::AsTextSays;
        let change = Ok(JobChange::Save { text, expected });
        self.change(
            (self.changing.begin(&from, &to), from),
            name,
            change,
            |outcome| match outcome {
                Ok(_) => to.reply(&BistroSchedulerSaveJobResult {}),
                // The caller never saw the text, so positions in it mean nothing.
                Err(JobChangeFailure::Refused(JobRefusal::Bad(problems))) => {
                    let lines: Vec<String> = problems.iter().map(without_place).collect();
                    to.fail(format!("the job cannot be used: {}", lines.join("\n")));
                }
                Err(failure) => to.fail(failure),
            },
        );
    }

    /// The original declares one exception for every failure. A change whose outcome is in doubt is not a failure.
    pub(super) fn delete(
        &self,
        from: Principal,
        args: BistroSchedulerDeleteJobArgs,
        to: Responder,
    ) {
        let expected = ExpectedVersion::Any;
        let change = Ok(JobChange::Delete { expected });
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job_name,
            change,
            |outcome| match outcome {
                Err(JobChangeFailure::Refused(in_doubt @ JobRefusal::NotDurableYet)) => {
                    to.fail(in_doubt)
                }
                Err(JobChangeFailure::Busy(busy)) => to.fail(busy),
                outcome => {
                    let ex = outcome.err().map(|f| unknown_job(&f.to_string()));
                    to.reply(&BistroSchedulerDeleteJobResult { ex });
                }
            },
        );
    }

    pub(super) fn forgive(
        &self,
        from: Principal,
        args: BistroSchedulerForgiveJobArgs,
        to: Responder,
    ) {
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job_name,
            Ok(JobChange::Forgive),
            |outcome| match outcome {
                Ok(_) => to.reply(&BistroSchedulerForgiveJobResult {}),
                Err(failure) => to.fail(failure),
            },
        );
    }

    pub(super) fn submit(&self, from: Principal, args: BrasserieSubmitJobArgs, to: Responder) {
        let text = args.text.into();
        let change =
            expected(args.expected_version).map(|expected| JobChange::Save { text, expected });
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job,
            change,
            |outcome| {
                declared(to, outcome, |changed, ex| BrasserieSubmitJobResult {
                    result_value: changed.and_then(submitted),
                    ex,
                });
            },
        );
    }

    pub(super) fn remove(&self, from: Principal, args: BrasserieRemoveJobArgs, to: Responder) {
        let change = expected(args.expected_version).map(|expected| JobChange::Delete { expected });
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job,
            change,
            |outcome| {
                declared(to, outcome, |_, ex| BrasserieRemoveJobResult { ex });
            },
        );
    }

    pub(super) fn pause(&self, from: Principal, args: BrasseriePauseJobArgs, to: Responder) {
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job,
            Ok(JobChange::Pause),
            |outcome| {
                declared(to, outcome, |_, ex| BrasseriePauseJobResult { ex });
            },
        );
    }

    pub(super) fn resume(&self, from: Principal, args: BrasserieResumeJobArgs, to: Responder) {
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job,
            Ok(JobChange::Resume),
            |outcome| {
                declared(to, outcome, |_, ex| BrasserieResumeJobResult { ex });
            },
        );
    }

    pub(super) fn cancel(&self, from: Principal, args: BrasserieCancelJobArgs, to: Responder) {
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job,
            Ok(JobChange::Cancel),
            |outcome| {
                declared(to, outcome, |changed, ex| BrasserieCancelJobResult {
                    result_value: changed.and_then(cancelled),
                    ex,
                });
            },
        );
    }

    /// Requests a worker to kill a task. The store does not record the request, only the completion of the run.
    pub(super) fn kill_task(&self, from: Principal, args: BrasserieKillTaskArgs, to: Responder) {
        let (inbox, _, line, place) = match self.changing.begin(&from, &to) {
            Ok(open) => open,
            Err(busy) => return to.fail(busy),
        };
        let line = line.on("task", &args.job).node(&args.node);
        tokio::spawn(async move {
            let _place = place;
            let killed = kill(&inbox, from, args).await;
            end(line, &killed);
            let result = match killed {
                Ok(killed) => BrasserieKillTaskResult {
                    result_value: Some(TaskKill {
                        worker_shard: Some(killed.shard.into()),
                        invocation_id: Some(killed.invocation.0.into()),
                        kill_request: Some(killed.request.into()),
                        held: Some(killed.held),
                        unwanted: killed.unwanted,
                        wait_sec: i32::try_from(killed.wait_seconds).ok(),
                    }),
                    ex: None,
                },
                Err(JobChangeFailure::Stopped(stopped)) => return to.fail(stopped),
                Err(failure) => BrasserieKillTaskResult {
                    result_value: None,
                    ex: Some(JobRefusedException {
                        message: Some(failure.to_string()),
                        problems: Some(Vec::new()),
                    }),
                },
            };
            to.reply(&result);
        });
    }

    pub(super) fn forgive_tasks(
        &self,
        from: Principal,
        args: BrasserieForgiveTasksArgs,
        to: Responder,
    ) {
        let change = match args.failed_only {
            true => JobChange::ForgiveFailed,
            false => JobChange::Forgive,
        };
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job,
            Ok(change),
            |outcome| {
                declared(to, outcome, |changed, ex| BrasserieForgiveTasksResult {
                    result_value: changed.and_then(forgiven),
                    ex,
                });
            },
        );
    }

    pub(super) fn delete_history(
        &self,
        from: Principal,
        args: BrasserieDeleteHistoryArgs,
        to: Responder,
    ) {
        let nodes: Result<Vec<NodeName>, NameError> =
            args.nodes.into_iter().map(NodeName::try_from).collect();
        let change = nodes
            .map(|nodes| JobChange::DeleteHistory { nodes })
            .map_err(JobChangeFailure::Node);
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job,
            change,
            |outcome| {
                declared(to, outcome, |changed, ex| BrasserieDeleteHistoryResult {
                    result_value: changed.and_then(history_deleted),
                    ex,
                });
            },
        );
    }

    pub(super) fn forget_outputs(
        &self,
        from: Principal,
        args: BrasserieForgetOutputsArgs,
        to: Responder,
    ) {
        let nodes: Result<Vec<NodeName>, NameError> =
            args.nodes.into_iter().map(NodeName::try_from).collect();
        let needed = match args.force {
            true => NeededOutputs::Forget,
            false => NeededOutputs::Keep,
        };
        let change = nodes
            .map(|nodes| JobChange::ForgetOutputs { nodes, needed })
            .map_err(JobChangeFailure::Node);
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job,
            change,
            |outcome| {
                declared(to, outcome, |changed, ex| BrasserieForgetOutputsResult {
                    result_value: changed.and_then(outputs_forgotten),
                    ex,
                });
            },
        );
    }

    pub(super) fn hold_outputs(
        &self,
        from: Principal,
        args: BrasserieHoldOutputsArgs,
        to: Responder,
    ) {
        let hold = match args.release {
            true => OutputHold::End,
            false => OutputHold::Continue,
        };
        let holder = HoldId(args.hold);
        // The audit log has no line for a hold that goes on, and outputs are deleted if it may not.
        if !self.holds.has(&(args.job.clone(), holder))
            && let Err(why) = self.changing.check(&from, &to)
        {
            return to.fail(why);
        }
        let change = Ok(JobChange::HoldOutputs { hold, holder });
        self.change(
            (self.changing.begin(&from, &to), from),
            args.job,
            change,
            |outcome| {
                declared(to, outcome, |changed, ex| BrasserieHoldOutputsResult {
                    result_value: changed.and_then(outputs_held),
                    ex,
                });
            },
        );
    }
}

/// Writes the line of a change into the audit log.
fn write(
    mut line: OpenLine,
    text: Option<Arc<str>>,
    outcome: &Result<JobChanged, JobChangeFailure>,
) {
    let hold = |hold: Option<Hold>| Some(json!({ "hold": hold.map_or("none", hold_name) }));
    match outcome {
        Ok(JobChanged::Saved {
            version, before, ..
        }) => {
            line.changed(None, Some(json!({ "version": version.0 })));
            line.texts(before.clone(), text);
        }
        Ok(JobChanged::Deleted { before }) => line.texts(before.clone(), None),
        Ok(JobChanged::Paused { before }) => line.changed(hold(*before), hold(Some(Hold::Paused))),
        Ok(JobChanged::Cancelled { before, .. }) => {
            line.changed(hold(*before), hold(Some(Hold::Cancelled)));
        }
        Ok(JobChanged::Resumed { before }) => line.changed(hold(*before), hold(None)),
        Ok(JobChanged::Forgiven { tasks } | JobChanged::HistoryDeleted { tasks, .. }) => {
            line.changed(None, Some(json!({ "tasks": tasks })));
        }
        Ok(JobChanged::OutputsForgotten { tasks, outputs }) => {
            line.changed(None, Some(json!({ "tasks": tasks, "outputs": outputs })));
        }
        Ok(JobChanged::OutputsHeld(held)) => {
            line.changed(None, Some(json!({ "held": *held == HoldState::Continued })));
        }
        Err(_) => {}
    }
    end(line, outcome);
}

fn hold_name(hold: Hold) -> &'static str {
    match hold {
        Hold::Paused => "paused",
        Hold::Cancelled => "cancelled",
    }
}

/// Ends the line of a change.
fn end<T>(line: OpenLine, outcome: &Result<T, JobChangeFailure>) {
    match outcome {
        Ok(_) => line.end(Outcome::Ok, None),
        Err(
            JobChangeFailure::Refused(JobRefusal::NotOwner(why))
            | JobChangeFailure::NotKilled(Rejection::NotOwner(why)),
        ) => line.refused_caller(RefusalReason::Owner, why),
        Err(
            why @ (JobChangeFailure::Refused(JobRefusal::NotDurableYet)
            | JobChangeFailure::NotKilled(Rejection::KillFailed(_))
            | JobChangeFailure::StoreIsFull
            | JobChangeFailure::Stopped(_)),
        ) => line.end(Outcome::Failed, Some(why)),
        // The problems quote the text, which may have secrets.
        Err(JobChangeFailure::Refused(JobRefusal::Bad(problems))) => {
            let why = format!("the job cannot be used; problems: {}", problems.len());
            line.end(Outcome::Refused, Some(&why));
        }
        Err(why) => line.end(Outcome::Refused, Some(why)),
    }
}

async fn kill(
    inbox: &Inbox,
    from: Principal,
    args: BrasserieKillTaskArgs,
) -> Result<KilledTask, JobChangeFailure> {
    let job = JobName::try_from(args.job)?;
    let node = NodeName::try_from(args.node).map_err(JobChangeFailure::Node)?;
    let event = |request| Event::KillTask {
        request,
        from,
        job,
        node,
    };
    let killed: Result<Box<KilledTask>, Rejection> =
        inbox.request(EventLane::Ordinary, event).await?;
    Ok(*killed?)
}

async fn ask(
    inbox: &Inbox,
    room: &QueueRoom,
    from: Principal,
    job: String,
    change: Result<JobChange, JobChangeFailure>,
) -> Result<JobChanged, JobChangeFailure> {
    let change = change?;
    let job = JobName::try_from(job)?;
    if room.is_full() {
        return Err(JobChangeFailure::StoreIsFull);
    }
    let event = |request| Event::ChangeJob {
        request,
        from,
        job,
        change,
    };
    let changed: Result<JobChanged, JobRefusal> = inbox.request(EventLane::Ordinary, event).await?;
    Ok(changed?)
}

fn expected(version: i64) -> Result<ExpectedVersion, JobChangeFailure> {
    match version {
        AS_TEXT_SAYS => Ok(ExpectedVersion::AsTextSays),
        ANY => Ok(ExpectedVersion::Any),
        0 => Ok(ExpectedVersion::Nothing),
        1.. => Ok(ExpectedVersion::Exactly(JobVersion(version))),
        ..ANY => Err(JobChangeFailure::Expected(version)),
    }
}

fn submitted(changed: JobChanged) -> Option<SubmittedJob> {
    match changed {
        JobChanged::Saved {
            version, warnings, ..
        } => Some(SubmittedJob {
            version: Some(version.0),
            warnings: Some(warnings.iter().map(ToString::to_string).collect()),
        }),
        JobChanged::Deleted { .. }
        | JobChanged::Paused { .. }
        | JobChanged::Cancelled { .. }
        | JobChanged::Resumed { .. }
        | JobChanged::Forgiven { .. }
        | JobChanged::HistoryDeleted { .. }
        | JobChanged::OutputsForgotten { .. }
        | JobChanged::OutputsHeld(_) => None,
    }
}

fn cancelled(changed: JobChanged) -> Option<i64> {
    match changed {
        JobChanged::Cancelled { running, .. } => Some(i64::try_from(running).unwrap_or(i64::MAX)),
        JobChanged::Saved { .. }
        | JobChanged::Deleted { .. }
        | JobChanged::Paused { .. }
        | JobChanged::Resumed { .. }
        | JobChanged::Forgiven { .. }
        | JobChanged::HistoryDeleted { .. }
        | JobChanged::OutputsForgotten { .. }
        | JobChanged::OutputsHeld(_) => None,
    }
}

fn forgiven(changed: JobChanged) -> Option<i64> {
    match changed {
        JobChanged::Forgiven { tasks } => Some(i64::try_from(tasks).unwrap_or(i64::MAX)),
        JobChanged::Saved { .. }
        | JobChanged::Deleted { .. }
        | JobChanged::Paused { .. }
        | JobChanged::Cancelled { .. }
        | JobChanged::Resumed { .. }
        | JobChanged::HistoryDeleted { .. }
        | JobChanged::OutputsForgotten { .. }
        | JobChanged::OutputsHeld(_) => None,
    }
}

fn history_deleted(changed: JobChanged) -> Option<DeletedHistory> {
    let count = |count| Some(i64::try_from(count).unwrap_or(i64::MAX));
    match changed {
        JobChanged::HistoryDeleted {
            tasks,
            running,
            maybe_alive,
        } => Some(DeletedHistory {
            tasks: count(tasks),
            running: count(running),
            maybe_alive: count(maybe_alive),
        }),
        JobChanged::Saved { .. }
        | JobChanged::Deleted { .. }
        | JobChanged::Paused { .. }
        | JobChanged::Cancelled { .. }
        | JobChanged::Resumed { .. }
        | JobChanged::Forgiven { .. }
        | JobChanged::OutputsForgotten { .. }
        | JobChanged::OutputsHeld(_) => None,
    }
}

fn outputs_held(changed: JobChanged) -> Option<bool> {
    match changed {
        JobChanged::OutputsHeld(held) => Some(held == HoldState::Continued),
        JobChanged::Saved { .. }
        | JobChanged::Deleted { .. }
        | JobChanged::Paused { .. }
        | JobChanged::Cancelled { .. }
        | JobChanged::Resumed { .. }
        | JobChanged::Forgiven { .. }
        | JobChanged::HistoryDeleted { .. }
        | JobChanged::OutputsForgotten { .. } => None,
    }
}

fn outputs_forgotten(changed: JobChanged) -> Option<ForgottenOutputs> {
    let count = |count| Some(i64::try_from(count).unwrap_or(i64::MAX));
    match changed {
        JobChanged::OutputsForgotten { tasks, outputs } => Some(ForgottenOutputs {
            tasks: count(tasks),
            outputs: count(outputs),
        }),
        JobChanged::Saved { .. }
        | JobChanged::Deleted { .. }
        | JobChanged::Paused { .. }
        | JobChanged::Cancelled { .. }
        | JobChanged::Resumed { .. }
        | JobChanged::Forgiven { .. }
        | JobChanged::HistoryDeleted { .. }
        | JobChanged::OutputsHeld(_) => None,
    }
}

/// Sends the result, or the declared exception for a refusal. An outcome that leaves open whether the change happened becomes an undeclared
/// exception.
fn declared<R: TSerializable>(
    to: Responder,
    outcome: Result<JobChanged, JobChangeFailure>,
    result: impl FnOnce(Option<JobChanged>, Option<JobRefusedException>) -> R,
) {
    let exception = match outcome {
        Ok(changed) => return to.reply(&result(Some(changed), None)),
        Err(JobChangeFailure::Stopped(stopped)) => return to.fail(stopped),
        Err(JobChangeFailure::Busy(busy)) => return to.fail(busy),
        Err(JobChangeFailure::Refused(in_doubt @ JobRefusal::NotDurableYet)) => {
            return to.fail(in_doubt);
        }
        Err(JobChangeFailure::Refused(JobRefusal::Bad(problems))) => JobRefusedException {
            message: Some("the job cannot be used".to_owned()),
            problems: Some(problems.iter().map(ToString::to_string).collect()),
        },
        Err(failure) => JobRefusedException {
            message: Some(failure.to_string()),
            problems: Some(Vec::new()),
        },
    };
    to.reply(&result(None, Some(exception)));
}

fn without_place(problem: &Problem) -> String {
    let text = problem.to_string();
    let place = format!("{}:{}: ", problem.line, problem.column);
    text.strip_prefix(&place).unwrap_or(&text).to_owned()
}
