//! Every number that operators watch is seen to move, whichever process did what it counts.

use bell_e2e::Redis;
use bell_gateway::metrics::names::ALL;

use crate::fleet::{WAIT, kill};
use crate::served::Served;
use crate::support::{Place, eventually, finish};

impl Served {
    /// Everything that is shown now.
    fn metrics(&self) -> String {
        String::from_utf8(self.get("/metrics").expect(200).body).unwrap()
    }

    /// The value of a series, as in `bell_runs_total{agent="a",outcome="completed"}`; `None` if it is not shown.
    fn metric(&self, series: &str) -> Option<f64> {
        let text = self.metrics();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
        Some(line.parse().unwrap())
    }

    /// Waits until a series has a value.
    fn until(&self, series: &str, value: f64) {
        eventually(&format!("{series} is {value}"), || self.metric(series) == Some(value));
    }

    /// Waits until a series has at least this value.
    fn until_at_least(&self, series: &str, value: f64) {
        eventually(&format!("{series} is {value} or more"), || {
            self.metric(series).is_some_and(|found| found >= value)
        });
    }
}

/// A project whose numbers anybody may read: also while the store is away, which knows the keys.
fn open_to_all(place: &Place) {
    place.write("config.toml", "[gateway]\nport = 0\nmetrics = \"open\"\n");
}

