"""`POST /score`: images as a browser or curl sends them, or rows of features; verdicts in rows.

`?explain=1` adds why; `?preview=1` judges what is no part of the stream, such as a drawing that is
not finished: neither the monitor nor the metrics count it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse

from typica.arrays import AnyArray
from typica.decide import explain
from typica.errors import InputError
from typica.exact import json_values
from typica.serve._models import Models
from typica.serve._runtime import Judged, Runtime
from typica.verdicts import Verdicts

FILES = 256  # images of one request
Row = dict[str, Any]


async def score(request: Request, models: Models) -> JSONResponse:
    """Answer with one result per input; an image that cannot be read has an error in its place."""
    runtime = models.get(request.query_params.get("model"))
    asked = _Asked(_yes(request, "explain"), not _yes(request, "preview"))
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        rows = _features(await request.body())
        judged = await runtime.judge(rows, asked.counted)
        results = await _told(runtime, judged, asked.explained)
    elif kind == "multipart/form-data":
        results = await _scored(runtime, await _files(request), asked)
    elif kind.startswith("image/") or kind == "application/octet-stream":
        results = await _scored(runtime, [("image", await request.body())], asked)
    else:
        raise UnknownKindError(
            f"content of type {kind[:80]!r}; send multipart/form-data, an image, or JSON."
        )
    readable = any("error" not in result for result in results)
    answer = {"model": runtime.name, "results": results}
    return JSONResponse(answer, status_code=200 if readable else 400)


class _Asked(NamedTuple):
    """What is wanted of a request. counted: whether it is part of the live stream."""

    explained: bool
    counted: bool


def _yes(request: Request, name: str) -> bool:
    return request.query_params.get(name, "") in ("1", "true")


class UnknownKindError(InputError):
    """A body of a type that is not taken here."""


def _features(body: bytes) -> AnyArray:
    """Return the rows in `{"features": [[...], ...]}`."""
    try:
        values = json.loads(body)["features"]
        rows = np.array(values, dtype=np.float64)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
        raise InputError('a body that is not {"features": [[...], ...]}; send rows.') from None
    return rows


async def _files(request: Request) -> list[tuple[str, bytes]]:
    """Return the names and bytes of the files in a form."""
    files = []
    async with request.form(max_files=FILES, max_fields=FILES) as form:
        for _, value in form.multi_items():
            if isinstance(value, UploadFile):
                files.append((value.filename or "image", await value.read()))
    if not files:
        raise InputError("a form without files; send one or more images.")
    return files


async def _scored(runtime: Runtime, files: Sequence[tuple[str, bytes]], asked: _Asked) -> list[Row]:
    """Return one result per file, in their order."""
    served = runtime.served
    served.check_images()
    results: list[Row] = [{"file": name} for name, _ in files]
    pixels, places = [], []
    for place, (name, data) in enumerate(files):
        try:
            pixels.append(await runtime.prepare(served, data, name))
            places.append(place)
        except InputError as error:
            results[place]["error"] = str(error)
    if pixels:
        judged = await runtime.judge_pixels(served, pixels, asked.counted)
        told = await _told(runtime, judged, asked.explained)
        for place, row in zip(places, told, strict=True):
            results[place] = row | results[place]
    return results


async def _told(runtime: Runtime, judged: Judged, explained: bool) -> list[Row]:
    rows = told_rows(judged.verdicts)
    if not explained:
        return rows
    stories = await asyncio.to_thread(
        explain, judged.served.estimator, judged.rows, bank=runtime.bank
    )
    for row, story in zip(rows, stories, strict=True):
        row["explanation"] = json_values({"text": str(story), **story.to_dict()})
    return rows


def told_rows(verdicts: Verdicts) -> list[Row]:
    """Return each verdict as JSON values: those of `Verdicts.to_dict`, threshold, classes."""
    names = (
        "verdict", "score", "threshold", "p_value", "nearest", "similarity", "runner_up",
        "runner_up_similarity", "margin", "why",
    )  # fmt: skip
    columns = verdicts.to_dict(names)
    rows = []
    for place in range(len(verdicts)):
        row: Row = dict.fromkeys(names)
        row |= {name: json_values(column[place]) for name, column in columns.items()}
        row["classes"] = _classes(row)
        rows.append(row)
    return rows


def _classes(row: Row) -> list[Row]:
    """Return the classes that match best, the best first."""
    found = []
    for name, similarity in (("nearest", "similarity"), ("runner_up", "runner_up_similarity")):
        if row[name] is not None:
            found.append({"name": row[name], "similarity": row[similarity]})
    return found
