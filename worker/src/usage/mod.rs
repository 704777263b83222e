//! What this machine offers to tasks: cores and memory, as far as affinity and control groups let this process use them, and
//! graphics cards, if a program is named that lists them.

mod gpus;

use std::path::{Path, PathBuf};

use brasserie_common::WallTime;
use brasserie_common::resources::{GpuInfo, UsablePhysicalResources};
use brasserie_common_runtime::files::read_to_string;
use tracing::{info, warn};

/// Far more than the files of `/proc` and of control groups that are read here ever hold.
const MAX_FILE_BYTES: u64 = 64 * 1024;
const BYTES_PER_MIB: f64 = 1_048_576.0;
const KIB_PER_MIB: f64 = 1024.0;

/// Looks at the machine again and again.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    /// `None`: nobody looks for graphics cards.
    nvidia_smi: Option<PathBuf>,
    /// As they were listed last: a program that fails once takes no card away.
    cards: Vec<GpuInfo>,
    /// What it failed with last, so that the log tells of a change and not of each look.
    failure: Option<String>,
}

impl Monitor {
    pub(crate) fn new(nvidia_smi: Option<PathBuf>) -> Self {
        Monitor {
            nvidia_smi,
            ..Monitor::default()
        }
    }

    /// Reads it anew; what cannot be read is 0, which means unknown.
    pub(crate) async fn usable(&mut self, now: WallTime) -> UsablePhysicalResources {
        self.look_for_cards().await;
        UsablePhysicalResources {
            ms_since_epoch: now.as_millis(),
            cpu_cores: std::thread::available_parallelism().map_or(0.0, |n| n.get() as f64),
            memory_mb: memory_mb(Path::new("/")),
            gpus: self.cards.clone(),
        }
    }

    async fn look_for_cards(&mut self) {
        let Some(program) = &self.nvidia_smi else {
            return;
        };
        let failure = match gpus::cards(program).await {
            Ok(cards) => {
                if self.failure.is_some() {
                    info!(program = %program.display(), "graphics cards are listed again");
                }
                self.cards = cards;
                None
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failure.as_ref().filter(|_| failure != self.failure) {
            warn!(
                program = %program.display(),
                cards = self.cards.len(),
                "graphics cards cannot be listed, those known stay: {error}"
            );
        }
        self.failure = failure;
    }
}

fn memory_mb(root: &Path) -> f64 {
    let machine = read(&root.join("proc/meminfo")).and_then(|text| total_mb(&text));
    let limit = read(&root.join("proc/self/cgroup")).and_then(|text| group_limit_mb(root, &text));
    match (machine, limit) {
        (Some(machine), Some(limit)) => machine.min(limit),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => 0.0,
    }
}

fn total_mb(meminfo: &str) -> Option<f64> {
    let line = meminfo.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / KIB_PER_MIB)
}

/// The least `memory.max` from our group up to the root of a unified hierarchy.
fn group_limit_mb(root: &Path, own_groups: &str) -> Option<f64> {
    let own = own_groups.lines().find_map(|l| l.strip_prefix("0::/"))?;
    let top = root.join("sys/fs/cgroup");
    let limits = top
        .join(own)
        .ancestors()
        .take_while(|folder| folder.starts_with(&top))
        .filter_map(|folder| read(&folder.join("memory.max"))?.trim().parse::<f64>().ok())
        .collect::<Vec<_>>();
    limits
        .into_iter()
        .reduce(f64::min)
        .map(|b| b / BYTES_PER_MIB)
}

fn read(path: &Path) -> Option<String> {
    read_to_string(path, MAX_FILE_BYTES).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("created");
            fs::write(path, text).expect("written");
        }
        root
    }

    #[tokio::test]
    async fn this_machine_has_cores_and_memory() {
        let usable = Monitor::default().usable(WallTime::from_secs(5)).await;
        assert!(usable.cpu_cores >= 1.0 && usable.memory_mb > 1.0);
        assert_eq!((usable.ms_since_epoch, usable.gpus), (5000, Vec::new()));
    }

    #[tokio::test]
    async fn a_program_that_fails_takes_no_card_away() {
        let card = GpuInfo {
            name: "K40".to_owned(),
            ..GpuInfo::default()
        };
        let mut monitor = Monitor::new(Some("/nowhere/nvidia-smi".into()));
        monitor.cards = vec![card.clone()];
        let usable = monitor.usable(WallTime::from_secs(5)).await;
        assert_eq!(usable.gpus, [card]);
        assert!(monitor.failure.is_some());
        // This one lists none.
        monitor.nvidia_smi = Some("/bin/true".into());
        let usable = monitor.usable(WallTime::from_secs(6)).await;
        assert_eq!((usable.gpus, &monitor.failure), (Vec::new(), &None));
    }

    #[test]
    fn the_least_limit_of_all_groups_above_counts() {
        let mem = ("proc/meminfo", "MemFree: 1 kB\nMemTotal:  2097152 kB\n");
        let group = ("proc/self/cgroup", "1:cpu:/x\n0::/a/b\n");
        let root = machine(&[
            mem,
            group,
            ("sys/fs/cgroup/a/memory.max", "1073741824\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
        ]);
        assert_eq!(memory_mb(root.path()), 1024.0);
        assert_eq!(memory_mb(machine(&[mem, group]).path()), 2048.0);
    }

    #[test]
    fn unreadable_means_unknown() {
        assert_eq!(memory_mb(machine(&[]).path()), 0.0);
        let odd = [
            ("proc/meminfo", "MemTotal: many kB\n"),
            ("proc/self/cgroup", ""),
        ];
        assert_eq!(memory_mb(machine(&odd).path()), 0.0);
    }
}
