//! The Python that tests run: the project's own virtual environment, `target/python`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the virtual environment. Relative to the repository.
pub const PYTHON_SETUP: &str = "integration-tests/python/venv";

/// Returns the interpreter for scripts that need the standard library alone: the project's own, else the machine's.
#[must_use]
pub fn python() -> PathBuf {
    let own = own_python();
    if own.exists() { own } else { "python3".into() }
}

/// Returns the interpreter of the virtual environment.
///
/// # Errors
/// Where it or a package is missing, with the command that installs them.
pub fn python_with_packages() -> Result<PathBuf, String> {
    let own = own_python();
    // Isolated: otherwise a folder `thrift` of the working directory, as the repository has one, would pass for the package.
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
