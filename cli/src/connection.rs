//! Calls of the command line to a running scheduler.

use std::collections::BTreeMap;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use brasserie_common::InvocationId;
use brasserie_common::access::INSIDE_TLS;
use brasserie_common::cluster_view::{ClusterView, OrderView};
use brasserie_common::logs::LogStream;
use brasserie_common_identity::{CertificateDer, Credential, KeyRequest, UNKNOWN_SCHEDULER};
use brasserie_common_runtime::NetworkExposure;
use brasserie_thrift::generated::brasserie::{
    AuditPage, AuditQuery, AuthorityStatus, BrasserieAuthenticateArgs, BrasserieAuthenticateResult,
    BrasserieCancelJobArgs, BrasserieCancelJobResult, BrasserieCertifyArgs, BrasserieCertifyResult,
    BrasserieCreateTokenArgs, BrasserieCreateTokenResult, BrasserieDeleteHistoryArgs,
    BrasserieDeleteHistoryResult, BrasserieExplainTaskArgs, BrasserieExplainTaskResult,
    BrasserieForgetOutputsArgs, BrasserieForgetOutputsResult, BrasserieForgetWorkerArgs,
    BrasserieForgetWorkerResult, BrasserieForgiveTasksArgs, BrasserieForgiveTasksResult,
    BrasserieGetAuditPageArgs, BrasserieGetAuditPageResult, BrasserieGetAuthorityArgs,
    BrasserieGetAuthorityResult, BrasserieGetClusterStatusArgs, BrasserieGetClusterStatusResult,
    BrasserieGetFilePageArgs, BrasserieGetFilePageResult, BrasserieGetJobPageArgs,
    BrasserieGetJobPageResult, BrasserieGetJobStatusArgs, BrasserieGetJobStatusPageArgs,
    BrasserieGetJobStatusPageResult, BrasserieGetJobStatusResult, BrasserieGetOutputPageArgs,
    BrasserieGetOutputPageResult, BrasserieGetTaskHistoryArgs, BrasserieGetTaskHistoryResult,
    BrasserieGetTaskPageArgs, BrasserieGetTaskPageResult, BrasserieHoldOutputsArgs,
    BrasserieHoldOutputsResult, BrasserieKillTaskArgs, BrasserieKillTaskResult,
    BrasserieListTokensArgs, BrasserieListTokensResult, BrasserieOrderWorkerArgs,
    BrasserieOrderWorkerResult, BrasseriePauseJobArgs, BrasseriePauseJobResult,
    BrasseriePlanConfigArgs, BrasseriePlanConfigResult, BrasseriePutFileArgs,
    BrasseriePutFileResult, BrasserieRemoveFileArgs, BrasserieRemoveFileResult,
    BrasserieRemoveJobArgs, BrasserieRemoveJobResult, BrasserieResumeJobArgs,
    BrasserieResumeJobResult, BrasserieRevokeTokenArgs, BrasserieRevokeTokenResult,
    BrasserieRevokeWorkerArgs, BrasserieRevokeWorkerResult, BrasserieRotateAuthorityArgs,
    BrasserieRotateAuthorityResult, BrasserieSubmitJobArgs, BrasserieSubmitJobResult, Caller,
    ClusterStatus, CreatedToken, DeletedHistory, FilePage, FileRefusedException, FileUpload,
    ForgottenOutputs, JobRefusedException, JobStatus, JobStatusPage, LastRun, MissingInstance,
    NotAdmittedException, OutputCursor, OutputPage, Plan, RevokedShard, SubmittedJob, TaskCursor,
    TaskKill, TaskPage, TokenStatus, TokenTerms, WorkerOrderRequest,
};
use brasserie_thrift::generated::common::{BistroInstanceID, LogLines};
use brasserie_thrift::generated::scheduler::{
    BistroJobConfig, BistroSchedulerGetJobLogsByIDArgs, BistroSchedulerGetJobLogsByIDResult,
    BistroSchedulerUnknownJobException,
};
use brasserie_thrift::rpc::{
    CallError, CallTimeouts, ClientConfig, ClientPool, Credentials, LACK_OF_ROOM, NotSent,
    PeerAddr, Unknown as Unanswered,
};
use brasserie_worker::has_no_authority;
use serde_json::Value;
use thrift::ApplicationErrorKind;
use thrift::protocol::TSerializable;
use tokio::runtime::Runtime;

use crate::access::{self, TokenCredentials};
use crate::addresses::{
    NOT_AN_ADDRESS, NOT_IN_PLAIN_TEXT, is_plain_allowed, scheduler_peer, socket_path,
};
use crate::destination::{Destination, SchedulerArgs};
use crate::failure::{Failure, Unknown, with_own_flag};
use crate::output::{print, print_json, shell_word, with_flag};

/// The timeout of calls that are answered once their changes are on disk. Forgiving a million tasks takes some ten seconds of a busy
/// scheduler.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(120);

/// The pauses after calls for which the scheduler had no place double from the first to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// The longest wait for a place. Those who have one need milliseconds.
const BUSY_LIMIT: Duration = Duration::from_secs(30);

/// The limit for the check whether a scheduler of several listens.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// The scheduler to call, and the format of the answer.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct AskArgs {
    #[command(flatten)]
    pub(crate) scheduler: SchedulerArgs,
    /// Print one JSON document instead of text.
    #[arg(long)]
    pub(crate) json: bool,
}

