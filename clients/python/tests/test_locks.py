"""Locks of the real thing: over the port with an API key, and at the desk of a run with its token."""

from __future__ import annotations

import os
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from bellwether import Client, Deadlock, Invalid, LockBusy, LockLost, NotHeld, TimedOut, Unauthorized, current

from . import support
from .support import break_, elsewhere, eventually, fresh, was_renewed


class Locks(unittest.TestCase):
    """What holds wherever a client is connected to."""

    client: Client
    other: Client

    @staticmethod
    def connect() -> Client:
        raise NotImplementedError

    @classmethod
    def setUpClass(cls) -> None:
        cls.client, cls.other = cls.connect(), cls.connect()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.client.close()
        cls.other.close()

    def test_a_lock_is_held_inside_the_block_and_free_after_it(self) -> None:
        key = fresh()
        with self.client.lock(key, ttl=30) as held:
            held.check()
            (holder,) = self.client.show(key).holders
            self.assertEqual((holder.fence, holder.pid, holder.mode), (held.fence, os.getpid(), "exclusive"))
            with self.assertRaises(LockBusy) as busy:
                self.other.acquire(key, wait=0)
            self.assertEqual(busy.exception.outcome, "busy")
            self.assertTrue(busy.exception.message)
            self.assertIn("wait=SECONDS", busy.exception.hint)
            self.assertNotIn("--", busy.exception.hint, "a flag of the command is none of Python's")
            self.assertEqual((busy.exception.holder or {})["pid"], os.getpid())
        self.assertFalse(self.client.show(key).is_held)

    def test_each_grant_has_a_greater_fence(self) -> None:
        key, fences = fresh(), []
        for client in (self.client, self.other, self.client):
            with client.lock(key) as held:
                fences.append(held.fence)
        self.assertEqual(fences, sorted(set(fences)))

    def test_two_spellings_are_one_lock(self) -> None:
        key = fresh()
        with self.client.lock(key.replace("test://", "TEST://") + "/") as held:
            self.assertEqual(held.key, key)
            with self.assertRaises(LockBusy):
                self.client.acquire(key, wait=0)
            held.check()
            with self.assertRaises(LockBusy):
                self.other.acquire(key, wait=0)

    def test_a_waiter_is_granted_when_its_turn_comes(self) -> None:
        key = fresh()
        held = self.client.acquire(key)
        with ThreadPoolExecutor() as pool:
            waiter = pool.submit(self.other.acquire, key)
            eventually(lambda: self.client.show(key).waiting == 1)
            held.release()
            granted = waiter.result(support.PATIENCE)
        self.assertGreater(granted.fence, held.fence)
        granted.release()

    def test_a_wait_that_is_over_is_told_from_busy(self) -> None:
        key = fresh()
        with self.client.lock(key), self.assertRaises(TimedOut):
            self.other.acquire(key, wait=0.2)
        self.assertEqual(self.client.show(key).waiting, 0)

    def test_several_keys_are_taken_all_or_none(self) -> None:
        one, two = fresh("a"), fresh("b")
        with self.client.lock(two):
            with self.assertRaises(LockBusy):
                self.other.acquire(one, two, wait=0)
            self.assertFalse(self.client.show(one).is_held)
        with self.client.lock(two, one) as held:
            self.assertEqual(set(held.fences), {one, two})
            self.assertEqual((held.key, held.fence), (two, held.fences[two]))
            held.renew()
        self.assertEqual(self.client.list(one) + self.client.list(two), [])

    def test_shared_leases_coexist_with_each_other_only(self) -> None:
        key = fresh()
        with self.client.lock(key, shared=True), self.other.lock(key, shared=True, wait=0):
            self.assertEqual(len(self.client.show(key).holders), 2)
            with self.assertRaises(LockBusy):
                elsewhere(lambda: self.client.acquire(key, wait=0))

    def test_threads_of_one_client_exclude_each_other(self) -> None:
        key, inside, most = fresh(), 0, 0
        counting = threading.Lock()

        def work() -> None:
            nonlocal inside, most
            with self.client.lock(key):
                with counting:
                    inside += 1
                    most = max(most, inside)
                self.client.show(key)
                with counting:
                    inside -= 1

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(work) for _ in range(12)]:
                done.result(support.PATIENCE)
        self.assertEqual(most, 1)

    def test_a_thread_is_refused_what_it_holds(self) -> None:
        key = fresh()
        with self.client.lock(key) as held, self.assertRaisesRegex(LockBusy, "re-entrant"):
            self.client.acquire(key)
        self.assertFalse(held.is_lost)

    def test_a_deadlock_between_threads_is_refused_with_its_cycle(self) -> None:
        one, two = fresh("a"), fresh("b")
        meet = threading.Barrier(2)

        def take(first: str, second: str) -> list[str]:
            with self.client.lock(first):
                meet.wait(support.PATIENCE)
                try:
                    with self.client.lock(second):
                        return []
                except Deadlock as deadlock:
                    return deadlock.cycle

        with ThreadPoolExecutor() as pool:
            ends = [pool.submit(take, one, two), pool.submit(take, two, one)]
            cycles = [end.result(support.PATIENCE) for end in ends]
        (cycle,) = [cycle for cycle in cycles if cycle]
        self.assertTrue({one, two} <= set(cycle), cycle)

    def test_a_lease_is_renewed_while_it_is_held(self) -> None:
        key = fresh()
        with support.hasty(), self.client.lock(key, ttl=30) as held:
            eventually(lambda: was_renewed(self.client.show(key), ttl=30))
            held.check()

    def test_a_renewal_can_change_the_ttl(self) -> None:
        with self.client.lock(fresh(), ttl=30) as held:
            held.renew(ttl=100)
            self.assertEqual(held.ttl, 100)
            self.assertGreater(self.client.show(held.key).holders[0].left_ms, 60_000)

    def test_release_may_be_repeated_and_what_was_released_can_not_be_entered(self) -> None:
        held = self.client.acquire(fresh())
        held.release()
        held.release()
        with self.assertRaises(NotHeld):
            held.check()
        with self.assertRaises(NotHeld), held:
            self.fail("it was entered")

    def test_a_late_release_does_not_touch_a_successor(self) -> None:
        key = fresh()
        held = self.client.acquire(key)
        # The lease goes without the holder's doing, and somebody else comes.
        break_(key)
        with self.other.lock(key) as successor:
            with self.assertRaises(LockLost):
                held.release()
            (holder,) = self.client.show(key).holders
            self.assertEqual(holder.fence, successor.fence)

    def test_a_loss_is_told_by_the_next_renewal_and_at_the_end_of_the_block(self) -> None:
        key = fresh()
        with self.assertRaises(LockLost), self.client.lock(key, ttl=1) as held:
            break_(key)
            self.assertTrue(held.wait_lost(support.PATIENCE))
            with self.assertRaises(LockLost):
                held.check()
        self.assertTrue(held.is_lost)

    def test_what_the_body_raises_comes_through(self) -> None:
        key = fresh()
        with self.assertRaises(ZeroDivisionError), self.client.lock(key):
            break_(key)
            raise ZeroDivisionError

    def test_a_decorated_function_holds_the_lock_while_it_runs(self) -> None:
        key = fresh()

        @self.client.locked(lambda number: f"{key}/{number}", ttl=30)
        def work(number: int) -> bool:
            current().check()
            return self.client.show(f"{key}/{number}").holders[0].fence == current().fence

        self.assertTrue(work(42))
        self.assertFalse(self.client.show(f"{key}/42").is_held)
        with self.assertRaises(NotHeld):
            current()

    def test_a_session_is_shared_by_threads_and_ends_with_all_it_holds(self) -> None:
        one, two = fresh("a"), fresh("b")
        with self.client.session("night shift") as session:
            held = session.acquire(one)
            elsewhere(lambda: session.acquire(two))
            (holder,) = self.client.show(one).holders
            self.assertEqual(holder.label, "night shift")
            self.assertEqual(self.client.show(two).holders[0].session, holder.session)
        self.assertFalse(self.client.show(one).is_held or self.client.show(two).is_held)
        with self.assertRaises(LockLost):
            held.check()
        with self.assertRaises(Unauthorized):
            session.acquire(one)

    def test_a_closed_client_gives_everything_back(self) -> None:
        key = fresh()
        with self.connect() as client:
            held = client.acquire(key)
        self.assertFalse(self.client.show(key).is_held)
        with self.assertRaises(LockLost):
            held.check()
        with self.assertRaises(Invalid):
            client.acquire(key)

    def test_changes_are_seen(self) -> None:
        key = fresh()
        watch = self.client.watch(key)
        self.assertEqual(next(watch), [])
        held = self.other.acquire(key)
        self.assertEqual([state.key for state in next(watch)], [key])
        held.release()

    def test_what_breaks_a_rule_is_refused_with_the_reason(self) -> None:
        for wrong in ("no key", "bell:leader", ""):
            with self.subTest(wrong), self.assertRaises((Invalid, Unauthorized)) as refused:
                self.client.acquire(wrong)
            self.assertTrue(refused.exception.hint)
        for ttl in (0.2, 10_000_000):
            with self.subTest(ttl), self.assertRaises(Invalid):
                self.client.acquire(fresh(), ttl=ttl)

    def test_a_wrong_secret_is_refused(self) -> None:
        with Client(self.client.url, "nonsense") as client, self.assertRaises(Unauthorized):
            client.acquire(fresh())


class Outside(Locks):
    """A program outside of any run, on the port."""

    @staticmethod
    def connect() -> Client:
        return support.outside()


class InARun(Locks):
    """A program of an agent."""

    @staticmethod
    def connect() -> Client:
        return support.in_run()


# Only what it is mixed into is tried.
del Locks
