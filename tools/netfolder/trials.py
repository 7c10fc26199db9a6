"""What is tried on a network file system between two machines, inside the guest that `init` has set up.

Each part prints one row: what was done and what was seen. The last line says whether everything held.
"""

import collections
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

BELL = os.environ["BELL"]
CREW = os.environ["CREW"]
ITEMS = int(os.environ["ITEMS"])
VERSIONS = int(os.environ["VERSIONS"])
PARTS = os.environ["PARTS"].split(",")
SERVER = Path("/mnt/server")

# Longer than the server's lease (10 s) and than a request is repeated (soft,timeo=20,retrans=2: 2 s + 4 s).
CUT_S = 16
# Silence after which the janitor takes a worker of the other machine for dead: two missed beats.
SILENT_S = 10
# Nothing here takes longer unless it hangs; of a crew, for each thousand items.
PATIENCE_S = 180


class Failed(Exception):
    """Something that was promised did not hold."""


def require(held, what):
    if not held:
        raise Failed(what)


class Machine:
    """One of the two: network, host name and process numbers of its own, and its own mount of the export."""

    def __init__(self, number):
        self.name, self.mount = f"c{number}", Path(f"/mnt/c{number}")
        self.link = f"h{number}"
        found = subprocess.run(["pgrep", "-x", "sleep"], capture_output=True, text=True, check=False).stdout.split()
        self.first = next(pid for pid in found if self.is_here(pid))

    def is_here(self, pid):
        told = subprocess.run(["nsenter", "-t", pid, "-u", "hostname"], capture_output=True, text=True, check=False)
        return told.stdout.strip() == self.name

    def start(self, *words, env=None, **how):
        enter = ["nsenter", "-t", self.first, "-n", "-u", "-p", "-m"]
        return subprocess.Popen([*enter, *map(str, words)], env={**os.environ, **(env or {})}, **how)

    def run(self, *words, **how):
        """Exit code and everything it said."""
        process = self.start(*words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, **how)
        said, _ = process.communicate(timeout=PATIENCE_S)
        return process.returncode, said

    def bell(self, *words):
        return self.run(BELL, *words)

    def cut(self):
        subprocess.run(["ip", "link", "set", self.link, "down"], check=True)

    def heal(self):
        subprocess.run(["ip", "link", "set", self.link, "up"], check=True)


def say(text):
    """For whoever watches."""
    print(f"# {text}", flush=True)


def until(what, is_so, patience_s=PATIENCE_S):
    began = time.monotonic()
    while not is_so():
        require(time.monotonic() - began < patience_s, f"gave up waiting until {what}")
        time.sleep(0.1)


