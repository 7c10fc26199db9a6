//! The end of a run: what brings it about, and how nothing of it is left.

use std::time::Duration;

use bell_store::clock::boottime;
use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use super::orders::{Order, Orders};
use super::{HOOK_LIMIT, marked, watch};
use crate::cgroup::Group;
use crate::children::{Children, Ended};
use crate::container::{self, Client, Container, ENGINE_LIMIT};
use crate::delegate::{self, Remains};
use crate::exit::{Reason, Resource};
use crate::handle::How;
use crate::hooks::Hooks;
use crate::launch::{Launch, Limits, Privileges};
use crate::stage::{Input, Stage};
use crate::tool::{self, Main};
use crate::{sudo, tree};

/// What outlives the agent's main process was told nothing yet, and gets at most this long to end.
pub(crate) const LEFT_BEHIND_GRACE: Duration = Duration::from_secs(2);

/// How often the deadline of a run that is ending is looked at: it comes nearer at once when the store says that the lease
/// has ended, and timers stand still while the machine sleeps.
const DEADLINE_EVERY: Duration = Duration::from_millis(100);

/// Between two looks at whether KILL was enough.
pub(crate) const KILL_AGAIN: Duration = Duration::from_millis(20);
pub(crate) const KILL_AGAIN_MOST: Duration = Duration::from_secs(1);

/// What an engine still does for a container that is gone, such as giving back its network, gets this long.
const ENGINE_GRACE: Duration = Duration::from_secs(5);

/// A delegate that works has ended its processes by then. Of one that was stopped or killed, another does the work; both
/// together take less than the second that a lease that was lost leaves.
const DELEGATE_LIMIT: Duration = Duration::from_millis(200);

/// What ends a run.
#[derive(Debug)]
pub(super) enum Cause {
    /// The agent's main process ended by itself.
    Ended(delegate::Outcome),
    /// Something else, and with how much patience.
    Other(Reason, How),
}

/// How a run ended, before it is written down.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) reason: Reason,
    pub(super) left_behind: bool,
    pub(super) unconfirmed: Option<String>,
    ended: Option<Ended>,
}

impl Outcome {
    /// An end without a process.
    pub(super) fn of(reason: Reason) -> Self {
        Self { reason, left_behind: false, unconfirmed: None, ended: None }
    }

    /// The main process's exit code and signal.
    pub(super) fn status(&self) -> (Option<i32>, Option<i32>) {
        match self.ended {
            Some(Ended::Code(code)) => (Some(code), None),
            Some(Ended::Signal(signal)) => (None, Some(signal)),
            None => (None, None),
        }
    }
}

/// A run that is under way, and all that has a say in its end.
pub(super) struct Course<'a, H> {
    pub(super) launch: &'a Launch,
    /// The agent's main process.
    pub(super) main: &'a mut Main,
    pub(super) group: Option<&'a Group>,
    pub(super) hooks: &'a H,
    pub(super) children: &'a mut Children,
    pub(super) orders: &'a mut Orders,
}

