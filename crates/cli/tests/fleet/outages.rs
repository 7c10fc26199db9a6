//! A store that is away for a moment, again and again, between the claim of a job and the start of its run: whatever was
//! accepted runs, once.
//!
//! A server is away when its connections break and no new ones come about, a store of files when its disk is full. Three
//! outages per engine by default. The long campaign:
//! `BELL_OUTAGES=200 cargo test -p bell-cli --features etcd --test fleet outages`.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{sleep, spawn};
use std::time::Duration;

use bell_e2e::{Etcd, Postgres, Redis};

use crate::campaign::{Dice, ledger, seed, until_idle};
use crate::support::{Place, eventually};

/// Jobs that are handed in before each outage: as many as run at a time, so that starts are under way when it comes.
const JOBS: usize = 4;
/// The longest that starts are let go before the store goes away.
const BEFORE_MS: u64 = 150;
/// How long the store is away: at least, and at most as much longer. A session outlives it.
const AWAY_MS: u64 = 200;
const AWAY_MORE_MS: u64 = 1_300;

fn outages() -> u32 {
    std::env::var("BELL_OUTAGES").map_or(3, |count| count.parse().unwrap())
}

/// The only way of a daemon and its supervisors to their server: open, or shut.
struct Gate {
    port: u16,
    is_shut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Gate {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = Self { port, is_shut: Arc::default(), open: Arc::default() };
        let (is_shut, open) = (Arc::clone(&gate.is_shut), Arc::clone(&gate.open));
        // It ends with the test.
        spawn(move || {
            for client in listener.incoming().flatten() {
                if is_shut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let copies = (client.try_clone().unwrap(), server.try_clone().unwrap());
                open.lock().unwrap().extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                spawn(move || relay(client, server));
                spawn(move || relay(copies.1, copies.0));
            }
        });
        gate
    }

    fn shut(&self) {
        self.is_shut.store(true, Ordering::SeqCst);
        self.open.lock().unwrap().drain(..).for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }

