"""What becomes of locks when processes end, are paused, interrupted and forked."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from bellwether import Client, LockBusy, LockLost, Unreachable, guards

from . import support
from .support import Project, eventually, fresh

#: What a child process begins with: a client, and a key to lock.
BEGIN = """
import logging, os, sys, time
import bellwether
logging.getLogger("bellwether").addHandler(logging.NullHandler())
from bellwether import guards
client = bellwether.Client()
key = sys.argv[1]
def say(text):
    print(text, flush=True)
"""


class Child:
    """A program of its own."""

    def __init__(self, program: str, *arguments: str) -> None:
        where = {"BELL_GATEWAY": support.project().url, "BELL_API_KEY": support.project().key}
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", BEGIN + program, *arguments],
            env=support.environment(PYTHONPATH=support.SOURCE, **where),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def heard(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self) -> None:
        """Lets it go on."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Its exit code."""
        self.process.communicate(timeout=support.PATIENCE)
        return self.process.returncode


class Processes(unittest.TestCase):
    def setUp(self) -> None:
        self.client = support.outside()
        self.addCleanup(self.client.close)

    def is_free(self, key: str) -> bool:
        return not self.client.show(key).is_held

    def test_a_program_that_ends_gives_back_what_it_forgot(self) -> None:
        key = fresh()
        child = Child("held = client.acquire(key, ttl=600); say(held.fence)", key)
        self.assertTrue(child.heard().isdigit())
        self.assertEqual(child.end(), 0)
        self.assertTrue(self.is_free(key))

    def test_a_program_that_is_interrupted_while_it_waits_leaves_the_queue(self) -> None:
        key = fresh()
        with self.client.lock(key):
            # Whoever is started in the background of a script ignores this signal, and so do its children.
            program = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    client.acquire(key)
except KeyboardInterrupt:
    sys.exit(3)
"""
            child = Child(program, key)
            eventually(lambda: self.client.show(key).waiting == 1)
            child.process.send_signal(signal.SIGINT)
            self.assertEqual(child.end(), 3)
            eventually(lambda: self.client.show(key).waiting == 0)

    def test_a_holder_paused_past_its_ttl_finds_out_and_can_not_write(self) -> None:
        key = fresh()
        path = support.project().folder / "paused.txt"
        program = """
held = client.acquire(key, ttl=1)
say(held.fence)
sys.stdin.readline()
try:
    held.check()
    say("relies on it")
except bellwether.LockLost:
    say("lost")
try:
    guards.write(sys.argv[2], held.fence, "stale")
    say("wrote")
except bellwether.Stale:
    say("refused")
"""
        child = Child(program, key, str(path))
        fence = int(child.heard())
        child.process.send_signal(signal.SIGSTOP)
        with self.client.lock(key) as held:
            self.assertGreater(held.fence, fence)
            guards.write(path, held.fence, "of the successor")
        child.process.send_signal(signal.SIGCONT)
        child.tell()
        self.assertEqual((child.heard(), child.heard()), ("lost", "refused"))
        child.end()
        self.assertEqual(path.read_text(), "of the successor")

    def test_a_fork_has_nothing_of_what_its_parent_holds(self) -> None:
        key = fresh()
        program = """
import json
with client.lock(key, ttl=600) as held:
    read, write = os.pipe()
    if os.fork() == 0:
        try:
            held.check()
            found = "relies on it"
        except bellwether.LockLost:
            found = "lost"
        held.release()
        try:
            client.acquire(key, wait=0)
            again = "granted"
        except bellwether.LockBusy:
            again = "busy"
        os.write(write, json.dumps([found, again]).encode())
        client.close()
        os._exit(0)
    os.wait()
    say(os.read(read, 1000).decode())
    held.check()
    say(client.show(key).holders[0].fence == held.fence)
"""
        child = Child(program, key)
        self.assertEqual(json.loads(child.heard()), ["lost", "busy"])
        self.assertEqual(child.heard(), "True")
        self.assertEqual(child.end(), 0)

    def test_what_is_held_keeps_its_client_and_a_forgotten_client_gives_everything_back(self) -> None:
        key = fresh()
        held = support.outside().acquire(key, ttl=600)
        gc.collect()
        held.check()
        with self.assertRaises(LockBusy):
            self.client.acquire(key, wait=0)
        del held
        gc.collect()
        eventually(lambda: self.is_free(key))

    def test_a_program_in_the_folder_of_a_project_needs_to_be_told_nothing(self) -> None:
        before = Path.cwd()
        os.chdir(support.project().folder / "agents")
        self.addCleanup(os.chdir, before)
        with Client() as client:
            self.assertTrue(client.url.startswith("unix:"))
            with client.lock(fresh()) as held:
                held.check()

    def test_an_agent_takes_its_locks_as_what_it_is(self) -> None:
        ran = support.project().bell("--json", "run", "worker", "--wait")
        self.assertEqual(json.loads(ran.stdout)["returned"], "worker True", ran)

    def test_a_lock_outlives_the_daemon_that_granted_it(self) -> None:
        project = Project()
        self.addCleanup(project.down)
        key = fresh()
        with Client.of_project(project.until_up().folder) as client, client.lock(key, ttl=60) as held:
            project.kill()
            with self.assertRaises(Unreachable):
                client.show(key)
            project.start()
            project.until_up()
            held.renew()
            self.assertEqual([holder.fence for holder in client.show(key).holders], [held.fence])

    def test_an_operator_breaks_a_lock_and_the_holder_is_told_why(self) -> None:
        key = fresh()
        with support.hasty():
            held = self.client.acquire(key, ttl=6_000)
            broken = self.client.break_(key, "it hangs")
            self.assertEqual([holder.fence for holder in broken.holders], [held.fence])
            # Long before its own renewal would find out: the session's heartbeat brings the news.
            self.assertTrue(held.wait_lost(support.PATIENCE))
        with self.assertRaisesRegex(LockLost, "it hangs"):
            held.check()
