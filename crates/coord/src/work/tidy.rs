//! Forgetting what is old: history, ticks, deliveries, and the jobs and runs that are over.

use bell_core::work::Wall;
use bell_core::work::job::{Job, JobId, State};
use bell_core::work::row::{Event, RowId, What};
use bell_store::{Expect, Name, Txn, Write};

use crate::Coord;
use crate::denied::Denied;
use crate::load::decode;
use crate::space::latest_first;
use crate::work::rows;

/// Rows forgotten in one go: each takes up to five records with it, and a commit takes 125.
const BATCH: usize = 20;

impl Coord {
    /// Forgets what happened before `cutoff`: rows of history, and with them the runs and jobs that are over.
    /// Answers how many rows; fewer than there are is left for the next call.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn forget_before(&self, cutoff: Wall) -> Result<usize, Denied> {
        let prefix = self.space().kind("history/");
        let from = format!("{prefix}{}", latest_first(cutoff));
        let page = self.store().scan(&prefix, &from, BATCH).await?;
        let mut txn = Txn::default();
        for (name, record) in &page.records {
            txn.writes.push((name.clone(), Write::Delete));
            let event: Event = decode(name, &record.value)?;
            if let What::RunEnded { run, .. } = &event.what {
                txn.writes.push((self.space().row(&RowId::Run(run.clone())), Write::Delete));
            }
            if let Some(job) = &event.job {
                self.forget_job(&mut txn, job, cutoff).await?;
            }
        }
        let count = page.records.len();
        if count > 0 {
            // A job that was replayed meanwhile is not the one that was read: everything is left for the next time.
            self.store().commit(txn).await?;
        }
        Ok(count)
    }

    /// Forgets ticks that were due before `cutoff`, also those of agents that are no longer there. The latest of each
    /// agent is kept: it says up to when the schedule has been decided, and may be a year ago.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn forget_fires(&self, cutoff: Wall) -> Result<(), Denied> {
        let all = self.space().kind("fire/");
        let mut from = all.clone();
        // An agent's ticks lie together, the latest first: one look finds the next agent and the tick to keep.
        while let Some(latest) = self.store().scan(&all, &from, 1).await?.records.into_keys().next() {
            // A name without its second part can't be, and would be all that is left to look at.
            let Some((agent, _)) = latest.as_str()[all.len()..].split_once('/') else { return Ok(()) };
            let prefix = format!("{all}{agent}/");
            while self.forget_fires_of(&prefix, &latest, cutoff).await? > 0 {}
            // What comes behind all that starts with the prefix.
            from = format!("{all}{agent}0");
        }
        Ok(())
    }

    async fn forget_fires_of(&self, prefix: &str, latest: &Name, cutoff: Wall) -> Result<usize, Denied> {
        let from = format!("{prefix}{}", latest_first(cutoff));
        let page = self.store().scan(prefix, &from, BATCH).await?;
        let old = page.records.into_keys().filter(|name| name != latest);
        let writes: Vec<(Name, Write)> = old.map(|name| (name, Write::Delete)).collect();
        let count = writes.len();
        if count > 0 {
            self.store().commit(Txn { writes, ..Txn::default() }).await?;
        }
        Ok(count)
    }

    /// Forgets deliveries that came before `cutoff`, a page of them. One that is told again after that is new.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn forget_deliveries(&self, cutoff: Wall) -> Result<usize, Denied> {
        let prefix = self.space().kind("delivery/");
        let from = format!("{prefix}{}", latest_first(cutoff));
        let page = self.store().scan(&prefix, &from, BATCH).await?;
        let mut txn = Txn::default();
        for (name, record) in &page.records {
            let key = rows::delivery(name, &record.value)?.key;
            txn.writes.push((name.clone(), Write::Delete));
            txn.writes.push((self.space().row(&RowId::Seen(key)), Write::Delete));
        }
        if !page.records.is_empty() {
            self.store().commit(txn).await?;
        }
        Ok(page.records.len())
    }

    async fn forget_job(&self, txn: &mut Txn, id: &JobId, cutoff: Wall) -> Result<(), Denied> {
        let name = self.space().row(&RowId::Job(id.clone()));
        if txn.written().any(|written| *written == name) {
            return Ok(());
        }
        let found = self.store().read(std::slice::from_ref(&name)).await?;
        let Some(record) = found.records.get(&name) else { return Ok(()) };
        let job: Job = decode(&name, &record.value)?;
        let State::Over { fate, at } = &job.state else { return Ok(()) };
        if *at >= cutoff {
            return Ok(());
        }
        txn.expect.push((name.clone(), Expect::At(record.version)));
        txn.writes.push((name, Write::Delete));
        txn.writes.push((self.space().row(&RowId::Payload(id.clone())), Write::Delete));
        if let Some(once) = &job.once {
            txn.writes.push((self.space().row(&RowId::Once(once.clone())), Write::Delete));
        }
        if fate.is_undone() {
            txn.writes.push((self.space().row(&RowId::Undone(*at, id.clone())), Write::Delete));
        }
        Ok(())
    }
}
