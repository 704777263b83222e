//! Addresses on the command line: listen addresses and peers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use brasserie_common::ServiceAddress;
use nix::sys::resource::{Resource, getrlimit};

/// The name of a scheduler's local socket, in its data directory.
pub const LOCAL_SOCKET: &str = "control.sock";
/// The longest host name that DNS allows, with two bytes for the brackets of an address.
const MAX_HOST_BYTES: usize = 255;

/// Returns how many files and sockets this process may have open at once.
pub fn descriptor_limit() -> usize {
    // The call cannot fail for the calling process. The default of Linux is 1,024.
    let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
    usize::try_from(soft).unwrap_or(usize::MAX)
}

/// Returns the host name of this machine; `None` if it is not UTF-8.
pub fn host_name() -> Option<String> {
    nix::unistd::gethostname().ok()?.into_string().ok()
}

/// The peers that may reach a program without authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkExposure {
    LoopbackOnly,
    /// The operator gave `--insecure-network`.
    AnyAddress,
}

impl NetworkExposure {
    /// Returns the exposure of a program with or without `--insecure-network`.
    pub fn of(insecure_network: bool) -> Self {
        match insecure_network {
            true => NetworkExposure::AnyAddress,
            false => NetworkExposure::LoopbackOnly,
        }
    }
}

/// The reason why a text is no usable address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("`{0}` is no ADDR:PORT; write for example 127.0.0.1:6789 or [::1]:6789")]
    NotAnAddress(String),
    #[error("`{0}` is not HOST:PORT; write for example scheduler.example.org:6789")]
    NotAPeer(String),
    #[error(
        "`{0}` is a URL; write HOST:PORT of the Thrift port, for example scheduler.example.org:6789"
    )]
    Url(String),
    #[error(
        "{0} is not a loopback address, and peers are not authenticated: anyone who can reach that port can run programs here. Listen on 127.0.0.1, or pass --insecure-network if you trust everybody on that network"
    )]
    NotLoopback(SocketAddr),
}

/// An address to listen on that has passed the loopback rule. Port 0 stands for any free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenAddress(SocketAddr);

impl ListenAddress {
    /// Any free port of this machine's loopback.
    pub const ANY_LOOPBACK_PORT: ListenAddress =
        ListenAddress(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0));

    /// Parses `ADDR:PORT`; `localhost` is 127.0.0.1.
    pub fn parse(text: &str, exposure: NetworkExposure) -> Result<Self, AddressError> {
        Self::check(parse_socket(text)?, exposure)
    }

    /// Applies the loopback rule to an address that is already parsed.
    pub fn check(address: SocketAddr, exposure: NetworkExposure) -> Result<Self, AddressError> {
        match exposure {
            NetworkExposure::AnyAddress => Ok(ListenAddress(address)),
            NetworkExposure::LoopbackOnly if address.ip().to_canonical().is_loopback() => {
                Ok(ListenAddress(address))
            }
            NetworkExposure::LoopbackOnly => Err(AddressError::NotLoopback(address)),
        }
    }

    pub fn socket(self) -> SocketAddr {
        self.0
    }
}

/// Returns whether a peer's host is this machine, by its address or as `localhost`. Other names may lead anywhere.
pub fn is_loopback(host: &str) -> bool {
    let address: Option<IpAddr> = host.parse().ok();
    address.is_some_and(|address| address.to_canonical().is_loopback())
        || host.eq_ignore_ascii_case("localhost")
}

/// Parses `ADDR:PORT` without the loopback rule, for command-line parsers, which see one flag at a time.
pub fn parse_socket(text: &str) -> Result<SocketAddr, AddressError> {
    let error = || AddressError::NotAnAddress(text.to_owned());
    match text.strip_prefix("localhost:") {
        Some(port) => Ok(SocketAddr::from((
            Ipv4Addr::LOCALHOST,
            port.parse().map_err(|_| error())?,
        ))),
        None => text.parse().map_err(|_| error()),
    }
}

/// Parses `HOST:PORT` of a peer to call; `[addr]:port` for IPv6. Does not resolve the name.
pub fn parse_peer(text: &str) -> Result<ServiceAddress, AddressError> {
    if text.contains("://") {
        return Err(AddressError::Url(text.to_owned()));
    }
    let error = || AddressError::NotAPeer(text.to_owned());
    let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
    let port: u16 = port.parse().map_err(|_| error())?;
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').ok_or_else(error)?,
        // A bare IPv6 address is ambiguous: its last group could be the port.
        None if host.contains(':') => return Err(error()),
        None => host,
    };
    let is_readable = bare
        .bytes()
        .all(|b| b.is_ascii_graphic() && b != b'/' && b != b'@');
    if bare.is_empty() || bare.len() > MAX_HOST_BYTES || port == 0 || !is_readable {
        return Err(error());
    }
    Ok(ServiceAddress {
        host: bare.into(),
        port,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_passes_without_the_flag() {
        for text in [
            "127.0.0.1:1",
            "[::1]:1",
            "localhost:0",
            "127.9.9.9:5",
            "[::ffff:127.0.0.1]:4",
        ] {
            assert!(
                ListenAddress::parse(text, NetworkExposure::LoopbackOnly).is_ok(),
                "{text}"
            );
        }
        for text in ["0.0.0.0:1", "[::]:1", "192.0.2.1:5"] {
            let error =
                ListenAddress::parse(text, NetworkExposure::LoopbackOnly).expect_err("refused");
            assert!(error.to_string().contains("--insecure-network"), "{error}");
            assert!(
                ListenAddress::parse(text, NetworkExposure::AnyAddress).is_ok(),
                "{text}"
            );
        }
        for text in [
            "",
            "127.0.0.1",
            "localhost:x",
            "example.org:1",
            "1.2.3.4:99999",
        ] {
            let error =
                ListenAddress::parse(text, NetworkExposure::AnyAddress).expect_err("refused");
            assert_eq!(error, AddressError::NotAnAddress(text.to_owned()));
        }
    }

    #[test]
    fn only_addresses_and_one_name_are_surely_of_this_machine() {
        for host in [
            "127.0.0.1",
            "127.1.2.3",
            "::1",
            "localhost",
            "LocalHost",
            "::ffff:127.0.0.1",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "0.0.0.0",
            "::",
            "10.0.0.1",
            "localhost.example",
            "127.0.0.1.example",
            "",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn peers_are_hosts_with_ports() {
        let peer = parse_peer("[2001:db8::1]:6789").expect("a peer");
        assert_eq!((&*peer.host, peer.port), ("2001:db8::1", 6789));
        assert_eq!(
            parse_peer("a.example:1").map(|p| p.to_string()),
            Ok("a.example:1".to_owned())
        );
        for text in ["", "a", "a:", ":1", "a:0", "::1:5", "[::1:5", "a b:1"] {
            assert_eq!(
                parse_peer(text),
                Err(AddressError::NotAPeer(text.to_owned())),
                "{text}"
            );
        }
        let url = "http://a:1";
        assert_eq!(parse_peer(url), Err(AddressError::Url(url.to_owned())));
    }
}
