//! Measures each running task's usage from `/proc`, in one scan for all tasks, however many processes they have.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use brasserie_common::WallTime;
use brasserie_common::resources::TaskPhysicalResources;
use nix::unistd::Pid;

use super::card_use::CardUse;
use super::{BYTES_PER_MIB, read};
use crate::groups::{GroupUsage, Meter};
use crate::pid_namespace::host_pid;
use crate::proc_table::stat_fields;

/// The units of `/proc`: clock ticks per second, and bytes per page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    pub(crate) ticks_per_second: u64,
    pub(crate) page_bytes: u64,
}

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MeasuredProcess {
    parent: i32,
    group: i32,
    /// The ticks of the process and of the children that it has waited for.
    ticks: u64,
    resident_pages: u64,
}

/// A task to measure.
#[derive(Clone, Debug)]
pub(crate) struct Looked<T> {
    pub(crate) task: T,
    /// The leader of its process group.
    pub(crate) leader: i32,
    /// The counts of its control groups, if it has any.
    pub(crate) meter: Option<Arc<Meter>>,
}

/// Measures all tasks once. The counts of a task's control groups are exact, also for processes that have ended, and so take precedence
/// over the scan.
///
/// A process belongs to the task of its process group, or else to the task of its parent. A process that has left the group is found as
/// long as the processes between it and the task live.
pub(crate) fn sample<T>(
    root: &Path,
    units: Units,
    now: WallTime,
    tasks: Vec<Looked<T>>,
    card_use: &CardUse,
) -> Vec<(T, TaskPhysicalResources)> {
    let processes = processes(root);
    let leaders: HashMap<i32, usize> = tasks
        .iter()
        .enumerate()
        .map(|(index, looked)| (looked.leader, index))
        .collect();
    let mut uses = vec![Use::default(); tasks.len()];
    let mut members = Vec::new();
    for (&pid, process) in &processes {
        if let Some(index) = task_of(pid, &processes, &leaders) {
            uses[index].add(process, io(root, pid));
            members.push((pid, index));
        }
    }
    let outside = |pid| host_pid(Pid::from_raw(pid)).as_raw();
    let mut cards = card_use.of_tasks(root, &members, outside);
    let told = tasks.into_iter().zip(uses).enumerate();
    // A task without a process has just ended.
    let told = told.filter(|(_, (_, used))| used.processes > 0);
    told.map(|(index, (looked, used))| {
        let counted = looked.meter.map(|meter| meter.usage());
        let told = TaskPhysicalResources {
            gpus: cards.remove(&index).unwrap_or_default(),
            ..used.told(units, now)
        };
        (looked.task, with_counted(told, counted.unwrap_or_default()))
    })
    .collect()
}

fn with_counted(seen: TaskPhysicalResources, counted: GroupUsage) -> TaskPhysicalResources {
    let mb = |bytes: u64| bytes as f64 / BYTES_PER_MIB;
    let cpu_ms = counted
        .cpu
        .and_then(|cpu| i64::try_from(cpu.as_millis()).ok());
    TaskPhysicalResources {
        cpu_time_ms: cpu_ms.or(seen.cpu_time_ms),
        memory_mb: counted.memory_bytes.map(mb).or(seen.memory_mb),
        peak_memory_mb: counted.memory_peak_bytes.map(mb).or(seen.peak_memory_mb),
        read_bytes: counted.read_bytes.or(seen.read_bytes),
        written_bytes: counted.written_bytes.or(seen.written_bytes),
        ..seen
    }
}

/// The sums over the processes of a task.
#[derive(Clone, Copy, Debug, Default)]
struct Use {
    processes: usize,
    ticks: u64,
    resident_pages: u64,
    /// `None`: the values of some process are unknown.
    io: Option<Io>,
    io_unknown: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Io {
    read: u64,
    written: u64,
}

impl Use {
    fn add(&mut self, process: &MeasuredProcess, io: Option<Io>) {
        self.processes += 1;
        self.ticks = self.ticks.saturating_add(process.ticks);
        self.resident_pages = self.resident_pages.saturating_add(process.resident_pages);
        match io {
            Some(io) => {
                let sum = self.io.get_or_insert_default();
                sum.read = sum.read.saturating_add(io.read);
                sum.written = sum.written.saturating_add(io.written);
            }
            None => self.io_unknown = true,
        }
    }

