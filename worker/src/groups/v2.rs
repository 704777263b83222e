//! Operations on a group of version 2: a folder in the single hierarchy, with the controllers that its parent hands out.

use std::path::Path;
use std::time::Duration;

use super::files::{self, FileError, field, number};
use super::plan::Setting;
use super::v1::{quota_and_period, written};
use super::{GroupError, GroupUsage, OutOfMemory};

/// The weights that the kernel accepts. The default weight is 100, and the default of version 1's shares is 1024. But a scheduler gives a
/// few shares a core, and only the ratio between tasks matters. Used as weights without conversion, the shares keep that ratio.
const WEIGHTS: std::ops::RangeInclusive<u64> = 1..=10_000;

/// The file of events, which only groups of version 2 have.
pub(super) const EVENTS: &str = "cgroup.events";
const KILL: &str = "cgroup.kill";
const FREEZE: &str = "cgroup.freeze";

/// Sets a limit and reads it back.
pub(super) fn apply(dir: &Path, setting: Setting, page: u64) -> Result<(), GroupError> {
    match setting {
        Setting::Memory(bytes) => {
            let wanted = bytes.div_ceil(page).saturating_mul(page);
            written(dir, "memory.max", wanted, |read| {
                read >= bytes && read <= wanted
            })?;
            // The kernel then kills the whole task, since a part of it is useless. Kernels before 4.19 do not have this file.
            if files::exists(dir, "memory.oom.group") {
                files::write(dir, "memory.oom.group", "1")?;
            }
            Ok(())
        }
        Setting::Shares(shares) => {
            let weight = shares.clamp(*WEIGHTS.start(), *WEIGHTS.end());
            written(dir, "cpu.weight", weight, |read| read == weight)
        }
        Setting::Quota(milli) => {
            let wanted = quota_and_period(milli);
            files::write(dir, "cpu.max", &wanted)?;
            match files::read(dir, "cpu.max") {
                Some(read) if read.trim() == wanted => Ok(()),
                read => Err(GroupError::ReadBack {
                    path: dir.join("cpu.max"),
                    written: milli,
                    read: read.unwrap_or_default(),
                }),
            }
        }
        Setting::Pids(count) => written(dir, "pids.max", count, |read| read == count),
    }
}

/// Kills all processes of the group. Returns whether the file for that exists, which kernels before 5.14 lack.
pub(super) fn kill(dir: &Path) -> bool {
    files::write(dir, KILL, "1").is_ok()
}

pub(super) fn freeze(dir: &Path) -> Result<(), FileError> {
    files::write(dir, FREEZE, "1")
}

pub(super) fn thaw(dir: &Path) -> Result<(), FileError> {
    files::write(dir, FREEZE, "0")
}

pub(super) fn is_frozen(dir: &Path) -> bool {
    event(dir, "frozen") == Some(1)
}

/// Returns whether a process lives in the group or below it; `None` if the group is gone.
pub(super) fn is_populated(dir: &Path) -> Option<bool> {
    event(dir, "populated").map(|count| count > 0)
}

fn event(dir: &Path, name: &str) -> Option<u64> {
    field(&files::read(dir, EVENTS)?, name)
}

pub(super) fn usage(dir: &Path) -> GroupUsage {
    let stat = files::read(dir, "cpu.stat");
    let cpu = stat.and_then(|text| field(&text, "usage_usec"));
    let io = files::read(dir, "io.stat");
    GroupUsage {
        memory_bytes: number(dir, "memory.current"),
        memory_peak_bytes: number(dir, "memory.peak"),
        cpu: cpu.map(Duration::from_micros),
        read_bytes: io.as_deref().map(|text| io_bytes(text, "rbytes")),
        written_bytes: io.as_deref().map(|text| io_bytes(text, "wbytes")),
    }
}

/// Returns the sum over all devices.
fn io_bytes(text: &str, key: &str) -> u64 {
    let pairs = text
        .split_whitespace()
        .filter_map(|word| word.split_once('='));
    let values = pairs.filter(|(name, _)| *name == key);
    let values = values.filter_map(|(_, value)| value.parse::<u64>().ok());
    values.fold(0, u64::saturating_add)
}

/// Returns the limit because of which the kernel killed a process of the group for memory, or `None` if it killed none.
pub(super) fn out_of_memory(dir: &Path) -> Option<OutOfMemory> {
    let events = files::read(dir, "memory.events")?;
    told_by(&events)
}

fn told_by(events: &str) -> Option<OutOfMemory> {
    field(events, "oom_kill").filter(|kills| *kills > 0)?;
    // The kernel counts `oom` in the group whose limit was reached.
    Some(match field(events, "oom") {
        Some(1..) => OutOfMemory::OwnLimit,
        Some(0) | None => OutOfMemory::Elsewhere,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_and_output_of_all_devices_is_summed() {
        let text =
            "8:0 rbytes=10 wbytes=1 rios=3 wios=1\n8:16 rbytes=32 wbytes=0 rios=1 wios=0\n7:1\n";
        assert_eq!(io_bytes(text, "rbytes"), 42);
        assert_eq!(io_bytes(text, "wbytes"), 1);
        assert_eq!(io_bytes("", "rbytes"), 0);
    }

    #[test]
    fn kills_for_memory_are_told_by_their_limit() {
        let events = |oom, kills| format!("low 0\nhigh 0\nmax 9\noom {oom}\noom_kill {kills}\n");
        assert_eq!(told_by(&events(0, 0)), None);
        assert_eq!(told_by(&events(1, 0)), None);
        assert_eq!(told_by(&events(1, 2)), Some(OutOfMemory::OwnLimit));
        assert_eq!(told_by(&events(0, 1)), Some(OutOfMemory::Elsewhere));
    }

    /// The test uses ordinary files: few machines have a kernel of version 2 with these controllers.
    #[test]
    fn limits_are_written_in_the_words_of_version_two() {
        let dir = tempfile::tempdir().expect("a folder");
        for name in [
            "memory.max",
            "memory.oom.group",
            "cpu.weight",
            "cpu.max",
            "pids.max",
        ] {
            std::fs::write(dir.path().join(name), "").expect("made");
        }
        for setting in [
            Setting::Memory(5000),
            Setting::Shares(6),
            Setting::Quota(1500),
            Setting::Pids(12),
        ] {
            apply(dir.path(), setting, 4096).expect("written");
        }
        let text = |name| files::read(dir.path(), name).expect("there");
        assert_eq!(text("memory.max"), "8192");
        assert_eq!(text("memory.oom.group"), "1");
        assert_eq!(text("cpu.weight"), "6");
        assert_eq!(text("cpu.max"), "150000 100000");
        assert_eq!(text("pids.max"), "12");
        apply(dir.path(), Setting::Shares(32_766), 4096).expect("written");
        assert_eq!(text("cpu.weight"), "10000");
    }
}
