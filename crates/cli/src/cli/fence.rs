//! The command line of `bell fence`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

#[derive(Subcommand, Debug)]
pub(crate) enum FenceCommand {
    /// Replace a file by what stands on stdin, unless a later holder has written it
    #[command(after_help = WRITE_EXAMPLES)]
    Write(WriteArgs),
    /// Push branches to a git remote, unless a later holder has pushed
    #[command(after_help = PUSH_EXAMPLES)]
    Push(PushArgs),
    /// Show the highest fence that a file, or a resource on a git remote, has seen
    #[command(after_help = SEEN_EXAMPLES)]
    Show(ShowArgs),
    /// Serve values that can be written by HTTP, each guarded by its fence: for trying it out
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
}

#[derive(Args, Debug)]
pub(crate) struct WriteArgs {
    /// The file to replace
    pub(crate) path: PathBuf,
    /// The fence of the lock that guards the file
    #[arg(long, value_name = "N", env = "BELL_LOCK_FENCE")]
    pub(crate) fence: u64,
}

#[derive(Args, Debug)]
pub(crate) struct PushArgs {
    /// The name of a remote, or its URL
    pub(crate) remote: String,
    /// What to push, as for git push: main, HEAD:main, :old
    #[arg(required = true)]
    pub(crate) refspec: Vec<String>,
    /// What the fence is a fence of: the key of the lock
    #[arg(long, value_name = "KEY")]
    pub(crate) resource: String,
    /// The fence of the lock that guards it
    #[arg(long, value_name = "N", env = "BELL_LOCK_FENCE")]
    pub(crate) fence: u64,
    /// Set the branches, also if commits are lost, unless somebody moves them at the same time
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The guarded file
    #[arg(required_unless_present = "git", conflicts_with = "git")]
    pub(crate) path: Option<PathBuf>,
    /// Look on this git remote instead
    #[arg(long, value_name = "REMOTE", requires = "resource")]
    pub(crate) git: Option<String>,
    /// What the fence is a fence of
    #[arg(long, value_name = "KEY", requires = "git")]
    pub(crate) resource: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 is any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7777")]
    pub(crate) listen: String,
    /// Listen on an address that other machines reach, though nobody is asked who they are
    #[arg(long)]
    pub(crate) public: bool,
}

pub(super) const FENCE_EXAMPLES: &str = "\
Examples:
  bell lock run file:///srv/report -- sh -c 'make-report | bell fence write /srv/report'
  bell lock run git://acme/site -- bell fence push origin main --resource git://acme/site
  bell fence show /srv/report
  bell fence serve";

const WRITE_EXAMPLES: &str = "\
The content is replaced whole or not at all, and the fence is remembered beside the file. A write whose
fence is lower than one seen before is refused: outcome stale, exit code 7.

Examples:
  make-report | bell fence write report.txt --fence 12
  bell lock run file:///srv/report -- sh -c 'make-report | bell fence write /srv/report'";

const PUSH_EXAMPLES: &str = "\
The fence is remembered on the remote, under refs/bell/fences/, and moves in one atomic step with the
branches. A push whose fence is lower than one seen there is refused: outcome stale, exit code 7. Otherwise
branches keep to git's own rules. A plain git push is not guarded.

Examples:
  bell fence push origin main --resource git://acme/site --fence 12
  bell lock run git://acme/site -- bell fence push origin HEAD:main --resource git://acme/site";

const SEEN_EXAMPLES: &str = "\
Examples:
  bell fence show report.txt
  bell fence show report.txt --json
  bell fence show --git origin --resource git://acme/site";

const SERVE_EXAMPLES: &str = "\
PUT /fenced/KEY with the header X-Fence stores a value with its fence; GET answers with both. The key is
percent-encoded. A write whose fence is lower than one seen before is refused with 412. TERM or INT ends it.

Examples:
  bell fence serve --listen 127.0.0.1:7777
  curl -X PUT -H 'X-Fence: 12' --data v2 http://127.0.0.1:7777/fenced/deploy:%2F%2Fapi-prod";
