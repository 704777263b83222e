//! A separate network for one test: each host is a network namespace, and a switch carries the packets between them. Every link can be cut
//! in one or both directions, or made to lose, duplicate, delay and reorder packets.
//!
//! No part of the network has a name that outlives it. A namespace exists while a process is in it. The process that holds it ends when its
//! standard input is closed, and programs have a parent death signal. So the network ends even if the test is killed.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

const SWITCH: &str = include_str!("network/switch.py");
/// Addresses are 10.77.0.1 and so on; the switch uses the same scheme.
const SUBNET: [u8; 3] = [10, 77, 0];
/// Maximum hosts, by the range of an address's last byte.
const MAX_HOSTS: usize = 250;

/// Why there is no network.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    #[error("{what} cannot be started: {error}")]
    Start {
        what: &'static str,
        error: io::Error,
    },
    #[error("{what} failed: {said}")]
    Failed { what: &'static str, said: String },
}

/// A machine of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host(usize);

/// A number of packets out of a hundred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

/// The effect of one direction of a link on packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkEffect {
    pub loss: Percent,
    pub doubling: Percent,
    /// Drawn for each packet separately, so that later packets may overtake earlier ones.
    pub delay: RangeInclusive<Duration>,
}

impl LinkEffect {
    /// A link that delivers every packet at once.
    pub const GOOD: LinkEffect = LinkEffect {
        loss: Percent(0),
        doubling: Percent(0),
        delay: Duration::ZERO..=Duration::ZERO,
    };
    /// A link that silently drops every packet.
    pub const CUT: LinkEffect = LinkEffect {
        loss: Percent(100),
        ..LinkEffect::GOOD
    };
}

/// The counts of packets that the switch has handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Packets {
    pub carried: u64,
    pub lost: u64,
    pub doubled: u64,
    pub reordered: u64,
}

/// The origin of the right to create namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    /// This process has the right.
    Own,
    /// A user namespace, in which any user is root.
    UserNamespace,
}

/// The network of one test. Dropping it removes it.
#[derive(Debug)]
pub struct Network {
    rights: Rights,
    hosts: Vec<Helper>,
    switch: Mutex<Helper>,
    /// The switch's own namespace, in which devices are created before they are moved.
    _hub: Helper,
}

impl Network {
    /// Creates hosts with good links between all of them.
    ///
    /// # Errors
    /// If namespaces or TUN devices cannot be created, or a tool is missing.
    pub fn new(hosts: usize, seed: u64) -> Result<Self, NetworkError> {
        assert!(hosts <= MAX_HOSTS, "the subnet holds {MAX_HOSTS} hosts");
        let rights = match nix::unistd::geteuid().is_root() {
            true => Rights::Own,
            false => Rights::UserNamespace,
        };
        let mut command = Command::new("unshare");
        if rights == Rights::UserNamespace {
            command.args(["--user", "--map-root-user"]);
        }
        let hub = Helper::hold(command)?;
        let mut held = Vec::new();
        for _ in 0..hosts {
            held.push(Helper::hold(unshare_below(rights, &hub))?);
        }
        let mut command = enter(rights, &hub);
        command
            .arg(super::python())
            .args(["-I", "-c", SWITCH, &seed.to_string()])
            .args(held.iter().map(|host| host.child.id().to_string()));
        let switch = Helper::start("the switch of the test network", command)?;
        let network = Network {
            rights,
            hosts: held,
            switch: Mutex::new(switch),
            _hub: hub,
        };
        for host in network.hosts() {
            network.configure(host)?;
        }
        Ok(network)
    }

    pub fn hosts(&self) -> impl Iterator<Item = Host> + use<> {
        (0..self.hosts.len()).map(Host)
    }

    /// # Panics
    /// If there is no such host.
    pub fn host(&self, number: usize) -> Host {
        assert!(number < self.hosts.len(), "there is no host {number}");
        Host(number)
    }

    /// Returns the address by which the other hosts reach it.
    pub fn address(&self, host: Host) -> Ipv4Addr {
        let [a, b, c] = SUBNET;
        let last = u8::try_from(host.0 + 1).expect("there are at most 250 hosts");
        Ipv4Addr::new(a, b, c, last)
    }

    /// Returns the command for a host. Its process gets SIGKILL when the thread that starts it ends.
    pub fn command_on(&self, host: Host, command: &Command) -> Command {
        let mut inside = enter(self.rights, &self.hosts[host.0]);
        inside
            .args(["setpriv", "--pdeathsig", "KILL", "--"])
            .arg(command.get_program())
            .args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        inside
    }

