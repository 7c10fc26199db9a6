"""Where a client looks for its gateway, and what it shows to whom."""

from __future__ import annotations

import errno
import grp
import json
import os
import pwd
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from bellwether import BellError, Invalid, LockBusy, Unauthorized, Unreachable
from bellwether.address import Access, Address, find, of_project, of_run
from bellwether.errors import refusal


class Addresses(unittest.TestCase):
    def test_every_kind_is_read(self) -> None:
        self.assertEqual(Address.parse("unix:/run/bell.sock").path, "/run/bell.sock")
        for url, host, port in (
            ("http://127.0.0.1:8080", "127.0.0.1:8080", 8080),
            ("http://[::1]:8080/", "[::1]:8080", 8080),
            ("https://bell.example", "bell.example:443", 443),
        ):
            address = Address.parse(url)
            self.assertEqual((address.host_header, address.port), (host, port))
            self.assertEqual(address.tls, url.startswith("https"))

    def test_what_is_no_address_is_refused(self) -> None:
        wrong = ["", "unix:", "unix:bell.sock", "ftp://host:1", "http://", "http://a b:1", "http://h:1/x", "http://h:x"]
        for url in [*wrong, "http://user:pass@h:1", "http://h:1?q", "http://h:1\r\nX: y"]:
            with self.subTest(url), self.assertRaises(Invalid):
                Address.parse(url)

    def test_a_key_that_would_become_a_header_is_refused_and_not_shown(self) -> None:
        for wrong in ("", "a b", "canary\r\nX: y", "clé"):
            with self.assertRaises(Unauthorized) as refused:
                Access.of("http://h:1", wrong)
            self.assertNotIn("canary", str(refused.exception))
        self.assertNotIn("canary", repr(Access.of("http://h:1", "canary")))