    fn told(self, units: Units, now: WallTime) -> TaskPhysicalResources {
        let io = self.io.filter(|_| !self.io_unknown);
        let millis = u128::from(self.ticks) * 1000 / u128::from(units.ticks_per_second);
        let bytes = u128::from(self.resident_pages) * u128::from(units.page_bytes);
        TaskPhysicalResources {
            ms_since_epoch: now.as_millis(),
            cpu_time_ms: i64::try_from(millis).ok(),
            memory_mb: Some(bytes as f64 / BYTES_PER_MIB),
            read_bytes: io.map(|io| io.read),
            written_bytes: io.map(|io| io.written),
            ..TaskPhysicalResources::default()
        }
    }
}

fn processes(root: &Path) -> HashMap<i32, MeasuredProcess> {
    let Ok(entries) = fs::read_dir(root.join("proc")) else {
        return HashMap::new();
    };
    let pids = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // A process that ends meanwhile has no file any more.
    pids.filter_map(|pid| {
        let text = read(&root.join(format!("proc/{pid}/stat")))?;
        Some((pid, process(&text)?))
    })
    .collect()
}

/// Finds the task among the process and its ancestors, in a limited number of steps: the table is not a consistent snapshot, and numbers
/// are reused.
fn task_of(
    pid: i32,
    processes: &HashMap<i32, MeasuredProcess>,
    leaders: &HashMap<i32, usize>,
) -> Option<usize> {
    let mut at = pid;
    for _ in 0..processes.len() {
        let process = processes.get(&at)?;
        let found = leaders.get(&process.group).or_else(|| leaders.get(&at));
        if found.is_some() {
            return found.copied();
        }
        at = process.parent;
    }
    None
}

fn process(stat: &str) -> Option<MeasuredProcess> {
    let fields = stat_fields(stat.as_bytes())?;
    let number = |index: usize| fields.get(index)?.parse::<i64>().ok();
    let count = |index: usize| number(index).and_then(|n| u64::try_from(n).ok());
    Some(MeasuredProcess {
        parent: i32::try_from(number(1)?).ok()?,
        group: i32::try_from(number(2)?).ok()?,
        ticks: count(11)? + count(12)? + count(13)? + count(14)?,
        resident_pages: count(21)?,
    })
}

/// Returns the bytes read from and written to disks. Only root may read those of another user's process.
fn io(root: &Path, pid: i32) -> Option<Io> {
    let text = read(&root.join(format!("proc/{pid}/io")))?;
    let value = |name: &str| {
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
    };
    Some(Io {
        read: value("read_bytes:")?,
        written: value("write_bytes:")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::machine_of;
    use std::time::Duration;

    const UNITS: Units = Units {
        ticks_per_second: 100,
        page_bytes: 4096,
    };

    fn stat(pid: i32, parent: i32, group: i32, ticks: [u64; 4], pages: u64) -> (String, String) {
        let [user, system, of_children, system_of_children] = ticks;
        let text = format!(
            "{pid} (a ) b (c)) S {parent} {group} {group} 0 -1 4194304 9 9 9 9 {user} {system} {of_children} {system_of_children} 20 0 1 0 77 99999 {pages} 18446744073709551615 0"
        );
        (format!("proc/{pid}/stat"), text)
    }

    fn without_groups<T>(task: T, leader: i32) -> Looked<T> {
        Looked {
            task,
            leader,
            meter: None,
        }
    }

    fn used(
        files: &[(String, String)],
        tasks: &[(&'static str, i32)],
    ) -> Vec<(&'static str, TaskPhysicalResources)> {
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(name, text)| (name.as_str(), text.as_str()))
            .collect();
        let root = machine_of(&files);
        let looked = tasks
            .iter()
            .map(|(task, leader)| without_groups(*task, *leader));
        let now = WallTime::from_secs(7);
        sample(
            root.path(),
            UNITS,
            now,
            looked.collect(),
            &CardUse::default(),
        )
    }

    #[test]
    fn a_task_is_its_group_and_who_descends_from_it() {
        let io = |pid: i32, read: u64, written: u64| {
            let text = format!("rchar: 1\nread_bytes: {read}\nwrite_bytes: {written}\n");
            (format!("proc/{pid}/io"), text)
        };
        let files = [
            stat(1, 0, 1, [900; 4], 900),
            stat(50, 1, 50, [500; 4], 500),
            // Task a: its leader, one in its group whose parent is gone, one that has left the group.
            stat(100, 50, 100, [1, 2, 3, 4], 256),
            stat(101, 1, 100, [10, 0, 0, 0], 256),
            stat(102, 101, 102, [0, 10, 0, 0], 512),
            // Task b.
            stat(200, 50, 200, [7, 0, 0, 0], 1),
            io(100, 5, 6),
            io(101, 10, 20),
            io(102, 100, 200),
        ];
        let told = used(&files, &[("a", 100), ("b", 200), ("over", 300)]);
        let [("a", a), ("b", b)] = &told[..] else {
            panic!("{told:?}");
        };
        assert_eq!((a.ms_since_epoch, a.cpu_time_ms), (7000, Some(300)));
        assert_eq!(a.memory_mb, Some(4.0));
        assert_eq!((a.read_bytes, a.written_bytes), (Some(115), Some(226)));
        assert_eq!((b.cpu_time_ms, b.read_bytes), (Some(70), None));
    }

    #[test]
    fn what_groups_count_goes_before_what_is_seen() {
        let seen = TaskPhysicalResources {
            ms_since_epoch: 5,
            cpu_time_ms: Some(1),
            memory_mb: Some(2.0),
            read_bytes: Some(3),
            ..TaskPhysicalResources::default()
        };
        let none = with_counted(seen.clone(), GroupUsage::default());
        assert_eq!(none, seen);
        let counted = GroupUsage {
            memory_bytes: Some(1 << 20),
            memory_peak_bytes: Some(3 << 19),
            cpu: Some(Duration::from_millis(70)),
            read_bytes: None,
            written_bytes: Some(9),
        };
        let told = with_counted(seen, counted);
        assert_eq!((told.ms_since_epoch, told.cpu_time_ms), (5, Some(70)));
        assert_eq!(
            (told.memory_mb, told.peak_memory_mb),
            (Some(1.0), Some(1.5))
        );
        assert_eq!((told.read_bytes, told.written_bytes), (Some(3), Some(9)));
    }

    #[test]
    fn a_ring_of_parents_and_odd_files_harm_nobody() {
        let odd = ("proc/9/stat".to_owned(), "9 (x) S one 9".to_owned());
        let files = [
            stat(10, 11, 5, [1; 4], 1),
            stat(11, 10, 5, [1; 4], 1),
            odd,
            ("proc/meminfo".to_owned(), String::new()),
        ];
        assert_eq!(used(&files, &[("a", 100)]), []);
        assert_eq!(used(&[], &[("a", 100)]), []);
    }

    #[test]
    fn this_very_process_uses_something() {
        let own = i32::try_from(std::process::id()).expect("a pid");
        let told = sample(
            Path::new("/"),
            UNITS,
            WallTime::from_secs(1),
            vec![without_groups((), own)],
            &CardUse::default(),
        );
        let [(_, used)] = &told[..] else {
            panic!("{told:?}");
        };
        assert!(used.memory_mb.is_some_and(|mb| mb > 0.5), "{used:?}");
    }
}
