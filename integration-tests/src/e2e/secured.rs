//! The authority of a cluster in the hands of a test, which gives the programs that it starts their identities.

use std::fs::DirBuilder;
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use brasserie_common::access::{Role, ShardLabel, TokenNumber};
use brasserie_common::{Shard, WallTime};
use brasserie_common_identity::{
    Authority, Certified, Credential, KeyRequest, Lifetime, client_config,
};
use brasserie_common_runtime::Clock;
use brasserie_thrift::rpc::{
    CallResult, CallTimeouts, ClientConfig, ClientPool, Credentials, PeerAddr, THRIFT, Unknown,
};
use thrift::ApplicationErrorKind;
use thrift::protocol::{TInputProtocol, TOutputProtocol, TSerializable, TStructIdentifier, TType};

use super::{Client, PATIENCE, SchedulerSpec, WorkerSpec};

/// The authority of a cluster.
pub struct TestAuthority(Authority);

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
        TestAuthority(authority)
    }

    /// Reads the authority that a scheduler has now.
    ///
    /// # Panics
    /// If it has none.
    pub fn of(scheduler: &SchedulerSpec) -> Self {
        let read = Authority::read(&scheduler.data_dir.join("identity"));
        TestAuthority(read.expect("it is whole").expect("an authority"))
    }

    pub fn authority(&self) -> &Authority {
        &self.0
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

    fn certify(
        &self,
        role: Role,
        shard: Option<ShardLabel>,
        token: Option<TokenNumber>,
        at: WallTime,
    ) -> Credential {
        let key = KeyRequest::create().expect("a key");
        let certified = Certified {
            cluster: self.0.cluster().clone(),
            role,
            shard,
            token,
        };
        let chain = self
            .0
            .certify(key.request(), &certified, at, Lifetime::WORKER);
        key.with_chain(chain.expect("a certificate"))
            .expect("its key")
    }

    /// Returns connections that show this credential, or none.
    ///
    /// # Panics
    /// If the certificates are of no use.
    pub fn pool(&self, own: Option<&Credential>) -> ClientPool {
        let tls =
            client_config(own, &self.0.trusted(Clock.wall()), THRIFT).expect("a configuration");
        ClientPool::new(ClientConfig {
            timeouts: CallTimeouts {
                connect: PATIENCE,
                send: PATIENCE,
                receive: PATIENCE,
            },
            credentials: Some(Arc::new(Shown(tls))),
            ..ClientConfig::default()
        })
    }

    /// Returns an administrator's client of the scheduler on this port.
    pub fn client(&self, port: u16) -> Client {
        let own = self.person(Role::Admin, None);
        Client::through(self.pool(Some(&own)), self.scheduler(port))
    }

    /// Returns the address of the scheduler on this port.
    pub fn scheduler(&self, port: u16) -> PeerAddr {
        let name = self.0.cluster().of_role(Role::Scheduler);
        PeerAddr::new(&Ipv4Addr::LOCALHOST.to_string(), port).proving(&name)
    }

    /// Returns the address of the worker on this port.
    pub fn worker_at_port(&self, port: u16) -> PeerAddr {
        let name = self.0.cluster().of_role(Role::Worker);
        PeerAddr::new(&Ipv4Addr::LOCALHOST.to_string(), port).proving(&name)
    }
}

fn private_folder(data_dir: &Path) -> std::path::PathBuf {
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
pub struct Shown(pub Arc<rustls::ClientConfig>);

impl Credentials for Shown {
    fn tls(&self) -> Arc<rustls::ClientConfig> {
        Arc::clone(&self.0)
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
        CallResult::Unknown(Unknown::ConnectionLost(_)) | CallResult::NotSent(_) => {
            Admission::Closed
        }
        CallResult::Done(_) | CallResult::Unknown(_) => Admission::Served,
    }
}