#[test]
fn every_series_is_described_and_only_who_has_a_key_sees_it() {
    let served = Served::new();
    served.ask("GET", "/metrics", &[], b"").refused(401, "unauthorized");
    let reader = served.place.json(&["keys", "add", "prometheus", "--role", "read"]);
    let bearer = format!("Bearer {}", reader["key"].as_str().unwrap());
    let reply = served.ask("GET", "/metrics", &[("Authorization", &bearer)], b"").expect(200);
    assert!(reply.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    served.place.run_agent("worker");
    served.until(r#"bell_runs_total{agent="worker",outcome="completed"}"#, 1.0);
    let text = served.metrics();
    for series in ALL {
        let stem =
            series.name.strip_suffix("_total").or(series.name.strip_suffix("_info")).unwrap_or(series.name);
        // Nothing came from outside, so there is nothing to show.
        if stem != "bell_webhook_deliveries" {
            assert!(
                text.contains(&format!("# TYPE {stem} {}\n", series.kind.word())),
                "{}: {text}",
                series.name
            );
        }
    }
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn a_project_can_open_its_numbers_to_all() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    open_to_all(&place);
    let served = Served::of(place);
    served.ask("GET", "/metrics", &[], b"").expect(200);
}

#[test]
fn runs_queues_and_nodes_are_counted() {
    let place = Place::sqlite();
    place.agent("worker", "exit 3", "");
    place.agent("crowded", "true", "workQueueSize = 2");
    let mut served = Served::of(place);
    served.place.run_agent("worker");
    served.until(r#"bell_runs_total{agent="worker",outcome="failed"}"#, 1.0);
    served.until(r#"bell_run_seconds_count{agent="worker"}"#, 1.0);
    served.until_at_least(r#"bell_store_seconds_count{op="commit"}"#, 1.0);
    served.until("bell_store_up", 1.0);
    let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
    served.until(&format!(r#"bell_node_up{{node="{node}"}}"#), 1.0);
    served.place.run(&["pause"]).expect(0);
    served.until(r#"bell_queue_dropped_total{agent="crowded"}"#, 0.0);
    for _ in 0..3 {
        served.place.ask("crowded");
    }
    served.until(r#"bell_queue_depth{agent="crowded"}"#, 2.0);
    served.until(r#"bell_queue_dropped_total{agent="crowded"}"#, 1.0);
    served.until(r#"bell_stale_jobs{reason="no_agent"}"#, 0.0);
    std::fs::remove_dir_all(served.place.path("agents/crowded")).unwrap();
    served.until(r#"bell_stale_jobs{reason="no_agent"}"#, 2.0);
    assert_eq!(
        served.metric(r#"bell_queue_depth{agent="crowded"}"#),
        None,
        "an agent that is gone has no queue"
    );
    served.stop();
}

#[test]
fn a_job_whose_run_died_is_counted_when_it_is_queued_again() {
    let place = Place::sqlite();
    let script = format!("echo $PPID > $PWD/supervisor.txt; {WAIT}");
    place.agent("worker", &script, "retry = { attempts = 2, on = [\"lost\"], backoff = \"100ms\" }");
    let served = Served::of(place);
    served.place.ask("worker");
    kill(&served.place.until_file("supervisor.txt"));
    served.until("bell_orphan_replayed_total", 1.0);
    served.until(r#"bell_runs_total{agent="worker",outcome="lost"}"#, 1.0);
    std::fs::write(served.place.path("go"), "").unwrap();
    served.until(r#"bell_runs_total{agent="worker",outcome="completed"}"#, 1.0);
}

#[test]
fn ticks_are_counted_by_what_came_of_them() {
    let place = Place::sqlite();
    for (name, catchup) in
        [("made-up-for", "catchup = { max = 1 }"), ("held", "catchup = { max = 1 }"), ("let-go", "")]
    {
        place.agent(name, "true", &format!("schedule = \"0 12 * * *\"\n{catchup}"));
        place.seen(name, "2026-06-01T11:00:00Z");
    }
    place.run(&["pause", "held"]).expect(0);
    place.write("config.toml", "[gateway]\nport = 0\n");
    let served = Served::at(place, "2026-06-01T12:30:00Z");
    served.until(r#"bell_cron_fires_total{outcome="fired"}"#, 1.0);
    served.until(r#"bell_cron_fires_total{outcome="skipped"}"#, 1.0);
    served.until(r#"bell_cron_fires_total{outcome="missed"}"#, 1.0);
}

#[test]
fn what_commands_see_of_their_locks_is_counted() {
    let served = Served::new();
    let place = &served.place;
    let mut holder = place.start(&["lock", "run", "job:a", "--", "sh", "-c", "echo up; exec sleep 1000"]);
    assert_eq!(holder.line(), "up");
    served.until("bell_lock_held{}", 1.0);
    served.until_at_least(r#"bell_lock_wait_seconds_count{outcome="acquired"}"#, 1.0);
    let waiter = place.start(&["lock", "acquire", "job:a", "--wait", "1000s"]);
    served.until("bell_lock_waiters{}", 1.0);
    waiter.kill();
    place.run(&["lock", "acquire", "job:a", "--wait", "10ms"]).expect(8);
    served.until(r#"bell_lock_wait_seconds_count{outcome="timed_out"}"#, 1.0);
    place.run(&["lock", "break", "job:a", "--reason", "test", "--yes"]).expect(0);
    served.until("bell_lock_broken_total", 1.0);
    served.until("bell_lock_lost_total", 1.0);
    holder.end().expect(7);
    served.until("bell_lock_held{}", 0.0);
    for (fence, code) in [("5", 0), ("4", 7)] {
        place.run(&["fence", "write", "state.json", "--fence", fence]).expect(code);
    }
    served.until("bell_fence_rejected_total", 1.0);
}

#[test]
fn a_cycle_that_was_refused_is_counted() {
    let served = Served::new();
    let place = &served.place;
    for (session, key) in [("one", "job:a"), ("two", "job:b")] {
        place.run(&["lock", "acquire", key, "--session-file", session]).expect(0);
    }
    let _waits = place.start(&["lock", "acquire", "job:b", "--session-file", "one", "--wait", "1000s"]);
    place.until_waiting("job:b", 1);
    place.run(&["lock", "acquire", "job:a", "--session-file", "two", "--wait", "1000s"]).expect(1);
    served.until(r#"bell_lock_wait_seconds_count{outcome="deadlock"}"#, 1.0);
}

#[test]
fn what_an_agent_sees_of_its_locks_is_counted_by_its_supervisor() {
    let place = Place::sqlite();
    place.agent("worker", "bell lock acquire job:mine --ttl 60s && bell lock release job:mine", "");
    let served = Served::of(place);
    let before = served.metric(r#"bell_lock_wait_seconds_count{outcome="acquired"}"#).unwrap();
    served.place.run_agent("worker");
    served.until_at_least(r#"bell_lock_wait_seconds_count{outcome="acquired"}"#, before + 1.0);
}

#[test]
fn a_store_that_goes_away_shows_in_the_numbers_and_the_daemon_is_not_ready() {
    let mut redis = Redis::start();
    let mut place = Place::sqlite();
    place.url = redis.url("metrics");
    place.agent("worker", "true", "");
    open_to_all(&place);
    let served = Served::of(place);
    let ready = served.ask("GET", "/readyz", &[], b"").expect(200).json();
    assert_eq!(ready["status"], "ready");
    assert!(ready["checks"].as_array().unwrap().iter().all(|check| check["ok"] == true), "{ready}");
    let run = ["lock", "run", "job:a", "--ttl", "3s", "--", "sh", "-c", "echo up; exec sleep 1000"];
    let mut holder = served.place.start(&run);
    assert_eq!(holder.line(), "up");
    let waiter = served.place.start(&["lock", "acquire", "job:a", "--wait", "1000s"]);
    served.place.until_waiting("job:a", 1);
    redis.kill();
    eventually("it is not ready", || served.ask("GET", "/readyz", &[], b"").status == 503);
    let told = served.ask("GET", "/readyz", &[], b"").json();
    assert_eq!(
        (&told["outcome"], &told["checks"][0]["ok"]),
        (&"unavailable".into(), &false.into()),
        "{told}"
    );
    served.ask("GET", "/healthz", &[], b"").expect(200);
    let shown = || String::from_utf8(served.ask("GET", "/metrics", &[], b"").expect(200).body).unwrap();
    eventually("the numbers tell", || shown().contains("\nbell_store_up 0\n"));
    assert!(!shown().contains("\nbell_lock_held{} "), "no number is better than an old one");
    waiter.end().expect(5);
    holder.end().expect(7);
    let counted = |series: &str| served.metric(series).is_some_and(|value| value >= 1.0);
    for series in [
        r#"bell_lock_wait_seconds_count{outcome="unavailable"}"#,
        "bell_lock_renew_failures_total",
        "bell_lock_lost_total",
    ] {
        eventually(&format!("{series} has risen"), || counted(series));
    }
    eventually("errors of the store are counted", || {
        ["now", "read", "scan", "commit"]
            .iter()
            .any(|op| counted(&format!("bell_store_errors_total{{op=\"{op}\"}}")))
    });
    // Who asked for it goes on without its lock, and that is counted; who did not, does not.
    let lock_run = |fail_open: &str| {
        let run = [
            "lock",
            "run",
            "cache://warm",
            "--fail-open",
            fail_open,
            "--",
            "sh",
            "-c",
            "exit $BELL_LOCK_FENCE",
        ];
        finish(served.place.command(&run))
    };
    lock_run("deploy://").expect(5);
    let ran = lock_run("cache://").expect(0);
    assert!(ran.err.contains("running without cache://warm"), "{ran:?}");
    served.until("bell_fail_open_total", 1.0);
}

#[test]
fn deliveries_are_counted_and_nobody_outside_makes_series() {
    let place = Place::sqlite();
    place.agent("worker", "true", "");
    let hooks = "[gateway]\nport = 0\n[webhooks.hooks]\ntype = \"github\"\nsecret = \"NOWHERE\"\n";
    place.write("config.toml", hooks);
    let served = Served::of(place);
    served.until(r#"bell_webhook_deliveries_total{source="hooks",verdict="no_secret"}"#, 0.0);
    for source in ["hooks", "unheard-of", "made-up"] {
        served.ask("POST", &format!("/webhooks/{source}"), &[("Content-Type", "application/json")], b"{}");
    }
    served.until(r#"bell_webhook_deliveries_total{source="hooks",verdict="no_secret"}"#, 1.0);
    served.until(r#"bell_webhook_deliveries_total{source="other",verdict="not_found"}"#, 2.0);
    assert!(!served.metrics().contains("made-up"));
}
