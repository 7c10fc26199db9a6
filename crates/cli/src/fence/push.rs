//! `bell fence push`, and `show` of a git remote.

use std::path::Path;

use bell_api::exit;
use bell_api::lock::LockAnswer;
use bell_api::outcome::Outcome;
use bell_core::key::Key;
use bell_core::lock::Fence;
use bell_locks::guard::git::{self, GuardError, Push, Update};

use crate::answer::Refusal;
use crate::cli::PushArgs;
use crate::progress::Progress;
use crate::say::Say;

/// Where git is run: it finds the repository around it.
const HERE: &str = ".";

pub(super) async fn push(say: &Say, args: &PushArgs) -> Result<u8, Refusal> {
    let resource = Key::parse(&args.resource)?;
    let fence = Fence(args.fence);
    let push = Push {
        remote: args.remote.clone(),
        refspecs: args.refspec.clone(),
        resource: resource.clone(),
        fence,
        update: if args.force { Update::Set } else { Update::Forward },
    };
    let pushed = meanwhile(say, "pushing", move || git::push(Path::new(HERE), &push)).await?;
    pushed.map_err(|error| refused(error, &resource))?;
    let answer = LockAnswer { fence: Some(fence), ..LockAnswer::new(Outcome::Written, Some(resource)) };
    let _ = say.answer(&answer, || format!("pushed {} with fence {fence}", args.refspec.join(" ")));
    Ok(exit::OK)
}

pub(super) async fn show(say: &Say, remote: &str, resource: &str) -> Result<u8, Refusal> {
    let key = Key::parse(resource)?;
    let (remote, resource) = (remote.to_owned(), key.clone());
    let look = move || git::highest(Path::new(HERE), &remote, &resource);
    let seen = meanwhile(say, "asking the remote", look).await?.map_err(|error| refused(error, &key))?;
    Ok(super::tell_seen(say, key.as_str(), Some(key.clone()), seen))
}

/// Does what takes a while, and shows that it does. A signal ends this process and git alike.
async fn meanwhile<T: Send + 'static>(
    say: &Say,
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Refusal> {
    let mut progress = Progress::new(say);
    tokio::select! {
        done = tokio::task::spawn_blocking(work) => done.map_err(|error| {
            Refusal::unavailable(format!("could not finish {what}: {error}"), "Try again with the same fence.")
        }),
        never = progress.tell(what) => match never {},
    }
}

fn refused(error: GuardError, resource: &Key) -> Refusal {
    let outcome = match &error {
        GuardError::Stale(stale) => {
            let mut refusal = super::stale(*stale);
            refusal.0.key = Some(resource.clone());
            return refusal;
        }
        GuardError::Argument { .. }
        | GuardError::NotARepository { .. }
        | GuardError::SeveralUrls { .. }
        | GuardError::NoSource { .. }
        | GuardError::NotAtomic { .. }
        | GuardError::Behind { .. } => Outcome::Invalid,
        GuardError::Refused { .. } => Outcome::Unauthorized,
        GuardError::NoGit(_)
        | GuardError::TooOld { .. }
        | GuardError::Local { .. }
        | GuardError::Remote { .. }
        | GuardError::Contended { .. }
        | GuardError::Damaged { .. }
        | GuardError::Unclear { .. } => Outcome::Unavailable,
    };
    let mut refusal = Refusal::new(outcome, error.to_string(), error.hint());
    refusal.0.key = Some(resource.clone());
    refusal
}
