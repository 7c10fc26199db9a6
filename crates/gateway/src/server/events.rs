//! What happens in the fleet, as it happens, to everybody who follows.
//!
//! One task reads the store for all streams. A reader first catches up by itself, from where it was, and then hears what
//! everybody hears; what it has heard already it knows by its position. Who falls behind by more than is kept is cut off.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use bell_api::control::feed::EventsQuery;
use bell_control::feed::{Feed, Told, Wanted};
use bell_coord::{Coord, Denied};
use http::HeaderMap;
use tokio::sync::{Mutex, broadcast};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Server;
use super::question::Question;
use super::stream::{Gone, Outlet};
use crate::limits::EVENTS_KEPT;
use crate::refusal::Refusal;

/// Between two tries at a store that does not answer.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How often it is looked whether anybody listens, while nothing happens.
const LOOK_FOR_LISTENERS: Duration = Duration::from_secs(10);

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/v1/events", get(events))
}

/// What happens, for all streams.
pub(crate) struct Events {
    coord: Coord,
    stopping: CancellationToken,
    heard: Heard,
}

/// There while somebody listens.
type Heard = Arc<Mutex<Option<broadcast::Sender<Arc<[Told]>>>>>;

impl Events {
    pub(crate) fn new(coord: Coord, stopping: CancellationToken) -> Self {
        Self { coord, stopping, heard: Heard::default() }
    }

    /// Everything that happens from here on. The position is taken before anybody listens, so that whoever catches up
    /// afterwards misses nothing between the two.
    async fn listen(&self) -> Result<broadcast::Receiver<Arc<[Told]>>, Denied> {
        let mut heard = self.heard.lock().await;
        if let Some(sender) = &*heard {
            return Ok(sender.subscribe());
        }
        let feed = Feed::after(self.coord.clone(), self.coord.latest_position().await?);
        let (sender, receiver) = broadcast::channel(EVENTS_KEPT);
        let telling = tell(feed, sender.clone(), Arc::clone(&self.heard));
        let stopping = self.stopping.clone();
        tokio::spawn(async move { stopping.run_until_cancelled(telling).await });
        *heard = Some(sender);
        Ok(receiver)
    }
}

/// Reads what happens for as long as somebody listens: nobody's curiosity costs nothing.
async fn tell(mut feed: Feed, sender: broadcast::Sender<Arc<[Told]>>, heard: Heard) {
    loop {
        match timeout(LOOK_FOR_LISTENERS, feed.next()).await {
            // Nobody may be listening any more.
            Ok(Ok(told)) => drop(sender.send(told.into())),
            Ok(Err(error)) => {
                tracing::warn!(%error, "could not read what happens");
                tokio::time::sleep(RETRY_AFTER).await;
            }
            Err(_) => {}
        }
        if sender.receiver_count() == 0 {
            // Whoever comes now waits for this, and begins anew.
            let mut heard = heard.lock().await;
            if sender.receiver_count() == 0 {
                *heard = None;
                return;
            }
        }
    }
}

async fn events(
    State(server): State<Server>,
    headers: HeaderMap,
    Question(mut query): Question<EventsQuery>,
) -> Result<Response, Refusal> {
    // A reader that comes back by itself says it so, and its address is still the first one.
    if let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty()) {
        query.after = Some(String::from_utf8_lossy(id.as_bytes()).into_owned());
    }
    let (feed, wanted) = server.control().feed(&query).await?;
    let heard = server.events().listen().await?;
    server.streams().open(|outlet| follow(outlet, wanted, feed, heard))
}

/// Catches up, then goes on with what everybody hears.
async fn follow(
    outlet: Outlet,
    wanted: Wanted,
    mut feed: Feed,
    mut heard: broadcast::Receiver<Arc<[Told]>>,
) -> Result<(), Gone> {
    // Who is cut off before anything happens has missed nothing either.
    outlet.mark(&feed.position().to_string()).await?;
    loop {
        // Who asked for it comes back, and finds the store or a refusal.
        let missed = feed.ready().await.map_err(|_| Gone)?;
        if missed.is_empty() {
            break;
        }
        say(&outlet, &wanted, &missed).await?;
    }
    let mut position = *feed.position();
    loop {
        // Too far behind, or the daemon stops.
        let told = heard.recv().await.map_err(|_| Gone)?;
        let news: Vec<&Told> = told.iter().filter(|told| position.is_before(&told.position)).collect();
        if let Some(last) = news.last() {
            position = last.position;
        }
        say(&outlet, &wanted, news).await?;
    }
}

async fn say(outlet: &Outlet, wanted: &Wanted, told: impl IntoIterator<Item = &Told>) -> Result<(), Gone> {
    for told in told.into_iter().filter(|told| wanted.admits(&told.event.row)) {
        outlet.say(told.event.row.kind.word(), Some(&told.event.id), &told.event).await?;
    }
    Ok(())
}
