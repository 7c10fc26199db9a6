//! A project in a folder of its own for each test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use bell_project::agent::Agent;
use bell_project::folder::Folder;
use bell_project::load::Loaded;
use bell_project::name::AgentName;

pub(crate) struct Project {
    folder: tempfile::TempDir,
}

impl Project {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A project with one agent, whose frontmatter has these lines beside the needed ones.
    pub(crate) fn with_agent(lines: &str) -> Self {
        let project = Self::new();
        project.agent("a", lines);
        project
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn mode(&self, name: &str, mode: u32) {
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(mode)).unwrap();
    }

    /// An agent that runs `true`, with more lines in its frontmatter from line 5 on.
    pub(crate) fn agent(&self, name: &str, lines: &str) {
        self.agent_in(&format!("agents/{name}"), name, lines);
    }

    /// The same in this folder.
    pub(crate) fn agent_in(&self, folder: &str, name: &str, lines: &str) {
        self.write(
            &format!("{folder}/SKILL.md"),
            format!("---\nname: {name}\ndescription: Does it.\nrun: [\"true\"]\n{lines}\n---\nDo it.\n"),
        );
    }

    pub(crate) fn open(&self) -> Folder {
        Folder::open(self.folder.path()).unwrap()
    }

    pub(crate) fn load(&self) -> Loaded {
        Loaded::load(&self.open())
    }

    /// The agent, of a project in which nothing is wrong.
    pub(crate) fn only(&self, name: &str) -> Arc<Agent> {
        let loaded = self.load();
        assert_eq!(said(&loaded), Vec::<String>::new());
        Arc::clone(&loaded.agents[&self::name(name)])
    }
}

pub(crate) fn name(text: &str) -> AgentName {
    AgentName::parse(text).unwrap()
}

/// Everything that is wrong, one line each.
pub(crate) fn said(loaded: &Loaded) -> Vec<String> {
    loaded.problems.iter().map(ToString::to_string).collect()
}
