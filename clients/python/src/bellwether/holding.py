"""What a client holds: leases that are taken, given back and lost.

Everything here runs on the keeper's thread. A renewal or a release names the lease by its fence, so a late one never
touches the lease of a successor. ``renewing`` keeps leases and sessions alive.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Coroutine, Hashable
from dataclasses import dataclass, field
from typing import Any

from . import clock, keeper
from .address import Access
from .errors import BellError, LockBusy, LockLost, NotHeld, NotHolder, Unknown
from .gateway import Gateway, Grant, Revoked, Want
from .lease import Lease
from .renewing import TRANSIENT, beat, keep
from .sessions import Session, Sessions

__all__ = ["Holding"]

log = logging.getLogger("bellwether")

#: How long a request that was given up may take to answer before that is said again, in seconds.
LEAVE_AGAIN_AFTER = 1.0
#: How long closing may take, in seconds.
CLOSE_WITHIN = 10.0


@dataclass(eq=False)
class _Kept:
    """A lease with what keeps it."""

    lease: Lease
    owner: Hashable
    session: Session
    #: Its keys, in the spelling of the service and in that of the caller.
    keys: set[str]
    unneeded: asyncio.Event = field(default_factory=asyncio.Event)


class Holding:
    """What one client holds."""

    def __init__(self, access: Access, label: str | None) -> None:
        self.gateway = Gateway(access)
        self.sessions = Sessions(self.gateway, label)
        self._kept: dict[Lease, _Kept] = {}
        self._beating: set[Session] = set()
        # A task that nobody refers to may be collected while it runs.
        self._tasks: set[asyncio.Task[None]] = set()

    async def acquire(self, owner: Hashable, want: Want) -> Lease:
        """Takes locks and keeps them alive. Cancelled, it gives back what it got."""
        session = await self.sessions.lend(owner)
        self._stay_alive(session)
        request_id = uuid.uuid4().hex
        try:
            self._refuse_again(session, set(want.keys))
            taking = asyncio.ensure_future(self._take(session, want, request_id))
            # Cut off, nobody would know what becomes of the request; so it goes on until that is known.
            lease = await asyncio.shield(taking)
        except (asyncio.CancelledError, Unknown):
            # It may have got something that nobody knows of, so nothing else is asked for in this session.
            self.sessions.retire(owner, session)
            # Held on to by the keeper: a client that was dropped goes with everything that it refers to.
            keeper.see_through(asyncio.get_running_loop(), self._undo(owner, session, want, request_id, taking))
            raise
        except BaseException:
            await self.sessions.give_back(owner, session)
            raise
        kept = _Kept(lease, owner, session, {*lease.fences, *want.keys})
        self._kept[lease] = kept
        self._run(keep(lease, kept.unneeded, self.renew))
        return lease

    async def renew(self, lease: Lease, ttl: float | None = None) -> None:
        """Makes a lease last its full ttl again. ``LockLost`` if it is over."""
        lease.check()
        kept = self._kept.get(lease)
        if kept is None:
            raise NotHeld(f"could not renew {lease.key}: it was given back", "Acquire the lock before the work.")
        sent = clock.now()
        try:
            lasts = await self._renew_all(kept.session, lease, ttl)
        except TRANSIENT:
            raise
        except BellError as over:
            lease.lose(over.message)
        else:
            lease.renewed(sent, lasts)
        lease.check()

    async def release(self, lease: Lease) -> None:
        """Gives a lease back. ``LockLost`` if it was over before; repeated, it does nothing."""
        if lease.is_foreign or not lease.released():
            return
        if (kept := self._kept.get(lease)) is not None:
            await self._give_back(kept)
        lease.raise_if_lost()

    async def discard(self, lease: Lease) -> None:
        """Gives back a lease that nobody came for."""
        try:
            await self.release(lease)
        except BellError as error:
            log.info("could not give %s back; it runs out by itself: %s", lease.key, error)

    async def end_session(self, owner: Hashable, session: Session) -> None:
        """Ends a session, with everything it holds."""
        self._lose_all(session, "its session was ended")
        self.sessions.retire(owner, session)
        await self.sessions.end(session)
        await self.sessions.give_back(owner, session)

    async def close(self) -> None:
        """Ends every session, and every lease with it."""
        for kept in list(self._kept.values()):
            kept.lease.lose("the client was closed")
            self._forget(kept)
        try:
            await asyncio.wait_for(self.sessions.end_all(), CLOSE_WITHIN)
        except asyncio.TimeoutError:
            log.info("could not end every session; they run out by themselves")
        self.gateway.close()

    async def _take(self, session: Session, want: Want, request_id: str) -> Lease:
        grant = await self.gateway.acquire(session.token, want, request_id)
        if again := self._live_keys(session) & set(grant.fences):
            # Another spelling of what is held. The rest of it was free.
            await self._release_all(session, {k: f for k, f in grant.fences.items() if k not in again})
            raise _again(again)
        lease = Lease(grant, session)
        if clock.now() - grant.since > grant.ttl / 3:
            await self._settle(session, lease, grant)
        return lease

    async def _settle(self, session: Session, lease: Lease, grant: Grant) -> None:
        """Granted during a wait or after silence: when exactly is known only to the store, so it begins anew."""
        sent = clock.now()
        try:
            lease.renewed(sent, await self._renew_all(session, lease, grant.ttl))
        except (NotHeld, NotHolder, LockLost) as over:
            raise LockLost(f"{lease.key} is lost: it was over before it could be used", "Acquire it again.") from over

    async def _renew_all(self, session: Session, lease: Lease, ttl: float | None) -> float:
        return min([await self.gateway.renew(session.token, key, fence, ttl) for key, fence in lease.fences.items()])

    async def _undo(
        self, owner: Hashable, session: Session, want: Want, request_id: str, taking: asyncio.Future[Lease]
    ) -> None:
        """Gives back whatever a request got that nobody waits for. With nothing else in it the session ends."""
        try:
            while True:
                await self.gateway.leave(session.token, request_id)
                # It may have left before the request had come, and then it changed nothing.
                if (await asyncio.wait([taking], timeout=LEAVE_AGAIN_AFTER))[0]:
                    break
            lease = taking.result()
            await self._release_all(session, lease.fences)
        except Unknown:
            # The answer may have been under way, so it is not the service's to give back.
            await self._release_all(session, dict.fromkeys(set(want.keys) - self._live_keys(session)))
        except BellError as error:
            log.info("nothing is left of a request that was given up: %s", error)
        finally:
            await self.sessions.give_back(owner, session)

    async def _release_all(self, session: Session, fences: dict[str, int] | dict[str, None]) -> None:
        for key, fence in fences.items():
            try:
                await self.gateway.release(session.token, key, fence)
            except BellError as error:
                log.debug("could not give %s back: %s", key, error)

    async def _give_back(self, kept: _Kept) -> None:
        lease, session = kept.lease, kept.session
        self._forget(kept)
        # What was lost, and then granted again before this came, has the fence that it had.
        again = self._live_keys(session)
        try:
            for key, fence in lease.fences.items():
                if key not in again:
                    await self.gateway.release(session.token, key, fence)
        except (NotHeld, NotHolder) as error:
            if not lease.loss.done():
                raise LockLost(
                    f"{lease.key} is lost: it had ended before it was given back",
                    "Take the work for unprotected; acquire the lock again before starting over.",
                ) from error
        except BellError:
            if not lease.loss.done():
                raise
        finally:
            await self.sessions.give_back(kept.owner, session)

    def _forget(self, kept: _Kept) -> None:
        kept.unneeded.set()
        self._kept.pop(kept.lease, None)

    def _live_keys(self, session: Session) -> set[str]:
        alive = (kept for kept in self._kept.values() if kept.session is session and not kept.lease.is_over)
        return set().union(*(kept.keys for kept in alive))

    def _refuse_again(self, session: Session, keys: set[str]) -> None:
        if again := self._live_keys(session) & keys:
            raise _again(again)

    def _stay_alive(self, session: Session) -> None:
        if session.ttl is not None and session not in self._beating:
            self._beating.add(session)
            self._run(self._beat(session, session.ttl))

    async def _beat(self, session: Session, ttl: float) -> None:
        over = await beat(session, ttl, self.gateway, self._revoked)
        self._beating.discard(session)
        if over is not None:
            self._lose_all(session, f"its session has ended: {over}")

    def _revoked(self, one: Revoked) -> None:
        for lease in self._kept:
            if lease.fences.get(one.key) == one.fence:
                lease.lose(f"an operator broke it: {one.reason}")

    def _lose_all(self, session: Session, why: str) -> None:
        for kept in self._kept.values():
            if kept.session is session:
                kept.lease.lose(why)

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _again(keys: set[str]) -> LockBusy:
    return LockBusy(
        f"{', '.join(sorted(keys))} is held by this very thread or task",
        "Locks are not re-entrant: release it first, or pass on what holds it.",
    )
