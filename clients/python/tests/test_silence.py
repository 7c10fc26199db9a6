"""What becomes of requests when answers are late, cut off or senseless."""

from __future__ import annotations

import asyncio
import gc
import time
import unittest
from tempfile import TemporaryDirectory
from unittest import mock

from bellwether import Client, LockBusy, LockLost, Unavailable, Unknown, Unreachable, clock
from bellwether.gateway import Grant, Made
from bellwether.lease import Lease
from bellwether.renewing import keep
from bellwether.sessions import Session

from . import support
from .scripted import CUT, Asked, Said, Scripted, always, encoded, granted, refused
from .support import eventually

ACQUIRE, RENEW, RELEASE = "/v1/locks/acquire", "/v1/locks/renew", "/v1/locks/release"


def ok(asked: Asked) -> Said:
    """Grants, renews and releases."""
    if asked.path == ACQUIRE:
        return granted(asked)
    if asked.path == RENEW:
        return 200, {"outcome": "renewed", "ttl_ms": asked.body.get("ttl_ms", 60_000)}
    return 200, {"outcome": "released"}


class Later:
    """So many seconds later, as far as deadlines know."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        real = clock.now
        self._patch = mock.patch("bellwether.clock.now", lambda: real() + self.seconds)

    def __enter__(self) -> Later:
        self._patch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()


class Silence(unittest.TestCase):
    def test_nobody_there_is_unreachable(self) -> None:
        with TemporaryDirectory() as folder, self.assertRaises(Unreachable) as error:
            Client(f"unix:{folder}/none.sock", "secret").acquire("job:a")
        self.assertEqual(error.exception.outcome, "unreachable")

    def test_silence_after_sending_is_unknown_and_the_request_is_repeated_with_its_id(self) -> None:
        with Scripted(lambda asked: CUT if asked.path == ACQUIRE else ok(asked)) as gateway:
            with self.assertRaises(Unknown):
                gateway.client().acquire("job:a", wait=0)
            ids = {body["request_id"] for body in gateway.bodies(ACQUIRE)}
            self.assertEqual(len(ids), 1)
            self.assertGreaterEqual(len(gateway.bodies(ACQUIRE)), 3)
            # Nobody knows whether it was granted, so it is given up, and its session ends, though the client is gone too.
            eventually(lambda: gc.collect() >= 0 and gateway.bodies("/v1/sessions/end"))
            self.assertEqual([body["request_id"] for body in gateway.bodies("/v1/locks/leave")], list(ids))

    def test_a_request_that_is_heard_the_second_time_has_its_one_outcome(self) -> None:
        def script(asked: Asked) -> Said:
            return CUT if asked.path == ACQUIRE and len(gateway.bodies(ACQUIRE)) == 1 else ok(asked)

        with Scripted(script) as gateway, gateway.client() as client:
            self.assertEqual(client.acquire("job:a").fence, 7)
            first, second = gateway.bodies(ACQUIRE)
            self.assertEqual(first["request_id"], second["request_id"])

    def test_an_answer_without_sense_is_unknown(self) -> None:
        senseless = [
            b"SSH-2.0-OpenSSH\r\n",
            b"HTTP/1.1 502 Bad Gateway\r\ncontent-length: 6\r\n\r\n<html>",
            b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\ncontent-length: 999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: nine\r\n\r\n",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            encoded(200, {"no": "outcome"}),
            b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 200 + b"\r\n",
        ]
        for answer in senseless:
            with self.subTest(answer[:40]), always(answer) as gateway, gateway.client() as client:
                with mock.patch("bellwether.gateway.REPEATS", 0), self.assertRaises(Unknown):
                    client.show("job:a")

    def test_bodies_are_read_however_they_are_sent(self) -> None:
        said = b'{"outcome":"free","key":"job:a"}'
        ways = [
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n10\r\n" + said[:16] + b"\r\n10;x=y\r\n" + said[16:]
            + b"\r\n0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 32\r\n\r\n" + said,
            b"HTTP/1.1 200 OK\r\ncontent-length: 32\r\nconnection: close\r\n\r\n" + said,
            b"HTTP/1.0 200 OK\r\n\r\n" + said,
        ]  # fmt: skip
        for way in ways:
            with self.subTest(way[:60]), always(way) as gateway, gateway.client() as client:
                self.assertFalse(client.show("job:a").is_held)
                self.assertFalse(client.show("job:a").is_held)

    def test_a_connection_is_used_again_and_one_that_was_closed_meanwhile_is_replaced(self) -> None:
        def script(asked: Asked) -> Said:
            # The second request on a connection finds it closed, as after an idle time.
            earlier = [one for one in gateway.asked[:-1] if one.connection == asked.connection]
            return CUT if len(earlier) == 1 else (200, {"outcome": "free", "key": "job:a"})

        patient = mock.patch("bellwether.wire.IDLE_MAX", 600)
        with patient, Scripted(script) as gateway, gateway.client() as client:
            for _ in range(3):
                client.show("job:a")
            self.assertEqual([asked.connection for asked in gateway.asked], [1, 1, 2, 2, 3])

    def test_waiting_goes_on_with_the_same_id_and_what_is_left_of_the_wait(self) -> None:
        def script(asked: Asked) -> Said:
            if asked.path == ACQUIRE and len(gateway.bodies(ACQUIRE)) < 3:
                time.sleep(0.05)
                return 202, {"outcome": "waiting", "key": "job:a"}
            return ok(asked)

        with Scripted(script) as gateway, gateway.client() as client:
            client.acquire("job:a", wait=30).release()
            waits = [body["wait_ms"] for body in gateway.bodies(ACQUIRE)]
            self.assertEqual(len({body["request_id"] for body in gateway.bodies(ACQUIRE)}), 1)
            self.assertEqual(waits, sorted(set(waits), reverse=True))

    def test_a_refusal_is_raised_with_its_words(self) -> None:
        with always(refused("busy", 409)) as gateway, gateway.client() as client:
            with self.assertRaises(LockBusy) as busy:
                client.acquire("job:a", wait=0)
        said = busy.exception
        self.assertEqual((said.outcome, said.message, said.hint), ("busy", "it is busy", "Do otherwise."))
        with always(refused("unavailable", 503)) as gateway, gateway.client() as client:
            with self.assertRaises(Unavailable):
                client.acquire("job:a")

    def test_the_secret_is_not_shown(self) -> None:
        client = Client("unix:/nowhere", "canary")
        self.assertNotIn("canary", f"{client!r} {vars(client)}")


class Deadlines(unittest.TestCase):
    def test_a_lease_is_relied_on_from_before_the_request_left_and_for_less_than_it_lasts(self) -> None:
        with Scripted(ok) as gateway, gateway.client() as client:
            before = clock.now()
            held = client.acquire("job:a", ttl=60)
            self.assertLessEqual(clock.now() + held.left, before + 48.5)

    def test_after_a_pause_the_first_check_finds_the_lock_lost_for_good(self) -> None:
        with Scripted(ok) as gateway, gateway.client() as client:
            held = client.acquire("job:a", ttl=60)
            held.check()
            with Later(48.1), self.assertRaises(LockLost):
                held.check()
            with self.assertRaises(LockLost):
                held.check()
            with self.assertRaises(LockLost):
                held.release()

    def test_a_grant_that_came_late_begins_anew_before_it_is_handed_out(self) -> None:
        def script(asked: Asked) -> Said:
            wait.seconds += 50 if asked.path == ACQUIRE else 0
            return ok(asked)

        with Later() as wait, Scripted(script) as gateway, gateway.client() as client:
            held = client.acquire("job:a", ttl=60)
            self.assertEqual(gateway.bodies(RENEW), [{"key": "job:a", "fence": 7, "ttl_ms": 60_000}])
            held.check()

    def test_a_grant_that_was_over_when_it_came_is_not_handed_out(self) -> None:
        def script(asked: Asked) -> Said:
            wait.seconds += 50 if asked.path == ACQUIRE else 0
            return refused("not_held", 404) if asked.path == RENEW else ok(asked)

        with Later() as wait, Scripted(script) as gateway, gateway.client() as client:
            with self.assertRaises(LockLost):
                client.acquire("job:a", ttl=60)

    def test_three_failed_renewals_in_a_row_mean_lost(self) -> None:
        lease = Lease(Grant("job:a", {"job:a": 7}, 60, False, clock.now()), Session(Made("token", None, clock.now())))
        at_once = mock.patch("bellwether.renewing._is_set_within", mock.AsyncMock(return_value=False))
        renew = mock.AsyncMock(side_effect=[Unavailable("x"), None, Unknown("x"), Unreachable("x"), Unavailable("x")])
        with at_once:
            asyncio.run(keep(lease, asyncio.Event(), renew))
        self.assertTrue(lease.loss.done())
        self.assertEqual(renew.await_count, 5)

    def test_a_gateway_that_falls_silent_means_lost_by_the_deadline(self) -> None:
        def script(asked: Asked) -> Said:
            if asked.path == RENEW:
                time.sleep(5)
            return ok(asked)

        with Scripted(script) as gateway, gateway.client() as client:
            began = clock.now()
            held = client.acquire("job:a", ttl=1.5)
            self.assertTrue(held.wait_lost(support.PATIENCE))
            self.assertGreaterEqual(clock.now() - began, 0.9)
            with self.assertRaises(LockLost):
                held.check()

    def test_leaving_the_block_does_not_fail_where_only_giving_back_did(self) -> None:
        def script(asked: Asked) -> Said:
            return refused("unavailable", 503) if asked.path == RELEASE else ok(asked)

        with Scripted(script) as gateway, gateway.client() as client:
            with self.assertLogs("bellwether", "WARNING"), client.lock("job:a"):
                pass
            held = client.acquire("job:b")
            with self.assertRaises(Unavailable):
                held.release()
