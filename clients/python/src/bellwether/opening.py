"""What both clients have in common: where they are connected to, what they hold, and how that ends.

A client that is not closed is closed when nobody refers to it any more, or when the program ends.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import weakref
from typing import TYPE_CHECKING, ClassVar

from . import keeper
from .address import Access, find, of_project, of_run
from .errors import Invalid
from .holding import Holding

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["DEFAULT_TTL", "Opened"]

log = logging.getLogger("bellwether")

#: How long a lease lasts from each renewal, in seconds: it is renewed every third of that.
DEFAULT_TTL = 60.0
#: How long the end of a program waits for its locks to be given back, in seconds.
CLOSE_WITHIN = 2.0


class Opened:
    """Connected to a gateway, as soon as something is asked."""

    _all: ClassVar[weakref.WeakSet[Opened]] = weakref.WeakSet()

    def __init__(self, url: str | None = None, key: str | None = None, *, label: str | None = None) -> None:
        """Connects to what was given; else to the run of this process; else to ``BELL_GATEWAY``; else to the project.

        The key is what was given, else ``BELL_API_KEY``, else the project's. ``label`` is what others see beside its
        locks: the name of the program, if nothing is said.
        """
        self._open(find(url, key), label)

    @classmethod
    def of_run(cls, *, label: str | None = None) -> Self:
        """The gateway of the run that this process belongs to (``BELL_URL`` and ``BELL_TOKEN``)."""
        return cls._at(of_run(), label)

    @classmethod
    def of_project(
        cls, folder: str | os.PathLike[str] = ".", key: str | None = None, *, label: str | None = None
    ) -> Self:
        """The gateway that ``bell up`` serves for the project of this folder, with the key that lies beside it."""
        return cls._at(of_project(folder, key), label)

    @classmethod
    def _at(cls, access: Access, label: str | None) -> Self:
        client = cls.__new__(cls)
        client._open(access, label)
        return client

    def _open(self, access: Access, label: str | None) -> None:
        self._access = access
        self._label = os.path.basename(sys.argv[0] or "python")[:200] if label is None else label
        self._is_closed = False
        self._begin()
        Opened._all.add(self)

    @property
    def url(self) -> str:
        """Where the gateway is."""
        return self._access.address.url

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._held = Holding(self._access, self._label)
        self._end = weakref.finalize(self, _close_soon, self._held, self._pid)
        self._end.atexit = False

    def _holding(self) -> Holding:
        if self._is_closed:
            raise Invalid("could not ask: the client was closed", "Make a new one.")
        if self._pid != os.getpid():
            # A fork: what the parent holds is the parent's.
            self._end.detach()
            self._begin()
        return self._held

    def _closing(self) -> keeper.Call[None] | None:
        """Begins to close, if it is this process's to close."""
        self._end.detach()
        was_closed, self._is_closed = self._is_closed, True
        if was_closed or self._pid != os.getpid() or not keeper.is_running():
            return None
        return keeper.start(self._held.close())


def _close_soon(held: Holding, pid: int) -> None:
    if pid == os.getpid():
        keeper.start(held.close())


@atexit.register
def _close_all() -> None:
    closing = [client._closing() for client in list(Opened._all)]
    for call in closing:
        try:
            if call is not None:
                call.wait(CLOSE_WITHIN)
        except Exception as error:
            log.info("could not give everything back; it runs out by itself: %s", error)
