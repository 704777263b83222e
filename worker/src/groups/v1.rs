//! Operations on a group of version 1: a folder in the hierarchy of one controller, or of several that are mounted together.

use std::path::Path;

use super::files::{self, FileError, field, number};
use super::plan::Setting;
use super::{GroupError, GroupUsage, OutOfMemory};

/// The kernel's default period, in microseconds. A quota is a number of microseconds of each period.
const CPU_PERIOD_US: u64 = 100_000;
/// The shortest quota that the kernel accepts, in microseconds.
const LEAST_QUOTA_US: u64 = 1000;
/// The smallest shares that the kernel accepts.
const LEAST_SHARES: u64 = 2;
/// The largest difference by which a memory limit may read back higher, in bytes: kernels round it up to pages of at most this size.
const MEMORY_ROUNDING: u64 = 1 << 20;

/// The kernel's names of the states.
pub(super) const FROZEN: &str = "FROZEN";
pub(super) const FREEZING: &str = "FREEZING";
pub(super) const THAWED: &str = "THAWED";
pub(super) const FREEZER_STATE: &str = "freezer.state";

/// Sets a limit and reads it back.
pub(super) fn apply(dir: &Path, setting: Setting, page: u64) -> Result<(), GroupError> {
    match setting {
        Setting::Memory(bytes) => {
            // The kernel counts whole pages and rounds down.
            let wanted = bytes.div_ceil(page).saturating_mul(page);
            written(dir, "memory.limit_in_bytes", wanted, |read| {
                read >= bytes && read - bytes <= MEMORY_ROUNDING.max(page)
            })
        }
        Setting::Shares(shares) => {
            let shares = shares.max(LEAST_SHARES);
            written(dir, "cpu.shares", shares, |read| read == shares)
        }
        Setting::Quota(milli) => {
            let quota = quota_us(milli);
            written(dir, "cpu.cfs_period_us", CPU_PERIOD_US, |read| {
                read == CPU_PERIOD_US
            })?;
            written(dir, "cpu.cfs_quota_us", quota, |read| read == quota)
        }
        Setting::Pids(count) => written(dir, "pids.max", count, |read| read == count),
    }
}

/// Returns the quota in microseconds of a period, from thousandths of a core.
pub(super) fn quota_us(milli: u64) -> u64 {
    (milli.saturating_mul(CPU_PERIOD_US) / 1000).max(LEAST_QUOTA_US)
}

/// Returns the quota in the format of version 2.
pub(super) fn quota_and_period(milli: u64) -> String {
    format!("{} {CPU_PERIOD_US}", quota_us(milli))
}

/// Writes a number and reads it back. Errors unless `will_do` accepts the value that the kernel stored.
pub(super) fn written(
    dir: &Path,
    name: &'static str,
    value: u64,
    will_do: impl Fn(u64) -> bool,
) -> Result<(), GroupError> {
    files::write(dir, name, &value.to_string())?;
    match number(dir, name) {
        Some(read) if will_do(read) => Ok(()),
        read => Err(GroupError::ReadBack {
            path: dir.join(name),
            written: value,
            read: read.map_or_else(|| "nothing".to_owned(), |read| read.to_string()),
        }),
    }
}

pub(super) fn is_freezer(dir: &Path) -> bool {
    files::exists(dir, FREEZER_STATE)
}

pub(super) fn set_freezer(dir: &Path, state: &str) -> Result<(), FileError> {
    files::write(dir, FREEZER_STATE, state)
}

/// Prevents new processes in the group. Returns whether the group has the file for that.
pub(super) fn forbid_forks(dir: &Path) -> bool {
    files::exists(dir, "pids.max") && files::write(dir, "pids.max", "0").is_ok()
}

pub(super) fn usage(dir: &Path) -> GroupUsage {
    let cpu = number(dir, "cpuacct.usage").map(std::time::Duration::from_nanos);
    GroupUsage {
        memory_bytes: number(dir, "memory.usage_in_bytes"),
        memory_peak_bytes: number(dir, "memory.max_usage_in_bytes"),
        cpu,
        read_bytes: None,
        written_bytes: None,
    }
}

/// Returns the limit because of which the kernel killed a process of the group for memory, or `None` if it killed none.
pub(super) fn out_of_memory(dir: &Path) -> Option<OutOfMemory> {
    let control = files::read(dir, "memory.oom_control")?;
    field(&control, "oom_kill").filter(|kills| *kills > 0)?;
    let own = number(dir, "memory.failcnt").is_some_and(|refused| refused > 0);
    Some(match own {
        true => OutOfMemory::OwnLimit,
        false => OutOfMemory::Elsewhere,
    })
}
