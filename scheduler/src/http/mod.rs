//! HTTP for people and probes: liveness, and the cluster at a glance as a page or as JSON.

mod listener;
mod page;
mod status;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use brasserie_common::Principal;
use brasserie_scheduler_core::{Answer, ClusterStatus, Query};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::inbox::Inbox;
use listener::Limited;

/// Serves until it is told to stop.
pub(crate) async fn serve(listener: TcpListener, inbox: Inbox, stop: CancellationToken) {
    let served = axum::serve(Limited::new(listener), router(inbox))
        .with_graceful_shutdown(async move { stop.cancelled().await })
        .await;
    if let Err(error) = served {
        tracing::error!(%error, "the HTTP server has ended");
    }
}

fn router(inbox: Inbox) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/health", get(health))
        .route("/status", get(status))
        .with_state(inbox)
}

async fn health(State(inbox): State<Inbox>) -> Response {
    // Through the core: a process whose core hangs is not alive.
    match ask(&inbox).await {
        Some(_) => "alive\n".into_response(),
        None => ending(),
    }
}

async fn status(State(inbox): State<Inbox>) -> Response {
    match ask(&inbox).await {
        Some(found) => (
            [(header::CONTENT_TYPE, "application/json")],
            status::json(&found).to_string(),
        )
            .into_response(),
        None => ending(),
    }
}

async fn page(State(inbox): State<Inbox>) -> Response {
    match ask(&inbox).await {
        Some(status) => Html(page::render(&status)).into_response(),
        None => ending(),
    }
}

async fn ask(inbox: &Inbox) -> Option<ClusterStatus> {
    match inbox.query(Principal::Own, Query::Status).await {
        Ok(Answer::Status(status)) => Some(*status),
        Ok(_) | Err(_) => None,
    }
}

fn ending() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the scheduler is ending\n").into_response()
}
