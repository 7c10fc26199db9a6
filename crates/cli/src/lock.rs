//! The commands about locks, one file each.

mod acquire;
mod breaking;
mod list;
mod release;
mod renew;
mod show;
mod wait;
mod watch;

use bell_api::outcome::Outcome;
use bell_coord::Ask;
use bell_core::key::Key;
use bell_core::lock::{Fence, Mode, Ttl};
use bell_core::session::Identity;
use std::time::Duration;

use crate::answer::Refusal;
use crate::cli::LockCommand;
use crate::desk::Desk;
use crate::run;

/// Bytes in a label at the most: a line on a terminal, and records stay small.
const LABEL_BYTES_MAX: usize = 200;

/// Carries out a command. Answers the exit code.
pub(crate) async fn lock(desk: &Desk, command: LockCommand) -> Result<u8, Refusal> {
    match command {
        LockCommand::Run(args) => run::run(desk, args).await,
        LockCommand::Acquire(args) => acquire::acquire(desk, args).await,
        LockCommand::Release(args) => release::release(desk, &args).await,
        LockCommand::Renew(args) => renew::renew(desk, &args).await,
        LockCommand::Show(args) => show::show(desk, &args).await,
        LockCommand::List(args) => list::list(desk, &args).await,
        LockCommand::Wait(args) => wait::wait(desk, &args).await,
        LockCommand::Break(args) => breaking::break_lock(desk, &args).await,
        LockCommand::Watch(args) => watch::watch(desk, &args).await,
    }
}

/// What acquire and run ask for.
pub(crate) fn ask(keys: &[String], mode: Mode, ttl: Ttl, wait: Duration) -> Result<Ask, Refusal> {
    let keys = keys.iter().map(|key| Key::parse(key)).collect::<Result<Vec<Key>, _>>()?;
    if let Some(key) = keys.iter().find(|key| key.is_reserved()) {
        return Err(Refusal::new(
            Outcome::Unauthorized,
            format!("could not take {key}: keys of bell: are Bellwether's own"),
            "Use a key with another scheme, such as job:nightly.",
        ));
    }
    Ok(Ask { mode, ..Ask::all(keys).ttl(ttl).wait(wait) })
}

/// The key that the caller named first: answers are about that one.
pub(crate) fn first_key(keys: &[String]) -> Result<Key, Refusal> {
    let first = keys.first().map_or("", String::as_str);
    Ok(Key::parse(first)?)
}

/// Who asks, for others to see.
pub(crate) fn who(label: Option<String>, default: String, pid: Option<u32>) -> Result<Identity, Refusal> {
    let label = label.unwrap_or(default);
    if label.len() > LABEL_BYTES_MAX {
        return Err(Refusal::invalid(
            format!("could not use the label: it has {} bytes of at most {LABEL_BYTES_MAX}", label.len()),
            "Use a shorter label.",
        ));
    }
    Ok(Identity { label: Some(label), pid, ..bell_locks::locks::this_process() })
}

/// What keys are to start with, in canonical form as far as a part of a key can be, so that its spelling
/// does not matter.
fn prefix(given: &str) -> String {
    match Key::parse(given) {
        Ok(key) if given.ends_with('/') => format!("{key}/"),
        Ok(key) => key.to_string(),
        Err(_) => match given.split_once(':') {
            Some((scheme, rest)) => format!("{}:{rest}", scheme.to_ascii_lowercase()),
            None => given.to_owned(),
        },
    }
}

/// A fence for a line of text.
fn fence_words(fence: Option<Fence>) -> String {
    fence.map_or_else(String::new, |fence| format!(" fence {fence}"))
}

/// The user's name, as far as the environment tells.
pub(crate) fn user() -> String {
    let uid = rustix::process::getuid().as_raw();
    std::env::var("USER").ok().filter(|name| !name.is_empty()).unwrap_or_else(|| format!("uid {uid}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spelling_of_a_prefix_does_not_matter() {
        assert_eq!(prefix("Deploy://API/"), "deploy://api/");
        assert_eq!(prefix("Deploy://"), "deploy://");
        assert_eq!(prefix(""), "");
    }

    #[test]
    fn a_label_has_a_limit() {
        assert!(who(Some("x".repeat(LABEL_BYTES_MAX)), String::new(), None).is_ok());
        assert!(who(Some("x".repeat(LABEL_BYTES_MAX + 1)), String::new(), None).is_err());
    }
}
