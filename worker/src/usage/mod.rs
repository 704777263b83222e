//! Measures the machine's resources for tasks: the cores and memory that affinity and control groups let this process use, and the GPUs
//! if a program that lists them is configured. Also measures the usage of each task.

mod card_use;
mod gpus;
mod memory;
mod sampler;
mod tasks;

use std::path::{Path, PathBuf};

use brasserie_common::WallTime;
use brasserie_common::resources::{GpuInfo, UsablePhysicalResources};
use brasserie_common_runtime::files;
use tokio::runtime::is_rt_shutdown_err;
use tracing::{info, warn};

use gpus::GpuError;
pub(crate) use sampler::{Running, sample_tasks};

/// The divisor for the share of one processor that measurements may take, however many processes the machine has.
const LEAST_PART: u32 = 50;
/// The largest file of `/proc` and of control groups that is read here: far more than these files contain.
const MAX_FILE_BYTES: u64 = 64 * 1024;
const BYTES_PER_MIB: f64 = 1_048_576.0;

/// The repeated measurement of the machine.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    /// The program that lists GPUs; `None`: GPUs are not measured.
    nvidia_smi: Option<PathBuf>,
    /// The last list of GPUs. A single failure of the program removes no GPU.
    cards: Vec<GpuInfo>,
    /// The last failure, so that the log reports a change and not each failure.
    failure: Option<String>,
}

/// Returns the number of GPUs that the program lists. Errors with a message.
pub(crate) async fn count_cards(program: &Path) -> Result<usize, String> {
    let cards = gpus::cards(program).await;
    cards
        .map(|cards| cards.len())
        .map_err(|error| error.to_string())
}

impl Monitor {
    pub(crate) fn new(nvidia_smi: Option<PathBuf>) -> Self {
        Monitor {
            nvidia_smi,
            ..Monitor::default()
        }
    }

    /// Measures the machine. A value that cannot be read is 0, which means unknown.
    pub(crate) async fn usable(&mut self, now: WallTime) -> UsablePhysicalResources {
        self.look_for_cards().await;
        UsablePhysicalResources {
            ms_since_epoch: now.as_millis(),
            cpu_cores: std::thread::available_parallelism().map_or(0.0, |n| n.get() as f64),
            memory_mb: memory::usable_mb(Path::new("/")),
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
                    info!(program = %program.display(), "GPUs are listed again");
                }
                self.cards = cards;
                None
            }
            // The worker ends while it measures.
            Err(GpuError::Start(error) | GpuError::Read(error)) if is_rt_shutdown_err(&error) => {
                return;
            }
            Err(error) => Some(error.to_string()),
        };
        if let Some(error) = failure.as_ref().filter(|_| failure != self.failure) {
            warn!(
                program = %program.display(),
                cards = self.cards.len(),
                "cannot list GPUs, so the known GPUs stay in use: {error}"
            );
        }
        self.failure = failure;
    }
}

/// Reads a text file. Processes choose their own names, which need not be UTF-8, so invalid bytes are replaced.
fn read(path: &Path) -> Option<String> {
    let bytes = files::read(path, MAX_FILE_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Makes a machine with these files.
#[cfg(test)]
fn machine_of(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("created");
        std::fs::write(path, text).expect("written");
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // This program lists no GPUs.
        monitor.nvidia_smi = Some("/bin/true".into());
        let usable = monitor.usable(WallTime::from_secs(6)).await;
        assert_eq!((usable.gpus, &monitor.failure), (Vec::new(), &None));
    }
}
