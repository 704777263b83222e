//! Schedulers that ask for proofs, with the commands of their administrators, and the authority of a cluster in the hands of a test, which
//! gives programs and callers their identities.

use std::fs::DirBuilder;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::access::{Role, ShardLabel, TokenNumber};
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::{
    Authority, CertificateDer, Certified, Credential, KeyRequest, Lifetime, Token, client_config,
};
use brasserie_common_runtime::Clock;
use brasserie_thrift::generated::brasserie::{BrasserieCertifyArgs, BrasserieCertifyResult};
use brasserie_thrift::rpc::{
    CallResult, CallTimeouts, ClientConfig, ClientPool, Credentials, PeerAddr, THRIFT, Unknown,
};
use serde_json::{Value, json};
use thrift::ApplicationErrorKind;
use thrift::protocol::{TInputProtocol, TOutputProtocol, TSerializable, TStructIdentifier, TType};

use super::{
    Client, Finished, Network, PATIENCE, Process, SchedulerSpec, Stage, WorkerSpec, wait_for,
};

/// A scheduler that asks for proofs, and the commands of its administrator.
pub struct Secured {
    pub scheduler: Process,
    pub stage: Stage,
    pub spec: SchedulerSpec,
    /// The machines, if there are several. The scheduler is on the first.
    pub network: Option<Network>,
}

impl Secured {
    /// A config with the disabled job `filed` and the node `one`.
    pub fn config() -> Value {
        json!({
            "bistro_settings": { "enabled": true, "nodes": { "levels": ["item"], "node_sources": [
                { "source": "manual", "prefs": { "one": [] } }
            ] } },
            "bistro_job->filed": { "command": ["/bin/true"], "enabled": false },
        })
    }

    /// Starts a scheduler at all addresses of this machine, with [`Secured::config`].
    pub fn start() -> Self {
        Self::start_with(Stage::new(), &Self::config(), None)
    }

    /// Starts a scheduler with this config: at all addresses of this machine, or on the first one of a network.
    pub fn start_with(stage: Stage, config: &Value, network: Option<Network>) -> Self {
        let config = stage.write("config.json", &config.to_string());
        let mut spec = stage.calm_spec(&config);
        spec.address = match &network {
            Some(network) => network.address(network.host(0)),
            None => Ipv4Addr::UNSPECIFIED,
        };
        let command = stage.scheduler_command(&spec);
        let scheduler = match &network {
            Some(network) => stage.start_on(network, network.host(0), "scheduler", &command),
            None => stage.start("scheduler", command),
        };
        let secured = Secured {
            scheduler,
            stage,
            spec,
            network,
        };
        secured.wait_up();
        secured
    }

    /// Starts a scheduler of this machine by this command, which must be one for the description.
    pub fn start_by(stage: Stage, spec: SchedulerSpec, command: Command) -> Self {
        let scheduler = stage.start("scheduler", command);
        scheduler.wait_for_output("the scheduler is up");
        Secured {
            scheduler,
            stage,
            spec,
            network: None,
        }
    }

    /// Waits until the scheduler answers its administrator.
    pub fn wait_up(&self) {
        wait_for("the scheduler to answer its administrator", || {
            (self.ask(&["status", "--json"]).code == Some(0)).then_some(())
        });
    }

    /// Returns the address at which commands and workers call.
    pub fn address(&self) -> String {
        match self.spec.address.is_unspecified() {
            true => format!("127.0.0.1:{}", self.spec.port),
            false => format!("{}:{}", self.spec.address, self.spec.port),
        }
    }

    /// Runs a command of the administrator on the scheduler's machine.
    pub fn ask(&self, arguments: &[&str]) -> Finished {
        self.ask_as(&self.spec.data_dir, arguments)
    }

    /// Runs a command with the token of this file on the scheduler's machine.
    pub fn ask_as(&self, token: &Path, arguments: &[&str]) -> Finished {
        let (address, token) = (self.address(), token.to_string_lossy());
        let mut all = arguments.to_vec();
        all.extend(["--scheduler", &address, "--token-file", &token]);
        let command = self.here(self.stage.brasserie_command(&all));
        self.stage.finish("brasserie", command)
    }

    /// Returns a command for the scheduler's machine.
    pub fn here(&self, command: Command) -> Command {
        match &self.network {
            Some(network) => network.command_on(network.host(0), &command),
            None => command,
        }
    }

