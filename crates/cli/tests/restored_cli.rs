//! A store that was brought back from a backup, with the real binary.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Command;

use support::Place;

fn fence(place: &Place, key: &str) -> u64 {
    let fence = place.json(&["lock", "acquire", key])["fence"].as_u64().unwrap();
    place.run(&["lock", "release", key]).expect(0);
    fence
}

#[expect(clippy::disallowed_methods, reason = "it makes the backup as people do")]
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "-T"]).arg(from).arg(to).status().unwrap();
    assert!(copied.success());
}

fn restored(place: &Place) -> (u64, u64, u64) {
    let (store, backup) = (place.path("store"), place.path("backup"));
    std::fs::create_dir_all(&store).unwrap();
    fence(place, "deploy://api");
    copy(&store, &backup);
    let given_out = fence(place, "deploy://api").max(fence(place, "deploy://api"));

    let mut firsts = Vec::new();
    for _ in 0..2 {
        std::fs::remove_dir_all(&store).unwrap();
        copy(&backup, &store);
        let raised = place.run(&["--json", "store", "raise-epoch", "--yes"]).expect(0).json();
        assert_eq!(raised["outcome"], "written", "{raised}");
        let first = fence(place, "deploy://api");
        assert!(first > raised["revision"].as_u64().unwrap(), "{first}: {raised}");
        firsts.push(first);
    }
    (given_out, firsts[0], firsts[1])
}

#[test]
fn a_store_that_was_brought_back_twice_grants_only_higher_fences_once_its_epoch_is_raised() {
    let sqlite = Place::sqlite();
    let url = format!("sqlite:{}", sqlite.path("store").join("bell.db").display());
    let sqlite = Place { url, ..sqlite };
    let file = Place::sqlite();
    let url = format!("file:{}", file.path("store").join("locks").display());
    let file = Place { url, ..file };
    for place in [sqlite, file] {
        let (given_out, first, second) = restored(&place);
        assert!(given_out < first && first < second, "{}: {given_out} {first} {second}", place.url);
    }
}

#[test]
fn raising_the_epoch_is_on_record_with_who_did_it_and_a_rehearsal_is_not() {
    for place in Place::each() {
        fence(&place, "deploy://api");
        std::fs::create_dir_all(place.path("agents")).unwrap();
        place.run(&["store", "raise-epoch"]).expect(0);
        let raised = place.json(&["store", "raise-epoch", "--yes"]);
        let acts = place.json(&["audit"])["acts"].clone();
        let [act] = acts.as_array().unwrap().as_slice() else { panic!("{acts}") };
        let above = format!("fences go on above {}", raised["revision"]);
        assert_eq!(
            (&act["act"], &act["via"], &act["reason"]),
            (&"raise-epoch".into(), &"cli".into(), &above.into())
        );
        assert!(act["who"].as_str().unwrap().starts_with("uid "), "{act}");
        assert!(act["on"].as_str().unwrap().ends_with(place.url.rsplit('/').next().unwrap()), "{act}");
        place.run(&["audit", "verify"]).expect(0);
    }
}

#[test]
fn without_yes_nothing_is_done_and_a_store_that_was_brought_back_is_spoken_of() {
    let place = Place::sqlite();
    let before = fence(&place, "deploy://api");
    let told = place.json(&["store", "raise-epoch"])["message"].as_str().unwrap().to_owned();
    assert!(told.starts_with("nothing was done: ") && told.contains("brought back from a backup"), "{told}");
    assert!(fence(&place, "deploy://api") < before + 100);
}

#[test]
fn a_path_without_a_store_gets_none() {
    let place = Place::sqlite();
    for (scheme, name) in [("sqlite", "no.db"), ("file", "none")] {
        let place = Place { url: format!("{scheme}:{}", place.path(name).display()), ..Place::sqlite() };
        let told = place.run(&["store", "raise-epoch", "--yes"]).expect(4).err;
        assert!(told.contains("there is no store at"), "{told}");
    }
    assert!(!place.path("no.db").exists() && !place.path("none").exists());
}

#[test]
fn a_store_without_epochs_has_none_to_raise_and_says_so_before_it_is_asked_to() {
    let place = Place { url: "memory:".to_owned(), ..Place::sqlite() };
    place.run(&["store", "raise-epoch"]).expect(4);
    place.run(&["store", "raise-epoch", "--yes"]).expect(4);
}
