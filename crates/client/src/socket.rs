//! Unix sockets in folders of any depth.
//!
//! The address of a socket has 108 bytes, and a project may lie deeper than that. A longer path is reached through the
//! descriptor of its folder, by the short name that the kernel has for it.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use tokio::net::{UnixDatagram, UnixListener, UnixStream};

/// Bytes of a path that an address holds, with the one that ends it.
const ADDRESS_BYTES: usize = 108;

/// A path that fits into an address, as long as this lives.
struct Short {
    path: PathBuf,
    _folder: Option<OwnedFd>,
}

/// Connects to the socket at `path`.
///
/// # Errors
/// If nobody is there.
pub async fn connect(path: &Path) -> io::Result<UnixStream> {
    let short = Short::of(path)?;
    UnixStream::connect(&short.path).await
}

/// Listens at `path`, where nothing may be yet.
///
/// # Errors
/// If that is not possible.
pub fn bind(path: &Path) -> io::Result<UnixListener> {
    let short = Short::of(path)?;
    UnixListener::bind(&short.path)
}

/// Takes in datagrams at `path`, where nothing may be yet, from this user only.
///
/// # Errors
/// If that is not possible.
pub fn hear(path: &Path) -> io::Result<UnixDatagram> {
    let short = Short::of(path)?;
    let socket = UnixDatagram::bind(&short.path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(socket)
}

/// Sends a datagram to whoever hears them at `path`, without waiting.
///
/// # Errors
/// If nobody does, or too many are on their way.
pub fn tell(path: &Path, text: &[u8]) -> io::Result<()> {
    let short = Short::of(path)?;
    let socket = net::UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to(text, &short.path).map(|_| ())
}

impl Short {
    fn of(path: &Path) -> io::Result<Self> {
        if path.as_os_str().len() < ADDRESS_BYTES {
            return Ok(Self { path: path.to_owned(), _folder: None });
        }
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let folder = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self { path, _folder: Some(folder) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn a_socket_is_found_however_deep_it_lies() {
        let root = tempfile::tempdir().unwrap();
        for depth in [0, 1, 8] {
            let folder = (0..depth).fold(root.path().to_owned(), |path, _| path.join("a".repeat(60)));
            std::fs::create_dir_all(&folder).unwrap();
            let path = folder.join("bell.sock");
            let listener = bind(&path).unwrap();
            let (connected, accepted) = tokio::join!(connect(&path), listener.accept());
            assert!(connected.is_ok() && accepted.is_ok(), "{}", path.display());
            assert!(path.exists());
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn where_nobody_listens_nobody_is_found() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x".repeat(200)).join("bell.sock");
        assert_eq!(connect(&path).await.unwrap_err().kind(), io::ErrorKind::NotFound);
        let gone = root.path().join("gone.sock");
        drop(bind(&gone).unwrap());
        assert_eq!(connect(&gone).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
