"""What docs/deploy.md says of the server, done as it stands there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from helpers.serving import Serving

PAGE = (Path(__file__).parents[2] / "docs" / "deploy.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## Serve\n") : PAGE.index("## The page of `typica serve`")]
WIDTH = 16  # of this server's rows; the page's have 4


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)


def here(code: str, server: Serving) -> str:
    """Return code of the page for this server: its ports, and rows of its width."""
    row = ", ".join(["0.5"] * WIDTH)
    code = (
        code.replace("0.1, 0.9, 0.4, 0.2", row)
        .replace("[1, 4]", f"[1, {WIDTH}]")
        .replace("(5, 4)", f"(5, {WIDTH})")
    )
    return code.replace("localhost:8080", f"127.0.0.1:{server.port}").replace(
        "localhost:8081", f"127.0.0.1:{server.grpc_port}"
    )


def test_curl(server: Serving, known, tmp_path: Path) -> None:
    (tmp_path / "cat.png").write_bytes(known.photos[0])
    (tmp_path / "dog.png").write_bytes(known.photos[1])
    [code] = blocks("sh")
    commands = here(code, server).replace("\\\n", " ").strip().splitlines()
    assert len(commands) == 4
    for command in commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        answer = json.loads(done.stdout)
        assert "error" not in answer and ("results" in answer or "outputs" in answer), command
    assert (
        "explanation"
        in subprocess.run(
            ["bash", "-c", commands[1]], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout
    )


def test_tritonclient(server: Serving) -> None:
    [code] = blocks("py")
    done = subprocess.run(
        [sys.executable, "-c", here(code, server)], capture_output=True, text=True, check=True
    )
    assert re.match(r"\[(True|False|\s)+\] \[[\d.\s]+\]", done.stdout)


def test_outputs_and_metrics_are_those_of_the_tables(server: Serving) -> None:
    outputs = {output["name"] for output in server.ask("/v2/models/ctm").json()["outputs"]}
    table = SECTION[SECTION.index("| output |") : SECTION.index("### On KServe")]
    assert set(re.findall(r"`(\w+)`", table)) == outputs
    told = {name.partition("{")[0] for name in server.metrics() if name.startswith("typica_")}
    told = {
        re.sub(r"_(bucket|sum|count)$", "", name) for name in told if not name.endswith("_created")
    }
    table = SECTION[SECTION.index("| metric |") : SECTION.index("A dashboard for Grafana")]
    assert set(re.findall(r"`(typica_\w+)", table)) == told


@pytest.mark.parametrize("block", blocks("yaml"))
def test_manifests_are_yaml(block: str) -> None:
    for document in yaml.safe_load_all(block):
        assert "kind" in document or "scrape_configs" in document
