//! L1: a key is a key, however it is spelled.

use bell_core::key::{KEY_BYTES_MAX, Key};

use super::ground::{Done, Ground, Stop, ensure};

pub(super) async fn two_spellings_of_a_key_are_one_lock(ground: Ground) -> Done {
    let canonical = ground.key("a/b")?;
    let (scheme, rest) = canonical.as_str().split_once("://").unwrap_or_default();
    let (host, path) = rest.split_once('/').unwrap_or_default();
    let spellings = [
        format!("{}://{host}/{path}", scheme.to_ascii_uppercase()),
        format!("{scheme}://{}/{path}", host.to_ascii_uppercase()),
        format!("{scheme}://{host}/{path}/"),
        format!("{scheme}://{host}/./x/../{path}"),
        format!("{scheme}://{host}/{}", path.replace("a/b", "%61/%62")),
    ];
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let lease = one.take(&canonical).await?;
    for spelling in &spellings {
        let key = Key::parse(spelling).map_err(|error| Stop::failed(format!("{spelling}: {error}")))?;
        let busy = two.is_refused(&key).await?;
        ensure!(busy.holders.iter().any(|holder| holder.fence == Some(lease.fence)), "{spelling}: {busy:?}");
        two.sees_held(&key, lease.fence).await?;
    }
    Ok(format!("{} spellings, one holder", spellings.len() + 1))
}

pub(super) async fn keys_that_differ_are_different_locks(ground: Ground) -> Done {
    let names = ["a", "A", "a/b", "a%2Fb", "a//b", "a?b", "a?b=1", "a#b", "a%25b", "b", "a*", "a_", "ab"];
    let parties = ground.parties(names.len())?;
    for (party, name) in parties.iter().zip(names) {
        party.take(&ground.key(name)?).await?;
    }
    Ok(format!("{} keys held at once", names.len()))
}

pub(super) async fn the_longest_key_is_a_lock(ground: Ground) -> Done {
    let rest = KEY_BYTES_MAX - ground.prefix().len() - 1;
    let longest = ground.key(&"x".repeat(rest))?;
    let nearly = ground.key(&"x".repeat(rest - 1))?;
    let (one, two) = (ground.party(0)?, ground.party(1)?);
    let lease = one.take(&longest).await?;
    two.take(&nearly).await?;
    two.is_refused(&longest).await?;
    one.release(&lease).await?;
    two.take(&longest).await?;
    Ok(format!("{} bytes", longest.as_str().len()))
}

pub(super) async fn what_is_no_key_is_refused_with_the_reason(_ground: Ground) -> Done {
    let too_long = format!("a:{}", "x".repeat(KEY_BYTES_MAX));
    let refused = ["", "no-scheme", ":rest", "deploy://", "a:", "a:b c", "a:b\nc", "1a:b", &too_long];
    for text in refused {
        match Key::parse(text) {
            Ok(key) => return Err(Stop::failed(format!("{text:?} was taken for the key {key}"))),
            Err(reason) => ensure!(!reason.to_string().is_empty(), "{text:?} is refused without a reason"),
        }
    }
    Ok(format!("{} texts refused", refused.len()))
}

pub(super) async fn a_scope_has_locks_of_its_own(ground: Ground) -> Done {
    let key = ground.key("a")?;
    let outside = ground.party(0)?;
    let lease = outside.take(&key).await?;
    let scope = ground.handle(1).scope("conformance-scope")?;
    let inside = super::ground::Party::new(&scope, bell_coord::Keep::Attended, 1)?;
    let again = inside.take(&key).await?;
    inside.release(&again).await?;
    inside.sees_free(&key).await?;
    outside.sees_held(&key, lease.fence).await?;
    Ok("the same key is held in one scope and free in the other".to_owned())
}
