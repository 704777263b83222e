//! Finds workers, asks them about their work fetch, and drains them.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use brasserie_common::ServiceAddress;
use brasserie_common::work_overview::{MAX_SCHEDULERS, WorkFetchStatus, WorkWish};
use brasserie_common::worker::DrainTerms;
use brasserie_thrift::convert::parse_list;
use brasserie_thrift::generated::brasserie::{
    BrasserieWorkerDrainArgs, BrasserieWorkerDrainResult, BrasserieWorkerFetchWorkArgs,
    BrasserieWorkerFetchWorkResult, BrasserieWorkerGetWorkFetchArgs,
    BrasserieWorkerGetWorkFetchResult, ClusterStatus,
};
use brasserie_thrift::generated::common::BistroInstanceID;
use brasserie_thrift::generated::worker::BistroWorkerExceptionCode;
use brasserie_thrift::rpc::{CallResult, ClientConfig, ClientPool, PeerAddr, Unknown};
use thrift::ApplicationErrorKind;
use thrift::protocol::TSerializable;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::connection::Connection;
use crate::output::printable;
use crate::worker_credentials::{Callee, WorkerCredentials};

/// Time to connect to a worker.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum workers asked at once. A pool of hundreds is shown within a second, with few open connections.
const AT_ONCE: usize = 64;
/// The words of TLS for a certificate that proves another name.
const OTHER_NAME: &str = "not valid for name";
/// Maximum shards that an error lists when the wanted one is unknown.
const NAMED: usize = 20;

/// A worker that the scheduler knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedWorker {
    pub shard: String,
    pub address: String,
    /// The state, as the scheduler sees it.
    pub state: String,
    pub instance: Option<BistroInstanceID>,
}

impl ListedWorker {
    /// Returns the worker for calls.
    pub(super) fn callee(&self) -> Result<Callee, String> {
        Callee::worker(&self.shard, &self.address).ok_or_else(|| {
            format!(
                "the scheduler does not tell where worker `{}` is",
                printable(&self.shard)
            )
        })
    }
}

/// A worker's answer about its work fetch.
pub(super) type Answer = WorkFetchStatus;

/// A worker and its answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AskedWorker {
    /// `None` if only the address was given.
    pub shard: Option<String>,
    pub address: String,
    pub state: Option<String>,
    /// The answer, or the reason for people why there is none.
    pub answer: Result<Answer, String>,
}

impl AskedWorker {
    pub(super) fn called(&self) -> String {
        called(self.shard.as_deref(), &self.address)
    }
}

/// Names a worker in a sentence.
pub(super) fn called(shard: Option<&str>, address: &str) -> String {
    match shard {
        Some(shard) => format!("worker `{}`", printable(shard)),
        None => format!("the worker at {}", printable(address)),
    }
}

/// Returns all workers of a scheduler in its order.
pub(super) fn all_workers(status: &ClusterStatus) -> Vec<ListedWorker> {
    let workers = status.workers.iter().flatten();
    let known = workers.map(|worker| ListedWorker {
        shard: worker.shard.clone().unwrap_or_default(),
        address: worker.address.clone().unwrap_or_default(),
        state: worker.state.clone().unwrap_or_default(),
        instance: worker.instance.clone(),
    });
    known.collect()
}

/// Returns all workers of a scheduler. Errors if there are none.
pub(super) fn workers(status: &ClusterStatus, scheduler: &str) -> Result<Vec<ListedWorker>> {
    let known = all_workers(status);
    if known.is_empty() {
        bail!(
            "no worker has connected to the scheduler at {scheduler}. Start one: brasserie-worker --scheduler HOST:PORT --data-dir DIR \
             --work-fetch PROFILE, with --join-token if the scheduler asks for proofs"
        );
    }
    Ok(known)
}

/// Returns the worker of this shard. Errors if it is unknown.
pub(super) fn find(workers: Vec<ListedWorker>, shard: &str) -> Result<ListedWorker> {
    let mut names: Vec<String> = workers
        .iter()
        .take(NAMED)
        .map(|known| printable(&known.shard))
        .collect();
    let more = workers.len().saturating_sub(NAMED);
    if let Some(known) = workers.into_iter().find(|known| known.shard == shard) {
        return Ok(known);
    }
    if names.is_empty() {
        names.push("none".to_owned());
    }
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    bail!(
        "the scheduler knows no worker `{}`; it knows {}",
        printable(shard),
        names.join(", ")
    )
}

