//! Deliveries from outside: taking them on, and looking at them.
//!
//! Deliveries that wait together are taken on together: whoever gets the turn commits what all have brought. Then the turn
//! goes to the first of those who came meanwhile, before anybody is answered, so that the store need not wait while answers
//! are written. Who goes away half-way takes nobody along: the others bring theirs again, and what was committed is known by
//! then.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bell_core::time::Version;
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::delivery::{Delivery, DeliveryKey};
use bell_core::work::line::Line;
use bell_core::work::receive::{Receipt, Received, Seen, most_together, receive};
use bell_core::work::row::{Row, RowId};
use tokio::sync::oneshot;

use super::intake::{check, repeated, unanswered};
use super::reading::Page;
use super::rows;
use crate::Coord;
use crate::denied::Denied;
use crate::load::Loaded;
use crate::space::time_of;

/// Deliveries read at once: each may bring a quarter of a megabyte.
const PAGE: usize = 32;

/// Deliveries that wait to be taken on.
#[derive(Default)]
pub(crate) struct Arrivals(Mutex<Waiting>);

struct Waiting {
    parties: VecDeque<Party>,
    /// The queues as the last turn left them; `None`: it is somebody's turn.
    lines: Option<Lines>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { parties: VecDeque::new(), lines: Some(Lines::new()) }
    }
}

type Lines = BTreeMap<AgentName, (Line, Version)>;
type Answer = Result<Received, Denied>;

/// Somebody who waits.
struct Party {
    receipt: Arc<Receipt>,
    news: oneshot::Sender<News>,
}

/// What somebody who waits comes to hear.
enum News {
    /// Another took the delivery on.
    Answer(Answer),
    /// It is their turn.
    Turn(Turn),
}

/// Whether to wait.
enum Place {
    /// Nobody is ahead.
    First(Turn),
    /// Somebody is. No news at all: who had taken it along was dropped, so bring it again.
    Behind(oneshot::Receiver<News>),
}

/// The right to take deliveries on. Dropped, it goes to whoever has waited longest.
struct Turn {
    coord: Coord,
    lines: Lines,
}

impl Arrivals {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first of those who still wait.
    fn take(&self, most: usize) -> Vec<Party> {
        let parties = &mut self.waiting().parties;
        parties.retain(|party| !party.news.is_closed());
        let count = parties.len().min(most);
        parties.drain(..count).collect()
    }

    /// Ends a turn. Who has waited longest gets the next, and what is known of the queues.
    fn next(&self, lines: Lines) -> Option<(Party, Lines)> {
        let mut waiting = self.waiting();
        while let Some(party) = waiting.parties.pop_front() {
            if !party.news.is_closed() {
                return Some((party, lines));
            }
        }
        waiting.lines = Some(lines);
        None
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some((party, lines)) = self.coord.arrivals().next(std::mem::take(&mut self.lines)) else {
            return;
        };
        // If it has gone away just now the turn comes back, and is dropped here: it goes on to the next.
        let _ = party.news.send(News::Turn(Self { coord: self.coord.clone(), lines }));
    }
}

impl Coord {
    /// Takes on a delivery, with the jobs that come of it. Answered once it is as durable as the store promises. Told
    /// again, by whomever, it makes only what is missing.
    ///
    /// Dropped half-way, it has been taken on or not, or some of its jobs have been made: told again, it makes the others.
    ///
    /// # Errors
    /// [`Denied::Invalid`] if a payload is too large; [`Denied::Unavailable`] if the store can't be reached.
    pub async fn receive(&self, receipt: Receipt) -> Result<Received, Denied> {
        receipt.offers.iter().try_for_each(|(offer, _)| check(offer))?;
        let receipt = Arc::new(receipt);
        loop {
            let turn = match self.arrive(&receipt) {
                Place::First(turn) => turn,
                Place::Behind(news) => match news.await {
                    Ok(News::Answer(answer)) => return answer,
                    Ok(News::Turn(turn)) => turn,
                    Err(_) => continue,
                },
            };
            return self.take_along(turn, receipt).await;
        }
    }

    /// Waits for a turn with this delivery, or gets it.
    fn arrive(&self, receipt: &Arc<Receipt>) -> Place {
        let mut waiting = self.arrivals().waiting();
        if let Some(lines) = waiting.lines.take() {
            return Place::First(Turn { coord: self.clone(), lines });
        }
        let (news, heard) = oneshot::channel();
        waiting.parties.push_back(Party { receipt: Arc::clone(receipt), news });
        Place::Behind(heard)
    }

