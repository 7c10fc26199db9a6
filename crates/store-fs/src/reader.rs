//! The reading thread: brings the image up to date once for all who wait, and answers from it.
//!
//! Within one machine it takes no lock and waits for no writer: the head vouches only for what is durable. Over a
//! network it locks with the other readers, since that is when the machine asks the server anew.

use std::fs::File;
use std::sync::{Arc, MutexGuard};

use bell_store::Result;
use bell_store::record::{Name, Snapshot, Timestamp};
use tokio::sync::oneshot;

use crate::fault;
use crate::head::Head;
use crate::image::Image;
use crate::lock::Lock;
use crate::view::{Reach, View};
use crate::writer::Shared;

/// New journals that may begin between reading the head and opening the journal.
const MAX_TRIES: u32 = 10;

/// What is asked.
#[derive(Debug)]
pub(crate) enum Question {
    /// Those of these records that exist.
    Read(Vec<Name>),
    /// A page of the records that start so.
    Scan {
        /// How their names start.
        prefix: String,
        /// The first name of the page.
        from: String,
        /// How many at the most.
        limit: usize,
    },
    /// Nothing: those who wait for changes are to be told of them.
    Look,
}

/// A question on its way to the reading thread.
pub(crate) struct Ask {
    question: Question,
    reply: oneshot::Sender<Result<Snapshot>>,
}

impl Ask {
    /// A question, and where its answer arrives.
    pub(crate) fn new(question: Question) -> (Self, oneshot::Receiver<Result<Snapshot>>) {
        let (reply, answer) = oneshot::channel();
        (Self { question, reply }, answer)
    }
}

/// What the reading thread works with.
pub(crate) struct Reader {
    shared: Arc<Shared>,
    lock: Lock,
}

impl Reader {
    /// A reader with a lock of its own.
    pub(crate) fn new(shared: Arc<Shared>, lock: Lock) -> Self {
        Self { shared, lock }
    }

    /// Answers all that wait.
    pub(crate) fn answer_all(&mut self, asked: Vec<Ask>) {
        let refreshed = self.refresh();
        for Ask { question, reply } in asked {
            let answer = match &refreshed {
                Ok((view, now)) => Ok(answer(&question, view.image(), *now)),
                Err(error) => Err(fault::again(error)),
            };
            // Nobody waits for the answer any more if this fails.
            let _ = reply.send(answer);
        }
    }

    fn refresh(&self) -> Result<(MutexGuard<'_, View>, Timestamp)> {
        match self.shared.reach {
            Reach::Host => self.follow(self.lock.marker()?),
            Reach::Network => self.follow(self.lock.with_readers()?.marker()),
        }
    }

    fn follow(&self, marker: &File) -> Result<(MutexGuard<'_, View>, Timestamp)> {
        // Held from before the head is read: the writing thread may have gone beyond an older head.
        let mut view = self.shared.view();
        let mut tries = 0;
        loop {
            let head = Head::read_existing(marker)?;
            match view.follow(&head) {
                Ok(news) => {
                    self.shared.tell(&news);
                    let now = self.shared.clock.now(view.image())?;
                    return Ok((view, now));
                }
                // A new journal has begun just now, and the old one is gone.
                Err(_) if tries < MAX_TRIES && Head::read_existing(marker)?.generation != head.generation => {
                    tries += 1
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn answer(question: &Question, image: &Image, now: Timestamp) -> Snapshot {
    match question {
        Question::Read(names) => image.read(names, now),
        Question::Scan { prefix, from, limit } => image.scan(prefix, from, *limit, now),
        Question::Look => Snapshot::default(),
    }
}