    /// Runs a command that must succeed, and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn must(&self, token: &Path, arguments: &[&str]) -> String {
        let done = self.ask_as(token, arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {}", done.output);
        done.output
    }

    /// Runs a command that must be refused with this text.
    ///
    /// # Panics
    /// If it is not.
    pub fn refused(&self, token: &Path, arguments: &[&str], why: &str) {
        let done = self.ask_as(token, arguments);
        assert_eq!(done.code, Some(1), "{arguments:?}: {}", done.output);
        // The output may break lines.
        let text = done.output.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(why), "{arguments:?}: {}", done.output);
    }

    /// Runs a command of the administrator that must succeed, and returns its output.
    ///
    /// # Panics
    /// If it fails.
    pub fn asked(&self, arguments: &[&str]) -> String {
        self.must(&self.spec.data_dir, arguments)
    }

    /// Creates a token.
    pub fn new_token(&self, arguments: &[&str]) -> String {
        let created = self.asked(&[&["token", "create"], arguments].concat());
        token_in(&created).to_owned()
    }

    /// Creates a token, and keeps it in a file as its holder would.
    pub fn token(&self, name: &str, arguments: &[&str]) -> PathBuf {
        let token = self.new_token(arguments);
        self.stage.write_secret(name, &token)
    }

    /// Describes a worker, which joins if there is a token.
    pub fn worker(&self, shard: &str, token: Option<&Path>) -> WorkerSpec {
        let mut spec = self.stage.worker_spec(shard, &self.spec);
        spec.scheduler = self.address();
        let token = token.map(|token| format!("--join-token=@{}", token.display()));
        spec.flags.extend(token);
        spec
    }

    /// Starts a worker that joins, and returns the folder with its key.
    pub fn join(&self, shard: &str) -> (Process, PathBuf) {
        let token = self.token(&format!("join-{shard}"), &["--role", "worker"]);
        let spec = self.worker(shard, Some(&token));
        let worker = self.stage.start_worker(&spec);
        self.wait_healthy(shard);
        (worker, spec.data_dir.join("identity"))
    }

    pub fn status(&self) -> Value {
        let status = self.ask(&["status", "--json"]);
        serde_json::from_str(&status.output).unwrap_or_default()
    }

    pub fn wait_healthy(&self, shard: &str) {
        wait_for(&format!("{shard} to be healthy"), || {
            let status = self.status();
            let mut workers = status["workers"].as_array()?.iter();
            let is_it = |w: &&Value| w["shard"] == shard && w["state"] == "healthy";
            workers.find(is_it).map(|_| ())
        });
    }

    /// Returns lines of the audit log.
    ///
    /// # Panics
    /// If they are no JSON.
    pub fn lines(&self, arguments: &[&str]) -> Vec<Value> {
        let asked = [&["audit", "--json"], arguments].concat();
        let shown = self.asked(&asked);
        let lines = shown.lines().map(serde_json::from_str);
        lines.map(|line| line.expect("JSON")).collect()
    }

    pub fn authority(&self) -> TestAuthority {
        TestAuthority::of(&self.spec)
    }
}

/// Returns the token in the output of `brasserie token create`.
///
/// # Panics
/// If there is none.
pub fn token_in(output: &str) -> &str {
    let mut lines = output.lines();
    let token = lines.find(|line| Token::from_text(line).is_ok());
    token.unwrap_or_else(|| panic!("no token: {output}"))
}

/// Returns the address at which a worker says that it takes calls.
///
/// # Panics
/// If it does not say so in time.
pub fn address_of(worker: &Process) -> SocketAddr {
    worker.wait_for_output("the worker takes calls");
    let output = worker.output();
    let address = output.split("address=").nth(1);
    let address = address.and_then(|rest| rest.split_whitespace().next());
    address.expect("an address").parse().expect("an address")
}

/// The authority of a cluster.
pub struct TestAuthority {
    authority: Authority,
    /// The folder of the scheduler that has it.
    folder: PathBuf,
}

