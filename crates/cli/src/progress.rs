//! The line that shows, while a command waits, for whom.

use std::convert::Infallible;
use std::io::Write;
use std::time::Duration;

use bell_api::lock::LockAnswer;
use bell_coord::Coord;
use bell_core::key::Key;
use bell_core::session::SessionId;
use bell_store::clock::boottime;

use crate::answer;
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
                    self.show(&answer::shown(&state), Some(session));
                    break;
                }
            }
        }
    }

    /// Shows who holds a key that is waited for.
    pub(crate) fn show(&mut self, shown: &LockAnswer, session: Option<&SessionId>) {
        if !self.wanted {
            return;
        }
        self.put(&line(shown, session, boottime().saturating_sub(self.began)));
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

fn line(shown: &LockAnswer, session: Option<&SessionId>, waited: Duration) -> String {
    let holder = match (&shown.holder, shown.shared_with.len()) {
        (None, _) => "nobody".to_owned(),
        (Some(one), 0) => one.who().to_string(),
        (Some(one), others) => format!("{} and {others} more", one.who()),
    };
    let place = session.and_then(|id| shown.waiters.iter().position(|waiter| waiter.session == *id));
    let ahead = place.map_or_else(String::new, |place| format!(", {place} ahead"));
    let key = shown.key.as_ref().map(ToString::to_string).unwrap_or_default();
    format!("waiting for {key}: held by {holder}{ahead}, {} s", waited.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_for_what_for_whom_and_how_long() {
        let key = Key::parse("deploy://x").unwrap();
        let shown = LockAnswer::new(bell_api::outcome::Outcome::Free, Some(key));
        assert_eq!(
            line(&shown, None, Duration::from_secs(12)),
            "waiting for deploy://x: held by nobody, 12 s"
        );
    }
}
