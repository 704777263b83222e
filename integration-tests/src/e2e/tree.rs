//! Copies this repository's sources, for the quick start to work on.

use std::fs;
use std::path::Path;

/// Folders without sources.
const SKIPPED: [&str; 1] = ["target"];

/// Copies Rust sources, manifests and examples below `to`.
///
/// # Panics
/// If a file cannot be read or written.
pub fn copy_sources(to: &Path) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace holds this crate");
    copy(root, to, &|name| {
        name.ends_with(".rs") || name == "Cargo.toml"
    });
    copy(&root.join("examples"), &to.join("examples"), &|_| true);
}

fn copy(from: &Path, to: &Path, is_wanted: &dyn Fn(&str) -> bool) {
    fs::create_dir_all(to).expect("a folder in a temporary folder");
    for entry in fs::read_dir(from).expect("a folder of the repository is readable") {
        let path = entry.expect("a folder entry is readable").path();
        let name = path
            .file_name()
            .expect("an entry has a name")
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && !path.is_symlink() {
            if !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
                copy(&path, &to.join(&name), is_wanted);
            }
        } else if is_wanted(&name) && path.exists() {
            // Copies the mode too, so that scripts stay executable.
            fs::copy(&path, to.join(&name)).expect("a source file can be copied");
        }
    }
}