impl TestAuthority {
    /// Gives a scheduler an authority before its first start, as for a head node that takes over a cluster. So it asks for proofs also on
    /// loopback addresses.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn give(scheduler: &SchedulerSpec) -> Self {
        let authority = Authority::create(Clock.wall()).expect("an authority");
        let folder = private_folder(&scheduler.data_dir);
        authority.write(&folder).expect("a new folder");
        TestAuthority { authority, folder }
    }

    /// Reads the authority that a scheduler has now.
    ///
    /// # Panics
    /// If it has none.
    pub fn of(scheduler: &SchedulerSpec) -> Self {
        let folder = scheduler.data_dir.join("identity");
        let read = Authority::read(&folder).expect("it is whole");
        TestAuthority {
            authority: read.expect("an authority"),
            folder,
        }
    }

    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Makes a worker a member of the cluster before its first start, as if it had joined. It listens on a loopback address.
    ///
    /// # Panics
    /// If its certificate cannot be written.
    pub fn admit(&self, worker: WorkerSpec) -> WorkerSpec {
        self.admit_at(worker, Clock.wall())
    }

    /// Does the same as [`TestAuthority::admit`], at another time.
    ///
    /// # Panics
    /// If its certificate cannot be written.
    pub fn admit_at(&self, mut worker: WorkerSpec, at: WallTime) -> WorkerSpec {
        let folder = private_folder(&worker.data_dir);
        let own = self.worker_at(&worker.shard, at);
        own.write(&folder.join("worker.pem")).expect("a new folder");
        worker.flags.push("--listen=127.0.0.1:0".to_owned());
        worker
    }

    /// Returns a credential of the worker of a shard.
    ///
    /// # Panics
    /// If there are no random numbers.
    pub fn worker(&self, shard: &str) -> Credential {
        self.worker_at(shard, Clock.wall())
    }

    fn worker_at(&self, shard: &str, at: WallTime) -> Credential {
        let shard = ShardLabel::of(&Shard::try_from(shard).expect("a shard"));
        self.certify(Role::Worker, Some(shard), None, at)
    }

    /// Returns a credential of a person by a token, as the scheduler gives it for calls to workers.
    ///
    /// # Panics
    /// If there are no random numbers.
    pub fn person(&self, role: Role, token: Option<TokenNumber>) -> Credential {
        self.certify(role, None, token, Clock.wall())
    }

    /// Returns a credential of a person that is valid for this long from now on.
    ///
    /// # Panics
    /// If there are no random numbers.
    pub fn person_for(&self, life: Duration, role: Role, token: TokenNumber) -> Credential {
        let issued = Clock.wall().0 - (Lifetime::WORKER.0 - life).as_millis() as i64;
        self.certify(role, None, Some(token), WallTime(issued))
    }

    fn certify(
        &self,
        role: Role,
        shard: Option<ShardLabel>,
        token: Option<TokenNumber>,
        at: WallTime,
    ) -> Credential {
        let key = KeyRequest::create().expect("a key");
        let certified = Certified {
            trust_domain: self.authority.trust_domain().clone(),
            role,
            shard,
            token,
        };
        let chain = self
            .authority
            .certify(key.request(), &certified, at, Lifetime::WORKER);
        key.with_chain(chain.expect("a certificate"))
            .expect("its key")
    }

    /// Returns connections that show this credential, or none.
    ///
    /// # Panics
    /// If the certificates are of no use.
    pub fn pool(&self, own: Option<&Credential>) -> ClientPool {
        self.pool_of(own, None)
    }

    /// Returns connections that show this token of a person.
    ///
    /// # Panics
    /// If it is no token.
    pub fn pool_with(&self, token: &str) -> ClientPool {
        let token = Token::from_text(token).expect("a token");
        self.pool_of(None, Some(token.secret.reveal()))
    }

    fn pool_of(&self, own: Option<&Credential>, secret: Option<String>) -> ClientPool {
        let tls = self.tls(own);
        through(Arc::new(Shown { tls, secret }))
    }

    /// Returns the settings of connections that show this credential, or none, with the sessions that they resume.
    ///
    /// # Panics
    /// If the certificates are of no use.
    pub fn tls(&self, own: Option<&Credential>) -> Arc<rustls::ClientConfig> {
        client_config(own, &self.authority.trusted(Clock.wall()), THRIFT).expect("a configuration")
    }

    /// Returns the client of the administrator of the scheduler with this authority, on this port.
    ///
    /// # Panics
    /// If the certificates are of no use.
    pub fn client(&self, port: u16) -> Client {
        let administrator = Administrator {
            tls: self.tls(None),
            token: self.folder.join("admin.token"),
        };
        Client::through(through(Arc::new(administrator)), self.scheduler(port))
    }

    /// Returns the address of the scheduler on this port.
    pub fn scheduler(&self, port: u16) -> PeerAddr {
        let name = self.authority.trust_domain().of_role(Role::Scheduler);
        PeerAddr::new(&Ipv4Addr::LOCALHOST.to_string(), port).proving(&name)
    }

    /// Returns the address of the worker on this port.
    pub fn worker_at_port(&self, port: u16) -> PeerAddr {
        let name = self.authority.trust_domain().of_role(Role::Worker);
        PeerAddr::new(&Ipv4Addr::LOCALHOST.to_string(), port).proving(&name)
    }
}

