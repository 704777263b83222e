//! Lists the GPU use of processes by `nvidia-smi`, and assigns it to tasks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use brasserie_common::resources::GpuInfo;
use tracing::{info, warn};

use super::LEAST_PART;
use super::gpus::{GpuError, RowProblem, amount, ask, cuda_device, rows};

const PROCESSES: &str = "--query-compute-apps=pid,gpu_bus_id,used_gpu_memory";
const CARDS: &str = "--query-gpu=index,uuid,gpu_bus_id,memory.used,utilization.gpu,name";
/// Time between two runs of the program, each of which takes a tenth of a second. It is short enough to see a task of a minute.
const PERIOD: Duration = Duration::from_secs(15);
/// Prefix of the driver's devices. A process that uses a GPU has one of them open.
const DEVICES: &str = "/dev/nvidia";

/// The periodic run of the program, with its last result.
#[derive(Debug)]
pub(super) struct CardWatch {
    /// `None` if GPU use is not measured.
    program: Option<PathBuf>,
    due: Instant,
    /// Empty after a failure, because other processes may have the old pids by now.
    known: CardUse,
    /// The last failure, so that the log reports a change and not each failure.
    failure: Option<String>,
}

/// The GPU use of each process at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CardUse {
    /// The GPUs. `memory_mb` and `compute` are the sums over all processes.
    cards: Vec<GpuInfo>,
    processes: Vec<Listed>,
}

/// One process that uses a GPU.
#[derive(Clone, Debug, PartialEq)]
struct Listed {
    /// The pid in the worker's namespace or in the machine's initial one, depending on the driver.
    pid: i32,
    bus: String,
    /// `None` if the driver does not report it.
    memory_mb: Option<f64>,
}

impl CardWatch {
    pub(super) fn new(program: Option<PathBuf>, now: Instant) -> Self {
        CardWatch {
            program,
            due: now,
            known: CardUse::default(),
            failure: None,
        }
    }

    /// Does the same as [`CardWatch::update`] on a thread that may block. The run has a runtime of its own, because the worker's runtime may
    /// end meanwhile, and a timer of an ended runtime panics.
    pub(super) fn update_blocking(&mut self) -> CardUse {
        if self.due_program(Instant::now()).is_none() {
            return self.known.clone();
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        match runtime {
            Ok(runtime) => runtime.block_on(self.update()),
            Err(error) => self.note(Instant::now(), Err(GpuError::Start(error))),
        }
    }

    /// Returns the last result, after running the program if a run is due.
    async fn update(&mut self) -> CardUse {
        let began = Instant::now();
        match self.due_program(began) {
            Some(program) => {
                let answer = CardUse::ask(program).await;
                self.note(began, answer)
            }
            None => self.known.clone(),
        }
    }

    /// Keeps the result of a run, logs a change between success and failure, and sets the time of the next run.
    fn note(&mut self, began: Instant, answer: Result<CardUse, GpuError>) -> CardUse {
        let failure = answer.as_ref().err().map(ToString::to_string);
        if failure != self.failure {
            match &failure {
                Some(why) => warn!(
                    program = ?self.program,
                    "the GPU use of the tasks is unknown: {why}"
                ),
                None => {
                    info!(program = ?self.program, "the GPU use of the tasks is known again")
                }
            }
        }
        self.failure = failure;
        self.known = answer.unwrap_or_default();
        self.due = began + PERIOD.max(began.elapsed() * LEAST_PART);
        self.known.clone()
    }

    fn due_program(&self, now: Instant) -> Option<&PathBuf> {
        self.program.as_ref().filter(|_| self.due <= now)
    }
}

impl CardUse {
    async fn ask(program: &Path) -> Result<Self, GpuError> {
        let processes = rows(&ask(program, PROCESSES).await?, listed)?;
        let cards = match processes.is_empty() {
            true => Vec::new(),
            false => rows(&ask(program, CARDS).await?, used)?,
        };
        Ok(CardUse { cards, processes })
    }

