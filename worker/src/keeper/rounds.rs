//! Signals processes in rounds, and computes the pauses between rounds.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::proc_table::ProcessEntry;

/// The pause between two rounds of the sweep. A killed process is gone within microseconds, and each round reaches one more generation of
/// descendants, so ten generations take a tenth of a second.
const SWEEP_ROUND: Duration = Duration::from_millis(10);
/// The number of rounds at that pace. A process that is alive after them hangs in a device or a file system, or is traced, and the pauses
/// double.
const QUICK_ROUNDS: u32 = 50;
/// The longest pause. The end of a process wakes the keeper earlier.
pub(super) const SLOW_ROUND: Duration = Duration::from_secs(1);

/// Returns the pause after this many rounds in which no process ended.
pub(super) fn round_pause(rounds: u32) -> Duration {
    let doublings = rounds.saturating_sub(QUICK_ROUNDS);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    SWEEP_ROUND.saturating_mul(factor).min(SLOW_ROUND)
}

/// Signals the process, or its whole group if it leads one. No other process has its number, because it was not reaped.
pub(super) fn signal_all_of(process: &ProcessEntry, signal: Signal) {
    // A process that refuses the signal is gone already, or a set-user-id program.
    if process.group == process.pid {
        let _ = kill(Pid::from_raw(-process.pid.as_raw()), signal);
    } else {
        let _ = kill(process.pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_does_not_die_is_looked_for_once_a_second() {
        assert!((0..=QUICK_ROUNDS).all(|rounds| round_pause(rounds) == SWEEP_ROUND));
        let mut time = Duration::ZERO;
        let mut looks = 0;
        while time < Duration::from_secs(60) {
            time += round_pause(looks);
            looks += 1;
        }
        assert!(looks < QUICK_ROUNDS + 70, "{looks}");
        assert_eq!(round_pause(u32::MAX), SLOW_ROUND);
    }
}
