//! The suite can fail: stores that break the contract in one way each, and the case that notices.

use std::collections::HashSet;
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use bell_store::memory::Memory;
use bell_store::presence::Attendance;
use bell_store::suite::{CASES, Fixture, Verdict, run_case};
use bell_store::{
    Info, Name, Outcome, Presence, Result, Snapshot, Stamp, Store, Timestamp, Txn, Watch, Write,
};
use tokio::task::yield_now;

/// What a broken store does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Nothing,
    DropsACompare,
    WritesHalfOnConflict,
    WritesInTwoSteps,
    ConflictsWithoutRecords,
    RestartsVersionsAfterDeletion,
    RenewsKeptStamps,
    ScansBackwards,
    TakesANameTwice,
    IgnoresTime,
    NeverWakes,
    AlwaysWakes,
    CallsEverybodyGone,
}

struct Broken {
    inner: Memory,
    fault: Fault,
    deleted: Mutex<HashSet<Name>>,
}

impl Broken {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    /// What this store makes of a transaction before it looks at it.
    fn bend(&self, txn: &mut Txn) {
        match self.fault {
            Fault::DropsACompare => drop(txn.expect.pop()),
            Fault::IgnoresTime => txn.at = None,
            Fault::TakesANameTwice => {
                let mut seen = HashSet::new();
                txn.writes.retain(|(name, _)| seen.insert(name.clone()));
            }
            Fault::RenewsKeptStamps => {
                for (_, write) in &mut txn.writes {
                    if let Write::Put(_, stamp) = write {
                        *stamp = Stamp::New;
                    }
                }
            }
            _ => {}
        }
    }

    fn note_deletions(&self, txn: &Txn) {
        let deleted = txn.writes.iter().filter(|(_, write)| *write == Write::Delete);
        self.deleted().extend(deleted.map(|(name, _)| name.clone()));
    }

    fn deleted(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.deleted.lock().expect("nobody panics with it")
    }

    /// What this store makes of an answer.
    fn shown(&self, mut seen: Snapshot) -> Snapshot {
        if self.has(Fault::RestartsVersionsAfterDeletion) {
            let deleted = self.deleted();
            let recreated = seen.records.iter_mut().filter(|(name, _)| deleted.contains(*name));
            recreated.for_each(|(_, record)| record.version = 1);
        }
        seen
    }
}

#[async_trait]
impl Store for Broken {
    fn info(&self) -> &Info {
        self.inner.info()
    }

    async fn now(&self) -> Result<Timestamp> {
        self.inner.now().await
    }

    async fn read(&self, names: &[Name]) -> Result<Snapshot> {
        let seen = self.inner.read(names).await?;
        // Lets others in between reading and committing.
        yield_now().await;
        Ok(self.shown(seen))
    }

    async fn scan(&self, prefix: &str, from: &str, limit: usize) -> Result<Snapshot> {
        if !self.has(Fault::ScansBackwards) {
            return self.inner.scan(prefix, from, limit).await;
        }
        let mut seen = self.inner.scan(prefix, from, usize::MAX).await?;
        seen.more = seen.records.len() > limit;
        while seen.records.len() > limit {
            seen.records.pop_first();
        }
        Ok(seen)
    }

    async fn commit(&self, mut txn: Txn) -> Result<Outcome> {
        self.bend(&mut txn);
        if self.has(Fault::WritesInTwoSteps) && txn.writes.len() > 1 {
            let second = Txn { writes: txn.writes.split_off(1), ..Txn::default() };
            if let conflict @ Outcome::Conflict(_) = self.inner.commit(txn).await? {
                return Ok(conflict);
            }
            yield_now().await;
            return self.inner.commit(second).await;
        }
        self.note_deletions(&txn);
        let first = txn.writes.first().cloned();
        match self.inner.commit(txn).await? {
            Outcome::Conflict(_) if self.has(Fault::ConflictsWithoutRecords) => {
                Ok(Outcome::Conflict(Snapshot { now: self.now().await?, ..Snapshot::default() }))
            }
            Outcome::Conflict(seen) if self.has(Fault::WritesHalfOnConflict) => {
                self.inner.commit(Txn { writes: first.into_iter().collect(), ..Txn::default() }).await?;
                Ok(Outcome::Conflict(seen))
            }
            outcome => Ok(outcome),
        }
    }

    async fn changed(&self, watch: &Watch) -> Result<()> {
        match self.fault {
            Fault::NeverWakes => pending().await,
            Fault::AlwaysWakes => Ok(()),
            _ => self.inner.changed(watch).await,
        }
    }

    fn stirs(&self) -> u64 {
        self.inner.stirs()
    }

    fn presence(&self) -> &dyn Presence {
        if self.has(Fault::CallsEverybodyGone) { &AllGone } else { self.inner.presence() }
    }
}

