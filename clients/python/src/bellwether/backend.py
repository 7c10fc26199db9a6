"""Locks for agent frameworks that ask for a lock backend: locks by name, with a lease behind them.

A framework that excludes its agents by files can use this instead, over as many machines as reach the gateway. It
imports no framework: whoever has the contract can call it.

The contract: ``acquire`` returns a handle or raises ``LockBusy``, at once if ``timeout`` is 0. ``release`` may be
repeated. ``renew`` answers False once the lock is lost, and ``check`` raises ``LockLost``. ``is_held`` only looks.
``scope`` gives a backend with names of its own. Nothing is re-entrant. Each handle is kept alive by a heartbeat every
third of its ttl, which names the lease by its fence and so never touches a successor's. A gateway that can't be reached
is no busy lock: that raises what it is.
"""

from __future__ import annotations

import hashlib
import logging
import math
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, runtime_checkable

from .client import Client
from .errors import LockBusy, LockLost, NotHeld
from .held import Held
from .opening import DEFAULT_TTL
from .renewing import TRANSIENT

__all__ = [
    "BellLockBackend",
    "Capabilities",
    "LockBackend",
    "LockBusy",
    "LockHandle",
    "LockLost",
    "backend_class",
    "backend_names",
    "register_backend",
]

log = logging.getLogger("bellwether")

#: Where the locks are, if nothing is said: one space for every program that says nothing.
DEFAULT_SPACE = "agent-lock://default"
#: Characters of a name in a key. Longer ones are there by their hash: a key has 512 bytes.
NAME_CHARS_MAX = 120


@dataclass(frozen=True)
class Capabilities:
    """What a backend can do."""

    #: It excludes programs of one machine only.
    single_host_only: bool
    #: A holder can acquire again what it holds.
    supports_reentrancy: bool
    #: A lock ends by itself some time after its holder has died.
    supports_lease: bool
    #: What is held can be exported in a canonical form.
    supports_canonical_export: bool


class LockHandle:
    """A lock that was acquired, until it is released. Left, a ``with`` block releases it."""

    def __init__(self, backend: BellLockBackend, name: str, held: Held) -> None:
        self._backend = backend
        self._held = held
        self._released = False
        self.name = name
        #: Seconds since 1970, on this machine's clock. For people.
        self.acquired_at = time.time()
        self.holder_pid = os.getpid()
        #: What the backend knows of it: the key, its fence, its ttl. No secret.
        self.backend_state: Mapping[str, Any] = MappingProxyType(
            {"key": held.key, "fence": held.fence, "ttl": held.ttl}
        )

    @property
    def fence(self) -> int:
        """What to send with every guarded write."""
        return self._held.fence

    def check(self) -> None:
        """Returns if the lock can be relied on at this moment; raises ``LockLost`` if not. It sends nothing."""
        try:
            self._held.check()
        except NotHeld as error:
            raise LockLost(error.message, error.hint) from error

    def __enter__(self) -> LockHandle:
        if self._released:
            raise RuntimeError(f"the handle of {self.name!r} was released: acquire the lock again")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._backend.release(self)
        except TRANSIENT as trouble:
            log.warning("could not release %s; it runs out by itself: %s", self.name, trouble)

    def __repr__(self) -> str:
        return f"LockHandle({self.name!r}, fence={self.fence})"


@runtime_checkable
class LockBackend(Protocol):
    """What a framework asks of a backend."""

    @property
    def backend_id(self) -> str:
        """What it is called."""

    def acquire(self, name: str = "", timeout: float = 0.0) -> LockHandle:
        """Acquires a lock within so many seconds, or raises ``LockBusy``."""

    def release(self, handle: LockHandle) -> None:
        """Releases a lock. Repeated, it does nothing."""

    def renew(self, handle: LockHandle) -> bool:
        """Makes a lock last its full ttl again. False: it is lost."""

    def is_held(self, name: str = "") -> bool:
        """Whether somebody holds a lock."""

    def capabilities(self) -> Capabilities:
        """What it can do."""

    def scope(self, sub_path: str) -> LockBackend:
        """A backend with names of its own."""


