"""Detectors as ONNX files, which run without Typica: the detector's own code is the graph.

    from typica.export import to_onnx

    to_onnx(detector, path="ctm.onnx")

Needs the extra `onnx`, which is loaded with the first name that is asked for.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
