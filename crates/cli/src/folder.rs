//! Refusals of what works on a shared folder.

use bell_api::outcome::Outcome;
use bell_locks::folder::{Error, Kind};

use crate::answer::Refusal;

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let outcome = match error.kind() {
            Kind::Invalid | Kind::Exists | Kind::Unsupported | Kind::Corrupt => Outcome::Invalid,
            Kind::NotFound => Outcome::NotFound,
            Kind::Stale => Outcome::Stale,
            Kind::Busy => Outcome::Busy,
            Kind::Unauthorized => Outcome::Unauthorized,
            Kind::Full | Kind::Unknown | Kind::Unavailable => Outcome::Unavailable,
        };
        let hint = if error.advice().is_empty() { outcome.next() } else { error.advice() };
        let mut refusal = Self::new(outcome, format!("could not {error}"), hint);
        if let Some(fences) = error.fences() {
            refusal.0.fence = Some(fences.given);
            refusal.0.seen_fence = Some(fences.seen);
        }
        refusal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_worker_is_told_so_and_a_full_disk_may_be_better_later() {
        let of = |kind| Refusal::from(Error::new(kind, "x")).0.outcome;
        assert_eq!(of(Kind::Stale), Outcome::Stale);
        assert_eq!(of(Kind::Full), Outcome::Unavailable);
        assert_eq!(of(Kind::Corrupt), Outcome::Invalid);
    }
}
