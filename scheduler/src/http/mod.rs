//! HTTP for people and probes: liveness, readiness, and the cluster at a glance as a page or as JSON.

mod connections;
mod hosts;
mod page;
mod status;

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use brasserie_common::Principal;
use brasserie_scheduler_core::{Answer, ClusterStatus, Query};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::inbox::{Inbox, Lane};
use crate::start::host_name;
use hosts::Hosts;

/// Time in which the core must answer: it takes milliseconds, and probes give up after some seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts to serve, under these names too, until `stop` is cancelled.
pub(crate) fn start(
    listener: TcpListener,
    names: Vec<String>,
    inbox: Inbox,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let hosts = Hosts::new(names, host_name());
    tokio::spawn(connections::serve(listener, router(inbox, hosts), stop))
}

fn router(inbox: Inbox, hosts: Hosts) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/health", get(live))
        .route("/health/live", get(live))
        .route("/health/ready", get(ready))
        .route("/status", get(status))
        .with_state(inbox)
        .layer(middleware::from_fn_with_state(hosts, hosts::check))
}

/// Whether the process should go on: also while it waits or cannot write, when a restart would only cost time.
async fn live(State(inbox): State<Inbox>) -> Result<&'static str, NoAnswer> {
    // Through the core: a process whose core hangs is not alive.
    why_nothing_starts(&inbox).await.map(|_| "alive\n")
}

/// Whether it starts tasks, and if not, why.
async fn ready(State(inbox): State<Inbox>) -> Result<Response, NoAnswer> {
    Ok(match &*why_nothing_starts(&inbox).await? {
        [] => "ready\n".into_response(),
        reasons => {
            let text = format!("not ready: {}\n", reasons.join("\nnot ready: "));
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    })
}

async fn status(State(inbox): State<Inbox>) -> Result<Response, NoAnswer> {
    let status = cluster_status(&inbox).await?;
    let json = [(header::CONTENT_TYPE, "application/json")];
    Ok((json, status::json(&status).to_string()).into_response())
}

async fn page(State(inbox): State<Inbox>) -> Result<Response, NoAnswer> {
    let status = cluster_status(&inbox).await?;
    Ok(Html(page::render(&status)).into_response())
}

async fn cluster_status(inbox: &Inbox) -> Result<ClusterStatus, NoAnswer> {
    match ask(inbox, Lane::Ordinary, Query::Status).await? {
        Answer::Status(status) => Ok(*status),
        _ => Err(NoAnswer::Ending),
    }
}

/// Never waits for the disk.
async fn why_nothing_starts(inbox: &Inbox) -> Result<Vec<String>, NoAnswer> {
    match ask(inbox, Lane::Health, Query::NothingStarts).await? {
        Answer::NothingStarts(reasons) => Ok(reasons),
        _ => Err(NoAnswer::Ending),
    }
}

async fn ask(inbox: &Inbox, lane: Lane, query: Query) -> Result<Answer, NoAnswer> {
    let asked = inbox.query_in(lane, Principal::Own, query);
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(NoAnswer::Ending),
        Err(_) => Err(NoAnswer::Late),
    }
}

/// Why the core has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NoAnswer {
    #[error("the scheduler is ending")]
    Ending,
    #[error("the core of the scheduler has not answered for {} seconds; its log may say why", ANSWER_TIMEOUT.as_secs())]
    Late,
}

impl IntoResponse for NoAnswer {
    fn into_response(self) -> Response {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{self}\n")).into_response()
    }
}
