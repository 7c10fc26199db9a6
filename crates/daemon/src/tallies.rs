//! What the processes of this machine count of their locks, brought together: supervisors and commands hand it in to the
//! daemon of their project, as datagrams on a socket in `.bell`.
//!
//! It is handed in, not asked for: a process that has nothing to tell costs nothing, and one that ends tells the rest
//! first. While no daemon is there a supervisor keeps its counts; a command that ends meanwhile takes its own with it.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bell_client::socket;
use bell_control::place::Place;
use bell_coord::tally::{self, Counts};
use bell_gateway::metrics::Metrics;
use tokio::net::UnixDatagram;

/// Counts that come within this time are handed in together.
const TOGETHER: Duration = Duration::from_millis(500);

/// Between two tries to reach a daemon that is not there.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// More than all counts together have, however high they are.
const DATAGRAM_BYTES_MAX: usize = 64 * 1_024;

/// Hands in what this process has counted. Whether there is nothing left to hand in: what nobody took is kept.
pub fn hand_in(place: &Place) -> bool {
    let counts = tally::take();
    if counts.is_empty() {
        return true;
    }
    let text = serde_json::to_vec(&counts).unwrap_or_default();
    let is_told = socket::tell(&place.tallies(), &text).is_ok();
    if !is_told {
        tally::put_back(&counts);
    }
    is_told
}

/// Hands in whatever this process counts, soon after it did, until dropped.
pub async fn keep_handing_in(place: Place) -> Infallible {
    loop {
        tally::counted().await;
        tokio::time::sleep(TOGETHER).await;
        while !hand_in(&place) {
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }
}

/// Where counts are taken in. Whatever is there was left by a daemon that is gone.
pub(crate) fn listen(place: &Place) -> io::Result<UnixDatagram> {
    match std::fs::remove_file(place.tallies()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    socket::hear(&place.tallies())
}

/// Takes in what others have counted, until dropped.
pub(crate) async fn keep_counting(socket: UnixDatagram, metrics: Metrics) {
    let mut text = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        match socket.recv(&mut text).await {
            Ok(bytes) => match serde_json::from_slice::<Counts>(&text[..bytes]) {
                Ok(counts) => metrics.add(&counts),
                Err(error) => tracing::warn!(%error, "could not read what another process has counted"),
            },
            Err(error) => {
                tracing::warn!(%error, "could not take in what other processes count");
                tokio::time::sleep(RETRY_AFTER).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn what_another_process_hands_in_is_counted_and_what_nobody_takes_is_kept() {
        let project = tempfile::tempdir().unwrap();
        let place = Place::of(project.path());
        place.make().unwrap();
        tally::lost();
        assert!(!hand_in(&place), "nobody is there");
        let metrics = Metrics::new(Arc::default());
        let counting = tokio::spawn(keep_counting(listen(&place).unwrap(), metrics.clone()));
        assert!(hand_in(&place) && hand_in(&place));
        while !metrics.text().await.contains("bell_lock_lost_total 1\n") {
            tokio::task::yield_now().await;
        }
        counting.abort();
    }
}
