//! The form at which the user of a browser shows a token, and the end of the session that follows.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderMap, LOCATION, SET_COOKIE};
use axum::http::{StatusCode, Uri};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use brasserie_common::access::{PAGES, callers};
use brasserie_common_identity::Secret;
use brasserie_common_runtime::Clock;

use super::access::{PageAccess, Viewer, cookie};
use super::connections::{Transport, Visitor};
use super::headers::for_forms;
use super::page::{Escaped, STYLE};
use super::sessions::SESSION_LIFE;

/// The cookie that proves that a form is from this server, before there is a session.
const FORM_COOKIE: &str = "brasserie-login";
/// The life of that cookie.
const FORM_LIFE: Duration = Duration::from_secs(60 * 60);
/// The size limit of a form: a token, and the longest path.
const MAX_FORM_BYTES: usize = 16 << 10;
/// The limit for the arrival of a form, which browsers send at once.
const FORM_TIMEOUT: Duration = Duration::from_secs(5);
/// The type of a form's body.
const FORM_TYPE: &str = "application/x-www-form-urlencoded";

/// Serves the paths of the form.
pub(super) fn router(access: PageAccess) -> Router {
    Router::new()
        .route("/login", get(form).post(login))
        .route("/logout", post(logout))
        .with_state(access)
}

/// The fields of a form, or the parameters of a query.
struct Fields(Vec<(String, String)>);

impl Fields {
    /// Returns the one value of a field; empty if there are several or none.
    fn get(&self, name: &str) -> &str {
        let mut values = self.0.iter().filter(|(field, _)| field == name);
        match (values.next(), values.next()) {
            (Some((_, value)), None) => value,
            (None, _) | (_, Some(_)) => "",
        }
    }

    /// Returns the page to show next: one of this server, else `/`.
    fn next(&self) -> &str {
        let next = self.get("next");
        let is_ours = next
            .parse::<Uri>()
            .is_ok_and(|uri| uri.authority().is_none() && callers(PAGES, uri.path()).is_some());
        // A browser takes `//host` and `/\host` for another site.
        let is_local = next.starts_with('/') && !next[1..].starts_with(['/', '\\']);
        let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic());
        if is_ours && is_local && is_plain {
            next
        } else {
            "/"
        }
    }

    /// Reads the form of a request; `None` if it has none.
    async fn read_form(visitor: &Visitor, headers: &HeaderMap, body: Body) -> Option<Self> {
        let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
        if !kind
            .split(';')
            .next()?
            .trim()
            .eq_ignore_ascii_case(FORM_TYPE)
        {
            return None;
        }
        // A visitor that sends no whole form must not keep others from the server.
        let read = tokio::time::timeout(FORM_TIMEOUT, to_bytes(body, MAX_FORM_BYTES));
        let bytes = visitor.idle(read).await.ok()?.ok()?;
        let query = format!("/?{}", std::str::from_utf8(&bytes).ok()?);
        let Query(fields) = Query::try_from_uri(&query.parse::<Uri>().ok()?).ok()?;
        Some(Fields(fields))
    }
}

/// Serves the form.
async fn form(
    Extension(visitor): Extension<Visitor>,
    Query(parameters): Query<Vec<(String, String)>>,
) -> Response {
    let fields = Fields(parameters);
    show_form(&visitor, fields.next(), StatusCode::OK, "")
}

/// Shows the form, with a secret in it and in a cookie.
fn show_form(visitor: &Visitor, next: &str, code: StatusCode, problem: &str) -> Response {
    let secret = match Secret::random() {
        Ok(secret) => secret.reveal(),
        Err(error) => return (StatusCode::SERVICE_UNAVAILABLE, error.to_string()).into_response(),
    };
    let problem = match problem {
        "" => String::new(),
        problem => format!("<p class=\"bad\">{}</p>", Escaped(problem)),
    };
    let page = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Brasserie: log in</title><style>{STYLE}</style></head><body>\
         <h1>Brasserie</h1>{problem}<form method=\"post\" action=\"/login\"><p><label>Token: <input type=\"password\" name=\"token\" \
         autocomplete=\"off\" autofocus required></label> <button>Log in</button></p><input type=\"hidden\" name=\"form\" value=\"{secret}\">\
         <input type=\"hidden\" name=\"next\" value=\"{}\"></form><p>An administrator creates a token with \
         <code>brasserie token create --role viewer</code>.</p></body></html>\n",
        Escaped(next)
    );
    let cookie = set_cookie(visitor, (FORM_COOKIE, &secret), FORM_LIFE);
    let mut response = (code, [(SET_COOKIE, cookie)], Html(page)).into_response();
    for_forms(response.headers_mut());
    response
}

