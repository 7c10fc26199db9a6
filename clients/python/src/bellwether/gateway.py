"""What can be asked of a gateway, each as one call, and what its answer means.

Nothing here keeps a lease or a session: ``holding`` does.
"""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from . import clock
from .address import Access
from .answers import LockState, LockStates, Mode
from .errors import Invalid, Unknown, Unreachable
from .wire import ANSWER_WITHIN, WAIT_WITHIN, Asked, Wire

__all__ = ["Gateway", "Grant", "Made", "Revoked", "Want"]

#: The longest wait that can be asked for: 7 days.
WAIT_MAX = 604_800.0
#: Nobody announces that a lease has run out, so whoever watches looks now and then.
LOOK_EVERY = 5.0
#: How often a request that can be repeated is repeated after silence.
REPEATS = 2
REPEAT_AFTER = 0.2
#: How an API key begins, unlike the token of a run.
API_KEY = "bell_"
#: Characters of this machine's name that others see beside a lock.
NODE_CHARS_MAX = 64


@dataclass(frozen=True)
class Want:
    """Locks to be taken together, all or none."""

    keys: tuple[str, ...]
    mode: Mode
    ttl: float
    #: How long to wait for them; ``None``: for as long as it takes.
    wait: float | None

    @classmethod
    def of(cls, keys: tuple[str, ...], ttl: float, wait: float | None, shared: bool) -> Want:
        """What a caller asks for."""
        return cls(keys, "shared" if shared else "exclusive", ttl, wait)

    def __post_init__(self) -> None:
        for name, given in (("ttl", self.ttl), ("wait", self.wait or 0.0)):
            if math.isnan(given) or given < 0 or (name == "ttl" and not 0 < given < math.inf):
                raise Invalid(f"could not use the {name}: {given} is no span of time", "Give seconds.")

    @property
    def wait_most(self) -> float:
        """How long to wait, in seconds."""
        return WAIT_MAX if self.wait is None else min(self.wait, WAIT_MAX)


@dataclass(frozen=True)
class Grant:
    """Locks that were granted together."""

    #: The key that was asked for first, in its canonical form.
    key: str
    #: Every key, in its canonical form, with its fence.
    fences: Mapping[str, int]
    ttl: float
    #: The session held ``key`` before it asked.
    already_held: bool
    #: The earliest moment at which it can have been granted, on this machine's clock.
    since: float


@dataclass(frozen=True)
class Made:
    """A session that was made."""

    token: str
    #: How long it lasts without being heard of, in seconds; ``None``: somebody else keeps it alive.
    ttl: float | None
    #: When it was asked for, on this machine's clock.
    sent: float


@dataclass(frozen=True)
class Revoked:
    """A lease that an operator broke."""

    key: str
    fence: int
    reason: str


