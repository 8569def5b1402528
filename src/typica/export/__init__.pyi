from ._describe import describe_onnx
from ._export import to_onnx

__all__ = ["describe_onnx", "to_onnx"]
