//! Jobs whose agent declares locks: claimed with their locks, or waiting for them in their queue.
//!
//! A job that waits takes no runner and no process. A session waits for it in the queues of its keys, kept alive by this
//! daemon, and becomes the session of its run. Which session that is, is written on the job, so that another node leaves
//! it alone while that session lives. Its token is in a file, so that the next daemon of this machine goes on with it.

mod waiter;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bell_control::limits::{caps, on_busy};
use bell_coord::work::lock_waits::{Declared, LocksOf};
use bell_coord::work::running::{Claim, Work};
use bell_coord::{Ask, Denied, Session, Token, keeper};
use bell_core::acquire::{Call, MAX_KEYS};
use bell_core::key::Key;
use bell_core::lock::Ttl;
use bell_core::session::{RequestId, SESSION_TTL, SessionId};
use bell_core::work::agent::AgentName;
use bell_core::work::job::{Job, JobId, Trigger};
use bell_core::work::lock_wait::{Refusal, WaitBegun};
use bell_project::agent::Agent;
use bell_project::settings::OnBusy;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::launching::declared_keys;
use crate::prompt::context;
use crate::site::Site;
use waiter::{Waited, Waiter};

/// Jobs of one queue that are considered at once: each that waits is a session with a heartbeat every 5 s. Jobs behind them
/// are considered when these are gone.
const CONSIDERED: usize = 64;

/// The jobs that wait for locks on this machine.
pub(crate) struct LockWaits {
    site: Arc<Site>,
    waits: BTreeMap<JobId, Wait>,
    /// Keys by job, as this version of its agent has them: a payload is read once.
    keys: BTreeMap<JobId, (Arc<Agent>, Vec<Key>)>,
    ended: (mpsc::UnboundedSender<Ended>, mpsc::UnboundedReceiver<Ended>),
    /// Stops every wait, at the latest when this is dropped.
    stop: CancellationToken,
    _stop_at_end: DropGuard,
}

struct Wait {
    agent: AgentName,
    keys: Vec<Key>,
    /// What becomes the session of the run.
    session: Session,
    /// Who holds the locks then: the same session, unless locks are kept in another store.
    holder: Session,
    stop: CancellationToken,
}

/// A wait that has ended.
pub(crate) struct Ended {
    job: JobId,
    session: SessionId,
    waited: Waited,
}

/// What comes of considering the jobs of one agent.
pub(crate) enum Considered {
    /// This job was claimed; there may be more.
    Claimed(Box<Claim>),
    /// Nothing more may start now; ask again after this at the latest.
    Nothing(Option<Duration>),
}

/// What the next daemon of this machine needs to go on with a wait.
#[derive(Serialize, Deserialize)]
struct Saved {
    keys: Vec<Key>,
    token: String,
    holder: String,
    request: String,
}

impl LockWaits {
    pub(crate) fn new(site: Arc<Site>) -> Self {
        let stop = CancellationToken::new();
        Self {
            site,
            waits: BTreeMap::new(),
            keys: BTreeMap::new(),
            ended: mpsc::unbounded_channel(),
            _stop_at_end: stop.clone().drop_guard(),
            stop,
        }
    }

    /// Claims the first job of an agent that can have its locks, and lets those wait that can't.
    ///
    /// # Errors
    /// If a store can't be reached.
    pub(crate) async fn claim(&mut self, agent: &Arc<Agent>) -> Result<Considered, Denied> {
        let caps = caps(&self.site.loaded(), agent);
        if self.site.coord.occupied(&agent.name, caps).await? {
            return Ok(Considered::Nothing(None));
        }
        let jobs = self.site.coord.first_queued(&agent.name, CONSIDERED).await?;
        self.forget_gone(&agent.name, &jobs).await;
        let mut wanted = BTreeSet::new();
        let mut next = None;
        for (id, job) in jobs {
            let keys = self.keys_of(agent, &id, &job).await?;
            let is_behind = keys.iter().any(|key| wanted.contains(key));
            wanted.extend(keys.iter().cloned());
            match self.waits.get(&id) {
                Some(wait) if wait.keys == keys => continue,
                // Its agent declares other locks by now.
                Some(_) => self.give_up(&id).await,
                None => {}
            }
            if is_behind {
                match on_busy(agent, &job.spec.trigger) {
                    OnBusy::Skip => {
                        self.skip(agent, &id, "an earlier job of the agent waits for its locks").await?
                    }
                    OnBusy::Wait | OnBusy::Fail => self.refuse_deadlock(agent, &id, &job, &keys).await?,
                }
                continue;
            }
            let declared = Declared { keys, ttl: ttl(agent) };
            match self.try_claim(agent, &id, &job, &declared).await? {
                Work::Job(claim) => return Ok(Considered::Claimed(claim)),
                Work::Later(wait) => next = Some(next.map_or(wait, |next: Duration| next.min(wait))),
                // Another node has it, or it waits now.
                Work::Idle | Work::Locked(_) => {}
                Work::Paused(_) | Work::Occupied(_) => break,
            }
        }
        Ok(Considered::Nothing(next))
    }

