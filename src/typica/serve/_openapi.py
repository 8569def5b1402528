"""The OpenAPI document of the HTTP port, at `/openapi.json`: what may be sent, what comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typica
from typica.serve._models import Models
from typica.serve._tensors import DTYPES, TEXTS
from typica.serve._verdict_tensors import DATATYPES

JSON = "application/json"
Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_NUMBER: Schema = {"type": ["number", "null"]}
_ROWS: Schema = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "array", "minItems": 1, "items": {"type": "number"}},
}
_ERRORS = {
    400: "What was sent cannot be judged; `error` says why and what to do.",
    401: "The token is missing or wrong.",
    403: "A request from another site's page.",
    404: "There is no such model.",
    408: "The body did not arrive in time.",
    413: "The body is too long.",
    415: "A body of this type is not accepted.",
    503: "Too many inputs are waiting; try again after `Retry-After` seconds.",
}


def document(models: Models) -> Schema:
    """Return the document; the models are those that are served now."""
    paths = {path: {method: entry} for path, (method, entry) in _paths().items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Typica",
            "version": typica.__version__,
            "description": "Verdicts of out-of-distribution detectors: the Open Inference "
            "Protocol, version 2, and routes for people.",
        },
        "paths": paths,
        "components": {
            "schemas": _schemas(models),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _paths() -> dict[str, tuple[str, Schema]]:
    """Return each route's method and what is said of it."""
    tensors = {JSON: _ref("InferenceRequest")}
    inputs: dict[str, Schema] = {
        JSON: _ref("Features"),
        "multipart/form-data": _ref("Files"),
        "application/octet-stream": {"type": "string", "format": "binary"},
    }
    return {
        "/score": _post("Judge images or rows", "Scored", inputs, [_MODEL, *_FLAGS]),
        "/models": _get("The models by name", "Models"),
        "/models/{name}": _get("What is known about a model", "Model", [_NAME]),
        "/stream": _get("What each model has judged lately", "Stream", [_ONE_MODEL]),
        "/metrics": _get("What Prometheus scrapes", None, kind="text/plain"),
        "/openapi.json": _get("This document", "Any"),
        "/v2": _get("The server", "Server"),
        "/v2/health/live": _get("Whether the server runs", None),
        "/v2/health/ready": _get("Whether every model is ready", None),
        "/v2/models/{name}": _get("A model's inputs and outputs", "Metadata", [_NAME]),
        "/v2/models/{name}/ready": _get("Whether a model is ready", None, [_NAME]),
        "/v2/models/{name}/infer": _post("Judge", "InferenceResponse", tensors, [_NAME]),
        "/v2/repository/index": _post("The models and their states", "Index", None, []),
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_NAME: Schema = {"name": "name", "in": "path", "required": True, "schema": _ref("Name")}
_MODEL: Schema = {
    "name": "model",
    "in": "query",
    "required": True,
    "description": "May be left out where one model is served.",
    "schema": _ref("Name"),
}
_ONE_MODEL: Schema = {"name": "model", "in": "query", "schema": _ref("Name")}
_FLAGS: list[Schema] = [
    {"name": name, "in": "query", "description": what, "schema": {"enum": ["0", "1"]}}
    for name, what in {
        "explain": "1 adds why.",
        "preview": "1 judges what is not a part of the stream: no metric counts it.",
    }.items()
]


def _get(
    summary: str, schema: str | None, parameters: list[Schema] | None = None, kind: str = JSON
) -> tuple[str, Schema]:
    return "get", _entry(summary, schema, parameters or [], kind)


def _post(
    summary: str, schema: str, taken: Mapping[str, Schema] | None, parameters: list[Schema]
) -> tuple[str, Schema]:
    entry = _entry(summary, schema, parameters, JSON)
    if taken is not None:
        content = {kind: {"schema": body} for kind, body in taken.items()}
        entry["requestBody"] = {"required": True, "content": content}
    return "post", entry


def _entry(summary: str, schema: str | None, parameters: list[Schema], kind: str) -> Schema:
    answers: Schema = {"200": {"description": "The answer."}}
    if schema is not None:
        answers["200"]["content"] = {kind: {"schema": _ref(schema)}}
    elif kind != JSON:
        answers["200"]["content"] = {kind: {"schema": _TEXT}}
    for status, what in _ERRORS.items():
        refusal = "Refused" if status == 400 else "Error"
        content = {JSON: {"schema": _ref(refusal)}}
        answers[str(status)] = {"description": what, "content": content}
    return {"summary": summary, "parameters": parameters, "responses": answers}


def _object(properties: Mapping[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": dict(properties), "required": list(required)}


def _list(items: Schema, **more: Any) -> Schema:
    return {"type": "array", "items": items, **more}


def _schemas(models: Models) -> dict[str, Schema]:
    """Return the schemas by name."""
    names = [runtime.name for runtime in models]
    return {
        "Any": {"type": "object"},
        "Name": {"enum": names},
        "Error": _object({"error": _TEXT}, "error"),
        "Refused": {"anyOf": [_ref("Error"), _ref("Scored")]},
        "Features": {
            **_object({"features": _ROWS}, "features"),
            "example": {"features": [[0.5] * _width(models)]},
        },
        "Files": _object({"files": _list({"type": "string", "format": "binary"})}, "files"),
        "Result": _result(),
        "Scored": _object({"model": _TEXT, "results": _list(_ref("Result"))}, "model", "results"),
        "Models": _object({"models": _list(_TEXT)}, "models"),
        "Model": _object({"name": _TEXT, "detector": _TEXT, "digest": _TEXT}, "name", "detector"),
        "Stream": _object({"models": {"type": "object"}}, "models"),
        "Server": _object(
            {"name": _TEXT, "version": _TEXT, "extensions": _list(_TEXT)}, "name", "version"
        ),
        "Metadata": _object({"name": _TEXT, "platform": _TEXT}, "name", "platform"),
        "Index": _list(_object({"name": _TEXT, "state": _TEXT, "reason": _TEXT}, "name", "state")),
        **_tensors(_width(models)),
    }


def _width(models: Models) -> int:
    """Return how many features the rows of the first model have, for examples."""
    widths = [runtime.served.width or 1 for runtime in models]
    return widths[0] if widths else 1


def _result() -> Schema:
    """Return the schema of one input's result: a verdict, or an error in its place."""
    numbers = ("score", "threshold", "p_value", "similarity", "runner_up_similarity", "margin")
    properties = dict.fromkeys(numbers, _NUMBER)
    verdict: Schema = {"enum": ["typical", "atypical", None]}
    words: dict[str, Schema] = {"file": _TEXT, "error": _TEXT, "why": _TEXT, "verdict": verdict}
    return _object({**properties, **words})


def _tensors(width: int) -> dict[str, Schema]:
    """Return the schemas of the Open Inference Protocol."""
    parameters: Schema = {"type": ["object", "null"]}
    shape = _list({"type": "integer", "minimum": 1}, minItems=1)
    tensor = {
        "name": _TEXT,
        "shape": shape,
        "datatype": {"enum": [*DTYPES, TEXTS]},
        "parameters": parameters,
        "data": {"type": "array"},
    }
    needed = ("name", "shape", "datatype", "data")
    given = {**tensor, "name": {"enum": ["features", "logits", "images"]}}
    wanted = {"name": {"enum": list(DATATYPES)}, "parameters": parameters}
    request = {
        "id": {"type": ["string", "null"]},
        "parameters": parameters,
        "inputs": _list(_object(given, *needed), minItems=1, maxItems=1),
        "outputs": {"anyOf": [_list(_object(wanted, "name")), {"type": "null"}]},
    }
    answer = {"model_name": _TEXT, "id": _TEXT, "outputs": _list(_object(tensor, *needed))}
    row = {"name": "features", "shape": [1, width], "datatype": "FP32", "data": [0.5] * width}
    return {
        "InferenceRequest": {**_object(request, "inputs"), "example": {"inputs": [row]}},
        "InferenceResponse": _object(answer, "model_name", "outputs"),
    }
