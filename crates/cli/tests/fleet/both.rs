//! Two daemons on one store with the same project: caps hold, schedules fire once, no job runs twice.

use std::collections::BTreeMap;
use std::time::Duration;

use bell_e2e::{Postgres, Redis};

use crate::support::{Place, Running, eventually};

const JOBS: usize = 24;
const TICKS: usize = 2;

/// Two machines, as far as they know: each has a folder of its own with the same project, and they share one store.
struct Fleet {
    places: [Place; 2],
    daemons: Vec<Running>,
    jobs: Vec<String>,
}

impl Fleet {
    /// Both daemons start shortly before a minute that is due.
    fn start(url: &str) -> Self {
        let places = [(); 2].map(|()| Place { url: url.to_owned(), ..Place::sqlite() });
        let ledger = places[0].path("");
        let ledger = ledger.display();
        // Each line says what it is about, so that one file is a history of both machines.
        let script = format!("echo + $BELL_JOB >> {ledger}/ran; sleep 0.5; echo - $BELL_JOB >> {ledger}/ran");
        let ticks = format!("cat $BELL_TRIGGER_FILE >> {ledger}/ticked; echo >> {ledger}/ticked; {script}");
        for place in &places {
            place.write("config.toml", "scale = 3\n");
            place.agent("worker", &script, "scale = 5");
            place.agent("ticker", &ticks, "schedule = \"* * * * *\"\noverlap = \"queue\"\nscale = 5");
        }
        let daemons = places.iter().map(|place| place.up_at("2026-06-01T11:59:55Z")).collect();
        // All of the worker's jobs wait before the first runs: however slowly they are asked for, there is always another to run beside.
        places[0].run(&["pause", "worker", "--reason", "filling the queue"]).expect(0);
        let jobs = (0..JOBS).map(|_| places[0].ask("worker")).collect();
        places[0].run(&["resume", "worker"]).expect(0);
        Self { places, daemons, jobs }
    }

    fn is_done(&self) -> bool {
        self.places[0].ticks("ticker").len() >= TICKS && self.places[0].is_idle()
    }

    /// Checks what came of it, and stops both.
    fn end(self) {
        let place = &self.places[0];
        let (mut begun, mut now, mut most) = (BTreeMap::<String, u32>::new(), 0, 0);
        for line in place.lines("ran") {
            match line.split_once(' ').unwrap() {
                ("+", job) => {
                    *begun.entry(job.to_owned()).or_default() += 1;
                    now += 1;
                }
                _ => now -= 1,
            }
            most = most.max(now);
        }
        assert!(begun.values().all(|times| *times == 1), "no job runs twice: {begun:?}");
        assert!(self.jobs.iter().all(|job| begun.contains_key(job)), "every job ran");
        assert!((2..=3).contains(&most), "{most} at once, and 3 may");
        let ticks = place.ticks("ticker");
        assert!(ticks.iter().all(|(_, verdict)| verdict == "job"), "{ticks:?}");
        let expected: Vec<String> = ticks
            .iter()
            .map(|(nominal, _)| format!("{{\"scheduled\":\"{nominal}\",\"trigger\":\"cron\"}}"))
            .collect();
        let mut ticked = place.lines("ticked");
        ticked.sort();
        assert_eq!(ticked, expected, "each tick ran once");
        assert_eq!(begun.len(), JOBS + ticks.len());
        let taken =
            self.places.each_ref().map(|place| std::fs::read_dir(place.path(".bell/runs")).unwrap().count());
        assert_eq!(taken.iter().sum::<usize>(), begun.len(), "each run is on one machine");
        assert!(taken.iter().all(|runs| *runs > 0), "both machines have a part in it: {taken:?}");
        for daemon in self.daemons {
            daemon.stop();
        }
    }
}

#[test]
fn two_daemons_on_one_store_share_the_work_and_the_caps_and_a_schedule_fires_once() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    // Both at once, so that they wait for the same minutes.
    let fleets = [redis.url("fleet"), postgres.url("fleet")].map(|url| Fleet::start(&url));
    for fleet in &fleets {
        eventually("the first tick has come", || !fleet.places[0].ticks("ticker").is_empty());
    }
    // The second comes a minute after the first; only then does patience begin to run out.
    std::thread::sleep(Duration::from_secs(30));
    for fleet in &fleets {
        eventually("everything is done", || fleet.is_done());
    }
    for fleet in fleets {
        fleet.end();
    }
}

#[test]
fn a_daemon_that_was_stopped_for_longer_than_its_session_lasts_is_there_again() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    let daemon = place.up();
    assert_eq!(place.json(&["stat"])["daemons"], 1);
    daemon.pause();
    eventually("it is taken for gone", || place.json(&["stat"])["daemons"] == 0);
    daemon.signal(rustix::process::Signal::CONT);
    eventually("it is back", || place.json(&["stat"])["daemons"] == 1);
    assert_eq!(place.run_agent("worker")["fate"]["end"]["end"], "completed");
    daemon.stop();
    assert_eq!(place.json(&["stat"])["daemons"], 0);
}
