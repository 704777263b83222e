//! The folders of runs with artifacts: one for each run, with its inputs and, unless the job has a `cwd` and thus no outputs, its working
//! directory.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use brasserie_common::text::counted;
use brasserie_common::time::readable_duration;
use brasserie_common_artifacts::{SteppedRemoval, TaskUser, remove_tree};
use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use tokio::time::sleep;

use super::background::Background;
use crate::process::{Accounts, PASSAGE, PRIVATE, SpawnRequest, create_folder, create_new_folder};

/// The folder of all runs with artifacts, below the data directory.
pub(crate) const RUNS: &str = "runs";

/// The time between two attempts to delete what could not be deleted. Its cause lasts until a person removes it, and each attempt reads all
/// that is left.
const REMOVE_AGAIN: Duration = Duration::from_secs(600);
/// The number of names that one step of a removal reads. The end of the worker waits for a step, which takes less than a second unless the
/// files are large and the disk is slow.
const STEP: u64 = 256;

/// The folders of a worker's runs.
#[derive(Clone, Debug)]
pub(crate) struct RunFolders {
    root: PathBuf,
    accounts: Accounts,
    left: LeftFolders,
}

/// The folders of runs that have ended, or never began, that are not deleted yet. No run gets one of these paths. Clones are the same.
#[derive(Clone, Debug, Default)]
struct LeftFolders(Arc<Mutex<BTreeMap<PathBuf, LeftBy>>>);

/// The reason why a folder is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeftBy {
    /// An earlier worker has ended before the run.
    EarlierWorker,
    /// The folder could not be deleted, which the log says.
    Failure,
}

/// The folder of one run. Dropping it deletes nothing: call [`RunFolder::remove`].
#[derive(Clone, Debug)]
pub(crate) struct RunFolder {
    pub root: PathBuf,
    /// The folder with the run's inputs.
    pub inputs: PathBuf,
    /// The working directory.
    pub work: PathBuf,
    pub user: TaskUser,
    left: LeftFolders,
}

impl RunFolders {
    /// Opens the folder of runs. [`RunFolders::keep_clean`] deletes what an earlier worker has left there, because that may take minutes. None
    /// of its processes is alive.
    pub(crate) fn open(data_dir: &Path, accounts: Accounts) -> io::Result<Self> {
        let root = std::path::absolute(data_dir)?.join(RUNS);
        let left = LeftFolders::default();
        match folders_in(&root) {
            Ok(folders) => left.0.lock().extend(folders),
            Err(error) => tracing::warn!(
                "cannot read {}, so what an earlier worker has left there stays until the next start: {error}",
                root.display()
            ),
        }
        Ok(RunFolders {
            root,
            accounts,
            left,
        })
    }

    /// Deletes what is left, and tries again now and then to delete what could not be deleted.
    pub(super) async fn keep_clean(self, background: Background) {
        loop {
            self.remove_left(&background).await;
            sleep(REMOVE_AGAIN).await;
        }
    }

    async fn remove_left(&self, background: &Background) {
        let left = self.left.0.lock().clone();
        let of_earlier = |by: &&LeftBy| **by == LeftBy::EarlierWorker;
        let count = left.values().filter(of_earlier).count();
        let (root, begun) = (self.root.display(), Instant::now());
        if count > 0 {
            let count = counted(count as u64, "run");
            tracing::info!(
                "deletes in the background what earlier workers have left of {count} in {root}"
            );
        }
        let (mut deleted, mut failed) = (0, 0);
        for (path, by) in left {
            let (count, result) = remove_in_steps(path.clone(), background).await;
            let shown = path.display();
            match (result, by) {
                (Ok(()), LeftBy::EarlierWorker) => {}
                (Ok(()), LeftBy::Failure) => {
                    tracing::info!("deleted {shown}, which was left of a run");
                }
                (Err(error), LeftBy::EarlierWorker) => {
                    log_failure(&path, &error);
                    failed += 1;
                    self.left.0.lock().insert(path, LeftBy::Failure);
                    continue;
                }
                (Err(_), LeftBy::Failure) => continue,
            }
            deleted += count;
            self.left.0.lock().remove(&path);
        }
        if count > 0 {
            let time = readable_duration(begun.elapsed());
            let rest = match failed {
                0 => String::new(),
                failed => format!("; {} stay", counted(failed, "run folder")),
            };
            tracing::info!(
                "deleted {deleted} files and folders that earlier workers had left in {root}, in {time}{rest}"
            );
        }
    }

    /// Makes the folder of a run. The error is a message.
    pub(crate) fn make(&self, request: &SpawnRequest) -> Result<RunFolder, String> {
        let options = &request.options;
        let user = self.accounts.user_of(options)?;
        let name = folder_name(request);
        let failed = |error| {
            let above = self.root.display();
            format!("cannot make the folder {name} of the run in {above}: {error}")
        };
        let root = self.make_root(&name).map_err(failed)?;
        let made = self.fill(&root, user, options.working_directory.as_deref());
        made.inspect_err(|_| self.left.remove(&root))
            .map_err(failed)
    }

