//! Starting and ending processes of another user by sudo, where the supervisor is not root.
//!
//! sudo starts the [delegate](crate::delegate), this very program again, as that user. Its arguments hold nothing but a hidden
//! name, so that one line of sudoers allows it; what to run goes by a socket.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as Socket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::geteuid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;

use crate::command::{DELEGATE, quiet};
use crate::delegate::{Remains, Request, line};
use crate::error::{Error, Kind, Result};
use crate::user::User;

/// Where sudo is: Debian and most others, NixOS, BSD ports. `PATH` is not asked, since others may have set it.
const PROGRAMS: [&str; 3] = ["/usr/bin/sudo", "/run/wrappers/bin/sudo", "/usr/local/bin/sudo"];

/// A directory service that sudo asks may be slow.
const CHECK_LIMIT: Duration = Duration::from_secs(15);

/// Ending processes by KILL takes moments; starting sudo can take seconds.
const END_LIMIT: Duration = Duration::from_secs(20);

/// What sudo says when the machine lacks something for a moment, in the words of the C library.
const TRANSIENT: [&str; 5] = [
    "Resource temporarily unavailable",
    "Cannot allocate memory",
    "Too many open files",
    "No space left on device",
    "Input/output error",
];

/// Whether processes of this user are not this process's own to start and to signal.
pub fn is_needed_for(user: &User) -> bool {
    let this = geteuid();
    !this.is_root() && this.as_raw() != user.uid
}

/// Checks that sudo starts runs as this user: the delegate is started, with nothing to do.
///
/// # Errors
/// If sudo is missing, or does not allow it without a password.
pub fn check(user: &User) -> Result<()> {
    let failed = |error: io::Error| Error::io("start sudo", error).of_machine();
    let (ours, theirs) = Socket::pair().map_err(failed)?;
    ours.set_read_timeout(Some(CHECK_LIMIT)).map_err(failed)?;
    let mut command = command(user)?;
    let mut child = command.stdin(OwnedFd::from(theirs)).stderr(Stdio::piped()).spawn().map_err(failed)?;
    drop(command);
    ours.shutdown(Shutdown::Write).map_err(failed)?;
    // It closes when the delegate or sudo ends.
    let heard = (&ours).read(&mut [0]);
    if heard.is_err() {
        let _ = child.kill();
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(());
    }
    Err(refused(user, &String::from_utf8_lossy(&output.stderr)))
}

/// The command that starts the delegate as this user.
pub(crate) fn command(user: &User) -> Result<Command> {
    let doing = format!("run as {} by sudo", user.name);
    let Some(sudo) = PROGRAMS.into_iter().find(|path| Path::new(path).exists()) else {
        let error = Error::new(Kind::NotFound, format!("{doing}: sudo is not installed"));
        return Err(error.hint("Install sudo, start bell up as root, or take `user` out."));
    };
    if user.home.is_none() {
        let error = Error::new(Kind::Invalid, format!("{doing}: no file of this machine lists that user"));
        return Err(error.hint("Name a user from /etc/passwd, or start bell up as root."));
    }
    let mut command = quiet(sudo);
    command.args(["-n", "-u", &user.name, "--"]).arg(program(&doing)?).arg(DELEGATE);
    Ok(command)
}

/// The file of this program. sudo starts it anew, so it must be the one that runs.
fn program(doing: &str) -> Result<PathBuf> {
    let path = std::env::current_exe().map_err(|error| Error::io("find this program", error))?;
    if path.exists() {
        return Ok(path);
    }
    let error = Error::new(Kind::Unavailable, format!("{doing}: the file of the running bell was replaced"));
    Err(error.hint("Restart the daemon: bell up."))
}

/// Why sudo did not start the delegate, in sudo's own words.
pub(crate) fn refused(user: &User, complaint: &str) -> Error {
    let complaint = complaint.trim();
    let is_transient = TRANSIENT.iter().any(|words| complaint.contains(words));
    let kind = if is_transient { Kind::Unavailable } else { Kind::Denied };
    let why = if complaint.is_empty() { "it did not start, and gave no reason" } else { complaint };
    let error = Error::new(kind, format!("run as {} by sudo: {why}", user.name));
    if is_transient { error } else { error.hint(remedy(user)) }
}

fn remedy(user: &User) -> String {
    if user.uid == 0 {
        // A line that lets this user be root is no advice.
        return "Start bell up as root, or set another `user`.".to_owned();
    }
    let this = geteuid().as_raw().to_string();
    let this = User::find(&this).map_or_else(|_| format!("#{this}"), |user| user.name);
    let program = std::env::current_exe().unwrap_or_else(|_| "bell".into());
    let rule = format!("{this} ALL=({}) NOPASSWD: {} {DELEGATE}", user.name, program.display());
    format!("Allow it by a line of sudoers (visudo): {rule}. Or start bell up as root, or take `user` out.")
}

/// Has a delegate of this user end processes of it. Returns when it is done; it is still to be waited for, as any child.
pub(crate) async fn end(user: &User, remains: Remains) -> Result<Child> {
    let failed = |error: io::Error| Error::io("end processes by sudo", error).of_machine();
    let (ours, theirs) = Socket::pair().map_err(failed)?;
    let child = command(user)?.stdin(OwnedFd::from(theirs)).spawn().map_err(failed)?;
    ours.set_nonblocking(true).map_err(failed)?;
    let mut ours = UnixStream::from_std(ours).map_err(failed)?;
    let request = line(&Request::End(remains))?;
    let done = async {
        ours.write_all(&request).await?;
        // It closes when the delegate and sudo have ended.
        ours.read_to_end(&mut Vec::new()).await
    };
    // What is left is looked for again: that says whether it was of use.
    let _ = timeout(END_LIMIT, done).await;
    Ok(child)
}
