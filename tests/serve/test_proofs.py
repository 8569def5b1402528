"""The OpenAPI document by schemathesis, and bodies that were broken at random.

The long run is `make fuzz-serve`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fuzz import send
from helpers.serving import Serving

CASES = 600
# Rows have the model's width and as many values as their shape says: JSON Schema cannot say that.
UNSAID = "positive_data_acceptance"


def test_the_document_tells_of_every_route(server: Serving) -> None:
    """Those that are asked without it are the page's own."""
    told = server.ask("/openapi.json").json()["paths"]
    for path, methods in told.items():
        for method in ("get", "post"):
            named = path.replace("{name}", "ctm") + ("?model=ctm" if path == "/score" else "")
            status = server.ask(named, None if method == "get" else b"{}").status
            assert (status in (404, 405)) == (method not in methods), (path, method, status)


def test_schemathesis_finds_nothing(server: Serving, tmp_path: Path) -> None:
    tool = str(Path(sys.executable).with_name("schemathesis"))
    options = [
        "--seed",
        "1",
        "--max-examples",
        "25",
        "--phases",
        "examples,coverage,fuzzing",
        "--exclude-checks",
        UNSAID,
    ]
    address = f"http://127.0.0.1:{server.port}/openapi.json"
    tried = subprocess.run(
        [tool, "run", address, *options, "--no-color"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,  # where it keeps what it has found
    )
    assert tried.returncode == 0, tried.stdout[-6000:] + tried.stderr[-2000:]
    assert not server.events("internal error")


def test_no_body_breaks_it(server: Serving) -> None:
    report = send(server, CASES, seed=1)
    assert sum(report.statuses.values()) == CASES
    assert report.statuses["200"] > CASES / 20  # some come through, or nothing deep is tried
    assert report.statuses["400"] > CASES / 5
    assert not server.events("internal error")
