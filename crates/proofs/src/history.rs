//! What every client did and when, on one clock: the machine's time since boot, which all its processes share.
//!
//! A client appends a line for each question before it asks and for each answer before it acts on it. A line is one
//! write to the kernel, so `kill -9` loses none that was written. Nothing is judged here; `check` does that.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use bell_store::clock::boottime;
use serde::{Deserialize, Serialize};

/// A line of a record.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Since boot.
    pub at_us: u64,
    /// Which client.
    pub client: u32,
    /// What happened.
    pub what: What,
}

/// What a line tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A question is about to be asked.
    Asked {
        /// Tells the questions of one client apart.
        op: u64,
        /// Who asks.
        session: String,
        /// About which key; empty for the end of a session, which is about all.
        key: String,
        /// What.
        ask: Ask,
    },
    /// The answer came.
    Answered {
        /// To which question.
        op: u64,
        /// What it says.
        answer: Answer,
    },
    /// Sessions of this client may end from here on: this one, or all if the process goes.
    Gone {
        /// Which session.
        session: Option<String>,
    },
    /// What the client's wall clock shows.
    Clock {
        /// Since 1970.
        wall_ms: u64,
    },
}

/// A question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// For a lease.
    Acquire {
        /// Its length.
        ttl_ms: u64,
        /// How long to queue.
        wait_ms: u64,
    },
    /// For more time.
    Renew {
        /// Of which lease.
        fence: u64,
        /// How much.
        ttl_ms: u64,
    },
    /// To give a lease back.
    Release {
        /// Which.
        fence: u64,
    },
    /// To end the session.
    End,
    /// To write behind the guard.
    Write {
        /// With this.
        fence: u64,
    },
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The lease is the asker's.
    Granted {
        /// Its fence.
        fence: u64,
        /// Until when its holder relies on it.
        deadline_us: u64,
    },
    /// Somebody else has it.
    Busy {
        /// With this fence; `None`: nobody, but others are first in line.
        holder: Option<u64>,
    },
    /// It waited in vain.
    TimedOut,
    /// It lasts longer.
    Renewed {
        /// Until when its holder relies on it.
        deadline_us: u64,
    },
    /// Given back, or the session ended.
    Done,
    /// The lease is not the asker's any more.
    Over,
    /// The guard took the write.
    Accepted,
    /// The guard has seen a higher fence.
    Stale,
    /// Nothing happened: the store said so, or was never asked.
    Refused,
    /// It may have happened.
    Unknown,
}

/// A question with its answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Op {
    /// Which client.
    pub client: u32,
    /// Who asked.
    pub session: String,
    /// About which key.
    pub key: String,
    /// When.
    pub asked_us: u64,
    /// When the answer came; [`u64::MAX`]: none came.
    pub answered_us: u64,
    /// The question.
    pub ask: Ask,
    /// The answer; [`Answer::Unknown`] if none came.
    pub answer: Answer,
}

impl Op {
    /// Fence and deadline, if this gave or prolonged a lease, and its ttl.
    pub fn hold(&self) -> Option<Hold> {
        match (self.ask, self.answer) {
            (Ask::Acquire { ttl_ms, .. }, Answer::Granted { fence, deadline_us }) => {
                Some(Hold { fence, deadline_us, ttl_us: ttl_ms * 1_000 })
            }
            (Ask::Renew { fence, ttl_ms }, Answer::Renewed { deadline_us }) => {
                Some(Hold { fence, deadline_us, ttl_us: ttl_ms * 1_000 })
            }
            _ => None,
        }
    }

    /// The fence, if this gave a lease.
    pub fn grant(&self) -> Option<u64> {
        match self.answer {
            Answer::Granted { fence, .. } => Some(fence),
            _ => None,
        }
    }
}

/// A lease as one answer gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hold {
    /// Its fence.
    pub fence: u64,
    /// Until when its holder relies on it.
    pub deadline_us: u64,
    /// Its length.
    pub ttl_us: u64,
}

/// A write that the guard took, in its own order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Accepted {
    /// To what.
    pub key: String,
    /// With which fence.
    pub fence: u64,
    /// By which client.
    pub client: u32,
}

/// A span of time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Window {
    /// Its start.
    pub from_us: u64,
    /// Its end.
    pub to_us: u64,
}

/// Everything that happened.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In the order of the questions.
    pub ops: Vec<Op>,
    /// From when on each session may end without a word.
    pub gone_us: BTreeMap<String, u64>,
    /// What the guard took.
    pub sink: Vec<Accepted>,
    /// While something was broken on purpose.
    pub fault: Window,
}

