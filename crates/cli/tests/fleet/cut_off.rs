//! A node that loses its store while its agents ignore TERM, and supervisors that are stopped: the agents are gone before the
//! store gives their place to others.
//!
//! `BELL_CUTS=50` makes that many cuts with each grace, some of them at the same time; without it there is one of each.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bell_e2e::Redis;
use rustix::process::{Pid, Signal, kill_process};

use crate::fleet::lives as is_alive;
use crate::support::{Place, Running, eventually, eventually_or_show};

/// Runs at once that the fleet allows, all of them on the node that is cut off.
const SCALE: usize = 2;

/// Cuts at the same time in the long version: more would measure the machine.
const SIDE_BY_SIDE: usize = 5;

/// Says every few hundredths of a second that it lives, by the clock of the machine, and ignores TERM.
const STUBBORN: &str = "trap '' TERM\nwhile [ ! -e LEDGER/go ] && [ -e LEDGER ]; do read now rest < /proc/uptime; \
                        echo $BELL_JOB $BELL_RUN $now >> LEDGER/beats; sleep 0.02; done";

/// The way from a node to its store, which can be cut: what is sent on it then is swallowed.
struct Way {
    port: u16,
    is_cut: Arc<AtomicBool>,
}

impl Way {
    fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else { return };
                let ends = |from: &TcpStream, to: &TcpStream| {
                    (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&cut))
                };
                for (from, to, cut) in [ends(&client, &server), ends(&server, &client)] {
                    thread::spawn(move || relay(from, to, &cut));
                }
            }
        });
        Self { port, is_cut }
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
    }

    fn heal(&self) {
        self.is_cut.store(false, Ordering::SeqCst);
    }
}

/// Moves data until a side has ended. What came while the way was cut is lost, and the connection with it.
fn relay(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    let (mut buffer, mut has_lost) = (vec![0; 16 * 1024], false);
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        has_lost |= cut.load(Ordering::SeqCst);
        if has_lost && !cut.load(Ordering::SeqCst) {
            break;
        }
        if !has_lost && to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _ = end.shutdown(std::net::Shutdown::Both);
    }
}

/// When a run first and last said that it lives, in seconds since the machine started.
#[derive(Debug)]
struct Life {
    job: String,
    first: f64,
    last: f64,
}

fn lives(place: &Place) -> BTreeMap<String, Life> {
    let mut lives = BTreeMap::<String, Life>::new();
    for line in place.lines("beats") {
        let [job, run, now] = line.split(' ').collect::<Vec<_>>()[..] else { continue };
        let Ok(now) = now.parse::<f64>() else { continue };
        let life = lives.entry(run.to_owned()).or_insert(Life { job: job.to_owned(), first: now, last: now });
        life.last = now;
    }
    lives
}

/// Why the runs of a place ended, as their supervisors wrote it down, or who found them dead.
fn reasons(place: &Place) -> Vec<String> {
    let runs = std::fs::read_dir(place.path(".bell/runs")).unwrap().flatten();
    let exits = runs.filter_map(|run| std::fs::read(run.path().join("exit.json")).ok());
    let exits = exits.map(|exit| serde_json::from_slice::<serde_json::Value>(&exit).unwrap());
    exits.map(|exit| exit["reason"]["kind"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Cuts a node off whose runs fill the fleet, and answers how long before its successor's first sign each of them gave its
/// last, in seconds, and the most that lived at once.
fn cut_off(redis: &Redis, name: &str, grace: &str, delay: Duration) -> (Vec<f64>, usize) {
    let way = Way::to(redis.port());
    let url = redis.url(name);
    let through = url.replace(&format!(":{}/", redis.port()), &format!(":{}/", way.port));
    let [node, other] = [through, url].map(|url| Place { url, ..Place::sqlite() });
    let ledger = node.path("");
    let ledger = ledger.display().to_string();
    for place in [&node, &other] {
        place.write("config.toml", &format!("scale = {SCALE}\n"));
        let retry = "retry = { attempts = 2, on = [\"lost\"], backoff = \"100ms\" }";
        let settings = format!("scale = 5\n{retry}\n{grace}\n");
        place.agent("stubborn", &STUBBORN.replace("LEDGER", ledger.trim_end_matches('/')), &settings);
    }
    let first = node.up();
    let jobs: Vec<String> = (0..SCALE).map(|_| node.ask("stubborn")).collect();
    eventually("its runs fill the fleet", || lives(&node).len() == SCALE);
    let second = other.up();
    // Anywhere between two heartbeats.
    thread::sleep(delay);
    way.cut();
    let both = || lives(&node).len() == 2 * SCALE;
    eventually_or_show("the jobs run on the other node", both, || {
        let of_job = |job: &String| other.run(&["why", job]).out;
        format!(
            "{:?}\n{}\n{}",
            lives(&node),
            other.run(&["runs"]).out,
            jobs.iter().map(of_job).collect::<String>()
        )
    });
    // A run that goes on beside its successor would show now.
    thread::sleep(Duration::from_secs(1));
    let seen = lives(&node);
    node.write("go", "");
    way.heal();
    second.stop();
    // It may not have found its store again, and then says so.
    first.signal(Signal::TERM);
    first.end();
    // On a machine that is very busy the watchdog of one may have come first.
    let ended_by_supervisors = reasons(&node).iter().filter(|reason| *reason == "revoked").count();
    assert!(ended_by_supervisors > 0, "{:?}", reasons(&node));
    let gaps = jobs.iter().map(|job| {
        let mut of: Vec<&Life> = seen.values().filter(|life| life.job == *job).collect();
        of.sort_by(|a, b| a.first.total_cmp(&b.first));
        assert_eq!(of.len(), 2, "each job ran on both nodes");
        of[1].first - of[0].last
    });
    let at = |moment: f64| seen.values().filter(|life| life.first <= moment && moment <= life.last).count();
    (gaps.collect(), seen.values().map(|life| at(life.first)).max().unwrap_or(0))
}

#[test]
fn a_node_that_is_cut_off_ends_stubborn_agents_before_others_take_their_place() {
    let redis = Redis::start();
    let cuts: usize = std::env::var("BELL_CUTS").map_or(1, |cuts| cuts.parse().unwrap());
    let graces = ["", "grace = \"60s\""];
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE.min(cuts * graces.len()) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= cuts * graces.len() {
                        return;
                    }
                    let delay = Duration::from_millis(number as u64 * 997 % 5_000);
                    let grace = graces[number % graces.len()];
                    let (gaps, most) = cut_off(&redis, &format!("cut{number}"), grace, delay);
                    println!("cut {number}, {grace:?}: gaps {gaps:.2?} s, {most} of {SCALE} at once");
                    results.lock().unwrap().push((grace, gaps, most));
                }
            });
        }
    });
    let results = results.into_inner().unwrap();
    for grace in graces {
        let of = || results.iter().filter(|(of, ..)| *of == grace);
        let gaps: Vec<f64> = of().flat_map(|(_, gaps, _)| gaps.clone()).collect();
        let overlaps = gaps.iter().filter(|gap| **gap <= 0.0).count();
        let exceeded = of().filter(|(.., most)| *most > SCALE).count();
        let least = gaps.iter().copied().fold(f64::INFINITY, f64::min);
        println!(
            "{grace:?}: {} cuts, {overlaps} overlaps, {exceeded} caps exceeded, least gap {least:.2} s",
            of().count()
        );
        assert_eq!((of().count(), overlaps, exceeded), (cuts, 0, 0), "{grace:?}");
    }
}