    /// Claims a job whose locks are free. Where they are not, it waits or is over, as its agent says.
    async fn try_claim(
        &mut self,
        agent: &Arc<Agent>,
        id: &JobId,
        job: &Job,
        declared: &Declared,
    ) -> Result<Work, Denied> {
        let (coord, node) = (self.site.coord.clone(), self.site.node.clone());
        let caps = caps(&self.site.loaded(), agent);
        let policy = on_busy(agent, &job.spec.trigger);
        // What takes no locks is claimed as it is, and so is what fails if it can't have them: its supervisor says why.
        let takes_none = declared.keys.is_empty() || declared.keys.len() > MAX_KEYS;
        if takes_none || policy == OnBusy::Fail {
            return coord.claim_job(id, &agent.name, caps, &node, LocksOf::None).await;
        }
        if self.site.lock_store.is_none() && !self.is_kept(id) {
            let work = coord.claim_job(id, &agent.name, caps, &node, LocksOf::Take(declared)).await?;
            let Work::Locked(busy) = &work else { return Ok(work) };
            if policy == OnBusy::Skip {
                self.skip(agent, id, &Denied::Busy(busy.clone()).to_string()).await?;
                return Ok(work);
            }
        }
        self.wait(agent, id, job, declared, policy).await?;
        Ok(Work::Idle)
    }

    /// Lets a job wait for its locks from now on, unless another node does.
    async fn wait(
        &mut self,
        agent: &Arc<Agent>,
        id: &JobId,
        job: &Job,
        declared: &Declared,
        policy: OnBusy,
    ) -> Result<(), Denied> {
        let (session, holder, request) = match self.resume(id, &declared.keys).await {
            Some(kept) => kept,
            None => {
                let session = self.site.coord.open_waiting(&agent.name, &self.site.node).await?;
                let holder = match &self.site.lock_store {
                    Some(locks) => locks.coord.open_session(session.who().clone(), Some(SESSION_TTL)).await?,
                    None => session.clone(),
                };
                (session, holder, RequestId::from(id.as_str()))
            }
        };
        let limit = agent.settings.lock_wait.get();
        let wait = Wait {
            agent: agent.name.clone(),
            keys: declared.keys.clone(),
            session: session.clone(),
            holder: holder.clone(),
            stop: self.stop.child_token(),
        };
        let left = match self.site.coord.begin_lock_wait(id, &session, &declared.keys, limit).await? {
            WaitBegun::Yours(left) => left,
            WaitBegun::Elsewhere | WaitBegun::Gone => {
                self.end_sessions(&wait).await;
                return Ok(());
            }
        };
        let saved = Saved {
            keys: declared.keys.clone(),
            token: session.token().expose(),
            holder: holder.token().expose(),
            request: request.to_string(),
        };
        if let Err(error) = self.save(id, &saved) {
            tracing::warn!(job = %id, %error, "could not keep a wait for locks for the next daemon");
        }
        let left = if policy == OnBusy::Skip { Duration::ZERO } else { left };
        let call = self.call(id, job).await?;
        let ask = Ask::all(declared.keys.clone()).ttl(declared.ttl).wait(left).request(request).called(call);
        let waiter =
            Waiter { work: self.site.coord.clone(), locks: self.site.locks().clone(), session, holder, ask };
        tracing::info!(agent = %agent.name, job = %id, "waits for its locks");
        let (job, stop, ended) = (id.clone(), wait.stop.clone(), self.ended.0.clone());
        self.waits.insert(id.clone(), wait);
        keeper::run(async move {
            let session = waiter.session.id().clone();
            let waited = waiter.wait(stop).await;
            // Nobody hears it if the daemon has stopped.
            let _ = ended.send(Ended { job, session, waited });
        });
        Ok(())
    }

