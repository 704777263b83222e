//! The headers of all answers, which keep browsers from doing with a page what it is not for.

use std::sync::LazyLock;

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::middleware::Next;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::Digest as _;

use super::page::STYLE;

/// No script, image, frame or other site, and no style but that of the pages.
static POLICY: LazyLock<HeaderValue> = LazyLock::new(|| {
    let style = STANDARD.encode(sha2::Sha256::digest(STYLE));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{style}'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    );
    HeaderValue::try_from(policy).expect("Invariant: it is ASCII without control characters")
});

/// Adds the headers to an answer.
pub(super) async fn add(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY.clone());
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let referrer = headers.entry(REFERRER_POLICY);
    referrer.or_insert(HeaderValue::from_static("no-referrer"));
    response
}

/// Lets the browser say with a form of this page where the page is from. With the usual policy, the form's Origin header would be `null`.
pub(super) fn for_forms(headers: &mut HeaderMap) {
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
}
