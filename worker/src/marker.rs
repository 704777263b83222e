//! The marker that a keeper gives its program and all descendants of it.

use std::os::unix::process::parent_id;

use nix::unistd::Pid;

use crate::pid_namespace::WorkerNamespace;
use crate::variables::{KEPT_FOR_VARIABLE, MARKER_VARIABLE};

/// A text that is in the environment of a kept program and all its descendants, and in no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker(String);

impl Marker {
    /// Creates the marker of this keeper.
    pub(crate) fn new(keeper: Pid, random: u64) -> Self {
        Marker(format!("{keeper}:{random:016x}"))
    }

    pub(crate) fn from_text(text: &str) -> Self {
        Marker(text.to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the entry of an environment block.
    pub(crate) fn entry(&self) -> Vec<u8> {
        format!("{MARKER_VARIABLE}={}", self.0).into_bytes()
    }

    /// Returns the mark of this scheduler's tasks.
    pub(crate) fn of(&self, scheduler: usize) -> String {
        format!("{}:{scheduler}", self.0)
    }

    /// Returns the entry of an environment block for [`Marker::of`].
    pub(crate) fn entry_of(&self, scheduler: usize) -> Vec<u8> {
        format!("{KEPT_FOR_VARIABLE}={}", self.of(scheduler)).into_bytes()
    }

    pub(crate) fn keeper(&self) -> Option<u32> {
        self.0.split_once(':')?.0.parse().ok()
    }
}

/// Returns the marker of this process; `None` if no keeper started it.
pub fn marker() -> Option<Marker> {
    let marker = Marker(std::env::var(MARKER_VARIABLE).ok()?);
    // A task inherits the variable but has another parent, so a program that it starts gets a keeper of its own. The first process of a
    // namespace does not see its parent.
    let is_kept =
        marker.keeper() == Some(parent_id()) || WorkerNamespace::of_this_process().is_some();
    is_kept.then_some(marker)
}

/// Returns the keeper of this process, if this process can see it.
pub(crate) fn visible_keeper() -> Option<Pid> {
    let keeper = marker()?.keeper().filter(|keeper| *keeper == parent_id())?;
    i32::try_from(keeper).ok().map(Pid::from_raw)
}
