//! The state of the folder as this process knows it: an image, and the place in the journal that it stands at.
//!
//! Following the head is cheap: only what was appended since is read. The image never holds anything that
//! the head does not vouch for, so whoever reads it sees nothing that a power cut could take back.

use std::fs::File;
use std::sync::Arc;

use bell_store::record::{Name, Revision};
use bell_store::{Error, Kind, Result};

use crate::batch::{Batch, Change, Found, Nonce};
use crate::dir::Dir;
use crate::fault;
use crate::head::Head;
use crate::image::Image;
use crate::journal::{self, Batches, START_BYTES, Start};
use crate::lock::drop_cached;

/// Between whom the folder is shared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// Processes of one machine: its kernel shows all of them the same bytes.
    Host,
    /// Machines: each keeps copies, and asks the server anew only when a file is locked.
    Network,
}

/// What following the head has brought.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// These records changed; none, if the list is empty.
    Names(Vec<Name>),
    /// Anything may have changed.
    Everything,
}

/// The state as this process knows it.
#[derive(Debug)]
pub(crate) struct View {
    dir: Arc<Dir>,
    reach: Reach,
    image: Image,
    place: Option<Place>,
    /// The highest revision ever seen here: the store must not fall behind it.
    floor: Revision,
}

#[derive(Debug)]
struct Place {
    journal: Arc<File>,
    generation: u64,
    offset: u64,
    nonce: Nonce,
}

impl View {
    /// Knows nothing yet.
    pub(crate) fn new(dir: Arc<Dir>, reach: Reach) -> Self {
        Self { dir, reach, image: Image::default(), place: None, floor: 0 }
    }

    /// What is stored, as far as it was followed.
    pub(crate) fn image(&self) -> &Image {
        &self.image
    }

    /// Brings the image to where the head is.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if what the head vouches for is not there, [`Kind::Rewound`] if it is behind what was seen, or
    /// those of reading.
    pub(crate) fn follow(&mut self, head: &Head) -> Result<News> {
        if head.revision < self.floor {
            return Err(went_back(self.floor, head.revision));
        }
        let is_here = self.place.as_ref().is_some_and(|place| place.generation == head.generation);
        let news = if is_here { self.read_on(head) } else { self.load(head) };
        if news.is_err() {
            self.forget();
        }
        self.floor = self.image.revision.max(self.floor);
        news
    }

    /// Forgets everything: the next look reads it all from the disk.
    pub(crate) fn forget(&mut self) {
        self.place = None;
        self.image = Image::default();
    }

    /// The journal, for appending to it or looking at its length.
    ///
    /// # Errors
    /// Those of opening it.
    pub(crate) fn journal(&mut self, head: &Head) -> Result<Arc<File>> {
        match &mut self.place {
            Some(place) if self.reach == Reach::Host => Ok(Arc::clone(&place.journal)),
            Some(place) => {
                place.journal = open(&self.dir, self.reach, head.generation)?;
                Ok(Arc::clone(&place.journal))
            }
            None => open(&self.dir, self.reach, head.generation),
        }
    }

    /// Takes in a batch that this process has just appended and that `head` vouches for. The reading thread
    /// may have found it in the journal already.
    pub(crate) fn take_in(&mut self, batch: Batch, head: &Head) {
        if let Some(place) = self.place.as_mut().filter(|place| place.offset < head.length) {
            place.offset = head.length;
            place.nonce = head.nonce;
            self.image.apply(batch);
            self.floor = self.image.revision.max(self.floor);
        }
    }

    /// Goes over to another journal with the same contents.
    ///
    /// # Errors
    /// Those of opening it.
    pub(crate) fn move_to(&mut self, head: &Head) -> Result<()> {
        let journal = open(&self.dir, self.reach, head.generation)?;
        let (generation, offset, nonce) = (head.generation, head.length, head.nonce);
        self.place = Some(Place { journal, generation, offset, nonce });
        Ok(())
    }

    fn load(&mut self, head: &Head) -> Result<News> {
        self.forget();
        let journal = open(&self.dir, self.reach, head.generation)?;
        let start = Start::read(&journal)?;
        if start.generation != head.generation {
            return Err(journal::damaged(0));
        }
        self.image = Image::starting_at(start.revision, start.now);
        let (generation, offset) = (head.generation, START_BYTES as u64);
        self.place = Some(Place { journal, generation, offset, nonce: Nonce::default() });
        self.read_to(head)?;
        Ok(News::Everything)
    }

    fn read_on(&mut self, head: &Head) -> Result<News> {
        let Some(place) = &mut self.place else { return self.load(head) };
        if self.reach == Reach::Network && place.offset != head.length {
            place.journal = open(&self.dir, self.reach, head.generation)?;
        }
        self.read_to(head).map(News::Names)
    }

    fn read_to(&mut self, head: &Head) -> Result<Vec<Name>> {
        let mut names = Vec::new();
        let Some(place) = &mut self.place else { return Ok(names) };
        let mut batches = Batches::between(&place.journal, place.offset, head.length);
        loop {
            match batches.next()? {
                Found::Batch(batch, _) if self.image.is_followed_by(&batch) => {
                    place.offset = batches.offset;
                    place.nonce = batch.nonce;
                    names.extend(batch.changes.iter().filter_map(name_of).cloned());
                    self.image.apply(batch);
                }
                Found::Batch(..) | Found::Damage => return Err(journal::damaged(place.offset)),
                Found::End => break,
            }
        }
        let is_whole = place.offset == head.length && place.nonce == head.nonce;
        if is_whole && self.image.revision == head.revision {
            Ok(names)
        } else {
            Err(missing(head, place.offset))
        }
    }
}

/// The records that a batch changes.
pub(crate) fn names_of(batch: &Batch) -> Vec<Name> {
    batch.changes.iter().filter_map(name_of).cloned().collect()
}

fn name_of(change: &Change) -> Option<&Name> {
    match change {
        Change::Put(name, _) | Change::Delete(name) => Some(name),
        Change::Epoch(_) => None,
    }
}

/// The journal, with what other machines have written to it.
fn open(dir: &Dir, reach: Reach, generation: u64) -> Result<Arc<File>> {
    let name = journal::name(generation);
    let absent = || fault::corrupt(format!("open the journal: there is no file {name}"));
    let journal = dir.find(&name)?.ok_or_else(absent)?;
    if reach == Reach::Network {
        drop_cached(&journal).map_err(|error| fault::of_io(error, "read the journal anew"))?;
    }
    Ok(Arc::new(journal))
}

fn missing(head: &Head, offset: u64) -> Error {
    let (length, revision) = (head.length, head.revision);
    fault::corrupt(format!(
        "read the journal: it should have {length} bytes up to revision {revision}, and is sound for {offset} of them"
    ))
}

fn went_back(floor: Revision, revision: Revision) -> Error {
    let message = format!(
        "use the store: it went back in time: revision {floor} was seen, and now it is at {revision}"
    );
    Error::new(Kind::Rewound, message).hint(
        "Bring the newest copy back, or run bell store raise-epoch: fences then go on above all that were given.",
    )
}
