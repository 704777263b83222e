//! Records the folders in which a worker has made control groups, in a file of its data directory. The worker's keeper and its successor
//! read the file to find leftover groups, and empty these.
//!
//! The file has the worker's tag, then one folder a line, each noted before the first group is made in it. A group belongs to the worker
//! if its name contains the tag. The tag belongs to the data directory, which one worker uses at a time. The file need not survive a
//! crash of the machine, because groups do not either.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use brasserie_common_runtime::files::{open_own, read_to_string};
use brasserie_worker_core::AssociationIndex;
use nix::unistd::Pid;

use super::files::FileError;
use super::killing::{self, Dir, Freezing, Racy};
use super::name::is_of_scheduler;
use super::{GroupError, Tag};

/// The file's name in the data directory.
pub const FILE: &str = "cgroups";
/// The pause between two checks of groups that are being emptied: longer than a process needs to die.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// The largest number of noted folders. The worker makes groups in one folder per controller, and jobs name few others.
const MAX_PLACES: usize = 1000;
/// The most bytes of the file that are read: paths of 4 KiB in every line.
const MAX_BYTES: u64 = 4 << 20;

/// The file of a living worker.
#[derive(Debug)]
pub struct Places {
    file: PathBuf,
    tag: Tag,
    noted: BTreeSet<PathBuf>,
}

impl Places {
    pub(super) fn new(file: PathBuf, tag: Tag) -> Self {
        Places {
            file,
            tag,
            noted: BTreeSet::new(),
        }
    }

    /// Notes a folder. The caller does so before it makes the first group there.
    pub(super) fn note(&mut self, parent: &Path) -> Result<(), GroupError> {
        if self.noted.contains(parent) {
            return Ok(());
        }
        if self.noted.len() >= MAX_PLACES {
            return Err(GroupError::TooManyPlaces(MAX_PLACES));
        }
        let is_first = self.noted.is_empty();
        let mut options = OpenOptions::new();
        options.create(true).write(true);
        options.append(!is_first).truncate(is_first);
        let mut file =
            open_own(&self.file, &mut options).map_err(FileError::of("open", &self.file))?;
        let path = parent.display();
        let text = match is_first {
            true => format!("{}\n{path}\n", self.tag),
            false => format!("{path}\n"),
        };
        file.write_all(text.as_bytes())
            .map_err(FileError::of("write to", &self.file))?;
        self.noted.insert(parent.to_owned());
        Ok(())
    }
}

/// The makers of the groups to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Makers {
    /// Every user of the data directory.
    All,
    /// This process, which may have a successor by now.
    Process(Pid),
    /// This process, limited to groups whose tasks one of its schedulers sent.
    Part(Pid, AssociationIndex),
}

/// Returns the remaining groups of these makers, according to the file.
pub fn left_behind(file: &Path, by: Makers) -> Vec<Dir> {
    let text = read_to_string(file, MAX_BYTES).unwrap_or_default();
    let mut lines = text.lines();
    let Some(tag) = lines.next().and_then(Tag::parse) else {
        return Vec::new();
    };
    let parents = lines.take(MAX_PLACES).filter(|line| line.starts_with('/'));
    let entries = parents.flat_map(fs::read_dir).flatten().flatten();
    let made_by = |name: &str, pid| tag.is_in(name) && name.ends_with(&format!(":{pid}"));
    let is_ours = |name: &str| match by {
        Makers::All => tag.is_in(name),
        Makers::Process(pid) => made_by(name, pid),
        Makers::Part(pid, of) => made_by(name, pid) && is_of_scheduler(name, of),
    };
    let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    ours.map(|entry| Dir::found(entry.path())).collect()
}

/// Kills the processes in a dead worker's groups, and removes empty groups. The keeper calls it in each round. Never waits.
pub fn sweep(file: &Path, worker: Pid) {
    let dirs = left_behind(file, Makers::Process(worker));
    kill_all(&dirs);
    for dir in dirs {
        dir.remove();
    }
}

