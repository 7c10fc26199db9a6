//! Taking a delivery on: its record and the jobs that come of it, together and once.

use std::borrow::Borrow;
use std::sync::Arc;

use super::accept::{Accepted, MAX_CHANGES, Offer, Room};
use super::delivery::{Delivery, DeliveryKey, DeliveryVerdict};
use super::job::JobId;
use super::row::RowId;
use super::{Wall, agent::AgentName};
use crate::view::{Changes, Decided, Draft, View};

/// A delivery to take on.
#[derive(Clone, Debug)]
pub struct Receipt {
    /// What came, with every agent's judgement, and as if every job had been made: mostly it is stored just so.
    pub delivery: Arc<Delivery>,
    /// A job for each agent that wants it, and the room of its queue. That it is made once is the delivery's promise, so
    /// nothing else need lead to it only.
    pub offers: Vec<(Offer, Room)>,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// In a word.
    pub verdict: DeliveryVerdict,
    /// When it first came.
    pub since: Wall,
    /// The jobs that it has led to, this time or before.
    pub jobs: Vec<(AgentName, JobId)>,
    /// The agents whose queues are full.
    pub full: Vec<AgentName>,
}

/// Deliveries taken on in one commit, at the most, of `ops` records each: as many as are written with five records each,
/// beside a queue.
pub const fn most_together(ops: usize) -> usize {
    (ops - MAX_CHANGES - 1) / RECORDS
}

/// A delivery that one agent wants: that it was seen, what it was, and the job with its payload and its place.
const RECORDS: usize = 5;

/// Records that one more job may change: another queue too.
const MORE: usize = MAX_CHANGES + 1;

/// Bytes that one commit may carry of bodies and payloads: the largest of each, and less than any store takes in one
/// request.
const COMMIT_BYTES: usize = 896 << 10;

/// Takes deliveries on, in this order: as many as fit into one commit of `ops` records. Those beyond the answers need
/// another call, with the last of them begun, maybe: what was made of it then is known the next time.
///
/// # Errors
/// What it has not seen yet.
pub fn receive<R: Borrow<Receipt>>(
    view: &View,
    receipts: &[R],
    ops: usize,
) -> Decided<(Vec<Received>, Changes)> {
    let mut draft = Draft::new(view);
    let taken = &receipts[..receipts.len().min(most_together(ops).max(1))];
    draft.need_rows(taken.iter().map(R::borrow).flat_map(rests_on))?;
    let mut commit = Commit { ops, bytes: 0 };
    let mut received = Vec::new();
    for receipt in taken.iter().map(R::borrow) {
        match draft.receive(receipt, &mut commit)? {
            Some(answer) => received.push(answer),
            None => break,
        }
    }
    Ok((received, draft.into_changes()))
}

/// What must be seen to tell whether a delivery is new, and where the queues end.
fn rests_on(receipt: &Receipt) -> impl Iterator<Item = RowId> {
    let lines = receipt.offers.iter().map(|(offer, _)| RowId::Line(offer.spec.agent.clone()));
    lines.chain([RowId::Seen(receipt.delivery.key.clone())])
}

/// How full a commit is.
struct Commit {
    ops: usize,
    bytes: usize,
}

impl Commit {
    /// Whether so much more fits. The first always does.
    fn takes(&mut self, changed: usize, changes: usize, bytes: usize) -> bool {
        let fits = changed + changes <= self.ops && self.bytes + bytes <= COMMIT_BYTES;
        if fits || changed == 0 {
            self.bytes += bytes;
            return true;
        }
        false
    }
}

impl Draft<'_> {
    /// `None`: the rest needs another commit.
    fn receive(&mut self, receipt: &Receipt, commit: &mut Commit) -> Decided<Option<Received>> {
        let told = &receipt.delivery;
        let known = self.known_delivery(&told.key)?;
        if !commit.takes(self.changed_rows(), 2, weight(told)) {
            return Ok(None);
        }
        let is_new = known.as_ref().is_none_or(|known| known.at == told.at);
        let has_job = |agent: &AgentName| known.as_ref().is_some_and(|known| known.job_of(agent).is_some());
        let (mut full, mut left) = (Vec::new(), Vec::new());
        for (offer, room) in receipt.offers.iter().filter(|(offer, _)| !has_job(&offer.spec.agent)) {
            let agent = &offer.spec.agent;
            if !left.is_empty() || !commit.takes(self.changed_rows(), 2 + MORE, offer.payload.len()) {
                left.push(agent.clone());
            } else if self.queue(offer, *room)? == Accepted::Full {
                full.push(agent.clone());
            }
        }
        let record = match &known {
            None if full.is_empty() && left.is_empty() => Arc::clone(told),
            _ => Arc::new(told.as_known(known.as_deref(), &[full.as_slice(), &left].concat())),
        };
        let answer = answer(receipt, &record, full, is_new);
        if known.as_ref() != Some(&record) {
            self.put(&told.key, Seen(record.at));
            self.put(&(record.at, record.key.clone()), record);
        }
        Ok(left.is_empty().then_some(answer))
    }

    /// The record of a delivery that came before.
    fn known_delivery(&self, key: &DeliveryKey) -> Decided<Option<Arc<Delivery>>> {
        let Some(Seen(at)) = self.get::<Seen>(key)?.copied() else { return Ok(None) };
        Ok(self.get::<Arc<Delivery>>(&(at, key.clone()))?.cloned())
    }
}

/// Bytes that the record of a delivery takes, more or less.
fn weight(delivery: &Delivery) -> usize {
    let filters = delivery.agents.iter().flat_map(|agent| &agent.filters);
    let reasons = filters.flat_map(|filter| &filter.reasons).map(String::len);
    let headers = delivery.headers.iter().map(|(name, value)| name.len() + value.len());
    delivery.body.as_ref().map_or(0, |body| body.len()) + reasons.chain(headers).sum::<usize>()
}

/// When a delivery first came: its record is listed under this time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct Seen(pub Wall);

fn answer(receipt: &Receipt, record: &Delivery, full: Vec<AgentName>, is_new: bool) -> Received {
    let jobs: Vec<(AgentName, JobId)> =
        record.jobs().map(|(agent, job)| (agent.clone(), job.clone())).collect();
    // Also if this very receipt made them in a commit that was not answered.
    let made = receipt.offers.iter().any(|(offer, _)| jobs.iter().any(|(_, job)| *job == offer.id));
    let verdict = match (full.is_empty(), made, is_new && receipt.offers.is_empty()) {
        (false, ..) => DeliveryVerdict::Full,
        (_, true, _) => DeliveryVerdict::Queued,
        (.., true) => DeliveryVerdict::Unmatched,
        _ => DeliveryVerdict::Duplicate,
    };
    Received { verdict, since: record.at, jobs, full }
}