impl AskArgs {
    /// See [`Connection::to`].
    pub(crate) fn connect(&self) -> Result<Connection> {
        Connection::to(&self.scheduler)
    }

    /// See [`Connection::for_changes_to`].
    pub(crate) fn connect_for_changes(&self) -> Result<Connection> {
        Connection::for_changes_to(&self.scheduler)
    }

    /// Completes the commands in the remedy of a failure with the flags of this one.
    pub(crate) fn advised<T>(&self, ended: Result<T>) -> Result<T> {
        ended.map_err(|error| with_own_flag(error, &self.scheduler.flag()))
    }

    /// Prints the sentence, whose commands get the flags of this one, or the document.
    pub(crate) fn say(&self, sentence: &str, document: &Value) -> Result<()> {
        match self.json {
            true => print_json(document),
            false => print(&format!(
                "{}\n",
                with_flag(sentence, &self.scheduler.flag())
            )),
        }
    }
}

/// A request for one page of logs.
#[derive(Clone, Debug)]
pub(crate) struct LogRequest {
    pub(crate) stream: LogStream,
    /// Empty: all jobs.
    pub(crate) job: String,
    /// Empty: all nodes.
    pub(crate) node: String,
    /// The line id to start at; -1: the first line in the requested direction.
    pub(crate) from: i64,
    pub(crate) ascending: bool,
    pub(crate) regex: String,
    /// `None`: all runs.
    pub(crate) invocation: Option<InvocationId>,
}

/// The outcome of a requested change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ChangeOutcome<T> {
    /// The change is made and on disk.
    Done(T),
    /// No change was made.
    Refused {
        message: String,
        /// The problems of a text, each with its place.
        problems: Vec<String>,
    },
}

impl<T> ChangeOutcome<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> ChangeOutcome<U> {
        match self {
            ChangeOutcome::Done(done) => ChangeOutcome::Done(change(done)),
            ChangeOutcome::Refused { message, problems } => {
                ChangeOutcome::Refused { message, problems }
            }
        }
    }
}

/// The tasks of a job whose failures are forgiven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forgiven {
    /// Tasks that have failed for good and tasks in backoff.
    All,
    /// Tasks that have failed for good.
    Failed,
}

/// The treatment of outputs that tasks still need as inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NeededOutputs {
    /// The scheduler refuses to forget any.
    Keep,
    Forget,
}

/// A connection to a scheduler.
#[derive(Clone)]
pub(crate) struct Connection {
    pool: ClientPool,
    peer: PeerAddr,
    /// The flag that names this scheduler to another command, with a space before it; empty for the default.
    flag: String,
    proof: Proof,
    /// The addresses to which calls in plain text may go.
    exposure: NetworkExposure,
}

/// How the caller proves who it is.
#[derive(Clone)]
enum Proof {
    /// The scheduler asks for none.
    None,
    Token(Arc<TokenCredentials>),
    /// The scheduler learns the caller's user from the kernel.
    LocalUser,
}

impl Connection {
    /// Creates a connection for queries to a scheduler of this machine that asks for no proof.
    pub(crate) fn new(address: &str) -> Result<Self> {
        let exposure = NetworkExposure::LoopbackOnly;
        Self::with(address, CallTimeouts::DEFAULT, None, exposure)
    }

    /// Creates a connection for changes, which take longer, to a scheduler of this machine that asks for no proof.
    pub(crate) fn for_changes(address: &str) -> Result<Self> {
        let exposure = NetworkExposure::LoopbackOnly;
        Self::with(address, Self::change_timeouts(), None, exposure)
    }

    /// Creates a connection for queries to the scheduler that the command line names.
    pub(crate) fn to(scheduler: &SchedulerArgs) -> Result<Self> {
        Self::named(scheduler, CallTimeouts::DEFAULT)
    }

    /// Creates a connection for changes to the scheduler that the command line names.
    pub(crate) fn for_changes_to(scheduler: &SchedulerArgs) -> Result<Self> {
        Self::named(scheduler, Self::change_timeouts())
    }

    fn change_timeouts() -> CallTimeouts {
        CallTimeouts {
            receive: CHANGE_TIMEOUT,
            ..CallTimeouts::DEFAULT
        }
    }

    fn named(scheduler: &SchedulerArgs, timeouts: CallTimeouts) -> Result<Self> {
        let connection = Self::at(&Destination::of(scheduler)?, timeouts)?;
        Ok(connection.named_by(scheduler.flag()))
    }

    /// Creates a connection for queries to a destination.
    pub(crate) fn to_destination(destination: &Destination) -> Result<Self> {
        Self::at(destination, CallTimeouts::DEFAULT)
    }

    fn at(destination: &Destination, timeouts: CallTimeouts) -> Result<Self> {
        let token = destination.token.as_ref().map(TokenCredentials::new);
        let address = reachable(&destination.addresses);
        Self::with(address, timeouts, token.transpose()?, destination.exposure)
    }

