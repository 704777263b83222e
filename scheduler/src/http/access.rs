//! Decides which callers see a page of a scheduler that asks for proofs: by the token of a program, or by the session of a browser.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, AUTHORIZATION, COOKIE, LOCATION, ORIGIN, RETRY_AFTER, WWW_AUTHENTICATE,
};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use brasserie_common::Principal;
use brasserie_common::access::{Callers, Identity, PAGES, callers};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::Authenticator as _;

use super::connections::{MAX_OF_A_TOKEN, Transport, Visitor};
use super::failure;
use super::page::InUrl;
use super::sessions::{Session, Sessions};
use crate::security::Security;

/// The wait before a false token is answered.
const FAILURE_DELAY: Duration = Duration::from_millis(500);

/// The tokens and sessions that open the pages of a scheduler with an authority.
#[derive(Clone)]
pub(super) struct PageAccess {
    pub security: Arc<Security>,
    pub sessions: Sessions,
    session_cookie: Arc<str>,
}

/// The caller that sees a page.
#[derive(Clone)]
pub(super) struct Viewer {
    pub identity: Arc<Identity>,
    /// The session of a browser. Programs show their token.
    pub session: Option<Session>,
}

impl PageAccess {
    pub(super) fn new(security: &Arc<Security>) -> Self {
        PageAccess {
            security: Arc::clone(security),
            sessions: Sessions::default(),
            session_cookie: format!("brasserie-session-{}", security.trust_domain()).into(),
        }
    }

    /// Returns the name of the cookie with the id of a session. Browsers send a host's cookies to all of its ports, so each cluster has a name
    /// of its own.
    pub(super) fn session_cookie(&self) -> &str {
        &self.session_cookie
    }

    /// Audits that the caller has shown a false token, and why the token is false. Waits so that trying many takes long; the connection may be
    /// closed meanwhile.
    pub(super) async fn note_false_token(
        &self,
        visitor: &Visitor,
        page: &str,
        token: (&str, &str),
    ) {
        self.security
            .note_false_token(&visitor.from.into(), page, token);
        visitor.idle(tokio::time::sleep(FAILURE_DELAY)).await;
    }

    /// Returns the caller that sends a request; `None` if it shows neither a token nor a session. Errors if its token is not valid.
    fn viewer(&self, headers: &HeaderMap, visitor: &Visitor) -> Result<Option<Viewer>, String> {
        match headers.get_all(AUTHORIZATION).iter().count() {
            0 => Ok(self.viewer_in_session(headers, visitor)),
            2.. => Err("there is more than one Authorization header".to_owned()),
            1 => {
                let token = bearer_token(headers)
                    .ok_or("the Authorization header is not `Bearer TOKEN`")?;
                let identity = self.security.authenticate_token(token, visitor.from);
                Ok(Some(Viewer {
                    identity: Arc::new(identity.map_err(|why| why.to_string())?),
                    session: None,
                }))
            }
        }
    }

    fn viewer_in_session(&self, headers: &HeaderMap, visitor: &Visitor) -> Option<Viewer> {
        let session = self
            .sessions
            .find(cookie(headers, self.session_cookie())?, Clock.now())?;
        let person = self.security.token_holder(session.token).ok()?;
        Some(Viewer {
            identity: Arc::new(person.identity(visitor.from)),
            session: Some(session),
        })
    }

    /// Returns whether this caller needs no proof.
    fn is_open_to(&self, visitor: &Visitor) -> bool {
        let principal = self.security.plain(visitor.from);
        matches!(principal, Principal::Unauthenticated(_))
    }
}

/// Returns the token in the first header `Authorization`.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok().and_then(bearer)
}

/// Returns the token of `Bearer TOKEN`.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Returns the value of a cookie.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter();
    let texts = all.filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';'));
    pairs.find_map(|pair| pair.trim().strip_prefix(name)?.strip_prefix('='))
}

