//! Deliveries from outside: verified, stored and queued by the real daemon, over HTTP with connections that stay open.
//!
//! The clients are one thread of this process and use the same processors. GitHub signs the body alone, so they sign once and
//! give each delivery an id of its own; the daemon checks the signature of each.

mod clients;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use bell_core::work::pause::Extent;
use bell_store::clock::boottime;
use hmac::{Hmac, KeyInit, Mac};
use serde::Serialize;
use serde_json::Value;
use sha2::Sha256;

use crate::bench::Bench;
use crate::figures::{Spread, per_second};
use crate::limits;
use crate::scheduler::fleet::{Project, Up, agent, cpu_seconds};
use crate::scheduler::program_or_beside;
use crate::table::{Table, number, number_or_dash, whole};
use crate::targets::Target;

const SECRET: &str = "It's a Secret to Everybody";
/// Twenty times what a tool of today reached on a machine like this.
const GOAL_PER_SECOND: f64 = 20_000.0;
/// What the goal is judged by.
const GOAL_CLIENTS: usize = 64;

/// Clients, and bytes in a body: a small one, and what GitHub sends of an issue.
const CASES: [(usize, usize); 4] = [(1, SMALL), (16, SMALL), (64, SMALL), (64, 10 << 10)];
const SMALL: usize = 1 << 10;

/// How many deliveries were taken.
#[derive(Serialize)]
pub(crate) struct Deliveries {
    what: &'static str,
    clients: usize,
    bytes: usize,
    per_second: f64,
    latency: Option<Spread>,
    /// Processor time of the daemon alone, each.
    daemon_us: f64,
    /// What the disk alone did right before and right after.
    fdatasync_per_second: f64,
}

pub(crate) fn measure(bench: &Bench, program: Option<&Path>) -> Result<Vec<Deliveries>> {
    let program = program_or_beside(program)?;
    let mut all = Vec::new();
    for (clients, bytes) in CASES {
        bench.tell(&format!("webhooks of {bytes} bytes from {clients} clients"));
        all.push(one(bench, &program, clients, &Request::delivery(bytes)?)?);
    }
    bench.tell("the same server, asked for nothing");
    all.push(one(bench, &program, GOAL_CLIENTS, &Request::nothing())?);
    Ok(all)
}

/// A request that is sent again and again, with another id each time.
struct Request {
    what: &'static str,
    before_id: String,
    after_id: String,
    bytes: usize,
    status: &'static [u8],
}

impl Request {
    fn delivery(bytes: usize) -> Result<Self> {
        let body = body(bytes);
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(SECRET.as_bytes())?;
        mac.update(body.as_bytes());
        let signature: String =
            mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let before_id = "POST /webhooks/hub HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
            User-Agent: GitHub-Hookshot/044aadd\r\nX-GitHub-Event: issues\r\nX-GitHub-Delivery: ";
        let after_id = format!(
            "\r\nX-Hub-Signature-256: sha256={signature}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        Ok(Self {
            what: "verified, stored and queued",
            before_id: before_id.to_owned(),
            after_id,
            bytes: body.len(),
            status: b"HTTP/1.1 202 ",
        })
    }

    fn nothing() -> Self {
        Self {
            what: "GET /healthz",
            before_id: "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Id: ".to_owned(),
            after_id: "\r\n\r\n".to_owned(),
            bytes: 0,
            status: b"HTTP/1.1 200 ",
        }
    }
}

/// An issue as GitHub tells it, with a text that makes it this long.
fn body(bytes: usize) -> String {
    let issue = |text: &str| {
        format!(
            r#"{{"action":"opened","issue":{{"number":1347,"title":"Found a bug","user":{{"login":"octocat"}},"labels":[{{"name":"bug"}}],"html_url":"https://github.example/octocat/hello/issues/1347","body":"{text}"}},"repository":{{"full_name":"octocat/hello"}},"sender":{{"login":"octocat"}}}}"#
        )
    };
    let rest = bytes.saturating_sub(issue("").len());
    issue(&"x".repeat(rest))
}

