//! Finding a run again after the daemon was gone: it runs, it has ended, or it is lost.
//!
//! A supervisor is believed to live only if its process number, its start time, the boot of the machine and the nonce
//! agree. If it does not, the run's lock is taken first, so that no supervisor that is still starting
//! can go on; then whatever the agent left is ended, and only then the run is called lost.

mod sweep;

use std::path::Path;
use std::time::Duration;

use bell_store::clock;
use tokio::time::sleep;

use crate::error::{Error, Kind, Result};
use crate::exit::{Exit, Reason, Usage};
use crate::handle::SupervisorHandle;
use crate::run_dir::{Claim, RunDir};
use crate::supervise::now_ms;

/// A supervisor that has the lock but has not said who it is will do so, or die, within moments.
const SETTLE_TRIES: usize = 400;
const SETTLE_EVERY: Duration = Duration::from_millis(50);

/// What was found.
#[derive(Debug)]
pub enum Adopted {
    /// Its supervisor lives.
    Running(SupervisorHandle),
    /// It is over, and this is how it ended.
    Ended(Exit),
    /// Its supervisor was killed, or never came to be. Nothing of the run is left.
    Lost(String),
}

/// Looks after the run of this directory.
///
/// Dropped half-way, some of a lost run may be left; it may be asked for again.
pub async fn adopt(run_dir: &Path) -> Result<Adopted> {
    let dir = RunDir::open(run_dir)?;
    let launch = dir.launch()?;
    let boot_id = clock::boot_id().map_err(|error| Error::io("find out when the machine started", error))?;
    for _ in 0..SETTLE_TRIES {
        if let Some(exit) = dir.exit()? {
            return Ok(Adopted::Ended(exit));
        }
        // A state that can't be read proves nothing; the lock decides.
        let state = dir.state().ok().flatten();
        let why = match &state {
            None => "it never started".to_owned(),
            Some(state) => match state.open(&launch.nonce, &boot_id) {
                Ok(process) => {
                    let state = state.clone();
                    return Ok(Adopted::Running(SupervisorHandle::new(dir, state, Some(process))));
                }
                Err(why) => why,
            },
        };
        if let Some(claim) = dir.claim()? {
            return match settle(&dir, claim, &why).await? {
                Settled::Before(exit) => Ok(Adopted::Ended(exit)),
                Settled::Now(_) => Ok(Adopted::Lost(why)),
            };
        }
        sleep(SETTLE_EVERY).await;
    }
    let message = format!("find out what became of {}", launch.run);
    Err(Error::new(Kind::Unavailable, message).hint("Look what holds the file `lock` in its directory."))
}

/// How a run ended whose supervisor is known to be gone.
pub(crate) async fn conclude(dir: &RunDir, why: &str) -> Result<Exit> {
    for _ in 0..SETTLE_TRIES {
        if let Some(exit) = dir.exit()? {
            return Ok(exit);
        }
        if let Some(claim) = dir.claim()? {
            return settle(dir, claim, why).await.map(|settled| match settled {
                Settled::Before(exit) | Settled::Now(exit) => exit,
            });
        }
        sleep(SETTLE_EVERY).await;
    }
    let message = format!("find out how the run in {} ended", dir.root().display());
    Err(Error::new(Kind::Unavailable, message).hint("Look what holds the file `lock` in that directory."))
}

enum Settled {
    /// The end had been written before.
    Before(Exit),
    /// It is lost, and nothing of it is left.
    Now(Exit),
}

/// Ends what is left of a run without a supervisor, and writes down that it is lost.
async fn settle(dir: &RunDir, claim: Claim, why: &str) -> Result<Settled> {
    // It may have ended between the look and the claim.
    if let Some(exit) = dir.exit()? {
        return Ok(Settled::Before(exit));
    }
    let launch = dir.launch()?;
    let state = dir.state().ok().flatten().filter(|state| state.nonce == launch.nonce);
    let unconfirmed = sweep::everything(&launch, state.as_ref()).await;
    // What can't be forgotten only its owner can read.
    let _ = dir.forget_environment(&launch);
    let isolation = launch.isolation.as_ref().map(|isolation| isolation.means);
    let exit = Exit {
        run: launch.run,
        nonce: launch.nonce,
        reason: Reason::Lost { why: why.to_owned() },
        code: None,
        signal: None,
        started_ms: state.and_then(|state| state.started_ms),
        ended_ms: now_ms(),
        usage: Usage::default(),
        output_bytes: 0,
        truncated: false,
        left_behind: false,
        unconfirmed,
        isolation,
    };
    dir.set_exit(&exit)?;
    drop(claim);
    Ok(Settled::Now(exit))
}