class BellLockBackend:
    """Locks of a Bellwether gateway."""

    def __init__(self, client: Client | None = None, *, space: str = DEFAULT_SPACE, ttl: float = DEFAULT_TTL) -> None:
        """Locks in ``space``, a URI that all who are to exclude each other have in common.

        Without a client it is that of the run, or else of the project, that this process is in.
        """
        self._client = client if client is not None else Client()
        self._space = space.rstrip("/")
        self._ttl = ttl

    @property
    def backend_id(self) -> str:
        """What it is called."""
        return "bellwether"

    def acquire(self, name: str = "", timeout: float = 0.0) -> LockHandle:
        """Acquires a lock within so many seconds, or raises ``LockBusy``; with 0 at once."""
        if math.isnan(timeout) or timeout < 0:
            raise ValueError(f"a timeout is a number of seconds, not {timeout}")
        return LockHandle(self, name, self._client.acquire(self._key(name), ttl=self._ttl, wait=timeout))

    def release(self, handle: LockHandle) -> None:
        """Releases a lock. Repeated, or after it was lost, it does nothing."""
        handle._released = True
        # Whoever wants to know whether it was lost asks before the act that it guards, with check.
        with suppress(LockLost):
            handle._held.release()

    def renew(self, handle: LockHandle) -> bool:
        """Makes a lock last its full ttl again. False: it is lost, or was released.

        It raises if the gateway does not answer: then nothing is known, and ``check`` tells for how long to go on.
        """
        try:
            handle._held.renew()
        except (LockLost, NotHeld):
            return False
        except TRANSIENT:
            if handle._held.is_lost:
                return False
            raise
        return True

    def check(self, handle: LockHandle) -> None:
        """Returns if the lock can be relied on at this moment; raises ``LockLost`` if not. It sends nothing."""
        handle.check()

    def is_held(self, name: str = "") -> bool:
        """Whether somebody holds a lock. It only looks."""
        return self._client.show(self._key(name)).is_held

    def capabilities(self) -> Capabilities:
        """What it can do."""
        return Capabilities(
            single_host_only=False,
            supports_reentrancy=False,
            supports_lease=True,
            supports_canonical_export=False,
        )

    def scope(self, sub_path: str) -> BellLockBackend:
        """A backend with names of its own, which shares no lock with this one. ``a/b`` is ``a`` and in it ``b``."""
        steps = [step for step in sub_path.split("/") if step]
        if not steps:
            raise ValueError("a scope needs a path that is not empty")
        space = "/".join([self._space, *(f"in:{_plain(step)}" for step in steps)])
        return BellLockBackend(self._client, space=space, ttl=self._ttl)

    def _key(self, name: str) -> str:
        return f"{self._space}/lock:{_plain(name)}"

    def __repr__(self) -> str:
        return f"BellLockBackend({self._space!r})"


def _plain(name: str) -> str:
    """A name as it can stand in a key: readable where it can be, and two names never become one."""
    plain = "".join(letter if _is_plain(letter) else _escaped(letter) for letter in name)
    return plain if len(plain) <= NAME_CHARS_MAX else "~~" + hashlib.sha256(plain.encode()).hexdigest()


def _is_plain(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter in "-_.:@+")


def _escaped(letter: str) -> str:
    return "".join(f"~{byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))


_classes: dict[str, type[Any]] = {}


def register_backend(name: str, backend: type[Any]) -> None:
    """Makes a class known by a name. A name is given once."""
    if _classes.setdefault(name, backend) is not backend:
        raise ValueError(f"there is another backend of the name {name!r}")


def backend_class(name: str) -> type[Any]:
    """The class of that name."""
    try:
        return _classes[name]
    except KeyError:
        raise KeyError(f"no backend is called {name!r}; there is {', '.join(backend_names())}") from None


def backend_names() -> list[str]:
    """The names that are known."""
    return sorted(_classes)


register_backend("bellwether", BellLockBackend)
