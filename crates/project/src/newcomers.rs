//! What defines a fleet and was not there before: whether it counts.
//!
//! What a project has that defines its fleet is read-only to runs. What is not there can't be: a run that may write in the
//! project could make an agent at its top that is not isolated, say. So what appears while such runs are under way is held
//! back, until an operator has the project read again.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::discover::{AGENTS_FOLDER, Found};
use crate::folder::Folder;
use crate::load::CONFIG_FILE;
use crate::problem::{Place, Problem};

/// The folder of a project's own presets.
pub const PRESETS_FOLDER: &str = "presets";

/// What the project has that defines the fleet, beside the folders of agents at its top.
pub const DEFINITIONS: [&str; 3] = [CONFIG_FILE, AGENTS_FOLDER, PRESETS_FOLDER];

/// Whether what is new counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Newcomers {
    /// It does: no run can have made it. What was held back stays so.
    Taken,
    /// It does not: a run may have made it.
    HeldBack,
    /// It does, and so does what was held back: an operator asks for it.
    Accepted,
}

/// What a project has at its top that defines the fleet, by name.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Definitions {
    /// What counts.
    pub taken: BTreeSet<String>,
    /// What does not count yet.
    pub held_back: BTreeSet<String>,
}

impl Definitions {
    /// Those of a project as it is now, after these.
    pub(crate) fn now(&self, folder: &Folder, found: &[Found], newcomers: Newcomers) -> Self {
        let fixed = DEFINITIONS.into_iter().filter(|name| folder.exists(name).is_ok());
        let mut now = Self::default();
        for name in fixed.chain(found.iter().map(definition)) {
            let takes = match newcomers {
                Newcomers::Taken => !self.held_back.contains(name),
                Newcomers::HeldBack => self.taken.contains(name),
                Newcomers::Accepted => true,
            };
            let names = if takes { &mut now.taken } else { &mut now.held_back };
            names.insert(name.to_owned());
        }
        now
    }

    /// Whether an agent that was found counts.
    pub(crate) fn takes(&self, found: &Found) -> bool {
        !self.held_back.contains(definition(found))
    }

    /// What to tell of what is held back.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        self.held_back.iter().map(|name| {
            let message =
                "it appeared while runs were under way, one of which may have made it: it does not count yet";
            let hint = format!("If it is yours, run `bell reload`; otherwise remove it ({name}).");
            Problem::error(Place::file(name.clone()), message).hint(hint)
        })
    }

    /// Whether these have something that those have not.
    pub(crate) fn are_more_than(&self, before: &Self) -> bool {
        !self.taken.is_subset(&before.taken)
    }
}

/// The part of the project that an agent came with.
fn definition(found: &Found) -> &str {
    found.folder.split('/').next().unwrap_or_default()
}
