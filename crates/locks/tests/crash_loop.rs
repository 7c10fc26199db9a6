//! Killed again and again while it takes and gives back locks: no fence goes back, and no grant that was
//! told of is lost.
//!
//! `BELL_CRASH_CYCLES` says how often, for each store. The last test is the control: the same loop over a
//! store that forgets must find what it is looking for.

#![expect(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bell_locks::{Ask, Fence, Identity, Keep, Key, LockBackend, Session};

const CYCLES: usize = 100;
const LANES: usize = 4;

const ROLE: &str = "BELL_CRASH_URL";
const KEEP: &str = "BELL_CRASH_KEEP";
const TOLD: &str = "BELL_CRASH_TOLD";

/// Not a test: what is killed. Without a URL there is nothing to do.
#[test]
fn child() {
    let Ok(url) = std::env::var(ROLE) else { return };
    let keep = if std::env::var_os(KEEP).is_some() { Keep::Attended } else { Keep::Detached };
    let told = std::env::var_os(TOLD).unwrap();
    runtime().block_on(async {
        let backend = bell_locks::open(&url).await.unwrap();
        let told = Arc::new(File::options().append(true).open(told).unwrap());
        let mut lanes = tokio::task::JoinSet::new();
        for lane in 0..LANES {
            lanes.spawn(run_lane(backend.clone(), keep, lane, told.clone()));
        }
        lanes.join_next().await.unwrap().unwrap();
    });
}

/// Takes a key and gives it back, as fast as it can, and tells of each answer.
async fn run_lane(backend: Arc<dyn LockBackend>, keep: Keep, lane: usize, told: Arc<File>) {
    let session = Session::new(Identity::default(), keep).unwrap();
    let key = key(lane);
    // One write for one line: a kill leaves it out or leaves it whole.
    let tell = |what: &str, fence: Fence| {
        (&*told).write_all(format!("{what} {lane} {fence}\n").as_bytes()).unwrap();
    };
    for round in 0_u64.. {
        let lease = backend.acquire(&session, &Ask::new(key.clone())).await.unwrap().remove(0);
        tell("granted", lease.fence);
        tokio::time::sleep(Duration::from_micros(round * 397 % 3_000)).await;
        tell("releasing", lease.fence);
        backend.release(&session, &lease).await.unwrap();
    }
}

fn key(lane: usize) -> Key {
    Key::parse(&format!("crash://loop/{lane}")).unwrap()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "somebody has to be killed")]
fn start(url: &str, keep: Keep, told: &Path) -> Child {
    File::create(told).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(ROLE, url).env(TOLD, told).stdout(Stdio::null());
    if keep == Keep::Attended {
        command.env(KEEP, "1");
    }
    command.spawn().unwrap()
}

/// What a child told of a lane: every fence in order, and the one it had not begun to give back.
#[derive(Default)]
struct Lane {
    granted: Vec<Fence>,
    still_held: Option<Fence>,
}

static NOTHING: Lane = Lane { granted: Vec::new(), still_held: None };

fn read(told: &Path) -> BTreeMap<usize, Lane> {
    let mut lanes = BTreeMap::<usize, Lane>::new();
    for line in std::fs::read_to_string(told).unwrap().lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let lane = lanes.entry(words[1].parse().unwrap()).or_default();
        let fence = Fence(words[2].parse().unwrap());
        match words[0] {
            "granted" => {
                lane.granted.push(fence);
                lane.still_held = Some(fence);
            }
            "releasing" => lane.still_held = None,
            other => panic!("{other}"),
        }
    }
    lanes
}

/// What a loop has seen and found.
#[derive(Default, Debug)]
struct Found {
    highest: BTreeMap<usize, Fence>,
    told: usize,
    held_at_death: usize,
    fences_that_went_back: Vec<String>,
    grants_that_were_lost: Vec<String>,
}

impl Found {
    /// Every fence of a lane is greater than any before it, over all cycles.
    fn fence(&mut self, cycle: usize, lane: usize, fence: Fence) {
        let highest = self.highest.entry(lane).or_insert(Fence(0));
        if fence <= *highest {
            self.fences_that_went_back.push(format!("cycle {cycle}, lane {lane}: {fence} after {highest}"));
        }
        *highest = fence.max(*highest);
    }

