//! What a name means: an agent, a run, a job, a lock's key or a tick. Nothing is guessed: what could be two things is
//! not answered, and the names that are near are told.

use bell_coord::{Coord, Denied};
use bell_core::key::Key;
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::job::JobId;
use bell_core::work::run::RunId;
use bell_project::discover::discover;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_project::nearest::nearest;
use jiff::Timestamp;

use crate::answer::Answer;

/// The fewest characters of a job's or run's name that stand for it: fewer say nothing.
const START_CHARS_MIN: usize = 4;
/// Names that are told where several could be meant.
const CANDIDATES: usize = 10;
/// Runs whose names are compared with one that is not found.
const NEAR: usize = 200;
/// The longest name of a run or a job.
const NAME_CHARS_MAX: usize = 128;

/// Whoever answers: the records, the project if there is one, and the moment.
pub struct Asker<'a> {
    /// Jobs and runs.
    pub coord: &'a Coord,
    /// Locks: usually in the same store.
    pub locks: &'a Coord,
    /// The project's folder, and what is in it.
    pub project: Option<(&'a Folder, &'a Loaded)>,
    /// Daemons that are there.
    pub daemons: usize,
    /// Now, by this machine's wall clock.
    pub now: Wall,
}

/// What comes of asking.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Asked {
    /// The answer.
    Answer(Box<Answer>),
    /// Several begin so.
    Ambiguous(Vec<String>),
    /// Nothing is called so. These are near, if any.
    Unknown(Vec<String>),
}

impl Asker<'_> {
    /// Answers why something is as it is.
    ///
    /// # Errors
    /// If the store can't be read.
    pub async fn ask(&self, text: &str) -> Result<Asked, Denied> {
        if let Some((agent, at)) = tick(text) {
            return match self.is_agent(&agent).await? {
                true => answered(self.about_fire(&agent, at).await),
                false => Ok(Asked::Unknown(self.near(agent.as_str()).await?)),
            };
        }
        if let Ok(key) = Key::parse(text) {
            return answered(self.about_lock(&key).await);
        }
        // Nothing else can be the name of a record, and nothing else is looked for.
        let is_name = |text: &str| {
            text.len() <= NAME_CHARS_MAX
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        if text.is_empty() || !is_name(text) {
            return Ok(Asked::Unknown(Vec::new()));
        }
        if let Some((run, _)) = self.coord.run(&RunId::from(text)).await? {
            return answered(self.about_run(&RunId::from(text), run).await);
        }
        if let Some((job, _)) = self.coord.job(&JobId::from(text)).await? {
            return answered(self.about_job(&JobId::from(text), job).await);
        }
        if let Ok(agent) = AgentName::parse(text)
            && self.is_agent(&agent).await?
        {
            return answered(self.about_agent(&agent).await);
        }
        self.begins_so(text).await
    }

    /// What begins with this text, if it is one thing.
    async fn begins_so(&self, text: &str) -> Result<Asked, Denied> {
        if text.len() < START_CHARS_MIN {
            return Ok(Asked::Unknown(self.near(text).await?));
        }
        let runs = self.coord.runs_like(text, CANDIDATES).await?;
        let jobs = self.coord.jobs_like(text, CANDIDATES).await?;
        match (runs.as_slice(), jobs.as_slice()) {
            ([], []) => Ok(Asked::Unknown(self.near(text).await?)),
            ([run], []) => match self.coord.run(run).await? {
                Some((record, _)) => answered(self.about_run(run, record).await),
                None => Ok(Asked::Unknown(Vec::new())),
            },
            ([], [job]) => match self.coord.job(job).await? {
                Some((record, _)) => answered(self.about_job(job, record).await),
                None => Ok(Asked::Unknown(Vec::new())),
            },
            _ => {
                let names = runs.iter().map(ToString::to_string).chain(jobs.iter().map(ToString::to_string));
                Ok(Asked::Ambiguous(names.take(CANDIDATES).collect()))
            }
        }
    }

    /// Whether the project has such an agent, or the records do.
    async fn is_agent(&self, name: &AgentName) -> Result<bool, Denied> {
        if self.agents().contains(name) || self.coord.lines().await?.iter().any(|(agent, _)| agent == name) {
            return Ok(true);
        }
        Ok(!self.coord.fires(name, None, 1).await?.rows.is_empty())
    }

    /// The agents of the project, broken ones too.
    fn agents(&self) -> Vec<AgentName> {
        let found = self.project.map(|(folder, _)| discover(folder, &mut Vec::new()));
        found.into_iter().flatten().map(|found| found.name).collect()
    }

    /// Names that may have been meant.
    async fn near(&self, text: &str) -> Result<Vec<String>, Denied> {
        let agents = self.agents().into_iter().map(|name| name.to_string());
        let lines = self.coord.lines().await?.into_iter().map(|(name, _)| name.to_string());
        let mut agents: Vec<String> = agents.chain(lines).collect();
        agents.sort();
        agents.dedup();
        let mut near: Vec<String> =
            nearest(text, agents.iter().map(String::as_str)).map(str::to_owned).into_iter().collect();
        // The name of a run begins with its agent's.
        let start = text.rsplit_once('-').map_or(text, |(agent, _)| agent);
        let runs: Vec<String> =
            self.coord.runs_like(start, NEAR).await?.iter().map(ToString::to_string).collect();
        near.extend(nearest(text, runs.iter().map(String::as_str)).map(str::to_owned));
        Ok(near)
    }
}

fn answered(answer: Result<Answer, Denied>) -> Result<Asked, Denied> {
    answer.map(|answer| Asked::Answer(Box::new(answer)))
}

/// An agent and a moment: `triage@2026-11-16T10:00Z`.
fn tick(text: &str) -> Option<(AgentName, Timestamp)> {
    let (agent, at) = text.split_once('@')?;
    Some((AgentName::parse(agent).ok()?, at.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tick_is_an_agent_and_a_moment_in_any_zone() {
        let (agent, at) = tick("triage@2026-11-16T10:00Z").unwrap();
        assert_eq!((agent.as_str(), at.to_string().as_str()), ("triage", "2026-11-16T10:00:00Z"));
        assert_eq!(tick("triage@2026-11-16T11:00:00+01:00").unwrap().1, at);
        for text in
            ["triage", "triage@noon", "Triage@2026-11-16T10:00Z", "deploy://x@y", "@2026-11-16T10:00Z"]
        {
            assert!(tick(text).is_none(), "{text}");
        }
    }
}
