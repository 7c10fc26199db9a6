"""A gateway that answers as a test says: late, cut off, or with nonsense."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from bellwether import Client

#: Ends the connection instead of answering.
CUT = b""

#: What a script says to a request: bytes before the connection ends, or a status and an answer.
Said = bytes | tuple[int, dict[str, Any]]


class Asked:
    """A request as it came."""

    def __init__(self, path: str, body: dict[str, Any], connection: int) -> None:
        self.path = path
        self.body = body
        #: The number of the connection that it came on.
        self.connection = connection


class Scripted:
    """A gateway on a socket of its own. Sessions are made and ended by themselves."""

    def __init__(self, script: Callable[[Asked], Said]) -> None:
        self._script = script
        self._folder = tempfile.mkdtemp(prefix="bell-python-")
        self.path = f"{self._folder}/bell.sock"
        self.asked: list[Asked] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(16)
        threading.Thread(target=self._accept, daemon=True).start()

    def client(self) -> Client:
        """A client of it."""
        return Client(f"unix:{self.path}", "secret", label="test")

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """What was asked at this path."""
        return [asked.body for asked in self.asked if asked.path == path]

    def __enter__(self) -> Scripted:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        shutil.rmtree(self._folder)

    def _accept(self) -> None:
        number = 0
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number += 1
            threading.Thread(target=self._serve, args=(connection, number), daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as stream:
            while first := stream.readline():
                length = 0
                while (line := stream.readline().strip()) != b"":
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                path = first.split()[1].decode().partition("?")[0]
                asked = Asked(path, json.loads(stream.read(length) or b"{}"), number)
                self.asked.append(asked)
                said = self._say(asked)
                with suppress(BrokenPipeError):
                    connection.sendall(said if isinstance(said, bytes) else encoded(*said))
                if isinstance(said, bytes):
                    return

    def _say(self, asked: Asked) -> Said:
        if asked.path == "/v1/sessions":
            return 200, {"outcome": "written", "token": f"t{len(self.asked)}"}
        if asked.path == "/v1/sessions/end":
            return 200, {"outcome": "ended"}
        return self._script(asked)


def always(said: Said) -> Scripted:
    """A gateway that always says the same."""
    return Scripted(lambda _: said)


def encoded(status: int, answer: dict[str, Any]) -> bytes:
    """An answer as HTTP has it."""
    body = json.dumps(answer).encode()
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def granted(asked: Asked, fence: int = 7) -> Said:
    """The answer of a gateway that grants whatever is asked for."""
    key = asked.body["keys"][0]
    return 200, {"outcome": "granted", "key": key, "fence": fence, "ttl_ms": asked.body["ttl_ms"], "holder": None}


def refused(outcome: str, status: int) -> Said:
    """A refusal."""
    return status, {"outcome": outcome, "message": f"it is {outcome}", "hint": "Do otherwise."}