    /// Looks at the store with the eyes of another program.
    async fn inspect(&mut self, cycle: usize, url: &str, keep: Keep, lanes: &BTreeMap<usize, Lane>) {
        let backend = bell_locks::open(url).await.unwrap();
        let session = Session::new(Identity::default(), Keep::Attended).unwrap();
        // Every lane: one that told nothing may have been granted something all the same.
        for number in 0..LANES {
            let lane = lanes.get(&number).unwrap_or(&NOTHING);
            self.told += lane.granted.len();
            lane.granted.iter().for_each(|fence| self.fence(cycle, number, *fence));
            let holders = backend.is_held(&key(number)).await.unwrap();
            if let Some(held) = lane.still_held {
                self.held_at_death += 1;
                // The lease of an attended session goes with its process; any other stands for an hour.
                let stands = holders.iter().any(|holder| holder.fence == Some(held));
                if !stands && keep == Keep::Detached {
                    let found = holders.first().map(|holder| holder.fence);
                    self.grants_that_were_lost
                        .push(format!("cycle {cycle}, lane {number}: {held}, found {found:?}"));
                }
            }
            if !holders.is_empty() {
                backend.break_lock(&key(number), "its process was killed", "the crash loop").await.unwrap();
            }
            let ask = Ask::new(key(number)).wait(Duration::from_secs(20));
            let lease = backend.acquire(&session, &ask).await.unwrap().remove(0);
            self.fence(cycle, number, lease.fence);
            backend.release(&session, &lease).await.unwrap();
        }
        backend.end_session(&session).await.unwrap();
    }
}

fn crash(url: &str, folder: &Path, cycles: usize) -> Found {
    let runtime = runtime();
    let mut found = Found::default();
    for cycle in 0..cycles {
        let keep = if cycle % 2 == 0 { Keep::Detached } else { Keep::Attended };
        // A file of its own for each cycle: what an earlier child told can't be taken for this one's.
        let told = folder.join(format!("told-{cycle}"));
        let mut child = start(url, keep, &told);
        while read(&told).len() < LANES {
            assert_eq!(child.try_wait().unwrap(), None, "the child ended by itself in cycle {cycle}");
            std::thread::sleep(Duration::from_millis(1));
        }
        // Another moment in each cycle: in a commit, in an answer, while holding.
        std::thread::sleep(Duration::from_micros(cycle as u64 * 7_919 % 40_000));
        assert_eq!(child.try_wait().unwrap(), None, "the child ended by itself in cycle {cycle}");
        child.kill().unwrap();
        child.wait().unwrap();
        runtime.block_on(found.inspect(cycle, url, keep, &read(&told)));
    }
    found
}

fn cycles() -> usize {
    std::env::var("BELL_CRASH_CYCLES").ok().and_then(|text| text.parse().ok()).unwrap_or(CYCLES)
}

fn loses_nothing(scheme: &str) {
    let folder = tempfile::tempdir().unwrap();
    let found = crash(&format!("{scheme}:{}/locks", folder.path().display()), folder.path(), cycles());
    println!(
        "{scheme}: {} cycles, {} grants told of, {} held at death",
        cycles(),
        found.told,
        found.held_at_death
    );
    assert!(found.fences_that_went_back.is_empty(), "{:?}", found.fences_that_went_back);
    assert!(found.grants_that_were_lost.is_empty(), "{:?}", found.grants_that_were_lost);
    assert!(found.held_at_death > cycles() / 4, "nobody was killed while holding: {found:?}");
}

#[test]
fn sqlite_loses_no_grant_and_no_fence_however_often_its_user_is_killed() {
    loses_nothing("sqlite");
}

#[test]
fn a_folder_loses_no_grant_and_no_fence_however_often_its_user_is_killed() {
    loses_nothing("file");
}

#[test]
fn the_loop_finds_what_a_forgetful_store_loses() {
    let folder = tempfile::tempdir().unwrap();
    let found = crash("memory:", folder.path(), 8);
    assert!(!found.fences_that_went_back.is_empty(), "{found:?}");
    assert!(!found.grants_that_were_lost.is_empty(), "{found:?}");
}
