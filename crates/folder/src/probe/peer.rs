//! The same file system from two machines at once: what one does, the other must see.
//!
//! Both run this on the same folder. They meet by files in it, take steps together, and tell each other what
//! they saw. No clocks are compared; a step that the other does not take within a minute ends the trial.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bell_store::clock;
use serde::Serialize;

use super::{Finding, Verdict};
use crate::dir::Dir;
use crate::error::{Error, Kind, Result};
use crate::files::{Kernel, Onto};
use crate::lock::{Locked, lock};
use crate::process::{host, nonce};

/// Where the two meet.
const GROUND: &str = ".bell-probe-peer";
/// Names that both try to win.
const CONTESTED: usize = 200;
/// How often one greets the other.
const GREETINGS: usize = 10;
/// How long to wait for the other's next step.
const STEP_PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Who was silent for this long at the meeting point is gone.
const MEETING_SILENCE: Duration = Duration::from_secs(15);

/// What two machines found out together.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Together {
    /// This machine.
    pub host: String,
    /// The other.
    pub peer: String,
    /// What was seen.
    pub findings: Vec<Finding>,
}

/// Tries a folder out together with another machine that does the same, waiting for it as long as `patience`.
///
/// # Errors
/// [`Kind::Busy`] if nobody else comes, or more than one; those of the file system.
pub fn peer(path: &Path, patience: Duration) -> Result<Together> {
    let folder = Dir::open(path, Arc::new(Kernel))?;
    let ground = folder.ensure(GROUND).map_err(folder.fault("make the folder", GROUND))?;
    let mut pair = Pair::meet(&ground, patience)?;
    let tried = pair.try_all();
    let left = pair.leave();
    let findings = tried.and_then(|findings| left.map(|()| findings));
    let findings = findings.map_err(ground.fault("try out together:", ""))?;
    if pair.leads {
        pair.until_the_other_has_left().map_err(ground.fault("try out together:", ""))?;
        super::clear(&folder, GROUND);
    }
    Ok(Together { host: host(), peer: pair.other_host, findings })
}

/// Two that have met.
struct Pair {
    ground: Dir,
    me: String,
    other: String,
    other_host: String,
    /// One of the two prepares what both use.
    leads: bool,
    step: usize,
}

impl Pair {
    fn meet(ground: &Dir, patience: Duration) -> Result<Self> {
        let fault = |error| ground.fault("meet in", "")(error);
        let me = format!("meet-{}", nonce());
        say(ground, &me, &host()).map_err(fault)?;
        let began = clock::boottime();
        let met = loop {
            let others = others(ground, &me).map_err(fault)?;
            match others.as_slice() {
                [other] => break Ok(other.clone()),
                [] if clock::boottime() - began < patience => {}
                [] => {
                    let what = format!("try {} out with another machine: none came", ground.path().display());
                    break Err(Error::new(Kind::Busy, what)
                        .hint("Run the same command on the other machine at the same time."));
                }
                _ => {
                    let what = format!("try {} out: more than two came", ground.path().display());
                    break Err(Error::new(Kind::Busy, what).hint("Let two machines run it, and no others."));
                }
            }
            std::thread::sleep(LOOK_EVERY * 10);
        };
        let other = met.inspect_err(|_| drop(ground.remove(&me)))?;
        let other_host = hear(ground, &other).map_err(fault)?.unwrap_or_default();
        let leads = me < other;
        Ok(Self { ground: ground.clone(), me, other, other_host, leads, step: 0 })
    }

    fn try_all(&mut self) -> io::Result<Vec<Finding>> {
        let mut findings = Vec::new();
        let mut add = |about, (verdict, seen)| findings.push(Finding { about, verdict, seen });
        add("exclusive create, between machines", self.create_race()?);
        add("rename, between machines", self.rename_race()?);
        add("flock, between machines", self.locks()?);
        add("rename over, between machines", self.replacements()?);
        add("folder caching, between machines", self.greetings()?);
        Ok(findings)
    }