fn one(bench: &Bench, program: &Path, clients: usize, request: &Request) -> Result<Deliveries> {
    let project = project(bench)?;
    let up = Up::start(program, &project)?;
    let address = address(&project)?;
    let before = limits::fdatasync(bench, bench.span() / 3)?;
    let (begun, cpu) = (boottime(), cpu_seconds(up.pid())?);
    let taken = clients::ask(&address, clients, request, begun + bench.span())?;
    let (span, cpu) = (boottime() - begun, cpu_seconds(up.pid())? - cpu);
    let after = limits::fdatasync(bench, bench.span() / 3)?;
    let count = taken.len();
    if request.bytes > 0 {
        let waiting = bench.runtime.block_on(project.coord()?.line(&agent(0)?))?.waiting;
        ensure!(usize::try_from(waiting)? == count, "{waiting} jobs came of {count} deliveries");
    }
    up.stop()?;
    Ok(Deliveries {
        what: request.what,
        clients,
        bytes: request.bytes,
        per_second: per_second(count, span),
        latency: Spread::of(taken),
        daemon_us: cpu * 1e6 / count.max(1) as f64,
        fdatasync_per_second: f64::midpoint(before, after),
    })
}

/// A project with one agent that wants everything, and is paused: what is measured is taking deliveries on.
fn project(bench: &Bench) -> Result<Project> {
    let project = Project::make(bench, 1, &["true"])?;
    let write = |name: &str, text: &str| fs::write(project.folder.join(name), text);
    write("config.toml", "[gateway]\nport = 0\n[webhooks.hub]\ntype = \"github\"\nsecret = \"HUB\"\n")?;
    let settings = "run = [\"true\"]\nwork_queue_size = 1000000\noverflow = \"reject\"\n\
        [[webhooks]]\nsource = \"hub\"\nevents = \"issues\"\nlabels = [\"bug\", \"security\"]\n";
    write("agents/agent-0/config.toml", settings)?;
    let coord = project.coord()?;
    fs::create_dir_all(project.folder.join(".bell/secrets"))?;
    write(".bell/secrets/HUB", SECRET)?;
    fs::set_permissions(project.folder.join(".bell/secrets/HUB"), Permissions::from_mode(0o600))?;
    bench.runtime.block_on(coord.pause(&Extent::Fleet, "measuring"))?;
    Ok(project)
}

fn address(project: &Project) -> Result<String> {
    let text = fs::read_to_string(project.folder.join(".bell/gateway.json"))?;
    let gateway: Value = serde_json::from_str(&text)?;
    let url = gateway["url"].as_str().context("could not find where the daemon listens")?;
    Ok(url.trim_start_matches("http://").to_owned())
}

pub(crate) fn table(all: &[Deliveries]) -> Table {
    let columns = [
        "what",
        "clients",
        "bytes",
        "per second",
        "p50 µs",
        "p99 µs",
        "fdatasync/s",
        "CPU µs of the daemon, each",
    ];
    let mut table = Table::new("Deliveries over HTTP, on SQLite", &columns);
    for one in all {
        table.row(vec![
            one.what.to_owned(),
            one.clients.to_string(),
            whole(one.bytes),
            number(one.per_second),
            number_or_dash(one.latency.map(|latency| latency.p50_us)),
            number_or_dash(one.latency.map(|latency| latency.p99_us)),
            number(one.fdatasync_per_second),
            number(one.daemon_us),
        ]);
    }
    table
}

pub(crate) fn judge(all: &[Deliveries]) -> Vec<Target> {
    let is_meant = |one: &&Deliveries| one.clients == GOAL_CLIENTS && one.bytes == SMALL;
    let target = |one: &Deliveries| Target {
        goal: format!(
            "{GOAL_CLIENTS} clients: at least {} deliveries per second verified, stored and queued",
            number(GOAL_PER_SECOND)
        ),
        seen: number(one.per_second),
        met: one.per_second >= GOAL_PER_SECOND,
    };
    all.iter().filter(is_meant).map(target).collect()
}
