//! Notifies a service manager that a program is ready, stopping or alive, and of its status. The protocol is systemd's `sd_notify`:
//! datagrams of lines to a socket that the environment names.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::Time;

/// The variable with the name of the socket.
const SOCKET_VARIABLE: &str = "NOTIFY_SOCKET";
/// The variable with the watchdog's period in microseconds.
const WATCHDOG_VARIABLE: &str = "WATCHDOG_USEC";
/// The variable with the process for which the watchdog is meant.
const WATCHDOG_PID_VARIABLE: &str = "WATCHDOG_PID";

/// Variables meant for this program alone. A program that starts another one removes them from its environment. Otherwise a task could tell
/// the manager that the service is ready, or has ended.
pub const VARIABLES: [&str; 3] = [SOCKET_VARIABLE, WATCHDOG_VARIABLE, WATCHDOG_PID_VARIABLE];

/// The limit for a status in bytes: a line that people read.
const MAX_STATUS: usize = 512;

/// The reason why the manager cannot be notified.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error(
        "NOTIFY_SOCKET is {0:?}, which is neither an absolute path nor an abstract name (`@...`)"
    )]
    NoAddress(OsString),
    #[error("cannot reach the socket {address:?} of NOTIFY_SOCKET: {source}")]
    Socket {
        address: OsString,
        source: io::Error,
    },
}

/// The manager's socket. Without one, as in a terminal, no notification is sent.
#[derive(Clone, Debug, Default)]
pub struct ServiceManager {
    socket: Option<Arc<UnixDatagram>>,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// Returns the manager that the environment names. An unreachable one is ignored, because a shell within a service may have inherited
    /// the variable.
    pub fn from_environment() -> ServiceManager {
        let Some(address) = env::var_os(SOCKET_VARIABLE).filter(|address| !address.is_empty())
        else {
            return ServiceManager::default();
        };
        let mut manager = match ServiceManager::at(&address) {
            Ok(manager) => manager,
            Err(error) => {
                tracing::warn!("cannot notify the service manager: {error}");
                return ServiceManager::default();
            }
        };
        let text = |name| env::var(name).ok();
        let own = [std::process::id(), std::os::unix::process::parent_id()];
        manager.watchdog = watchdog_of(text(WATCHDOG_VARIABLE), text(WATCHDOG_PID_VARIABLE), own);
        manager
    }

    /// Returns the manager with a socket of this name.
    pub fn at(address: &OsStr) -> Result<ServiceManager, NotifyError> {
        let failed = |source| NotifyError::Socket {
            address: address.to_owned(),
            source,
        };
        let name = address.as_bytes();
        let place = match name.first() {
            Some(b'@') => SocketAddr::from_abstract_name(&name[1..]),
            Some(b'/') => SocketAddr::from_pathname(address),
            Some(_) | None => return Err(NotifyError::NoAddress(address.to_owned())),
        };
        let socket = UnixDatagram::unbound().map_err(failed)?;
        socket
            .connect_addr(&place.map_err(failed)?)
            .map_err(failed)?;
        // A manager that does not read must not stop the program.
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(ServiceManager {
            socket: Some(Arc::new(socket)),
            watchdog: None,
        })
    }

    /// Notifies the manager that the program accepts calls from now on.
    pub fn ready(&self, status: &str) {
        self.send("READY=1", Some(status));
    }

    /// Sets the text that `systemctl status` shows.
    pub fn status(&self, status: &str) {
        self.send("", Some(status));
    }

    /// Notifies the manager that the program is stopping.
    pub fn stopping(&self, status: &str) {
        self.send("STOPPING=1", Some(status));
    }

    /// Returns the watchdog that reports the program alive.
    pub fn watchdog(&self, now: Time) -> Watchdog {
        // Twice within the period, as systemd's manual advises.
        let every = self.watchdog.filter(|_| self.socket.is_some());
        Watchdog {
            manager: self.clone(),
            every: every.map(|limit| limit / 2),
            next: now,
        }
    }

    fn send(&self, word: &str, status: Option<&str>) {
        let Some(socket) = &self.socket else {
            return;
        };
        let mut text = word.to_owned();
        if let Some(status) = status {
            let line = status.replace(['\n', '\r'], " ");
            let line = brasserie_common::story::cut(&line, MAX_STATUS);
            text.push_str("\nSTATUS=");
            text.push_str(line);
        }
        if let Err(error) = socket.send(text.trim_start().as_bytes()) {
            tracing::debug!("cannot send `{word}` to the service manager: {error}");
        }
    }
}

/// Reports periodically that the program is alive. The owner of the core calls it, so that a hanging core is detected.
#[derive(Debug)]
pub struct Watchdog {
    manager: ServiceManager,
    every: Option<Duration>,
    next: Time,
}

