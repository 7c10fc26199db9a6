//! The line that shows, while a command waits, for whom.

use std::convert::Infallible;
use std::io::Write;
use std::time::Duration;

use bell_coord::Coord;
use bell_core::inspect::LockState;
use bell_core::key::Key;
use bell_core::session::SessionId;
use bell_store::clock::boottime;

use crate::say::{self, Format, Say};

const EVERY: Duration = Duration::from_secs(1);
/// Goes to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[2K";

/// A line on the terminal that is gone when this is dropped. Without a terminal it shows nothing.
pub(crate) struct Progress {
    began: Duration,
    shown: bool,
    wanted: bool,
}

impl Progress {
    /// Shows nothing yet.
    pub(crate) fn new(say: &Say) -> Self {
        let wanted = say.format() == Format::Plain && say::can_show_progress();
        Self { began: boottime(), shown: false, wanted }
    }

    /// Shows whom a session waits for; it looks every second. Never returns.
    pub(crate) async fn follow(&mut self, coord: &Coord, session: &SessionId, keys: &[Key]) -> Infallible {
        if !self.wanted {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(EVERY).await;
            for key in keys {
                let Ok(state) = coord.show(key).await else { continue };
                if !state.holders.iter().all(|holder| holder.session == *session) {
                    self.show(&state, Some(session));
                    break;
                }
            }
        }
    }

    /// Shows who holds a key that is waited for.
    pub(crate) fn show(&mut self, state: &LockState, session: Option<&SessionId>) {
        if !self.wanted {
            return;
        }
        self.put(&line(state, session, boottime().saturating_sub(self.began)));
    }

    /// Shows what takes so long, every second. Never returns.
    pub(crate) async fn tell(&mut self, what: &str) -> Infallible {
        loop {
            tokio::time::sleep(EVERY).await;
            if self.wanted {
                let waited = boottime().saturating_sub(self.began);
                self.put(&format!("{what}, {} s", waited.as_secs()));
            }
        }
    }

    fn put(&mut self, line: &str) {
        let _ = write!(std::io::stderr(), "{CLEAR}{}", say::clean(line));
        self.shown = true;
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "{CLEAR}");
        }
    }
}

fn line(state: &LockState, session: Option<&SessionId>, waited: Duration) -> String {
    let holder = match state.holders.as_slice() {
        [] => "nobody".to_owned(),
        [one] => one.who.to_string(),
        [one, others @ ..] => format!("{} and {} more", one.who, others.len()),
    };
    let place = session.and_then(|id| state.waiting.iter().position(|waiter| waiter.session == *id));
    let ahead = place.map_or_else(String::new, |place| format!(", {place} ahead"));
    format!("waiting for {}: held by {holder}{ahead}, {} s", state.key, waited.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_for_what_for_whom_and_how_long() {
        let key = Key::parse("deploy://x").unwrap();
        let state = LockState { key, holders: Vec::new(), waiting: Vec::new() };
        assert_eq!(
            line(&state, None, Duration::from_secs(12)),
            "waiting for deploy://x: held by nobody, 12 s"
        );
    }
}
