//! `bell lock renew`: makes a lock last its full ttl again.

use std::time::Duration;

use bell_api::exit;
use bell_core::key::Key;
use bell_core::lock::{Fence, Ttl};

use super::fence_words;
use crate::answer::Refusal;
use crate::cli::RenewArgs;
use crate::desk::{Desk, Named};
use crate::span;

pub(super) async fn renew(desk: &Desk, args: &RenewArgs) -> Result<u8, Refusal> {
    let key = Key::parse(&args.key)?;
    let ttl = args.ttl.as_deref().map(|ttl| span::ttl(Some(ttl), Ttl::DEFAULT)).transpose()?;
    let lease = Named { key, fence: args.fence.map(Fence), session: &args.session };
    let answer = desk.renew(&lease, ttl).await?;
    let lasts = span::words(Duration::from_millis(answer.ttl_ms.unwrap_or_default()));
    let fence = fence_words(answer.fence);
    let _ = desk.say.answer(&answer, || format!("renewed {}{fence} for {lasts}", lease.key));
    Ok(exit::OK)
}
