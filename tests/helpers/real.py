"""Where the real CIFAR-10 features lie, if they are there."""

from __future__ import annotations

import os
from pathlib import Path

# Beside the project, or where this variable says.
REAL = Path(os.environ.get("TYPICA_REAL", Path(__file__).parents[3] / "shared" / "real"))
