//! The local socket of a scheduler with an authority, at which its own user and root need no token.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use brasserie_common::access::LocalUser;
use brasserie_common_runtime::DataDir;
use brasserie_common_runtime::net::LOCAL_SOCKET;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Uid, User, geteuid};
use tokio::net::UnixListener;

/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 128;

/// Opens the socket in a data directory, which the caller has locked. `None` if that is not possible, which is logged: people of this machine
/// then need tokens.
pub(crate) fn open(directory: &DataDir) -> Option<UnixListener> {
    let path = directory.path().join(LOCAL_SOCKET);
    let listener = listener(&path);
    let listener = listener.inspect_err(|error| {
        tracing::warn!(
            path = %path.display(), %error,
            "cannot open the local socket, so `brasserie` needs a token on this machine too. A path of a socket has at most 107 bytes"
        );
    });
    listener.ok()
}

fn listener(path: &Path) -> io::Result<UnixListener> {
    let address = UnixAddr::new(path)?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        // An earlier scheduler has left it. Nobody else removes it: the directory is locked.
        Ok(()) | Err(_) => {}
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    // The file gets the mode of the socket, so there is no moment in which others may connect.
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &address)?;
    listen(&socket, Backlog::new(BACKLOG)?)?;
    UnixListener::from_std(std::os::unix::net::UnixListener::from(socket))
}

/// Returns the users who may call as administrators: the one that this program runs as, and root.
pub(super) fn admins() -> Vec<LocalUser> {
    let (own, root) = (geteuid(), Uid::from_raw(0));
    let mut uids = vec![own, root];
    uids.dedup();
    let known = uids.into_iter().map(|uid| LocalUser {
        uid: uid.as_raw(),
        name: match uid.is_root() {
            true => Some("root".into()),
            false => User::from_uid(uid)
                .ok()
                .flatten()
                .map(|user| Arc::from(user.name)),
        },
    });
    known.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn the_socket_is_for_its_owner_alone_and_replaces_an_old_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let directory = DataDir::open(&folder.path().join("data")).expect("a directory");
        for _ in 0..2 {
            let listener = open(&directory).expect("a socket");
            let path = directory.path().join(LOCAL_SOCKET);
            let mode = std::fs::metadata(&path)
                .expect("a file")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600);
            let connected = tokio::net::UnixStream::connect(&path).await;
            let (accepted, _) = listener.accept().await.expect("a connection");
            let uid = accepted.peer_cred().expect("credentials").uid();
            assert!(connected.is_ok() && admins().iter().any(|user| user.uid == uid));
        }
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_gives_none() {
        let folder = tempfile::tempdir().expect("a folder");
        let long = folder.path().join("d".repeat(100));
        let directory = DataDir::open(&long).expect("a directory");
        assert!(open(&directory).is_none());
    }
}