    fn with(
        address: &str,
        timeouts: CallTimeouts,
        token: Option<TokenCredentials>,
        exposure: NetworkExposure,
    ) -> Result<Self> {
        let peer = scheduler_peer(address);
        let peer = peer.with_context(|| format!("`{address}` is {NOT_AN_ADDRESS}"))?;
        if token.is_none() && !is_plain_allowed(&peer, exposure) {
            let message =
                format!("{address} is no loopback address, and the call would be in plain text");
            return Err(Failure::usage(message).remedy(NOT_IN_PLAIN_TEXT).into());
        }
        let (proof, peer) = match token {
            _ if peer.is_local() => (Proof::LocalUser, peer),
            // The hash of the authority in the token proves the scheduler, whatever its name is.
            Some(token) => (
                Proof::Token(Arc::new(token)),
                peer.proving(UNKNOWN_SCHEDULER),
            ),
            None => (Proof::None, peer),
        };
        let credentials = match &proof {
            Proof::Token(token) => Some(Arc::clone(token) as Arc<dyn Credentials>),
            Proof::None | Proof::LocalUser => None,
        };
        let config = ClientConfig {
            timeouts,
            credentials,
            ..ClientConfig::default()
        };
        Ok(Connection {
            pool: ClientPool::new(config),
            peer,
            flag: format!(" --scheduler {}", shell_word(address)),
            proof,
            exposure,
        })
    }

    /// Returns the addresses to which calls in plain text may go.
    pub(crate) fn exposure(&self) -> NetworkExposure {
        self.exposure
    }

    /// Returns a certificate for calls to workers, which is valid for some minutes; `None` if they ask for no proof.
    pub(crate) async fn certify(&self) -> Result<Option<(Credential, Vec<RevokedShard>)>> {
        if let Proof::None = self.proof {
            return Ok(None);
        }
        let key = KeyRequest::create()?;
        let arguments = BrasserieCertifyArgs {
            request: key.request().to_vec(),
        };
        let result: BrasserieCertifyResult = self.ask_until_served("certify", &arguments).await?;
        let issued = self.admitted(result.result_value, result.ex)?;
        let chain = issued.chain.unwrap_or_default().into_iter();
        let own = key.with_chain(chain.map(CertificateDer::from).collect())?;
        Ok(Some((own, issued.revoked.unwrap_or_default())))
    }

    /// Returns the answer, or the failure of a caller that was not admitted.
    fn admitted<T>(&self, answer: Option<T>, refused: Option<NotAdmittedException>) -> Result<T> {
        match (answer, refused) {
            (_, Some(refused)) => Err(Failure::refused(self.with_own_flag(refused.message)).into()),
            (Some(answer), None) => Ok(answer),
            (None, None) => bail!("the scheduler sent nothing"),
        }
    }

    /// Returns what the scheduler knows about the caller's token; `None` if the caller shows none.
    pub(crate) async fn caller(&self) -> Result<Option<Caller>> {
        let Proof::Token(token) = &self.proof else {
            return Ok(None);
        };
        let secret = token.secret().unwrap_or_default();
        let arguments = BrasserieAuthenticateArgs { secret };
        let result: BrasserieAuthenticateResult = self.ask("authenticate", &arguments).await?;
        self.admitted(result.result_value, result.ex).map(Some)
    }

