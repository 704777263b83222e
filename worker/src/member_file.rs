//! A file that names the members of one scheduler: `HOST:PORT`, one a line.

use std::path::{Path, PathBuf};

use brasserie_common::ServiceAddress;
use brasserie_common_runtime::{files, parse_peer};
use parking_lot::Mutex;

/// Far above what any list of members has.
const MOST_BYTES: u64 = 64 * 1024;
/// Each that does not answer costs a worker seconds before it comes to the next.
pub(crate) const MOST_MEMBERS: usize = 64;
/// Of so many mistakes in a file each is told.
const MOST_PROBLEMS: usize = 20;

/// Why such a file cannot be used: each mistake with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .problems.join("\n"))]
pub struct MemberFileError {
    problems: Vec<String>,
}

/// One that is read again and again.
#[derive(Debug)]
pub(crate) struct MemberFile {
    path: PathBuf,
    /// What was wrong with it the last time, which is told once.
    told: Mutex<Option<MemberFileError>>,
}

impl MemberFile {
    pub(crate) fn new(path: PathBuf) -> Self {
        MemberFile {
            path,
            told: Mutex::new(None),
        }
    }

    /// Whoever asks goes on with what was read before if there is an error.
    pub(crate) fn read_again(&self) -> Result<Vec<ServiceAddress>, MemberFileError> {
        let read = read(&self.path);
        let mut told = self.told.lock();
        match &read {
            Ok(_) if told.is_some() => {
                tracing::info!("{} can be used again", self.path.display());
            }
            Err(error) if told.as_ref() != Some(error) => {
                tracing::warn!(
                    "the scheduler's members stay who they were, since their list cannot be used: {}",
                    error.problems.join("; ")
                );
            }
            Ok(_) | Err(_) => {}
        }
        *told = read.as_ref().err().cloned();
        read
    }
}

/// All of them, each once, in the order of the file.
pub(crate) fn read(path: &Path) -> Result<Vec<ServiceAddress>, MemberFileError> {
    match files::read_to_string(path, MOST_BYTES) {
        Ok(text) => parse(path, &text),
        Err(error) => Err(MemberFileError {
            problems: vec![error.to_string()],
        }),
    }
}

fn parse(path: &Path, text: &str) -> Result<Vec<ServiceAddress>, MemberFileError> {
    let path = path.display();
    let mut members: Vec<(usize, ServiceAddress)> = Vec::new();
    let mut problems = Vec::new();
    let lines = text.lines().zip(1..);
    let lines = lines.map(|(line, number)| (line.split('#').next().unwrap_or_default(), number));
    for (line, number) in lines {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let member = match parse_peer(line) {
            Ok(member) => member,
            Err(error) => {
                problems.push(format!("{path}:{number}: {error}"));
                continue;
            }
        };
        match members.iter().find(|(_, known)| *known == member) {
            Some((first, _)) => problems.push(format!(
                "{path}:{number}: {member} is named in line {first} already"
            )),
            None if members.len() == MOST_MEMBERS => problems.push(format!(
                "{path}:{number}: {member} is one too many: a scheduler has {MOST_MEMBERS} members at most"
            )),
            None => members.push((number, member)),
        }
    }
    if members.is_empty() && problems.is_empty() {
        problems.push(format!(
            "{path} names nobody: write HOST:PORT, one a line; what follows a # is a comment"
        ));
    }
    if problems.is_empty() {
        return Ok(members.into_iter().map(|(_, member)| member).collect());
    }
    let more = problems.len().saturating_sub(MOST_PROBLEMS);
    problems.truncate(MOST_PROBLEMS);
    if more > 0 {
        problems.push(format!("{path}: and {more} more"));
    }
    Err(MemberFileError { problems })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn parsed(text: &str) -> Result<Vec<String>, String> {
        let read = parse(Path::new("/f"), text);
        let read = read.map(|all| all.iter().map(ToString::to_string).collect());
        read.map_err(|error| error.to_string())
    }

    #[test]
    fn lines_are_members_in_their_order() {
        let text = "# who serves\n\n  b.example:2  # the usual one\r\na.example:1\n[::1]:3";
        let expected = ["b.example:2", "a.example:1", "[::1]:3"];
        assert_eq!(parsed(text), Ok(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn all_mistakes_are_told_with_their_lines() {
        let error = parsed("a:1\nb\na:1\n:3\n").expect_err("none of them is right");
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 3, "{error}");
        assert!(lines[0].starts_with("/f:2: "), "{error}");
        assert_eq!(lines[1], "/f:3: a:1 is named in line 1 already");
        assert!(lines[2].starts_with("/f:4: "), "{error}");
        for nobody in ["", "# a:1\n"] {
            assert!(
                parsed(nobody)
                    .expect_err("nobody")
                    .starts_with("/f names nobody: write HOST:PORT")
            );
        }
        let many: String = (1..=100).map(|port| format!("a:{port}\n")).collect();
        let error = parsed(&many).expect_err("too many");
        assert!(
            error.starts_with("/f:65: a:65 is one too many: a scheduler has 64"),
            "{error}"
        );
        assert!(error.ends_with("/f: and 16 more"), "{error}");
    }

    #[test]
    fn a_file_is_read_as_it_is_now() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("members");
        let file = MemberFile::new(path.clone());
        let gone = file.read_again().expect_err("there is none").to_string();
        assert!(gone.contains(path.to_str().expect("text")), "{gone}");
        fs::write(&path, "a:1\n").expect("written");
        assert_eq!(file.read_again().map(|all| all.len()), Ok(1));
        fs::write(&path, [b'a', 0xff]).expect("written");
        assert!(file.read_again().is_err());
        fs::write(&path, vec![b'#'; 65 * 1024]).expect("written");
        let large = file.read_again().expect_err("too large").to_string();
        assert!(large.contains("65536 bytes"), "{large}");
    }
}
