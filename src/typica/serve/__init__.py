"""Detectors as a service: the Open Inference Protocol over HTTP and gRPC, on MLServer.

    from typica.serve import Options, serve

    serve("ctm.safetensors", options=Options(port=8080))

`Runtime` is the model that MLServer, KServe and Seldon run; `write_repository` writes the folder
that they read. Needs the extra `serve`, which is loaded when one of these names is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
