//! Programs beside the runs that use the same locks, in sessions of their own.

use std::sync::Arc;

use bell_coord::{Denied, Keep, Session};
use bell_core::session::Identity;
use tokio::time::sleep;

use crate::holding::Holder;
use crate::process::Process;
use crate::world::World;

/// Uses locks until the storm is over or it dies.
pub(crate) fn start(world: Arc<World>, process: &Arc<Process>) {
    let this = Arc::clone(process);
    process.spawn(async move {
        while world.weather.storms() {
            sleep(this.chance.ms(100, 3_000)).await;
            // Refused, lost, unreachable: it has nothing then, and tries again with another session.
            let _ = one_session(&world, &this).await;
        }
    });
}

async fn one_session(world: &Arc<World>, process: &Arc<Process>) -> Result<(), Denied> {
    let coord = world.coord(process);
    let keep = if process.chance.one_in(4) { Keep::Detached } else { Keep::Attended };
    let label = Some(process.name.clone());
    let session = Session::new(Identity { label, ..Identity::default() }, keep)?;
    let holder = Holder { world, process, coord: &coord, session: &session };
    for _ in 0..process.chance.between(1, 3) {
        holder.use_some().await?;
    }
    if process.chance.one_in(2) {
        coord.end(&session).await?;
    }
    Ok(())
}