    pub(crate) async fn create_token(&self, terms: TokenTerms) -> Result<CreatedToken> {
        let arguments = BrasserieCreateTokenArgs { terms };
        let result: BrasserieCreateTokenResult = self.ask("createToken", &arguments).await?;
        self.admitted(result.result_value, result.ex)
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<TokenStatus>> {
        let arguments = BrasserieListTokensArgs {};
        let result: BrasserieListTokensResult = self.ask("listTokens", &arguments).await?;
        self.admitted(result.result_value, result.ex)
    }

    pub(crate) async fn audit_page(&self, query: AuditQuery) -> Result<AuditPage> {
        let arguments = BrasserieGetAuditPageArgs { query };
        let result: BrasserieGetAuditPageResult = self.ask("getAuditPage", &arguments).await?;
        result.result_value.context("the scheduler sent no lines")
    }

    pub(crate) async fn revoke_token(&self, number: &str) -> Result<()> {
        let number = number.to_owned();
        let arguments = BrasserieRevokeTokenArgs { number };
        let result: BrasserieRevokeTokenResult = self.ask("revokeToken", &arguments).await?;
        self.admitted(Some(()), result.ex)
    }

    /// Returns whether a worker of this name was known. An older scheduler refuses others.
    pub(crate) async fn revoke_worker(&self, shard: &str) -> Result<bool> {
        let shard = shard.to_owned();
        let arguments = BrasserieRevokeWorkerArgs { shard };
        let result: BrasserieRevokeWorkerResult = self.ask("revokeWorker", &arguments).await?;
        self.admitted(Some(result.result_value.unwrap_or(true)), result.ex)
    }

    pub(crate) async fn authority(&self) -> Result<AuthorityStatus> {
        let arguments = BrasserieGetAuthorityArgs {};
        let result: BrasserieGetAuthorityResult = self.ask("getAuthority", &arguments).await?;
        self.admitted(result.result_value, result.ex)
    }

    pub(crate) async fn rotate_authority(
        &self,
        finish: bool,
        force: bool,
    ) -> Result<AuthorityStatus> {
        let arguments = BrasserieRotateAuthorityArgs { finish, force };
        let result: BrasserieRotateAuthorityResult =
            self.ask("rotateAuthority", &arguments).await?;
        self.admitted(result.result_value, result.ex)
    }

    /// Returns the address of the scheduler.
    pub(crate) fn address(&self) -> &str {
        self.peer.as_str()
    }

    /// Sets the flag that names this scheduler to another command.
    pub(crate) fn named_by(self, flag: String) -> Self {
        Connection { flag, ..self }
    }

    /// Completes the commands in a refusal of the scheduler, which does not know the flag that names it.
    fn with_own_flag(&self, refusal: Option<String>) -> String {
        with_flag(&refusal.unwrap_or_default(), &self.flag)
    }

    fn outcome<T>(&self, done: T, refused: Option<JobRefusedException>) -> ChangeOutcome<T> {
        match refused {
            None => ChangeOutcome::Done(done),
            Some(refused) => ChangeOutcome::Refused {
                message: self.with_own_flag(refused.message),
                problems: refused.problems.unwrap_or_default(),
            },
        }
    }

    fn check_known(
        &self,
        exception: Option<BistroSchedulerUnknownJobException>,
    ) -> Result<(), Unknown> {
        match exception {
            Some(exception) => {
                let message = self.with_own_flag(exception.message);
                Err(Unknown::new(message, &self.flag))
            }
            None => Ok(()),
        }
    }

    fn unreachable(&self, error: CallError) -> anyhow::Error {
        let peer = self.peer.as_str();
        let failure = match error {
            CallError::NotSent(NotSent::OtherAuthority(_))
            | CallError::Unknown(Unanswered::OtherAuthority(_)) => Failure::refused(format!(
                "the scheduler at {peer} does not have the authority that the token names, so the token was not sent"
            ))
            .remedy(
                "Either the token is of another cluster, or the authority was replaced since, or somebody poses as the scheduler. Check the \
                 address, and get a new token from an administrator: `brasserie token create --role ROLE`",
            ),
            CallError::NotSent(why) => match (&why, forbidden_socket(peer)) {
                (_, Some(forbidden)) => forbidden,
                (NotSent::ConnectionLost(_), None) if self.shows_token_to_other_machine() => {
                    Failure::new(format!("cannot ask the scheduler at {peer}: {why}")).remedy(
                        "A scheduler without an authority closes connections with a token so: then leave the token out. Or no scheduler is there, \
                         and `--scheduler HOST:PORT` names another",
                    )
                }
                (_, None) => {
                    let why = why.to_string();
                    let failure =
                        Failure::new(format!("cannot ask the scheduler at {peer}: {why}"));
                    failure.remedy(remedy_of_unreachable(&why))
                }
            },
            CallError::Unknown(Unanswered::Exception { kind, message }) => {
                let is_for_tls = message.contains(INSIDE_TLS);
                // The advice after it is for workers too, and the remedy below is better.
                let end = message.find(INSIDE_TLS).map(|at| at + INSIDE_TLS.len());
                let message = with_flag(&message[..end.unwrap_or(message.len())], &self.flag);
                let message = format!("the scheduler at {peer} refused: {message}");
                let failure = match kind {
                    // A scheduler uses this kind for callers that may not make the call.
                    ApplicationErrorKind::Unknown => Failure::refused(message),
                    // And this one for wrong arguments.
                    ApplicationErrorKind::ProtocolError => Failure::usage(message),
                    _ => Failure::new(message),
                };
                let failure = match &self.proof {
                    Proof::None if is_for_tls => failure.remedy(
                        "It asks for a proof: name the file of your token with --token-file, set BRASSERIE_TOKEN, or use a context; on its own \
                         machine, `--token-file` takes its data directory",
                    ),
                    Proof::None | Proof::Token(_) | Proof::LocalUser => failure,
                };
                match kind {
                    ApplicationErrorKind::UnknownMethod => failure.remedy(
                        "It may be a worker, or a scheduler of another release: name the scheduler's address, and run one release everywhere",
                    ),
                    // The refusal itself contains the remedy.
                    _ => failure,
                }
            }
            CallError::Unknown(why) => {
                let remedy = match why {
                    Unanswered::SendTimeout | Unanswered::ReceiveTimeout => {
                        "It may be busy or stopped: see its log, and try again"
                    }
                    _ => {
                        "Name its port for Thrift, which is its `--listen` (by default 6789) and not its `--http-listen`, without TLS"
                    }
                };
                Failure::new(format!(
                    "the scheduler at {peer} gave no usable answer: {why}"
                ))
                .remedy(remedy)
            }
        };
        failure.into()
    }

    /// Fetches the cluster status with all jobs.
    pub(crate) async fn cluster_status(&self) -> Result<ClusterStatus> {
        self.status_with_jobs(usize::MAX).await
    }

    /// Fetches the cluster document with the jobs that the scheduler lists by default. If those are fewer than `jobs`, adds others by name.
    pub(crate) async fn view(&self, jobs: usize) -> Result<ClusterView> {
        let mut view = ClusterView::from(self.status_with_jobs(jobs).await?);
        view.more_jobs = view.jobs_total > view.jobs.len() as u64;
        Ok(view)
    }

    /// Fetches the cluster document with only these jobs. Errors if one is unknown.
    pub(crate) async fn view_of_jobs(&self, names: &[String]) -> Result<ClusterView> {
        let mut status = self.bounded_status().await?;
        let listed = status.jobs.take().unwrap_or_default();
        let mut jobs = Vec::new();
        for name in names {
            jobs.push(match status.job_totals {
                Some(_) => self.job_status(name).await?,
                // An older scheduler lacks this call, but lists all jobs.
                None => {
                    let job = listed.iter().find(|job| job.name.as_ref() == Some(name));
                    let unknown = || Unknown::new(format!("no job is called `{name}`"), &self.flag);
                    job.ok_or_else(unknown)?.clone()
                }
            });
        }
        status.jobs = Some(jobs);
        let mut view = ClusterView::from(status);
        view.more_jobs = view.jobs_total > view.jobs.len() as u64;
        Ok(view)
    }

    async fn status_with_jobs(&self, jobs: usize) -> Result<ClusterStatus> {
        let mut status = self.bounded_status().await?;
        let listed = status.jobs.as_ref().map_or(0, Vec::len);
        if listed >= jobs || status.more_jobs != Some(true) {
            return Ok(status);
        }
        // The jobs that the scheduler listed need attention first, so they stay.
        let named = |job: JobStatus| (job.name.clone().unwrap_or_default(), job);
        let listed = status.jobs.take().unwrap_or_default();
        let mut all: BTreeMap<String, JobStatus> = listed.into_iter().map(named).collect();
        let mut after = String::new();
        while all.len() < jobs {
            let page = self.job_status_page(&after).await?;
            let page_jobs = page.jobs.unwrap_or_default();
            let last = page_jobs.last().and_then(|job| job.name.clone());
            all.extend(page_jobs.into_iter().map(named));
            if page.has_more != Some(true) {
                break;
            }
            after = next_page(&after, last)?;
        }
        status.jobs = Some(all.into_values().collect());
        Ok(status)
    }

    /// Fetches the cluster status with the scheduler's default list of jobs.
    pub(crate) async fn bounded_status(&self) -> Result<ClusterStatus> {
        let arguments = BrasserieGetClusterStatusArgs {};
        let result: BrasserieGetClusterStatusResult =
            self.ask("getClusterStatus", &arguments).await?;
        result.result_value.context("the scheduler sent no status")
    }

    async fn job_status_page(&self, after: &str) -> Result<JobStatusPage> {
        let after = after.to_owned();
        let arguments = BrasserieGetJobStatusPageArgs { after, limit: 0 };
        let result: BrasserieGetJobStatusPageResult =
            self.ask("getJobStatusPage", &arguments).await?;
        result.result_value.context("the scheduler sent no jobs")
    }

    /// Fetches all jobs page by page, sorted by name.
    pub(crate) async fn jobs(&self) -> Result<Vec<BistroJobConfig>> {
        let mut jobs: Vec<BistroJobConfig> = Vec::new();
        let mut after = String::new();
        loop {
            let arguments = BrasserieGetJobPageArgs { after, limit: 0 };
            let result: BrasserieGetJobPageResult = self.ask("getJobPage", &arguments).await?;
            let page = result.result_value.context("the scheduler sent no jobs")?;
            jobs.extend(page.jobs.unwrap_or_default());
            if !page.has_more.unwrap_or_default() {
                return Ok(jobs);
            }
            after = next_page(
                &arguments.after,
                jobs.last().and_then(|job| job.name.clone()),
            )?;
        }
    }

    pub(crate) async fn job_status(&self, job: &str) -> Result<JobStatus> {
        let job = job.to_owned();
        let arguments = BrasserieGetJobStatusArgs { job };
        let result: BrasserieGetJobStatusResult = self.ask("getJobStatus", &arguments).await?;
        self.check_known(result.ex)?;
        result.result_value.context("the scheduler sent no status")
    }

    /// Fetches one page of the tasks of one job or of all. `after` is the cursor of the page before.
    pub(crate) async fn task_page(
        &self,
        job: Option<&str>,
        states: &[String],
        after: Option<TaskCursor>,
        limit: usize,
    ) -> Result<TaskPage> {
        let arguments = BrasserieGetTaskPageArgs {
            job: job.unwrap_or_default().to_owned(),
            states: states.to_vec(),
            after,
            limit: i32::try_from(limit).unwrap_or(i32::MAX),
        };
        let result: BrasserieGetTaskPageResult = self.ask("getTaskPage", &arguments).await?;
        self.check_known(result.ex)?;
        result.result_value.context("the scheduler sent no tasks")
    }

    pub(crate) async fn kill_task(&self, job: &str, node: &str) -> Result<ChangeOutcome<TaskKill>> {
        let arguments = BrasserieKillTaskArgs {
            job: job.to_owned(),
            node: node.to_owned(),
        };
        let result: BrasserieKillTaskResult = self.ask("killTask", &arguments).await?;
        let killed = result.result_value.unwrap_or_default();
        Ok(self.outcome(killed, result.ex))
    }

    pub(crate) async fn explain(&self, job: &str, node: &str) -> Result<Vec<String>> {
        let arguments = BrasserieExplainTaskArgs {
            job: job.to_owned(),
            node: node.to_owned(),
        };
        let result: BrasserieExplainTaskResult = self.ask("explainTask", &arguments).await?;
        self.check_known(result.ex)?;
        result.result_value.context("the scheduler sent no reasons")
    }

    /// Fetches the story of the task's last run, if it is kept.
    pub(crate) async fn last_run(&self, job: &str, node: &str) -> Result<Option<LastRun>> {
        let arguments = BrasserieGetTaskHistoryArgs {
            job: job.to_owned(),
            node: node.to_owned(),
        };
        let result: BrasserieGetTaskHistoryResult = self.ask("getTaskHistory", &arguments).await?;
        Ok(result.result_value.unwrap_or_default().pop())
    }

    /// Fetches the plan for the text of a config file.
    pub(crate) async fn plan_config(&self, arguments: &BrasseriePlanConfigArgs) -> Result<Plan> {
        let result: BrasseriePlanConfigResult = self.ask("planConfig", arguments).await?;
        match result.ex {
            Some(refused) => bail!(
                "the scheduler made no plan: {}",
                self.with_own_flag(refused.message)
            ),
            None => result.result_value.context("the scheduler sent no plan"),
        }
    }

    async fn ask<A: TSerializable, R: TSerializable + Send>(
        &self,
        method: &'static str,
        arguments: &A,
    ) -> Result<R> {
        let call = self.pool.call(&self.peer, method, arguments);
        match call.await.into_result() {
            Ok(result) => Ok(result),
            Err(CallError::NotSent(NotSent::ConnectionLost(_))) if self.needs_no_token().await => {
                Err(needless_token(self.peer.as_str()).into())
            }
            Err(error) => Err(self.unreachable(error)),
        }
    }

    /// Makes a call again as long as the scheduler has no place for it, within [`BUSY_LIMIT`].
    async fn ask_until_served<A: TSerializable, R: TSerializable + Send>(
        &self,
        method: &'static str,
        arguments: &A,
    ) -> Result<R> {
        let (begun, mut pause) = (Instant::now(), FIRST_PAUSE);
        loop {
            match self.ask(method, arguments).await {
                Err(error) if is_busy(&error) && begun.elapsed() + pause < BUSY_LIMIT => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LAST_PAUSE);
                }
                ended => return ended,
            }
        }
    }

    /// Returns whether the caller shows a token to an address other than a loopback one.
    fn shows_token_to_other_machine(&self) -> bool {
        let is_near = is_plain_allowed(&self.peer, NetworkExposure::LoopbackOnly);
        matches!(self.proof, Proof::Token(_)) && !is_near
    }

    /// Returns whether the caller shows a token to a scheduler of this machine that says in plain text that it has no authority. Such a
    /// scheduler closes connections of TLS. The answer of another machine in plain text would prove nothing.
    async fn needs_no_token(&self) -> bool {
        let address = self.peer.as_str();
        let Proof::Token(_) = &self.proof else {
            return false;
        };
        match Connection::new(address) {
            Ok(plain) => has_no_authority(&plain.peer, CallTimeouts::DEFAULT).await,
            Err(_) => false,
        }
    }

    pub(crate) async fn submit_job(
        &self,
        job: &str,
        text: &str,
        expected_version: i64,
    ) -> Result<ChangeOutcome<SubmittedJob>> {
        let arguments = BrasserieSubmitJobArgs {
            job: job.to_owned(),
            text: text.to_owned(),
            expected_version,
        };
        let result: BrasserieSubmitJobResult = self.ask("submitJob", &arguments).await?;
        let submitted = result.result_value.unwrap_or_default();
        Ok(self.outcome(submitted, result.ex))
    }

    pub(crate) async fn remove_job(
        &self,
        job: &str,
        expected_version: i64,
    ) -> Result<ChangeOutcome<()>> {
        let arguments = BrasserieRemoveJobArgs {
            job: job.to_owned(),
            expected_version,
        };
        let result: BrasserieRemoveJobResult = self.ask("removeJob", &arguments).await?;
        Ok(self.outcome((), result.ex))
    }

    pub(crate) async fn pause_job(&self, job: &str) -> Result<ChangeOutcome<()>> {
        let job = job.to_owned();
        let arguments = BrasseriePauseJobArgs { job };
        let result: BrasseriePauseJobResult = self.ask("pauseJob", &arguments).await?;
        Ok(self.outcome((), result.ex))
    }

    /// Cancels the job. Returns the number of its running tasks.
    pub(crate) async fn cancel_job(&self, job: &str) -> Result<ChangeOutcome<i64>> {
        let job = job.to_owned();
        let arguments = BrasserieCancelJobArgs { job };
        let result: BrasserieCancelJobResult = self.ask("cancelJob", &arguments).await?;
        let running = result.result_value.unwrap_or_default();
        Ok(self.outcome(running, result.ex))
    }

    pub(crate) async fn resume_job(&self, job: &str) -> Result<ChangeOutcome<()>> {
        let job = job.to_owned();
        let arguments = BrasserieResumeJobArgs { job };
        let result: BrasserieResumeJobResult = self.ask("resumeJob", &arguments).await?;
        Ok(self.outcome((), result.ex))
    }

    /// Forgives failures of a job's tasks. Returns the number of tasks whose status has changed.
    pub(crate) async fn forgive_tasks(
        &self,
        job: &str,
        whom: Forgiven,
    ) -> Result<ChangeOutcome<i64>> {
        let arguments = BrasserieForgiveTasksArgs {
            job: job.to_owned(),
            failed_only: whom == Forgiven::Failed,
        };
        let result: BrasserieForgiveTasksResult = self.ask("forgiveTasks", &arguments).await?;
        Ok(self.outcome(result.result_value.unwrap_or_default(), result.ex))
    }

    /// Deletes the history of the job on these nodes, or on all nodes if the list is empty.
    pub(crate) async fn delete_history(
        &self,
        job: &str,
        nodes: &[String],
    ) -> Result<ChangeOutcome<DeletedHistory>> {
        let arguments = BrasserieDeleteHistoryArgs {
            job: job.to_owned(),
            nodes: nodes.to_vec(),
        };
        let result: BrasserieDeleteHistoryResult = self.ask("deleteHistory", &arguments).await?;
        let deleted = result.result_value.unwrap_or_default();
        Ok(self.outcome(deleted, result.ex))
    }

    /// Fetches one page of outputs: of all jobs, of one job, or of one task. `after` is the cursor of the page before.
    pub(crate) async fn output_page(
        &self,
        (job, node): (&str, &str),
        after: Option<OutputCursor>,
        limit: usize,
    ) -> Result<OutputPage> {
        let arguments = BrasserieGetOutputPageArgs {
            job: job.to_owned(),
            node: node.to_owned(),
            after,
            limit: i32::try_from(limit).unwrap_or(i32::MAX),
        };
        let result: BrasserieGetOutputPageResult = self.ask("getOutputPage", &arguments).await?;
        let known = self.check_known(result.ex);
        known.map_err(|unknown| unknown.of_job(job))?;
        result.result_value.context("the scheduler sent no outputs")
    }

    /// Forgets the outputs of the job on these nodes, or on all nodes if the list is empty.
    pub(crate) async fn forget_outputs(
        &self,
        job: &str,
        nodes: &[String],
        needed: NeededOutputs,
    ) -> Result<ChangeOutcome<ForgottenOutputs>> {
        let arguments = BrasserieForgetOutputsArgs {
            job: job.to_owned(),
            nodes: nodes.to_vec(),
            force: needed == NeededOutputs::Forget,
        };
        let result: BrasserieForgetOutputsResult = self.ask("forgetOutputs", &arguments).await?;
        let forgotten = result.result_value.unwrap_or_default();
        Ok(self.outcome(forgotten, result.ex))
    }

    /// Holds the outputs of a job for the next minutes, or releases them. `hold` is a random number of the caller. Returns whether the
    /// outputs stay.
    pub(crate) async fn hold_outputs(
        &self,
        job: &str,
        hold: i64,
        release: bool,
    ) -> Result<ChangeOutcome<bool>> {
        let arguments = BrasserieHoldOutputsArgs {
            job: job.to_owned(),
            release,
            hold: Some(hold),
        };
        let result: BrasserieHoldOutputsResult = self.ask("holdOutputs", &arguments).await?;
        let held = result.result_value.unwrap_or_default();
        Ok(self.outcome(held, result.ex))
    }

    /// Fetches one page of the files that jobs may name as inputs: all, or only the one with this name if it is not empty.
    pub(crate) async fn file_page(&self, name: &str, after: &str) -> Result<FilePage> {
        let arguments = BrasserieGetFilePageArgs {
            name: name.to_owned(),
            after: after.to_owned(),
            limit: 0,
        };
        let result: BrasserieGetFilePageResult = self.ask("getFilePage", &arguments).await?;
        result.result_value.context("the scheduler sent no files")
    }

    /// Sends a piece of a file. The inner error is the refusal.
    pub(crate) async fn put_file(
        &self,
        arguments: &BrasseriePutFileArgs,
    ) -> Result<Result<FileUpload, FileRefusedException>> {
        let result: BrasseriePutFileResult = self.ask("putFile", arguments).await?;
        match (result.ex, result.result_value) {
            (Some(refused), _) => Ok(Err(FileRefusedException {
                message: Some(self.with_own_flag(refused.message)),
                ..refused
            })),
            (None, Some(progress)) => Ok(Ok(progress)),
            (None, None) => bail!("the scheduler sent no answer to a piece of the file"),
        }
    }

    /// Removes an uploaded file. The inner error says why the scheduler has refused.
    pub(crate) async fn remove_file(&self, name: &str, force: bool) -> Result<Result<(), String>> {
        let name = name.to_owned();
        let arguments = BrasserieRemoveFileArgs { name, force };
        let result: BrasserieRemoveFileResult = self.ask("removeFile", &arguments).await?;
        Ok(match result.ex {
            Some(refused) => Err(self.with_own_flag(refused.message)),
            None => Ok(()),
        })
    }

    /// Declares these instances dead. If the list is empty, returns the instances that may be declared dead, and changes nothing.
    pub(crate) async fn forget_worker(
        &self,
        shard: &str,
        instances: Vec<BistroInstanceID>,
    ) -> Result<Result<Vec<MissingInstance>, String>> {
        let shard = shard.to_owned();
        let arguments = BrasserieForgetWorkerArgs { shard, instances };
        let result: BrasserieForgetWorkerResult = self.ask("forgetWorker", &arguments).await?;
        Ok(match result.ex {
            Some(refused) => Err(self.with_own_flag(refused.message)),
            None => Ok(result.result_value.unwrap_or_default()),
        })
    }

    /// Gives an order about a worker. Returns the order in force.
    pub(crate) async fn order_worker(
        &self,
        shard: &str,
        order: WorkerOrderRequest,
    ) -> Result<Result<OrderView, String>> {
        let shard = shard.to_owned();
        let arguments = BrasserieOrderWorkerArgs { shard, order };
        let result: BrasserieOrderWorkerResult = self.ask("orderWorker", &arguments).await?;
        Ok(match result.ex {
            Some(refused) => Err(self.with_own_flag(refused.message)),
            None => Ok(result.result_value.unwrap_or_default().into()),
        })
    }

    pub(crate) async fn logs(&self, request: &LogRequest) -> Result<LogLines> {
        let arguments = BistroSchedulerGetJobLogsByIDArgs {
            logtype: request.stream.as_str().to_owned(),
            job_id: request.job.clone(),
            node_id: request.node.clone(),
            line_id: request.from,
            is_ascending: request.ascending,
            regex_filter: request.regex.clone(),
            invocation: request.invocation.map(Into::into),
        };
        let result: BistroSchedulerGetJobLogsByIDResult =
            self.ask("getJobLogsByID", &arguments).await?;
        result.result_value.context("the scheduler sent no lines")
    }
}

