//! `bell events`: what happens in a fleet, as it happens.
//!
//! Whoever is asked, the daemon or the store itself, an event says where to go on after it; so when a daemon stops, or
//! starts, the next one to ask goes on where this one was.

use std::time::Duration;

use bell_api::control::feed::{EventsQuery, FeedEvent};
use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_client::stream::Stream;
use bell_control::feed::{Feed, Wanted};
use bell_coord::work::wall_now;

use crate::answer::Refusal;
use crate::cli::EventsArgs;
use crate::fleet::{Fleet, Need, Reach};
use crate::history::{kind_of, line};
use crate::open::Access;
use crate::say::Say;
use crate::span::moment;

/// Between two tries at somebody who has gone.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Shows what happens until nobody reads it. Answers the exit code.
pub(crate) async fn events(say: &Say, reach: &Reach, args: &EventsArgs) -> Result<u8, Refusal> {
    let kinds: Vec<&str> = args.kind.iter().map(|kind| kind_of(*kind).word()).collect();
    let since = args.since.as_deref().map(|since| moment(since, "--since", wall_now())).transpose()?;
    let mut query = EventsQuery {
        after: args.after.clone(),
        since_ms: since.map(|since| since.0),
        agent: args.agent.clone(),
        kinds: Some(kinds.join(",")).filter(|kinds| !kinds.is_empty()),
    };
    let mut coming = Fleet::open(reach, Need::Work, Access::Follow).await?.events(&query).await?;
    loop {
        match coming.next().await {
            Ok(events) => {
                for event in &events {
                    if say.answer(event, || line(&event.row)).is_err() {
                        // Whoever read it has gone.
                        return Ok(exit::OK);
                    }
                }
            }
            Err(refusal) if !is_passing(&refusal) => return Err(refusal),
            Err(refusal) => {
                query.after = coming.position().or(query.after);
                say.talk(&format!("{}; trying again", refusal.0.message.as_deref().unwrap_or_default()));
                coming = again(reach, &query).await?;
            }
        }
    }
}

/// Begins where it was, as soon as somebody is there.
async fn again(reach: &Reach, query: &EventsQuery) -> Result<Coming, Refusal> {
    loop {
        let coming = match Fleet::open(reach, Need::Work, Access::Follow).await {
            Ok(fleet) => fleet.events(query).await,
            Err(refusal) => Err(refusal),
        };
        match coming {
            Err(refusal) if is_passing(&refusal) => tokio::time::sleep(RETRY_AFTER).await,
            coming => return coming,
        }
    }
}

/// Whether it may be otherwise in a moment.
fn is_passing(refusal: &Refusal) -> bool {
    matches!(refusal.0.outcome, Outcome::Unreachable | Outcome::Unavailable)
}

/// What happens, from wherever it is heard.
pub(crate) enum Coming {
    /// From the store.
    Here(Box<Feed>, Wanted),
    /// From a gateway.
    There(Box<Stream>),
}

impl Coming {
    async fn next(&mut self) -> Result<Vec<FeedEvent>, Refusal> {
        match self {
            Self::Here(feed, wanted) => {
                let told = feed.next().await?;
                let events = told.into_iter().map(|told| told.event);
                Ok(events.filter(|event| wanted.admits(&event.row)).collect())
            }
            Self::There(stream) => match stream.next().await? {
                Some(said) => Ok(vec![said.read()?]),
                None => Err(Refusal::new(
                    Outcome::Unreachable,
                    "could not hear more: the daemon has ended the stream",
                    "It is stopping, or this was too slow.",
                )),
            },
        }
    }

    /// Where to go on.
    fn position(&self) -> Option<String> {
        match self {
            Self::Here(feed, _) => Some(feed.position().to_string()),
            Self::There(stream) => stream.last_id().map(str::to_owned),
        }
    }
}
