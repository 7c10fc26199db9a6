//! `bell webhook ls`, `show` and `replay`: what was told from outside, and telling it again.

use bell_api::control::deliveries::{
    DELIVERIES_MAX, DeliveriesAnswer, DeliveriesQuery, DeliveryAnswer, DeliveryRow, DeliveryShown, Verdict,
};
use bell_api::exit;
use bell_api::rfc3339::rfc3339;
use bell_coord::work::wall_now;

use super::{filter_lines, yes_or_no};
use crate::answer::Refusal;
use crate::cli::{WebhookListArgs, WebhookOneArgs};
use crate::fleet::{Fleet, Need, Reach};
use crate::open::Access;
use crate::say::Say;
use crate::span::moment;

/// Lists deliveries. Answers the exit code.
pub(super) async fn list(say: &Say, reach: &Reach, args: &WebhookListArgs) -> Result<u8, Refusal> {
    let since_ms = args.since.as_deref().map(|since| moment(since, "--since", wall_now())).transpose()?;
    let query = DeliveriesQuery {
        source: args.source.clone(),
        since_ms: since_ms.map(|at| at.0),
        limit: Some(args.limit),
        ..DeliveriesQuery::default()
    };
    let answer = Fleet::open(reach, Need::Work, Access::Read).await?.deliveries(&query).await?;
    let _ = say.answer(&answer, || rows(&answer, args.limit));
    Ok(exit::OK)
}

/// Shows a delivery. Answers the exit code.
pub(super) async fn show(say: &Say, reach: &Reach, args: &WebhookOneArgs) -> Result<u8, Refusal> {
    let fleet = Fleet::open(reach, Need::Work, Access::Read).await?;
    let shown = fleet.delivery(&args.delivery, args.source.clone()).await?;
    let _ = say.answer(&shown, || lines(&shown));
    Ok(exit::OK)
}

/// Tells a delivery again. Answers the exit code.
pub(super) async fn replay(say: &Say, reach: &Reach, args: &WebhookOneArgs) -> Result<u8, Refusal> {
    let fleet = Fleet::open(reach, Need::Work, Access::Read).await?;
    let answer = fleet.redeliver(&args.delivery, args.source.clone()).await?;
    let _ = say.answer(&answer, || made(&answer));
    Ok(match answer.verdict {
        Verdict::Queued | Verdict::Duplicate => exit::OK,
        Verdict::Unmatched => exit::NOT_FOUND,
        Verdict::Full => exit::CONFLICT,
    })
}

fn rows(answer: &DeliveriesAnswer, limit: u32) -> String {
    if answer.deliveries.is_empty() {
        return "no delivery is on record".to_owned();
    }
    let mut lines: Vec<String> = answer.deliveries.iter().map(row).collect();
    if answer.next.is_some() {
        lines.push(more(limit));
    }
    lines.join("\n")
}

fn more(limit: u32) -> String {
    if limit < DELIVERIES_MAX {
        return format!("(there are more: raise --limit, to {DELIVERIES_MAX} at the most)");
    }
    format!(
        "(there are more than {DELIVERIES_MAX}, the most of one list: set --source, or ask the HTTP API page by page)"
    )
}

fn row(row: &DeliveryRow) -> String {
    let agents: Vec<&str> = row.jobs.iter().map(|made| made.agent.as_str()).collect();
    let agents = if agents.is_empty() { String::new() } else { format!(" {}", agents.join(", ")) };
    format!(
        "{} {:9} {:16} {:36} {}{agents}",
        rfc3339(row.at_ms),
        row.verdict.word(),
        row.source,
        row.delivery,
        what(row)
    )
}

fn what(row: &DeliveryRow) -> String {
    let action = row.action.as_deref().map(|action| format!("/{action}")).unwrap_or_default();
    let place = row.place.as_deref().map(|place| format!(" of {place}")).unwrap_or_default();
    format!("{}{action}{place}", row.event)
}

fn lines(shown: &DeliveryShown) -> String {
    let row = &shown.row;
    let mut lines = vec![
        format!("{}: {}", row.source, what(row)),
        format!("delivery: {}", row.delivery),
        format!("came: {}", rfc3339(row.at_ms)),
        format!("verdict: {}", row.verdict.word()),
    ];
    if let Some(of) = &row.replay_of {
        let by = row.by.as_deref().map(|by| format!(", by {by}")).unwrap_or_default();
        lines.push(format!("replay of: {of}{by}"));
    }
    for agent in &shown.agents {
        let job = agent.job.as_ref().map(|job| format!(", job {job}")).unwrap_or_default();
        lines.push(format!("{}: {}{job}", agent.agent, yes_or_no(agent.matched)));
        for (at, filter) in agent.filters.iter().enumerate() {
            lines.extend(filter_lines(at, filter.matched, filter.reasons.iter().cloned()));
        }
    }
    if shown.unlisted > 0 {
        lines.push(format!("{} more agents do not want it", shown.unlisted));
    }
    lines.extend(shown.headers.iter().map(|header| format!("{}: {}", header.name, header.value)));
    lines.push(match &shown.body {
        Some(body) => format!("\n{body}"),
        None => format!("(the body of {} bytes was too large to be kept)", shown.bytes),
    });
    lines.join("\n")
}

fn made(answer: &DeliveryAnswer) -> String {
    let mut lines = vec![format!("told again as {}: {}", answer.delivery, answer.verdict.word())];
    lines.extend(answer.jobs.iter().map(|made| format!("{}: accepted as job {}", made.agent, made.job)));
    lines.join("\n")
}
