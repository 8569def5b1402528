"""What runs a network: PyTorch, ONNX Runtime, OpenVINO, MNN."""
