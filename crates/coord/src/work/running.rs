//! A run from its claim to its end.

use std::sync::Arc;
use std::time::Duration;

use bell_core::acquire::Busy;
use bell_core::key::Key;
use bell_core::session::Identity;
use bell_core::view::{Changes, Decided, Missing, View};
use bell_core::work::Wall;
use bell_core::work::agent::AgentName;
use bell_core::work::claim::{Begun, Claimed, Runner, begin, claim};
use bell_core::work::finish::{Finished, finish, lose};
use bell_core::work::job::{Job, JobId};
use bell_core::work::line::{Caps, Pause, Slot};
use bell_core::work::row::RowId;
use bell_core::work::run::{End, IsolatedBy, Run, RunId};
use bell_core::work::speak::{Asked, Heard, Word, kill, speak};
use bell_store::{Name, Watch};

use super::wall_now;
use crate::Coord;
use crate::denied::Denied;
use crate::fresh;
use crate::load::Loaded;
use crate::session::{Keep, Session};

/// Keys released in the commit that ends a run. With what else it writes they fit a transaction; the rest ends
/// with the session, and is cleared away right after.
const KEYS_PER_COMMIT: usize = 24;

/// Bytes that a run may say at once: a return value is read by a model, and a status by a person.
pub const MAX_WORD_BYTES: usize = 64 * 1_024;

/// A job that was given to this caller.
#[derive(Clone)]
pub struct Claim {
    /// The job's name.
    pub id: JobId,
    /// The job.
    pub job: Job,
    /// The run that was made for it.
    pub run: RunId,
    /// Who the run is to the locks. Nobody keeps it alive yet: that is for whoever takes it over.
    pub session: Session,
    /// Who holds the locks that its agent declares, where those are in another store than the job.
    pub holder: Option<Session>,
}

/// What comes of asking for work.
pub enum Work {
    /// A job.
    Job(Box<Claim>),
    /// Nothing waits.
    Idle,
    /// Nothing may start.
    Paused(Pause),
    /// The first in the queue could not be started a moment ago: ask again after this.
    Later(Duration),
    /// Others have a lock that the job must have.
    Locked(Box<Busy>),
    /// All runners are taken, by these, who live.
    Occupied(Vec<Slot>),
}

