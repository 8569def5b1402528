"""Feature extractors of PyTorch modules, exported programs and ONNX graphs."""
