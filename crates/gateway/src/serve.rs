//! Connections: how many, from where, and until when.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use bell_client::socket;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::connection;
use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_PEER_MAX, SERVER_CONNECTIONS_MAX};
use crate::server::routes::Routes;

/// After a connection that could not be taken: without descriptors the next one can't be taken either.
const PAUSE: Duration = Duration::from_millis(100);

/// The user and group that a socket belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
}

/// Listens on a socket that only its owner can use; whoever runs this, if nobody is named.
///
/// # Errors
/// If that is not possible.
pub fn listen(path: &Path, owner: Option<Owner>) -> io::Result<UnixListener> {
    let listener = socket::bind(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    if let Some(Owner { uid, gid }) = owner {
        chown(path, Some(uid), Some(gid))?;
    }
    Ok(listener)
}

/// Serves the connections of one run until it is dropped; those that are open then are cut.
pub async fn serve(listener: UnixListener, routes: Router) {
    serve_until(Listening::Unix(listener), routes.into(), CONNECTIONS_MAX, &CancellationToken::new()).await;
}

/// Serves the connections of the daemon until `closing`: then no further one is taken, and those that are open end when
/// what they asked for is answered.
pub async fn serve_daemon(listening: Listening, routes: impl Into<Routes>, closing: &CancellationToken) {
    serve_until(listening, routes.into(), SERVER_CONNECTIONS_MAX, closing).await;
}

/// Where connections come from.
pub enum Listening {
    /// A port.
    Tcp(TcpListener),
    /// A socket of this machine.
    Unix(UnixListener),
}

/// Where a connection comes from. Every request carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    /// The socket: whoever owns it, or root.
    Socket,
    /// This address, by the port.
    Port(IpAddr),
}

enum Taken {
    Tcp(TcpStream, SocketAddr),
    Unix(UnixStream),
}

impl Listening {
    async fn accept(&self) -> io::Result<Taken> {
        match self {
            Self::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                // Answers are small and whole: waiting for more to send only makes them late.
                stream.set_nodelay(true)?;
                Ok(Taken::Tcp(stream, peer))
            }
            Self::Unix(listener) => Ok(Taken::Unix(listener.accept().await?.0)),
        }
    }
}

async fn serve_until(listening: Listening, routes: Routes, places: usize, closing: &CancellationToken) {
    let places = Arc::new(Semaphore::new(places));
    let peers = Peers::default();
    let mut open = JoinSet::new();
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let taken = tokio::select! {
            biased;
            () = closing.cancelled() => break,
            taken = listening.accept() => taken,
            Some(_) = open.join_next(), if !open.is_empty() => continue,
        };
        let (routes, closing) = (routes.clone(), closing.clone());
        match taken {
            Ok(Taken::Unix(stream)) => {
                open.spawn(async move {
                    connection::serve(stream, Peer::Socket, routes, closing).await;
                    drop(place);
                });
            }
            // Whoever has so many is cut off at once: a refusal would cost what it is to save.
            Ok(Taken::Tcp(stream, peer)) => {
                if let Some(seat) = peers.seat(peer.ip()) {
                    open.spawn(async move {
                        connection::serve(stream, Peer::Port(peer.ip()), routes, closing).await;
                        drop((place, seat));
                    });
                }
            }
            Err(error) => {
                tracing::warn!(%error, "could not take a connection");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    drop(listening);
    while open.join_next().await.is_some() {}
}

/// How many connections each other machine has. This one's own may have them all.
#[derive(Clone, Default)]
struct Peers(Arc<Mutex<BTreeMap<IpAddr, usize>>>);

struct Seat {
    peers: Peers,
    peer: IpAddr,
}

impl Peers {
    fn seat(&self, peer: IpAddr) -> Option<Seat> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(peer).or_default();
        if *count >= CONNECTIONS_PER_PEER_MAX && !peer.is_loopback() {
            return None;
        }
        *count += 1;
        Some(Seat { peers: self.clone(), peer })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut counts = self.peers.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.peer) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_machine_has_so_many_connections_and_gets_a_place_back_when_one_ends() {
        let (peers, other) = (Peers::default(), "192.0.2.7".parse().unwrap());
        let mut seats: Vec<Seat> = (0..CONNECTIONS_PER_PEER_MAX).filter_map(|_| peers.seat(other)).collect();
        assert_eq!(seats.len(), CONNECTIONS_PER_PEER_MAX);
        assert!(peers.seat(other).is_none());
        assert!(peers.seat("192.0.2.8".parse().unwrap()).is_some());
        seats.pop();
        assert!(peers.seat(other).is_some());
        drop(seats);
        assert!(peers.0.lock().unwrap().is_empty());
    }
}
