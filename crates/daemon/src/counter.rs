//! The counter that a run's supervisor keeps open for its agent: the socket, the token, and what they lead to.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bell_control::place::COUNTER;
use bell_gateway::Desk;
use bell_gateway::routes::routes;
use bell_gateway::serve::{Owner, listen, serve};
use bell_runner::env::Environment;
use bell_runner::launch::{Launch, agent_dir};
use bell_runner::{acl, sudo};
use tokio::net::UnixListener;
use tokio::task::JoinSet;

/// A desk that is served until this is dropped.
pub(crate) struct Counter {
    desk: Desk,
    _served: JoinSet<()>,
}

impl Counter {
    /// Serves a desk on the socket of a run. Answers what the agent has to know of it.
    pub(crate) fn open(desk: Desk, run_dir: &Path) -> io::Result<(Self, Environment)> {
        let path = make_room(run_dir)?;
        let listener = listen_for(run_dir, &path)?;
        let mut served = JoinSet::new();
        served.spawn(serve(listener, routes(desk.clone())));
        let env = Environment::empty().with("BELL_URL", url(&agent_dir(run_dir)));
        Ok((Self { desk, _served: served }, env))
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }
}

/// Where the agent with this folder of its own finds the counter.
pub(crate) fn url(agent_dir: &Path) -> String {
    format!("unix:{}", agent_dir.join(COUNTER).display())
}

/// The place of the socket. The agent's folder is made when the agent is, which is later, and is given to its user then.
fn make_room(run_dir: &Path) -> io::Result<PathBuf> {
    let folder = agent_dir(run_dir);
    match DirBuilder::new().mode(0o700).create(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(folder.join(COUNTER)),
    }
}

/// Listens on a socket that only the agent's user can use, and this process's where owners can't be changed.
fn listen_for(run_dir: &Path, path: &Path) -> io::Result<UnixListener> {
    let failed = |error: bell_runner::Error| io::Error::other(error.to_string());
    let Some(user) = Launch::read(run_dir).map_err(failed)?.user else { return listen(path, None) };
    if !sudo::is_needed_for(&user) {
        return listen(path, Some(Owner { uid: user.uid, gid: user.gid }));
    }
    let listener = listen(path, None)?;
    acl::share_file(path, user.uid).map_err(failed)?;
    Ok(listener)
}
