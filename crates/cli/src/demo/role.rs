//! A process of the story, from the inside: it does what it is told on stdin and answers on stdout.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_coord::Denied;
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_locks::guard::file;
use bell_locks::{Ask, Held, Locks};
use bell_verify::drill::actor::follow_orders;
use serde::{Deserialize, Serialize};

use crate::answer::{self, Refusal};
use crate::cli::ActorArgs;
use crate::lock::who;

/// What a process of the story is told to do.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Take a lock.
    Acquire { key: Key, ttl: Ttl, wait: Duration },
    /// Give the lock back.
    Release(Key),
    /// Write a file with the fence of a lock, as a program does that still believes in it.
    Write { key: Key, path: PathBuf, text: String },
}

/// Follows orders until there are no more.
pub(crate) async fn actor(args: &ActorArgs, store: Option<&str>) -> Result<u8, Refusal> {
    let backend = bell_locks::open(store.unwrap_or("memory:")).await?;
    let locks = Locks::new(backend, who(None, args.name.clone(), Some(std::process::id()))?)?;
    let mut held = Vec::new();
    let followed = follow_orders(async |order| follow(&locks, &mut held, order).await).await;
    held.clear();
    followed.map_err(|error| no_orders(&error))?;
    locks.end().await?;
    Ok(exit::OK)
}

fn no_orders(error: &io::Error) -> Refusal {
    Refusal::unavailable(format!("could not follow orders: {error}"), "Start it with bell demo.")
}

async fn follow(locks: &Locks, held: &mut Vec<Held>, order: Order) -> LockAnswer {
    match order {
        Order::Acquire { key, ttl, wait } => {
            match locks.lock(Ask::new(key.clone()).ttl(ttl).wait(wait)).await {
                Ok(lock) => {
                    let answer = answer::lease(Outcome::Granted, locks.session(), &lock.lease());
                    held.push(lock);
                    answer
                }
                Err(denied) => answer::refused(&denied, Some(&key)),
            }
        }
        Order::Release(key) => match held.iter().position(|lock| *lock.key() == key) {
            Some(at) => match held.swap_remove(at).release().await {
                Ok(()) => answer::ended(Outcome::Released, &key, None),
                Err(denied) => answer::refused(&denied, Some(&key)),
            },
            None => answer::refused(&Denied::NotHeld, Some(&key)),
        },
        Order::Write { key, path, text } => write(held, &key, &path, &text),
    }
}

fn write(held: &[Held], key: &Key, path: &std::path::Path, text: &str) -> LockAnswer {
    let Some(lock) = held.iter().find(|lock| lock.key() == key) else {
        return answer::refused(&Denied::NotHeld, Some(key));
    };
    let fence = lock.fence();
    match file::write(path, fence, text.as_bytes()) {
        Ok(()) => answer::ended(Outcome::Written, key, Some(fence)),
        Err(file::GuardError::Stale(stale)) => {
            let mut answer = answer::ended(Outcome::Stale, key, Some(stale.given));
            answer.seen_fence = Some(stale.seen);
            answer
        }
        Err(error) => answer::refused(&Denied::Invalid(error.to_string()), Some(key)),
    }
}
