//! Measures the usage of running tasks periodically, and passes it to the core.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::TaskKey;
use brasserie_common::resources::TaskPhysicalResources;
use brasserie_common_runtime::Clock;
use brasserie_worker_core::Event;
use nix::unistd::{SysconfVar, sysconf};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::card_use::CardWatch;
use super::tasks::{Looked, Units, sample};
use super::{BYTES_PER_MIB, LEAST_PART};
use crate::groups::Meter;
use crate::process::{Began, RunKey};
use tokio::sync::mpsc::UnboundedSender;

/// The shortest period between measurements: people read the results.
const LEAST_PERIOD: Duration = Duration::from_secs(1);

/// The tasks that have a process now.
#[derive(Debug, Default)]
pub(crate) struct Running {
    tasks: Mutex<HashMap<Arc<RunKey>, SampledTask>>,
    /// Notified when there is a task again after there was none.
    first: Notify,
    /// The program that lists the processes on GPUs.
    nvidia_smi: Option<PathBuf>,
}

/// One running task.
#[derive(Debug)]
struct SampledTask {
    leader: i32,
    period: Duration,
    meter: Option<Arc<Meter>>,
    /// The largest memory of any measurement, in MiB.
    peak_memory_mb: Option<f64>,
}

impl Running {
    pub(crate) fn new(nvidia_smi: Option<PathBuf>) -> Self {
        Running {
            nvidia_smi,
            ..Running::default()
        }
    }

    pub(crate) fn began(&self, key: &Arc<RunKey>, began: Began) {
        let watched = SampledTask {
            leader: began.leader.as_raw(),
            period: began.refresh,
            meter: began.meter.map(Arc::new),
            peak_memory_mb: None,
        };
        let mut tasks = self.tasks.lock();
        tasks.insert(Arc::clone(key), watched);
        if tasks.len() == 1 {
            self.first.notify_one();
        }
    }

    /// Removes an ended task. Returns the largest memory of any measurement, in bytes.
    pub(crate) fn ended(&self, key: &RunKey) -> Option<u64> {
        let peak_mb = self.tasks.lock().remove(key)?.peak_memory_mb?;
        Some((peak_mb * BYTES_PER_MIB) as u64)
    }

    fn all(&self) -> Vec<Looked<Arc<RunKey>>> {
        let tasks = self.tasks.lock();
        let looked = tasks.iter().map(|(key, watched)| Looked {
            task: Arc::clone(key),
            leader: watched.leader,
            meter: watched.meter.clone(),
        });
        looked.collect()
    }

    /// Adds the largest memory so far, including this measurement.
    fn with_peak(&self, key: &RunKey, mut told: TaskPhysicalResources) -> TaskPhysicalResources {
        if let Some(watched) = self.tasks.lock().get_mut(key) {
            let seen = [watched.peak_memory_mb, told.peak_memory_mb, told.memory_mb];
            watched.peak_memory_mb = seen.into_iter().flatten().reduce(f64::max);
            told.peak_memory_mb = watched.peak_memory_mb;
        }
        told
    }

    /// Returns the shortest period that a task's job wants. One measurement serves all tasks.
    fn period(&self) -> Option<Duration> {
        let tasks = self.tasks.lock();
        tasks.values().map(|watched| watched.period).min()
    }
}

/// Measures until it is stopped, or until the core no longer receives events.
pub(crate) async fn sample_tasks(
    running: Arc<Running>,
    own: UnboundedSender<Event>,
    clock: Clock,
    stop: CancellationToken,
) {
    let units = units();
    let mut cards = CardWatch::new(running.nvidia_smi.clone(), Instant::now());
    let mut pause = LEAST_PERIOD;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let Some(period) = running.period() else {
            // A notification by a task that has ended meanwhile costs only one more round.
            tokio::select! {
                () = stop.cancelled() => return,
                () = running.first.notified() => {}
            }
            pause = LEAST_PERIOD;
            continue;
        };
        // The start of the program may wait for a disk.
        let asked = tokio::task::spawn_blocking(move || {
            let card_use = cards.update_blocking();
            (cards, card_use)
        });
        let card_use = tokio::select! {
            () = stop.cancelled() => return,
            // The closure can only panic, and the panic was printed.
            asked = asked => match asked {
                Ok((same, card_use)) => {
                    cards = same;
                    card_use
                }
                Err(_) => return,
            },
        };
        let tasks = running.all();
        let look = move || {
            let began = Instant::now();
            let told = sample(Path::new("/"), units, clock.wall(), tasks, &card_use);
            (told, began.elapsed())
        };
        // The closure can only panic, and the panic was printed.
        let Ok((told, took)) = tokio::task::spawn_blocking(look).await else {
            return;
        };
        for (key, physical) in told {
            let event = Event::TaskSampled {
                task: TaskKey {
                    job: key.job.clone(),
                    node: key.node.clone(),
                },
                invocation: key.invocation,
                physical: running.with_peak(&key, physical),
            };
            if own.send(event).is_err() {
                return;
            }
        }
        pause = period.max(LEAST_PERIOD).max(took * LEAST_PART);
    }
}

/// Returns the units of this machine.
fn units() -> Units {
    let of = |name, usual| {
        let value = sysconf(name).ok().flatten();
        value.and_then(|n| u64::try_from(n).ok()).unwrap_or(usual)
    };
    Units {
        ticks_per_second: of(SysconfVar::CLK_TCK, 100).max(1),
        page_bytes: of(SysconfVar::PAGE_SIZE, 4096),
    }
}
