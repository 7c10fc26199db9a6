//! The command line of MCP.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct McpArgs {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum McpCommand {
    /// Tell the agent programs of this machine about this server, in their own configuration files
    #[command(after_help = INSTALL_EXAMPLES)]
    Install(InstallArgs),
}

#[derive(Args, Debug)]
pub(crate) struct InstallArgs {
    /// The project, or a folder in it
    pub(crate) dir: Option<PathBuf>,
    /// Only show what would be written
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Only this program, found or not; can be given several times
    #[arg(long, value_name = "NAME", value_enum)]
    pub(crate) client: Vec<ClientName>,
}

/// An agent program that speaks MCP.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum ClientName {
    /// Claude Code
    Claude,
    /// OpenAI Codex
    Codex,
    /// Gemini CLI
    Gemini,
    /// Qwen Code
    Qwen,
    /// opencode
    Opencode,
    /// goose
    Goose,
    /// GitHub Copilot CLI
    Copilot,
}

pub(super) const MCP_EXAMPLES: &str = "\
Inside a run it serves the run's own tools: locks, calls, reports. Agent programs that are run by a preset start it
themselves. Outside of a run it serves the tools of operators for a project: looking at its fleet, and steering it, with
the rights of whoever starts it. Ends when its input does. Exit codes: 0 the other side is gone, 3 no token of a run, 5 what
came in is not MCP, 6 neither inside a run nor in a project.

Examples:
  bell mcp
  bell mcp install --dry-run
  claude --mcp-config '{\"mcpServers\": {\"bell\": {\"command\": \"bell\", \"args\": [\"mcp\"]}}}'";

const INSTALL_EXAMPLES: &str = "\
Writes into the project's folder where a program reads its configuration there (claude, codex, gemini, qwen, opencode), else
into the user's (goose, copilot). What is in a file stays as it is; a file that can't be read is left alone. No key is
written: the programs start bell mcp, which has the rights of their user. Exit codes: 0 done, 4 a file was left alone.

Examples:
  bell mcp install
  bell mcp install --dry-run
  bell mcp install --client claude --client codex";
