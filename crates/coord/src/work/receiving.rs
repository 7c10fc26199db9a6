//! Deliveries from outside: taking them on, and looking at them.
//!
//! Deliveries that wait together are taken on together: whoever gets the turn commits what all have brought, and those
//! whose delivery was among it need no turn any more. Who goes away half-way takes nobody along: the others bring theirs
//! again, and what was committed is known by then.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bell_core::time::Version;
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::delivery::{Delivery, DeliveryKey};
use bell_core::work::line::Line;
use bell_core::work::receive::{Receipt, Received, Seen, most_together, receive};
use bell_core::work::row::{Row, RowId};
use tokio::sync::oneshot;

use super::intake::{check, repeated};
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
pub(crate) struct Arrivals {
    waiting: Mutex<VecDeque<Party>>,
    /// Whose turn it is, and the queues as the last turn left them.
    turn: tokio::sync::Mutex<Lines>,
}

type Lines = BTreeMap<AgentName, (Line, Version)>;
type Answer = Result<Received, Denied>;

/// Somebody who waits.
struct Party {
    receipt: Arc<Receipt>,
    news: oneshot::Sender<Answer>,
}

impl Arrivals {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Party>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bring(&self, receipt: &Arc<Receipt>) -> oneshot::Receiver<Answer> {
        let (news, heard) = oneshot::channel();
        self.waiting().push_back(Party { receipt: Arc::clone(receipt), news });
        heard
    }

    /// The first of those who still wait.
    fn take(&self, most: usize) -> Vec<Party> {
        let mut waiting = self.waiting();
        waiting.retain(|party| !party.news.is_closed());
        let count = waiting.len().min(most);
        waiting.drain(..count).collect()
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
            let mut heard = self.arrivals().bring(&receipt);
            let mut turn = tokio::select! {
                biased;
                answer = &mut heard => match answer {
                    Ok(answer) => return answer,
                    // Who had taken it along went away.
                    Err(_) => continue,
                },
                turn = self.arrivals().turn.lock() => turn,
            };
            loop {
                match heard.try_recv() {
                    Ok(answer) => return answer,
                    Err(oneshot::error::TryRecvError::Closed) => break,
                    Err(oneshot::error::TryRecvError::Empty) => self.take_in_turn(&mut turn).await,
                }
            }
        }
    }

    /// One commit for those who have waited longest, and an answer for each.
    async fn take_in_turn(&self, lines: &mut Lines) {
        let ops = self.store().info().limits.txn_ops;
        let mut parties = self.arrivals().take(most_together(ops).max(1));
        while !parties.is_empty() {
            let receipts: Vec<Arc<Receipt>> =
                parties.iter().map(|party| Arc::clone(&party.receipt)).collect();
            let answers = match self.take_together(lines, &receipts, ops).await {
                Ok(answers) => answers,
                Err(denied) => {
                    lines.clear();
                    parties.into_iter().for_each(|party| drop(party.news.send(Err(repeated(&denied)))));
                    return;
                }
            };
            for (party, answer) in parties.drain(..answers.len()).zip(answers) {
                // Whoever has gone away meanwhile is not missed.
                let _ = party.news.send(Ok(answer));
            }
        }
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
            guess.assume_row(self, &RowId::Seen(receipt.delivery.key.clone()), None);
            for (offer, _) in &receipt.offers {
                let agent = &offer.spec.agent;
                if let Some((line, version)) = lines.get(agent) {
                    guess.assume_row(
                        self,
                        &RowId::Line(agent.clone()),
                        Some((Row::Line(line.clone()), *version)),
                    );
                }
            }
        }
        // Who acts takes others' deliveries along, which are not their act.
        let done = self.in_nobodys_name().transact(guess, |view| receive(view, receipts, ops)).await?;
        for (id, row) in &done.loaded.view.rows {
            if let (RowId::Line(agent), Some(Row::Line(line))) = (id, row) {
                let version = done.loaded.version(&self.space().row(id));
                lines.insert(agent.clone(), (line.clone(), version));
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
