//! What a command has seen of its locks, told to the daemon of the project that it was called in, for its metrics.

use std::future::Future;
use std::path::Path;

use bell_control::place::Place;
use bell_daemon::tallies;

/// Carries out a command, and hands in what it counts: while it goes on, and before it ends.
pub(crate) async fn counted(act: impl Future<Output = u8>) -> u8 {
    let Some(place) = place_here() else { return act.await };
    let code = tokio::select! {
        code = act => code,
        never = tallies::keep_handing_in(place.clone()) => match never {},
    };
    // Without a daemon nobody counts, and nothing is wrong with that.
    tallies::hand_in(&place);
    code
}

/// The nearest project upwards that a daemon has run.
fn place_here() -> Option<Place> {
    let here = std::env::current_dir().ok()?;
    let has_run = |folder: &&Path| Place::of(folder).tallies().exists();
    here.ancestors().find(has_run).map(Place::of)
}
