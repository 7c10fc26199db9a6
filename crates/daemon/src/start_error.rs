//! Why a run could not be started, and what becomes of it: the cause lies in its agent, or passes.

use bell_coord::{Coord, Denied};
use bell_core::work::run::{End, RunId};
use bell_runner::error::{Error, Kind};

/// Why a run could not be started. The words read after "could not".
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StartError {
    /// The cause lies in the agent: its program, its settings. Another try fails too. The agent never ran.
    Agent(String),
    /// The cause lies in the store or in this machine, and passes. The agent never ran.
    Transient(String),
    /// A supervisor died without a word: the agent may have run.
    Unclear(String),
}

impl StartError {
    /// The words.
    pub fn reason(&self) -> &str {
        match self {
            Self::Agent(reason) | Self::Transient(reason) | Self::Unclear(reason) => reason,
        }
    }

    /// The end of the run that was not started.
    ///
    /// # Errors
    /// If the store has to say whether the run began, and does not answer.
    pub async fn end(&self, coord: &Coord, run: &RunId) -> Result<End, Denied> {
        match self {
            Self::Agent(reason) => Ok(End::unstartable(reason)),
            Self::Transient(reason) => Ok(End::not_started(reason)),
            Self::Unclear(reason) => {
                let has_begun = coord.run(run).await?.is_some_and(|(run, _)| run.begun.is_some());
                Ok(if has_begun { End::Lost } else { End::not_started(reason) })
            }
        }
    }
}

impl From<Error> for StartError {
    fn from(error: Error) -> Self {
        let reason = error.to_string();
        match error.kind() {
            Kind::Gone => Self::Unclear(reason),
            kind if kind.is_transient() => Self::Transient(reason),
            _ => Self::Agent(reason),
        }
    }
}

impl From<Denied> for StartError {
    fn from(denied: Denied) -> Self {
        let reason = denied.to_string();
        match denied {
            Denied::Unavailable(_) => Self::Transient(reason),
            _ => Self::Agent(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use bell_coord::work::intake::new_job;
    use bell_coord::work::running::Work;
    use bell_coord::work::wall_now;
    use bell_core::work::accept::{Offer, Overflow, Room};
    use bell_core::work::agent::AgentName;
    use bell_core::work::job::{JobSpec, Rules, Trigger};
    use bell_core::work::line::Caps;
    use bell_store::memory::Memory;
    use rustix::io::Errno;

    use super::*;

    fn of(errno: Errno) -> StartError {
        Error::io("start it", io::Error::from(errno)).into()
    }

    #[test]
    fn what_the_machine_or_the_store_lacks_passes() {
        for errno in
            [Errno::MFILE, Errno::NFILE, Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::NOMEM, Errno::AGAIN]
        {
            assert!(matches!(of(errno), StartError::Transient(_)), "{errno}");
        }
        let away = Denied::Unavailable(bell_store::Error::new(bell_store::Kind::Unavailable, "reach it"));
        assert!(matches!(StartError::from(away), StartError::Transient(_)));
    }

    /// A claim that nothing was made of yet.
    async fn claimed(coord: &Coord) -> RunId {
        let agent: AgentName = "triage".parse().unwrap();
        let spec =
            JobSpec { agent: agent.clone(), trigger: Trigger::Manual { by: None }, rules: Rules::default() };
        let offer = Offer { id: new_job(), spec, payload: "{}".into(), once: None, at: wall_now() };
        coord.accept(&[offer], Room { size: 1, overflow: Overflow::Reject }).await.unwrap();
        match coord.claim(&agent, Caps { agent: 1, fleet: None }, "here").await.unwrap() {
            Work::Job(claim) => claim.run,
            _ => panic!("a job that waits was not given away"),
        }
    }

    #[tokio::test]
    async fn the_run_of_a_supervisor_that_died_without_a_word_is_lost_only_if_it_had_begun() {
        let coord = Coord::new(Arc::new(Memory::new()));
        let run = claimed(&coord).await;
        let unclear = StartError::from(Error::new(Kind::Gone, "start it: its supervisor has died"));
        assert_eq!(unclear.end(&coord, &run).await.unwrap(), End::not_started(unclear.reason()));
        coord.begin(&run, None).await.unwrap();
        assert_eq!(unclear.end(&coord, &run).await.unwrap(), End::Lost, "its agent may have run");
    }

    #[test]
    fn what_is_wrong_with_the_agent_does_not() {
        for errno in [Errno::NOENT, Errno::ACCESS, Errno::NOEXEC, Errno::TOOBIG, Errno::LOOP, Errno::NOTDIR] {
            assert!(matches!(of(errno), StartError::Agent(_)), "{errno}");
        }
    }
}
