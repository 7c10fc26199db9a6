//! `bell lock acquire`: takes locks and leaves them standing.

use bell_api::exit;
use bell_api::lock::{AcquireAnswer, KeyFence, LockAnswer};
use bell_api::outcome::Outcome;
use bell_coord::{Ask, Denied, Lease};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::session::{RequestId, SessionId};
use std::time::Duration;

use super::{ask, first_key, user, who};
use crate::answer::{self, Refusal};
use crate::cli::AcquireArgs;
use crate::interrupt::{Interrupts, Stop, has_left};
use crate::open::{Opened, Scene};
use crate::progress::Progress;
use crate::session::{self, Asking, New};
use crate::span;

/// One in so many grants clears away what sessions left.
const CLEAR_ONE_IN: u8 = 32;
/// Characters in a request's id at the most: a UUID has 36.
const REQUEST_CHARS_MAX: usize = 64;

/// How a wait for locks ended.
enum Waited {
    Granted(Vec<Lease>),
    Stopped(Stop),
}

pub(super) async fn acquire(scene: &Scene, args: AcquireArgs) -> Result<u8, Refusal> {
    let first = first_key(&args.keys)?;
    let ask = read(&args)?;
    // The process that asked: this one will be gone in a moment.
    let parent = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    let who = who(args.label, user(), parent)?;
    let new = New { who, ask: &ask, request: args.request_id.is_some().then_some(&ask.request) };
    let mut interrupts = Interrupts::listen()?;
    let opened = scene.open().await?;
    let asking = Asking::choose(&opened, args.session.session_file.as_deref(), &new).await?;
    let leases = match wait(scene, &opened, &asking, &ask, &mut interrupts).await {
        Ok(Waited::Granted(leases)) => leases,
        Ok(Waited::Stopped(stop)) => {
            scene.say.talk(&format!("bell: interrupted: no longer waiting for {first}"));
            return Ok(stop.exit());
        }
        Err(denied) => {
            if asking.is_new() {
                // Ends by itself if this fails: nobody will attend it in a moment.
                let _ = opened.coord.end(&asking.session).await;
            }
            return Err(Refusal::about(&first)(denied));
        }
    };
    asking.settle(&opened, &new).await?;
    tell(scene, &asking, &first, &leases);
    if clears(asking.session.id()) {
        // The lock is the caller's whether or not this works.
        let _ = session::clear(&opened).await;
    }
    Ok(exit::OK)
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
    scene: &Scene,
    opened: &Opened,
    asking: &Asking,
    ask: &Ask,
    interrupts: &mut Interrupts,
) -> Result<Waited, Denied> {
    let (coord, session) = (&opened.coord, &asking.session);
    let mut progress = Progress::new(&scene.say);
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

fn tell(scene: &Scene, asking: &Asking, first: &Key, leases: &[Lease]) {
    let Some(lease) = leases.iter().find(|lease| lease.key == *first).or(leases.first()) else { return };
    let mut lock = answer::lease(Outcome::Granted, &asking.session, lease);
    if leases.len() > 1 {
        lock.keys = leases.iter().map(|l| KeyFence { key: l.key.clone(), fence: l.fence }).collect();
    }
    lock.hint = Some(Outcome::Granted.next().to_owned());
    let answer = AcquireAnswer { lock, token: asking.token() };
    let _ = scene.say.answer(&answer, || lines(leases, &answer.lock));
}

fn lines(leases: &[Lease], answer: &LockAnswer) -> String {
    let already = if answer.already_held { " (held before)" } else { "" };
    let line = |lease: &Lease| {
        format!(
            "granted {} fence {} for {}{already}",
            lease.key,
            lease.fence,
            span::words(lease.ttl.length())
        )
    };
    leases.iter().map(line).collect::<Vec<_>>().join("\n")
}
