//! Checks the host names and origins of requests. The server refuses unknown names, so that no page of another site reads the cluster through
//! a name that the site's owner points at this address (DNS rebinding), and requests of pages of other sites.

use std::net::IpAddr;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::Response;

use super::connections::{Transport, Visitor};
use super::failure;

/// Names under which browsers may reach the server, besides addresses and `localhost`.
///
/// Addresses are always allowed, because a browser treats `http://attacker.example` and an address as two sites. A name must come from the
/// operator or be the machine's own, because the owner of a name can point it at any address (DNS rebinding).
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts(Arc<Vec<String>>);

impl Hosts {
    /// Allows these names and the machine's own.
    pub(crate) fn new(names: Vec<String>, own: Option<String>) -> Self {
        let names = names.into_iter().chain(own);
        Hosts(Arc::new(names.map(|name| bare(&name)).collect()))
    }

    /// Returns whether requests for this host, without its port, are answered.
    fn allow(&self, host: &str) -> bool {
        let address = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        if address.unwrap_or(host).parse::<IpAddr>().is_ok() {
            return true;
        }
        let host = bare(host);
        host == "localhost" || host.ends_with(".localhost") || self.0.contains(&host)
    }
}

/// Returns a name in the form for comparison: lower case, without a trailing dot.
fn bare(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Refuses requests for unknown host names, and those of pages of other sites. A request without a host name does not come from a browser.
pub(super) async fn check(
    State(hosts): State<Hosts>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
    next: Next,
) -> Response {
    let (uri, headers) = (request.uri(), request.headers());
    let refused = refusal(&hosts, uri, headers);
    match refused.or_else(|| foreign_origin(visitor.transport, uri, headers)) {
        None => next.run(request).await,
        Some((code, why)) => failure(uri.path(), code, &why),
    }
}

fn refusal(hosts: &Hosts, uri: &Uri, headers: &HeaderMap) -> Option<(StatusCode, String)> {
    let bad = |text: &str| Some((StatusCode::BAD_REQUEST, text.to_owned()));
    let mut given = headers.get_all(header::HOST).iter();
    let (first, second) = (given.next(), given.next());
    if second.is_some() {
        return bad("the request has more than one Host header");
    }
    let named = first.map(|host| host.to_str().ok()?.parse::<Authority>().ok());
    let Some(named) = named else {
        return uri.host().and_then(|host| refuse_name(hosts, host));
    };
    let Some(named) = named else {
        return bad("the Host header is not HOST or HOST:PORT");
    };
    refuse_name(hosts, named.host()).or_else(|| refuse_name(hosts, uri.host()?))
}

/// Refuses a request that names another origin than this server. Browsers name the origin of each request that may change something.
fn foreign_origin(
    transport: Transport,
    uri: &Uri,
    headers: &HeaderMap,
) -> Option<(StatusCode, String)> {
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let origin = origins.next()?;
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.or_else(|| uri.authority().map(Authority::as_str));
    let own = origin.to_str().ok().and_then(|origin| {
        // A proxy in front of a plain port may speak https.
        let plain = origin.strip_prefix("http://");
        let plain = plain.filter(|_| transport == Transport::Plain);
        origin.strip_prefix("https://").or(plain)
    });
    let is_own = match (own, host) {
        (Some(own), Some(host)) => own.eq_ignore_ascii_case(host),
        (Some(_) | None, _) => false,
    };
    let is_refused = !is_own || origins.next().is_some();
    is_refused.then(|| {
        let text = "the request comes from a page of another site".to_owned();
        (StatusCode::FORBIDDEN, text)
    })
}

fn refuse_name(hosts: &Hosts, host: &str) -> Option<(StatusCode, String)> {
    (!hosts.allow(host)).then(|| {
        let text = format!(
            "this server does not answer to the name `{host}`: use an address or localhost, or start the scheduler with \
             --http-host {host}"
        );
        (StatusCode::MISDIRECTED_REQUEST, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_own_names_are_answered_and_others_are_not() {
        let hosts = Hosts::new(
            vec!["Status.Example.org".to_owned()],
            Some("box7".to_owned()),
        );
        for host in [
            "127.0.0.1",
            "192.0.2.7",
            "[::1]",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "status.example.ORG",
            "box7",
        ] {
            assert!(hosts.allow(host), "{host}");
        }
        for host in [
            "attacker.example",
            "localhost.attacker.example",
            "notlocalhost",
            "127.0.0.1.attacker.example",
            "box7.attacker.example",
            "",
        ] {
            assert!(!hosts.allow(host), "{host}");
        }
    }

    #[test]
    fn only_pages_of_this_server_may_send_requests() {
        let is_foreign = |transport, host: &str, origins: &[&str]| {
            let mut headers = HeaderMap::new();
            headers.append(header::HOST, host.parse().expect("a value"));
            for origin in origins {
                headers.append(header::ORIGIN, origin.parse().expect("a value"));
            }
            foreign_origin(transport, &Uri::from_static("/"), &headers).is_some()
        };
        let (tls, plain) = (Transport::Tls, Transport::Plain);
        for (transport, host, origins) in [
            (tls, "box7:6790", &[][..]),
            (tls, "box7:6790", &["https://box7:6790"]),
            (plain, "localhost:6790", &["http://localhost:6790"]),
            (plain, "status.example", &["https://Status.example"]),
        ] {
            assert!(!is_foreign(transport, host, origins), "{origins:?}");
        }
        for (transport, host, origins) in [
            (tls, "box7:6790", &["http://box7:6790"][..]),
            (tls, "box7:6790", &["https://box7"]),
            (tls, "box7:6790", &["null"]),
            (plain, "localhost:6790", &["http://localhost:80"]),
            (plain, "localhost", &["http://localhost", "http://evil"]),
            (plain, "localhost", &["ftp://localhost"]),
        ] {
            assert!(is_foreign(transport, host, origins), "{origins:?}");
        }
    }
}
