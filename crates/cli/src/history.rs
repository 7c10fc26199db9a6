//! `bell history`: what happened, in order, with the reasons.

use bell_api::control::history::{HistoryAnswer, HistoryQuery, Kind, Row};
use bell_api::exit;
use bell_coord::work::wall_now;

use crate::answer::Refusal;
use crate::cli::{HistoryArgs, HistoryKind};
use crate::fleet::{Fleet, Need, Reach};
use crate::open::Access;
use crate::say::Say;
use crate::span::moment;

/// Shows what happened. Answers the exit code.
pub(crate) async fn history(say: &Say, reach: &Reach, args: &HistoryArgs) -> Result<u8, Refusal> {
    let kinds: Vec<&str> = args.kind.iter().map(|kind| kind_of(*kind).word()).collect();
    let query = HistoryQuery {
        since_ms: Some(moment(&args.since, "--since", wall_now())?.0),
        before_ms: None,
        agent: args.agent.clone(),
        kinds: Some(kinds.join(",")).filter(|kinds| !kinds.is_empty()),
        limit: Some(args.limit),
    };
    let answer = Fleet::open(reach, Need::Work, Access::Read).await?.history(&query).await?;
    let _ = say.answer(&answer, || lines(&answer));
    Ok(exit::OK)
}

pub(crate) fn kind_of(kind: HistoryKind) -> Kind {
    match kind {
        HistoryKind::Trigger => Kind::Trigger,
        HistoryKind::Run => Kind::Run,
        HistoryKind::Skip => Kind::Skip,
        HistoryKind::Drop => Kind::Drop,
        HistoryKind::Replay => Kind::Replay,
        HistoryKind::Pause => Kind::Pause,
        HistoryKind::Scale => Kind::Scale,
    }
}

fn lines(answer: &HistoryAnswer) -> String {
    if answer.rows.is_empty() {
        return "nothing happened since then".to_owned();
    }
    let mut lines: Vec<String> = answer.rows.iter().map(line).collect();
    if answer.more {
        lines.insert(0, "(there was more before this: raise --limit)".to_owned());
    }
    lines.join("\n")
}

/// One thing that happened, for people.
pub(crate) fn line(row: &Row) -> String {
    let agent = row.agent.as_ref().map_or("(fleet)", |agent| agent.as_str());
    format!("{} {:8} {agent:20} {}", row.at, row.kind.word(), row.says)
}
