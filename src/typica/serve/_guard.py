"""What every request passes first: who asks, how much is sent; and the line of the log after it."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from typica.serve._logs import log
from typica.serve._options import Options

HEALTH = ("/v2/health/live", "/v2/health/ready")
AT_ONCE = 8  # bodies of the largest size that may be in memory


class RefusedError(Exception):
    """A request that is refused, and why."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.headers = status, dict(headers or {})


@dataclass
class Guard:
    """Lets those requests through to `app` that may come, with their whole body."""

    app: ASGIApp
    options: Options
    _held: int = 0  # bytes of bodies that are in memory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = _Answer(send)
        began = time.monotonic()
        size = 0
        try:
            headers = Headers(scope=scope)
            self._check(scope, headers)
            body = await self._body(headers, receive)
            size = len(body)
            await self._pass_on(scope, body, receive, answer)
        except RefusedError as refusal:
            await answer.say(refusal.status, str(refusal), refusal.headers)
        except Exception as error:  # whatever it is, the caller hears of it and the server goes on
            log(
                "internal error", level="error", reason=repr(error)[:500], kind=type(error).__name__
            )
            await answer.say(500, "internal error; the server's log says which", {})
        facts = {"method": scope["method"], "path": scope["path"][:200], "status": answer.status}
        if scope["path"] not in HEALTH:
            log("request", **facts, bytes=size, seconds=round(time.monotonic() - began, 4))

    def _check(self, scope: Scope, headers: Headers) -> None:
        if scope["path"] in HEALTH:
            return
        check_token(headers.get("authorization", ""), self.options.token)
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            raise RefusedError(403, "a request from another site's page; send it from here")
        if headers.get("content-encoding", "identity") != "identity":
            raise RefusedError(415, "a compressed body; send it as it is")

    async def _body(self, headers: Headers, receive: Receive) -> bytes:
        """Return the whole body; refuse one that is too long before it is in memory."""
        most = self.options.limits.body
        told = headers.get("content-length", "")
        if told.isdigit() and int(told) > most:
            raise RefusedError(413, f"a body of {told} bytes; send at most {most:,}")
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise RefusedError(400, "the body ended too early")
            part = message.get("body", b"")
            size += len(part)
            if size > most:
                raise RefusedError(413, f"a body of more than {most:,} bytes; send less")
            if self._held + size > AT_ONCE * most:
                raise RefusedError(503, "too much is being sent at once; try again soon")
            parts.append(part)
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _pass_on(self, scope: Scope, body: bytes, receive: Receive, answer: _Answer) -> None:
        self._held += len(body)
        sent = False

        async def replay() -> Message:
            nonlocal sent
            if sent:
                return await receive()
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        try:
            await self.app(scope, replay, answer)
        finally:
            self._held -= len(body)


class _Answer:
    """Sends an answer on, and knows what it was; 503 says when to come again."""

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
        raise RefusedError(401, "no token, or another; send Authorization: Bearer TOKEN", {
            "www-authenticate": asks
        })  # fmt: skip


def _password(encoded: str) -> str:
    try:
        pair = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return pair.partition(":")[2]
