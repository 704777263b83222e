//! Finds the Python interpreter for tests: the project's own virtual environment, `target/python`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The command that creates the virtual environment, relative to the repository.
pub const PYTHON_SETUP: &str = "integration-tests/python/venv";

/// Returns the interpreter for scripts that need only the standard library: the project's own, or else the machine's.
#[must_use]
pub fn python() -> PathBuf {
    let own = own_python();
    if own.exists() { own } else { "python3".into() }
}

/// Returns the interpreter of the virtual environment.
///
/// # Errors
/// If the environment or a package is missing, with the command that installs them.
pub fn python_with_packages() -> Result<PathBuf, String> {
    let own = own_python();
    // `-I` isolates the interpreter. Otherwise a folder `thrift` in the working directory, such as the repository's, would count as the
    // package.
    let probe = ["-I", "-c", "import thriftpy2, thrift.protocol"];
    let probed = Command::new(&own).args(probe).output();
    match probed {
        Ok(output) if output.status.success() => Ok(own),
        Ok(output) => Err(format!(
            "{} lacks packages, run {PYTHON_SETUP}: {}",
            own.display(),
            String::from_utf8_lossy(&output.stderr).trim()
        )),
        Err(error) => Err(format!(
            "cannot run {} ({error}), run {PYTHON_SETUP}",
            own.display()
        )),
    }
}

fn own_python() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.parent().unwrap_or(package);
    root.join("target/python/bin/python3")
}
