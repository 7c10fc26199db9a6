//! What must hold in every story, one small file each.
//!
//! An invariant sees every commit that the store applied and every claim that somebody made outside of it, in the one
//! order in which they happened. It keeps its own notes: it trusts no record to be right about another.

mod accepted_is_never_lost;
mod caps_hold;
mod fences_rise;
mod first_come_first_served;
mod it_heals;
mod locks_end_with_their_session;
mod mutual_exclusion;
mod no_stale_write;
mod one_live_claim;
mod one_row_per_tick;
mod runs_end_once;

use crate::journal::Event;
use crate::setting::Setting;
use crate::state::State;

/// The result of looking: what is wrong, in words.
pub type Seen = Result<(), String>;

/// Something that must always hold.
pub trait Invariant: Send {
    /// What it is called: the name of its file.
    fn name(&self) -> &'static str;

    /// Looks at what has just happened; the state is as of after it.
    ///
    /// # Errors
    /// What is wrong.
    fn look(&mut self, event: &Event<'_>, state: &State) -> Seen;

    /// Looks at what is left when faults are over and time enough has passed.
    ///
    /// # Errors
    /// What is wrong.
    fn finally(&mut self, _state: &State) -> Seen {
        Ok(())
    }
}

/// All of them.
pub fn all(setting: &Setting) -> Vec<Box<dyn Invariant>> {
    vec![
        Box::<mutual_exclusion::MutualExclusion>::default(),
        Box::<fences_rise::FencesRise>::default(),
        Box::<accepted_is_never_lost::AcceptedIsNeverLost>::default(),
        Box::<one_live_claim::OneLiveClaim>::default(),
        Box::new(caps_hold::CapsHold::new(setting)),
        Box::<one_row_per_tick::OneRowPerTick>::default(),
        Box::<runs_end_once::RunsEndOnce>::default(),
        Box::<locks_end_with_their_session::LocksEndWithTheirSession>::default(),
        Box::<no_stale_write::NoStaleWrite>::default(),
        Box::<first_come_first_served::FirstComeFirstServed>::default(),
        Box::<it_heals::ItHeals>::default(),
    ]
}

/// Says what is wrong unless it holds.
fn holds(it: bool, or: impl FnOnce() -> String) -> Seen {
    if it { Ok(()) } else { Err(or()) }
}
