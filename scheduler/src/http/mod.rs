//! HTTP for people and probes: liveness, readiness, and an overview of the cluster as a page or as JSON.

mod access;
mod connections;
mod headers;
mod hosts;
mod login;
mod page;
mod selection;
mod sessions;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query as Wanted, State};
use axum::http::StatusCode;
use axum::middleware;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use brasserie_common::Principal;
use brasserie_common::cluster_view::{ClusterView, DEFAULT_ROWS};
use brasserie_common::text::printable;
use brasserie_common_runtime::net::host_name;
use brasserie_scheduler_core::{Answer, ClusterStatus, FileList, MAX_LISTED_JOBS, Query};
use brasserie_thrift::generated::brasserie::{BrasserieGetJobStatusPageArgs, JobStatus};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use crate::inbox::{EventLane, Inbox};
use crate::rpc::answers::{JobStatuses, QueryFailure, job_status, job_status_page};
use crate::rpc::render;
use crate::security::Protection;
use crate::turns::{Busy, Turn, Turns};
use access::{PageAccess, Viewer};
use connections::Visitor;
use hosts::Hosts;
use page::PageArtifacts;
use selection::{BadSelection, Selection};

/// Limit for the core's answer. The core needs milliseconds, and probes give up after some seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// The path of the JSON document, whose errors are JSON too.
const STATUS: &str = "/status";

/// The pages of one scheduler.
#[derive(Clone)]
pub(crate) struct Web {
    inbox: Inbox,
    turns: Turns,
    protection: Protection,
    hosts: Hosts,
}

impl Web {
    /// Creates the pages of a scheduler, which also answers to these host names.
    pub(crate) fn new(
        (inbox, turns): (Inbox, Turns),
        protection: Protection,
        names: Vec<String>,
    ) -> Self {
        if let Some(security) = protection.security() {
            let own = host_name().into_iter().chain(["localhost".to_owned()]);
            security.add_web_names(names.iter().cloned().chain(own));
            if let Err(error) = security.web_tls(Ipv4Addr::LOCALHOST.into()) {
                tracing::error!(%error, "the HTTP port cannot speak TLS: there is no certificate for its names. Check --http-host");
            }
        }
        Web {
            inbox,
            turns,
            protection,
            hosts: Hosts::new(names, host_name()),
        }
    }

    /// Serves until `stop` is cancelled.
    pub(crate) fn start(self, listener: TcpListener, stop: CancellationToken) -> JoinHandle<()> {
        let security = self.protection.security().cloned();
        tokio::spawn(connections::serve(
            listener,
            (self.router(), security),
            stop,
        ))
    }

    /// Waits for the turn of a visitor, who may be one with a token.
    async fn turn(&self, visitor: &Visitor, viewer: Option<&Viewer>) -> Result<Turn, NoAnswer> {
        let from = match viewer {
            Some(viewer) => Principal::Authenticated(Arc::clone(&viewer.identity)),
            None => Principal::Unauthenticated(visitor.from),
        };
        let turn = self.turns.place(&from)?.turn();
        let turn = tokio::time::timeout(ANSWER_TIMEOUT, turn).await;
        turn.map_err(|_| NoAnswer::Busy(Busy))
    }

    fn router(self) -> Router {
        let mut pages = Router::new()
            .route("/", get(page))
            .route("/health", get(live))
            .route("/health/live", get(live))
            .route("/health/ready", get(ready))
            .route("/status", get(status))
            .with_state(self.clone());
        if let Some(security) = self.protection.security() {
            let access = PageAccess::new(security);
            let check = middleware::from_fn_with_state(access.clone(), access::check);
            pages = pages.merge(login::router(access)).layer(check);
        }
        pages
            .layer(middleware::from_fn_with_state(self.hosts, hosts::check))
            .layer(middleware::from_fn(headers::add))
    }
}

/// Answers whether the process should continue. It should also while it waits or cannot write, when a restart would only cost time.
async fn live(State(web): State<Web>) -> Result<&'static str, NoAnswer> {
    // Queries the core, because a process whose core hangs is not alive.
    why_nothing_starts(&web.inbox).await.map(|_| "alive\n")
}

