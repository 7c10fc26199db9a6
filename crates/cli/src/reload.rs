//! `bell reload`: having the daemon of a project read its files again, now.

use bell_api::exit;

use crate::answer::Refusal;
use crate::fleet::{Fleet, Reach};
use crate::say::Say;

/// Has the project read again. Answers the exit code.
pub(crate) async fn reload(say: &Say, reach: &Reach) -> Result<u8, Refusal> {
    let done = Fleet::of_daemon(reach).await?.reload().await?;
    let _ = say.answer(&done, || done.message.clone());
    Ok(exit::OK)
}
