"""The client for asyncio. Everything is sent from the keeper's thread, so a busy loop loses no lease."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from . import keeper
from .answers import LockState, LockStates, marks
from .errors import BellError, LockLost, Unauthorized
from .gateway import Want
from .held import CURRENT, AnyHeld
from .holding import Holding
from .opening import DEFAULT_TTL, Opened
from .sessions import Session, owner

__all__ = ["AsyncClient", "AsyncHeld", "AsyncLock", "AsyncSession"]

P = ParamSpec("P")
R = TypeVar("R")


class AsyncHeld(AnyHeld):
    """Locks that were granted together and are being kept, until ``release`` or the end of an ``async with`` block."""

    async def renew(self, ttl: float | None = None) -> None:
        """Makes it last its full ttl again, or another one from now on. It is renewed anyway while it is held."""
        await keeper.ask(self._holding.renew(self._lease, ttl))

    async def release(self) -> None:
        """Gives it back. ``LockLost`` if it was over before; repeated, it does nothing. Cancelled, it goes on."""
        await keeper.start(self._holding.release(self._lease)).done()

    async def until_lost(self) -> LockLost:
        """Returns when it is lost."""
        return await asyncio.shield(asyncio.wrap_future(self._lease.loss))

    async def __aenter__(self) -> AsyncHeld:
        self._enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            await self.release()
        except BellError as trouble:
            if not self._left_quietly(trouble, error is not None):
                raise


class AsyncLocker:
    """What takes locks: a client, or a session of its own."""

    def _holding(self) -> Holding:
        raise NotImplementedError

    def _owner(self) -> Hashable:
        raise NotImplementedError

    async def acquire(
        self, *keys: str, ttl: float = DEFAULT_TTL, wait: float | None = None, shared: bool = False
    ) -> AsyncHeld:
        """Takes the locks, all or none, and keeps them until ``release``.

        It waits its turn for as long as it takes, or for ``wait`` seconds (then ``TimedOut``); with ``wait=0`` it
        raises ``LockBusy`` at once. ``shared`` leases coexist with each other. Cancelled, it gives up its place, and
        gives back what it got.
        """
        return await self._acquire(Want.of(keys, ttl, wait, shared))

    def lock(self, *keys: str, ttl: float = DEFAULT_TTL, wait: float | None = None, shared: bool = False) -> AsyncLock:
        """The locks for an ``async with`` block. It can be entered again and again, by any task."""
        return AsyncLock(self, Want.of(keys, ttl, wait, shared))

    def locked(
        self,
        *keys: str | Callable[..., str],
        ttl: float = DEFAULT_TTL,
        wait: float | None = None,
        shared: bool = False,
    ) -> Callable[[Callable[P, Awaitable[R]]], Callable[P, Coroutine[Any, Any, R]]]:
        """Holds the locks during each call of the decorated ``async def``, which finds them with ``current()``.

        A key may be a function of the arguments.
        """

        def decorate(function: Callable[P, Awaitable[R]]) -> Callable[P, Coroutine[Any, Any, R]]:
            if not inspect.iscoroutinefunction(function):
                raise TypeError(f"{getattr(function, '__name__', function)} is no async def: use Client for it")

            @functools.wraps(function)
            async def call(*args: P.args, **kwargs: P.kwargs) -> R:
                named = tuple(key(*args, **kwargs) if callable(key) else key for key in keys)
                async with await self._acquire(Want.of(named, ttl, wait, shared)) as held:
                    before = CURRENT.set(held)
                    try:
                        return await function(*args, **kwargs)
                    finally:
                        CURRENT.reset(before)

            return call

        return decorate

    async def _acquire(self, want: Want) -> AsyncHeld:
        holding = self._holding()
        call = keeper.start(holding.acquire(self._owner(), want))
        try:
            return AsyncHeld(holding, await call.done(), self)
        except BaseException:
            # Cancelled: what it gets, or has got, is nobody's.
            call.abandon(holding.discard)
            raise


class AsyncClient(Opened, AsyncLocker):
    """A gateway, for asyncio. Any task may use it, of any loop; each task takes locks of its own."""

    async def session(self, label: str | None = None) -> AsyncSession:
        """A session of its own, in which several tasks can hold locks together."""
        session = AsyncSession(self)
        await session._make(label)
        return session

    async def show(self, key: str) -> LockState:
        """Who holds a key and who waits for it."""
        return await keeper.ask(self._holding().gateway.show(key))

    async def list(self, prefix: str = "") -> LockStates:
        """Every key that starts with ``prefix`` and is held."""
        return await keeper.ask(self._holding().gateway.list(prefix))

    async def break_(self, key: str, reason: str) -> LockState:
        """Takes a lock from whoever holds it, who is told the reason: the answer is who that was.

        Operators do this, with a full API key. Nobody can stop the holder from working on, so what the lock protects
        needs a guard that knows fences.
        """
        return await keeper.ask(self._holding().gateway.break_lock(key, reason))

    async def watch(self, prefix: str = "") -> AsyncIterator[LockStates]:
        """The list as it is, and again each time that holders or waiters have changed, for ever."""
        gateway = self._holding().gateway
        revision, seen = await keeper.ask(gateway.revision()), None
        while True:
            states = await keeper.ask(gateway.list(prefix))
            if seen is None or marks(states) != marks(seen):
                seen = states
                yield states
            revision = await keeper.ask(gateway.changed(prefix, revision))

    async def close(self) -> None:
        """Gives everything back and closes the connections."""
        if (closing := self._closing()) is not None:
            await closing.done()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    def _owner(self) -> Hashable:
        return owner()


class AsyncSession(AsyncLocker):
    """A session of its own: whatever is taken in it is held together, by whichever task."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._lent_by = client._holding()
        self._session: Session | None = None

    async def _make(self, label: str | None) -> None:
        self._session = await keeper.ask(self._lent_by.sessions.lend(self, label))

    async def end(self) -> None:
        """Ends it, with everything it holds. Repeated, it does nothing."""
        session, self._session = self._session, None
        if session is not None:
            await keeper.ask(self._lent_by.end_session(self, session))

    async def __aenter__(self) -> AsyncSession:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.end()

    def _holding(self) -> Holding:
        if self._session is None or not self._session.is_usable:
            raise Unauthorized("could not take a lock: the session has ended", "Make a new one.")
        return self._lent_by

    def _owner(self) -> Hashable:
        return self


class AsyncLock:
    """Locks for an ``async with`` block."""

    def __init__(self, locker: AsyncLocker, want: Want) -> None:
        self._locker = locker
        self._want = want
        self._held: dict[Hashable, AsyncHeld] = {}

    async def __aenter__(self) -> AsyncHeld:
        held = await self._locker._acquire(self._want)
        self._held[owner()] = held
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._left().__aexit__(kind, error, at)

    def _left(self) -> AsyncHeld:
        # Some leave in another thread or task than they came; then it is the latest.
        return self._held.pop(owner(), None) or self._held.popitem()[1]