/// Returns connections with these settings.
pub fn pool_through(tls: &Arc<rustls::ClientConfig>) -> ClientPool {
    through(Arc::new(Shown {
        tls: Arc::clone(tls),
        secret: None,
    }))
}

fn through(credentials: Arc<dyn Credentials>) -> ClientPool {
    ClientPool::new(ClientConfig {
        timeouts: CallTimeouts {
            connect: PATIENCE,
            send: PATIENCE,
            receive: PATIENCE,
        },
        credentials: Some(credentials),
        ..ClientConfig::default()
    })
}

fn private_folder(data_dir: &Path) -> PathBuf {
    let folder = data_dir.join("identity");
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder);
    made.expect("a folder in a temporary folder");
    folder
}

/// A caller's side of TLS.
#[derive(Debug)]
struct Shown {
    tls: Arc<rustls::ClientConfig>,
    secret: Option<String>,
}

impl Credentials for Shown {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.tls)
    }

    fn secret(&self) -> Option<String> {
        self.secret.clone()
    }
}

/// Returns the certificate that a scheduler gives to a person for calls to workers.
///
/// # Panics
/// If it gives none.
pub async fn certify(pool: &ClientPool, scheduler: &PeerAddr) -> Credential {
    let key = KeyRequest::create().expect("a key");
    let arguments = BrasserieCertifyArgs {
        request: key.request().to_vec(),
    };
    let called = pool.call::<_, BrasserieCertifyResult>(scheduler, "certify", &arguments);
    let CallResult::Done(result) = called.await else {
        panic!("no answer");
    };
    let issued = result.result_value.expect("a certificate");
    let chain = issued.chain.unwrap_or_default().into_iter();
    key.with_chain(chain.map(CertificateDer::from).collect())
        .expect("its key")
}

/// An administrator's side of TLS.
#[derive(Debug)]
struct Administrator {
    tls: Arc<rustls::ClientConfig>,
    /// The file that the scheduler writes at its first start.
    token: PathBuf,
}

impl Credentials for Administrator {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.tls)
    }

    fn secret(&self) -> Option<String> {
        let text = std::fs::read_to_string(&self.token).ok()?;
        let token = Token::from_text(&text).ok()?;
        Some(token.secret.reveal())
    }
}

/// Arguments without any field, and any result.
#[derive(Debug)]
struct Nothing;

impl TSerializable for Nothing {
    fn read_from_in_protocol(input: &mut dyn TInputProtocol) -> thrift::Result<Self> {
        input.skip(TType::Struct)?;
        Ok(Nothing)
    }

    fn write_to_out_protocol(&self, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        output.write_struct_begin(&TStructIdentifier::new("Nothing"))?;
        output.write_field_stop()?;
        output.write_struct_end()
    }
}

/// The answer to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// The call was served, whatever came of it.
    Served,
    /// The caller may not make it, and this is the reason.
    Refused(String),
    /// The connection was closed.
    Closed,
}

/// Makes a call without arguments.
pub async fn try_call(pool: &ClientPool, peer: &PeerAddr, call: &'static str) -> Admission {
    match pool.call::<_, Nothing>(peer, call, &Nothing).await {
        CallResult::Unknown(Unknown::Exception { kind, message })
            if kind == ApplicationErrorKind::Unknown && message.contains("not permitted") =>
        {
            Admission::Refused(message)
        }
        CallResult::Done(_) | CallResult::Unknown(Unknown::Exception { .. }) => Admission::Served,
        CallResult::Unknown(_) | CallResult::NotSent(_) => Admission::Closed,
    }
}
