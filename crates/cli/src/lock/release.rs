//! `bell lock release`: gives a lock back.

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_core::key::Key;
use bell_core::lock::Fence;

use crate::answer::{self, Refusal};
use crate::cli::ReleaseArgs;
use crate::open::Scene;
use crate::session;

pub(super) async fn release(scene: &Scene, args: &ReleaseArgs) -> Result<u8, Refusal> {
    let key = Key::parse(&args.key)?;
    let fence = args.fence.map(Fence);
    let opened = scene.open().await?;
    let owner = session::holder(&opened, args.session.session_file.as_deref(), &key, fence).await?;
    opened.coord.release_key(&owner, &key, fence).await.map_err(Refusal::about(&key))?;
    session::released(&opened, &owner, &key);
    let answer = answer::ended(Outcome::Released, &key, fence);
    let _ = scene.say.answer(&answer, || format!("released {key}"));
    Ok(exit::OK)
}
