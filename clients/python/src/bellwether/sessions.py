"""Sessions: in whose name locks are taken.

Locks of one session do not exclude each other, so each thread and each task takes its locks in a session of its own.
One that holds several has them in one session, which is what lets the service see a deadlock. When it holds nothing any
more, its session is lent to the next.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import threading
from collections.abc import Hashable

from . import clock
from .errors import BellError
from .gateway import Gateway, Made

__all__ = ["Session", "Sessions", "owner", "trusted_until"]

log = logging.getLogger("bellwether")

#: Sessions that nobody uses at the moment; more are ended.
IDLE_SESSIONS_MAX = 4
#: A session that was idle for longer may have run out.
IDLE_MAX = 4.0
#: What an owner leaves of a ttl: this part of it, and this many seconds at the least.
MARGIN_PART = 5
MARGIN_LEAST = 0.5


def owner() -> Hashable:
    """Who asks: the task that runs, or else the thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return task if task is not None else threading.current_thread()


def trusted_until(sent: float, ttl: float) -> float:
    """Until when to rely on something that was asked for then and lasts for ``ttl``: for less than it really lasts."""
    return sent + ttl - max(ttl / MARGIN_PART, MARGIN_LEAST)


class Session:
    """A session of this process."""

    def __init__(self, made: Made) -> None:
        self.token = made.token
        #: How long it lasts without a heartbeat; ``None``: somebody else sees to that.
        self.ttl = made.ttl
        self.uses = 0
        self.is_over = False
        self.idle_since = clock.now()
        self._trusted_until = math.inf if made.ttl is None else trusted_until(made.sent, made.ttl)

    @property
    def trusted_until(self) -> float:
        """Until when it is certainly alive, as far as this process knows."""
        return self._trusted_until

    def heard(self, sent: float) -> None:
        """Takes note of a heartbeat that was sent then."""
        if self.ttl is not None:
            self._trusted_until = max(self._trusted_until, trusted_until(sent, self.ttl))

    @property
    def is_usable(self) -> bool:
        """Whether more can be asked for in it."""
        return not self.is_over and clock.now() < self._trusted_until


class Sessions:
    """The sessions of one client. They belong to the keeper's thread."""

    def __init__(self, gateway: Gateway, label: str | None) -> None:
        self._gateway = gateway
        self._label = label
        self._lent: dict[Hashable, Session] = {}
        self._idle: list[Session] = []
        #: Not lent to anybody any more, and ended once nothing is left in them.
        self._retired: set[Session] = set()

    async def lend(self, to: Hashable, label: str | None = None) -> Session:
        """The session of this owner, which is made if it has none. Each loan is to be given back."""
        session = self._lent.get(to)
        if session is None or not session.is_usable:
            session = None if label else self._reusable()
            if session is None:
                session = Session(await self._gateway.make_session(label or self._label, os.getpid()))
            self._lent[to] = session
        session.uses += 1
        return session

    async def give_back(self, to: Hashable, session: Session) -> None:
        """Ends a loan. A session that nobody uses is kept for the next owner, or ended."""
        session.uses -= 1
        if session.uses:
            return
        self._unbind(to, session)
        if session in self._retired:
            self._retired.discard(session)
            await self.end(session)
        elif session.is_usable:
            session.idle_since = clock.now()
            self._idle.append(session)
            if len(self._idle) > IDLE_SESSIONS_MAX:
                await self.end(self._idle.pop(0))

    def retire(self, to: Hashable, session: Session) -> None:
        """Nothing more is asked for in it: its owner gets another one."""
        self._unbind(to, session)
        self._retired.add(session)

    async def end(self, session: Session) -> None:
        """Ends a session, with everything it holds. If that can't be said now, it runs out by itself."""
        if not session.is_over:
            session.is_over = True
            try:
                await self._gateway.end_session(session.token)
            except BellError as error:
                log.info("could not end a session: %s", error)

    async def end_all(self) -> None:
        """Ends all of them."""
        every = {*self._lent.values(), *self._idle, *self._retired}
        self._lent.clear()
        self._idle.clear()
        self._retired.clear()
        await asyncio.gather(*(self.end(session) for session in every))

    def _unbind(self, owner: Hashable, session: Session) -> None:
        if self._lent.get(owner) is session:
            del self._lent[owner]

    def _reusable(self) -> Session | None:
        while self._idle:
            session = self._idle.pop()
            if session.is_usable and clock.now() - session.idle_since < IDLE_MAX:
                return session
        return None
