"""Where a server listens."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

from typica.errors import InputError, given


@contextlib.contextmanager
def bound(host: str, port: int, name: str) -> Iterator[socket.socket]:
    """Hold a socket that listens at an address; refuse one that is taken."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise InputError(
            f"{given('host', host)}, {given(name, port)}: cannot be listened on "
            f"({error.strerror or error}); choose another."
        ) from None
    with made:
        # Connections inherit it. Without it an answer's body waits until its headers are
        # acknowledged, 40 ms; asyncio sets it only if a socket names its protocol.
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield made
