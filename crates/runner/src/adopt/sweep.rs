//! Ending what a run left behind when its supervisor died.
//!
//! The kernel kills the agent's main process together with its supervisor. What that process had started is
//! found by the run's cgroup, by the mark in its environment, by the agent's session, and by descent from any of
//! these. A process that has shed all four can't be told from anybody else's.

use std::collections::HashSet;
use std::time::Duration;

use bell_store::clock;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use crate::cgroup::Group;
use crate::command::quiet;
use crate::container::{self, Client, Container, ENGINE_LIMIT};
use crate::delegate::Remains;
use crate::launch::Launch;
use crate::process::{Identity, Stat, all};
use crate::state::State;
use crate::sudo;
use crate::tree::{descendants, kill_found};

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// After KILL only a process that hangs in the kernel is still there.
const TRIES: usize = 250;

/// Ends it all. Says what could not be confirmed to be gone.
pub(super) async fn everything(launch: &Launch, state: Option<&State>) -> Option<String> {
    // Before its processes: an engine that finds its monitor of the container dead does not know whether that runs.
    let container = end_container(launch).await;
    let group = state.and_then(|state| state.cgroup.clone()).map(Group::left_at);
    let processes = end_processes(launch, state, group.as_ref()).await;
    if let Some(group) = group {
        group.remove();
    }
    processes.or(container)
}

async fn end_processes(launch: &Launch, state: Option<&State>, group: Option<&Group>) -> Option<String> {
    // Session numbers of another boot mean nothing.
    let here = clock::boot_id().ok();
    let agent = state.filter(|state| Some(&state.boot_id) == here.as_ref()).and_then(|state| state.agent);
    let find = || remains(&launch.nonce, agent, group);
    end_by_sudo(launch, &find()).await;
    for _ in 0..TRIES {
        if find().is_empty() {
            return None;
        }
        if let Some(group) = group {
            group.kill();
        }
        kill_found(find);
        sleep(LOOK_AGAIN).await;
        end_by_sudo(launch, &find()).await;
    }
    let pids: Vec<String> = find().iter().map(|process| process.identity.pid.to_string()).collect();
    Some(format!("could not end the processes {}", pids.join(", ")))
}

/// Ends processes of a user whose processes only sudo reaches. Their marks can't be seen from here, so a delegate looks.
async fn end_by_sudo(launch: &Launch, found: &[Stat]) {
    let Some(user) = launch.user_by_sudo() else { return };
    let processes = found.iter().map(|process| process.identity).collect();
    if let Ok(mut child) = sudo::end(user, Remains { nonce: launch.nonce.clone(), processes }).await {
        // It has ended, or takes too long and is looked for again.
        let _ = timeout(LOOK_AGAIN, spawn_blocking(move || child.wait())).await;
    }
}

fn remains(nonce: &str, agent: Option<Identity>, group: Option<&Group>) -> Vec<Stat> {
    let processes = all();
    let this = std::process::id().cast_signed();
    let members: HashSet<i32> =
        group.map(Group::members).unwrap_or_default().iter().map(|member| member.identity.pid).collect();
    // A session outlives its leader, and its number is not given out again while it does: somebody else with
    // that number means that nobody is left of it.
    let passed_on = |agent: &Identity| {
        processes.iter().any(|other| other.identity.pid == agent.pid && other.identity != *agent)
    };
    let session = agent.filter(|agent| !passed_on(agent));
    let in_session = |process: &Stat| {
        session.is_some_and(|agent| {
            process.session == agent.pid && process.identity.start_ticks >= agent.start_ticks
        })
    };
    let is_root = |process: &&Stat| {
        members.contains(&process.identity.pid) || in_session(process) || process.identity.has_mark(nonce)
    };
    let roots: Vec<Stat> = processes.iter().filter(is_root).copied().collect();
    let numbers: Vec<i32> = roots.iter().map(|process| process.identity.pid).collect();
    let mut found: HashSet<i32> = HashSet::new();
    let below = descendants(&numbers, &processes);
    let mut remains: Vec<Stat> = roots.into_iter().chain(below).collect();
    remains.retain(|process| {
        process.is_alive() && process.identity.pid != this && found.insert(process.identity.pid)
    });
    remains
}

async fn end_container(launch: &Launch) -> Option<String> {
    let container = launch.container.as_ref()?;
    container::end(launch, container, &mut DirectClient(container)).await.err()
}

/// Runs commands of an engine as children of this process.
struct DirectClient<'a>(&'a Container);

impl Client for DirectClient<'_> {
    async fn ask(&mut self, argv: Vec<String>) -> Result<String, String> {
        let (program, arguments) = argv.split_first().ok_or("nothing was asked")?;
        let mut command = quiet(program);
        command.args(arguments).envs(self.0.engine_env.iter());
        let mut command = tokio::process::Command::from(command);
        let answer = command.stdout(std::process::Stdio::piped()).kill_on_drop(true).output();
        let answer = timeout(ENGINE_LIMIT, answer).await.map_err(|_| "no answer in time")?;
        let answer = answer.map_err(|error| error.to_string())?;
        if answer.status.success() {
            Ok(String::from_utf8_lossy(&answer.stdout).into_owned())
        } else {
            Err(format!("{program} ended with {}", answer.status))
        }
    }
}
