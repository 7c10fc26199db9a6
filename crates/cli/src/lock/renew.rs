//! `bell lock renew`: makes a lock last its full ttl again.

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};

use crate::answer::{self, Refusal};
use crate::cli::RenewArgs;
use crate::open::Scene;
use crate::session;
use crate::span;

pub(super) async fn renew(scene: &Scene, args: &RenewArgs) -> Result<u8, Refusal> {
    let key = Key::parse(&args.key)?;
    let fence = args.fence.map(Fence);
    let ttl = args.ttl.as_deref().map(|ttl| span::ttl(Some(ttl), Ttl::DEFAULT)).transpose()?;
    let opened = scene.open().await?;
    let owner = session::holder(&opened, args.session.session_file.as_deref(), &key, fence).await?;
    let renewed = opened.coord.renew_key(&owner, &key, fence, ttl).await.map_err(Refusal::about(&key))?;
    let answer = answer::lease(Outcome::Renewed, &owner, &renewed);
    let lasts = span::words(renewed.ttl.length());
    let _ = scene.say.answer(&answer, || format!("renewed {key} fence {} for {lasts}", renewed.fence));
    Ok(exit::OK)
}
