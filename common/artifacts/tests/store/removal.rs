//! Tests the removal of what tasks leave, with real files of hostile depths, names, modes and links.

use std::fs::{self, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::path::Path;
use std::thread;

use brasserie_common_artifacts::{SteppedRemoval, remove_tree};
use rustix::fs::{Mode, OFlags, mkdirat, open, openat};

use crate::bench::{Mounted, is_root};

/// More than any recursion of a thread survives.
const LEVELS: usize = 20_000;
/// A small stack, on which a recursion ends after some hundred levels.
const STACK: usize = 256 << 10;
const NOBODY: u32 = 65_534;

fn folder(at: &OwnedFd, name: &str) -> OwnedFd {
    mkdirat(at, name, Mode::RWXU).expect("a free name");
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty()).expect("it is new")
}

fn file(at: &OwnedFd, name: &str) {
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty()).expect("a free name");
}

/// Makes folders in folders. `also` gets each with its number.
fn nest(top: &Path, levels: usize, mut also: impl FnMut(&OwnedFd, usize)) {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = open(top, flags, Mode::empty()).expect("a folder");
    for level in 0..levels {
        let next = folder(&at, "d");
        also(&at, level);
        at = next;
    }
    also(&at, levels);
}

/// Runs a part of a test on a thread with a small stack, as another user if this process is root.
fn on_small_stack(user: Option<u32>, part: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(STACK);
    let run = move || {
        if let Some(user) = user {
            // The user of this thread only.
            let user = rustix::fs::Uid::from_raw(user);
            rustix::thread::set_thread_res_uid(user, user, user).expect("root may");
        }
        part();
    };
    thread
        .spawn(run)
        .expect("a thread")
        .join()
        .expect("no panic");
}

#[test]
fn a_tree_of_any_depth_is_deleted_on_a_small_stack() {
    let place = tempfile::tempdir().expect("a folder");
    let outside = place.path().join("outside");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("kept"), "x").expect("a file");
    let tree = place.path().join("tree");
    fs::create_dir(&tree).expect("a folder");
    // Names that a removal may want to use itself.
    for name in ["moved-0", "moved-1/full", "moved-3"] {
        fs::create_dir_all(tree.join(name)).expect("a folder");
    }
    fs::write(tree.join("moved-2"), "").expect("a file");
    let target = outside.clone();
    on_small_stack(None, move || {
        nest(&tree, LEVELS, |at, level| {
            if level % 50 == 0 {
                rustix::fs::symlinkat(&target, at, "link").expect("a link");
                file(&folder(&folder(at, "side"), "deeper"), "file");
            }
        });
        remove_tree(&tree).expect("all of it is our own");
        assert!(fs::symlink_metadata(&tree).is_err());
    });
    assert_eq!(fs::read_dir(&outside).expect("it is there").count(), 1);
}

#[test]
fn modes_do_not_keep_a_user_from_deleting_its_own_folders() {
    let user = nix::unistd::geteuid().is_root().then_some(NOBODY);
    let place = tempfile::tempdir().expect("a folder");
    if let Some(user) = user {
        lchown(place.path(), Some(user), None).expect("root may");
    }
    let tree = place.path().join("tree");
    on_small_stack(user, move || {
        fs::create_dir(&tree).expect("a folder");
        nest(&tree, 3_000, |at, level| {
            file(at, "file");
            let modes = [0o000, 0o100, 0o200, 0o300, 0o400, 0o500, 0o600, 0o700];
            let mode = Mode::from_raw_mode(modes[level % modes.len()]);
            rustix::fs::fchmod(at, mode).expect("our own");
        });
        remove_tree(&tree).expect("all of it is our own");
        assert!(fs::symlink_metadata(&tree).is_err());
    });
}

#[test]
fn files_links_and_nothing_are_deleted_too() {
    let place = tempfile::tempdir().expect("a folder");
    let at = |name: &str| place.path().join(name);
    fs::write(at("file"), "x").expect("a file");
    fs::create_dir(at("folder")).expect("a folder");
    symlink("folder", at("link")).expect("a link");
    for name in ["link", "file", "nothing", "nothing/below"] {
        remove_tree(&at(name)).expect("it can be deleted");
    }
    assert!(at("folder").is_dir());
    assert_eq!(fs::read_dir(place.path()).expect("it is there").count(), 1);
}

#[test]
fn what_cannot_be_deleted_is_an_error_and_the_rest_goes() {
    if !is_root("the removal around a mounted disk") {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let tree = place.path().join("tree");
    let busy = tree.join("a/b/busy");
    fs::create_dir_all(&busy).expect("a folder");
    nest(&tree, 200, |at, _| file(at, "file"));
    fs::set_permissions(tree.join("d"), Permissions::from_mode(0o0)).expect("our own");
    let (tree, removal) = (tree.clone(), tree);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mounted = Mounted::new("none", &busy, "tmpfs", None).expect("root may");
            fs::write(busy.join("on the disk"), "x").expect("a file");
            let error = remove_tree(&removal).expect_err("a disk is mounted there");
            assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{error}");
            assert!(busy.join("on the disk").exists());
            assert_eq!(fs::read_dir(&removal).expect("it is there").count(), 1);
            drop(mounted);
            remove_tree(&removal).expect("nothing is in the way any more");
        });
    });
    assert!(fs::symlink_metadata(&tree).is_err());
}

#[test]
fn a_removal_in_steps_can_stop_after_each_of_them() {
    let place = tempfile::tempdir().expect("a folder");
    let tree = place.path().join("tree");
    fs::create_dir(&tree).expect("a folder");
    // The top, and 100 folders in each other with a file in each of them.
    nest(&tree, 100, |at, _| file(at, "file"));
    let all = 1 + 100 + 101;
    let begin = || SteppedRemoval::begin(tree.clone()).expect("it can be read");
    let mut first = begin().expect("a folder");
    assert!(first.step(50).is_none());
    let deleted = first.deleted();
    assert!(deleted < 50, "{deleted}");
    drop(first);
    let mut second = begin().expect("a folder");
    let mut steps = 0;
    while second.step(7).is_none() {
        steps += 1;
        assert!(second.deleted() <= 7 * steps);
    }
    assert_eq!(deleted + second.deleted(), all);
    assert!(fs::symlink_metadata(&tree).is_err());
    assert!(
        SteppedRemoval::begin(tree.clone())
            .expect("nothing")
            .is_none()
    );
}
