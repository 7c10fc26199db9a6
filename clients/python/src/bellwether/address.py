"""Where the service is, and what proves the caller: given, of the run, or of the project around.

Inside a run both are in the environment. Elsewhere a project has them in its folder ``.bell``, where ``bell up`` leaves
them.
"""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from .errors import Invalid, Unauthorized, Unreachable

__all__ = ["Access", "Address", "find", "of_project", "of_run"]

_PLAIN_HOST = re.compile(r"[A-Za-z0-9.-]+|[0-9A-Fa-f:.]+")
_VISIBLE = re.compile(r"[\x21-\x7e]+")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Address:
    """Where a gateway is: a socket on this machine, or a host and a port."""

    url: str
    path: str | None = None
    host: str = "localhost"
    port: int = 0
    tls: bool = False

    @classmethod
    def parse(cls, url: str) -> Address:
        """Reads ``unix:/path/to/socket``, ``http://host:port`` or ``https://host:port``."""
        if url.startswith("unix:"):
            path = url.removeprefix("unix:")
            if not os.path.isabs(path):
                raise _no_address(url)
            return cls(url, path=path)
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise _no_address(url) from None
        plain = parts.path in ("", "/") and not parts.query and not parts.fragment and "@" not in parts.netloc
        if parts.scheme not in _PORTS or not host or not plain or not _PLAIN_HOST.fullmatch(host):
            raise _no_address(url)
        return cls(url, host=host, port=port or _PORTS[parts.scheme], tls=parts.scheme == "https")

    @property
    def host_header(self) -> str:
        """What a request names as its host."""
        if self.path is not None:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        return self.url


def _no_address(url: str) -> Invalid:
    return Invalid(
        f"could not use {url!r} as the address of a gateway",
        "Give unix:/path/to/socket or http://host:port.",
    )


@dataclass(frozen=True)
class Access:
    """A gateway, and the secret that proves the caller to it."""

    address: Address
    secret: str = field(repr=False)

    @classmethod
    def of(cls, url: str, secret: str) -> Access:
        """Reads an address and a secret."""
        # Nothing of it may become a header of its own.
        if not _VISIBLE.fullmatch(secret):
            raise Unauthorized(
                "could not use the key: it is empty or has characters that a key can't have",
                "Give the key as bell keys add showed it.",
            )
        return cls(Address.parse(url), secret)


def find(url: str | None = None, key: str | None = None, environment: Mapping[str, str] | None = None) -> Access:
    """What was given; else the run of this process; else ``BELL_GATEWAY``; else the project around.

    Without a key it is that of the environment, ``BELL_API_KEY``, or that of the project. The token of a run is shown
    to the gateway of that run and to no other.
    """
    environment = os.environ if environment is None else environment
    if not url and environment.get("BELL_URL") and environment.get("BELL_TOKEN"):
        return of_run(environment)
    url = url or environment.get("BELL_GATEWAY")
    key = key or environment.get("BELL_API_KEY")
    if url:
        if not key:
            raise Unauthorized(
                f"could not ask {url}: there is no key",
                "Give key=…, or set BELL_API_KEY.",
            )
        return Access.of(url, key)
    return of_project(key=key)


def of_run(environment: Mapping[str, str] | None = None) -> Access:
    """The gateway of the run that this process belongs to."""
    environment = os.environ if environment is None else environment
    url, token = environment.get("BELL_URL"), environment.get("BELL_TOKEN")
    if not url or not token:
        raise Unreachable(
            "could not find a run: BELL_URL or BELL_TOKEN is not set",
            "Start the program as an agent of bell up, or give url and key.",
        )
    return Access.of(url, token)


def of_project(folder: str | os.PathLike[str] = ".", key: str | None = None) -> Access:
    """The gateway of the project that a folder belongs to: the nearest one with ``.bell`` upwards."""
    start = Path(folder).absolute()
    for place in (start, *start.parents):
        state = place / ".bell"
        if not os.path.lexists(state):
            continue
        _check_trusted(place, state)
        told = state / "gateway.json"
        if told.is_file():
            return Access.of(_url_in(told), key or _key_beside(told))
        break
    raise Unreachable(
        f"could not find a gateway: no .bell/gateway.json in {start} or above",
        "Start bell up in the project, or give url and key.",
    )


def _check_trusted(*folders: Path) -> None:
    """Refuses a project of another user: its gateway could be anybody's.

    The rules are those of ``bell``, but for its list of safe projects: such a project takes url and key here.
    """
    trusted = {os.geteuid(), 0}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        trusted.add(int(os.environ["SUDO_UID"]))
    for folder in folders:
        try:
            found = folder.stat()
        except OSError as error:
            raise Unauthorized(f"could not look at {folder}: {error}", "Give url and key.") from error
        by_group = found.st_mode & 0o020 and (_has_list(folder) or _has_others(found.st_gid, trusted))
        if found.st_uid not in trusted or found.st_mode & 0o002 or by_group:
            raise Unauthorized(
                f"could not use the project of {folder}: another user owns it or can write it",
                "Give url and key, or use a project that only this user can write.",
            )


def _has_list(folder: Path) -> bool:
    """Whether a folder has an access list: its group bits then say nothing about who may write."""
    if not hasattr(os, "getxattr"):
        # Only Linux has them there.
        return False
    try:
        return bool(os.getxattr(folder, "system.posix_acl_access"))
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)


def _has_others(gid: int, trusted: set[int]) -> bool:
    """Whether a group has members that are not trusted anyway. One that is not listed may have any."""
    # Not every system has them: a client elsewhere gives url and key.
    import grp
    import pwd

    try:
        named = grp.getgrgid(gid).gr_mem
    except KeyError:
        return True
    users = pwd.getpwall()
    uids = {user.pw_name: user.pw_uid for user in users}
    if any(uids.get(name) not in trusted for name in named):
        return True
    return any(user.pw_gid == gid and user.pw_uid not in trusted for user in users)


def _url_in(told: Path) -> str:
    try:
        said = json.loads(told.read_text("utf-8"))
        socket, url = said.get("socket"), said.get("url")
    except (OSError, ValueError, AttributeError) as error:
        raise Unreachable(f"could not read {told}: {error}", "Start bell up again.") from error
    # The socket is of this machine and this user; whoever may not open it can use the port.
    if isinstance(socket, str) and os.path.isabs(socket) and os.access(socket, os.W_OK):
        return f"unix:{socket}"
    if isinstance(url, str):
        return url
    raise Unreachable(f"could not read {told}: it names no address", "Start bell up again.")


def _key_beside(told: Path) -> str:
    path = told.with_name("api-key")
    try:
        return path.read_text("utf-8").strip()
    except OSError as error:
        raise Unauthorized(
            f"could not read {path}: {error.strerror}",
            "Run as the user of bell up, or give a key of your own (bell keys add).",
        ) from error
