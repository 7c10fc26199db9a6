//! Which session acts: one made for this call, the one that the caller names, or one that was kept.

use std::io;
use std::path::{Path, PathBuf};

use bell_api::outcome::Outcome;
use bell_coord::{Ask, Coord, Denied, Keep, Session, Token};
use bell_core::acquire::PublicHolder;
use bell_core::inspect::LockState;
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_core::session::{Identity, RequestId};

use crate::answer::Refusal;
use crate::open::Opened;
use crate::saved::{Saved, Slot, read_token, write_token};

/// A session that is about to ask for locks, and where its token is to be kept.
///
/// A session that was made for this call ends with this process until it is settled: no lock is held by a
/// session whose token got lost.
pub(crate) struct Asking {
    pub(crate) session: Session,
    kept: Kept,
}

enum Kept {
    /// Whoever gave it has it.
    ByCaller,
    /// An earlier call with the same request id has kept it.
    Already,
    /// In the file that the caller named.
    InFile(PathBuf),
    /// Among this user's, for each key and for the request.
    Among(Saved),
}

/// Who asks for what, if a new session does.
pub(crate) struct New<'a> {
    pub(crate) who: Identity,
    pub(crate) ask: &'a Ask,
    /// The id that the caller chose for the request, which may be a repetition.
    pub(crate) request: Option<&'a RequestId>,
}

impl Asking {
    /// The session that asks.
    pub(crate) async fn choose(opened: &Opened, file: Option<&Path>, new: &New<'_>) -> Result<Self, Refusal> {
        if let Some(path) = file {
            return Self::of_file(&opened.coord, path, new).await;
        }
        if let Some(token) = from_environment()? {
            return Ok(Self { session: opened.coord.resume(&token).await?, kept: Kept::ByCaller });
        }
        let saved = Saved::create()?;
        if let Some(request) = new.request {
            for token in saved.find(&opened.name, Slot::Request(request)) {
                match opened.coord.resume(&token).await {
                    Ok(session) => return Ok(Self { session, kept: Kept::Already }),
                    Err(Denied::Lost(_) | Denied::Unauthorized) => {}
                    Err(denied) => return Err(denied.into()),
                }
            }
        }
        Ok(Self { session: new.session()?, kept: Kept::Among(saved) })
    }

    async fn of_file(coord: &Coord, path: &Path, new: &New<'_>) -> Result<Self, Refusal> {
        match read_token(path) {
            Ok(token) => match coord.resume(&token).await {
                Ok(session) => return Ok(Self { session, kept: Kept::ByCaller }),
                // It held nothing any more: the file may serve a new one.
                Err(Denied::Lost(_)) => std::fs::remove_file(path).map_err(|error| bad_file(path, &error))?,
                Err(denied) => return Err(denied.into()),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(bad_file(path, &error)),
        }
        Ok(Self { session: new.session()?, kept: Kept::InFile(path.to_path_buf()) })
    }

    /// The token, if the session was made for this caller.
    pub(crate) fn token(&self) -> Option<bell_api::token::Token> {
        match self.kept {
            Kept::ByCaller => None,
            Kept::Already | Kept::InFile(_) | Kept::Among(_) => Some(self.session.token().expose().into()),
        }
    }

    /// Whether the session was made for this call, and ends with this process unless it is settled.
    pub(crate) fn is_new(&self) -> bool {
        matches!(self.kept, Kept::InFile(_) | Kept::Among(_))
    }

    /// The locks were granted: keeps the token, and leaves the leases to stand for themselves.
    pub(crate) async fn settle(&self, opened: &Opened, new: &New<'_>) -> Result<(), Refusal> {
        if !self.is_new() {
            return Ok(());
        }
        let settled = match self.keep_token(&opened.name, new) {
            Ok(()) => self.detach(&opened.coord).await.map_err(Refusal::from),
            Err(refusal) => Err(refusal),
        };
        if settled.is_err() {
            // Ends by itself if this fails: nobody will attend it in a moment.
            let _ = opened.coord.end(&self.session).await;
        }
        settled
    }

    fn keep_token(&self, store: &str, new: &New<'_>) -> Result<(), Refusal> {
        let token = self.session.token();
        match &self.kept {
            Kept::ByCaller | Kept::Already => {}
            Kept::InFile(path) => write_token(path, &token).map_err(|error| bad_file(path, &error))?,
            Kept::Among(saved) => {
                for key in &new.ask.keys {
                    saved.keep(store, Slot::Key(key), &token)?;
                }
                if let Some(request) = new.request {
                    saved.keep(store, Slot::Request(request), &token)?;
                }
            }
        }
        Ok(())
    }

    async fn detach(&self, coord: &Coord) -> Result<(), Denied> {
        coord.detach(&self.session).await
    }
}

impl New<'_> {
    fn session(&self) -> Result<Session, Denied> {
        Session::new(self.who.clone(), Keep::Attended)
    }
}

