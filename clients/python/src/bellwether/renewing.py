"""Keeping alive what is held: leases by renewal, sessions by heartbeats. It runs on the keeper's thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from . import clock
from .errors import BellError, Unavailable, Unknown, Unreachable
from .gateway import Gateway, Revoked
from .lease import Lease
from .sessions import Session

__all__ = ["TRANSIENT", "beat", "keep"]

log = logging.getLogger("bellwether")

#: These say nothing about the lease: it is tried again in the time that is left.
TRANSIENT = (Unavailable, Unreachable, Unknown)
#: A lease and a session are heard of every third of their ttl; after a failure every twelfth.
PART = 3
AGAIN_PART = 12
#: Failed renewals in a row that mean the lease is lost.
FAILURES_MAX = 3


async def keep(lease: Lease, unneeded: asyncio.Event, renew: Callable[[Lease], Awaitable[None]]) -> None:
    """Renews every third of the ttl until the lease is not needed any more or lost."""
    failures = 0
    while not lease.is_over:
        pause = lease.ttl / (AGAIN_PART if failures else PART)
        if await _is_set_within(unneeded, min(pause, lease.left)):
            return
        try:
            lease.check()
            await asyncio.wait_for(renew(lease), lease.left)
            failures = 0
        except TRANSIENT as error:
            failures += 1
            log.warning("could not renew %s (%d in a row): %s", lease.key, failures, error)
            if failures >= FAILURES_MAX:
                lease.lose(f"it could not be renewed {failures} times in a row: {error.message}")
        except asyncio.TimeoutError:
            lease.lose("it could not be renewed in time")
        except BellError as over:
            lease.lose(over.message)
    if lease.loss.done():
        log.warning("lock lost: %s", lease.loss.result().message)


async def beat(session: Session, ttl: float, gateway: Gateway, revoked: Callable[[Revoked], None]) -> str | None:
    """Says every third of its ttl that a session is alive, while it is used. Why it is over, if it is."""
    failures = 0
    while True:
        await asyncio.sleep(ttl / (AGAIN_PART if failures else PART))
        if not session.uses or session.is_over:
            return None
        sent = clock.now()
        try:
            for one in await asyncio.wait_for(gateway.heartbeat(session.token), ttl):
                revoked(one)
            session.heard(sent)
            failures = 0
        except (*TRANSIENT, asyncio.TimeoutError) as error:
            failures += 1
            log.warning("could not say that a session is alive: %s", error)
        except BellError as over:
            session.is_over = True
            return over.message


async def _is_set_within(event: asyncio.Event, seconds: float) -> bool:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except asyncio.TimeoutError:
        return False
    return True
