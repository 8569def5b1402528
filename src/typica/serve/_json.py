"""Answers in JSON that any client can read."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse


class Json(JSONResponse):
    """JSON in ASCII: half of a character, which JSON can hold, comes back as it was sent."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
