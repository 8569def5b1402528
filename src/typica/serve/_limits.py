"""How much a server takes: of one request, of one image, in its queue, and at once."""

from __future__ import annotations

from dataclasses import dataclass, fields

from typica.errors import InputError, given


@dataclass(frozen=True)
class Limits:
    """How much a server takes before it says no.

    body: bytes of one request. pixels: of one image. queue: inputs that wait for one detector.
    batch: rows that are judged at once. images: that go through the network at once.
    """

    body: int = 64 * 2**20
    pixels: int = 2**26
    queue: int = 1024
    batch: int = 1024
    images: int = 8

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"{given(limit.name, value)}; pass a whole number of 1 or more.")
