//! The descriptions of workers, worker sets, and the answer to a heartbeat.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use brasserie_common::story::{MAX_TEXT_BYTES, cut as cut_bytes};
use brasserie_common::worker::{DrainTerms, HeartbeatResponse, Intake, Supply, TaskRoom};
use brasserie_common::worker_set::SetHash;
use brasserie_common::{
    Health, MachinePortLock, ServiceAddress, SetDigest, Standing, WorkReply, WorkerDescription,
    WorkerSetHash, WorkerSetId,
};

use super::{
    FieldProblem, WireError, defaulted, host, not_negative, parse_name, required, saturating_i32,
    saturating_i64, work,
};
use crate::generated::brasserie;
use crate::generated::common as wire;

impl TryFrom<brasserie::DrainTerms> for DrainTerms {
    type Error = WireError;

    fn try_from(terms: brasserie::DrainTerms) -> Result<Self, WireError> {
        let millis = terms.deadline_ms;
        let millis = millis.map(|ms| not_negative("DrainTerms.deadlineMs", ms));
        Ok(DrainTerms {
            deadline: millis.transpose()?.map(Duration::from_millis),
            reason: terms.reason.unwrap_or_default().into(),
        })
    }
}

impl From<DrainTerms> for brasserie::DrainTerms {
    fn from(terms: DrainTerms) -> Self {
        brasserie::DrainTerms {
            deadline_ms: terms.deadline.map(|left| saturating_i64(left.as_millis())),
            reason: Some(terms.reason.as_ref().to_owned()).filter(|reason| !reason.is_empty()),
        }
    }
}

impl TryFrom<wire::MachinePortLock> for MachinePortLock {
    type Error = WireError;

    fn try_from(lock: wire::MachinePortLock) -> Result<Self, WireError> {
        Ok(MachinePortLock {
            hostname: host(
                "MachinePortLock.hostname",
                lock.hostname.unwrap_or_default(),
            )?,
            port: lock.port.unwrap_or(0),
        })
    }
}

impl From<MachinePortLock> for wire::MachinePortLock {
    fn from(lock: MachinePortLock) -> Self {
        wire::MachinePortLock {
            hostname: Some(lock.hostname.as_ref().to_owned()),
            port: Some(lock.port),
        }
    }
}

impl TryFrom<wire::ServiceAddress> for ServiceAddress {
    type Error = WireError;

    fn try_from(address: wire::ServiceAddress) -> Result<Self, WireError> {
        let host = host(
            "ServiceAddress.ip_or_host",
            address.ip_or_host.unwrap_or_default(),
        )?;
        if host.is_empty() {
            return Err(WireError::new(
                "ServiceAddress.ip_or_host",
                FieldProblem::Empty,
            ));
        }
        let port = address.port.unwrap_or(0);
        let dialled = u16::try_from(port).ok().filter(|&port| port != 0);
        let port = dialled.ok_or_else(|| {
            WireError::new(
                "ServiceAddress.port",
                FieldProblem::OutOfRange {
                    value: port.into(),
                    allowed: "1 to 65535",
                },
            )
        })?;
        Ok(ServiceAddress { host, port })
    }
}

impl From<ServiceAddress> for wire::ServiceAddress {
    fn from(address: ServiceAddress) -> Self {
        wire::ServiceAddress {
            ip_or_host: Some(address.host.as_ref().to_owned()),
            port: Some(address.port.into()),
        }
    }
}

impl From<wire::SetHash> for SetHash {
    fn from(hash: wire::SetHash) -> Self {
        SetHash {
            add_all: hash.add_all.unwrap_or(0),
            xor_all: hash.xor_all.unwrap_or(0),
        }
    }
}

impl From<SetHash> for wire::SetHash {
    fn from(hash: SetHash) -> Self {
        wire::SetHash {
            add_all: Some(hash.add_all),
            xor_all: Some(hash.xor_all),
        }
    }
}

impl TryFrom<wire::WorkerSetHash> for WorkerSetHash {
    type Error = WireError;

    fn try_from(hash: wire::WorkerSetHash) -> Result<Self, WireError> {
        let num_workers = hash.num_workers.unwrap_or(0);
        not_negative("WorkerSetHash.numWorkers", num_workers.into())?;
        Ok(WorkerSetHash {
            start_time: hash.start_time.map(Into::into).unwrap_or_default(),
            rand: hash.rand.map(Into::into).unwrap_or_default(),
            num_workers,
            digest: hash.digest.map(digest).transpose()?,
        })
    }
}

fn digest(bytes: Vec<u8>) -> Result<SetDigest, WireError> {
    let length = bytes.len();
    let bytes = <[u8; 32]>::try_from(bytes).map_err(|_| {
        WireError::new(
            "WorkerSetHash.digest",
            FieldProblem::Length {
                length,
                allowed: 32,
            },
        )
    })?;
    Ok(SetDigest::from_be_bytes(bytes))
}