    /// Returns when a wait has ended; [`Self::settle`] says what becomes of its job. Dropped half-way, nothing is missed.
    pub(crate) async fn next(&mut self) -> Ended {
        // This has a sender itself, so there is always one.
        self.ended.1.recv().await.unwrap_or_else(|| unreachable!("a channel ended that has a sender"))
    }

    /// Takes a wait that has ended to its end. Answers with the claim, if the job got its locks and may run now.
    ///
    /// # Errors
    /// If a store can't be reached: the job waits anew.
    pub(crate) async fn settle(&mut self, ended: Ended) -> Result<Option<(Arc<Agent>, Claim)>, Denied> {
        let Ended { job: id, session, waited } = ended;
        // The report of a wait that was given up is of no use to a later one.
        if self.waits.get(&id).is_none_or(|wait| *wait.session.id() != session) {
            return Ok(None);
        }
        let Some(wait) = self.waits.remove(&id) else { return Ok(None) };
        if matches!(waited, Waited::Stopped) {
            // For the next daemon of this machine, or to lapse.
            return Ok(None);
        }
        self.forget(&id);
        match waited {
            Waited::Granted => self.claim_waited(&id, wait).await,
            Waited::Refused(reason) => {
                tracing::warn!(agent = %wait.agent, job = %id, reason, "does not get its locks");
                let refusal = self.refusal(&wait.agent, &id).await?;
                self.site.coord.refuse_locks(&id, Some(&wait.session), &reason, refusal).await?;
                self.end_sessions(&wait).await;
                Ok(None)
            }
            Waited::Interrupted | Waited::Stopped => {
                self.end_sessions(&wait).await;
                Ok(None)
            }
        }
    }

    /// Stops waiting. What waits keeps its place for the next daemon of this machine, for as long as its session lasts.
    pub(crate) async fn stop(&mut self) {
        self.waits.values().for_each(|wait| wait.stop.cancel());
        while !self.waits.is_empty() {
            let ended = self.next().await;
            self.waits.remove(&ended.job);
        }
    }

    /// Runs a job whose session has its locks. If it may not run now, the locks are free for others again.
    async fn claim_waited(&mut self, id: &JobId, wait: Wait) -> Result<Option<(Arc<Agent>, Claim)>, Denied> {
        let coord = self.site.coord.clone();
        if let Some(agent) = self.site.agent(&wait.agent) {
            let caps = caps(&self.site.loaded(), &agent);
            let locks = LocksOf::Waited(&wait.session);
            if let Work::Job(claim) = coord.claim_job(id, &wait.agent, caps, &self.site.node, locks).await? {
                let holder = self.site.lock_store.is_some().then(|| wait.holder.clone());
                return Ok(Some((agent, Claim { holder, ..*claim })));
            }
        }
        coord.end_lock_wait(id, &wait.session).await?;
        self.end_sessions(&wait).await;
        Ok(None)
    }

    /// What becomes of a job that does not get its locks.
    async fn refusal(&self, agent: &AgentName, id: &JobId) -> Result<Refusal, Denied> {
        let job = self.site.coord.job(id).await?;
        let policy =
            self.site.agent(agent).zip(job).map(|(agent, (job, _))| on_busy(&agent, &job.spec.trigger));
        Ok(if policy == Some(OnBusy::Skip) { Refusal::Skip } else { Refusal::DeadLetter })
    }

    /// Ends a call whose turn has not come if it would wait for its caller: that one waits until it has ended.
    async fn refuse_deadlock(
        &self,
        agent: &Agent,
        id: &JobId,
        job: &Job,
        keys: &[Key],
    ) -> Result<(), Denied> {
        let Some(call) = self.call(id, job).await? else { return Ok(()) };
        if let Some(cycle) = self.site.locks().would_deadlock(keys, &call).await? {
            let reason = Denied::Deadlock(cycle).to_string();
            tracing::warn!(agent = %agent.name, job = %id, reason, "does not get its locks");
            self.site.coord.refuse_locks(id, None, &reason, Refusal::DeadLetter).await?;
        }
        Ok(())
    }

    async fn skip(&self, agent: &Agent, id: &JobId, reason: &str) -> Result<(), Denied> {
        tracing::warn!(agent = %agent.name, job = %id, reason, "skipped");
        self.site.coord.refuse_locks(id, None, reason, Refusal::Skip).await?;
        Ok(())
    }

