//! Agent programs that speak MCP: how each is told of a server, and where.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cli::ClientName;

/// What the server is called in every configuration.
pub(super) const SERVER: &str = "bell";

/// The form of a configuration file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    Json,
    Toml,
    Yaml,
}

/// How an agent program is told of a server.
pub(super) struct Client {
    /// The command that starts it.
    pub(super) program: &'static str,
    pub(super) file: PathBuf,
    pub(super) form: Form,
    /// The name of the table that servers are in.
    pub(super) table: &'static str,
    /// What stands there for this one.
    pub(super) entry: Value,
}

/// What is needed to say how.
pub(super) struct Scene<'a> {
    /// How the programs call bell.
    pub(super) bell: &'a str,
    /// The project, by its full path.
    pub(super) project: &'a Path,
    /// The user's folder.
    pub(super) home: &'a Path,
    /// Looks into the environment.
    pub(super) variable: &'a dyn Fn(&str) -> Option<PathBuf>,
}

pub(super) const ALL: [ClientName; 7] = [
    ClientName::Claude,
    ClientName::Codex,
    ClientName::Gemini,
    ClientName::Qwen,
    ClientName::Opencode,
    ClientName::Goose,
    ClientName::Copilot,
];

/// A program that reads a file of the project starts the server there; one that reads a file of its user only, anywhere.
pub(super) fn client(name: ClientName, scene: &Scene<'_>) -> Client {
    let Scene { bell, project, home, variable } = scene;
    let here = ["mcp"];
    let there = project.to_string_lossy();
    let anywhere = ["mcp", "--project", &*there];
    let (program, file, form, table, entry) = match name {
        ClientName::Claude => (
            "claude",
            project.join(".mcp.json"),
            Form::Json,
            "mcpServers",
            json!({"type": "stdio", "command": bell, "args": here}),
        ),
        ClientName::Codex => (
            "codex",
            project.join(".codex/config.toml"),
            Form::Toml,
            "mcp_servers",
            json!({"command": bell, "args": here}),
        ),
        // It keeps variables called TOKEN from servers unless they are named; with nothing in them they are as if unset.
        ClientName::Gemini => (
            "gemini",
            project.join(".gemini/settings.json"),
            Form::Json,
            "mcpServers",
            json!({
                "command": bell,
                "args": here,
                "env": {"BELL_URL": "${BELL_URL:-}", "BELL_TOKEN": "${BELL_TOKEN:-}"},
            }),
        ),
        ClientName::Qwen => (
            "qwen",
            project.join(".qwen/settings.json"),
            Form::Json,
            "mcpServers",
            json!({"command": bell, "args": here}),
        ),
        ClientName::Opencode => (
            "opencode",
            project.join("opencode.json"),
            Form::Json,
            "mcp",
            json!({"type": "local", "command": [bell, here[0]], "enabled": true}),
        ),
        ClientName::Goose => (
            "goose",
            variable("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join("goose/config.yaml"),
            Form::Yaml,
            "extensions",
            json!({"name": SERVER, "type": "stdio", "enabled": true, "cmd": bell, "args": anywhere, "envs": {}, "timeout": 60}),
        ),
        ClientName::Copilot => (
            "copilot",
            variable("COPILOT_HOME").unwrap_or_else(|| home.join(".copilot")).join("mcp-config.json"),
            Form::Json,
            "mcpServers",
            json!({"type": "local", "command": bell, "args": anywhere, "tools": ["*"]}),
        ),
    };
    Client { program, file, form, table, entry }
}
