"""The thread on which everything is sent, and on which leases are kept alive.

Renewals run here and nowhere else, on an event loop of their own, so that a program whose own loop is busy, or which
never runs one, loses no lease. One thread serves the whole process; it starts when it is first needed, and a forked
child starts its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, TypeVar

__all__ = ["Call", "ask", "call", "is_running", "loop", "see_through", "start"]

T = TypeVar("T")

# Re-entrant: a finalizer may need the thread at any moment, also in the middle of starting it.
_starting = threading.RLock()
_loop: asyncio.AbstractEventLoop | None = None
# What nobody waits for any more still has to come to its end, and a task that nobody refers to may be collected before.
_running: set[asyncio.Task[Any]] = set()


def loop() -> asyncio.AbstractEventLoop:
    """The loop of the thread, which is started if it is not there."""
    global _loop
    with _starting:
        if _loop is None:
            started = _loop = asyncio.new_event_loop()
            threading.Thread(target=started.run_forever, name="bellwether-keeper", daemon=True).start()
        return _loop


def is_running() -> bool:
    """Whether anything was ever begun in this process."""
    return _loop is not None


def _forget() -> None:
    """After a fork the thread is the parent's."""
    global _loop, _starting
    _loop, _starting = None, threading.RLock()


os.register_at_fork(after_in_child=_forget)


def see_through(on: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Does something to its end, whoever goes away meanwhile. Called on the thread of the loop."""
    task = on.create_task(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


class Call(Generic[T]):
    """Something that is being done on the keeper's thread."""

    def __init__(self, work: Coroutine[Any, Any, T]) -> None:
        self._future: Future[T] = Future()
        # From now on only the thread decides how it ends; who goes away says so with cancel.
        self._future.set_running_or_notify_cancel()
        self._task: asyncio.Task[T] | None = None
        self._loop = loop()
        self._loop.call_soon_threadsafe(self._begin, work)

    def _begin(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = see_through(self._loop, work)
        self._task.add_done_callback(self._tell)

    def _tell(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self._future.set_exception(asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            self._future.set_exception(error)
        else:
            self._future.set_result(task.result())

    def cancel(self) -> None:
        """Nobody needs it any more."""
        self._loop.call_soon_threadsafe(self._cancel, None)

    def abandon(self, undo: Callable[[T], Coroutine[Any, Any, None]]) -> None:
        """As ``cancel``. If it was done in the meantime, what came of it is undone."""
        self._loop.call_soon_threadsafe(self._cancel, undo)

    def _cancel(self, undo: Callable[[T], Coroutine[Any, Any, None]] | None) -> None:
        task = self._task
        if task is None:
            return
        if undo is not None:
            task.add_done_callback(partial(self._undo, undo))
        task.cancel()

    def _undo(self, undo: Callable[[T], Coroutine[Any, Any, None]], task: asyncio.Task[T]) -> None:
        if not task.cancelled() and task.exception() is None:
            see_through(self._loop, undo(task.result()))

    def wait(self, within: float | None = None) -> T:
        """Blocks until it is done, or for so many seconds. Interrupted, it goes on."""
        return self._future.result(within)

    async def done(self) -> T:
        """Returns when it is done, on any loop. Cancelled, it goes on."""
        return await asyncio.wrap_future(self._future)


def start(work: Coroutine[Any, Any, T]) -> Call[T]:
    """Begins something on the keeper's thread."""
    return Call(work)


async def ask(work: Coroutine[Any, Any, T]) -> T:
    """Does something on the keeper's thread; cancelled, it is given up."""
    begun = start(work)
    try:
        return await begun.done()
    except BaseException:
        begun.cancel()
        raise


def call(work: Coroutine[Any, Any, T]) -> T:
    """Does something on the keeper's thread and blocks until it is done; interrupted, it is given up."""
    begun = start(work)
    try:
        return begun.wait()
    except BaseException:
        begun.cancel()
        raise