    fn open(&self) {
        self.is_shut.store(false, Ordering::SeqCst);
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream) {
    let mut some = [0; 16_384];
    while let Ok(count @ 1..) = from.read(&mut some) {
        if to.write_all(&some[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// `url` is asked for once with the server's port, for those who hand in and look, and once with that of the gate.
fn nothing_is_burnt(port: u16, url: impl Fn(u16) -> String) {
    let gate = Gate::to(port);
    let place = Place { url: url(port), ..Place::sqlite() };
    outlives_outages(&place, &url(gate.port), || gate.shut(), || gate.open());
}

/// Has jobs start while the store goes away and comes back. `place` reaches it all the time, the daemon by `url`.
fn outlives_outages(place: &Place, url: &str, shut: impl Fn(), open: impl Fn()) {
    place.agent("worker", "echo \"$BELL_JOB $BELL_RUN\" >> begun", "scale = 4\nwork_queue_size = 10000\n");
    let mut daemon = place.command(&["--json", "up"]);
    daemon.env("BELL_STORE", url);
    let mut daemon = crate::support::start(daemon);
    daemon.line();
    let (seed, mut accepted) = (seed(), Vec::new());
    let mut dice = Dice(seed);
    for _ in 0..outages() {
        accepted.extend((0..JOBS).map(|_| place.ask("worker")));
        sleep(Duration::from_millis(dice.below(BEFORE_MS)));
        shut();
        sleep(Duration::from_millis(AWAY_MS + dice.below(AWAY_MORE_MS)));
        open();
    }
    eprintln!("{} outages: {} of {} jobs begun", outages(), place.lines("begun").len(), accepted.len());
    until_all_are_done(place);
    assert_eq!(place.undone(), [], "BELL_SEED={seed}");
    assert_eq!(ledger(place, accepted).faults(), Vec::<String>::new(), "BELL_SEED={seed}");
    daemon.stop();
}

/// Waits for as long as jobs begin: many outages leave many jobs behind.
fn until_all_are_done(place: &Place) {
    let is_idle = || place.is_idle();
    while !is_idle() {
        let before = place.lines("begun").len();
        eventually("another job begins, or all are done", || {
            place.lines("begun").len() > before || is_idle()
        });
    }
}

#[test]
fn jobs_on_redis_outlive_a_store_that_is_away_while_they_start() {
    let server = Redis::start();
    nothing_is_burnt(server.port(), |port| format!("redis://127.0.0.1:{port}"));
}

#[test]
fn jobs_on_postgres_outlive_a_store_that_is_away_while_they_start() {
    let server = Postgres::start();
    nothing_is_burnt(server.port(), |port| {
        server.url("outages").replace(&format!(":{}/", server.port()), &format!(":{port}/"))
    });
}

#[test]
fn jobs_on_etcd_outlive_a_store_that_is_away_while_they_start() {
    if !bell_locks::open::is_built_in("etcd") {
        return;
    }
    let server = Etcd::start();
    nothing_is_burnt(server.port(0), |port| format!("etcd://127.0.0.1:{port}"));
}

/// A disk of its own for a store, which can be filled up and cleared.
struct Disk(tempfile::TempDir);

impl Disk {
    fn mount() -> Self {
        let folder = tempfile::tempdir().unwrap();
        run("mount", &["-t", "tmpfs", "-o", "size=64m,mode=700", "bell-test"], folder.path());
        Self(folder)
    }

    /// Leaves room for nothing.
    fn fill(&self) {
        let mut filler = File::create(self.0.path().join("filler")).unwrap();
        while filler.write_all(&[0; 65_536]).is_ok() {}
        while filler.write_all(&[0]).is_ok() {}
    }

    fn clear(&self) {
        std::fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy"], self.0.path());
    }
}

fn run(program: &str, arguments: &[&str], path: &Path) {
    #[expect(clippy::disallowed_methods, reason = "a test mounts a disk of its own")]
    let status = Command::new(program).args(arguments).arg(path).status().unwrap();
    assert!(status.success(), "{program} {arguments:?}");
}

fn outlives_full_disks(url: impl Fn(&Path) -> String) {
    let disk = Disk::mount();
    let place = Place { url: url(disk.0.path()), ..Place::sqlite() };
    outlives_outages(&place, &place.url.clone(), || disk.fill(), || disk.clear());
}

#[test]
fn jobs_on_sqlite_outlive_a_disk_that_is_full_while_they_start() {
    outlives_full_disks(|folder| format!("sqlite:{}", folder.join("bell.db").display()));
}

#[test]
fn jobs_on_a_folder_outlive_a_disk_that_is_full_while_they_start() {
    outlives_full_disks(|folder| format!("file:{}", folder.join("store").display()));
}

/// A stock server takes 100 connections, and every supervisor needs some: what can't be started now is started later.
#[test]
fn jobs_on_a_postgres_with_few_connections_are_all_run() {
    const CONNECTIONS: usize = 24;
    let server = Postgres::start_with(&["-c", &format!("max_connections={CONNECTIONS}")]);
    let place = Place { url: server.url("few"), ..Place::sqlite() };
    let script = "echo \"$BELL_JOB $BELL_RUN\" >> begun; sleep 1";
    place.agent("worker", script, "scale = 20\nwork_queue_size = 100\n");
    let accepted: Vec<String> = (0..20).map(|_| place.ask("worker")).collect();
    let daemon = place.up();
    eventually("everything has begun", || place.lines("begun").len() >= accepted.len());
    // Commands need a connection too.
    eventually("everything is done", || {
        let ran = place.run(&["--json", "runs", "--limit", "1000"]);
        ran.code == 0 && !ran.out.contains("\"running\"")
    });
    until_idle(&place);
    assert_eq!(place.undone(), []);
    assert_eq!(ledger(&place, accepted).faults(), Vec::<String>::new());
    daemon.stop();
}