impl<H: Hooks> Course<'_, H> {
    /// Waits for the first thing that ends the run. Dropped half-way, nothing is lost.
    pub(super) async fn cause(&mut self) -> Cause {
        let root = self.main.root();
        let time_is_up = async {
            match self.launch.timeout_ms {
                Some(ms) => sleep(Duration::from_millis(ms)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = self.main.end(self.children) => Cause::Ended(ended),
            order = self.orders.next() => match order {
                Order::Stop => Cause::Other(Reason::Interrupted, How::Gently),
                Order::Kill(request) => Cause::Other(Reason::Killed { why: request.why }, request.how),
            },
            why = self.hooks.revoked() => Cause::Other(Reason::Revoked { why }, How::Gently),
            what = watch::exceeded(self.launch, self.group, root) => {
                Cause::Other(Reason::Limit { what }, How::AtOnce)
            }
            () = time_is_up => Cause::Other(Reason::Timeout, How::Gently),
        }
    }

    /// Ends whatever is left of the run, and says how it ended.
    pub(super) async fn end(&mut self, cause: Cause) -> Outcome {
        let grace = Duration::from_millis(self.launch.grace_ms);
        let mut outcome = match cause {
            Cause::Ended(delegate::Outcome { ended, left_behind }) => {
                // Nothing outlives the main process of a container. What is left is the engine's.
                let is_left = self.launch.container.is_none() && !self.children.is_empty();
                if is_left {
                    self.terminate(grace.min(LEFT_BEHIND_GRACE)).await;
                }
                let left_behind = left_behind || is_left;
                let reason = by_itself(self.children, self.launch, self.group, ended).await;
                Outcome { left_behind, ..Outcome::of(reason) }
            }
            Cause::Other(reason, how) => {
                let limit = time_left(boottime() + HOOK_LIMIT, self.hooks.deadline(), boottime());
                let _ = timeout(limit, self.hooks.ending(&reason)).await;
                if how == How::Gently {
                    self.terminate(grace).await;
                }
                Outcome::of(reason)
            }
        };
        self.hooks.killing();
        if let Some(delegate) = self.main.delegate() {
            delegate.order(delegate::Order::Kill);
            let _ = timeout(DELEGATE_LIMIT, self.children.none_left()).await;
        }
        if self.launch.container.is_some() {
            // Without its client no engine starts a container that it was about to start.
            tree::signal_one_below(this(), self.main.program(), Signal::KILL);
        }
        outcome.unconfirmed = kill_until_empty(self.children, self.launch, self.group).await;
        outcome.ended = Some(self.main.end(self.children).await.ended);
        outcome
    }

    /// Sends TERM to every process of the run and waits for their end: until the grace is over, the run's deadline has
    /// come, or a second order says that it is urgent. In a container TERM goes to the main process, by the engine's client.
    async fn terminate(&mut self, grace: Duration) {
        match self.main.delegate() {
            Some(delegate) => delegate.order(delegate::Order::Term),
            None if self.launch.container.is_some() => {
                tree::signal_one_below(this(), self.main.program(), Signal::TERM);
                tree::signal_one_below(this(), self.main.program(), Signal::CONT);
            }
            None => tree::terminate_below(this()),
        }
        let until = boottime() + grace;
        loop {
            let left = time_left(until, self.hooks.deadline(), boottime());
            if left.is_zero() {
                return;
            }
            tokio::select! {
                ended = timeout(left.min(DEADLINE_EVERY), self.children.none_left()) => {
                    if ended.is_ok() {
                        return;
                    }
                }
                _ = self.orders.next() => return,
            }
        }
    }
}

/// How long a run that is ending may still take: until its grace is over, but not beyond the deadline of its lease.
fn time_left(until: Duration, deadline: Option<Duration>, now: Duration) -> Duration {
    deadline.map_or(until, |deadline| deadline.min(until)).saturating_sub(now)
}

async fn by_itself(children: &mut Children, launch: &Launch, group: Option<&Group>, ended: Ended) -> Reason {
    if let (Some(container), Ended::Code(code)) = (&launch.container, ended) {
        let client = &mut SupervisedClient { children: &mut *children, launch, container };
        if let Some(error) = container::not_started(launch, container, code, client).await {
            return Reason::NotStarted { error };
        }
    }
    if let Some(what) = over_limit(children, launch, group, ended).await {
        return Reason::Limit { what };
    }
    match ended {
        Ended::Code(0) => Reason::Completed,
        Ended::Code(code) => Reason::Failed { code },
        Ended::Signal(signal) => Reason::Signalled { signal },
    }
}

/// The limit for which the kernel ended a process of a run that did not complete.
async fn over_limit(
    children: &mut Children,
    launch: &Launch,
    group: Option<&Group>,
    ended: Ended,
) -> Option<Resource> {
    let is_of_cpu = match ended {
        Ended::Code(0) => return None,
        Ended::Code(code) => launch.container.is_some() && code == container::OUT_OF_CPU_TIME,
        Ended::Signal(signal) => signal == Signal::XCPU.as_raw(),
    };
    let is_of_memory = match &launch.container {
        None => group.is_some_and(Group::ran_out_of_memory),
        Some(_) if launch.limits.memory_bytes.is_none() => false,
        Some(container) => {
            let client = &mut SupervisedClient { children, launch, container };
            container::ran_out_of_memory(launch, container, client).await
        }
    };
    match () {
        () if is_of_memory => Some(Resource::Memory),
        () if is_of_cpu && launch.limits.cpu_seconds.is_some() => Some(Resource::Cpu),
        () => None,
    }
}

/// Returns when nothing of the run lives, which a process that hangs in the kernel can delay. Says what could not be
/// confirmed.
pub(super) async fn kill_until_empty(
    children: &mut Children,
    launch: &Launch,
    group: Option<&Group>,
) -> Option<String> {
    let unconfirmed = match &launch.container {
        Some(container) => end_container(children, launch, container).await.err(),
        None => None,
    };
    let mut pause = KILL_AGAIN;
    while !children.is_empty() {
        if let Some(group) = group {
            group.kill();
        }
        tree::kill_below(this());
        let is_over = timeout(pause, children.none_left()).await.is_ok();
        if let Some(user) = launch.user_by_sudo().filter(|_| !is_over) {
            let processes = tree::below(this()).iter().map(|process| process.identity).collect();
            let _ = sudo::end(user, Remains { nonce: launch.nonce.clone(), processes }).await;
        }
        pause = (pause * 2).min(KILL_AGAIN_MOST);
    }
    unconfirmed
}

/// Ends the container. What the engine started below this process is left to end by itself: podman's monitor is there, and
/// keeps the engine's records.
async fn end_container(
    children: &mut Children,
    launch: &Launch,
    container: &Container,
) -> Result<(), String> {
    container::end(launch, container, &mut SupervisedClient { children, launch, container }).await?;
    let _ = timeout(ENGINE_GRACE, children.none_left()).await;
    Ok(())
}

/// Runs commands of an engine as tools of this supervisor.
struct SupervisedClient<'a> {
    children: &'a mut Children,
    launch: &'a Launch,
    container: &'a Container,
}

impl Client for SupervisedClient<'_> {
    async fn ask(&mut self, argv: Vec<String>) -> Result<String, String> {
        let stage = Stage {
            supervisor: std::process::id(),
            argv,
            cwd: "/".into(),
            env: marked(self.container.engine_env.clone(), self.launch),
            stdin: Input::Null,
            limits: Limits::default(),
            user: None,
            privileges: Privileges::Keep,
            landlock: None,
            isolation: None,
            shared: Vec::new(),
        };
        let answer = tool::run(self.children, stage, ENGINE_LIMIT).await;
        answer
            .and_then(|answer| answer.checked("ask the container engine"))
            .map_err(|error| error.to_string())
    }
}

fn this() -> i32 {
    std::process::id().cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_grace_counts_in_full_while_the_lease_lasts_longer() {
        assert_eq!(time_left(s(70), None, s(10)), s(60));
        assert_eq!(time_left(s(20), Some(s(24)), s(10)), s(10));
    }

    #[test]
    fn the_deadline_of_the_lease_comes_before_any_grace() {
        assert_eq!(time_left(s(70), Some(s(12)), s(10)), s(2));
    }

    #[test]
    fn a_lease_that_has_ended_leaves_no_time() {
        assert_eq!(time_left(s(70), Some(Duration::ZERO), s(10)), Duration::ZERO);
    }
}
