"""Where a server listens, whom it answers, and how much it takes before it says no."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path

from typica.checks import is_whole
from typica.errors import InputError, border, given

LOOPBACK = "127.0.0.1"
GRACE = 60.0  # seconds that accepted requests may take after a signal
TOKEN_LENGTH = 16  # the fewest characters of a token: shorter ones can be guessed
TOKEN_FORM = f"{TOKEN_LENGTH} or more letters and digits, such as `openssl rand -hex 32` prints"


@dataclass(frozen=True)
class Limits:
    """How much a server takes before it says no.

    Parameters
    ----------
    body
        Bytes of one request.
    pixels
        Pixels of one image.
    queue
        Inputs that wait for one detector.
    batch
        Rows that are judged at once.
    images
        Images that go through the network at once.
    """

    body: int = 64 * 2**20
    pixels: int = 2**26
    queue: int = 1024
    batch: int = 1024
    images: int = 8

    @border
    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{given(limit.name, value)}; pass a whole number of 1 or more.")


@dataclass(frozen=True)
class Options:
    """Where a server listens, and whom it answers.

    Parameters
    ----------
    host
        The address; by default, only this machine is answered.
    port, grpc_port, metrics_port
        0 takes one that is free.
    token
        What every caller must know, except for health checks: 16 characters or more without
        spaces. None asks for none.
    limits
        How much it takes before it says no.
    """

    host: str = LOOPBACK
    port: int = 8080
    grpc_port: int = 8081
    metrics_port: int = 8082
    token: str | None = None
    limits: Limits = field(default_factory=Limits)

    @border
    def __post_init__(self) -> None:
        if not isinstance(self.host, str) or not self.host:
            raise InputError(f"{given('host', self.host)}; pass an address, such as {LOOPBACK}.")
        if self.token is not None and not is_token(self.token):
            raise InputError(f"token: not a token; pass {TOKEN_FORM}.")  # which stays secret
        self._check_ports()

    def page_at(self, port: int) -> str:
        """Return the address of the page, for a browser, at the port that was taken.

        >>> Options().page_at(8080), Options(host="::1").page_at(8080)
        ('http://127.0.0.1:8080/', 'http://[::1]:8080/')
        """
        return f"http://{host_and_port(self.host, port)}/"

    def _check_ports(self) -> None:
        named = {"port": self.port, "grpc_port": self.grpc_port, "metrics_port": self.metrics_port}
        for name, value in named.items():
            if not is_whole(value) or not 0 <= value < 2**16:
                raise InputError(f"{given(name, value)}; pass a number from 0 to 65535.")
        taken = [value for value in named.values() if value]
        if len(set(taken)) < len(taken):
            raise InputError("two of the ports are the same; pass three different ones, or 0.")


def host_and_port(host: str, port: int) -> str:
    """Return where a server listens, as one text, with brackets around an address with colons."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_token(value: object) -> bool:
    """Tell whether a value can be a token: it cannot be guessed, and a header can hold it.

    >>> is_token("0123456789abcdef"), is_token("short"), is_token(""), is_token("two words" * 2)
    (True, False, False, False)
    """
    if not isinstance(value, str) or len(value) < TOKEN_LENGTH:
        return False
    return value.isascii() and value.isprintable() and " " not in value


def read_token(path: str | Path) -> str:
    """Return the token in a file: its only line, of 16 printable characters or more."""
    try:
        token = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: no token can be read ({error}); check the file.") from None
    if not is_token(token):
        raise InputError(f"{path}: not a token; write one line of {TOKEN_FORM}.")
    return token
