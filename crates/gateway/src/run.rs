//! The routes of what a run says of itself.

use axum::Extension;
use axum::extract::State;
use bell_api::ask::Nothing;
use bell_api::outcome::Outcome;
use bell_api::run::{ExitRequest, ReturnRequest, RunAnswer, StatusRequest};
use bell_core::work::speak::{Heard, Word};

use crate::auth::Caller;
use crate::body::Asked;
use crate::desk::Desk;
use crate::refusal::{Answer, Refusal};

type Answered = Result<Answer<RunAnswer>, Refusal>;

pub(crate) async fn status(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Asked(request): Asked<StatusRequest>,
) -> Answered {
    speak(&desk, &caller, &Word::Status(request.text)).await
}

pub(crate) async fn give_back(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Asked(request): Asked<ReturnRequest>,
) -> Answered {
    speak(&desk, &caller, &Word::Return(request.value)).await
}

pub(crate) async fn rerun(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Asked(Nothing {}): Asked<Nothing>,
) -> Answered {
    speak(&desk, &caller, &Word::Rerun).await
}

/// Ends the run. It is on record with its exit code; whoever asked is ended like everybody else.
pub(crate) async fn exit(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Asked(request): Asked<ExitRequest>,
) -> Answered {
    caller.must_be_the_run()?;
    desk.want_exit(request.code);
    Ok(noted(&desk, Outcome::Ended))
}

async fn speak(desk: &Desk, caller: &Caller, word: &Word) -> Answered {
    caller.must_be_the_run()?;
    let standing = desk.standing();
    let run = &standing.run;
    match standing.work.speak(run, &standing.session, word).await? {
        Heard::Noted => Ok(noted(desk, Outcome::Written)),
        Heard::Ended(end) => Err(Refusal::new(
            Outcome::Lost,
            format!("could not speak for {run}: it has ended, {end}"),
            "Stop: whatever this run does now counts for nothing.",
        )),
        Heard::NotRerunnable(kind) => Err(Refusal::invalid(
            format!("could not ask for a rerun: a run for a {kind} is not run again"),
            "Only runs by schedule or by hand can ask for it.",
        )),
        Heard::Unknown => {
            Err(Refusal::forbidden(format!("could not speak for {run}: it is not this session's")))
        }
    }
}

fn noted(desk: &Desk, outcome: Outcome) -> Answer<RunAnswer> {
    Answer(outcome, RunAnswer { outcome, run: desk.standing().run.clone() })
}