    /// Returns the GPUs that each task uses, with the memory of the task's processes or, if the driver does not report it, of all processes.
    ///
    /// `members` are the processes of tasks, each with its task. `outside` returns a process's pid in the machine's initial namespace, as
    /// far as it is known.
    pub(super) fn of_tasks(
        &self,
        root: &Path,
        members: &[(i32, usize)],
        outside: impl Fn(i32) -> i32,
    ) -> HashMap<usize, Vec<GpuInfo>> {
        let mut of_tasks = HashMap::new();
        if self.processes.is_empty() {
            return of_tasks;
        }
        let mut called: HashMap<i32, Vec<(i32, usize)>> = HashMap::new();
        for &(pid, task) in members {
            for name in BTreeSet::from([pid, outside(pid)]) {
                called.entry(name).or_default().push((pid, task));
            }
        }
        let mut memory: BTreeMap<(usize, &str), Option<f64>> = BTreeMap::new();
        for listed in &self.processes {
            let mut meant = called.get(&listed.pid).cloned().unwrap_or_default();
            meant.retain(|(pid, _)| has_device(root, *pid));
            // Two processes may have the same pid in different namespaces. If both use GPUs, the listed one is unknown.
            if let [(_, task)] = meant[..] {
                let sum = memory.entry((task, &listed.bus)).or_insert(Some(0.0));
                *sum = sum.zip(listed.memory_mb).map(|(sum, more)| sum + more);
            }
        }
        for ((task, bus), memory_mb) in memory {
            let card = self.cards.iter().find(|card| card.pci_bus_id == bus);
            let card = card.map(|card| GpuInfo {
                memory_mb: memory_mb.unwrap_or(card.memory_mb),
                ..card.clone()
            });
            of_tasks.entry(task).or_insert_with(Vec::new).extend(card);
        }
        of_tasks
    }
}

/// Returns whether a process has a device of the driver open, because an equal pid alone does not prove that the driver means this process.
fn has_device(root: &Path, pid: i32) -> bool {
    let Ok(open) = fs::read_dir(root.join(format!("proc/{pid}/fd"))) else {
        return false;
    };
    open.flatten().any(|entry| {
        let target = fs::read_link(entry.path());
        target.is_ok_and(|target| {
            target
                .as_os_str()
                .as_encoded_bytes()
                .starts_with(DEVICES.as_bytes())
        })
    })
}

/// Parses a line such as `60982, 00000000:28:00.0, 298`. The memory may be `[N/A]`.
fn listed(fields: &[&str]) -> Result<Listed, RowProblem> {
    let &[pid, bus, memory] = fields else {
        return Err(RowProblem::Fields(fields.len(), "process, bus and memory"));
    };
    let pid: i32 = pid.parse().map_err(|_| RowProblem::Process)?;
    if pid <= 0 {
        return Err(RowProblem::Process);
    }
    Ok(Listed {
        pid,
        bus: bus.to_owned(),
        memory_mb: known(memory)?,
    })
}

/// Parses a line such as `0, GPU-8c5a7ff3-..., 00000000:28:00.0, 298, 28, Tesla K40m`. The utilization is in per cent.
fn used(fields: &[&str]) -> Result<GpuInfo, RowProblem> {
    let &[index, uuid, bus, memory, percent, name] = fields else {
        let wanted = "index, UUID, bus, memory, utilization and name";
        return Err(RowProblem::Fields(fields.len(), wanted));
    };
    let percent = known(percent)?.unwrap_or_default();
    Ok(GpuInfo {
        name: name.to_owned(),
        pci_bus_id: bus.to_owned(),
        cuda_device: cuda_device(index, uuid)?,
        memory_mb: known(memory)?.unwrap_or_default(),
        compute: percent / 100.0,
    })
}

/// Parses a number of 0 or more; `None` for a reason in brackets why there is none.
fn known(text: &str) -> Result<Option<f64>, RowProblem> {
    match text.starts_with('[') && text.ends_with(']') {
        true => Ok(None),
        false => amount(text).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::super::gpus::tests::fake;
    use super::super::tasks::{Looked, Units, sample};
    use super::*;
    use brasserie_common::WallTime;
    use std::os::unix::fs::symlink;

    const TWO_CARDS: &str = "case $2 in
--query-compute-apps=pid,gpu_bus_id,used_gpu_memory) cat \"$0.processes\" ;;
--query-gpu=index,uuid,gpu_bus_id,memory.used,utilization.gpu,name)
  echo '0, GPU-1, 0:28, 900, 50, H100'; echo '1, [N/A], 0:29, 70, [N/A], H100' ;;
*) exit 9 ;;
esac";

    async fn answer(body: &str, processes: &str) -> Result<CardUse, GpuError> {
        let folder = tempfile::tempdir().expect("a folder");
        let program = fake(&folder, body);
        fs::write(program.with_extension("processes"), processes).expect("written");
        CardUse::ask(&program).await
    }

    /// Makes a `/proc` with processes that have these files open.
    fn machine(open: &[(i32, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (pid, file) in open {
            let folder = root.path().join(format!("proc/{pid}/fd"));
            fs::create_dir_all(&folder).expect("made");
            symlink("/dev/null", folder.join("0")).expect("made");
            symlink(file, folder.join("7")).expect("made");
        }
        root
    }

    fn told(gpus: &[GpuInfo]) -> Vec<(&str, &str, f64, f64)> {
        let told = gpus.iter().map(|card| {
            let names = (&*card.pci_bus_id, &*card.cuda_device);
            (names.0, names.1, card.memory_mb, card.compute)
        });
        told.collect()
    }

    #[tokio::test]
    async fn tasks_use_the_cards_of_their_processes() {
        let listed = "100, 0:28, 298\n101, 0:28, 2\n101, 0:29, [N/A]\n200, 0:29, 5\n300, 0:28, 600\n999, 0:28, 1\n";
        let found = answer(TWO_CARDS, listed).await.expect("an answer");
        let device = "/dev/nvidia0";
        let root = machine(&[
            (100, device),
            (101, device),
            (200, "/dev/nvidiactl"),
            (300, "/tmp/nvidia0"),
        ]);
        // Two tasks use GPUs. Process 300 only has the pid of a process of another namespace that uses one.
        let members = [(100, 0), (101, 0), (200, 1), (300, 2)];
        let of_tasks = found.of_tasks(root.path(), &members, |pid| pid);
        assert_eq!(
            told(&of_tasks[&0]),
            [("0:28", "GPU-1", 300.0, 0.5), ("0:29", "1", 70.0, 0.0)]
        );
        assert_eq!(told(&of_tasks[&1]), [("0:29", "1", 5.0, 0.0)]);
        assert_eq!(of_tasks.len(), 2);
    }

    #[tokio::test]
    async fn a_sample_of_the_tasks_has_their_gpus() {
        let found = answer(TWO_CARDS, "100, 0:28, 298\n").await;
        let root = machine(&[(100, "/dev/nvidia0")]);
        let stat = "100 (a) S 1 100 100 0 -1 4194304 9 9 9 9 0 0 0 0 20 0 1 0 77 99999 1 0";
        fs::write(root.path().join("proc/100/stat"), stat).expect("written");
        let units = Units {
            ticks_per_second: 100,
            page_bytes: 4096,
        };
        let task = Looked {
            task: (),
            leader: 100,
            meter: None,
        };
        let now = WallTime::from_secs(7);
        let looked = sample(
            root.path(),
            units,
            now,
            vec![task],
            &found.expect("an answer"),
        );
        assert_eq!(told(&looked[0].1.gpus), [("0:28", "GPU-1", 298.0, 0.5)]);
    }

    #[tokio::test]
    async fn processes_are_found_by_their_pid_in_either_namespace_unless_it_is_ambiguous() {
        let outside = |pid: i32| pid + 1000;
        let members = [(7, 0), (1007, 1), (8, 2)];
        let device = "/dev/nvidia-uvm";
        let found = answer(TWO_CARDS, "1007, 0:28, 1\n1008, 0:28, 2\n").await;
        let found = found.expect("an answer");
        let only_here = machine(&[(1007, device), (8, device), (7, "/dev/null")]);
        let of_tasks = found.of_tasks(only_here.path(), &members, outside);
        assert_eq!(told(&of_tasks[&1]), [("0:28", "GPU-1", 1.0, 0.5)]);
        assert_eq!(told(&of_tasks[&2]), [("0:28", "GPU-1", 2.0, 0.5)]);
        let either = machine(&[(1007, device), (7, device)]);
        assert!(found.of_tasks(either.path(), &members, outside).is_empty());
    }

    #[tokio::test]
    async fn hostile_output_is_refused_and_no_task_has_a_gpu() {
        let problem = async |listed: &str| {
            let answer = answer(TWO_CARDS, listed).await;
            answer.expect_err("a problem").to_string()
        };
        let line = "line 1 of its output: ";
        for bad in ["0", "-1", "4294967296", "x", ""] {
            let told = problem(&format!("{bad}, 0:28, 1\n")).await;
            assert_eq!(told, format!("{line}the process is no number above 0"));
        }
        assert!(
            problem("7, 0:28\n")
                .await
                .starts_with(&format!("{line}2 fields"))
        );
        assert!(problem("7, 0:28, nan\n").await.contains("memory"));
        let flood = answer("exec cat /dev/zero", "")
            .await
            .expect_err("too much");
        assert_eq!(flood.to_string(), "it printed more than 65536 bytes");
        // The query of processes lists none, so the second query is not run.
        let none = answer(
            "[ $2 = --query-compute-apps=pid,gpu_bus_id,used_gpu_memory ]",
            "",
        )
        .await;
        assert_eq!(none.expect("an answer"), CardUse::default());
    }

    #[tokio::test]
    async fn a_failure_discards_old_results() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = fake(&folder, TWO_CARDS);
        let processes = program.with_extension("processes");
        fs::write(&processes, "7, 0:28, 1\n").expect("written");
        let mut watch = CardWatch::new(Some(program), Instant::now());
        assert_eq!(watch.update().await.processes.len(), 1);
        fs::remove_file(&processes).expect("removed");
        // The next run is not due yet.
        assert_eq!(watch.update().await.processes.len(), 1);
        watch.due = Instant::now();
        assert_eq!(watch.update().await, CardUse::default());
        assert_eq!(watch.failure.as_deref(), Some("exit status: 1"));
    }
}
