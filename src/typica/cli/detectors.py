"""`typica detectors`."""

from __future__ import annotations

from typica.cli._app import new_app
from typica.cli._options import Json
from typica.cli._show import present, table
from typica.detectors import describe_detector, list_detectors

app = new_app()


@app.command(epilog="Example: typica detectors --json -")
def detectors(json_file: Json = None) -> None:
    """List the detectors and what they need."""
    described = {name: describe_detector(name) for name in list_detectors()}
    rows = []
    for name, entry in described.items():
        merges = "yes" if entry["mergeable"] else "no"
        rows.append([name, ", ".join(entry["needs"]), merges, entry["summary"]])
    columns = ["detector", "needs", "merges", "what it is"]
    present(described, json_file, table("", columns, rows, text=4))
