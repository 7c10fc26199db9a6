//! Doorbell and presence between real processes.
//!
//! A second process is this same test binary, started again with a role. It ends when its standard input
//! does, so none is left behind.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use bell_store::Presence;
use bell_store::doorbell::{Doorbell, Ring};
use bell_store::info::Push;
use bell_store::presence::KernelLocks;
use rustix::process::{Pid, Signal, kill_process};

/// Far longer than anything here takes on a busy machine: reached only if a ring never comes.
const LONG: Duration = Duration::from_secs(20);

const ROLE: &str = "BELL_TEST_ROLE";
const FOLDER: &str = "BELL_TEST_FOLDER";

/// Not a test: what a second process does. Without a role there is nothing to do.
#[test]
#[expect(clippy::zombie_processes, reason = "the holder is killed, and its child after it by the test")]
fn second_process() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let folder = std::env::var(FOLDER).unwrap();
    let folder = Path::new(&folder);
    match role.as_str() {
        "hold" => {
            let _attendance = KernelLocks::open(folder).unwrap().attend("run-1").unwrap();
            say("ready");
            until_input_ends();
        }
        "hold with a child" => {
            let _attendance = KernelLocks::open(folder).unwrap().attend("run-1").unwrap();
            let sleeper =
                command("sleep").arg("600").stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
            say(&sleeper.id().to_string());
            until_input_ends();
        }
        "ring" => {
            let doorbell = Doorbell::open(folder, |_| {}).unwrap();
            say("ready");
            std::io::stdin().read_exact(&mut [0]).unwrap();
            doorbell.ring();
            until_input_ends();
        }
        _ => panic!("no such role: {role}"),
    }
}

fn say(line: &str) {
    println!("\n>{line}");
    std::io::stdout().flush().unwrap();
}

fn until_input_ends() {
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

#[expect(clippy::disallowed_methods, reason = "these tests are about processes")]
fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(program)
}

struct Other {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Other {
    fn start(role: &str, folder: &Path) -> Self {
        let mut child = command(std::env::current_exe().unwrap())
            .args(["second_process", "--exact", "--nocapture"])
            .env(ROLE, role)
            .env(FOLDER, folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// The next thing the process says.
    fn heard(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "the other process ended early");
            if let Some(said) = line.strip_prefix('>') {
                return said.trim().to_owned();
            }
        }
    }

    fn nudge(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"!").unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(pid(self.child.id()), signal).unwrap();
    }

