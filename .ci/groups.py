"""Print the requirements of a dependency group, for pips that cannot install groups."""

import sys
import tomllib
from pathlib import Path

groups = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
print("\n".join(groups[sys.argv[1]]))
