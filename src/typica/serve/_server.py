"""The server: MLServer with our routes on its HTTP port, and a token on each of its ports."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from mlserver.metrics import MetricsServer
from mlserver.rest import RESTServer
from mlserver.server import MLServer
from mlserver.settings import ModelSettings, Settings

import typica
from typica.errors import border
from typica.serve._app import make_app
from typica.serve._gate import Gate
from typica.serve._grpc import Grpc
from typica.serve._logs import log, log_settings
from typica.serve._models import Models
from typica.serve._options import GRACE, Options
from typica.serve._runtime import Runtime
from typica.serve._settings import model_settings
from typica.serve._sockets import bound
from typica.warning_filters import ignore_broken_metadata

KEPT = 75  # seconds that a connection without requests is kept


@border
def serve(
    *detectors: str | os.PathLike[str],
    options: Options | None = None,
    bank: str | os.PathLike[str] | None = None,
    bank_images: str | os.PathLike[str] | None = None,
    model: str | None = None,
    weights: str | os.PathLike[str] | None = None,
    trust: bool = False,
) -> None:
    """Serve detectors until a signal ends it: SIGTERM, or Ctrl-C.

        serve("ctm.safetensors", "knn.safetensors", options=Options(port=9000))

    Each file is a model, named after the file's stem, and is read again when another file takes
    its place.

    Parameters
    ----------
    detectors
        Files that `typica fit` wrote.
    options
        Where the server listens, whom it answers, and its limits.
    bank
        Known inputs, which the page shows as examples.
    bank_images
        Where their images are, if they have moved.
    model, weights, trust
        As `typica.nets.judge_images` takes them, for networks that have moved.
    """
    chosen = options or Options()
    places = {"bank": bank, "bank_images": bank_images, "model": model, "weights": weights}
    paths = [Path(path) for path in detectors]
    settings = model_settings(paths, chosen.limits, **places, trust=trust)
    with warnings.catch_warnings(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        ignore_broken_metadata()
        runner.run(_run(settings, chosen))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's, if MLServer has brought it: requests take a fifth less of a core."""
    try:
        import uvloop  # noqa: PLC0415 (not on every platform)
    except ImportError:
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


async def _run(models: list[ModelSettings], options: Options) -> None:
    with contextlib.ExitStack() as stack:
        http = stack.enter_context(bound(options.host, options.port, "port"))
        metrics = stack.enter_context(bound(options.host, options.metrics_port, "metrics_port"))
        await Server(options, http, metrics).start(models)


class Server(MLServer):
    """MLServer with our routes. http, metrics: the sockets that it answers on."""

    def __init__(self, options: Options, http: socket.socket, metrics: socket.socket) -> None:
        self._options, self._sockets = options, (http, metrics)
        self._stopping = self._at_once = False
        self.models = Models()
        super().__init__(
            Settings(
                debug=False,
                host=options.host,
                http_port=http.getsockname()[1],
                grpc_port=options.grpc_port,
                metrics_port=metrics.getsockname()[1],
                grpc_max_message_length=options.limits.body,
                parallel_workers=0,
                gzip_enabled=False,
                server_name="typica",
                server_version=typica.__version__,
                extensions=["binary_tensor_data"],
                logging_settings=log_settings(),
                model_repository_root="",
                load_models_at_startup=False,
                # These could send something elsewhere, and may be set in the environment.
                tracing_server=None,
                kafka_enabled=False,
                cors_settings=None,
            )
        )

    def _create_servers(self) -> None:
        plane, handlers = self._data_plane, self._model_repository_handlers
        http, metrics = self._sockets
        rest = RESTServer(self._settings, plane, handlers)
        app = Gate(make_app(rest._app, plane, self.models), self._options)
        self._rest_server = Http(rest, app, http)
        self._grpc_server = Grpc(self._settings, plane, handlers, self.models, self._options)
        own = MetricsServer(self._settings)
        self._metrics_server = Http(own, Gate(own._app, self._options), metrics)
        self._kafka_server = None

    async def start(self, models_settings: list[ModelSettings] = []) -> None:  # noqa: B006 (MLServer's)
        """Read the detectors, answer until a signal comes, then finish what was accepted."""
        self._grpc_server.bind()
        try:
            for settings in models_settings:
                runtime = await self._model_registry.load(settings)
                assert isinstance(runtime, Runtime)
                self.models.add(runtime)
            if not self._stopping:
                await self._answer()
        finally:
            if not self._at_once:
                await self._unload()
        log("stopped")

    async def _unload(self) -> None:
        for runtime in self.models:
            await runtime.unload()

    async def _answer(self) -> None:
        servers = (self._rest_server, self._grpc_server, self._metrics_server)
        self._say_where()
        await asyncio.gather(*[server.start() for server in servers])

    def _say_where(self) -> None:
        http, metrics = (made.getsockname() for made in self._sockets)
        log(
            "listening",
            host=self._options.host,
            port=http[1],
            page=self._options.page_at(http[1]),
            grpc_port=self._grpc_server.port,
            metrics_port=metrics[1],
            models=[runtime.name for runtime in self.models],
            token=self._options.token is not None,
        )

    async def stop(self, sig: int | None = None) -> None:
        """Accept nothing more, and answer what was accepted; a second signal ends it at once."""
        self._stopping, self._at_once = True, self._stopping
        log("stopping", now=self._at_once)
        for server in (self._rest_server, self._metrics_server):
            server.stop_soon(self._at_once)
        await self._grpc_server.stop_soon(self._at_once)


class Http:
    """One of MLServer's HTTP servers with another application, on a socket that is open already."""

    def __init__(self, owner: Any, app: Gate, bound: socket.socket) -> None:
        self._owner, self._socket = owner, bound
        config = owner._get_config()
        config.app = app
        config.lifespan = "off"
        config.ws = "none"
        config.timeout_keep_alive = KEPT
        config.timeout_graceful_shutdown = int(GRACE)
        self._server = _Quiet(config)

    async def start(self) -> None:
        """Answer until it is stopped."""
        await self._server.serve(sockets=[self._socket])

    def stop_soon(self, at_once: bool) -> None:
        """Accept nothing more; end when what was accepted is answered, or at once."""
        self._server.should_exit = True
        self._server.force_exit = self._server.force_exit or at_once

    async def add_custom_handlers(self, model: Any) -> Any:
        """Let MLServer add a model's own routes, of which ours have none."""
        return await self._owner.add_custom_handlers(model)

    async def delete_custom_handlers(self, model: Any) -> Any:
        """Let MLServer take a model's own routes away."""
        return await self._owner.delete_custom_handlers(model)


class _Quiet(uvicorn.Server):
    """A server that leaves signals to MLServer."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
