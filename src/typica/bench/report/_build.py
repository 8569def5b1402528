"""Put the report together: one HTML file with its style, its script, its images and its data."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from PIL import Image, UnidentifiedImageError

import typica
from typica.bench._folder import ResultFolder, open_result
from typica.bench._gallery import Shown
from typica.bench._record import Record, number
from typica.bench._render import to_html
from typica.bench._templates import percent, render, short, source
from typica.bench.report._experiments import Section, analysis_sections, experiment_sections
from typica.bench.report._payload import EXACT_UP_TO, payload, script_json
from typica.bench.report._tables import (
    best_row,
    detail_table,
    heat_map,
    main_table,
    paper_table,
    parameter_table,
)
from typica.errors import InputError
from typica.files import atomic_path
from typica.metrics import CONVENTIONS

KINDS: Final = {  # of a gallery's images -> heading, and what they are
    "typical": ("Most typical", "In-distribution images with the highest scores."),
    "borderline": ("Borderline", "Images whose scores lie nearest to the threshold."),
    "missed": ("Missed", "OOD images that are accepted as typical."),
    "false alarm": ("False alarms", "In-distribution images that are rejected."),
}
LARGEST_IMAGE = 256  # pixels a side; larger ones are scaled down, as they are shown at half of it


def write_report(result_folder: str | os.PathLike[str], out_html: str | os.PathLike[str]) -> Path:
    """Write the report of a result folder as one HTML file that needs no network; return its path.

    The same folder gives the same bytes.

    >>> import json, tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> results = {"ctm": {"ood": {"svhn": {"auroc": 0.99}}}}
    >>> document = {"suite": "my", "protocol": {}, "results": results}
    >>> _ = (folder / "result.json").write_text(json.dumps(document))
    >>> write_report(folder, folder / "report.html").name
    'report.html'
    """
    page = build(open_result(result_folder))
    with atomic_path(out_html) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return Path(out_html)


def build(result: ResultFolder) -> str:
    """Return the page of a result."""
    record, data = result.record, payload(result)
    gallery, analysis = _gallery(result), analysis_sections(result)
    experiments = experiment_sections(result)
    filled = {
        "threshold": data["methods"],
        "calibration": data["methods"],
        "gallery": gallery.kinds,
        "analysis": data["histograms"] or data["curves"] or analysis,
    }
    hidden = {key for key, content in filled.items() if not content}
    tables = [("main", main_table(record)), ("paper", paper_table(record))]
    parameters = parameter_table(record)
    return render(
        "report.html",
        record=record,
        version=typica.__version__,
        css=source("report.css"),
        js=source("report.js"),
        data=script_json(data),
        tiles=list(_tiles(record)),
        main_tables=[to_html(table, key) for key, table in tables if table is not None],
        main_note=_main_note(record),
        heat_maps=[heat_map(record, "auroc"), heat_map(record, "fpr")],
        hidden=hidden,
        navigation=_navigation(experiments, hidden),
        score_note=_score_note(record, data),
        gallery=gallery,
        experiments=experiments,
        analysis=analysis,
        to_html=to_html,
        detail_table=to_html(detail_table(record), "detail"),
        parameter_table=to_html(parameters, "params") if parameters is not None else "",
        facts=_facts(record),
    )


def _navigation(experiments: Sequence[Section], hidden: set[str]) -> dict[str, str]:
    """Return the sections that are shown, by key."""
    names = {"results": "Results", "map": "Heat map", "threshold": "Threshold"}
    names |= {"calibration": "Calibration", "gallery": "Gallery"}
    names |= {section.key: section.name for section in experiments}
    names |= {"analysis": "Analysis", "detail": "Details", "protocol": "Protocol"}
    return {key: name for key, name in names.items() if key not in hidden}


@dataclass(frozen=True)
class Tile:
    """A number to see first."""

    label: str
    value: str
    note: str


def _tiles(record: Record) -> Iterator[Tile]:
    count = len(record.sets)
    covered = f"mean of {count} OOD {'set' if count == 1 else 'sets'}"
    for metric, label in {"auroc": "Best AUROC", "fpr": f"Lowest {record.fpr_name}"}.items():
        if found := best_row(record, metric):
            row, value = found
            yield Tile(label, f"{percent(value)} %", f"{row}, {covered}")
    if record.accuracy:
        first, *others = record.accuracy
        beside = [f"{name} {percent(record.accuracy[name])} %" for name in others]
        accuracy = f"{percent(record.accuracy[first])} %"
        yield Tile("Accuracy of the network", accuracy, ", ".join(beside) or first)
    test = record.n.get("test")
    known = f"{test:,} ID test inputs" if isinstance(test, int) else ", ".join(record.sets)
    yield Tile("Methods and OOD sets", f"{len(record.rows)} on {count}", known)


def _main_note(record: Record) -> str:
    kept = f"{100 * record.protocol.tpr:g} % of ID are kept"
    notes = [
        f"{record.fpr_name}: share of OOD inputs accepted where {kept}.",
        CONVENTIONS[record.protocol.convention],
        "★ marks the best of its column.",
    ]
    spreads = [row.average["auroc"].std for row in record.rows.values() if "auroc" in row.average]
    if any(spread is not None for spread in spreads):
        notes.append("± is the standard deviation over random subsets.")
    if record.in_common:
        notes.append("Published means cover the same OOD sets as ours beside them.")
        notes.append("Differences are in percentage points, ours minus published.")
    return " ".join(notes)


def _score_note(record: Record, data: Mapping[str, Any]) -> str:
    """Say what the interactive numbers are counted from, where that is not every score."""
    notes = []
    subsets = [found.subsets or 1 for row in record.rows.values() for found in row.ood.values()]
    if any(count > 1 for count in subsets):
        notes.append(
            "The tables average over random subsets of large sets; here every input is counted."
        )
    without = sorted(set(record.rows) - {method["name"] for method in data["methods"]})
    if without:
        notes.append(f"No scores were kept for {', '.join(without)}.")
    if large := _thinned(data):
        notes.append(
            f"{', '.join(large)}: represented by {EXACT_UP_TO:,} evenly spread order statistics, "
            f"so shares of it are exact to {100 / EXACT_UP_TO:.3f} percentage points only."
        )
    return " ".join(notes)


def _thinned(data: Mapping[str, Any]) -> list[str]:
    large = set()
    for method in data["methods"]:
        if method["test"]["n"] > EXACT_UP_TO:
            large.add("the ID test set")
        large |= {part["name"] for part in method["sets"] if part["n"] > EXACT_UP_TO}
    return sorted(large)


def _facts(record: Record) -> dict[str, Any]:
    """Return what the numbers were measured on and how, by what it is called."""
    facts = {"suite": record.suite, **record.protocol.to_dict()}
    facts |= {f"accuracy, {key}": f"{percent(v)} %" for key, v in record.accuracy.items()}
    for key, n in record.n.items():
        facts[f"inputs in {key}"] = f"{n:,}" if isinstance(n, int) else n
    if record.near:
        facts["near OOD sets"] = record.near
    return facts


@dataclass(frozen=True)
class Figure:
    """An image of the gallery as the page shows it.

    small: whether it has so few pixels that they should stay visible.
    """

    shown: Shown
    uri: str
    small: bool

    @property
    def set_name(self) -> str:
        """The set of the image."""
        return "ID test" if self.shown.set == "test" else self.shown.set

    @property
    def facts(self) -> dict[str, str]:
        """What is known of the image."""
        score = number(self.shown.score)
        facts = {
            "is": self.shown.label or "",
            "nearest": self.shown.nearest or "",
            "score": "" if score is None else short(score),
        }
        return {key: value for key, value in facts.items() if value}

    @property
    def alt(self) -> str:
        """The image in words."""
        taken_from = "the ID test set" if self.shown.set == "test" else self.shown.set
        known = ", ".join(f"{key} {value}" for key, value in self.facts.items())
        return f"{self.shown.kind} from {taken_from}: {known}"


@dataclass
class Gallery:
    """The images by kind, and the methods whose scores they have."""

    methods: list[str]
    kinds: list[tuple[str, str, list[Figure]]] = field(default_factory=list)


def _gallery(result: ResultFolder) -> Gallery:
    groups: dict[str, list[Figure]] = {}
    for shown in result.gallery:
        uri, small = _data_uri(result.path, shown.file)
        groups.setdefault(shown.kind, []).append(Figure(shown, uri, small))
    gallery = Gallery(sorted({shown.method for shown in result.gallery if shown.method}))
    known = [kind for kind in KINDS if kind in groups]
    others = [kind for kind in groups if kind not in KINDS]
    for kind in known + others:
        heading, note = KINDS.get(kind, (kind, ""))
        gallery.kinds.append((heading, note, groups[kind]))
    return gallery


def _data_uri(folder: Path, name: str) -> tuple[str, bool]:
    """Return an image as a data URI, and whether it is small."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{folder}/gallery.json: names {name!r}, which lies outside; copy it into the folder."
        )
    try:
        with Image.open(path) as image:
            image.load()
            small = max(image.size) < LARGEST_IMAGE // 4
            mime, content = _encoded(image, path)
    except (OSError, UnidentifiedImageError, ValueError) as error:
        raise InputError(
            f"{path}: the gallery's image cannot be read ({error}); run the benchmark again."
        ) from None
    return f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}", small


def _encoded(image: Image.Image, path: Path) -> tuple[str, bytes]:
    """Return the MIME type and bytes of an image: its file's own, or of a smaller JPEG."""
    is_known = image.format in ("PNG", "JPEG", "WEBP", "GIF")
    if is_known and max(image.size) <= LARGEST_IMAGE:
        return f"image/{str(image.format).lower()}", path.read_bytes()
    reduced = image.convert("RGB")
    reduced.thumbnail((LARGEST_IMAGE, LARGEST_IMAGE))
    buffer = io.BytesIO()
    reduced.save(buffer, "JPEG", quality=85)
    return "image/jpeg", buffer.getvalue()
