"""Print how far from its limits the code is: ratios against a baseline measured in the same run."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

MODULES = sorted(
    path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("run", "timing")
)


def main() -> int:
    missed = 0
    for module in sys.argv[1:] or MODULES:
        for what, reached, target, direction in importlib.import_module(module).run():
            good = reached <= target if direction == "at most" else reached >= target
            missed += not good
            print(
                f"{what:<74} {reached:6.2f}  {direction} {target:g}  {'ok' if good else 'MISSED'}",
                flush=True,
            )
    return missed


if __name__ == "__main__":
    sys.exit(main() > 0)
