//! Going on in step: each side tells what came of its part, and waits for what came of the other's.

use std::cell::Cell;
use std::time::Duration;

use bell_store::clock::boottime;
use bell_store::{Name, Stamp, Txn, Watch, Write};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::meet::Side;
use crate::ground::Handle;
use crate::verdict::{Stop, Verdict};

/// How long the other side may be silent. Each act takes a few seconds.
const SILENCE: Duration = Duration::from_secs(45);
/// How often to look although nothing was told.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The two sides of one run.
pub(super) struct Talk {
    pub(super) handle: Handle,
    pub(super) side: Side,
    step: Cell<u32>,
}

/// What came of a side's part.
#[derive(Serialize, Deserialize)]
enum Told<T> {
    Done(T),
    Stopped(Verdict, String),
}

impl Talk {
    pub(super) fn new(handle: Handle, side: Side) -> Self {
        Self { handle, side, step: Cell::new(0) }
    }

    /// Tells what came of this side's part and waits for the other's. Both sides get the same: both parts, this
    /// side's first, or the reason why one of them stopped.
    pub(super) async fn both<T>(&self, mine: Result<T, Stop>) -> Result<(T, T), Stop>
    where
        T: Serialize + DeserializeOwned,
    {
        let step = self.step.replace(self.step.get() + 1);
        let told = match mine {
            Ok(part) => Told::Done(part),
            Err(stop) => Told::Stopped(stop.verdict, stop.why),
        };
        self.put(self.name(step, self.side), &told).await?;
        let theirs: Told<T> = self.wait(self.name(step, self.side.other())).await?;
        match (told, theirs) {
            (Told::Done(mine), Told::Done(theirs)) => Ok((mine, theirs)),
            (Told::Stopped(mine, why), Told::Stopped(theirs, whys)) => {
                Err(Stop { verdict: mine.max(theirs), why: format!("here: {why}; there: {whys}") })
            }
            (Told::Stopped(verdict, why), _) => Err(Stop { verdict, why: format!("here: {why}") }),
            (_, Told::Stopped(verdict, why)) => Err(Stop { verdict, why: format!("there: {why}") }),
        }
    }

    /// The last step. The first side returns when the second has read everything, so that it may be removed.
    pub(super) async fn end(&self) -> Result<(), Stop> {
        self.both(Ok(())).await?;
        let last = self.name(u32::MAX, Side::Second);
        match self.side {
            Side::Second => self.put(last, &Told::Done(())).await,
            Side::First => self.wait::<()>(last).await.map(drop),
        }
    }

    async fn put<T: Serialize>(&self, name: Name, told: &Told<T>) -> Result<(), Stop> {
        let text = serde_json::to_vec(told).map_err(std::io::Error::from)?;
        let writes = vec![(name, Write::Put(text, Stamp::New))];
        self.handle.store.commit(Txn { writes, ..Txn::default() }).await?;
        Ok(())
    }

    async fn wait<T: DeserializeOwned>(&self, name: Name) -> Result<Told<T>, Stop> {
        let store = &self.handle.store;
        let give_up = boottime() + SILENCE;
        let watch = Watch::Names(vec![(name.clone(), 0)]);
        loop {
            let seen = store.read(std::slice::from_ref(&name)).await?;
            if let Some(record) = seen.records.get(&name) {
                return Ok(serde_json::from_slice(&record.value).map_err(std::io::Error::from)?);
            }
            if boottime() >= give_up {
                let silent = SILENCE.as_secs();
                return Err(Stop::unavailable(format!("the other machine has said nothing for {silent} s")));
            }
            // Told, or time to look.
            let _ = tokio::time::timeout(LOOK_EVERY, store.changed(&watch)).await;
        }
    }

    fn name(&self, step: u32, side: Side) -> Name {
        self.handle.name(&format!("talk/{step}/{side:?}"))
    }
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}