/// Answers whether the scheduler starts tasks, or else why not.
async fn ready(State(web): State<Web>) -> Result<Response, NoAnswer> {
    Ok(match &*why_nothing_starts(&web.inbox).await? {
        [] => "ready\n".into_response(),
        reasons => {
            let text = format!("not ready: {}\n", reasons.join("\nnot ready: "));
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    })
}

/// The parameters of a URL's query, in order.
type Parameters = Wanted<Vec<(String, String)>>;

async fn status(
    State(web): State<Web>,
    Extension(visitor): Extension<Visitor>,
    viewer: Option<Extension<Viewer>>,
    Wanted(parameters): Parameters,
) -> Response {
    let answer = async {
        let turn = web.turn(&visitor, viewer.as_deref()).await?;
        let parts = view_parts(&web, parameters, MAX_LISTED_JOBS).await?;
        let protection = web.protection.clone();
        let document = move || axum::Json(parts.into_view(&protection).0).into_response();
        Ok(turn.compute(document).await?)
    };
    match answer.await {
        Ok(document) => document,
        Err::<_, NoAnswer>(why) => failure(STATUS, why.code(), &why.to_string()),
    }
}

async fn page(
    State(web): State<Web>,
    Extension(visitor): Extension<Visitor>,
    viewer: Option<Extension<Viewer>>,
    Wanted(parameters): Parameters,
) -> Result<Response, NoAnswer> {
    let turn = web.turn(&visitor, viewer.as_deref()).await?;
    let parts = view_parts(&web, parameters, DEFAULT_ROWS).await?;
    let artifacts = artifacts(&web.inbox).await?;
    let protection = web.protection.clone();
    let page = move || {
        let (view, selection) = parts.into_view(&protection);
        page::render(&view, &selection, &artifacts)
    };
    let page = turn.compute(page).await?;
    Ok(match viewer {
        Some(Extension(viewer)) => login::with_logout(page, &viewer),
        None => Html(page).into_response(),
    })
}

/// Returns what the page shows of outputs and files.
async fn artifacts(inbox: &Inbox) -> Result<PageArtifacts, NoAnswer> {
    let limit = DEFAULT_ROWS;
    let sets = Query::OutputSets { limit };
    let Answer::OutputSets(sets, more_sets) = ask(inbox, EventLane::Ordinary, sets).await? else {
        return Err(NoAnswer::Ending);
    };
    let files = Query::Files(FileList {
        name: None,
        after: None,
        limit,
    });
    let Answer::Files(files) = ask(inbox, EventLane::Ordinary, files).await? else {
        return Err(NoAnswer::Ending);
    };
    Ok(PageArtifacts {
        sets,
        more_sets,
        files: files.files,
        has_more_files: files.has_more,
    })
}

/// The core's answers of which a view of the cluster is made.
struct ViewParts {
    status: Box<ClusterStatus>,
    jobs: SelectedJobs,
    selection: Selection,
    /// Maximum jobs of the view.
    limit: usize,
}

/// The jobs that a selection chooses.
enum SelectedJobs {
    /// The most urgent ones, which are in the status of the cluster.
    MostUrgent,
    One(Box<JobStatus>),
    Page(JobStatuses),
}

impl ViewParts {
    /// Makes the view, which takes a while if the cluster is large.
    fn into_view(self, protection: &Protection) -> (ClusterView, Selection) {
        let mut status = render::cluster_status(*self.status);
        match self.jobs {
            SelectedJobs::MostUrgent => {}
            SelectedJobs::One(job) => {
                (status.jobs, status.more_jobs) = (Some(vec![*job]), Some(true));
            }
            SelectedJobs::Page(page) => {
                let page = page.into_wire();
                status.jobs = Some(page.jobs.unwrap_or_default());
                status.more_jobs = Some(page.has_more.unwrap_or(false));
            }
        }
        protection.add_problems(&mut status);
        let mut view = ClusterView::from(status);
        if self.selection.job.is_some() {
            view.more_jobs = view.jobs_total > view.jobs.len() as u64;
        }
        view.keep_jobs(self.limit);
        (view, self.selection)
    }
}

/// Queries the core for the cluster with the jobs that a query chooses, at most `limit` unless it gives another limit.
async fn view_parts(
    web: &Web,
    parameters: Vec<(String, String)>,
    limit: usize,
) -> Result<ViewParts, NoAnswer> {
    let selection = Selection::from_parameters(parameters)?;
    let limit = selection.limit.unwrap_or(limit).min(MAX_LISTED_JOBS);
    let inbox = &web.inbox;
    let Answer::Status(status) = ask(inbox, EventLane::Ordinary, Query::Status).await? else {
        return Err(NoAnswer::Ending);
    };
    let jobs = tokio::time::timeout(ANSWER_TIMEOUT, selected(inbox, &selection, limit)).await;
    let jobs = jobs.map_err(|_| NoAnswer::Late)??;
    Ok(ViewParts {
        status,
        jobs,
        selection,
        limit,
    })
}

/// Returns the jobs that a selection chooses.
async fn selected(
    inbox: &Inbox,
    selection: &Selection,
    limit: usize,
) -> Result<SelectedJobs, QueryFailure> {
    let from = Principal::Own;
    if let Some(job) = &selection.job {
        let job = job_status(inbox, from, job.clone()).await?;
        return Ok(SelectedJobs::One(Box::new(job)));
    }
    let Some(after) = selection.after.clone() else {
        return Ok(SelectedJobs::MostUrgent);
    };
    // Invariant: at most `MAX_LISTED_JOBS`.
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let args = BrasserieGetJobStatusPageArgs { after, limit };
    let page = job_status_page(inbox, from, args).await?;
    Ok(SelectedJobs::Page(page))
}

/// Returns the reasons why no task starts. Never waits for the disk.
async fn why_nothing_starts(inbox: &Inbox) -> Result<Vec<String>, NoAnswer> {
    match ask(inbox, EventLane::Health, Query::NothingStarts).await? {
        Answer::NothingStarts(reasons) => Ok(reasons),
        _ => Err(NoAnswer::Ending),
    }
}

async fn ask(inbox: &Inbox, lane: EventLane, query: Query) -> Result<Answer, NoAnswer> {
    let asked = inbox.query_in(lane, Principal::Own, query);
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(NoAnswer::Ending),
        Err(_) => Err(NoAnswer::Late),
    }
}

