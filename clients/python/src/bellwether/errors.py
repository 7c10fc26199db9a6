"""Why something was not done, with the words of the table of outcomes.

Each refusal of the service has one class here. Two more are this side's own: ``Unreachable`` (nobody was there, nothing
was done) and ``Unknown`` (the request left and no answer came: it may have been carried out).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "BellError",
    "Deadlock",
    "Invalid",
    "LimitReached",
    "LockBusy",
    "LockLost",
    "NotFound",
    "NotHeld",
    "NotHolder",
    "Stale",
    "TimedOut",
    "Unauthorized",
    "Unavailable",
    "Unknown",
    "Unreachable",
    "refusal",
]


class BellError(Exception):
    """Why something was not done."""

    #: The word of the table of outcomes.
    outcome: str = "invalid"
    #: What happened.
    message: str
    #: What to do next.
    hint: str
    #: The answer of the service, if it is one.
    answer: Mapping[str, Any]

    def __init__(self, message: str, hint: str = "", answer: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint
        self.answer = answer if answer is not None else {}

    def __str__(self) -> str:
        return f"{self.message}. {self.hint}" if self.hint else self.message


class LockBusy(BellError):
    """Somebody else has the lock."""

    outcome = "busy"

    @property
    def holder(self) -> Mapping[str, Any] | None:
        """Who has it, as far as the service says."""
        found = self.answer.get("holder")
        return found if isinstance(found, dict) else None


class TimedOut(LockBusy):
    """Somebody else had the lock for as long as the caller wanted to wait."""

    outcome = "timed_out"


class Deadlock(LockBusy):
    """Waiting would never end: sessions wait for each other in a circle."""

    outcome = "deadlock"

    @property
    def cycle(self) -> list[str]:
        """Who waits for what: session, key, session, key and so on."""
        return [str(step) for step in self.answer.get("cycle", [])]


class LockLost(BellError):
    """The caller had the lock and can't rely on it any longer. This is final: stop the work, write nothing more."""

    outcome = "lost"


class NotHeld(BellError):
    """Nobody has the lock."""

    outcome = "not_held"


class NotHolder(BellError):
    """The lock is another session's."""

    outcome = "not_holder"


class NotFound(BellError):
    """There is nothing of that name."""

    outcome = "not_found"


class Invalid(BellError):
    """The request breaks a rule; sent again it will be refused again."""

    outcome = "invalid"


class LimitReached(BellError):
    """The caller has as much as one caller may have. Give something back, or try again later."""

    outcome = "limit"


class Unauthorized(BellError):
    """The caller has not proved who it is, or may not do this."""

    outcome = "unauthorized"


class Unavailable(BellError):
    """The service can't reach its store. Nothing was granted."""

    outcome = "unavailable"


class Unreachable(BellError):
    """Nobody was there. Nothing was done."""

    outcome = "unreachable"


class Unknown(BellError):
    """The request left, and no answer came that makes sense. It may have been carried out."""

    outcome = "unknown"


class Stale(BellError):
    """A guarded write was refused: a newer holder has written already."""

    outcome = "stale"


_KINDS: tuple[type[BellError], ...] = (
    LockBusy,
    TimedOut,
    Deadlock,
    LockLost,
    NotHeld,
    NotHolder,
    NotFound,
    Invalid,
    LimitReached,
    Unauthorized,
    Unavailable,
    Unreachable,
    Stale,
)
_BY_OUTCOME: Mapping[str, type[BellError]] = {kind.outcome: kind for kind in _KINDS}

#: Hints of the service name flags of its command; here they are parameters.
_PARAMETERS: Mapping[str, str] = {"--wait": "wait=SECONDS"}


def refusal(answer: Mapping[str, Any]) -> BellError:
    """The error that a refusal of the service is. A word that is newer than this library is a plain ``BellError``."""
    outcome = str(answer.get("outcome"))
    message = str(answer.get("message") or f"it was refused: {outcome}")
    hint = str(answer.get("hint") or "")
    for flag, parameter in _PARAMETERS.items():
        hint = hint.replace(flag, parameter)
    error = _BY_OUTCOME.get(outcome, BellError)(message, hint, answer)
    if outcome not in _BY_OUTCOME:
        error.outcome = outcome
    return error
