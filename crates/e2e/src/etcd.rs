//! etcd, one member or three.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use rustix::process::Signal;

use crate::{Server, free_port};

/// How long a member may take to answer. Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// Members of one cluster, on ports of this machine. Dropped, they are killed and their data is removed.
pub struct Etcd {
    members: Vec<Member>,
    options: Vec<String>,
}

struct Member {
    name: String,
    port: u16,
    peer_port: u16,
    data: tempfile::TempDir,
    /// `None`: it was killed.
    server: Option<Server>,
}

impl Etcd {
    /// Starts one member.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start() -> Self {
        Self::start_with(1, &[])
    }

    /// Starts so many members with these options, and waits until they serve.
    ///
    /// # Panics
    /// If they can't be started.
    pub fn start_with(members: usize, options: &[&str]) -> Self {
        Self::start_in(&std::env::temp_dir(), members, options)
    }

    /// Starts so many members with their data below this folder.
    ///
    /// # Panics
    /// If they can't be started.
    pub fn start_in(place: &Path, members: usize, options: &[&str]) -> Self {
        // Somebody else may have taken a port between finding it free and using it.
        for _ in 0..5 {
            let mut etcd = Self {
                members: (0..members).map(|index| Member::new(place, index)).collect(),
                options: options.iter().map(|option| (*option).to_owned()).collect(),
            };
            (0..members).for_each(|index| etcd.spawn(index));
            if (0..members).all(|index| etcd.serves(index)) {
                return etcd;
            }
        }
        panic!("etcd did not start five times");
    }

    /// Where its members listen: `127.0.0.1:2379,…`.
    pub fn addresses(&self) -> String {
        let addresses: Vec<_> = (0..self.members.len()).map(|index| self.address(index)).collect();
        addresses.join(",")
    }

    /// Where this member listens, on 127.0.0.1.
    pub fn port(&self, index: usize) -> u16 {
        self.members[index].port
    }

    /// Whether a member runs: it was not killed, and has not ended by itself.
    pub fn runs(&mut self, index: usize) -> bool {
        self.members[index].server.as_mut().is_some_and(|server| !server.has_ended())
    }

    /// Where this member listens.
    pub fn address(&self, index: usize) -> String {
        format!("127.0.0.1:{}", self.members[index].port)
    }

    /// The URL of a store under this prefix.
    pub fn url(&self, prefix: &str) -> String {
        format!("etcd://{}/{prefix}", self.addresses())
    }

    /// Which version of etcd it is.
    ///
    /// # Panics
    /// If the first member does not say.
    pub fn version(&self) -> String {
        let answer = ask(self.members[0].port, "GET", "/version").unwrap_or_default();
        field(&answer, "etcdserver").expect("a member that tells its version").trim_matches('"').to_owned()
    }

    /// The folder with a member's data.
    pub fn data(&self, index: usize) -> &Path {
        self.members[index].data.path()
    }

    /// Kills a member, as a power cut would end it; its data stays.
    pub fn kill(&mut self, index: usize) {
        self.members[index].server = None;
    }

    /// Starts a killed member again on the same port and data, and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    pub fn restart(&mut self, index: usize) {
        self.spawn(index);
        assert!(self.serves(index), "{}", self.members[index].log());
    }

    /// Sends a member a signal.
    ///
    /// # Panics
    /// If it is not running.
    pub fn signal(&self, index: usize, signal: Signal) {
        let server = self.members[index].server.as_ref().expect("a running member");
        server.signal(signal).expect("a signal to a running member");
    }

    /// Which member leads.
    ///
    /// # Panics
    /// If there is no leader within a minute.
    pub fn leader(&self) -> usize {
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            let leads = |index: &usize| {
                let status =
                    ask(self.members[*index].port, "POST", "/v3/maintenance/status").unwrap_or_default();
                let (own, leader) = (field(&status, "member_id"), field(&status, "leader"));
                own.is_some() && own == leader
            };
            if let Some(index) = (0..self.members.len()).find(leads) {
                return index;
            }
            sleep(PAUSE);
        }
        panic!("no member leads");
    }

    fn spawn(&mut self, index: usize) {
        let cluster: Vec<_> = self.members.iter().map(|member| member.peer()).collect();
        let cluster = cluster.join(",");
        let member = &mut self.members[index];
        let mut arguments = member.arguments(&cluster);
        arguments.extend(self.options.iter().cloned());
        member.server = Some(Server::start(Path::new("etcd"), "etcd-server", |_| arguments));
    }

    fn serves(&mut self, index: usize) -> bool {
        let member = &mut self.members[index];
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            if ask(member.port, "GET", "/health").is_some_and(|answer| answer.contains("true")) {
                return true;
            }
            if member.server.as_mut().is_none_or(Server::has_ended) {
                return false;
            }
            sleep(PAUSE);
        }
        false
    }
}

