//! One process commits, tells the other, and the other reads.

use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::{Outcome, Stamp, Txn, Write};

use crate::figures::grouped;
use crate::ground::Ground;
use crate::orders::{Answer, Order};
use crate::process::expect_answer;
use crate::verdict::{Done, Stop, ensure};

/// Records that are written again and again: what was read once may be remembered wrongly.
const RECORDS: u64 = 4;

pub(super) async fn run(ground: Ground) -> Done {
    let mut reader = ground.worker().await?;
    let until = ground.until(Duration::from_secs(1));
    let mut rounds = 0_u64;
    while boottime() < until {
        let name = ground.name(&(rounds % RECORDS).to_string());
        let writes = vec![(name.clone(), Write::Put(rounds.to_be_bytes().to_vec(), Stamp::New))];
        let Outcome::Committed(done) = ground.handle().store.commit(Txn { writes, ..Txn::default() }).await?
        else {
            return Err(Stop::failed("a commit that expected nothing was in conflict"));
        };
        let read = reader.ask(&Order::Read { name: name.to_string() }).await?;
        let version = expect_answer!(read, Answer::Version(version) => version);
        ensure!(
            version == done.revision,
            "another process read version {version} of a record after {} had been acknowledged",
            done.revision
        );
        rounds += 1;
    }
    Ok(format!("{} times, another process read at once what had just been committed", grouped(rounds)))
}
