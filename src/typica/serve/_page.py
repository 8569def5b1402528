"""The page at `/`: which detectors are served here, and where to read about each."""

from __future__ import annotations

from html import escape

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from typica.serve._models import Models


def page_routes(models: Models) -> list[Route]:
    """Return the routes of the page, which are registered once per server."""

    async def index(request: Request) -> HTMLResponse:
        items = []
        for runtime in models:
            name = escape(runtime.name)
            items.append(f'<li><a href="models/{name}">{name}</a></li>')
        title = "<!doctype html><html lang=en><meta charset=utf-8><title>Typica</title>"
        return HTMLResponse(f"{title}<h1>Typica</h1><ul>{''.join(items)}</ul>")

    return [Route("/", index, methods=["GET"])]