impl Watchdog {
    /// Returns when [`Watchdog::beat`] must be called next.
    pub fn due(&self) -> Time {
        self.every.map_or(Time::NEVER, |_| self.next)
    }

    pub fn beat(&mut self, now: Time) {
        if let Some(every) = self.every
            && now >= self.next
        {
            self.next = now + every;
            self.manager.send("WATCHDOG=1", None);
        }
    }

    pub fn manager(&self) -> &ServiceManager {
        &self.manager
    }
}

/// Returns the watchdog's period. Ignores a watchdog for another process. The manager started either this process or, for a worker, its
/// parent, the keeper.
fn watchdog_of(micros: Option<String>, pid: Option<String>, own: [u32; 2]) -> Option<Duration> {
    let micros: u64 = micros?.parse().ok().filter(|&micros| micros > 0)?;
    match pid.map(|pid| pid.parse::<u32>()) {
        None => {}
        Some(Ok(pid)) if own.contains(&pid) => {}
        Some(Ok(_) | Err(_)) => return None,
    }
    Some(Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text that the manager received.
    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 1024];
        let length = socket.recv(&mut buffer).expect("it was told something");
        String::from_utf8(buffer[..length].to_vec()).expect("text")
    }

    fn abstract_socket(name: &str) -> (UnixDatagram, OsString) {
        let unique = format!("brasserie-test-{}-{name}", std::process::id());
        let place = SocketAddr::from_abstract_name(&unique).expect("a short name");
        let socket = UnixDatagram::bind_addr(&place).expect("a free name");
        (socket, format!("@{unique}").into())
    }

    #[test]
    fn a_socket_in_the_file_system_is_told_each_thing_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        let manager = ServiceManager::at(path.as_os_str()).expect("it is there");
        manager.ready("takes calls\nat once");
        assert_eq!(heard(&socket), "READY=1\nSTATUS=takes calls at once");
        manager.status("HEALTHY");
        assert_eq!(heard(&socket), "STATUS=HEALTHY");
        manager.stopping("ends");
        assert_eq!(heard(&socket), "STOPPING=1\nSTATUS=ends");
    }

    #[test]
    fn an_abstract_socket_hears_in_time_that_the_program_lives() {
        let (socket, address) = abstract_socket("watchdog");
        let mut manager = ServiceManager::at(&address).expect("it is there");
        manager.watchdog = Some(Duration::from_secs(10));
        let start = Time::ZERO + Duration::from_secs(1);
        let mut watchdog = manager.watchdog(start);
        watchdog.beat(start);
        assert_eq!(heard(&socket), "WATCHDOG=1");
        assert_eq!(watchdog.due(), start + Duration::from_secs(5));
        // The watchdog reports nothing before it is due.
        watchdog.beat(start + Duration::from_secs(4));
        watchdog.beat(start + Duration::from_secs(5));
        assert_eq!(heard(&socket), "WATCHDOG=1");
        socket.set_nonblocking(true).expect("a mode");
        let mut buffer = [0; 16];
        let nothing = socket.recv(&mut buffer).expect_err("no more was said");
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn nobody_is_told_without_a_socket() {
        let manager = ServiceManager::default();
        manager.ready("here");
        let mut watchdog = manager.watchdog(Time::ZERO);
        watchdog.beat(Time::ZERO);
        assert_eq!(watchdog.due(), Time::NEVER);
    }

    #[test]
    fn a_manager_that_does_not_read_stops_nobody() {
        let (_socket, address) = abstract_socket("deaf");
        let manager = ServiceManager::at(&address).expect("it is there");
        // This is far more than a socket keeps.
        for _ in 0..10_000 {
            manager.status("again");
        }
    }

    #[test]
    fn what_is_no_address_is_named() {
        for (address, part) in [
            ("nowhere", "neither an absolute path"),
            ("/nowhere/at/all", "cannot reach"),
            ("@brasserie-test-of-nobody", "cannot reach"),
        ] {
            let error = ServiceManager::at(OsStr::new(address)).expect_err("it is not there");
            assert!(error.to_string().contains(part), "{error}");
        }
    }

    #[test]
    fn a_watchdog_is_for_this_process_or_its_parent() {
        let text = |text: &str| Some(text.to_owned());
        let of = |micros, pid| watchdog_of(micros, pid, [7, 8]);
        let second = Some(Duration::from_secs(1));
        assert_eq!(of(text("1000000"), None), second);
        assert_eq!(of(text("1000000"), text("7")), second);
        assert_eq!(of(text("1000000"), text("8")), second);
        for (micros, pid) in [
            (None, None),
            (text("0"), None),
            (text("x"), None),
            (text("1"), text("9")),
            (text("1"), text("x")),
        ] {
            assert_eq!(of(micros, pid), None);
        }
    }
}
