//! Measures the processor time of this thread and the memory of this process.

use std::fs;
use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Returns the processor time of this thread, which excludes that of others.
pub fn thread_time() -> Duration {
    let reading = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    Duration::from(reading.expect("every thread has a clock"))
}

/// Runs `work`, and returns its result and processor time.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = thread_time();
    let result = work();
    (result, thread_time().saturating_sub(before))
}

/// Returns the resident memory of this process in bytes.
pub fn resident() -> f64 {
    status_bytes("VmRSS:")
}

/// Returns the peak of resident memory since [`forget_peak`], in bytes.
pub fn peak() -> f64 {
    status_bytes("VmHWM:")
}

/// Resets the peak. If the kernel refuses, the peak is that of the whole run, which is never too low.
pub fn forget_peak() {
    if let Err(error) = fs::write("/proc/self/clear_refs", "5") {
        eprintln!("schedule: the peak is that of the whole run: {error}");
    }
}

fn status_bytes(key: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("a process can read about itself");
    let line = status.lines().find_map(|line| line.strip_prefix(key));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    let kib: f64 = number
        .and_then(|number| number.parse().ok())
        .expect("the kernel tells the size in KiB");
    kib * 1024.0
}