impl History {
    /// Puts the lines of all clients together.
    pub fn of(entries: impl IntoIterator<Item = Entry>) -> Self {
        let mut history = Self::default();
        let mut open = BTreeMap::new();
        let mut processes = BTreeMap::new();
        for Entry { at_us, client, what } in entries {
            match what {
                What::Asked { op, session, key, ask } => {
                    open.insert((client, op), history.ops.len());
                    let (answered_us, answer) = (u64::MAX, Answer::Unknown);
                    history.ops.push(Op { client, session, key, asked_us: at_us, answered_us, ask, answer });
                }
                What::Answered { op, answer } => {
                    if let Some(asked) = open.remove(&(client, op)).and_then(|at| history.ops.get_mut(at)) {
                        (asked.answered_us, asked.answer) = (at_us, answer);
                    }
                }
                What::Gone { session: Some(session) } => history.goes(&session, at_us),
                What::Gone { session: None } => {
                    processes.insert(client, at_us);
                }
                What::Clock { .. } => {}
            }
        }
        let of_processes: Vec<_> = history
            .ops
            .iter()
            .filter_map(|op| Some((op.session.clone(), *processes.get(&op.client)?)))
            .collect();
        of_processes.iter().for_each(|(session, at_us)| history.goes(session, *at_us));
        history.ops.sort_by_key(|op| op.asked_us);
        history
    }

    /// The keys that were asked for.
    pub fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> =
            self.ops.iter().map(|op| op.key.as_str()).filter(|key| !key.is_empty()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// What was asked about a key.
    pub fn about<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a Op> + Clone {
        self.ops.iter().filter(move |op| op.key == key)
    }

    /// The earliest moment from which the lease may have ended otherwise than by running out: its release was asked
    /// for, or its session's end, or its process went.
    pub fn may_end_us(&self, session: &str, key: &str, fence: u64) -> u64 {
        let asked = self.ops.iter().filter(|op| op.session == session).filter(|op| match op.ask {
            Ask::Release { fence: given } => given == fence && op.key == key,
            Ask::End => true,
            _ => false,
        });
        let asked = asked.filter(|op| op.answer != Answer::Refused).map(|op| op.asked_us).min();
        asked.unwrap_or(u64::MAX).min(self.gone_us.get(session).copied().unwrap_or(u64::MAX))
    }

    fn goes(&mut self, session: &str, at_us: u64) {
        let gone = self.gone_us.entry(session.to_owned()).or_insert(at_us);
        *gone = at_us.min(*gone);
    }
}

/// Appends to a record.
pub struct Recorder {
    client: u32,
    file: File,
    next: AtomicU64,
}

impl Recorder {
    /// Writes to this file, which may exist.
    ///
    /// # Errors
    /// If it can't be opened.
    pub fn open(path: &Path, client: u32) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { client, file, next: AtomicU64::new(0) })
    }

    /// Writes down a question. Gives it the number that its answer refers to.
    ///
    /// # Errors
    /// If it can't be written: then it must not be asked.
    pub fn asked(&self, session: &str, key: &str, ask: Ask) -> io::Result<u64> {
        let op = self.next.fetch_add(1, Ordering::Relaxed);
        self.write(What::Asked { op, session: session.to_owned(), key: key.to_owned(), ask })?;
        Ok(op)
    }

    /// Writes down an answer.
    ///
    /// # Errors
    /// If it can't be written: then nobody may act on it.
    pub fn answered(&self, op: u64, answer: Answer) -> io::Result<()> {
        self.write(What::Answered { op, answer })
    }

    /// Writes down anything.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self, what: What) -> io::Result<()> {
        let mut line = serde_json::to_vec(&Entry { at_us: now_us(), client: self.client, what })?;
        line.push(b'\n');
        (&self.file).write_all(&line)
    }
}

/// Reads a record. A last line that was cut off is left out.
///
/// # Errors
/// If it can't be read.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let text = std::fs::read_to_string(path)?;
    Ok(text.lines().map_while(|line| serde_json::from_str(line).ok()).collect())
}

/// The time since boot.
pub fn now_us() -> u64 {
    u64::try_from(boottime().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_back_and_a_line_that_was_cut_off_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let recorder = Recorder::open(&path, 3).unwrap();
        let op = recorder.asked("s", "k", Ask::Release { fence: 7 }).unwrap();
        recorder.answered(op, Answer::Done).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"at_us\":").unwrap();
        let entries = read(&path).unwrap();
        assert_eq!(entries.len(), 2);
        let history = History::of(entries);
        assert_eq!((history.ops.len(), history.ops[0].answer, history.ops[0].client), (1, Answer::Done, 3));
    }

    #[test]
    fn a_question_without_an_answer_is_unknown_for_ever() {
        let asked = What::Asked { op: 1, session: "s".into(), key: "k".into(), ask: Ask::End };
        let history = History::of([Entry { at_us: 5, client: 1, what: asked }]);
        assert_eq!((history.ops[0].answer, history.ops[0].answered_us), (Answer::Unknown, u64::MAX));
    }

    #[test]
    fn all_sessions_of_a_process_may_end_when_it_goes() {
        let asked =
            |op, session: &str| What::Asked { op, session: session.into(), key: "k".into(), ask: Ask::End };
        let entry = |at_us, what| Entry { at_us, client: 1, what };
        let history = History::of([
            entry(1, asked(1, "a")),
            entry(2, What::Gone { session: Some("a".into()) }),
            entry(3, asked(2, "b")),
            entry(9, What::Gone { session: None }),
        ]);
        assert_eq!((history.gone_us["a"], history.gone_us["b"]), (2, 9));
    }
}
