//! A machine that has no means to isolate runs (S13): they are refused, not started without.

use landlock::{AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError};

use crate::support::Place;

/// How many rules a process can be under: one more is refused. A process under any rule can't make mounts.
const LAYERS: usize = 16;

/// Does something in a thread whose processes can neither make mounts nor rules of their own.
fn without_means<T: Send>(act: impl FnOnce() -> T + Send) -> T {
    let under_rules = || {
        (0..LAYERS).try_for_each(|_| deny_little()).unwrap();
        act()
    };
    std::thread::scope(|scope| scope.spawn(under_rules).join().unwrap())
}

/// Rules that deny no more than the making of block devices.
fn deny_little() -> Result<(), RulesetError> {
    let moves = PathBeneath::new(PathFd::new("/").unwrap(), AccessFs::Refer);
    let rules = Ruleset::default().handle_access(AccessFs::Refer | AccessFs::MakeBlock)?.create()?;
    rules.add_rule(moves)?.restrict_self().map(drop)
}

#[test]
fn without_means_a_run_is_refused_unless_it_asks_for_no_isolation() {
    let place = Place::sqlite();
    place.agent("held", "echo x > ran", "");
    place.agent("free", "true", "isolation = \"none\"\n");
    let daemon = without_means(|| place.up());
    let end = place.run_agent("held")["fate"]["end"].clone();
    assert_eq!(end["end"], "unstartable", "{end}");
    assert!(end["reason"].as_str().unwrap().contains("this machine has no means for it"), "{end}");
    assert!(!place.path("ran").exists());
    assert_eq!(place.run_agent("free")["fate"]["end"]["end"], "completed");
    daemon.stop();
    let checked = without_means(|| place.run(&["check"])).expect(4).out;
    assert!(checked.contains("this machine can't isolate its runs, so they are not started"), "{checked}");
}