/// Creates the failure for a token that is shown to a scheduler without an authority.
fn needless_token(peer: &str) -> Failure {
    Failure::refused(format!(
        "the scheduler at {peer} has no authority, so it can check no token and needs none"
    ))
    .remedy(
        "Leave the token out: --token-file, BRASSERIE_TOKEN, or that of the context. Or name another scheduler: --scheduler HOST:PORT",
    )
}

/// Returns whether the scheduler had no place for a call.
fn is_busy(error: &anyhow::Error) -> bool {
    error.to_string().contains(LACK_OF_ROOM)
}

/// Returns the failure for a local socket that this user may not use; `None` if the address is another one.
fn forbidden_socket(peer: &str) -> Option<Failure> {
    let path = socket_path(peer)?;
    let error = UnixStream::connect(path).err()?;
    if error.kind() != io::ErrorKind::PermissionDenied {
        return None;
    }
    let message = format!("this user may not call the scheduler at its local socket {peer}");
    let remedy = "Or call the scheduler by HOST:PORT with a token of your own: --scheduler HOST:PORT --token-file FILE";
    Some(Failure::refused(message).remedy(format!("{}. {remedy}", access::owner_remedy(path))))
}

/// Returns the cursor of the page after the one that ends with `last`. Errors if the page did not advance.
fn next_page(after: &str, last: Option<String>) -> Result<String> {
    let last = last.unwrap_or_default();
    if last.as_str() <= after {
        bail!("the scheduler reports more jobs, but sent none");
    }
    Ok(last)
}

