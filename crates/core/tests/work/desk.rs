//! A store of the work in a map: loads what a decision asks for and applies what it answers, as `coord` does.

use std::collections::BTreeMap;
use std::time::Duration;

use bell_core::session::{Identity, Secret, Session, SessionId};
use bell_core::time::Timestamp;
use bell_core::view::{Changes, Decided, Seen, View};
use bell_core::work::Wall;
use bell_core::work::accept::{Accepted, Offer, Overflow, Room, accept};
use bell_core::work::agent::AgentName;
use bell_core::work::claim::{Begun, Claimed, Runner, begin, claim};
use bell_core::work::finish::{Finished, finish, lose, retry};
use bell_core::work::fire::{Fired, Overlap, Tick, fire};
use bell_core::work::job::{Job, JobId, JobSpec, Rules, Trigger};
use bell_core::work::line::{Caps, Slot};
use bell_core::work::pause::{Extent, pause, resume};
use bell_core::work::receive::{Receipt, Received, receive};
use bell_core::work::row::{Row, RowId, What};
use bell_core::work::run::{End, Run, RunId};
use bell_core::work::scale::scale;
use bell_core::work::shelve::{Moved, cancel, clear, replay};
use bell_core::work::speak::{Asked, Heard, Word, kill, speak};

/// Everything that is stored, and the time.
#[derive(Default)]
pub(crate) struct Desk {
    pub(crate) view: View,
    count: u64,
}

pub(crate) fn agent(name: &str) -> AgentName {
    name.parse().unwrap()
}

pub(crate) fn manual() -> Trigger {
    Trigger::Manual { by: None }
}

pub(crate) fn wall(seconds: u64) -> Wall {
    Wall(seconds * 1_000)
}

/// What ticks and replays find.
const ROOM: Room = Room { size: 100, overflow: Overflow::DropOldest };

