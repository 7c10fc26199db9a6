//! A table: what is promised and seen, and what is found.

use super::*;
use crate::doctor::{LongQueue, Room};
use bell_store::info::{Limits, Warning};

/// What a sound store on etcd with three members promises.
fn info() -> Info {
    Info {
        scheme: "etcd",
        location: "etcd://a,b,c/bell".to_owned(),
        scope: Scope::Distributed,
        durability: Durability::Power,
        fail_over: FailOver::Kept,
        clock: Clock::Clients,
        push: Push::Push,
        notices_death: true,
        limits: Limits::CONTRACT,
        warnings: Vec::new(),
    }
}

fn redis() -> Info {
    Info { scheme: "redis", fail_over: FailOver::None, clock: Clock::Server, ..info() }
}

fn postgres() -> Info {
    Info { scheme: "postgres", ..redis() }
}

fn sqlite() -> Info {
    Info { scheme: "sqlite", scope: Scope::Host, fail_over: FailOver::None, clock: Clock::Boottime, ..info() }
}

fn seen() -> Seen {
    Seen {
        commits: Commits::Taken,
        read_us: Some(100),
        commit_us: Some(200),
        clock: Some(ClockSeen { ahead_ms: Some(3), within_ms: 1, drift_ms: 0, watched_ms: 500 }),
        leftovers: Some(Leftovers::default()),
        machine: Machine::default(),
    }
}

fn level(info: &Info, seen: &Seen, about: &str) -> Level {
    let findings = judge(info, seen);
    let found = findings.iter().filter(|finding| finding.about == about).map(|finding| finding.level).max();
    found.unwrap_or_else(|| panic!("nothing about {about} in {findings:?}"))
}

#[test]
fn what_each_kind_of_store_can_lose_has_its_level() {
    let volatile = |info: Info| Info { durability: Durability::Volatile, ..info };
    let process = |info: Info| Info { durability: Durability::Process, ..info };
    let loses = |info: Info| Info { fail_over: FailOver::Loses, ..info };
    let kept = |info: Info| Info { fail_over: FailOver::Kept, ..info };
    let sentinel = Info { scheme: "redis+sentinel", ..redis() };
    // durability, fail-over
    let table = [
        ("etcd, three members", info(), Level::Ok, Level::Ok),
        ("etcd, one member", Info { fail_over: FailOver::None, ..info() }, Level::Ok, Level::Note),
        ("redis, appendfsync always", redis(), Level::Ok, Level::Note),
        ("redis, appendfsync everysec", volatile(redis()), Level::Warning, Level::Note),
        ("redis, appendfsync no", process(redis()), Level::Warning, Level::Note),
        ("redis, a replica", loses(redis()), Level::Ok, Level::Unsafe),
        ("redis, sentinel", loses(volatile(sentinel)), Level::Warning, Level::Unsafe),
        ("postgres", postgres(), Level::Ok, Level::Note),
        ("postgres, fsync off", process(postgres()), Level::Unsafe, Level::Note),
        ("postgres, asynchronous standby", loses(postgres()), Level::Ok, Level::Unsafe),
        ("postgres, synchronous standby", kept(postgres()), Level::Ok, Level::Ok),
        ("sqlite", sqlite(), Level::Ok, Level::Ok),
        ("sqlite in memory", process(sqlite()), Level::Warning, Level::Ok),
        (
            "memory",
            volatile(Info { scheme: "memory", scope: Scope::Process, ..sqlite() }),
            Level::Warning,
            Level::Ok,
        ),
    ];
    for (name, info, durability, fail_over) in table {
        assert_eq!(level(&info, &seen(), "durability"), durability, "{name}");
        assert_eq!(level(&info, &seen(), "fail-over"), fail_over, "{name}");
    }
}

#[test]
fn everything_above_a_note_says_what_to_do_and_names_its_rule() {
    let bad = Info {
        durability: Durability::Process,
        fail_over: FailOver::Loses,
        push: Push::Poll { interval_ms: 250 },
        notices_death: false,
        warnings: vec![Warning::new(Concern::Sharing, "one machine only")],
        ..postgres()
    };
    let refused = Commits::Refused { why: "write".to_owned(), advice: "Free some space.".to_owned() };
    let findings = judge(&bad, &Seen { commits: refused, ..seen() });
    for finding in findings.iter().filter(|finding| finding.level > Level::Ok) {
        assert!(finding.rule.is_some() && finding.next.is_some(), "{finding:?}");
    }
    assert!(findings.iter().filter(|finding| finding.level > Level::Note).count() >= 4, "{findings:?}");
}

#[test]
fn the_store_s_own_words_stand_beside_the_finding_they_are_about() {
    let words = "the server does not sync; set fsync = on";
    let warnings = vec![Warning::new(Concern::Durability, words)];
    let findings = judge(&Info { durability: Durability::Process, warnings, ..postgres() }, &seen());
    let said: Vec<_> = findings.iter().filter(|finding| finding.because.is_some()).collect();
    assert_eq!(said.len(), 1);
    assert_eq!((said[0].about, said[0].because.as_deref()), ("durability", Some(words)));
}

#[test]
fn a_store_that_may_have_gone_back_is_unsafe_and_names_the_command() {
    let commits = Commits::Rewound { why: "commit: another process of the server".to_owned() };
    let findings = judge(&redis(), &Seen { commits, ..seen() });
    assert_eq!(findings[0].level, Level::Unsafe);
    assert!(findings[0].next.as_deref().unwrap().contains("raise-epoch --yes"));
}

#[test]
fn a_clock_that_jumps_is_warned_of_in_either_direction() {
    for drift_ms in [60_000, -400] {
        let clock = Some(ClockSeen { ahead_ms: None, within_ms: 1, drift_ms, watched_ms: 500 });
        assert_eq!(level(&redis(), &Seen { clock, ..seen() }, "clock"), Level::Warning);
    }
    assert_eq!(level(&redis(), &Seen { clock: None, ..seen() }, "clock"), Level::Ok);
}

#[test]
fn little_room_and_few_files_are_told() {
    let room = |free_bytes| Room {
        file_system: "ext4".to_owned(),
        mounted_on: "/".to_owned(),
        options: vec!["rw".to_owned()],
        free_bytes,
    };
    for (free_bytes, expected) in [(1 << 20, Level::Warning), (1 << 40, Level::Ok)] {
        let machine = Machine { room: Some(room(free_bytes)), ..Machine::default() };
        assert_eq!(level(&sqlite(), &Seen { machine, ..seen() }, "room"), expected);
    }
    let machine = Machine { open_files: Some(64), ..Machine::default() };
    assert_eq!(level(&sqlite(), &Seen { machine, ..seen() }, "limits"), Level::Note);
}

#[test]
fn long_queues_and_leases_that_run_out_are_told_with_their_key() {
    let leftovers = Leftovers {
        running_out: vec!["a://b".to_owned()],
        longest_queue: Some(LongQueue { key: "c://d".to_owned(), waiting: 40 }),
        dead_sessions: MANY_DEAD,
        ..Leftovers::default()
    };
    let findings = judge(&redis(), &Seen { leftovers: Some(leftovers), ..seen() });
    for (about, next) in [("queue", "c://d"), ("renewal", "a://b"), ("leftovers", "clears")] {
        let found = findings.iter().find(|finding| finding.about == about).unwrap();
        assert_eq!(found.level, Level::Note);
        assert!(found.next.as_deref().unwrap().contains(next), "{found:?}");
    }
}
