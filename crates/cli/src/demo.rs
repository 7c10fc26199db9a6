//! `bell demo`: the tour. Real processes on a real store, in a folder that is removed afterwards.
//!
//! Every line it tells is checked: it says so only after it has happened, and a demonstration in which
//! anything else happens ends with exit code 1.
//!
//! | module | what is in it |
//! | --- | --- |
//! | `fleet` | the scenes with a daemon and its agents |
//! | `site` | their project: its files, its daemon, its commands |
//! | `script` | the scenes with processes that share locks and nothing else |
//! | `cast` | a process of the story, as the demonstration sees it |
//! | `role` | the same process from the inside |

mod cast;
mod fleet;
mod role;
mod script;
mod site;

use std::path::Path;
use std::time::Duration;

use bell_api::exit;
use bell_coord::Coord;
use bell_project::stores::{ChosenStore, Origin};
use serde::Serialize;

use crate::answer::Refusal;
use crate::interrupt::{Interrupts, Stop};
use crate::open::{Access, Scene};
use crate::say::{Format, Say};

use script::Played;
use site::Patience;

pub(crate) use role::actor;

/// No scene takes longer than a few seconds; this only keeps a broken one from hanging.
const ALL_WITHIN: Duration = Duration::from_secs(60);

/// What has been told so far.
pub(crate) struct Story {
    say: Say,
    steps: Vec<Step>,
}

/// A scene and what happened in it.
#[derive(Serialize)]
struct Step {
    title: &'static str,
    told: Vec<String>,
    passed: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    passed: bool,
    steps: &'a [Step],
    #[serde(skip_serializing_if = "Option::is_none")]
    went_wrong: Option<&'a str>,
}

/// Plays the story. Answers the exit code.
pub(crate) async fn demo(say: &Say) -> Result<u8, Refusal> {
    let folder = tempfile::Builder::new().prefix("bell-demo-").tempdir().map_err(|error| {
        Refusal::unavailable(
            format!("could not create a folder: {error}"),
            "Set TMPDIR to a folder that can be written.",
        )
    })?;
    let mut interrupts = Interrupts::listen()?;
    let mut story = Story { say: say.clone(), steps: Vec::new() };
    let url = format!("sqlite:{}", folder.path().join("bell.db").display());
    let scene = Scene::new(say, ChosenStore { url: url.clone(), origin: Origin::Flag }, None);
    let opened = scene.open(Access::Write).await?;
    let mut stage = Stage { story: &mut story, coord: &opened.coord, url: &url, folder: folder.path() };
    match stage.play(&mut interrupts).await {
        Ok(played) => Ok(story.end(played)),
        Err(stop) => Ok(stop.exit()),
    }
}

/// Where the story is played.
struct Stage<'a> {
    story: &'a mut Story,
    coord: &'a Coord,
    url: &'a str,
    folder: &'a Path,
}

impl Stage<'_> {
    /// Plays everything. Whatever comes of it, nothing that was started is left behind.
    async fn play(&mut self, interrupts: &mut Interrupts) -> Result<Played, Stop> {
        let begun = fleet::begin(self.coord, self.folder, self.url);
        let (mut site, due) = match unless_told(interrupts, begun).await? {
            Ok(begun) => begun,
            Err(what) => return Ok(Err(what)),
        };
        let fleet = within(fleet::play(self.story, self.coord, &site, &due));
        let played = unless_told(interrupts, fleet).await;
        let patience = if matches!(played, Ok(Ok(()))) { Patience::LetFinish } else { Patience::None };
        let has_stopped = site.stop(patience).await;
        if let Err(what) = played? {
            return Ok(Err(what));
        }
        if !has_stopped {
            return Ok(Err("the daemon should have stopped when it was told to".to_owned()));
        }
        self.story.tell("the daemon is told to stop, and leaves nothing behind".to_owned());
        let locks = within(script::play(self.story, self.coord, self.url, self.folder));
        unless_told(interrupts, locks).await
    }
}

async fn unless_told<T>(interrupts: &mut Interrupts, scenes: impl Future<Output = T>) -> Result<T, Stop> {
    tokio::select! {
        played = scenes => Ok(played),
        stop = interrupts.next() => Err(stop),
    }
}

async fn within(scenes: impl Future<Output = Played>) -> Played {
    let played = tokio::time::timeout(ALL_WITHIN, scenes).await;
    played.unwrap_or_else(|_| Err("it took too long".to_owned()))
}

impl Story {
    /// Begins a scene.
    fn scene(&mut self, title: &'static str) {
        self.end_scene();
        self.steps.push(Step { title, told: Vec::new(), passed: false });
        self.print(&format!("{}. {title}", self.steps.len()));
    }

    /// Tells what has just happened.
    fn tell(&mut self, line: String) {
        self.print(&format!("   ✓ {line}"));
        if let Some(step) = self.steps.last_mut() {
            step.told.push(line);
        }
    }

    fn end_scene(&mut self) {
        if let Some(step) = self.steps.last_mut() {
            step.passed = true;
        }
    }

    fn end(mut self, result: Result<(), String>) -> u8 {
        let went_wrong = result.err();
        match &went_wrong {
            None => {
                self.end_scene();
                self.print("All of it happened as told. Next: bell init fleet && cd fleet && bell up");
            }
            Some(what) => self.print(&format!("   ✗ {what}")),
        }
        if self.say.format() == Format::Json {
            let report = Report {
                passed: went_wrong.is_none(),
                steps: &self.steps,
                went_wrong: went_wrong.as_deref(),
            };
            let _ = self.say.answer(&report, String::new);
        }
        if went_wrong.is_none() { exit::OK } else { exit::CONFLICT }
    }

    fn print(&self, line: &str) {
        if self.say.format() == Format::Plain {
            let _ = self.say.answer(&(), || line.to_owned());
        }
    }
}
