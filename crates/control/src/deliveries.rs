//! What was told from outside: looking at it, and telling it again.

use std::sync::Arc;

use bell_api::control::deliveries::{
    DELIVERIES_MAX, DeliveriesAnswer, DeliveriesQuery, DeliveryAnswer, DeliveryRow, DeliveryShown,
    RedeliverRequest,
};
use bell_api::outcome::Outcome;
use bell_coord::audit::act;
use bell_coord::work::intake::new_job;
use bell_coord::work::wall_now;
use bell_core::work::delivery::{Delivery, DeliveryKey, DeliveryVerdict, Replay};
use bell_core::work::receive::Received;
use bell_intake::limits::ID_BYTES_MAX;
use bell_intake::{Event, Fixture, Hooks, Verified, rehearse};

use crate::Control;
use crate::hooks::{hooks, variable};
use crate::refused::Refused;
use crate::who::Who;

/// Deliveries in an answer, if the query does not say how many.
const ROWS: u32 = 50;

impl Control {
    /// Deliveries, the latest first.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn deliveries(&self, query: &DeliveriesQuery) -> Result<DeliveriesAnswer, Refused> {
        let limit = usize::try_from(query.limit.unwrap_or(ROWS).min(DELIVERIES_MAX)).unwrap_or(usize::MAX);
        let is_wanted = |delivery: &Delivery| {
            let of = |source: &String| **source == *delivery.key.source;
            query.source.as_ref().is_none_or(of)
                && query.verdict.is_none_or(|verdict| DeliveryVerdict::from(verdict) == delivery.verdict())
        };
        let (mut deliveries, mut from) = (Vec::new(), query.after.clone());
        while deliveries.len() < limit {
            let page = self.coord.deliveries(from.as_deref(), limit - deliveries.len()).await?;
            let since = query.since_ms.unwrap_or(0);
            let is_over = page.rows.iter().any(|(at, _)| at.0 < since);
            let rows = page.rows.iter().filter(|(at, delivery)| at.0 >= since && is_wanted(delivery));
            deliveries.extend(rows.map(|(_, delivery)| DeliveryRow::of(delivery)));
            from = page.next.filter(|_| !is_over);
            if from.is_none() {
                break;
            }
        }
        Ok(DeliveriesAnswer { outcome: Outcome::Listed, deliveries, next: from })
    }

    /// Everything that is on record of a delivery.
    ///
    /// # Errors
    /// If there is no such delivery, or the store can't be read.
    pub async fn delivery(&self, id: &str, source: Option<&str>) -> Result<DeliveryShown, Refused> {
        Ok(DeliveryShown::of(&self.stored(id, source).await?))
    }

    /// Tells a delivery again: as a new one, to the agents that want it now.
    ///
    /// # Errors
    /// If there is no such delivery, its body was not kept, its source is gone, or the store can't be reached.
    pub async fn redeliver(
        &self,
        id: &str,
        request: &RedeliverRequest,
        who: &Who,
    ) -> Result<DeliveryAnswer, Refused> {
        let stored = self.stored(id, request.source.as_deref()).await?;
        let (hooks, _) = hooks(&self.folder, &self.loaded(), &variable);
        let event = again(&hooks, &stored)?;
        let by = who.words(request.by.as_deref());
        tracing::info!(source = &*stored.key.source, delivery = id, by, "delivery told again");
        let replay = Replay { of: stored.key.id.to_string(), by };
        let received = self.tell(&hooks, &event, Some(replay)).await?;
        // Deliveries that come together share a commit, so the record of who asked follows it.
        let on = format!("{}/{}", stored.key.source, stored.key.id);
        let act = act(&who.recorded(request.by.as_deref()), "webhook replay", on);
        self.record(act.because(format!("as {}", event.id()))).await;
        Ok(DeliveryAnswer::new(&stored.key.source, event.id().as_str(), &received))
    }

    /// Takes an event on: its record and its jobs, together and once.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn tell(
        &self,
        hooks: &Hooks,
        event: &Event,
        replay: Option<Replay>,
    ) -> Result<Received, Refused> {
        let mut receipt = hooks.receipt(event, wall_now(), new_job);
        Arc::make_mut(&mut receipt.delivery).replay = replay;
        Ok(self.coord.receive(receipt).await?)
    }

    /// The delivery of this id. Without a source, every source of the project is asked for it.
    async fn stored(&self, id: &str, source: Option<&str>) -> Result<Delivery, Refused> {
        let loaded = self.loaded();
        let sources: Vec<&str> = match source {
            Some(source) => vec![source],
            None => loaded.settings.webhooks.keys().map(String::as_str).collect(),
        };
        let mut found = Vec::new();
        if is_id(id) && sources.iter().all(|source| is_id(source)) {
            for source in sources {
                let key = DeliveryKey { source: source.into(), id: id.into() };
                found.extend(self.coord.delivery(&key).await?);
            }
        }
        match (found.pop(), found.pop()) {
            (Some(one), None) => Ok(one),
            (Some(one), Some(other)) => Err(Refused::invalid(
                format!(
                    "could not tell which delivery is meant: {} and {} both gave this id",
                    other.key.source, one.key.source
                ),
                "Name the source too.",
            )),
            (None, _) => Err(Refused::new(
                Outcome::NotFound,
                format!("could not find a delivery called {id:?}"),
                "bell webhook ls lists them; name the source too if it is no longer in config.toml. What is old is forgotten.",
            )),
        }
    }
}

/// Whatever else is given is nobody's, and must not reach the names of records.
fn is_id(text: &str) -> bool {
    !text.is_empty() && text.len() <= ID_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A stored delivery as an event, under a new id.
fn again(hooks: &Hooks, stored: &Delivery) -> Result<Event, Refused> {
    let name = &stored.key.source;
    let source = hooks.sources.get(&**name).ok_or_else(|| {
        Refused::new(
            Outcome::NotFound,
            format!("could not tell it again: config.toml has no webhook source called {name:?} any more"),
            "Add [webhooks.<source>] again.",
        )
    })?;
    let body = stored.body.as_deref().ok_or_else(|| {
        Refused::invalid(
            format!("could not tell it again: its body of {} bytes was too large to be kept", stored.bytes),
            "Have the source send it again.",
        )
    })?;
    let fixture = Fixture { headers: stored.headers.clone(), event: None, body: body.to_vec() };
    let verified = rehearse(source, fixture, &format!("replay-{}", new_job()), wall_now());
    match verified.map_err(|refused| Refused::invalid(format!("could not {refused}"), refused.hint()))? {
        Verified::Event(event) => Ok(*event),
        Verified::Question(_) => Err(Refused::invalid(
            "could not tell it again: it only asks whether somebody is there",
            "Compare the type of the source with who sent this.",
        )),
    }
}
