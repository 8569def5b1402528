"""Where the hostile files lie, if they are there; they are no part of the project."""

from __future__ import annotations

import os
from pathlib import Path

# Beside the project, or where this variable says.
ATTACK = Path(os.environ.get("TYPICA_ATTACK", Path(__file__).parents[3] / "shared" / "attack"))
