//! Serves the queries of people and programs in their turns: reads the core's state and sends each answer from a thread that may compute for long.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::ids::NameError;
use brasserie_common::logs::LineId;
use brasserie_common::{JobId, ListedState, NodeId, Principal, TaskKey, WallTime};
use brasserie_common_config::Config;
use brasserie_scheduler_core::{Answer, CursorPlace, JobStatus, Query, TaskCursor, TaskList};
use brasserie_thrift::convert;
use brasserie_thrift::generated::brasserie as wire;
use brasserie_thrift::generated::brasserie::{
    BrasserieExplainTaskArgs, BrasserieExplainTaskResult, BrasserieGetClusterStatusResult,
    BrasserieGetJobPageArgs, BrasserieGetJobPageResult, BrasserieGetJobStatusArgs,
    BrasserieGetJobStatusPageArgs, BrasserieGetJobStatusPageResult, BrasserieGetJobStatusResult,
    BrasserieGetTaskHistoryArgs, BrasserieGetTaskHistoryResult, BrasserieGetTaskPageArgs,
    BrasserieGetTaskPageResult,
};
use brasserie_thrift::generated::common::LogLines;
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerGetJobArgs, BistroSchedulerGetJobHistogramsArgs,
    BistroSchedulerGetJobHistogramsResult, BistroSchedulerGetJobLogsByIDArgs,
    BistroSchedulerGetJobLogsByIDResult, BistroSchedulerGetJobLogsByTimeArgs,
    BistroSchedulerGetJobLogsByTimeResult, BistroSchedulerGetJobResult,
    BistroSchedulerGetJobsResult, BistroSchedulerGetLevelsResult,
    BistroSchedulerUnknownJobException,
};
use brasserie_thrift::rpc::Responder;
use thrift::protocol::TSerializable;

use super::logs::Logs;
use super::{artifact_pages, export, files, job_pages, render};
use crate::inbox::{Inbox, Stopped};
use crate::security::Protection;
use crate::store::{StoreError, Stories};
use crate::turns::{Place, Turns};

/// Maximum names in one histogram bucket, whatever the caller requests: people read them.
const MAX_SAMPLES: usize = 1000;

/// Limit for reading a run's story from the disk. The read takes milliseconds, and callers give up soon after this.
const HISTORY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum queries from the network at once, each of which may compute a frame of the maximum length. So others wait for two at most in the
/// core's inbox, and two threads at most compete with those that serve heartbeats.
const MAX_QUERIES_AT_ONCE: usize = 2;

