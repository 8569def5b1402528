from ._describe import describe_onnx
from ._export import to_onnx
from ._triton import triton_config, write_triton

__all__ = ["describe_onnx", "to_onnx", "triton_config", "write_triton"]
