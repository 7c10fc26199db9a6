//! What only the daemon itself can do. The gateway knows no daemon: it hands the wish on.

use async_trait::async_trait;

/// How a daemon is to stop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pace {
    /// What runs may finish.
    Gentle,
    /// What runs is ended.
    Now,
}

/// A project as its daemon has just read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reloaded {
    /// Agents that can be run.
    pub agents: usize,
    /// Mistakes in the files.
    pub mistakes: usize,
}

/// What the daemon does when somebody asks for it.
#[async_trait]
pub trait Levers: Send + Sync + 'static {
    /// Begins to stop. Returns at once: whoever asked is answered first.
    fn stop(&self, pace: Pace);

    /// Reads the project's files again, now. `None`: the daemon did not come to it in time.
    async fn reload(&self) -> Option<Reloaded>;
}
