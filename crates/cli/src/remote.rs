//! Which session acts at a gateway: one made for this call, the one that the caller names, or one that was kept.
//!
//! A session that is made here is detached: this process ends in a moment, and each lease stands for itself until its ttl
//! is over, as it does on a store.

use std::io;
use std::path::{Path, PathBuf};

use bell_api::ask::SessionRequest;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_client::{Client, Failure};
use bell_coord::Token;
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_core::session::{Identity, RequestId};

use crate::answer::Refusal;
use crate::saved::{Saved, Slot, read_token, write_token};
use crate::session::{bad_file, from_environment};

/// A session that is about to ask for locks, and where its token is to be kept.
pub(crate) struct Asking {
    /// Acts in the session.
    pub(crate) client: Client,
    token: Token,
    kept: Kept,
}

enum Kept {
    /// Whoever gave it has it.
    ByCaller,
    /// An earlier call with the same request id has kept it.
    Already,
    InFile(PathBuf),
    /// Among this user's.
    Among(Saved),
}

/// Who asks for what, if a new session does.
pub(crate) struct New<'a> {
    pub(crate) who: Identity,
    pub(crate) keys: &'a [Key],
    /// The id that the caller chose for the request, which may be a repetition.
    pub(crate) request: Option<&'a RequestId>,
}

impl Asking {
    /// The session that asks.
    pub(crate) async fn choose(key: &Client, file: Option<&Path>, new: &New<'_>) -> Result<Self, Refusal> {
        if let Some(path) = file {
            return Self::of_file(key, path, new).await;
        }
        if let Some(token) = from_environment()? {
            return Self::of(key, token, Kept::ByCaller);
        }
        let saved = Saved::create()?;
        if let Some(request) = new.request {
            for token in saved.find(&name(key), Slot::Request(request)) {
                if is_there(&acting(key, &token)?).await? {
                    return Self::of(key, token, Kept::Already);
                }
            }
        }
        Self::make(key, Kept::Among(saved), new).await
    }

    async fn of_file(key: &Client, path: &Path, new: &New<'_>) -> Result<Self, Refusal> {
        match read_token(path) {
            Ok(token) if is_there(&acting(key, &token)?).await? => {
                return Self::of(key, token, Kept::ByCaller);
            }
            // It held nothing any more: the file may serve a new one.
            Ok(_) => std::fs::remove_file(path).map_err(|error| bad_file(path, &error))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(bad_file(path, &error)),
        }
        Self::make(key, Kept::InFile(path.to_path_buf()), new).await
    }

    fn of(key: &Client, token: Token, kept: Kept) -> Result<Self, Refusal> {
        Ok(Self { client: acting(key, &token)?, token, kept })
    }

    async fn make(key: &Client, kept: Kept, new: &New<'_>) -> Result<Self, Refusal> {
        let Identity { label, pid, node, .. } = new.who.clone();
        let request = SessionRequest { label, pid, node, detached: true, ..SessionRequest::default() };
        let made = key.open_session(&request).await?;
        let token = made.token.and_then(|token| Token::parse(token.reveal())).ok_or_else(|| {
            Refusal::unavailable(
                "could not use the session that the gateway made: it gave no token",
                "Look whether that is a gateway of this version.",
            )
        })?;
        Self::of(key, token, kept)
    }

    /// The token, if the session was made for this caller.
    pub(crate) fn token(&self) -> Option<bell_api::token::Token> {
        match self.kept {
            Kept::ByCaller => None,
            Kept::Already | Kept::InFile(_) | Kept::Among(_) => Some(self.token.expose().into()),
        }
    }

    /// Ends the session if it was made for this call.
    pub(crate) async fn give_up(&self) {
        if matches!(self.kept, Kept::InFile(_) | Kept::Among(_)) {
            // It has nothing, so it fades if this fails.
            let _ = self.client.end_session().await;
        }
    }

    /// The locks were granted: keeps the token.
    pub(crate) async fn settle(&self, new: &New<'_>) -> Result<(), Refusal> {
        let kept = self.keep(new);
        if kept.is_err() {
            self.give_up().await;
        }
        kept
    }