/// Returns the value of a header `Set-Cookie`.
fn set_cookie(visitor: &Visitor, (name, value): (&str, &str), life: Duration) -> String {
    let secure = match visitor.transport {
        Transport::Tls => "; Secure",
        Transport::Plain => "",
    };
    let seconds = life.as_secs();
    format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

/// Opens a session for the token of a form.
async fn login(
    State(access): State<PageAccess>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let Some(fields) = Fields::read_form(&visitor, &head.headers, body).await else {
        return (StatusCode::BAD_REQUEST, "this is not the form of /login\n").into_response();
    };
    let next = fields.next();
    let is_same = |shown: &str| !shown.is_empty() && shown == fields.get("form");
    if !cookie(&head.headers, FORM_COOKIE).is_some_and(is_same) {
        let problem = "The form was too old, or your browser takes no cookies. Try again.";
        return show_form(&visitor, next, StatusCode::FORBIDDEN, problem);
    }
    let identity = match access
        .security
        .authenticate_token(fields.get("token"), visitor.from)
    {
        Ok(identity) => identity,
        Err(why) => {
            let why = why.to_string();
            let shown = fields.get("token");
            access
                .note_false_token(&visitor, "/login", (shown, &why))
                .await;
            return show_form(&visitor, next, StatusCode::UNAUTHORIZED, &why);
        }
    };
    let token = identity.token;
    let id = token.map(|token| access.sessions.open(token, Clock.now()));
    let Some(Ok(id)) = id else {
        return (StatusCode::SERVICE_UNAVAILABLE, "there is no session\n").into_response();
    };
    access.security.note_login(identity);
    let opened = set_cookie(
        &visitor,
        (access.session_cookie(), &id.reveal()),
        SESSION_LIFE,
    );
    redirect(
        next,
        [
            opened,
            set_cookie(&visitor, (FORM_COOKIE, ""), Duration::ZERO),
        ],
    )
}

/// Ends the session of a form.
async fn logout(
    State(access): State<PageAccess>,
    Extension(visitor): Extension<Visitor>,
    viewer: Option<Extension<Viewer>>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let session = viewer.and_then(|Extension(viewer)| viewer.session);
    let Some(session) = session else {
        return (StatusCode::BAD_REQUEST, "there is no session to end\n").into_response();
    };
    let fields = Fields::read_form(&visitor, &head.headers, body).await;
    if fields.is_none_or(|fields| fields.get("form") != session.form_secret.reveal()) {
        return (StatusCode::FORBIDDEN, "this is no form of this session\n").into_response();
    }
    if let Some(id) = cookie(&head.headers, access.session_cookie()) {
        access.sessions.close(id);
    }
    let ended = set_cookie(&visitor, (access.session_cookie(), ""), Duration::ZERO);
    redirect("/login", [ended])
}

fn redirect(to: &str, cookies: impl IntoIterator<Item = String>) -> Response {
    let mut response = (StatusCode::SEE_OTHER, [(LOCATION, to)]).into_response();
    for cookie in cookies {
        if let Ok(cookie) = cookie.try_into() {
            response.headers_mut().append(SET_COOKIE, cookie);
        }
    }
    response
}

/// Adds the role and the owner of the viewer to a page, and the form that ends the session.
pub(super) fn with_logout(page: String, viewer: &Viewer) -> Response {
    let Some(session) = &viewer.session else {
        return Html(page).into_response();
    };
    let identity = &viewer.identity;
    let owner = identity
        .owner
        .as_deref()
        .map(|owner| format!(" of {owner}"));
    let who = format!("{}{}", identity.role, owner.unwrap_or_default());
    let form = format!(
        "<form method=\"post\" action=\"/logout\"><p>You are here as {}. <input type=\"hidden\" name=\"form\" value=\"{}\">\
         <button>Log out</button></p></form></body>",
        Escaped(&who),
        session.form_secret.reveal()
    );
    let mut response = Html(page.replacen("</body>", &form, 1)).into_response();
    for_forms(response.headers_mut());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(next: &str) -> Fields {
        Fields(vec![("next".to_owned(), next.to_owned())])
    }

    #[test]
    fn a_login_leads_to_pages_of_this_server_alone() {
        for own in ["/", "/status", "/?after=a", "/status?job=x&limit=3"] {
            assert_eq!(fields(own).next(), own);
        }
        for foreign in [
            "",
            "status",
            "//evil.example/",
            "/\\evil.example/",
            "https://evil.example/status",
            "/nothing",
            "/status\r\nSet-Cookie: a=b",
            "/st\u{e4}tus",
        ] {
            assert_eq!(fields(foreign).next(), "/", "{foreign}");
        }
        let twice = Fields([fields("/status").0, fields("/status").0].concat());
        assert_eq!(twice.next(), "/");
    }
}
