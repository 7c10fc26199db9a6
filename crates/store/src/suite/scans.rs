//! Scans go through names in byte order, page by page, and take prefixes literally.

use super::ground::{Done, Ground, ensure, same};

/// Strictly rising in byte order, wherever another order (of a locale, of UTF-16) would differ: upper case
/// before lower case, DEL before two-byte letters, the end of the basic plane before what lies beyond it.
const IN_BYTE_ORDER: [&str; 12] =
    [" ", "!", "0", "10", "9", "B", "a", "a\u{7f}", "a\u{80}", "é", "\u{ffff}", "\u{10000}"];

pub(super) async fn a_scan_finds_what_has_its_prefix_and_nothing_else(ground: Ground) -> Done {
    put_all(&ground, &["a", "b", "b/", "b/1", "b/2", "b0", "c"]).await?;
    finds(&ground, "b/", "", &["b/", "b/1", "b/2"]).await?;
    finds(&ground, "b", "", &["b", "b/", "b/1", "b/2", "b0"]).await
}

pub(super) async fn a_scan_of_an_unused_prefix_is_empty(ground: Ground) -> Done {
    put_all(&ground, &["a", "c"]).await?;
    finds(&ground, "b", "", &[]).await
}

pub(super) async fn a_scan_leaves_out_deleted_records(ground: Ground) -> Done {
    put_all(&ground, &["a", "b", "c"]).await?;
    ground.delete("b").await?;
    finds(&ground, "", "", &["a", "c"]).await
}

pub(super) async fn a_scan_carries_values_and_versions(ground: Ground) -> Done {
    let revision = ground.put("a", "1").await?;
    let found = ground.store.scan(ground.prefix(), "", 10).await?;
    let records: Vec<_> =
        found.records.values().map(|record| (record.value.as_slice(), record.version)).collect();
    same("records", records, vec![(b"1".as_slice(), revision)])
}

pub(super) async fn a_page_holds_the_first_names_in_byte_order(ground: Ground) -> Done {
    let mut backwards = IN_BYTE_ORDER;
    backwards.reverse();
    put_all(&ground, &backwards).await?;
    for limit in 1..=IN_BYTE_ORDER.len() {
        let (names, _) = ground.scan("", "", limit).await?;
        same(&format!("page of {limit}"), names, owned(&IN_BYTE_ORDER[..limit]))?;
    }
    Ok(())
}

pub(super) async fn names_outside_ascii_are_started_from_by_bytes(ground: Ground) -> Done {
    put_all(&ground, &IN_BYTE_ORDER).await?;
    for (place, from) in IN_BYTE_ORDER.iter().enumerate() {
        finds(&ground, "", from, &IN_BYTE_ORDER[place..]).await?;
    }
    Ok(())
}

pub(super) async fn more_is_said_exactly_when_records_were_left(ground: Ground) -> Done {
    put_all(&ground, &["a", "b", "c", "d"]).await?;
    let under = |limit| ground.scan("", "", limit);
    same("after two of four", under(2).await?.1, true)?;
    same("after three of four", under(3).await?.1, true)?;
    same("after four of four", under(4).await?.1, false)?;
    // `d` is still there, but has another prefix.
    same("after all of a prefix", ground.scan("c", "", 1).await?.1, false)?;
    same("with room to spare", under(5).await?.1, false)
}

pub(super) async fn a_page_of_none_only_tells_whether_there_are_any(ground: Ground) -> Done {
    put_all(&ground, &["a"]).await?;
    same("some", ground.scan("a", "", 0).await?, (vec![], true))?;
    same("none", ground.scan("b", "", 0).await?, (vec![], false))
}

pub(super) async fn a_scan_starts_at_the_name_it_is_given(ground: Ground) -> Done {
    put_all(&ground, &["a", "b", "c"]).await?;
    finds(&ground, "", "b", &["b", "c"]).await?;
    finds(&ground, "", "b\0", &["c"]).await
}

