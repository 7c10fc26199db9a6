"""A project with the real ``bell up``, shared by all tests, and an agent in it whose run is there to be talked to."""

from __future__ import annotations

import atexit
import functools
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TypeVar
from unittest import mock

from bellwether import Client, LockState

T = TypeVar("T")

#: Long enough for a machine under any load: only a test that fails waits this long.
PATIENCE = 60.0

ROOT = Path(__file__).resolve().parents[3]
_TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BELL = os.environ.get("BELL", str(_TARGET / "debug" / "bell"))

SOURCE = str(Path(__file__).resolve().parents[1] / "src")

#: An agent in Python. It answers with who holds what it has locked.
WORKER = """
import subprocess
import bellwether

client = bellwether.Client()
with client.lock("job:worker", wait=0) as held:
    holder = client.show(held.key).holders[0]
    subprocess.run(["bell", "return", f"{holder.agent} {holder.fence == held.fence}"], check=True)
"""

_numbers = itertools.count(1)


def fresh(name: str = "it") -> str:
    """A key that no other test has."""
    return f"test://{os.getpid()}/{name}/{next(_numbers)}"


def eventually(look: Callable[[], T | None]) -> T:
    """What ``look`` finds, as soon as it finds something."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := look():
            return found
        time.sleep(0.02)
    raise AssertionError(f"never: {look}")


def environment(**more: str) -> dict[str, str]:
    """The surroundings, without anything that would lead a client elsewhere."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BELL_")}
    return {**kept, **more}


def elsewhere(work: Callable[[], T]) -> T:
    """Does something on a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(PATIENCE)


class Project:
    """A project that is up."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bell-python-"))
        self._write("config.toml", self._user() + "[gateway]\nport = 0\n")
        self._write("agents/desk/SKILL.md", "---\nname: desk\ndescription: Is there.\n---\nBe there.\n")
        # What a run has, for tests that act as if they were in it; it lasts until the project goes down.
        script = f"umask 077\nenv > {self.folder}/run.tmp\nmv {self.folder}/run.tmp {self.folder}/run.env\n"
        self._write("agents/desk/run", f"#!/bin/sh\n{script}exec sleep 600\n")
        (self.folder / "agents/desk/run").chmod(0o755)
        self._write("agents/worker/SKILL.md", "---\nname: worker\ndescription: Works.\n---\nWork.\n")
        self._write("agents/worker/run", f"#!{sys.executable} -B\nimport sys\nsys.path.insert(0, {SOURCE!r})\n{WORKER}")
        (self.folder / "agents/worker/run").chmod(0o755)
        self.start()

    @staticmethod
    def _user() -> str:
        """The setting that agents need where root runs the tests, and so owns the project."""
        return 'user = "root"\n' if os.geteuid() == 0 else ""

    def start(self) -> None:
        """Starts it."""
        with (self.folder / "up.log").open("wb") as log:
            self._up = subprocess.Popen(
                [BELL, "up", str(self.folder)],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _environment(self) -> dict[str, str]:
        return environment(HOME=str(self.folder / "home"), XDG_STATE_HOME=str(self.folder / "state"))

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def bell(self, *arguments: str, fed: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
        """Runs a command in the project."""
        return subprocess.run(
            [BELL, *arguments],
            cwd=self.folder,
            env=self._environment(),
            input=fed,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )

    def until_up(self) -> Project:
        """Returns once its gateway answers."""
        eventually(lambda: (self.folder / ".bell/gateway.json").exists() or self._has_ended())
        return self

    def _has_ended(self) -> bool:
        if self._up.poll() is not None:
            raise AssertionError((self.folder / "up.log").read_text())
        return False

    def kill(self) -> None:
        """Ends its daemon without warning."""
        self._up.kill()
        self._up.wait(PATIENCE)
        (self.folder / ".bell/gateway.json").unlink(missing_ok=True)

    @property
    def key(self) -> str:
        """A full API key."""
        return (self.folder / ".bell/api-key").read_text().strip()

    @property
    def url(self) -> str:
        """Where its port is."""
        return str(json.loads((self.folder / ".bell/gateway.json").read_text())["url"])

    @functools.cached_property
    def run(self) -> dict[str, str]:
        """The environment of a run that is there."""
        assert self.bell("run", "desk").returncode == 0
        eventually(lambda: (self.folder / "run.env").exists())
        lines = (self.folder / "run.env").read_text().splitlines()
        return dict(line.split("=", 1) for line in lines if "=" in line)

    def down(self) -> None:
        """Ends everything."""
        # Once to stop it, and once more to end the run that it would wait for.
        for within in (0.3, PATIENCE):
            self._up.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._up.wait(within)
        shutil.rmtree(self.folder, ignore_errors=True)


@functools.cache
def project() -> Project:
    """The one that all tests share."""
    made = Project()
    atexit.register(made.down)
    return made.until_up()


def outside() -> Client:
    """A client with an API key, on the port."""
    return Client(project().url, project().key)


def in_run() -> Client:
    """A client with the token of a run."""
    run = project().run
    return Client(run["BELL_URL"], run["BELL_TOKEN"])


def hasty() -> AbstractContextManager[object]:
    """Renewals and heartbeats come twenty times as often, so that a test need not wait for them."""
    return mock.patch("bellwether.renewing.PART", 60)


def was_renewed(state: LockState, ttl: float) -> bool:
    """Whether a lock that was granted for ``ttl`` lasts longer than that."""
    (holder,) = state.holders
    return holder.held_ms + holder.left_ms > ttl * 1000 + 500


def break_(key: str) -> None:
    """Takes a lock from whoever holds it, as an operator does."""
    broken = project().bell("lock", "break", key, "--reason", "a test", "--yes")
    assert broken.returncode == 0, broken
