//! PostgreSQL, and PgBouncer in front of it.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::Signal;

use crate::server::command;
use crate::{Server, free_port};

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// How long a server may take to answer. Only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// A running server with a superuser `postgres`, whose password is [`Postgres::PASSWORD`]. Dropped, it is
/// killed and its data is removed.
pub struct Postgres {
    port: u16,
    data: tempfile::TempDir,
    options: Vec<String>,
    /// `None`: it was killed.
    server: Option<Server>,
}

impl Postgres {
    /// The superuser's password.
    pub const PASSWORD: &str = "hunter2";

    /// Starts a server that does not sync its disk.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start() -> Self {
        Self::start_with(&["-c", "fsync=off"])
    }

    /// Starts a server with these options.
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
        let data = private_folder(place);
        let password = data.path().join("password");
        fs::write(&password, Self::PASSWORD).expect("a file with the password");
        let mut initdb = as_postgres(&format!("{PROGRAMS}/initdb"));
        initdb.args(["--no-sync", "-U", "postgres", "-E", "UTF8", "--locale=C"]);
        initdb.args(["--auth-local=trust", "--auth-host=scram-sha-256"]);
        initdb.arg("--pwfile").arg(&password).arg("-D").arg(data.path().join("data"));
        done(&mut initdb);
        Self::on(data, options)
    }

    /// Starts a server that also takes encrypted connections to 127.0.0.1. With the certificate to trust.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start_encrypted() -> (Self, PathBuf) {
        let mut server = Self::start();
        let folder = server.data.path().join("data");
        let (certificate, key) = (folder.join("server.crt"), folder.join("server.key"));
        let mut openssl = as_postgres("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "2", "-newkey", "ec", "-pkeyopt"]);
        openssl.args(["ec_paramgen_curve:prime256v1", "-subj", "/CN=127.0.0.1"]);
        openssl.args(["-addext", "subjectAltName=IP:127.0.0.1"]);
        openssl
            .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
            .arg(&key)
            .arg("-out")
            .arg(&certificate);
        done(&mut openssl);
        server.options.extend(["-c", "ssl=on"].map(str::to_owned));
        server.restart();
        (server, certificate)
    }

    /// Starts a standby that follows `primary`, which must let it.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn standby_of(primary: &Self, options: &[&str]) -> Self {
        let data = private_folder(&std::env::temp_dir());
        let mut copy = as_postgres(&format!("{PROGRAMS}/pg_basebackup"));
        copy.args(["-R", "-X", "stream", "-c", "fast", "-N", "-U", "postgres", "-h"]);
        copy.arg(primary.data.path()).arg("-p").arg(primary.port.to_string());
        copy.arg("-D").arg(data.path().join("data"));
        done(&mut copy);
        Self::on(data, options)
    }

    /// One server for all tests of this process that need it at the same time.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Self::start());
            *shared = Arc::downgrade(&server);
            server
        })
    }

    fn on(data: tempfile::TempDir, options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = Self { port: free_port(), data, options, server: None };
        server.restart();
        server
    }

    /// The URL of a store in this schema.
    pub fn url(&self, schema: &str) -> String {
        self.url_as("postgres", Self::PASSWORD, "postgres", schema)
    }

    /// The URL of a store in this schema of a database, for this user.
    pub fn url_as(&self, user: &str, password: &str, database: &str, schema: &str) -> String {
        format!("postgres://{user}:{password}@127.0.0.1:{}/{database}?schema={schema}", self.port)
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its socket, where the superuser needs no password.
    pub fn socket(&self) -> PathBuf {
        self.data.path().join(format!(".s.PGSQL.{}", self.port))
    }

    /// Which version of PostgreSQL it is.
    ///
    /// # Panics
    /// If it does not say.
    pub fn version(&self) -> String {
        let told = self.sql("SHOW server_version");
        told.split(' ').next().unwrap_or(&told).to_owned()
    }

    /// Runs statements as the superuser. What they select, one line for each row.
    ///
    /// # Panics
    /// If one of them fails.
    pub fn sql(&self, statements: &str) -> String {
        done(&mut self.psql(statements))
    }

    /// Runs statements on a server that may be out of order. `None`: one of them failed.
    pub fn try_sql(&self, statements: &str) -> Option<String> {
        let output = self.psql(statements).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Makes a standby a server of its own.
    ///
    /// # Panics
    /// If it is none.
    pub fn promote(&self) {
        assert_eq!(self.sql("SELECT pg_promote()"), "t");
    }

    /// Kills it, as a power cut would end it; its data stays.
    pub fn kill(&mut self) {
        self.server = None;
    }

    /// Whether it runs: it was not killed, and has not ended by itself.
    pub fn runs(&mut self) -> bool {
        self.server.as_mut().is_some_and(|server| !server.has_ended())
    }

    /// Starts it on the same port and data, and waits until it serves.
    ///
    /// # Panics
    /// If it does not.
    pub fn restart(&mut self) {
        self.server = None;
        let mut log = String::new();
        for _ in 0..20 {
            self.server = Some(self.spawn());
            if self.serves() {
                return;
            }
            // What is left of a killed server may still be ending, or somebody else has the port.
            log = self.server.take().map(|server| server.log()).unwrap_or_default();
            sleep(Duration::from_millis(250));
        }
        panic!("PostgreSQL did not start: {log}");
    }

    /// Sends a signal to all its processes: STOP and CONT freeze and thaw it.
    ///
    /// # Panics
    /// If it is not running.
    pub fn signal_all(&self, signal: Signal) {
        let server = self.server.as_ref().expect("a running server");
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.pid()));
        server.signal(signal).expect("a running server");
        for child in children.expect("a running server").split_whitespace() {
            // A child may have ended meanwhile.
            let _ = child.parse().map(|pid| crate::server::signal(pid, signal));
        }
    }

    fn spawn(&self) -> Server {
        let folder = self.data.path();
        let program = Path::new(PROGRAMS).join("postgres");
        assert!(program.exists(), "PostgreSQL is not installed: apt-get install postgresql");
        Server::start(Path::new("setpriv"), "util-linux", |_| {
            let mut arguments = dropped_privileges();
            // Dropping privileges forgets the signal.
            arguments.extend(["--pdeathsig", "KILL", "--"].map(str::to_owned));
            arguments.push(program.display().to_string());
            arguments.extend(["-D".to_owned(), folder.join("data").display().to_string()]);
            arguments.extend(["-k".to_owned(), folder.display().to_string()]);
            arguments.extend(["-p".to_owned(), self.port.to_string()]);
            arguments.extend(["-c", "listen_addresses=127.0.0.1"].map(str::to_owned));
            // Killed, it would leave memory behind that nobody frees; files go with the folder.
            arguments.extend(["-c", "dynamic_shared_memory_type=mmap"].map(str::to_owned));
            arguments.extend(self.options.iter().cloned());
            arguments
        })
    }

    fn serves(&mut self) -> bool {
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            let mut ready = self.client("pg_isready");
            if ready.arg("-q").status().expect("pg_isready").success() {
                return true;
            }
            if self.server.as_mut().is_none_or(Server::has_ended) {
                return false;
            }
            sleep(PAUSE);
        }
        false
    }

    fn psql(&self, statements: &str) -> Command {
        let mut psql = self.client("psql");
        psql.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statements]);
        psql
    }

    fn client(&self, program: &str) -> Command {
        let mut client = command(&format!("{PROGRAMS}/{program}"));
        client.arg("-h").arg(self.data.path()).args(["-p", &self.port.to_string(), "-U", "postgres"]);
        client.env("PGDATABASE", "postgres");
        client
    }
}

