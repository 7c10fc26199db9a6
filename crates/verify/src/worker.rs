//! Another process of a run, from the inside: it obeys orders from stdin and answers on stdout.
//!
//! It ends with its orders, and with its parent however that ends, also while it is paused.

mod acts;
pub(crate) mod race;

use std::io::{BufRead, Write};
use std::time::Duration;

use bell_coord::{Ask, Denied, Keep, Lease, Session};
use bell_core::lock::Fence;
use bell_locks::guard::store::StoreGuard;
use bell_locks::{Held, Locks};
use bell_store::Name;
use bell_store::clock::boottime;
use rustix::process::{Signal, set_parent_process_death_signal};
use tokio::runtime::Runtime;

use crate::ground::{Handle, Party, whoami};
use crate::open::Open;
use crate::orders::{ANSWER, Answer, Order, us};
use crate::verdict::{Stop, Verdict};

/// Obeys until there are no more orders. Whoever started this process gave it a pipe to stdin and stdout.
pub fn work(open: &dyn Open) {
    // Nothing is lost if the system can't: then it ends with its orders.
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let mut bench = match runtime {
        Ok(runtime) => Bench { runtime, open, handle: None, held: None },
        Err(error) => return say(&Answer::NotRun(format!("no runtime: {error}"))),
    };
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let answer = match serde_json::from_str(&line) {
            Ok(order) => bench.obey(order).unwrap_or_else(told),
            Err(error) => Answer::NotRun(format!("no such order: {error}")),
        };
        say(&answer);
    }
    bench.leave();
}

fn told(stop: Stop) -> Answer {
    match stop.verdict {
        Verdict::Unavailable => Answer::Unavailable(stop.why),
        Verdict::NotRun => Answer::NotRun(stop.why),
        _ => Answer::Failed(stop.why),
    }
}

fn say(answer: &Answer) {
    let text = serde_json::to_string(answer).unwrap_or_default();
    let mut out = std::io::stdout().lock();
    // The run is gone if it can't be told, and the orders will end too.
    let _ = writeln!(out, "{ANSWER}{text}").and_then(|()| out.flush());
}

/// What a worker has at hand.
struct Bench<'a> {
    runtime: Runtime,
    open: &'a dyn Open,
    handle: Option<(Handle, Party)>,
    held: Option<(Held, Locks)>,
}

impl Bench<'_> {
    fn obey(&mut self, order: Order) -> Result<Answer, Stop> {
        match order {
            Order::Open { url, scope } => self.open(&url, &scope),
            Order::Hold { key, ttl } => self.hold(Ask::new(key).ttl(ttl)),
            Order::Take { key, ttl, wait } => {
                let ask = Ask::new(key).ttl(ttl).wait(wait);
                let sent = boottime();
                let (_, party) = self.at_hand()?;
                let lease = self.runtime.block_on(party.ask(ask))?;
                Ok(taken(&lease, sent))
            }
            Order::Check => {
                let lost = self.held()?.check().err().map(|loss| loss.to_string());
                Ok(Answer::Checked { lost })
            }
            Order::Write { resource, times } => {
                let (fence, guard) = (self.held()?.fence(), self.guard()?);
                let accepted = self.runtime.block_on(acts::write(&guard, &resource, fence, times))?;
                Ok(Answer::Wrote { accepted })
            }
            Order::Race { key, until_us, folder } => {
                let (_, party) = self.at_hand()?;
                let guard = self.guard()?;
                self.runtime.block_on(race::run(party, &guard, &key, until(until_us), &folder))
            }
            Order::Relay { key, until_us } => {
                let (_, party) = self.at_hand()?;
                self.runtime.block_on(acts::relay(party, &key, until(until_us)))
            }
            Order::Stream { prefix } => {
                let (handle, _) = self.at_hand()?;
                self.runtime.block_on(acts::stream(&*handle.store, &prefix, say))
            }
            Order::Fill { names, until_us } => {
                let (handle, _) = self.at_hand()?;
                self.runtime.block_on(acts::fill(&*handle.store, names, until(until_us)))
            }
            Order::Await { name, version } => {
                let (handle, _) = self.at_hand()?;
                self.runtime.block_on(acts::wait(&*handle.store, name.into(), version))
            }
            Order::Read { name } => {
                let (handle, _) = self.at_hand()?;
                let found = self.runtime.block_on(handle.store.read(&[Name::from(name.clone())]))?;
                Ok(Answer::Version(found.version(&name)))
            }
            Order::Clock => Ok(Answer::Clock { unix_s: libc_clock().as_secs() }),
        }
    }

    fn open(&mut self, url: &str, scope: &str) -> Result<Answer, Stop> {
        let opened = self.runtime.block_on(self.open.open(url))?;
        let handle = Handle::new(&opened, scope)?;
        let party = Party { locks: handle.locks.clone(), session: Session::new(whoami(), Keep::Attended)? };
        self.handle = Some((handle, party));
        Ok(Answer::Opened)
    }

    fn hold(&mut self, ask: Ask) -> Result<Answer, Stop> {
        let locks = Locks::new(self.at_hand()?.0.locks.clone(), whoami())?;
        let sent = boottime();
        let held = self.runtime.block_on(locks.lock(ask))?;
        let answer = taken(&held.lease(), sent);
        self.held = Some((held, locks));
        Ok(answer)
    }

    fn at_hand(&self) -> Result<&(Handle, Party), Stop> {
        self.handle.as_ref().ok_or_else(|| Stop::not_run("nothing is open"))
    }

    fn held(&self) -> Result<&Held, Stop> {
        self.held.as_ref().map(|(held, _)| held).ok_or_else(|| Stop::not_run("nothing is held"))
    }

    fn guard(&self) -> Result<StoreGuard, Stop> {
        Ok(self.at_hand()?.0.guard())
    }

    /// Ends its sessions; what can't be ended now runs out.
    fn leave(self) {
        let held = self.held.map(|(held, locks)| {
            drop(held);
            locks
        });
        let party = self.handle.map(|(_, party)| party);
        self.runtime.block_on(async {
            let ended: Result<(), Denied> = async {
                if let Some(locks) = held {
                    locks.end().await?;
                }
                if let Some(party) = party {
                    party.locks.end_session(&party.session).await?;
                }
                Ok(())
            }
            .await;
            drop(ended);
        });
    }
}

fn taken(lease: &Lease, sent: Duration) -> Answer {
    let fence: Fence = lease.fence;
    Answer::Taken { fence, sent_us: us(sent), answered_us: us(boottime()) }
}

fn until(moment_us: u64) -> Duration {
    Duration::from_micros(moment_us)
}

#[expect(clippy::disallowed_methods, reason = "it must be the clock that was tampered with")]
fn libc_clock() -> Duration {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default()
}
