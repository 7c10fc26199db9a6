//! The command line of `bell keys`.

use clap::{Args, Subcommand, ValueEnum};

#[derive(Subcommand, Debug)]
pub(crate) enum KeysCommand {
    /// Make a key, and show it this once
    #[command(after_help = ADD_EXAMPLES)]
    Add(AddKeyArgs),
    /// List the keys: names and what they may do
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Make a key worthless, on every node
    #[command(after_help = REVOKE_EXAMPLES)]
    Revoke {
        /// The key
        name: String,
    },
}

#[derive(Args, Debug)]
pub(crate) struct AddKeyArgs {
    /// What to call it: who or what will use it
    pub(crate) name: String,
    /// What it may do
    #[arg(long, value_enum, default_value_t = KeyRole::Full)]
    pub(crate) role: KeyRole,
}

/// What a key may do.
#[derive(Clone, Copy, ValueEnum, Debug)]
pub(crate) enum KeyRole {
    /// Look
    Read,
    /// Look and act
    Full,
}

pub(super) const KEYS_EXAMPLES: &str = "\
Keys are for programs and people that talk to the gateway of bell up. Whoever can read the store needs none. The first one is
made by bell up, and is in .bell/api-key.

Examples:
  bell keys add grafana --role read
  bell keys list
  bell keys revoke grafana";

const ADD_EXAMPLES: &str = "\
The key goes to stdout, and is kept nowhere: the store has only a hash of it.

Examples:
  bell keys add laptop > laptop.key
  bell keys add grafana --role read --json";

const LIST_EXAMPLES: &str = "\
Examples:
  bell keys list
  bell keys list --json";

const REVOKE_EXAMPLES: &str = "\
It is refused everywhere within a second. Its name is not given again.

Examples:
  bell keys revoke laptop";