/// PgBouncer in transaction mode.
pub struct PgBouncer {
    port: u16,
    _server: Server,
}

impl PgBouncer {
    /// Starts one in front of `server`, with `connections` to it.
    ///
    /// # Panics
    /// If it can't be started.
    pub fn start(server: &Postgres, connections: usize) -> Self {
        let program = Path::new("/usr/sbin/pgbouncer");
        assert!(program.exists(), "PgBouncer is not installed: apt-get install pgbouncer");
        let port = free_port();
        let bouncer = Server::start(Path::new("setpriv"), "util-linux", |folder| {
            let (settings, users) = (folder.join("settings"), folder.join("users"));
            fs::write(&users, format!("\"postgres\" \"{}\"\n", Postgres::PASSWORD)).expect("a file of users");
            let text = format!(
                "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
                 listen_port = {port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {}\n\
                 pool_mode = transaction\ndefault_pool_size = {connections}\n",
                server.port,
                users.display()
            );
            fs::write(&settings, text).expect("a file of settings");
            owned_by_postgres(folder);
            let mut arguments = dropped_privileges();
            arguments.extend(["--pdeathsig", "KILL", "--"].map(str::to_owned));
            arguments.extend([program.display().to_string(), settings.display().to_string()]);
            arguments
        });
        for _ in 0..PATIENCE.as_millis() / PAUSE.as_millis() {
            if std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Self { port, _server: bouncer };
            }
            sleep(PAUSE);
        }
        panic!("PgBouncer did not start: {}", bouncer.log());
    }

    /// The URL of a store in this schema, through the pooler.
    pub fn url(&self, schema: &str) -> String {
        let password = Postgres::PASSWORD;
        format!("postgres://postgres:{password}@127.0.0.1:{}/postgres?schema={schema}", self.port)
    }
}

/// PostgreSQL refuses to run as root.
fn dropped_privileges() -> Vec<String> {
    if !rustix::process::geteuid().is_root() {
        return Vec::new();
    }
    ["--reuid", "postgres", "--regid", "postgres", "--clear-groups"].map(str::to_owned).to_vec()
}

fn as_postgres(program: &str) -> Command {
    let mut command = command("setpriv");
    command.args(dropped_privileges()).arg("--").arg(program);
    command
}

fn private_folder(place: &Path) -> tempfile::TempDir {
    let folder = tempfile::tempdir_in(place).expect("a temporary folder");
    owned_by_postgres(folder.path());
    folder
}

fn owned_by_postgres(folder: &Path) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let users = fs::read_to_string("/etc/passwd").expect("a list of users");
    let line = users.lines().find_map(|line| line.strip_prefix("postgres:"));
    let mut fields = line.expect("a user postgres: apt-get install postgresql").split(':').skip(1);
    let mut number = || fields.next().and_then(|digits| digits.parse().ok());
    let (user, group) = (number(), number());
    let inside = fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    for path in inside.chain([PathBuf::from(folder)]) {
        chown(path, user, group).expect("a change of owner");
    }
}

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("could not start {command:?}: {error}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
