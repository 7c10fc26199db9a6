//! What another process does: it reads orders, a line each, and answers each with a line.
//!
//! ```text
//! open URL                     opened
//! hold KEY TTL_MS              held FENCE           kept alive from now on
//! take KEY TTL_MS WAIT_MS      taken FENCE          left to its ttl
//! check                        ok | lost WHY
//! write FOLDER                 wrote ACCEPTED       once, with the fence of what is held
//! write-often FOLDER           wrote ACCEPTED       without looking whether it is still held
//! race COUNT KEY FOLDER        raced COUNT          counting in a plain file, under the lock
//! clock                        clock SECONDS        the wall clock, as libc tells it
//! ```
//! A race takes as long as the store does, so it says `working` in between: whoever is silent is stuck.
//! Anything that goes wrong is answered with `failed WHY`. It ends when its orders end.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use bell_coord::{Ask, Denied, Keep, Lease};
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};
use bell_store::clock::boottime;
use tokio::runtime::Runtime;

use super::Setup;
use super::ground::{Party, Stop, ensure};
use super::writing::Guarded;
use crate::held::Held;
use crate::locks::Locks;

/// Says that this process is to be a worker.
pub(super) const WORKER: &str = "BELL_CONFORMANCE_WORKER";

/// What answers start with, so that they are told from whatever else is printed.
pub(super) const ANSWER: &str = "conformance-worker: ";

/// What is said before an answer that takes long.
pub(super) const WORKING: &str = "working";

/// Turns of a race after which its worker says so: some seconds on the slowest disks.
const RACE_WORD: u64 = 100;

/// Longer than any queue of two takes.
const RACE_WAIT: Duration = Duration::from_secs(60);

/// Between two tries of one who does not queue.
const RACE_PAUSE: Duration = Duration::from_millis(1);

/// Whether the suite started this process to be a part of it. Then nothing else is to be done but [`work`].
pub fn is_worker() -> bool {
    std::env::var_os(WORKER).is_some()
}

/// Does what the suite orders, until it has no more orders.
pub fn work(setup: &dyn Setup) {
    setup.register();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let mut bench = match runtime {
        Ok(runtime) => Bench { runtime, party: None, held: None },
        Err(error) => return say(&format!("failed no runtime: {error}")),
    };
    for order in std::io::stdin().lines().map_while(Result::ok) {
        match bench.obey(&order) {
            Ok(answer) => say(&answer),
            Err(Stop(why)) => say(&format!("failed {why}")),
        }
    }
}

fn say(answer: &str) {
    let mut out = std::io::stdout().lock();
    // The suite is gone if it can't be told, and the orders will end too.
    let _ = writeln!(out, "{ANSWER}{}", answer.replace('\n', " ")).and_then(|()| out.flush());
}

/// What a worker has at hand.
struct Bench {
    runtime: Runtime,
    party: Option<Party>,
    held: Option<Held>,
}

impl Bench {
    fn obey(&mut self, order: &str) -> Result<String, Stop> {
        let (verb, rest) = order.split_once(' ').unwrap_or((order, ""));
        match verb {
            "open" => self.open(rest),
            "hold" => self.hold(rest),
            "take" => self.take(rest),
            "check" => {
                Ok(self.held()?.check().map_or_else(|loss| format!("lost {loss}"), |()| "ok".to_owned()))
            }
            "write" => self.write(rest, |guarded, fence| {
                let (to_file, to_database) = guarded.write(fence, "worker")?;
                Ok(u32::from(to_file) + u32::from(to_database))
            }),
            "write-often" => self.write(rest, |guarded, fence| guarded.try_often(fence, "worker")),
            "race" => self.race(rest),
            "clock" => Ok(format!("clock {}", libc_clock().as_secs())),
            _ => Err(Stop::failed(format!("no such order: {order}"))),
        }
    }

    fn open(&mut self, url: &str) -> Result<String, Stop> {
        let backend = self.runtime.block_on(crate::open::open(url))?;
        self.party = Some(Party::new(&backend, Keep::Attended, 0)?);
        Ok("opened".to_owned())
    }

