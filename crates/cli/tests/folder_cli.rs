//! Queues, publishing and outboxes with the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use rustix::process::Signal;
use support::{Place, Ran, eventually, finish_with};

struct Ground {
    place: Place,
}

impl Ground {
    fn new() -> Self {
        let place = Place::sqlite();
        place.run(&["queue", "init", "q"]).expect(0);
        Self { place }
    }

    fn push(&self, name: &str) {
        finish_with(self.place.command(&["queue", "push", "q", "--name", name]), name).expect(0);
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.place.run(arguments)
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.place.path("q").join(folder)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

#[test]
fn a_script_claims_works_and_says_that_it_is_done() {
    let ground = Ground::new();
    ground.run(&["queue", "claim", "q"]).expect(2);
    ground.push("b");
    ground.push("a");
    let claimed = ground.place.json(&["queue", "claim", "q", "--worker", "w"]);
    assert_eq!(
        (&claimed["item"], &claimed["fence"], &claimed["attempt"]),
        (&"a".into(), &1.into(), &1.into())
    );
    let path = ground.run(&["queue", "claim", "q", "--worker", "w"]).expect(0).out;
    assert_eq!(fs::read_to_string(path.trim_end()).unwrap(), "b");
    ground.run(&["queue", "done", path.trim_end()]).expect(0);
    ground.run(&["queue", "done", path.trim_end()]).expect(0);
    ground.run(&["queue", "fail", "q/claimed/w/a", "--reason", "not today"]).expect(0);
    let stat = ground.place.json(&["queue", "stat", "q"]);
    assert_eq!((&stat["waiting"], &stat["claimed"], &stat["done"]), (&1.into(), &0.into(), &1.into()));
    let listed = ground.place.json(&["queue", "ls", "q"]);
    assert_eq!(listed["items"][0]["name"], "a#2");
    assert_eq!(ground.names("claimed"), Vec::<String>::new());
}

#[test]
fn a_claim_that_was_taken_back_is_refused_as_stale() {
    let ground = Ground::new();
    ground.push("x");
    let path = ground.run(&["queue", "claim", "q"]).expect(0).out;
    let dry = ground.place.json(&["queue", "janitor", "q", "--unattended", "0"]);
    assert_eq!((&dry["dry_run"], &dry["found"][0]["act"]), (&true.into(), &"requeued".into()));
    let swept = ground.place.json(&["queue", "janitor", "q", "--unattended", "0", "--yes"]);
    assert_eq!(swept["found"][0]["item"], "x");
    let late = ground.run(&["queue", "done", path.trim_end()]).expect(7);
    assert!(late.err.starts_with("bell: stale: ") && late.err.contains("\nhint: "), "{late:?}");
    assert_eq!(ground.names("queue"), ["x#2"]);
    ground.run(&["queue", "janitor", "q", "--yes"]).expect(1);
}

#[test]
fn a_command_is_run_for_each_item_with_its_fence() {
    let ground = Ground::new();
    for name in ["a", "b", "poison"] {
        ground.push(name);
    }
    let script =
        r#"test "$BELL_ITEM_NAME" != poison && cat "$1" && echo " $BELL_ITEM_FENCE.$BELL_ITEM_ATTEMPT""#;
    let ran = ground.run(&["queue", "work", "q", "--drain", "--", "sh", "-c", script, "sh", "{}"]).expect(1);
    assert_eq!(ran.out, "a 1.1\nb 1.1\n2 done, 3 failed, 0 taken back\n");
    assert!(ran.err.contains("poison failed at try 3, it is put aside"), "{ran:?}");
    assert_eq!(
        (ground.names("done"), ground.names("failed")),
        (vec!["a".into(), "b".into()], vec!["poison#3".into()])
    );
    let failed = ground.place.json(&["queue", "ls", "q", "--state", "failed"]);
    assert_eq!(failed["items"][0]["reason"], "its command ended with exit code 1");
    assert_eq!(ground.run(&["queue", "requeue", "q", "poison#3"]).expect(0).out, "poison#4.1\n");
    ground.run(&["queue", "requeue", "q", "poison#3"]).expect(2);
}

#[test]
fn a_command_that_is_not_there_costs_no_item_a_try() {
    let ground = Ground::new();
    ground.push("x");
    fs::write(ground.place.path("text"), "no program").unwrap();
    for program in ["no-such-program", "./text", "./nowhere", "."] {
        let refused = ground.run(&["queue", "work", "q", "--drain", "--", program, "{}"]).expect(2);
        assert!(refused.err.contains("nothing was claimed"), "{refused:?}");
    }
    assert_eq!((ground.names("queue"), ground.names("claimed")), (vec!["x".into()], Vec::new()));
    ground.run(&["queue", "work", "q", "--drain", "--", "true"]).expect(0);
}

#[test]
fn a_late_worker_is_refused_even_if_an_earlier_item_of_that_name_is_done() {
    let ground = Ground::new();
    ground.push("daily");
    ground.run(&["queue", "work", "q", "--drain", "--", "true"]).expect(0);
    ground.push("daily");
    let late = ground.run(&["queue", "claim", "q", "--worker", "w"]).expect(0).out;
    let done = |code| ground.run(&["queue", "done", late.trim_end()]).expect(code);
    ground.run(&["queue", "janitor", "q", "--unattended", "0", "--yes"]).expect(0);
    done(7);
    ground.run(&["queue", "claim", "q", "--worker", "other"]).expect(0);
    done(7);
    ground.run(&["queue", "done", "q/claimed/other/daily#2"]).expect(0);
    done(7);
    ground.run(&["queue", "done", "q/claimed/other/daily#2"]).expect(0);
}

#[test]
fn pipes_are_refused_and_never_waited_for() {
    let place = Place::sqlite();
    place.run(&["queue", "init", "q"]).expect(0);
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("pipe"), rustix::fs::Mode::RWXU).unwrap();
    fs::write(place.path("a"), "A").unwrap();
    fs::write(place.path("list"), "a\npipe\n").unwrap();
    for command in [
        &["queue", "push", "q", "pipe"][..],
        &["outbox", "put", "out", "pipe"],
        &["publish", "pipe", "--to", "site"],
        &["publish", "a", "pipe", "--to", "site"],
        &["publish", "--manifest", "list", "--to", "site"],
        &["publish", "--manifest", "pipe", "--to", "site"],
    ] {
        assert!(place.run(command).expect(4).err.contains("\nhint: "), "{command:?}");
    }
    assert!(!place.path("site").exists());
}

#[test]
fn a_worker_that_is_told_to_stop_gives_its_item_back() {
    let ground = Ground::new();
    ground.push("x");
    let working = ground.place.start(&["queue", "work", "q", "--", "sh", "-c", "echo > began; sleep 600"]);
    ground.place.until_file("began");
    working.signal(Signal::TERM);
    assert_eq!(working.end().code, 143);
    assert_eq!((ground.names("queue"), ground.names("claimed")), (vec!["x#2.1".into()], Vec::new()));
}

#[test]
fn a_worker_that_is_killed_loses_its_item_to_the_janitor_of_its_machine() {
    let ground = Ground::new();
    ground.push("x");
    let working = ground.place.start(&["queue", "work", "q", "--", "sh", "-c", "echo > began; sleep 600"]);
    ground.place.until_file("began");
    working.kill();
    let swept = ground.place.json(&["queue", "janitor", "q", "--yes"]);
    assert!(swept["found"][0]["why"].as_str().unwrap().contains("has ended"), "{swept}");
    assert_eq!(ground.names("queue"), ["x#2"]);
}

#[test]
fn the_command_of_an_item_that_was_taken_back_is_ended() {
    let ground = Ground::new();
    ground.push("x");
    let command = ["queue", "work", "q", "--max", "1", "--", "sh", "-c", "echo > began; exec sleep 600"];
    let working = ground.place.start(&command);
    ground.place.until_file("began");
    let worker = ground.names("claimed").remove(0);
    ground.run(&["queue", "requeue", "q", "x", "--worker", &worker]).expect(0);
    let ended = working.end();
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("x was taken back"), "{ended:?}");
    assert_eq!(ground.names("queue"), ["x#2.1"]);
}

