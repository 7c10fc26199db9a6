"""The contract of a lock backend, and the backend of this library tried on it.

``Contract`` needs nothing but ``make``: it can be tried on any other backend too.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

from bellwether import Client, TimedOut, Unreachable
from bellwether.backend import (
    BellLockBackend,
    LockBackend,
    LockBusy,
    LockHandle,
    LockLost,
    backend_class,
    backend_names,
    register_backend,
)

from . import support
from .support import break_, elsewhere, eventually, fresh, was_renewed


class Contract(unittest.TestCase):
    """What every backend does."""

    def make(self) -> LockBackend:
        """A backend whose locks no other test has."""
        raise NotImplementedError

    def setUp(self) -> None:
        self.backend = self.make()

    def busy(self, name: str = "", timeout: float = 0.0) -> None:
        with self.assertRaises(LockBusy):
            elsewhere(lambda: self.backend.acquire(name, timeout))

    def test_it_has_the_shape(self) -> None:
        self.assertIsInstance(self.backend, LockBackend)
        shape = inspect.signature(self.backend.acquire).parameters
        self.assertEqual({name: given.default for name, given in shape.items()}, {"name": "", "timeout": 0.0})
        self.assertEqual(inspect.signature(self.backend.is_held).parameters["name"].default, "")

    def test_acquire_returns_a_handle(self) -> None:
        before = time.time()
        handle = self.backend.acquire("agent")
        self.assertEqual((handle.name, handle.holder_pid), ("agent", os.getpid()))
        self.assertTrue(before - 1 <= handle.acquired_at <= time.time() + 1)
        self.assertIsNotNone(handle.backend_state)
        self.backend.release(handle)

    def test_a_lock_without_a_name_is_a_lock_too(self) -> None:
        with self.backend.acquire():
            self.busy()
            self.assertTrue(self.backend.is_held())

    def test_a_held_lock_is_busy_at_once(self) -> None:
        with self.backend.acquire("agent"):
            self.busy("agent")

    def test_a_timeout_that_is_over_is_busy(self) -> None:
        with self.backend.acquire("agent"):
            self.busy("agent", 0.2)

    def test_a_lock_that_is_released_within_the_timeout_is_acquired(self) -> None:
        handle = self.backend.acquire("agent")
        with ThreadPoolExecutor() as pool:
            waiter = pool.submit(self.backend.acquire, "agent", 60.0)
            time.sleep(0.1)
            self.backend.release(handle)
            self.backend.release(waiter.result(support.PATIENCE))

    def test_of_many_at_once_one_acquires(self) -> None:
        start = threading.Barrier(6)

        def attempt() -> LockHandle | None:
            start.wait(support.PATIENCE)
            try:
                return self.backend.acquire("agent")
            except LockBusy:
                return None

        with ThreadPoolExecutor(6) as pool:
            attempts = [pool.submit(attempt) for _ in range(6)]
            acquired = [handle for done in attempts if (handle := done.result(support.PATIENCE))]
        self.assertEqual(len(acquired), 1)
        self.backend.release(acquired[0])

    def test_release_frees_and_may_be_repeated(self) -> None:
        handle = self.backend.acquire("agent")
        self.backend.release(handle)
        self.backend.release(handle)
        with self.backend.acquire("agent"):
            # An old release does not touch the new lock.
            self.backend.release(handle)
            self.assertTrue(self.backend.is_held("agent"))

    def test_the_end_of_a_block_releases(self) -> None:
        with self.assertRaises(ZeroDivisionError), self.backend.acquire("agent"):
            raise ZeroDivisionError
        self.assertFalse(self.backend.is_held("agent"))

    def test_a_released_handle_can_not_be_entered(self) -> None:
        handle = self.backend.acquire("agent")
        with handle:
            pass
        with self.assertRaises(RuntimeError), handle:
            self.fail("it was entered")

    def test_looking_changes_nothing(self) -> None:
        self.assertFalse(self.backend.is_held("agent"))
        with self.backend.acquire("agent") as handle:
            for _ in range(3):
                self.assertTrue(self.backend.is_held("agent"))
            self.assertTrue(self.backend.renew(handle))
        self.assertFalse(self.backend.is_held("agent"))
        self.backend.release(self.backend.acquire("agent"))

    def test_names_are_locks_of_their_own(self) -> None:
        names = ["", "a", "A", "a b", "a/b", "a%2Fb", "~", "..", "é", "\x00", "x" * 1000, "x" * 1001]
        handles = [self.backend.acquire(name) for name in names]
        self.assertEqual([handle.name for handle in handles], names)
        for handle in handles:
            self.backend.release(handle)

    def test_it_is_not_re_entrant(self) -> None:
        self.assertFalse(self.backend.capabilities().supports_reentrancy)
        with self.backend.acquire("agent"):
            for timeout in (0.0, 0.2):
                with self.assertRaises(LockBusy):
                    self.backend.acquire("agent", timeout)

    def test_a_scope_has_locks_of_its_own(self) -> None:
        scopes = [self.backend, self.backend.scope("a"), self.backend.scope("b"), self.backend.scope("a").scope("b")]
        handles = [scope.acquire("b") for scope in scopes]
        handles += [scope.acquire() for scope in scopes]
        for handle in handles:
            self.backend.release(handle)

    def test_the_same_scope_has_the_same_locks(self) -> None:
        with self.backend.scope("a").acquire("agent"):
            self.assertTrue(self.backend.scope("a").is_held("agent"))
            with self.assertRaises(LockBusy):
                self.backend.scope("a").acquire("agent")

    def test_a_scope_is_the_same_kind_of_backend(self) -> None:
        scope = self.backend.scope("a/b")
        self.assertEqual(scope.backend_id, self.backend.backend_id)
        self.assertEqual(scope.capabilities(), self.backend.capabilities())
        for empty in ("", "/"):
            with self.assertRaises(ValueError):
                self.backend.scope(empty)

    def test_a_renewal_of_what_was_released_is_false(self) -> None:
        handle = self.backend.acquire("agent")
        self.backend.release(handle)
        self.assertIs(self.backend.renew(handle), False)

    def test_lost_is_no_kind_of_busy(self) -> None:
        self.assertFalse(issubclass(LockLost, LockBusy) or issubclass(LockBusy, LockLost))


class Bell(Contract):
    """The backend of this library."""

    client: Client

    @classmethod
    def setUpClass(cls) -> None:
        cls.client = support.outside()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()

    def make(self) -> BellLockBackend:
        return BellLockBackend(self.client, space=fresh("backend"), ttl=30)

    def test_what_it_says_of_itself(self) -> None:
        self.assertEqual(self.backend.backend_id, "bellwether")
        said = self.backend.capabilities()
        self.assertEqual((said.single_host_only, said.supports_lease), (False, True))

    def test_the_state_of_a_handle_has_the_fence_and_no_secret(self) -> None:
        with self.backend.acquire("agent") as handle:
            self.assertEqual(set(handle.backend_state), {"key", "fence", "ttl"})
            self.assertEqual(handle.backend_state["fence"], handle.fence)

    def test_a_timeout_is_told_from_busy_by_those_who_care(self) -> None:
        with self.backend.acquire("agent"), self.assertRaises(TimedOut):
            elsewhere(lambda: self.backend.acquire("agent", 0.1))
        for wrong in (-1.0, float("nan")):
            with self.assertRaises(ValueError):
                self.backend.acquire("agent", wrong)

    def test_a_lost_lock_is_told_by_check_and_by_renew_and_its_successor_is_left_alone(self) -> None:
        handle = self.backend.acquire("agent")
        handle.check()
        break_(handle.backend_state["key"])
        with elsewhere(lambda: self.backend.acquire("agent")) as successor:
            self.assertIs(self.backend.renew(handle), False)
            with self.assertRaises(LockLost):
                handle.check()
            self.backend.release(handle)
            successor.check()
            self.assertTrue(self.backend.is_held("agent"))

    def test_a_heartbeat_renews_it_every_third_of_its_ttl(self) -> None:
        backend = BellLockBackend(self.client, space=fresh("backend"), ttl=6)
        with backend.acquire("agent") as handle:
            eventually(lambda: was_renewed(self.client.show(handle.backend_state["key"]), ttl=6))
            backend.check(handle)

    def test_a_gateway_that_is_not_there_is_no_busy_lock(self) -> None:
        backend = BellLockBackend(Client("unix:/nowhere/bell.sock", "key"))
        with self.assertRaises(Unreachable):
            backend.acquire("agent")

    def test_it_imports_nothing_but_itself_and_the_standard_library(self) -> None:
        program = "import sys; before = set(sys.modules); import bellwether.backend; print(*set(sys.modules) - before)"
        ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        foreign = {name.partition(".")[0] for name in ran.stdout.split()} - set(sys.stdlib_module_names)
        self.assertEqual(foreign, {"bellwether"})


class Registry(unittest.TestCase):
    def test_classes_are_found_by_name_and_a_name_is_given_once(self) -> None:
        self.assertIs(backend_class("bellwether"), BellLockBackend)
        register_backend("bellwether", BellLockBackend)
        with self.assertRaises(ValueError):
            register_backend("bellwether", int)
        with self.assertRaisesRegex(KeyError, "bellwether"):
            backend_class("nobody")
        self.assertIn("bellwether", backend_names())


# Only what it is mixed into is tried.
del Contract