/// A fleet for one run at a time, whose agent says that it lives from a child in a session of its own, and its daemon.
fn with_a_stubborn_child() -> (Place, Running) {
    let place = Place::sqlite();
    let child = STUBBORN.replace("LEDGER", place.path("").display().to_string().trim_end_matches('/'));
    place.write("child", &format!("{child}\n"));
    let script = "echo $$ > agent; setsid sh ./child & wait";
    let retry = "retry = { attempts = 2, on = [\"lost\"], backoff = \"100ms\" }\n";
    place.agent("stubborn", script, retry);
    let daemon = place.up();
    place.ask("stubborn");
    eventually("it lives", || lives(&place).len() == 1);
    (place, daemon)
}

/// Stops the supervisor of the only run, and nothing else of it.
fn stop_supervisor(place: &Place) {
    let run = place.runs()[0]["run"].as_str().unwrap().to_owned();
    let state = std::fs::read(place.path(&format!(".bell/runs/{run}/state.json"))).unwrap();
    let state: serde_json::Value = serde_json::from_slice(&state).unwrap();
    let pid = i32::try_from(state["supervisor"]["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::STOP).unwrap();
}

#[test]
fn a_run_whose_supervisor_alone_is_stopped_is_gone_before_its_successor_starts() {
    let (place, daemon) = with_a_stubborn_child();
    stop_supervisor(&place);
    eventually("the job runs again", || lives(&place).len() == 2);
    thread::sleep(Duration::from_secs(1));
    let mut lives: Vec<Life> = lives(&place).into_values().collect();
    lives.sort_by(|a, b| a.first.total_cmp(&b.first));
    assert!(lives[0].last < lives[1].first, "{} < {}", lives[0].last, lives[1].first);
    place.write("go", "");
    eventually("both have ended", || place.ends() == ["completed", "lost"]);
    daemon.stop();
}

#[test]
fn an_agent_whose_supervisor_is_stopped_dies_with_no_daemon_there_and_the_rest_with_the_next() {
    let (place, daemon) = with_a_stubborn_child();
    let agent = place.lines("agent")[0].clone();
    daemon.signal(Signal::KILL);
    daemon.end();
    stop_supervisor(&place);
    eventually("the agent's main process is gone", || !is_alive(&agent));
    let daemon = place.up();
    eventually("the job runs again", || lives(&place).len() == 2);
    place.write("go", "");
    eventually("both have ended", || place.ends() == ["completed", "lost"]);
    let mut lives: Vec<Life> = lives(&place).into_values().collect();
    lives.sort_by(|a, b| a.first.total_cmp(&b.first));
    assert!(lives[0].last < lives[1].first, "{} < {}", lives[0].last, lives[1].first);
    daemon.stop();
}

#[test]
fn a_run_that_is_killed_has_its_whole_grace_while_its_lease_is_renewed() {
    let place = Place::sqlite();
    // Longer than a session lasts without a heartbeat.
    let script = "trap 'sleep 17; echo bye >> said; exit' TERM\necho up >> said\nwhile [ -e $PWD ]; do sleep 0.05; done";
    place.agent("slow", script, "grace = \"60s\"\n");
    let daemon = place.up();
    place.ask("slow");
    eventually("it runs", || place.lines("said") == ["up"]);
    let run = place.runs()[0]["run"].as_str().unwrap().to_owned();
    place.json(&["kill", &run]);
    eventually("it has ended", || place.ends() == ["killed"]);
    assert_eq!(place.lines("said"), ["up", "bye"]);
    daemon.stop();
}
