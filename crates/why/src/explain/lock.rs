//! Why a key is held, waited for, or free.

use bell_coord::audit::Breaking;
use bell_core::acquire::PublicHolder;
use bell_core::inspect::{LockState, PublicWaiter};
use bell_core::lock::Mode;
use bell_core::session::Identity;
use bell_core::work::Wall;

use crate::answer::{Answer, Kind};
use crate::words::{length, names, told};

/// Breakings that are told: the last ones.
const BREAKINGS: usize = 3;

/// What is known about a key.
#[derive(Clone, Debug)]
pub struct LockSeen {
    /// Who holds and who waits.
    pub state: LockState,
    /// Who took it from its holder, the latest last.
    pub breakings: Vec<Breaking>,
    /// Now.
    pub now: Wall,
}

/// Says who has a key, and why.
pub fn explain(seen: &LockSeen) -> Answer {
    let key = &seen.state.key;
    let mut answer = Answer::new(Kind::Lock, key.as_str(), says(seen));
    for holder in &seen.state.holders {
        let how = format!(
            "{}, for {}, {} left of {}{}",
            holder.who,
            length(holder.held),
            length(holder.left),
            length(holder.ttl.length()),
            holder.fence.map(|fence| format!(", fence {fence}")).unwrap_or_default(),
        );
        answer.fact_because("held by", how, why_held(holder));
    }
    for (place, waiter) in seen.state.waiting.iter().enumerate() {
        answer.fact("waits", waiting(place, waiter));
    }
    for breaking in seen.breakings.iter().rev().take(BREAKINGS) {
        let what = format!(
            "{} by {}, taken from {}",
            told(Wall(breaking.at_ms), seen.now),
            breaking.by,
            names(&breaking.holders)
        );
        answer.fact_because("broken", what, &*breaking.reason);
    }
    advise(seen, &mut answer);
    answer
}

fn says(seen: &LockSeen) -> String {
    let state = &seen.state;
    let waits = match state.waiting.len() {
        0 => String::new(),
        1 => "; 1 waits for it".to_owned(),
        many => format!("; {many} wait for it"),
    };
    match state.holders.as_slice() {
        [] => format!("{} is free{waits}", state.key),
        [one] => format!("{} is held by {}, for {}{waits}", state.key, one.who, length(one.held)),
        [one, others @ ..] => {
            format!("{} is shared by {} and {} more{waits}", state.key, one.who, others.len())
        }
    }
}

fn why_held(holder: &PublicHolder) -> String {
    let mode = match holder.mode {
        Mode::Exclusive => "exclusively",
        Mode::Shared => "shared",
    };
    match &holder.who.run {
        Some(run) => format!("the run {run} holds it {mode} until it gives it back or ends"),
        None => format!("its session holds it {mode} until it gives it back, ends, or lets it run out"),
    }
}

fn waiting(place: usize, waiter: &PublicWaiter) -> String {
    let mode = if waiter.mode == Mode::Shared { ", to share it" } else { "" };
    format!("{}. {}, for {}{mode}", place + 1, waiter.who, length(waiter.waited))
}

fn advise(seen: &LockSeen, answer: &mut Answer) {
    let key = &seen.state.key;
    let Some(holder) = seen.state.holders.first() else {
        answer.next(format!("take it: bell lock acquire {key}"));
        return;
    };
    match &holder.who {
        Identity { run: Some(run), .. } => {
            answer.next(format!("see what its holder does: bell why {run}"));
            answer.next(format!("end the run, and with it the lock: bell kill {run}"));
        }
        _ => {
            answer.next(format!("wait for it: bell lock wait {key}"));
            answer.next(format!(
                "take it away, if its holder is out of hand: bell lock break {key} --reason WHY --yes"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bell_core::key::Key;
    use bell_core::lock::{Fence, Ttl};
    use bell_core::session::SessionId;

    use super::*;

    fn who(label: &str, run: Option<&str>) -> Identity {
        let run = run.map(str::to_owned);
        Identity { label: Some(label.to_owned()), run, ..Identity::default() }
    }

    fn holder(who: Identity) -> PublicHolder {
        PublicHolder {
            session: SessionId::from("s1"),
            who,
            mode: Mode::Exclusive,
            fence: Some(Fence(42)),
            held: Duration::from_secs(90),
            left: Duration::from_secs(30),
            ttl: Ttl::DEFAULT,
        }
    }

    fn seen(holders: Vec<PublicHolder>) -> LockSeen {
        let key = Key::parse("deploy://api-prod").unwrap();
        LockSeen {
            state: LockState { key, holders, waiting: Vec::new() },
            breakings: Vec::new(),
            now: Wall(90_000),
        }
    }

    #[test]
    fn a_holder_comes_with_its_fence_its_run_and_how_to_end_it() {
        let answer = explain(&seen(vec![holder(who("deploy", Some("triage-1")))]));
        assert_eq!(answer.says, "deploy://api-prod is held by deploy triage-1, for 1 min 30 s");
        assert!(answer.facts[0].value.ends_with("30 s left of 30 min, fence 42"), "{answer:?}");
        assert_eq!(answer.next[1], "end the run, and with it the lock: bell kill triage-1");
    }

    #[test]
    fn waiters_are_told_in_their_order() {
        let waiter = |label: &str| PublicWaiter {
            session: SessionId::from(label),
            who: who(label, None),
            mode: Mode::Exclusive,
            waited: Duration::from_secs(5),
        };
        let mut seen = seen(vec![holder(who("a", None))]);
        seen.state.waiting = vec![waiter("b"), waiter("c")];
        let answer = explain(&seen);
        assert!(answer.says.ends_with("; 2 wait for it"), "{answer:?}");
        let waits: Vec<&str> =
            answer.facts.iter().filter(|fact| fact.what == "waits").map(|fact| fact.value.as_str()).collect();
        assert_eq!(waits, ["1. b, for 5 s", "2. c, for 5 s"]);
    }

    #[test]
    fn a_free_key_tells_who_broke_it_last() {
        let breaking = |by: &str, at_ms| Breaking {
            key: "deploy://api-prod".to_owned(),
            by: by.to_owned(),
            reason: "stuck".to_owned(),
            holders: vec!["s1".to_owned()],
            at_ms,
        };
        let mut seen = seen(Vec::new());
        seen.breakings = vec![breaking("ada", 10_000), breaking("bob", 60_000)];
        let answer = explain(&seen);
        assert_eq!(answer.says, "deploy://api-prod is free");
        assert!(answer.facts[0].value.contains("30 s ago) by bob, taken from s1"), "{answer:?}");
        assert_eq!(answer.facts[0].because.as_deref(), Some("stuck"));
    }
}
