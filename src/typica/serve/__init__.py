"""Detectors as a service: the Open Inference Protocol over HTTP and gRPC, on MLServer.

    from typica.serve import Options, serve

    serve("ctm.safetensors", options=Options(port=8080))

`Runtime` is the model that MLServer, KServe and Seldon run; `write_repository` writes the folder
that they read. Needs the extra `serve`, which is loaded when one of these names is first used.
"""

from typing import Any

import lazy_loader

from typica.extras import check_installed

_NEED_MLSERVER = ("Runtime", "serve", "write_repository")
_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Load a public name of the server, or say what to install for it."""
    if name in _NEED_MLSERVER:
        check_installed("mlserver", "serve")
    return _load(name)