    /// Waits until the kernel shows the process in this state.
    fn await_state(&self, state: &str) {
        let seen = || std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        while seen().rsplit(") ").next().unwrap().split(' ').next() != Some(state) {
            std::thread::yield_now();
        }
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
}

fn listen(folder: &Path) -> (Doorbell, Receiver<Ring>) {
    let (rings, heard) = mpsc::channel();
    let on_ring = move |ring| rings.send(ring).unwrap_or_default();
    (Doorbell::open(folder, on_ring).unwrap(), heard)
}

fn poll(folder: &Path) -> (Doorbell, Receiver<Ring>) {
    let (rings, heard) = mpsc::channel();
    let on_ring = move |ring| rings.send(ring).unwrap_or_default();
    (Doorbell::polling(folder, Duration::from_millis(5), on_ring).unwrap(), heard)
}

fn await_ring(heard: &Receiver<Ring>, ring: Ring) {
    while heard.recv_timeout(LONG).expect("a ring comes") != ring {}
}

#[test]
fn a_killed_holder_is_noticed_through_the_doorbell() {
    let folder = tempfile::tempdir().unwrap();
    let presence = KernelLocks::open(folder.path()).unwrap();
    let (_doorbell, heard) = listen(folder.path());
    let mut holder = Other::start("hold", folder.path());
    holder.heard();
    assert!(!presence.is_gone("run-1"));
    holder.kill();
    await_ring(&heard, Ring::Died);
    assert!(presence.is_gone("run-1"), "the lock is free by the time the bell rings");
}

#[test]
fn a_killed_holder_is_noticed_by_looking() {
    let folder = tempfile::tempdir().unwrap();
    let presence = KernelLocks::open(folder.path()).unwrap();
    let (_doorbell, heard) = poll(folder.path());
    let mut holder = Other::start("hold", folder.path());
    holder.heard();
    holder.kill();
    await_ring(&heard, Ring::Died);
    assert!(presence.is_gone("run-1"));
}

#[test]
fn a_stopped_holder_is_not_gone() {
    let folder = tempfile::tempdir().unwrap();
    let presence = KernelLocks::open(folder.path()).unwrap();
    let mut holder = Other::start("hold", folder.path());
    holder.heard();
    holder.signal(Signal::STOP);
    holder.await_state("T");
    assert!(!presence.is_gone("run-1"));
    holder.signal(Signal::CONT);
}

#[test]
fn a_child_of_the_holder_does_not_keep_it_present() {
    let folder = tempfile::tempdir().unwrap();
    let presence = KernelLocks::open(folder.path()).unwrap();
    let (_doorbell, heard) = listen(folder.path());
    let mut holder = Other::start("hold with a child", folder.path());
    let sleeper = pid(holder.heard().parse().unwrap());
    holder.kill();
    await_ring(&heard, Ring::Died);
    let gone_while_the_child_lives =
        presence.is_gone("run-1") && rustix::process::test_kill_process(sleeper).is_ok();
    kill_process(sleeper, Signal::KILL).unwrap();
    assert!(gone_while_the_child_lives);
}

#[test]
fn a_ring_reaches_the_other_processes() {
    let folder = tempfile::tempdir().unwrap();
    // Started first: hanging up a bell may be heard too, and what counts is what comes after the nudge.
    let mut ringer = Other::start("ring", folder.path());
    ringer.heard();
    let (doorbell, heard) = listen(folder.path());
    assert_eq!(doorbell.push(), Push::Push);
    ringer.nudge();
    await_ring(&heard, Ring::Changed);
}

#[test]
fn a_ring_is_seen_by_those_who_look() {
    let folder = tempfile::tempdir().unwrap();
    let mut ringer = Other::start("ring", folder.path());
    ringer.heard();
    let (doorbell, heard) = poll(folder.path());
    assert_eq!(doorbell.push(), Push::Poll { interval_ms: 5 });
    ringer.nudge();
    await_ring(&heard, Ring::Changed);
}

#[test]
fn one_that_looks_is_heard_by_one_that_listens() {
    let folder = tempfile::tempdir().unwrap();
    let (looking, _) = poll(folder.path());
    let (_listening, heard) = listen(folder.path());
    looking.ring();
    await_ring(&heard, Ring::Changed);
}

#[test]
fn a_process_does_not_hear_its_own_rings() {
    let folder = tempfile::tempdir().unwrap();
    let (other, _) = listen(folder.path());
    let (own, heard) = listen(folder.path());
    (0..100).for_each(|_| own.ring());
    other.ring();
    await_ring(&heard, Ring::Changed);
    drop((own, other));
    assert_eq!(heard.try_iter().count(), 0, "only the other's ring was reported");
}

#[test]
fn a_dropped_doorbell_leaves_no_bell_and_the_next_clears_up_after_the_dead() {
    let folder = tempfile::tempdir().unwrap();
    let bells = || std::fs::read_dir(folder.path().join("bells")).unwrap().count();
    let mut killed = Other::start("ring", folder.path());
    killed.heard();
    killed.kill();
    assert_eq!(bells(), 1);
    let (doorbell, _heard) = listen(folder.path());
    assert_eq!(bells(), 1, "its own");
    drop(doorbell);
    assert_eq!(bells(), 0);
}

#[test]
fn the_listening_thread_ends_with_its_doorbell() {
    let folder = tempfile::tempdir().unwrap();
    let (doorbell, heard) = listen(folder.path());
    drop(doorbell);
    assert_eq!(heard.try_recv(), Err(mpsc::TryRecvError::Disconnected), "it dropped what it rang with");
}