class Gateway:
    """A gateway, and the secret that proves the caller to it. It belongs to the keeper's thread."""

    def __init__(self, access: Access) -> None:
        self._wire = Wire(access.address)
        self._secret = access.secret

    def close(self) -> None:
        """Closes its connections."""
        self._wire.close()

    async def make_session(self, label: str | None, pid: int) -> Made:
        """Makes a session. Repeated in vain, the one that nobody knows of runs out by itself."""
        body: dict[str, Any] = {"pid": pid}
        if self._secret.startswith(API_KEY):
            # A run's own is known, so there it is not asked for.
            body["node"] = socket.gethostname()[:NODE_CHARS_MAX]
        if label is not None:
            body["label"] = label
        sent = clock.now()
        answer = await self._post(self._secret, "/v1/sessions", body)
        with _reading():
            ttl_ms = answer.get("ttl_ms")
            return Made(str(answer["token"]), None if ttl_ms is None else float(ttl_ms) / 1000, sent)

    async def heartbeat(self, token: str) -> list[Revoked]:
        """Says that the session's owner is alive: the answer has what was taken from it in the meantime."""
        answer = await self._post(token, "/v1/sessions/heartbeat", {})
        with _reading():
            told = answer.get("revoked", ())
            return [Revoked(str(one["key"]), int(one["fence"]), str(one["reason"])) for one in told]

    async def end_session(self, token: str) -> None:
        """Ends a session, with everything it holds."""
        await self._patiently(token, "/v1/sessions/end", {})

    async def acquire(self, token: str, want: Want, request_id: str) -> Grant:
        """Asks for locks and waits. After silence it is repeated: one request id has one outcome."""
        until = clock.now() + want.wait_most
        body = {"keys": want.keys, "mode": want.mode, "ttl_ms": _ms(want.ttl), "request_id": request_id}
        since = clock.now()
        silences = 0
        while True:
            sent = clock.now()
            body["wait_ms"] = _ms(max(0.0, until - sent)) if want.wait_most else 0
            try:
                answer = await self._post(token, "/v1/locks/acquire", body, WAIT_WITHIN)
            except (Unknown, Unreachable) as silence:
                # Nobody was there the first time: nothing was done. Later it may have been.
                if isinstance(silence, Unreachable) and not silences:
                    raise
                silences += 1
                if silences > REPEATS:
                    raise _never_heard(silence) from silence
                await asyncio.sleep(REPEAT_AFTER)
                continue
            if answer["outcome"] != "waiting":
                with _reading():
                    return _grant(answer, since)
            silences = 0
            # It was not granted before this call. It may be between this answer and the next call.
            since = sent

    async def leave(self, token: str, request_id: str) -> None:
        """Gives up a request that waits."""
        await self._patiently(token, "/v1/locks/leave", {"request_id": request_id})

    async def renew(self, token: str, key: str, fence: int, ttl: float | None = None) -> float:
        """Makes a lease last its full ttl again, from now: the answer."""
        body: dict[str, Any] = {"key": key, "fence": fence}
        if ttl is not None:
            body["ttl_ms"] = _ms(ttl)
        answer = await self._post(token, "/v1/locks/renew", body)
        with _reading():
            return float(answer["ttl_ms"]) / 1000

    async def release(self, token: str, key: str, fence: int | None) -> None:
        """Gives a lease back: the one with this fence, or whichever the session has."""
        body: dict[str, Any] = {"key": key}
        if fence is not None:
            body["fence"] = fence
        await self._patiently(token, "/v1/locks/release", body)

    async def show(self, key: str) -> LockState:
        """Who holds a key and who waits for it."""
        answer = await self._get("/v1/locks/show", {"key": key})
        with _reading():
            return LockState.read(answer)

    async def list(self, prefix: str) -> LockStates:
        """Every key that starts with ``prefix`` and is held."""
        found: LockStates = []
        while True:
            query = {"prefix": prefix}
            if found:
                query["after"] = found[-1].key
            page = await self._get("/v1/locks", query)
            with _reading():
                found += [LockState.read(lock) for lock in page["locks"]]
            if not page.get("more") or not page["locks"]:
                return found

    async def break_lock(self, key: str, reason: str) -> LockState:
        """Takes a lock from whoever holds it: the answer is who that was."""
        asked = Asked("POST", "/v1/locks/break", self._secret, {"key": key, "reason": reason}, repeatable=False)
        answer = await self._wire.ask(asked)
        with _reading():
            return LockState.read(answer)

    async def revision(self) -> int:
        """What to look for changes after."""
        return await self._revision({})

    async def changed(self, prefix: str, after: int) -> int:
        """Returns when keys that start with ``prefix`` may have changed, or after a moment: what to look after next."""
        return await self._revision({"prefix": prefix, "after": str(after), "wait_ms": str(_ms(LOOK_EVERY))})

    async def _revision(self, query: Mapping[str, str]) -> int:
        answer = await self._get("/v1/locks/changes", query, WAIT_WITHIN)
        with _reading():
            return int(answer["revision"])

    async def _patiently(self, token: str, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """A request that can be repeated, repeated after silence, for as long as one may take."""
        until = clock.now() + ANSWER_WITHIN
        silences = 0
        while True:
            try:
                return await self._post(token, path, body, max(until - clock.now(), 0.0))
            except (Unknown, Unreachable):
                silences += 1
                if silences > REPEATS or clock.now() + REPEAT_AFTER >= until:
                    raise
                await asyncio.sleep(REPEAT_AFTER)

    async def _post(
        self, secret: str, path: str, body: Mapping[str, Any], within: float = ANSWER_WITHIN
    ) -> dict[str, Any]:
        return await self._wire.ask(Asked("POST", path, secret, body, within=within))

    async def _get(self, path: str, query: Mapping[str, str], within: float = ANSWER_WITHIN) -> dict[str, Any]:
        target = f"{path}?{urlencode(query)}" if query else path
        return await self._wire.ask(Asked("GET", target, self._secret, within=within))


@contextmanager
def _reading() -> Iterator[None]:
    """Whatever is not as it should be in an answer makes it none."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unknown(
            f"could not read the answer of the gateway: {error!r}; it may have done what it was asked to",
            "Look whether this library and bell are of one version.",
        ) from error


def _grant(answer: Mapping[str, Any], since: float) -> Grant:
    several = {str(one["key"]): int(one["fence"]) for one in answer.get("keys", ())}
    return Grant(
        key=str(answer["key"]),
        fences=several or {str(answer["key"]): int(answer["fence"])},
        ttl=float(answer["ttl_ms"]) / 1000,
        already_held=bool(answer.get("already_held")),
        since=since,
    )


def _never_heard(silence: Unknown | Unreachable) -> Unknown:
    return silence if isinstance(silence, Unknown) else Unknown(silence.message, silence.hint)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
