//! `bell lock release`: gives a lock back.

use bell_api::exit;
use bell_core::key::Key;
use bell_core::lock::Fence;

use crate::answer::Refusal;
use crate::cli::ReleaseArgs;
use crate::desk::{Desk, Named};

pub(super) async fn release(desk: &Desk, args: &ReleaseArgs) -> Result<u8, Refusal> {
    let key = Key::parse(&args.key)?;
    let lease = Named { key, fence: args.fence.map(Fence), session: &args.session };
    let answer = desk.release(&lease).await?;
    let _ = desk.say.answer(&answer, || format!("released {}", lease.key));
    Ok(exit::OK)
}
