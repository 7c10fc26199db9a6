//! A commit is all or nothing, and goes through only if the world looks as expected.

use super::ground::{Done, Ground, ensure, same};

pub(super) async fn a_commit_writes_all_its_records(ground: Ground) -> Done {
    ground.plan().put("a", "1").put("b", "2").put("c", "3").commits().await?;
    let found = ground.read(&["a", "b", "c"]).await?;
    let values: Vec<&[u8]> = found.records.values().map(|record| record.value.as_slice()).collect();
    same("values", values, vec![b"1", b"2", b"3"])
}

pub(super) async fn a_commit_can_put_and_delete_together(ground: Ground) -> Done {
    ground.put("old", "1").await?;
    ground.plan().delete("old").put("new", "2").commits().await?;
    same("old", ground.text("old").await?, None)?;
    same("new", ground.text("new").await?, Some("2".to_owned()))
}

pub(super) async fn writes_without_expectations_apply_to_whatever_is_there(ground: Ground) -> Done {
    ground.put("a", "1").await?;
    ground.put("a", "2").await?;
    same("value", ground.text("a").await?, Some("2".to_owned()))
}

pub(super) async fn a_deleted_record_is_not_read(ground: Ground) -> Done {
    ground.put("a", "1").await?;
    ground.delete("a").await?;
    same("record", ground.get("a").await?, None)
}

pub(super) async fn deleting_what_is_not_there_succeeds(ground: Ground) -> Done {
    ground.plan().delete("a").put("b", "1").commits().await?;
    same("record", ground.get("a").await?, None)
}

pub(super) async fn absent_holds_for_a_missing_record(ground: Ground) -> Done {
    ground.plan().absent("a").put("a", "1").commits().await?;
    same("value", ground.text("a").await?, Some("1".to_owned()))
}

pub(super) async fn absent_holds_again_after_deletion(ground: Ground) -> Done {
    ground.put("a", "1").await?;
    ground.delete("a").await?;
    ground.plan().absent("a").put("a", "2").commits().await?;
    same("value", ground.text("a").await?, Some("2".to_owned()))
}

pub(super) async fn absent_conflicts_with_an_existing_record(ground: Ground) -> Done {
    ground.put("a", "1").await?;
    ground.plan().absent("a").put("a", "2").conflicts().await?;
    same("value", ground.text("a").await?, Some("1".to_owned()))
}

pub(super) async fn the_current_version_holds(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    ground.plan().at("a", version).put("a", "2").commits().await?;
    same("value", ground.text("a").await?, Some("2".to_owned()))
}

pub(super) async fn an_older_version_conflicts(ground: Ground) -> Done {
    let old = ground.put("a", "1").await?;
    ground.put("a", "2").await?;
    ground.plan().at("a", old).put("a", "3").conflicts().await?;
    same("value", ground.text("a").await?, Some("2".to_owned()))
}

pub(super) async fn a_version_conflicts_with_a_missing_record(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    ground.delete("a").await?;
    ground.plan().at("a", version).put("a", "2").conflicts().await?;
    same("record", ground.get("a").await?, None)
}

pub(super) async fn a_version_of_another_record_conflicts(ground: Ground) -> Done {
    ground.put("a", "1").await?;
    let other = ground.put("b", "1").await?;
    ground.plan().at("a", other).put("a", "2").conflicts().await?;
    same("value", ground.text("a").await?, Some("1".to_owned()))
}

pub(super) async fn an_expectation_on_a_record_not_written_counts(ground: Ground) -> Done {
    let version = ground.put("guard", "1").await?;
    ground.put("guard", "2").await?;
    ground.plan().at("guard", version).put("a", "1").conflicts().await?;
    same("record", ground.get("a").await?, None)
}

pub(super) async fn one_failed_expectation_of_many_writes_nothing(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    ground.put("c", "1").await?;
    let plan = ground.plan().at("a", version).absent("b").absent("c");
    plan.put("a", "2").put("b", "2").delete("c").conflicts().await?;
    same("a", ground.text("a").await?, Some("1".to_owned()))?;
    same("b", ground.text("b").await?, None)?;
    same("c", ground.text("c").await?, Some("1".to_owned()))
}

pub(super) async fn a_conflict_carries_the_expected_records_as_they_are(ground: Ground) -> Done {
    ground.plan().put("a", "1").put("b", "2").put("not asked", "3").commits().await?;
    let plan = ground.plan().absent("a").absent("b").absent("missing").put("a", "4");
    let seen = plan.conflicts().await?;
    let current = ground.read(&["a", "b"]).await?;
    same("records", seen.records, current.records)
}

pub(super) async fn a_conflict_tells_revision_and_time(ground: Ground) -> Done {
    let before = ground.store.now().await?;
    let last = ground.put("a", "1").await?;
    let seen = ground.plan().absent("a").conflicts().await?;
    ensure!(seen.revision >= last, "revision {} is older than the commit {last}", seen.revision);
    ensure!(seen.now >= before, "time {:?} is before {before:?}", seen.now);
    ensure!(!seen.more, "a conflict has no further pages");
    Ok(())
}

pub(super) async fn what_a_conflict_carries_makes_the_next_try_succeed(ground: Ground) -> Done {
    ground.put("a", "1").await?;
    let seen = ground.plan().absent("a").put("a", "2").conflicts().await?;
    let version = seen.version(ground.name("a").as_str());
    ground.plan().at("a", version).put("a", "2").commits().await?;
    same("value", ground.text("a").await?, Some("2".to_owned()))
}

pub(super) async fn a_transaction_without_writes_takes_no_revision(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    let first = ground.plan().at("a", version).absent("b").commits().await?;
    let second = ground.plan().commits().await?;
    ensure!(first.revision >= version, "it reports {}, before the commit {version}", first.revision);
    // Nobody else writes: cases on one storage run one after the other.
    same("revision", (first.revision, second.revision), (version, version))
}

pub(super) async fn a_transaction_without_writes_can_conflict(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    let seen = ground.plan().absent("a").conflicts().await?;
    same("version", seen.version(ground.name("a").as_str()), version)
}

pub(super) async fn what_one_handle_commits_the_other_reads(ground: Ground) -> Done {
    let version = ground.put("a", "1").await?;
    let elsewhere = ground.elsewhere();
    same("version", elsewhere.existing("a").await?.version, version)?;
    elsewhere.plan().at("a", version).put("a", "2").commits().await?;
    ground.plan().at("a", version).put("a", "3").conflicts().await?;
    same("value", ground.text("a").await?, Some("2".to_owned()))
}