    fn keep(&self, new: &New<'_>) -> Result<(), Refusal> {
        match &self.kept {
            Kept::ByCaller | Kept::Already => {}
            Kept::InFile(path) => write_token(path, &self.token).map_err(|error| bad_file(path, &error))?,
            Kept::Among(saved) => {
                let gateway = name(&self.client);
                for key in new.keys {
                    saved.keep(&gateway, Slot::Key(key), &self.token)?;
                }
                if let Some(request) = new.request {
                    saved.keep(&gateway, Slot::Request(request), &self.token)?;
                }
            }
        }
        Ok(())
    }
}

/// A client that acts in the session that holds `held`: the one that the caller names, or one of this user's.
pub(crate) async fn holder(
    key: &Client,
    file: Option<&Path>,
    held: &Key,
    fence: Option<Fence>,
) -> Result<Client, Refusal> {
    match find(key, file, held, fence).await? {
        Found::Holder(client) => Ok(client),
        Found::Nobody { state, .. } => Err(nobody_here(held, *state)),
    }
}

/// A client that acts in the session whose lease on `held` is to be renewed: the holder, or the one of this user's that had
/// it. Renewing tells that one what became of its lease.
pub(crate) async fn renewer(
    key: &Client,
    file: Option<&Path>,
    held: &Key,
    fence: Option<Fence>,
) -> Result<Client, Refusal> {
    let (state, over) = match find(key, file, held, fence).await? {
        Found::Holder(client) => return Ok(client),
        Found::Nobody { state, over } => (state, over),
    };
    if let [token] = over.as_slice() {
        let client = acting(key, token)?;
        if is_there(&client).await? {
            return Ok(client);
        }
    }
    Err(nobody_here(held, *state))
}

/// Who of this user's may act on a key.
enum Found {
    Holder(Client),
    /// Nobody; these are kept for the key.
    Nobody {
        state: Box<LockAnswer>,
        over: Vec<Token>,
    },
}

async fn find(key: &Client, file: Option<&Path>, held: &Key, fence: Option<Fence>) -> Result<Found, Refusal> {
    let named = match file {
        Some(path) => Some(read_token(path).map_err(|error| bad_file(path, &error))?),
        None => from_environment()?,
    };
    if let Some(token) = named {
        return acting(key, &token).map(Found::Holder);
    }
    let state = key.show(held.as_str()).await?;
    let is_meant = |token: &Token| {
        let mut holders = state.holders();
        holders
            .any(|(holder, found)| holder.session == *token.session() && (fence.is_none() || fence == found))
    };
    let saved = Saved::open()?.find(&name(key), Slot::Key(held));
    match saved.iter().filter(|token| is_meant(token)).collect::<Vec<_>>().as_slice() {
        [] => Ok(Found::Nobody { state: Box::new(state), over: saved }),
        [token] => acting(key, token).map(Found::Holder),
        several => Err(Refusal::invalid(
            format!("could not tell which lease is meant: this user has {} on {held}", several.len()),
            "Say which with --fence or --session-file.",
        )),
    }
}

fn nobody_here(key: &Key, state: LockAnswer) -> Refusal {
    let outcome = if state.holder.is_some() { Outcome::NotHolder } else { Outcome::NotHeld };
    let by = state.holder.as_ref().map(|holder| format!("held by {}", holder.who()));
    let message = format!("{key} is {}", by.unwrap_or_else(|| "not held".to_owned()));
    Refusal(Box::new(LockAnswer {
        outcome,
        message: Some(message),
        hint: Some(outcome.next().to_owned()),
        ..state
    }))
}

fn acting(key: &Client, token: &Token) -> Result<Client, Refusal> {
    Ok(key.with_token(&token.expose().into())?)
}

/// Whether the session has not ended.
async fn is_there(session: &Client) -> Result<bool, Refusal> {
    match session.heartbeat().await {
        Ok(_) => Ok(true),
        Err(Failure::Refused(refusal)) if refusal.outcome == Outcome::Lost => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

/// What tokens of this gateway are kept under.
fn name(client: &Client) -> String {
    client.address().to_string()
}
