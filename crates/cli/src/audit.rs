//! `bell audit`: what operators did, and whether that record was touched. It reads the store, so it needs no daemon.

use bell_api::exit;
use bell_api::outcome::Outcome;
use bell_api::rfc3339::rfc3339;
use bell_coord::Coord;
use bell_coord::audit::Breaking;
use bell_coord::work::wall_now;
use bell_core::audit::{Entry, Head};
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::{AuditArgs, AuditCommand};
use crate::fleet::{Reach, open_other_locks, open_work};
use crate::open::Access;
use crate::say::Say;
use crate::span::moment;

/// What one store has on record.
struct Chain {
    /// What the store keeps.
    of: &'static str,
    coord: Coord,
}

#[derive(Serialize)]
struct AuditAnswer {
    outcome: Outcome,
    acts: Vec<Act>,
    /// Whether there were others before these.
    more: bool,
}

/// An act. Those that an earlier version wrote are in no chain, and have no number.
#[derive(Serialize)]
struct Act {
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<u64>,
    at: String,
    #[serde(skip)]
    at_ms: u64,
    who: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    act: String,
    on: String,
    reason: String,
    result: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    touches: Vec<String>,
    /// Which store has it on record.
    store: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
}

#[derive(Serialize)]
struct VerifyAnswer {
    outcome: Outcome,
    /// Whether nothing in any of them was touched.
    holds: bool,
    chains: Vec<Verified>,
}

#[derive(Serialize)]
struct Verified {
    store: &'static str,
    holds: bool,
    entries: u64,
    /// What to note elsewhere and to compare with later.
    #[serde(skip_serializing_if = "Option::is_none")]
    remember: Option<String>,
    /// The first break.
    #[serde(skip_serializing_if = "Option::is_none")]
    broken: Option<String>,
}

/// Shows what operators did, or verifies it. Answers the exit code.
pub(crate) async fn audit(say: &Say, reach: &Reach, args: &AuditArgs) -> Result<u8, Refusal> {
    match &args.command {
        Some(AuditCommand::Verify { remembered }) => verify(say, reach, remembered.as_deref()).await,
        None => list(say, reach, args).await,
    }
}

async fn list(say: &Say, reach: &Reach, args: &AuditArgs) -> Result<u8, Refusal> {
    let since = args.since.as_deref().map(|since| moment(since, "--since", wall_now())).transpose()?;
    let since = since.map_or(0, |since| since.0);
    let mut answer = AuditAnswer { outcome: Outcome::Listed, acts: Vec::new(), more: false };
    for Chain { of, coord } in chains(reach).await? {
        let (entries, more) = coord.latest_acts(since, args.limit).await?;
        answer.more |= more;
        answer.acts.extend(entries.into_iter().map(|entry| Act::of(entry, of)));
        let unchained = coord.audit_unchained().await?.into_iter().filter(|act| act.at_ms >= since);
        answer.acts.extend(unchained.map(|act| Act::unchained(act, of)));
    }
    answer.acts.sort_by_key(|act| act.at_ms);
    let over = answer.acts.len().saturating_sub(args.limit);
    answer.more |= answer.acts.drain(..over).count() > 0;
    let _ = say.answer(&answer, || lines(&answer));
    Ok(exit::OK)
}

async fn verify(say: &Say, reach: &Reach, given: Option<&str>) -> Result<u8, Refusal> {
    let mut remembered = given.map(remembered).transpose()?;
    let mut chains_verified = Vec::new();
    for Chain { of, coord } in chains(reach).await? {
        // What was remembered is of the first: the project's own.
        let found = coord.audit_check(remembered.take()).await?;
        chains_verified.push(match found {
            Ok(head) => Verified {
                store: of,
                holds: true,
                entries: head.number,
                remember: (head.number > 0).then(|| format!("{}:{}", head.number, head.hash)),
                broken: None,
            },
            Err(broken) => Verified {
                store: of,
                holds: false,
                entries: 0,
                remember: None,
                broken: Some(broken.to_string()),
            },
        });
    }
    let holds = chains_verified.iter().all(|chain| chain.holds);
    let answer = VerifyAnswer { outcome: Outcome::Listed, holds, chains: chains_verified };
    let _ = say.answer(&answer, || answer.chains.iter().map(told).collect::<Vec<_>>().join("\n"));
    Ok(if holds { exit::OK } else { exit::CONFLICT })
}