    /// Makes an empty folder with this name, or with a number behind it if an earlier run of this name has left its folder.
    fn make_root(&self, name: &str) -> io::Result<PathBuf> {
        create_folder(&self.root, PASSAGE)?;
        let mut again = 1;
        loop {
            let root = self.root.join(match again {
                1 => name.to_owned(),
                again => format!("{name}-{again}"),
            });
            // A path that is left has a folder, or had one a moment ago.
            let is_left = self.left.0.lock().contains_key(&root);
            if !is_left {
                match create_new_folder(&root, PRIVATE) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                    made => return made.map(|()| root),
                }
            }
            again += 1;
        }
    }

    fn fill(&self, root: &Path, user: TaskUser, cwd: Option<&str>) -> io::Result<RunFolder> {
        let inputs = root.join("inputs");
        create_for(&inputs, user)?;
        let work = match cwd {
            Some(cwd) => PathBuf::from(cwd),
            None => {
                let work = root.join("work");
                create_for(&work, user)?;
                work
            }
        };
        Ok(RunFolder {
            root: root.to_owned(),
            inputs,
            work,
            user,
            left: self.left.clone(),
        })
    }
}

/// Returns what an earlier worker has left in the folder of runs. Removes a file or a link in the place of that folder.
fn folders_in(root: &Path) -> io::Result<Vec<(PathBuf, LeftBy)>> {
    if fs::symlink_metadata(root).is_ok_and(|found| !found.is_dir()) {
        fs::remove_file(root)?;
    }
    let entries = match fs::read_dir(root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    // Tasks of other users pass through it.
    fs::set_permissions(root, Permissions::from_mode(PASSAGE))?;
    entries
        .map(|entry| Ok((entry?.path(), LeftBy::EarlierWorker)))
        .collect()
}

/// Deletes a folder, with a pause between the steps in which the worker can end. Returns the number of deleted files and folders.
async fn remove_in_steps(path: PathBuf, background: &Background) -> (u64, io::Result<()>) {
    // A panic was printed where it happened.
    let panicked = || io::Error::other("the removal has ended early");
    let begun = background.block_for(move || SteppedRemoval::begin(path));
    let mut removal = match begun.await {
        Some(Ok(Some(removal))) => removal,
        Some(Ok(None)) => return (1, Ok(())),
        Some(Err(error)) => return (0, Err(error)),
        None => return (0, Err(panicked())),
    };
    loop {
        let step = move || {
            let over = removal.step(STEP);
            (removal, over)
        };
        removal = match background.block_for(step).await {
            Some((removal, None)) => removal,
            Some((removal, Some(result))) => return (removal.deleted(), result),
            None => return (0, Err(panicked())),
        };
    }
}

fn log_failure(path: &Path, error: &io::Error) {
    tracing::warn!(
        "cannot delete the folder {} of a run that has ended, and tries again every {}: {error}",
        path.display(),
        readable_duration(REMOVE_AGAIN)
    );
}

/// Returns the name of the folder of a run: letters, digits and `-`, because tasks put its path into shell commands and formats. Only one
/// scheduler's invocations differ from each other, so the name begins with the association.
fn folder_name(request: &SpawnRequest) -> String {
    let invocation = request.key.invocation.to_string();
    format!("{}-{}", request.association.0, invocation.replace(':', "-"))
}

impl RunFolder {
    /// Makes a folder for inputs, and those above it, for the user of the run.
    pub(super) fn make_below_inputs(&self, folder: &Path) -> io::Result<()> {
        let mut made = self.inputs.clone();
        for part in folder.components() {
            made.push(part);
            create_for(&made, self.user)?;
        }
        Ok(())
    }

    /// Lets the user of the run pass through to its folders. Until then nobody but the worker can change what is in them, so no link can be
    /// put where the worker writes.
    pub(super) fn hand_over(&self) -> io::Result<()> {
        fs::set_permissions(&self.root, Permissions::from_mode(PASSAGE))
    }

    /// Opens the working directory, which the run may have replaced by anything. Every process of the run is dead.
    pub(super) fn open_work(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY
            | OFlags::DIRECTORY
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.work, flags, Mode::empty())?)
    }

    /// Deletes the folder. If that fails, the worker tries again later. Every process of the run is dead.
    pub(super) fn remove(&self) {
        self.left.remove(&self.root);
    }
}

impl LeftFolders {
    fn remove(&self, path: &Path) {
        if let Err(error) = remove_tree(path) {
            log_failure(path, &error);
            self.0.lock().insert(path.to_owned(), LeftBy::Failure);
        }
    }
}