/// Returns the only worker. Errors if there are several.
pub(super) fn only(mut workers: Vec<ListedWorker>) -> Result<ListedWorker> {
    if let (Some(one), true) = (workers.pop(), workers.is_empty()) {
        return Ok(one);
    }
    // Counts the popped worker too.
    let count = workers.len() + 1;
    bail!("the scheduler knows {count} workers: name the one that is to ask for work")
}

/// The finding at a worker's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AddressFinding {
    /// The worker.
    Worker,
    /// Another worker or program.
    Other,
    /// Nothing: the port is closed, or a worker of another shard has it.
    Closed,
    /// Unknown, for this reason.
    Unclear(String),
}

/// Connections to workers.
#[derive(Clone)]
pub(super) struct WorkerConnections {
    pool: ClientPool,
    credentials: WorkerCredentials,
}

impl WorkerConnections {
    /// Creates connections to the workers of a scheduler, which may have to certify the caller first.
    pub(super) async fn of(scheduler: &Connection) -> Result<Self> {
        Ok(WorkerConnections::showing(
            WorkerCredentials::of(scheduler).await?,
        ))
    }

    /// Creates connections that show the caller's certificate, if there is one.
    pub(super) fn showing(credentials: WorkerCredentials) -> Self {
        let pool = ClientPool::new(ClientConfig {
            credentials: credentials.for_tls(),
            ..ClientConfig::default()
        });
        WorkerConnections { pool, credentials }
    }

    /// Asks a worker at an address, without a scheduler.
    pub(super) async fn ask_address(&self, peer: &PeerAddr) -> AskedWorker {
        AskedWorker {
            shard: None,
            address: peer.as_str().to_owned(),
            state: None,
            answer: self.answer(&peer.clone().into()).await,
        }
    }

    pub(super) async fn ask(&self, known: ListedWorker) -> AskedWorker {
        let answer = match known.callee() {
            Ok(worker) => self.answer(&worker).await,
            Err(error) => Err(error),
        };
        AskedWorker {
            shard: Some(known.shard),
            address: known.address,
            state: Some(known.state),
            answer,
        }
    }

    /// Asks all workers, and returns the answers in the order of the list.
    pub(super) async fn ask_all(&self, workers: Vec<ListedWorker>) -> Vec<AskedWorker> {
        let places = Arc::new(Semaphore::new(AT_ONCE));
        let mut calls = JoinSet::new();
        for (place, known) in workers.into_iter().enumerate() {
            let (pool, places) = (self.clone(), Arc::clone(&places));
            calls.spawn(async move {
                // The semaphore is never closed, so the permit always arrives.
                let _turn = places.acquire_owned().await;
                (place, pool.ask(known).await)
            });
        }
        let mut all = calls.join_all().await;
        all.sort_by_key(|(place, _)| *place);
        all.into_iter().map(|(_, asked)| asked).collect()
    }

    async fn answer(&self, callee: &Callee) -> Result<Answer, String> {
        let arguments = BrasserieWorkerGetWorkFetchArgs {};
        let result: BrasserieWorkerGetWorkFetchResult =
            self.call(callee, "getWorkFetch", &arguments).await?;
        let peer = &callee.peer;
        let status = result.result_value.ok_or_else(|| nothing(peer))?;
        Answer::try_from(status).map_err(|error| nonsense(peer, &error))
    }

    /// Makes the worker request work from this scheduler, or from all of its schedulers.
    pub(super) async fn wish(
        &self,
        callee: &Callee,
        scheduler: Option<&ServiceAddress>,
    ) -> Result<Vec<WorkWish>, String> {
        let arguments = BrasserieWorkerFetchWorkArgs {
            scheduler: scheduler.cloned().map(Into::into),
        };
        let result: BrasserieWorkerFetchWorkResult =
            self.call(callee, "fetchWork", &arguments).await?;
        let peer = &callee.peer;
        if let Some(refused) = result.ex {
            return Err(refusal(peer, &refused.message.unwrap_or_default()));
        }
        let wishes = result.result_value.ok_or_else(|| nothing(peer))?;
        if wishes.len() > MAX_SCHEDULERS {
            return Err(nonsense(
                peer,
                &format!("it has {} schedulers", wishes.len()),
            ));
        }
        parse_list("fetchWork", wishes).map_err(|error| nonsense(peer, &error))
    }

