//! A real service on loopback behind the layer: the example, and one that can be made slow or killed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

#[path = "../examples/fenced_service.rs"]
#[expect(dead_code, reason = "its main is for people")]
mod fenced_service;

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use axum::routing::put as on_put;
use axum::{Extension, Router};
use bell_core::lock::Fence;
use bell_fence_http::{FenceLayer, Register};
use support::{PATIENCE, Serving, answer, get, put, send, serving};

fn example(folder: &tempfile::TempDir) -> Serving {
    let store = format!("sqlite:{}", folder.path().join("fences.db").display());
    let reports = folder.path().join("reports");
    std::fs::create_dir_all(&reports).unwrap();
    serving(
        async move { fenced_service::service(Register::open(&store, "reports/").await.unwrap(), &reports) },
    )
}

#[test]
fn a_stale_writer_gets_through_0_of_50_times() {
    let folder = tempfile::tempdir().unwrap();
    let server = example(&folder);
    let written = put(server.address, "/reports/42", 7, "successor").expect(200);
    assert_eq!(written.body, "report 42 written with fence 7\n");
    for fence in [0, 1, 5, 6].into_iter().cycle().take(50) {
        let refused = put(server.address, "/reports/42", fence, "stale").expect(412).json();
        assert_eq!((&refused["outcome"], &refused["seen_fence"]), (&"stale".into(), &7.into()));
        assert_eq!(
            (&refused["fence"], &refused["key"]),
            (&fence.into(), &"path://service/reports/42".into())
        );
    }
    assert_eq!(get(server.address, "/reports/42").expect(200).body, "successor");
    put(server.address, "/reports/42", 7, "same").expect(200);
    put(server.address, "/reports/43", 1, "another").expect(200);
}

#[test]
fn another_spelling_of_the_path_does_not_help_a_stale_writer() {
    let folder = tempfile::tempdir().unwrap();
    let server = example(&folder);
    put(server.address, "/reports/42", 7, "successor").expect(200);
    for spelling in ["/reports/%342", "/reports/42/", "/reports/./42", "/reports/42?x=y", "//reports/42"] {
        let status = put(server.address, spelling, 6, "stale").status;
        assert!([404, 412].contains(&status), "{spelling} was answered {status}");
    }
    assert_eq!(get(server.address, "/reports/42").expect(200).body, "successor");
}

#[test]
fn writers_at_once_leave_what_the_highest_fence_wrote() {
    let folder = tempfile::tempdir().unwrap();
    let server = example(&folder);
    let address = server.address;
    let writers = (1..=24_u64).map(|fence| {
        thread::spawn(move || (fence, put(address, "/reports/1", fence, &fence.to_string()).status))
    });
    let answers: Vec<_> =
        writers.collect::<Vec<_>>().into_iter().map(|writer| writer.join().unwrap()).collect();
    assert!(answers.iter().all(|(_, status)| [200, 412].contains(status)), "{answers:?}");
    assert!(answers.contains(&(24, 200)), "{answers:?}");
    assert_eq!(get(address, "/reports/1").expect(200).body, "24");
}

/// A service that writes only when it is told to, and keeps a list of what it wrote.
#[derive(Default)]
struct Slow {
    written: Mutex<Vec<u64>>,
    begun: AtomicU64,
    open: Mutex<bool>,
    opened: Condvar,
}

impl Slow {
    fn router(self: &Arc<Self>, register: Register) -> Router {
        let slow = self.clone();
        let write = async move |Extension(fence): Extension<Fence>, text: String| {
            slow.begun.fetch_add(1, Ordering::SeqCst);
            let slow = slow.clone();
            // In a thread that nobody can stop, as a request to a database is.
            let work = move || {
                if text == "slow" {
                    slow.wait_until_open();
                }
                slow.written.lock().unwrap().push(fence.0);
            };
            tokio::task::spawn_blocking(work).await.unwrap();
        };
        Router::new().route("/doc", on_put(write)).layer(FenceLayer::new(register))
    }