impl Coord {
    /// Asks for the oldest job of an agent, for a run on `node`. Runs that are found to have died on the way are
    /// ended as lost.
    ///
    /// Dropped half-way, or never begun, the claim lapses with its session after 15 s, and the job is the first
    /// in the queue again.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn claim(&self, agent: &AgentName, caps: Caps, node: &str) -> Result<Work, Denied> {
        let run = new_run(agent);
        let session = Session::new(identity(agent, &run, node), Keep::Attended)?;
        loop {
            let runner = self.runner(&run, &session, node).await?;
            let done = self.transact(Loaded::default(), |view| claim(view, agent, &runner, caps)).await?;
            if let Some(work) = self.claimed(done.answer, run.clone(), session.clone()).await? {
                return Ok(work);
            }
        }
    }

    /// What a decision needs to know of a run that may begin.
    pub(super) async fn runner(&self, run: &RunId, session: &Session, node: &str) -> Result<Runner, Denied> {
        let born = match session.unborn(self).await? {
            Some(born) => born,
            None => session.record().ok_or_else(stored_before)?,
        };
        Ok(Runner {
            run: run.clone(),
            session: session.id().clone(),
            born: Arc::unwrap_or_clone(born),
            node: node.to_owned(),
            at: wall_now(),
        })
    }

    /// What came of a claim; `None`: what stood in its way has changed, and it is to be decided again.
    pub(super) async fn claimed(
        &self,
        claimed: Claimed,
        run: RunId,
        session: Session,
    ) -> Result<Option<Work>, Denied> {
        Ok(Some(match claimed {
            Claimed::Job { id, job } => {
                Work::Job(Box::new(Claim { id, job: *job, run, session, holder: None }))
            }
            Claimed::Idle => Work::Idle,
            Claimed::Paused(pause) => Work::Paused(pause),
            Claimed::Later(wait) => Work::Later(wait),
            Claimed::Locked(busy) => Work::Locked(busy),
            Claimed::Again => return Ok(None),
            Claimed::Occupied(slots) => {
                let count = slots.len();
                let living = self.living(slots).await?;
                if living.len() < count {
                    return Ok(None);
                }
                Work::Occupied(living)
            }
        }))
    }

    /// Ends every run of the fleet whose session has ended as lost. Answers those that live.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn reap(&self) -> Result<Vec<Slot>, Denied> {
        self.living(self.pool().await?.slots).await
    }

    /// Those of these runs that live; the others are ended as lost.
    pub(crate) async fn living(&self, slots: Vec<Slot>) -> Result<Vec<Slot>, Denied> {
        let sessions = slots.iter().map(|slot| slot.session.clone()).collect();
        let mut loaded = Loaded::default();
        self.load(&mut loaded, &Missing { sessions, ..Missing::default() }).await?;
        let mut living = Vec::new();
        for slot in slots {
            if loaded.view.is_alive(&slot.session) || self.lose(&slot.run).await?.is_none() {
                living.push(slot);
            }
        }
        Ok(living)
    }

    /// Marks a run as begun, just before its process is started. What it is isolated by goes on record.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn begin(&self, run: &RunId, isolation: Option<IsolatedBy>) -> Result<Begun, Denied> {
        let at = wall_now();
        Ok(self.transact(Loaded::default(), |view| begin(view, run, isolation, at)).await?.answer)
    }

    /// Ends a run: its locks, its session, its slot and its job in one commit. May be repeated.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn finish(&self, run: &RunId, end: &End) -> Result<Finished, Denied> {
        self.end_run(run, |view, held, at| {
            let (finished, changes) = finish(view, run, end.clone(), held, at)?;
            Ok((Some(finished), changes))
        })
        .await
        .map(|finished| finished.unwrap_or(Finished::Unknown))
    }

    /// Ends a run as lost if its session has ended. `None`: it lives.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn lose(&self, run: &RunId) -> Result<Option<Finished>, Denied> {
        self.end_run(run, |view, held, at| lose(view, run, held, at)).await
    }

    async fn end_run(
        &self,
        run: &RunId,
        decide: impl Fn(&View, &[Key], Wall) -> Decided<(Option<Finished>, Changes)>,
    ) -> Result<Option<Finished>, Denied> {
        let record = self.run(run).await?.map(|(record, _)| record);
        let session = record.as_ref().map(|record| record.session.clone());
        let held = match &session {
            Some(session) => self.held_keys(session, KEYS_PER_COMMIT).await?,
            None => Vec::new(),
        };
        let mut loaded = Loaded::default();
        if let Some(record) = record.filter(|record| record.ended.is_none()) {
            self.load(&mut loaded, &ends_with(run, record, &held)).await?;
        }
        let at = wall_now();
        let done = self.transact(loaded, |view| decide(view, &held, at)).await?;
        if let (Some(Finished::Now { .. }), Some(session)) = (&done.answer, &session) {
            if held.len() == KEYS_PER_COMMIT {
                self.end_by_id(session).await?;
            }
            self.store().presence().forget(session.as_str());
        }
        Ok(done.answer)
    }

    /// Notes what a run says about itself.
    ///
    /// # Errors
    /// [`Denied::Invalid`] if it says too much at once; otherwise if the store can't be reached.
    pub async fn speak(&self, run: &RunId, session: &Session, word: &Word) -> Result<Heard, Denied> {
        if let Word::Status(text) | Word::Return(text) = word
            && text.len() > MAX_WORD_BYTES
        {
            let bytes = text.len();
            return Err(Denied::Invalid(format!("{bytes} bytes are too much: {MAX_WORD_BYTES} is the most")));
        }
        let decide = |view: &View| speak(view, run, session.id(), word);
        Ok(self.transact(Loaded::default(), decide).await?.answer)
    }

    /// Asks the supervisor of a run to end it.
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn kill(&self, run: &RunId, reason: &str) -> Result<Asked, Denied> {
        Ok(self.transact(Loaded::default(), |view| kill(view, run, reason)).await?.answer)
    }

    /// Returns when somebody wants the run to end, with their words, or when it has ended without its supervisor
    /// (`None`).
    ///
    /// # Errors
    /// If the store can't be reached.
    pub async fn kill_wanted(&self, run: &RunId) -> Result<Option<String>, Denied> {
        let name: Name = self.space().row(&RowId::Run(run.clone()));
        loop {
            match self.run(run).await? {
                None => return Ok(None),
                Some((Run { ended: Some(_), .. }, _)) => return Ok(None),
                Some((Run { kill: Some(reason), .. }, _)) => return Ok(Some(reason)),
                Some((_, version)) => {
                    self.store().changed(&Watch::Names(vec![(name.clone(), version)])).await?;
                }
            }
        }
    }
}

/// What the end of a run rests on, to be read at once.
fn ends_with(id: &RunId, run: Run, held: &[Key]) -> Missing {
    let rows = [RowId::Run(id.clone()), RowId::Pool, RowId::Line(run.agent), RowId::Job(run.job)];
    Missing { locks: held.iter().cloned().collect(), sessions: [run.session].into(), rows: rows.into() }
}

/// Can't be: its session was made a moment ago and is stored by the claim alone.
fn stored_before() -> Denied {
    Denied::Invalid("the session of a new run was stored before".to_owned())
}

/// Who a run is to the locks.
pub(super) fn identity(agent: &AgentName, run: &RunId, node: &str) -> Identity {
    Identity {
        agent: Some(agent.to_string()),
        run: Some(run.to_string()),
        node: Some(node.to_owned()),
        ..Identity::default()
    }
}

/// A fresh name for a run: its agent's, and ten random digits. The commit that makes it expects that nobody has it.
pub(super) fn new_run(agent: &AgentName) -> RunId {
    // The random part of such an id stands at its end.
    let random = fresh::uuid().simple().to_string().split_off(22);
    RunId::from(format!("{agent}-{random}").as_str())
}
