//! The short commands that projects of Action Llama use, each by its own name.

use clap::{Args, Parser, Subcommand};

/// A call by a short name.
#[derive(Parser, Debug)]
#[command(multicall = true, version)]
pub(crate) struct ShortCall {
    #[command(subcommand)]
    pub(crate) command: Short,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Short {
    /// Take a lock, without waiting
    #[command(name = "rlock", after_help = RLOCK_EXAMPLES)]
    Lock(ShortKey),
    /// Give a lock back
    #[command(name = "runlock", after_help = RUNLOCK_EXAMPLES)]
    Unlock(ShortKey),
    /// Make a lock last its full time again, from now
    #[command(name = "rlock-heartbeat", after_help = HEARTBEAT_EXAMPLES)]
    Heartbeat(ShortKey),
    /// Ask for this run to be run again, if it was started by a schedule or by hand
    #[command(name = "al-rerun", after_help = RERUN_EXAMPLES)]
    Rerun,
    /// Say what this run is doing
    #[command(name = "al-status", after_help = STATUS_EXAMPLES)]
    Status {
        /// The words
        #[arg(required = true)]
        text: Vec<String>,
    },
    /// Give a value back to whoever called this run
    #[command(name = "al-return", after_help = RETURN_EXAMPLES)]
    Return {
        /// The value; without one it is read from stdin
        value: Vec<String>,
    },
    /// End this run, with every process of it
    #[command(name = "al-exit", after_help = EXIT_EXAMPLES)]
    Exit {
        /// The exit code of the run
        #[arg(default_value_t = 15)]
        code: u8,
    },
    /// Call another agent, with what is on stdin as the context
    #[command(name = "al-subagent", after_help = SUBAGENT_EXAMPLES)]
    Subagent {
        /// The agent to call
        agent: String,
    },
    /// Show where a call stands
    #[command(name = "al-subagent-check", after_help = CHECK_EXAMPLES)]
    Check {
        /// The call, as al-subagent answered it
        #[arg(value_name = "CALL_ID")]
        call: String,
    },
    /// Wait until calls are over
    #[command(name = "al-subagent-wait", after_help = WAIT_EXAMPLES)]
    Wait(ShortWait),
}

#[derive(Args, Debug)]
pub(crate) struct ShortKey {
    /// What to lock, as scheme://name
    #[arg(value_name = "RESOURCE_KEY")]
    pub(crate) key: String,
}

#[derive(Args, Debug)]
pub(crate) struct ShortWait {
    /// The calls, as al-subagent answered them
    #[arg(value_name = "CALL_ID", required = true)]
    pub(crate) calls: Vec<String>,
    /// How long to wait at the most, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    pub(crate) timeout: u32,
}

const RLOCK_EXAMPLES: &str = "\
Answers {\"ok\":true}, or {\"ok\":false} with the holder: then skip it and go on with something else. Locks end with the run.

Exit codes: 0 taken, 1 held by another or a deadlock, 3 not authorised, 4 not a key, 5 the store does not answer, 6 nobody
answers, 9 usage.

Examples:
  rlock github://acme/app/issues/42";

const RUNLOCK_EXAMPLES: &str = "\
Exit codes: 0 given back, 1 held by another, 2 not held, and as for rlock.

Examples:
  runlock github://acme/app/issues/42";

const HEARTBEAT_EXAMPLES: &str = "\
Exit codes: 0 renewed, 1 held by another, 2 not held, and as for rlock.

Examples:
  rlock-heartbeat github://acme/app/issues/42";

const RERUN_EXAMPLES: &str = "\
Examples:
  al-rerun";

const STATUS_EXAMPLES: &str = "\
Examples:
  al-status 'reviewing PR 42'";

const RETURN_EXAMPLES: &str = "\
Examples:
  al-return 'looks good'
  make report | al-return";

const EXIT_EXAMPLES: &str = "\
Usual codes: 10 credentials, 11 permission, 12 rate limit, 13 configuration, 14 dependency, 15 unrecoverable, 16 aborted.

Examples:
  al-exit
  al-exit 12";

const SUBAGENT_EXAMPLES: &str = "\
Answers {\"ok\":true,\"callId\":\"…\"} once the call is stored; a busy agent queues it.

Examples:
  echo 'Review PR 42 on acme/app' | al-subagent reviewer";

const CHECK_EXAMPLES: &str = "\
Answers {\"status\":\"pending\"}, \"running\", \"completed\" with returnValue, or \"error\" with errorMessage.

Examples:
  al-subagent-check 01a1e23044dc70d8b513fe9594f1c173";

const WAIT_EXAMPLES: &str = "\
Answers one object with an entry for each call. Exit codes: 0 all are over, 2 one is not known, 8 the time is up.

Examples:
  al-subagent-wait 01a1e23044dc70d8b513fe9594f1c173 --timeout 600";