    /// Takes on one's own delivery and those of all who came along.
    async fn take_along(&self, mut turn: Turn, own: Arc<Receipt>) -> Answer {
        let most = most_together(self.store().info().limits.txn_ops).max(1);
        let parties = self.arrivals().take(most - 1);
        let mut receipts = vec![own];
        receipts.extend(parties.iter().map(|party| Arc::clone(&party.receipt)));
        let mut answers = Vec::with_capacity(receipts.len());
        let failure = self.take_all(&mut turn.lines, &receipts, &mut answers).await.err();
        if failure.is_some() {
            turn.lines.clear();
        }
        drop(turn);
        let mut answers = answers.into_iter();
        let mut next = || match (answers.next(), &failure) {
            (Some(answer), _) => Ok(answer),
            (None, Some(denied)) => Err(repeated(denied)),
            (None, None) => Err(unanswered()),
        };
        let answer = next();
        for party in parties {
            // Whoever has gone away meanwhile is not missed.
            let _ = party.news.send(News::Answer(next()));
        }
        answer
    }

    /// As many commits as it takes; `answers` has what was decided when one of them fails.
    async fn take_all(
        &self,
        lines: &mut Lines,
        receipts: &[Arc<Receipt>],
        answers: &mut Vec<Received>,
    ) -> Result<(), Denied> {
        let ops = self.store().info().limits.txn_ops;
        while let Some(rest) = receipts.get(answers.len()..).filter(|rest| !rest.is_empty()) {
            answers.extend(self.take_together(lines, rest, ops).await?);
        }
        Ok(())
    }

    async fn take_together(
        &self,
        lines: &mut Lines,
        receipts: &[Arc<Receipt>],
        ops: usize,
    ) -> Result<Vec<Received>, Denied> {
        let mut guess = Loaded::guess();
        for receipt in receipts {
            // Deliveries are new but for the one in a thousand that is repeated, so that is the first guess.
            guess.assume_row(RowId::Seen(receipt.delivery.key.clone()), None);
        }
        let offers = receipts.iter().flat_map(|receipt| &receipt.offers);
        let agents: BTreeSet<&AgentName> = offers.map(|(offer, _)| &offer.spec.agent).collect();
        for agent in agents {
            if let Some((line, version)) = lines.get(agent) {
                let known = (Row::Line(line.clone()), *version);
                guess.assume_row(RowId::Line(agent.clone()), Some(known));
            }
        }
        // Who acts takes others' deliveries along, which are not their act.
        let done = self.in_nobodys_name().transact(guess, |view| receive(view, receipts, ops)).await?;
        for (id, seen) in &done.loaded.view.rows {
            if let (RowId::Line(agent), Some(Row::Line(line))) = (id, seen.get()) {
                lines.insert(agent.clone(), (line.clone(), seen.version));
            }
        }
        Ok(done.answer)
    }

    /// A delivery.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn delivery(&self, key: &DeliveryKey) -> Result<Option<Delivery>, Denied> {
        let Some((Seen(at), _)) = self.one::<Seen>(&RowId::Seen(key.clone())).await? else { return Ok(None) };
        let name = self.space().row(&RowId::Delivery(at, key.clone()));
        let found = self.store().read(std::slice::from_ref(&name)).await?;
        Ok(found.records.get(&name).map(|record| rows::delivery(&name, &record.value)).transpose()?)
    }

    /// Deliveries, the latest first, from where the page before ended.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn deliveries(&self, from: Option<&str>, limit: usize) -> Result<Page<Delivery>, Denied> {
        let prefix = self.space().kind("delivery/");
        let page = self.store().scan(&prefix, from.unwrap_or_default(), limit.min(PAGE)).await?;
        let mut rows = Vec::new();
        for (name, record) in &page.records {
            let at: Option<Wall> = name.as_str().strip_prefix(&prefix).and_then(time_of);
            let Some(at) = at else { continue };
            rows.push((at, rows::delivery(name, &record.value)?));
        }
        let last = page.records.keys().next_back().filter(|_| page.more);
        Ok(Page { rows, next: last.map(|name| format!("{name}\u{1}")) })
    }
}
