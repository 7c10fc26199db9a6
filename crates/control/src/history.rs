//! What happened, and why something is as it is.

use std::path::Path;

use bell_api::control::history::{HistoryAnswer, HistoryQuery, Kind};
use bell_api::control::why::WhyAnswer;
use bell_api::outcome::Outcome;
use bell_coord::work::wall_now;
use bell_core::work::Wall;
use bell_project::folder::Folder;
use bell_project::load::{CONFIG_FILE, Loaded};
use bell_why::ask::{Asked, Asker};
use bell_why::history::{Wanted, since};

use crate::control::{Control, agent_name};
use crate::nodes;
use crate::refused::Refused;

const DAY_MS: u64 = 24 * 3_600 * 1_000;
/// Rows that are told if nobody says how many, and at the most.
const ROWS: usize = 100;
const ROWS_MAX: usize = 10_000;

impl Control {
    /// What happened, the latest last.
    ///
    /// # Errors
    /// If the agent's name or a kind is none, or the store can't be read.
    pub async fn history(&self, query: &HistoryQuery) -> Result<HistoryAnswer, Refused> {
        let a_day_ago = || wall_now().0.saturating_sub(DAY_MS);
        let since_ms = query.since_ms.unwrap_or_else(a_day_ago);
        let wanted = Wanted {
            since: Wall(since_ms),
            before: query.before_ms.map(Wall),
            agent: query.agent.as_deref().map(agent_name).transpose()?,
            kinds: kinds(query.kinds.as_deref())?,
            limit: query.limit.unwrap_or(ROWS).min(ROWS_MAX),
        };
        let (rows, more) = since(&self.coord, &wanted).await?;
        Ok(HistoryAnswer { outcome: Outcome::Listed, since_ms, rows, more })
    }

    /// Why something is as it is.
    ///
    /// # Errors
    /// If nothing or more than one thing is called so, or the store can't be read.
    pub async fn why(&self, of: &str) -> Result<WhyAnswer, Refused> {
        let loaded = self.loaded();
        let project = is_project(&self.folder, &loaded).then_some((&*self.folder, &*loaded));
        let daemons = nodes::count(&self.coord).await?;
        let asker = Asker { coord: &self.coord, locks: &self.locks, project, daemons, now: wall_now() };
        match asker.ask(of).await? {
            Asked::Answer(answer) => {
                Ok(WhyAnswer { outcome: Outcome::Listed, answer: *answer, store: self.store.clone() })
            }
            Asked::Ambiguous(names) => Err(Refused::new(
                Outcome::NotFound,
                format!("could not tell which one {of:?} is: {} begin so", names.join(", ")),
                "Write more of its name.",
            )),
            Asked::Unknown(near) => Err(unknown(of, &near)),
        }
    }
}

/// Whether a folder is a project, or was one.
fn is_project(folder: &Folder, loaded: &Loaded) -> bool {
    let has = |name: &str| Path::new(folder.path()).join(name).exists();
    !loaded.agents.is_empty() || has(".bell") || has(CONFIG_FILE)
}

fn unknown(name: &str, near: &[String]) -> Refused {
    let meant =
        if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
    Refused::new(
        Outcome::NotFound,
        format!("could not find an agent, run, job, tick or key called {name:?}{meant}"),
        "bell stat shows the agents, bell runs the runs, bell jobs list what waits, bell lock list the locks.",
    )
}

pub(crate) fn kinds(given: Option<&str>) -> Result<Vec<Kind>, Refused> {
    let words = given.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty());
    let read = |word: &str| {
        Kind::ALL.into_iter().find(|kind| kind.word() == word).ok_or_else(|| {
            let known = Kind::ALL.map(Kind::word).join(", ");
            Refused::invalid(
                format!("could not look for {word:?}: it is no kind of thing that happens"),
                format!("Use one or more of {known}, with commas between them."),
            )
        })
    };
    words.map(read).collect()
}
