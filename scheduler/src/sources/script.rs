//! Runs one script of a node source, with limits for its time and output, and ends its descendants.

use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use brasserie_common::time::format_duration;
use brasserie_common_identity::TOKEN_VARIABLE;
use brasserie_common_runtime::service_manager;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// Maximum output of one script: a million names of 64 bytes.
const MAX_OUTPUT_BYTES: u64 = 64 * 1024 * 1024;
/// Maximum bytes of a script's standard error in an error. Its last lines are kept, because scripts report failures there.
const MAX_TAIL_BYTES: usize = 2048;

/// A program that prints the children of the node in its only argument.
#[derive(Clone, Debug)]
pub(super) struct Script {
    /// The absolute path of the program.
    pub(super) program: PathBuf,
    /// The working directory.
    pub(super) folder: PathBuf,
    pub(super) timeout: Duration,
}

/// Why a script gave no names.
#[derive(Debug, thiserror::Error)]
#[error("script {} for node `{node}`: {problem}", script.display())]
pub struct ScriptError {
    script: PathBuf,
    node: String,
    problem: ScriptProblem,
}

#[derive(Debug, thiserror::Error)]
enum ScriptProblem {
    #[error(
        "it cannot be started: {0}. Is it there, executable, and does its first line name its interpreter?"
    )]
    Start(io::Error),
    #[error("its output cannot be read: {0}")]
    Read(io::Error),
    #[error("it has not ended and closed its output within {limit}; the source's `timeout` allows more{tail}",
        limit = format_duration(*.limit))]
    Timeout { limit: Duration, tail: StderrTail },
    #[error("{status}{tail}")]
    Failed {
        status: ExitStatus,
        tail: StderrTail,
    },
    #[error("it printed more than {} MiB", MAX_OUTPUT_BYTES / (1024 * 1024))]
    TooMuch,
    #[error("line {line} of its output is not UTF-8 text")]
    NotText { line: usize },
}

/// The last bytes of the script's standard error.
#[derive(Debug, Default)]
struct StderrTail(Vec<u8>);

impl std::fmt::Display for StderrTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = String::from_utf8_lossy(&self.0);
        match text.trim() {
            "" => Ok(()),
            text => write!(f, ": {text}"),
        }
    }
}

impl StderrTail {
    fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        let excess = self.0.len().saturating_sub(MAX_TAIL_BYTES);
        self.0.drain(..excess);
    }
}

/// A process group that is killed when this value is dropped, unless it has ended by itself.
struct ScriptGroup {
    child: Child,
}

impl ScriptGroup {
    fn kill(&self) {
        // The id stays reserved until the child has been waited for.
        if let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()) {
            // The kill fails only if the group is already gone.
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
    }
}

impl Drop for ScriptGroup {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Script {
    /// Runs the script and returns its output, one name a line. Dropping the future kills the script.
    pub(super) async fn children_of(self, node: String) -> Result<String, ScriptError> {
        let Script {
            program,
            folder,
            timeout,
        } = self;
        let result = run(&program, &folder, &node, timeout).await;
        result.map_err(|problem| ScriptError {
            script: program,
            node,
            problem,
        })
    }
}

async fn run(
    program: &PathBuf,
    folder: &PathBuf,
    node: &str,
    timeout: Duration,
) -> Result<String, ScriptProblem> {
    let mut command = Command::new(program);
    for variable in service_manager::VARIABLES {
        command.env_remove(variable);
    }
    command
        .env_remove(TOKEN_VARIABLE)
        .arg(node)
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut tail = StderrTail::default();
    let begun = Instant::now();
    // Spawning waits for the program's disk, so it runs on a blocking thread with the same time limit.
    let start =
        tokio::task::spawn_blocking(move || command.spawn().map(|child| ScriptGroup { child }));
    let Ok(started) = tokio::time::timeout(timeout, start).await else {
        return Err(ScriptProblem::Timeout {
            limit: timeout,
            tail,
        });
    };
    let mut group = started
        .map_err(io::Error::other)
        .flatten()
        .map_err(ScriptProblem::Start)?;
    let left = timeout.saturating_sub(begun.elapsed());
    let ended = tokio::time::timeout(left, finish(&mut group, &mut tail)).await;
    let (status, output) = match ended {
        Ok(ended) => ended?,
        Err(_) => {
            return Err(ScriptProblem::Timeout {
                limit: timeout,
                tail,
            });
        }
    };
    if !status.success() {
        return Err(ScriptProblem::Failed { status, tail });
    }
    String::from_utf8(output).map_err(|error| {
        let before = error.utf8_error().valid_up_to();
        let line = error.as_bytes()[..before]
            .iter()
            .filter(|&&b| b == b'\n')
            .count()
            + 1;
        ScriptProblem::NotText { line }
    })
}

async fn finish(
    group: &mut ScriptGroup,
    tail: &mut StderrTail,
) -> Result<(ExitStatus, Vec<u8>), ScriptProblem> {
    let stdout = group.child.stdout.take();
    let stderr = group.child.stderr.take();
    // The first failure ends both reads. A script whose one pipe is no longer read may never close the other.
    let (output, ()) = tokio::try_join!(read_output(stdout), read_tail(stderr, tail))?;
    let status = group.child.wait().await.map_err(ScriptProblem::Read)?;
    Ok((status, output))
}

async fn read_output(stdout: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, ScriptProblem> {
    let mut output = Vec::new();
    if let Some(stdout) = stdout {
        stdout
            .take(MAX_OUTPUT_BYTES + 1)
            .read_to_end(&mut output)
            .await
            .map_err(ScriptProblem::Read)?;
    }
    if output.len() as u64 > MAX_OUTPUT_BYTES {
        return Err(ScriptProblem::TooMuch);
    }
    Ok(output)
}

async fn read_tail(
    stderr: Option<impl AsyncRead + Unpin>,
    tail: &mut StderrTail,
) -> Result<(), ScriptProblem> {
    let Some(mut stderr) = stderr else {
        return Ok(());
    };
    let mut buffer = [0; 4096];
    loop {
        match stderr
            .read(&mut buffer)
            .await
            .map_err(ScriptProblem::Read)?
        {
            0 => return Ok(()),
            count => tail.push(&buffer[..count]),
        }
    }
}
