"""Locks that are held, as a program has them: with ``with``, and with the fence for guarded writes."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import TimeoutError as FutureTimeout
from contextvars import ContextVar
from types import MappingProxyType, TracebackType
from typing import Any

from . import keeper
from .errors import BellError, NotHeld
from .holding import Holding
from .lease import Lease
from .renewing import TRANSIENT

__all__ = ["CURRENT", "AnyHeld", "Held", "current"]

log = logging.getLogger("bellwether")


class AnyHeld:
    """Locks that were granted together and are being kept."""

    def __init__(self, holding: Holding, lease: Lease, client: Any) -> None:
        self._holding = holding
        self._lease = lease
        # What is held is closed with its client, so the client must not go first.
        self._client = client

    @property
    def key(self) -> str:
        """The key that was asked for first, in its canonical form."""
        return self._lease.key

    @property
    def fence(self) -> int:
        """What to send with every guarded write to what ``key`` names."""
        return self._lease.fences[self._lease.key]

    @property
    def fences(self) -> Mapping[str, int]:
        """Every key, with its own fence."""
        return MappingProxyType(self._lease.fences)

    @property
    def ttl(self) -> float:
        """How long it lasts from each renewal, in seconds."""
        return self._lease.ttl

    @property
    def left(self) -> float:
        """For how many more seconds it can be relied on without a renewal."""
        return self._lease.left

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be lost. ``check`` finds out."""
        return self._lease.loss.done()

    def check(self) -> None:
        """Returns if the lock can be relied on at this moment; raises ``LockLost`` if not, and that is final.

        It sends nothing, so it costs nothing: call it before every act that the lock guards, first of all after
        anything that may have taken long.
        """
        self._lease.check()

    def __repr__(self) -> str:
        fences = ", ".join(f"{key}: {fence}" for key, fence in self.fences.items())
        return f"{type(self).__name__}({fences})"

    def _enter(self) -> None:
        if self._lease.is_released:
            raise NotHeld(f"could not enter {self.key}: it was given back", "Acquire it again.")

    def _left_quietly(self, error: BellError, body_failed: bool) -> bool:
        """Whether leaving the block may go on: it must not hide what the body raised.

        A lock that could not be given back is not lost: the work was protected, and the lease runs out by itself.
        """
        if body_failed or isinstance(error, TRANSIENT):
            log.warning("could not give %s back: %s", self.key, error)
            return True
        return False


class Held(AnyHeld):
    """Locks that were granted together and are being kept, until ``release`` or the end of a ``with`` block."""

    def renew(self, ttl: float | None = None) -> None:
        """Makes it last its full ttl again, or another one from now on. It is renewed anyway while it is held."""
        keeper.call(self._holding.renew(self._lease, ttl))

    def release(self) -> None:
        """Gives it back. ``LockLost`` if it was over before; repeated, it does nothing."""
        # Interrupted, it goes on.
        keeper.start(self._holding.release(self._lease)).wait()

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Waits until it is lost, for so many seconds at the most. Whether it is."""
        try:
            self._lease.loss.result(timeout)
        except FutureTimeout:
            return False
        return True

    def __enter__(self) -> Held:
        self._enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.release()
        except BellError as trouble:
            if not self._left_quietly(trouble, error is not None):
                raise


CURRENT: ContextVar[AnyHeld] = ContextVar("bellwether_current")


def current() -> AnyHeld:
    """What a function that is decorated with ``locked`` holds: for its fence, and to check it."""
    try:
        return CURRENT.get()
    except LookupError:
        raise NotHeld(
            "could not tell what is held: this is not called from a function with @client.locked(…)",
            "Decorate it, or use with client.lock(…) as held.",
        ) from None
