"""Print the lowest versions that pyproject.toml declares: of the core, and of the extras named."""

import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
groups = [project["dependencies"], *map(project["optional-dependencies"].get, sys.argv[1:])]
print("\n".join(line.replace(">=", "==") for group in groups for line in group))
