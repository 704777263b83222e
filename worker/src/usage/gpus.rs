//! Lists the machine's GPUs by `nvidia-smi`.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use brasserie_common::resources::GpuInfo;
use brasserie_common::time::format_duration;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};

const FORMAT: &str = "--format=csv,noheader,nounits";
const CARDS: &str = "--query-gpu=index,uuid,gpu_bus_id,memory.total,name";
/// The time that one run may take. An unused driver takes a second or two to start; a driver that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest accepted output: a row has less than 128 bytes, and no machine has 512 GPUs.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024;

/// The reason why a query of the program failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum GpuError {
    #[error("it cannot be started: {0}")]
    Start(io::Error),
    #[error("its output cannot be read: {0}")]
    Read(io::Error),
    #[error("it has not ended within {}", format_duration(*.limit))]
    Timeout { limit: Duration },
    #[error("{0}")]
    Failed(ExitStatus),
    #[error("it printed more than {MAX_OUTPUT_BYTES} bytes")]
    TooMuch,
    #[error("line {line} of its output: {problem}")]
    Row { line: usize, problem: RowProblem },
}

/// The mistake in one line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RowProblem {
    #[error("not UTF-8 text")]
    NotText,
    #[error("{0} fields instead of {1}")]
    Fields(usize, &'static str),
    #[error("the bus or the name is empty")]
    Empty,
    #[error("the memory or the utilization is no number of 0 or more")]
    Amount,
    #[error("the index is no number of 0 or more")]
    Index,
    #[error("the UUID is neither a UUID nor a reason in brackets")]
    Uuid,
    #[error("the bus, or the UUID or index, occurs twice")]
    Twice,
    #[error("the process is no number above 0")]
    Process,
}

/// A process group that ends with this value, unless it has ended by itself.
struct ToolGroup(Child);

