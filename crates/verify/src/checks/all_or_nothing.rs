//! Commits of several records, seen from beside.

use std::collections::BTreeSet;
use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::info::Scope;
use bell_store::{Expect, Name, Outcome, Snapshot, Stamp, Txn, Write};

use crate::figures::grouped;
use crate::ground::{Ground, Handle};
use crate::orders::{Answer, Order, us};
use crate::process::expect_answer;
use crate::verdict::{Done, Stop, ensure};

/// Records in each commit.
const RECORDS: usize = 8;

pub(super) async fn run(ground: Ground) -> Done {
    let handle = ground.handle();
    conflicts_write_nothing(&ground, handle).await?;
    if ground.info().scope == Scope::Process {
        return Ok("a commit whose expectation did not hold wrote nothing".to_owned());
    }
    let names: Vec<Name> = (0..RECORDS).map(|number| ground.name(&format!("set/{number}"))).collect();
    let until = ground.until(Duration::from_secs(1));
    let mut writer = ground.worker().await?;
    let texts = names.iter().map(Name::to_string).collect();
    writer.order(&Order::Fill { names: texts, until_us: us(until) }).await?;
    let mut looks = 0_u64;
    while boottime() < until {
        whole(&handle.store.read(&names).await?)?;
        let prefix = ground.name("set/");
        whole(&handle.store.scan(prefix.as_str(), "", RECORDS + 1).await?)?;
        looks += 2;
        tokio::task::yield_now().await;
    }
    let commits = expect_answer!(writer.answer().await?, Answer::Filled { commits } => commits);
    whole(&handle.store.read(&names).await?)?;
    Ok(format!(
        "{} commits of {RECORDS} records by another process were whole in each of {} looks; a commit whose expectation \
         did not hold wrote nothing",
        grouped(commits),
        grouped(looks)
    ))
}

/// Either nothing is there yet, or everything, from one commit.
fn whole(seen: &Snapshot) -> Result<(), Stop> {
    let versions: BTreeSet<u64> = seen.records.values().map(|record| record.version).collect();
    let values: BTreeSet<&[u8]> = seen.records.values().map(|record| record.value.as_slice()).collect();
    let count = seen.records.len();
    ensure!(
        count == 0 || (count == RECORDS && versions.len() == 1 && values.len() == 1),
        "one look showed {count} of {RECORDS} records that are always written together, from {} commits",
        versions.len().max(values.len())
    );
    Ok(())
}

/// A commit that expects something that is not so.
async fn conflicts_write_nothing(ground: &Ground, handle: &Handle) -> Result<(), Stop> {
    let [there, beside, never] = ["there", "beside", "never"].map(|name| ground.name(name));
    let put = || Write::Put(b"x".to_vec(), Stamp::New);
    let before = written(handle, &there, put()).await?;
    let done = written(handle, &there, put()).await?;
    let after = written(handle, &beside, put()).await?;
    // Each is the revision of a commit: what a caller can have seen, of this record or of another.
    let wrong = [
        (there.clone(), Expect::Absent),
        (there.clone(), Expect::At(before)),
        (there.clone(), Expect::At(after)),
        (never.clone(), Expect::At(done)),
    ];
    for expected in wrong {
        let writes = vec![(never.clone(), put()), (there.clone(), Write::Delete)];
        let txn = Txn { expect: vec![expected.clone()], writes, at: None };
        let answer = handle.store.commit(txn).await?;
        ensure!(
            matches!(answer, Outcome::Conflict(_)),
            "a commit went through although {expected:?} did not hold"
        );
    }
    let seen = handle.store.read(&[there.clone(), never.clone()]).await?;
    ensure!(seen.version(never.as_str()) == 0, "a commit that was in conflict has written");
    ensure!(seen.version(there.as_str()) == done, "a commit that was in conflict has removed a record");
    Ok(())
}

/// Writes one record, expecting nothing. Answers the revision of the commit.
async fn written(handle: &Handle, name: &Name, write: Write) -> Result<u64, Stop> {
    let txn = Txn { writes: vec![(name.clone(), write)], ..Txn::default() };
    match handle.store.commit(txn).await? {
        Outcome::Committed(done) => Ok(done.revision),
        Outcome::Conflict(_) => Err(Stop::failed("a commit that expected nothing was in conflict")),
    }
}