    /// Drains the worker. Returns the number of its running tasks.
    pub(super) async fn drain(
        &self,
        callee: &Callee,
        worker: &ListedWorker,
        terms: DrainTerms,
    ) -> Result<i32, String> {
        let arguments = drain_arguments(worker, Some(terms));
        let result: BrasserieWorkerDrainResult = self.call(callee, "drain", &arguments).await?;
        let peer = &callee.peer;
        match result.ex {
            Some(refused) => Err(refusal(peer, &refused.message.unwrap_or_default())),
            None => result.result_value.ok_or_else(|| nothing(peer)),
        }
    }

    /// Asks a worker that drains whether it is still there. The request changes nothing, because it names the instance.
    pub(super) async fn look(&self, callee: &Callee, worker: &ListedWorker) -> AddressFinding {
        let connecting = TcpStream::connect(callee.peer.as_str());
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting);
        match connected.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => {
                return AddressFinding::Closed;
            }
            Ok(Err(error)) => return AddressFinding::Unclear(error.to_string()),
            Err(_) => return AddressFinding::Unclear("no connection in time".to_owned()),
        }
        let arguments = drain_arguments(worker, None);
        let peer = match self.credentials.worker(callee).await {
            Ok(peer) => peer,
            Err(why) => return AddressFinding::Unclear(why),
        };
        let called: CallResult<BrasserieWorkerDrainResult> =
            self.pool.call(&peer, "drain", &arguments).await;
        match called {
            CallResult::Done(BrasserieWorkerDrainResult { ex: None, .. }) => AddressFinding::Worker,
            CallResult::Done(BrasserieWorkerDrainResult {
                ex: Some(refused), ..
            }) => match refused.code == Some(BistroWorkerExceptionCode::WRONG_ID) {
                true => AddressFinding::Other,
                false => AddressFinding::Unclear(refused.message.unwrap_or_default()),
            },
            CallResult::Unknown(Unknown::Exception {
                kind: ApplicationErrorKind::UnknownMethod,
                ..
            }) => AddressFinding::Other,
            CallResult::NotSent(why) => {
                let why = why.to_string();
                match why.contains(OTHER_NAME) {
                    true => AddressFinding::Closed,
                    false => AddressFinding::Unclear(why),
                }
            }
            CallResult::Unknown(why) => AddressFinding::Unclear(why.to_string()),
        }
    }

    async fn call<A: TSerializable, R: TSerializable + Send>(
        &self,
        callee: &Callee,
        method: &'static str,
        arguments: &A,
    ) -> Result<R, String> {
        let peer = self.credentials.worker(callee).await?;
        match self.pool.call(&peer, method, arguments).await {
            CallResult::Done(result) => Ok(result),
            CallResult::NotSent(why) => Err(format!(
                "cannot ask the worker at {peer}: {why}. Is it running, and can this machine reach it?"
            )),
            CallResult::Unknown(Unknown::Exception {
                kind: ApplicationErrorKind::UnknownMethod,
                ..
            }) => Err(format!(
                "the program at {peer} does not know the call `{method}`: a worker of an older release, which lacks it, or no worker"
            )),
            CallResult::Unknown(Unknown::Exception { message, .. }) => {
                Err(refusal(&peer, &message))
            }
            CallResult::Unknown(why) => Err(format!(
                "the worker at {peer} gave no usable answer: {}",
                printable(&why.to_string())
            )),
        }
    }
}

fn drain_arguments(worker: &ListedWorker, terms: Option<DrainTerms>) -> BrasserieWorkerDrainArgs {
    BrasserieWorkerDrainArgs {
        shard: worker.shard.clone(),
        instance: worker.instance.clone().unwrap_or_default(),
        terms: terms.map(Into::into),
    }
}

fn refusal(peer: &PeerAddr, message: &str) -> String {
    format!("the worker at {peer} refused: {}", printable(message))
}

fn nothing(peer: &PeerAddr) -> String {
    format!("the worker at {peer} sent nothing")
}

fn nonsense(peer: &PeerAddr, error: &dyn fmt::Display) -> String {
    format!("the answer of the worker at {peer} makes no sense: {error}")
}