/// Makes a folder that only the user may enter. No other user can write to the folder above it.
fn create_for(path: &Path, user: TaskUser) -> io::Result<()> {
    create_folder(path, PRIVATE)?;
    match user == TaskUser::of_this_process() {
        true => Ok(()),
        false => lchown(path, Some(user.uid), Some(user.gid)),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::thread;

    use brasserie_common::{InvocationId, JobName, NodeName, TaskSubprocessOptions, Time};
    use brasserie_worker_core::AssociationIndex;
    use nix::mount::{MntFlags, MsFlags, mount, umount2};
    use nix::sched::{CloneFlags, unshare};
    use nix::unistd::geteuid;
    use tokio::runtime::Builder;

    use super::*;
    use crate::process::RunKey;

    fn request() -> SpawnRequest {
        SpawnRequest {
            key: RunKey {
                invocation: InvocationId::new(1, 2),
                job: JobName::try_from("job").expect("a name"),
                node: NodeName::try_from("node").expect("a name"),
            },
            command: vec!["true".to_owned()],
            argument: String::new(),
            path_to_node: Vec::new(),
            options: TaskSubprocessOptions::default(),
            cuda_devices: Vec::new(),
            not_after: Time::NEVER,
            fence: None,
            association: AssociationIndex::FIRST,
            asked: Instant::now(),
            inputs: None,
        }
    }

    fn names_in(folder: &Path) -> usize {
        fs::read_dir(folder).map_or(0, Iterator::count)
    }

    /// Mounts a disk in a folder, for this thread alone.
    fn keep_busy(folder: &Path) {
        let none = None::<&str>;
        fs::create_dir(folder).expect("a folder");
        unshare(CloneFlags::CLONE_NEWNS).expect("root may");
        mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).expect("root may");
        mount(Some("none"), folder, Some("tmpfs"), MsFlags::empty(), none).expect("root may");
    }

    /// Does a part of a test on a thread of its own, and on those that begin there.
    fn on_a_thread(part: impl Future<Output = ()> + Send + 'static) {
        let run = move || {
            let runtime = Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(part);
        };
        thread::spawn(run).join().expect("no panic");
    }

    #[test]
    fn a_folder_that_cannot_be_deleted_is_deleted_later() {
        if !geteuid().is_root() {
            eprintln!(
                "unproven: the removal of the folder of a run with a mounted disk needs root"
            );
            return;
        }
        let dir = tempfile::tempdir().expect("a folder");
        let data = dir.path().to_owned();
        on_a_thread(async move {
            let background = Background::default();
            let open = || RunFolders::open(&data, Accounts::default()).expect("a folder");
            let runs = data.join(RUNS);
            let folders = open();
            let run = folders.make(&request()).expect("a folder");
            let busy = run.work.join("busy");
            keep_busy(&busy);
            run.remove();
            folders.remove_left(&background).await;
            assert_eq!(names_in(&runs), 1);
            // A successor has the same difficulty.
            let successor = open();
            successor.remove_left(&background).await;
            umount2(&busy, MntFlags::MNT_DETACH).expect("ours");
            assert_eq!(names_in(&runs), 1);
            successor.remove_left(&background).await;
            assert_eq!(names_in(&runs), 0);
        });
    }

    #[test]
    fn what_an_earlier_worker_has_left_is_deleted_while_runs_of_the_same_names_begin() {
        let dir = tempfile::tempdir().expect("a folder");
        let data = dir.path().to_owned();
        on_a_thread(async move {
            let background = Background::default();
            let open = || RunFolders::open(&data, Accounts::default()).expect("a folder");
            let outside = data.join("outside");
            fs::create_dir(&outside).expect("a folder");
            fs::write(outside.join("kept"), "x").expect("a file");
            let earlier = open().make(&request()).expect("a folder");
            for number in 0..3 * STEP {
                fs::write(earlier.work.join(number.to_string()), "").expect("a file");
            }
            symlink(&outside, earlier.work.join("link")).expect("a link");
            let folders = open();
            // A start deletes nothing, however much there is.
            assert!(earlier.work.join("0").exists());
            let ((), run) = tokio::join!(folders.remove_left(&background), async {
                folders.make(&request()).expect("a folder")
            });
            assert!(!earlier.root.exists());
            assert!(run.work.exists() && run.root != earlier.root);
            folders.remove_left(&background).await;
            assert!(run.work.exists());
            assert!(outside.join("kept").exists());
            run.remove();
            assert_eq!(names_in(&data.join(RUNS)), 0);
        });
    }

    #[test]
    fn a_link_in_the_place_of_the_folder_of_runs_is_not_followed() {
        let dir = tempfile::tempdir().expect("a folder");
        let data = dir.path().to_owned();
        let outside = tempfile::tempdir().expect("a folder");
        fs::write(outside.path().join("kept"), "x").expect("a file");
        symlink(outside.path(), data.join(RUNS)).expect("a link");
        let folders = RunFolders::open(&data, Accounts::default()).expect("a folder");
        assert!(folders.left.0.lock().is_empty());
        folders.make(&request()).expect("a folder");
        assert_eq!(names_in(outside.path()), 1);
    }
}
