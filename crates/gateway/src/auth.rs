//! Who asks. Nothing of a request is looked at before that is known.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bell_coord::{Session, Token};
use http::header::{AUTHORIZATION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};

use crate::desk::Desk;
use crate::limits::ANSWER_WITHIN;
use crate::parking::Parking;
use crate::refusal::Refusal;
use bell_api::outcome::Outcome;

/// Who asks, proved.
#[derive(Clone)]
pub(crate) enum Caller {
    /// The run itself.
    Run,
    /// A session that the run has made for itself.
    Own(Session),
}

impl Caller {
    /// Refuses whoever is not the run itself.
    pub(crate) fn must_be_the_run(&self) -> Result<(), Refusal> {
        match self {
            Self::Run => Ok(()),
            Self::Own(_) => {
                Err(Refusal::forbidden("could not do this: a session of its own only takes locks"))
            }
        }
    }
}

/// Lets a request through if it is the run's, for as long as an answer may take.
pub(crate) async fn admit(State(desk): State<Desk>, mut request: Request, next: Next) -> Response {
    let caller = match check_head(request.headers()).and_then(|()| caller(&desk, request.headers())) {
        Ok(caller) => caller,
        Err(refusal) => return refusal.into_response(),
    };
    request.extensions_mut().insert(caller);
    // Whoever waits here is told at once when the run ends, and there are few.
    request.extensions_mut().remove::<Parking>();
    let over = desk.over();
    tokio::select! {
        biased;
        answered = tokio::time::timeout(ANSWER_WITHIN, next.run(request)) => {
            answered.unwrap_or_else(|_| too_slow().into_response())
        }
        () = over.cancelled() => ended().into_response(),
    }
}

/// A request that says in two ways how long it is could be read in two ways.
pub(crate) fn check_head(headers: &HeaderMap) -> Result<(), Refusal> {
    let count = |name| headers.get_all(name).iter().count();
    let lengths = count(CONTENT_LENGTH);
    if lengths > 1 || (lengths == 1 && count(TRANSFER_ENCODING) > 0) {
        return Err(Refusal::invalid(
            "could not tell how long the request is: it says so more than once",
            "Send Content-Length once, or Transfer-Encoding: chunked without it.",
        ));
    }
    Ok(())
}

fn caller(desk: &Desk, headers: &HeaderMap) -> Result<Caller, Refusal> {
    if desk.is_over() {
        return Err(ended());
    }
    let token = token(headers)?;
    let standing = desk.standing();
    let (session, caller) = if token.session() == standing.session.id() {
        (standing.session.clone(), Caller::Run)
    } else if let Some(session) = desk.sessions().find(token.session()) {
        (session.clone(), Caller::Own(session))
    } else {
        return Err(Refusal::forbidden("could not act for this run: the token is another session's"));
    };
    if session.is_proved_by(&token) {
        return Ok(caller);
    }
    Err(Refusal::unauthorized("could not take the token: it does not prove the session that it names"))
}

fn token(headers: &HeaderMap) -> Result<Token, Refusal> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let Some(value) = given.next() else {
        return Err(Refusal::unauthorized("could not tell who asks: the request has no token"));
    };
    if given.next().is_some() {
        return Err(Refusal::invalid(
            "could not tell who asks: Authorization is there more than once",
            "Send it once.",
        ));
    }
    let bearer = value.to_str().ok().and_then(|text| text.split_once(' '));
    let token = bearer.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    token
        .and_then(|(_, token)| Token::parse(token))
        .ok_or_else(|| Refusal::unauthorized("could not read the token"))
}

fn ended() -> Refusal {
    Refusal::new(
        Outcome::Unauthorized,
        "could not act for this run: it has ended, and its token with it",
        "Stop: whatever this run does now counts for nothing.",
    )
}

pub(crate) fn too_slow() -> Refusal {
    let message = format!("could not answer within {} s; it may have happened", ANSWER_WITHIN.as_secs());
    Refusal::new(Outcome::Unavailable, message, "Look whether it has happened before doing it again.")
        .with(StatusCode::SERVICE_UNAVAILABLE)
}
