"""Binary tensors over HTTP, which MLServer lacks: the bytes stand behind the JSON.

A request says with `Inference-Header-Content-Length` how long its JSON is, and each input with
`binary_data_size` how many of the bytes behind it are its own; an answer does the same.
"""

from __future__ import annotations

import json
import math
from typing import Any

from mlserver.handlers import DataPlane
from mlserver.types import InferenceRequest, InferenceResponse, RequestInput
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response

from typica.errors import InputError
from typica.serve._tensors import from_bytes, to_bytes

HEADER = "inference-header-content-length"
OCTETS = "application/octet-stream"


def is_binary(request: Request, body: bytes) -> bool:
    """Tell whether a request has bytes behind its JSON, or asks for an answer that does."""
    return HEADER in request.headers or b"binary_data" in body


async def infer_binary(request: Request, body: bytes, plane: DataPlane) -> Response:
    """Answer a request with binary tensors."""
    header, raw = _split(request, body)
    payload = _payload(header, raw)
    answer = await plane.infer(payload, request.path_params["name"])
    return _response(answer, _wanted(header))


def _split(request: Request, body: bytes) -> tuple[dict[str, Any], memoryview]:
    """Return the JSON of a request and the bytes behind it."""
    told = request.headers.get(HEADER, str(len(body)))
    if not told.isdigit() or int(told) > len(body):
        raise InputError(f"{HEADER} is {told[:20]!r}; pass how many bytes the JSON has.")
    end = int(told)
    try:
        header = json.loads(body[:end])
    except (ValueError, RecursionError):
        raise InputError("the body does not begin with JSON; send the header first.") from None
    if not isinstance(header, dict) or not isinstance(header.get("inputs"), list):
        raise InputError("the JSON has no inputs; send a list of them.")
    return header, memoryview(body)[end:]


def _payload(header: dict[str, Any], raw: memoryview) -> InferenceRequest:
    """Return the request, its tensors read off the bytes."""
    place = 0
    arrays = {}
    for number, given in enumerate(header["inputs"]):
        size = _size(given)
        if size is None:
            continue
        if place + size > len(raw):
            raise InputError(f"input {number}: {size} bytes, but fewer are there; send all.")
        arrays[number] = raw[place : place + size]
        place += size
        given["data"] = []
    if place != len(raw):
        raise InputError(f"{len(raw) - place} bytes belong to no input; say binary_data_size.")
    try:
        payload = InferenceRequest.model_validate(header)
    except ValidationError as error:
        first = error.errors()[0]
        place_of = ".".join(map(str, first["loc"]))
        raise InputError(f"{place_of}: {first['msg']}; follow the protocol.") from None
    for number, part in arrays.items():
        given = payload.inputs[number]
        datatype = getattr(given.datatype, "value", given.datatype)
        values = from_bytes(part, given.name, datatype, given.shape)
        payload.inputs[number] = RequestInput.model_construct(
            name=given.name, shape=given.shape, datatype=given.datatype, data=values
        )
    return payload


def _size(given: Any) -> int | None:
    """Return how many bytes behind the JSON are an input's; None where its data is in JSON."""
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
        elif datatype == "FP64":
            output["data"] = [None if math.isnan(value) else value for value in output["data"]]
    header = json.dumps(told).encode()
    if not behind:
        return Response(header, media_type="application/json")
    headers = {HEADER: str(len(header))}
    return Response(header + b"".join(behind), media_type=OCTETS, headers=headers)
