"""The page at `/`: its files from the package, and the known images that it shows.

Everything comes from here: with the policy in its headers a browser contacts no other address, runs
no script but these files, and never treats text as markup.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from typica.serve._gallery import Gallery, NotKnownError
from typica.serve._json import Json
from typica.serve._models import Models

FOLDER = Path(__file__).parent / "page"
KINDS = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def page_routes(models: Models) -> list[Route]:
    """Return the routes of the page, which are registered once per server."""
    known = _Known(models)
    routes = [
        Route("/", _file("index.html"), methods=["GET"]),
        Route("/models/{name}/examples", known.examples, methods=["GET"]),
        Route("/models/{name}/known/{row:int}", known.image, methods=["GET"]),
    ]
    names = sorted(path.name for path in FOLDER.iterdir() if path.suffix in KINDS)
    routes += [Route(f"/page/{name}", _file(name), methods=["GET"]) for name in names]
    return routes


class _Known:
    """Answers the page with what is in the banks of detectors."""

    def __init__(self, models: Models) -> None:
        self._models = models

    async def examples(self, request: Request) -> Response:
        """Answer with the known inputs of a class that are most typical of it."""
        runtime = self._models.get(request.path_params["name"])
        gallery = _of(runtime.gallery, runtime.name)
        name = request.query_params.get("class")
        if name is None:
            raise NotKnownError("no class is named; pass ?class=NAME.")
        found = await asyncio.to_thread(gallery.typical, runtime.served, name)
        return Json({"class": name, "known": found})

    async def image(self, request: Request) -> Response:
        """Answer with the image of a row of the bank."""
        runtime = self._models.get(request.path_params["name"])
        gallery = _of(runtime.gallery, runtime.name)
        content = await asyncio.to_thread(gallery.thumbnail, request.path_params["row"])
        headers = {**HEADERS, "cache-control": "private, max-age=3600"}
        return Response(content, media_type="image/png", headers=headers)


def _of(gallery: Gallery | None, name: str) -> Gallery:
    if gallery is None:
        raise NotKnownError(f"{name} has no bank of known inputs; serve it with one.")
    return gallery


def _file(name: str) -> Callable[[Request], Awaitable[Response]]:
    """Return a handler that sends one file of the page, or 304 if the browser has it already."""
    path = FOLDER / name
    content = path.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**HEADERS, "content-type": KINDS[path.suffix], "etag": tag}

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers)

    return answer
