//! `bell lock acquire`: takes locks and leaves them standing.

use std::time::Duration;

use bell_api::ask::AcquireRequest;
use bell_api::exit;
use bell_api::lock::{AcquireAnswer, LockAnswer};
use bell_client::Client;
use bell_coord::{Ask, Denied, Lease};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::session::{RequestId, SessionId};
use bell_gateway::limits::REQUEST_CHARS_MAX;

use super::show::{key_of, length};
use super::{ask, first_key, user, who};
use crate::answer::{self, Refusal};
use crate::cli::AcquireArgs;
use crate::desk::{Desk, refuse_file};
use crate::interrupt::{Interrupts, Stop, has_left};
use crate::open::Opened;
use crate::progress::Progress;
use crate::remote;
use crate::session::{self, Asking, New};
use crate::span;

/// One in so many grants clears away what sessions left.
const CLEAR_ONE_IN: u8 = 32;

/// How a wait for locks ended.
enum Waited<T> {
    Granted(T),
    Stopped(Stop),
}

pub(super) async fn acquire(desk: &Desk, args: AcquireArgs) -> Result<u8, Refusal> {
    let first = first_key(&args.keys)?;
    let ask = read(&args)?;
    let mut interrupts = Interrupts::listen()?;
    let waited = if let Some(client) = desk.run() {
        of_run(desk, client, &args, &ask, &mut interrupts).await?
    } else if let Some(key) = desk.gateway() {
        of_gateway(desk, key, &args, &ask, &mut interrupts).await?
    } else {
        of_store(desk, args, &ask, &first, &mut interrupts).await?
    };
    match waited {
        Waited::Granted(answer) => {
            let _ = desk.say.answer(&answer, || lines(&answer.lock));
            Ok(exit::OK)
        }
        Waited::Stopped(stop) => {
            desk.say.talk(&format!("bell: interrupted: no longer waiting for {first}"));
            Ok(stop.exit())
        }
    }
}

/// Inside a run: its supervisor asks, in the run's session.
async fn of_run(
    desk: &Desk,
    client: &Client,
    args: &AcquireArgs,
    ask: &Ask,
    interrupts: &mut Interrupts,
) -> Result<Waited<AcquireAnswer>, Refusal> {
    refuse_file(&args.session)?;
    Ok(match attend(desk, client, args, ask, interrupts).await? {
        Waited::Granted(lock) => Waited::Granted(AcquireAnswer { lock, token: None }),
        Waited::Stopped(stop) => Waited::Stopped(stop),
    })
}

/// At a gateway: in a session that was made for this call, or that the caller names.
async fn of_gateway(
    desk: &Desk,
    key: &Client,
    args: &AcquireArgs,
    ask: &Ask,
    interrupts: &mut Interrupts,
) -> Result<Waited<AcquireAnswer>, Refusal> {
    let who = who(args.label.clone(), user(), parent())?;
    let request = args.request_id.is_some().then_some(&ask.request);
    let new = remote::New { who, keys: &ask.keys, request };
    let asking = remote::Asking::choose(key, args.session.session_file.as_deref(), &new).await?;
    match attend(desk, &asking.client, args, ask, interrupts).await {
        Ok(Waited::Granted(lock)) => {
            asking.settle(&new).await?;
            Ok(Waited::Granted(AcquireAnswer { lock, token: asking.token() }))
        }
        Ok(Waited::Stopped(stop)) => {
            asking.give_up().await;
            Ok(Waited::Stopped(stop))
        }
        Err(refusal) => {
            asking.give_up().await;
            Err(refusal)
        }
    }
}

/// Asks somebody else to wait, for as long as this process does.
async fn attend(
    desk: &Desk,
    client: &Client,
    args: &AcquireArgs,
    ask: &Ask,
    interrupts: &mut Interrupts,
) -> Result<Waited<LockAnswer>, Refusal> {
    let request = AcquireRequest {
        keys: args.keys.clone(),
        mode: ask.mode.into(),
        // Without one, as long as the project says.
        ttl_ms: args.ttl.is_some().then(|| span::ms(ask.ttl.length())),
        wait_ms: span::ms(ask.wait),
        request_id: ask.request.to_string(),
    };
    let mut progress = Progress::new(&desk.say);
    let waiting = format!("waiting for {}", args.keys.join(", "));
    tokio::select! {
        answer = client.acquire(&request) => Ok(Waited::Granted(answer?)),
        stop = interrupts.next() => {
            // A place that is not given up lapses a moment later.
            let _ = client.leave(&request.request_id).await;
            Ok(Waited::Stopped(stop))
        }
        never = progress.tell(&waiting) => match never {},
    }
}

