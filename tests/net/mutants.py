"""Count how many small faults in the code the tests find.

    .venv/bin/python tests/net/mutants.py --count 100 -o mutants.json

Each mutant changes one operator, comparison or number in `decide`, `calibration`, `metrics` or
`detectors`, drawn with a seed, in a copy of the repository. It is killed if a test of its package,
or of the contract, fails. Survivors are printed, to be looked at: some change nothing.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("decide", "calibration", "metrics", "detectors")
TESTS = {
    "decide": ["tests/decide"],
    "calibration": ["tests/calibration", "tests/decide"],
    "metrics": ["tests/core/test_metrics.py", "tests/core/test_fdr.py"],
    "detectors": ["tests/net", "tests/detectors", "tests/decide"],
}
SWAPS = {
    "Add": "-", "Sub": "+", "Mult": "/", "Div": "*", "Lt": "<=", "LtE": "<", "Gt": ">=", "GtE": ">",
    "Eq": "!=", "NotEq": "==", "And": "or", "Or": "and", "Is": "is not", "IsNot": "is",
}  # fmt: skip
SECONDS = 900


class Mutant(NamedTuple):
    """One changed piece of a line."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str


def mutants(path: Path) -> list[Mutant]:
    """Return all mutants of a file."""
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found: list[Mutant] = []
    name = str(path.relative_to(ROOT))

    def between(left: ast.expr, right: ast.expr, operator: ast.AST) -> None:
        if left.end_lineno != right.lineno or type(operator).__name__ not in SWAPS:
            return
        start, end = left.end_col_offset, right.col_offset
        gap = lines[right.lineno - 1].encode()[start:end].decode()
        if gap.strip("() "):
            after = gap.replace(gap.strip("() "), SWAPS[type(operator).__name__])
            found.append(Mutant(name, right.lineno, start, end, gap, after))

    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.BinOp):
            between(node.left, node.right, node.op)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            between(node.left, node.comparators[0], node.ops[0])
        elif isinstance(node, ast.BoolOp):
            between(node.values[0], node.values[1], node.op)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            start, end = node.col_offset, node.end_col_offset
            before = lines[node.lineno - 1].encode()[start:end].decode()
            found.append(Mutant(name, node.lineno, start, end, before, repr(node.value + 1)))
    return found


def is_killed(mutant: Mutant, copy: Path) -> bool:
    """Tell whether the tests of its package fail with a mutant."""
    path = copy / mutant.file
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    line = lines[mutant.line - 1].encode()
    changed = line[: mutant.start] + mutant.after.encode() + line[mutant.end :]
    lines[mutant.line - 1] = changed.decode()
    path.write_text("".join(lines), encoding="utf-8")
    package = Path(mutant.file).parts[2]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "--no-cov", "--numprocesses", "2"]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src"), "OMP_NUM_THREADS": "1"}
    try:
        ran = subprocess.run(
            [*command, *TESTS[package]],
            cwd=copy, env=environment, capture_output=True, timeout=SECONDS, check=False,
        )  # fmt: skip
        return ran.returncode != 0
    except subprocess.TimeoutExpired:
        return True
    finally:
        path.write_text(text, encoding="utf-8")


def main() -> None:
    """Draw mutants, try each, and print what survives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    files = [
        path for name in PACKAGES for path in sorted((ROOT / "src/typica" / name).rglob("*.py"))
    ]
    every = [mutant for path in files for mutant in mutants(path)]
    drawn = random.Random(options.seed).sample(every, options.count)
    killed: dict[str, bool] = {}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "typica"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "__pycache__", "site"))
        for number, mutant in enumerate(drawn, 1):
            told = f"{mutant.file}:{mutant.line} {mutant.before.strip()} -> {mutant.after.strip()}"
            killed[told] = is_killed(mutant, copy)
            print(
                f"{number}/{options.count} {'killed' if killed[told] else 'SURVIVED'} {told}",
                flush=True,
            )
    print(f"{sum(killed.values())} of {len(killed)} killed, of {len(every)} possible")
    if options.output is not None:
        options.output.write_text(json.dumps(killed, indent=1))


if __name__ == "__main__":
    main()
