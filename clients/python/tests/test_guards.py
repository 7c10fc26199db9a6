"""Guards of writes, and that they remember fences as ``bell`` does."""

from __future__ import annotations

import fcntl
import json
import sqlite3
import subprocess
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from bellwether import Stale, TimedOut, guards

from .support import BELL, ROOT, environment


class Files(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = TemporaryDirectory(prefix="bell-python-")
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "report.txt"

    def bell(self, fence: int, content: str) -> int:
        command = [BELL, "fence", "write", str(self.path), "--fence", str(fence)]
        return subprocess.run(command, input=content.encode(), env=environment(), capture_output=True).returncode

    def test_a_write_with_the_same_or_a_higher_fence_replaces_the_content(self) -> None:
        for fence, text in ((5, "one"), (5, "two"), (2**64 - 1, "three")):
            guards.write(self.path, fence, text)
            self.assertEqual(self.path.read_text(), text)
        self.assertEqual(guards.highest(self.path), 2**64 - 1)

    def test_a_write_with_a_lower_fence_is_refused_and_leaves_the_content(self) -> None:
        self.assertIsNone(guards.highest(self.path))
        guards.write(self.path, 12, b"successor")
        with self.assertRaises(Stale) as stale:
            guards.write(self.path, 3, b"stale")
        self.assertEqual((stale.exception.outcome, stale.exception.answer["seen_fence"]), ("stale", 12))
        self.assertEqual(self.path.read_bytes(), b"successor")

    def test_bell_and_this_library_refuse_each_others_stale_writers(self) -> None:
        guards.write(self.path, 7, "of python")
        self.assertNotEqual(self.bell(6, "stale"), 0)
        self.assertEqual(self.bell(8, "of bell"), 0)
        with self.assertRaises(Stale):
            guards.write(self.path, 7, "stale")
        self.assertEqual((self.path.read_text(), guards.highest(self.path)), ("of bell", 8))

    def test_a_writer_that_does_not_end_is_not_waited_for_for_ever(self) -> None:
        guards.write(self.path, 1, "before")
        with self.path.with_name(".report.txt.fence").open() as stopped:
            fcntl.flock(stopped, fcntl.LOCK_EX)
            with mock.patch.object(guards, "_WRITER_WITHIN", 0.01), self.assertRaises(TimedOut) as late:
                guards.write(self.path, 2, "late")
        self.assertIn("fuser -v", late.exception.hint)
        self.assertEqual((self.path.read_text(), guards.highest(self.path)), ("before", 1))
        guards.write(self.path, 2, "after")

    def test_a_damaged_file_of_fences_is_refused_rather_than_taken_for_none(self) -> None:
        self.path.with_name(".report.txt.fence").write_text("garbage")
        with self.assertRaises(OSError):
            guards.write(self.path, 1, b"x")
        self.assertFalse(self.path.exists())

    def test_a_planted_link_is_not_followed(self) -> None:
        victim = self.path.with_name("victim")
        victim.write_text("precious")
        for companion in (".report.txt.fence", ".report.txt.draft"):
            link = self.path.with_name(companion)
            link.symlink_to(victim)
            with self.assertRaises(OSError):
                guards.write(self.path, 1, b"x")
            link.unlink()
        self.assertEqual(victim.read_text(), "precious")

    def test_a_folder_is_not_a_file(self) -> None:
        with self.assertRaises(IsADirectoryError):
            guards.write(self.folder.name, 1, b"x")


class Databases(unittest.TestCase):
    def setUp(self) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.addCleanup(self.connection.close)
        self.connection.execute("CREATE TABLE notes (text TEXT)")

    def add(self, fence: int, text: str, table: str = "notes") -> None:
        with guards.sqlite(self.connection, "notes", fence) as transaction:
            transaction.execute(f"INSERT INTO {table} VALUES (?)", [text])

    def notes(self) -> list[str]:
        return [text for (text,) in self.connection.execute("SELECT text FROM notes")]

    def test_a_write_is_accepted_or_refused_by_its_fence(self) -> None:
        for fence in (7, 7, 8):
            self.add(fence, str(fence))
        with self.assertRaises(Stale):
            self.add(7, "stale")
        self.assertEqual(self.notes(), ["7", "7", "8"])

    def test_a_failed_write_does_not_raise_the_fence(self) -> None:
        with self.assertRaises(sqlite3.Error):
            self.add(9, "lost", "nowhere")
        self.add(8, "still accepted")
        self.assertEqual(self.notes(), ["still accepted"])

    def test_the_sql_for_postgresql_is_that_of_bell(self) -> None:
        self.assertEqual(guards.POSTGRES_SET_UP, (ROOT / "crates/locks/src/guard/postgres.sql").read_text())


class Http(unittest.TestCase):
    def test_a_service_that_checks_fences_refuses_a_stale_request(self) -> None:
        command = [BELL, "fence", "serve", "--listen", "127.0.0.1:0", "--json", "--store"]
        with TemporaryDirectory(prefix="bell-python-") as folder:
            sink = subprocess.Popen([*command, f"sqlite:{folder}/sink.db"], env=environment(), stdout=subprocess.PIPE)
            try:
                assert sink.stdout is not None
                url = json.loads(sink.stdout.readline())["listening"] + "/fenced/deploy:%2F%2Fapi-prod"
                self.assertEqual([put(url, 7, b"new"), put(url, 6, b"stale"), put(url, 7, b"newer")], [200, 412, 200])
            finally:
                sink.terminate()
                sink.communicate()


def put(url: str, fence: int, text: bytes) -> int:
    """The status of a guarded request."""
    request = urllib.request.Request(url, text, guards.headers(fence), method="PUT")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
