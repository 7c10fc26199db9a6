//! What must happen now and then, on any node: ending lost runs, queueing retries, forgetting what is old.

use std::sync::Arc;
use std::time::Duration;

use bell_coord::Denied;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_store::clock::boottime;

use crate::outage_log::OutageLog;
use crate::site::Site;

/// A lost run is noticed within this time after its session has lapsed.
const EVERY: Duration = Duration::from_secs(2);

/// How often old rows are looked for.
const TIDY_EVERY: Duration = Duration::from_secs(600);

const DAY_MS: u64 = 24 * 3_600 * 1_000;

/// Does the chores until dropped.
pub async fn keep_house(site: Arc<Site>) {
    let mut tidy_at = boottime();
    let mut outage = OutageLog::new("look after the queues");
    loop {
        tokio::time::sleep(EVERY).await;
        match lost_and_due(&site).await {
            Ok(()) => outage.worked(),
            Err(error) => outage.failed(&error),
        }
        if boottime() >= tidy_at {
            tidy_at = boottime() + TIDY_EVERY;
            if let Err(error) = tidy(&site).await {
                tracing::warn!(%error, "could not forget what is old");
            }
        }
    }
}

async fn lost_and_due(site: &Site) -> Result<(), Denied> {
    site.coord.reap().await?;
    site.coord.retry_due().await?;
    Ok(())
}

async fn tidy(site: &Site) -> Result<(), Denied> {
    let loaded = site.loaded();
    let days = u64::from(loaded.settings.history_retention_days);
    let cutoff = Wall(wall_now().0.saturating_sub(days * DAY_MS));
    while site.coord.forget_before(cutoff).await? > 0 {}
    while site.coord.forget_deliveries(cutoff).await? > 0 {}
    site.coord.forget_fires(cutoff).await?;
    site.place.forget_runs(cutoff);
    Ok(())
}
