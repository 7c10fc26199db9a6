//! The routes of what a run says of itself, and of what it is shown of itself.

use axum::Extension;
use axum::extract::State;
use bell_api::ask::Nothing;
use bell_api::control::logs::{LogAnswer, LogQuery};
use bell_api::control::runs::RunShown;
use bell_api::outcome::Outcome;
use bell_api::run::{ExitRequest, ReturnRequest, RunAnswer, StatusRequest};
use bell_control::{logs, runs};
use bell_core::work::speak::{Heard, Word};

use crate::auth::Caller;
use crate::body::Asked;
use crate::desk::{Desk, Standing};
use crate::refusal::{Answer, Refusal};
use crate::server::question::{Named, Question};

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

/// Its own record, at the address where a daemon has those of all. `-` is the run too.
pub(crate) async fn show(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Question(Nothing {}): Question<Nothing>,
) -> Result<Answer<RunShown>, Refusal> {
    let Standing { run, work, locks, .. } = own(&desk, &caller, &name)?;
    let shown = runs::shown(work, locks, run.clone()).await?;
    Ok(Answer(shown.outcome, shown))
}

/// What it has printed so far.
pub(crate) async fn logs(
    State(desk): State<Desk>,
    Extension(caller): Extension<Caller>,
    Named(name): Named,
    Question(query): Question<LogQuery>,
) -> Result<Answer<LogAnswer>, Refusal> {
    let Standing { run, runs, .. } = own(&desk, &caller, &name)?;
    if query.follow {
        return Err(Refusal::invalid(
            "could not follow the log here: a supervisor tells what there is",
            "Ask again with from= the `next` of the answer, or follow it at the daemon.",
        ));
    }
    let log = logs::read(runs.clone(), run.to_string(), query).await?;
    Ok(Answer(log.outcome, log))
}

/// The run, if it asks for itself.
fn own<'a>(desk: &'a Desk, caller: &Caller, name: &str) -> Result<&'a Standing, Refusal> {
    caller.must_be_the_run()?;
    let standing = desk.standing();
    if name == standing.run.as_str() || name == logs::ANY {
        return Ok(standing);
    }
    Err(Refusal::new(
        Outcome::NotFound,
        format!("could not find a run called {name} here: a run is shown itself, which is {}", standing.run),
        "Who may see every run asks the daemon, with an API key.",
    ))
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