/// Why there is no answer from the core.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("the scheduler is ending")]
    Ending,
    #[error("the core of the scheduler has not answered for {} seconds; its log may say why", ANSWER_TIMEOUT.as_secs())]
    Late,
    #[error(transparent)]
    BadSelection(#[from] BadSelection),
    #[error(transparent)]
    Failed(#[from] QueryFailure),
    #[error(transparent)]
    Busy(#[from] Busy),
    #[error("the answer could not be made: {0}")]
    Died(#[from] JoinError),
}

impl NoAnswer {
    fn code(&self) -> StatusCode {
        match self {
            NoAnswer::BadSelection(_) => StatusCode::BAD_REQUEST,
            NoAnswer::Failed(QueryFailure::Unknown(_)) => StatusCode::NOT_FOUND,
            NoAnswer::Ending
            | NoAnswer::Late
            | NoAnswer::Failed(_)
            | NoAnswer::Busy(_)
            | NoAnswer::Died(_) => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

impl IntoResponse for NoAnswer {
    fn into_response(self) -> Response {
        failure("/", self.code(), &self.to_string())
    }
}

/// Answers why a request for this path has failed: with a JSON document where the path has one, else with a line of text, in which control
/// characters of the request are escaped.
fn failure(path: &str, code: StatusCode, why: &str) -> Response {
    match path {
        STATUS => {
            let document = json!({ "error": { "message": why } });
            (code, axum::Json(document)).into_response()
        }
        _ => (code, format!("{}\n", printable(why))).into_response(),
    }
}
