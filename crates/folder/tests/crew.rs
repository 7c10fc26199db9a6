//! Many processes on one queue: every item done exactly once, whoever is killed.
//!
//! A short run is part of the tests. `BELL_FOLDER_ITEMS=10000 cargo test -p bell-folder --test crew` has each of
//! the eight bring that many items.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bell_folder::Kind;
use bell_folder::name::ItemName;
use bell_folder::queue::{FolderQueue, Limits, Mode, Pulse, Settings, Syncing};
use support::{Ground, eventually, myself, order};

const CREW: usize = 8;
/// Items for each of the crew in the short run.
const ITEMS: usize = 150;

fn items() -> usize {
    std::env::var("BELL_FOLDER_ITEMS").ok().and_then(|text| text.parse().ok()).unwrap_or(ITEMS) * CREW
}

/// One of the processes of the other tests: works until the file `stop` is there and nothing waits.
#[test]
fn a_worker() {
    let Some(root) = order() else { return };
    let root = Path::new(&root);
    let queue = FolderQueue::open(&root.join("q")).unwrap();
    let mut worker = queue.worker(None, Pulse::Beating).unwrap();
    let log = root.join("log").join(worker.name());
    let mut log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    loop {
        let Some(claim) = persist(|| worker.claim()).unwrap() else {
            if root.join("stop").exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        match persist(|| claim.done()) {
            Ok(()) => {
                log.write_all(format!("{} {}\n", claim.name().base(), claim.fence()).as_bytes()).unwrap()
            }
            Err(error) => assert_eq!(error.kind(), Kind::Stale, "{error}"),
        }
    }
}

/// On a network file system an answer may stay out for a while.
fn persist<T>(mut act: impl FnMut() -> bell_folder::Result<T>) -> bell_folder::Result<T> {
    loop {
        match act() {
            Err(error) if matches!(error.kind(), Kind::Unknown | Kind::Unavailable) => {
                eprintln!("{error}");
                std::thread::sleep(Duration::from_millis(200));
            }
            answered => return answered,
        }
    }
}

struct Crew {
    ground: Ground,
    count: usize,
    children: Vec<Child>,
}

impl Crew {
    fn new() -> Self {
        let settings = Settings { attempts: 1_000, syncing: Syncing::Nothing };
        let ground = Ground::with(settings);
        std::fs::create_dir(ground.folder.path().join("log")).unwrap();
        let count = items();
        for number in 0..count {
            // As somebody would who knows nothing of this library.
            std::fs::write(ground.path("queue").join(format!("item-{number:06}")), "").unwrap();
        }
        Self { ground, count, children: Vec::new() }
    }

    fn start(&mut self) {
        let root = self.ground.folder.path().display().to_string();
        self.children.push(myself("a_worker", &root).spawn().unwrap());
    }

    fn done(&self) -> usize {
        std::fs::read_dir(self.ground.path("done")).unwrap().count()
    }

    /// Ends the crew when everything is done, and looks at what it did.
    fn finish(mut self) {
        eventually("everything is done", || self.done() >= self.count);
        std::fs::write(self.ground.folder.path().join("stop"), "").unwrap();
        for mut child in self.children.drain(..) {
            assert!(child.wait().unwrap().success());
        }
        let mut done = BTreeMap::<String, usize>::new();
        for name in self.ground.names("done") {
            *done.entry(ItemName::found(name.as_ref()).unwrap().base().to_owned()).or_default() += 1;
        }
        assert_eq!(done.len(), self.count, "none is lost");
        assert!(done.values().all(|times| *times == 1), "none is there twice");
        let counts = self.ground.queue.counts().unwrap();
        assert_eq!((counts.waiting, counts.claimed, counts.failed), (0, 0, 0));
        self.check_logs();
    }

    /// Every «done» that was answered: at most one for each item, and with the fence that is in its name.
    fn check_logs(&self) {
        let mut answered = BTreeMap::<String, u64>::new();
        for log in std::fs::read_dir(self.ground.folder.path().join("log")).unwrap() {
            for line in std::fs::read_to_string(log.unwrap().path()).unwrap().lines() {
                let (item, fence) = line.split_once(' ').unwrap();
                let before = answered.insert(item.to_owned(), fence.parse().unwrap());
                assert_eq!(before, None, "{item} was done twice under a valid fence");
            }
        }
        for name in self.ground.names("done") {
            let name = ItemName::found(name.as_ref()).unwrap();
            let fence = answered.get(name.base());
            assert!(fence.is_none_or(|fence| *fence == name.fence().0), "{name}: {fence:?}");
        }
    }
}

#[test]
fn eight_processes_do_every_item_exactly_once() {
    let mut crew = Crew::new();
    (0..CREW).for_each(|_| crew.start());
    crew.finish();
}

#[test]
fn workers_are_killed_all_the_time_and_nothing_is_lost_or_done_twice() {
    let mut crew = Crew::new();
    (0..CREW).for_each(|_| crew.start());
    let limits = Limits { window: Duration::ZERO, ..Limits::default() };
    let mut kills = 0;
    while crew.done() < crew.count || kills < 5 {
        std::thread::sleep(Duration::from_millis(100));
        let victim = kills % crew.children.len();
        let mut child = crew.children.swap_remove(victim);
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        crew.start();
        crew.ground.queue.sweep(limits, Mode::Act).unwrap();
        assert!(kills < 100_000, "it never ends");
    }
    crew.finish();
}

/// A loop that anybody could have written.
const SHELL: &str = r#"
cd "$1" && mkdir -p "claimed/$2"
while [ "$(ls done | wc -l)" -lt "$3" ]; do
  for item in queue/*; do
    name=${item#queue/}
    [ -e "$item" ] && mv "$item" "claimed/$2/$name" 2>/dev/null && mv "claimed/$2/$name" "done/$name"
  done
done
exit 0
"#;

#[test]
fn half_of_the_crew_may_claim_by_plain_mv() {
    let mut crew = Crew::new();
    let path = crew.ground.queue.path().to_owned();
    for number in 0..CREW / 2 {
        #[expect(clippy::disallowed_methods, reason = "a shell is what is tried here")]
        let mut shell = Command::new("sh");
        shell.args(["-c", SHELL, "sh"]).arg(&path).arg(format!("shell-{number}")).arg(crew.count.to_string());
        crew.children.push(shell.stderr(Stdio::null()).spawn().unwrap());
        crew.start();
    }
    crew.finish();
}
