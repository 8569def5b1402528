"""`POST /v2/models/NAME/infer`: tensors as JSON values, or as bytes behind the JSON.

MLServer lacks the latter. A request says with `Inference-Header-Content-Length` how long its JSON
is, and each input with `binary_data_size` how many of the bytes behind it are its own; an answer
does the same. Both kinds are read here, so that a body means the same either way, and a long one
is read without blocking other requests.
"""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from mlserver.handlers import DataPlane
from mlserver.types import InferenceRequest, InferenceResponse, RequestInput
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from typica.errors import InputError
from typica.serve._json import parsed
from typica.serve._tensors import from_bytes, from_values, to_bytes

HEADER = "inference-header-content-length"
OCTETS = "application/octet-stream"
LONG = 2**16  # bytes; a body of this length or more is read in a thread of its own


async def infer(request: Request, plane: DataPlane) -> Response:
    """Answer a request of the Open Inference Protocol."""
    body, told = await request.body(), request.headers.get(HEADER)
    header, payload = await beside(len(body), _read, body, told)
    answer = await plane.infer(payload, request.path_params["name"])
    return _response(answer, _wanted(header))


async def beside(size: int, function: Any, *arguments: Any) -> Any:
    """Return what a function makes of a body, in another thread if the body is long."""
    if size < LONG:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


def _read(body: bytes, told: str | None) -> tuple[dict[str, Any], InferenceRequest]:
    """Return the JSON of a request, and the request with its tensors as arrays."""
    end = len(body) if told is None else _length(told, len(body))
    header = parsed(body[:end])
    if not isinstance(header, dict) or not isinstance(header.get("inputs"), list):
        raise InputError("the JSON has no inputs; send a list of them.")
    return header, _payload(header, memoryview(body)[end:])


def _length(told: str, size: int) -> int:
    if not (told.isascii() and told.isdigit() and len(told) < 20) or int(told) > size:
        raise InputError(f"{HEADER} is {told[:20]!r}; pass how many bytes the JSON has.")
    return int(told)


def _payload(header: dict[str, Any], raw: memoryview) -> InferenceRequest:
    """Return the request with its tensors, read from the JSON values or from the bytes."""
    outlines, parts, place = [], [], 0
    for number, given in enumerate(header["inputs"]):
        size = _size(given)
        part: Any = given.get("data") if isinstance(given, dict) else None
        if size is not None:
            part = raw[place : place + size]
            if len(part) < size:
                raise InputError(f"input {number}: {size} bytes, but fewer came; send all.")
            place += size
        elif isinstance(given, dict) and "data" not in given:
            raise InputError(f"input {number} has no data; send values, or binary_data_size.")
        parts.append(part)
        outlines.append({**given, "data": []} if isinstance(given, dict) else given)
    if place != len(raw):
        raise InputError(f"{len(raw) - place} bytes belong to no input; send binary_data_size.")
    payload = _checked({**header, "inputs": outlines})
    payload.inputs = [_filled(*pair) for pair in zip(payload.inputs, parts, strict=True)]
    return payload


def _checked(outline: dict[str, Any]) -> InferenceRequest:
    """Return a request whose tensors are still empty."""
    try:
        return InferenceRequest.model_validate(outline)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{place}: {first['msg']}; follow the protocol.") from None


def _filled(given: RequestInput, part: Any) -> RequestInput:
    """Return an input with its tensor as an array."""
    datatype = getattr(given.datatype, "value", given.datatype)
    read = from_bytes if isinstance(part, memoryview) else from_values
    values = read(part, given.name, datatype, given.shape)
    return RequestInput.model_construct(
        name=given.name, shape=given.shape, datatype=given.datatype, data=values
    )


def _size(given: Any) -> int | None:
    """Return how many bytes behind the JSON are an input's; None if its data is in the JSON."""
    parameters = given.get("parameters") if isinstance(given, dict) else None
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
        raise InputError(f"binary_data_size is {str(size)[:20]!r}; pass a number of bytes.")
    return size


def _wanted(header: dict[str, Any]) -> dict[str, bool] | bool:
    """Return which outputs are wanted as bytes, by name; or whether all are."""
    parameters = header.get("parameters")
    everything = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    outputs = header.get("outputs")
    if not isinstance(outputs, list) or not outputs:
        return everything
    wanted = {}
    for output in outputs:
        own = output.get("parameters") if isinstance(output, dict) else None
        asked = own.get("binary_data", everything) if isinstance(own, dict) else everything
        wanted[output["name"]] = asked is True
    return wanted


def _response(answer: InferenceResponse, wanted: dict[str, bool] | bool) -> Response:
    """Return the answer, some of its tensors behind the JSON."""
    told = answer.model_dump(exclude_none=True, exclude={"parameters"})
    behind = []
    for output in told["outputs"]:
        datatype = getattr(output["datatype"], "value", output["datatype"])
        output["datatype"] = datatype
        binary = wanted if isinstance(wanted, bool) else wanted.get(output["name"], False)
        if binary:
            raw = to_bytes(output.pop("data"), datatype)
            output["parameters"] = {"binary_data_size": len(raw)}
            behind.append(raw)
        else:
            output["data"] = [_response_value(value) for value in output["data"]]
    header = json.dumps(told, allow_nan=False).encode()
    if not behind:
        return Response(header, media_type="application/json")
    headers = {HEADER: str(len(header))}
    return Response(header + b"".join(behind), media_type=OCTETS, headers=headers)


def _response_value(value: Any) -> Any:
    """Return a response's value as JSON has it, which knows neither bytes nor NaN nor infinity."""
    if isinstance(value, bytes):
        return value.decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value
