"""The examples of the pages work as they stand."""

from __future__ import annotations

import contextlib
import io
import os
import re
import unittest
from pathlib import Path
from typing import Any

from . import support

README = Path(__file__).resolve().parents[1] / "README.md"
HOW_TO = support.ROOT / "docs/how-to/python.md"


class Pages(unittest.TestCase):
    def setUp(self) -> None:
        before = Path.cwd()
        os.chdir(support.project().folder)
        self.addCleanup(os.chdir, before)

    def play(self, page: Path) -> tuple[list[dict[str, Any]], str]:
        """Runs every example of a page: what they published, and printed."""
        published: list[dict[str, Any]] = []
        names: dict[str, Any] = {"publish": lambda **said: published.append(said), "deploy": lambda: None}
        self.addCleanup(lambda: names["client"].close())
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            for example in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S):
                exec(compile(example, str(page), "exec"), names)
        self.assertTrue(all(said["fence"] > 0 for said in published))
        return published, printed.getvalue()

    def test_every_example_of_the_readme_runs(self) -> None:
        published, printed = self.play(README)
        self.assertEqual([said.get("issue", said.get("agent")) for said in published], [42, 43, 44, "researcher"])
        self.assertIn("refused a stale write", printed)

    def test_the_example_of_the_how_to_runs(self) -> None:
        self.assertEqual(len(self.play(HOW_TO)[0]), 1)
