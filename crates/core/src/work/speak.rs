//! What a run says about itself while it runs, and what is said to it.

use super::run::{End, Run, RunId};
use crate::session::SessionId;
use crate::view::{Changes, Decided, Draft, View};

/// Something a run says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    /// What it is doing.
    Status(String),
    /// What it returns. The last one counts.
    Return(String),
    /// It wants to be run again.
    Rerun,
}

/// What comes of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Heard {
    /// It was noted.
    Noted,
    /// The run has ended: what it says no longer counts.
    Ended(End),
    /// A run for a trigger like this one can't be run again.
    NotRerunnable(&'static str),
    /// Nobody knows such a run in such a session.
    Unknown,
}

/// What comes of wanting a run to end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Its supervisor will end it.
    Noted,
    /// It has ended.
    Ended(End),
    /// Nobody knows such a run.
    Unknown,
}

/// Asks the supervisor of a run to end it. Who asked first is who ended it.
///
/// # Errors
/// What it has not seen yet.
pub fn kill(view: &View, id: &RunId, reason: &str) -> Decided<(Asked, Changes)> {
    let mut draft = Draft::new(view);
    let Some(run) = draft.get::<Run>(id)?.cloned() else { return Ok((Asked::Unknown, Changes::default())) };
    if let Some(ended) = run.ended {
        return Ok((Asked::Ended(ended.end), Changes::default()));
    }
    draft.put(id, Run { kill: run.kill.clone().or_else(|| Some(reason.to_owned())), ..run });
    Ok((Asked::Noted, draft.into_changes()))
}

/// Notes what a run says, if it comes from its session.
///
/// # Errors
/// What it has not seen yet.
pub fn speak(view: &View, id: &RunId, session: &SessionId, word: &Word) -> Decided<(Heard, Changes)> {
    let mut draft = Draft::new(view);
    let Some(mut run) = draft.get::<Run>(id)?.filter(|run| run.session == *session).cloned() else {
        return Ok((Heard::Unknown, Changes::default()));
    };
    if let Some(ended) = run.ended {
        return Ok((Heard::Ended(ended.end), Changes::default()));
    }
    if !draft.is_alive(session)? {
        return Ok((Heard::Ended(End::Lost), Changes::default()));
    }
    match word {
        Word::Status(text) => run.status = Some(text.clone()),
        Word::Return(value) => run.returned = Some(value.clone()),
        Word::Rerun => {
            let trigger = draft.get::<super::job::Job>(&run.job)?.map(|job| &job.spec.trigger);
            if let Some(trigger) = trigger.filter(|trigger| !trigger.may_rerun()) {
                return Ok((Heard::NotRerunnable(trigger.kind()), Changes::default()));
            }
            run.wants_rerun = true;
        }
    }
    draft.put(id, run);
    Ok((Heard::Noted, draft.into_changes()))
}
