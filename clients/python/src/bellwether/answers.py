"""What the service says about locks, as types. Fields that are not known here are left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

__all__ = ["Holder", "LockState", "LockStates", "Mode", "Waiter", "marks"]

#: With whom a lease may coexist: with nobody, or with other shared ones.
Mode = Literal["exclusive", "shared"]


@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as anybody may know it."""

    session: str
    agent: str | None
    run: str | None
    node: str | None
    pid: int | None
    label: str | None
    mode: str
    fence: int
    #: When it was granted: RFC 3339, UTC. For people.
    held_since: str
    held_ms: int
    left_ms: int

    @classmethod
    def read(cls, said: Mapping[str, Any], fence: int | None = None) -> Holder:
        """Reads one, with the fence that stands beside it."""
        return cls(
            session=said["session"],
            agent=said.get("agent"),
            run=said.get("run"),
            node=said.get("node"),
            pid=said.get("pid"),
            label=said.get("label"),
            mode=said["mode"],
            fence=int(said.get("fence") or fence or 0),
            held_since=said["held_since"],
            held_ms=said["held_ms"],
            left_ms=said["left_ms"],
        )


@dataclass(frozen=True)
class Waiter:
    """Who waits for a lock."""

    session: str
    agent: str | None
    run: str | None
    node: str | None
    pid: int | None
    label: str | None
    mode: str
    waited_ms: int

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> Waiter:
        """Reads one."""
        who = {name: said.get(name) for name in ("agent", "run", "node", "pid", "label")}
        return cls(session=said["session"], mode=said["mode"], waited_ms=said["waited_ms"], **who)


@dataclass(frozen=True)
class LockState:
    """A key as anybody may see it."""

    key: str
    holders: tuple[Holder, ...]
    #: How many sessions wait for it.
    waiting: int
    #: Who they are, in order; only ``show`` says so.
    waiters: tuple[Waiter, ...]

    @property
    def is_held(self) -> bool:
        """Whether somebody holds it."""
        return bool(self.holders)

    @classmethod
    def read(cls, said: Mapping[str, Any]) -> LockState:
        """Reads an answer to show, or one of a list."""
        holders = [Holder.read(said["holder"], said.get("fence"))] if said.get("holder") else []
        holders += [Holder.read(other) for other in said.get("shared_with", ())]
        waiters = tuple(Waiter.read(waiter) for waiter in said.get("waiters", ()))
        return cls(said["key"], tuple(holders), int(said.get("waiting") or 0), waiters)


#: Several of them, in the order of their keys.
LockStates = list[LockState]


def marks(states: LockStates) -> list[tuple[str, list[tuple[str, int]], int]]:
    """What makes two lists different: times alone do not."""
    return [(one.key, [(who.session, who.fence) for who in one.holders], one.waiting) for one in states]