struct AllGone;

impl Presence for AllGone {
    fn attend(&self, _session: &str) -> Result<Attendance> {
        Ok(Attendance::new(()))
    }

    fn is_gone(&self, _session: &str) -> bool {
        true
    }

    fn forget(&self, _session: &str) {}
}

struct OnBroken(Arc<Broken>);

#[async_trait]
impl Fixture for OnBroken {
    async fn open(&self) -> Result<Arc<dyn Store>> {
        Ok(Arc::clone(&self.0) as Arc<dyn Store>)
    }

    fn survives_reopen(&self) -> bool {
        false
    }
}

async fn verdict(fault: Fault, case: &str) -> Verdict {
    let broken = Broken { inner: Memory::new(), fault, deleted: Mutex::default() };
    let fixture: Arc<dyn Fixture> = Arc::new(OnBroken(Arc::new(broken)));
    let case = CASES.iter().find(|known| known.name == case).expect("a case of this name");
    run_case(&fixture, case).await
}

/// The case fails on the broken store, and passes on the same store without the fault.
#[track_caller]
fn caught(fault: Fault, case: &str) {
    // Paused time makes waiting for what never comes short, and one thread makes every run the same.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let (broken, sound) = runtime
        .expect("a runtime")
        .block_on(async { (verdict(fault, case).await, verdict(Fault::Nothing, case).await) });
    assert_eq!(sound, Verdict::Passed, "{case} without the fault");
    let Verdict::Failed(why) = broken else { panic!("{case} does not notice a store that {fault:?}") };
    println!("{fault:?}: {why}");
}

#[test]
fn a_store_that_drops_a_compare_is_caught() {
    caught(Fault::DropsACompare, "commits::an_older_version_conflicts");
    caught(Fault::DropsACompare, "contention::no_increment_is_lost");
    caught(Fault::DropsACompare, "contention::of_many_creations_one_wins");
}

#[test]
fn a_store_that_writes_half_on_conflict_is_caught() {
    caught(Fault::WritesHalfOnConflict, "commits::one_failed_expectation_of_many_writes_nothing");
}

#[test]
fn a_store_that_writes_in_two_steps_is_caught() {
    caught(Fault::WritesInTwoSteps, "contention::no_read_sees_half_a_commit");
    caught(Fault::WritesInTwoSteps, "contention::no_scan_sees_half_a_commit");
    caught(Fault::WritesInTwoSteps, "versions::the_records_of_a_commit_share_its_version");
}

#[test]
fn a_store_whose_conflicts_are_empty_is_caught() {
    caught(Fault::ConflictsWithoutRecords, "commits::a_conflict_carries_the_expected_records_as_they_are");
    caught(Fault::ConflictsWithoutRecords, "commits::a_conflict_tells_revision_and_time");
}

#[test]
fn a_store_whose_versions_restart_after_deletion_is_caught() {
    caught(Fault::RestartsVersionsAfterDeletion, "versions::versions_rise_over_deletion");
}

#[test]
fn a_store_that_renews_kept_stamps_is_caught() {
    caught(Fault::RenewsKeptStamps, "versions::a_kept_stamp_stays_while_the_version_rises");
}

#[test]
fn a_store_that_scans_backwards_is_caught() {
    caught(Fault::ScansBackwards, "scans::a_page_holds_the_first_names_in_byte_order");
    caught(Fault::ScansBackwards, "scans::pages_put_together_are_every_record_once");
}

#[test]
fn a_store_that_takes_a_name_twice_is_caught() {
    caught(Fault::TakesANameTwice, "limits::a_name_written_twice_is_refused");
}

#[test]
fn a_store_that_ignores_time_is_caught() {
    caught(Fault::IgnoresTime, "clock::a_commit_decided_for_the_future_conflicts");
    caught(Fault::IgnoresTime, "clock::a_commit_decided_too_long_ago_conflicts");
    caught(Fault::IgnoresTime, "clock::a_check_decided_too_long_ago_conflicts");
}

#[test]
fn a_store_that_never_wakes_is_caught() {
    caught(Fault::NeverWakes, "changes::a_waiter_hears_of_a_write");
    caught(Fault::NeverWakes, "changes::a_change_before_the_wait_is_heard_at_once");
    caught(Fault::NeverWakes, "changes::a_waiter_on_a_prefix_hears_of_a_deletion");
}

#[test]
fn a_store_whose_waits_spin_is_caught() {
    caught(Fault::AlwaysWakes, "changes::waiting_is_not_spinning");
}

#[test]
fn a_store_that_calls_the_living_gone_is_caught() {
    caught(Fault::CallsEverybodyGone, "presence::a_session_that_attends_is_not_gone");
    caught(Fault::CallsEverybodyGone, "presence::a_session_that_never_attended_is_not_gone");
}
