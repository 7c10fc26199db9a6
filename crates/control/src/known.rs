//! What counts of a project, of what runs could have made: written down by its daemon, so that the next one knows, and
//! every command that reads the project itself.

use std::path::PathBuf;

use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_project::newcomers::{Definitions, Newcomers};
use serde::{Deserialize, Serialize};

use crate::place::Place;

/// What a daemon wrote down.
#[derive(Default, Serialize, Deserialize)]
struct Known {
    definitions: Definitions,
    /// Whether no run was left when it was written.
    is_idle: bool,
}

/// Whether runs may be under way when it is written down what counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Runs {
    /// They may.
    UnderWay,
    /// None is left.
    Over,
}

/// Loads a project as its daemon has it.
pub fn load(folder: &Folder) -> Loaded {
    let known = read(&Place::of(folder.path()));
    known.map_or_else(
        || Loaded::load(folder),
        |known| Loaded::load_after(folder, known.definitions, Newcomers::Taken),
    )
}

/// Loads a project for its daemon, which starts. What appeared while runs may have been under way without a daemon is held
/// back.
pub fn load_at_start(folder: &Folder) -> Loaded {
    match read(&Place::of(folder.path())) {
        Some(Known { definitions, is_idle: false }) => {
            Loaded::load_after(folder, definitions, Newcomers::HeldBack)
        }
        Some(Known { definitions, is_idle: true }) => {
            Loaded::load_after(folder, definitions, Newcomers::Taken)
        }
        None => Loaded::load(folder),
    }
}

/// Writes down what counts. That it can't be is no reason to stop a fleet.
pub fn save(place: &Place, definitions: &Definitions, runs: Runs) {
    let known = Known { definitions: definitions.clone(), is_idle: runs == Runs::Over };
    let text = serde_json::to_vec_pretty(&known).unwrap_or_default();
    if let Err(error) = place.write_private(&path(place), &text) {
        tracing::warn!(%error, "could not write down what counts of the project");
    }
}

fn read(place: &Place) -> Option<Known> {
    serde_json::from_slice(&std::fs::read(path(place)).ok()?).ok()
}

fn path(place: &Place) -> PathBuf {
    place.root().join("definitions.json")
}