/// Returns the first address at which a program listens, or else the first one.
fn reachable(addresses: &[String]) -> &str {
    let first = addresses.first().map_or("", String::as_str);
    let listens = |address: &&String| {
        let found = address.to_socket_addrs().into_iter().flatten();
        let mut found = found.map(|at| TcpStream::connect_timeout(&at, PROBE_TIMEOUT));
        found.any(|connected| connected.is_ok())
    };
    match addresses.len() {
        0 | 1 => first,
        _ => addresses.iter().find(listens).map_or(first, String::as_str),
    }
}

/// Returns the id of a run in the form that `logs --invocation` accepts.
pub(crate) fn run_id(invocation: Option<BistroInstanceID>) -> Option<String> {
    let id = InvocationId::try_from(invocation?).ok()?;
    Some(id.to_string())
}

/// Runs a future on the runtime of the program. All futures share it, as the connections that one has opened serve the next. Nothing ends
/// the runtime, so that no thread which still waits for a resolver, a disk or a terminal keeps the program alive.
pub(crate) fn block_on<F: Future>(future: F) -> Result<F::Output> {
    static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(Runtime::new);
    match &*RUNTIME {
        Ok(runtime) => Ok(runtime.block_on(future)),
        Err(error) => bail!("cannot start the runtime that waits for the network: {error}"),
    }
}