    /// Both make the same names; each must be made once.
    fn create_race(&mut self) -> io::Result<(Verdict, String)> {
        self.together("")?;
        let mut mine = 0;
        for number in 0..CONTESTED {
            match self.ground.create(format!("made-{number}")) {
                Ok(_) => mine += 1,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        self.add_up(mine, "names were made")
    }

    /// Both move the same names away; each must be moved once.
    fn rename_race(&mut self) -> io::Result<(Verdict, String)> {
        self.together("")?;
        let mut mine = 0;
        for number in 0..CONTESTED {
            let to = format!("taken-{number}-{}", self.me);
            match self.ground.rename(format!("made-{number}"), &self.ground, to, Onto::Anything) {
                Ok(()) => mine += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.add_up(mine, "renames were won")
    }

    fn add_up(&mut self, mine: usize, what: &str) -> io::Result<(Verdict, String)> {
        let theirs: usize = self.together(&mine.to_string())?.parse().unwrap_or(usize::MAX / 2);
        let seen = format!("{CONTESTED} contested: {mine} {what} here, {theirs} there");
        Ok((if mine + theirs == CONTESTED { Verdict::Safe } else { Verdict::Unsafe }, seen))
    }

    fn locks(&mut self) -> io::Result<(Verdict, String)> {
        let file = self.ground.keep("lock")?;
        let held = if self.leads { lock(&file, Duration::ZERO)? } else { Locked::Yes };
        self.together("")?;
        let tried = if self.leads { Locked::Busy } else { lock(&file, Duration::ZERO)? };
        let theirs = self.together(&format!("{held:?} {tried:?}"))?;
        if self.leads {
            file.unlock()?;
        }
        self.together("")?;
        let freed = if self.leads { Locked::Yes } else { lock(&file, STEP_PATIENCE / 2)? };
        let mine = format!("{held:?} {tried:?}");
        let freed_there = self.together(&format!("{freed:?}"))?;
        let excludes = mine == "Yes Busy" && theirs == "Yes Busy";
        Ok(match (excludes, freed == Locked::Yes && freed_there == "Yes") {
            (true, true) => {
                (Verdict::Safe, "one holds, the other waits, and gets it after a release".to_owned())
            }
            (true, false) => (Verdict::Conditions, "a release is not seen within half a minute".to_owned()),
            (false, _) => (Verdict::Unsafe, "both held the lock at once, or there are no locks".to_owned()),
        })
    }

    /// One replaces a file again and again, the other reads it.
    fn replacements(&mut self) -> io::Result<(Verdict, String)> {
        let write = |ground: &Dir, fill: u8| -> io::Result<()> {
            ground.create("draft")?.write_all(&[fill; 1_024])?;
            ground.rename("draft", ground, "target", Onto::Anything)
        };
        if self.leads {
            write(&self.ground, 0)?;
        }
        self.together("")?;
        let mut broken = String::new();
        for round in 0..CONTESTED {
            if self.leads {
                write(&self.ground, (round % 251) as u8)?;
            } else if let Err(error) = read_whole(&self.ground) {
                broken = error.to_string();
            }
        }
        let theirs = self.together(&broken)?;
        Ok(match (broken.as_str(), theirs.as_str()) {
            ("", "") => (Verdict::Safe, "a reader there sees the old or the new".to_owned()),
            (seen, "") | ("", seen) | (seen, _) => (Verdict::Conditions, format!("a reader saw: {seen}")),
        })
    }

    /// How long it takes until the other sees a new name, there and back.
    fn greetings(&mut self) -> io::Result<(Verdict, String)> {
        let mut longest = Duration::ZERO;
        for _ in 0..GREETINGS {
            let began = clock::boottime();
            self.together("")?;
            longest = longest.max(clock::boottime() - began);
        }
        let seen = format!("a new name was seen there and answered within {} ms", longest.as_millis());
        Ok((if longest < Duration::from_secs(3) { Verdict::Safe } else { Verdict::Conditions }, seen))
    }

    /// Tells the other something and hears what it has to tell.
    fn together(&mut self, mine: &str) -> io::Result<String> {
        self.step += 1;
        let (me, other) = (format!("{}.{}", self.me, self.step), format!("{}.{}", self.other, self.step));
        say(&self.ground, &me, mine)?;
        let began = clock::boottime();
        loop {
            if let Some(heard) = hear(&self.ground, &other)? {
                return Ok(heard);
            }
            if clock::boottime() - began > STEP_PATIENCE {
                return Err(io::Error::other("the other machine takes no further step"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn leave(&mut self) -> io::Result<()> {
        let left = self.together("").map(drop);
        self.ground.remove(&self.me)?;
        left
    }

    /// Who clears the ground before the other has heard the last word leaves it waiting for that.
    fn until_the_other_has_left(&self) -> io::Result<()> {
        let began = clock::boottime();
        let is_there =
            || self.ground.entries().map(|all| all.iter().any(|entry| entry.name == *self.other.as_str()));
        while clock::boottime() - began < STEP_PATIENCE && is_there()? {
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

/// A word appears whole: written aside, then renamed.
fn say(ground: &Dir, name: &str, word: &str) -> io::Result<()> {
    let draft = format!("draft-{}", nonce());
    ground.create(&draft)?.write_all(word.as_bytes())?;
    ground.rename(&draft, ground, name, Onto::Anything)
}

fn hear(ground: &Dir, name: &str) -> io::Result<Option<String>> {
    // Listing revalidates what this machine remembers of the folder.
    if !ground.entries()?.iter().any(|entry| entry.name == *name) {
        return Ok(None);
    }
    let mut word = String::new();
    ground.read(name)?.take(1_024).read_to_string(&mut word)?;
    Ok(Some(word))
}

/// Who else is at the meeting point, and not long gone.
fn others(ground: &Dir, me: &str) -> io::Result<Vec<String>> {
    let clock = ground.ensure("clock")?;
    let now = clock.touch()?;
    let mut others = Vec::new();
    for entry in ground.entries()? {
        let Some(name) = entry.name.to_str() else { continue };
        if !name.starts_with("meet-") || name == me || name.contains('.') {
            continue;
        }
        let seen = ground.look(name)?;
        match seen {
            Some(seen) if now.saturating_sub(seen.changed) > MEETING_SILENCE => ground.remove(name)?,
            Some(_) => others.push(name.to_owned()),
            None => {}
        }
    }
    // Seen again by whoever comes later.
    say(ground, me, &host())?;
    Ok(others)
}

fn read_whole(ground: &Dir) -> io::Result<()> {
    let mut content = Vec::new();
    let mut file: File = ground.read("target")?;
    file.read_to_end(&mut content)?;
    let is_whole = content.len() == 1_024 && content.iter().all(|byte| *byte == content[0]);
    if is_whole { Ok(()) } else { Err(io::Error::other(format!("a mixture of {} bytes", content.len()))) }
}
