//! Checks the host names of requests. The server refuses unknown names, so that no page of another site reads the cluster through a name
//! that the site's owner points at this address (DNS rebinding).

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

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

/// Refuses requests for unknown host names. A request without a host name does not come from a browser.
pub(super) async fn check(State(hosts): State<Hosts>, request: Request, next: Next) -> Response {
    match refusal(&hosts, request.uri(), request.headers()) {
        None => next.run(request).await,
        Some(refused) => refused.into_response(),
    }
}

fn refusal(hosts: &Hosts, uri: &Uri, headers: &HeaderMap) -> Option<(StatusCode, String)> {
    let bad = |text: &str| Some((StatusCode::BAD_REQUEST, format!("{text}\n")));
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

fn refuse_name(hosts: &Hosts, host: &str) -> Option<(StatusCode, String)> {
    (!hosts.allow(host)).then(|| {
        let text = format!(
            "this server does not answer to the name `{host}`: use an address or localhost, or start the scheduler with \
             --http-host {host}\n"
        );
        (StatusCode::MISDIRECTED_REQUEST, text)
    })
}

/// Returns the host name of this machine.
pub(crate) fn host_name() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
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
}
