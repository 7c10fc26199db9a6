"""HTTP/1.1 over a socket or a port: one request, one JSON answer.

It tells apart what a caller must tell apart: nobody was there (``Unreachable``), and the request left without an answer
that makes sense (``Unknown``). What is asked and what an answer means is left to ``gateway``.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import clock
from .address import Address
from .errors import Unknown, Unreachable, refusal

__all__ = ["ANSWER_WITHIN", "WAIT_WITHIN", "Asked", "Wire"]

#: Somebody who is there takes a connection at once; a machine that stalls takes a few seconds.
CONNECT_WITHIN = 10.0
#: An answer that waits for nobody takes a moment, or as long as a slow store.
ANSWER_WITHIN = 30.0
#: The longest wait of one call is 55 s, and then there is the store.
WAIT_WITHIN = 115.0
#: The service closes a connection that was idle for 10 s; well before that it can be used again.
IDLE_MAX = 4.0
IDLE_CONNECTIONS_MAX = 8
#: Bytes in an answer: a list of a thousand locks has less.
ANSWER_BYTES_MAX = 8 << 20
HEADERS_MAX = 100


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    #: With its query.
    path: str
    secret: str
    body: Mapping[str, Any] | None = None
    #: Carried out twice it does what it does once, so it may be sent again on a new connection.
    repeatable: bool = True
    #: Seconds after which silence is taken for an answer.
    within: float = ANSWER_WITHIN

    def encode(self, address: Address) -> bytes:
        """The bytes to send."""
        body = b"" if self.body is None else json.dumps(self.body, separators=(",", ":")).encode()
        lines = [
            f"{self.method} {self.path} HTTP/1.1",
            f"Host: {address.host_header}",
            f"Authorization: Bearer {self.secret}",
            "Accept: application/json",
            "User-Agent: bellwether-python",
        ]
        if self.body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + body


class _Silence(Exception):
    """The connection ended before the first byte of an answer."""


class _Nonsense(Exception):
    """The answer is none that HTTP allows."""


@dataclass
class _Connection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    idle_since: float = 0.0

    def is_fresh(self) -> bool:
        return not self.reader.at_eof() and clock.now() - self.idle_since < IDLE_MAX

    def close(self) -> None:
        self.writer.close()


class Wire:
    """Connections to one gateway. It belongs to the keeper's thread."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._idle: list[_Connection] = []
        self._is_closed = False

    async def ask(self, asked: Asked) -> dict[str, Any]:
        """Sends a request and reads its answer; a refusal is raised.

        Cancelled, the request may have been carried out.
        """
        try:
            status, body = await asyncio.wait_for(self._exchange(asked), asked.within)
        except asyncio.TimeoutError:
            raise self._unknown(f"no answer within {asked.within:.0f} s") from None
        except (OSError, _Silence, _Nonsense, EOFError, ValueError) as error:
            raise self._unknown(str(error) or type(error).__name__) from error
        return self._read(status, body)

    def close(self) -> None:
        """Closes what is not in use, and from now on each connection after its request."""
        self._is_closed = True
        while self._idle:
            self._idle.pop().close()

    async def _exchange(self, asked: Asked) -> tuple[int, bytes]:
        request = asked.encode(self.address)
        used = self._reusable() if asked.repeatable else None
        if used is not None:
            try:
                return await self._on(used, request)
            except (_Silence, ConnectionError):
                # The service may just have closed it for being idle.
                pass
        return await self._on(await self._connect(), request)

    def _reusable(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh():
                return connection
            connection.close()
        return None

    async def _on(self, connection: _Connection, request: bytes) -> tuple[int, bytes]:
        keep = False
        try:
            connection.writer.write(request)
            await connection.writer.drain()
            status, body, keep = await _answer(connection.reader)
            return status, body
        finally:
            # Half-read, or cancelled in between, it is of no use to anybody.
            if keep and not self._is_closed and len(self._idle) < IDLE_CONNECTIONS_MAX:
                connection.idle_since = clock.now()
                self._idle.append(connection)
            else:
                connection.close()

    async def _connect(self) -> _Connection:
        opening = asyncio.ensure_future(self._open())
        try:
            await asyncio.wait([opening], timeout=CONNECT_WITHIN)
            if not opening.done():
                raise self._unreachable("nobody took the connection")
            return _Connection(*opening.result())
        except OSError as error:
            raise self._unreachable(error.strerror or str(error)) from error
        except BaseException:
            # It may be open all the same.
            opening.cancel()
            opening.add_done_callback(_close_unused)
            raise

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        at = self.address
        if at.path is not None:
            return await asyncio.open_unix_connection(at.path)
        tls = ssl.create_default_context() if at.tls else None
        return await asyncio.open_connection(at.host, at.port, ssl=tls)

    def _read(self, status: int, body: bytes) -> dict[str, Any]:
        try:
            answer = json.loads(body)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not isinstance(answer.get("outcome"), str):
            raise self._unknown(f"it answered with status {status} and no outcome")
        if 200 <= status < 300:
            return answer
        raise refusal(answer)

    def _unreachable(self, why: str) -> Unreachable:
        return Unreachable(
            f"could not reach the gateway at {self.address}: {why}",
            "Do not start the work: without an answer there is no lock.",
        )

    def _unknown(self, why: str) -> Unknown:
        return Unknown(
            f"could not hear from the gateway at {self.address}: {why}; it may have done what it was asked to",
            "Do not take it for done: look, or repeat it with the same request id.",
        )


def _close_unused(opening: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()[1].close()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bool]:
    """The status, the body, and whether the connection can be used again."""
    status, headers = await _head(reader)
    while 100 <= status < 200:
        status, headers = await _head(reader)
    keep = "close" not in headers.get("connection", "").lower()
    if status in (204, 304):
        return status, b"", keep
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return status, await _chunks(reader), keep
    if "content-length" in headers:
        length = _number(headers["content-length"], 10)
        return status, await reader.readexactly(_bounded(length)), keep
    return status, await _rest(reader), False


async def _head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    first = await reader.readline()
    if not first:
        raise _Silence("the connection was closed without an answer")
    words = first.split(maxsplit=2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1."):
        raise _Nonsense("it does not speak HTTP")
    headers: dict[str, str] = {}
    for _ in range(HEADERS_MAX):
        line = (await reader.readline()).decode("latin-1")
        if line in ("\r\n", "\n"):
            return _number(words[1].decode("latin-1"), 10), headers
        name, colon, value = line.partition(":")
        if not colon:
            raise _Nonsense("its answer was cut off")
        headers[name.strip().lower()] = value.strip()
    raise _Nonsense("its answer has too many headers")


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        size = _number((await reader.readline()).split(b";")[0].decode("latin-1").strip(), 16)
        if size == 0:
            break
        _bounded(len(body) + size)
        body += await reader.readexactly(size)
        await reader.readline()
    while (await reader.readline()).strip():
        pass
    return bytes(body)


async def _rest(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while part := await reader.read(1 << 16):
        body += part
        _bounded(len(body))
    return bytes(body)


def _number(text: str, base: int) -> int:
    if not text.isalnum():
        raise _Nonsense("its answer was cut off")
    return int(text, base)


def _bounded(length: int) -> int:
    if not 0 <= length <= ANSWER_BYTES_MAX:
        raise _Nonsense("its answer is too large")
    return length