impl From<WorkerSetHash> for wire::WorkerSetHash {
    fn from(hash: WorkerSetHash) -> Self {
        wire::WorkerSetHash {
            start_time: Some(hash.start_time.into()),
            rand: Some(hash.rand.into()),
            num_workers: Some(hash.num_workers),
            digest: hash.digest.map(|digest| digest.to_be_bytes().to_vec()),
        }
    }
}

impl TryFrom<wire::WorkerSetID> for WorkerSetId {
    type Error = WireError;

    fn try_from(set: wire::WorkerSetID) -> Result<Self, WireError> {
        Ok(WorkerSetId {
            // A worker has no set before its first answer, and sends zeros or nothing.
            scheduler: defaulted("WorkerSetID.schedulerID", set.scheduler_id)?,
            version: set.version.unwrap_or(0),
            hash: defaulted("WorkerSetID.hash", set.hash)?,
            standing: match set.settled {
                Some(true) => Standing::Settled,
                Some(false) | None => Standing::Unsettled,
            },
        })
    }
}

impl From<WorkerSetId> for wire::WorkerSetID {
    fn from(set: WorkerSetId) -> Self {
        wire::WorkerSetID {
            scheduler_id: Some(set.scheduler.into()),
            version: Some(set.version),
            hash: Some(set.hash.into()),
            settled: match set.standing {
                Standing::Settled => Some(true),
                Standing::Unsettled => None,
            },
        }
    }
}

impl TryFrom<wire::BistroWorker> for WorkerDescription {
    type Error = WireError;

    fn try_from(worker: wire::BistroWorker) -> Result<Self, WireError> {
        Ok(WorkerDescription {
            shard: parse_name("BistroWorker.shard", worker.shard.unwrap_or_default())?,
            machine_lock: required("BistroWorker.machineLock", worker.machine_lock)?,
            address: required("BistroWorker.addr", worker.addr)?,
            id: required("BistroWorker.id", worker.id)?,
            heartbeat_period: seconds(
                "BistroWorker.heartbeatPeriodSec",
                worker.heartbeat_period_sec,
            )?,
            protocol_version: worker.protocol_version.unwrap_or(0),
            usable: defaulted("BistroWorker.usableResources", worker.usable_resources)?,
            has_worker_command: worker.has_worker_command.unwrap_or(true),
            intake: match worker.draining {
                Some(true) => Intake::Draining,
                Some(false) | None => Intake::Open,
            },
            supply: match worker.asks_for_work {
                Some(true) => Supply::AsAsked,
                Some(false) | None => Supply::AsSlotsAllow,
            },
            room: room(worker.max_tasks, worker.limited_by)?,
            containment: worker
                .containment
                .filter(|text| !text.is_empty())
                .map(|text| cut(&text)),
            log_folder: worker
                .log_folder
                .filter(|path| path.starts_with('/') && path.len() <= MAX_PATH_BYTES)
                .map(Into::into),
            takes_standby: worker.takes_standby.unwrap_or(false),
        })
    }
}

impl From<WorkerDescription> for wire::BistroWorker {
    fn from(worker: WorkerDescription) -> Self {
        wire::BistroWorker {
            shard: Some(worker.shard.into()),
            machine_lock: Some(worker.machine_lock.into()),
            addr: Some(worker.address.into()),
            id: Some(worker.id.into()),
            // Rounded up. A scheduler that expects heartbeats too early would count the worker as lost before it ends itself.
            heartbeat_period_sec: Some(seconds_up(worker.heartbeat_period)),
            protocol_version: Some(worker.protocol_version),
            usable_resources: Some(worker.usable.into()),
            has_worker_command: Some(worker.has_worker_command),
            // The sender sets this if its heartbeat requests work.
            work_request: None,
            // The sender sets this in the last heartbeat of an instance.
            tasks_are_dead: None,
            draining: match worker.intake {
                Intake::Draining => Some(true),
                Intake::Open => None,
            },
            asks_for_work: match worker.supply {
                Supply::AsAsked => Some(true),
                Supply::AsSlotsAllow => None,
            },
            max_tasks: worker
                .room
                .as_ref()
                .map(|room| saturating_i32(room.most.get())),
            limited_by: worker
                .room
                .map(|room| room.limited_by.as_ref().to_owned())
                .filter(|text| !text.is_empty()),
            containment: worker.containment.map(|text| text.as_ref().to_owned()),
            log_folder: worker.log_folder.map(|path| path.as_ref().to_owned()),
            takes_standby: Some(worker.takes_standby).filter(|takes| *takes),
        }
    }
}

/// The maximum path length of Linux.
const MAX_PATH_BYTES: usize = 4096;
/// Longer texts are cut, because only people read them.
const LONGEST_TEXT_CHARS: usize = 200;

fn cut(text: &str) -> Arc<str> {
    let text: String = text.chars().take(LONGEST_TEXT_CHARS).collect();
    text.into()
}

/// Shortens a scheduler's reason for the death of a worker: a sentence with a few names and times.
pub fn reason(text: &str) -> Arc<str> {
    cut_bytes(text, MAX_TEXT_BYTES).into()
}

