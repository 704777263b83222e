//! The check with which a caller stops a long copy.

use std::fmt;

/// Returns true when the copy should stop. A copy asks after each chunk, maybe on several threads, and leaves nothing when it stops.
#[derive(Clone, Copy)]
pub struct StopCheck<'a>(pub &'a (dyn Fn() -> bool + Sync));

impl StopCheck<'static> {
    /// Lets a copy run to its end.
    pub const NEVER: StopCheck<'static> = StopCheck(&|| false);
}

impl StopCheck<'_> {
    /// Errors if the copy should stop.
    pub(crate) fn check(self) -> Result<(), Stopped> {
        match (self.0)() {
            true => Err(Stopped),
            false => Ok(()),
        }
    }
}

impl fmt::Debug for StopCheck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopCheck")
    }
}

/// The caller has stopped a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;
