"""What every request passes first: who asks, how much is sent; and the log line after it."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import ipaddress
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from typica.serve._logs import log, place_of
from typica.serve._options import Options

HEALTH = ("/v2/health/live", "/v2/health/ready")
STREAM = "/stream"  # which the page polls
PAGE = ("/", "/page/")  # the page and its files, which hold nothing about the detectors
AT_ONCE = 8  # bodies of the largest size that may be in memory
PATIENCE = 30.0  # seconds that a body may stall


class RefusedError(Exception):
    """A request that is refused, and why."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.headers = status, dict(headers or {})


@dataclass
class Gate:
    """Passes permitted requests on to `app`, with their whole body."""

    app: ASGIApp
    options: Options
    _held: int = 0  # bytes of bodies that are in memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; anything but an HTTP request is ignored."""
        if scope["type"] != "http":
            return
        answer = _Answer(send)
        began = time.monotonic()
        body = _Body(self)
        try:
            headers = Headers(scope=scope)
            self._check(scope, headers)
            with body.held():
                await body.read(headers, receive)
                await self.app(scope, body.replayed(receive), answer)
        except RefusedError as refusal:
            await answer.say(refusal.status, str(refusal), refusal.headers)
        except Exception as error:  # whatever it is, the caller is told and the server continues
            log("internal error", level="error", **place_of(error))
            await answer.say(500, "internal error; the server's log says which", {})
        if scope["path"] not in (*HEALTH, STREAM):
            log(
                "request",
                method=scope["method"],
                path=scope["path"][:200],
                status=answer.status,
                bytes=body.size,
                seconds=round(time.monotonic() - began, 4),
            )

    def _check(self, scope: Scope, headers: Headers) -> None:
        if scope["path"] in HEALTH:
            return
        if not is_page(scope["path"]):
            check_token(headers.get("authorization", ""), self.options.token)
        self._check_host(headers)
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            raise RefusedError(403, "a request from another site's page; send it from here")
        if headers.get("content-encoding", "identity") != "identity":
            raise RefusedError(415, "a compressed body; send it as it is")

    def _check_host(self, headers: Headers) -> None:
        """Refuse the page of a site whose name leads here, on this machine without a token.

        Such a page could otherwise read what the server answers to its owner.
        """
        if self.options.token is not None or not is_loopback(self.options.host):
            return
        name = headers.get("host", "")
        if not is_here(name):
            raise RefusedError(403, f"a request for the host {name[:80]!r}; call it by localhost")


class _Body:
    """The body of one request, which counts towards those in memory."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._parts: list[bytes] = []
        self.size = 0

    @contextmanager
    def held(self) -> Iterator[None]:
        """Count what has been read for as long as it is there."""
        try:
            yield
        finally:
            self._gate._held -= self.size

    async def read(self, headers: Headers, receive: Receive) -> None:
        """Read the whole body; refuse one that is too long before it is in memory."""
        most = self._gate.options.limits.body
        told = headers.get("content-length", "0")  # HTTP itself refuses what is not a number
        if len(told) > 18 or int(told) > most:
            raise RefusedError(413, f"a body of {told[:20]} bytes; send at most {most:,}")
        more = True
        while more:
            message = await _patiently(receive)
            if message["type"] == "http.disconnect":
                raise RefusedError(400, "the body ended too early")
            self._take(message.get("body", b""), most)
            more = message.get("more_body", False)

    def _take(self, part: bytes, most: int) -> None:
        if self.size + len(part) > most:
            raise RefusedError(413, f"a body of more than {most:,} bytes; send less")
        if self._gate._held + len(part) > AT_ONCE * most:
            raise RefusedError(503, "too much is being sent at once; try again soon")
        self._parts.append(part)
        self.size += len(part)
        self._gate._held += len(part)

    def replayed(self, receive: Receive) -> Receive:
        """Return a `receive` that gives the whole body at once, and then whatever else comes."""
        waiting = [b"".join(self._parts)]
        self._parts.clear()

        async def replay() -> Message:
            if not waiting:
                return await receive()
            return {"type": "http.request", "body": waiting.pop(), "more_body": False}

        return replay


async def _patiently(receive: Receive) -> Message:
    try:
        return await asyncio.wait_for(receive(), PATIENCE)
    except TimeoutError:
        raise RefusedError(408, f"nothing more of the body came in {PATIENCE:g} s") from None


class _Answer:
    """Sends an answer on, and knows what it was; a 503 says when to try again."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        """Send one message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            named = {name.lower() for name, _ in message["headers"]}
            if self.status == 503 and b"retry-after" not in named:
                message["headers"] = [*message["headers"], (b"retry-after", b"1")]
        await self._send(message)

    async def say(self, status: int, reason: str, headers: Mapping[str, str]) -> None:
        """Send an error, unless an answer has begun."""
        if self.status:
            return
        body = json.dumps({"error": reason}).encode()
        sent = {"content-type": "application/json", "content-length": str(len(body)), **headers}
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in sent.items()]
        await self({"type": "http.response.start", "status": status, "headers": encoded})
        await self({"type": "http.response.body", "body": body})


def is_page(path: str) -> bool:
    """Tell whether a path belongs to the page, which asks for the token itself.

    >>> is_page("/"), is_page("/page/main.js"), is_page("/score"), is_page("/pages")
    (True, True, False, False)
    """
    index, files = PAGE
    return path == index or path.startswith(files)


def check_token(given: str, token: str | None) -> None:
    """Refuse a caller who does not know the token: as a bearer, or as a browser's password."""
    if token is None:
        return
    kind, _, value = given.partition(" ")
    if kind.lower() == "basic":
        value = _password(value)
    elif kind.lower() != "bearer":
        value = ""
    if not hmac.compare_digest(value.strip().encode(), token.encode()):
        asks = 'Bearer realm="typica", Basic realm="typica"'
        raise RefusedError(401, "the token is missing or wrong; send Authorization: Bearer TOKEN", {
            "www-authenticate": asks
        })  # fmt: skip


@lru_cache(maxsize=64)  # of every request
def is_loopback(host: str) -> bool:
    """Tell whether an address can be reached only from this machine.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@lru_cache(maxsize=64)  # of every request
def is_here(host: str) -> bool:
    """Tell whether a request's `Host` is an address or localhost, and not the name of a site.

    >>> is_here("127.0.0.1:8080"), is_here("[::1]:8080"), is_here("localhost"), is_here("a.test")
    (True, True, True, False)
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        ipaddress.ip_address(name)
    except ValueError:
        return host.partition(":")[0].lower() == "localhost"
    return True


def _password(encoded: str) -> str:
    try:
        pair = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return pair.partition(":")[2]
