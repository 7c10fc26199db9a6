"""The client for asyncio, over the port of the real thing."""

from __future__ import annotations

import asyncio
import time
import unittest
from contextlib import suppress

from bellwether import AsyncClient, LockBusy, LockLost, NotHeld, TimedOut, current

from . import support
from .support import break_, fresh, was_renewed


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = AsyncClient(support.project().url, support.project().key)
        self.other = AsyncClient(support.project().url, support.project().key)

    async def asyncTearDown(self) -> None:
        await self.client.close()
        await self.other.close()

    async def until_waiting(self, key: str, count: int) -> None:
        until = time.monotonic() + support.PATIENCE
        while (await self.client.show(key)).waiting != count:
            self.assertLess(time.monotonic(), until, f"{count} never waited")
            await asyncio.sleep(0.02)

    async def test_a_lock_is_held_inside_the_block_and_free_after_it(self) -> None:
        key = fresh()
        async with self.client.lock(key) as held:
            held.check()
            await held.renew()
            with self.assertRaises(LockBusy):
                await self.other.acquire(key, wait=0)
        self.assertFalse((await self.client.show(key)).is_held)

    async def test_tasks_of_one_client_exclude_each_other(self) -> None:
        key, inside, most = fresh(), 0, 0

        async def work() -> None:
            nonlocal inside, most
            async with self.client.lock(key):
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(12)))
        self.assertEqual(most, 1)

    async def test_a_cancelled_waiter_leaves_the_queue(self) -> None:
        key = fresh()
        async with self.client.lock(key):
            waiter = asyncio.create_task(self.other.acquire(key))
            await self.until_waiting(key, 1)
            waiter.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiter
            await self.until_waiting(key, 0)

    async def test_what_a_cancelled_task_was_granted_is_given_back(self) -> None:
        key = fresh()
        for delay in (0, 0.001, 0.003, 0.01):
            task = asyncio.create_task(self.client.acquire(key))
            await asyncio.sleep(delay)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await (await task).release()
            # It is free again by itself, and long before any ttl is over.
            async with self.other.lock(key, wait=20):
                pass

    async def test_a_wait_within_a_limit_of_the_program_leaves_the_queue_too(self) -> None:
        key = fresh()
        async with self.client.lock(key):
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(self.other.acquire(key), 0.2)
            with self.assertRaises(TimedOut):
                await self.other.acquire(key, wait=0.1)
            await self.until_waiting(key, 0)

    async def test_a_busy_loop_loses_no_lease(self) -> None:
        key = fresh()
        with support.hasty():
            async with self.client.lock(key, ttl=30) as held:
                time.sleep(1.5)  # noqa: ASYNC251
                held.check()
                self.assertTrue(was_renewed(await self.client.show(key), ttl=30))

    async def test_a_loss_is_told(self) -> None:
        key = fresh()
        with self.assertRaises(LockLost):
            async with self.client.lock(key, ttl=1) as held:
                break_(key)
                loss = await asyncio.wait_for(held.until_lost(), support.PATIENCE)
                self.assertIn(key, loss.message)

    async def test_a_decorated_function_holds_the_lock_while_it_runs(self) -> None:
        key = fresh()

        @self.client.locked(key)
        async def work(text: str) -> str:
            self.assertEqual((await self.client.show(key)).holders[0].fence, current().fence)
            return text

        self.assertEqual(await work("done"), "done")
        self.assertFalse((await self.client.show(key)).is_held)
        with self.assertRaises(NotHeld):
            current()
        with self.assertRaises(TypeError):
            self.client.locked(key)(print)  # type: ignore[arg-type]

    async def test_a_session_is_shared_by_tasks(self) -> None:
        one, two = fresh("a"), fresh("b")
        async with await self.client.session("night shift") as session:
            await session.acquire(one)
            await asyncio.create_task(session.acquire(two))
            shown = [await self.client.show(key) for key in (one, two)]
            self.assertEqual({state.holders[0].label for state in shown}, {"night shift"})
            self.assertEqual(len({state.holders[0].session for state in shown}), 1)
        self.assertEqual(await self.client.list(one), [])

    async def test_changes_are_seen(self) -> None:
        key = fresh()
        watch = self.client.watch(key)
        self.assertEqual(await watch.__anext__(), [])
        async with self.other.lock(key):
            self.assertEqual([state.key for state in await watch.__anext__()], [key])
