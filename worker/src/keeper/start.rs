//! Starts the keeper's program, as PID 1 of a PID namespace or as an ordinary child.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::process::Command;

use nix::errno::Errno;
use nix::sys::signal::Signal;
use nix::sys::signalfd::SignalFd;
use nix::unistd::Pid;

use super::lease::LeaseLedger;
use super::sweep::{self, Sweep};
use super::{KeeperError, KeeperPolicy, kept_program, tell_kept};
use crate::containment::{Choice, Contain, Powers, choose, enter, give_up_here};
use crate::groups::survey::leave_own_group;
use crate::marker::Marker;
use crate::pid_namespace::ContainmentVariable;
use crate::variables::{CONTAINMENT_VARIABLE, GROUP_VARIABLE, SWEPT_VARIABLE};

/// The result of a start.
pub(super) enum Start {
    Begun(StartedProgram),
    /// A signal arrived before the program could be started.
    Interrupted(Signal),
}

/// A started program.
pub(super) struct StartedProgram {
    pub program: Pid,
    /// The life pipe of a program in a namespace.
    pub life: Option<OwnedFd>,
}

/// Starts the program as `policy` says. With `auto`, a machine that refuses a namespace leads to process groups, and the program receives
/// the reason.
pub(super) fn start(
    arguments: &[OsString],
    policy: &KeeperPolicy,
    marker: &Marker,
    ledger: &LeaseLedger,
    signals: &SignalFd,
) -> Result<Start, KeeperError> {
    let mut group = None;
    let powers = Powers::of_this_process();
    let choice = choose(policy.contain, powers);
    let why = match choice.map_err(|why| KeeperError::Containment(why.to_owned()))? {
        Choice::Groups { why } => why.to_owned(),
        Choice::Namespace { way, why } => {
            let swept = match sweep::run(arguments, marker, signals, policy.started_by)? {
                Sweep::Done(user) => user,
                Sweep::Interrupted(signal) => return Ok(Start::Interrupted(signal)),
            };
            group = policy.uses_own_group.then(leave_own_group).flatten();
            let prepare = |command: &mut Command| {
                tell_kept(command, marker, ledger);
                tell_group(command, group.as_deref());
                command.env(SWEPT_VARIABLE, swept);
            };
            match enter(arguments, prepare, way, why) {
                Ok(entered) => {
                    return Ok(Start::Begun(StartedProgram {
                        program: entered.program,
                        life: Some(entered.life),
                    }));
                }
                Err(why) if policy.contain == Contain::PidNamespace => {
                    return Err(KeeperError::Containment(why));
                }
                Err(why) => {
                    format!("this machine does not let the worker have a PID namespace: {why}")
                }
            }
        }
    };
    if !powers.is_root {
        // The capability was only for the namespace. Tasks of an ordinary user would inherit it.
        give_up_here().map_err(|error| KeeperError::Setup {
            what: "give up CAP_SYS_ADMIN",
            error: Errno::from_raw(error.raw_os_error()),
        })?;
    }
    let mut program = kept_program(arguments);
    tell_kept(&mut program, marker, ledger);
    tell_group(&mut program, group.as_deref());
    let why = ContainmentVariable::Groups { why };
    let child = program
        .env(CONTAINMENT_VARIABLE, why.to_string())
        .spawn()
        .map_err(KeeperError::Spawn)?;
    Ok(Start::Begun(StartedProgram {
        program: Pid::from_raw(i32::try_from(child.id()).expect("process ids fit 31 bits")),
        life: None,
    }))
}

/// Names to the program the group that the keeper has left, if it has left one.
fn tell_group(command: &mut Command, group: Option<&str>) {
    match group {
        Some(group) => command.env(GROUP_VARIABLE, group),
        None => command.env_remove(GROUP_VARIABLE),
    };
}
