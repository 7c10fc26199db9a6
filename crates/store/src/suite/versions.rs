//! Versions, stamps and revisions rise for ever: fences come from them.

use super::ground::{Done, Ground, ensure, same};

pub(super) async fn a_record_has_the_version_of_its_commit(ground: Ground) -> Done {
    let revision = ground.put("a", "1").await?;
    ensure!(revision > 0, "zero stands for no record");
    same("version", ground.existing("a").await?.version, revision)
}

pub(super) async fn the_records_of_a_commit_share_its_version(ground: Ground) -> Done {
    let revision = ground.plan().put("a", "1").put("b", "2").commits().await?.revision;
    let found = ground.read(&["a", "b"]).await?;
    let versions: Vec<u64> = found.records.values().map(|record| record.version).collect();
    same("versions", versions, vec![revision; 2])
}

pub(super) async fn versions_rise_with_every_write(ground: Ground) -> Done {
    let mut last = 0;
    for _ in 0..5 {
        ground.put("a", "the same").await?;
        let version = ground.existing("a").await?.version;
        ensure!(version > last, "version {version} after {last}");
        last = version;
    }
    Ok(())
}

pub(super) async fn a_write_leaves_the_versions_of_other_records_alone(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    ground.put("b", "1").await?;
    same("version", ground.existing("a").await?.version, version)
}

pub(super) async fn versions_rise_over_deletion(ground: Ground) -> Done {
    let mut last = 0;
    for _ in 0..3 {
        ground.plan().absent("a").put("a", "1").commits().await?;
        let record = ground.existing("a").await?;
        ensure!(record.version > last, "version {} after {last} was deleted", record.version);
        last = record.version;
        ground.delete("a").await?;
    }
    Ok(())
}

pub(super) async fn revisions_rise_in_the_order_of_commits(ground: Ground) -> Done {
    let elsewhere = ground.elsewhere();
    let mut last = 0;
    for round in 0..6 {
        let ground = if round % 2 == 0 { &ground } else { &elsewhere };
        let revision = ground.put(&round.to_string(), "x").await?;
        ensure!(revision > last, "revision {revision} after {last}");
        last = revision;
    }
    Ok(())
}

pub(super) async fn a_deletion_takes_a_revision(ground: Ground) -> Done {
    let put = ground.put("a", "1").await?;
    let deleted = ground.delete("a").await?;
    ensure!(deleted > put, "the deletion is {deleted}, the put was {put}");
    Ok(())
}

pub(super) async fn a_snapshot_is_as_of_the_last_commit(ground: Ground) -> Done {
    let last = ground.put("a", "1").await?;
    for ground in [&ground, &ground.elsewhere()] {
        // Nobody else writes: cases on one storage run one after the other.
        same("revision of a read", ground.read(&["a"]).await?.revision, last)?;
        same("revision of a read of nothing", ground.read(&[]).await?.revision, last)?;
        same("revision of a scan", ground.store.scan(ground.prefix(), "", 1).await?.revision, last)?;
    }
    Ok(())
}

pub(super) async fn a_new_stamp_is_the_revision_of_the_commit(ground: Ground) -> Done {
    for _ in 0..2 {
        let revision = ground.plan().put("a", "1").commits().await?.revision;
        same("stamp", ground.existing("a").await?.stamp, revision)?;
    }
    Ok(())
}

pub(super) async fn a_kept_stamp_stays_while_the_version_rises(ground: Ground) -> Done {
    let granted = ground.put("a", "1").await?;
    let renewed = ground.plan().at("a", granted).keep("a", "2").commits().await?.revision;
    let record = ground.existing("a").await?;
    same("stamp and version", (record.stamp, record.version), (granted, renewed))
}

pub(super) async fn a_created_record_gets_a_new_stamp_even_if_told_to_keep_it(ground: Ground) -> Done {
    let revision = ground.plan().keep("a", "1").commits().await?.revision;
    same("stamp", ground.existing("a").await?.stamp, revision)
}

pub(super) async fn stamps_rise_over_deletion(ground: Ground) -> Done {
    let first = ground.put("a", "1").await?;
    ground.delete("a").await?;
    ground.plan().keep("a", "2").commits().await?;
    let stamp = ground.existing("a").await?.stamp;
    ensure!(stamp > first, "stamp {stamp} after {first} was deleted");
    Ok(())
}

pub(super) async fn scans_and_conflicts_show_the_same_record_as_reads(ground: Ground) -> Done {
    let granted = ground.put("a", "1").await?;
    ground.plan().at("a", granted).keep("a", "2").commits().await?;
    let read = ground.read(&["a"]).await?.records;
    same("scanned", ground.store.scan(ground.prefix(), "", 10).await?.records, read.clone())?;
    same("in a conflict", ground.plan().absent("a").conflicts().await?.records, read)
}

pub(super) async fn records_survive_reopening(ground: Ground) -> Done {
    let granted = ground.put("a", "1").await?;
    ground.plan().keep("a", "2").put("b", "3").commits().await?;
    ground.delete("b").await?;
    let before = ground.read(&["a", "b"]).await?;
    let ground = ground.reopened().await?;
    let after = ground.read(&["a", "b"]).await?;
    same("stamp", ground.existing("a").await?.stamp, granted)?;
    same("records", after.records, before.records)?;
    ensure!(after.revision >= before.revision, "revision {} after {}", after.revision, before.revision);
    ensure!(after.now >= before.now, "time {:?} after {:?}", after.now, before.now);
    Ok(())
}

pub(super) async fn versions_rise_over_reopening(ground: Ground) -> Done {
    ground.put("a", "1").await?;
    let last = ground.delete("a").await?;
    let ground = ground.reopened().await?;
    let revision = ground.plan().absent("a").put("a", "2").commits().await?.revision;
    ensure!(revision > last, "revision {revision} after reopening, {last} before");
    same("version", ground.existing("a").await?.version, revision)
}