pub(super) async fn a_scan_starts_between_names(ground: Ground) -> Done {
    put_all(&ground, &["a", "c", "e"]).await?;
    finds(&ground, "", "b", &["c", "e"]).await?;
    finds(&ground, "", "d", &["e"]).await
}

pub(super) async fn starting_before_the_prefix_is_starting_with_it(ground: Ground) -> Done {
    put_all(&ground, &["a", "b/1", "b/2", "c"]).await?;
    finds(&ground, "b/", "a", &["b/1", "b/2"]).await
}

pub(super) async fn starting_behind_the_prefix_finds_nothing(ground: Ground) -> Done {
    put_all(&ground, &["b/1", "b/2", "c", "d"]).await?;
    finds(&ground, "b/", "c", &[]).await
}

pub(super) async fn pages_put_together_are_every_record_once(ground: Ground) -> Done {
    let names: Vec<String> = (0..25).map(|number| format!("{number:03}")).collect();
    put_all(&ground, &names.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    let (mut visited, mut from) = (Vec::new(), String::new());
    loop {
        let (page, more) = ground.scan("", &from, 7).await?;
        visited.extend(page);
        ensure!(visited.len() <= names.len(), "pages overlap: {visited:?}");
        match visited.last() {
            // The first name after another is that name and a zero byte.
            Some(last) if more => from = format!("{last}\0"),
            _ => break,
        }
    }
    same("visited", visited, names)
}

pub(super) async fn a_prefix_means_its_characters_and_no_pattern(ground: Ground) -> Done {
    for special in ["%", "_", "*", "?", "[a]", "\\", "'", "\"", "."] {
        let (inside, outside) = (format!("{special}/in"), "x/out".to_owned());
        put_all(&ground, &[&inside, &outside]).await?;
        finds(&ground, &format!("{special}/"), "", &[&inside]).await?;
        ground.delete(&inside).await?;
    }
    Ok(())
}

pub(super) async fn letters_of_different_case_are_different(ground: Ground) -> Done {
    put_all(&ground, &["Key/1", "key/1"]).await?;
    finds(&ground, "key/", "", &["key/1"]).await?;
    same("record", ground.get("KEY/1").await?, None)
}

pub(super) async fn a_prefix_includes_names_that_go_on_with_the_last_character(ground: Ground) -> Done {
    put_all(&ground, &["a", "a\u{10ffff}", "a\u{10ffff}\u{10ffff}", "b"]).await?;
    finds(&ground, "a", "", &["a", "a\u{10ffff}", "a\u{10ffff}\u{10ffff}"]).await?;
    finds(&ground, "a\u{10ffff}", "", &["a\u{10ffff}", "a\u{10ffff}\u{10ffff}"]).await
}

pub(super) async fn a_scan_gives_no_more_than_a_page(ground: Ground) -> Done {
    let limits = ground.store.info().limits;
    let names: Vec<String> = (0..=limits.page).map(|number| format!("{number:06}")).collect();
    for chunk in names.chunks(limits.txn_ops) {
        put_all(&ground, &chunk.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    }
    let (found, more) = ground.scan("", "", usize::MAX).await?;
    same("found", found.len(), limits.page)?;
    same("last", found.last(), names.get(limits.page - 1))?;
    same("more", more, true)
}

async fn put_all(ground: &Ground, rests: &[&str]) -> Done {
    rests.iter().fold(ground.plan(), |plan, rest| plan.put(rest, "x")).commits().await?;
    Ok(())
}

async fn finds(ground: &Ground, under: &str, from: &str, expected: &[&str]) -> Done {
    let found = ground.scan(under, from, 100).await?;
    same(&format!("scan of {under:?} from {from:?}"), found, (owned(expected), false))
}

fn owned(rests: &[&str]) -> Vec<String> {
    rests.iter().map(|rest| (*rest).to_owned()).collect()
}