def doctor(one, two):
    other = two.start(BELL, "doctor", "fs", two.mount, "--peer", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    code, said = one.bell("doctor", "fs", one.mount, "--peer")
    other.wait(timeout=PATIENCE_S)
    require(code == 0 and "unsafe" not in said, f"bell doctor fs --peer answered {code}: {said}")
    together = said.split("together with ", 1)[1].splitlines()[1:6]
    return "; ".join(" ".join(line.split()) for line in together)


class Crew:
    """Eight workers on one queue, four on each machine; who ends before the end is replaced."""

    def __init__(self, name, machines, by_mv):
        self.name, self.machines = name, machines
        self.root = SERVER / name
        self.count = ITEMS * 8
        (self.root / "log").mkdir(parents=True)
        # The settings are the server's; workers and janitors come by the network.
        require(machines[0].bell("queue", "init", machines[0].mount / name / "q", "--attempts", "1000", "--no-sync")[0] == 0, "init")
        for number in range(self.count):
            (self.root / "q/queue" / f"item-{number:06}").touch()
        kinds = ["mv" if by_mv and number % 4 < 2 else "bell" for number in range(8)]
        self.workers = [(machines[number // 4], kind, self.begin(machines[number // 4], kind)) for number, kind in enumerate(kinds)]
        self.kills = 0

    def begin(self, machine, kind):
        root = machine.mount / self.name
        if kind == "mv":
            return machine.start("sh", "-c", SHELL, "sh", root, f"sh-{random.getrandbits(32):x}", stderr=subprocess.DEVNULL)
        words = [CREW, "--exact", "a_worker", "--nocapture", "--quiet"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        return machine.start(*words, env={"BELL_FOLDER_ORDER": str(root)}, **quiet)

    def done(self):
        return sum(1 for _ in os.scandir(self.root / "q/done"))

    def replace(self, at):
        machine, kind, process = self.workers[at]
        # nsenter is killed alone; the worker itself is its child.
        subprocess.run(["pkill", "-KILL", "-P", str(process.pid)], check=False)
        process.kill()
        process.wait()
        self.workers[at] = (machine, kind, self.begin(machine, kind))

    def sweep(self, machine, stopped):
        """A janitor of a machine, as cron would start one, if more often."""
        limits = ["--silent", f"{SILENT_S}s", "--unattended", f"{SILENT_S}s", "--window", "1s", "--yes"]
        while not stopped.is_set():
            machine.bell("queue", "janitor", machine.mount / self.name / "q", *limits)
            stopped.wait(1)

    def work(self, kill, cut):
        """Until all is done. `cut` is the machine that is cut off after a third, for a while."""
        began, stopped, cut_at = time.monotonic(), threading.Event(), None
        janitors = [threading.Thread(target=self.sweep, args=(machine, stopped)) for machine in self.machines]
        [janitor.start() for janitor in janitors]
        state = "before"
        while (done := self.done()) < self.count or state != "healed":
            require(time.monotonic() - began < PATIENCE_S * (1 + self.count / 1000), f"{done} of {self.count} done when patience ended")
            if state == "before" and done >= self.count // 3:
                cut.cut()
                state, cut_at, self.cut_after = "cut", time.monotonic(), done
            if state == "cut" and time.monotonic() - cut_at >= CUT_S:
                cut.heal()
                state, self.meanwhile = "healed", done - self.cut_after
            if kill:
                self.replace(random.randrange(8))
                self.kills += 1
            for at, (_, _, process) in enumerate(self.workers):
                if process.poll() is not None:
                    self.replace(at)
            time.sleep(0.1)
        self.took_s = time.monotonic() - began
        (self.root / "stop").touch()
        [process.wait(timeout=PATIENCE_S) for _, _, process in self.workers]
        stopped.set()
        [janitor.join() for janitor in janitors]

    def check(self):
        fences = {}
        for name in os.listdir(self.root / "q/done"):
            base, _, fence = name.partition("#")
            require(base not in fences, f"{base} is there twice")
            fences[base] = int(fence.split(".")[0] or 1) if fence else 1
        require(len(fences) == self.count, f"{self.count - len(fences)} items are lost")
        left = [path for part in ("queue", "failed", "claimed") for path in (self.root / "q" / part).rglob("item-*")]
        require(not left, f"left over: {left[:3]}")
        answered = collections.Counter()
        for log in (self.root / "log").iterdir():
            for line in log.read_text().splitlines():
                base, fence = line.split(" ")
                answered[base] += 1
                require(answered[base] == 1, f"{base} was done twice under a valid fence")
                require(fences[base] == int(fence), f"{base} was done with fence {fence} and has {fences[base]}")
        again = sum(1 for fence in fences.values() if fence > 1)
        killed = f", {self.kills} workers killed" if self.kills else ""
        return (
            f"{self.count} items, {self.cut_after} done when c1 was cut off for {CUT_S} s, {self.meanwhile} more by c2 "
            f"before it was healed{killed}; each done once, {again} of them by a later claim; {self.took_s:.0f} s"
        )


# A loop that anybody could have written.
SHELL = r"""
cd "$1/q" && mkdir -p "claimed/$2"
while [ ! -e ../stop ]; do
  for item in queue/*; do
    name=${item#queue/}
    [ -e "$item" ] && mv "$item" "claimed/$2/$name" 2>/dev/null && mv "claimed/$2/$name" "done/$name"
  done
done
exit 0
"""


def crew(name, kill=False, by_mv=False):
    def part(one, two):
        crew = Crew(name, [one, two], by_mv)
        crew.work(kill, cut=one)
        return crew.check()

    return part


def returning(one, two):
    """A worker with an item on a machine that is cut off, declared dead by the other, comes back."""
    (SERVER / "returning").mkdir()
    mine, yours = one.mount / "returning/q", two.mount / "returning/q"
    require(one.bell("queue", "init", mine)[0] == 0, "init")
    (SERVER / "returning/q/queue/slow").touch()
    first = one.start(BELL, "queue", "work", mine, "--max", "1", "--", "sleep", "600", stderr=subprocess.PIPE, text=True)
    until("it is claimed", lambda: list((SERVER / "returning/q/claimed").rglob("slow")))
    time.sleep(2)
    one.cut()
    until("the other machine has it", lambda: two.bell("queue", "janitor", yours, "--silent", f"{SILENT_S}s", "--window", "0", "--yes")
          and (SERVER / "returning/q/queue/slow#2").exists(), 60)
    code, said = two.bell("queue", "work", yours, "--drain", "--", "true")
    require(code == 0, f"the other machine could not do it: {said}")
    one.heal()
    _, said = first.communicate(timeout=PATIENCE_S)
    require(first.returncode == 1 and "was taken back" in said, f"{first.returncode}: {said}")
    require(os.listdir(SERVER / "returning/q/done") == ["slow#2"], "it is done under the later fence only")
    return f"silent for {SILENT_S} s, done by c2 as slow#2; back again, c1 was told «{said.strip().splitlines()[-1]}»"


READER = r"""
import errno, os, sys, time
folder, stop, seen, gone, stale, failed = sys.argv[1], sys.argv[2], set(), 0, 0, 0
while True:
    ended = os.path.exists(stop)
    try:
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            texts = []
            for name in ("a", "b", "c"):
                file = os.open(name, os.O_RDONLY, dir_fd=at)
                texts.append(os.read(file, 100))
                os.close(file)
        finally:
            os.close(at)
        if len(set(texts)) != 1 or not texts[0]:
            sys.exit(f"a mixture: {texts}")
        seen.add(texts[0])
    except FileNotFoundError:
        gone += bool(seen)
    except OSError as error:
        # Replaced twice meanwhile, or cut off (EIO, ETIMEDOUT).
        if error.errno == errno.ESTALE: stale += 1
        else: failed += 1
    if ended: break
    time.sleep(0.01)
print(len(seen), gone, stale, failed)
"""


def publishing(one, two):
    ground = SERVER / "publishing"
    (ground / "src").mkdir(parents=True)
    readers = [
        machine.start("python3", "-c", READER, machine.mount / "publishing/site", machine.mount / "publishing/stop",
                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for machine in (one, one, two, two)
    ]
    unclear, cut_at = 0, None
    for version in range(1, VERSIONS + 1):
        for name in "abc":
            (ground / "src" / name).write_text(f"version {version}")
        words = ["publish", one.mount / "publishing/src", "--to", one.mount / "publishing/site", "--linked", "--fence", version]
        # What has no clear answer is asked again with the same fence, as the hint says.
        while (answer := one.bell(*words))[0] != 0:
            unclear += 1
            require(answer[0] == 5, f"publishing {version} answered {answer}")
            if cut_at and time.monotonic() - cut_at > CUT_S:
                one.heal()
        if version == VERSIONS // 2:
            one.cut()
            cut_at = time.monotonic()
    code, said = two.bell("publish", two.mount / "publishing/src", "--to", two.mount / "publishing/site", "--fence", VERSIONS - 1)
    require(code == 7, f"a stale publisher of the other machine got {code}: {said}")
    (ground / "stop").touch()
    saw = []
    for reader in readers:
        told, _ = reader.communicate(timeout=PATIENCE_S)
        require(reader.returncode == 0, told)
        saw.append(told.split())
    code, said = two.bell("publish", two.mount / "publishing/src", "--to", two.mount / "publishing/plain")
    require(code == 0, said)
    code, said = two.bell("publish", two.mount / "publishing/src", "--to", two.mount / "publishing/plain")
    require(code == 4 and "--linked" in said, f"a folder over a folder got {code}: {said}")
    versions, gone, stale, failed = (", ".join(column) for column in zip(*saw))
    return (
        f"{VERSIONS} versions from c1, cut off half-way for {CUT_S} s ({unclear} answers unclear, asked again); readers saw {versions} "
        f"versions and no mixture, found the version gone {gone} times and its handle stale {stale} times, heard nothing {failed} times; a stale fence of c2 refused; "
        "a folder over a folder refused without --linked"
    )


def locking(one, two):
    """Both machines count under a lock; then a holder is cut off for longer than its lease."""
    (SERVER / "locking").mkdir()
    (SERVER / "locking/count").write_text("0")
    rounds = max(10, VERSIONS // 10)

    def words(machine, ttl, command):
        ground = machine.mount / "locking"
        return ["--store", f"file:{ground}/locks", "lock", "run", "--ttl", ttl, "--wait", "5m", "job:count", "--", "sh", "-c", command, "sh", ground, BELL]

    count = 'n=$(cat "$1/count") && echo $((n + 1)) | "$2" fence write "$1/count" --fence "$BELL_LOCK_FENCE"'
    failures = []

    def loop(machine):
        for _ in range(rounds):
            answer = machine.bell(*words(machine, "30s", count))
            if answer[0] != 0:
                failures.append(answer)

    loops = [threading.Thread(target=loop, args=(machine,)) for machine in (one, two, one, two)]
    [each.start() for each in loops]
    [each.join() for each in loops]
    say(f"{4 * rounds} steps counted")
    require(not failures, f"counting failed: {failures[:1]}")
    require(int((SERVER / "locking/count").read_text()) == 4 * rounds, "a step of the count was lost")
    # The command says which fence it has and goes on whatever happens, as a process does that hears nothing.
    stubborn = 'trap "" TERM; echo $BELL_LOCK_FENCE > /run/tmp/fence; exec sleep 600'
    first = one.start(BELL, *words(one, "5s", stubborn), stderr=subprocess.PIPE, text=True)
    until("c1 holds the lock", lambda: Path("/run/tmp/fence").exists() and Path("/run/tmp/fence").read_text())
    say("c1 holds the lock and is cut off")
    one.cut()
    began = time.monotonic()
    code, said = two.bell(*words(two, "30s", count))
    say(f"c2 was answered {code}")
    waited_s = time.monotonic() - began
    require(code == 0, f"c2 could not take over: {said}")
    one.heal()
    _, said = first.communicate(timeout=PATIENCE_S)
    require(first.returncode != 0 and "lost" in said, f"the holder that was cut off was told {first.returncode}: {said}")
    fence = Path("/run/tmp/fence").read_text().strip()
    late, told = one.run("sh", "-c", f"echo 0 | {BELL} fence write {one.mount}/locking/count --fence {fence}")
    require(late == 7, f"its late write got {late}: {told}")
    require(int((SERVER / "locking/count").read_text()) == 4 * rounds + 1, "the late write is in the file")
    return f"{4 * rounds} steps counted under the lock, none lost; c1 cut off with a ttl of 5 s: c2 had the lock {waited_s:.0f} s later, c1 was told that it is lost (exit code {first.returncode}), and its late write was refused"


def flock(one, two):
    mine, yours = one.mount / "job.lock", two.mount / "job.lock"
    holding = one.start(BELL, "--store", "sqlite:/run/tmp/c1.db", "lock", "run", "--flock", mine, "--", "sleep", "600")
    until("flock(1) on the other machine sees it", lambda: mine.exists() and two.run("flock", "-n", yours, "true")[0] == 1, 60)
    code, said = two.bell("--store", "sqlite:/run/tmp/c2.db", "lock", "run", "-n", "--flock", yours, "--", "true")
    require(code == 1 and "another process holds the flock" in said, f"{code}: {said}")
    subprocess.run(["pkill", "-TERM", "-P", str(holding.pid)], check=True)
    holding.wait(timeout=PATIENCE_S)
    until("it is free", lambda: two.run("flock", "-n", yours, "true")[0] == 0, 60)
    return "held by bell on c1, seen by flock(1) and by bell on c2; free when its command had ended"


ALL = {
    "doctor": doctor,
    "crew": crew("crew"),
    "killed": crew("killed", kill=True),
    "mv": crew("mv", by_mv=True),
    "returning": returning,
    "publishing": publishing,
    "locking": locking,
    "flock": flock,
}


def main():
    one, two = Machine(1), Machine(2)
    mounted = [line.split() for line in Path("/proc/mounts").read_text().splitlines() if " /mnt/c1 " in line]
    print(f"## {mounted[0][2]} {mounted[0][3]}", flush=True)
    held = True
    for name in PARTS:
        try:
            print(f"## {name}: held: {ALL[name](one, two)}", flush=True)
        except (Failed, subprocess.SubprocessError, OSError) as error:
            held = False
            print(f"## {name}: FAILED: {error}", flush=True)
            for line in subprocess.run(["ps", "axo", "pid,ppid,stat,wchan:20,etimes,args"], capture_output=True, text=True, check=False).stdout.splitlines():
                say(line)
        one.heal()
        two.heal()
    print("## everything held" if held else "## not everything held", flush=True)


main()