#[test]
fn whoever_waits_gets_the_item_that_comes() {
    let ground = Ground::new();
    let waiting = ground.place.start(&["queue", "claim", "q", "--wait", "60s", "--match", "w*"]);
    ground.push("other");
    ground.push("wanted");
    assert!(waiting.end().out.ends_with("/wanted\n"));
    assert_eq!(ground.names("queue"), ["other"]);
}

#[test]
fn wrong_names_and_places_are_refused_with_what_to_do() {
    let ground = Ground::new();
    for name in ["../x", "a/b", ".x", "a\nb", "x#2", &"n".repeat(300)] {
        let refused =
            finish_with(ground.place.command(&["queue", "push", "q", "--name", name]), "").expect(4);
        assert!(refused.err.contains("\nhint: "), "{refused:?}");
    }
    assert_eq!((ground.names("queue"), ground.names(".tmp")), (Vec::<String>::new(), Vec::new()));
    ground.run(&["queue", "push", "nowhere"]).expect(2);
    ground.run(&["queue", "done", "q/claimed/w/none"]).expect(7);
    ground.run(&["queue", "done", "elsewhere"]).expect(4);
    ground.run(&["queue", "claim", "q", "--worker", "../w"]).expect(4);
    let outside = ground.place.path("outside");
    fs::create_dir(&outside).unwrap();
    symlink(&outside, ground.place.path("link")).unwrap();
    assert!(ground.run(&["queue", "stat", "link"]).expect(4).err.contains("it is a link"));
    fs::rename(ground.place.path("q/done"), ground.place.path("aside")).unwrap();
    symlink(&outside, ground.place.path("q/done")).unwrap();
    ground.run(&["queue", "stat", "q"]).expect(4);
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

#[test]
fn publishing_under_a_lock_uses_its_fence() {
    let place = Place::sqlite();
    fs::write(place.path("new"), "new").unwrap();
    let bell = env!("CARGO_BIN_EXE_bell");
    let run = ["lock", "run", "file:///index", "--", bell, "--json", "publish", "new", "--to", "out"];
    let published = place.run(&run).expect(0).json();
    assert_eq!((&published["outcome"], &published["way"]), (&"written".into(), &"renamed".into()));
    assert!(published["fence"].as_u64().unwrap() > 0);
    place.run(&["publish", "new", "--to", "out", "--fence", "999"]).expect(0);
    let stale = place.run(&["--json", "publish", "new", "--to", "out", "--fence", "998"]).expect(7).json();
    assert_eq!((&stale["fence"], &stale["seen_fence"]), (&998.into(), &999.into()));
    fs::write(place.path(".out.fence"), b"\xffgarbage").unwrap();
    let damaged = place.run(&["publish", "new", "--to", "out", "--fence", "1000"]).expect(4);
    assert!(damaged.err.contains("is damaged") && damaged.err.contains("highest fence"), "{damaged:?}");
    fs::write(place.path(".out.fence"), "00000000000000000999\n").unwrap();
    // Guarded writes of the file keep to the same fence.
    finish_with(place.command(&["fence", "write", "out", "--fence", "5"]), "late").expect(7);
}

#[test]
fn files_of_a_list_appear_together() {
    let place = Place::sqlite();
    fs::write(place.path("a"), "A").unwrap();
    fs::write(place.path("b"), "B").unwrap();
    fs::write(place.path("list"), "a\nb -> data/b\n").unwrap();
    place.run(&["publish", "--manifest", "list", "--to", "site", "--linked"]).expect(0);
    assert_eq!(fs::read_to_string(place.path("site/data/b")).unwrap(), "B");
    assert!(place.path("site").is_symlink());
    place.run(&["publish", "none", "--to", "x"]).expect(2);
    place.run(&["publish", "a", "--to", "site"]).expect(4);
}

#[test]
fn outboxes_are_merged_in_order() {
    let place = Place::sqlite();
    for (writer, text) in [("one", "1"), ("two", "2"), ("one", "3")] {
        let put = ["outbox", "put", "out", "--writer", writer, "--name", "part"];
        finish_with(place.command(&put), text).expect(0);
        // A step of the file system's clock.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_eq!(place.run(&["outbox", "cat", "out"]).expect(0).out, "123");
    let listed = place.json(&["outbox", "ls", "out"]);
    assert_eq!(listed["letters"][1]["writer"], "two");
    let path = PathBuf::from(place.run(&["outbox", "path", "out"]).expect(0).out.trim_end());
    assert!(place.path("").join(&path).is_dir(), "{path:?}");
    fs::write(place.path("out/one/.half"), "").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(
        place.json(&["outbox", "clean", "out", "--silent", "0"])["drafts"].as_array().unwrap().len(),
        1
    );
    place.run(&["outbox", "clean", "out", "--silent", "0", "--yes"]).expect(0);
    assert!(!place.path("out/one/.half").exists());
}

#[test]
fn an_outbox_as_json_is_one_object_that_keeps_every_byte() {
    let place = Place::sqlite();
    assert_eq!(place.json(&["outbox", "cat", "."])["letters"].as_array().map(Vec::len), Some(0));
    for (name, content) in [("text", "zwei\nZeilen, ü".as_bytes()), ("bytes", &[0xff, 0x00, 0x41])] {
        fs::write(place.path(name), content).unwrap();
        place.run(&["outbox", "put", "out", name, "--writer", name]).expect(0);
        // A step of the file system's clock.
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let read = place.json(&["outbox", "cat", "out"]);
    assert_eq!(read["outcome"], "listed");
    let [text, bytes] = read["letters"].as_array().unwrap().as_slice() else { panic!("{read}") };
    assert_eq!((&text["writer"], &text["bytes"]), (&"text".into(), &15.into()));
    assert_eq!((&text["text"], text.get("base64")), (&"zwei\nZeilen, ü".into(), None));
    assert_eq!((&bytes["base64"], bytes.get("text")), (&"/wBB".into(), None));
}

#[test]
fn the_doctor_tries_a_folder_out() {
    let place = Place::sqlite();
    let report = place.json(&["doctor", "fs", "."]);
    assert_eq!(report["uses"][0]["feature"], "bell queue");
    assert!(report["findings"].as_array().unwrap().len() > 10);
    let other = place.start(&["--json", "doctor", "fs", ".", "--peer"]);
    let mine = place.json(&["doctor", "fs", ".", "--peer"]);
    assert_eq!(mine["together"]["findings"].as_array().unwrap().len(), 5);
    assert_eq!(other.end().json()["together"]["peer"], mine["together"]["host"]);
    place.run(&["doctor", "fs", "nowhere"]).expect(2);
}

#[test]
fn a_flock_needs_a_regular_file_and_never_creates_the_target_of_a_link() {
    let place = Place::sqlite();
    std::os::unix::fs::symlink(place.path("target"), place.path("link")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, place.path("fifo"), rustix::fs::Mode::RUSR).unwrap();
    for name in ["link", "fifo"] {
        let run = place.start(&["lock", "run", "job:x", "--flock", name, "--", "touch", "ran"]);
        let refused = run.end().expect(4);
        assert!(refused.err.contains("could not take the flock"), "{refused:?}");
    }
    assert!(!place.path("target").exists() && !place.path("ran").exists());
    assert!(place.is_free("job:x"), "the lease was given back");
}

#[test]
fn a_flock_is_seen_by_those_who_know_nothing_else() {
    let place = Place::sqlite();
    let holding =
        place.start(&["lock", "run", "--flock", "pid.lock", "--", "sh", "-c", "echo > began; sleep 600"]);
    place.until_file("began");
    let file = fs::File::open(place.path("pid.lock")).unwrap();
    assert!(file.try_lock().is_err(), "it is held");
    holding.signal(Signal::TERM);
    holding.end();
    eventually("it is free", || file.try_lock().is_ok());
    let busy = place
        .run(&["lock", "run", "-n", "-E", "75", "job:x", "--flock", "pid.lock", "--", "true"])
        .expect(75);
    assert!(busy.err.contains("another process holds the flock"), "{busy:?}");
    assert!(place.is_free("job:x"), "the lease was given back");
    file.unlock().unwrap();
    place.run(&["lock", "run", "job:x", "--flock", "pid.lock", "--", "true"]).expect(0);
}