fn room(most: Option<i32>, limited_by: Option<String>) -> Result<Option<TaskRoom>, WireError> {
    let Some(most) = most else {
        return Ok(None);
    };
    let count = u32::try_from(most).ok().and_then(NonZeroU32::new);
    let Some(count) = count else {
        let problem = FieldProblem::OutOfRange {
            value: most.into(),
            allowed: "1 or more",
        };
        return Err(WireError::new("BistroWorker.maxTasks", problem));
    };
    let limit = limited_by.unwrap_or_default();
    Ok(Some(TaskRoom {
        most: count,
        limited_by: cut(&limit),
    }))
}

impl TryFrom<wire::SchedulerHeartbeatResponse> for HeartbeatResponse {
    type Error = WireError;

    fn try_from(response: wire::SchedulerHeartbeatResponse) -> Result<Self, WireError> {
        let state = response.worker_state.unwrap_or(0);
        let worker_state = Health::from_wire(state).ok_or_else(|| {
            WireError::new(
                "SchedulerHeartbeatResponse.workerState",
                FieldProblem::OutOfRange {
                    value: state.into(),
                    allowed: "0 (NEW), 1 (HEALTHY), 2 (UNHEALTHY) or 3 (MUST_DIE)",
                },
            )
        })?;
        Ok(HeartbeatResponse {
            scheduler: required("SchedulerHeartbeatResponse.id", response.id)?,
            max_healthcheck_gap: seconds(
                "SchedulerHeartbeatResponse.maxHealthcheckGap",
                response.max_healthcheck_gap,
            )?,
            heartbeat_grace_period: seconds(
                "SchedulerHeartbeatResponse.heartbeatGracePeriod",
                response.heartbeat_grace_period,
            )?,
            lose_unhealthy_worker_after: seconds(
                "SchedulerHeartbeatResponse.loseUnhealthyWorkerAfter",
                response.lose_unhealthy_worker_after,
            )?,
            worker_check_interval: seconds(
                "SchedulerHeartbeatResponse.workerCheckInterval",
                response.worker_check_interval,
            )?,
            worker_state,
            not_healthy_for: response
                .not_healthy_for_ms
                .map(|ms| not_negative("SchedulerHeartbeatResponse.notHealthyForMs", ms))
                .transpose()?
                .map(Duration::from_millis),
            protocol_version: response.protocol_version.unwrap_or(0),
            worker_set: defaulted(
                "SchedulerHeartbeatResponse.workerSetID",
                response.worker_set_id,
            )?,
            why_must_die: response.why_must_die.map(|why| reason(&why)),
            // An invalid work verdict counts as absent, so that the answer itself is not lost.
            work: response
                .work_verdict
                .and_then(|reply| WorkReply::try_from(reply).ok())
                .map(Box::new),
            request_delay: response.request_delay_sec.and_then(|seconds| {
                work::span("SchedulerHeartbeatResponse.requestDelaySec", Some(seconds)).ok()
            }),
            uses_artifacts: response.uses_artifacts.unwrap_or(false),
        })
    }
}

impl From<HeartbeatResponse> for wire::SchedulerHeartbeatResponse {
    fn from(response: HeartbeatResponse) -> Self {
        // Limits are rounded down, and subtracted times up, because the worker must end first.
        wire::SchedulerHeartbeatResponse {
            id: Some(response.scheduler.into()),
            max_healthcheck_gap: Some(seconds_down(response.max_healthcheck_gap)),
            heartbeat_grace_period: Some(seconds_down(response.heartbeat_grace_period)),
            lose_unhealthy_worker_after: Some(seconds_down(response.lose_unhealthy_worker_after)),
            worker_check_interval: Some(seconds_up(response.worker_check_interval)),
            worker_state: Some(response.worker_state.to_wire()),
            protocol_version: Some(response.protocol_version),
            worker_set_id: Some(response.worker_set.into()),
            work_verdict: response.work.map(|reply| (*reply).into()),
            request_delay_sec: response
                .request_delay
                .map(|delay| delay.as_secs_f64().into()),
            not_healthy_for_ms: response.not_healthy_for.map(millis_up),
            why_must_die: response.why_must_die.map(|why| why.to_string()),
            uses_artifacts: response.uses_artifacts.then_some(true),
        }
    }
}

fn seconds(path: &str, value: Option<i32>) -> Result<Duration, WireError> {
    not_negative(path, value.unwrap_or(0).into()).map(Duration::from_secs)
}

fn seconds_down(duration: Duration) -> i32 {
    saturating_i32(duration.as_secs())
}

fn millis_up(duration: Duration) -> i64 {
    saturating_i64(duration.as_nanos().div_ceil(1_000_000))
}

fn seconds_up(duration: Duration) -> i32 {
    saturating_i32(
        duration
            .as_secs()
            .saturating_add(u64::from(duration.subsec_nanos() > 0)),
    )
}
