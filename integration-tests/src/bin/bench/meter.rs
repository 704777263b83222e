//! Measures the resource usage of processes and of this thread, and the idle time of the machine.

use std::fs;
use std::time::Duration;

use integration_tests::e2e::resident_bytes;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{Pid, SysconfVar, sysconf};

/// Measures one process from a moment on.
#[derive(Debug)]
pub struct Meter {
    pid: Pid,
    began: Duration,
}

impl Meter {
    /// # Panics
    /// If there is no such process.
    pub fn start(pid: Pid) -> Self {
        Meter {
            pid,
            began: processor_time(pid),
        }
    }

    /// Returns the processor time since the start of all its threads, including ended ones.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn used(&self) -> Duration {
        processor_time(self.pid).saturating_sub(self.began)
    }

    /// Returns the peak of its resident memory.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn peak_bytes(&self) -> u64 {
        status_bytes(self.pid, "VmHWM:")
    }
}

/// Returns the processor time of this thread, which excludes that of others.
pub fn thread_time() -> Duration {
    let reading = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    Duration::from(reading.expect("every thread has a clock"))
}

/// Runs `work`, and returns its result and the processor time of this thread.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = thread_time();
    let result = work();
    (result, thread_time().saturating_sub(before))
}

/// Returns the resident memory of this process in bytes.
pub fn resident() -> f64 {
    resident_bytes(Pid::this()).expect("this process runs") as f64
}

/// Returns the peak of this process's resident memory since [`forget_peak`], in bytes.
pub fn peak() -> f64 {
    status_bytes(Pid::this(), "VmHWM:") as f64
}

/// Resets the peak. If the kernel refuses, the peak is that of the whole run, which is never too low.
pub fn forget_peak() {
    if let Err(error) = fs::write("/proc/self/clear_refs", "5") {
        eprintln!("schedule: the peak is that of the whole run: {error}");
    }
}

/// Measures all processors of the machine from a moment on.
#[derive(Debug)]
pub struct MachineMeter {
    began: MachineTicks,
}

/// Ticks of all processors since the start of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MachineTicks {
    idle: u64,
    all: u64,
}

impl MachineMeter {
    pub fn start() -> Self {
        MachineMeter {
            began: machine_ticks(),
        }
    }

    /// Returns the share of processor time since then that was idle.
    pub fn idle(&self) -> f64 {
        let now = machine_ticks();
        let all = now.all.saturating_sub(self.began.all).max(1);
        now.idle.saturating_sub(self.began.idle) as f64 / all as f64
    }
}

fn machine_ticks() -> MachineTicks {
    let stat = fs::read_to_string("/proc/stat").expect("the kernel tells");
    machine_ticks_of(&stat).expect("the kernel writes it so")
}

/// Parses user, nice, system, idle, iowait, irq, softirq and steal time. The first two include the time of guests.
fn machine_ticks_of(stat: &str) -> Option<MachineTicks> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = (all.split_whitespace().take(8))
        .map(|field| field.parse().ok())
        .collect::<Option<_>>()?;
    let idle = ticks.get(3..5)?.iter().sum();
    let all = ticks.iter().sum();
    Some(MachineTicks { idle, all })
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

/// Returns user plus system time. The name is in brackets and may contain brackets and spaces.
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
    fn waiting_for_disks_is_idle_and_guests_are_counted_once() {
        let stat = "cpu  10 1 5 40 3 1 2 4 7 1\ncpu0 5 0 2 20 1 0 1 2 3 0\n";
        let idle = 43;
        assert_eq!(machine_ticks_of(stat), Some(MachineTicks { idle, all: 66 }));
        assert_eq!(machine_ticks_of("cpu  10 x"), None);
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let meter = Meter::start(Pid::this());
        assert!(meter.peak_bytes() > 0);
        assert!(meter.used() < Duration::from_secs(3600));
    }
}