/// The session that holds `key`: the one that the caller names, or one of this user's.
pub(crate) async fn holder(
    opened: &Opened,
    file: Option<&Path>,
    key: &Key,
    fence: Option<Fence>,
) -> Result<Session, Refusal> {
    match find(opened, file, key, fence).await? {
        Found::Holder(session) => Ok(session),
        Found::Nobody { state, .. } => Err(Refusal::about(key)(nobody_here(state))),
    }
}

/// The session whose lease on `key` is to be renewed: the holder, or the one of this user's that had it and has not given
/// it back. Renewing tells that one what became of its lease.
pub(crate) async fn renewer(
    opened: &Opened,
    file: Option<&Path>,
    key: &Key,
    fence: Option<Fence>,
) -> Result<Session, Refusal> {
    let (state, over) = match find(opened, file, key, fence).await? {
        Found::Holder(session) => return Ok(session),
        Found::Nobody { state, over } => (state, over),
    };
    if let [token] = over.as_slice()
        && let Ok(session) = opened.coord.resume(token).await
    {
        return Ok(session);
    }
    Err(Refusal::about(key)(nobody_here(state)))
}

/// Who of this user's may act on a key.
enum Found {
    Holder(Session),
    /// Nobody; these held it and have not given it back.
    Nobody {
        state: LockState,
        over: Vec<Token>,
    },
}

async fn find(
    opened: &Opened,
    file: Option<&Path>,
    key: &Key,
    fence: Option<Fence>,
) -> Result<Found, Refusal> {
    let named = match file {
        Some(path) => Some(read_token(path).map_err(|error| bad_file(path, &error))?),
        None => from_environment()?,
    };
    if let Some(token) = named {
        let session = opened.coord.resume(&token).await;
        return session.map(Found::Holder).map_err(Refusal::about(key));
    }
    let saved = Saved::open()?;
    // Tokens first: one is kept when its session holds the key, so what does not hold it now is over.
    let tokens = saved.find(&opened.name, Slot::Key(key));
    let state = opened.coord.show(key).await?;
    let is_over = |token: &Token| state.holders.iter().all(|holder| holder.session != *token.session());
    let (over, tokens): (Vec<Token>, Vec<Token>) = tokens.into_iter().partition(is_over);
    for token in &over {
        saved.forget(&opened.name, Slot::Key(key), token.session());
    }
    let is_meant = |token: &&Token| state.holders.iter().any(|holder| is_meant(holder, token, fence));
    let tokens: Vec<&Token> = tokens.iter().filter(is_meant).collect();
    match tokens.as_slice() {
        [] => Ok(Found::Nobody { state, over }),
        [token] => opened.coord.resume(token).await.map(Found::Holder).map_err(Refusal::about(key)),
        several => Err(ambiguous(&state, several)),
    }
}

/// Forgets the token that was kept for a lease that has been given back.
pub(crate) fn released(opened: &Opened, session: &Session, key: &Key) {
    if let Ok(saved) = Saved::open() {
        saved.forget(&opened.name, Slot::Key(key), session.id());
    }
}

/// Clears away sessions that hold nothing any more, and the tokens of those that have ended. Commands are
/// too short-lived to do so now and then, so each does it once in a while.
pub(crate) async fn clear(opened: &Opened) -> Result<(), Refusal> {
    opened.coord.sweep().await?;
    for (path, token) in Saved::open()?.of_store(&opened.name) {
        if let Err(Denied::Lost(_)) = opened.coord.resume(&token).await {
            // Another command may have been faster.
            let _ = std::fs::remove_file(path);
        }
    }
    Ok(())
}

fn is_meant(holder: &PublicHolder, token: &Token, fence: Option<Fence>) -> bool {
    holder.session == *token.session() && (fence.is_none() || holder.fence == fence)
}

fn nobody_here(state: LockState) -> Denied {
    if state.holders.is_empty() { Denied::NotHeld } else { Denied::NotHolder(state.holders) }
}

fn ambiguous(state: &LockState, tokens: &[&Token]) -> Refusal {
    let ours = state.holders.iter().filter(|holder| tokens.iter().any(|t| *t.session() == holder.session));
    let fences: Vec<String> = ours.filter_map(|holder| Some(holder.fence?.to_string())).collect();
    Refusal::invalid(
        format!("could not tell which lease is meant: this user has {} on {}", tokens.len(), state.key),
        format!("Say which with --fence: {}.", fences.join(", ")),
    )
}

/// The token in `BELL_SESSION`.
pub(crate) fn from_environment() -> Result<Option<Token>, Refusal> {
    let Some(text) = std::env::var("BELL_SESSION").ok().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    Token::parse(&text).map(Some).ok_or_else(|| {
        Refusal::new(
            Outcome::Unauthorized,
            "could not use BELL_SESSION: it is no token",
            "Set it to the token of an acquire answer, or unset it.",
        )
    })
}

pub(crate) fn bad_file(path: &Path, error: &io::Error) -> Refusal {
    let outcome = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => {
            Outcome::Invalid
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidData => Outcome::Unauthorized,
        _ => Outcome::Unavailable,
    };
    let message = format!("could not use the session file {}: {error}", path.display());
    Refusal::new(outcome, message, "Name the file that acquire wrote, readable by this user alone.")
}
