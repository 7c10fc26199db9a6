//! Watching over a command and its leases: whichever ends first decides.

use std::future::{Future, poll_fn};
use std::process::ExitStatus;
use std::task::Poll;
use std::time::Duration;

use bell_api::outcome::Outcome;
use bell_locks::{Held, Loss};
use bell_store::clock::boottime;
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use super::child::{Child, Group, exit_code};
use crate::answer::Refusal;
use crate::interrupt::no_signals;
use crate::say::Say;

/// Runs until the command has ended. Answers its exit code, or that its lock was lost.
pub(super) async fn supervise(
    say: &Say,
    mut child: Child,
    held: &[Held],
    grace: Duration,
    mut signals: Signals,
) -> Result<u8, Refusal> {
    let ended = until_ended_or_lost(&mut child, held, &mut signals).await;
    let loss = match ended {
        // It may have been over before the command was: nobody looked while this process was paused.
        Ok(status) => match held.iter().find_map(|held| Some((held, held.check().err()?))) {
            None => return Ok(exit_code(status)),
            Some((held, loss)) => lost(held, &loss),
        },
        Err(loss) => {
            say.talk("bell: the lock is lost: ending the command");
            end(&mut child, within_lease(grace, ends_at(held), boottime()), &mut signals).await;
            loss
        }
    };
    Ok(say.refuse_aside(&loss))
}

async fn until_ended_or_lost(
    child: &mut Child,
    held: &[Held],
    signals: &mut Signals,
) -> Result<ExitStatus, Refusal> {
    loop {
        tokio::select! {
            status = child.end() => return status.map_err(|error| Refusal::unavailable(
                format!("could not wait for the command: {error}"),
                "Look whether it still runs before starting it again.",
            )),
            loss = first_loss(held) => return Err(loss),
            signal = signals.next() => child.signal(signal),
        }
    }
}

/// TERM, and KILL if that was not enough within the grace.
async fn end(child: &mut Child, grace: Duration, signals: &mut Signals) {
    child.signal(Signal::TERM);
    // A stopped command does not hear TERM before it goes on.
    child.signal(Signal::CONT);
    let all_ended = async {
        loop {
            tokio::select! {
                _ = child.end() => break,
                signal = signals.next() => child.signal(signal),
            }
        }
        child.group_end().await;
    };
    if tokio::time::timeout(grace, all_ended).await.is_err() {
        child.signal(Signal::KILL);
        // It can't refuse; only its end is still to be taken note of.
        let _ = child.end().await;
    }
}

/// On the boot clock: the earliest moment at which the store may give one of the keys to others.
fn ends_at(held: &[Held]) -> Option<Duration> {
    held.iter().flat_map(|held| [held.ends_at(), held.session().ends_at()]).flatten().min()
}

/// A lease that can't be renewed still keeps others out for a moment: the grace ends with it. If it is over already, the
/// grace counts in full.
fn within_lease(grace: Duration, ends_at: Option<Duration>, now: Duration) -> Duration {
    let left = ends_at.map(|end| end.saturating_sub(now)).filter(|left| !left.is_zero());
    left.map_or(grace, |left| grace.min(left))
}

/// Returns when the first of the leases is lost.
async fn first_loss(held: &[Held]) -> Refusal {
    let mut losses: Vec<_> = held.iter().map(|held| (held, Box::pin(held.lost()))).collect();
    poll_fn(|context| {
        for (held, loss) in &mut losses {
            if let Poll::Ready(loss) = loss.as_mut().poll(context) {
                return Poll::Ready(lost(held, &loss));
            }
        }
        Poll::Pending
    })
    .await
}

fn lost(held: &Held, loss: &Loss) -> Refusal {
    let refusal =
        Refusal::new(Outcome::Lost, format!("the lock {} is lost: {loss}", held.key()), Outcome::Lost.next());
    let mut answer = refusal.0;
    answer.key = Some(held.key().clone());
    answer.fence = Some(held.fence());
    Refusal(answer)
}

/// The signals that are passed on.
pub(super) struct Signals(Vec<(unix::Signal, Signal)>);

impl Signals {
    /// From now on none of them ends this process.
    pub(super) fn listen(group: Group) -> Result<Self, Refusal> {
        let passed: &[Signal] = match group {
            Group::Own => &[Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2],
            // The terminal sends INT and QUIT to the command itself; here they must only not end this
            // process.
            Group::Shared => &[Signal::TERM, Signal::HUP, Signal::USR1, Signal::USR2],
        };
        let listen = |passed: &Signal| {
            let kind = SignalKind::from_raw(passed.as_raw());
            Ok((signal(kind).map_err(|error| no_signals(&error))?, *passed))
        };
        for kind in [SignalKind::interrupt(), SignalKind::quit()] {
            // Once listened to, a signal ends nothing by itself any more.
            drop(signal(kind).map_err(|error| no_signals(&error))?);
        }
        Ok(Self(passed.iter().map(listen).collect::<Result<_, Refusal>>()?))
    }

    async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (arriving, signal) in &mut self.0 {
                if arriving.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_grace_of_a_command_ends_with_the_lease_that_still_keeps_others_out() {
        assert_eq!(within_lease(s(10), Some(s(102)), s(100)), s(2));
        assert_eq!(within_lease(s(10), Some(s(140)), s(100)), s(10));
    }

    #[test]
    fn the_grace_counts_in_full_once_the_lease_is_over() {
        assert_eq!(within_lease(s(10), Some(s(99)), s(100)), s(10));
        assert_eq!(within_lease(s(10), None, s(100)), s(10));
    }
}
