//! Replaying dead letters in bulk: which of them, in which order, and what came of each agent's.

use std::collections::{BTreeMap, BTreeSet};

use bell_api::control::jobs::{LetterToReplay, REPLAYS_MAX, ReplayResult, UndoneLine, UndoneQuery};
use bell_api::control::status::StatusQuery;
use bell_api::outcome::Outcome;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_core::work::job::{Fate, JobId};
use bell_why::words;
use serde::Serialize;

use crate::answer::Refusal;
use crate::cli::ReplayArgs;
use crate::fleet::Fleet;
use crate::progress::Progress;
use crate::say::Say;
use crate::span::moment;

/// Jobs that a dry run names in plain words: a screen. `--json` has all of them.
const SHOWN: usize = 20;

/// Which dead letters.
#[derive(Debug)]
struct Selection {
    /// With these fates; with any, if empty.
    fates: Vec<Fate>,
    agent: Option<String>,
    since: Wall,
}

impl Selection {
    fn of(args: &ReplayArgs) -> Result<Self, Refusal> {
        let fates = [(args.cleared, Fate::Cleared), (args.dropped, Fate::Dropped)];
        let fates = fates.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, fate)| fate).collect();
        let since = args.since.as_deref().map(|since| moment(since, "--since", wall_now())).transpose()?;
        Ok(Self { fates, agent: args.agent.clone(), since: since.unwrap_or(Wall(0)) })
    }

    fn has(&self, letter: &UndoneLine) -> bool {
        let is_of_agent = self.agent.as_deref().is_none_or(|agent| agent == letter.agent.as_str());
        let has_fate = self.fates.is_empty() || self.fates.contains(&letter.fate);
        is_of_agent && has_fate && letter.at_ms >= self.since.0
    }
}

/// What was replayed, or would be.
#[derive(Serialize, Debug)]
struct ReplayedAnswer {
    outcome: Outcome,
    /// Whether nothing was done.
    dry_run: bool,
    /// How many dead letters were selected.
    selected: usize,
    /// How many of them are queued again.
    replayed: usize,
    /// The same agent by agent, with what stays a dead letter.
    agents: BTreeMap<String, AgentCounts>,
    /// The selected jobs in the order of their replay, in a dry run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jobs: Vec<JobId>,
}

#[derive(Serialize, Default, Debug)]
struct AgentCounts {
    selected: usize,
    replayed: usize,
    /// They stay dead letters: the queue is full.
    queue_full: usize,
    /// They stay dead letters: the agent does not exist.
    no_agent: usize,
    /// They were replayed by another call, or forgotten.
    gone: usize,
}

/// Replays the dead letters that the arguments select, or says which it would. Answers the exit code.
pub(crate) async fn replay(say: &Say, fleet: &Fleet, args: &ReplayArgs) -> Result<u8, Refusal> {
    let selection = Selection::of(args)?;
    let letters = select(fleet, &selection).await?;
    if letters.is_empty() && selection.agent.is_some() {
        // A mistyped name is refused; dead letters of an agent that is gone are found without it.
        fleet.status(&StatusQuery { agent: selection.agent }).await?;
    }
    let mut answer = ReplayedAnswer::of(&letters);
    if args.dry_run {
        answer.dry_run = true;
        answer.outcome = Outcome::Listed;
        answer.jobs = letters.into_iter().map(|letter| letter.job).collect();
    } else {
        let mut progress = Progress::new(say);
        tokio::select! {
            done = replay_all(fleet, &letters, &mut answer) => done?,
            never = progress.tell("replaying dead letters") => match never {},
        }
    }
    if answer.agents.values().any(|counts| counts.queue_full > 0) {
        answer.outcome = Outcome::Busy;
    }
    let _ = say.answer(&answer, || words(&answer));
    Ok(answer.outcome.row().exit)
}

