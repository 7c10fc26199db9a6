"""Locks for programs that share things, kept by a Bellwether gateway (``bell up``).

>>> with client.lock("github://acme/app/issues/42", ttl=60) as held:
...     publish(fence=held.fence)

``Client`` blocks, ``AsyncClient`` is for asyncio; ``guards`` refuses stale writes where they are made; ``backend`` fits
locks into agent frameworks that ask for a lock backend.
"""

from .aio import AsyncClient, AsyncHeld, AsyncLock, AsyncSession
from .answers import Holder, LockState, Waiter
from .client import Client, Lock, Session
from .errors import (
    BellError,
    Deadlock,
    Invalid,
    LimitReached,
    LockBusy,
    LockLost,
    NotFound,
    NotHeld,
    NotHolder,
    Stale,
    TimedOut,
    Unauthorized,
    Unavailable,
    Unknown,
    Unreachable,
)
from .held import AnyHeld, Held, current

__all__ = [
    "AnyHeld",
    "AsyncClient",
    "AsyncHeld",
    "AsyncLock",
    "AsyncSession",
    "BellError",
    "Client",
    "Deadlock",
    "Held",
    "Holder",
    "Invalid",
    "LimitReached",
    "Lock",
    "LockBusy",
    "LockLost",
    "LockState",
    "NotFound",
    "NotHeld",
    "NotHolder",
    "Session",
    "Stale",
    "TimedOut",
    "Unauthorized",
    "Unavailable",
    "Unknown",
    "Unreachable",
    "Waiter",
    "current",
]
