"""JSON in and out: the body of a request, and answers that any client can read."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse

from typica.errors import InputError


def parsed(body: bytes) -> Any:
    """Return the JSON values of a body."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise InputError("a body that is not JSON; send JSON.") from None


class Json(JSONResponse):
    """JSON in ASCII: half of a character, which JSON can hold, comes back as it was sent."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