/// Answers requests of callers that may see the page. Refusals say what to do.
pub(super) async fn check(
    State(access): State<PageAccess>,
    visitor: axum::Extension<Visitor>,
    mut request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let Some(allowed) = callers(PAGES, path) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let is_open = access.is_open_to(&visitor);
    let is_local = visitor.from.ip().to_canonical().is_loopback();
    let is_probe = path.starts_with("/health");
    if visitor.transport == Transport::Plain && !is_local && !is_open && !is_probe {
        let why = "this page is for https only: write https:// in place of http://";
        return failure(path, StatusCode::FORBIDDEN, why);
    }
    let headers = request.headers();
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    if is_change && !headers.contains_key(ORIGIN) && !headers.contains_key(AUTHORIZATION) {
        let why = "a request that changes something needs the header Origin, or a token in the header Authorization";
        return failure(path, StatusCode::FORBIDDEN, why);
    }
    if allowed == Callers::Anyone {
        return next.run(request).await;
    }
    match access.viewer(headers, &visitor) {
        Ok(Some(viewer)) if !has_place(&visitor, &viewer) => too_many(path),
        Ok(Some(viewer)) if allowed.include(Some(viewer.identity.role)) => {
            request.extensions_mut().insert(viewer);
            next.run(request).await
        }
        Ok(Some(viewer)) => {
            let role = viewer.identity.role;
            let why = format!("{path} is not permitted to the role {role}");
            failure(path, StatusCode::FORBIDDEN, &why)
        }
        Ok(None) if is_open => next.run(request).await,
        Ok(None) => ask_for_token(&request),
        Err(why) => {
            let shown = bearer_token(headers).unwrap_or_default();
            access.note_false_token(&visitor, path, (shown, &why)).await;
            unauthorized(path, &why)
        }
    }
}

/// Counts the connection as one of the viewer's token. Returns `false` if that has too many.
fn has_place(visitor: &Visitor, viewer: &Viewer) -> bool {
    let token = viewer.identity.token;
    token.is_none_or(|token| visitor.has_place(token))
}

/// Answers that the caller has as many connections as it may have.
fn too_many(path: &str) -> Response {
    let why = format!("{MAX_OF_A_TOKEN} requests with this token are in progress; try again later");
    let refused = failure(path, StatusCode::TOO_MANY_REQUESTS, &why);
    ([(RETRY_AFTER, "1")], refused).into_response()
}

/// Answers a request without a proof: sends a browser to the page where its user can show a token.
fn ask_for_token(request: &Request) -> Response {
    let accepts = request.headers().get(ACCEPT);
    let accepts = accepts.and_then(|value| value.to_str().ok());
    let is_browser = accepts.is_some_and(|accepts| accepts.contains("text/html"));
    if is_browser && matches!(*request.method(), Method::GET | Method::HEAD) {
        let wanted = request.uri().path_and_query();
        let wanted = wanted.map_or("/", |wanted| wanted.as_str());
        let login = format!("/login?next={}", InUrl(wanted));
        return (StatusCode::SEE_OTHER, [(LOCATION, login)]).into_response();
    }
    unauthorized(
        request.uri().path(),
        "this page needs a token in the header `Authorization: Bearer TOKEN`. `brasserie token create --role viewer` prints one; browsers \
         show theirs at /login",
    )
}

fn unauthorized(path: &str, why: &str) -> Response {
    let asks = [(WWW_AUTHENTICATE, "Bearer realm=\"brasserie\"")];
    (asks, failure(path, StatusCode::UNAUTHORIZED, why)).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn cookies_and_tokens_are_found_by_their_whole_names() {
        let mut headers = HeaderMap::new();
        let shown = HeaderValue::from_static("a=1; brasserie-session=ab; brasserie-session2=no");
        headers.insert(COOKIE, shown);
        assert_eq!(cookie(&headers, "brasserie-session"), Some("ab"));
        assert_eq!(cookie(&headers, "session"), None);
        assert_eq!(bearer("bearer  x "), Some("x"));
        assert_eq!(bearer("Basic x"), None);
        assert_eq!(bearer("Bearer"), None);
    }
}
