"""What refuses a stale writer, at the place of the write.

A lock tells that you may write. A holder that was paused does not know that it has lost, so only a guard at the write
can tell that it still may: it accepts a fence if no higher one was seen on that resource, and remembers it in one
atomic step with the write. These guards and those of ``bell`` (``bell fence write``, the library for Rust) remember
fences in the same way, so programs in both can share a resource.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from . import clock
from .errors import Stale, TimedOut

__all__ = ["POSTGRES_CHECK", "POSTGRES_SET_UP", "headers", "highest", "sqlite", "write"]

#: How long another writer of the same file is waited for, in seconds, as ``bell fence write`` does. It writes one
#: content and makes it durable; whoever takes longer is stopped.
_WRITER_WITHIN = 30.0
#: The first and the longest pause between two tries, in seconds.
_PAUSES = (0.000_02, 0.002)

#: The highest fence that SQLite's numbers can hold.
_SQLITE_MAX = 2**63 - 1

_CREATE = """
    CREATE TABLE IF NOT EXISTS bell_fences (
        resource TEXT PRIMARY KEY,
        fence    INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID"""

_RAISE = """
    INSERT INTO bell_fences (resource, fence)
    VALUES (?, ?)
    ON CONFLICT (resource) DO UPDATE
       SET fence = excluded.fence
     WHERE excluded.fence >= bell_fences.fence"""

_SEEN = """
    SELECT fence
      FROM bell_fences
     WHERE resource = ?"""

#: To be run once for each PostgreSQL database, by whoever owns the tables: a table of fences and a function.
POSTGRES_SET_UP: str = files(__package__).joinpath("postgres.sql").read_text("utf-8")

#: The first statement of a guarded transaction, with the resource and the fence as its parameters. A stale fence ends
#: the transaction with the error code ``BL009``.
POSTGRES_CHECK = "SELECT bell_check_fence(%s, %s)"


def headers(fence: int) -> dict[str, str]:
    """What a request that changes something carries, for a service that checks it."""
    return {"X-Fence": str(fence)}


def write(path: str | os.PathLike[str], fence: int, content: bytes | str) -> None:
    """Replaces the content of a file, whole and durably, if no later fence was seen there; else ``Stale``.

    The fence is kept in ``.NAME.fence`` beside it, where ``bell fence write`` keeps it too. Another writer is waited
    for half a minute; ``TimedOut`` if it does not end, and then nothing is written.
    """
    place = Path(path)
    if not place.name or place.is_dir():
        raise IsADirectoryError(f"{place} is not the path of a file")
    data = content.encode() if isinstance(content, str) else content
    beside = _beside(place, ".fence")
    guard = _open(beside, os.O_RDWR, 0o600)
    try:
        _lock(guard, beside)
        # The fence first: a crash in between leaves the old content with the new fence, and the write can be repeated.
        _raise_fence(guard, fence)
        _replace(place, data)
    finally:
        os.close(guard)


def highest(path: str | os.PathLike[str]) -> int | None:
    """The highest fence that a file has seen."""
    try:
        text = _beside(Path(path), ".fence").read_bytes()
    except FileNotFoundError:
        return None
    return _read(text)


@contextmanager
def sqlite(connection: sqlite3.Connection, resource: str, fence: int) -> Iterator[sqlite3.Connection]:
    """One transaction with the check of a fence: ``Stale`` if a later one was seen, and then nothing is written.

    It is committed at the end of the block, and rolled back if the block raises. Fences are kept in the table
    ``bell_fences``, which is made on first use.
    """
    # Immediate: two writers must not both pass the check and then find out.
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(_CREATE)
        raised = connection.execute(_RAISE, (resource, min(fence, _SQLITE_MAX)))
        if raised.rowcount != 1:
            raise _stale(fence, connection.execute(_SEEN, (resource,)).fetchone()[0])
        yield connection
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}{ending}")


def _open(path: Path, access: int, mode: int) -> int:
    # A planted link is not followed.
    return os.open(path, access | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)


def _lock(guard: int, path: Path) -> None:
    # Asked for again and again: a wait in the kernel has no end if the holder is stopped.
    until = clock.now() + _WRITER_WITHIN
    pause, longest = _PAUSES
    while True:
        try:
            return fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.now() >= until:
                raise _timed_out(path) from None
            time.sleep(pause)
            pause = min(2 * pause, longest)


def _raise_fence(guard: int, fence: int) -> None:
    seen = _read(os.pread(guard, 64, 0))
    if seen is not None and seen > fence:
        raise _stale(fence, seen)
    if seen != fence:
        # One line of fixed width, written in one piece: disks replace a sector whole or not at all.
        os.pwrite(guard, f"{fence:020}\n".encode(), 0)
        os.fsync(guard)


def _read(text: bytes) -> int | None:
    if not text:
        return None
    digits = text.removesuffix(b"\n")
    if digits == text or not digits.isdigit():
        raise OSError("the file of fences is damaged")
    return int(digits)


def _replace(path: Path, data: bytes) -> None:
    draft = _beside(path, ".draft")
    # Only the holder of the guard's lock writes the draft; one that a crash left is overwritten.
    descriptor = _open(draft, os.O_WRONLY | os.O_TRUNC, 0o644)
    with os.fdopen(descriptor, "wb") as file:
        if path.exists():
            os.fchmod(descriptor, path.stat().st_mode & 0o7777)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    os.rename(draft, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _timed_out(path: Path) -> TimedOut:
    return TimedOut(
        f"could not write: another process has kept {path} locked for {_WRITER_WITHIN:g} s; nothing was written",
        f"Look for a stopped process with fuser -v {path}, and let it go on or end it; "
        "then write again with the same fence.",
        {"outcome": "timed_out"},
    )


def _stale(given: int, seen: int) -> Stale:
    return Stale(
        f"refused a stale write: its fence is {given}, and {seen} has been seen",
        "Stop the work at once: its lease is over and a newer holder has written, "
        "or the store was set back to an older copy (bell store raise-epoch).",
        {"outcome": "stale", "fence": given, "seen_fence": seen},
    )