/// Kills the processes in the groups of one scheduler's tasks. The worker is alive and removes the groups itself.
pub fn sweep_part(file: &Path, worker: Pid, of: AssociationIndex) {
    kill_all(&left_behind(file, Makers::Part(worker, of)));
}

/// Empties and removes a predecessor's groups, before a worker starts anything. Blocks until they are gone, at most for `timeout`. Returns
/// the groups that are left then.
pub fn remove_leftovers(file: &Path, timeout: Duration) -> Vec<PathBuf> {
    let give_up = Instant::now() + timeout;
    loop {
        let mut dirs = left_behind(file, Makers::All);
        dirs.retain(|dir| !dir.is_empty() || !dir.remove());
        if dirs.is_empty() || Instant::now() >= give_up {
            return dirs.into_iter().map(|dir| dir.path).collect();
        }
        kill_all(&dirs);
        thread::sleep(LOOK_AGAIN);
    }
}

/// Performs one step of killing for each group, by the best method that the group has; see [`killing`].
fn kill_all(dirs: &[Dir]) {
    for dir in dirs {
        let alone = std::slice::from_ref(dir);
        // The timeout is zero: a freezer gets one round to freeze. Then its processes are killed, frozen or not.
        let mut freezing = Freezing::default();
        let now = Instant::now();
        killing::step(alone, Racy::Allowed, &mut freezing, Duration::ZERO, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_groups_are_found_again_and_no_others() {
        let dir = tempfile::tempdir().expect("a folder");
        let (first, second) = (dir.path().join("memory"), dir.path().join("cpu"));
        let tag = Tag(0x1f);
        let mut places = Places::new(dir.path().join(FILE), tag);
        for parent in [&first, &second, &first] {
            fs::create_dir_all(parent).expect("made");
            places.note(parent).expect("noted");
        }
        let own = [
            first.join("s:20260102030405:0000001f00000001:77"),
            second.join("s:20260102030405:0000001f00000002:77"),
        ];
        let other = first.join("s:20260102030405:0000001e00000001:77");
        for group in own.iter().chain([&other]) {
            fs::create_dir(group).expect("made");
        }
        let file = dir.path().join(FILE);
        let of = |by| left_behind(&file, by);
        let found: Vec<PathBuf> = of(Makers::All).into_iter().map(|d| d.path).collect();
        assert_eq!(found, own);
        let worker = Pid::from_raw(77);
        assert_eq!(of(Makers::Process(worker)).len(), 2);
        let part = |at| of(Makers::Part(worker, AssociationIndex(at))).len();
        assert_eq!([part(0), part(1), part(2)], [2, 0, 0]);
        let part_of_another = first.join("s:20260102030405:0000001f20000001:77");
        fs::create_dir(&part_of_another).expect("made");
        assert_eq!([part(0), part(1), part(2)], [2, 0, 1]);
        fs::remove_dir(&part_of_another).expect("removed");
        assert_eq!(of(Makers::Process(Pid::from_raw(7))), []);
        // Folders without processes look like empty groups.
        let left = remove_leftovers(&file, Duration::from_secs(5));
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(left_behind(&file, Makers::All), []);
        assert!(other.is_dir());
    }

    #[test]
    fn a_new_user_of_the_directory_begins_anew_and_strange_files_mean_nothing() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join(FILE);
        assert_eq!(left_behind(&file, Makers::All), []);
        for strange in ["", "x\n/", "0000001f\nrelative\n", "\u{0}"] {
            fs::write(&file, strange).expect("written");
            assert_eq!(left_behind(&file, Makers::All), []);
        }
        fs::remove_file(&file).expect("removed");
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        assert_eq!(left_behind(&file, Makers::All), []);
        let mut places = Places::new(file.clone(), Tag(1));
        let refused = places.note(Path::new("/nowhere")).expect_err("a pipe");
        assert!(refused.to_string().contains("remove it"), "{refused}");
        fs::remove_file(&file).expect("removed");
        places.note(Path::new("/nowhere")).expect("noted");
        let text = fs::read_to_string(&file).expect("there");
        assert_eq!(text, "00000001\n/nowhere\n");
    }
}