    fn wait_until_open(&self) {
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_timeout_while(open, PATIENCE, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn until_begun(&self, count: u64) {
        eventually(|| self.begun.load(Ordering::SeqCst) >= count);
    }
}

fn eventually(mut is_so: impl FnMut() -> bool) {
    let began = bell_store::clock::boottime();
    while !is_so() {
        assert!(bell_store::clock::boottime() - began < PATIENCE, "gave up waiting");
        thread::sleep(std::time::Duration::from_millis(5));
    }
}

fn slow_server() -> (Arc<Slow>, Serving) {
    let slow = Arc::<Slow>::default();
    let server = serving({
        let slow = slow.clone();
        async move { slow.router(Register::open("memory:", "doc/").await.unwrap()) }
    });
    (slow, server)
}

#[test]
fn a_newer_write_waits_until_an_older_one_that_was_let_in_has_landed() {
    let (slow, server) = slow_server();
    let address = server.address;
    let older = thread::spawn(move || put(address, "/doc", 5, "slow").status);
    slow.until_begun(1);
    let newer = thread::spawn(move || put(address, "/doc", 6, "quick").status);
    // Had it not to wait, it would be done by now on most machines; on the others the order is the proof.
    thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(slow.begun.load(Ordering::SeqCst), 1);
    slow.open();
    assert_eq!((older.join().unwrap(), newer.join().unwrap()), (200, 200));
    assert_eq!(*slow.written.lock().unwrap(), [5, 6]);
}

#[test]
fn a_write_whose_client_has_gone_still_keeps_its_turn() {
    let (slow, server) = slow_server();
    let address = server.address;
    let mut gone = send(address, "PUT /doc", &["x-fence: 5"], 4);
    std::io::Write::write_all(&mut gone, b"slow").unwrap();
    slow.until_begun(1);
    drop(gone);
    let newer = thread::spawn(move || put(address, "/doc", 6, "quick").status);
    thread::sleep(std::time::Duration::from_millis(200));
    assert_eq!(slow.begun.load(Ordering::SeqCst), 1);
    slow.open();
    assert_eq!(newer.join().unwrap(), 200);
    assert_eq!(*slow.written.lock().unwrap(), [5, 6]);
}

#[test]
fn a_client_that_stops_in_the_middle_of_its_request_holds_up_nobody() {
    let (slow, server) = slow_server();
    let mut paused = send(server.address, "PUT /doc", &["x-fence: 5"], 5);
    std::io::Write::write_all(&mut paused, b"qui").unwrap();
    put(server.address, "/doc", 6, "quick").expect(200);
    // It wakes up after its successor has written.
    std::io::Write::write_all(&mut paused, b"ck").unwrap();
    answer(paused).expect(412);
    drop(send(server.address, "PUT /doc", &["x-fence: 9"], 5));
    put(server.address, "/doc", 7, "quick").expect(200);
    assert_eq!(*slow.written.lock().unwrap(), [6, 7]);
}

const ROLE: &str = "BELL_FENCED_SERVICE";

/// Not a test: the service that is killed. Without a store there is nothing to do.
#[test]
fn child() {
    let Ok(store) = std::env::var(ROLE) else { return };
    let slow = Arc::<Slow>::default();
    let server = serving({
        let slow = slow.clone();
        async move { slow.router(Register::open(&store, "doc/").await.unwrap()) }
    });
    println!("at {} now", server.address);
    slow.until_begun(1);
    println!("begun now");
    thread::sleep(PATIENCE);
}

/// The service in a process. Dropped, it is killed.
struct Process {
    child: Child,
    lines: std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
}

impl Process {
    #[expect(clippy::disallowed_methods, reason = "somebody has to be killed")]
    fn start(store: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
        let mut child = command.env(ROLE, store).stdout(Stdio::piped()).spawn().unwrap();
        let out = std::io::BufReader::new(child.stdout.take().unwrap());
        Self { child, lines: std::io::BufRead::lines(out) }
    }

    /// The word before ` now` on the next line that has it.
    fn until(&mut self, word: &str) -> String {
        let lines = self.lines.by_ref().map(Result::unwrap);
        let mut lines =
            lines.filter_map(|line| Some(line.strip_suffix(" now")?.split_once(word)?.1.to_owned()));
        lines.next().expect("the service ended")
    }

    fn address(&mut self) -> SocketAddr {
        self.until("at ").parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_service_killed_after_it_let_a_write_in_remembers_the_fence() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("fences.db").display());
    let mut service = Process::start(&store);
    let address = service.address();
    let mut asking = send(address, "PUT /doc", &["x-fence: 9"], 4);
    std::io::Write::write_all(&mut asking, b"slow").unwrap();
    service.until("begun");
    drop(service);

    let mut again = Process::start(&store);
    let address = again.address();
    put(address, "/doc", 8, "stale").expect(412);
    put(address, "/doc", 9, "quick").expect(200);
}
