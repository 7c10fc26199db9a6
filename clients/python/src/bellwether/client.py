"""The client for programs that block. ``aio`` has the one for asyncio."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterator
from types import TracebackType
from typing import ParamSpec, TypeVar

from . import keeper
from .answers import LockState, LockStates, marks
from .errors import Unauthorized
from .gateway import Want
from .held import CURRENT, Held
from .holding import Holding
from .opening import DEFAULT_TTL, Opened
from .sessions import owner

__all__ = ["Client", "Lock", "Session"]

P = ParamSpec("P")
R = TypeVar("R")


class Locker:
    """What takes locks: a client, or a session of its own."""

    def _holding(self) -> Holding:
        raise NotImplementedError

    def _owner(self) -> Hashable:
        raise NotImplementedError

    def acquire(self, *keys: str, ttl: float = DEFAULT_TTL, wait: float | None = None, shared: bool = False) -> Held:
        """Takes the locks, all or none, and keeps them until ``release``.

        It waits its turn for as long as it takes, or for ``wait`` seconds (then ``TimedOut``); with ``wait=0`` it
        raises ``LockBusy`` at once. ``shared`` leases coexist with each other.
        """
        return self._acquire(Want.of(keys, ttl, wait, shared))

    def lock(self, *keys: str, ttl: float = DEFAULT_TTL, wait: float | None = None, shared: bool = False) -> Lock:
        """The locks for a ``with`` block, which gets a ``Held``. It can be entered again and again, by any thread."""
        return Lock(self, Want.of(keys, ttl, wait, shared))

    def locked(
        self,
        *keys: str | Callable[..., str],
        ttl: float = DEFAULT_TTL,
        wait: float | None = None,
        shared: bool = False,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Holds the locks during each call of the decorated function, which finds them with ``current()``.

        A key may be a function of the arguments: ``@client.locked(lambda number: f"github://acme/app/issues/{number}")``.
        """

        def decorate(function: Callable[P, R]) -> Callable[P, R]:
            if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
                raise TypeError(f"{function.__name__} runs after it returns: use AsyncClient, or with client.lock(…)")

            @functools.wraps(function)
            def call(*args: P.args, **kwargs: P.kwargs) -> R:
                named = tuple(key(*args, **kwargs) if callable(key) else key for key in keys)
                with self._acquire(Want.of(named, ttl, wait, shared)) as held:
                    before = CURRENT.set(held)
                    try:
                        return function(*args, **kwargs)
                    finally:
                        CURRENT.reset(before)

            return call

        return decorate

    def _acquire(self, want: Want) -> Held:
        holding = self._holding()
        call = keeper.start(holding.acquire(self._owner(), want))
        try:
            return Held(holding, call.wait(), self)
        except BaseException:
            # Interrupted: what it gets, or has got, is nobody's.
            call.abandon(holding.discard)
            raise


class Client(Opened, Locker):
    """A gateway, for programs that block. Any thread may use it; each thread takes locks of its own."""

    def session(self, label: str | None = None) -> Session:
        """A session of its own, in which several threads can hold locks together."""
        return Session(self, label)

    def show(self, key: str) -> LockState:
        """Who holds a key and who waits for it."""
        return keeper.call(self._holding().gateway.show(key))

    def list(self, prefix: str = "") -> LockStates:
        """Every key that starts with ``prefix`` and is held."""
        return keeper.call(self._holding().gateway.list(prefix))

    def break_(self, key: str, reason: str) -> LockState:
        """Takes a lock from whoever holds it, who is told the reason: the answer is who that was.

        Operators do this, with a full API key. Nobody can stop the holder from working on, so what the lock protects
        needs a guard that knows fences.
        """
        return keeper.call(self._holding().gateway.break_lock(key, reason))

    def watch(self, prefix: str = "") -> Iterator[LockStates]:
        """The list as it is, and again each time that holders or waiters have changed, for ever."""
        gateway = self._holding().gateway
        revision, seen = keeper.call(gateway.revision()), None
        while True:
            states = keeper.call(gateway.list(prefix))
            if seen is None or marks(states) != marks(seen):
                seen = states
                yield states
            revision = keeper.call(gateway.changed(prefix, revision))

    def close(self) -> None:
        """Gives everything back and closes the connections."""
        if (closing := self._closing()) is not None:
            closing.wait()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _owner(self) -> Hashable:
        return owner()


class Session(Locker):
    """A session of its own: whatever is taken in it is held together, by whichever thread."""

    def __init__(self, client: Client, label: str | None) -> None:
        self._client = client
        self._lent_by = client._holding()
        self._session = keeper.call(self._lent_by.sessions.lend(self, label))
        self._is_over = False

    def end(self) -> None:
        """Ends it, with everything it holds. Repeated, it does nothing."""
        is_over, self._is_over = self._is_over, True
        if not is_over:
            keeper.call(self._lent_by.end_session(self, self._session))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def _holding(self) -> Holding:
        if self._is_over or not self._session.is_usable:
            raise Unauthorized("could not take a lock: the session has ended", "Make a new one.")
        return self._lent_by

    def _owner(self) -> Hashable:
        return self


class Lock:
    """Locks for a ``with`` block."""

    def __init__(self, locker: Locker, want: Want) -> None:
        self._locker = locker
        self._want = want
        self._held: dict[Hashable, Held] = {}

    def __enter__(self) -> Held:
        held = self._locker._acquire(self._want)
        self._held[owner()] = held
        return held

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._left().__exit__(kind, error, at)

    def _left(self) -> Held:
        # Some leave in another thread or task than they came; then it is the latest.
        return self._held.pop(owner(), None) or self._held.popitem()[1]
