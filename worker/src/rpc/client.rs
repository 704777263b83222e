//! Makes the worker's calls to its scheduler, and reports their outcomes.

use std::sync::Arc;
use std::time::Duration;

use brasserie_common::{CallOutcome, ServiceAddress};
use brasserie_common_runtime::NetworkExposure;
use brasserie_thrift::convert::parse;
use brasserie_thrift::generated::common::BistroWorker;
use brasserie_thrift::generated::scheduler::{
    BistroSchedulerProcessHeartbeatArgs, BistroSchedulerProcessHeartbeatResult,
    BistroSchedulerRequestWorkArgs, BistroSchedulerRequestWorkResult,
};
use brasserie_thrift::rpc::{
    CallResult, CallTimeouts, ClientConfig, ClientPool, ConnectionLosses, Limits, Unknown,
};
use brasserie_worker_core::{Call, CallReply, Goodbye};
use thrift::ApplicationErrorKind;

use crate::member_file::MemberFile;
use crate::membership::Membership;
use crate::options::{SchedulerOptions, check_members};

use super::outcome;
use super::statuses::{Done, Statuses, Telling, status_arguments};

/// The part of a call's deadline beyond the client's own timeouts: the time that the machine may need to schedule a ready task.
const DEADLINE_SLACK: Duration = Duration::from_secs(1);
/// The number of connections that a call tries. It uses the second one if the first was dead before any byte left.
const CONNECTION_ATTEMPTS: u32 = 2;

/// The heartbeat periods for which an unused connection stays open: one period, and one to spare. A worker without tasks makes no calls
/// but heartbeats, and the loss of the connection reveals a scheduler's restart. A scheduler closes unused connections only later.
const IDLE_PERIODS: u32 = 2;
/// The longest idle time of a connection. It is far above the time after which schedulers close unused connections, and far below what
/// clocks can add.
const MAX_IDLE: Duration = Duration::from_secs(24 * 60 * 60);

/// The connections to the members of one scheduler, one to each, and the file that names the members.
pub(crate) struct SchedulerClient {
    pool: ClientPool,
    list: Option<Arc<MemberFile>>,
    statuses: Statuses,
    /// The member that receives `statuses`.
    statuses_to: ServiceAddress,
    membership: Membership,
    /// The addresses that the file may name. A member proves whom it calls.
    exposure: NetworkExposure,
}

impl SchedulerClient {
    pub(crate) fn new(
        scheduler: &SchedulerOptions,
        timeouts: CallTimeouts,
        heartbeat_period: Duration,
        (membership, exposure): (Membership, NetworkExposure),
    ) -> Self {
        let limits = Limits {
            client_idle_timeout: idle_timeout(heartbeat_period),
            ..Limits::DEFAULT
        };
        let pool = ClientPool::new(ClientConfig {
            timeouts,
            limits,
            credentials: membership.credentials(),
            ..ClientConfig::default()
        });
        let list = scheduler.list.clone();
        let statuses_to = scheduler.members.first().cloned().unwrap_or_default();
        SchedulerClient {
            statuses: Statuses::new(pool.clone(), membership.scheduler(&statuses_to)),
            statuses_to,
            list: list.map(|path| Arc::new(MemberFile::new(path))),
            pool,
            exposure: NetworkExposure::of(
                exposure == NetworkExposure::AnyAddress || membership.is_member(),
            ),
            membership,
        }
    }

    /// Returns the connections, for the renewal of the worker's certificate.
    pub(crate) fn renewing(&self) -> ClientPool {
        self.pool.clone()
    }

    /// Returns the time after which no call with these timeouts can still have an outcome.
    pub(crate) fn deadline(timeouts: CallTimeouts) -> Duration {
        (timeouts.connect + timeouts.send) * CONNECTION_ATTEMPTS + timeouts.receive + DEADLINE_SLACK
    }

    /// Returns the stream of lost connections to this member.
    pub(crate) fn losses(&self, member: &ServiceAddress) -> ConnectionLosses {
        self.pool.losses(&self.membership.scheduler(member))
    }

    /// Directs statuses to this member from now on.
    pub(crate) fn tells(&mut self, member: &ServiceAddress) {
        if self.statuses_to != *member {
            self.statuses = self.statuses.at(self.membership.scheduler(member));
            self.statuses_to = member.clone();
        }
    }

