//! What a running process has used of the machine, from outside.

use std::fs;
use std::time::Duration;

use nix::unistd::{Pid, SysconfVar, sysconf};

/// One process, from a moment on.
#[derive(Debug)]
pub struct Meter {
    pid: Pid,
    began: Duration,
}

impl Meter {
    /// # Panics
    /// When there is no such process.
    pub fn start(pid: Pid) -> Self {
        Meter {
            pid,
            began: processor_time(pid),
        }
    }

    /// Processor time since the start, of all its threads, those that have ended included.
    ///
    /// # Panics
    /// When the process has ended.
    pub fn used(&self) -> Duration {
        processor_time(self.pid).saturating_sub(self.began)
    }

    /// The most memory that it ever held.
    ///
    /// # Panics
    /// When the process has ended.
    pub fn peak_bytes(&self) -> u64 {
        status_bytes(self.pid, "VmHWM:")
    }
}

fn processor_time(pid: Pid) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("the program runs");
    let per_second = sysconf(SysconfVar::CLK_TCK)
        .ok()
        .flatten()
        .and_then(|ticks| u32::try_from(ticks).ok())
        .expect("the system has clock ticks");
    let ticks = ticks_of(&stat).expect("the kernel writes it so");
    Duration::from_secs(ticks) / per_second
}

/// User and system time. The name, in brackets, may itself contain brackets and spaces.
fn ticks_of(stat: &str) -> Option<u64> {
    let rest = stat.rsplit_once(')')?.1;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

fn status_bytes(pid: Pid, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the program runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| {
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()
    });
    kib.expect("the kernel writes it so") * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_found_behind_any_name() {
        let stat = "12 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 70 8 0 0 20 0 1 0 5";
        assert_eq!(ticks_of(stat), Some(78));
        assert_eq!(ticks_of("12 (a"), None);
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let meter = Meter::start(Pid::this());
        assert!(meter.peak_bytes() > 0);
        assert!(meter.used() < Duration::from_secs(3600));
    }
}
