"""`POST /score`: images as a browser or curl sends them, or rows of features; verdicts in rows.

`?explain=1` adds why; `?preview=1` judges what is not part of the stream, such as an unfinished
drawing: neither the monitor nor the metrics count it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from python_multipart.multipart import parse_options_header
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

from typica.arrays import AnyArray
from typica.as_json import json_values
from typica.decide import explain
from typica.errors import InputError
from typica.serve._infer import beside
from typica.serve._json import Json, parsed
from typica.serve._models import Models
from typica.serve._runtime import Judged, Runtime
from typica.serve._tensors import numbers_of
from typica.verdicts import Verdicts

FILES = 256  # images of one request
FLAGS = {"1": True, "true": True, "0": False, "false": False}
Row = dict[str, Any]


async def score(request: Request, models: Models) -> Json:
    """Answer with one result per input; an image that cannot be read has an error in its place."""
    runtime = models.get(request.query_params.get("model"))
    asked = _Asked(_yes(request, "explain"), not _yes(request, "preview"))
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = await request.body()
        rows = await beside(len(body), _features, body)
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
    return Json(answer, status_code=200 if readable else 400)


class _Asked(NamedTuple):
    """What a request wants. counted: whether it is part of the live stream."""

    explained: bool
    counted: bool


def _yes(request: Request, name: str) -> bool:
    asked = request.query_params.get(name, "0")
    if asked not in FLAGS:
        raise InputError(f"{name}={asked[:20]}; pass 1 or 0.")
    return FLAGS[asked]


class UnknownKindError(InputError):
    """A body of a type that is not accepted here."""


def _features(body: bytes) -> AnyArray:
    """Return the rows in `{"features": [[...], ...]}`."""
    values = parsed(body)
    if not isinstance(values, dict) or "features" not in values:
        raise InputError('a body that is not {"features": [[...], ...]}; send rows.')
    return numbers_of(values["features"], "features").astype(np.float64)


async def _files(request: Request) -> list[tuple[str, bytes]]:
    """Return the names and bytes of the files in a form, which is in memory already."""
    await request.body()  # kept, so that it can be looked at again
    parser = MultiPartParser(request.headers, request.stream(), max_files=FILES, max_fields=FILES)
    parser.spool_max_size = sys.maxsize  # images are not written to disk
    try:
        form = await parser.parse()
    except (MultiPartException, ValueError) as error:  # ValueError: of python-multipart
        reason = getattr(error, "message", "") or str(error)
        raise InputError(f"a form that cannot be read ({reason[:200]}); send it again.") from None
    if not await _is_whole(request):
        raise InputError("a form that is cut short; send it with the boundary at its end.")
    files = []
    for _, value in form.multi_items():
        if isinstance(value, UploadFile):
            files.append((value.filename or "image", await value.read()))
    await form.close()
    if not files:
        raise InputError("a form without files; send one or more images.")
    return files


async def _is_whole(request: Request) -> bool:
    """Tell whether a form has its last boundary; without it the last file would not be there."""
    _, options = parse_options_header(request.headers["content-type"])
    end = b"--" + options[b"boundary"] + b"--"
    return end in (await request.body())[-len(end) - 1000 :]


async def _scored(runtime: Runtime, files: Sequence[tuple[str, bytes]], asked: _Asked) -> list[Row]:
    """Return one result per file, in their order."""
    served = runtime.served
    served.check_images()
    names = [name for name, _ in files]
    results: list[Row] = [{"file": name} for name in names]
    with runtime.room(len(files), asked.counted):
        images = await runtime.prepare(served, [data for _, data in files], names)
        readable = []
        for place, image in enumerate(images):
            if isinstance(image, InputError):
                results[place]["error"] = str(image)
            else:
                readable.append(place)
        if not readable:
            return results
        pixels = [images[place] for place in readable]
        judged = await runtime.judge_pixels(served, pixels, asked.counted)
    told = await _told(runtime, judged, asked.explained)
    for place, row in zip(readable, told, strict=True):
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
    """Return the server's answer on each row: `Verdicts.to_dict`, threshold, classes, as JSON."""
    names = (
        "verdict", "score", "threshold", "p_value", "nearest", "similarity", "runner_up",
        "runner_up_similarity", "margin", "why",
    )  # fmt: skip
    columns = verdicts.to_dict(names)
    rows = []
    for place in range(len(verdicts)):
        row: Row = dict.fromkeys(names)
        row |= {name: json_values(column[place]) for name, column in columns.items()}
        row["classes"] = _matched_classes(row)
        rows.append(row)
    return rows


def _matched_classes(row: Row) -> list[Row]:
    """Return the classes in the answer to a request: those that match best, the best first."""
    found = []
    for name, similarity in (("nearest", "similarity"), ("runner_up", "runner_up_similarity")):
        if row[name] is not None:
            found.append({"name": row[name], "similarity": row[similarity]})
    return found