class Finding(unittest.TestCase):
    def setUp(self) -> None:
        folder = TemporaryDirectory(prefix="bell-python-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / ".bell").mkdir()
        (self.folder / "agents").mkdir()

    def told(self, **said: str) -> None:
        (self.folder / ".bell/gateway.json").write_text(json.dumps(said))
        (self.folder / ".bell/api-key").write_text("bell_first_00\n")

    def test_what_is_given_counts_most_and_gets_no_token_of_a_run(self) -> None:
        run = {"BELL_URL": "unix:/run/desk.sock", "BELL_TOKEN": "token"}
        self.assertEqual(find(environment=run), of_run(run))
        given = find("http://h:1", "key", run)
        self.assertEqual((given.address.url, given.secret), ("http://h:1", "key"))
        with self.assertRaises(Unauthorized):
            find("http://h:1", None, run)
        with self.assertRaises(Unreachable):
            of_run({"BELL_URL": "unix:/run/desk.sock"})

    def test_a_gateway_of_the_environment_needs_a_key(self) -> None:
        named = {"BELL_GATEWAY": "http://h:1"}
        with self.assertRaises(Unauthorized):
            find(environment=named)
        self.assertEqual(find(environment={**named, "BELL_API_KEY": "key"}).secret, "key")
        self.assertEqual(find(key="mine", environment={**named, "BELL_API_KEY": "key"}).secret, "mine")

    def test_a_project_is_found_from_below(self) -> None:
        self.told(url="http://127.0.0.1:8080", socket=str(self.folder / "none.sock"))
        found = of_project(self.folder / "agents")
        self.assertEqual((found.address.url, found.secret), ("http://127.0.0.1:8080", "bell_first_00"))

    def test_the_nearest_project_counts_and_one_that_others_can_write_is_refused(self) -> None:
        self.told(url="http://127.0.0.1:8080")
        (self.folder / "inner/.bell").mkdir(parents=True)
        with self.assertRaisesRegex(Unreachable, "gateway.json"):
            of_project(self.folder / "inner")
        (self.folder / ".bell").chmod(0o777)
        with self.assertRaisesRegex(Unauthorized, "can write it"):
            of_project(self.folder)

    def test_a_project_of_another_user_is_refused_and_for_root_that_of_who_called_sudo_is_not(self) -> None:
        self.told(url="http://127.0.0.1:8080")
        if os.geteuid() == 0:
            for path in (self.folder, self.folder / ".bell"):
                os.chown(path, 65_534, -1)
        owner = self.folder.stat().st_uid
        for user, sudo, trusted in (
            (owner, "", True),
            (owner + 1, "", False),
            (owner + 1, str(owner), False),
            (0, "", False),
            (0, str(owner + 1), False),
            (0, str(owner), True),
        ):
            with patch("os.geteuid", return_value=user), patch.dict(os.environ, {"SUDO_UID": sudo}):
                if trusted:
                    of_project(self.folder)
                else:
                    with self.assertRaisesRegex(Unauthorized, "another user owns it"):
                        of_project(self.folder)

    def test_a_project_whose_access_list_may_let_others_write_is_refused(self) -> None:
        self.told(url="http://127.0.0.1:8080")
        (self.folder / ".bell").chmod(0o770)
        missing, failed = OSError(errno.ENODATA, ""), OSError(errno.EIO, "")
        for found, trusted in ((missing, True), (failed, False), (b"list", False)):
            with patch("os.getxattr", side_effect=[found]), patch("bellwether.address._has_others", return_value=False):
                if trusted:
                    of_project(self.folder)
                else:
                    with self.assertRaisesRegex(Unauthorized, "can write it"):
                        of_project(self.folder)

    def test_a_project_that_a_group_can_write_counts_if_the_group_has_no_other_members(self) -> None:
        self.told(url="http://127.0.0.1:8080")
        state = self.folder / ".bell"
        state.chmod(0o770)
        gid = state.stat().st_gid
        for others, trusted in (([], True), ([65_534], False)):
            users = [pwd.struct_passwd((str(uid), "x", uid, gid, "", "", "")) for uid in [os.geteuid(), *others]]
            group = grp.struct_group(("crew", "x", gid, [str(os.geteuid())]))
            with patch("grp.getgrgid", return_value=group), patch("pwd.getpwall", return_value=users):
                if trusted:
                    of_project(self.folder)
                else:
                    with self.assertRaisesRegex(Unauthorized, "can write it"):
                        of_project(self.folder)
        with patch("grp.getgrgid", side_effect=KeyError), self.assertRaisesRegex(Unauthorized, "can write it"):
            of_project(self.folder)

    def test_the_socket_is_preferred_where_it_can_be_opened(self) -> None:
        (self.folder / "bell.sock").touch()
        self.told(url="http://127.0.0.1:8080", socket=str(self.folder / "bell.sock"))
        self.assertEqual(of_project(self.folder, "mine").address.url, f"unix:{self.folder}/bell.sock")

    def test_a_project_without_a_gateway_or_a_key_is_told_from_each_other(self) -> None:
        with self.assertRaisesRegex(Unreachable, "gateway.json"):
            of_project(self.folder)
        self.told(url="http://127.0.0.1:8080")
        (self.folder / ".bell/api-key").unlink()
        with self.assertRaisesRegex(Unauthorized, "api-key"):
            of_project(self.folder)
        for nonsense in ("{", "[]", "{}"):
            (self.folder / ".bell/gateway.json").write_text(nonsense)
            with self.assertRaisesRegex(Unreachable, "gateway.json"):
                of_project(self.folder, "key")


class Refusals(unittest.TestCase):
    def test_each_word_has_its_class_and_a_new_word_is_still_an_error(self) -> None:
        busy = refusal({"outcome": "busy", "message": "it is held", "hint": "Skip it."})
        self.assertIsInstance(busy, LockBusy)
        self.assertEqual(str(busy), "it is held. Skip it.")
        new = refusal({"outcome": "eclipsed"})
        self.assertIs(type(new), BellError)
        self.assertEqual(new.outcome, "eclipsed")
        self.assertIn("eclipsed", str(new))
