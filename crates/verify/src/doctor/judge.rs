//! From what was seen to findings. Nothing here asks anybody anything.

use bell_store::Info;
use bell_store::info::{Clock, Concern, Durability, FailOver, Push, Scope};

use super::advice::Engine;
use super::leftovers::Leftovers;
use super::machine::Machine;
use super::seen::{ClockSeen, Commits, Seen};
use super::{Finding, Level};

/// Below this, a store in files is about to be full.
const SCARCE_BYTES: u64 = 64 << 20;

/// A process with a few stores, connections and children needs this many open files.
const FEW_OPEN_FILES: u64 = 256;

/// What a clock may differ by without anybody having set it.
const TOLERATED_DRIFT_MS: u64 = 50;

/// Clearing away this many dead sessions is worth a word.
const MANY_DEAD: usize = 100;

/// What it all means: at least one finding for each promise, in the order of the promises.
pub fn judge(info: &Info, seen: &Seen) -> Vec<Finding> {
    let mut findings = vec![
        commits(info, &seen.commits),
        sharing(info),
        durability(info),
        fail_over(info),
        push(info),
        clock(info, seen.clock),
        death(info),
    ];
    findings.extend(room(&seen.machine));
    findings.extend(limits(info, &seen.machine));
    findings.extend(seen.leftovers.iter().flat_map(leftovers));
    findings
}

fn finding(level: Level, about: &'static str, rule: &'static str, what: impl Into<String>) -> Finding {
    let rule = (!rule.is_empty()).then_some(rule);
    Finding { level, about, rule, what: what.into(), because: None, next: None }
}

impl Finding {
    fn because(mut self, info: &Info, about: Concern) -> Self {
        let said: Vec<&str> =
            info.warnings.iter().filter(|said| said.about == about).map(|said| said.words.as_str()).collect();
        self.because = (!said.is_empty()).then(|| said.join("; "));
        self
    }

    fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

fn commits(info: &Info, commits: &Commits) -> Finding {
    let warned = info.warnings.iter().any(|said| said.about == Concern::Commits);
    match commits {
        Commits::Taken if warned => {
            finding(Level::Warning, "commits", "L21", "they are taken, but may not be for ever")
                .because(info, Concern::Commits)
                .next("Do what the store says; then run bell doctor again.")
        }
        Commits::Taken => finding(Level::Ok, "commits", "L21", "the store opens and takes commits"),
        Commits::Rewound { why } => {
            let what = format!(
                "the store may have lost what it answered, so who held what may be forgotten; nothing is granted \
                 until an operator raises the epoch: {why}"
            );
            finding(Level::Unsafe, "commits", "L3", what).next(
                "Stop the programs that held locks, or wait out their ttl; then: bell store raise-epoch --yes",
            )
        }
        Commits::Refused { why, advice } => {
            let what = format!("nothing can be locked: could not {why}");
            let found = finding(Level::Warning, "commits", "L21", what).because(info, Concern::Commits);
            if advice.is_empty() { found } else { found.next(advice.clone()) }
        }
    }
}

fn sharing(info: &Info) -> Finding {
    let what = match info.scope {
        Scope::Process => "only tasks of one process share it; another process sees other locks",
        Scope::Host => "processes of this machine share it; other machines must not",
        Scope::Distributed => "processes of many machines share it",
    };
    if info.warnings.iter().any(|said| said.about == Concern::Sharing) {
        return finding(Level::Warning, "sharing", "L2", what)
            .because(info, Concern::Sharing)
            .next("Make sure that one machine alone uses it, or use a database that the machines share.");
    }
    finding(if info.scope == Scope::Process { Level::Note } else { Level::Ok }, "sharing", "L2", what)
}

/// Whether a loss hurts anybody; see the module above for why.
fn durability(info: &Info) -> Finding {
    let engine = Engine::of(info);
    let (level, what) = match (info.durability, info.scope) {
        (Durability::Power, _) => {
            let conditions = info.warnings.iter().any(|said| said.about == Concern::Durability);
            let level = if conditions { Level::Note } else { Level::Ok };
            (level, "an answered commit survives a power cut")
        }
        (_, Scope::Process | Scope::Host) => (
            Level::Warning,
            "all is forgotten with a power cut, and fences begin anew: whoever held a lock is gone too, but guards \
             that remember fences elsewhere refuse the new, lower ones",
        ),
        (_, Scope::Distributed) if engine.notices_a_loss() => (
            Level::Warning,
            "a crash of the server may take what it answered last; that is noticed, and nothing is granted until an \
             operator has waited out the old leases and raises the epoch, so no fence repeats: it costs an outage",
        ),
        (_, Scope::Distributed) => (
            Level::Unsafe,
            "a power cut of the server may take what it answered, and nobody notices: a lock is granted a second \
             time while its holder lives on elsewhere, with a fence that was given out before",
        ),
    };
    let found = finding(level, "durability", "L22", what).because(info, Concern::Durability);
    if level == Level::Ok { found } else { found.next(engine.to_keep_commits()) }
}

fn fail_over(info: &Info) -> Finding {
    let engine = Engine::of(info);
    match (info.fail_over, info.scope) {
        (FailOver::Loses, _) => finding(
            Level::Unsafe,
            "fail-over",
            "L3",
            "a server that takes over may not have what was answered last: a lock is free there that somebody holds, \
             and the old server, cut off but alive, may go on granting; commits are refused on the new one until an \
             operator raises the epoch",
        )
        .because(info, Concern::FailOver)
        .next(engine.to_keep_on_fail_over()),
        (FailOver::Kept, _) => {
            finding(Level::Ok, "fail-over", "L3", "whoever takes over has every answered commit; locks and fences go on")
        }
        (FailOver::None, Scope::Distributed) => {
            let what = "nothing takes over: while that one place is down nothing can be locked, and nothing is lost";
            finding(Level::Note, "fail-over", "L21", what)
                .because(info, Concern::Availability)
                .next(engine.to_stay_available())
        }
        (FailOver::None, _) => {
            finding(Level::Ok, "fail-over", "L21", "there is none: the store is where its users are")
        }
    }
}

fn push(info: &Info) -> Finding {
    match info.push {
        Push::Push => finding(Level::Ok, "waiting", "L6", "who waits is told at once when it is its turn"),
        Push::Poll { interval_ms } => {
            let what =
                format!("who waits looks every {interval_ms} ms, so a hand-over takes up to that long");
            finding(Level::Note, "waiting", "L6", what)
                .because(info, Concern::Push)
                .next(Engine::of(info).to_be_told())
        }
    }
}

fn clock(info: &Info, seen: Option<ClockSeen>) -> Finding {
    let of = match info.clock {
        Clock::Boottime => {
            "leases are measured by this machine's time since boot: setting its clock changes nothing"
        }
        Clock::FileServer => "leases are measured by the file server's time stamps, by no client's clock",
        Clock::Server => "leases are measured by the server's clock, by no client's; its jumps are noticed",
        Clock::Clients => "leases are measured by one client's time since boot, which the others ask for",
        Clock::Manual => "time is moved by a test",
    };
    match seen.filter(|seen| seen.drift_ms.unsigned_abs() > TOLERATED_DRIFT_MS) {
        None => finding(Level::Ok, "clock", "L10", of),
        Some(seen) => {
            let what = format!(
                "{of}; but it went {} ms {} than time can have passed here, in {} ms",
                seen.drift_ms.unsigned_abs(),
                if seen.drift_ms > 0 { "further" } else { "less far" },
                seen.watched_ms
            );
            finding(Level::Warning, "clock", "L10", what).next(
                "Look at the time service of both machines (chronyc tracking); then run bell doctor again.",
            )
        }
    }
}

fn death(info: &Info) -> Finding {
    if info.notices_death {
        return finding(Level::Ok, "death", "L16", "what a process held is free at once when it dies");
    }
    finding(
        Level::Note,
        "death",
        "L16",
        "what a killed process held is free when its ttl is over, after 15 s at the most",
    )
    .next("Take short ttls for what must move on quickly; bell lock run renews them.")
}

fn room(machine: &Machine) -> Option<Finding> {
    let room = machine.room.as_ref()?;
    let what = format!(
        "{} on {} ({}), {} MiB free",
        room.file_system,
        room.mounted_on,
        room.options.join(","),
        room.free_bytes >> 20
    );
    Some(if room.free_bytes < SCARCE_BYTES {
        finding(Level::Warning, "room", "L21", format!("{what}: once it is full nothing can be locked"))
            .next(format!("Free some space: du -xh {} | sort -h | tail", room.mounted_on))
    } else {
        finding(Level::Ok, "room", "", what)
    })
}

fn limits(info: &Info, machine: &Machine) -> Option<Finding> {
    let files = machine.open_files.filter(|files| *files < FEW_OPEN_FILES);
    if let Some(files) = files {
        let what = format!("this process may open {files} files only");
        return Some(finding(Level::Note, "limits", "", what).next("ulimit -n 1024"));
    }
    let watched = Engine::of(info) == Engine::Files;
    let instances = machine.inotify_instances.filter(|_| watched)?;
    let what = format!(
        "{instances} processes of this user can be told of changes (fs.inotify.max_user_instances); others look for them"
    );
    Some(finding(Level::Ok, "limits", "L6", what))
}

fn leftovers(found: &Leftovers) -> Vec<Finding> {
    let more = if found.more { ", and more that were not looked at" } else { "" };
    let what = format!(
        "{} locks, {} sessions; left by the dead: {} locks, {} sessions{more}",
        found.locks, found.sessions, found.stale_locks, found.dead_sessions
    );
    let mut findings = vec![if found.dead_sessions >= MANY_DEAD {
        finding(Level::Note, "leftovers", "L9", what)
            .next("Nothing has to run first: the next command that takes a lock clears some away.")
    } else {
        finding(Level::Ok, "leftovers", "L9", what)
    }];
    if let Some(queue) = &found.longest_queue {
        let what = format!("{} wait for {}", queue.waiting, queue.key);
        findings.push(
            finding(Level::Note, "queue", "L6", what)
                .next(format!("Who holds it: bell lock show {}", queue.key)),
        );
    }
    if let Some(first) = found.running_out.first() {
        let what = format!(
            "{} locks have less than a third of their ttl left, {first} for one: who keeps a lock renews it \
             earlier, so it was taken to run out (bell lock acquire), or its holder is paused or cut off",
            found.running_out.len()
        );
        findings.push(
            finding(Level::Note, "renewal", "L12", what)
                .next(format!("Who holds it: bell lock show {first}")),
        );
    }
    findings
}

#[cfg(test)]
mod tests;