/// The dead letters of a selection, in the order in which the jobs were accepted: their ids rise with time.
async fn select(fleet: &Fleet, selection: &Selection) -> Result<Vec<UndoneLine>, Refusal> {
    let mut letters = Vec::new();
    let mut query = UndoneQuery::default();
    loop {
        let page = fleet.undone(&query).await?;
        // The latest come first.
        let is_older = page.undone.last().is_some_and(|letter| letter.at_ms < selection.since.0);
        letters.extend(page.undone.into_iter().filter(|letter| selection.has(letter)));
        query.after = page.next.filter(|_| !is_older);
        if query.after.is_none() {
            break;
        }
    }
    letters.sort_by(|one, other| one.job.cmp(&other.job));
    // A job that changed its place while pages were read is listed twice.
    letters.dedup_by(|one, other| one.job == other.job);
    Ok(letters)
}

async fn replay_all(
    fleet: &Fleet,
    letters: &[UndoneLine],
    answer: &mut ReplayedAnswer,
) -> Result<(), Refusal> {
    let mut full = BTreeSet::new();
    let mut rest = letters.iter().peekable();
    while rest.peek().is_some() {
        // A queue that was found full is not asked again for each of thousands.
        let (skipped, batch) = next_batch(&mut rest, &full);
        for letter in skipped {
            answer.count(letter, ReplayResult::QueueFull);
        }
        let wanted =
            batch.iter().map(|letter| LetterToReplay { job: letter.job.to_string(), at_ms: letter.at_ms });
        let results = fleet.replay_all(wanted.collect()).await?.results;
        for (letter, result) in batch.into_iter().zip(results) {
            answer.count(letter, result);
            if result == ReplayResult::QueueFull {
                full.insert(letter.agent.to_string());
            }
        }
    }
    Ok(())
}

/// The next letters to send, and those passed over because the queue of their agent is full.
fn next_batch<'a>(
    rest: &mut impl Iterator<Item = &'a UndoneLine>,
    full: &BTreeSet<String>,
) -> (Vec<&'a UndoneLine>, Vec<&'a UndoneLine>) {
    let (mut skipped, mut batch) = (Vec::new(), Vec::new());
    while batch.len() < REPLAYS_MAX {
        let Some(letter) = rest.next() else { break };
        if full.contains(letter.agent.as_str()) { skipped.push(letter) } else { batch.push(letter) }
    }
    (skipped, batch)
}

impl ReplayedAnswer {
    fn of(letters: &[UndoneLine]) -> Self {
        let mut agents: BTreeMap<String, AgentCounts> = BTreeMap::new();
        for letter in letters {
            agents.entry(letter.agent.to_string()).or_default().selected += 1;
        }
        Self {
            outcome: Outcome::Written,
            dry_run: false,
            selected: letters.len(),
            replayed: 0,
            agents,
            jobs: Vec::new(),
        }
    }

    fn count(&mut self, letter: &UndoneLine, result: ReplayResult) {
        let counts = self.agents.entry(letter.agent.to_string()).or_default();
        match result {
            ReplayResult::Queued => {
                counts.replayed += 1;
                self.replayed += 1;
            }
            ReplayResult::QueueFull => counts.queue_full += 1,
            ReplayResult::NoAgent => counts.no_agent += 1,
            ReplayResult::Gone => counts.gone += 1,
        }
    }
}

fn words(answer: &ReplayedAnswer) -> String {
    let verb = if answer.dry_run { "would replay" } else { "replayed" };
    let count = if answer.dry_run { answer.selected } else { answer.replayed };
    let mut lines = vec![format!("{verb} {}", words::count(count, "job"))];
    for (agent, counts) in &answer.agents {
        let count = if answer.dry_run { counts.selected } else { counts.replayed };
        let mut line = format!("  {agent:32} {count}");
        let left = [
            (counts.queue_full, "stay dead letters: its queue is full; the same command replays them later"),
            (counts.no_agent, "stay dead letters: there is no such agent"),
            (counts.gone, "were replayed by another call"),
        ];
        for (count, why) in left.into_iter().filter(|(count, _)| *count > 0) {
            line.push_str(&format!(", {count} {why}"));
        }
        lines.push(line);
    }
    lines.extend(answer.jobs.iter().take(SHOWN).map(|job| format!("  {job}")));
    if answer.jobs.len() > SHOWN {
        lines.push(format!("  and {} more: --json lists all", answer.jobs.len() - SHOWN));
    }
    lines.join("\n")
}
