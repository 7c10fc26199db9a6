"""A lease as its holder sees it: what it guards, how long it can be relied on, and whether it is lost.

A holder relies on its lease for a shorter time than the store does: from before the request left, minus a margin. So
whatever makes it late, a paused process first of all, shows in ``check`` before it can do harm. Nothing here sends
anything.
"""

from __future__ import annotations

import os
import threading
from concurrent.futures import Future

from . import clock
from .errors import LockLost, NotHeld
from .gateway import Grant
from .sessions import Session, trusted_until

__all__ = ["Lease"]

_STOP = "Stop the work at once and write nothing more; acquire the lock again before starting over."


class Lease:
    """Locks that were granted together. Any thread may look at it."""

    def __init__(self, grant: Grant, session: Session) -> None:
        self.key = grant.key
        self.fences = dict(grant.fences)
        self.ttl = grant.ttl
        #: The first loss stands, and is told to whoever waits for it.
        self.loss: Future[LockLost] = Future()
        self.loss.set_running_or_notify_cancel()
        self._pid = os.getpid()
        self._state = threading.Lock()
        self._session = session
        self._deadline = trusted_until(grant.since, grant.ttl)
        self._released = False

    @property
    def left(self) -> float:
        """For how many more seconds it can be relied on, if it is not renewed."""
        return max(0.0, min(self._deadline, self._session.trusted_until) - clock.now())

    @property
    def is_foreign(self) -> bool:
        """Whether it is the parent's, and this process a fork of it."""
        return self._pid != os.getpid()

    @property
    def is_over(self) -> bool:
        """Whether it was given back or is lost."""
        return self._released or self.loss.done()

    @property
    def is_released(self) -> bool:
        """Whether it was given back."""
        return self._released

    def check(self) -> None:
        """Returns if the lease can be relied on; raises ``LockLost`` otherwise, and that is final."""
        if self.is_foreign:
            raise LockLost(f"could not rely on {self.key}: it is the lock of the process that forked this one", _STOP)
        self.raise_if_lost()
        if self._released:
            raise NotHeld(f"could not rely on {self.key}: it was given back", "Acquire the lock before the work.")
        if not self.left:
            self.lose("it could not be renewed in time")
            self.raise_if_lost()

    def raise_if_lost(self) -> None:
        """Raises the loss, if there is one."""
        if self.loss.done():
            loss = self.loss.result()
            # One of its own each time: a raised error collects where it has been.
            raise LockLost(loss.message, loss.hint)

    def lose(self, why: str) -> None:
        """Takes note that it is lost. The first reason stands."""
        with self._state:
            if not self.is_over:
                self.loss.set_result(LockLost(f"{self.key} is lost: {why}", _STOP))

    def renewed(self, sent: float, ttl: float) -> None:
        """Takes note of a renewal that was sent then. What is lost stays lost."""
        with self._state:
            if not self.is_over:
                self.ttl = ttl
                self._deadline = max(self._deadline, trusted_until(sent, ttl))

    def released(self) -> bool:
        """Takes note that it is given back. Whether this is the first time."""
        with self._state:
            first = not self._released
            self._released = True
            return first