/// Returns what to do about a scheduler that cannot be asked for this reason.
fn remedy_of_unreachable(why: &str) -> &'static str {
    match why.contains("NoApplicationProtocol") {
        true => {
            "This may be the port of the scheduler's page, which is for browsers. Commands call the port that the scheduler was given with --listen: \
             `--scheduler HOST:PORT` names it"
        }
        false => "Is one running there? `--scheduler HOST:PORT` names another",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_need_host_and_port() {
        for bad in ["", "host", "host:", ":1", "host:99999", "host:x", "host:0"] {
            let error = Connection::new(bad).err().map(|e| e.to_string());
            assert!(error.is_some_and(|e| e.contains("HOST:PORT")), "{bad}");
        }
    }

    #[test]
    fn another_machine_is_not_called_in_plain_text() {
        let error = Connection::new("192.0.2.1:6789").err().expect("refused");
        let text = crate::failure::text_of(&error);
        assert!(
            text.contains("plain text") && text.contains("--insecure-network"),
            "{text}"
        );
    }

    #[test]
    fn of_several_schedulers_the_first_that_listens_is_called() {
        let listens = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addresses = [&closed, &listens].map(|at| at.local_addr().unwrap().to_string());
        drop(closed);
        assert_eq!(reachable(&addresses), addresses[1]);
        assert_eq!(reachable(&addresses[..1]), addresses[0]);
    }

    #[test]
    fn the_port_of_the_page_has_its_own_remedy() {
        let alert = "received fatal alert: NoApplicationProtocol";
        assert!(remedy_of_unreachable(alert).contains("--listen"));
        assert!(remedy_of_unreachable("connection refused").contains("Is one running there?"));
    }

    #[tokio::test]
    async fn an_unreachable_scheduler_is_reported_with_a_remedy() {
        let free = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let connection = Connection::new(&free.to_string()).unwrap();
        let error = connection.cluster_status().await.unwrap_err();
        let text = crate::failure::text_of(&error);
        assert!(text.contains("Is one running there?"), "{text}");
    }
}