/// One member for all tests of a process that run at the same time.
pub struct SharedEtcd {
    url: String,
    /// Held to end the thread that owns the member.
    last: Option<mpsc::Sender<()>>,
    owner: Option<JoinHandle<()>>,
}

static SHARED: Mutex<Weak<SharedEtcd>> = Mutex::new(Weak::new());

impl SharedEtcd {
    /// The member that other tests use now, or a new one.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn get() -> Arc<Self> {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Self::start());
            *shared = Arc::downgrade(&started);
            started
        })
    }

    /// The URL of a store under this prefix.
    pub fn url(&self, prefix: &str) -> String {
        format!("{}{prefix}", self.url)
    }

    /// A server ends with the thread that started it, so that must not be the thread of one of the tests.
    fn start() -> Self {
        let (last, ended) = mpsc::channel();
        let (started, url) = mpsc::channel();
        let owner = spawn(move || {
            let etcd = Etcd::start();
            let _ = started.send(etcd.url(""));
            let _ = ended.recv();
        });
        Self { url: url.recv().expect("a member that started"), last: Some(last), owner: Some(owner) }
    }
}

impl Drop for SharedEtcd {
    fn drop(&mut self) {
        self.last = None;
        if let Some(owner) = self.owner.take() {
            let _ = owner.join();
        }
    }
}

impl Member {
    fn new(place: &Path, index: usize) -> Self {
        Self {
            name: format!("m{index}"),
            port: free_port(),
            peer_port: free_port(),
            data: tempfile::tempdir_in(place).expect("a temporary folder"),
            server: None,
        }
    }

    fn peer(&self) -> String {
        format!("{}=http://127.0.0.1:{}", self.name, self.peer_port)
    }

    fn arguments(&self, cluster: &str) -> Vec<String> {
        let (port, peer_port) = (self.port, self.peer_port);
        let option = |name: &str, value: String| [format!("--{name}"), value];
        [
            option("name", self.name.clone()),
            option("data-dir", self.data.path().display().to_string()),
            option("listen-client-urls", format!("http://127.0.0.1:{port}")),
            option("advertise-client-urls", format!("http://127.0.0.1:{port}")),
            option("listen-peer-urls", format!("http://127.0.0.1:{peer_port}")),
            option("initial-advertise-peer-urls", format!("http://127.0.0.1:{peer_port}")),
            option("initial-cluster", cluster.to_owned()),
            option("logger", "zap".to_owned()),
        ]
        .concat()
    }

    fn log(&self) -> String {
        self.server.as_ref().map(Server::log).unwrap_or_default()
    }
}

/// Asks a member over HTTP, which is enough to see whether it is there.
fn ask(port: u16, method: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let length = if method == "POST" { 2 } else { 0 };
    let body = &"{}"[..length];
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// A field of a JSON object, as it is written.
fn field<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = json.split_once(&format!("\"{name}\":"))?;
    rest.split([',', '}']).next()
}
