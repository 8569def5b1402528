from ._export import to_onnx

__all__ = ["to_onnx"]