    /// Sets the link from one host to the other.
    ///
    /// # Panics
    /// If the switch has died.
    pub fn set_one_way(&self, from: Host, to: Host, link: &LinkEffect) -> Packets {
        let part = |percent: Percent| f64::from(percent.0) / 100.0;
        self.ask(&json!({ "link": {
            "from": from.0, "to": to.0, "loss": part(link.loss), "doubling": part(link.doubling),
            "least": link.delay.start().as_secs_f64(), "greatest": link.delay.end().as_secs_f64(),
        }}))
    }

    /// Sets the link between two hosts in both directions.
    ///
    /// # Panics
    /// If the switch has died.
    pub fn set(&self, one: Host, other: Host, link: &LinkEffect) {
        self.set_one_way(one, other, link);
        self.set_one_way(other, one, link);
    }

    /// # Panics
    /// If the switch has died.
    pub fn packets(&self) -> Packets {
        self.ask(&json!({}))
    }

    fn ask(&self, command: &serde_json::Value) -> Packets {
        let mut switch = self.switch.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = switch.ask(&command.to_string());
        serde_json::from_str(&answer)
            .unwrap_or_else(|error| panic!("the switch said `{answer}`: {error}"))
    }

    fn configure(&self, host: Host) -> Result<(), NetworkError> {
        let address = format!("{}/24", self.address(host));
        let wire = format!("wire{}", host.0);
        for arguments in [
            &["link", "set", "lo", "up"][..],
            &["address", "add", &address, "dev", &wire],
            &["link", "set", &wire, "up"],
        ] {
            let mut command = enter(self.rights, &self.hosts[host.0]);
            command.arg("ip").args(arguments);
            let what = "`ip` in a namespace";
            let output = command
                .output()
                .map_err(|error| NetworkError::Start { what, error })?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(NetworkError::Failed { what, said });
            }
        }
        Ok(())
    }
}

/// Prints a warning that a test did not run, and why. The warning appears among tests that pass, too.
pub fn warn_not_run(what: &str, why: &dyn std::fmt::Display) {
    let text = format!("\nWARNING: NOT RUN: {what}: {why}\n");
    // The test harness captures `eprintln!`. A warning that cannot be written is no failure.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// A process that lives as long as its standard input is open, and prints a line when it is ready.
#[derive(Debug)]
struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Helper {
    /// Holds a new namespace open.
    fn hold(mut unshare: Command) -> Result<Self, NetworkError> {
        unshare.args(["--net", "sh", "-c", "echo ready && exec cat"]);
        Self::start("a network namespace (unshare --net)", unshare)
    }

    fn start(what: &'static str, mut command: Command) -> Result<Self, NetworkError> {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| NetworkError::Start { what, error })?;
        let input = child.stdin.take();
        let output = child.stdout.take().expect("it was asked for");
        let mut helper = Helper {
            child,
            input,
            output: BufReader::new(output),
        };
        if helper.line().trim_end() != "ready" {
            return Err(NetworkError::Failed {
                what,
                said: helper.last_words(),
            });
        }
        Ok(helper)
    }

    /// Returns the next line; empty at the end of the output.
    fn line(&mut self) -> String {
        let mut line = String::new();
        // An unreadable line counts as missing.
        let _ = self.output.read_line(&mut line);
        line
    }

    fn ask(&mut self, command: &str) -> String {
        let input = self.input.as_mut().expect("it is open until the drop");
        let written = writeln!(input, "{command}").and_then(|()| input.flush());
        let answer = self.line();
        assert!(
            written.is_ok() && !answer.is_empty(),
            "a part of the test network has died: {}",
            self.last_words()
        );
        answer
    }

    /// Returns the last line of its standard error; for a Python program, the error itself.
    fn last_words(&mut self) -> String {
        self.input = None;
        let said = self.child.stderr.take().map(io::read_to_string);
        let said = said.and_then(Result::ok).unwrap_or_default();
        said.trim()
            .lines()
            .next_back()
            .unwrap_or_default()
            .to_owned()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.input = None;
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command `unshare`, as root of the network's user namespace if it has one.
fn unshare_below(rights: Rights, hub: &Helper) -> Command {
    match rights {
        Rights::Own => Command::new("unshare"),
        Rights::UserNamespace => {
            let mut command = Command::new("nsenter");
            command.args(["--user", "--preserve-credentials", "--target"]);
            command.arg(hub.child.id().to_string());
            command.args(["--", "unshare"]);
            command
        }
    }
}

/// Returns the beginning of a command line that runs the rest in a namespace.
fn enter(rights: Rights, namespace: &Helper) -> Command {
    let mut command = Command::new("nsenter");
    command.args(["--net", "--target"]);
    command.arg(namespace.child.id().to_string());
    if rights == Rights::UserNamespace {
        command.args(["--user", "--preserve-credentials"]);
    }
    command.arg("--");
    command
}
