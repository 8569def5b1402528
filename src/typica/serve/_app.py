"""The routes of the HTTP port: our own, and those of MLServer that we pass on."""

from __future__ import annotations

from typing import Any

from mlserver.errors import MLServerError
from mlserver.handlers import DataPlane
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

import typica
from typica.as_json import json_values
from typica.errors import InputError
from typica.serve._batcher import BusyError
from typica.serve._gallery import NotKnownError
from typica.serve._infer import infer
from typica.serve._json import Json
from typica.serve._models import Models, UnknownModelError, told
from typica.serve._openapi import document
from typica.serve._page import page_routes
from typica.serve._score import UnknownKindError, score

# What MLServer answers unchanged. Its other routes load and unload models, or stream: a client does
# not need them here.
PASSED_ON = {
    "/v2": "GET",
    "/v2/health/live": "GET",
    "/v2/health/ready": "GET",
    "/v2/models/{name}": "GET",
    "/v2/models/{name}/ready": "GET",
}


def make_app(rest: ASGIApp, plane: DataPlane, models: Models) -> Starlette:
    """Return the application: rest is MLServer's own, plane what answers its requests."""
    ours = _Routes(rest, plane, models)
    routes = [
        Route("/score", ours.score, methods=["POST"]),
        Route("/models", ours.models, methods=["GET"]),
        Route("/models/{name}", ours.model, methods=["GET"]),
        Route("/stream", ours.stream, methods=["GET"]),
        Route("/metrics", ours.metrics, methods=["GET"]),
        Route("/openapi.json", ours.openapi, methods=["GET"]),
        Route("/v2/models/{name}/infer", ours.infer, methods=["POST"]),
        Route("/v2/repository/index", ours.index, methods=["POST"]),
    ]
    for path, method in PASSED_ON.items():
        routes.append(Route(path, ours.passed_on, methods=[method]))
    routes += page_routes(models)
    return Starlette(routes=routes, exception_handlers=_HANDLERS)


class _Routes:
    """What answers the requests of the HTTP port."""

    def __init__(self, rest: ASGIApp, plane: DataPlane, models: Models) -> None:
        self._rest, self._plane, self._models = rest, plane, models

    async def score(self, request: Request) -> Response:
        return await score(request, self._models)

    async def models(self, request: Request) -> Response:
        names = [runtime.name for runtime in self._models]
        return Json({"models": names, "version": typica.__version__})

    async def model(self, request: Request) -> Response:
        runtime = self._models.get(request.path_params["name"])
        return Json(json_values(told(runtime)))

    async def stream(self, request: Request) -> Response:
        named = request.query_params.get("model")
        asked = self._models if named is None else [self._models.get(named)]
        reports = {runtime.name: runtime.live.report() for runtime in asked}
        return Json(json_values({"models": reports}))

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(REGISTRY), headers={"content-type": CONTENT_TYPE_LATEST})

    async def openapi(self, request: Request) -> Response:
        return Json(document(self._models))

    async def infer(self, request: Request) -> Response:
        self._models.get(request.path_params["name"])
        return await infer(request, self._plane)

    async def index(self, request: Request) -> Response:
        entries = []
        for runtime in self._models:
            state = "READY" if runtime.ready else "UNAVAILABLE"
            entries.append({"name": runtime.name, "state": state, "reason": ""})
        return Json(entries)

    async def passed_on(self, request: Request) -> Response:
        if "name" in request.path_params:
            self._models.get(request.path_params["name"])
        return _Answered(self._rest)


class _Answered(Response):
    """The answer of another application."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the other application answer."""
        await self._app(scope, receive, send)


async def _refused(_: Request, error: Exception) -> Response:
    status = 400
    if isinstance(error, UnknownModelError | NotKnownError):
        status = 404
    elif isinstance(error, UnknownKindError):
        status = 415
    return Json({"error": str(error)}, status_code=status)


async def _busy(_: Request, error: Exception) -> Response:
    return _again(error, 503)


async def _of_mlserver(_: Request, error: Exception) -> Response:
    return _again(error, getattr(error, "status_code", 400))


def _again(error: Exception, status: int) -> Response:
    """Return an error, with the seconds after which to try again."""
    seconds = getattr(error, "seconds", None)
    headers = None if seconds is None else {"retry-after": str(seconds)}
    return Json({"error": str(error)}, status_code=status, headers=headers)


async def _of_starlette(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 400)
    detail = getattr(error, "detail", "")
    headers = getattr(error, "headers", None)
    return Json({"error": detail}, status_code=status, headers=headers)


_HANDLERS: dict[Any, Any] = {
    InputError: _refused,
    BusyError: _busy,
    MLServerError: _of_mlserver,
    HTTPException: _of_starlette,
}