/// On a store: in a session that was made for this call, or that the caller names.
async fn of_store(
    desk: &Desk,
    args: AcquireArgs,
    ask: &Ask,
    first: &Key,
    interrupts: &mut Interrupts,
) -> Result<Waited<AcquireAnswer>, Refusal> {
    let who = who(args.label, user(), parent())?;
    let new = New { who, ask, request: args.request_id.is_some().then_some(&ask.request) };
    let opened = desk.store().await?;
    let asking = Asking::choose(opened, args.session.session_file.as_deref(), &new).await?;
    let leases = match wait(desk, opened, &asking, ask, interrupts).await {
        Ok(Waited::Granted(leases)) => leases,
        Ok(Waited::Stopped(stop)) => return Ok(Waited::Stopped(stop)),
        Err(denied) => {
            if asking.is_new() {
                // Ends by itself if this fails: nobody will attend it in a moment.
                let _ = opened.coord.end(&asking.session).await;
            }
            return Err(Refusal::about(first)(denied));
        }
    };
    asking.settle(opened, &new).await?;
    if clears(asking.session.id()) {
        // The lock is the caller's whether or not this works.
        let _ = session::clear(opened).await;
    }
    let lock = answer::granted(&asking.session, first, &leases);
    Ok(Waited::Granted(AcquireAnswer { lock, token: asking.token() }))
}

/// The process that asked: this one will be gone in a moment.
fn parent() -> Option<u32> {
    rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs())
}

/// Sessions end in random digits, so no pattern of calls can miss its turn for ever.
fn clears(session: &SessionId) -> bool {
    let digits = session.as_str().len().checked_sub(2).and_then(|at| session.as_str().get(at..));
    let digits = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
    digits.is_some_and(|digits| digits.is_multiple_of(CLEAR_ONE_IN))
}

fn read(args: &AcquireArgs) -> Result<Ask, Refusal> {
    let ttl = span::ttl(args.ttl.as_deref(), Ttl::DEFAULT)?;
    let wait = span::wait(args.wait.as_deref(), "--wait", Duration::ZERO)?;
    let ask = ask(&args.keys, args.mode(), ttl, wait)?;
    let Some(id) = &args.request_id else { return Ok(ask) };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if id.is_empty() || id.len() > REQUEST_CHARS_MAX || !id.chars().all(is_plain) {
        return Err(Refusal::invalid(
            "could not use the request id: it has characters that an id can't have, none, or too many",
            format!("Use letters, digits, -, _, . and :, {REQUEST_CHARS_MAX} at the most."),
        ));
    }
    Ok(ask.request(RequestId::from(id.as_str())))
}

/// Asks, and waits if it must: as long as this process lives, and no longer.
async fn wait(
    desk: &Desk,
    opened: &Opened,
    asking: &Asking,
    ask: &Ask,
    interrupts: &mut Interrupts,
) -> Result<Waited<Vec<Lease>>, Denied> {
    let (coord, session) = (&opened.coord, &asking.session);
    let mut progress = Progress::new(&desk.say);
    let stop = tokio::select! {
        granted = coord.acquire(session, ask) => return Ok(Waited::Granted(granted?)),
        stop = interrupts.next() => stop,
        never = progress.follow(coord, session.id(), &ask.keys) => match never {},
    };
    if asking.is_new() {
        coord.end(session).await?;
    } else {
        has_left(coord, session, &ask.keys).await;
    }
    Ok(Waited::Stopped(stop))
}

fn lines(answer: &LockAnswer) -> String {
    let already = if answer.already_held { " (held before)" } else { "" };
    let lasts = length(answer.ttl_ms.unwrap_or_default());
    let line = |key: String, fence: String| format!("granted {key}{fence} for {lasts}{already}");
    if answer.keys.is_empty() {
        return line(key_of(answer), super::fence_words(answer.fence));
    }
    let each = answer.keys.iter();
    each.map(|one| line(one.key.to_string(), format!(" fence {}", one.fence))).collect::<Vec<_>>().join("\n")
}