    fn hold(&mut self, rest: &str) -> Result<String, Stop> {
        let [key, ttl] = words(rest)?;
        let ask = Ask::new(parse_key(key)?).ttl(parse_ttl(ttl)?);
        let locks = Locks::new(self.party()?.backend.clone(), self.party()?.session.who().clone())?;
        let held = self.runtime.block_on(locks.lock(ask))?;
        let fence = held.fence();
        self.held = Some(held);
        Ok(format!("held {fence}"))
    }

    fn take(&self, rest: &str) -> Result<String, Stop> {
        let [key, ttl, wait] = words(rest)?;
        let wait = Duration::from_millis(parse(wait)?);
        let ask = Ask::new(parse_key(key)?).ttl(parse_ttl(ttl)?).wait(wait);
        let lease = self.runtime.block_on(self.party()?.ask(ask))?;
        Ok(format!("taken {}", lease.fence))
    }

    fn write(
        &self,
        folder: &str,
        write: impl FnOnce(&mut Guarded, Fence) -> Result<u32, Stop>,
    ) -> Result<String, Stop> {
        let accepted = write(&mut Guarded::open(Path::new(folder))?, self.held()?.fence())?;
        Ok(format!("wrote {accepted}"))
    }

    fn race(&self, rest: &str) -> Result<String, Stop> {
        let [count, key, folder] = words(rest)?;
        let (count, key) = (parse(count)?, parse_key(key)?);
        let counter = Path::new(folder).join("counter");
        self.runtime.block_on(async {
            for turn in 0..count {
                let party = self.party()?;
                let lease = race_for(party, &key, turn).await?;
                count_on(&counter, lease.fence)?;
                party.release(&lease).await?;
                if turn.is_multiple_of(RACE_WORD) {
                    say(WORKING);
                }
            }
            Ok(format!("raced {count}"))
        })
    }

    fn party(&self) -> Result<&Party, Stop> {
        self.party.as_ref().ok_or_else(|| Stop::failed("nothing is open"))
    }

    fn held(&self) -> Result<&Held, Stop> {
        self.held.as_ref().ok_or_else(|| Stop::failed("nothing is held"))
    }
}

/// Gets a key that others want too, by waiting in the queue or by asking again and again: both ways are
/// taken, since they meet in all combinations then.
async fn race_for(party: &Party, key: &Key, turn: u64) -> Result<Lease, Stop> {
    let wait = if turn.is_multiple_of(4) { RACE_WAIT } else { Duration::ZERO };
    let give_up = boottime() + RACE_WAIT;
    loop {
        match party.ask(Ask::new(key.clone()).wait(wait)).await {
            Err(Denied::Busy(_)) if boottime() < give_up => tokio::time::sleep(RACE_PAUSE).await,
            answer => return Ok(answer?),
        }
    }
}

/// Adds one to a number in a plain file, which nothing protects but the lock. Beside it stands the fence of
/// whoever came before.
fn count_on(counter: &Path, fence: Fence) -> Result<(), Stop> {
    let text = std::fs::read_to_string(counter)?;
    let [count, before] = words(&text)?;
    let (count, before) = (parse(count)?, Fence(parse(before)?));
    ensure!(fence > before, "fence {fence} after {before}");
    std::fs::write(counter, format!("{} {fence}", count + 1))?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "it must be the clock that was tampered with")]
fn libc_clock() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}

/// Exactly so many words; the last may have spaces in it.
fn words<const N: usize>(text: &str) -> Result<[&str; N], Stop> {
    let words: Vec<&str> = text.splitn(N, ' ').collect();
    words.try_into().map_err(|_| Stop::failed(format!("{text:?} should have {N} words")))
}

fn parse(text: &str) -> Result<u64, Stop> {
    text.trim().parse().map_err(|_| Stop::failed(format!("{text:?} is no number")))
}

fn parse_key(text: &str) -> Result<Key, Stop> {
    Key::parse(text).map_err(|error| Stop::failed(error.to_string()))
}

fn parse_ttl(text: &str) -> Result<Ttl, Stop> {
    Ttl::new(Duration::from_millis(parse(text)?)).map_err(|error| Stop::failed(error.to_string()))
}