    /// Makes the call and passes its outcome to `done` on a task of the runtime. A heartbeat goes to `member`. The result of reading the
    /// member file arrives on a thread of its own. No method declares an exception, so no outcome is a refusal.
    pub(crate) fn call(&self, member: &ServiceAddress, call: Call, done: Done) {
        let pool = &self.pool;
        match call {
            Call::Heartbeat {
                worker,
                worker_set,
                goodbye,
            } => {
                let w = BistroWorker {
                    tasks_are_dead: match goodbye {
                        Goodbye::No => None,
                        Goodbye::TasksAreDead => Some(true),
                    },
                    ..BistroWorker::from(*worker)
                };
                let worker_set_id = worker_set.into();
                let arguments = BistroSchedulerProcessHeartbeatArgs { w, worker_set_id };
                let peer = self.membership.scheduler(member);
                let membership = self.membership.clone();
                pool.call_then(&peer, "processHeartbeat", &arguments, move |result| {
                    let remedy = membership.remedy(&result);
                    done(explained(outcome(result, heartbeat_reply), remedy));
                });
            }
            Call::RequestWork { to, request } => {
                let request = (*request).into();
                let arguments = BistroSchedulerRequestWorkArgs { request };
                let peer = self.membership.scheduler(&to);
                pool.call_then(&peer, "requestWork", &arguments, |result| {
                    done(match is_unknown_call(&result) {
                        true => CallOutcome::Done(CallReply::NoSuchCall),
                        false => outcome(result, work_reply),
                    });
                });
            }
            Call::UpdateStatus {
                task,
                status,
                scheduler: instance,
                worker,
                goes: _,
            } => {
                let arguments = status_arguments(&task, &status, instance, worker);
                self.statuses.tell(Telling { arguments, done });
            }
            Call::ReadMembers => self.read_members(done),
        }
    }

    /// Reads the member file on another thread, as disks may be slow. A worker that ends does not wait for the outcome.
    fn read_members(&self, done: Done) {
        let Some(list) = &self.list else {
            return done(CallOutcome::NotSent("no file names them".to_owned()));
        };
        let exposure = self.exposure;
        list.read_again(Box::new(move |read| {
            done(match read {
                Ok(members) => match check_members(&members, exposure) {
                    Ok(()) => CallOutcome::Done(CallReply::Members(members)),
                    Err(error) => {
                        tracing::warn!("the known addresses of the scheduler stay in use: {error}");
                        CallOutcome::NotSent(error.to_string())
                    }
                },
                Err(error) => CallOutcome::NotSent(error.to_string()),
            });
        }));
    }

    /// Sends several statuses together, and passes each outcome to its `done`.
    pub(crate) fn tell_all(&self, statuses: Vec<Telling>) {
        self.statuses.tell_all(statuses);
    }
}

/// Completes the reason of a failed call with a remedy.
fn explained<T>(outcome: CallOutcome<T>, remedy: Option<String>) -> CallOutcome<T> {
    let with = |text: String| match &remedy {
        Some(remedy) => format!("{text}. {remedy}"),
        None => text,
    };
    match outcome {
        CallOutcome::NotSent(text) => CallOutcome::NotSent(with(text)),
        CallOutcome::Unknown(text) => CallOutcome::Unknown(with(text)),
        done @ (CallOutcome::Done(_) | CallOutcome::Refused(..)) => done,
    }
}

fn heartbeat_reply(result: BistroSchedulerProcessHeartbeatResult) -> Result<CallReply, String> {
    let response = result
        .result_value
        .ok_or("the answer to the heartbeat is empty")?;
    let response = parse("processHeartbeat", response).map_err(|e| e.to_string())?;
    Ok(CallReply::Heartbeat(Box::new(response)))
}

fn work_reply(result: BistroSchedulerRequestWorkResult) -> Result<CallReply, String> {
    let reply = result
        .result_value
        .ok_or("the answer to the request for work is empty")?;
    let reply = parse("requestWork", reply).map_err(|e| e.to_string())?;
    Ok(CallReply::Work(Box::new(reply)))
}

/// Returns whether the scheduler answered that it does not know the method.
fn is_unknown_call<R>(result: &CallResult<R>) -> bool {
    match result {
        CallResult::Unknown(Unknown::Exception { kind, .. }) => {
            *kind == ApplicationErrorKind::UnknownMethod
        }
        CallResult::Done(_) | CallResult::NotSent(_) | CallResult::Unknown(_) => false,
    }
}

fn idle_timeout(heartbeat_period: Duration) -> Duration {
    let wanted = heartbeat_period.saturating_mul(IDLE_PERIODS);
    wanted.clamp(Limits::DEFAULT.client_idle_timeout, MAX_IDLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_stays_open_between_heartbeats() {
        let usual = Limits::DEFAULT.client_idle_timeout;
        for (period, idle) in [
            (Duration::from_secs(15), usual),
            (usual, usual * 2),
            (Duration::MAX, MAX_IDLE),
        ] {
            assert_eq!(idle_timeout(period), idle, "{period:?}");
        }
    }
}