impl Drop for ToolGroup {
    fn drop(&mut self) {
        // The id is known until the child has been waited for. Until then no other process can have it.
        if let Some(id) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            // The call fails only if the group has ended already.
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

/// Lists the GPUs of this machine.
pub(super) async fn cards(program: &Path) -> Result<Vec<GpuInfo>, GpuError> {
    parse(&ask(program, CARDS).await?)
}

/// Runs the program and returns its output. The program has ended, or is killed, when the call returns.
pub(super) async fn ask(program: &Path, query: &str) -> Result<Vec<u8>, GpuError> {
    ask_within(TIMEOUT, program, query).await
}

async fn ask_within(limit: Duration, program: &Path, query: &str) -> Result<Vec<u8>, GpuError> {
    let output = tokio::time::timeout(limit, output_of(program, query)).await;
    output.map_err(|_| GpuError::Timeout { limit })?
}

async fn output_of(program: &Path, query: &str) -> Result<Vec<u8>, GpuError> {
    let child = Command::new(program)
        .args([FORMAT, query])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(GpuError::Start)?;
    let mut group = ToolGroup(child);
    let mut output = Vec::new();
    if let Some(stdout) = group.0.stdout.take() {
        let mut bounded = stdout.take(MAX_OUTPUT_BYTES + 1);
        let read = bounded.read_to_end(&mut output).await;
        read.map_err(GpuError::Read)?;
    }
    if output.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(GpuError::TooMuch);
    }
    let status = group.0.wait().await.map_err(GpuError::Read)?;
    match status.success() {
        true => Ok(output),
        false => Err(GpuError::Failed(status)),
    }
}

/// Parses one line per GPU: `0, GPU-8c5a7ff3-..., 00000000:28:00.0, 11519, Tesla K40m`.
fn parse(output: &[u8]) -> Result<Vec<GpuInfo>, GpuError> {
    let mut seen = BTreeSet::new();
    rows(output, |fields| {
        let card = row(fields)?;
        let names = [&card.pci_bus_id, &card.cuda_device];
        match names.iter().all(|name| seen.insert((*name).clone())) {
            true => Ok(card),
            false => Err(RowProblem::Twice),
        }
    })
}

/// Parses the fields of each line with `read`.
pub(super) fn rows<T>(
    output: &[u8],
    mut read: impl FnMut(&[&str]) -> Result<T, RowProblem>,
) -> Result<Vec<T>, GpuError> {
    let output = output.strip_suffix(b"\n").unwrap_or(output);
    if output.is_empty() {
        return Ok(Vec::new());
    }
    let lines = output.split(|byte| *byte == b'\n').enumerate();
    lines
        .map(|(i, line)| {
            let text = str::from_utf8(line).map_err(|_| RowProblem::NotText);
            let value = text.and_then(|text| read(&text.split(", ").collect::<Vec<_>>()));
            value.map_err(|problem| GpuError::Row {
                line: i + 1,
                problem,
            })
        })
        .collect()
}

fn row(fields: &[&str]) -> Result<GpuInfo, RowProblem> {
    let &[index, uuid, bus, memory, name] = fields else {
        let wanted = "index, UUID, bus, memory and name";
        return Err(RowProblem::Fields(fields.len(), wanted));
    };
    if bus.is_empty() || name.is_empty() {
        return Err(RowProblem::Empty);
    }
    Ok(GpuInfo {
        name: name.to_owned(),
        pci_bus_id: bus.to_owned(),
        cuda_device: cuda_device(index, uuid)?,
        memory_mb: amount(memory)?,
        compute: 1.0,
    })
}

/// Parses a number of 0 or more, in MiB or per cent.
pub(super) fn amount(text: &str) -> Result<f64, RowProblem> {
    let amount: f64 = text.parse().map_err(|_| RowProblem::Amount)?;
    match amount.is_finite() && amount >= 0.0 {
        true => Ok(amount),
        false => Err(RowProblem::Amount),
    }
}

/// Returns the name of a GPU for programs: its UUID, or its index if it has none. An index may mean another GPU after the driver was
/// loaded again, a UUID never does. For a missing UUID the program prints a reason in brackets, such as `[N/A]`. The name becomes part of
/// a list with commas, so it contains none.
pub(super) fn cuda_device(index: &str, uuid: &str) -> Result<String, RowProblem> {
    let index: u32 = index.parse().map_err(|_| RowProblem::Index)?;
    if uuid.starts_with('[') && uuid.ends_with(']') {
        return Ok(index.to_string());
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    match uuid.strip_prefix("GPU-") {
        Some(rest) if !rest.is_empty() && rest.bytes().all(is_plain) => Ok(uuid.to_owned()),
        Some(_) | None => Err(RowProblem::Uuid),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::fs;
    use std::path::PathBuf;

    /// Writes a script that replaces the program. Another process writes it: a child that this process starts meanwhile would inherit the
    /// file open for writing, and then no process could execute it.
    pub(in crate::usage) fn fake(folder: &tempfile::TempDir, body: &str) -> PathBuf {
        let path = folder.path().join("nvidia-smi");
        let write = "printf '%s\\n' '#!/bin/sh' \"$1\" > \"$0\" && chmod 700 \"$0\"";
        let mut shell = std::process::Command::new("/bin/sh");
        let written = shell.arg("-c").arg(write).arg(&path).arg(body).status();
        assert!(written.expect("a shell").success());
        path
    }

    #[tokio::test]
    async fn cards_are_listed_by_their_rows() {
        let folder = tempfile::tempdir().expect("a folder");
        // The script answers only the exact query.
        let program = fake(
            &folder,
            "[ \"$*\" = '--format=csv,noheader,nounits --query-gpu=index,uuid,gpu_bus_id,memory.total,name' ] || exit 9
echo '0, GPU-8c5a7ff3-0001, 0000:28:00.0, 11519, Tesla K40m'; echo '1, [N/A], 0000:29:00.0, 81559, NVIDIA H100 80GB HBM3'",
        );
        let found = cards(&program).await.expect("cards");
        let card = |cuda: &str, bus: &str, memory_mb, name: &str| GpuInfo {
            name: name.to_owned(),
            pci_bus_id: bus.to_owned(),
            cuda_device: cuda.to_owned(),
            memory_mb,
            compute: 1.0,
        };
        assert_eq!(
            found,
            [
                card("GPU-8c5a7ff3-0001", "0000:28:00.0", 11519.0, "Tesla K40m"),
                card("1", "0000:29:00.0", 81559.0, "NVIDIA H100 80GB HBM3"),
            ]
        );
    }

    #[tokio::test]
    async fn a_program_that_fails_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let told = async |body: &str| {
            let found = cards(&fake(&folder, body)).await;
            found.expect_err("no cards").to_string()
        };
        assert_eq!(
            told("echo '0, GPU-1, 0000:28:00.0, 1, K'; exit 6").await,
            "exit status: 6"
        );
        assert_eq!(
            told("exec cat /dev/zero").await,
            "it printed more than 65536 bytes"
        );
        let missing = cards(Path::new("/nowhere/nvidia-smi")).await;
        assert!(matches!(missing, Err(GpuError::Start(_))));
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = folder.path().join("pid");
        let program = fake(
            &folder,
            &format!("echo $$ > {}; exec sleep 1000", own.display()),
        );
        // The limit grows until the script has started.
        let mut limit = Duration::from_millis(100);
        while !own.exists() {
            let found = ask_within(limit, &program, CARDS).await;
            assert!(matches!(found, Err(GpuError::Timeout { .. })), "{found:?}");
            limit *= 2;
        }
        let pid = fs::read_to_string(own).expect("a file");
        let pid = Pid::from_raw(pid.trim().parse().expect("a number"));
        let is_gone = async || {
            while nix::sys::signal::kill(pid, None).is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let gone = tokio::time::timeout(Duration::from_secs(10), is_gone()).await;
        assert_eq!(gone, Ok(()));
    }

    #[test]
    fn rows_are_read_strictly() {
        let problem = |text: &str| match parse(text.as_bytes()) {
            Err(GpuError::Row { line, problem }) => (line, problem),
            other => panic!("{other:?}"),
        };
        let fields = |count| RowProblem::Fields(count, "index, UUID, bus, memory and name");
        assert!(parse(b"").expect("none").is_empty());
        assert_eq!(parse(b"0, GPU-1, a, 0, b").expect("one").len(), 1);
        assert_eq!(problem("0, GPU-1, a, 1"), (1, fields(4)));
        assert_eq!(problem("0, GPU-1, a, 1, b, c\n"), (1, fields(6)));
        assert_eq!(problem("0, GPU-1, a, 1, b\n\n"), (2, fields(1)));
        let memory = |memory: &str| problem(&format!("0, GPU-1, a, {memory}, b\n"));
        for bad in ["[N/A]", "-1", "inf", ""] {
            assert_eq!(memory(bad), (1, RowProblem::Amount));
        }
        assert_eq!(problem("0, GPU-1, , 1, b\n"), (1, RowProblem::Empty));
        assert_eq!(problem("-1, GPU-1, a, 1, b\n"), (1, RowProblem::Index));
        for bad in ["GPU-", "GPU-1,2", "MIG-1", "", "[N/A"] {
            assert_eq!(
                problem(&format!("0, {bad}, a, 1, b\n")),
                (1, RowProblem::Uuid)
            );
        }
        let twice = [
            "0, GPU-1, a, 1, b\n1, GPU-2, a, 2, c\n",
            "0, GPU-1, a, 1, b\n1, GPU-1, b, 2, c\n",
            "0, [N/A], a, 1, b\n0, [Not Supported], b, 2, c\n",
        ];
        assert_eq!(twice.map(problem), [(); 3].map(|()| (2, RowProblem::Twice)));
        assert!(matches!(parse(b"\xff, 1, b"), Err(GpuError::Row { .. })));
    }
}
