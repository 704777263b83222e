//! Addresses of schedulers and workers on the command line.

use std::path::Path;

use brasserie_common::ServiceAddress;
use brasserie_common_runtime::net::is_loopback;
use brasserie_common_runtime::{NetworkExposure, parse_peer};
use brasserie_thrift::rpc::PeerAddr;

pub(crate) const NOT_AN_ADDRESS: &str = "no scheduler address; write HOST:PORT, such as 127.0.0.1:6789, with a port from 1 to 65535, or unix:/PATH of its local socket";
/// The beginning of the address of a local socket.
const SOCKET_SCHEME: &str = "unix:";

/// Checks the address while the command line is parsed, so that an invalid one is a usage error.
pub(crate) fn scheduler_address(text: &str) -> Result<String, String> {
    match (scheduler_peer(text), text.split_once("://")) {
        (_, Some((scheme, _))) => Err(format!(
            "{NOT_AN_ADDRESS}: leave `{scheme}://` out, and name the port for Thrift (`--listen` of the scheduler), not that of its page"
        )),
        (Some(_), None) => Ok(text.to_owned()),
        (None, None) => Err(NOT_AN_ADDRESS.to_owned()),
    }
}

/// Parses the address of a scheduler: HOST:PORT, or unix:/PATH; `None` if the text is invalid.
pub(crate) fn scheduler_peer(address: &str) -> Option<PeerAddr> {
    match socket_path(address) {
        Some(path) => Some(PeerAddr::local(path)),
        None => peer(address),
    }
}

/// Returns the path of a local socket in its address; `None` for HOST:PORT.
pub(crate) fn socket_path(address: &str) -> Option<&Path> {
    let path = address.strip_prefix(SOCKET_SCHEME)?;
    path.contains('/').then(|| Path::new(path))
}

/// Returns the address of a local socket.
pub(crate) fn socket_address(path: &Path) -> String {
    format!("{SOCKET_SCHEME}{}", path.display())
}

/// The remedy for an address that is not called in plain text.
pub(crate) const NOT_IN_PLAIN_TEXT: &str = "Show your token with --token-file or BRASSERIE_TOKEN, or add a context: brasserie context add. If nobody \
    asks for proofs there, and you trust everybody on that network, pass --insecure-network";

/// Returns whether a peer may be called in plain text. Nothing proves who answers at an address of another machine.
pub(crate) fn is_plain_allowed(peer: &PeerAddr, exposure: NetworkExposure) -> bool {
    let is_near = |at: ServiceAddress| is_loopback(&at.host);
    match exposure {
        NetworkExposure::AnyAddress => true,
        NetworkExposure::LoopbackOnly => {
            peer.is_local() || parse_peer(peer.as_str()).is_ok_and(is_near)
        }
    }
}

/// Parses HOST:PORT; `None` if the text is invalid.
pub(crate) fn peer(address: &str) -> Option<PeerAddr> {
    let ServiceAddress { host, port } = parse_peer(address).ok()?;
    Some(PeerAddr::new(&host, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_machines_are_called_in_plain_text_by_request_alone() {
        for (address, is_near) in [
            ("127.0.0.1:1", true),
            ("[::1]:1", true),
            ("localhost:1", true),
            ("unix:/run/b/control.sock", true),
            ("10.0.0.1:1", false),
            ("head:1", false),
        ] {
            let peer = scheduler_peer(address).expect("an address");
            let is_allowed = |exposure| is_plain_allowed(&peer, exposure);
            assert_eq!(
                is_allowed(NetworkExposure::LoopbackOnly),
                is_near,
                "{address}"
            );
            assert!(is_allowed(NetworkExposure::AnyAddress), "{address}");
        }
    }

    #[test]
    fn a_local_socket_is_a_path_and_no_host() {
        let socket = scheduler_peer("unix:/run/b/control.sock").expect("a socket");
        assert!(socket.is_local() && socket.as_str() == "unix:/run/b/control.sock");
        let host = scheduler_peer("unix:6789").expect("a host that is called unix");
        assert!(!host.is_local());
        assert_eq!(peer("unix:/run/b/control.sock"), None, "workers have none");
    }
}
