//! `bell lock list`: the keys that are held or waited for.

use bell_api::exit;
use bell_api::lock::{HolderAnswer, LockAnswer};
use bell_core::lock::Fence;

use super::prefix;
use super::show::{key_of, length, name};
use crate::answer::Refusal;
use crate::cli::PrefixArgs;
use crate::desk::Desk;
use crate::say::clean;

const HEAD: [&str; 7] = ["KEY", "HOLDER", "MODE", "FENCE", "HELD FOR", "TIME LEFT", "WAITING"];

pub(super) async fn list(desk: &Desk, args: &PrefixArgs) -> Result<u8, Refusal> {
    let answer = desk.list(&prefix(&args.prefix)).await?;
    let _ = desk.say.answer(&answer, || table(&answer.locks));
    Ok(exit::OK)
}

fn table(locks: &[LockAnswer]) -> String {
    if locks.is_empty() {
        return "nothing is held".to_owned();
    }
    let mut rows = vec![HEAD.map(str::to_owned)];
    rows.extend(locks.iter().flat_map(rows_of));
    // Cleaned before it is measured: an escape is longer than what it stands for.
    let rows: Vec<[String; 7]> = rows.into_iter().map(|row| row.map(|cell| clean(&cell))).collect();
    let widths: [usize; 7] =
        std::array::from_fn(|i| rows.iter().map(|row| row[i].chars().count()).max().unwrap_or(0));
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// One row for each holder; the first says how many wait.
fn rows_of(lock: &LockAnswer) -> Vec<[String; 7]> {
    let waiting = lock.waiting.unwrap_or_default().to_string();
    if lock.holder.is_none() {
        let none = || "-".to_owned();
        return vec![[key_of(lock), none(), none(), none(), none(), none(), waiting]];
    }
    let row = |(i, (holder, fence)): (usize, (&HolderAnswer, Option<Fence>))| {
        let fence = fence.map_or_else(|| "-".to_owned(), |fence| fence.to_string());
        let waiting = if i == 0 { waiting.clone() } else { String::new() };
        let (key, who, mode) = (key_of(lock), holder.who().to_string(), name(holder.mode).to_owned());
        [key, who, mode, fence, length(holder.held_ms), length(holder.left_ms), waiting]
    };
    lock.holders().enumerate().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bell_core::acquire::PublicHolder;
    use bell_core::inspect::LockState;
    use bell_core::key::Key;
    use bell_core::lock::{Fence, Mode, Ttl};
    use bell_core::session::Identity;
    use std::time::Duration;

    #[test]
    fn columns_stand_under_their_heads() {
        let holder = PublicHolder {
            session: "s".into(),
            who: Identity { label: Some("ci".into()), ..Identity::default() },
            mode: Mode::Exclusive,
            fence: Some(Fence(12)),
            held: Duration::from_secs(3),
            left: Duration::from_secs(60),
            ttl: Ttl::DEFAULT,
        };
        let key = Key::parse("deploy://api-prod").unwrap();
        let state = LockState { key, holders: vec![holder], waiting: Vec::new() };
        let text = table(&[crate::answer::state(&state)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "KEY                HOLDER  MODE       FENCE  HELD FOR  TIME LEFT  WAITING");
        assert_eq!(lines[1], "deploy://api-prod  ci      exclusive  12     3s        1m         0");
    }
}
