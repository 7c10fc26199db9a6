//! Everything up to a limit is taken, anything beyond it is refused and changes nothing.

use super::ground::{Done, Ground, ensure, refused, same};
use crate::info::Limits;
use crate::record::Name;
use crate::txn::{Txn, Write};

pub(super) async fn the_store_takes_what_every_store_must_take(ground: Ground) -> Done {
    let (limits, least) = (ground.store.info().limits, Limits::CONTRACT);
    let enough = limits.name_bytes >= least.name_bytes
        && limits.value_bytes >= least.value_bytes
        && limits.txn_ops >= least.txn_ops
        && limits.page >= least.page;
    ensure!(enough, "its limits are {limits:?}, the contract asks for {least:?}");
    Ok(())
}

pub(super) async fn an_empty_value_is_a_value(ground: Ground) -> Done {
    ground.put("a", "").await?;
    same("value", ground.existing("a").await?.value, vec![])?;
    ground.plan().absent("a").conflicts().await?;
    Ok(())
}

pub(super) async fn every_byte_comes_back(ground: Ground) -> Done {
    let value: Vec<u8> = (0..=u8::MAX).chain((0..=u8::MAX).rev()).collect();
    ground.plan().put("a", value.clone()).commits().await?;
    ensure!(ground.existing("a").await?.value == value, "the bytes came back changed");
    Ok(())
}

pub(super) async fn the_largest_value_is_taken(ground: Ground) -> Done {
    let value = vec![0xa5; ground.store.info().limits.value_bytes];
    ground.plan().put("a", value.clone()).commits().await?;
    ensure!(ground.existing("a").await?.value == value, "the value came back changed");
    Ok(())
}

pub(super) async fn a_larger_value_is_refused(ground: Ground) -> Done {
    ground.put("a", "1").await?;
    let value = vec![0xa5; ground.store.info().limits.value_bytes + 1];
    let before = ground.read(&["a", "b"]).await?;
    ground.plan().put("b", "2").put("a", value).fails_as_invalid().await?;
    unchanged(&ground, before.revision).await
}

pub(super) async fn the_longest_name_is_taken(ground: Ground) -> Done {
    let rest = filled(&ground, 0);
    ground.put(&rest, "1").await?;
    same("value", ground.text(&rest).await?, Some("1".to_owned()))?;
    same("scanned", ground.scan(&rest, "", 10).await?, (vec![rest.clone()], false))?;
    ground.plan().absent(&rest).conflicts().await?;
    ground.delete(&rest).await?;
    same("record", ground.get(&rest).await?, None)
}

pub(super) async fn a_longer_name_is_refused(ground: Ground) -> Done {
    let before = ground.read(&[]).await?;
    let rest = filled(&ground, 1);
    ground.plan().put("b", "2").put(&rest, "1").fails_as_invalid().await?;
    ground.plan().absent(&rest).put("b", "2").fails_as_invalid().await?;
    refused(ground.store.read(&[ground.name(&rest)]).await)?;
    unchanged(&ground, before.revision).await
}

pub(super) async fn an_empty_name_is_refused(ground: Ground) -> Done {
    let nameless = Txn { writes: vec![("".into(), Write::Delete)], ..Txn::default() };
    refused(ground.store.commit(nameless).await)?;
    refused(ground.store.read(&["".into()]).await)
}

pub(super) async fn the_largest_transaction_is_taken(ground: Ground) -> Done {
    let most = ground.store.info().limits.txn_ops;
    let plan = (0..most).map(|number| number.to_string());
    plan.fold(ground.plan(), |plan, rest| plan.absent(&rest).put(&rest, "x")).commits().await?;
    same("written", ground.scan("", "", most + 1).await?.0.len(), most)
}

pub(super) async fn too_many_writes_are_refused(ground: Ground) -> Done {
    let before = ground.read(&[]).await?;
    let rests = (0..=ground.store.info().limits.txn_ops).map(|number| number.to_string());
    rests.fold(ground.plan(), |plan, rest| plan.put(&rest, "x")).fails_as_invalid().await?;
    unchanged(&ground, before.revision).await
}

pub(super) async fn too_many_expectations_are_refused(ground: Ground) -> Done {
    let before = ground.read(&[]).await?;
    let rests = (0..=ground.store.info().limits.txn_ops).map(|number| number.to_string());
    rests.fold(ground.plan().put("b", "2"), |plan, rest| plan.absent(&rest)).fails_as_invalid().await?;
    unchanged(&ground, before.revision).await
}

pub(super) async fn a_page_of_names_can_be_read_at_once_and_no_more(ground: Ground) -> Done {
    let most = ground.store.info().limits.page;
    ground.put("0", "x").await?;
    let names: Vec<Name> = (0..=most).map(|number| ground.name(&number.to_string())).collect();
    same("found", ground.store.read(&names[..most]).await?.records.len(), 1)?;
    refused(ground.store.read(&names).await)
}

pub(super) async fn a_name_written_twice_is_refused(ground: Ground) -> Done {
    let before = ground.read(&[]).await?;
    ground.plan().put("a", "1").put("b", "2").put("a", "3").fails_as_invalid().await?;
    ground.plan().put("a", "1").delete("a").fails_as_invalid().await?;
    unchanged(&ground, before.revision).await
}

pub(super) async fn a_name_read_twice_is_answered_once(ground: Ground) -> Done {
    ground.put("a", "1").await?;
    same("records", ground.read(&["a", "a"]).await?.records.len(), 1)
}

/// The rest of a name that is as long as names may be, and `over` bytes more.
fn filled(ground: &Ground, over: usize) -> String {
    "n".repeat(ground.store.info().limits.name_bytes - ground.prefix().len() + over)
}

/// Nothing was committed since this revision, and `b` was not written.
async fn unchanged(ground: &Ground, since: u64) -> Done {
    let now = ground.read(&["b"]).await?;
    same("revision", now.revision, since)?;
    same("records", now.records.len(), 0)
}