/// The store of the project's work, and that of its locks where it is another. A store that the command line names stands alone.
async fn chains(reach: &Reach) -> Result<Vec<Chain>, Refusal> {
    let work = Chain { of: "work", coord: open_work(reach, Access::Read).await? };
    let locks = open_other_locks(reach, Access::Read).await?.map(|coord| Chain { of: "locks", coord });
    Ok([Some(work), locks].into_iter().flatten().collect())
}

fn remembered(text: &str) -> Result<Head, Refusal> {
    let wrong = || {
        Refusal::invalid(
            format!("could not read {text:?}: it is no number with a hash"),
            "Give what bell audit verify printed, as in 41:9f2c….",
        )
    };
    let (number, hash) = text.split_once(':').ok_or_else(wrong)?;
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number: u64 = number.parse().ok().filter(|_| is_hash).ok_or_else(wrong)?;
    let head = serde_json::json!({ "number": number, "hash": hash.to_ascii_lowercase() });
    serde_json::from_value(head).map_err(|_| wrong())
}

impl Act {
    fn of(entry: Entry, store: &'static str) -> Self {
        Self {
            number: Some(entry.number),
            at: rfc3339(entry.at_ms),
            at_ms: entry.at_ms,
            who: entry.who,
            via: Some(entry.via.to_string()),
            act: entry.act,
            on: entry.on,
            reason: entry.reason,
            result: entry.outcome,
            touches: entry.touches,
            store,
            hash: Some(entry.hash.to_string()),
        }
    }

    fn unchained(old: Breaking, store: &'static str) -> Self {
        Self {
            number: None,
            at: rfc3339(old.at_ms),
            at_ms: old.at_ms,
            who: old.by,
            via: None,
            act: "break".to_owned(),
            on: old.key,
            reason: old.reason,
            result: "done".to_owned(),
            touches: old.holders,
            store,
            hash: None,
        }
    }
}

fn lines(answer: &AuditAnswer) -> String {
    if answer.acts.is_empty() {
        return "no operator did anything".to_owned();
    }
    let line = |act: &Act| {
        let via = act.via.as_deref().unwrap_or("unchained");
        let why = if act.reason.is_empty() { String::new() } else { format!(" ({})", act.reason) };
        format!("{} {:9} {:14} {}: {}{why}", act.at, via, act.act, act.who, act.on)
    };
    let mut lines: Vec<String> = answer.acts.iter().map(line).collect();
    if answer.more {
        lines.insert(0, "(there was more before this: raise --limit, or set --since)".to_owned());
    }
    lines.join("\n")
}

fn told(chain: &Verified) -> String {
    let Verified { store, entries, .. } = chain;
    match (&chain.broken, &chain.remember) {
        (Some(broken), _) => format!("the record of the {store} store was touched: {broken}"),
        (None, None) => format!("the record of the {store} store is empty"),
        (None, Some(remember)) => {
            format!(
                "the record of the {store} store holds: {entries} entries\nto remember elsewhere: {remember}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_is_read_and_nothing_else() {
        let hash = "AB".repeat(32);
        let head = remembered(&format!("41:{hash}")).unwrap();
        assert_eq!((head.number, head.hash.to_string()), (41, "ab".repeat(32)));
        for wrong in
            ["", "41", "41:", "41:ab", &format!(":{hash}"), &format!("x:{hash}"), &format!("41:{hash}0")]
        {
            assert!(remembered(wrong).is_err(), "{wrong}");
        }
    }
}