    /// The keys that a job must have; none if they can't be told, which its start says.
    async fn keys_of(&mut self, agent: &Arc<Agent>, id: &JobId, job: &Job) -> Result<Vec<Key>, Denied> {
        if let Some((of, keys)) = self.keys.get(id)
            && Arc::ptr_eq(of, agent)
        {
            return Ok(keys.clone());
        }
        let payload = self.site.coord.payload(id).await?;
        let context = context(job, payload.as_deref().unwrap_or("{}"));
        let keys = declared_keys(agent, &context).unwrap_or_default();
        self.keys.insert(id.clone(), (Arc::clone(agent), keys.clone()));
        Ok(keys)
    }

    /// The call that led to a job: who called, and who called those.
    async fn call(&self, id: &JobId, job: &Job) -> Result<Option<Call>, Denied> {
        let mut callers = Vec::new();
        let mut trigger = job.spec.trigger.clone();
        while let Trigger::Call { caller, depth } = trigger {
            callers.push(caller.to_string());
            // Each call is one deeper than the one that led to it, so this comes to an end.
            let Some((run, _)) = self.site.coord.run(&caller).await? else { break };
            let Some((above, _)) = self.site.coord.job(&run.job).await? else { break };
            if above.spec.trigger.depth() >= depth {
                break;
            }
            trigger = above.spec.trigger;
        }
        let key = Key::parse(&format!("bell://calls/{id}")).ok();
        Ok(key.filter(|_| !callers.is_empty()).map(|key| Call { key, callers }))
    }

    /// Ends the waits of jobs that left their queue by another way: they were cancelled, dropped, cleared.
    async fn forget_gone(&mut self, agent: &AgentName, jobs: &[(JobId, Job)]) {
        let is_queued = |id: &JobId| jobs.iter().any(|(queued, _)| queued == id);
        let gone: Vec<JobId> = self
            .waits
            .iter()
            .filter(|(id, wait)| wait.agent == *agent && !is_queued(id))
            .map(|(id, _)| id.clone())
            .collect();
        for id in gone {
            self.give_up(&id).await;
        }
        if self.keys.len() > 4 * CONSIDERED {
            // Those of other agents are read again.
            self.keys.retain(|id, _| jobs.iter().any(|(queued, _)| queued == id));
        }
    }

    /// Ends every wait of agents that have no job in their queue any more, or are gone from the project.
    pub(crate) async fn keep_only(&mut self, agents: &BTreeSet<AgentName>) {
        let gone = self.waits.iter().filter(|(_, wait)| !agents.contains(&wait.agent));
        for id in gone.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.give_up(&id).await;
        }
    }

    async fn give_up(&mut self, id: &JobId) {
        if let Some(wait) = self.waits.remove(id) {
            wait.stop.cancel();
            self.forget(id);
            self.end_sessions(&wait).await;
        }
    }

    /// Ends the sessions of a wait, and with them their locks and places. What a store that does not answer keeps of them
    /// lapses.
    async fn end_sessions(&self, wait: &Wait) {
        let ended = async {
            if let Some(locks) = &self.site.lock_store {
                locks.coord.end(&wait.holder).await?;
            }
            self.site.coord.end(&wait.session).await
        };
        if let Err(error) = ended.await {
            tracing::warn!(%error, "could not end a session that waited for locks; it lapses");
        }
    }

    /// Goes on with a wait for these keys that an earlier daemon of this machine began, if its sessions still live.
    async fn resume(&self, id: &JobId, keys: &[Key]) -> Option<(Session, Session, RequestId)> {
        let saved: Saved = serde_json::from_slice(&fs::read(self.file(id)).ok()?).ok()?;
        if saved.keys != keys {
            return None;
        }
        let (session, _) = self.site.coord.find_session(&Token::parse(&saved.token)?).await.ok()?;
        let holder = match &self.site.lock_store {
            Some(locks) => locks.coord.find_session(&Token::parse(&saved.holder)?).await.ok()?.0,
            None => session.clone(),
        };
        Some((session, holder, RequestId::from(saved.request.as_str())))
    }

    fn is_kept(&self, id: &JobId) -> bool {
        self.file(id).exists()
    }

    fn save(&self, id: &JobId, saved: &Saved) -> io::Result<()> {
        self.site.place.write_private(&self.file(id), &serde_json::to_vec(saved)?)
    }

    fn forget(&mut self, id: &JobId) {
        self.keys.remove(id);
        let _ = fs::remove_file(self.file(id));
    }

    fn file(&self, id: &JobId) -> PathBuf {
        self.site.place.lock_waits().join(format!("{id}.json"))
    }
}

fn ttl(agent: &Agent) -> Ttl {
    Ttl::new(agent.settings.resource_lock_timeout.get()).unwrap_or(Ttl::DEFAULT)
}
