from ._demo import Demo, serve_demo, write_demo
from ._options import Limits, Options, read_token
from ._repository import write_repository
from ._runtime import Runtime
from ._server import serve

__all__ = [
    "Demo",
    "Limits",
    "Options",
    "Runtime",
    "read_token",
    "serve",
    "serve_demo",
    "write_demo",
    "write_repository",
]