impl Desk {
    pub(crate) fn decide<A>(&mut self, decide: impl Fn(&View) -> Decided<(A, Changes)>) -> A {
        loop {
            match decide(&self.view) {
                Ok((answer, changes)) => {
                    self.view.rows.extend(changes.rows.into_iter().map(|(id, row)| (id, row.into())));
                    self.view.sessions.extend(changes.sessions.into_iter().map(|(id, it)| (id, it.into())));
                    self.view.locks.extend(changes.locks.into_iter().map(|(key, lock)| (key, lock.into())));
                    return answer;
                }
                Err(missing) => {
                    assert!(!missing.is_empty(), "a decision that misses nothing");
                    self.view.rows.extend(missing.rows.into_iter().map(|id| (id, Seen::ABSENT)));
                    self.view.sessions.extend(missing.sessions.into_iter().map(|id| (id, Seen::ABSENT)));
                    self.view.locks.extend(missing.locks.into_iter().map(|key| (key, Seen::ABSENT)));
                }
            }
        }
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    fn at(&mut self) -> Wall {
        Wall(self.next())
    }

    pub(crate) fn rows(&self) -> BTreeMap<RowId, Row> {
        let present = self.view.rows.iter().filter_map(|(id, seen)| Some((id.clone(), seen.get()?.clone())));
        present.collect()
    }

    pub(crate) fn pass(&mut self, ms: u64) {
        self.view.now = self.view.now + Duration::from_millis(ms);
    }

    pub(crate) fn offer(&mut self, name: &str, trigger: Trigger) -> Offer {
        let id = JobId::from(format!("job-{}", self.next()).as_str());
        let spec = JobSpec { agent: agent(name), trigger, rules: Rules::default() };
        Offer { id, spec, payload: "{}".into(), once: None, at: self.at() }
    }

    pub(crate) fn take(&mut self, offer: &Offer, room: Room) -> Accepted {
        self.take_all(std::slice::from_ref(offer), room).into_iter().next().unwrap()
    }

    pub(crate) fn take_all(&mut self, offers: &[Offer], room: Room) -> Vec<Accepted> {
        self.decide(|view| accept(view, offers, room))
    }

    pub(crate) fn receive(&mut self, receipts: &[Receipt], ops: usize) -> Vec<Received> {
        self.decide(|view| {
            let (received, changes) = receive(view, receipts, ops)?;
            assert!(changes.rows.len() <= ops, "{} records in one commit", changes.rows.len());
            Ok((received, changes))
        })
    }

    pub(crate) fn accept(&mut self, name: &str, trigger: Trigger, room: Room) -> JobId {
        self.accept_with(name, trigger, Rules::default(), room)
    }

    pub(crate) fn accept_with(&mut self, name: &str, trigger: Trigger, rules: Rules, room: Room) -> JobId {
        let mut offer = self.offer(name, trigger);
        offer.spec.rules = rules;
        let accepted = self.take(&offer, room);
        assert!(matches!(accepted, Accepted::Queued { .. }), "{accepted:?}");
        offer.id
    }

    pub(crate) fn runner(&mut self) -> Runner {
        let number = self.next();
        let proof = Secret::from_bytes([0; 32]).proof();
        let expires = Some(Timestamp::from_ms(u64::MAX));
        Runner {
            run: format!("run-{number}").as_str().into(),
            session: format!("session-{number}").as_str().into(),
            born: Session::new(Identity::default(), proof, expires),
            node: "here".to_owned(),
            at: self.at(),
        }
    }

    pub(crate) fn claim_as(&mut self, name: &str, runner: &Runner, caps: Caps) -> Claimed {
        self.decide(|view| claim(view, &agent(name), runner, caps))
    }

    pub(crate) fn try_claim(&mut self, name: &str, caps: Caps) -> Claimed {
        let runner = self.runner();
        self.claim_as(name, &runner, caps)
    }

    pub(crate) fn claim(&mut self, name: &str, caps: Caps) -> Option<(JobId, RunId)> {
        let runner = self.runner();
        match self.claim_as(name, &runner, caps) {
            Claimed::Job { id, .. } => {
                assert_eq!(self.begin(&runner.run), Begun::Now);
                Some((id, runner.run))
            }
            _ => None,
        }
    }

    pub(crate) fn begin(&mut self, run: &RunId) -> Begun {
        let at = self.at();
        self.decide(|view| begin(view, run, None, at))
    }

    pub(crate) fn finish(&mut self, run: &RunId, end: End) -> Finished {
        let at = self.at();
        self.decide(|view| finish(view, run, end.clone(), &[], at))
    }

    pub(crate) fn lose(&mut self, run: &RunId) -> Option<Finished> {
        let at = self.at();
        self.decide(|view| lose(view, run, &[], at))
    }

    /// The process and its supervisor are gone.
    pub(crate) fn kill(&mut self, run: &RunId) {
        let session = self.session_of(run);
        self.view.gone.insert(session);
    }

    pub(crate) fn retry(&mut self, job: &JobId) -> bool {
        self.decide(|view| retry(view, job))
    }

    pub(crate) fn replay(&mut self, job: &JobId) -> Moved {
        let at = self.at();
        self.decide(|view| replay(view, job, ROOM.size, at))
    }

    pub(crate) fn cancel(&mut self, job: &JobId) -> Moved {
        let at = self.at();
        self.decide(|view| cancel(view, job, at))
    }

    pub(crate) fn clear(&mut self, name: &str) -> Vec<JobId> {
        let mut all = Vec::new();
        loop {
            let at = self.at();
            let cleared = self.decide(|view| clear(view, &agent(name), at));
            if cleared.is_empty() {
                return all;
            }
            all.extend(cleared);
        }
    }

    /// Both within one millisecond.
    pub(crate) fn pause_and_resume(&mut self, extent: &Extent) {
        let at = self.at();
        assert!(self.decide(|view| pause(view, extent, "lunch", at)));
        assert!(self.decide(|view| resume(view, extent, at)));
    }

    pub(crate) fn pause(&mut self, extent: &Extent) -> bool {
        let at = self.at();
        self.decide(|view| pause(view, extent, "lunch", at))
    }

    pub(crate) fn scale(&mut self, name: &str, to: Option<u32>) -> bool {
        let at = self.at();
        self.decide(|view| scale(view, &agent(name), to, "a rush", at))
    }

    pub(crate) fn resume(&mut self, extent: &Extent) -> bool {
        let at = self.at();
        self.decide(|view| resume(view, extent, at))
    }

    /// Decides a tick, losing those in the way that are dead, as `coord` does.
    pub(crate) fn fire(&mut self, name: &str, nominal: u64, overlap: Overlap, caps: Caps) -> Fired {
        let nominal = wall(nominal);
        let offer = self.offer(name, Trigger::Cron { nominal });
        let tick = Tick { agent: agent(name), nominal, offer, overlap };
        let mut seen_alive: Vec<Slot> = Vec::new();
        loop {
            match self.decide(|view| fire(view, &tick, caps, ROOM, &seen_alive)) {
                Fired::Occupied(slots) => {
                    let living = slots.into_iter().filter(|slot| self.lose(&slot.run).is_none());
                    seen_alive = living.collect();
                }
                decided => return decided,
            }
        }
    }

    pub(crate) fn say(&mut self, run: &RunId, word: Word) -> Heard {
        let session = self.session_of(run);
        self.decide(|view| speak(view, run, &session, &word))
    }

    pub(crate) fn ask_to_end(&mut self, run: &RunId) -> Asked {
        self.decide(|view| kill(view, run, "enough"))
    }

    pub(crate) fn speak_from_another_session(&mut self, run: &RunId, word: Word) -> Heard {
        self.decide(|view| speak(view, run, &"stranger".into(), &word))
    }

    pub(crate) fn job(&self, id: &JobId) -> Job {
        match self.rows().remove(&RowId::Job(id.clone())) {
            Some(Row::Job(job)) => job,
            other => panic!("{id} is {other:?}"),
        }
    }

    pub(crate) fn run(&self, id: &RunId) -> Run {
        match self.rows().remove(&RowId::Run(id.clone())) {
            Some(Row::Run(run)) => run,
            other => panic!("{id} is {other:?}"),
        }
    }

    fn session_of(&self, run: &RunId) -> SessionId {
        self.run(run).session
    }

    pub(crate) fn session_exists(&self, run: &RunId) -> bool {
        self.view.sessions.get(&self.session_of(run)).is_some_and(|seen| seen.record.is_some())
    }

    pub(crate) fn waiting(&self, name: &str) -> u32 {
        match self.rows().remove(&RowId::Line(agent(name))) {
            Some(Row::Line(line)) => line.waiting,
            _ => 0,
        }
    }

    pub(crate) fn undone(&self) -> Vec<JobId> {
        let rows = self.rows();
        rows.keys()
            .filter_map(|id| if let RowId::Undone(_, job) = id { Some(job.clone()) } else { None })
            .collect()
    }

    pub(crate) fn skips(&self) -> usize {
        let is_skip =
            |row: &&Row| matches!(row, Row::History(event) if matches!(event.what, What::Skipped { .. }));
        self.rows().values().filter(is_skip).count()
    }
}
