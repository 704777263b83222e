//! A group of version 1: one folder in the hierarchy of one controller, or of a few that are mounted together.

use std::path::Path;

use super::files::{self, FileError, field, number};
use super::plan::Setting;
use super::{GroupError, GroupUsage, OutOfMemory};

/// The kernel's own default period, in microseconds: shares of it are what a quota is written as.
const CPU_PERIOD_US: u64 = 100_000;
/// The shortest quota that the kernel takes, in microseconds.
const LEAST_QUOTA_US: u64 = 1000;
/// What the kernel takes for shares.
const LEAST_SHARES: u64 = 2;
/// How much more than asked a memory limit may read back: kernels keep it in pages of at most so much.
const MEMORY_ROUNDING: u64 = 1 << 20;

/// As the kernel tells and takes it.
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

/// Microseconds of a period.
pub(super) fn quota_us(milli: u64) -> u64 {
    (milli.saturating_mul(CPU_PERIOD_US) / 1000).max(LEAST_QUOTA_US)
}

/// As the quota of version 2 is written.
pub(super) fn quota_and_period(milli: u64) -> String {
    format!("{} {CPU_PERIOD_US}", quota_us(milli))
}

/// Writes a number; what the kernel made of it must do.
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

/// Nothing new starts in it.
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

/// Whether the kernel killed for memory in it, and because of which limit.
pub(super) fn out_of_memory(dir: &Path) -> Option<OutOfMemory> {
    let control = files::read(dir, "memory.oom_control")?;
    field(&control, "oom_kill").filter(|kills| *kills > 0)?;
    let own = number(dir, "memory.failcnt").is_some_and(|refused| refused > 0);
    Some(match own {
        true => OutOfMemory::OwnLimit,
        false => OutOfMemory::Elsewhere,
    })
}
