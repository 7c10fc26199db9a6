//! A daemon is replaced while requests come, and none is lost: whoever starts it holds the port open, as systemd does.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::served::Reply;
use crate::support::{Place, Running, eventually, start};

/// Only a test that fails waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a command with the socket on its standard input as descriptor 3, as systemd would.
const HAND_OVER: &str = "import os, sys
os.dup2(0, 3)
os.dup2(os.open('/dev/null', os.O_RDONLY), 0)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[1], sys.argv[1:])";

/// Starts the daemon with the port of another, and returns when it is ready.
fn up_with(place: &Place, port: &TcpListener) -> Running {
    let bell = place.command(&["--json", "up"]);
    #[expect(clippy::disallowed_methods, reason = "it plays systemd")]
    let mut systemd = Command::new("python3");
    systemd.args(["-c", HAND_OVER]).arg(bell.get_program()).args(bell.get_args());
    systemd.current_dir(place.folder.path()).stdin(Stdio::from(OwnedFd::from(port.try_clone().unwrap())));
    for (name, value) in bell.get_envs() {
        match value {
            Some(value) => systemd.env(name, value),
            None => systemd.env_remove(name),
        };
    }
    let mut daemon = start(systemd);
    assert!(daemon.line().contains("\"ready\""));
    daemon
}

/// What a client does with its connection after an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Habit {
    Keep,
    Close,
}

/// Requests that come one after the other until they are told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Half of the clients make a connection for each request; the others keep theirs.
    fn on(address: SocketAddr, key: &str) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let client = |habit: Habit| {
            let (stop, answered, key) = (Arc::clone(&stop), Arc::clone(&answered), key.to_owned());
            std::thread::spawn(move || {
                let mut kept = None;
                while !stop.load(Ordering::Relaxed) {
                    kept = ask(address, &key, kept, habit);
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let clients = [Habit::Keep, Habit::Close, Habit::Keep, Habit::Close].map(client).into();
        Self { stop, answered, clients }
    }

    /// Returns when so many more were answered.
    fn until_answered(&self, more: usize) {
        let wanted = self.answered.load(Ordering::Relaxed) + more;
        eventually("requests are answered", || self.answered.load(Ordering::Relaxed) >= wanted);
    }

    /// Ends it; fails if a request did.
    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("every request is answered");
        }
    }
}

/// Asks, on a connection that is kept if there is one; answers the connection if it is to be kept. A client that is at
/// work is told before its connection ends, so a request that goes unanswered on a kept one counts as lost too.
fn ask(address: SocketAddr, key: &str, kept: Option<TcpStream>, habit: Habit) -> Option<TcpStream> {
    let connection = if habit == Habit::Keep { "keep-alive" } else { "close" };
    let request = format!(
        "GET /v1/locks HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nConnection: {connection}\r\n\r\n"
    );
    let mut stream = kept.unwrap_or_else(|| TcpStream::connect(address).unwrap());
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let sent = stream.write_all(request.as_bytes());
    match sent.and_then(|()| answer(&mut stream)) {
        Ok(bytes) if !bytes.is_empty() => {
            let reply = Reply::parse(&bytes).expect("an answer").expect(200);
            let is_over = reply.header("connection").is_some_and(|said| said == "close");
            (habit == Habit::Keep && !is_over).then_some(stream)
        }
        unanswered => panic!("a request was lost: {unanswered:?}"),
    }
}

/// The bytes of one answer; none if the connection ended without.
fn answer(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let end = bytes.windows(4).position(|window: &[u8]| window == b"\r\n\r\n");
        if let Some(end) = end {
            let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
            let length =
                head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            if bytes.len() >= end + 4 + length.expect("a length") {
                return Ok(bytes);
            }
        }
        match stream.read(&mut part)? {
            0 => return Ok(bytes),
            count => bytes.extend_from_slice(&part[..count]),
        }
    }
}

#[test]
fn a_daemon_is_replaced_under_load_and_no_request_is_lost() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap();
    let first = up_with(&place, &port);
    let key = std::fs::read_to_string(place.path(".bell/api-key")).unwrap();
    let load = Load::on(address, key.trim());
    load.until_answered(200);
    first.stop();
    let second = up_with(&place, &port);
    load.until_answered(200);
    load.end();
    second.stop();
}
