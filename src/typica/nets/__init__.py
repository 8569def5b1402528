"""Networks: features from any layer, images to banks and verdicts, a guarded model.

    from typica.nets import extract, judge_images

    bank = extract("train/", "densenet-bc-100", "train.bank", weights="net.pth.tar")
    judge_images(CTM().fit(bank), "photo.jpg")

Needs the extra `torch` (for ONNX files: `onnx` alone), which is loaded with the first name that
needs it; `import typica.nets` alone loads nothing.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
