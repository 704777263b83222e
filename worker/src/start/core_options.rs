//! Builds the worker core's options: the worker's identity for each scheduler, its address, and the machine's resources.

use std::net::SocketAddr;
use std::{io, iter};

use brasserie_common::resources::UsablePhysicalResources;
use brasserie_common::worker::{Intake, PROTOCOL_VERSION, Supply};
use brasserie_common::{ServiceAddress, WorkerDescription, WorkerId};
use brasserie_common_runtime::Clock;
use brasserie_worker_core::{AssociationOptions, MemberList, Options, WorkFetch};

use super::{StartError, blocking};
use crate::containment::Containment;
use crate::directory::WorkerDirectory;
use crate::memory;
use crate::options::{SchedulerOptions, StartOptions};
use crate::room::TaskCountLimits;
use crate::rpc::SchedulerClient;

/// Returns the core's options, with an instance for each scheduler.
pub(super) async fn core_options(
    options: &StartOptions,
    directory: &WorkerDirectory,
    address: SocketAddr,
    usable: UsablePhysicalResources,
) -> Result<Options, StartError> {
    let others = options.schedulers.len() - 1;
    let instances = directory.instances();
    let called = options.schedulers.iter().map(SchedulerOptions::called);
    let called: Vec<String> = called.collect();
    let own = move || {
        let further = (0..others).map(|_| instances.next());
        let further = further.collect::<Result<Vec<_>, _>>()?;
        Ok((further, instances.lock_places(&called)?))
    };
    let (further, locks) = blocking(own).await?;
    let identity = directory.identity();
    let seed = identity.instance.0.rand.cast_unsigned();
    let work_fetch = match options.work_fetch.for_core(seed) {
        Some(asked) => {
            let folder = directory.path().to_owned();
            let saved = blocking(move || Ok(memory::recall(&folder, Clock.wall()))).await?;
            Some(WorkFetch { saved, ..asked })
        }
        None => None,
    };
    Ok(Options {
        work_fetch,
        ..described(options, directory, (&further, &locks), (address, usable))?
    })
}

fn described(
    options: &StartOptions,
    directory: &WorkerDirectory,
    (further, locks): (&[WorkerId], &[usize]),
    (address, usable): (SocketAddr, UsablePhysicalResources),
) -> Result<Options, StartError> {
    let identity = directory.identity();
    let logs = std::path::absolute(directory.log_folder()).ok();
    let advertised = options.advertise.clone().unwrap_or_else(|| ServiceAddress {
        host: address.ip().to_string().into(),
        port: address.port(),
    });
    let worker_command = options
        .worker_command
        .as_deref()
        .map(absolute)
        .transpose()?;
    let instances = iter::once(&identity.instance).chain(further);
    let associations = options.schedulers.iter().zip(instances).zip(locks);
    let associations = associations.map(|((scheduler, id), lock)| AssociationOptions {
        shard: scheduler.shard.clone(),
        id: *id,
        machine_lock: identity.machine_lock_of(*lock),
        share: scheduler.share,
        members: scheduler.members.clone(),
        list: match &scheduler.list {
            Some(_) => MemberList::Read {
                called: scheduler.called(),
            },
            None => MemberList::Fixed,
        },
    });
    let description = WorkerDescription {
        shard: options.schedulers[0].shard.clone(),
        machine_lock: identity.machine_lock.clone(),
        address: advertised,
        id: identity.instance,
        heartbeat_period: options.heartbeat_period,
        protocol_version: PROTOCOL_VERSION,
        usable,
        has_worker_command: worker_command.is_some(),
        intake: Intake::Open,
        supply: Supply::AsSlotsAllow,
        room: Some(TaskCountLimits::of_this_process().room()),
        containment: Some(Containment::of_this_process().to_string().into()),
        log_folder: logs.map(|path| path.to_string_lossy().into()),
        takes_standby: true,
    };
    Ok(Options {
        shutdown_kill_wait: options.kill_wait,
        drain_timeout: options.drain_timeout,
        worker_command: worker_command.into_iter().collect(),
        call_deadline: SchedulerClient::deadline(options.timeouts),
        associations: associations.collect(),
        ..Options::new(description)
    })
}

/// Returns the absolute path of `program`. A relative path is relative to the operator's working directory, not to the task's. A bare
/// name stays as it is, for a lookup in `PATH`.
fn absolute(program: &str) -> Result<String, StartError> {
    if !program.contains('/') {
        return Ok(program.to_owned());
    }
    let failed = |error| StartError::WorkerCommand {
        program: program.to_owned(),
        error,
    };
    let path = std::path::absolute(program).map_err(failed)?;
    let text = path.into_os_string().into_string();
    text.map_err(|_| {
        failed(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the working directory's name is not UTF-8",
        ))
    })
}
