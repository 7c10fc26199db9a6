//! A Redis server, and a sentinel.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::{Server, free_port};

/// How long it may take to answer. Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// A server on a port of this machine. Dropped, it is killed and its data is removed.
pub struct Redis {
    port: u16,
    data: tempfile::TempDir,
    options: Vec<String>,
    /// `None`: it was killed.
    server: Option<Server>,
}

impl Redis {
    /// Starts a server that keeps everything in memory.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with these options, as in `["--appendonly", "yes"]`, and waits until it serves.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_in(&std::env::temp_dir(), options)
    }

    /// Starts a server with its data below this folder.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start_in(place: &Path, options: &[&str]) -> Self {
        // Somebody else may have taken the port between finding it free and using it.
        for _ in 0..5 {
            let mut redis = Self {
                port: free_port(),
                data: tempfile::tempdir_in(place).expect("a temporary folder"),
                options: options.iter().map(|option| (*option).to_owned()).collect(),
                server: None,
            };
            redis.spawn();
            if redis.serves() {
                return redis;
            }
        }
        panic!("redis-server did not start five times");
    }

    /// A server in memory that tests share while any of them uses it; it ends with the last.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Redis>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a store with this prefix.
    pub fn url(&self, prefix: &str) -> String {
        format!("redis://127.0.0.1:{}/0?prefix={prefix}", self.port)
    }

    /// Kills it, as `kill -9` does; its files stay.
    pub fn kill(&mut self) {
        self.server = None;
    }

    /// Starts it again, killed first if it runs, on the same port and files, and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    pub fn restart(&mut self) {
        self.kill();
        self.spawn();
        assert!(self.serves(), "{}", self.log());
    }

    /// Whether it runs: it was not killed, and has not ended by itself.
    pub fn runs(&mut self) -> bool {
        self.server.as_mut().is_some_and(|server| !server.has_ended())
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it is not running.
    pub fn signal(&self, signal: Signal) {
        let server = self.server.as_ref().expect("a running server");
        server.signal(signal).expect("a signal to a running server");
    }

    /// Which version of Redis it is.
    ///
    /// # Panics
    /// If it does not say.
    pub fn version(&self) -> String {
        let told = self.run(&["INFO", "server"]);
        let line = told.lines().find_map(|line| line.strip_prefix("redis_version:"));
        line.expect("a server that tells its version").trim().to_owned()
    }

    /// Runs a command on a connection of its own and gives the answer: a line or a string as it is, of a list
    /// only its first line.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn run(&self, words: &[&str]) -> String {
        ask(self.port, words).unwrap_or_else(|| panic!("no answer to {words:?}: {}", self.log()))
    }

    fn spawn(&mut self) {
        let data = self.data.path().display().to_string();
        let port = self.port.to_string();
        let fixed = ["--port", &port, "--bind", "127.0.0.1", "--dir", &data, "--save", ""];
        let arguments = fixed.into_iter().map(str::to_owned).chain(self.options.iter().cloned()).collect();
        self.server = Some(Server::start(Path::new("redis-server"), "redis-server", |_| arguments));
    }

    fn serves(&mut self) -> bool {
        let (port, server) = (self.port, &mut self.server);
        answers(port, || server.as_mut().is_none_or(Server::has_ended))
    }

    fn log(&self) -> String {
        self.server.as_ref().map(Server::log).unwrap_or_default()
    }
}

/// A sentinel that watches one service, alone deciding on its fail-over. Dropped, it is killed.
pub struct Sentinel {
    port: u16,
    server: Server,
}

impl Sentinel {
    /// Starts a sentinel for this service, and waits until it serves.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start(service: &str, primary: &Redis) -> Self {
        for _ in 0..5 {
            let port = free_port();
            // It writes down there what it finds out.
            let settings = format!(
                "port {port}\nbind 127.0.0.1\nsentinel monitor {service} 127.0.0.1 {} 1\n\
                 sentinel down-after-milliseconds {service} 500\nsentinel failover-timeout {service} 3000\n",
                primary.port
            );
            let server = Server::start(Path::new("redis-server"), "redis-server", |folder| {
                let file = folder.join("sentinel.conf");
                std::fs::write(&file, settings).expect("a file in the server's folder");
                vec![file.display().to_string(), "--sentinel".to_owned()]
            });
            let mut sentinel = Self { port, server };
            if answers(port, || sentinel.server.has_ended()) {
                return sentinel;
            }
        }
        panic!("redis-server --sentinel did not start five times");
    }

    /// Where it listens, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs a command, as [`Redis::run`] does.
    ///
    /// # Panics
    /// If there is no answer.
    pub fn run(&self, words: &[&str]) -> String {
        ask(self.port, words).unwrap_or_else(|| panic!("no answer to {words:?}: {}", self.server.log()))
    }
}

/// Waits until something answers there, or has ended.
fn answers(port: u16, mut has_ended: impl FnMut() -> bool) -> bool {
    for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
        let answer = ask(port, &["PING"]).unwrap_or_default();
        if answer.starts_with("PONG") || answer.starts_with("NOAUTH") {
            return true;
        }
        if has_ended() {
            return false;
        }
        sleep(PAUSE);
    }
    false
}

fn ask(port: u16, words: &[&str]) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let mut request = format!("*{}\r\n", words.len());
    for word in words {
        request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    answer.read_line(&mut line).ok()?;
    let (kind, rest) = line.trim_end().split_at_checked(1)?;
    match (kind, rest.parse::<usize>()) {
        ("$", Ok(length)) => {
            let mut text = vec![0; length];
            answer.read_exact(&mut text).ok()?;
            String::from_utf8(text).ok()
        }
        _ => Some(rest.to_owned()),
    }
}
