//! The command line of `bell check` and `bell config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    /// The project, or a folder in it
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub(crate) struct InitArgs {
    /// The folder of the project, created if it is missing
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

pub(super) const INIT_EXAMPLES: &str = "\
Two agents that need no key and no network: one on a schedule, one that takes a lock. Nothing that is there is
overwritten.

Examples:
  bell init fleet && cd fleet && bell up";

#[derive(Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// Show every setting, and which file and line it comes from
    #[command(after_help = SHOW_EXAMPLES)]
    Show(ShowConfigArgs),
    /// Print the JSON Schema of the settings, for editors
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema {
        /// Of an agent's settings instead of the project's
        #[arg(long)]
        agent: bool,
    },
}

#[derive(Args, Debug)]
pub(crate) struct ShowConfigArgs {
    /// The settings of this agent instead of the project's
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
}

pub(super) const CHECK_EXAMPLES: &str = "\
Everything that is wrong is told, each as file:line:column, with what to do about it. Programs, presets, users and
secrets are looked for on this machine. A warning does not count as an error.

Exit codes: 0 nothing is wrong, 4 something is.

Examples:
  bell check
  bell check projects/triage --json";

pub(super) const CONFIG_EXAMPLES: &str = "\
Examples:
  bell config show --agent triage
  bell config schema > bell.schema.json";

const SHOW_EXAMPLES: &str = "\
A setting comes from default, config.toml, the agent's SKILL.md, or the config.toml beside it. Secrets are set or
unset; their values are never shown.

Examples:
  bell config show
  bell config show --agent triage --json";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  bell config schema > bell.schema.json
  bell config schema --agent";
