"""Put the report together: one HTML file with its style, its script, its images and its data inside."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from PIL import Image, UnidentifiedImageError

import typica
from typica.bench.averages import sets_in_common
from typica.bench.report.experiments import Section, analysis_html, experiment_sections
from typica.bench.report.folder import BenchResult, number, open_result
from typica.bench.report.html import percent, plain, typeset
from typica.bench.report.payload import EXACT_UP_TO, payload, script_json
from typica.bench.report.tables import (
    LABELS,
    detail_table,
    heat_map,
    main_table,
    paper_table,
    parameter_table,
)
from typica.errors import InputError
from typica.files import atomic_path
from typica.metrics import CONVENTIONS

KINDS = {  # of a gallery's images -> heading, and what they are
    "typical": ("Most typical", "In-distribution images with the highest scores."),
    "borderline": ("Borderline", "Images whose scores lie nearest to the threshold."),
    "missed": ("Missed", "OOD images that are accepted as typical."),
    "false alarm": ("False alarms", "In-distribution images that are rejected."),
}
LARGEST_PICTURE = (
    256  # pixels a side; larger ones are scaled down, for they are shown at half of that
)


def write_report(result_folder: str | os.PathLike[str], out_html: str | os.PathLike[str]) -> Path:
    """Write the report of a benchmark's result folder as one HTML file that needs no network; return its path.

    The same folder gives the same bytes.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> results = '{"ctm": {"ood": {"svhn": {"auroc": 0.99}}}}'
    >>> _ = (folder / "result.json").write_text('{"suite": "my", "protocol": {}, "results": ' + results + "}")
    >>> write_report(folder, folder / "report.html").name
    'report.html'
    """
    page = build(open_result(result_folder))
    with atomic_path(out_html) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return Path(out_html)


def build(result: BenchResult) -> str:
    """Return the page of a result."""
    data = payload(result)
    gallery = _gallery(result)
    experiments = experiment_sections(result)
    analysis = analysis_html(result)
    sections = {
        "results": "Results",
        "map": "Heat map",
        "threshold": "Threshold" if data["methods"] else "",
        "calibration": "Calibration" if data["methods"] else "",
        "gallery": "Gallery" if gallery else "",
        **{key: section.name for key, section in experiments.items()},
        "analysis": "Analysis" if data["histograms"] or data["curves"] or analysis else "",
        "detail": "Details",
        "protocol": "Protocol",
    }
    parts = {
        "title": escape(result.title),
        "suite": escape(str(result.document.get("suite") or "")),
        "nav": "".join(
            f'<li><a href="#{key}">{name}</a></li>' for key, name in sections.items() if name
        ),
        "tiles": _tiles(result),
        "main_table": main_table(result) + paper_table(result),
        "main_note": _main_note(result),
        "fpr_name": result.fpr_name,
        "heat_auroc": heat_map(result, "auroc"),
        "heat_fpr": heat_map(result, "fpr"),
        "no_scores": "hidden" if not data["methods"] else "",
        "score_note": _score_note(result, data),
        "gallery": gallery,
        "no_gallery": "" if gallery else "hidden",
        "experiments": "\n\n".join(_section(key, section) for key, section in experiments.items()),
        "analysis_tables": f'<div class="pair">{analysis}</div>' if analysis else "",
        "no_analysis": "" if sections["analysis"] else "hidden",
        "detail_table": detail_table(result),
        "parameter_table": parameter_table(result),
        "protocol": _protocol(result),
        "skipped": _skipped(result),
        "version": typica.__version__,
        "css": _source("report.css"),
        "js": _source("report.js"),
        "data": script_json(data),
    }
    return Template(_source("report.html")).substitute(parts)


def _section(key: str, section: Section) -> str:
    return (
        f'<section id="{key}" aria-labelledby="{key}-title">\n  <h2 id="{key}-title">{escape(section.heading)}</h2>\n'
        f'  <p class="lead">{escape(section.lead)}</p>\n  {section.html}\n</section>'
    )


def _source(name: str) -> str:
    return (resources.files(__package__) / name).read_text(encoding="utf-8")


def _tiles(result: BenchResult) -> str:
    """The few numbers to see first."""
    tiles = []
    count = len(result.sets)
    covered = f"mean of {count} OOD {'set' if count == 1 else 'sets'}"
    for metric, label in {"auroc": "Best AUROC", "fpr": f"Lowest {result.fpr_name}"}.items():
        values = {m: v for m in result.methods if (v := result.value(m, None, metric)) is not None}
        if values:
            best = (max if LABELS[metric].endswith("↑") else min)(
                values, key=lambda name: values[name]
            )
            tiles.append((label, f"{percent(values[best])} %", f"{best}, {covered}"))
    accuracy = {
        key: v for key, value in result.part("accuracy").items() if (v := number(value)) is not None
    }
    if accuracy:
        first, *others = accuracy
        note = ", ".join(f"{name} {percent(accuracy[name])} %" for name in others) or first
        tiles.append(("Accuracy of the network", f"{percent(accuracy[first])} %", note))
    sizes = result.part("n")
    test = (
        f"{sizes['test']:,} ID test inputs"
        if isinstance(sizes.get("test"), int)
        else ", ".join(result.sets)
    )
    tiles.append(("Methods and OOD sets", f"{len(result.methods)} on {len(result.sets)}", test))
    return "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(value)}</dd><dd class=note>{escape(note)}</dd></div>"
        for label, value, note in tiles
    )


def _main_note(result: BenchResult) -> str:
    notes = [
        f"{result.fpr_name}: share of OOD inputs accepted where {100 * result.tpr:g} % of ID are kept. "
        f"{CONVENTIONS[result.convention]} ★ marks the best of its column."
    ]
    if any(result.value(m, None, "auroc_std") is not None for m in result.methods):
        notes.append("± is the standard deviation over random subsets.")
    if sets_in_common(result.part("published"), result.sets):
        notes.append("Published means cover the same OOD sets as ours beside them.")
        notes.append("Differences are in percentage points, ours minus published.")
    return escape(" ".join(notes))


def _score_note(result: BenchResult, data: Mapping[str, Any]) -> str:
    """Say what the interactive numbers are counted from, where that is not every score of every method."""
    notes = []
    if any(
        (result.value(m, ood, "subsets") or 1) > 1 for m in result.methods for ood in result.sets
    ):
        notes.append(
            "The tables average over random subsets of large sets; here every input is counted."
        )
    without = sorted(set(result.methods) - {method["name"] for method in data["methods"]})
    if without:
        notes.append(f"No scores were kept for {', '.join(without)}.")
    large = {part["name"] for m in data["methods"] for part in m["sets"] if part["n"] > EXACT_UP_TO}
    large |= {"the ID test set" for m in data["methods"] if m["test"]["n"] > EXACT_UP_TO}
    if large:
        notes.append(
            f"{', '.join(sorted(large))}: represented by {EXACT_UP_TO:,} evenly spread order statistics, "
            f"so shares of it are exact to {100 / EXACT_UP_TO:.3f} percentage points only."
        )
    return escape(" ".join(notes))


def _gallery(result: BenchResult) -> str:
    """The images by kind, each with its set, its nearest class and its score."""
    groups: dict[str, list[str]] = {}
    entries = [
        e for e in result.gallery if isinstance(e, Mapping) and isinstance(e.get("file"), str)
    ]
    for entry in entries:
        groups.setdefault(str(entry.get("kind", "other")), []).append(_figure(result, entry))
    methods = sorted({str(entry["method"]) for entry in entries if entry.get("method")})
    parts = []
    for kind in [*(k for k in KINDS if k in groups), *(k for k in groups if k not in KINDS)]:
        heading, note = KINDS.get(kind, (kind, ""))
        figures = "".join(groups[kind])
        parts.append(
            f"<div><h3>{escape(heading)}</h3><p class=muted>{note}</p><div class=gallery>{figures}</div></div>"
        )
    lead = f"<p class=lead>Scores of {escape(', '.join(methods))}.</p>" if methods else ""
    return f'{lead}<div class="pair">{"".join(parts)}</div>' if parts else ""


def _figure(result: BenchResult, entry: Mapping[str, Any]) -> str:
    origin, nearest, label = str(entry.get("set", "")), entry.get("nearest"), entry.get("label")
    score = number(entry.get("score"))
    shown = "" if score is None else typeset(f"{score:.4g}")
    facts = {"nearest": "" if nearest is None else str(nearest), "score": shown}
    if label is not None:
        facts = {"is": str(label)} | facts
    uri, small = _picture(result.folder, entry["file"])
    known = ", ".join(f"{key} {value}" for key, value in facts.items() if value)
    alt = f"{entry.get('kind', 'picture')} from {'the ID test set' if origin == 'test' else origin}: {known}"
    lines = "".join(
        f"<dt>{key}</dt><dd{' class=num' if key == 'score' else ''}>{escape(value)}</dd>"
        for key, value in facts.items()
        if value
    )
    name = escape(str(entry.get("name") or ""))
    return (
        f'<figure><img src="{uri}" alt="{escape(alt)}"{" class=small" if small else ""}>'
        f'<figcaption><span class="set" title="{name}">{"ID test" if origin == "test" else escape(origin)}</span>'
        f"<dl>{lines}</dl></figcaption></figure>"
    )


def _picture(folder: Path, name: str) -> tuple[str, bool]:
    """Return an image as a data URI, and whether it is so small that its pixels should stay visible."""
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(
            f"{folder}/gallery.json: names {name!r}, which lies outside; copy it into the folder."
        )
    try:
        with Image.open(path) as image:
            image.load()
            small = max(image.size) < LARGEST_PICTURE // 4
            if (
                image.format in ("PNG", "JPEG", "WEBP", "GIF")
                and max(image.size) <= LARGEST_PICTURE
            ):
                mime, content = f"image/{image.format.lower()}", path.read_bytes()
            else:
                reduced = image.convert("RGB")
                reduced.thumbnail((LARGEST_PICTURE, LARGEST_PICTURE))
                buffer = io.BytesIO()
                reduced.save(buffer, "JPEG", quality=85)
                mime, content = "image/jpeg", buffer.getvalue()
    except (OSError, UnidentifiedImageError, ValueError) as error:
        raise InputError(
            f"{path}: the gallery's image cannot be read ({error}); run the benchmark again."
        ) from None
    return f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}", small


def _protocol(result: BenchResult) -> str:
    rows = {"suite": result.document.get("suite"), **result.part("protocol")}
    rows |= {
        f"accuracy, {key}": f"{percent(v)} %"
        for key, a in result.part("accuracy").items()
        if (v := number(a)) is not None
    }
    rows |= {
        f"inputs in {key}": f"{n:,}" if isinstance(n, int) else n
        for key, n in result.part("n").items()
    }
    near = result.document.get("near")
    rows |= {"near OOD sets": near} if isinstance(near, list) and near else {}
    lines = [
        f"<div><dt>{escape(str(k))}</dt><dd>{escape(plain(v))}</dd></div>"
        for k, v in rows.items()
        if v is not None
    ]
    return f"<dl class=facts>{''.join(lines)}</dl>"


def _skipped(result: BenchResult) -> str:
    skipped = result.part("skipped")
    if not skipped:
        return ""
    lines = [
        f"<div><dt>{escape(name)}</dt><dd>{escape(plain(why))}</dd></div>"
        for name, why in skipped.items()
    ]
    return f"<h3>Skipped</h3><dl class=facts>{''.join(lines)}</dl>"
