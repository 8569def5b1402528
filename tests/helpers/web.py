"""A small web server in a thread, with ranges and with every way in which servers fail."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator


class Server(http.server.ThreadingHTTPServer):
    """Serves `files` by path.

    asked: the Range header of each GET ("" without). no_ranges: sends whole files only. cuts: after
    how many bytes the next answers break off, one each. statuses: what the next answers are, in
    place of a file. stall: sends headers and then nothing. no_length: does not tell how long a file
    is.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cuts: list[int] = []
        self.statuses: list[int] = []
        self.no_ranges = self.stall = self.no_length = False
        self.released = threading.Event()

    def address(self, name: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self.server.asked.append(self.headers.get("Range", ""))
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        data = self.server.files.get(self.path.partition("?")[0].lstrip("/"))
        if body and self.server.statuses:
            return self.send_error(self.server.statuses.pop(0))
        if data is None:
            return self.send_error(404)
        start = int(self.headers.get("Range", "bytes=0-")[6:-1])
        if self.server.no_ranges:
            start = 0
        if start and start >= len(data):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(data)}")
            self.send_header("Content-Length", "0")
            return self.end_headers()
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        if not self.server.no_length:
            self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        if not body:
            return None
        if self.server.stall:
            self.server.released.wait(10)
            return None
        cut = self.server.cuts.pop(0) if self.server.cuts else len(data)
        with contextlib.suppress(OSError):
            self.wfile.write(data[start : start + cut])
        return None

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextlib.contextmanager
def serving() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.released.set()
            server.shutdown()
            thread.join()