/// Serves queries.
pub(super) struct Answers {
    inbox: Inbox,
    logs: Logs,
    stories: Arc<Stories>,
    protection: Protection,
    turns: Turns,
    /// Permits one read of stories at a time, so that a hanging disk blocks one thread, or two with one for the local socket.
    reads: Turns,
}

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryFailure {
    #[error(transparent)]
    Stopped(#[from] Stopped),
    #[error("no configuration has been loaded yet")]
    NoConfig,
    #[error("no job is called `{0}`")]
    UnknownJob(String),
    #[error("{0}")]
    Unknown(String),
    #[error("{0}")]
    BadList(String),
    #[error("internal error: the scheduler's answer does not match the request")]
    AnotherAnswer,
    #[error(transparent)]
    Name(#[from] NameError),
    #[error("cannot read the task's history: {0}")]
    Store(#[from] StoreError),
    #[error(
        "the task's history could not be read within {} s; check the disk of the scheduler's data directory", HISTORY_TIMEOUT.as_secs()
    )]
    SlowDisk,
    #[error("the scheduler is ending")]
    Ending(#[from] tokio::task::JoinError),
}

/// Extracts the expected kind from an answer.
macro_rules! expect_answer {
    ($answer:expr, $kind:path) => {
        match $answer {
            $kind(value) => Ok(value),
            Answer::Unknown(text) => Err(QueryFailure::Unknown(text)),
            other => {
                tracing::error!(?other, "the answer does not match the request");
                Err(QueryFailure::AnotherAnswer)
            }
        }
    };
}

impl Answers {
    pub(super) fn new(inbox: Inbox, logs: Logs, stories: Stories, protection: Protection) -> Self {
        Answers {
            inbox,
            logs,
            protection,
            stories: Arc::new(stories),
            turns: Turns::new(MAX_QUERIES_AT_ONCE),
            reads: Turns::new(1),
        }
    }

    /// Returns the turns of queries, for those that come another way.
    pub(super) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Sends the answer in the caller's turn. A failure becomes an exception that the method does not declare.
    fn later<R, F>(&self, to: Responder, answer: impl FnOnce(Inbox) -> F + Send + 'static)
    where
        R: TSerializable,
        F: Future<Output = Result<R, QueryFailure>>,
    {
        let inbox = self.inbox.clone();
        self.turns
            .serve(to, move |to| async move { send(to, answer(inbox).await) });
    }

    /// Answers with all jobs or fails, because the original's answer has no field that says that more jobs exist.
    pub(super) fn jobs(&self, from: Principal, to: Responder) {
        let inbox = self.inbox.clone();
        self.turns.serve(to, move |to| async move {
            let config = match config(&inbox, from).await {
                Ok(config) => config,
                Err(failure) => return to.fail(failure),
            };
            let jobs = config.jobs.iter().map(|job| export::job(&config, job));
            let result = BistroSchedulerGetJobsResult {
                result_value: Some(jobs.collect()),
            };
            let advice = format!(
                "one answer cannot hold {} jobs: request them page by page with `getJobPage`, `after` and `limit`",
                config.jobs.len()
            );
            to.reply_or_advise(&result, &advice);
        });
    }

    pub(super) fn job_page(&self, from: Principal, args: BrasserieGetJobPageArgs, to: Responder) {
        self.later(to, move |inbox| async move {
            let config = config(&inbox, from).await?;
            Ok(BrasserieGetJobPageResult {
                result_value: Some(job_pages::page(&config, &args)),
            })
        });
    }

    pub(super) fn job(&self, from: Principal, args: BistroSchedulerGetJobArgs, to: Responder) {
        self.later(to, move |inbox| async move {
            let config = config(&inbox, from).await?;
            let job = config.job(&args.job_name);
            let job = job.ok_or(QueryFailure::UnknownJob(args.job_name))?;
            Ok(BistroSchedulerGetJobResult {
                result_value: Some(export::job(&config, job)),
            })
        });
    }

    pub(super) fn levels(&self, from: Principal, to: Responder) {
        self.later(to, move |inbox| async move {
            let config = config(&inbox, from).await?;
            // Omits the instance level at the top and the worker level at the bottom.
            let end = config.levels.len().saturating_sub(1).max(1);
            Ok(BistroSchedulerGetLevelsResult {
                result_value: Some(config.levels.get(1..end).unwrap_or_default().to_vec()),
            })
        });
    }

    pub(super) fn histograms(
        &self,
        from: Principal,
        args: BistroSchedulerGetJobHistogramsArgs,
        to: Responder,
    ) {
        self.later(to, move |inbox| async move {
            let samples = usize::try_from(args.samples).unwrap_or(0).min(MAX_SAMPLES);
            let query = Query::Histograms {
                jobs: args.jobs,
                samples,
            };
            let found = expect_answer!(inbox.query(from, query).await?, Answer::Histograms)?;
            Ok(BistroSchedulerGetJobHistogramsResult {
                result_value: Some(render::histograms(found)),
            })
        });
    }

    pub(super) fn logs_by_time(
        &self,
        from: Principal,
        args: BistroSchedulerGetJobLogsByTimeArgs,
        to: Responder,
    ) {
        // Ascending pages start at the second's first line, descending ones at its last.
        let first = LineId::first_of_second(args.time.into());
        let start = match args.is_ascending {
            true => first,
            false => LineId(first.0 | i64::from(u32::MAX)),
        };
        let by_id = BistroSchedulerGetJobLogsByIDArgs {
            logtype: args.logtype,
            job_id: args.job_id,
            node_id: args.node_id,
            line_id: start.0,
            is_ascending: args.is_ascending,
            regex_filter: args.regex_filter,
            invocation: args.invocation,
        };
        self.page(from, by_id, to, |lines| {
            BistroSchedulerGetJobLogsByTimeResult {
                result_value: Some(lines),
            }
        });
    }

    pub(super) fn logs_by_id(
        &self,
        from: Principal,
        args: BistroSchedulerGetJobLogsByIDArgs,
        to: Responder,
    ) {
        self.page(from, args, to, |lines| {
            BistroSchedulerGetJobLogsByIDResult {
                result_value: Some(lines),
            }
        });
    }

    pub(super) fn output_page(
        &self,
        from: Principal,
        args: wire::BrasserieGetOutputPageArgs,
        to: Responder,
    ) {
        self.later(to, move |inbox| async move {
            let list = artifact_pages::list(args).map_err(QueryFailure::BadList)?;
            let answer = inbox.query(from, Query::Outputs(list)).await?;
            match expect_answer!(answer, Answer::Outputs) {
                Ok(page) => Ok(wire::BrasserieGetOutputPageResult {
                    result_value: Some(artifact_pages::page(page)),
                    ex: None,
                }),
                Err(QueryFailure::Unknown(text)) => Ok(wire::BrasserieGetOutputPageResult {
                    result_value: None,
                    ex: Some(unknown_job(&text)),
                }),
                Err(failure) => Err(failure),
            }
        });
    }

    pub(super) fn file_page(
        &self,
        from: Principal,
        args: wire::BrasserieGetFilePageArgs,
        to: Responder,
    ) {
        self.later(to, move |inbox| async move {
            let answer = inbox.query(from, Query::Files(files::list(args))).await?;
            let page = expect_answer!(answer, Answer::Files)?;
            Ok(wire::BrasserieGetFilePageResult {
                result_value: Some(files::page(page)),
            })
        });
    }

    fn page<R: TSerializable>(
        &self,
        from: Principal,
        args: BistroSchedulerGetJobLogsByIDArgs,
        to: Responder,
        result: impl FnOnce(LogLines) -> R + Send + 'static,
    ) {
        // The limit for each worker is set later, when the number of workers is known.
        let query = match convert::scheduler_log_query(args, 0) {
            Ok(query) => query,
            Err(error) => return to.reject_arguments(&error),
        };
        let logs = self.logs.clone();
        self.logs.turns().begin(to, |to, turn| async move {
            match logs.page(from, query).await {
                Ok(page) => {
                    let answer = move || to.reply(&result(page().into()));
                    // The drop of the responder is an answer too.
                    let _ = turn.compute(answer).await;
                }
                Err(error) => to.fail(error),
            }
        });
    }

    pub(super) fn cluster_status(&self, from: Principal, to: Responder) {
        let protection = self.protection.clone();
        self.later(to, move |inbox| async move {
            let status = expect_answer!(inbox.query(from, Query::Status).await?, Answer::Status)?;
            let mut status = render::cluster_status(*status);
            protection.add_problems(&mut status);
            Ok(BrasserieGetClusterStatusResult {
                result_value: Some(status),
            })
        });
    }

    pub(super) fn job_status_page(
        &self,
        from: Principal,
        args: BrasserieGetJobStatusPageArgs,
        to: Responder,
    ) {
        self.later(to, move |inbox| async move {
            let page = job_status_page(&inbox, from, args).await?;
            Ok(BrasserieGetJobStatusPageResult {
                result_value: Some(page.into_wire()),
            })
        });
    }

    pub(super) fn job_status(
        &self,
        from: Principal,
        args: BrasserieGetJobStatusArgs,
        to: Responder,
    ) {
        self.later(to, move |inbox| async move {
            match job_status(&inbox, from, args.job).await {
                Ok(status) => Ok(BrasserieGetJobStatusResult {
                    result_value: Some(status),
                    ex: None,
                }),
                Err(QueryFailure::Unknown(text)) => Ok(BrasserieGetJobStatusResult {
                    result_value: None,
                    ex: Some(unknown_job(&text)),
                }),
                Err(failure) => Err(failure),
            }
        });
    }

    pub(super) fn task_page(&self, from: Principal, args: BrasserieGetTaskPageArgs, to: Responder) {
        self.later(to, move |inbox| async move {
            let list = task_list(args)?;
            let answer = inbox.query(from, Query::Tasks(list)).await?;
            match expect_answer!(answer, Answer::Tasks) {
                Ok(page) => Ok(BrasserieGetTaskPageResult {
                    result_value: Some(render::task_page(page)),
                    ex: None,
                }),
                Err(QueryFailure::Unknown(text)) => Ok(BrasserieGetTaskPageResult {
                    result_value: None,
                    ex: Some(unknown_job(&text)),
                }),
                Err(failure) => Err(failure),
            }
        });
    }

    pub(super) fn explain(&self, from: Principal, args: BrasserieExplainTaskArgs, to: Responder) {
        self.later(to, move |inbox| async move {
            let query = Query::Explain {
                job: args.job,
                node: args.node,
            };
            match expect_answer!(inbox.query(from, query).await?, Answer::Explain) {
                Ok(reasons) => Ok(BrasserieExplainTaskResult {
                    result_value: Some(reasons),
                    ex: None,
                }),
                Err(QueryFailure::Unknown(text)) => Ok(BrasserieExplainTaskResult {
                    result_value: None,
                    ex: Some(unknown_job(&text)),
                }),
                Err(failure) => Err(failure),
            }
        });
    }
}

impl Answers {
    /// Returns the story of a task's last run. The store keeps stories on disk only, to save memory.
    pub(super) fn history(&self, args: BrasserieGetTaskHistoryArgs, to: Responder) {
        let place = match self.reads.place(&to.principal()) {
            Ok(place) => place,
            Err(busy) => return to.fail(busy),
        };
        let stories = Arc::clone(&self.stories);
        tokio::spawn(async move {
            let answer = history(stories, args, place, &to).await;
            if let Some(answer) = answer.transpose() {
                send(to, answer);
            }
        });
    }
}

/// Reads the story of a task's last run in the caller's turn. Returns nothing if the connection of the call has ended by then.
async fn history(
    stories: Arc<Stories>,
    args: BrasserieGetTaskHistoryArgs,
    place: Place,
    to: &Responder,
) -> Result<Option<BrasserieGetTaskHistoryResult>, QueryFailure> {
    let task = TaskKey {
        job: args.job.try_into()?,
        node: args.node.try_into()?,
    };
    let read = async {
        let turn = place.turn().await;
        match to.is_gone() {
            true => Ok(None),
            false => turn.compute(move || stories.of(&task)).await.map(Some),
        }
    };
    let read = tokio::time::timeout(HISTORY_TIMEOUT, read).await;
    let Some(last) = read.map_err(|_| QueryFailure::SlowDisk)?? else {
        return Ok(None);
    };
    Ok(Some(BrasserieGetTaskHistoryResult {
        result_value: Some(render::history(last?)),
    }))
}

fn send<R: TSerializable>(to: Responder, answer: Result<R, QueryFailure>) {
    match answer {
        Ok(result) => to.reply(&result),
        Err(failure) => to.fail(failure),
    }
}

/// Parses the request for a page. Errors if its cursor, states or limit are invalid.
fn task_list(args: BrasserieGetTaskPageArgs) -> Result<TaskList, QueryFailure> {
    let state = |text: &String| ListedState::parse(text).map_err(QueryFailure::BadList);
    let after = args.after.map(|after| {
        let cursor = cursor(after);
        cursor.ok_or_else(|| {
            QueryFailure::BadList("`after` does not come from an earlier page".to_owned())
        })
    });
    Ok(TaskList {
        job: Some(args.job).filter(|job| !job.is_empty()),
        states: args.states.iter().map(state).collect::<Result<_, _>>()?,
        after: after.transpose()?,
        limit: usize::try_from(args.limit)
            .ok()
            .filter(|limit| *limit > 0)
            .unwrap_or(usize::MAX),
    })
}

fn cursor(cursor: wire::TaskCursor) -> Option<TaskCursor> {
    let node = |id: i64| u32::try_from(id).ok().map(NodeId);
    let place = match (cursor.running_from, cursor.node) {
        (Some(from), _) => CursorPlace::Running(node(from)?),
        (None, None) => CursorPlace::Rest(None),
        (None, Some(after)) => {
            let position = usize::try_from(cursor.position?).ok()?;
            CursorPlace::Rest(Some((node(after)?, position)))
        }
    };
    Some(TaskCursor {
        scheduler: convert::parse("getTaskPage.after.scheduler", cursor.scheduler?).ok()?,
        job: JobId(u32::try_from(cursor.job?).ok()?),
        place,
    })
}

async fn config(inbox: &Inbox, from: Principal) -> Result<Arc<Config>, QueryFailure> {
    let config = expect_answer!(inbox.query(from, Query::Config).await?, Answer::Config)?;
    config.ok_or(QueryFailure::NoConfig)
}

/// The core's answer for one page of jobs, sorted by name.
pub(crate) struct JobStatuses {
    jobs: Vec<JobStatus>,
    wall: WallTime,
    /// The number of all jobs.
    total: i64,
    has_more: bool,
}

impl JobStatuses {
    /// Makes the page, which takes a while if it has many jobs.
    pub(crate) fn into_wire(self) -> wire::JobStatusPage {
        let (jobs, fit) = render::fitting_jobs(self.jobs, self.wall);
        wire::JobStatusPage {
            jobs: Some(jobs),
            total: Some(self.total),
            has_more: Some(self.has_more || !fit),
        }
    }
}

/// Returns the status of one page of jobs, sorted by name.
pub(crate) async fn job_status_page(
    inbox: &Inbox,
    from: Principal,
    args: BrasserieGetJobStatusPageArgs,
) -> Result<JobStatuses, QueryFailure> {
    let config = config(inbox, from.clone()).await?;
    let (jobs, after_page) = job_pages::jobs_after(&config, &args.after, args.limit);
    let names = jobs.iter().map(|job| job.name.as_str().to_owned());
    let names = names.collect();
    match inbox.query(from, Query::Jobs { names }).await? {
        Answer::Jobs(jobs, wall) => Ok(JobStatuses {
            jobs,
            wall,
            total: job_pages::total(&config),
            has_more: after_page > 0,
        }),
        _ => Err(QueryFailure::AnotherAnswer),
    }
}

/// Returns the status of one job.
pub(crate) async fn job_status(
    inbox: &Inbox,
    from: Principal,
    job: String,
) -> Result<wire::JobStatus, QueryFailure> {
    match inbox.query(from, Query::JobStatus { job }).await? {
        Answer::JobStatus(status, wall) => Ok(render::job_status(*status, wall)),
        Answer::Unknown(text) => Err(QueryFailure::Unknown(text)),
        _ => Err(QueryFailure::AnotherAnswer),
    }
}

pub(super) fn unknown_job(message: &str) -> BistroSchedulerUnknownJobException {
    BistroSchedulerUnknownJobException {
        message: Some(message.to_owned()),
    }
}
