from ._options import Limits, Options, read_token
from ._repository import write_repository
from ._runtime import Runtime
from ._server import serve

__all__ = ["Limits", "Options", "Runtime", "read_token", "serve", "write_repository"]
