//! `bell stat`: how a fleet stands, agent by agent.

use bell_api::control::status::{AgentStatus, Attention, LockStatus, StatusAnswer, StatusQuery};
use bell_api::exit;
use bell_why::words::{count, length};

use crate::answer::Refusal;
use crate::cli::StatArgs;
use crate::fleet::{Fleet, Need, Reach};
use crate::open::Access;
use crate::say::Say;

/// Shows how the fleet stands. Answers the exit code.
pub(crate) async fn stat(say: &Say, reach: &Reach, args: &StatArgs) -> Result<u8, Refusal> {
    let fleet = Fleet::open(reach, Need::Locks, Access::Read).await?;
    let stat = fleet.status(&StatusQuery { agent: args.agent.clone() }).await?;
    let _ = say.answer(&stat, || lines(&stat, args.agent.is_some()));
    Ok(exit::OK)
}

fn lines(stat: &StatusAnswer, in_detail: bool) -> String {
    let daemons = match stat.daemons {
        // One that can't use its store is not in it, but says why.
        0 if stat.attention.iter().any(|entry| entry.kind.is_of_store()) => {
            "the daemon does not use its store".to_owned()
        }
        0 => "no daemon runs: bell up".to_owned(),
        1 => "1 daemon".to_owned(),
        many => format!("{many} daemons"),
    };
    let of = stat.scale.map(|scale| format!(" of {scale}")).unwrap_or_default();
    let lost = if stat.lost > 0 { format!(", {} lost", stat.lost) } else { String::new() };
    let paused = stat.paused.as_ref().map(|reason| format!(", paused: {reason}")).unwrap_or_default();
    let mut lines =
        vec![format!("{daemons}, {}{of} running{lost}, {} waiting{paused}", stat.running, stat.waiting)];
    if stat.broken > 0 {
        lines.push(format!("broken: {} in the project's files (bell check)", count(stat.broken, "error")));
    }
    lines.extend(stat.attention.iter().map(attention_line));
    lines.extend(stat.agents.iter().map(agent_line));
    if in_detail {
        lines.extend(stat.agents.iter().flat_map(details));
    }
    lines.extend(stat.locks.iter().map(lock_line));
    if stat.more_locks {
        lines.push("more locks: bell lock list".to_owned());
    }
    lines.join("\n")
}

fn attention_line(attention: &Attention) -> String {
    format!("  {}: {}", attention.subject, attention.message)
}

fn agent_line(agent: &AgentStatus) -> String {
    let name = agent.agent.as_str();
    let scaled = agent.scaled.as_ref().map(|said| format!(", scaled: {}", said.reason)).unwrap_or_default();
    if agent.scale == 0 {
        return format!("{name:24} disabled: its scale is 0, {} waiting{scaled}", agent.waiting);
    }
    let paused = agent.paused.as_ref().map(|reason| format!(", paused: {reason}")).unwrap_or_default();
    let next = agent.next.as_ref().map(|next| format!(", next at {next}")).unwrap_or_default();
    format!(
        "{name:24} {} of {} running, {} of {} waiting{paused}{scaled}{next}",
        agent.running, agent.scale, agent.waiting, agent.queue_size
    )
}

fn details(agent: &AgentStatus) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(schedule) = &agent.schedule {
        lines.push(format!("schedule {schedule}"));
    }
    lines.extend(agent.fires.iter().map(|fire| format!("fires    {fire}")));
    lines.extend(agent.runs.iter().map(|run| format!("runs     {run}")));
    lines
}

fn lock_line(lock: &LockStatus) -> String {
    let holder = match (&lock.holder, lock.held_ms) {
        (Some(holder), Some(held)) => {
            format!("held by {holder} for {}", length(std::time::Duration::from_millis(held)))
        }
        _ => "free".to_owned(),
    };
    let shared = if lock.shared_with > 0 { format!(" and {} more", lock.shared_with) } else { String::new() };
    let waiting = if lock.waiting > 0 { format!(", {} waiting", lock.waiting) } else { String::new() };
    format!("lock {} {holder}{shared}{waiting}", lock.key)
}
