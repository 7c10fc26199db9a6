//! A project to begin with: what `bell init` writes. Its agents need no key and no network, and its `SKILL.md`s
//! pass the Agent Skills validator, so our settings stand under `metadata`.

/// A file of the sample project.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Where it goes, relative to the project.
    pub path: &'static str,
    /// What is in it.
    pub text: &'static str,
    /// The mode it needs.
    pub mode: u32,
}

/// What goes before the settings of a project that root makes for itself: agents run as root only if that is said.
pub const SETTINGS_OF_ROOT: &str = "\
# Agents run as root, since root made this project. To have them run as a user instead, write the user's name here.
user = \"root\"

";

/// Every file of the sample project.
pub const SAMPLES: &[Sample] = &[
    Sample { path: "config.toml", text: include_str!("../templates/config.toml"), mode: 0o644 },
    Sample {
        path: "agents/heartbeat/SKILL.md",
        text: include_str!("../templates/agents/heartbeat/SKILL.md"),
        mode: 0o644,
    },
    Sample {
        path: "agents/heartbeat/run",
        text: include_str!("../templates/agents/heartbeat/run"),
        mode: 0o755,
    },
    Sample {
        path: "agents/desk/SKILL.md",
        text: include_str!("../templates/agents/desk/SKILL.md"),
        mode: 0o644,
    },
    Sample { path: "agents/desk/run", text: include_str!("../templates/agents/desk/run"), mode: 0o755 },
];
