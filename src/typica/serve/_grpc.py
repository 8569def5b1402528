"""The gRPC port: MLServer's, with a token, status codes by error, and raw tensors as arrays."""

from __future__ import annotations

from typing import Any

import grpc
from mlserver.errors import MLServerError
from mlserver.grpc import GRPCServer
from mlserver.grpc import dataplane_pb2 as messages
from mlserver.grpc.converters import ModelInferResponseConverter
from mlserver.grpc.dataplane_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from mlserver.grpc.servicers import InferenceServicer
from mlserver.types import InferenceRequest, RequestInput, RequestOutput

from typica.errors import InputError, given
from typica.serve._gate import RefusedError, check_token
from typica.serve._logs import log, place_of
from typica.serve._models import Models
from typica.serve._options import GRACE, Options, host_and_port
from typica.serve._tensors import from_bytes

HEALTH = ("ServerLive", "ServerReady")
SERVED = (*HEALTH, "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer")
CALLS = 1024  # answered at once
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    404: grpc.StatusCode.NOT_FOUND,
    503: grpc.StatusCode.UNAVAILABLE,
}
_CONTENTS = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}


class Grpc(GRPCServer):
    """MLServer's gRPC server with a gate in front of it."""

    def __init__(
        self, settings: Any, plane: Any, handlers: Any, models: Models, options: Options
    ) -> None:
        super().__init__(settings, plane, handlers)
        self._models, self._options = models, options
        self._server: Any = None
        self.port = options.grpc_port

    def bind(self) -> None:
        """Take the port; refuse one that is taken."""
        # Two servers on one port would each answer some of the requests.
        options = [*self._get_options(), ("grpc.so_reuseport", 0)]
        self._server = grpc.aio.server(
            interceptors=[_Gate(self._options.token)],
            options=options,
            maximum_concurrent_rpcs=CALLS,
        )
        servicer = _Servicer(self._data_plane, self._model_repository_handlers, self._models)
        add_GRPCInferenceServiceServicer_to_server(servicer, self._server)
        host, port = self._options.host, self._options.grpc_port
        try:
            self.port = self._server.add_insecure_port(host_and_port(host, port))
        except RuntimeError:
            self.port = 0
        if not self.port:
            raise InputError(
                f"{given('host', host)}, {given('grpc_port', port)}: cannot be listened on; "
                "choose another."
            )

    async def start(self) -> None:
        """Answer until it is stopped."""
        await self._server.start()
        await self._server.wait_for_termination()

    async def stop_soon(self, at_once: bool) -> None:
        """Accept nothing more; end when what was accepted is answered, or at once."""
        await self._server.stop(0 if at_once else GRACE)


class _Gate(grpc.aio.ServerInterceptor):
    """Asks for the token, and knows which methods are served."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    async def intercept_service(self, continuation: Any, call: Any) -> Any:
        """Return what answers a call."""
        method = call.method.rpartition("/")[2]
        if method not in SERVED:
            return _refusing(grpc.StatusCode.UNIMPLEMENTED, f"{method} is not served here")
        if method not in HEALTH:
            metadata = dict(call.invocation_metadata or ())
            try:
                check_token(str(metadata.get("authorization", "")), self._token)
            except RefusedError as refusal:
                return _refusing(grpc.StatusCode.UNAUTHENTICATED, str(refusal))
        return await continuation(call)


def _refusing(code: grpc.StatusCode, reason: str) -> Any:
    async def refuse(_: Any, context: Any) -> None:
        await context.abort(code, reason)

    return grpc.unary_unary_rpc_method_handler(refuse)


class _Servicer(InferenceServicer):
    """MLServer's, with raw tensors read as arrays, and errors by their kind."""

    def __init__(self, plane: Any, handlers: Any, models: Models) -> None:
        super().__init__(plane, handlers)
        self._models = models

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802 (gRPC's name)
        """Tell whether a model is ready; one that is not here is not."""
        ready = request.name in self._models and self._models.get(request.name).ready
        return messages.ModelReadyResponse(ready=ready)

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Tell what goes into a model, and what comes out."""
        await self._check_name(request, context)
        return await super().ModelMetadata(request, context)

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Answer a request."""
        name = request.model_name
        await self._check_name(request, context)
        try:
            answer = await self._data_plane.infer(_payload(request), name)
        except InputError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except MLServerError as error:
            code = _CODES.get(error.status_code, grpc.StatusCode.UNKNOWN)
            seconds = getattr(error, "seconds", None)
            after = () if seconds is None else (("retry-after", str(seconds)),)
            await context.abort(code, str(error), trailing_metadata=after)
        except Exception as error:  # whatever it is, the caller is told
            log("internal error", level="error", **place_of(error))
            await context.abort(grpc.StatusCode.INTERNAL, "internal error")
        raw = bool(request.raw_input_contents)
        return ModelInferResponseConverter.from_types(answer, use_raw=raw)

    async def _check_name(self, request: Any, context: Any) -> None:
        name = getattr(request, "model_name", "") or getattr(request, "name", "")
        version = getattr(request, "model_version", "") or getattr(request, "version", "")
        if version or name not in self._models:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"model {name[:80]!r} is not here")


def _payload(request: Any) -> InferenceRequest:
    """Return a request with its tensors as arrays."""
    raw = list(request.raw_input_contents)
    if raw and len(raw) != len(request.inputs):
        raise InputError(f"{len(raw)} raw tensors for {len(request.inputs)} inputs; send as many.")
    inputs = []
    for number, given_input in enumerate(request.inputs):
        shape, datatype = list(given_input.shape), given_input.datatype
        if raw:
            data: Any = from_bytes(raw[number], given_input.name, datatype, shape)
        else:
            data = list(getattr(given_input.contents, _CONTENTS.get(datatype, "fp32_contents")))
        inputs.append(
            RequestInput.model_construct(
                name=given_input.name, shape=shape, datatype=datatype, data=data
            )
        )
    outputs = [RequestOutput(name=output.name) for output in request.outputs]
    return InferenceRequest.model_construct(
        id=request.id or None, parameters=None, inputs=inputs, outputs=outputs or None
    )
