//! What a command has seen of its locks, told to the daemon of the project that it was called in, for its metrics.

use std::future::Future;

use bell_control::place::Place;
use bell_daemon::tallies;

use crate::project::Start;

/// Carries out a command, and hands in what it counts: while it goes on, and before it ends.
pub(crate) async fn counted(start: &Start, act: impl Future<Output = u8>) -> u8 {
    let Some(place) = place(start) else { return act.await };
    let code = tokio::select! {
        code = act => code,
        never = tallies::keep_handing_in(place.clone()) => match never {},
    };
    // Without a daemon nobody counts, and nothing is wrong with that.
    tallies::hand_in(&place);
    code
}

/// The project, if a daemon has run it. What keeps this from being found out, the command itself says.
fn place(start: &Start) -> Option<Place> {
    let place = Place::of(&start.find().ok().flatten()?);
    place.tallies().exists().then_some(place)
}
